"""Windows over three axes, and pools that go back or draw where their windows lie.

A window over three axes is a product of intervals: the maximum, the sum and the number of elements
that count are taken over rows and columns first, then over depth.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32, int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply_one
from ...tensors.promotion import cast_to, operands
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import Ints, boolean, integer, ints, is_int, number, positive, repeated, tensor
from ..operands import operands_of
from . import arith, creation, draws, indexing, joining, reductions, shapes, window

# --- three axes -----------------------------------------------------------------------------------


def _volume(x: Any, what: str) -> tuple[Tensor, bool]:
    """(N, C, D, H, W), and whether the batch axis had to be added."""
    t = tensor(x, what)
    if t.ndim not in (4, 5):
        raise misuse(what, "the input must have 5 axes (N, C, D, H, W) or 4 without N, but has "
                     f"shape {t.shape}")
    return (shapes.expand_dims(t, 0), True) if t.ndim == 4 else (t, False)


def _planes(x: Tensor) -> Tensor:
    """(N, C, D, H, W) as images (N, C * D, H, W)."""
    n, c, d, h, w = x.shape
    return shapes.reshape(x, (n, c * d, h, w))


def _columns(planes: Tensor, x: Tensor) -> Tensor:
    """Pooled planes as images (N, C, D, H' * W'), to pool over depth."""
    n, c, d = x.shape[:3]
    return shapes.reshape(planes, (n, c, d, planes.shape[2] * planes.shape[3]))


def _volume_of(columns: Tensor, planes: Tensor) -> Tensor:
    """(N, C, D', H' * W') as (N, C, D', H', W')."""
    return shapes.reshape(columns, columns.shape[:3] + planes.shape[2:])


def _positions(x: Tensor, inner: Tensor, depth: Tensor, shape: Ints) -> Tensor:
    """Flat positions of maxima of (N, C, D, H, W) from those of the two steps.

    Args:
        inner: of the maxima of planes: positions in (H, W).
        depth: of the maxima over depth: positions in (D, H' * W').
        shape: of the result, (N, C, D', H', W').
    """
    n, c, _, h, w = x.shape
    at = shapes.reshape(depth, (n, c, -1))
    within = indexing.gather_elements(shapes.reshape(inner, (n, c, -1)), 2, at)
    return shapes.reshape(arith.mul(arith.floor_divide(at, shape[3] * shape[4]), h * w) + within,
                          shape)


def max_pool3d(
    x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W).

    Args:
        kernel_size, stride, padding, dilation: depth, rows and columns, one int for all; the
            stride is the kernel if None.
        ceil_mode: a last window may reach beyond the volume.
        return_indices: also the position of each in the flattened (D, H, W), int64.
    """
    what = "max_pool3d"
    t, added = _volume(x, what)
    k, s, p = window.window_sizes(kernel_size, stride, padding, 3, what)
    g = repeated(dilation, 3, what, "dilation")
    ceil = boolean(ceil_mode, what, "ceil_mode")
    if boolean(return_indices, what, "return_indices"):
        planes, inner = window.max_pool2d(_planes(t), k[1:], s[1:], p[1:], g[1:], True, ceil)
        out, depth = window.max_pool2d(_columns(planes, t), (k[0], 1), (s[0], 1), (p[0], 0),
                                       (g[0], 1), True, ceil)
        full = _volume_of(out, planes)
        at = _positions(t, inner, depth, full.shape)
        return window.without_batch(full, added), window.without_batch(at, added)
    planes = window.max_pool2d(_planes(t), k[1:], s[1:], p[1:], g[1:], False, ceil)
    out = window.max_pool2d(_columns(planes, t), (k[0], 1), (s[0], 1), (p[0], 0), (g[0], 1), False,
                            ceil)
    return window.without_batch(_volume_of(out, planes), added)


def avg_pool3d(
    input_x: Tensor, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int = 0,
) -> Tensor:
    """The mean of each window of (N, C, D, H, W).

    Args:
        kernel_size, stride: depth, rows and columns, one int for all.
        padding: likewise, or six ints: before and after each axis.
        ceil_mode: a last window may reach beyond the volume.
        count_include_pad: padding counts as elements.
        divisor_override: divide every sum by this (0: by the number of elements).
    """
    what = "avg_pool3d"
    t, added = _volume(input_x, what)
    counted = boolean(count_include_pad, what, "count_include_pad")
    divisor = integer(divisor_override, what, "divisor_override")
    pads = window.pads_per_side(padding, 3, what)
    k, s, p = window.window_sizes(kernel_size, stride, 0, 3, what)
    if pads[::2] == pads[1::2]:
        k, s, p = window.window_sizes(kernel_size, stride, pads[::2], 3, what)
    else:
        borders = (*pads[4:], *pads[2:4], *pads[:2])
        if not counted and not divisor:  # the sum over the number of elements that are no padding
            inside = shapes.pad(creation.ones(t.shape, t.dtype), borders)
            total, count = (avg_pool3d(v, k, s, 0, ceil_mode, True, 1)
                            for v in (shapes.pad(t, borders), inside))
            return window.without_batch(total / count, added)
        t = shapes.pad(t, borders)
    first = 1 if divisor > 0 else 0
    ceil = boolean(ceil_mode, what, "ceil_mode")
    planes = window.avg_pool2d(_planes(t), k[1:], s[1:], p[1:], ceil, counted, first)
    out = window.avg_pool2d(_columns(planes, t), (k[0], 1), (s[0], 1), (p[0], 0), ceil, counted,
                            divisor)
    return window.without_batch(_volume_of(out, planes), added)


def pool3d(
    kind: str, x: Tensor, kernel_size: Any, strides: Any, pad_mode: str,
    count_include_pad: bool = True,
) -> Tensor:
    """`MaxPool3D` and `AvgPool3D`: windows by a pad mode.

    Args:
        kind: `"max"` or `"avg"`.
        pad_mode: `"valid"` or `"same"`, in any case.
        count_include_pad: zeros of the mode `"same"` count in means (in 2-D they never do).
    """
    t = window.image_of(x, 3, f"{kind}_pool3d")
    k, s = (repeated(v, 3, f"{kind}_pool3d", n) for v, n in
            ((kernel_size, "kernel_size"), (strides, "strides")))
    mode = pad_mode
    if kind == "avg" and mode.lower() == "same" and count_include_pad:
        before = window.same_pads(t.shape[2:], k, s, (1, 1, 1))
        t = shapes.pad(t, (*before[4:], *before[2:4], *before[:2]))
        mode = "valid"
    planes = window.pool2d(kind, _planes(t), k[1:], s[1:], mode)
    out = window.pool2d(kind, _columns(planes, t), (k[0], 1), (s[0], 1), mode)
    return _volume_of(out, planes)


def _three(size: Any, what: str) -> tuple[Any, ...]:
    sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,) * 3
    if len(sizes) != 3:
        raise misuse(what, "'output_size' must be an int or 3 sizes", size)
    return sizes


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide (N, C, D, H, W) evenly.

    Args:
        output_size: depth, rows and columns of the result (None: those of the input), or one int.
    """
    what = "adaptive_avg_pool3d"
    t, added = _volume(input, what)
    size = _three(output_size, what)
    planes = window.adaptive_avg_pool2d(_planes(t), size[1:])
    out = window.adaptive_avg_pool2d(_columns(planes, t), (size[0], None))
    return window.without_batch(_volume_of(out, planes), added)


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that divide (N, C, D, H, W) evenly.

    Args:
        output_size: depth, rows and columns of the result (None: those of the input), or one int.
        return_indices: also the position of each in the flattened (D, H, W), int32.
    """
    what = "adaptive_max_pool3d"
    t, added = _volume(input, what)
    size = _three(output_size, what)
    planes, inner = window.adaptive_max_pool2d(_planes(t), size[1:], True)
    out, depth = window.adaptive_max_pool2d(_columns(planes, t), (size[0], None), True)
    full = _volume_of(out, planes)
    if not boolean(return_indices, what, "return_indices"):
        return window.without_batch(full, added)
    at = cast_to(_positions(t, inner, depth, full.shape), int32)
    return window.without_batch(full, added), window.without_batch(at, added)


