"""Boxes, and grids at which images and volumes are sampled.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import Any

import numpy as np

from cellc_runtime.dtypes import int64

from ...core.declared import misuse
from ...core.dispatch import apply
from ...core.native import native
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import choice, ints, tensor
from ..operands import operands_of
from . import arith, creation, joining, linalg, shapes


@native
def iou(anchor_boxes: Tensor, gt_boxes: Tensor, mode: str = "iou") -> Tensor:
    """How far boxes (n, 4) and (k, 4) overlap: (k, n).

    Args:
        mode: "iou" divides by the union, "iof" by the area of the true box.
    """
    choice(mode, ("iou", "iof"), "iou", "mode")
    a, g = operands_of("iou", "anchor_boxes (n, 4), gt_boxes (k, 4)", anchor_boxes, gt_boxes)
    x = [joining.part(a, 1, i, i + 1) for i in range(4)]
    x = [shapes.reshape(v, (1, -1)) for v in x]
    y = [joining.part(g, 1, i, i + 1) for i in range(4)]
    # A box holds its right and lower border.
    def span(low: Tensor, high: Tensor) -> Tensor:
        return arith.maximum(arith.sub(high, low) + 1.0, 0.0)

    inner = arith.mul(span(arith.maximum(x[0], y[0]), arith.minimum(x[2], y[2])),
                      span(arith.maximum(x[1], y[1]), arith.minimum(x[3], y[3])))
    areas = [arith.mul(span(b[0], b[2]), span(b[1], b[3])) for b in (x, y)]
    if mode == "iof":
        return arith.div(inner, areas[1])
    return inner / (arith.add(areas[0], areas[1]) - inner)


@native
def affine_grid(theta: Tensor, size: Any, align_corners: bool = False) -> Tensor:
    """The sampling grid of affine maps, for `grid_sample`.

    Args:
        theta: (N, 2, 3) for images, (N, 3, 4) for volumes.
        size: (N, C, H, W) or (N, C, D, H, W).
        align_corners: -1 and 1 are the centres, not the borders, of the outermost elements.
    """
    t = tensor(theta, "affine_grid", "theta")
    dims = ints(size, "affine_grid", "size")
    rank = len(dims) - 2
    if rank not in (2, 3) or t.shape != (dims[0], rank, rank + 1):
        raise misuse("affine_grid", f"theta {t.shape} does not fit size {dims}")
    axes = []
    for i, n in enumerate(dims[2:]):
        line = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
        line = line if align_corners or n < 1 else line * (n - 1) / n
        place = tuple(n if j == i else 1 for j in range(rank))
        flat = tensor_of(line.reshape(place).astype(t.dtype.numpy))
        axes.append(shapes.broadcast_to(flat, dims[2:]))
    points = joining.stack([*reversed(axes), creation.ones(dims[2:], t.dtype)], -1)
    flat = shapes.reshape(points, (1, -1, rank + 1))
    out = linalg.matmul(flat, shapes.swapaxes(t, 1, 2))
    return shapes.reshape(out, (dims[0], *dims[2:], rank))


@native
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """An image or volume read at points in [-1, 1].

    Args:
        input: (N, C, H, W) or (N, C, D, H, W).
        grid: (N, ..., 2) or (N, ..., 3): x, y(, z).
        mode: "bilinear" or "nearest".
        padding_mode: what is outside: "zeros", the "border", or its "reflection".
        align_corners: -1 and 1 are the centres, not the borders, of the outermost elements.
    """
    x, points = tensor(input, "grid_sample"), tensor(grid, "grid_sample", "grid")
    choice(mode, ("bilinear", "nearest"), "grid_sample", "mode")
    choice(padding_mode, ("zeros", "border", "reflection"), "grid_sample", "padding_mode")
    rank = x.ndim - 2
    if rank not in (2, 3) or points.ndim != x.ndim or points.shape[-1] != rank or \
            points.shape[0] != x.shape[0]:
        raise misuse("grid_sample",
                     f"a grid of shape {points.shape} does not fit an input of shape {x.shape}")
    sizes = x.shape[2:]
    places: list[Tensor] = []
    for i, n in enumerate(reversed(sizes)):
        at = shapes.squeeze(joining.part(points, points.ndim - 1, i, i + 1), -1)
        places.insert(0, _pixel(at, n, padding_mode, bool(align_corners)))
    if mode == "nearest":
        return _pick(x, [arith.round(p) for p in places], None, places[0].shape)
    return blended(x, places)


def blended(x: Tensor, places: list[Tensor]) -> Tensor:
    """(N, C, ...) read linearly between elements, 0 outside: at places (N, ...) along each axis."""
    def corner(offsets: tuple[int, ...]) -> Tensor:
        index = [arith.floor(p) + float(c) for p, c in zip(places, offsets, strict=True)]
        share = [1.0 - arith.abs(arith.sub(p, v)) for p, v in zip(places, index, strict=True)]
        return _pick(x, index, reduce(arith.mul, share), places[0].shape)

    return reduce(arith.add, map(corner, itertools.product((0, 1), repeat=len(places))))


def _pixel(at: Tensor, n: int, padding: str, align: bool) -> Tensor:
    """A coordinate in [-1, 1] as a position along an axis of n elements."""
    size, last = n * 1.0, (n - 1) * 1.0  # floats, of an open size too
    p = (at + 1.0) * (last / 2) if align else ((at + 1.0) * size - 1.0) / 2.0
    if padding == "reflection":
        low, span = (0.0, last) if align else (-0.5, size)
        if n > align:
            turn = arith.remainder(arith.abs(arith.sub(p, low)), 2 * span)
            p = arith.add(arith.minimum(turn, arith.sub(2 * span, turn)), low)
        else:
            p = p * 0.0
    return p if padding == "zeros" else arith.clamp(p, 0.0, last)


def _pick(x: Tensor, index: list[Tensor], weight: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    """Elements at whole positions, 0 outside, times a weight: (N, C, ...)."""
    flat, inside = None, None
    for p, n in zip(index, x.shape[2:], strict=True):
        last = (n - 1) * 1.0
        ok = arith.logical_and(arith.ge(p, 0.0), arith.le(p, last))
        at = cast_to(arith.clamp(arith.where(ok, p, 0.0), 0.0, last), int64)
        flat = at if flat is None else arith.mul(flat, n) + at
        inside = ok if inside is None else arith.logical_and(inside, ok)
    assert flat is not None and inside is not None
    batch, channels = x.shape[:2]
    rows = shapes.reshape(x, (batch, channels, -1))
    where = shapes.broadcast_to(shapes.reshape(flat, (batch, 1, -1)),
                                (batch, channels, math.prod(shape[1:])))
    got = shapes.reshape(
        apply("gather_elements", rows, where, dim=2), (batch, channels, *shape[1:]))
    if weight is not None:  # (that of a place that is no number counts nowhere, nor its gradient)
        got = got * shapes.expand_dims(arith.where(inside, weight, 0.0), 1)
    return arith.where(shapes.expand_dims(inside, 1), got, 0.0)
