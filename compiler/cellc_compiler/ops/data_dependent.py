"""Sizes that follow from elements: what gives such a size its symbol, and positions of that number.

An op whose number of results depends on elements is written as three: ops that compute the number,
`measure`, which gives the number a symbol, and ops of that symbolic size. What runs a graph cuts it
after each `measure` (`compiled/staged.py` of the frontend).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..ir.dims import is_symbolic
from ..ir.graph import Builder, Node, Value
from ..ir.op import BOOL, REQUIRED, Array, Op, Sample, register
from ..ir.types import TensorType
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from ._views import Composite


@register
class Measure(Op):
    """The input itself, an int64 scalar: from here on the value of a symbol.

    Attributes:
        symbol: its name.
    """

    name = "measure"
    operands = ("size",)
    attrs = {"symbol": REQUIRED}
    dtypes = (dtypes.int64,)
    differentiable = False

    def infer(self, size: TensorType, *, symbol: str) -> TensorType:
        if size != TensorType((), dtypes.int64):
            raise TypeError(f"measure takes an int64 scalar, got {size}")
        return size

    def reference(self, size: Array, *, symbol: str) -> Array:
        return size

    def gradient(self, b: Builder, node: Node,
                 dys: Sequence[Value | None]) -> list[Value | None]:
        return [None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        return r.read(0, idx)

    def samples(self) -> Sequence[Sample]:
        return (Sample((np.array(3),), {"symbol": "n"}, grad=False),)


@register
class TruePositions(Composite):
    """The first `size` positions of the true elements of a vector, int64; 0 beyond their number.

    Operands: input (bool, one axis); count, int64: what `size` was measured from.

    Attributes:
        size: how many.
    """

    name = "true_positions"
    operands = ("input", "count")
    attrs = {"size": REQUIRED}
    dtypes = BOOL
    differentiable = False

    def infer(self, x: TensorType, count: TensorType, *, size: int) -> TensorType:
        if x.rank != 1 or x.dtype is not dtypes.bool_:
            raise TypeError(f"true_positions takes a bool vector, got {x}")
        if not is_symbolic(size) and size < 0:
            raise ValueError(f"true_positions needs a size of at least 0, got {size}")
        return TensorType((size,), dtypes.int64)

    def expand(self, b: Builder, x: Value, count: Value, *, size: int) -> Value:
        n = x.shape[0]
        if n == 0 or size == 0:
            return b.full(TensorType((size,), dtypes.int64), 0)
        order = b.sub(b.cumsum(b.cast(x, dtype=dtypes.int64), axis=0), b.literal(1, dtypes.int64))
        spare = b.literal(size, dtypes.int64)  # where what is false, or too much, goes
        spot = b.where(x, b.minimum(order, spare), spare)
        room = b.full(TensorType((size + 1,), dtypes.int64), 0)
        found = b.scatter(room, spot, b.iota(shape=(n,), axis=0, dtype=dtypes.int64), axis=0)
        return b.slice(found, start=(0,), stop=(size,))

    def reference(self, x: Array, count: Array, *, size: int) -> Array:
        found = np.flatnonzero(x)[:size]
        return np.pad(found, (0, size - len(found)))

    def gradient(self, b: Builder, node: Node, dys: Sequence[Any]) -> list[Any]:
        return [None, None]

    def samples(self) -> Sequence[Sample]:
        mask = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1], bool)
        return (Sample((mask, np.array(5)), {"size": 5}, grad=False),
                Sample((mask, np.array(5)), {"size": 2}, grad=False),
                Sample((mask, np.array(5)), {"size": 7}, grad=False),
                Sample((np.zeros(3, bool), np.array(0)), {"size": 0}, grad=False),
                Sample((np.zeros(0, bool), np.array(0)), {"size": 0}, grad=False))