def convolved(x: Tensor, w: Tensor, stride: Ints, pads: Ints, dilation: Ints, groups: int
              ) -> Tensor:
    """A convolution over one to three axes; `pads` are before and after each."""
    if len(stride) == 3:
        return window.conv3d(x, w, None, stride, "pad", pads, dilation, groups)
    if len(stride) == 2:
        return apply_one("conv2d", x, w, stride=stride, pads=pads, dilation=dilation, groups=groups)
    y = convolved(shapes.expand_dims(x, 2), shapes.expand_dims(w, 2), (1, *stride), (0, 0, *pads),
                  (1, *dilation), groups)
    return shapes.squeeze(y, 2)


def adjoint(
    x: Tensor, w: Tensor, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> Tensor:
    """The tensor (N, C, *size) whose `convolved` with these options has the cotangent `x`."""
    if len(stride) == 3:
        return conv3d_adjoint(x, w, size, stride, pads, dilation, groups)
    if len(stride) == 2:
        return apply_one("conv2d_backward_data", x, w, size=size, stride=stride, pads=pads,
                         dilation=dilation, groups=groups)
    y = adjoint(shapes.expand_dims(x, 2), shapes.expand_dims(w, 2), (1, *size), (1, *stride),
                (0, 0, *pads), (1, *dilation), groups)
    return shapes.squeeze(y, 2)


def conv3d_adjoint(
    dout: Tensor, weight: Tensor, size: Ints, stride: Ints, pads: Ints, dilation: Ints, groups: int
) -> Tensor:
    """The volume (N, C, *size) whose `conv3d` with these options has the cotangent `dout`.

    One 2-D adjoint for each depth of the kernel, put where that depth reads, and summed.
    """
    n, c, depth = dout.shape[:3]
    images = shapes.reshape(shapes.swapaxes(dout, 1, 2), (n * depth, c, *dout.shape[3:]))
    full = size[0] + pads[0] + pads[1]
    total: Tensor | None = None
    for k in range(weight.shape[2]):
        tap = adjoint(images, weight[:, :, k], size[1:], stride[1:], pads[2:], dilation[1:], groups)
        tap = shapes.swapaxes(shapes.reshape(tap, (n, depth, *tap.shape[1:])), 1, 2)
        placed = _spread(tap, stride[0], k * dilation[0], full)
        total = placed if total is None else arith.add(total, placed)
    assert total is not None
    return total if not (pads[0] or pads[1]) else joining.part(total, 2, pads[0], pads[0] + size[0])


def _spread(x: Tensor, step: int, first: int, length: int) -> Tensor:
    """Depth d of (N, C, D, H, W) at `first + step * d` of `length`, zeros elsewhere."""
    n, c, d, h, w = x.shape
    if step > 1:
        x = shapes.pad(shapes.expand_dims(x, 3), (0, 0, 0, 0, 0, step - 1))
        x = joining.part(shapes.reshape(x, (n, c, d * step, h, w)), 2, 0, (d - 1) * step + 1)
    rest = length - first - x.shape[2]
    if rest < 0:
        x, rest = joining.part(x, 2, 0, length - first), 0
    return shapes.pad(x, (0, 0, 0, 0, first, rest)) if first or rest else x


def conv3d_transpose(
    inputs: Tensor, weight: Tensor, pad_mode: str = "valid", padding: Any = 0, stride: Any = 1,
    dilation: Any = 1, group: int = 1, output_padding: Any = 0,
) -> Tensor:
    """The adjoint of `conv3d`: (N, C, D, H, W) with weights (C, O / group, kD, kH, kW).

    Args:
        pad_mode: `"same"` gives D * stride planes, `"valid"` as many as the input reaches, `"pad"`
            that less `padding`.
        padding: an int, or before and after each axis (six ints); in the mode `"pad"`.
        stride, dilation: depth, rows and columns, one int for all.
        output_padding: planes, rows and columns that belong to the result beyond that, in the
            mode `"pad"`; less than the stride or the dilation.
    """
    what = "conv3d_transpose"
    x, w = operands(what, window.image_of(inputs, 3, what), tensor(weight, what, "weight"))
    if w.ndim != 5 or x.shape[1] != w.shape[0]:
        raise misuse(what, f"weights of shape {w.shape} do not fit an input of shape {x.shape}: "
                     f"they must have shape ({x.shape[1]}, channels, depth, rows, columns)")
    s = positive(stride, 3, what, "stride")
    g = positive(dilation, 3, what, "dilation")
    more = repeated(output_padding, 3, what, "output_padding")
    size, pads = _transposed_sizes(x.shape[2:], w.shape[2:], s, g, str(pad_mode).lower(), padding,
                                   more, what)
    groups = integer(group, what, "group")
    if groups < 1 or x.shape[1] % groups:
        raise misuse(what, f"{x.shape[1]} channels cannot be divided into {group} groups")
    return conv3d_adjoint(x, w, size, s, pads, g, groups)


def _transposed_sizes(
    size: Ints, kernel: Ints, stride: Ints, dilation: Ints, pad_mode: str, padding: Any,
    more: Ints, what: str,
) -> tuple[Ints, Ints]:
    """The spatial size of a transposed convolution, and the zeros its forward one would add."""
    if pad_mode != "pad" and any(more):
        raise misuse(what, "the 'output_padding' must be zero when 'pad_mode' is not 'pad'",
                     f"'output_padding': {more} and 'pad_mode': {pad_mode}")
    if any(e < 0 or e >= max(s, g) for e, s, g in zip(more, stride, dilation, strict=True)):
        raise misuse(what, "'output_padding' must be smaller than 'stride' or 'dilation'",
                     f"'output_padding': {more}, 'stride': {stride} and 'dilation': {dilation}")
    reach = [g * (k - 1) + 1 for k, g in zip(kernel, dilation, strict=True)]
    if pad_mode == "same":
        full = tuple(d * s for d, s in zip(size, stride, strict=True))
        return full, window.mode_pads(pad_mode, padding, full, kernel, stride, dilation, what)
    pads = window.mode_pads(pad_mode, padding, size, kernel, stride, dilation, what)
    if pad_mode == "valid":
        return tuple((d - 1) * s + max(r, s)
                     for d, s, r in zip(size, stride, reach, strict=True)), pads
    full = tuple((d - 1) * s + r - pads[2 * i] - pads[2 * i + 1] + more[i]
                 for i, (d, s, r) in enumerate(zip(size, stride, reach, strict=True)))
    if any(d < 1 for d in full):
        raise misuse(what, f"'padding' {padding} leaves nothing of {size}")
    return full, pads


# --- other pools ----------------------------------------------------------------------------------


def lp_pool1d(
    x: Tensor, norm_type: float, kernel_size: int, stride: int | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x**p) ** (1/p) over each window of `kernel_size` elements of (N, C, L) or (C, L),
    `stride` apart (the size by default)."""
    what = "lp_pool1d"
    number(norm_type, what, "norm_type")
    size = integer(kernel_size, what, "kernel_size")
    step = size if stride is None else integer(stride, what, "stride")
    t, added = window.with_batch(x, 1, what)
    out = window.lp_pool2d(shapes.expand_dims(t, 2), norm_type, (1, size), (1, step), ceil_mode)
    return window.without_batch(shapes.squeeze(out, 2), added)


def _max_unpool(
    what: str, spatial: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any,
    output_size: Any,
) -> Tensor:
    """Maxima put back where `indices` (flat, in the result's last axes) say; zeros elsewhere."""
    t, at = operands_of(what, "x (...), indices int (...)", x, indices)
    if t.ndim not in (spatial + 1, spatial + 2):
        raise misuse(what, f"the input must have {spatial + 1} or {spatial + 2} axes, but has "
                     f"shape {t.shape}")
    k = positive(kernel_size, spatial, what, "kernel_size")
    s = k if stride is None or stride == 0 else positive(stride, spatial, what, "stride")
    p = repeated(padding, spatial, what, "padding")
    size = t.shape[-spatial:]
    full = _unpooled_sizes(output_size, tuple(
        (d - 1) * b - 2 * c + a for d, a, b, c in zip(size, k, s, p, strict=True)), s, what)
    lead = t.shape[:-spatial]
    flat = (*lead, math.prod(size))
    zeros = creation.zeros((*lead, math.prod(full)), t.dtype)
    out = indexing.tensor_scatter_elements(
        zeros, shapes.reshape(cast_to(at, int64), flat), shapes.reshape(t, flat), len(lead))
    return shapes.reshape(out, (*lead, *full))


def _unpooled_sizes(given: Any, least: Ints, stride: Ints, what: str) -> Ints:
    """The spatial size before a pooling."""
    if given is None or given == ():
        return least
    n = len(least)
    sizes = repeated(
        given if is_int(given) else ints(given, what, "output_size")[-n:], n, what, "output_size")
    for have, want, step in zip(sizes, least, stride, strict=True):
        if not want - step < have < want + step:
            raise misuse(what,
                         f"each of 'output_size' must be less than a stride away from {least}",
                         given)
    return sizes


def max_unpool1d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Maxima of (N, C, L) or (C, L) put back where they came from, zeros elsewhere.

    Args:
        indices: flat positions, as pooling with `return_indices` gives them.
        kernel_size, stride, padding: of the pooling; the stride is the kernel if None.
        output_size: the size before it; the smallest possible if None.
    """
    return _max_unpool("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """`max_unpool1d` for images (N, C, H, W) or (C, H, W): maxima at the places that `max_pool2d`
    gave, zeros elsewhere."""
    return _max_unpool("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    x: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """`max_unpool1d` for volumes (N, C, D, H, W) or (C, D, H, W): maxima at the places that
    `max_pool3d` gave, zeros elsewhere."""
    return _max_unpool("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


# --- windows at drawn places ----------------------------------------------------------------------


def fractional_max_pool2d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of windows at drawn places of (N, C, H, W) or (C, H, W) (Graham 2014).

    Args:
        kernel_size: rows and columns of a window, one int for both.
        output_size: rows and columns of the result; or
        output_ratio: what part of the input's that is, in (0, 1).
        return_indices: also the flat position of each in its plane, int64.
        _random_samples: (N, C, 2) numbers in [0, 1) that place the windows; drawn if None.
    """
    return _fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio,
                       return_indices, _random_samples)


def fractional_max_pool3d(
    input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Tensor | None = None,
) -> Any:
    """`fractional_max_pool2d` for volumes (N, C, D, H, W) or (C, D, H, W): maxima of windows at
    drawn places."""
    return _fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio,
                       return_indices, _random_samples)


