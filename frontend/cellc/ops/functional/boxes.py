"""Boxes of images: offsets from anchors, what is inside, overlaps, and crops of features.

A box is (x0, y0, x1, y1) in pixels unless said otherwise.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cellc_runtime.dtypes import bool_, float32, float64, int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, scan
from ...tensors.promotion import cast_to
from ...tensors.seed import Generator
from ...tensors.tensor import Tensor
from ..arguments import choice, integer, ints, number, tensor
from ..operands import operands_of
from . import arith, creation, draws, indexing, joining, reductions, shapes, sorting

Four = Sequence[float]


def rows_of(x: Any, columns: int, what: str, name: str) -> Tensor:
    """A tensor of floats of shape (n, columns)."""
    return operands_of(what, f"{name} float (N, {columns})", x)[0]


def _four(given: Any, what: str, name: str) -> tuple[float, ...]:
    """Four numbers, or one for all."""
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return (float(given),) * 4
    if not isinstance(given, (tuple, list)) or len(given) != 4:
        raise misuse(what, f"'{name}' must be a number or 4 numbers", repr(given), TypeError)
    return tuple(float(number(v, what, name)) for v in given)


def _centres(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Centres and sizes; a box from pixel a to pixel b is b - a + 1 wide."""
    x0, y0, x1, y1 = joining.unstack(boxes, 1)
    w, h = x1 - x0 + 1.0, y1 - y0 + 1.0
    return (x0 + x1) * 0.5, (y0 + y1) * 0.5, w, h


def bounding_box_encode(
    anchor_box: Tensor, groundtruth_box: Tensor, means: Any = (0.0,) * 4, stds: Any = (1.0,) * 4
) -> Tensor:
    """How far boxes are from anchors, in units of the anchors' sizes; sizes as logarithms.

    Args:
        anchor_box, groundtruth_box: floats (n, 4).
        means, stds: of the four offsets; taken from them, and divided by.
    """
    what = "bounding_box_encode"
    x, y, w, h = _centres(rows_of(anchor_box, 4, what, "anchor_box"))
    u, v, p, q = _centres(rows_of(groundtruth_box, 4, what, "groundtruth_box"))
    found = (arith.div(arith.sub(u, x), w), arith.div(arith.sub(v, y), h),
             apply("log", arith.div(p, w)),
             apply("log", arith.div(q, h)))
    centre, spread = _four(means, what, "means"), _four(stds, what, "stds")
    return joining.stack([arith.div(arith.sub(d, a), s)
                          for d, a, s in zip(found, centre, spread, strict=True)], -1)


def bounding_box_decode(
    anchor_box: Tensor, deltas: Tensor, max_shape: Any, means: Any = (0.0,) * 4,
    stds: Any = (1.0,) * 4, wh_ratio_clip: float = 0.016,
) -> Tensor:
    """The boxes that offsets from anchors stand for, cut at the borders of an image.

    Args:
        anchor_box, deltas: floats (n, 4).
        max_shape: height and width of the image.
        means, stds: as they were for `bounding_box_encode`.
        wh_ratio_clip: sizes change by no more than this factor.
    """
    what = "bounding_box_decode"
    x, y, w, h = _centres(rows_of(anchor_box, 4, what, "anchor_box"))
    scaled = [arith.add(arith.mul(d, s), a) for d, s, a in zip(
        joining.unstack(rows_of(deltas, 4, what, "deltas"), 1), _four(stds, what, "stds"),
        _four(means, what, "means"), strict=True)]
    size = ints(max_shape, what, "max_shape")
    if len(size) != 2:
        raise misuse(what, "'max_shape' must be (height, width)", size)
    clip = number(wh_ratio_clip, what, "wh_ratio_clip")
    if clip <= 0:
        raise misuse(what, "'wh_ratio_clip' must be above 0", clip)
    most = abs(math.log(clip))
    corners: list[list[Tensor]] = [[], []]
    for start, length, shift, growth, bound in zip(
            (x, y), (w, h), scaled[:2], scaled[2:], reversed(size), strict=True):
        centre = arith.add(start, arith.mul(length, shift))
        half = arith.mul(length, apply("exp", arith.clamp(growth, -most, most))) * 0.5
        for side, at in zip(corners, (arith.add(arith.sub(centre, half), 0.5),
                                      arith.sub(arith.add(centre, half), 0.5)), strict=True):
            side.append(arith.clamp(at, 0.0, float(bound)))
    return joining.stack([*corners[0], *corners[1]], -1)


