"""Running reductions along an axis: runs of a line side by side where order allows it.

A run is a thread's. One kernel reduces each run, one makes of these results what comes before each
run, one writes the elements. Sums of floats have these runs on every machine (`loops/order.py`);
sums and products of integers and extremes, with the last of equal ones, have the same bits however
they are cut. Other lines are one run: products of floats, logarithms of sums of exponentials and
linear recurrences are chains. A thread loads several elements before it uses the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.types import prod
from ....loops import order
from ....lower.plan import KernelPlan, Role, operand, result, scratch
from ...along_axis import Running
from ...llvm import reduction
from ...llvm.convert import load_as, memory_type, register_type, store_as
from ...llvm.math import functions as math
from ...llvm.math.lanes import X
from ...llvm.text import sizeof
from ...plain.writer import Var
from ..code import WARP, KernelCode
from ..writer import THREADS, GpuFunction
from .plans import step

AHEAD = 16
"""Elements that are loaded before the first is used."""
_FILLED = 1 << 15
"""Threads from which on blocks are large: fewer are spread over as many as there are."""

State = list[X]


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
        taking = _TAKING[self.kind](self)
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


# --- what is carried ------------------------------------------------------------------------------


class _Taking(ABC):
    """The state that a line carries from element to element.

    Attributes:
        types: of the numbers that it is.
    """

    def __init__(self, scan: Scan) -> None:
        self.scan, self.dtype = scan, scan.dtype
        self.types = [register_type(scan.dtype)]

    @abstractmethod
    def start(self, f: GpuFunction) -> State:
        """Before the first element."""

    @abstractmethod
    def take(self, f: GpuFunction, held: State, loaded: State, place: X) -> State:
        """With an element."""

    def join(self, f: GpuFunction, held: State, later: State) -> State:
        """With what later elements come to."""
        raise TypeError(f"a line of {self.scan.kind} is one run")

    def result(self, f: GpuFunction, held: State) -> State:
        """Return the values to write."""
        return held


class _Sum(_Taking):
    def start(self, f: GpuFunction) -> State:
        return [X(f, f.const(self.types[0], 0))]

    def take(self, f: GpuFunction, held: State, loaded: State, place: X) -> State:
        return self.join(f, held, loaded)

    def join(self, f: GpuFunction, held: State, later: State) -> State:
        return [held[0] + later[0]]


class _Product(_Sum):
    def start(self, f: GpuFunction) -> State:
        return [X(f, f.const(self.types[0], 1))]

    def join(self, f: GpuFunction, held: State, later: State) -> State:
        return [held[0] * later[0]]


class _Linear(_Sum):
    def take(self, f: GpuFunction, held: State, loaded: State, place: X) -> State:
        return [held[0] * loaded[1] + loaded[0]]


class _Extreme(_Taking):
    """The extreme so far, and its place: the last of equal ones, or the first NaN."""

    def __init__(self, scan: Scan) -> None:
        super().__init__(scan)
        self.types.append("i32")

    def start(self, f: GpuFunction) -> State:
        (first,) = reduction.identity(f, self.scan.kind, self.types[0], self.dtype)
        return [X(f, first), X(f, f.const("i32", 0))]

    def take(self, f: GpuFunction, held: State, loaded: State, place: X) -> State:
        return self.join(f, held, [loaded[0], place.to("trunc", "i32")])

    def join(self, f: GpuFunction, held: State, later: State) -> State:
        old, new = held[0], later[0]
        low, high = (new, old) if self.scan.kind == "max" else (old, new)
        kept = f.compare("lt", self.dtype, low, high) | f.compare("ne", self.dtype, old, old)
        return [kept.where(a, b) for a, b in zip(held, later, strict=True)]


class _LogSumExp(_Taking):
    """The largest so far, and the sum of exponentials less it."""

    def __init__(self, scan: Scan) -> None:
        super().__init__(scan)
        self.types *= 2

    def start(self, f: GpuFunction) -> State:
        return [f.number(self.dtype, float("-inf")), f.number(self.dtype, 0)]

    def take(self, f: GpuFunction, held: State, loaded: State, place: X) -> State:
        (old, total), (new,) = held, loaded
        top = new.cmp("ugt", old).where(new, old)
        shift = _shift(top)
        return [top, total * _call("exp", old - shift) + _call("exp", new - shift)]

    def result(self, f: GpuFunction, held: State) -> State:
        return [_shift(held[0]) + _call("log", held[1])]


def _shift(top: X) -> X:
    """0 where the largest is no finite number."""
    return (top - top).eq(0).where(top, 0)


def _call(name: str, x: X) -> X:
    return X(x.f, math.emit(x.f, name, x.v))


_TAKING: dict[str, type[_Taking]] = {"sum": _Sum, "prod": _Product, "max": _Extreme,
                                     "min": _Extreme, "logsumexp": _LogSumExp, "linear": _Linear}


# --- kernels --------------------------------------------------------------------------------------


@contextmanager
def _threads(target: Target, buffers: int, *extents: int) -> Iterator[_Kernel]:
    """A kernel with a thread for each item; it is there when the block is left."""
    items = prod(extents)
    f = GpuFunction(target, buffers, THREADS if items >= _FILLED else WARP)
    made = _Kernel(f)
    number = X(f, f.global_thread())
    with f.given(number.cmp("ult", items)):
        made.at = [X(f, f.cast("zext", v, "i64")) for v in f.split(number.v, extents)]
        yield made
    made.code = f.finished(-(-items // f.threads))


class _Kernel:
    """A kernel being written, and the numbers of its item."""

    at: list[X]
    code: KernelCode

    def __init__(self, f: GpuFunction) -> None:
        self.f = f


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


def _get(cells: Sequence[Var]) -> State:
    return [c.get() for c in cells]


def _set(cells: Sequence[Var], state: State) -> None:
    for c, x in zip(cells, state, strict=True):
        c.set(x)


def _run_bounds(f: GpuFunction, s: Scan, run: X) -> tuple[X, X]:
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


def _totals(s: Scan, taking: _Taking, target: Target) -> KernelCode:
    """Compute the total of each run."""
    with _threads(target, 1 + len(taking.types), s.outer, s.runs, s.inner) as k:
        f, (line, run, column) = k.f, k.at
        held = [f.var(x) for x in taking.start(f)]
        _walk(f, *_run_bounds(f, s, run), _loader(f, s, 1, line, column),
              lambda place, x: _set(held, taking.take(f, _get(held), x, place)))
        at = (line * s.runs + run) * s.inner + column
        for i, (x, ty) in enumerate(zip(_get(held), taking.types, strict=True)):
            f.store(x.v, f.gep(f.pointer(1 + i), at.v, ty))
    return k.code


def _bases(s: Scan, taking: _Taking, target: Target) -> KernelCode:
    """Replace each run's total by the total of all runs before it."""
    with _threads(target, len(taking.types), s.outer, s.inner) as k:
        f, (line, column) = k.f, k.at
        held = [f.var(x) for x in taking.start(f)]
        places = [(f.pointer(i), ty) for i, ty in enumerate(taking.types)]

        def at(run: X) -> X:
            return (line * s.runs + run) * s.inner + column

        def take(run: X, total: State) -> None:
            before = _get(held)
            for x, (pointer, ty) in zip(before, places, strict=True):
                f.store(x.v, f.gep(pointer, at(run).v, ty))
            _set(held, taking.join(f, before, total))

        _walk(f, X(f, f.i64(0)), X(f, f.i64(s.runs)), lambda run: [
            X(f, f.load(ty, f.gep(pointer, at(run).v, ty))) for pointer, ty in places], take)
    return k.code