def _fractional(
    what: str, spatial: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    return_indices: bool, samples: Tensor | None,
) -> Any:
    x = tensor(input, what)
    added = x.ndim == spatial + 1
    x = shapes.expand_dims(x, 0) if added else window.image_of(x, spatial, what)
    kernel = positive(kernel_size, spatial, what, "kernel_size")
    size = _fractional_size(x.shape[2:], kernel, output_size, output_ratio, what)
    if samples is None:
        samples = draws.rand(*x.shape[:2], spatial, dtype=x.dtype if x.dtype.is_float else float32)
    u = _samples(samples, x, spatial, what)
    axes = [_starts(u[:, :, i if spatial == 3 else 1 - i], d, k, o)
            for i, (d, k, o) in enumerate(zip(x.shape[2:], kernel, size, strict=True))]
    flat = _window_positions(axes, kernel, x.shape[2:])
    n, c = x.shape[:2]
    taps = math.prod(kernel)
    image = shapes.reshape(x, (n, c, -1))
    seen = indexing.gather_elements(image, 2, shapes.reshape(flat, (n, c, -1)))
    first = reductions.argmax(shapes.reshape(seen, (n, c, math.prod(size), taps)), -1)
    at = indexing.gather_elements(shapes.reshape(flat, (n, c, math.prod(size), taps)), -1,
                                  shapes.expand_dims(first, -1))
    at = shapes.squeeze(at, -1)
    out = shapes.reshape(indexing.gather_elements(image, 2, at), (n, c, *size))
    result = window.without_batch(out, added)
    if not boolean(return_indices, what, "return_indices"):
        return result
    return result, window.without_batch(shapes.reshape(at, out.shape), added)


