"""Windows at run-time positions: what loops over a tensor's rows and caches read and write.

A position is moved so that the window lies inside (as in XLA's DynamicSlice); a negative one
does not count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cellc_runtime import dtypes

from ..ir.graph import Builder, Node, Value
from ..ir.op import ANY, REQUIRED, Array, Op, Sample, Spec, register
from ..ir.types import TensorType, show_shape
from ..loops import expr as E
from ..loops.expr import Expr, Reader
from ..loops.index import Index
from ._views import Element, both, select
from .batching import window
from .elementwise import same_dtype

Ints = tuple[int, ...]


def _check(name: str, x: TensorType, starts: TensorType, sizes: Sequence[int]) -> None:
    if starts != TensorType((x.rank,), dtypes.int64):
        raise TypeError(f"{name} of {x} needs starts of int64[{x.rank}], got {starts}")
    if len(sizes) != x.rank or any(not 0 <= n <= d for n, d in zip(sizes, x.dims, strict=True)):
        raise ValueError(
            f"{name} needs a window of {x.rank} dimensions that fits {x}, got "
            f"{show_shape(tuple(sizes))}"
        )


def _starts(r: Reader, k: int, dims: Ints, sizes: Ints) -> list[Index]:
    """Positions of the window, moved inside."""
    return [E.dynamic_index(r.read(k, (Index.of(axis),)), d - n + 1)
            for axis, (d, n) in enumerate(zip(dims, sizes, strict=True))]


def _window(x: Array, starts: Array, sizes: Ints) -> tuple[slice, ...]:
    """Reference slices."""
    at = [min(max(int(s), 0), d - n) for s, d, n in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(a, a + n) for a, n in zip(at, sizes, strict=True))


@register
class DynamicSlice(Op):
    """The window of `sizes` elements from run-time positions.

    Operands: input; starts int64[rank].

    Attributes:
        sizes: size of the window, per axis.
    """

    name = "dynamic_slice"
    operands = ("input", "starts")
    attrs = {"sizes": REQUIRED}
    dtypes = ANY
    batch = window

    def infer(self, x: TensorType, starts: TensorType, *, sizes: Ints) -> TensorType:
        _check("dynamic_slice", x, starts, sizes)
        return x.with_shape(sizes)

    def reference(self, x: Array, starts: Array, *, sizes: Ints) -> Array:
        return x[_window(x, starts, sizes)]

    def gradient(self, b: Builder, node: Node,
                 dys: Sequence[Value | None]) -> list[Value | None]:
        x, starts = node.operands
        return [b.dynamic_update_slice(b.zeros_like(x), dys[0], starts), None]

    def value(self, r: Reader, idx: tuple[Index, ...]) -> Expr:
        starts = _starts(r, 1, r.types[0].dims, r.out[0].dims)
        return r.read(0, tuple(i + s for i, s in zip(idx, starts, strict=True)))

    def samples(self) -> Sequence[Sample]:
        x = Spec((5, 7))
        return (Sample((x, np.array([1, 2])), {"sizes": (2, 4)}),
                Sample((x, np.array([-1, 99])), {"sizes": (5, 3)}),
                Sample((Spec((40,)), np.array([3])), {"sizes": (20,)}),
                Sample((x, np.array([0, 0])), {"sizes": (0, 7)}),
                Sample((Spec(()), np.zeros((0,), np.int64)), {"sizes": ()}))


@register
class DynamicUpdateSlice(Op):
    """input with the window at run-time positions replaced by `update`.

    Operands: input; update, of the window's size; starts int64[rank].
    """

    name = "dynamic_update_slice"
    operands = ("input", "update", "starts")
    dtypes = ANY
    batch = window

    def infer(self, x: TensorType, update: TensorType, starts: TensorType) -> TensorType:
        same_dtype("dynamic_update_slice", x, update)
        _check("dynamic_update_slice", x, starts, update.dims)
        return x

    def reference(self, x: Array, update: Array, starts: Array) -> Array:
        out = np.array(x)
        out[_window(x, starts, update.shape)] = update
        return out

    def gradient(self, b: Builder, node: Node,
                 dys: Sequence[Value | None]) -> list[Value | None]:
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
        cond = both(conds)
        if cond is None:
            return r.read(1, tuple(own))
        return select(cond, r.read(1, tuple(own), where=cond), r.read(0, idx))

    def samples(self) -> Sequence[Sample]:
        x = Spec((5, 7))
        return (Sample((x, Spec((2, 4)), np.array([1, 2]))),
                Sample((x, Spec((5, 3)), np.array([-1, 99]))),
                Sample((Spec((40,)), Spec((1,)), np.array([39]))),
                Sample((x, Spec((0, 7)), np.array([0, 0]))),
                Sample((Spec(()), Spec(()), np.zeros((0,), np.int64))))