def _elements(
    s: Scan, taking: _Taking, bases: Sequence[str], given: int, target: Target
) -> KernelCode:
    """Compute the elements of each run from the total before it."""
    first, count = given + len(bases), 2 if s.kind in ("max", "min") else 1
    with _threads(target, first + count, s.outer, s.runs, s.inner) as k:
        f, (line, run, column) = k.f, k.at
        held = [f.var(x) for x in taking.start(f)]
        at = (line * s.runs + run) * s.inner + column
        base = [X(f, f.load(ty, f.gep(f.pointer(given + i), at.v, ty)))
                for i, ty in enumerate(bases)]

        def take(place: X, loaded: State) -> None:
            old = _get(held)
            new = taking.take(f, old, loaded, place)
            _set(held, new)
            out = old if s.exclusive else new
            whole = taking.join(f, base, out) if base else out
            to = s.at(line, place, column)
            for i, x in enumerate(taking.result(f, whole)):
                if i:
                    f.store(x.v, f.gep(f.pointer(first + i), to.v, "i32"))
                else:
                    store_as(f, x.v, s.dtype, f.gep(f.pointer(first), to.v, memory_type(s.dtype)))

        _walk(f, *_run_bounds(f, s, run), _loader(f, s, given, line, column), take)
    return k.code
