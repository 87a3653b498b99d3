"""Sliding windows: convolutions, pooling, unfolding and resizing of images.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic, largest, surely_at_least
from cellc_runtime.dtypes import float64, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native
from ...tensors.promotion import cast_to, operands
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import (
    Ints,
    boolean,
    choice,
    finite,
    flag,
    integer,
    not_negative,
    number,
    positive,
    ranked,
    repeated,
    size,
    tensor,
)
from ..operands import operands_of
from . import arith, creation, joining, reductions, shapes

PadMode = str


def image_of(x: Any, spatial: int, what: str) -> Tensor:
    """A batch (N, C, spatial...)."""
    return ranked(x, spatial + 2, spatial + 2, what)


# --- convolution ----------------------------------------------------------------------------------


def same_pads(size: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """Zeros before and after each axis so that the output has ceil(size / stride) positions."""
    out: list[int] = []
    for d, k, s, gap in zip(size, kernel, stride, dilation, strict=True):
        total = (-(-d // s) - 1) * s + (k - 1) * gap + 1 - d
        total = total if surely_at_least(total, 0) else largest(0, total)
        out += [total // 2, total - total // 2]
    return tuple(out)


def mode_pads(
    pad_mode: PadMode, padding: Any, size: Ints, kernel: Ints, stride: Ints, dilation: Ints,
    what: str,
) -> Ints:
    """Zeros (before, after) per spatial axis from a pad mode."""
    n = len(kernel)
    mode = choice(str(pad_mode).lower(), ("valid", "same", "pad"), what, "pad_mode")
    given = pads_per_side(padding, n, what)
    if mode != "pad" and any(given):
        raise misuse(what, "the 'padding' must be zero when 'pad_mode' is not 'pad'",
                     f"'padding': {padding} and 'pad_mode': {pad_mode}")
    if any(p < 0 for p in given):
        raise misuse(what, "'padding' must be non-negative", padding)
    return same_pads(size, kernel, stride, dilation) if mode == "same" else given


def pads_per_side(padding: Any, n: int, what: str) -> Ints:
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * n and n > 1:
        return tuple(integer(p, what, "padding") for p in padding)
    per_axis = repeated(padding, n, what, "padding")
    return tuple(p for p in per_axis for _ in range(2))


@native
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """2-D convolution of (N, C, H, W) with weights (O, C / groups, kH, kW).

    Args:
        bias: (O), added to every position.
        stride, dilation: rows and columns, one int for both.
        pad_mode: `"valid"` no padding; `"same"` the output has ceil(H / stride) rows; `"pad"`
            `padding` zeros on each side.
        padding: an int, (rows, columns), or (top, bottom, left, right).
        groups: groups of channels convolved apart.
    """
    x, w = operands("conv2d", image_of(input, 2, "conv2d"), tensor(weight, "conv2d", "weight"))
    known = x._eager and w._eager and type(pad_mode) is str and all(
        map(_is_plain, (stride, padding, dilation, groups)))
    attrs = (_known_conv2d if known else _conv2d_attrs)(
        x.shape, w.shape, stride, pad_mode, padding, dilation, groups)
    out: Tensor = apply("conv2d", x, w, **attrs)
    return _add_bias(out, bias, "conv2d")


def _is_plain(option: Any) -> bool:
    """Whether an option is an int or a tuple of ints (equal ones then mean the same)."""
    return type(option) is int or (type(option) is tuple and _INT.issuperset(map(type, option)))


_INT = frozenset((int,))


def _conv2d_attrs(
    x: Ints, w: Ints, stride: Any, pad_mode: str, padding: Any, dilation: Any, groups: Any
) -> dict[str, Any]:
    """The attributes of a convolution of an image and weights of these shapes."""
    if len(w) != 4:
        raise misuse("conv2d", f"'weight' must have 4 axes, but has shape {w}")
    steps = positive(stride, 2, "conv2d", "stride")
    gaps = positive(dilation, 2, "conv2d", "dilation")
    count = _groups(x[1], w, groups)
    pads = mode_pads(pad_mode, padding, x[2:], w[2:], steps, gaps, "conv2d")
    return {"stride": steps, "pads": pads, "dilation": gaps, "groups": count}


_known_conv2d = lru_cache(maxsize=1024)(_conv2d_attrs)  # Where sizes are ints


def _groups(channels: int, weight: Ints, groups: Any) -> int:
    n = integer(groups, "conv2d", "groups")
    if n < 1 or channels != weight[1] * n or weight[0] % n:
        raise misuse("conv2d", f"{channels} input channels in {groups} groups do not fit weights "
                     f"of shape {weight}: their second axis must be the channels of a group")
    return n


def _add_bias(x: Tensor, bias: Tensor | None, what: str) -> Tensor:
    if bias is None:
        return x
    _, b = operands_of(what, "input (n, c, ...), bias (c)", x, bias)
    return x + shapes.reshape(cast_to(b, x.dtype), (x.shape[1],) + (1,) * (x.ndim - 2))


@native
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """1-D convolution of (N, C, L) with weights (O, C / groups, k): `conv2d` on one row."""
    x, w = image_of(input, 1, "conv1d"), ranked(weight, 3, 3, "conv1d", "weight")
    (step,) = repeated(stride, 1, "conv1d", "stride")
    (gap,) = repeated(dilation, 1, "conv1d", "dilation")
    pads = mode_pads(pad_mode, padding, x.shape[2:], w.shape[2:], (step,), (gap,), "conv1d")
    out = conv2d(shapes.expand_dims(x, 2), shapes.expand_dims(w, 2), bias, (1, step), "pad",
                 (0, 0, *pads), (1, gap), groups)
    return shapes.squeeze(out, 2)


@native
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Tensor:
    """3-D convolution of (N, C, D, H, W) with weights (O, C / groups, kD, kH, kW).

    Computed as one `conv2d` for each depth of the kernel, summed.
    """
    x, w = operands("conv3d", image_of(input, 3, "conv3d"), tensor(weight, "conv3d", "weight"))
    steps = repeated(stride, 3, "conv3d", "stride")
    gaps = repeated(dilation, 3, "conv3d", "dilation")
    pads = mode_pads(pad_mode, padding, x.shape[2:], w.shape[2:], steps, gaps, "conv3d")
    padded = shapes.pad(x, (0, 0, 0, 0, *pads[:2])) if any(pads[:2]) else x
    n, c, depth = padded.shape[:3]
    count = (depth - gaps[0] * (w.shape[2] - 1) - 1) // steps[0] + 1
    total: Tensor | None = None
    for k in range(w.shape[2]):
        first = k * gaps[0]
        taken = padded[:, :, first : first + (count - 1) * steps[0] + 1 : steps[0]]
        planes = shapes.reshape(shapes.swapaxes(taken, 1, 2), (n * count, c, *x.shape[3:]))
        out = conv2d(planes, w[:, :, k], None, steps[1:], "pad", pads[2:], gaps[1:], groups)
        total = out if total is None else arith.add(total, out)
    assert total is not None
    shaped = shapes.reshape(total, (n, count, *total.shape[1:]))
    return _add_bias(shapes.swapaxes(shaped, 1, 2), bias, "conv3d")


@native
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
    padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Tensor:
    """The adjoint of `conv2d`: (N, C, H, W) with weights (C, O / groups, kH, kW) to (N, O, ...).

    Rows of the result: (H - 1) * stride - 2 * padding + dilation * (kH - 1) + output_padding + 1.
    """
    what = "conv_transpose2d"
    x, w = operands(what, image_of(input, 2, what), tensor(weight, what, "weight"))
    steps = positive(stride, 2, what, "stride")
    gaps = positive(dilation, 2, what, "dilation")
    pads, extra = repeated(padding, 2, what, "padding"), \
        repeated(output_padding, 2, what, "output_padding")
    if x.shape[1] != w.shape[0]:
        raise misuse(what, f"weights {w.shape} do not fit an input {x.shape}")
    size = tuple(
        (d - 1) * s - 2 * p + g * (k - 1) + e + 1 for d, s, p, g, k, e in
        zip(x.shape[2:], steps, pads, gaps, w.shape[2:], extra, strict=True)
    )
    return _add_bias(_adjoint(x, w, size, steps, tuple(p for p in pads for _ in (0, 1)), gaps,
                              integer(groups, what, "groups")), bias, what)


def _adjoint(
    x: Tensor, w: Tensor, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> Tensor:
    return apply_one("conv2d_backward_data", x, w, size=size, stride=stride, pads=pads,
                     dilation=dilation, groups=groups)


def conv2d_adjoint(
    dout: Tensor, weight: Tensor, size: Ints, stride: Any, pad_mode: str, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:
    """The image (N, C, *size) whose `conv2d` with these options has the cotangent `dout`."""
    what = "Conv2DTranspose"
    x, w = operands(what, image_of(dout, 2, what), tensor(weight, what, "weight"))
    steps = repeated(stride, 2, what, "stride")
    gaps = repeated(dilation, 2, what, "dilation")
    pads = mode_pads(pad_mode, padding, size, w.shape[2:], steps, gaps, what)
    return _adjoint(x, w, size, steps, pads, gaps, groups)


# --- pooling --------------------------------------------------------------------------------------


def window_sizes(
    kernel: Any, stride: Any, padding: Any, n: int, what: str
) -> tuple[Ints, Ints, Ints]:
    """Kernel, stride (the kernel if None) and padding per axis."""
    size = positive(kernel, n, what, "kernel_size")
    step = size if stride is None else positive(stride, n, what, "stride")
    pad = repeated(padding, n, what, "padding")
    if any(p < 0 or p > k // 2 for p, k in zip(pad, size, strict=True)):
        raise misuse(what, f"'padding' must be between 0 and half the kernel {size}", padding)
    return size, step, pad


def with_batch(x: Any, spatial: int, what: str) -> tuple[Tensor, bool]:
    """The input with a batch axis, and whether it had to be added."""
    t = tensor(x, what)
    return (shapes.expand_dims(t, 0), True) if t.ndim == spatial + 1 else \
        (image_of(t, spatial, what), False)


def without_batch(x: Tensor, added: bool) -> Tensor:
    return shapes.squeeze(x, 0) if added else x


@native
def max_pool2d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    return_indices: bool = False, ceil_mode: bool = False,
) -> Any:
    """The largest element of each window of (N, C, H, W).

    Args:
        kernel_size, stride, padding, dilation: rows and columns; the stride is the kernel if None.
        return_indices: also the flat position of each in its plane, int64.
        ceil_mode: a last window may reach beyond the image.
    """
    t, added = with_batch(x, 2, "max_pool2d")
    size, step, pad = window_sizes(kernel_size, stride, padding, 2, "max_pool2d")
    gaps = positive(dilation, 2, "max_pool2d", "dilation")
    out = apply("max_pool2d", t, kernel=size, stride=step, pads=(pad[0], pad[0], pad[1], pad[1]),
                dilation=gaps, ceil_mode=boolean(ceil_mode, "max_pool2d", "ceil_mode"),
                indices=flag(return_indices, "max_pool2d", "return_indices"))
    if return_indices:
        return without_batch(out[0], added), cast_to(without_batch(out[1], added), int64)
    return without_batch(out, added)


def pool2d(kind: str, x: Tensor, kernel_size: Any, strides: Any, pad_mode: str) -> Tensor:
    """`MaxPool` and `AvgPool`: windows by a pad mode, padding never counted.

    Args:
        kind: `"max"` or `"avg"`.
        pad_mode: `"valid"` or `"same"`, in any case.
    """
    t = image_of(x, 2, "pool2d")
    size = repeated(kernel_size, 2, kind, "kernel_size")
    step = repeated(strides, 2, kind, "strides")
    mode = choice(pad_mode.lower(), ("valid", "same"), kind, "pad_mode")
    pads = same_pads(t.shape[2:], size, step, (1, 1)) if mode == "same" else (0, 0, 0, 0)
    extra = {"dilation": (1, 1)} if kind == "max" else {"count_include_pad": False}
    return apply_one(f"{kind}_pool2d", t, kernel=size, stride=step, pads=pads, **extra)


def max_pool1d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """The largest element of each window of (N, C, L)."""
    t, added = with_batch(x, 1, "max_pool1d")
    (size,), (step,), (pad,) = window_sizes(kernel_size, stride, padding, 1, "max_pool1d")
    (gap,) = repeated(dilation, 1, "max_pool1d", "dilation")
    out = max_pool2d(shapes.expand_dims(t, 2), (1, size), (1, step), (0, pad), (1, gap), False,
                     ceil_mode)
    return without_batch(shapes.squeeze(out, 2), added)


@native
def avg_pool2d(
    input_x: Tensor, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int = 0,
) -> Tensor:
    """The mean of each window of (N, C, H, W).

    Args:
        kernel_size, stride, padding: rows and columns.
        ceil_mode: a last window may reach beyond the image.
        count_include_pad: padding counts as elements.
        divisor_override: divide every sum by this (0: by the number of elements).
    """
    t, added = with_batch(input_x, 2, "avg_pool2d")
    size, step, pad = window_sizes(kernel_size, stride, padding, 2, "avg_pool2d")
    out: Tensor = apply(
        "avg_pool2d", t, kernel=size, stride=step, pads=(pad[0], pad[0], pad[1], pad[1]),
        ceil_mode=boolean(ceil_mode, "avg_pool2d", "ceil_mode"),
        count_include_pad=flag(count_include_pad, "avg_pool2d", "count_include_pad"),
        divisor=integer(divisor_override, "avg_pool2d", "divisor_override") or None,
    )
    return without_batch(out, added)


@native
def avg_pool1d(
    input_x: Tensor, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of `kernel_size` elements of (N, C, L), `stride` apart (1 by
    default); padded zeros count unless `count_include_pad=False`."""
    t, added = with_batch(input_x, 1, "avg_pool1d")
    (size,), (step,), (pad,) = window_sizes(kernel_size, stride, padding, 1, "avg_pool1d")
    out = avg_pool2d(shapes.expand_dims(t, 2), (1, size), (1, step), (0, pad), ceil_mode,
                     count_include_pad)
    return without_batch(shapes.squeeze(out, 2), added)