def check_valid(bboxes: Tensor, img_metas: Tensor) -> Tensor:
    """Whether boxes lie within an image: bools (n).

    Args:
        bboxes: floats (n, 4).
        img_metas: height, width and the ratio by which the image was scaled, of the same type.
    """
    what = "check_valid"
    boxes, metas = rows_of(bboxes, 4, what, "bboxes"), tensor(img_metas, what, "img_metas")
    if metas.shape != (3,) or metas.dtype != boxes.dtype:
        raise misuse(what, f"'img_metas' must hold 3 {boxes.dtype}, but is {metas.dtype} of shape "
                     f"{metas.shape}")
    x0, y0, x1, y1 = joining.unstack(boxes, 1)
    height, width, ratio = joining.unstack(metas)
    inside = arith.logical_and(x0 >= 0.0, y0 >= 0.0)
    for at, size in ((x1, width), (y1, height)):
        inside = arith.logical_and(inside, arith.le(at, arith.mul(size, ratio) - 1.0))
    return inside


# --- suppression ----------------------------------------------------------------------------------


def overlaps(boxes: Tensor, others: Tensor) -> Tensor:
    """Areas in common over areas of unions: (n, k). Boxes may name their corners in any order."""
    def sides(t: Tensor, shape: tuple[int, int]) -> list[Tensor]:
        columns = [shapes.reshape(c, shape) for c in joining.unstack(t, 1)]
        return [f(columns[i], columns[i + 2]) for f in (arith.minimum, arith.maximum)
                for i in (0, 1)]

    a, b = sides(boxes, (-1, 1)), sides(others, (1, -1))
    spans = [arith.maximum(arith.minimum(a[i + 2], b[i + 2]) - arith.maximum(a[i], b[i]), 0.0)
             for i in (0, 1)]
    inner = arith.mul(*spans)
    areas = [arith.sub(t[2], t[0]) * arith.sub(t[3], t[1]) for t in (a, b)]
    union = arith.add(*areas) - inner
    return arith.where(union > 0.0, inner / arith.where(union > 0.0, union, 1.0), 0.0)


