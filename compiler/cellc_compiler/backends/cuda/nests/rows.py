"""Nests of rows: by a thread or a warp each (`blocks.py`: by a block).

Elements are computed several at a time: first all that they need is loaded, then all is stored and
reduced, so that many loads are under way. Where the elements that a lane has of a row fit into its
registers they stay there: what an earlier phase has loaded or computed a later one has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.types import prod
from ....loops.expr import Expr
from ....loops.nest import Nest, Phase, Reduce, Scratch, walk
from ...llvm import reduction
from ...llvm.convert import memory_type, register_type
from ...llvm.expressions import Scope
from ...llvm.math.lanes import X
from ...llvm.text import V
from ...plain.writer import Var as Cell
from ..architecture import most_shared
from ..code import WARP
from ..writer import GpuFunction
from .kernel import WARPS, NestKernel

AT_ONCE = 4  # Elements whose operands are loaded before the first of them is used
MOST_RESIDENT = 32
"""Elements of a row that a lane may keep in registers, by the text that computes them."""
_MOST_TEXT = 1500  # Operations of a kernel whose rows stay in registers


class Chain:
    """One chain of a reduction, in variables."""

    def __init__(self, f: GpuFunction, kind: str, dtype: DType) -> None:
        self.f, self.kind, self.dtype = f, kind, dtype
        self.cells: list[Cell] = [f.var(X(f, v)) for v in identity(f, kind, dtype)]

    def values(self) -> list[V]:
        """Return the present values."""
        return [c.get().v for c in self.cells]

    def take(self, x: Sequence[V], guard: X | None) -> None:
        """An element (an extreme with its position), where the guard holds."""
        old = self.values()
        new = reduction.combine(self.f, self.kind, self.dtype, old, list(x)[: len(old)])
        for c, before, after in zip(self.cells, old, new, strict=True):
            kept = after if guard is None else self.f.select(guard.v, after, before)
            c.set(X(self.f, kept))


def identity(f: GpuFunction, kind: str, dtype: DType) -> list[V]:
    """Return the initial value of a reduction."""
    return reduction.identity(f, kind, register_type(dtype), dtype)


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a row that a lane computes: its number among the lane's, and its place."""

    number: int
    place: X