def _output_size(given: Any, size: Ints, what: str) -> Ints:
    sizes = given if isinstance(given, (list, tuple)) else (given,) * len(size)
    if len(sizes) != len(size):
        raise misuse(what, f"'output_size' must hold {len(size)} sizes", given)
    out = tuple(d if s is None else integer(s, what, "output_size")
                for s, d in zip(sizes, size, strict=True))
    return positive(out, len(size), what, "output_size")


@native
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the image evenly into rows and columns (None keeps a size)."""
    t, added = with_batch(input, 2, "adaptive_avg_pool2d")
    size = _output_size(output_size, t.shape[2:], "adaptive_avg_pool2d")
    return without_batch(apply("adaptive_avg_pool2d", t, output_size=size), added)


@native
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that divide the image evenly; also their flat positions if asked."""
    t, added = with_batch(input, 2, "adaptive_max_pool2d")
    size = _output_size(output_size, t.shape[2:], "adaptive_max_pool2d")
    out = apply("adaptive_max_pool2d", t, output_size=size,
                indices=flag(return_indices, "adaptive_max_pool2d", "return_indices"))
    if return_indices:
        return without_batch(out[0], added), cast_to(without_batch(out[1], added), int64)
    return without_batch(out, added)


@native
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The means of `output_size` windows that cover (N, C, L) or (C, L): window i goes from i L /
    output_size, rounded down, to (i + 1) L / output_size, rounded up."""
    t, added = with_batch(input, 1, "adaptive_avg_pool1d")
    size = (1, *positive(output_size, 1, "adaptive_avg_pool1d", "output_size"))
    out = adaptive_avg_pool2d(shapes.expand_dims(t, 2), size)
    return without_batch(shapes.squeeze(out, 2), added)


@native
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The maxima of `output_size` windows that cover (N, C, L) or (C, L): window i goes from i L /
    output_size, rounded down, to (i + 1) L / output_size, rounded up."""
    t, added = with_batch(input, 1, "adaptive_max_pool1d")
    size = (1, *positive(output_size, 1, "adaptive_max_pool1d", "output_size"))
    out = adaptive_max_pool2d(shapes.expand_dims(t, 2), size)
    return without_batch(shapes.squeeze(out, 2), added)


