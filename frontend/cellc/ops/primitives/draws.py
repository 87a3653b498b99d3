"""Primitive classes that draw: gamma and Poisson numbers, candidates, masks of dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import DType, float32, int32, int64, uint8

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import integer, number, shape_of, tensor
from ..functional import arith, classes, creation, draws, joining, reductions, rejection, shapes
from ..operands import operands_of
from ..primitive import Primitive
from .tables import make_primitives

Seed = draws.Seed


def _draw_truncated(shape: Any, *, dtype: DType = float32, seed: Seed) -> Tensor:
    return apply_one("random_truncated_normal", draws.drawing_key(seed, "TruncatedNormal"),
                     shape=shape_of(shape, "TruncatedNormal"), dtype=dtype)


def _draw_between(
    shape: Any, mean: Tensor, stdevs: Tensor, min: Tensor, max: Tensor, *, seed: Seed
) -> Tensor:
    what = "ParameterizedTruncatedNormal"
    dims = shape_of(shape, what)
    for name, t in (("mean", mean), ("stdevs", stdevs), ("min", min), ("max", max)):
        if tensor(t, what, name).shape not in ((), (1,), dims[:1]):
            raise misuse(what, f"'{name}' must have shape () or {dims[:1]}, but has {t.shape}")
    return rejection.truncated_between(dims, mean, stdevs, min, max, seed)


def _log_normal(input: Tensor, *, mean: float = 1.0, std: float = 2.0) -> Tensor:
    x = tensor(input, "LogNormalReverse")
    unit = draws.randn_like(x)
    return apply_one("exp", unit * float(std) + float(mean))


def _any_ints(shape: Any, *, dtype: DType = int64) -> Tensor:
    if dtype not in (int32, int64):
        raise misuse("NonDeterministicInts", "'dtype' must be int32 or int64", dtype, TypeError)
    dims = shape_of(shape, "NonDeterministicInts")
    words = (*dims, 1 if dtype is int32 else 2)
    bits: Tensor = apply("random_int", draws.drawing_key(None, "NonDeterministicInts"), shape=words,
                         dtype=int64, low=0, high=2**32)
    parts = [shapes.squeeze(joining.part(bits, len(dims), i, i + 1), len(dims))
             for i in range(words[-1])]
    if dtype is int32:
        return cast_to(arith.sub(parts[0], 2**31), int32)
    return arith.add(arith.sub(parts[0], 2**31) * 2**32, parts[1])


def _cauchy(*, size: Any, median: float = 0.0, sigma: float = 1.0) -> Tensor:
    unit = draws.rand(shape_of(size, "Cauchy", "size"))
    turned: Tensor = apply("tan", (unit - 0.5) * math.pi)
    return turned * float(sigma) + float(median)


# --- masks of bits --------------------------------------------------------------------------------

_WEIGHTS = (1, 2, 4, 8, 16, 32, 64, 128)
_BLOCK = 128  # A mask has whole blocks of as many bits


def _bit_mask(shape: Any, keep_prob: Any, seed: Seed) -> Tensor:
    """A bit for each element, true with probability `keep_prob`: uint8, the first bit lowest."""
    what = "DropoutGenMask"
    keep = float(keep_prob.item() if isinstance(keep_prob, Tensor) else
                 number(keep_prob, what, "keep_prob"))
    if not 0.0 <= keep <= 1.0:
        raise misuse(what, "'keep_prob' must be in [0, 1]", keep)
    count = math.prod(shape_of(shape, what))
    words = -(-count // _BLOCK) * _BLOCK // 8
    bits: Tensor = apply(
        "random_bernoulli", draws.drawing_key(seed, what), shape=(words, 8), p=keep)
    weights = tensor_of(np.array(_WEIGHTS, np.int32))
    return cast_to(reductions.sum(cast_to(bits, int32) * weights, 1), uint8)


def _apply_mask(input_x: Tensor, mask: Tensor, keep_prob: Any) -> Tensor:
    """Elements whose bit is set, over `keep_prob`; zeros elsewhere."""
    what = "DropoutDoMask"
    x, bits = tensor(input_x, what, "input_x"), tensor(mask, what, "mask")
    if bits.dtype is not uint8 or bits.ndim != 1 or bits.shape[0] * 8 < x.size:
        raise misuse(what, f"'mask' must hold a bit for each of {x.size} elements in uint8, but is "
                     f"{bits.dtype} of shape {bits.shape}")
    words = shapes.expand_dims(cast_to(bits, int32), 1)
    weights = tensor_of(np.array(_WEIGHTS, np.int32))
    flat = shapes.reshape(words // weights % 2, (-1,))
    kept = shapes.reshape(joining.part(flat, 0, 0, x.size), x.shape)
    share = cast_to(keep_prob, x.dtype) if isinstance(keep_prob, Tensor) else float(keep_prob)
    return arith.where(kept == 1, arith.div(x, share), creation.zeros_like(x))


# --- boxes for crops ------------------------------------------------------------------------------


def _distorted_box(
    image_size: Tensor, bounding_boxes: Tensor, min_object_covered: Tensor,
    *, seed: Seed, aspect_ratio_range: Any = (0.75, 1.33), area_range: Any = (0.05, 1.0),
    max_attempts: int = 100, use_image_if_no_bounding_boxes: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """A part of an image, of a drawn size and place, that covers enough of one of the boxes.

    All attempts are drawn at once, and the first good one is taken; without one, the whole image.
    """
    what = "SampleDistortedBoundingBoxV2"
    size = tensor(image_size, what, "image_size")
    boxes = shapes.reshape(tensor(bounding_boxes, what, "bounding_boxes"), (-1, 4))
    tries = integer(max_attempts, what, "max_attempts")
    if not boxes.shape[0]:
        if not use_image_if_no_bounding_boxes:
            raise misuse(what, "'bounding_boxes' holds no box, and "
                         "'use_image_if_no_bounding_boxes' is False")
        boxes = tensor_of(np.array([[0, 0, 1, 1]], np.float32))
    height, width = (
        cast_to(shapes.squeeze(joining.part(size, 0, i, i + 1), 0), float32) for i in (0, 1))
    unit = draws.rand(4, tries, seed=seed)
    aspect, share, down, across = joining.unstack(unit, 0)
    aspect = arith.add(arith.mul(aspect, aspect_ratio_range[1] - aspect_ratio_range[0]),
                       aspect_ratio_range[0])
    area = arith.add(arith.mul(share, area_range[1] - area_range[0]), area_range[0]) * \
        (height * width)
    h = arith.round(arith.sqrt(area / aspect))
    w = arith.round(h * aspect)
    fits = arith.logical_and(arith.logical_and(h <= height, w <= width),
                             arith.logical_and(h >= 1.0, w >= 1.0))
    y = arith.floor(down * (arith.maximum(height - h, 0.0) + 1.0))
    x = arith.floor(across * (arith.maximum(width - w, 0.0) + 1.0))
    covered = _coverage(boxes, (y, x, y + h, x + w), height, width)
    good = arith.logical_and(fits, covered >= cast_to(min_object_covered, float32))
    first = reductions.argmax(cast_to(good, int32), 0)
    found = good.any()
    y, x, h, w = (arith.where(found, apply("gather", v, first, axis=0), whole) for v, whole in (
        (y, 0.0), (x, 0.0), (h, height), (w, width)))
    begin = joining.stack([y, x, creation.zeros_like(y)], 0)
    extent = joining.stack([h, w, creation.full_like(h, -1.0)], 0)
    corners = joining.stack([y / height, x / width, (y + h) / height, (x + w) / width], 0)
    return (cast_to(begin, size.dtype), cast_to(extent, size.dtype),
            shapes.reshape(corners, (1, 1, 4)))


def _coverage(boxes: Tensor, part: tuple[Tensor, ...], height: Tensor, width: Tensor) -> Tensor:
    """The largest share of a box that each of some parts (tries) covers; 1 of none needed."""
    sides = (height, width, height, width)
    y0, x0, y1, x1 = (arith.mul(shapes.reshape(c, (-1, 1)), s)
                      for c, s in zip(joining.unstack(boxes, 1), sides, strict=True))
    high = arith.maximum(arith.minimum(y1, part[2]) - arith.maximum(y0, part[0]), 0.0)
    wide = arith.maximum(arith.minimum(x1, part[3]) - arith.maximum(x0, part[1]), 0.0)
    whole = (y1 - y0) * (x1 - x0)
    empty = whole <= 0.0
    return reductions.amax(arith.where(empty, 0.0, high * wide / arith.where(empty, 1.0, whole)), 0)


def _hits(true_classes: Tensor, sampled_candidates: Tensor, *, num_true: int = 1) -> Any:
    """Where drawn candidates are true classes: rows, positions among the candidates, and weights.
    """
    what = "ComputeAccidentalHits"
    true, drawn = operands_of(
        what, f"true_classes (batch, {num_true}), sampled_candidates (candidates)", true_classes,
        sampled_candidates)
    same = shapes.expand_dims(true, 2) == shapes.reshape(drawn, (1, 1, -1))
    found = same.nonzero()
    row, _, place = (shapes.squeeze(joining.part(found, 1, i, i + 1), 1) for i in range(3))
    weight = creation.ones_like(cast_to(row, float32)) * float(np.finfo(np.float32).min)
    return cast_to(row, int32), place, weight


_WITH_INIT: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "DropoutDoMask": (_apply_mask, {}),
    "DropoutGenMask": (_bit_mask, {"Seed0": 0, "Seed1": 0}),
    "LogUniformCandidateSampler": (classes.log_uniform_candidate_sampler, {
        "num_true": 1, "num_sampled": 5, "unique": True, "range_max": 5, "seed": 0}),
    "UniformCandidateSampler": (classes.uniform_candidate_sampler, {
        "num_true": REQUIRED, "num_sampled": REQUIRED, "unique": REQUIRED, "range_max": REQUIRED,
        "seed": 0, "remove_accidental_hits": False}),
}

_OWN: dict[str, Callable[..., Any]] = {
    "ParameterizedTruncatedNormal": _draw_between,
    "Poisson": lambda shape, mean, *, seed:
        cast_to(rejection.counts_over(shape, mean, seed, "Poisson"), int32),
    "RandomGamma": lambda shape, alpha, *, seed: rejection.random_gamma(shape, alpha, seed),
    "RandomPoisson": lambda shape, rate, *, seed, dtype=int64:
        rejection.random_poisson(shape, rate, seed, dtype),
    "SampleDistortedBoundingBoxV2": _distorted_box, "TruncatedNormal": _draw_truncated,
    "Cauchy": _cauchy, "ComputeAccidentalHits": _hits, "LogNormalReverse": _log_normal,
    "MultinomialWithReplacement": lambda x, seed, offset, *, numsamples, replacement=False:
        rejection.multinomial_with_replacement(x, seed, offset, numsamples, replacement),
    "NonDeterministicInts": _any_ints,
    "RandomCategorical": lambda logits, num_sample, seed=0, *, dtype=int64:
        draws.random_categorical(logits, num_sample, seed, dtype),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives({}, _WITH_INIT, _OWN)
"""Every primitive class of this module by name."""
