"""Primitive classes of windows, volumes, images and matrices: `ops.Conv3D`, `ops.MaxPool3D`, ..."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, float32, int32, int64

from ...core.declared import misuse
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import choice, ints, is_int, tensor
from ..functional import (
    arith,
    band,
    classes,
    creation,
    draws,
    elimination,
    joining,
    linalg,
    orthogonal,
    reductions,
    sampling,
    shapes,
    sorting,
    volume,
    window,
)
from ..primitive import Primitive
from .tables import make_primitives

Pair = tuple[Tensor, Tensor]


# --- windows --------------------------------------------------------------------------------------


def _pads(given: Any, what: str) -> tuple[int, ...]:
    """Zeros before and after depth, rows and columns."""
    pads = (int(given),) * 6 if is_int(given) else ints(given, what, "pad")
    if len(pads) != 6 or min(pads) < 0:
        raise misuse(what, "'pad' must be an int or 6 ints of 0 or more", given)
    return pads


def _same_on_both_sides(given: Any, what: str) -> tuple[int, int, int]:
    p = _pads(given, what)
    if p[::2] != p[1::2]:
        raise misuse(what, "zeros must be as many before as after an axis", given)
    return p[0], p[2], p[4]


def _mode(pad_mode: Any, what: str) -> str:
    return choice(str(pad_mode).lower(), ("same", "valid", "pad"), what, "pad_mode")


def _volume_pool(kind: str, what: str) -> Callable[..., Tensor]:
    def max_pool(x: Tensor, kernel_size: Any, strides: Any, pad_mode: str, pad_list: Any,
                 ceil_mode: bool | None, data_format: str) -> Tensor:
        if _mode(pad_mode, what) != "pad":
            return volume.pool3d(kind, x, kernel_size, strides, pad_mode)
        out: Tensor = volume.max_pool3d(
            x, kernel_size, strides, _same_on_both_sides(pad_list, what), 1, bool(ceil_mode))
        return out

    def mean_pool(x: Tensor, kernel_size: Any, strides: Any, pad_mode: str, pad: Any,
                  ceil_mode: bool, count_include_pad: bool, divisor_override: int,
                  data_format: str) -> Tensor:
        if _mode(pad_mode, what) == "same":
            return volume.pool3d(kind, x, kernel_size, strides, pad_mode, count_include_pad)
        zeros = _same_on_both_sides(pad, what)
        return volume.avg_pool3d(x, kernel_size, strides, zeros, ceil_mode, count_include_pad,
                                 divisor_override)

    return max_pool if kind == "max" else mean_pool


def _max_pool_argmax(
    x: Tensor, ksize: Any, strides: Any, pads: Any, dilation: Any, ceil_mode: bool,
    data_format: str, argmax_type: DType,
) -> Pair:
    values, index = volume.max_pool3d(x, ksize, strides, pads, dilation, ceil_mode, True)
    return values, cast_to(index, argmax_type)


def _unpooled(spatial: int) -> Callable[..., Tensor]:
    function = volume.max_unpool2d if spatial == 2 else volume.max_unpool3d

    def unpool(x: Tensor, argmax: Tensor, ksize: Any, strides: Any, pads: Any, output_shape: Any,
               data_format: str) -> Tensor:
        stride = None if strides in (0, (0,) * spatial) else strides
        return function(x, argmax, ksize, stride, pads, tuple(output_shape) or None)

    return unpool


def _conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, out_channel: int, kernel_size: Any,
    mode: int, pad_mode: str, pad: Any, stride: Any, dilation: Any, group: int, data_format: str,
) -> Tensor:
    five = tuple(v[-3:] if isinstance(v, (list, tuple)) else v for v in (stride, dilation))
    return window.conv3d(x, weight, bias, five[0], pad_mode, pad, five[1], group)


def _conv3d_transpose(
    dout: Tensor, weight: Tensor, bias: None = None, *, in_channel: int, out_channel: int,
    kernel_size: Any, mode: int, pad_mode: str, pad: Any, stride: Any, dilation: Any, group: int,
    output_padding: Any, data_format: str,
) -> Tensor:
    if bias is not None:
        raise misuse("Conv3DTranspose", "'bias' must be None; add it to the result")
    return volume.conv3d_transpose(dout, weight, pad_mode, pad, stride, dilation, group,
                                   output_padding)


def _columns(x: Tensor, ksizes: Any, strides: Any, dilations: Any, pads: Any) -> Tensor:
    """Sliding blocks (N, C, elements of a block, blocks)."""
    out = window.unfold(x, ksizes, dilations, pads, strides)
    return shapes.reshape(out, (out.shape[0], x.shape[1], -1, out.shape[-1]))


def _dropped(x: Tensor, keep_prob: float) -> Pair:
    ones = creation.ones((*x.shape[:2], 1, 1, 1), x.dtype)
    mask = draws.dropout3d(ones, 1.0 - keep_prob)
    return arith.mul(x, mask), shapes.broadcast_to(arith.ne(mask, 0), x.shape)


# --- images ---------------------------------------------------------------------------------------


def _sampled(input_x: Tensor, grid: Tensor, interpolation_mode: str, padding_mode: str,
             align_corners: bool) -> Tensor:
    return sampling.grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)


def _resized(mode: str, what: str) -> Callable[..., Tensor]:
    """An image (N, C, H, W) of another size, by where MindSpore's options put the pixels."""
    def resize(image: Tensor, size: Any, align_corners: bool, half_pixel_centers: bool) -> Tensor:
        x, new = window.image_of(image, 2, what), ints(size, what, "size")
        if len(new) != 2 or min(new) < 1:
            raise misuse(what, "'size' must be 2 positive ints", size)
        if align_corners and half_pixel_centers:
            raise misuse(what, "only one of 'align_corners' and 'half_pixel_centers' can be True")
        x = x if mode == "nearest" or x.dtype.is_float else cast_to(x, float32)
        for axis, n in zip((2, 3), new, strict=True):
            x = window._resize_axis(x, axis, n, mode, align_corners, None, half_pixel_centers)
        return x

    return resize


