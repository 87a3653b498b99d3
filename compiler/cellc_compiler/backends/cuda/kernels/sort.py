"""Sorting: a block sorts a tile in shared memory, and passes merge runs, two by two.

The sort works on *entries*: an unsigned key above the position of its element, so no two are equal
and every algorithm gives the one order. A tile is sorted by Batcher's bitonic network ("Sorting
Networks and their Applications", 1968); short lines share a block. A pass of merges cuts its output
into chunks: where a chunk begins in both runs is found by bisection along a diagonal ("GPU Merge
Path", Green, McColl and Bader, 2012), and in it an entry's place is how many of the other run come
before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....lower.plan import KernelPlan, Role, Step, scratch
from ...llvm.math.lanes import X
from ...llvm.text import V, sizeof
from ..code import WARP, KernelCode
from ..writer import GpuFunction
from .plans import step

TILE = 2048  # Entries that a block sorts at most
CHUNK = 1024  # Entries that a block merges; no more than a tile
_SHARED_BY = 512  # Entries of a block that short lines share
_TILE_THREADS = 512
_MERGE_THREADS = 256

Entry = Callable[[GpuFunction, X, X], X]
"""Reads the buffers of an operand: the entry of a line at a place."""
Store = Callable[[GpuFunction, X, X, X, int], None]
"""Writes what has come to a place of a line; the number is that of the first pointer of results."""


@dataclass(frozen=True, slots=True)
class Sorting:
    """Lines to be sorted, each by itself."""

    # lines, n: the number of lines, and of the entries of each
    lines: int
    n: int
    ty: str  # of an entry, i64 or i128; the value with all bits set comes after all others
    # entry, store: read an entry at first, and write one in the end
    entry: Entry
    store: Store
    # sources, outs: the buffers of both. The kernels of `store` are given those of `entry`, too.
    sources: tuple[Role, ...]
    outs: tuple[Role, ...]

    def plan(self, target: Target) -> KernelPlan:
        """The kernels."""
        run, size = min(TILE, 1 << (self.n - 1).bit_length()), sizeof(self.ty)
        here, other = scratch("entries_a"), scratch("entries_b")
        last = run >= self.n
        steps = [step(_tiles(self, run, target),
                      (*self.sources, *(self.outs if last else (here,))))]
        held = {} if last else {here: self.lines * self.n * size}
        while run < self.n:
            last = 2 * run >= self.n
            if not last:
                held[other] = held[here]
            steps.append(self._pass(run, last, here, other, target))
            here, other, run = other, here, 2 * run
        return KernelPlan(tuple(steps), held)

    def _pass(self, run: int, last: bool, here: Role, other: Role, target: Target) -> Step:
        roles = (*self.sources, here, *(self.outs if last else (other,)))
        return step(_merge(self, run, last, target), roles)

    def at(self, f: GpuFunction, base: V, line: X, i: X) -> V:
        """The address of an entry of a line."""
        return f.gep(base, (line * self.n + i).v, self.ty)


def _load(f: GpuFunction, at: V, ty: str) -> X:
    return X(f, f.load(ty, at, sizeof(ty)))


def _store(f: GpuFunction, x: X, at: V) -> None:
    f.store(x.v, at, sizeof(x.v.ty))


def _wide(x: X) -> X:
    return x.to("zext", "i64")


@contextmanager
def _each(f: GpuFunction, count: int, limit: X | None = None) -> Iterator[X]:
    """Numbers below a count (and a limit), a thread each in turn."""
    with f.each(-(-count // f.threads)) as (trip,):
        e = X(f, f.thread()) + trip.to("trunc", "i32") * f.threads
        if limit is None and count % f.threads == 0:
            yield e
        else:
            with f.given(e.cmp("ult", count if limit is None else limit)):
                yield e


# --- tiles ----------------------------------------------------------------------------------------


def _tiles(s: Sorting, run: int, target: Target) -> KernelCode:
    """Runs of a power of two are sorted; a block does one, or several short ones."""
    span = max(run, min(_SHARED_BY, 1 << (run * s.lines - 1).bit_length()))
    per_line, sources = -(-s.n // run), len(s.sources)
    count = s.lines * per_line
    f = GpuFunction(target, sources + (len(s.outs) if per_line == 1 else 1),
                    max(WARP, min(span // 2, _TILE_THREADS)))
    room = f.shared_memory(span * sizeof(s.ty))
    first = X(f, f.block()) * (span // run)

    def place(e: X) -> tuple[X, X, X]:
        """The line and the place of an entry of the block, and whether it is there."""
        number = first + e.op("udiv", run)
        i = _wide(number.op("urem", per_line)) * run + _wide(e.op("urem", run))
        inside = number.cmp("ult", count) & i.cmp("ult", s.n)
        return _wide(number.op("udiv", per_line)), i, inside

    with _each(f, span) as e:
        line, i, inside = place(e)
        entry = s.entry(f, inside.where(line, 0), inside.where(i, 0))
        _store(f, inside.where(entry, -1), f.gep(room, e.v, s.ty))
    f.barrier()
    _network(f, room, s.ty, run, span)
    with _each(f, span) as e:
        line, i, inside = place(e)
        with f.given(inside):
            entry = _load(f, f.gep(room, e.v, s.ty), s.ty)
            if per_line == 1:
                s.store(f, line, i, entry, sources)
            else:
                _store(f, entry, s.at(f, f.pointer(sources), line, i))
    return f.finished(-(-count // (span // run)))


def _network(f: GpuFunction, room: V, ty: str, run: int, span: int) -> None:
    """Sort each run of a block's entries: pairs that are `gap` apart, up and down in turn until the
    sorted parts are runs."""
    size = f.var(X(f, V("i32", "2")))
    with f.repeat(lambda: size.get().cmp("ule", run)):
        gap = f.var(size.get() >> 1)
        with f.repeat(lambda: gap.get().cmp("ne", 0)):
            now, part = gap.get(), size.get()
            with _each(f, span // 2) as pair:
                low = pair * 2 - (pair & (now - 1))
                down = (low & part & (run - 1)).cmp("ne", 0)
                _exchange(f, f.gep(room, low.v, ty), f.gep(room, (low + now).v, ty), ty, down)
            # Pairs that are no further apart are those of a warp, in this step and the next.
            apart = now.cmp("ugt", WARP) | (now.cmp("eq", 1) & part.cmp("ugt", WARP))
            with f.given(apart):
                f.barrier()
            with f.given(~apart):
                f.warp_barrier()
            gap.set(now >> 1)
        size.set(size.get() << 1)
    f.barrier()


def _exchange(f: GpuFunction, low: V, high: V, ty: str, down: X) -> None:
    """Bring two entries into order."""
    a, b = _load(f, low, ty), _load(f, high, ty)
    swap = b.cmp("ult", a) ^ down
    _store(f, swap.where(b, a), low)
    _store(f, swap.where(a, b), high)


# --- merges ---------------------------------------------------------------------------------------


def _merge(s: Sorting, run: int, last: bool, target: Target) -> KernelCode:
    """Pairs of sorted runs become runs; a block does a chunk."""
    sources, size = len(s.sources), min(CHUNK, 2 * run)
    chunks = -(-s.n // size)
    f = GpuFunction(target, sources + 1 + (len(s.outs) if last else 1), _MERGE_THREADS)
    room = f.shared_memory(size * sizeof(s.ty))
    block = X(f, f.block())
    line, chunk = _wide(block.op("udiv", chunks)), _wide(block.op("urem", chunks))
    begin = chunk * size
    pair = begin - begin.op("urem", 2 * run)
    middle, end = _least(pair + run, s.n), _least(pair + 2 * run, s.n)
    held = f.pointer(sources)
    left, right = s.at(f, held, line, pair), s.at(f, held, line, middle)
    # Lanes take turns: even ones look for the beginning of the chunk, odd ones for its end.
    ends = begin - pair, _least(begin + size, end) - pair
    odd = (X(f, f.thread()) & 1).cmp("ne", 0)
    found = _diagonal(
        f, s.ty, left, right, middle - pair, end - middle, odd.where(ends[1], ends[0]))
    a0, a1 = (X(f, f.from_lane(found.v, V("i32", str(lane)))) for lane in (0, 1))
    ours = (a1 - a0).to("trunc", "i32")
    total = (ends[1] - ends[0]).to("trunc", "i32")
    left, right = f.gep(left, a0.v, s.ty), f.gep(right, (ends[0] - a0).v, s.ty)
    with _each(f, size, total) as e:
        here = e.cmp("ult", ours)
        base = X(f, f.select(here.v, left, right))
        entry = _load(f, f.gep(base.v, _wide(here.where(e, e - ours)).v, s.ty), s.ty)
        _store(f, entry, f.gep(room, e.v, s.ty))
    f.barrier()
    with _each(f, size, total) as e:
        here, own = e.cmp("ult", ours), _load(f, f.gep(room, e.v, s.ty), s.ty)
        before = _before(f, s.ty, room, own, here.where(ours, 0), here.where(total, ours))
        # The numbers of smaller entries in its own run, and in the other.
        i = begin + _wide(before - ours + e)
        if last:
            s.store(f, line, i, own, sources + 1)
        else:
            _store(f, own, s.at(f, f.pointer(sources + 1), line, i))
    return f.finished(s.lines * chunks)


def _least(x: X, limit: X | int) -> X:
    return x.cmp("ult", limit).where(x, limit)


def _diagonal(f: GpuFunction, ty: str, left: V, right: V, n: X, m: X, number: X) -> X:
    """How many of the first `number` of two merged runs, n and m long, are of the left one."""
    low = f.var(number.cmp("ugt", m).where(number - m, 0))
    high = f.var(_least(number, n))
    with f.repeat(lambda: low.get().cmp("ult", high.get())):
        middle = (low.get() + high.get()) >> 1
        a = _load(f, f.gep(left, middle.v, ty), ty)
        b = _load(f, f.gep(right, (number - 1 - middle).v, ty), ty)
        first = a.cmp("ult", b)
        low.set(first.where(middle + 1, low.get()))
        high.set(first.where(high.get(), middle))
    return low.get()


def _before(f: GpuFunction, ty: str, room: V, own: X, first: X, end: X) -> X:
    """Where the entries of a sorted part of shared memory are no longer before one."""
    low, high = f.var(first), f.var(end)
    with f.repeat(lambda: low.get().cmp("ult", high.get())):
        middle = (low.get() + high.get()) >> 1
        less = _load(f, f.gep(room, middle.v, ty), ty).cmp("ult", own)
        low.set(less.where(middle + 1, low.get()))
        high.set(less.where(high.get(), middle))
    return low.get()