@native
def lp_pool2d(
    x: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x**p) ** (1/p) over each window of `kernel_size` by `kernel_size` pixels of (N, C, H,
    W), `stride` apart (the size by default)."""
    p = float(number(norm_type, "lp_pool2d", "norm_type"))
    size, step, _ = window_sizes(kernel_size, stride, 0, 2, "lp_pool2d")
    total = avg_pool2d(arith.pow(x, p), size, step, 0, ceil_mode, True, 1)
    return total ** (1.0 / p)


# --- windows as columns ---------------------------------------------------------------------------


@native
def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of `kernel_size` of (N, C, H, W) as columns: (N, C * kH * kW, positions), the
    inverse of `fold` but for overlaps."""
    x = image_of(input, 2, "unfold")
    (kh, kw), (dy, dx), (py, px), (sy, sx) = (
        repeated(v, 2, "unfold", n) for v, n in
        ((kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"),
         (stride, "stride")))
    padded = shapes.pad(x, (px, px, py, py)) if py or px else x
    n, c, h, w = padded.shape
    oh, ow = (h - dy * (kh - 1) - 1) // sy + 1, (w - dx * (kw - 1) - 1) // sx + 1
    if oh < 1 or ow < 1:
        raise misuse("unfold", f"windows of {kh} by {kw} do not fit {x.shape}")
    taps = [padded[:, :, i * dy : i * dy + (oh - 1) * sy + 1 : sy,
                   j * dx : j * dx + (ow - 1) * sx + 1 : sx]
            for i in range(kh) for j in range(kw)]
    return shapes.reshape(joining.stack(taps, 2), (n, c * kh * kw, oh * ow))


def image_patches(
    x: Tensor, ksizes: Any, strides: Any, rates: Any, padding: str = "valid"
) -> Tensor:
    """The patches of (N, C, H, W) as channels (N, kH * kW * C, H', W'), places slowest.

    Args:
        ksizes, strides, rates: size of a patch, and steps between patches and within one.
        padding: `"valid"` or `"same"`, in any case.
    """
    what = "image_patches"
    t = image_of(x, 2, what)
    kernel, steps, gaps = (positive(v, 2, what, n) for v, n in
                           ((ksizes, "ksizes"), (strides, "strides"), (rates, "rates")))
    mode = choice(padding.lower(), ("valid", "same"), what, "padding")
    if mode == "same":
        top, bottom, left, right = same_pads(t.shape[2:], kernel, steps, gaps)
        t = shapes.pad(t, (left, right, top, bottom))
    n, c, h, w = t.shape
    columns = unfold(t, kernel, gaps, 0, steps)
    size = [(d - g * (k - 1) - 1) // s + 1
            for d, g, k, s in zip((h, w), gaps, kernel, steps, strict=True)]
    parts = shapes.reshape(columns, (n, c, kernel[0] * kernel[1], *size))
    return shapes.reshape(shapes.swapaxes(parts, 1, 2), (n, -1, *size))


@native
def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """The adjoint of `unfold`: columns (N, C * kH * kW, positions) summed into (N, C, H, W)."""
    x = ranked(input, 3, 3, "fold")
    size, kernel, gaps, steps = (
        positive(v, 2, "fold", n) for v, n in
        ((output_size, "output_size"), (kernel_size, "kernel_size"), (dilation, "dilation"),
         (stride, "stride")))
    pads = not_negative(padding, 2, "fold", "padding")
    oh, ow = ((d + 2 * p - g * (k - 1) - 1) // s + 1 for d, p, g, k, s in
              zip(size, pads, gaps, kernel, steps, strict=True))
    taps = kernel[0] * kernel[1]
    if x.shape[1] % taps or min(oh, ow) < 1 or x.shape[2] != oh * ow:
        raise misuse("fold", f"windows of {kernel} over images of {size} are columns of shape (N, "
                     f"C * {taps}, {max(oh, 0) * max(ow, 0)}), but the input has shape {x.shape}")
    n, c = x.shape[0], x.shape[1] // taps
    columns = shapes.reshape(x, (n * c, taps, oh, ow))
    # One output channel from `taps` input channels, each with a single one at its tap.
    weight = tensor_of(np.eye(taps).reshape(taps, 1, *kernel).astype(x.dtype.numpy))
    out = _adjoint(columns, weight, size, steps, tuple(p for p in pads for _ in (0, 1)), gaps, 1)
    return shapes.reshape(out, (n, c, *size))


# --- resizing -------------------------------------------------------------------------------------


def _scaled_size(x: Tensor, size: Any, scale: Any) -> Ints:
    spatial = x.shape[2:]
    if (size is None) == (scale is None):
        raise misuse("interpolate", "exactly one of 'size' and 'scale_factor' is needed")
    if size is not None:
        return positive(size, len(spatial), "interpolate", "size")
    given = scale if isinstance(scale, (list, tuple)) else (scale,) * len(spatial)
    if len(given) != len(spatial):
        raise misuse("interpolate", f"'scale_factor' must be a number or {len(spatial)} numbers",
                     scale)
    factors = [finite(f, "interpolate", "scale_factor") for f in given]
    return positive(tuple(map(_scaled, spatial, factors)), len(spatial), "interpolate",
                    "scaled size")


def _scaled(size: int, factor: float) -> int:
    """The whole part of `size * factor`; of a size that is open, where the product is exact."""
    by, of = factor.as_integer_ratio()
    if is_symbolic(size) and abs(by) < _EXACT:
        return size * by // of
    return math.floor(size * factor)


_EXACT = 1 << 22
"""Times a size of 31 bits, a smaller int is a float64 without rounding."""


class _Table:
    """Numbers for the positions of an axis: float64 in numpy, or in the graph where a size of the
    axis is known only when the code runs. Both give the same bits."""

    @staticmethod
    def positions(n_in: int, n_out: int) -> Any:
        """`0 ... n_out - 1`."""
        if is_symbolic(n_in) or is_symbolic(n_out):
            return cast_to(creation.arange(n_out), float64)
        return np.arange(n_out, dtype=np.float64)

    @staticmethod
    def floor(x: Any) -> Any:
        """Rounded down."""
        return np.floor(x) if isinstance(x, np.ndarray) else arith.floor(x)

    @staticmethod
    def rint(x: Any) -> Any:
        """Rounded to the nearest, halves to even."""
        return np.rint(x) if isinstance(x, np.ndarray) else arith.round(x)

    @staticmethod
    def clip(x: Any, last: Any) -> Any:
        """Between 0 and the last position."""
        return np.clip(x, 0, last) if isinstance(x, np.ndarray) else arith.minimum(
            arith.maximum(x, 0.0), last)

    @staticmethod
    def inside(x: Any, clipped: Any) -> Any:
        """1 where clipping changed nothing, else 0."""
        return x == clipped if isinstance(x, np.ndarray) else cast_to(arith.eq(x, clipped), float64)


def _centers(n_in: int, n_out: int, align: bool, half: bool, step: float | None = None) -> Any:
    """Where each output position lies among the input's. `step`: how far apart they are, where the
    sizes do not say it."""
    i = _Table.positions(n_in, n_out)
    if align:
        return i * ((n_in - 1) / (n_out - 1) if n_out > 1 else 0.0)
    apart = n_in / n_out if step is None else step
    return (i + 0.5) * apart - 0.5 if half else i * apart


def resize_axis(
    x: Tensor, axis: int, n: int, mode: str, align: bool, step: float | None = None,
    half: bool | None = None,
) -> Tensor:
    """One axis of another length; `half` is where pixels of the modes beside nearest are."""
    d = x.shape[axis]
    if mode in ("nearest", "nearest-exact"):
        at = _centers(d, n, align, False, step)
        if align:
            at = at + 0.5
        elif half or mode != "nearest":
            at = at + 0.5 * d / n
        return _take(x, axis, _Table.clip(_Table.floor(at), d - 1))
    at = _centers(d, n, align, half is not False, step)
    if mode == "bicubic":
        return _cubic(x, axis, at, half=not align and half is not False)
    if mode == "cubic":
        return _cubic(x, axis, at, half=False, steps=None)
    at = _Table.clip(at, d - 1)
    low = _Table.floor(at)
    weight = _along_axis(at - low, x, axis)
    a, b = _take(x, axis, low), _take(x, axis, _Table.clip(low + 1, d - 1))
    return a * (1.0 - weight) + b * weight


def _along_axis(values: Any, x: Tensor, axis: int) -> Tensor:
    shape = (-1,) + (1,) * (x.ndim - axis - 1)
    if isinstance(values, np.ndarray):
        return tensor_of(values.astype(x.dtype.numpy).reshape(shape))
    return shapes.reshape(cast_to(values, x.dtype), shape)


def _cubic(x: Tensor, axis: int, at: Any, half: bool, steps: int | None = 1024) -> Tensor:
    """Cubic convolution (Keys, 1981).

    With centers of pixels at halves MindSpore's kernel takes a = -0.5, and what lies outside counts
    nothing; else a = -0.75, and the ends are repeated (PyTorch: always).

    Args:
        steps: offsets are multiples of 1 / steps (in MindSpore they index a table), or exact.
    """
    a, low = -0.5 if half else -0.75, _Table.floor(at)
    t = at - low if steps is None else _Table.rint((at - low) * steps) / steps

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    places = [low + k for k in range(-1, 3)]
    inside = [_Table.clip(p, x.shape[axis] - 1) for p in places]
    if half:
        weights = [w * _Table.inside(p, c) for w, p, c in zip(weights, places, inside, strict=True)]
        total = reduce(operator.add, weights)
        weights = [w / total for w in weights]
    return reduce(arith.add, (_take(x, axis, at) * _along_axis(w, x, axis) for at,
                              w in zip(inside, weights, strict=True)))


def _take(x: Tensor, axis: int, positions: Any) -> Tensor:
    places = tensor_of(positions.astype(np.int64)) if isinstance(positions, np.ndarray) else \
        cast_to(positions, int64)
    return apply_one("gather", x, places, axis=axis)


_MODES = {"nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "linear": (1,), "bilinear": (2,),
          "trilinear": (3,), "bicubic": (2,), "area": (1, 2, 3)}


@native
def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
) -> Tensor:
    """(N, C, spatial...) resized.

    Args:
        size: the new spatial size; or `scale_factor`: what to multiply it by.
        mode: `"nearest"`, `"nearest-exact"`, `"area"`, `"linear"` (3-D), `"bilinear"` or
            `"bicubic"` (4-D) or `"trilinear"` (5-D).
        align_corners: the corner elements stay where they are (linear modes).
        recompute_scale_factor: accepted for compatibility.
    """
    x = tensor(input, "interpolate")
    spatial = x.ndim - 2
    if spatial not in _MODES.get(mode, ()):
        raise misuse("interpolate", f"mode {mode!r} does not fit a {x.ndim}-D tensor")
    target = _scaled_size(x, size, scale_factor)
    if mode == "area":
        return _area(x, target)
    for k, n in enumerate(target):
        x = resize_axis(x, k + 2, n, mode, bool(align_corners))
    return x


