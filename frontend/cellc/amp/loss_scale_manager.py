"""Loss scale managers: what `Model` and `build_train_network` scale losses by.

Source: the same names in `mindspore.amp`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..core.native import names_itself
from ..nn.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell

_MOST_BAD_STEPS = 1000


@names_itself
class LossScaleManager(ABC):
    """The base of loss scale managers."""

    @abstractmethod
    def get_loss_scale(self) -> float:
        """The present scale."""

    @abstractmethod
    def update_loss_scale(self, overflow: bool) -> None:
        """Take a step into account."""

    @abstractmethod
    def get_update_cell(self) -> Any:
        """The Cell that updates the scale within the training step, or None."""

    def get_drop_overflow_update(self) -> bool:
        """Whether steps that overflow are skipped."""
        return True


class FixedLossScaleManager(LossScaleManager):
    """A scale that does not change.

    Args:
        loss_scale: the scale.
        drop_overflow_update: whether steps that overflow are skipped.
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        if loss_scale < 1:
            raise ValueError("For 'FixedLossScaleManager', the argument 'loss_scale' must be >= 1, "
                             f"but got {loss_scale}")
        self._loss_scale, self._drop = loss_scale, drop_overflow_update

    def get_loss_scale(self) -> float:
        """The scale."""
        return self._loss_scale

    def get_drop_overflow_update(self) -> bool:
        """Whether steps that overflow are skipped."""
        return self._drop

    def update_loss_scale(self, overflow: bool) -> None:
        """Nothing changes."""

    def get_update_cell(self) -> FixedLossScaleUpdateCell | None:
        """A Cell that changes nothing, where steps that overflow are skipped."""
        return FixedLossScaleUpdateCell(self._loss_scale) if self._drop else None


class DynamicLossScaleManager(LossScaleManager):
    """A scale that falls when gradients overflow and rises after steps in which they did not.

    Args:
        init_loss_scale: the scale at first.
        scale_factor: by what it falls and rises.
        scale_window: after how many steps without overflow it rises.

    Raises:
        RuntimeError: 1000 steps in a row overflowed.
    """

    def __init__(
        self, init_loss_scale: float = 2**24, scale_factor: int = 2, scale_window: int = 2000
    ) -> None:
        for what, value in (("init_loss_scale", init_loss_scale), ("scale_window", scale_window)):
            if value < 1:
                raise ValueError(f"For 'DynamicLossScaleManager', the argument '{what}' must be >= "
                                 f"1, but got {value}")
        if not scale_factor > 0:
            raise ValueError("For 'DynamicLossScaleManager', the argument 'scale_factor' must be > "
                             f"0, but got {scale_factor}")
        self.loss_scale = init_loss_scale
        self.increase_ratio, self.decrease_ratio = scale_factor, 1 / scale_factor
        self.scale_window = scale_window
        self.cur_iter, self.last_overflow_iter, self.bad_step = 1, 0, 0

    def get_loss_scale(self) -> float:
        """The present scale."""
        return self.loss_scale

    def update_loss_scale(self, overflow: bool) -> None:
        """Take a step into account.

        Raises:
            RuntimeError: too many steps in a row have overflowed.
        """
        if overflow:
            self.loss_scale = max(self.loss_scale * self.decrease_ratio, 1)
            self.last_overflow_iter = self.cur_iter
            self.bad_step += 1
        else:
            if (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
                self.loss_scale *= self.increase_ratio
            self.bad_step = 0
        if self.bad_step > _MOST_BAD_STEPS:
            raise RuntimeError(f"Dynamic loss scale Continuous overflow ({self.bad_step}) times")
        self.cur_iter += 1

    def get_update_cell(self) -> DynamicLossScaleUpdateCell:
        """The Cell that updates the scale within the training step."""
        return DynamicLossScaleUpdateCell(self.loss_scale, self.increase_ratio, self.scale_window)
