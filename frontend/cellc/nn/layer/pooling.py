"""Pooling layers.

Source: the layers of the same names in `mindspore.nn`.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import (
    INT,
    POSITIVE,
    Flag,
    Positive,
    instance,
    is_int,
    misuse,
    one_of,
    per_axis,
)
from ...ops.functional import volume, window
from ...tensors.tensor import Tensor
from .base import Family, OfInput, OfX

Ints = tuple[int, ...]


def _sizes(value: Any, count: int, name: str, what: str) -> Any:
    """A kernel size or stride: a positive int, or a tuple of `count`."""
    if not is_int(value) and not isinstance(value, tuple):
        raise TypeError(f"For '{what}', the '{name}' must be an positive int number or a tuple, "
                        f"but got {value}")
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and len(value) != count:
        raise ValueError(f"For '{what}', the '{name}' must hold {count} ints, but got {value}")
    if any(not is_int(v) or v < 1 for v in values):
        raise ValueError(f"For '{what}', the '{name}' must be an positive int number or a tuple, "
                         f"but got {value}")
    return value


def _each(value: Any, count: int) -> Ints:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


class _Pool(Family):
    """The common part of pooling layers: the window, the pad mode, the printed form.

    Attributes:
        spatial: number of axes pooled over.
    """

    spatial = 2

    def _window(self, kernel_size: Any, stride: Any, pad_mode: Any, extras: bool) -> None:
        what = self.cls_name
        if not isinstance(pad_mode, str):
            raise misuse(what, "the 'pad_mode' must be str", type(pad_mode).__name__, TypeError)
        self.pad_mode = one_of("VALID", "SAME", "PAD")(pad_mode.upper(), what, "pad_mode")
        self.kernel_size = _sizes(kernel_size, self.spatial, "kernel_size", what)
        self.stride = _sizes(stride, self.spatial, "stride", what)
        self.is_expand = self.pad_mode == "PAD"
        if extras and not self.is_expand:
            raise ValueError(f"For {what}, padding and the options of windows can only be set when "
                             f"pad_mode is 'pad', but got pad_mode: {pad_mode}.")

    def _pooled(self, kind: str, x: Tensor) -> Tensor:
        """(N, C, H, W) or (C, H, W) pooled in the modes without padding of one's own."""
        if x.ndim == 3:
            image = ops.expand_dims(x, 0)
            return ops.squeeze(
                window.pool2d(kind, image, self.kernel_size, self.stride, self.pad_mode), 0)
        return window.pool2d(kind, x, self.kernel_size, self.stride, self.pad_mode)

    def extend_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, pad_mode={self.pad_mode}"


class MaxPool2d(_Pool):
    """The largest element of each window of (N, C, H, W) or (C, H, W).

    Args:
        kernel_size, stride: an int, or rows and columns.
        pad_mode: `"valid"`, `"same"` (the output has ceil(H / stride) rows) or `"pad"`.
        padding, dilation: an int, or rows and columns; in the mode `"pad"` only, like:
        return_indices: return also the flat position of each in its plane.
        ceil_mode: a last window may reach beyond the image.
        data_format: `"NCHW"`.
    """

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
        dilation: Any = 1, return_indices: bool = False, ceil_mode: bool = False,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        if data_format != "NCHW":
            raise misuse("MaxPool2d", "only 'NCHW' is possible", repr(data_format))
        extras = padding != 0 or dilation != 1 or return_indices or ceil_mode
        self._window(kernel_size, stride, pad_mode, extras)
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def construct(self, x: Tensor) -> Any:
        """(N, C, H, W) to (N, C, H', W')."""
        if self.is_expand:
            return ops.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation,
                                  self.return_indices, self.ceil_mode)
        return self._pooled("max", x)


