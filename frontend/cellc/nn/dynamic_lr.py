"""Learning rates as lists, one rate for each step. Sources: the functions of these names in `nn`.

Arguments they share: `total_step` rates are made; an epoch has `step_per_epoch` steps; the rate
changes from epoch to epoch, over `decay_epoch` of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cellc_runtime.lazy import public_names

from ..core import checks
from .learning_rate_schedule import check_order, checked_float
from .rate_formulas import cosine, exponential, inverse, natural_exponential, polynomial

__all__ = [
    "cosine_decay_lr", "exponential_decay_lr", "inverse_decay_lr", "natural_exp_decay_lr",
    "piecewise_constant_lr", "polynomial_decay_lr", "warmup_lr",
]
__dir__ = public_names(__name__)


_MOST_STEPS = 1 << 28
"""A list has a rate for each step."""


def _per_epoch(
    rate: Callable[[int], float], total_step: int, step_per_epoch: int, epochs: int, what: str,
    name: str = "decay_epoch",
) -> list[float]:
    """The rate of each step's epoch; counts that are no positive ints raise an error."""
    total = checks.at_least(total_step, 1, "total_step", what, _MOST_STEPS)
    per_epoch = checks.positive(step_per_epoch, "step_per_epoch", what)
    checks.positive(epochs, name, what)
    return [rate(i // per_epoch) for i in range(total)]


def _decays(
    what: str, rate: Callable[[int, float], float], learning_rate: float, decay_rate: float,
    total_step: int, step_per_epoch: int, decay_epoch: int, is_stair: bool,
) -> list[float]:
    """`rate(epoch, units of the decay)` for each step; the arguments are checked first."""
    checked_float(learning_rate, "learning_rate", what)
    checked_float(decay_rate, "decay_rate", what)
    checks.boolean(is_stair, "is_stair", what)

    def at(epoch: int) -> float:
        return rate(epoch, epoch // decay_epoch if is_stair else epoch / decay_epoch)

    return _per_epoch(at, total_step, step_per_epoch, decay_epoch, what)


def piecewise_constant_lr(milestone: list[int], learning_rates: list[float]) -> list[float]:
    """Each rate until its milestone (a step), which ends the list.

    Raises:
        TypeError: not lists, or elements of a wrong kind.
        ValueError: lengths that differ, or milestones that do not grow.
    """
    what = "piecewise_constant_lr"
    for name, value in (("milestone", milestone), ("learning_rates", learning_rates)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(f"For '{what}', '{name}' must be a list, got {type(value).__name__}.")
    if len(milestone) != len(learning_rates):
        raise ValueError(
            f"For '{what}', the size of 'milestone' must be same with the size of "
            f"'learning_rates', but got {len(milestone)} and {len(learning_rates)}."
        )
    out: list[float] = []
    for i, (step, rate) in enumerate(zip(milestone, learning_rates, strict=True)):
        checks.at_least(step, 1, f"milestone[{i}]", what, _MOST_STEPS)
        checked_float(rate, f"learning_rates[{i}]", what, zero=True)
        if i and step < milestone[i - 1]:
            raise ValueError(
                f"For '{what}', the value of milestone[{i}] must not be less than "
                f"milestone[{i - 1}], but got {step} and {milestone[i - 1]}."
            )
        out += [rate] * (step - len(out))
    return out


def exponential_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int,
    decay_epoch: int, is_stair: bool = False,
) -> list[float]:
    """learning_rate * decay_rate**(epoch / decay_epoch), the exponent an integer if stair."""
    return _decays(
        "exponential_decay_lr", lambda epoch, units: exponential(
            learning_rate, decay_rate, units),
        learning_rate, decay_rate, total_step, step_per_epoch, decay_epoch, is_stair)


def natural_exp_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int,
    decay_epoch: int, is_stair: bool = False,
) -> list[float]:
    """learning_rate * exp(-decay_rate * epoch), epochs rounded down to `decay_epoch` if stair."""
    return _decays(
        "natural_exp_decay_lr", lambda epoch, units: natural_exponential(
            learning_rate, decay_rate, units * decay_epoch if is_stair else epoch, math.exp),
        learning_rate, decay_rate, total_step, step_per_epoch, decay_epoch, is_stair)


def inverse_decay_lr(
    learning_rate: float, decay_rate: float, total_step: int, step_per_epoch: int,
    decay_epoch: int, is_stair: bool = False,
) -> list[float]:
    """learning_rate / (1 + decay_rate * epoch / decay_epoch), the quotient an integer if stair."""
    return _decays(
        "inverse_decay_lr", lambda epoch, units: inverse(learning_rate, decay_rate, units),
        learning_rate, decay_rate, total_step, step_per_epoch, decay_epoch, is_stair)


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """Half a cosine from max_lr down to min_lr in `decay_epoch` epochs.

    Raises:
        TypeError, ValueError: rates of a wrong kind, or min_lr not below max_lr.
    """
    what = "cosine_decay_lr"
    checked_float(min_lr, "min_lr", what, zero=True)
    checked_float(max_lr, "max_lr", what)
    check_order(min_lr, max_lr, what)

    def rate(epoch: int) -> float:
        part = min(epoch, decay_epoch) / decay_epoch
        return float(cosine(min_lr, max_lr, part, math.cos))

    return _per_epoch(rate, total_step, step_per_epoch, decay_epoch, what)


def polynomial_decay_lr(
    learning_rate: float, end_learning_rate: float, total_step: int, step_per_epoch: int,
    decay_epoch: int, power: float, update_decay_epoch: bool = False,
) -> list[float]:
    """(learning_rate - end) * (1 - epoch / decay_epoch)**power + end.

    Args:
        update_decay_epoch: start again from a rate in between, over a multiple of `decay_epoch`.
    """
    what = "polynomial_decay_lr"
    checked_float(learning_rate, "learning_rate", what)
    checked_float(end_learning_rate, "end_learning_rate", what, zero=True)
    checked_float(power, "power", what)
    checks.boolean(update_decay_epoch, "update_decay_epoch", what)

    def rate(epoch: int) -> float:
        reach = decay_epoch * max(math.ceil(epoch / decay_epoch), 1) if update_decay_epoch \
            else decay_epoch
        return float(polynomial(
            learning_rate, end_learning_rate, min(epoch, reach) / reach, power))

    return _per_epoch(rate, total_step, step_per_epoch, decay_epoch, what)


def warmup_lr(
    learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int
) -> list[float]:
    """learning_rate * epoch / warmup_epoch, until it is the learning rate."""
    what = "warmup_lr"
    checked_float(learning_rate, "learning_rate", what, zero=True)

    def rate(epoch: int) -> float:
        return learning_rate * (min(epoch, warmup_epoch) / warmup_epoch)

    return _per_epoch(rate, total_step, step_per_epoch, warmup_epoch, what, "warmup_epoch")
