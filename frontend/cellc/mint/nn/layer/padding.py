"""Padding layers of `mint.nn`: those of `nn`, but for what they take as padding and as a value.

Source: `mindspore.mint.nn`.
"""

from __future__ import annotations

from typing import Any

from ....core.declared import is_int, misuse
from ....nn.layer import padding as layers
from ....tensors.tensor import Tensor
from .. import functional


class _Pad(layers.SidePad):
    """Elements added around the last `spatial` axes.

    Args:
        padding: an int for all sides, or pairs (before, after) from the last axis backwards.
    """

    def _sides(self, padding: Any) -> tuple[int, ...]:
        count = 2 * self.spatial
        sides = (padding,) * count if is_int(padding) else padding
        if not isinstance(sides, (tuple, list)) or not all(is_int(p) for p in sides):
            raise misuse(self.cls_name, f"the 'padding' must be an int or {count} ints",
                         repr(padding))
        if len(sides) != count:
            raise misuse(self.cls_name, f"the length of 'padding' must be {count}", len(sides))
        return tuple(sides)

    def construct(self, input: Tensor) -> Any:
        """The padded tensor."""
        return functional.pad(input, self.padding, self.mode, self.value)


class _ConstantPad(_Pad):
    """Elements of one value added.

    Args:
        padding: as in the other layers.
    """

    def __init__(self, padding: Any, value: Any) -> None:
        super().__init__(padding)
        self.value = value


class ConstantPad1d(_ConstantPad, spatial=1):
    """A value around the last axis."""


class ConstantPad2d(_ConstantPad, spatial=2):
    """A value around the last two axes."""


class ConstantPad3d(_ConstantPad, spatial=3):
    """A value around the last three axes."""


class _ZeroPad(_ConstantPad):
    """Zeros added.

    Args:
        padding: as in the other layers.
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0)


class ZeroPad1d(_ZeroPad, spatial=1):
    """Zeros around the last axis."""


class ZeroPad2d(_ZeroPad, spatial=2):
    """Zeros around the last two axes."""


class ZeroPad3d(_ZeroPad, spatial=3):
    """Zeros around the last three axes."""


class ReflectionPad1d(_Pad, layers.ReflectionPad1d):
    """The last axis mirrored at its ends."""


class ReflectionPad2d(_Pad, layers.ReflectionPad2d):
    """The last two axes mirrored at their ends."""


class ReflectionPad3d(_Pad, layers.ReflectionPad3d):
    """The last three axes mirrored at their ends."""


class ReplicationPad1d(_Pad, layers.ReplicationPad1d):
    """The ends of the last axis repeated."""


class ReplicationPad2d(_Pad, layers.ReplicationPad2d):
    """The ends of the last two axes repeated."""


class ReplicationPad3d(_Pad, layers.ReplicationPad3d):
    """The ends of the last three axes repeated."""
