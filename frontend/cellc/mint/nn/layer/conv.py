"""Convolutions of `mint.nn`: PyTorch's padding, and weights of as many axes as the images.

Source: `mindspore.mint.nn`.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import DType, float32

from ....core.declared import BOOL, INT, POSITIVE, is_int, misuse, one_of
from ....nn.cell import Cell
from ....nn.layer.base import Convolution, parameter
from ....tensors.initializer import HeUniform, Uniform
from ....tensors.parameter import Parameter
from ....tensors.tensor import Tensor
from .. import functional

Ints = tuple[int, ...]
_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _per_axis(value: Any, count: int, name: str, what: str) -> Ints:
    """`count` ints from an int for all, or a tuple or list of as many."""
    given = (value,) * count if is_int(value) else value
    if not isinstance(given, (tuple, list)) or len(given) != count:
        raise misuse(what, f"the '{name}' must be an int or a tuple of {count} ints", repr(value),
                     TypeError)
    return tuple(INT(v, what, name) for v in given)


class _Conv(Convolution):
    """The common part of convolutions.

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or one for each axis.
        padding: zeros on both sides of each axis; `"valid"` (none) or `"same"` (as many as keep
            the size; the stride must be 1).
        groups: groups of channels convolved apart.
        bias: whether a bias is added.
        padding_mode: `"zeros"`, or `"reflect"`, `"replicate"`, `"circular"`: what padding holds.
        dtype: element type of the parameters; float32 if None.

    Attributes:
        weight: (out, in / groups, kernel), uniform within 1 / sqrt(inputs of an output) at first.
        bias: (out), likewise; None without one.
    """

    spatial = 2

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self._options(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                      padding_mode)
        self.output_padding = (0,) * self.spatial
        self._parameters(bias, dtype)

    def _options(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        dilation: Any, groups: int, padding_mode: str,
    ) -> None:
        what, n = self.cls_name, self.spatial
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels),
                            ("groups", groups)):
            setattr(self, name, POSITIVE(value, what, name))
        if in_channels % groups or out_channels % groups:
            raise misuse(what, "'in_channels' and 'out_channels' must be divisible by 'groups'",
                         f"{in_channels}, {out_channels} and {groups}")
        for name, value in (("kernel_size", kernel_size), ("stride", stride),
                            ("dilation", dilation)):
            each = _per_axis(value, n, name, what)
            setattr(self, name, tuple(POSITIVE(v, what, name) for v in each))
        self.padding = padding
        if not isinstance(padding, str):
            self.padding = _per_axis(padding, n, "padding", what)
        elif padding not in ("same", "valid"):
            raise misuse(what, "the 'padding' must be 'same', 'valid' or ints", repr(padding))
        elif padding == "same" and any(s != 1 for s in self.stride):
            raise misuse(what, "padding 'same' needs a stride of 1", self.stride)
        self.padding_mode = one_of(*_PADDING_MODES)(padding_mode, what, "padding_mode")

    def _parameters(self, bias: bool, dtype: DType | None) -> None:
        ends = (self.in_channels, self.out_channels // self.groups) if self.transposed else \
            (self.out_channels, self.in_channels // self.groups)
        shape = (*ends, *self.kernel_size)
        ty = float32 if dtype is None else dtype
        self.weight = parameter(HeUniform(math.sqrt(5)), shape, ty, "weight")
        self.bias: Parameter | None = None
        if BOOL(bias, self.cls_name, "bias"):
            bound = 1 / math.sqrt(math.prod(shape[1:]))
            self.bias = parameter(Uniform(bound), (self.out_channels,), ty, "bias")

    def construct(self, input: Tensor) -> Any:
        """(N, out_channels, spatial...)."""
        x, padding = self.padded(input)
        return self._function(x, self.weight, self.bias, self.stride, padding, self.dilation,
                              self.groups)

    def padded(self, input: Tensor) -> tuple[Any, Any]:
        """The input padded as the mode says, and the padding that is left to the convolution."""
        if self.padding_mode == "zeros":
            return input, self.padding
        sides: Any = []
        for i in range(self.spatial - 1, -1, -1):
            if self.padding == "same":
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                sides = [*sides, total // 2, total - total // 2]
            elif self.padding == "valid":
                sides = [*sides, 0, 0]
            else:
                sides = [*sides, self.padding[i], self.padding[i]]
        return functional.pad(input, tuple(sides), self.padding_mode), 0

    def extend_repr(self) -> str:
        """Sizes and options."""
        return (
            f"input_channels={self.in_channels}, output_channels={self.out_channels}, "
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}"
        )


class Conv1d(_Conv, spatial=1, function=functional.conv1d):
    """1-D convolution of (N, C, L) or (C, L)."""


class Conv2d(_Conv, function=functional.conv2d):
    """2-D convolution of (N, C, H, W) or (C, H, W)."""


class Conv3d(_Conv, spatial=3, function=functional.conv3d):
    """3-D convolution of (N, C, D, H, W) or (C, D, H, W)."""


class ConvTranspose2d(_Conv, transposed=True):
    """The adjoint of `Conv2d`, to a larger image.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, groups, bias, dilation, dtype: as
            in `Conv2d`, padding as ints; the weight is (in, out / groups, kH, kW).
        output_padding: rows and columns added at one end of the result.
        padding_mode: `"zeros"`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", dtype: DType | None = None,
    ) -> None:
        Cell.__init__(self)
        if padding_mode != "zeros":
            raise misuse("ConvTranspose2d", "'padding_mode' must be 'zeros'", repr(padding_mode))
        if isinstance(padding, str):
            raise misuse("ConvTranspose2d", "the 'padding' must be ints", repr(padding), TypeError)
        self._options(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                      padding_mode)
        self.output_padding = _per_axis(output_padding, 2, "output_padding", self.cls_name)
        self._parameters(bias, dtype)

    def construct(self, input: Tensor, output_size: Any = None) -> Any:
        """(N, out_channels, H', W'), of `output_size` where that is given."""
        extra = self.output_padding
        if output_size is not None:
            extra = tuple([
                output_size[i - 2] - self.natural(input.shape[i - 2], i) for i in range(2)])
        return functional.conv_transpose2d(input, self.weight, self.bias, self.stride,
                                           self.padding, extra, self.groups, self.dilation)

    def natural(self, size: int, i: int) -> int:
        """The size of axis i of the result without output padding."""
        reach = self.dilation[i] * (self.kernel_size[i] - 1) + 1
        out: int = (size - 1) * self.stride[i] - 2 * self.padding[i] + reach
        return out
