"""Primitive classes of boxes, images and patches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import float32, int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import integer, number, tensor
from ..functional import (
    arith,
    boxes,
    creation,
    images,
    joining,
    reductions,
    shapes,
    sorting,
    volume,
    window,
)
from ..operands import operands_of
from ..primitive import Primitive
from .tables import make_primitives


def _suppress(
    overlaps: Tensor, scores: Tensor, max_output_size: Any, overlap_threshold: Any,
    score_threshold: Any,
) -> Tensor:
    """Places (int32) of boxes that stay, by falling score, of given overlaps (n, n)."""
    what = "NonMaxSuppressionWithOverlaps"
    pairs, score = operands_of(what, "overlaps (n, n), scores (n)", overlaps, scores)
    order = sorting.argsort(score, 0, True)
    sorted_pairs = apply("gather", apply("gather", pairs, order, axis=0), order, axis=1)
    ahead = arith.gt(apply("gather", score, order, axis=0), _number(score_threshold, what))
    kept = boxes.greedy(arith.gt(sorted_pairs, _number(overlap_threshold, what)), ahead)
    most = integer(max_output_size, what, "max_output_size")
    kept = arith.logical_and(kept, arith.le(reductions.cumsum(cast_to(kept, int64), 0), most))
    return cast_to(sorting.masked_select(order, kept), int32)


def _number(x: Any, what: str) -> Any:
    return cast_to(x, float32) if isinstance(x, Tensor) else float(number(x, what, "threshold"))


def _combine(
    boxes_: Tensor, scores: Tensor, max_output_size_per_class: Any, max_total_size: Any,
    iou_threshold: Any, score_threshold: Any, *, pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best boxes of a batch after suppression within each class.

    Args:
        boxes_: (batch, n, q, 4), where q is 1 or the number of classes.
        scores: (batch, n, classes).
        max_output_size_per_class, max_total_size: how many may stay, ints that are known.
        iou_threshold, score_threshold: overlaps above, and scores not above, are out.
        pad_per_class: results have as many places as all classes together may fill, at most
            `max_total_size`; else `max_total_size`.
        clip_boxes: results lie within [0, 1].

    Returns:
        Boxes, scores and classes, filled with zeros, and how many there are (int32).
    """
    what = "CombinedNonMaxSuppression"
    b, s = tensor(boxes_, what, "boxes"), tensor(scores, what, "scores")
    if b.ndim != 4 or s.ndim != 3 or b.shape[:2] != s.shape[:2] or b.shape[3] != 4 or \
            b.shape[2] not in (1, s.shape[2]):
        raise misuse(what, "boxes (batch, n, q, 4) and scores (batch, n, classes) with q 1 or the "
                     "number of classes are needed", f"{b.shape} and {s.shape}")
    per_class, total = (integer(v, what, n) for v, n in (
        (max_output_size_per_class, "max_output_size_per_class"),
        (max_total_size, "max_total_size")))
    limits = (per_class, _number(iou_threshold, what), _number(score_threshold, what))
    room = min(total, per_class * s.shape[2]) if pad_per_class else total
    rows = [_image_boxes(b[i], s[i], limits, room) for i in range(b.shape[0])]
    out = [joining.stack(list(column), 0) for column in zip(*rows, strict=True)]
    found = arith.clamp(out[0], 0.0, 1.0) if clip_boxes else out[0]
    return found, out[1], out[2], out[3]


