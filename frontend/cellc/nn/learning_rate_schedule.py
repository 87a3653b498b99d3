"""Learning rates as functions of the step. Sources: the classes of the same names in `nn`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import float32
from cellc_runtime.lazy import public_names

from .. import ops
from ..core.declared import Arguments, Flag, NonNegativeFloat, Positive, PositiveFloat, misuse
from ..tensors.tensor import Tensor
from .cell import Cell
from .rate_formulas import cosine, exponential, inverse, natural_exponential, polynomial

__all__ = [
    "CosineDecayLR", "ExponentialDecayLR", "InverseDecayLR", "LearningRateSchedule",
    "NaturalExpDecayLR", "PolynomialDecayLR", "WarmUpLR",
]
__dir__ = public_names(__name__)


def check_order(min_lr: float, max_lr: float, what: str) -> None:
    """Raise a ValueError if `max_lr` does not exceed `min_lr`."""
    if min_lr >= max_lr:
        raise misuse(what, "the 'max_lr' must be greater than the 'min_lr'",
                     f"'max_lr' value: {max_lr}, 'min_lr' value: {min_lr}")


class LearningRateSchedule(Cell):
    """Base of schedules: `construct(global_step)` gives the rate of a step."""

    def __init__(self) -> None:
        super().__init__()

    def construct(self, global_step: Tensor) -> Any:
        """The rate; to be given by each schedule."""
        raise TypeError(f"the schedule {type(self).__name__} gives no 'construct'")


class _Decay(Arguments, LearningRateSchedule):
    """A decay per `decay_steps` steps.

    Args:
        learning_rate: the first rate.
        decay_rate: how fast it decays.
        decay_steps: steps of one unit of the decay.
        is_stair: the rate stays the same within a unit.
    """

    learning_rate: PositiveFloat
    decay_rate: PositiveFloat
    decay_steps: Positive
    is_stair: Flag = False

    def units(self, global_step: Tensor) -> Tensor:
        """How many units of the decay have passed."""
        passed = ops.cast(global_step, float32) / float(self.decay_steps)
        return ops.floor(passed) if self.is_stair else passed


class ExponentialDecayLR(_Decay):
    """The learning rate learning_rate * decay_rate**(step / decay_steps), a scalar; `is_stair`
    rounds the exponent down to a whole number."""

    def construct(self, global_step: Tensor) -> Any:
        """The rate of a step."""
        return exponential(self.learning_rate, self.decay_rate, self.units(global_step))


class NaturalExpDecayLR(_Decay):
    """learning_rate * exp(-decay_rate * step), the step rounded down to `decay_steps` if stair."""

    def construct(self, global_step: Tensor) -> Any:
        """The rate of a step."""
        step = ops.cast(global_step, float32)
        if self.is_stair:
            step = self.units(global_step) * float(self.decay_steps)
        return natural_exponential(self.learning_rate, self.decay_rate, step, ops.exp)


class InverseDecayLR(_Decay):
    """The learning rate learning_rate / (1 + decay_rate * step / decay_steps), a scalar; `is_stair`
    rounds step / decay_steps down to a whole number."""

    def construct(self, global_step: Tensor) -> Any:
        """The rate of a step."""
        return inverse(self.learning_rate, self.decay_rate, self.units(global_step))


class CosineDecayLR(Arguments, LearningRateSchedule):
    """Half a cosine from max_lr down to min_lr in `decay_steps` steps."""

    min_lr: NonNegativeFloat
    max_lr: PositiveFloat
    decay_steps: Positive

    def __post_init__(self) -> None:
        check_order(self.min_lr, self.max_lr, self.cls_name)

    def construct(self, global_step: Tensor) -> Any:
        """The rate of a step."""
        steps = float(self.decay_steps)
        step = ops.minimum(ops.cast(global_step, float32), steps)
        return cosine(self.min_lr, self.max_lr, step / steps, ops.cos)


class PolynomialDecayLR(Arguments, LearningRateSchedule):
    """(learning_rate - end_learning_rate) * (1 - step / decay_steps)**power + end_learning_rate.

    Args:
        learning_rate, end_learning_rate: the first and last rate.
        decay_steps: steps from one to the other.
        power: the exponent.
        update_decay_steps: start again from a rate in between, over a multiple of `decay_steps`.
    """

    learning_rate: PositiveFloat
    end_learning_rate: NonNegativeFloat
    decay_steps: Positive
    power: PositiveFloat
    update_decay_steps: Flag = False

    def construct(self, global_step: Tensor) -> Any:
        """The rate of a step."""
        step = ops.cast(global_step, float32)
        steps = float(self.decay_steps)
        reach: Tensor | float
        if self.update_decay_steps:
            reach = steps * ops.maximum(ops.ceil(step / steps), 1.0)
        else:
            reach = steps
            step = ops.minimum(step, steps)
        return polynomial(self.learning_rate, self.end_learning_rate, step / reach, self.power)


class WarmUpLR(Arguments, LearningRateSchedule):
    """learning_rate * step / warmup_steps, until it is the learning rate."""

    learning_rate: NonNegativeFloat
    warmup_steps: Positive

    def construct(self, global_step: Tensor) -> Tensor:
        """The rate of a step."""
        steps = float(self.warmup_steps)
        return self.learning_rate * (ops.minimum(ops.cast(global_step, float32), steps) / steps)