class MaxPool1d(_Pool):
    """The largest element of each window of (N, C, L) or (C, L).

    Args:
        As in `MaxPool2d`, with ints.
    """

    def __init__(
        self, kernel_size: Positive = 1, stride: Positive = 1, pad_mode: str = "valid",
        padding: Any = 0, dilation: Any = 1, return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        size = kernel_size
        step = stride
        extras = padding != 0 or dilation != 1 or return_indices or ceil_mode
        self._window((1, size), (1, step), pad_mode, extras)
        self.padding = (0, *_each(padding, 1))
        self.dilation = (1, *_each(dilation, 1))
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def construct(self, x: Tensor) -> Any:
        """(N, C, L) to (N, C, L')."""
        lines = ops.expand_dims(x, -2)
        if x.ndim == 2:
            lines = ops.expand_dims(lines, 0)
        if self.is_expand:
            out = ops.max_pool2d(lines, self.kernel_size, self.stride, self.padding,
                                 self.dilation, self.return_indices, self.ceil_mode)
        else:
            out = window.pool2d("max", lines, self.kernel_size, self.stride, self.pad_mode)
        if self.return_indices:
            return tuple([_line(part, x.ndim) for part in out])
        return _line(out, x.ndim)


def _line(x: Tensor, rank: int) -> Tensor:
    """(N, C, 1, L) without the axis of one row, and without N for an input without it."""
    x = ops.squeeze(x, 2)
    if rank == 2:
        x = ops.squeeze(x, 0)
    return x


class _AvgPool(_Pool):
    """Mean pooling: what a sum is divided by."""

    def _counts(
        self, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None
    ) -> None:
        if divisor_override is not None:
            POSITIVE(divisor_override, self.cls_name, "divisor_override")
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override or 0


class AvgPool2d(_AvgPool):
    """The mean of each window of (N, C, H, W) or (C, H, W).

    Args:
        kernel_size, stride: an int, or rows and columns.
        pad_mode: `"valid"`, `"same"` (padding does not count) or `"pad"`.
        padding: an int, or rows and columns; in the mode `"pad"` only, like:
        ceil_mode: a last window may reach beyond the image.
        count_include_pad: padding counts as elements.
        divisor_override: divide every sum by this.
        data_format: `"NCHW"`.
    """

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
        ceil_mode: Flag = False, count_include_pad: bool = True,
        divisor_override: int | None = None, data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        if data_format != "NCHW":
            raise misuse("AvgPool2d", "only 'NCHW' is possible", repr(data_format))
        extras = padding != 0 or ceil_mode or divisor_override is not None
        self._window(kernel_size, stride, pad_mode, extras)
        self._counts(padding, ceil_mode, count_include_pad, divisor_override)

    def construct(self, x: Tensor) -> Tensor:
        """(N, C, H, W) to (N, C, H', W')."""
        if self.is_expand:
            return ops.avg_pool2d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                                  self.count_include_pad, self.divisor_override)
        return self._pooled("avg", x)