class Threads(NestKernel):
    """A row is a thread's."""

    stride = 1  # Elements from one of a lane's to its next
    resident = False  # Whether what a lane has of a row stays in registers

    def units(self) -> int:
        return prod(v.extent for v in self.nest.rows)

    def unit(self, number: V) -> None:
        self.begin(number)

    def begin(self, number: V) -> None:
        """A row, by its number."""
        self.place(self.nest.rows, number)
        self.scopes: dict[int, Scope] = {}
        self.kept: dict[tuple[Scratch, int], V] = {}
        row = Scope(1, None, None, None)
        for phase in self.nest.phases:
            self.phase(phase, row)

    def lane_number(self) -> X | None:
        """Which of the lanes that share a row this one is; None if it is alone."""
        return None

    def phase(self, phase: Phase, row: Scope) -> None:
        """All elements of a phase, and what they are reduced to."""
        held = self.sweep(phase, row)
        for r, chain in zip(phase.reduces, held, strict=True):
            self.result(r, self.folded(r, chain.values(), self.stride), row)

    def folded(self, reduce: Reduce, values: list[V], chains: int) -> list[V]:
        """The result of all chains."""
        return values

    def result(self, reduce: Reduce, values: list[V], row: Scope) -> None:
        """A value of the row: what was reduced, or its position."""
        value = values[-1]
        row.memo[id(reduce.result)] = value if len(values) == 1 else self.f.cast(
            "trunc", value, register_type(reduce.result.dtype))

    # --- elements -------------------------------------------------------------------------------

    def sweep(self, phase: Phase, row: Scope) -> list[Chain]:
        """The elements of a phase that are this lane's."""
        f, extent = self.f, phase.loops[-1].extent if phase.loops else 1
        held = [Chain(f, r.kind, r.value.dtype) for r in phase.reduces]
        outer = phase.loops[:-1]
        with f.each(*(v.extent for v in outer)) as at:
            self.vars.update((v, self.narrow(i.v)) for v, i in zip(outer, at, strict=True))
            for elements, guard in self.steps(extent):
                self.compute(phase, row, elements, guard, held)
        return held

    def steps(self, extent: int) -> Iterator[tuple[list[Element], X | None]]:
        """Elements of the last loop that are computed at once, and where they are there at all."""
        f, lane, stride = self.f, self.lane_number(), self.stride
        own = lane if lane is not None else f.i(0)
        guard = own.cmp("slt", stride) if stride < WARP and lane is not None else None
        full, rest = divmod(extent, stride)
        together = max(full, 1) if self.resident else AT_ONCE
        if full // together > 1:
            with f.each(full // together) as (k,):
                yield [Element(-1, own + (k * together + u) * stride) for u in range(together)], \
                    guard
        done = full // together * together if full // together > 1 else 0
        if done < full:
            yield [Element(t, own + t * stride) for t in range(done, full)], guard
        if rest:
            yield [Element(full, own + full * stride)], own.cmp("slt", rest)

    def compute(
        self, phase: Phase, row: Scope, elements: list[Element], guard: X | None, held: list[Chain]
    ) -> None:
        """Elements of a phase: operands first. Where they are not there nothing is done; but where
        rows stay in registers, which is known in every branch, an element that is there (the first
        of the row) is computed and not used."""
        if guard is not None and not self.resident:
            with self.f.given(guard):
                self.compute(phase, row, elements, None, held)
            return
        found = []
        for e in elements:
            place = e.place if guard is None else guard.where(e.place, 0)
            scope = self.scope_of(phase, row, e.number, place)
            values = [self._value(s.value, scope) for s in phase.stores]
            reduced = [self._value(r.value, scope) for r in phase.reduces]
            for s, v in zip(phase.stores, values, strict=True):
                if self.resident and isinstance(s.buffer, Scratch):
                    self.kept[s.buffer, e.number] = v
            found.append((e, values, reduced, [
                None if self.resident and isinstance(s.buffer, Scratch)
                else self.addresses(s, scope) for s in phase.stores]))
        for e, values, reduced, to in found:
            with self.where(guard):
                for s, v, at in zip(phase.stores, values, to, strict=True):
                    if at is not None:
                        self.store(s, v, at)
            for chain, x in zip(held, reduced, strict=True):
                chain.take([x, e.place.v], guard)

    @contextmanager
    def where(self, guard: X | None) -> Iterator[None]:
        """Under a guard, if there is one."""
        if guard is None:
            yield
        else:
            with self.f.given(guard):
                yield

    def scope_of(self, phase: Phase, row: Scope, number: int, place: X) -> Scope:
        """Where the expressions of an element are computed: in a scope that later phases have too,
        if rows stay in registers."""
        self.number = number
        if phase.loops:
            self.vars[phase.loops[-1]] = self.narrow(place.v)
        if not self.resident or not phase.loops:
            return Scope(1, None, None, None, row)
        return self.scopes.setdefault(number, Scope(1, None, None, None, row))

    def _load(self, e: Expr, scope: Scope) -> V:
        if self.resident and isinstance(e.payload.buffer, Scratch):
            return self.kept[e.payload.buffer, self.number]
        return super()._load(e, scope)


def stride_of(nest: Nest) -> int:
    """Lanes of a warp that share a row."""
    return min((nest.chains(p) for p in nest.phases if p.loops and p.reduces), default=WARP)


def is_resident(nest: Nest) -> bool:
    """Whether the elements that a lane has of a row stay in its registers, as they fit."""
    looped = [p for p in nest.phases if p.loops]
    if len(looped) < 2 or len({p.loops for p in looped}) > 1 or len(looped[0].loops) != 1:
        return False
    each = -(-looped[0].loops[0].extent // stride_of(nest))
    text = sum(1 for _ in walk(list(nest.roots())))
    return each <= MOST_RESIDENT and each * text <= _MOST_TEXT


def scratches(nest: Nest) -> list[Scratch]:
    """Return the values of a row that phases keep for later ones."""
    return list(dict.fromkeys(s.buffer for p in nest.phases for s in p.stores
                              if isinstance(s.buffer, Scratch)))


def bytes_kept(buffer: Scratch) -> int:
    """Bytes that it takes of shared memory."""
    return -(-buffer.elements * buffer.dtype.itemsize // 16) * 16


class Warps(Threads):
    """A row, or a block of rows, is a warp's."""

    def __init__(self, nest: Nest, target: Target, buffers: Sequence[Any], lanes: int) -> None:
        super().__init__(nest, target, buffers, lanes)
        self.arrange()

    def threads_for(self, nest: Nest, target: Target) -> int:
        warps, nbytes = WARPS, sum(map(bytes_kept, scratches(nest)))
        while warps > 1 and warps * nbytes > most_shared(target):
            warps //= 2
        return warps * WARP

    def arrange(self) -> None:
        """Choose the lanes that share a row, and whether it stays in registers."""
        self.stride, self.resident = stride_of(self.nest), is_resident(self.nest)

    def units(self) -> int:
        return super().units() // max(self.nest.block, 1) * WARP

    def unit(self, number: V) -> None:
        f = self.f
        self.lane = number & WARP - 1
        first = number >> 5
        if not self.resident:
            self.scratch()
        if not self.nest.block:
            self.begin(first)
            return
        base = first * self.nest.block
        with f.each(self.nest.block) as (i,):
            self.place(self.nest.rows, base + f.cast("trunc", i.v, "i32"))
            with f.given(i.cmp("eq", 0)):
                for phase in self.nest.phases:
                    self.clear(phase)
            self.begin(base + f.cast("trunc", i.v, "i32"))

    def lane_number(self) -> X:
        return X(self.f, self.f.cast("zext", self.lane, "i64"))

    def scratch(self) -> None:
        """Room for what a row keeps, in shared memory; a lane reads what it has written."""
        for b in scratches(self.nest):
            self.pointers[b] = self.scratch_of(b)

    def scratch_of(self, buffer: Scratch) -> V:
        """A part for each warp of the block."""
        f = self.f
        nbytes = bytes_kept(buffer)
        warp = f.thread() >> 5
        memory = f.shared_memory(nbytes * (self.threads // WARP))
        return f.gep(memory, warp * nbytes)

    def clear(self, phase: Phase) -> None:
        """Zeros for the sums of a block, by the lanes that add to them."""
        adding = Phase(phase.loops, [s for s in phase.stores if s.adds])
        if not adding.stores:
            return
        outer = phase.loops[:-1]
        with self.f.each(*(v.extent for v in outer)) as at:
            self.vars.update((v, self.narrow(i.v)) for v, i in zip(outer, at, strict=True))
            for elements, guard in self.steps(phase.loops[-1].extent):
                with self.where(guard):
                    for e in elements:
                        self.vars[phase.loops[-1]] = self.narrow(e.place.v)
                        for s in adding.stores:
                            at_ = self.addresses(s, Scope(1, None, None, None))
                            self.f.store(self.f.zero(memory_type(s.value.dtype)), at_[0])

    def phase(self, phase: Phase, row: Scope) -> None:
        if phase.loops:
            super().phase(phase, row)
        else:
            self.once(phase, row)

    def once(self, phase: Phase, row: Scope) -> None:
        """Compute the values of a row that are the same in all lanes; one lane stores them."""
        scope = Scope(1, None, None, None, row)
        values = [self._value(s.value, row) for s in phase.stores]
        to = [self.addresses(s, scope) for s in phase.stores]
        with self.f.given(self.is_first()):
            for s, v, at in zip(phase.stores, values, to, strict=True):
                self.store(s, v, at)

    def is_first(self) -> X:
        """Whether this is the first of the threads that share a row."""
        return X(self.f, self.lane).cmp("eq", 0)

    def folded(self, reduce: Reduce, values: list[V], chains: int) -> list[V]:
        """The result of lanes that are chains, in all lanes."""
        f, half = self.f, chains // 2
        while half:
            other = self.lane ^ half
            theirs = [f.from_lane(v, other) for v in values]
            values = reduction.combine(f, reduce.kind, reduce.value.dtype, values, theirs)
            half //= 2
        return [f.from_lane(v, V("i32", "0")) for v in values]
