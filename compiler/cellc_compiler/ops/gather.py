"""Elements read at run-time positions: gather, gather_elements, gather_nd, embedding.

One rule for all: a negative position counts from the end, and a position outside the axis reads
zero (MindSpore 2.10 raises on CPU; a fused loop cannot). So each gather is linear in the tensor
it reads, with the scatter-add of the same positions, which skips those outside, as its adjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, NUMBERS, Array, Op, Sample
from ..ir.types import TensorType, normalize_axis, show_shape
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from . import _batch_axis
from ._members import Grads, case, positioned_part, sharding
from ._views import Composite, Element, both, check_indices, fill, read_position, select
from .batching import along, gathered, pointed


def accumulated(b: Builder, op: str, like: Value, indices: Value, dy: Value, **attrs: Any) -> Value:
    """Scatter-add of `dy` into zeros; 16-bit floats are summed in float32 and rounded once."""
    narrow = like.dtype in (dtypes.float16, dtypes.bfloat16)
    kind = dtypes.float32 if narrow else like.dtype
    base = b.full(like.type.with_dtype(kind), 0)
    update = b.cast(dy, dtype=kind) if narrow else dy
    out = b.emit(op, base, indices, update, mode="add", **attrs)
    return b.cast(out, dtype=like.dtype) if narrow else out


def wrap(indices: Array, extent: int) -> tuple[Array, Array]:
    """Reference positions: clamped into the axis, and which of them are inside it."""
    i = np.asarray(indices).astype(np.int64)
    i = np.where(i < 0, i + extent, i)
    return np.clip(i, 0, max(extent - 1, 0)), (i >= 0) & (i < extent)


def check_extent(name: str, x: TensorType, axis: int, indices: TensorType) -> None:
    """Reading an empty axis is an error unless nothing is read. Raises ValueError if elements are
    read from an axis that has none."""
    if x.shape[axis] == 0 and 0 not in indices.shape:
        raise ValueError(f"{name} reads along axis {axis} of {x}, which has no elements")


class Gather(Op):
    """Slices of `input_params` at positions along an axis.

    The result's shape is params.shape[:axis] + indices.shape[batch_dims:] +
    params.shape[axis+1:]. Source: `mindspore.ops.gather`.

    Attributes:
        axis: the axis read.
        batch_dims: leading axes that params and indices share (at most `axis`).
    """

    name = "gather"
    batch_axis = _batch_axis.gathered
    operands = ("input_params", "input_indices")
    attrs = {"axis": attr.axis(0), "batch_dims": attr.axis(0)}
    dtypes = ANY
    batch = gathered
    part = positioned_part("axis")

    def contracted(self, node: Node) -> Sequence[Sequence[tuple[int, int]]]:
        x = node.operands[0].type
        return [[(0, normalize_axis(node.attrs["axis"], x.rank))]] if x.dtype in NUMBERS else []

    def infer(self, x: TensorType, indices: TensorType, *, axis: int,
              batch_dims: int) -> TensorType:
        check_indices("gather", indices)
        if x.rank == 0:
            raise ValueError("gather needs params of at least 1 dimension, got a scalar")
        k = normalize_axis(axis, x.rank)
        if not 0 <= batch_dims <= min(k, indices.rank) or (
                x.shape[:batch_dims] != indices.shape[:batch_dims]):
            raise ValueError(f"gather with batch_dims {batch_dims} along axis {k} needs as many "
                             f"equal leading axes, got {x} and {indices}")
        check_extent("gather", x, k, indices)
        return x.with_shape((*x.shape[:k], *indices.shape[batch_dims:], *x.shape[k + 1:]))

    def reference(self, x: Array, indices: Array, *, axis: int, batch_dims: int) -> Array:
        k = axis % x.ndim
        i, inside = wrap(indices, x.shape[k])
        if batch_dims == 0:
            y = np.take(x, i, k) if x.shape[k] else np.zeros(
                (*x.shape[:k], *i.shape, *x.shape[k + 1:]), x.dtype)
            keep = inside.reshape((1,) * k + i.shape + (1,) * (x.ndim - k - 1))
            return np.where(keep, y, np.zeros((), x.dtype))
        rows = [self.reference(a, b, axis=k - 1, batch_dims=batch_dims - 1)
                for a, b in zip(x, np.asarray(indices), strict=True)]
        empty = (*x.shape[:k], *i.shape[batch_dims:], *x.shape[k + 1:])
        return np.stack(rows) if rows else np.zeros(empty, x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, indices = node.operands
        return [accumulated(b, "scatter", x, indices, dys[0], **node.attrs), None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        x, indices = r.types
        axis, batch = normalize_axis(r.attrs["axis"], x.rank), r.attrs["batch_dims"]
        count = indices.rank - batch
        where = (*idx[:batch], *idx[axis: axis + count])
        at, inside = read_position(r, 1, where, x.dims[axis])
        element = r.read(0, (*idx[:axis], at, *idx[axis + count:]))
        return select(inside, element, fill(x.dtype))

    def samples(self) -> Sequence[Sample]:
        i = np.array([[0, 4, 4], [-1, 2, 1]])
        return (case((5, 3), i, axis=0), case((2, 5, 17), i, axis=1),
                case((3, 5), np.array(2), axis=1), case((2, 3, 5), i, axis=2, batch_dims=1),
                case((4,), np.array([9, -9, 3], np.int32), axis=0),
                case((4, 2), np.zeros((0,), np.int64), axis=0))


class GatherElements(Op):
    """out[i, j, k] = input[i, index[i, j, k], k] for dim 1, of the shape of `index`.

    Source: `mindspore.ops.gather_elements`.

    Attributes:
        dim: the axis the positions are along; elsewhere `index` may be shorter than `input`.
    """

    name = "gather_elements"
    batch_axis = _batch_axis.whole_along("dim")
    operands = ("input", "index")
    attrs = {"dim": attr.axis(0)}
    dtypes = ANY
    batch = along("dim")
    part = positioned_part("dim")

    def factors(self, node: Node) -> sharding.Factors:
        return sharding.line_factors(node, node.attrs["dim"])

    def infer(self, x: TensorType, index: TensorType, *, dim: int) -> TensorType:
        check_indices("gather_elements", index)
        check_lines("gather_elements", x, index, dim)
        check_extent("gather_elements", x, dim, index)
        return x.with_shape(index.shape)

    def reference(self, x: Array, index: Array, *, dim: int) -> Array:
        k = dim % x.ndim
        i, inside = wrap(index, x.shape[k])
        if not i.size:
            return np.zeros(i.shape, x.dtype)
        part = x[tuple(slice(None) if a == k else slice(n) for a, n in enumerate(i.shape))]
        y = np.take_along_axis(part, i, k)
        return np.where(inside, y, np.zeros((), x.dtype))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, index = node.operands
        axis = node.attrs["dim"]
        return [accumulated(b, "scatter_elements", x, index, dys[0], axis=axis), None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        x = r.types[0]
        k = normalize_axis(r.attrs["dim"], x.rank)
        at, inside = read_position(r, 1, idx, x.dims[k])
        return select(inside, r.read(0, (*idx[:k], at, *idx[k + 1:])), fill(x.dtype))

    def samples(self) -> Sequence[Sample]:
        i = np.array([[0, 2, 2], [-1, 1, 0]])
        return (case((3, 3), i, dim=0), case((2, 5), i, dim=1),
                case((4,), np.array([7, 3, 3]), dim=0),
                case((3, 2), np.zeros((0, 2), np.int64), dim=0))


def check_lines(name: str, x: TensorType, index: TensorType, axis: int) -> None:
    """`index` has the rank of `x` and is no longer than it on the other axes. Raises ValueError if
    it has not."""
    k = normalize_axis(axis, x.rank)
    if x.rank == 0 or index.rank != x.rank or any(
            n > d for a, (n, d) in enumerate(zip(index.dims, x.dims, strict=True)) if a != k):
        raise ValueError(f"{name} along axis {axis} needs an index of the rank of {x} and, on the "
                         "other axes, no longer than it; got one of shape "
                         f"{show_shape(index.shape)}")


def check_points(name: str, x: TensorType, indices: TensorType) -> int:
    """The number of leading axes of `x` that the rows of `indices` address. Raises ValueError if
    `indices` is a scalar or its last axis is longer than the rank of `x`."""
    if indices.rank == 0 or indices.dims[-1] > x.rank:
        raise ValueError(f"{name} needs indices whose last axis addresses up to {x.rank} axes of "
                         f"{x}, got shape {show_shape(indices.shape)}")
    return indices.dims[-1]


class GatherNd(Op):
    """Slices at points: indices (..., k) address the first k axes of `input_x`.

    Source: `mindspore.ops.gather_nd`.
    """

    name = "gather_nd"
    batch_axis = _batch_axis.pointed
    operands = ("input_x", "indices")
    dtypes = ANY
    batch = pointed

    def infer(self, x: TensorType, indices: TensorType) -> TensorType:
        check_indices("gather_nd", indices)
        k = check_points("gather_nd", x, indices)
        for axis in range(k):
            check_extent("gather_nd", x, axis, indices)
        return x.with_shape((*indices.shape[:-1], *x.shape[k:]))

    def reference(self, x: Array, indices: Array) -> Array:
        k = indices.shape[-1]
        out = np.zeros((*indices.shape[:-1], *x.shape[k:]), x.dtype)
        for point in np.ndindex(*indices.shape[:-1]):
            pairs = [wrap(i, d) for i, d in zip(indices[point], x.shape[:k], strict=True)]
            if all(bool(inside) for _, inside in pairs):
                out[point] = x[tuple(int(i) for i, _ in pairs)]
        return out

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, indices = node.operands
        return [accumulated(b, "scatter_nd", x, indices, dys[0]), None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        x, indices = r.types
        lead = idx[: indices.rank - 1]
        own: list[Index] = []
        conds: list[Expr | None] = []
        for axis in range(indices.dims[-1]):
            at, inside = read_position(r, 1, (*lead, Index.of(axis)), x.dims[axis])
            own.append(at)
            conds.append(inside)
        element = r.read(0, (*own, *idx[len(lead):]))
        return select(both(conds), element, fill(x.dtype))

    def samples(self) -> Sequence[Sample]:
        return (case((3, 4), np.array([[0, 1], [2, -1], [0, 1]])),
                case((3, 17), np.array([[[2]], [[0]]], np.int32)),
                case((2, 3), np.array([[0, 5], [1, 1]])), case((2, 3), np.zeros((2, 0), np.int64)),
                case((2, 3), np.zeros((0, 1), np.int64)))


class Embedding(Composite):
    """Rows of `weight` (V, E) at `indices`: shape indices.shape + (E,).

    Source: `mindspore.mint.nn.functional.embedding`.

    Attributes:
        padding_idx: a row that gets no gradient (None: every row does; negative from the end).
    """

    name = "embedding"
    operands = ("weight", "indices")
    attrs = {"padding_idx": attr.optional(attr.whole())}
    dtypes = ANY

    def expand(self, b: Builder, weight: Value, indices: Value, *,
               padding_idx: int | None) -> Value:
        if weight.type.rank != 2:
            raise ValueError(f"embedding needs a weight of 2 dimensions, got {weight.type}")
        if padding_idx is not None:
            row = normalize_axis(padding_idx, weight.shape[0], "padding_idx")
            part = b.slice(weight, start=(row, 0), stop=(row + 1, weight.shape[1]))
            weight = b.update_slice(weight, b.stop_gradient(part), start=(row, 0))
        return b.gather(weight, indices, axis=0)

    def reference(self, weight: Array, indices: Array, *, padding_idx: int | None) -> Array:
        i, inside = wrap(indices, weight.shape[0])
        return np.where(inside[..., None], weight[i], np.zeros((), weight.dtype))

    def samples(self) -> Sequence[Sample]:
        i = np.array([[1, 0, 3], [3, 3, 1]], np.int32)
        return (case((4, 5), i), case((4, 17), i, padding_idx=3, grad=False))