def interpolate_ext(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
) -> Tensor:
    """`interpolate` with positions 1 / `scale_factor` apart, as in PyTorch.

    Args:
        input, size, scale_factor, mode, align_corners: as in `interpolate`.
        recompute_scale_factor: take the factor from the sizes instead (not with `size`).
    """
    x = tensor(input, "interpolate")
    if size is not None and recompute_scale_factor:
        raise misuse("interpolate",
                     f"'recompute_scale_factor' needs 'scale_factor', but 'size' is given: {size}")
    known = scale_factor is None or recompute_scale_factor  # the sizes say how far they lie apart
    if mode in ("area", "nearest-exact") or x.ndim - 2 not in _MODES.get(mode, ()) or \
            (known and mode != "bicubic"):
        return interpolate(x, size, scale_factor, mode, align_corners)
    target = _scaled_size(x, size, scale_factor)
    factors = scale_factor if isinstance(scale_factor, (list, tuple)) else \
        (scale_factor,) * len(target)
    kernel = "cubic" if mode == "bicubic" else mode
    for k, (n, factor) in enumerate(zip(target, factors, strict=True)):
        apart = None if known else 1.0 / float(factor)
        x = resize_axis(x, k + 2, n, kernel, bool(align_corners), apart)
    return x


def _area(x: Tensor, target: Ints) -> Tensor:
    if x.ndim == 3:
        return adaptive_avg_pool1d(x, target[0])
    if x.ndim == 4:
        return adaptive_avg_pool2d(x, target)
    raise misuse("interpolate", "mode 'area' takes 3-D and 4-D tensors")


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
) -> Tensor:
    """`interpolate` under its older name: images resized by `scale_factor` or to `size`, by the
    nearest pixel unless `mode` says else."""
    return interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor)


