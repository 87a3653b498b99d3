"""Convolutions and transposed convolutions. Source: `mindspore.nn`."""

from __future__ import annotations

import math
from typing import Annotated, Any

from cellc_runtime.dtypes import DType, float32

from ... import ops
from ...core.declared import (
    Flag,
    NonNegative,
    PerAxis2,
    PerAxis3,
    Positive,
    misuse,
    one_of,
    per_axis,
)
from ...ops.functional import window
from ...tensors.initializer import HeUniform, Uniform
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .base import Convolution, parameter, shown

Ints = tuple[int, ...]
PadMode = Annotated[str, one_of("valid", "same", "pad", kind=str)]
Kernel3 = Annotated[Any, per_axis(3, error=ValueError)]
Trailing2 = Annotated[Any, per_axis(2, 0)]
Trailing3 = Annotated[Any, per_axis(3, 0)]
Images = Annotated[str, one_of("NCHW")]
Volumes = Annotated[str, one_of("NCDHW")]
Padding2 = Annotated[Any, per_axis(4, 0, ValueError, kept=True)]
Padding3 = Annotated[Any, per_axis(6, 0, ValueError, kept=True)]


def _check_input_3d(input_shape: Any, op_name: str) -> None:
    """Raise unless a shape has three axes (scripts import it)."""
    if len(input_shape) != 3:
        raise misuse(op_name, "the dimension of input must be 3d", len(input_shape))


