"""Along an axis: running sums and extremes, recurrences, sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ....loops import order
from ...along_axis import RUNNING, Running, running_form
from ...llvm.math.lanes import X
from ..running import TAKING, set_all, values_of
from ..writer import Buffer, PlainFunction
from .table import lowers


@contextmanager
def _lines(f: PlainFunction, node: Node) -> Iterator[tuple[Callable[..., X], int]]:
    """For each line along the axis, the offset of its element i, and how many there are."""
    shape = node.operands[0].shape
    axis = normalize_axis(node.attrs["axis"], len(shape))
    inner, n = prod(shape[axis + 1:]), shape[axis]
    with f.items(prod(shape[:axis]), inner) as (outer, rest):
        yield lambda i: (outer * n + i) * inner + rest, n


def running(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    """Running sums, products and extremes, logarithms of sums of exponentials, recurrences."""
    form = Running(**running_form(node))
    taking = TAKING[form.kind](form)
    with _lines(f, node) as (at, n):
        held, base = ([f.var(x) for x in taking.start(f)] for _ in (0, 1))
        run = order.scan_run(n) if form.kind == "sum" else n
        with f.each(n) as (t,):
            if run < n:
                with f.given(t.op("urem", run).cmp("eq", 0)):
                    set_all(base, taking.join(f, values_of(base), values_of(held)))
                    set_all(held, taking.start(f))
            i, old = at(f.i(n - 1) - t if form.reverse else t), values_of(held)
            new = taking.take(f, old, [x.get(i) for x in ins], t)
            set_all(held, new)
            out = old if form.exclusive else new
            whole = taking.join(f, values_of(base), out) if run < n else out
            for buffer, x in zip(outs, taking.result(f, whole), strict=True):
                buffer.set(i, x)


for _op in RUNNING:
    lowers(_op)(running)


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
