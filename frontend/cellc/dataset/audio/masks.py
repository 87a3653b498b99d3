"""Parts of spectra hidden, for training (Park and others, "SpecAugment", 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np

from ...core.declared import Flag, NonNegative, Number, Positive, integer
from ..declared import argument
from ..transforms import RandomTransform
from .base import Array, SoundTransform

__all__ = ["FrequencyMasking", "MaskAlongAxis", "MaskAlongAxisIID", "TimeMasking"]


def _masked(x: Array, axis: int, first: int, last: int, value: float) -> Array:
    """A spectrum (..., frequency, time) with a value from one place to another along an axis."""
    made = x.copy()
    np.swapaxes(made, axis, -1)[..., first:last] = value
    return made


def _hidden(x: Array, axis: int, most: int, value: float, draw: Callable[[float, float], float]
            ) -> Array:
    """Mask a random range of at most `most` places."""
    width = draw(0.0, 1.0) * most
    first = draw(0.0, 1.0) * (x.shape[axis] - width)
    return _masked(x, axis, int(first), int(first) + int(width), value)


class MaskAlongAxis(SoundTransform):
    """A value in place of what is in a range, in all spectra (..., frequency, time).

    Raises:
        RuntimeError: at a call, for a range that is not there.
    """

    mask_start: NonNegative = argument(text="where the range begins.")
    mask_width: Positive = argument(text="how long it is, 1 or more.")
    mask_value: Number = argument(text="the value.")
    axis: Annotated[int, integer(1, 2)] = argument(text="1: frequencies, 2: time.")
    _axes = 2

    def _apply(self, x: Array) -> Array:
        size, last = x.shape[self.axis - 3], self.mask_start + self.mask_width
        if last > size:
            raise self._refused(f"mask_start {self.mask_start} and mask_width {self.mask_width} do "
                                f"not fit an axis of {size}.")
        return _masked(x, self.axis - 3, self.mask_start, last, self.mask_value)


class MaskAlongAxisIID(SoundTransform, RandomTransform):
    """A value in place of what is in a random range, the same for all spectra of a call.

    Raises:
        RuntimeError: at a call, for an axis that is shorter than `mask_param`.
    """

    mask_param: NonNegative = argument(text="how long the range is at most.")
    mask_value: Number = argument(text="the value.")
    axis: Annotated[int, integer(1, 2)] = argument(text="1: frequencies, 2: time.")
    _axes = 2

    def _apply(self, x: Array) -> Array:
        size = x.shape[self.axis - 3]
        if self.mask_param > size:
            raise self._refused(f"mask_param {self.mask_param} is more than the axis of {size} "
                                "has.")
        return _hidden(x, self.axis - 3, self.mask_param, self.mask_value, self.random.real)


class _Masking(SoundTransform, RandomTransform):
    """A range of an axis masked: a given one, or a random one."""

    iid_masks: Flag = argument(default=False, text="the range is random.")
    _axes = 2
    _along = -1
    _length = ""  # The argument that is the length of the range

    def _apply(self, x: Array) -> Array:
        values = vars(self)
        most, start, value = (values[n] for n in (self._length, "mask_start", "mask_value"))
        last = most if self.iid_masks else start + most
        if last > x.shape[self._along]:
            raise self._refused(f"a mask up to {last} does not fit an axis of "
                                f"{x.shape[self._along]}.")
        if self.iid_masks:
            return _hidden(x, self._along, most, value, self.random.real)
        return _masked(x, self._along, start, last, value)


class FrequencyMasking(_Masking):
    """A value in place of a range of frequencies.

    Raises:
        RuntimeError: at a call, for a range that is not there.
    """

    freq_mask_param: NonNegative = argument(default=0, text="how long it is (at most).")
    mask_start: NonNegative = argument(default=0, text="where it begins, if it is not random.")
    mask_value: Number = argument(default=0.0, text="the value.")
    _along, _length = -2, "freq_mask_param"


class TimeMasking(_Masking):
    """A value in place of a range of time.

    Raises:
        RuntimeError: at a call, for a range that is not there.
    """

    time_mask_param: NonNegative = argument(default=0, text="how long it is (at most).")
    mask_start: NonNegative = argument(default=0, text="where it begins, if it is not random.")
    mask_value: Number = argument(default=0.0, text="the value.")
    _length = "time_mask_param"