def _resized_line(x: Tensor, size: Any, coordinate_transformation_mode: str) -> Tensor:
    align = choice(coordinate_transformation_mode, ("align_corners", "half_pixel"),
                   "ResizeLinear1D", "coordinate_transformation_mode") == "align_corners"
    return window.interpolate(x, ints(size, "ResizeLinear1D", "size")[0], None, "linear", align)


def _upsampled(x: Tensor, output_size: Any = None, scales: Any = None, *, mode: str,
               align_corners: bool | None = None) -> Tensor:
    return window.interpolate(x, output_size, None if scales is None else tuple(scales), mode,
                              align_corners)


def _nearest_volume(x: Tensor, output_size: Any = None, scales: Any = None) -> Tensor:
    return _upsampled(x, output_size, scales, mode="nearest")


def _linear_volume(x: Tensor, output_size: Any = None, scales: Any = None, *,
                   align_corners: bool) -> Tensor:
    return _upsampled(x, output_size, scales, mode="trilinear", align_corners=align_corners)


# --- matrices -------------------------------------------------------------------------------------


def _qr(x: Tensor, full_matrices: bool) -> Pair:
    return orthogonal.qr(x, "complete" if full_matrices else "reduced")


def _triangular(matrix: Tensor, rhs: Tensor, lower: bool, adjoint: bool) -> Tensor:
    return orthogonal.triangular_solve(rhs, matrix, not lower, adjoint)[0]


def _median(x: Tensor, global_median: bool, axis: int, keep_dims: bool, ignore_nan: bool) -> Pair:
    if ignore_nan:
        raise misuse("Median", "'ignore_nan' must be False on a CPU")
    if not global_median:
        return sorting.median(x, axis, keep_dims)
    line = shapes.reshape(x, (-1,))
    value = sorting.median(line, 0)[0]
    return value, reductions.argmax(
        cast_to(arith.eq(line, value), int32), 0)  # the first of equal ones


def _cumulative(x: Tensor, axis: Any, exclusive: bool, reverse: bool) -> Tensor:
    """log of the running sums of exponentials."""
    a = int(axis)
    line = shapes.flip(x, (a % x.ndim,)) if reverse else x
    out = reductions.logcumsumexp(line, a)
    if exclusive:
        n = x.shape[a]
        first = creation.full_like(
            joining.part(out, a % x.ndim, 0, 1), -float(arith.largest(x.dtype)))
        out = joining.concat((first, joining.part(out, a % x.ndim, 0, n - 1)), a)
    return shapes.flip(out, (a % x.ndim,)) if reverse else out


def _log_space(start: Tensor, end: Tensor, steps: int, base: int, dtype: DType) -> Tensor:
    return cast_to(arith.pow(float(base), creation.linspace(start, end, int(steps))), dtype)


def _inverted(input_x: Any) -> tuple[int, ...]:
    """The permutation that undoes one given as a tuple of ints."""
    p = ints(input_x, "InvertPermutation", "input_x")
    if sorted(p) != list(range(len(p))):
        raise misuse("InvertPermutation", f"'input_x' must hold each of 0 to {len(p) - 1} once", p)
    return tuple(p.index(i) for i in range(len(p)))


def _equal_count(x: Tensor, y: Tensor) -> Tensor:
    return shapes.reshape(cast_to(reductions.sum(cast_to(arith.eq(x, y), int64)), x.dtype), (1,))