class AvgPool1d(_Pool):
    """The mean of each window of (N, C, L) or (C, L).

    Args:
        As in `AvgPool2d`, with ints.
    """

    def __init__(
        self, kernel_size: Positive = 1, stride: Positive = 1, pad_mode: str = "valid",
        padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        size = kernel_size
        step = stride
        self._window((1, size), (1, step), pad_mode, padding != 0 or ceil_mode)
        self.padding = (0, *_each(padding, 1))
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def extend_repr(self) -> str:
        """The window, which MindSpore prints as ints in the mode "pad"."""
        if not self.is_expand:
            return super().extend_repr()
        return f"kernel_size={self.kernel_size[1]}, stride={self.stride[1]}, pad_mode=PAD"

    def construct(self, x: Tensor) -> Tensor:
        """(N, C, L) to (N, C, L')."""
        lines = ops.expand_dims(x, -2)
        if x.ndim == 2:
            lines = ops.expand_dims(lines, 0)
        if self.is_expand:
            out = ops.avg_pool2d(lines, self.kernel_size, self.stride, self.padding,
                                 self.ceil_mode, self.count_include_pad)
        else:
            out = window.pool2d("avg", lines, self.kernel_size, self.stride, self.pad_mode)
        return _line(out, x.ndim)


# --- three axes ----------------------------------------------------------------------------------


class MaxPool3d(_Pool, spatial=3):
    """The largest element of each window of (N, C, D, H, W).

    Args:
        As in `MaxPool2d`, with three axes; positions are those in the flattened (D, H, W).
    """

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
        dilation: Any = 1, return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        extras = padding != 0 or dilation != 1 or return_indices or ceil_mode
        self._window(kernel_size, stride, pad_mode, extras)
        self.padding = padding
        self.dilation = dilation
        self.return_indices = instance(bool)(return_indices, self.cls_name, "return_indices")
        self.ceil_mode = ceil_mode

    def construct(self, x: Tensor) -> Any:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        if self.is_expand:
            return ops.max_pool3d(x, self.kernel_size, self.stride, self.padding, self.dilation,
                                  self.ceil_mode, self.return_indices)
        return volume.pool3d("max", x, self.kernel_size, self.stride, self.pad_mode)


class AvgPool3d(_AvgPool, spatial=3):
    """The mean of each window of (N, C, D, H, W).

    Args:
        As in `AvgPool2d`, with three axes.
    """

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        extras = padding != 0 or ceil_mode or divisor_override is not None
        self._window(kernel_size, stride, pad_mode, extras)
        self._counts(padding, ceil_mode, count_include_pad, divisor_override)

    def construct(self, x: Tensor) -> Tensor:
        """(N, C, D, H, W) to (N, C, D', H', W')."""
        if self.is_expand:
            return ops.avg_pool3d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                                  self.count_include_pad, self.divisor_override)
        return volume.pool3d("avg", x, self.kernel_size, self.stride, self.pad_mode,
                             self.count_include_pad)


# --- by the size of the output -------------------------------------------------------------------


def _output_size(output_size: Any, count: int, what: str) -> Any:
    """A size for each axis (None: that of the input), or one int for all."""
    if not isinstance(output_size, list):
        instance(int, tuple)(output_size, what, "output_size")
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * count
    if len(sizes) != count:
        raise misuse(what, f"'output_size' must hold {count} sizes", output_size)
    for size in sizes:
        if size is not None and INT(size, what, "output_size") < 1:
            raise misuse(what, "the 'output_size' must be positive", output_size)
    return tuple(sizes)


class _Adaptive(OfInput):
    """Windows that divide the last axes, so that `output_size` come out."""

    _spatial = 2
    output_size: Any

    def __post_init__(self) -> None:
        self.output_size = _output_size(self.output_size, self._spatial, self.cls_name)


class AdaptiveAvgPool2d(_Adaptive, function=ops.adaptive_avg_pool2d):
    """Means of windows so that the output has a given size. Source: `nn.AdaptiveAvgPool2d`.

    Args:
        output_size: rows and columns (None: those of the input), or one int for both.
    """


class AdaptiveMaxPool2d(_Adaptive, function=ops.adaptive_max_pool2d):
    """Maxima of windows so that the output has a given size. Source: `nn.AdaptiveMaxPool2d`.

    Args:
        output_size: rows and columns (None: those of the input), or one int for both.
        return_indices: return also the flat position of each in its plane.
    """

    output_size: Any
    return_indices: Flag = False


class AdaptiveAvgPool1d(OfInput, function=ops.adaptive_avg_pool1d):
    """Means of windows of (N, C, L) so that `output_size` come out. `nn.AdaptiveAvgPool1d`."""

    output_size: Positive


class AdaptiveMaxPool1d(OfX, function=ops.adaptive_max_pool1d):
    """Maxima of windows of (N, C, L) so that `output_size` come out. `nn.AdaptiveMaxPool1d`."""

    output_size: Positive


