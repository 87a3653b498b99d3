"""Sorting: values with their positions along an axis.

The order is stable and a NaN comes last in either direction (MindSpore 2.10 leaves the place
of NaN undefined on CPU). Positions are int32, as MindSpore's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.dims import is_symbolic
from ..ir.graph import Builder, Node, Value
from ..ir.op import BOOL, REAL, Array, Op, Sample, Spec
from ..ir.types import TensorType, own_axis
from . import _batch_axis
from ._members import Grads, case
from ._views import Composite, crop
from .batching import pointwise
from .gather import accumulated

Pair = tuple[Value, Value]


def _order(x: Array, axis: int, descending: bool) -> Array:
    """Reference positions along an axis."""
    nan = np.isnan(x) if x.dtype.kind not in "iub" else np.zeros(x.shape, np.bool_)
    ranks = np.zeros(x.shape, np.int64)
    if x.size:
        distinct, inverse = np.unique(np.where(nan, np.zeros((), x.dtype), x), return_inverse=True)
        ranks = inverse.reshape(x.shape)
        ranks = np.where(nan, len(distinct), -ranks if descending else ranks)
    return np.argsort(ranks, axis, kind="stable").astype(np.int32)


class SortLines(Op):
    """`sort` along the last axis.

    Attributes:
        descending: largest first.
        first: how many of the sorted elements are results; 0: all.
    """

    name = "sort_lines"
    opaque = True
    batch_axis = _batch_axis.whole_last(1)
    attrs = {"descending": attr.flag(False), "first": attr.size(0)}
    dtypes = REAL + BOOL
    cost = "heavy"
    batch = pointwise

    def infer(self, x: TensorType, *, descending: bool, first: int
              ) -> tuple[TensorType, TensorType]:
        if x.dtype not in self.dtypes:
            raise TypeError(f"sort takes real numbers or bool, got {x}")
        if x.rank == 0:
            raise ValueError("sort needs a tensor of at least 1 dimension, got a scalar")
        if not is_symbolic(x.shape[-1]) and x.dims[-1] >= 1 << 31:
            raise ValueError(f"sort gives int32 positions, which {x} does not fit")
        if not 0 <= first <= x.shape[-1]:
            raise ValueError(f"sort gives from 0 to {x.shape[-1]} elements along the last axis of "
                             f"{x}, not {first}")
        values = x.with_shape((*x.shape[:-1], first or x.shape[-1]))
        return values, values.with_dtype(dtypes.int32)

    def reference(self, x: Array, *, descending: bool, first: int) -> tuple[Array, Array]:
        order = _order(x, -1, descending)[..., :first or None]
        return np.take_along_axis(x, order.astype(np.int64), -1), order

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        if dys[0] is None:
            return [None]
        x = node.operands[0]
        return [accumulated(b, "scatter_lines", x, node.results[1], dys[0], axis=x.type.rank - 1)]

    def samples(self) -> Sequence[Sample]:
        return (case((3, 7)), case((2, 131), descending=True, grad=False),
                case(Spec((300,), -9, 9), grad=False), case((2, 1)), case((2, 0)),
                case((3, 7), first=2), case((2, 1500), first=9, descending=True, grad=False))


def _swap_last(b: Builder, x: Value, axis: int) -> Value:
    """The axis exchanged with the last one."""
    if axis == x.type.rank - 1:
        return x
    perm = list(range(x.type.rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return b.transpose(x, perm=tuple(perm))


def sorted_along(b: Builder, x: Value, axis: int, descending: bool, first: int = 0) -> Pair:
    """Values and positions sorted along any axis; the first ones, or all. Raises ValueError if the
    axis is out of range, or there is none."""
    k = own_axis(axis, x.type.rank, "sort")
    values, order = b.emit("sort_lines", _swap_last(b, x, k), descending=descending, first=first)
    return _swap_last(b, values, k), _swap_last(b, order, k)


class Sort(Composite):
    """(values, positions) in ascending or descending order along an axis.

    Source: `mindspore.ops.sort`.

    Attributes:
        axis: the axis.
        descending: largest first.
    """

    name = "sort"
    attrs = {"axis": attr.axis(-1), "descending": attr.flag(False)}
    dtypes = REAL + BOOL

    def expand(self, b: Builder, x: Value, *, axis: int, descending: bool) -> Pair:
        return sorted_along(b, x, axis, descending)

    def reference(self, x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
        order = _order(x, axis, descending)
        return np.take_along_axis(x, order.astype(np.int64), axis), order

    def samples(self) -> Sequence[Sample]:
        return (case((5, 4), axis=0), case((2, 5, 3), axis=1, descending=True), case((1,)),
                case((0, 3), axis=1))


class Argsort(Composite):
    """Positions that sort along an axis. Source: `mindspore.ops.argsort`.

    Attributes:
        axis: the axis.
        descending: largest first.
    """

    name = "argsort"
    attrs = {"axis": attr.axis(-1), "descending": attr.flag(False)}
    dtypes = REAL + BOOL
    differentiable = False

    def expand(self, b: Builder, x: Value, *, axis: int, descending: bool) -> Value:
        return sorted_along(b, x, axis, descending)[1]

    def reference(self, x: Array, *, axis: int, descending: bool) -> Array:
        return _order(x, axis, descending)

    def samples(self) -> Sequence[Sample]:
        return (case((5, 4), axis=0, grad=False), case((60,), descending=True, grad=False))


class TopK(Composite):
    """(values, positions) of the k largest or smallest along an axis, in order.

    Equal elements come by position. Source: `mindspore.ops.topk`.

    Attributes:
        k: how many.
        axis: the axis.
        largest: the largest, else the smallest.
    """

    name = "topk"
    attrs = {"k": attr.size(1), "axis": attr.axis(-1), "largest": attr.flag(True)}
    dtypes = REAL + BOOL

    def expand(self, b: Builder, x: Value, *, k: int, axis: int, largest: bool) -> Pair:
        along = own_axis(axis, x.type.rank, self.name)
        if not 0 <= k <= x.shape[along]:
            raise ValueError(f"topk needs k from 0 to {x.shape[along]} along axis {along} of "
                             f"{x.type}, got {k}")
        if not k:  # nothing is sorted
            none = crop(b, x, along, 0, 0)
            return none, b.cast(none, dtype=dtypes.int32)
        return sorted_along(b, x, along, largest, k)

    def reference(self, x: Array, **attrs: Any) -> tuple[Array, Array]:
        axis = attrs["axis"] % x.ndim
        order = np.take(_order(x, axis, attrs["largest"]), range(attrs["k"]), axis)
        return np.take_along_axis(x, order.astype(np.int64), axis), order

    def samples(self) -> Sequence[Sample]:
        return (case((3, 9), k=4), case((6, 3), k=2, axis=0, largest=False), case((5,), k=0),
                case((5,), k=5))