@native
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(..., C r r, H, W) rearranged to (..., C, H r, W r): each group of r r channels becomes r by
    r pixels."""
    x = ranked(input, 3, None, "pixel_shuffle")
    r = integer(upscale_factor, "pixel_shuffle", "upscale_factor")
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    if r < 1 or c % (r * r):
        raise misuse("pixel_shuffle", f"{c} channels cannot be divided by {r}**2")
    n = len(lead)
    blocks = shapes.reshape(x, (*lead, c // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return shapes.reshape(shapes.transpose(blocks, order), (*lead, c // (r * r), h * r, w * r))


@native
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(..., C, H r, W r) rearranged to (..., C r r, H, W): each block of r by r pixels becomes
    channels."""
    x = ranked(input, 3, None, "pixel_unshuffle")
    r = integer(downscale_factor, "pixel_unshuffle", "downscale_factor")
    lead, (c, h, w) = x.shape[:-3], x.shape[-3:]
    if r < 1 or h % r or w % r:
        raise misuse("pixel_unshuffle", f"{h} by {w} cannot be divided by {r}")
    n = len(lead)
    blocks = shapes.reshape(x, (*lead, c, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return shapes.reshape(shapes.transpose(blocks, order), (*lead, c * r * r, h // r, w // r))


# --- local response normalisation -----------------------------------------------------------------


@native
def lrn(
    x: Tensor, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5,
    norm_region: str = "ACROSS_CHANNELS",
) -> Tensor:
    """x / (bias + alpha * the sum of squares over `depth_radius` channels on each side) ** beta."""
    t = image_of(x, 2, "lrn")
    choice(norm_region, ("ACROSS_CHANNELS",), "lrn", "norm_region")
    # (Further away there are no channels, and zeros are added one by one.)
    r = min(size(depth_radius, "lrn", "depth_radius"), max(t.shape[1] - 1, 0))
    squares = shapes.pad(t * t, (0, 0, 0, 0, r, r))
    total = reductions.sum(
        joining.stack([joining.part(squares, 1, k, k + t.shape[1]) for k in range(2 * r + 1)], 0),
        0)
    return t / (total * float(alpha) + float(bias)) ** float(beta)
