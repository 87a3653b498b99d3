"""Pools of images, sliding and adaptive, and their adjoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ....ir.graph import Node
from ....ir.op import lookup
from ....ir.types import prod
from ...llvm import reduction
from ...llvm.convert import register_type
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..writer import Buffer, Chains, PlainFunction, sum_of_row
from .table import lowers


@dataclass(frozen=True, slots=True)
class _Axis:
    """Windows along an axis: where each begins, how many positions it has, `step` apart; and, for
    each position, the first and last window that may have it."""

    f: PlainFunction
    windows: list[list[int]]
    size: int

    @property
    def step(self) -> int:
        return next((w[1] - w[0] for w in self.windows if len(w) > 1), 1)

    def _table(self, name: str, values: Sequence[int]) -> Callable[[X], X]:
        key = "_".join(map(str, (len(values), hash(tuple(values)) & 0xFFFFFFFF)))
        table = self.f.constant_table(f"{name}_{key}", "i64", values)
        return lambda i: X(self.f, self.f.load("i64", self.f.gep(table, i.v, "i64")))

    def first(self, window: X) -> X:
        return self._table("first", [w[0] for w in self.windows])(window)

    def count(self, window: X) -> X:
        return self._table("count", [len(w) for w in self.windows])(window)

    def concerned(self, position: X) -> tuple[X, X]:
        """The windows that may have a position: the first, and how many."""
        having = [[i for i, w in enumerate(self.windows) if p in w] for p in range(self.size)]
        low = self._table("low", [h[0] if h else 0 for h in having])
        many = self._table("many", [h[-1] - h[0] + 1 if h else 0 for h in having])
        return low(position), many(position)

    def has(self, window: X, position: X) -> X:
        """Whether a window has a position."""
        behind = position - self.first(window)
        number = behind.op("sdiv", self.step)
        inside = number.cmp("ult", self.count(window))
        return inside & behind.cmp("sge", 0) & (number * self.step).cmp("eq", behind)


def _axes(f: PlainFunction, node: Node, hw: Sequence[int]) -> tuple[_Axis, _Axis]:
    op: Any = lookup(node.op)
    rows, columns = op.windows(hw, node.attrs)
    return _Axis(f, rows, hw[0]), _Axis(f, columns, hw[1])


def _taps(
    f: PlainFunction, axes: tuple[_Axis, _Axis], oy: X, ox: X, body: Callable[[X, X], None]
) -> None:
    """The pixels of a window, row by row."""
    (ys, xs), first_y, first_x = axes, axes[0].first(oy), axes[1].first(ox)
    with f.each(ys.count(oy)) as (i,), f.each(xs.count(ox)) as (j,):
        body(first_y + i * ys.step, first_x + j * xs.step)


def _windows_of(
    f: PlainFunction, axes: tuple[_Axis, _Axis], y: X, x: X, body: Callable[[X, X], None]
) -> None:
    """The windows that have a pixel, in order."""
    (ys, xs) = axes
    (low_y, many_y), (low_x, many_x) = ys.concerned(y), xs.concerned(x)
    with f.each(many_y) as (i,), f.each(many_x) as (j,):
        oy, ox = low_y + i, low_x + j
        with f.given(ys.has(oy, y) & xs.has(ox, x)):
            body(oy, ox)


def _share(f: PlainFunction, node: Node, hw: Sequence[int], like: Buffer) -> Callable[[X, X], X]:
    """Return the divisor of a window's sum."""
    op: Any = lookup(node.op)
    rows, columns = (len(w) for w in op.windows(hw, node.attrs))
    divisors = np.broadcast_to(op.divisors(hw, node.attrs), (1, 1, rows, columns))[0, 0]
    ty = register_type(like.dtype)
    values = tuple(map(float, divisors.ravel()))
    # (The hash of floats is the same in every process, as keys of caches need it; that of bytes is
    # not.)
    table = f.constant_table(f"divisors_{hash(values) & 0xFFFFFFFF}", ty, values)
    return lambda oy, ox: X(f, f.load(ty, f.gep(table, (oy * columns + ox).v, ty)))


def _average(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (x,), (out,) = ins, outs
    hw = x.shape[2:]
    whole = all(len(a.windows) == 1 and len(a.windows[0]) == a.size for a in _axes(f, node, hw))
    with f.items(*out.shape) as (n, c, oy, ox):
        if whole:  # a row
            def take(held: Chains, k: X, at: X) -> None:
                held.take([x.get((n * x.shape[1] + c) * prod(hw) + k).v], at)

            wide = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
            total = sum_of_row(f, wide, prod(hw), take)
        else:
            held = f.var(f.number(x.dtype, 0))
            _taps(f, _axes(f, node, hw), oy, ox,
                  lambda y, z: held.set(held.get() + x.get((n, c, y, z))))
            total = held.get()
        out.set((n, c, oy, ox), total / _share(f, node, hw, x)(oy, ox))


def _average_backward(
    f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    dy, (out,) = ins[-1], outs
    hw = out.shape[2:]
    with f.items(*out.shape) as (n, c, y, x):
        held = f.var(f.number(out.dtype, 0))
        share = _share(f, node, hw, out)
        _windows_of(f, _axes(f, node, hw), y, x, lambda oy, ox: held.set(
            held.get() + dy.get((n, c, oy, ox)) / share(oy, ox)))
        out.set((n, c, y, x), held.get())


def _largest(f: PlainFunction, image: Buffer, node: Node, place: Sequence[X]) -> tuple[X, X]:
    """The largest element of a window, and where in the plane it is."""
    n, c, oy, ox = place
    hw, dtype = image.shape[2:], image.dtype
    held = [f.var(X(f, v)) for v in reduction.identity(f, "argmax", register_type(dtype), dtype)]

    def take(y: X, x: X) -> None:
        new: list[V] = [image.get((n, c, y, x)).v, (y * hw[1] + x).v]
        old = [h.get().v for h in held]
        for h, v in zip(held, reduction.combine(f, "argmax", dtype, old, new), strict=True):
            h.set(X(f, v))

    _taps(f, _axes(f, node, hw), oy, ox, take)
    return held[0].get(), held[1].get()


def _maximum(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    with f.items(*outs[0].shape) as place:
        for out, value in zip(outs, _largest(f, ins[0], node, place), strict=False):
            out.set(place, value)


def _maximum_backward(
    f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    """Each pixel takes from the windows whose largest it is."""
    image, dy, (out,) = ins[0], ins[-1], outs
    hw = image.shape[2:]
    with f.items(*out.shape) as (n, c, y, x):
        held = f.var(f.number(out.dtype, 0))

        def take(oy: X, ox: X) -> None:
            at = _largest(f, image, node, (n, c, oy, ox))[1]
            with f.given(at.cmp("eq", y * hw[1] + x)):
                held.set(held.get() + dy.get((n, c, oy, ox)))

        _windows_of(f, _axes(f, node, hw), y, x, take)
        out.set((n, c, y, x), held.get())


for _prefix in ("", "adaptive_"):
    lowers(f"{_prefix}avg_pool2d")(_average)
    lowers(f"{_prefix}avg_pool2d_backward")(_average_backward)
    lowers(f"{_prefix}max_pool2d")(_maximum)
    lowers(f"{_prefix}max_pool2d_backward")(_maximum_backward)