_PLAIN: dict[str, Callable[..., Any]] = {
    "AdaptiveMaxPool3D": lambda x, output_size: volume.adaptive_max_pool3d(
        x, ints(output_size, "AdaptiveMaxPool3D", "output_size"), True),
    "EqualCount": _equal_count, "FillV2": lambda shape, value: shapes.broadcast_to(
        tensor(value, "FillV2", "value"), ints(shape, "FillV2", "shape")),
    "InvertPermutation": _inverted, "UpsampleNearest3D": _nearest_volume,
}

_WINDOW = {"mode": 1, "pad_mode": "valid", "pad": 0, "stride": 1, "dilation": 1, "group": 1}
_FLAGS = {"align_corners": False, "half_pixel_centers": False}
_GRID = {"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "AvgPool3D": (_volume_pool("avg", "AvgPool3D"), {
        "kernel_size": 1, "strides": 1, "pad_mode": "valid", "pad": 0, "ceil_mode": False,
        "count_include_pad": True, "divisor_override": 0, "data_format": "NCDHW"}),
    "Cholesky": (elimination.cholesky, {"upper": False}),
    "CholeskyInverse": (elimination.cholesky_inverse, {"upper": False}),
    "CholeskySolve": (elimination.cholesky_solve, {"upper": False}),
    "Col2Im": (lambda x, output_size, kernel_size, dilation, padding, stride: band.col2im(
        x, output_size, kernel_size, dilation, padding, stride),
        {"kernel_size": REQUIRED, "dilation": 1, "padding": 0, "stride": 1}),
    "Conv3D": (_conv3d, {"out_channel": REQUIRED, "kernel_size": REQUIRED, **_WINDOW,
                         "data_format": "NCDHW"}),
    "Conv3DTranspose": (_conv3d_transpose, {
        "in_channel": REQUIRED, "out_channel": REQUIRED, "kernel_size": REQUIRED, **_WINDOW,
        "output_padding": 0, "data_format": "NCDHW"}),
    "CumulativeLogsumexp": (_cumulative, {"exclusive": False, "reverse": False}),
    "Dropout3D": (_dropped, {"keep_prob": 0.5}),
    "GridSampler2D": (_sampled, _GRID), "GridSampler3D": (_sampled, _GRID),
    "Im2Col": (_columns, {"ksizes": REQUIRED, "strides": 1, "dilations": 1, "pads": 0}),
    "LogSpace": (_log_space, {"steps": 10, "base": 10, "dtype": float32}),
    "MatrixPower": (linalg.matrix_power, {"n": REQUIRED}),
    "MatrixSolve": (elimination.matrix_solve, {"adjoint": False}),
    "MatrixTriangularSolve": (_triangular, {"lower": True, "adjoint": False}),
    "MaxPool3D": (_volume_pool("max", "MaxPool3D"), {
        "kernel_size": 1, "strides": 1, "pad_mode": "VALID", "pad_list": 0, "ceil_mode": None,
        "data_format": "NCDHW"}),
    "MaxPool3DWithArgmax": (_max_pool_argmax, {
        "ksize": REQUIRED, "strides": REQUIRED, "pads": REQUIRED, "dilation": (1, 1, 1),
        "ceil_mode": False, "data_format": "NCDHW", "argmax_type": int64}),
    "MaxUnpool2D": (_unpooled(2), {"ksize": REQUIRED, "strides": 0, "pads": 0, "output_shape": (),
                                   "data_format": "NCHW"}),
    "MaxUnpool3D": (_unpooled(3), {"ksize": REQUIRED, "strides": 0, "pads": 0, "output_shape": (),
                                   "data_format": "NCDHW"}),
    "Median": (_median, {"global_median": False, "axis": 0, "keep_dims": False,
                         "ignore_nan": False}),
    "Mvlgamma": (classes.mvlgamma, {"p": REQUIRED}),
    "Qr": (_qr, {"full_matrices": False}),
    "ResizeBicubic": (_resized("bicubic", "ResizeBicubic"), _FLAGS),
    "ResizeBilinearV2": (_resized("bilinear", "ResizeBilinearV2"), _FLAGS),
    "ResizeLinear1D": (_resized_line, {"coordinate_transformation_mode": "align_corners"}),
    "ResizeNearestNeighborV2": (_resized("nearest", "ResizeNearestNeighborV2"), _FLAGS),
    "Svd": (orthogonal.svd, {"full_matrices": False, "compute_uv": True}),
    "UpsampleTrilinear3D": (_linear_volume, {"align_corners": False}),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives(_PLAIN, _WITH_INIT)
"""Every primitive class of this module by name."""