def _fractional_size(
    size: Ints, kernel: Ints, output_size: Any, output_ratio: Any, what: str
) -> Ints:
    if output_size is None and output_ratio is None:
        raise misuse(what, "'output_size' or 'output_ratio' is needed", "neither")
    if output_size is not None:
        out = positive(output_size, len(size), what, "output_size")
    else:
        ratios = output_ratio if isinstance(output_ratio, (list, tuple)) else \
            (output_ratio,) * len(size)
        if len(ratios) != len(size) or any(
                not 0 < number(r, what, "output_ratio") < 1 for r in ratios):
            raise misuse(what, f"'output_ratio' must be {len(size)} numbers in (0, 1)",
                         output_ratio)
        out = tuple(int(d * r) for d, r in zip(size, ratios, strict=True))
    if any(k + o - 1 > d or o < 1 for k, o, d in zip(kernel, out, size, strict=True)):
        raise misuse(what, f"windows of {kernel} and a result of {out} do not fit an input of "
                     f"{size}: the kernel plus the result minus 1 must not be larger")
    return out


def _samples(samples: Any, x: Tensor, spatial: int, what: str) -> Tensor:
    (u,) = operands_of(what, "_random_samples float", samples)
    if u.ndim != 3 or u.shape[0] not in (1, x.shape[0]) or u.shape[1:] != (x.shape[1], spatial):
        raise misuse(what, f"'_random_samples' must have shape {(*x.shape[:2], spatial)}, but has "
                     f"shape {u.shape}")
    return shapes.broadcast_to(u, (x.shape[0], *u.shape[1:])) if u.shape[0] != x.shape[0] else u


