"""Padding of the last axes, by kind. Source: `mindspore.nn`."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import INT, Number, is_int, misuse
from ...tensors.tensor import Tensor
from .base import Family


class SidePad(Family):
    """Elements added around the last `spatial` axes.

    Args:
        padding: an int for all sides, or pairs (before, after) from the last axis backwards.
    """

    spatial = 0
    mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = self._sides(padding)
        self.value: Any = None

    def _sides(self, padding: Any) -> tuple[int, ...]:
        """The padding of each side, checked."""
        what = self.cls_name
        if is_int(padding):
            padding = (padding,) * (2 * self.spatial)
        if not isinstance(padding, tuple):
            raise misuse(what, "the 'padding' must be an int or a tuple", type(padding).__name__,
                         TypeError)
        if len(padding) % 2 or len(padding) > 2 * self.spatial:
            raise misuse(what, f"the 'padding' must hold up to {self.spatial} pairs", padding)
        sides = tuple(INT(p, what, "padding") for p in padding)
        if self.mode == "reflect" and any(side < 0 for side in sides):
            raise ValueError(f"For '{what}' every element in 'padding' must be >= 0, but got "
                             f"{sides}.")
        return sides

    def construct(self, x: Tensor) -> Tensor:
        """The padded tensor."""
        return ops.pad(x, self.padding, self.mode, self.value)


class _ConstantPad(SidePad):
    """Elements of one value added.

    Args:
        padding: as above.
        value: the value.
    """

    def __init__(self, padding: Any, value: Number) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad1d(_ConstantPad, spatial=1):
    """Write `value` before and after the last axis of (N, C, L) or (C, L): L becomes L + left +
    right. `padding` is an int or (left, right); a negative one cuts off."""


class ConstantPad2d(_ConstantPad, spatial=2):
    """Write `value` around (N, C, H, W) or (C, H, W): `padding` is an int or (left, right, top,
    bottom) and is added to W and H; a negative one cuts off."""


class ConstantPad3d(_ConstantPad, spatial=3):
    """Write `value` around (N, C, D, H, W) or (C, D, H, W): `padding` is an int or (left, right,
    top, bottom, front, back); a negative one cuts off."""


class ZeroPad2d(SidePad, spatial=2):
    """Zeros around (N, C, H, W) or (C, H, W): `padding` is an int or (left, right, top, bottom); a
    negative one cuts off."""


class ReflectionPad1d(SidePad, spatial=1, mode="reflect"):
    """Mirror (N, C, L) or (C, L) at both ends without repeating the ends: [1, 2, 3] padded by 2 is
    [3, 2, 1, 2, 3, 2, 1]. `padding` must be smaller than L."""


class ReflectionPad2d(SidePad, spatial=2, mode="reflect"):
    """The last two axes mirrored at their ends, without the outermost element: [1, 2, 3] padded by
    (2, 1) is [3, 2, 1, 2, 3, 2]."""


class ReflectionPad3d(SidePad, spatial=3, mode="reflect"):
    """The last three axes mirrored at their ends, without the outermost element: [1, 2, 3] padded
    by (2, 1) is [3, 2, 1, 2, 3, 2]."""


class ReplicationPad1d(SidePad, spatial=1, mode="replicate"):
    """Repeat the first and last element of (N, C, L) or (C, L): [1, 2] padded by 1 is [1, 1, 2, 2].
    `padding` is an int or (left, right)."""


class ReplicationPad2d(SidePad, spatial=2, mode="replicate"):
    """The first and last elements of the last two axes repeated: [1, 2, 3] padded by (2, 1) is
    [1, 1, 1, 2, 3, 3]."""


class ReplicationPad3d(SidePad, spatial=3, mode="replicate"):
    """The first and last elements of the last three axes repeated: [1, 2, 3] padded by (2, 1) is
    [1, 1, 1, 2, 3, 3]."""
