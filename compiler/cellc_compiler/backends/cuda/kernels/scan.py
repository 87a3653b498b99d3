"""Running reductions along an axis: runs of a line side by side where order allows it.

A run is a thread's. One kernel reduces each run, one makes of these results what comes before each
run, one writes the elements. Sums of floats have these runs on every machine (`loops/order.py`);
sums and products of integers and extremes, with the last of equal ones, have the same bits however
they are cut. Other lines are one run: products of floats, logarithms of sums of exponentials and
linear recurrences are chains. A thread loads several elements before it uses the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....loops import order
from ....lower.plan import KernelPlan, Role, operand, result, scratch
from ...along_axis import Running
from ...llvm.convert import load_as, memory_type, store_as
from ...llvm.math.lanes import X
from ...llvm.text import sizeof
from ...plain.running import TAKING, State, Taking, set_all, values_of
from ..code import WARP, KernelCode
from ..writer import THREADS, GpuFunction
from .plans import step

AHEAD = 16  # Elements that are loaded before the first is used
_FILLED = 1 << 15
"""Threads from which on blocks are large: fewer are spread over as many as there are."""


@dataclass(frozen=True, slots=True)
class Scan(Running):
    """A running reduction by runs."""

    @property
    def run(self) -> int:
        """Elements of a run."""
        free = self.kind in ("max", "min") or (self.kind == "prod" and not self.dtype.is_float)
        return order.scan_run(self.n) if free or self.kind == "sum" else self.n

    @property
    def runs(self) -> int:
        """Of a line."""
        return -(-self.n // self.run)

    def plan(self, target: Target) -> KernelPlan:
        """The kernels, from in0 (and in1, the factors) to out0 (and out1, positions)."""
        taking = TAKING[self.kind](self)
        given = [operand(0), operand(1)] if self.kind == "linear" else [operand(0)]
        outs = [result(0), result(1)] if self.kind in ("max", "min") else [result(0)]
        if self.runs == 1:
            whole = _elements(self, taking, [], len(given), target)
            return KernelPlan((step(whole, (*given, *outs)),))
        held: dict[Role, int] = {
            scratch(f"runs_{i}"): self.outer * self.runs * self.inner * sizeof(ty)
            for i, ty in enumerate(taking.types)}
        return KernelPlan((
            step(_totals(self, taking, target), (*given, *held)),
            step(_bases(self, taking, target), tuple(held)),
            step(_elements(self, taking, taking.types, len(given), target),
                 (*given, *held, *outs)),
        ), held)

    def at(self, line: X, place: X, column: X) -> X:
        """Where an element is that is so far along the walk."""
        i = (place * -1) + (self.n - 1) if self.reverse else place
        return (line * self.n + i) * self.inner + column


# --- kernels --------------------------------------------------------------------------------------


def _function(s: Scan, buffers: int, runs: int, target: Target) -> GpuFunction:
    """A kernel of a thread for each of a line's runs."""
    filled = s.outer * runs * s.inner >= _FILLED
    return GpuFunction(target, buffers, THREADS if filled else WARP)


def _walk(
    f: GpuFunction, begin: X, end: X, load: Callable[[X], State], take: Callable[[X, State], None]
) -> None:
    """From one place to another, in order."""
    now = f.var(begin)
    with f.repeat(lambda: (now.get() + (AHEAD - 1)).cmp("slt", end)):
        places = [now.get() + i for i in range(AHEAD)]
        for place, loaded in [(p, load(p)) for p in places]:
            take(place, loaded)
        now.set(now.get() + AHEAD)
    with f.repeat(lambda: now.get().cmp("slt", end)):
        take(now.get(), load(now.get()))
        now.set(now.get() + 1)


def _run_bounds(s: Scan, run: X) -> tuple[X, X]:
    """Return the first place of a run, and its end."""
    begin = run * s.run
    end = begin + s.run
    return begin, end.cmp("slt", s.n).where(end, s.n)


def _loader(f: GpuFunction, s: Scan, given: int, line: X, column: X) -> Callable[[X], State]:
    """Reads an element of a line (and its factor)."""
    ty = memory_type(s.dtype)

    def load(place: X) -> State:
        at = s.at(line, place, column)
        return [X(f, load_as(f, s.dtype, f.gep(f.pointer(b), at.v, ty))) for b in range(given)]

    return load


def _totals(s: Scan, taking: Taking, target: Target) -> KernelCode:
    """Compute the total of each run."""
    f = _function(s, 1 + len(taking.types), s.runs, target)
    with f.item(s.outer, s.runs, s.inner) as (line, run, column):
        held = [f.var(x) for x in taking.start(f)]
        _walk(f, *_run_bounds(s, run), _loader(f, s, 1, line, column),
              lambda place, x: set_all(held, taking.take(f, values_of(held), x, place)))
        at = (line * s.runs + run) * s.inner + column
        for i, (x, ty) in enumerate(zip(values_of(held), taking.types, strict=True)):
            f.store(x.v, f.gep(f.pointer(1 + i), at.v, ty))
    return f.finished_for(s.outer * s.runs * s.inner)


def _bases(s: Scan, taking: Taking, target: Target) -> KernelCode:
    """Replace each run's total by the total of all runs before it."""
    f = _function(s, len(taking.types), 1, target)
    with f.item(s.outer, s.inner) as (line, column):
        held = [f.var(x) for x in taking.start(f)]
        places = [(f.pointer(i), ty) for i, ty in enumerate(taking.types)]

        def at(run: X) -> X:
            return (line * s.runs + run) * s.inner + column

        def take(run: X, total: State) -> None:
            before = values_of(held)
            for x, (pointer, ty) in zip(before, places, strict=True):
                f.store(x.v, f.gep(pointer, at(run).v, ty))
            set_all(held, taking.join(f, before, total))

        _walk(f, X(f, f.i64(0)), X(f, f.i64(s.runs)), lambda run: [
            X(f, f.load(ty, f.gep(pointer, at(run).v, ty))) for pointer, ty in places], take)
    return f.finished_for(s.outer * s.inner)


def _elements(
    s: Scan, taking: Taking, bases: Sequence[str], given: int, target: Target
) -> KernelCode:
    """Compute the elements of each run from the total before it."""
    first, count = given + len(bases), 2 if s.kind in ("max", "min") else 1
    f = _function(s, first + count, s.runs, target)
    with f.item(s.outer, s.runs, s.inner) as (line, run, column):
        held = [f.var(x) for x in taking.start(f)]
        at = (line * s.runs + run) * s.inner + column
        base = [X(f, f.load(ty, f.gep(f.pointer(given + i), at.v, ty)))
                for i, ty in enumerate(bases)]

        def take(place: X, loaded: State) -> None:
            old = values_of(held)
            new = taking.take(f, old, loaded, place)
            set_all(held, new)
            out = old if s.exclusive else new
            whole = taking.join(f, base, out) if base else out
            to = s.at(line, place, column)
            for i, x in enumerate(taking.result(f, whole)):
                if i:
                    f.store(x.v, f.gep(f.pointer(first + i), to.v, "i32"))
                else:
                    store_as(f, x.v, s.dtype, f.gep(f.pointer(first), to.v, memory_type(s.dtype)))

        _walk(f, *_run_bounds(s, run), _loader(f, s, given, line, column), take)
    return f.finished_for(s.outer * s.runs * s.inner)