def _image_boxes(
    b: Tensor, s: Tensor, limits: tuple[int, Any, Any], room: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best boxes of one image: (room, 4), scores, classes, count."""
    per_class, overlap, least = limits
    n, classes = s.shape
    shown, marks = [], []
    for k in range(classes):
        own, score = b[:, min(k, b.shape[1] - 1)], s[:, k]
        order = sorting.argsort(score, 0, True)
        ordered = apply("gather", own, order, axis=0)
        score = apply("gather", score, order, axis=0)
        kept = boxes.greedy(
            arith.gt(boxes.overlaps(ordered, ordered), overlap), arith.gt(score, least))
        kept = arith.logical_and(
            kept, arith.le(reductions.cumsum(cast_to(kept, int64), 0), per_class))
        shown.append(ordered)
        marks.append(arith.where(kept, score, -float("inf")))
    all_boxes, all_scores = joining.concat(shown, 0), joining.concat(marks, 0)
    kinds = cast_to(arith.floor_divide(creation.arange(n * classes), n), float32)
    best, place = sorting.topk(all_scores, min(room, n * classes))
    valid = best > -float("inf")
    found = [
        arith.where(shapes.expand_dims(valid, 1), apply("gather", all_boxes, place, axis=0), 0.0),
        arith.where(valid, best, 0.0),
        arith.where(valid, apply("gather", kinds, place, axis=0), 0.0)]
    missing = room - best.shape[0]
    if missing > 0:
        found = [
            joining.concat((t, creation.zeros((missing, *t.shape[1:]), t.dtype)), 0) for t in found]
    return found[0], found[1], found[2], cast_to(reductions.sum(cast_to(valid, int32)), int32)


def _patches(
    input_x: Tensor, *, ksizes: Any, strides: Any, rates: Any, padding: str = "VALID"
) -> Tensor:
    size, step, rate = (tuple(v)[-2:] if isinstance(v, (tuple, list)) else v
                        for v in (ksizes, strides, rates))
    return window.image_patches(input_x, size, step, rate, padding)


def _fractional(kind: str) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    def function(
        x: Tensor, *, pooling_ratio: Any, pseudo_random: bool = False, overlapping: bool = False,
        deterministic: bool = False, seed: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return images.fractional_pool(kind, x, pooling_ratio, pseudo_random, overlapping,
                                      deterministic, seed)

    return function


def _fixed(spatial: int) -> Callable[..., tuple[Tensor, Tensor]]:
    pool = volume.fractional_max_pool2d if spatial == 2 else volume.fractional_max_pool3d

    def function(
        x: Tensor, random_samples: Tensor, *, ksize: Any, output_shape: Any,
        data_format: str = "NCHW" if spatial == 2 else "NCDHW",
    ) -> tuple[Tensor, Tensor]:
        last = data_format == "NDHWC"
        t = shapes.moveaxis(x, -1, 1) if last else x
        found: tuple[Tensor, Tensor] = pool(t, ksize, output_shape, None, True, random_samples)
        return (shapes.moveaxis(found[0], 1, -1),
                shapes.moveaxis(found[1], 1, -1)) if last else found

    return function


_PLAIN: dict[str, Callable[..., Any]] = {
    "AdjustHue": images.adjust_hue, "AdjustSaturation": images.adjust_saturation,
    "CheckValid": boxes.check_valid, "HSVToRGB": images.hsv_to_rgb,
    "NonMaxSuppressionWithOverlaps": _suppress, "RGBToHSV": images.rgb_to_hsv,
}

_BOX = {"means": (0.0,) * 4, "stds": (1.0,) * 4}

_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "BoundingBoxDecode": (boxes.bounding_box_decode, {
        "max_shape": REQUIRED, **_BOX, "wh_ratio_clip": 0.016}),
    "BoundingBoxEncode": (boxes.bounding_box_encode, _BOX),
    "ExtractGlimpse": (images.extract_glimpse, {"centered": True, "normalized": True,
                                                "uniform_noise": True, "noise": "uniform"}),
    "NMSWithMask": (boxes.nms_with_mask, {"iou_threshold": 0.5}),
    "ROIAlign": (boxes.roi_align, {
        "pooled_height": REQUIRED, "pooled_width": REQUIRED, "spatial_scale": REQUIRED,
        "sample_num": 2, "roi_end_mode": 1}),
    "ResizeArea": (images.resize_area, {"align_corners": False}),
    "ScaleAndTranslate": (images.scale_and_translate, {"kernel_type": "lanczos3",
                                                       "antialias": True}),
}

_OWN: dict[str, Callable[..., Any]] = {
    "CombinedNonMaxSuppression": _combine,
    "CropAndResize": lambda x, boxes_, box_index, crop_size, *, method="bilinear",
    extrapolation_value=0.0: boxes.crop_and_resize(
        x, boxes_, box_index, crop_size, method, extrapolation_value),
    "Dilation2D": lambda x, filter, *, stride, dilation, pad_mode="SAME", data_format="NCHW":
        images.dilation2d(x, filter, stride, dilation, pad_mode),
    "ExtractImagePatches": _patches,
    "ExtractVolumePatches": lambda input_x, *, kernel_size, strides, padding:
        images.volume_patches(input_x, kernel_size, strides, padding),
    "FractionalAvgPool": _fractional("mean"), "FractionalMaxPool": _fractional("max"),
    "RandomChoiceWithMask": lambda input_x, *, count=256, seed:
        boxes.choice_with_mask(input_x, count, seed),
    "FractionalMaxPoolWithFixedKsize": _fixed(2), "FractionalMaxPool3DWithFixedKsize": _fixed(3),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives(_PLAIN, _WITH_INIT, _OWN)
"""Every primitive class of this module by name."""
