"""Resizing, sampling at points, regions, boxes, columns of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime import dtypes

from ..core.dispatch import apply_one
from ..ops.functional import boxes as boxes_
from ..ops.functional import indexing, linalg, sampling, shapes, sorting
from ..tensors.promotion import constant
from ..tensors.tensor import Tensor, tensor_of
from .neural import Window
from .shaping import reshaped, sliced, transposed
from .table import Array, Call, axis_of, counted, like, rule, sizes, to

A = apply_one
_FEW = 8  # Taps of an output element up to which they are gathered one by one


# --- Resize ---------------------------------------------------------------------------------------


class _Axis:
    """How one axis is resized: its taps and their weights for each output position.

    Attributes:
        size, out: lengths before and after.
        scale: how much longer it becomes.
        roi: the first and last place, in parts of the axis.
    """

    def __init__(self, c: Call, size: int, out: int, scale: float, roi: tuple[float, float]):
        self.c, self.size, self.out, self.scale, self.roi = c, size, out, scale, roi
        counted(out, "the resized length")
        if not 0 < scale < math.inf or size < 1:
            raise c.refuse(f"{size} elements cannot be resized to {out}, {scale} times as many")

    def places(self) -> Array:
        """Where each output position lies in the input."""
        mode = self.c.text("coordinate_transformation_mode", "half_pixel")
        if self.c.opset < 11:
            mode = "asymmetric"
        x, n, scale = np.arange(self.out, dtype=np.float64), self.size, self.scale
        whole = scale * n
        if mode == "align_corners":
            return x * 0.0 if whole == 1 else x * (n - 1) / (whole - 1)
        if mode == "asymmetric":
            return x / scale
        if mode == "tf_half_pixel_for_nn":
            return (x + 0.5) / scale
        if mode == "tf_crop_and_resize":
            a, z = self.roi
            step = x * (z - a) * (n - 1) / (whole - 1) if whole != 1 else x + (z - a) * (n - 1) / 2
            return step + a * (n - 1)
        half = (x + 0.5) / scale - 0.5
        if mode == "pytorch_half_pixel":
            return x * 0.0 - 0.5 if self.out == 1 else half
        if mode == "half_pixel_symmetric":
            return n / 2 * (1 - self.out / whole) + half
        if mode != "half_pixel":
            raise self.c.refuse(f"its 'coordinate_transformation_mode' {mode!r} is unknown")
        return half

    def taps(self, kind: str) -> tuple[Array, Array]:
        """The positions (out, taps) that are read, and their weights."""
        at = self.places()
        if kind == "nearest":
            return self._nearest(at)[:, None], np.ones((self.out, 1))
        low = np.ceil(at) - 1  # the share of the upper neighbour is in (0, 1]
        share = at - low
        shrink = min(self.scale, 1.0) if self.c.flag("antialias") else 1.0
        reach = 1 if kind == "linear" else 2
        first = math.floor(-reach / shrink) + 1
        counted(self.out * (2 - 2 * first), "the taps of an axis")
        offsets = np.arange(first, 2 - first)
        away = np.abs(offsets - share[:, None]) * shrink
        weights = np.clip(1 - away, 0, 1) if kind == "linear" else self._cubic(away)
        places = low[:, None] + offsets
        if shrink < 1:
            weights = weights / weights.sum(1, keepdims=True)
        if self.c.flag("exclude_outside"):
            weights = weights * ((places >= 0) & (places < self.size))
            weights = weights / weights.sum(1, keepdims=True)
        return np.clip(places, 0, self.size - 1).astype(np.int64), weights

    def _nearest(self, at: Array) -> Array:
        mode = self.c.text("nearest_mode", "round_prefer_floor")
        if self.c.opset < 11 or mode == "floor":
            near = np.floor(at)
        elif mode == "ceil":
            near = np.ceil(at)
        else:
            near = np.ceil(at - 0.5) if mode == "round_prefer_floor" else np.floor(at + 0.5)
        return np.clip(near, 0, self.size - 1).astype(np.int64)

    def _cubic(self, d: Array) -> Array:
        """The kernel of Keys (1981)."""
        a = self.c.real("cubic_coeff_a", -0.75)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    def outside(self) -> Array | None:
        """Which output positions lie outside of the input, where that counts."""
        if self.c.text("coordinate_transformation_mode", "") != "tf_crop_and_resize":
            return None
        at = self.places()
        return (at < 0) | (at > self.size - 1)


def _lines(values: Array, x: Tensor, axis: int) -> Tensor:
    shape = [1] * x.ndim
    shape[axis] = len(values)
    return tensor_of(np.ascontiguousarray(values).astype(x.dtype.numpy).reshape(shape))


def _resized(x: Tensor, axis: int, how: _Axis, kind: str) -> Tensor:
    places, weights = how.taps(kind)
    if places.shape[1] == 1:
        return A("gather", x, tensor_of(places[:, 0].copy()), axis=axis)
    used = weights.any(0)
    places, weights = places[:, used], weights[:, used]
    if places.shape[1] <= _FEW:
        return reduce(lambda a, b: A("add", a, b), (
            A("mul", A("gather", x, tensor_of(p.copy()), axis=axis), _lines(w, x, axis))
            for p, w in zip(places.T, weights.T, strict=True)))
    counted(how.size * how.out, "the weights of an axis")
    matrix = np.zeros((how.size, how.out))
    for k in range(places.shape[1]):
        np.add.at(matrix, (places[:, k], np.arange(how.out)), weights[:, k])
    last = shapes.swapaxes(x, axis, -1)
    y = linalg.matmul(last, tensor_of(matrix.astype(x.dtype.numpy)))
    return shapes.swapaxes(y, axis, -1)


def _target(c: Call, x: Tensor, axes: Sequence[int], scales: Array | None, size: Array | None
            ) -> tuple[list[int], list[float]]:
    """The new lengths of these axes, and how much longer they become."""
    old = [x.shape[a] for a in axes]
    if size is None or not size.size:
        if scales is None or not scales.size:
            raise c.refuse("neither scales nor sizes are given")
        factors = [float(s) for s in scales.reshape(-1)]
        new = [d * round(f) if is_symbolic(d) and f == round(f) else math.floor(d * f)
               for d, f in zip(old, factors, strict=True)]
        return new, factors
    wanted = list(sizes(size))
    policy = c.text("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        pick = min if policy == "not_larger" else max
        factor = pick(n / d for n, d in zip(wanted, old, strict=True))
        return [math.floor(factor * d + 0.5) for d in old], [factor] * len(old)
    return wanted, [n / d if not is_symbolic(n) and not is_symbolic(d) else 0.0
                    for n, d in zip(wanted, old, strict=True)]


def _repeated(x: Tensor, axis: int, times: int) -> Tensor:
    """Each element several times."""
    wide = A("broadcast_to", shapes.expand_dims(x, axis + 1),
             shape=(*x.shape[: axis + 1], times, *x.shape[axis + 1 :]))
    return reshaped(wide, (*x.shape[:axis], x.shape[axis] * times, *x.shape[axis + 1 :]))


@rule("Resize", known=(1, 2, 3))
def _resize(c: Call, x: Tensor, roi: Array | None = None, scales: Array | None = None,
            size: Array | None = None) -> Tensor:
    if c.opset < 11:
        roi, scales = None, roi
    given = c.ints("axes")
    axes = list(range(x.ndim)) if given is None else [axis_of(a, x.ndim) for a in given]
    kind = c.text("mode", "nearest")
    kind = "linear" if kind in ("linear", "bilinear") else kind
    if kind not in ("nearest", "linear", "cubic"):
        raise c.refuse(f"its 'mode' is {kind!r}")
    new, factors = _target(c, x, axes, scales, size)
    dtype, outside = x.dtype, None
    y = to(x, dtypes.float32) if dtype.is_integer or dtype.itemsize == 2 else x
    crop = c.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    for i, (a, n, factor) in enumerate(zip(axes, new, factors, strict=True)):
        old = x.shape[a]
        if (not crop and factor == 1.0) or (is_symbolic(n) and n == old):
            continue
        if is_symbolic(old) or is_symbolic(n):
            y = _open(c, y, a, old, n, kind, factor)
            continue
        ends = (0.0, 1.0) if roi is None or not roi.size else (
            float(roi[i]), float(roi[i + len(axes)]))
        how = _Axis(c, old, n, factor, ends)
        y = _resized(y, a, how, kind)
        out = how.outside()
        if out is not None:
            flags = tensor_of(out.reshape([len(out) if k == a else 1 for k in range(x.ndim)]))
            outside = flags if outside is None else A("logical_or", outside, flags)
    if outside is not None:
        y = A("where", outside, like(c.real("extrapolation_value", 0.0), y), y)
    if dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        y = A("clamp", A("round", y), min=float(limits.min), max=float(limits.max))
    return to(y, dtype)


def _open(c: Call, x: Tensor, axis: int, old: Any, new: Any, kind: str, factor: float) -> Tensor:
    """An axis of open size: whole factors of the nearest element are repetitions."""
    times = round(factor)
    mode = c.text("coordinate_transformation_mode", "half_pixel")
    if kind == "nearest" and times == factor and times > 1 and (
            mode in ("asymmetric", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
            and (mode != "asymmetric" or c.opset < 11 or
                 c.text("nearest_mode", "round_prefer_floor") == "floor")):
        return _repeated(x, axis, times)
    size, out = int(old), int(new)  # these fix the size
    return _resized(x, axis, _Axis(c, size, out, factor or out / size, (0.0, 1.0)), kind)


@rule("Upsample", known=(1,))
def _upsample(c: Call, x: Tensor, scales: Array | None = None) -> Tensor:
    given = np.array(c.attrs.get("scales", ()) if scales is None else scales, np.float32)
    kept, c.opset = c.opset, 10
    try:
        out: Tensor = _resize(c, x, given)
    finally:
        c.opset = kept
    return out


# --- samples --------------------------------------------------------------------------------------


@rule("GridSample")
def _grid_sample(c: Call, x: Tensor, grid: Tensor) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(
        c.text("mode", "bilinear"), c.text("mode", "bilinear"))
    padding, align = c.text("padding_mode", "zeros"), c.flag("align_corners")
    if mode != "bicubic":
        return sampling.grid_sample(x, to(grid, x.dtype), mode, padding, align)
    return _cubic_samples(c, x, to(grid, x.dtype), padding, align)


def _cubic_samples(c: Call, x: Tensor, grid: Tensor, padding: str, align: bool) -> Tensor:
    """Cubic convolution around points of an image; positions outside are padded one by one."""
    if x.ndim != 4:
        raise c.refuse("cubic samples are read from images alone")
    n, ch, h, w = x.shape
    flat = reshaped(x, (n, ch, h * w))
    axes = []
    for i, d in ((1, h), (0, w)):
        at = shapes.squeeze(sliced(grid, 3, i, i + 1), 3)
        scaled = A("add", at, like(1, x))
        p = A("mul", scaled, like((d - 1) / 2, x)) if align else \
            A("div", A("sub", A("mul", scaled, like(d, x)), like(1, x)), like(2, x))
        low = A("floor", p)
        t = A("sub", p, low)
        weights = [_keys(A("abs", A("sub", t, like(k, x)))) for k in (-1, 0, 1, 2)]
        places = [_padded(A("add", low, like(k, x)), d, padding, align) for k in (-1, 0, 1, 2)]
        axes.append(list(zip(places, weights, strict=True)))
    total: Tensor | None = None
    rows, columns = grid.shape[1], grid.shape[2]
    for (y, y_in), wy in axes[0]:
        for (z, z_in), wz in axes[1]:
            place = A("add", A("mul", y, constant(w, dtypes.int64)), z)
            index = A("broadcast_to", reshaped(place, (n, 1, rows * columns)),
                      shape=(n, ch, rows * columns))
            read = reshaped(indexing.gather_elements(flat, 2, index), (n, ch, rows, columns))
            weight = A("mul", A("mul", wy, wz), to(A("logical_and", y_in, z_in), x.dtype))
            part = A("mul", read, shapes.expand_dims(weight, 1))
            total = part if total is None else A("add", total, part)
    assert total is not None
    return total


def _keys(d: Tensor) -> Tensor:
    """The cubic kernel with a = -0.75."""
    def poly(*factors: float) -> Tensor:
        out = like(factors[0], d)
        for f in factors[1:]:
            out = A("add", A("mul", out, d), like(f, d))
        return out

    near, far = poly(1.25, -2.25, 0.0, 1.0), poly(-0.75, 3.75, -6.0, 3.0)
    return A("where", A("le", d, like(1, d)), near,
             A("where", A("lt", d, like(2, d)), far, like(0, d)))


def _padded(p: Tensor, d: int, padding: str, align: bool) -> tuple[Tensor, Tensor]:
    """Positions inside of an axis, and whether they count."""
    inside = A("logical_and", A("ge", p, like(0, p)), A("le", p, like(d - 1, p)))
    if padding == "reflection":
        low, span = (0.0, float(d - 1)) if align else (-0.5, float(d))
        turn = A("mod", A("abs", A("sub", p, like(low, p))), like(max(2 * span, 1.0), p))
        p = A("add", A("minimum", turn, A("sub", like(2 * span, p), turn)), like(low, p))
    if padding != "zeros":
        inside = A("eq", p, p)
    return to(A("clamp", p, min=0.0, max=float(d - 1)), dtypes.int64), inside


@rule("AffineGrid", known=(1,))
def _affine_grid(c: Call, theta: Tensor, size: Array) -> Tensor:
    return sampling.affine_grid(theta, sizes(size), c.flag("align_corners"))


@rule("RoiAlign")
def _roi_align(c: Call, x: Tensor, rois: Tensor, image: Tensor) -> Tensor:
    high, wide = c.whole("output_height", 1), c.whole("output_width", 1)
    samples, scale = c.whole("sampling_ratio", 0), c.real("spatial_scale", 1.0)
    half = c.opset >= 16 and c.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    if samples < 1:
        raise c.refuse("a 'sampling_ratio' that follows from each region is not read")
    regions = to(rois, x.dtype)
    corners = A("mul", regions, like(scale, x))
    corners = A("sub", corners, like(0.5, x)) if half else corners
    x0, y0, x1, y1 = (reshaped(sliced(corners, 1, i, i + 1), (rois.shape[0], 1)) for i in range(4))

    def line(low: Tensor, end: Tensor, parts: int, size: int) -> tuple[Tensor, Tensor]:
        """Places (regions, parts * samples), and whether they are inside."""
        counted(parts * samples, "the samples of a region")
        length = A("sub", end, low)
        length = length if half else A("maximum", length, like(1, x))
        steps = (np.arange(parts * samples) + 0.5) / (parts * samples)
        at = A("add", low, A("mul", length, tensor_of(steps.astype(x.dtype.numpy)[None])))
        inside = A("logical_and", A("ge", at, like(-1, x)), A("le", at, like(size, x)))
        return A("clamp", at, min=0.0, max=float(size - 1)), inside

    (ys, y_in), (xs, x_in) = line(y0, y1, high, x.shape[2]), line(x0, x1, wide, x.shape[3])
    best = c.text("mode", "avg") == "max"
    parts = _four_corners(x, to(image, dtypes.int64), ys, xs, best)
    inside = A("logical_and", shapes.expand_dims(y_in, 2), shapes.expand_dims(x_in, 1))
    read = A("where", shapes.expand_dims(inside, 1), parts, like(0, x))
    split = reshaped(read, (rois.shape[0], x.shape[1], high, samples, wide, samples))
    return A("reduce_max" if best else "reduce_mean", split, axes=(3, 5), keepdims=False)


def _four_corners(x: Tensor, image: Tensor, ys: Tensor, xs: Tensor, best: bool) -> Tensor:
    """Blends (regions, C, rows, columns) of four neighbours; for maxima the largest share."""
    n, ch, h, w = x.shape
    regions, rows, columns = ys.shape[0], ys.shape[1], xs.shape[1]
    flat = reshaped(transposed(x, 0, 2, 3, 1), (n * h * w, ch))
    base = reshaped(A("mul", image, constant(h * w, dtypes.int64)), (regions, 1, 1))
    out: Tensor | None = None
    for dy in (0, 1):
        for dx in (0, 1):
            share, place = [], []
            for at, d, size in ((ys, dy, h), (xs, dx, w)):
                low = A("floor", at)
                up = A("sub", at, low)
                share.append(up if d else A("sub", like(1, x), up))
                place.append(to(A("clamp", A("add", low, like(d, x)), min=0.0,
                                  max=float(size - 1)), dtypes.int64))
            row = A("mul", shapes.expand_dims(place[0], 2), constant(w, dtypes.int64))
            index = A("add", A("add", base, row), shapes.expand_dims(place[1], 1))
            read = indexing.gather(flat, reshaped(index, (regions * rows * columns,)), 0)
            read = transposed(reshaped(read, (regions, rows, columns, ch)), 0, 3, 1, 2)
            weight = A("mul", shapes.expand_dims(share[0], 2), shapes.expand_dims(share[1], 1))
            part = A("mul", read, shapes.expand_dims(weight, 1))
            out = part if out is None else A("maximum" if best else "add", out, part)
    assert out is not None
    return out


# --- boxes ----------------------------------------------------------------------------------------


@rule("NonMaxSuppression", known=(2,))
def _nms(c: Call, boxes: Tensor, scores: Tensor, most: Array | None = None,
         overlap: Tensor | None = None, least: Tensor | None = None) -> Tensor:
    """Boxes by falling score; one that overlaps a kept one is dropped."""
    limit = 0 if most is None else int(sizes(most)[0])
    batches, classes, n = scores.shape
    zero = like(0, boxes)
    threshold = zero if overlap is None else reshaped(overlap, ())
    corners = [sliced(boxes, 2, i, i + 1) for i in range(4)]
    if c.flag("center_point_box"):
        x, y, w, h = corners
        half = like(0.5, boxes)
        ends = [(A("sub", v, A("mul", d, half)), A("add", v, A("mul", d, half)))
                for v, d in ((y, h), (x, w))]
    else:
        ends = [(A("minimum", a, b), A("maximum", a, b))
                for a, b in ((corners[0], corners[2]), (corners[1], corners[3]))]
    meet = [A("maximum", A("sub", A("minimum", hi, transposed(hi, 0, 2, 1)),
                           A("maximum", lo, transposed(lo, 0, 2, 1))), zero) for lo, hi in ends]
    both = A("mul", meet[0], meet[1])
    area = A("mul", *(A("sub", hi, lo) for lo, hi in ends))
    union = A("sub", A("add", area, transposed(area, 0, 2, 1)), both)
    ratio = A("where", A("gt", union, zero), A("div", both, union), zero)
    clash = shapes.expand_dims(A("gt", ratio, threshold), 1)  # (B, 1, n, n)
    order = to(sorting.argsort(A("neg", scores), -1), dtypes.int64)
    clash = A("broadcast_to", clash, shape=(batches, classes, n, n))
    sorted_rows = indexing.gather_elements(clash, 2, A(
        "broadcast_to", shapes.expand_dims(order, 3), shape=(batches, classes, n, n)))
    conflicts = indexing.gather_elements(sorted_rows, 3, A(
        "broadcast_to", shapes.expand_dims(order, 2), shape=(batches, classes, n, n)))
    ranked = indexing.gather_elements(scores, 2, order)
    candidates = A("eq", ranked, ranked) if least is None else \
        A("gt", ranked, reshaped(least, ()))
    kept = boxes_.greedy(conflicts, candidates)
    counts = A("cumsum", to(kept, dtypes.int64), axis=2)
    kept = A("logical_and", kept, A("le", counts, constant(limit, dtypes.int64)))
    found = to(sorting.nonzero(kept), dtypes.int64)
    at = [reshaped(sliced(found, 1, i, i + 1), (found.shape[0],)) for i in range(3)]
    flat = A("add", A("mul", A("add", A("mul", at[0], constant(classes, dtypes.int64)), at[1]),
                      constant(n, dtypes.int64)), at[2])
    box = indexing.gather(reshaped(order, (batches * classes * n,)), flat, 0)
    return A("concat", sliced(found, 1, 0, 2), shapes.expand_dims(box, 1), axis=1)


# --- columns of windows ---------------------------------------------------------------------------


@rule("Col2Im", known=(1, 2))
def _col2im(c: Call, x: Tensor, image: Array, block: Array) -> Tensor:
    size, kernel = sizes(image), sizes(block)
    n = len(size)
    window = Window(c, size, kernel)
    b, rows, _ = x.shape
    counts = [(d + sum(p) - window.reach(i)) // s + 1 for i, (d, p, s) in enumerate(
        zip(size, window.pads, window.stride, strict=True))]
    counted(math.prod(kernel), "the elements of a window")
    ch = rows // math.prod(kernel)
    y = reshaped(x, (b * ch, *kernel, *counts))
    for i in range(n):  # the taps of one axis after the other are added at their places
        y = _summed_axis(y, size[i], window, i)
    return reshaped(y, (b, ch, *size))


def _summed_axis(y: Tensor, size: int, window: Window, i: int) -> Tensor:
    """Add the taps of the first kernel axis that is left where they lie along its axis."""
    axis, tap = y.ndim - window.n + i, 1
    before, after = window.pads[i]
    total: Tensor | None = None
    for k in range(window.kernel[i]):
        part = shapes.squeeze(sliced(y, tap, k, k + 1), tap)
        low, high, gaps = [0] * part.ndim, [0] * part.ndim, [0] * part.ndim
        a = axis - 1
        low[a] = k * window.dilation[i]
        gaps[a] = window.stride[i] - 1
        span = (part.shape[a] - 1) * window.stride[i] + 1
        high[a] = size + before + after - span - low[a]
        spread = A("pad", part, low=tuple(low), high=tuple(high), interior=tuple(gaps), value=0)
        total = spread if total is None else A("add", total, spread)
    assert total is not None
    return sliced(total, axis - 1, before, before + size)


@rule("DeformConv")
def _deform_conv(c: Call, x: Tensor, w: Tensor, offset: Tensor, bias: Tensor | None = None,
                 mask: Tensor | None = None) -> Tensor:
    """Each tap of the kernel reads the image at a place of its own; then a product."""
    n, ch, h, wide = x.shape
    kernel = tuple(w.shape[2:])
    window, groups, parts = Window(c, (h, wide), kernel), c.whole("group", 1), c.whole(
        "offset_group", 1)
    taps, (rows, columns) = math.prod(kernel), offset.shape[2:]
    counted(taps * rows * columns, "the places that are read")
    moved = reshaped(offset, (n * parts, taps, 2, rows, columns))
    places = []
    for i, length in enumerate((rows, columns)):
        tap = np.indices(kernel)[i].reshape(taps) * window.dilation[i] - window.pads[i][0]
        line = np.arange(length) * window.stride[i]
        base = tap[:, None, None] + (line[:, None] if i == 0 else line[None, :])
        step = shapes.squeeze(sliced(moved, 2, i, i + 1), 2)
        places.append(A("add", step, tensor_of(base.astype(x.dtype.numpy))))
    image = reshaped(x, (n * parts, ch // parts, h, wide))
    grid = [reshaped(A("sub", A("div", A("mul", p, like(2, x)), like(max(d - 1, 1), x)),
                       like(1, x)), (n * parts, taps * rows, columns, 1))
            for p, d in zip(places[::-1], (wide, h), strict=True)]
    read = sampling.grid_sample(image, A("concat", *grid, axis=3), "bilinear", "zeros", True)
    read = reshaped(read, (n, parts, ch // parts, taps, rows * columns))
    if mask is not None:
        read = A("mul", read, reshaped(mask, (n, parts, 1, taps, rows * columns)))
    flat = reshaped(read, (n, groups, ch // groups * taps, rows * columns))
    matrix = reshaped(w, (1, groups, w.shape[0] // groups, w.shape[1] * taps))
    y = reshaped(linalg.matmul(matrix, flat), (n, w.shape[0], rows, columns))
    return y if bias is None else A("add", y, reshaped(bias, (w.shape[0], 1, 1)))

