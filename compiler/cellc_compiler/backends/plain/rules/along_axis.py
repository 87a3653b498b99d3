"""Along an axis: running sums and extremes, recurrences, sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ....loops import order
from ...llvm import reduction
from ...llvm.convert import register_type
from ...llvm.math import functions as math
from ...llvm.math.lanes import X
from ..writer import Buffer, PlainFunction
from .table import Rule, lowers


@contextmanager
def _lines(f: PlainFunction, node: Node) -> Iterator[tuple[Callable[..., X], int]]:
    """For each line along the axis, the offset of its element i, and how many there are."""
    shape = node.operands[0].shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    inner, n = prod(shape[axis + 1:]), shape[axis]
    with f.items(prod(shape[:axis]), inner) as (outer, rest):
        yield lambda i: (outer * n + i) * inner + rest, n


def _running(kind: str) -> Rule:
    """Sums (of what is held times a factor, if there is one) and products."""
    def rule(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        x, a, start = ins[0], node.attrs, f.number(ins[0].dtype, kind == "prod")
        with _lines(f, node) as (at, n):
            acc, base = f.var(start), f.var(start)
            run = order.scan_run(n) if node.op == "cumsum" else n
            with f.each(n) as (t,):
                if run < n:
                    with f.given(t.op("urem", run).cmp("eq", 0)):
                        base.set(base.get() + acc.get())
                        acc.set(start)
                i = at(f.i(n - 1) - t if a.get("reverse") else t)
                new, old = x.get(i), acc.get()
                held = old * ins[1].get(i) if len(ins) > 1 else old
                acc.set(held + new if kind == "sum" else held * new)
                out = old if a.get("exclusive") else acc.get()
                outs[0].set(i, base.get() + out if run < n else out)

    return rule


def _extreme(kind: str) -> Rule:
    def rule(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        x, dtype = ins[0], ins[0].dtype
        (start,) = reduction.identity(f, kind, register_type(dtype), dtype)
        with _lines(f, node) as (at, n):
            acc, place = f.var(X(f, start)), f.var(f.i(0))
            with f.each(n) as (t,):
                new, old = x.get(at(t)), acc.get()
                low, high = (new, old) if kind == "max" else (old, new)
                take = ~(f.compare("lt", dtype, low, high) | f.compare("ne", dtype, old, old))
                acc.set(take.where(new, old))
                place.set(take.where(t, place.get()))
                outs[0].set(at(t), acc.get())
                outs[1].set(at(t), place.get().to("trunc", "i32"))

    return rule


for _kind in ("sum", "prod"):
    lowers(f"cum{_kind}")(_running(_kind))
for _kind in ("max", "min"):
    lowers(f"cum{_kind}")(_extreme(_kind))
lowers("linear_recurrence")(_running("sum"))


@lowers("logcumsumexp")
def logcumsumexp(
    f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]
) -> None:
    """The largest so far, and the sum of exponentials less it."""
    dtype = ins[0].dtype

    def call(name: str, x: X) -> X:
        return X(f, math.emit(f, name, x.v))

    with _lines(f, node) as (at, n):
        top, total = f.var(f.number(dtype, float("-inf"))), f.var(f.number(dtype, 0))
        with f.each(n) as (t,):
            new, old = ins[0].get(at(t)), top.get()
            top.set(new.cmp("ugt", old).where(new, old))
            shift = (top.get() - top.get()).eq(0).where(top.get(), 0)
            total.set(total.get() * call("exp", old - shift) + call("exp", new - shift))
            outs[0].set(at(t), shift + call("log", total.get()))


@lowers("sort_lines")
def sort_lines(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """An element's place is how many come before it: smaller ones, and equal ones that stand before
    it; NaN is last either way."""
    (x,), (values, positions), n, dtype = ins, outs, ins[0].shape[-1], ins[0].dtype

    def before(a: X, b: X) -> X:
        low, high = (b, a) if node.attrs["descending"] else (a, b)
        last = f.compare("ne", dtype, b, b) & f.compare("eq", dtype, a, a)
        return f.compare("lt", dtype, low, high) | last

    with f.items(prod(x.shape[:-1]), n) as (line, i):
        own, place = x.get(line * n + i), f.var(f.i(0))
        with f.each(n) as (j,):
            other = x.get(line * n + j)
            ahead = before(other, own) | (~before(own, other) & j.cmp("slt", i))
            place.set(place.get() + ahead.to("zext", "i64"))
        first, at = values.shape[-1], place.get()
        with f.given(at.cmp("slt", f.i(first))):
            values.set(line * first + at, own)
            positions.set(line * first + at, i.to("trunc", "i32"))
