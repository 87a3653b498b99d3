"""Sizes that follow from elements and the positions of that number; windows at run-time positions.

An op whose number of results depends on elements is written as three: ops that compute the number,
`measure`, which gives the number a symbol, and ops of that symbolic size. The runner of a graph
cuts it after each `measure` (`compiled/staged.py` of the frontend).

The position of a window is moved so that it lies inside (as in XLA's DynamicSlice); a negative one
does not count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc_runtime import dtypes

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, BOOL, Array, Op, Sample
from ..ir.types import TensorType, show_shape
from ..loops import expr as E
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from ._members import Grads, case, no_gradient, sharding
from ._views import Composite, Element, updated
from .batching import window
from .control import Same
from .elementwise import same_dtype


class Measure(Same):
    """The input itself, an int64 scalar: from here on the value of a symbol.

    Attributes:
        symbol: its name.
    """

    name = "measure"
    operands = ("size",)
    attrs = {"symbol": attr.text()}
    dtypes = (dtypes.int64,)
    cost = "moderate"
    differentiable = False
    gradient = no_gradient

    def infer(self, size: TensorType, *, symbol: str) -> TensorType:
        if size != TensorType((), dtypes.int64):
            raise TypeError(f"measure takes an int64 scalar, got {size}")
        return size

    def samples(self) -> Sequence[Sample]:
        return (case(np.array(3), symbol="n", grad=False),)


class TruePositions(Composite):
    """The first `size` positions of the true elements of a vector, int64; 0 beyond their number.

    Operands: input (bool, one axis); count, int64: what `size` was measured from.

    Attributes:
        size: how many.
    """

    name = "true_positions"
    operands = ("input", "count")
    attrs = {"size": attr.size()}
    dtypes = BOOL
    differentiable = False
    gradient = no_gradient

    def infer(self, x: TensorType, count: TensorType, *, size: int) -> TensorType:
        if x.rank != 1 or x.dtype is not dtypes.bool_:
            raise TypeError(f"true_positions takes a bool vector, got {x}")
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

    def samples(self) -> Sequence[Sample]:
        mask = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1], bool)
        return (case(mask, np.array(5), size=5, grad=False),
                case(mask, np.array(5), size=2, grad=False),
                case(mask, np.array(5), size=7, grad=False),
                case(np.zeros(3, bool), np.array(0), size=0, grad=False),
                case(np.zeros(0, bool), np.array(0), size=0, grad=False))


# --- windows at run-time positions ----------------------------------------------------------------


Ints = tuple[int, ...]


def _check(name: str, x: TensorType, starts: TensorType, sizes: Sequence[int]) -> None:
    if starts != TensorType((x.rank,), dtypes.int64):
        raise TypeError(f"{name} of {x} needs starts of int64[{x.rank}], got {starts}")
    if len(sizes) != x.rank or any(not 0 <= n <= d for n, d in zip(sizes, x.dims, strict=True)):
        raise ValueError(f"{name} needs a window of {x.rank} dimensions that fits {x}, got "
                         f"{show_shape(tuple(sizes))}")


def _starts(r: Reader, k: int, dims: Ints, sizes: Ints) -> list[Index]:
    """Positions of the window, moved inside."""
    return [E.dynamic_index(r.read(k, (Index.of(axis),)), d - n + 1)
            for axis, (d, n) in enumerate(zip(dims, sizes, strict=True))]


def _window_factors(node: Node, sizes: Ints) -> sharding.Factors:
    """Each axis of which the window has all: it begins at 0, in a part, too. The positions are the
    last operand."""
    dims = node.operands[0].type.dims
    axes = tuple((a,) if n == d else () for a, (n, d) in enumerate(zip(sizes, dims, strict=True)))
    return sharding.Factors(dims, (*(axes for _ in node.operands[1:]), ((),)), (axes,))


def _window(x: Array, starts: Array, sizes: Ints) -> tuple[slice, ...]:
    """Reference slices."""
    at = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + n) for a, n in zip(at, sizes, strict=True))


class DynamicSlice(Op):
    """The window of `sizes` elements from run-time positions.

    Operands: input; starts int64[rank].

    Attributes:
        sizes: size of the window, per axis.
    """

    name = "dynamic_slice"
    operands = ("input", "starts")
    attrs = {"sizes": attr.shape()}
    dtypes = ANY
    batch = window

    def factors(self, node: Node) -> sharding.Factors:
        return _window_factors(node, node.attrs["sizes"])

    def part(self, b: Builder, node: Node, operands: Sequence[Value], part: sharding.Part) -> Value:
        """A window of the part's size."""
        out: Value = b.emit(self.name, *operands, sizes=part.type.dims)
        return out

    def infer(self, x: TensorType, starts: TensorType, *, sizes: Ints) -> TensorType:
        _check("dynamic_slice", x, starts, sizes)
        return x.with_shape(sizes)

    def reference(self, x: Array, starts: Array, *, sizes: Ints) -> Array:
        return x[_window(x, starts, sizes)]

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, starts = node.operands
        return [b.dynamic_update_slice(b.zeros_like(x), dys[0], starts), None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        starts = _starts(r, 1, r.types[0].dims, r.out[0].dims)
        return r.read(0, tuple(i + s for i, s in zip(idx, starts, strict=True)))

    def samples(self) -> Sequence[Sample]:
        x = (5, 7)
        return (case(x, np.array([1, 2]), sizes=(2, 4)), case(x, np.array([-1, 99]), sizes=(5, 3)),
                case((40,), np.array([3]), sizes=(20,)), case(x, np.array([0, 0]), sizes=(0, 7)),
                case((), np.zeros((0,), np.int64), sizes=()))


class DynamicUpdateSlice(Op):
    """input with the window at run-time positions replaced by `update`.

    Operands: input; update, of the window's size; starts int64[rank].
    """

    name = "dynamic_update_slice"
    operands = ("input", "update", "starts")
    dtypes = ANY
    batch = window

    def factors(self, node: Node) -> sharding.Factors:
        return _window_factors(node, node.operands[1].type.dims)

    def infer(self, x: TensorType, update: TensorType, starts: TensorType) -> TensorType:
        same_dtype("dynamic_update_slice", x, update)
        _check("dynamic_update_slice", x, starts, update.dims)
        return x

    def reference(self, x: Array, update: Array, starts: Array) -> Array:
        out = np.array(x)
        out[_window(x, starts, update.shape)] = update
        return out

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        _, update, starts = node.operands
        dx = b.dynamic_update_slice(dys[0], b.zeros_like(update), starts)
        return [dx, b.dynamic_slice(dys[0], starts, sizes=update.shape), None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Element:
        sizes = r.types[1].dims
        if 0 in sizes:
            return r.read(0, idx)
        own: list[Index] = []
        conds: list[Expr | None] = []
        for i, n, s in zip(idx, sizes, _starts(r, 2, r.types[0].dims, sizes), strict=True):
            at = i - s
            own.append(at)
            conds += [E.index_value(at).ge(0), E.index_value(at).lt(n)]
        return updated(r, idx, own, conds)

    def samples(self) -> Sequence[Sample]:
        x = (5, 7)
        return (case(x, (2, 4), np.array([1, 2])), case(x, (5, 3), np.array([-1, 99])),
                case((40,), (1,), np.array([39])), case(x, (0, 7), np.array([0, 0])),
                case((), (), np.zeros((0,), np.int64)))