class _Conv(Convolution):
    """The common part of convolutions: checks, parameters, printed form.

    Attributes:
        data_format: printed as the format.
    """

    data_format = "NCHW"

    def _options(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, pad_mode: str,
        padding: Any, dilation: Any, group: int, has_bias: bool,
    ) -> None:
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.dilation = kernel_size, stride, dilation
        self.pad_mode, self.padding = pad_mode, padding
        self.group, self.has_bias = group, has_bias
        if pad_mode != "pad" and any(padding if isinstance(padding, tuple) else (padding,)):
            raise misuse(self.cls_name, "'padding' must be 0 unless 'pad_mode' is 'pad'",
                         f"{padding} and {pad_mode!r}")
        if in_channels % group or out_channels % group:
            raise misuse(self.cls_name,
                         "'in_channels' and 'out_channels' must be divisible by 'group'",
                         f"{in_channels}, {out_channels} and {group}")

    def _parameters(self, weight_init: Any, bias_init: Any, dtype: DType) -> None:
        ends = (self.in_channels, self.out_channels // self.group) if self.transposed else \
            (self.out_channels, self.in_channels // self.group)
        shape = (*ends, *self.kernel_size)
        self.weight_init = HeUniform(math.sqrt(5)) if weight_init is None else weight_init
        self.bias_init = bias_init
        self.weight = parameter(self.weight_init, shape, dtype, "weight")
        self.bias: Parameter | None = None
        if self.has_bias:
            if bias_init is None:
                self.bias_init = Uniform(1 / math.sqrt(shape[1] * math.prod(self.kernel_size)))
            self.bias = parameter(self.bias_init, (self.out_channels,), dtype, "bias")

    def extend_repr(self) -> str:
        """Sizes and options."""
        options = shown(self, "kernel_size stride pad_mode padding dilation group has_bias "
                        "weight_init bias_init")
        return (f"input_channels={self.in_channels}, output_channels={self.out_channels}, "
                f"{options}, format={self.data_format}")


class Conv2d(_Conv):
    """2-D convolution of (N, C, H, W).

    Args:
        in_channels, out_channels: channels of input and output.
        kernel_size, stride, dilation: an int, or rows and columns.
        pad_mode: `"same"` (the output has ceil(H / stride) rows), `"valid"` (no padding) or
            `"pad"` (`padding`).
        padding: an int, or (top, bottom, left, right).
        group: groups of channels convolved apart.
        has_bias: whether a bias is added.
        weight_init, bias_init: initial weight (out, in / group, kH, kW) and bias (out): a Tensor,
            initializer, its name or a number; uniform within 1 / sqrt(inputs) if None.
        data_format: `"NCHW"`.
        dtype: element type of the parameters.
    """

    def __init__(
        self, in_channels: Positive, out_channels: Positive, kernel_size: PerAxis2,
        stride: PerAxis2 = 1, pad_mode: PadMode = "same", padding: Padding2 = 0,
        dilation: PerAxis2 = 1, group: Positive = 1, has_bias: Flag = False,
        weight_init: Any = None, bias_init: Any = None, data_format: Images = "NCHW",
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._options(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation,
                      group, has_bias)
        self._parameters(weight_init, bias_init, dtype)

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        return ops.conv2d(x, self.weight, self.bias, self.stride, self.pad_mode, self.padding,
                          self.dilation, self.group)


def _with_row(init: Any) -> Any:
    """A weight (out, in, k) given as a Tensor, with the axis of one row."""
    if isinstance(init, Tensor) and init.ndim == 3:
        return ops.expand_dims(init, 2)
    return init


class _OnLines(_Conv):
    """Convolutions of (N, C, L), which are those of images of one row."""

    def __init__(
        self, in_channels: Positive, out_channels: Positive, kernel_size: Positive,
        stride: Positive = 1, pad_mode: PadMode = "same", padding: NonNegative = 0,
        dilation: Positive = 1, group: Positive = 1, has_bias: Flag = False,
        weight_init: Any = None, bias_init: Any = None, dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._options(in_channels, out_channels, (1, kernel_size), (1, stride), pad_mode,
                      (0, 0, padding, padding), (1, dilation), group, has_bias)
        self._parameters(_with_row(weight_init), bias_init, dtype)


class Conv1d(_OnLines):
    """1-D convolution of (N, C, L).

    Args:
        in_channels, out_channels, pad_mode, group, has_bias, weight_init, bias_init, dtype: as in
            `Conv2d`; the weight has the shape (out, in / group, 1, k).
        kernel_size, stride, padding, dilation: ints.
    """

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, L) to (N, out_channels, L')."""
        out = ops.conv2d(ops.expand_dims(x, 2), self.weight, self.bias, self.stride,
                         self.pad_mode, self.padding, self.dilation, self.group)
        return ops.squeeze(out, 2)


class Conv3d(_Conv, data_format="NCDHW"):
    """3-D convolution of (N, C, D, H, W).

    Args:
        As in `Conv2d`, with three axes; the weight has the shape (out, in / group, kD, kH, kW).
    """

    def __init__(
        self, in_channels: Positive, out_channels: Positive, kernel_size: Kernel3,
        stride: PerAxis3 = 1, pad_mode: PadMode = "same", padding: Padding3 = 0,
        dilation: PerAxis3 = 1, group: Positive = 1, has_bias: Flag = False,
        weight_init: Any = None, bias_init: Any = None, data_format: Volumes = "NCDHW",
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._options(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation,
                      group, has_bias)
        self._parameters(weight_init, bias_init, dtype)

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, D, H, W) to (N, out_channels, D', H', W')."""
        return ops.conv3d(x, self.weight, self.bias, self.stride, self.pad_mode, self.padding,
                          self.dilation, self.group)


class Conv2dTranspose(_Conv, transposed=True):
    """The adjoint of `Conv2d`, (N, C, H, W) to a larger image. Source: `nn.Conv2dTranspose`.

    Args:
        As in `Conv2d`; the weight has the shape (in, out / group, kH, kW).
        pad_mode: `"same"` gives H * stride rows, `"valid"` as many as the input reaches, `"pad"`
            that less `padding`.
        output_padding: rows and columns of zeros added at the end, in the mode `"pad"`.
    """

    def __init__(
        self, in_channels: Positive, out_channels: Positive, kernel_size: PerAxis2,
        stride: PerAxis2 = 1, pad_mode: PadMode = "same", padding: Padding2 = 0,
        output_padding: Trailing2 = 0, dilation: PerAxis2 = 1, group: Positive = 1,
        has_bias: Flag = False, weight_init: Any = None, bias_init: Any = None,
        dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._options(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation,
                      group, has_bias)
        self.output_padding = output_padding
        self._parameters(weight_init, bias_init, dtype)

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        out = _adjoint(self, x)
        if self.pad_mode == "pad" and any(self.output_padding):
            out = ops.pad(out, (0, self.output_padding[1], 0, self.output_padding[0]))
        return out


def _adjoint(layer: _Conv, x: Tensor) -> Tensor:
    """A transposed convolution of images, with the bias."""
    window.image_of(x, 2, layer.cls_name)
    stride, padding = layer.stride, layer.padding
    pads = padding if isinstance(padding, tuple) else (padding,) * 4
    size = []
    for i in range(2):
        reach = layer.dilation[i] * (layer.kernel_size[i] - 1) + 1
        if layer.pad_mode == "same":
            size.append(x.shape[2 + i] * stride[i])
        elif layer.pad_mode == "valid":
            size.append((x.shape[2 + i] - 1) * stride[i] + max(reach, stride[i]))
        else:
            size.append((x.shape[2 + i] - 1) * stride[i] + reach - pads[2 * i] - pads[2 * i + 1])
    out = window.conv2d_adjoint(x, layer.weight, tuple(size), stride, layer.pad_mode, padding,
                                layer.dilation, layer.group)
    return out if layer.bias is None else ops.bias_add(out, layer.bias)


class Conv1dTranspose(_OnLines, transposed=True):
    """The adjoint of `Conv1d`, (N, C, L).

    Args:
        As in `Conv1d`; the weight has the shape (in, out / group, 1, k).
    """

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, L) to (N, out_channels, L')."""
        window.image_of(x, 1, "Conv1dTranspose")
        return ops.squeeze(_adjoint(self, ops.expand_dims(x, 2)), 2)


class Conv3dTranspose(_Conv, transposed=True, data_format="NCDHW"):
    """The adjoint of `Conv3d`, (N, C, D, H, W) to a larger volume. Source: `nn.Conv3dTranspose`.

    Args:
        As in `Conv2dTranspose`, with three axes; the weight has the shape (in, out / group, kD, kH,
            kW).
        output_padding: planes, rows and columns that belong to the result beyond the smallest one,
            in the mode `"pad"`.
        data_format: `"NCDHW"`.
    """

    def __init__(
        self, in_channels: Positive, out_channels: Positive, kernel_size: Kernel3,
        stride: PerAxis3 = 1, pad_mode: PadMode = "same", padding: Padding3 = 0,
        dilation: PerAxis3 = 1, group: Positive = 1, output_padding: Trailing3 = 0,
        has_bias: Flag = False, weight_init: Any = None, bias_init: Any = None,
        data_format: Volumes = "NCDHW", dtype: DType = float32,
    ) -> None:
        super().__init__()
        self._options(in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation,
                      group, has_bias)
        self.output_padding = output_padding
        self._parameters(weight_init, bias_init, dtype)

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, D, H, W) to (N, out_channels, D', H', W')."""
        out = ops.conv3d_transpose(x, self.weight, self.pad_mode, self.padding, self.stride,
                                   self.dilation, self.group, self.output_padding)
        if self.bias is not None:
            out = out + ops.reshape(self.bias, (self.out_channels, 1, 1, 1))
        return out
