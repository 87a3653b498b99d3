"""Parts of spectra hidden, for training (Park and others, "SpecAugment", 2019)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import checks
from ..transforms import RandomTransform
from .base import Array, SoundTransform

__all__ = ["FrequencyMasking", "MaskAlongAxis", "MaskAlongAxisIID", "TimeMasking"]
_ANY = 3.4e38


def _masked(x: Array, axis: int, first: int, last: int, value: float) -> Array:
    """A spectrum (..., frequency, time) with a value from one place to another along an axis."""
    made = x.copy()
    np.swapaxes(made, axis, -1)[..., first:last] = value
    return made


def _hidden(x: Array, axis: int, most: int, value: float, draw: Callable[[float, float], float]
            ) -> Array:
    """A random range of at most so many places masked."""
    width = draw(0.0, 1.0) * most
    first = draw(0.0, 1.0) * (x.shape[axis] - width)
    return _masked(x, axis, int(first), int(first) + int(width), value)


class MaskAlongAxis(SoundTransform):
    """A value in place of what is in a range, in all spectra (..., frequency, time).

    Args:
        mask_start: where the range begins.
        mask_width: how long it is, 1 or more.
        mask_value: the value.
        axis: 1: frequencies, 2: time.

    Raises:
        TypeError, ValueError: no such values.
        RuntimeError: at a call, for a range that is not there.

    Source: `mindspore.dataset.audio.MaskAlongAxis`.
    """

    _axes = 2

    def __init__(self, mask_start: int, mask_width: int, mask_value: float, axis: int) -> None:
        self.first = checks.integer("mask_start", mask_start, 0)
        self.width = checks.integer("mask_width", mask_width, 1)
        self.value = checks.number("mask_value", mask_value, -_ANY, _ANY)
        self.axis = checks.integer("axis", axis, 1, 2) - 3

    def _apply(self, x: Array) -> Array:
        size = x.shape[self.axis]
        if self.first + self.width > size:
            raise self._refused(f"mask_start {self.first} and mask_width {self.width} do not fit "
                                f"an axis of {size}.")
        return _masked(x, self.axis, self.first, self.first + self.width, self.value)


class MaskAlongAxisIID(SoundTransform, RandomTransform):
    """A value in place of what is in a random range, the same for all spectra of a call.

    Args:
        mask_param: how long the range is at most.
        mask_value: the value.
        axis: 1: frequencies, 2: time.

    Raises:
        TypeError, ValueError: no such values.
        RuntimeError: at a call, for an axis that is shorter than `mask_param`.

    Source: `mindspore.dataset.audio.MaskAlongAxisIID`.
    """

    _axes = 2

    def __init__(self, mask_param: int, mask_value: float, axis: int) -> None:
        self.most = checks.integer("mask_param", mask_param, 0)
        self.value = checks.number("mask_value", mask_value, -_ANY, _ANY)
        self.axis = checks.integer("axis", axis, 1, 2) - 3

    def _apply(self, x: Array) -> Array:
        size = x.shape[self.axis]
        if self.most > size:
            raise self._refused(f"mask_param {self.most} is more than the axis of {size} has.")
        return _hidden(x, self.axis, self.most, self.value, self.random.real)


class _Masking(SoundTransform, RandomTransform):
    """A range of an axis masked: a given one, or a random one."""

    _axes = 2
    _along = -1

    def _set(self, iid: bool, most: tuple[str, int], start: int, value: float) -> None:
        self.most, self.first = checks.integer(*most, 0), checks.integer("mask_start", start, 0)
        self.iid = checks.of_type("iid_masks", iid, bool)
        self.value = checks.number("mask_value", value, -_ANY, _ANY)

    def _apply(self, x: Array) -> Array:
        last = self.most if self.iid else self.first + self.most
        if last > x.shape[self._along]:
            raise self._refused(f"a mask up to {last} does not fit an axis of "
                                f"{x.shape[self._along]}.")
        if self.iid:
            return _hidden(x, self._along, self.most, self.value, self.random.real)
        return _masked(x, self._along, self.first, last, self.value)


class FrequencyMasking(_Masking):
    """A value in place of a range of frequencies.

    Args:
        iid_masks: the range is random.
        freq_mask_param: how long it is (at most).
        mask_start: where it begins, if it is not random.
        mask_value: the value.

    Raises:
        TypeError, ValueError: no such values.
        RuntimeError: at a call, for a range that is not there.

    Source: `mindspore.dataset.audio.FrequencyMasking`.
    """

    _along = -2

    def __init__(
        self, iid_masks: bool = False, freq_mask_param: int = 0, mask_start: int = 0,
        mask_value: float = 0.0,
    ) -> None:
        self._set(iid_masks, ("freq_mask_param", freq_mask_param), mask_start, mask_value)


class TimeMasking(_Masking):
    """A value in place of a range of time.

    Args:
        iid_masks: the range is random.
        time_mask_param: how long it is (at most).
        mask_start: where it begins, if it is not random.
        mask_value: the value.

    Raises:
        TypeError, ValueError: no such values.
        RuntimeError: at a call, for a range that is not there.

    Source: `mindspore.dataset.audio.TimeMasking`.
    """

    def __init__(
        self, iid_masks: bool = False, time_mask_param: int = 0, mask_start: int = 0,
        mask_value: float = 0.0,
    ) -> None:
        self._set(iid_masks, ("time_mask_param", time_mask_param), mask_start, mask_value)