def _starts(u: Tensor, size: int, kernel: int, count: int) -> Tensor:
    """First positions (N, C, count) of windows along one axis: a step of
    (size - kernel) / (count - 1), moved by u of it and rounded down; the last window ends the axis.
    """
    last = size - kernel
    if count == 1:
        return creation.full((*u.shape, 1), last, dtype=int64)
    u = shapes.expand_dims(u, -1)
    step = last / (count - 1)
    i = tensor_of(np.arange(count, dtype=u.dtype.numpy))
    moved = arith.floor((i + u) * step)
    start = cast_to(moved - arith.floor(u * step), int64)
    ends = tensor_of(np.arange(count) == count - 1)
    return arith.clamp(arith.where(ends, last, start), 0, last)


def _window_positions(starts: list[Tensor], kernel: Ints, size: Ints) -> Tensor:
    """Flat positions (N, C, outputs..., taps...) of the elements of windows."""
    n = len(kernel)
    total: Tensor | None = None
    for i, (first, k) in enumerate(zip(starts, kernel, strict=True)):
        taps = tensor_of(np.arange(k, dtype=np.int64))
        at = shapes.expand_dims(first, -1) + taps
        shape = [*first.shape[:2], *(1,) * (2 * n)]
        shape[2 + i], shape[2 + n + i] = first.shape[2], k
        at = shapes.reshape(at, tuple(shape)) * math.prod(size[i + 1 :])
        total = at if total is None else arith.add(total, at)
    assert total is not None
    return total
