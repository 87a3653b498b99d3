"""Nests of long rows: a row, or a block of rows whose sums are added to, is a block's.

All threads compute elements of a row, a vector each where the row lies so in memory; what is
reduced they put into shared memory, one chunk of the row after the other. Of each chunk a warp
takes in what its lanes are the chains of, in the order of the table (`loops/order.py`), while the
other warps compute the next chunk: there are two rooms for chunks, and one barrier for each. Of a
row in parts several go side by side, a warp for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.types import prod
from ....loops import order
from ....loops.nest import Nest, Phase, Reduce, Scratch, walk
from ...llvm import reduction
from ...llvm.convert import memory_type, register_type
from ...llvm.expressions import Scope
from ...llvm.math.lanes import X
from ...llvm.text import V, element, lanes_of, sizeof, vector
from ..architecture import UNITS, most_shared
from ..code import VECTOR_BYTES, WARP, KernelCode
from .kernel import lanes_for
from .rows import Chain, Warps, identity

ROW_WARPS, MOST_ROW_WARPS = 8, 32  # Warps of a block that do one row; where blocks are few
ELEMENTS_AT_ONCE = 16
"""Elements of a thread whose operands are loaded before the first of them is used; two vectors, if
those are more."""
_CHUNK_BYTES = 2 << 10
"""Of shared memory for chunks of what is reduced, for each warp; at most of 16 of them."""
TAKEN_AT_ONCE = 16  # Elements that a chain reads before it takes in the first of them
_SMALL = 1 << 30


@dataclass(frozen=True, slots=True)
class Spot:
    """An element that a thread computes, or the first of a vector: its number in a chunk, where it
    is there at all (None: everywhere), and the loop variables."""

    number: X
    there: X | None
    at: dict[Any, V]


@dataclass(frozen=True, slots=True)
class Slices:
    """How a row is cut into chunks: of each of `streams` runs of the row a slice of `size` elements
    (of which a chain has each `chains`-th). Where the last axis is short a slice is whole lines."""

    streams: int
    size: int
    length: int  # elements of a run; of a line, where slices are lines
    runs: int  # that the row has
    lines: int = 0  # of a slice; 0 where slices are parts of a run

    @property
    def elements(self) -> int:
        """Of a chunk."""
        return self.streams * self.size

    @property
    def is_whole(self) -> bool:
        """Whether all chunks are full."""
        if self.lines:
            return self.runs % self.lines == 0
        return self.length % self.size == 0 and self.runs % self.streams == 0


class Blocks(Warps):
    """See the module."""

    def threads_for(self, nest: Nest, target: Target) -> int:
        blocks, warps = _blocks(nest), ROW_WARPS
        while warps < MOST_ROW_WARPS and blocks * warps < UNITS[target.cpu] * MOST_ROW_WARPS:
            warps *= 2
        return warps * WARP

    def arrange(self) -> None:
        self.resident = False

    def kernel(self) -> KernelCode:
        f, nest = self.f, self.nest
        self.thread, self.warps = X(f, f.thread()), self.threads // WARP
        # Spots whose operands are loaded before the first of them is used.
        self.together = max(ELEMENTS_AT_ONCE // self.lanes, 2 if self.lanes > 1 else 1)
        self.lane = (self.thread & (WARP - 1)).v
        self.warp = self.thread >> 5
        long = max(prod(v.extent for v in p.loops) for p in nest.phases)
        self.counts = "i32" if long < _SMALL else "i64"
        self.scratch()
        self.tables = {id(r): [f.shared_memory(nest.parts(p) * sizeof(_stored(v.ty)))
                               for v in identity(f, r.kind, r.value.dtype)]
                       for p in nest.phases for r in p.reduces if p.loops}
        self._rooms()
        if not nest.block:
            self.begin(f.block())
            return f.finished(_blocks(nest))
        base = f.block() * nest.block
        self.place(nest.rows, base)
        for phase in nest.phases:
            self.clear(phase)
        with f.each(nest.block) as (i,):
            f.barrier()  # of the row before all has been taken in
            self.begin(base + f.cast("trunc", i.v, "i32"))
        return f.finished(_blocks(nest))

    def _rooms(self) -> None:
        """Shared memory for two chunks of what any phase reduces."""
        reduced = [p.reduces for p in self.nest.phases if p.loops and p.reduces]
        most = max(map(len, reduced), default=1)
        widest = max((sizeof(_stored(register_type(r.value.dtype)))
                      for reduces in reduced for r in reduces), default=4)
        room = min(_CHUNK_BYTES * min(self.warps, 16), most_shared(self.target) - self.f.shared)
        self.chunk = max(1 << (room // (2 * most * widest)).bit_length() >> 1, WARP)
        self.plane = self.chunk * widest
        self.rooms = self.f.shared_memory(2 * most * self.plane)
        self.turn = self.f.var(X(self.f, V("i32", "0")))
        self.room_bytes = most * self.plane

    def scratch_of(self, buffer: Scratch) -> V:
        return self.f.shared_memory(buffer.elements * buffer.dtype.itemsize)

    def is_first(self) -> X:
        return self.thread.cmp("eq", 0)

    def phase(self, phase: Phase, row: Scope) -> None:
        if not phase.loops:
            self.once(phase, row)
        elif phase.reduces:
            self.reduced(phase, row)
        else:
            self.spread(phase, lambda spots: self.computed(phase, row, spots))
            if any(isinstance(s.buffer, Scratch) for s in phase.stores):
                self.f.barrier()  # who reads it is not who wrote it

    # --- elements -------------------------------------------------------------------------------

    def counted(self, x: X | int) -> X:
        """A count in the type of counts."""
        f = self.f
        if isinstance(x, int):
            return X(f, V(self.counts, str(x)))
        if x.v.ty == self.counts:
            return x
        return X(f, f.cast("zext" if self.counts == "i64" else "trunc", x.v, self.counts))

    def spot(self, phase: Phase, number: X, place: X, there: X | None) -> Spot:
        """An element by its place in the phase's space."""
        f = self.f
        safe = place if there is None else there.where(place, 0)
        values = f.split(safe.v, [v.extent for v in phase.loops])
        return Spot(number, there, {
            v: self.narrow(i) if i.ty == "i64" else self.widened(i)
            for v, i in zip(phase.loops, values, strict=True)})

    def spread(self, phase: Phase, do: Callable[[list[Spot]], object]) -> None:
        """All elements of a phase, by all threads."""
        total, thread = prod(v.extent for v in phase.loops), self.counted(self.thread)
        apart = self.threads * self.lanes
        span = apart * self.together
        full = total // span

        def spots(base: X, count: int, whole: bool) -> list[Spot]:
            out = []
            for u in range(count):
                place = base + (thread * self.lanes + u * apart)
                out.append(self.spot(phase, place, place,
                                     None if whole else place.cmp("ult", total)))
            return out

        if full:
            with self.f.each(full) as (k,):
                do(spots(self.counted(k) * span, self.together, True))
        rest = total - full * span
        if rest:
            do(spots(self.counted(full * span), -(-rest // apart), rest % apart == 0))

    def scope(self, phase: Phase, row: Scope | None) -> Scope:
        """Where an element is computed, or a vector."""
        return Scope(self.lanes, phase.loops[-1] if self.lanes > 1 else None, None, None, row)

    def wide(self, value: V) -> V:
        """A vector of the lanes; one value is that of all of them."""
        return self.f.splat(value, self.lanes) if lanes_of(value.ty) != self.lanes else value

    def computed(self, phase: Phase, row: Scope, spots: Sequence[Spot]) -> list[list[V]]:
        """Elements of a phase: operands first, then stores; what of each is reduced."""
        found = []
        for spot in spots:
            self.vars.update(spot.at)
            scope = self.scope(phase, row)
            found.append((spot, [self.wide(self._value(s.value, scope)) for s in phase.stores],
                          [self.wide(self._value(r.value, scope)) for r in phase.reduces],
                          [self.addresses(s, scope) for s in phase.stores]))
        for spot, values, _, places in found:
            with self.where(spot.there):
                for s, v, to in zip(phase.stores, values, places, strict=True):
                    self.store(s, v, to)
        return [reduced for _, _, reduced, _ in found]

    def clear(self, phase: Phase) -> None:
        adding = Phase(phase.loops, [s for s in phase.stores if s.adds])
        if not adding.stores:
            return

        def zeros(spots: list[Spot]) -> None:
            for spot in spots:
                self.vars.update(spot.at)
                with self.where(spot.there):
                    for s in adding.stores:
                        zero = self.f.zero(vector(memory_type(s.value.dtype), self.lanes))
                        self.put_at(zero, self.addresses(s, self.scope(phase, None)))

        self.spread(adding, zeros)

    # --- what is reduced ------------------------------------------------------------------------

    def reduced(self, phase: Phase, row: Scope) -> None:
        """All elements of a phase, and what they are reduced to."""
        f, parts = self.f, self.nest.parts(phase)
        self.stride = self.nest.chains(phase)
        cut = self.slices(phase, parts)
        with f.each(-(-parts // cut.streams)) as (group,):
            first = self.counted(group) * cut.streams
            held = [Chain(f, r.kind, r.value.dtype) for r in phase.reduces]
            for spots_of, turns in self.chunks(phase, cut, first):
                with f.each(turns) as (k,):
                    self.one_chunk(phase, row, cut, held, spots_of(self.counted(k)),
                                   self.counted(k), first)
            for n, (r, chain) in enumerate(zip(phase.reduces, held, strict=True)):
                with self.warps_for(n, cut) as mine:
                    total = self.folded(r, chain.values(), self.stride)
                    with f.given(X(f, self.lane).cmp("eq", 0)):
                        for v, at in zip(total, self.tables[id(r)], strict=True):
                            f.store(v, f.gep(at, (first + mine).v, _stored(v.ty)))
        f.barrier()
        for r in phase.reduces:
            self.result(r, self.row_of_parts(r, parts), row)

    def slices(self, phase: Phase, parts: int) -> Slices:
        """How the row of a phase is cut."""
        last = phase.loops[-1].extent
        outer = prod(v.extent for v in phase.loops[:-1])
        if len(phase.loops) > 1 and last < self.chunk:
            lines = min(self.chunk // last, outer)
            return Slices(1, lines * last, last, outer, lines)
        length, streams = last // parts, min(parts, self.warps, self.chunk // WARP)
        size = min(self.chunk // streams // WARP, -(-length // WARP)) * WARP
        return Slices(streams, size, length, parts)

    def chunks(
        self, phase: Phase, cut: Slices, first: X
    ) -> Iterator[tuple[Callable[[X], list[Spot]], int]]:
        """Yield a function for the elements of a thread in chunk k, and the number of chunks; once,
        or in a loop over outer axes."""
        f, thread = self.f, self.counted(self.thread)
        apart = self.threads * self.lanes

        def numbers() -> Iterator[tuple[X, X | None]]:
            for u in range(-(-cut.elements // apart)):
                n = thread * self.lanes + u * apart
                yield n, None if (u + 1) * apart <= cut.elements else n.cmp("ult", cut.elements)

        def lines(k: X) -> list[Spot]:
            out = []
            for n, inside in numbers():
                place = k * cut.size + n
                there = inside
                if not cut.is_whole:
                    there = _both(inside, place.cmp("ult", cut.runs * cut.length))
                out.append(self.spot(phase, n, place, there))
            return out

        def parts_of_runs(k: X) -> list[Spot]:
            out = []
            for n, inside in numbers():
                stream, i = n.op("udiv", cut.size), k * cut.size + n.op("urem", cut.size)
                there = inside
                if not cut.is_whole:
                    there = _both(inside, _both(
                        i.cmp("ult", cut.length),
                        (first + stream).cmp("ult", cut.runs) if cut.runs > 1 else None))
                place = (first + stream) * cut.length + i
                safe = place if there is None else there.where(place, 0)
                own = {phase.loops[-1]: self.narrow(safe.v) if safe.v.ty == "i64"
                       else self.widened(safe.v)}
                out.append(Spot(n, there, own))
            return out

        if cut.lines:
            yield lines, -(-cut.runs // cut.lines)
            return
        outer = phase.loops[:-1]
        with f.each(*(v.extent for v in outer)) as at:
            self.vars.update((v, self.narrow(i.v)) for v, i in zip(outer, at, strict=True))
            yield parts_of_runs, -(-cut.length // cut.size)

    def one_chunk(
        self, phase: Phase, row: Scope, cut: Slices, held: Sequence[Chain], spots: list[Spot],
        k: X, first: X,
    ) -> None:
        """Compute a chunk, a few elements of a thread at a time, and take it in."""
        f = self.f
        room = f.gep(self.rooms, self.turn.get().v * self.room_bytes)
        full = cut.elements % (self.threads * self.lanes) == 0
        for begin in range(0, len(spots), self.together):
            some = spots[begin : begin + self.together]
            for spot, values in zip(some, self.computed(phase, row, some), strict=True):
                with self.where(None if full else spot.number.cmp("ult", cut.elements)):
                    for n, (r, v) in enumerate(zip(phase.reduces, values, strict=True)):
                        self._stage(f.gep(room, n * self.plane), spot, r, v)
        f.barrier()
        self.turn.set(X(f, self.turn.get().v ^ 1))
        for n, (r, chain) in enumerate(zip(phase.reduces, held, strict=True)):
            with self.warps_for(n, cut) as mine:
                base = f.gep(room, n * self.plane)
                if cut.lines:
                    self.take_lines(r, chain, cut, base)
                else:
                    self.take_slice(r, chain, cut, base, mine, k, first)

    def _stage(self, plane: V, spot: Spot, r: Reduce, value: V) -> None:
        """Put what is reduced of an element, or a vector, into its chunk."""
        f, ty = self.f, element(value.ty)
        if spot.there is not None:
            value = f.select(spot.there.v, value, self.wide(identity(f, r.kind, r.value.dtype)[0]))
        place = f.gep(plane, spot.number.v, _stored(ty))
        if self.lanes > 1 and ty == "i1":  # a vector of flags would be packed
            value = f.cast("zext", value, "i8")
        f.store(value, place, min(VECTOR_BYTES, sizeof(value.ty)) if self.lanes > 1 else None)

    @contextmanager
    def warps_for(self, n: int, cut: Slices) -> Iterator[X]:
        """The warps that have the chains of reduction n, and which run of the group is theirs."""
        mine = (self.warp + n) & (self.warps - 1)
        with self.f.given(mine.cmp("ult", cut.streams)):
            yield self.counted(mine)

    def take_slice(self, r: Reduce, chain: Chain, cut: Slices, base: V, mine: X, k: X, first: X
                   ) -> None:
        """A warp takes in its slice of a chunk. Missing elements are identities."""
        f, chains, lane = self.f, self.stride, self.counted(X(self.f, self.lane))
        guard = lane.cmp("ult", chains) if chains < WARP else None
        own = lane if guard is None else guard.where(lane, 0)
        steps = cut.size // chains
        together = min(TAKEN_AT_ONCE, steps)
        ty = chain.cells[0].ty

        def some(j: X | int, count: int) -> None:
            at = own + (j * (chains * together) if isinstance(j, X) else self.counted(j * chains))
            places = [at + u * chains for u in range(count)]
            xs = [f.load(ty, f.gep(base, (mine * cut.size + p).v, _stored(ty))) for p in places]
            for x, p in zip(xs, places, strict=True):
                taken = [x]
                if reduction.width(r.kind) > 1:
                    i = k * cut.size + p
                    i = i.cmp("ult", cut.length).where((first + mine) * cut.length + i, -1)
                    taken.append(self._position(i))
                chain.take(taken, guard)

        with f.each(steps // together) as (j,):
            some(self.counted(j), together)
        if steps % together:
            some(steps // together * together, steps % together)

    def take_lines(self, r: Reduce, chain: Chain, cut: Slices, base: V) -> None:
        """A warp takes in the lines of a chunk, one after the other."""
        f, chains, lane = self.f, self.stride, self.counted(X(self.f, self.lane))
        steps = -(-cut.length // chains)
        together = max(1, TAKEN_AT_ONCE // steps)
        ty = chain.cells[0].ty

        def some(line: X, count: int) -> None:
            found: list[tuple[list[V], X | None]] = []
            for u in range(count):
                for j in range(steps):
                    i = lane + j * chains
                    guard = None
                    if chains < WARP or (j + 1) * chains > cut.length:
                        inside = min(cut.length - j * chains, chains)
                        guard = lane.cmp("ult", inside)
                        i = guard.where(i, 0)
                    x = f.load(ty, f.gep(base, ((line + u) * cut.length + i).v, _stored(ty)))
                    found.append(([x, self._position(i)][:reduction.width(r.kind)], guard))
            for taken, guard in found:
                chain.take(taken, guard)

        with f.each(cut.lines // together) as (j,):
            some(self.counted(j) * together, together)
        if cut.lines % together:
            some(self.counted(cut.lines // together * together), cut.lines % together)

    def _position(self, i: X) -> V:
        """A place as the accumulator of an extreme's position has it; -1 is where nothing is."""
        f = self.f
        wide = i.v if i.v.ty == "i64" else f.cast("sext", i.v, "i64")
        nowhere = f.cmp("slt", wide, 0)
        return f.select(nowhere, V("i64", str(reduction.NOWHERE)), wide)

    def row_of_parts(self, reduce: Reduce, parts: int) -> list[V]:
        """The results of parts, reduced as a row; that of the one part."""
        f, table = self.f, self.tables[id(reduce)]
        chain = Chain(f, reduce.kind, reduce.value.dtype)
        if parts == 1:
            return [f.load(c.ty, at) for c, at in zip(chain.cells, table, strict=True)]
        chains = order.chains(self.nest.accumulate, parts)
        lane = self.lane_number()
        i = f.var(lane)
        with f.repeat(lambda: i.get().cmp("slt", parts) & lane.cmp("slt", chains)):
            now = i.get()
            chain.take([f.load(c.ty, f.gep(at, now.v, _stored(c.ty)))
                        for c, at in zip(chain.cells, table, strict=True)], None)
            i.set(now + chains)
        return self.folded(reduce, chain.values(), chains)


def _blocks(nest: Nest) -> int:
    """Blocks that do a nest."""
    return prod(v.extent for v in nest.rows) // max(nest.block, 1)


def row_lanes(nest: Nest) -> int:
    """Elements of a row that a thread computes at once: as many as 16 bytes of the smallest type
    have, where the last axis lies so in memory that whole vectors are written."""
    looped = [p for p in nest.phases if p.loops]
    lasts = {p.loops[-1] for p in looped}
    loads = [e for e in walk(list(nest.roots())) if e.op == "load"]
    stores = [s for p in looped for s in p.stores]

    def dense(access: Any) -> bool:
        by = [access.offset.coefficient(v) for v in lasts]
        return access.part is None and by.count(1) == 1 and by.count(0) == len(by) - 1

    if not all(map(dense, stores)):
        return 1
    sizes = [e.dtype.itemsize for e in loads if dense(e.payload)]
    sizes += [s.value.dtype.itemsize for s in stores]
    return lanes_for(sizes, [p.loops[-1].extent // nest.parts(p) for p in looped])


def _both(a: X | None, b: X | None) -> X | None:
    """Where both hold; None is everywhere."""
    return b if a is None else a if b is None else a & b


def _stored(ty: str) -> str:
    """Return the type of stored values (a flag takes a byte)."""
    return "i8" if ty == "i1" else ty
