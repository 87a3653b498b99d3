"""Learning rates as lists, one rate for each step. Sources: the functions of these names in `nn`.

Arguments they share: `total_step` rates are made; an epoch has `step_per_epoch` steps; the rate
changes from epoch to epoch, over `decay_epoch` of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

from cellc_runtime.lazy import public_names

from ..core.declared import (
    Flag,
    Listed,
    NonNegativeFloat,
    Positive,
    PositiveFloat,
    checks_arguments,
    integer,
    misuse,
    number,
)
from .learning_rate_schedule import check_order
from .rate_formulas import cosine, exponential, inverse, natural_exponential, polynomial

__all__ = [
    "cosine_decay_lr", "exponential_decay_lr", "inverse_decay_lr", "natural_exp_decay_lr",
    "piecewise_constant_lr", "polynomial_decay_lr", "warmup_lr",
]
__dir__ = public_names(__name__)


_MOST_STEPS = 1 << 28  # A list has a rate for each step


Steps = Annotated[int, integer(1, _MOST_STEPS)]


def _per_epoch(
    rate: Callable[[int], float], total_step: int, step_per_epoch: int
) -> list[float]:
    """The rate of each step's epoch."""
    return [rate(i // step_per_epoch) for i in range(total_step)]


def _decays(
    rate: Callable[[int, float], float], total_step: int, step_per_epoch: int, decay_epoch: int,
    is_stair: bool,
) -> list[float]:
    """`rate(epoch, units of the decay)` for each step."""
    return _per_epoch(
        lambda epoch: rate(epoch, epoch // decay_epoch if is_stair else epoch / decay_epoch),
        total_step, step_per_epoch)


@checks_arguments
def piecewise_constant_lr(milestone: Listed, learning_rates: Listed) -> list[float]:
    """A list of rates for each step: learning_rates[i] from milestone[i - 1] up to milestone[i].
    The last milestone is its length."""
    what = "piecewise_constant_lr"
    if len(milestone) != len(learning_rates):
        raise misuse(what, "the size of 'milestone' must be same with the size of 'learning_rates'",
                     f"{len(milestone)} and {len(learning_rates)}")
    out: list[float] = []
    for i, (step, rate) in enumerate(zip(milestone, learning_rates, strict=True)):
        integer(1, _MOST_STEPS)(step, what, f"milestone[{i}]")
        number(0, whole=False)(rate, what, f"learning_rates[{i}]")
        if i and step < milestone[i - 1]:
            raise misuse(what,
                         f"the value of milestone[{i}] must not be less than milestone[{i - 1}]",
                         f"{step} and {milestone[i - 1]}")
        out += [rate] * (step - len(out))
    return out


@checks_arguments
def exponential_decay_lr(
    learning_rate: PositiveFloat, decay_rate: PositiveFloat, total_step: Steps,
    step_per_epoch: Positive, decay_epoch: Positive, is_stair: Flag = False,
) -> list[float]:
    """learning_rate * decay_rate**(epoch / decay_epoch), the exponent an integer if stair."""
    return _decays(
        lambda epoch, units: exponential(
            learning_rate, decay_rate, units),
        total_step, step_per_epoch, decay_epoch, is_stair)


@checks_arguments
def natural_exp_decay_lr(
    learning_rate: PositiveFloat, decay_rate: PositiveFloat, total_step: Steps,
    step_per_epoch: Positive, decay_epoch: Positive, is_stair: Flag = False,
) -> list[float]:
    """learning_rate * exp(-decay_rate * epoch), epochs rounded down to `decay_epoch` if stair."""
    return _decays(
        lambda epoch, units: natural_exponential(
            learning_rate, decay_rate, units * decay_epoch if is_stair else epoch, math.exp),
        total_step, step_per_epoch, decay_epoch, is_stair)


@checks_arguments
def inverse_decay_lr(
    learning_rate: PositiveFloat, decay_rate: PositiveFloat, total_step: Steps,
    step_per_epoch: Positive, decay_epoch: Positive, is_stair: Flag = False,
) -> list[float]:
    """learning_rate / (1 + decay_rate * epoch / decay_epoch), the quotient an integer if stair."""
    return _decays(
        lambda epoch, units: inverse(learning_rate, decay_rate, units),
        total_step, step_per_epoch, decay_epoch, is_stair)


@checks_arguments
def cosine_decay_lr(
    min_lr: NonNegativeFloat, max_lr: PositiveFloat, total_step: Steps, step_per_epoch: Positive,
    decay_epoch: Positive,
) -> list[float]:
    """A list of total_step rates: min_lr + (max_lr - min_lr) (1 + cos(pi epoch / decay_epoch)) / 2,
    the last one from `decay_epoch` on."""
    check_order(min_lr, max_lr, "cosine_decay_lr")

    def rate(epoch: int) -> float:
        part = min(epoch, decay_epoch) / decay_epoch
        return float(cosine(min_lr, max_lr, part, math.cos))

    return _per_epoch(rate, total_step, step_per_epoch)


@checks_arguments
def polynomial_decay_lr(
    learning_rate: PositiveFloat, end_learning_rate: NonNegativeFloat, total_step: Steps,
    step_per_epoch: Positive, decay_epoch: Positive, power: PositiveFloat,
    update_decay_epoch: Flag = False,
) -> list[float]:
    """(learning_rate - end) * (1 - epoch / decay_epoch)**power + end.

    Args:
        update_decay_epoch: start again from a rate in between, over a multiple of `decay_epoch`.
    """

    def rate(epoch: int) -> float:
        reach = decay_epoch * max(math.ceil(epoch / decay_epoch), 1) if update_decay_epoch \
            else decay_epoch
        return float(polynomial(learning_rate, end_learning_rate, min(epoch, reach) / reach, power))

    return _per_epoch(rate, total_step, step_per_epoch)


@checks_arguments
def warmup_lr(
    learning_rate: NonNegativeFloat, total_step: Steps, step_per_epoch: Positive,
    warmup_epoch: Positive,
) -> list[float]:
    """A list of total_step rates that rise from 0: learning_rate * epoch / warmup_epoch, then
    learning_rate."""
    return _per_epoch(lambda epoch: learning_rate * (min(epoch, warmup_epoch) / warmup_epoch),
                      total_step, step_per_epoch)
