"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import NUMBERS, Array, Op, Sample, register
from ..ir.types import TensorType, broadcast_shapes, prod
from ..loops.order import product_segment
from . import _batch_axis, _identities
from ._complex import conj
from ._members import Grads, case, sharding
from ._views import widened
from .batching import pointwise
from .elementwise import same_dtype, unbroadcast


@register
class Matmul(Op):
    """input @ other over the last two axes, the leading ones broadcast. `(..., m, k)` by
    `(..., k, n)` gives `(..., m, n)`. Source: `mindspore.ops.matmul`, `BatchMatMul`.

    16-bit floats are summed in float32 and rounded once.

    Attributes:
        transpose_a: input is stored `(..., k, m)`.
        transpose_b: other is stored `(..., n, k)`.
    """

    name = "matmul"
    opaque = True
    simplify = _identities.transposed_factors
    batch_axis = _batch_axis.multiplied
    sums = True
    operands = ("input", "other")
    attrs = {"transpose_a": attr.flag(False), "transpose_b": attr.flag(False)}
    dtypes = NUMBERS
    amp = "low"
    cost = "heavy"
    primitive = "BatchMatMul"
    tolerance = 16.0
    batch = pointwise

    def infer(self, a: TensorType, c: TensorType, *, transpose_a: bool,
              transpose_b: bool) -> TensorType:
        dtype = same_dtype("matmul", a, c)
        if dtype not in self.dtypes:
            raise TypeError(f"matmul takes numbers, got {a}; cast to an integer type first")
        if a.rank < 2 or c.rank < 2:
            raise ValueError(f"matmul needs operands of at least 2 dimensions, got {a} and {c}")
        m, ka = (a.shape[-1], a.shape[-2]) if transpose_a else a.shape[-2:]
        kb, n = (c.shape[-1], c.shape[-2]) if transpose_b else c.shape[-2:]
        if ka != kb:
            marks = [" transposed" if t else "" for t in (transpose_a, transpose_b)]
            raise ValueError(
                f"matmul of {a}{marks[0]} and {c}{marks[1]}: the inner dimensions {ka} and {kb} "
                f"differ"
            )
        batch = broadcast_shapes(a.shape[:-2], c.shape[:-2], "batch dimensions of matmul")
        return TensorType((*batch, m, n), dtype)

    def weight_axes(self, node: Node) -> tuple[int, int] | None:
        rank = node.result.type.rank
        if node.operands[1].type.rank != 2 or rank < 2:
            return None
        return rank - 1, 0 if node.attrs["transpose_b"] else 1

    def factors(self, node: Node) -> sharding.Factors:
        """Rows, columns, and what is summed over; columns only where their number does not decide
        in which order that is."""
        x, y = (v.type for v in node.operands)
        rank = node.result.type.rank
        flipped = node.attrs["transpose_a"], node.attrs["transpose_b"]
        k, size = x.dims[-2 if flipped[0] else -1], max(x.dtype.itemsize, 4)
        last = ((rank - 2, rank), (rank, rank - 1))  # factors of rows, of columns; `rank` is k

        def axes(v: TensorType, which: int) -> sharding.Axes:
            batch = tuple((a + rank - v.rank,) if d > 1 else () for a, d in enumerate(v.dims[:-2]))
            own = last[which][::-1] if flipped[which] else last[which]
            return (*batch, *((a,) for a in own))

        columns = node.result.type.dims[-1]

        def allowed(parts: Mapping[int, int]) -> bool:
            steps = k // parts.get(rank, 1)
            return product_segment(columns // parts.get(rank - 1, 1), steps, size) == \
                product_segment(columns, steps, size)

        return sharding.Factors(
            (*node.result.type.dims, k), (axes(x, 0), axes(y, 1)),
            (tuple((a,) for a in range(rank)),), frozenset({rank}), allowed=allowed)

    def flops(self, node: Node) -> int:
        a = node.operands[0].shape
        k = a[-2] if node.attrs["transpose_a"] and len(a) > 1 else a[-1]
        return 2 * k * prod(node.result.shape)

    def reference(self, a: Array, c: Array, *, transpose_a: bool, transpose_b: bool) -> Array:
        dtype = a.dtype
        a, c = widened(a, c)
        left = np.swapaxes(a, -1, -2) if transpose_a else a
        right = np.swapaxes(c, -1, -2) if transpose_b else c
        return np.matmul(left, right).astype(dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, y = node.operands
        dy = dys[0]
        ta, tb = node.attrs["transpose_a"], node.attrs["transpose_b"]
        x, y = conj(b, x), conj(b, y)  # the identity but for complex operands
        if ta:
            dx = b.matmul(y, dy, transpose_a=tb, transpose_b=True)
        else:
            dx = b.matmul(dy, y, transpose_b=not tb)
        return [unbroadcast(b, dx, x.type), self._right(b, x, y, dy, ta, tb)]

    def _right(self, b: Builder, x: Value, y: Value, dy: Value, ta: bool, tb: bool) -> Value:
        if y.type.rank == 2 and x.type.rank > 2 and not ta:
            # One product over all rows sums the batch on the way.
            x = b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
            dy = b.reshape(dy, shape=(prod(dy.shape[:-1]), dy.shape[-1]))
        if tb:
            dw = b.matmul(dy, x, transpose_a=True, transpose_b=ta)
        else:
            dw = b.matmul(x, dy, transpose_a=not ta)
        return unbroadcast(b, dw, y.type)

    def samples(self) -> Sequence[Sample]:
        return (case((4, 5), (5, 3)), case((5, 4), (3, 5), transpose_a=True, transpose_b=True),
                case((17, 33), (33, 19)), case((2, 3, 4), (4, 5)),
                case((4, 2), (3, 4, 5), transpose_a=True),
                case((2, 1, 3, 4), (5, 6, 4), transpose_b=True), case((1, 1), (1, 1)),
                case((0, 3), (3, 4)), case((2, 0), (0, 3)))


@register
class Dense(Op):
    """input @ weight.T + bias over the last axis: a product with what is added in its stores.
    `(..., k)` by `(n, k)` and `(n,)` gives `(..., n)`. Source: `mindspore.ops.dense`.

    PyNative calls it; graphs are traced with the ops it is made of.
    """

    name = "dense"
    sums = True
    operands = ("input", "weight", "*bias")
    dtypes = NUMBERS
    amp = "low"
    cost = "heavy"
    tolerance = 16.0

    def infer(self, x: TensorType, w: TensorType, *bias: TensorType) -> TensorType:
        dtype = same_dtype("dense", x, w, *bias)
        if dtype not in self.dtypes:
            raise TypeError(f"dense takes numbers, got {x}; cast to an integer type first")
        if x.rank < 1 or w.rank != 2 or x.shape[-1] != w.shape[1]:
            raise ValueError(
                f"dense needs a matrix of weights with rows as long as the last axis of the "
                f"input, got {w} for {x}"
            )
        if len(bias) > 1 or any(c.shape != w.shape[:1] for c in bias):
            raise ValueError(f"dense needs one bias of {w.shape[0]} elements at most, got "
                             + ", ".join(map(str, bias)))
        return x.with_shape((*x.shape[:-1], w.shape[0]))

    def expand(self, b: Builder, x: Value, w: Value, *bias: Value) -> Value:
        rows = x if x.type.rank == 2 else b.reshape(x, shape=(prod(x.shape[:-1]), x.shape[-1]))
        out: Value = b.matmul(rows, w, transpose_b=True)
        if x.type.rank != 2:
            out = b.reshape(out, shape=(*x.shape[:-1], w.shape[0]))
        return b.add(out, bias[0]) if bias else out

    def reference(self, x: Array, w: Array, *bias: Array) -> Array:
        dtype = x.dtype
        x, w = widened(x, w)
        out: Array = np.matmul(x, w.T).astype(dtype)
        return (out + bias[0]).astype(dtype) if bias else out

    def samples(self) -> Sequence[Sample]:
        return (case((4, 5), (3, 5), (3,)), case((2, 3, 5), (4, 5), (4,)), case((5,), (3, 5)),
                case((17, 33), (19, 33), (19,)), case((2, 0, 3), (4, 3), (4,)),
                case((1, 40), (2, 40), (2,)))
