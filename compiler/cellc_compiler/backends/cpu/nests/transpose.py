"""Nests that transpose: square tiles transposed in registers.

A nest without reductions whose lanes step through an operand with a stride would gather element
by element. Where that operand is contiguous along a row variable instead, the nest runs over
tiles of that variable and the lane variable: W vectors are loaded along the row variable,
transposed by log2(W) rounds of shuffles, and the nest's expression is then evaluated for W rows of
lanes. Values are moved and never changed, so the bits are those of the plain nest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.dims import estimate
from ....ir.types import prod
from ....loops.expr import Expr
from ....loops.index import Index, Var
from ....loops.nest import Nest, walk
from ....lower.kernel import Kernel
from ...llvm import scalar
from ...llvm.convert import memory_type
from ...llvm.expressions import Scope
from ...llvm.text import V, module, sizeof, transpose, vector
from .emitter import NestEmitter, emit_nest

TILES = 4  # Tiles of a task along both variables: whole cache lines of both sides stay together
LEAST = 4  # The smallest extent that fills a tile well enough


@dataclass(frozen=True, slots=True)
class Transposition:
    """The transposition of a nest: the row variable and the loads that are contiguous along it."""

    along: Var
    loads: tuple[Expr, ...]


def find_transposition(nest: Nest) -> Transposition | None:
    """The transposition in a nest, if it has one that tiles can do."""
    if nest.mode != "row" or len(nest.phases) != 1 or not nest.rows:
        return None
    (phase,) = nest.phases
    if phase.reduces or len(phase.loops) != 1 or estimate(phase.loops[0].extent) < LEAST:
        return None
    lane = phase.loops[0]
    table: dict[Var, list[Expr]] = {}
    for e in walk(list(nest.roots())):
        if e.op != "load" or e.args or e.payload.part is not None:
            continue
        offset: Index = e.payload.offset
        if not all(isinstance(atom, Var) for atom, _ in offset.terms):
            continue
        strides = dict(offset.terms)
        if strides.get(lane, 0) not in (0, 1):
            for v in nest.rows:
                if strides.get(v) == 1 and estimate(v.extent) >= LEAST:
                    table.setdefault(v, []).append(e)
    if not table:
        return None
    along = max(table, key=lambda v: len(table[v]))
    return Transposition(along, tuple(table[along]))


class TileEmitter(NestEmitter):
    """Writes the kernel of a nest that transposes."""

    def __init__(
        self, nest: Nest, target: Target, streamed: Collection[Any], transposition: Transposition
    ) -> None:
        super().__init__(nest, target, streamed)
        self.transposition = transposition
        (self.phase,) = nest.phases
        self.lane = self.phase.loops[0]
        self.others = [v for v in nest.rows if v != transposition.along]
        self.side = TILES * self.lanes
        self.halves = [self.lanes >> k for k in range(1, self.lanes.bit_length())]

    def kernel(self) -> Kernel:
        """One task is a block of tiles."""
        f = self.f
        self._collect()
        for i, b in enumerate(self.buffers):
            self.pointers[b] = f.load("ptr", f.gep(f.arg("bufs"), i, "ptr"))
        w = self.lanes
        self.tiles = [f.alloca(w * w * sizeof(memory_type(e.dtype)))
                      for e in self.transposition.loads]
        across = -(-self.lane.extent // self.side)
        down = -(-self.transposition.along.extent // self.side)
        ntasks = prod(v.extent for v in self.others) * down * across
        # Tiny blocks go together.
        per = max(1, int(estimate(ntasks) * 20_000.0 // max(estimate(self.cost), 1.0)))
        lo, hi = f.arg("lo") * per, f.arg("hi") * per
        hi = f.intrinsic("smin", "i64", hi, ntasks)

        def block(task: V, _: list[V]) -> None:
            part = task % across
            task = task // across
            row = task % down
            self._decode(task // down, self.others)
            self._block(row * self.side, part * self.side)

        f.loop(lo, hi, 1, [], block)
        f.ret_()
        extra = "!0 = !{i32 1}" if self.streams else ""
        return Kernel(module([f], extra), -(-ntasks // per), len(self.buffers), self.cost)

    def _block(self, t0: V, l0: V) -> None:
        """Tiles of the block: along the rows outside, so that stores run on."""
        f, w = self.f, self.lanes
        rows, lanes = self.transposition.along.extent, self.lane.extent
        t1 = f.intrinsic("smin", "i64", t0 + self.side, rows)
        l1 = f.intrinsic("smin", "i64", l0 + self.side, lanes)

        def outer(t: V, _: list[V]) -> None:
            def inner(lane: V, _: list[V]) -> None:
                if rows % w == 0 and lanes % w == 0:
                    self._tile(t, lane, None, None)
                    return
                left, wide = f.i64(rows) - t, f.i64(lanes) - lane
                whole = f.cmp("sge", left, w) & f.cmp("sge", wide, w)
                f.when(whole, lambda: self._tile(t, lane, None, None),
                       lambda: self._tile(t, lane, left, wide))

            f.loop(l0, l1, w, [], inner)

        f.loop(t0, t1, w, [], outer)

    def _tile(self, t: V, at: V, left: V | None, wide: V | None) -> None:
        """One tile at row `t` and lane `at`; `left` rows and `wide` lanes are there."""
        f, w = self.f, self.lanes
        for e, tile in zip(self.transposition.loads, self.tiles, strict=True):
            memory = memory_type(e.dtype)
            rows = self._rows(e, memory, t, at, left, wide)
            for j, v in enumerate(transpose(f, rows, self.halves)):
                f.store(v, f.gep(tile, j * w, memory), w * sizeof(memory))
        count = f.i64(w) if left is None else f.intrinsic("smin", "i64", left, w)
        mask = None if wide is None else f.tail_mask(wide, w)

        def row(j: V, _: list[V]) -> None:
            self.vars[self.transposition.along] = t + j
            scope = Scope(w, self.lane, at, mask)
            for e, tile in zip(self.transposition.loads, self.tiles, strict=True):
                memory = memory_type(e.dtype)
                raw = f.load(vector(memory, w), f.gep(tile, j * w, memory), w * sizeof(memory))
                scope.memo[id(e)] = scalar.from_memory(f, raw, e.dtype)
            self._run_stores(self.phase.stores, scope)

        f.loop(0, count, 1, [], row)

    def _rows(self, e: Expr, memory: str, t: V, at: V, left: V | None, wide: V | None) -> list[V]:
        """The vectors of a load along the row variable, one for each lane of the tile."""
        f, w = self.f, self.lanes
        ty = vector(memory, w)
        self.vars[self.transposition.along] = t
        stride = e.payload.offset.coefficient(self.lane)
        base = self._index(e.payload.offset, Scope(1, self.lane, at, None))
        out = []
        for i in range(w):
            p = f.gep(self.pointers[e.payload.buffer], base + stride * i, memory)
            if left is None or wide is None:
                out.append(f.load(ty, p))
                continue
            there = f.cmp("sgt", wide, i)
            mask = f.tail_mask(f.select(there, left, f.i64(0)), w)
            out.append(f.masked_load(ty, p, mask))
        return out


def emit(nest: Nest, target: Target, streamed: Collection[Any] = ()) -> tuple[Kernel, list[Any]]:
    """The kernel of any nest, and its buffers in the order of its `bufs` (see `emit_nest`)."""
    found = find_transposition(nest)
    if found is not None:
        emitter = TileEmitter(nest, target, streamed, found)
        if emitter.lanes > 1:
            return emitter.kernel(), emitter.buffers
    return emit_nest(nest, target, streamed)