def _suppress(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Let a kept box remove later ones that overlap it too much."""
    (kept,), (row,), last = carried, xs, carried[0].ndim - 1
    places = apply("iota", shape=(*(1,) * last, kept.shape[last]), axis=last, dtype=int64)
    here = reductions.any(arith.logical_and(kept, arith.eq(places, i)), last, True)
    taken = arith.logical_and(arith.logical_and(row, arith.gt(places, i)), here)
    return [arith.logical_and(kept, arith.logical_not(taken))], []


def greedy(conflicts: Tensor, candidates: Tensor) -> Tensor:
    """Which of candidates (..., n) stay, first to last, if none may stay together with an earlier
    one that conflicts (..., n, n) with it."""
    rank, n = candidates.ndim, candidates.shape[-1]
    (kept,), _ = scan(("boxes", "greedy", rank), [candidates], [shapes.moveaxis(conflicts, -2, 0)],
                      [], n, _suppress)
    return kept


def nms_with_mask(bboxes: Tensor, iou_threshold: float) -> tuple[Tensor, Tensor, Tensor]:
    """Non-maximum suppression: boxes by falling score, their places (0, 1, ...), and which stay.

    Args:
        bboxes: floats (n, 5): the box and its score.
        iou_threshold: a box goes whose overlap with a better one that stays is above it.
    """
    what = "NMSWithMask"
    x = rows_of(bboxes, 5, what, "bboxes")
    if not x.shape[0]:
        raise misuse(what, "'bboxes' must hold at least one box")
    score = shapes.squeeze(joining.part(x, 1, 4, 5), 1)
    order = sorting.argsort(score, 0, True)
    boxes = apply("gather", x, order, axis=0)
    corners = joining.part(boxes, 1, 0, 4)
    conflicts = overlaps(corners, corners) > float(iou_threshold)
    kept = greedy(conflicts, creation.full((x.shape[0],), True, dtype=bool_))
    return boxes, creation.arange(x.shape[0], dtype=int32), kept


def choice_with_mask(
    input_x: Tensor, count: int = 256, seed: int | Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Places of true elements, drawn at random without repetition.

    Args:
        input_x: bools of 1 to 5 axes.
        count: how many are drawn.
        seed: of the draw; None: the global generator.

    Returns:
        int32 (count, axes of input_x), zeros where there are no more true elements; bools (count)
        that tell which rows are draws.
    """
    what = "choice_with_mask"
    (x,), n = operands_of(what, "input_x bool", input_x), integer(count, what, "count")
    if n < 1 or not 1 <= x.ndim <= 5:
        raise misuse(what, "a 'count' above 0 and 1 to 5 axes are needed",
                     f"{count} and shape {x.shape}")
    flat = shapes.reshape(x, (-1,))
    drawn = min(n, flat.shape[0])
    keys = arith.where(flat, draws.rand(*flat.shape, seed=seed), -1.0)
    best, place = sorting.topk(keys, drawn)
    valid = best >= 0.0
    index = arith.where(shapes.reshape(valid, (-1, 1)), unravelled(place, x.shape, int32), 0)
    if drawn == n:
        return index, valid
    rest = n - drawn
    return (joining.concat((index, creation.zeros((rest, x.ndim), int32)), 0),
            joining.concat((valid, creation.full((rest,), False, dtype=bool_)), 0))


def unravelled(place: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """Places in a flat array as coordinates, along a new last axis."""
    rest, columns = place, []
    for d in reversed(shape):
        columns.append(arith.remainder(rest, max(d, 1)))
        rest = arith.floor_divide(rest, max(d, 1))
    return cast_to(joining.stack(columns[::-1], -1), dtype)


# --- crops ----------------------------------------------------------------------------------------


def _pick_pixels(images: Tensor, image: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Pixels (n, h, w, channels) of images (N, H, W, channels) at int rows (n, h) and columns
    (n, w), of one image for each of the n."""
    _, height, width, channels = images.shape
    flat = shapes.reshape(images, (-1, channels))
    start = arith.mul(cast_to(image, int64), height)
    line = arith.mul(shapes.reshape(start, (-1, 1)) + rows, width)
    at = shapes.expand_dims(line, 2) + shapes.expand_dims(columns, 1)
    return apply_one("gather", flat, at, axis=0)


def _blend(images: Tensor, image: Tensor, ys: Tensor, xs: Tensor) -> Tensor:
    """Images read between pixels, linearly: at rows (n, h) and columns (n, w) within them."""
    _, height, width, _ = images.shape
    sides = []
    for at, size in ((ys, height), (xs, width)):
        low = arith.floor(at)
        sides.append(
            (cast_to(low, int64), cast_to(arith.minimum(arith.ceil(at), size - 1.0), int64),
             arith.sub(at, low)))
    (top, bottom, down), (left, right, across) = sides
    down, across = (shapes.reshape(t, s) for t, s in (
        (down, (*down.shape, 1, 1)), (across, (across.shape[0], 1, -1, 1))))

    def line(rows: Tensor) -> Tensor:
        a, b = _pick_pixels(images, image, rows, left), _pick_pixels(images, image, rows, right)
        return a + arith.mul(b - a, across)

    first, second = line(top), line(bottom)
    return arith.add(first, arith.mul(arith.sub(second, first), down))


def _spread(low: Tensor, high: Tensor, size: int, count: int) -> Tensor:
    """Positions (n, count) from low to high, in pixels of an axis of `size`."""
    first, last = (shapes.reshape(arith.mul(t, float(size - 1)), (-1, 1)) for t in (low, high))
    if count == 1:
        return (first + last) * 0.5
    step = (last - first) / float(count - 1)
    return first + cast_to(creation.arange(count), float32) * step


def _crop_arguments(
    image: Any, boxes: Any, box_indices: Any, crop_size: Any, what: str
) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    x, b, places = operands_of(
        what, "image (N, H, W, C), boxes float (n, 4), box_indices int (n)", image, boxes,
        box_indices)
    size = ints(crop_size, what, "crop_size")
    if len(size) != 2 or min(size) < 1:
        raise misuse(what, "'crop_size' must be 2 positive ints", crop_size)
    indexing.check_index(places, x.shape[0], what)
    return cast_to(x, float32), cast_to(b, float32), places, size


def crop_and_resize(
    image: Tensor, boxes: Tensor, box_indices: Tensor, crop_size: Any, method: str = "bilinear",
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Parts of images, each brought to one size: float32 (boxes, height, width, C).

    Args:
        image: (N, H, W, C).
        boxes: floats (n, 4): y0, x0, y1, x1, where 0 and 1 are the first and the last pixel; a
            first above the second turns the part over.
        box_indices: ints (n), the image of each box.
        crop_size: height and width of the parts.
        method: "bilinear", "nearest", or "bilinear_v2", which takes pixels for squares and reads
            none outside of the box.
        extrapolation_value: where a part lies outside of its image.

    Raises:
        IndexError: a box of an image that is not there, where it is known.
    """
    what = "crop_and_resize"
    x, b, places, (height, width) = _crop_arguments(image, boxes, box_indices, crop_size, what)
    choice(method, ("bilinear", "nearest", "bilinear_v2"), what, "method")
    y0, x0, y1, x1 = joining.unstack(b, 1)
    rows, columns = x.shape[1:3]
    if method == "bilinear_v2":
        ys, top = _squares(y0, y1, rows, height)
        xs, left = _squares(x0, x1, columns, width)
        return _blend(x, places, arith.clamp(ys + top, 0.0, rows - 1.0),
                      arith.clamp(xs + left, 0.0, columns - 1.0))
    ys, xs = _spread(y0, y1, rows, height), _spread(x0, x1, columns, width)
    inside = [arith.logical_and(arith.ge(t, 0.0), arith.le(t, n - 1.0))
              for t, n in ((ys, rows), (xs, columns))]
    ys, xs = (arith.where(ok, t, 0.0) for ok, t in zip(inside, (ys, xs), strict=True))
    if method == "nearest":
        out = _pick_pixels(x, places,
                           *(cast_to(arith.floor(arith.add(t, 0.5)), int64) for t in (ys, xs)))
    else:
        out = _blend(x, places, ys, xs)
    ok = arith.logical_and(shapes.expand_dims(inside[0], 2), shapes.expand_dims(inside[1], 1))
    return arith.where(shapes.expand_dims(ok, 3), out, float(extrapolation_value))


def _squares(low: Tensor, high: Tensor, size: int, count: int) -> tuple[Tensor, Tensor]:
    """Positions (n, count) in a part of whole pixels, and its first pixel (n, 1)."""
    first, last = (
        arith.trunc(shapes.reshape(arith.mul(t, float(size)), (-1, 1))) for t in (low, high))
    length = arith.maximum(last - first + 1.0, 1.0)
    middle = cast_to(creation.arange(count), float32) + 0.5
    at = middle * (length / float(count)) - 0.5
    return arith.minimum(arith.maximum(at, 0.0), length - 1.0), first


def roi_align(
    features: Tensor, rois: Tensor, pooled_height: int, pooled_width: int, spatial_scale: float,
    sample_num: int = 2, roi_end_mode: int = 1,
) -> Tensor:
    """Means of features around evenly spaced points of regions (He et al., 2017).

    Args:
        features: floats (N, C, H, W).
        rois: (n, 5): the image, x0, y0, x1, y1.
        pooled_height, pooled_width: parts of a region.
        spatial_scale: from coordinates of regions to those of features.
        sample_num: points of a part along each axis; above 0.
        roi_end_mode: 1: the last pixel of a region belongs to it; 0: regions are at least one
            feature large.

    Returns:
        (n, C, pooled_height, pooled_width).
    """
    what = "ROIAlign"
    x, regions = operands_of(what, "features float (N, C, H, W), rois float (n, 5)", features, rois)
    counts = [integer(v, what, n) for v, n in (
        (pooled_height, "pooled_height"), (pooled_width, "pooled_width"),
        (sample_num, "sample_num"))]
    mode = integer(roi_end_mode, what, "roi_end_mode")
    if min(counts) < 1 or mode not in (0, 1):
        raise misuse(what, "sizes and 'sample_num' must be above 0 and 'roi_end_mode' 0 or 1",
                     (*counts, mode))
    high, wide, samples = counts
    wider = x if x.dtype is float64 else cast_to(x, float32)
    image, x0, y0, x1, y1 = joining.unstack(cast_to(regions, wider.dtype), 1)
    image = cast_to(image, int64)
    indexing.check_index(image, x.shape[0], what)
    pixels = shapes.transpose(wider, (0, 2, 3, 1))
    scale = float(number(spatial_scale, what, "spatial_scale"))
    ys, xs = (_points(a, z, scale, mode, n, samples)
              for a, z, n in ((y0, y1, high), (x0, x1, wide)))
    sizes = x.shape[2:]
    inside = [arith.logical_and(arith.ge(t, -1.0), arith.le(t, float(n)))
              for t, n in zip((ys, xs), sizes, strict=True)]
    ys, xs = (arith.clamp(t, 0.0, n - 1.0) for t, n in zip((ys, xs), sizes, strict=True))
    read = _blend(pixels, image, ys, xs)
    ok = arith.logical_and(shapes.expand_dims(inside[0], 2), shapes.expand_dims(inside[1], 1))
    read = arith.where(shapes.expand_dims(ok, 3), read, 0.0)
    parts = shapes.reshape(read, (-1, high, samples, wide, samples, x.shape[1]))
    return cast_to(shapes.transpose(reductions.mean(parts, (2, 4)), (0, 3, 1, 2)), x.dtype)


def _points(low: Tensor, high: Tensor, scale: float, mode: int, parts: int, samples: int
            ) -> Tensor:
    """Positions (n, parts * samples) of the points of regions along an axis."""
    start = shapes.reshape(low * scale, (-1, 1))
    end = shapes.reshape((high + float(mode)) * scale, (-1, 1))
    length = arith.maximum(end - start, 0.0 if mode else 1.0)
    share = (creation.arange(parts * samples, dtype=start.dtype) + 0.5) / (parts * samples)
    return start + length * share