class AdaptiveAvgPool3d(_Adaptive, _spatial=3, function=ops.adaptive_avg_pool3d):
    """Means of windows of (N, C, D, H, W) for an output size. Source: `nn.AdaptiveAvgPool3d`.

    Args:
        output_size: depth, rows and columns (None: those of the input), or one int for all.
    """


class AdaptiveMaxPool3d(_Adaptive, _spatial=3, function=ops.adaptive_max_pool3d):
    """Maxima of windows of (N, C, D, H, W) for an output size. Source: `nn.AdaptiveMaxPool3d`.

    Args:
        output_size: depth, rows and columns (None: those of the input), or one int for all.
        return_indices: return also the position of each in the flattened (D, H, W), int32.
    """

    output_size: Any
    return_indices: Flag = False


class LPPool2d(OfX, function=ops.lp_pool2d):
    """The p-norm of each window of (N, C, H, W).

    Args:
        norm_type: p.
        kernel_size, stride: an int, or rows and columns; the stride is the kernel if None.
        ceil_mode: a last window may reach beyond the image.
    """

    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


class LPPool1d(OfX, function=ops.lp_pool1d):
    """The p-norm of each window of (N, C, L) or (C, L), (sum of x ** p) ** (1 / p), with p =
    `norm_type`. Windows have `kernel_size` elements and lie `stride` apart."""

    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


# --- back from maxima ----------------------------------------------------------------------------


class _MaxUnpool(Family):
    """Maxima put back where they came from, zeros elsewhere.

    Args:
        kernel_size, stride, padding: of the pooling; the stride is the kernel if None.
    """

    spatial = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        what = self.cls_name
        n = self.spatial
        self.kernel_size = per_axis(n)(kernel_size, what, "kernel_size")
        self.stride = self.kernel_size if stride is None else \
            per_axis(n)(stride, what, "stride")
        self.padding = per_axis(n, 0)(padding, what, "padding")

    def construct(self, x: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """(N, C, L') and the positions pooling gave, to (N, C, L) before it.

        Args:
            output_size: the last axes of the result; the smallest possible if None.
        """
        return self._function(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool, spatial=1, function=ops.max_unpool1d):
    """The maxima of `MaxPool1d` of (N, C, L) put back at the places that it gave, zeros elsewhere;
    `kernel_size`, `stride` and `padding` are those of the pool."""


class MaxUnpool2d(_MaxUnpool, spatial=2, function=ops.max_unpool2d):
    """The maxima of `MaxPool2d` of (N, C, H, W) put back at the places that it gave, zeros
    elsewhere; `kernel_size`, `stride` and `padding` are those of the pool."""


class MaxUnpool3d(_MaxUnpool, spatial=3, function=ops.max_unpool3d):
    """The maxima of `MaxPool3d` of (N, C, D, H, W) put back at the places that it gave, zeros
    elsewhere; `kernel_size`, `stride` and `padding` are those of the pool."""


# --- at drawn places ------------------------------------------------------------------------------


class _Fractional(OfInput):
    """The largest element of windows at drawn places (Graham, "Fractional Max-Pooling", 2014).

    Args:
        kernel_size: size of a window.
        output_size: size of the result; or
        output_ratio: what part of the input's that is, in (0, 1).
        return_indices: return also the flat position of each, int64.
        _random_samples: (N, C, axes) numbers in [0, 1) that place the windows; drawn if None.
    """

    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: Tensor | None = None


class FractionalMaxPool2d(_Fractional, function=ops.fractional_max_pool2d):
    """The largest element of each of `output_size` windows at drawn places of (N, C, H, W) or (C,
    H, W) (Graham, 2014)."""


class FractionalMaxPool3d(_Fractional, function=ops.fractional_max_pool3d):
    """`FractionalMaxPool2d` for volumes (N, C, D, H, W) or (C, D, H, W): the largest element of
    windows at drawn places."""
