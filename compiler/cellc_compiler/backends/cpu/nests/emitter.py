"""Loop nests to LLVM: vector loops with masked tails, reductions in a fixed order.

A reduction in mode `row` has as many accumulators of W lanes as hold its chains (`Nest.chains`):
element j of the last loop goes to lane j % W of accumulator (j // W) % U. They are folded by
halves, then the lanes are. In mode `column` each element is one chain over the reduced space.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, chain
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.dims import estimate, is_symbolic, surely_at_least
from ....ir.types import prod
from ....loops.expr import Expr, const
from ....loops.index import Index, Var, leaves
from ....loops.nest import Nest, Phase, Reduce, Scratch, Store, children, depends_on, walk
from ....loops.order import accumulators, most_chains
from ....lower.kernel import Kernel
from ...llvm import reduction, scalar
from ...llvm.convert import memory_type, register_type
from ...llvm.expressions import ExpressionEmitter, Scope
from ...llvm.text import (
    Function,
    V,
    element,
    kernel_function,
    lanes_of,
    module,
    sizeof,
    suffix,
    vector,
)

GRAIN_CYCLES = 30_000.0  # Work a task should have so that handing it out costs little
AHEAD_ROWS = 24  # Trips by which a strip's operands are requested before they are read
FAR_BYTES = 2048
FETCHED_BYTES = 1 << 21  # The hardware's own prefetching or the caches serve nearer or smaller data
LINE = 64
LEAST_STRIPS = 8  # Strips that a nest should have: they are its tasks


@dataclass(frozen=True, slots=True)
class Split:
    """How the work of a nest is cut into tasks."""

    rows: int
    rows_per_task: int
    chunk: int  # inner elements per task, 0 if the inner loop is not cut
    chunks: int

    @property
    def ntasks(self) -> int:
        """Number of tasks."""
        if self.chunk:
            return self.rows * self.chunks
        return -(-self.rows // self.rows_per_task)


class NestEmitter(ExpressionEmitter):
    """Writes the kernel of one nest: how rows, phases and lanes follow one another."""

    def __init__(self, nest: Nest, target: Target, streamed: Collection[Any] = ()) -> None:
        super().__init__(kernel_function(target)[0], target)
        self.nest = nest
        self.streamed = streamed
        self.buffers: list[Any] = []
        self.dependence: dict[int, frozenset[Var]] = {}
        self.streams = False
        self.lanes = self._lanes()
        self.split = self._split()

    # --- shape of the kernel --------------------------------------------------------------------

    def _lanes(self) -> int:
        nest = self.nest
        if any(p.reduces for p in nest.phases):
            lanes = self.target.lanes(nest.accumulate)
            if nest.mode == "column" and nest.rows and estimate(nest.rows[-1].extent) >= 4 * lanes:
                return self._strip(lanes)
            return lanes
        found = list(walk(list(nest.roots())))
        # Numbers that positions are compared with are wider than elements: where these are alike
        # in all lanes, they fill no vectors.
        inner = {v for p in nest.phases for v in p.loops[-1:]}
        varies = any(e.op == "index" and not inner.isdisjoint(leaves(e.payload)) for e in found)
        none = ("index",) if varies else ("index", "const")
        size = max((e.dtype.itemsize for e in found
                    if e.op not in none and not e.dtype.is_complex), default=4)
        return self.target.lanes(min(max(size, 4), 8))

    def _strip(self, lanes: int) -> int:
        """Columns of a strip. Each is a chain of its own, so their number changes no bit; long
        runs of rows that lie far apart are read faster, where that leaves strips enough."""
        nest = self.nest
        if self.cycles() >= 8:
            return 2 * lanes
        extent, reduces = estimate(nest.rows[-1].extent), sum(len(p.reduces) for p in nest.phases)
        reduced = max(estimate(prod(v.extent for v in p.loops)) for p in nest.phases)
        far = extent * 4 >= FAR_BYTES and extent * reduced * 4 >= FETCHED_BYTES
        wide = far and extent >= LEAST_STRIPS * 8 * lanes \
            and 8 * reduces <= self.target.vector_registers // 2
        return 8 * lanes if wide else 4 * lanes

    def cycles(self) -> float:
        """Estimated cycles per element."""
        seen = {id(e): e for e in walk(list(self.nest.roots()))}
        return sum(scalar.cycles(e) for e in seen.values()) * 16 / self.target.lanes(4) / 8

    def _split(self) -> Split:
        nest = self.nest
        inner = sum(prod(v.extent for v in p.loops) for p in nest.phases) or 1
        rows = prod(v.extent for v in nest.rows)
        if nest.mode == "column":
            rows = rows // max(nest.rows[-1].extent, 1) * -(-nest.rows[-1].extent // self.lanes)
            inner *= self.lanes
        cycles = self.cycles() / max(len(nest.phases), 1)
        per_row = max(estimate(inner) * cycles, 1.0) * len(nest.phases)
        self.cost = per_row * rows
        if is_symbolic(rows) or is_symbolic(inner):  # (a number that is known when the code runs)
            self.cost = inner * rows * (per_row / max(estimate(inner), 1))
        cuttable = len(nest.phases) == 1 and not nest.phases[0].reduces and nest.mode == "row" \
            and len(nest.phases[0].loops) == 1
        if cuttable and is_symbolic(inner) and not nest.rows:
            step = self.lanes * 4
            chunk = max(int(GRAIN_CYCLES / max(cycles, 0.1)) // step, 1) * step
            return Split(1, 1, chunk, -(-inner // chunk))
        if is_symbolic(rows):
            per, block = max(1, int(GRAIN_CYCLES // per_row)), max(nest.block, 1)
            return Split(rows, -(-per // block) * block, 0, 1)
        if cuttable and not is_symbolic(inner) and per_row > 2 * GRAIN_CYCLES:
            chunks = max(1, int(per_row // GRAIN_CYCLES))
            step = self.lanes * 4
            chunk = -(-inner // chunks)
            chunk = -(-chunk // step) * step
            return Split(rows, 1, chunk, -(-inner // chunk))
        tasks = -(-rows // max(1, int(GRAIN_CYCLES // per_row)))
        tasks += tasks > 1 and tasks % 2  # few tasks, of one size: two threads end together
        per, block = max(1, -(-rows // max(tasks, 1))), max(nest.block, 1)
        return Split(rows, -(-per // block) * block, 0, 1)

    def kernel(self) -> Kernel:
        """The finished kernel; `buffers` holds its buffers in order."""
        f = self.f
        self._collect()
        for i, b in enumerate(self.buffers):
            self.pointers[b] = f.load("ptr", f.gep(f.arg("bufs"), i, "ptr"))
        if self.split.chunk:
            f.loop(f.arg("lo"), f.arg("hi"), 1, [], self._chunk_task)
        else:
            per = self.split.rows_per_task
            lo = f.arg("lo") * per
            hi = f.arg("hi") * per
            if self.split.rows % per:
                hi = f.intrinsic("smin", "i64", hi, self.split.rows)
            block = self.nest.block
            f.loop(lo, hi, block or 1, [], self._rows_of_block if block else self._row)
        f.ret_()
        extra = "!0 = !{i32 1}" if self.streams else ""
        return Kernel(module([f], extra), self.split.ntasks, len(self.buffers), self.cost)

    def _collect(self) -> None:
        """Number the buffers by first use, so that equal nests give equal text."""
        table: dict[Any, None] = {}
        for phase in self.nest.phases:
            roots = [s.value for s in phase.stores] + [r.value for r in phase.reduces]
            for e in walk(roots):
                if e.op == "load":
                    table.setdefault(e.payload.buffer)
            for s in phase.stores:
                table.setdefault(s.buffer)
        for b in table:
            if isinstance(b, Scratch):
                self.pointers[b] = self.f.alloca(b.elements * b.dtype.itemsize)
            else:
                self.buffers.append(b)

    # --- rows -----------------------------------------------------------------------------------

    def _row(self, row: V, _: list[V]) -> None:
        scope = self._row_scope(row)
        for phase in self.nest.phases:
            self._phase(phase, scope, None)

    def _rows_of_block(self, first: V, _: list[V]) -> None:
        """A block of rows: its sums begin with zeros."""
        f, scope = self.f, self._row_scope(first)
        for phase in self.nest.phases:
            zeros = [Store(s.buffer, s.offset, const(0, s.value.dtype))
                     for s in phase.stores if s.adds]
            if zeros:
                self._phase(Phase(phase.loops, zeros), scope, None)
        f.loop(first, first + self.nest.block, 1, [], self._row, runs=True)

    def _chunk_task(self, task: V, _: list[V]) -> None:
        f = self.f
        chunks, chunk = self.split.chunks, self.split.chunk
        row, part = task, f.i64(0)
        if chunks != 1:
            row = task // chunks
            part = task % chunks
        scope = self._row_scope(row)
        (phase,) = self.nest.phases
        lo = part * chunk
        end = f.i64(phase.loops[0].extent)
        hi = f.intrinsic("smin", "i64", lo + chunk, end)
        self._phase(phase, scope, (lo, hi))

    def _row_scope(self, row: V) -> Scope:
        """Decode the row variables; in mode `column` the lanes are a strip of the last one."""
        f, rows = self.f, list(self.nest.rows)
        if self.nest.mode != "column":
            self._decode(row, rows)
            return Scope(1, None, None, None)
        lane = rows.pop()
        strips = -(-lane.extent // self.lanes)
        strip = row
        if rows:
            strip = row % strips if strips != 1 else f.i64(0)
            self._decode(row // strips if strips != 1 else row, rows)
        base = strip * self.lanes
        mask = None
        if lane.extent % self.lanes:
            mask = f.tail_mask(f.i64(lane.extent) - base, self.lanes)
        return Scope(self.lanes, lane, base, mask)

    def _decode(self, row: V, rows: Sequence[Var]) -> None:
        for v in reversed(rows[1:]):
            self.vars[v] = row % v.extent
            row = row // v.extent
        if rows:
            self.vars[rows[0]] = row

    # --- phases ---------------------------------------------------------------------------------

    def _phase(self, phase: Phase, row: Scope, bounds: tuple[V, V] | None) -> None:
        if not phase.loops:
            self._run_stores(phase.stores, row)
            return
        self._hoist(phase, row)
        parts = self.nest.parts(phase)
        if parts > 1:
            self._by_parts(phase, row, parts)
            return
        column = self.nest.mode == "column"
        outer = phase.loops if column else phase.loops[:-1]

        def totals(unroll: int) -> list[list[V]]:
            accs = self._loops(phase, outer, row, self._identities(phase, unroll), unroll, bounds)
            return [self._total(r, a) for r, a in self._own(phase, accs, unroll)]

        itemsize, extent = self.nest.accumulate, phase.loops[-1].extent
        if not phase.reduces or column:
            self._finish(phase, row, totals(1))
        elif type(extent) is int or surely_at_least(extent, most_chains(itemsize)):
            least = extent if type(extent) is int else most_chains(itemsize)
            self._finish(phase, row, totals(accumulators(itemsize, least, self.lanes)))
        else:
            self._finish(phase, row, self._short_or_long(phase, extent, totals))

    def _short_or_long(
        self, phase: Phase, extent: int, totals: Callable[[int], list[list[V]]]
    ) -> list[list[V]]:
        """The results of a phase whose extent decides, when the code runs, how many chains there
        are."""
        f, most = self.f, most_chains(self.nest.accumulate)
        long, short = (max(1, chains // self.lanes) for chains in (most, most // 2))
        if long == short:
            return totals(long)
        flat = f.when(f.cmp("sge", f.i64(extent), f.i64(most)),
                      lambda: list(chain.from_iterable(totals(long))),
                      lambda: list(chain.from_iterable(totals(short))))
        widths = [reduction.width(r.kind) for r in phase.reduces]
        ends = list(accumulate(widths))
        return [flat[end - width : end] for end, width in zip(ends, widths, strict=True)]

    def _identities(self, phase: Phase, unroll: int) -> list[V]:
        """The accumulators of a phase before its first element."""
        return [v for r in phase.reduces for v in self._identity(r) * unroll]

    def _identity(self, r: Reduce) -> list[V]:
        ty = vector(register_type(r.value.dtype), self.lanes)
        return reduction.identity(self.f, r.kind, ty, r.value.dtype)

    def _by_parts(self, phase: Phase, row: Scope, parts: int) -> None:
        """Long rows: the results of parts go to the stack, and are reduced as a row."""
        f, w = self.f, self.lanes
        size = phase.loops[0].extent // parts
        unroll = accumulators(self.nest.accumulate, size, w)
        tables = [[f.alloca(parts * 8) for _ in range(reduction.width(r.kind))]
                  for r in phase.reduces]

        def part(p: V, _: list[V]) -> None:
            begin = p * size
            accs = self._lanes_of(phase, row, self._identities(phase, unroll), unroll, begin, size)
            for (r, own), table in zip(self._own(phase, accs, unroll), tables, strict=True):
                for v, at in zip(self._total(r, own), table, strict=True):
                    f.store(v, f.gep(at, p, v.ty))

        f.loop(0, parts, 1, [], part)
        totals = [
            reduction.row_of_parts(f, r.kind, r.value.dtype, table, parts, self._identity(r))
            for r, table in zip(phase.reduces, tables, strict=True)]
        self._finish(phase, row, totals)

    def _own(
        self, phase: Phase, accs: Sequence[V], unroll: int
    ) -> list[tuple[Reduce, list[list[V]]]]:
        """The accumulators of each reduction of a phase."""
        out, slot = [], 0
        for r in phase.reduces:
            width = reduction.width(r.kind)
            out.append((r, [list(accs[slot + u * width : slot + (u + 1) * width])
                            for u in range(unroll)]))
            slot += width * unroll
        return out

    def _total(self, r: Reduce, accs: Sequence[list[V]]) -> list[V]:
        """Return the total of a reduction's accumulators; in mode `column` each lane on its own."""
        if self.nest.mode == "column":
            return accs[0]
        return reduction.fold(self.f, r.kind, r.value.dtype, accs)

    def _loops(
        self, phase: Phase, outer: Sequence[Var], row: Scope, accs: list[V], unroll: int,
        bounds: tuple[V, V] | None,
    ) -> list[V]:
        column = self.nest.mode == "column"
        if outer:
            var = outer[0]

            def body(i: V, carried: list[V]) -> list[V]:
                self.vars[var] = i
                if column and len(outer) == 1:
                    self._fetch_ahead(phase, var, row)
                return self._loops(phase, outer[1:], row, carried, unroll, bounds)

            return self.f.loop(0, var.extent, 1, accs, body)
        if column:
            scope = Scope(row.lanes, row.lane, row.base, row.mask, row)
            return self._step(phase, scope, accs, 0, 1)
        return self._lane_loop(phase, row, accs, unroll, bounds)

    def _fetch_ahead(self, phase: Phase, var: Var, row: Scope) -> None:
        """Ask for what the strip reads some trips later: its runs are short and far apart, so the
        hardware does not see them coming."""
        f = self.f
        done: set[tuple[Any, Index]] = set()
        for e in walk([r.value for r in phase.reduces]):
            if e.op != "load" or e.payload.part is not None or e.args:
                continue
            offset, size = e.payload.offset, sizeof(memory_type(e.dtype))
            step = offset.coefficient(var)
            far = step is not None and estimate(step * size) >= FAR_BYTES \
                and estimate(step * size * var.extent) >= FETCHED_BYTES
            if step is None or not far or row.lane is None or offset.coefficient(row.lane) != 1 \
                    or (e.payload.buffer, offset) in done:
                continue
            done.add((e.payload.buffer, offset))
            memory = memory_type(e.dtype)
            at = f.gep(self.pointers[e.payload.buffer], self._index(offset, row), memory)
            for line in range(-(-row.lanes * size // LINE)):
                f.prefetch(f.gep(at, AHEAD_ROWS * step * size + line * LINE))

    def _lane_loop(
        self, phase: Phase, row: Scope, accs: list[V], unroll: int, bounds: tuple[V, V] | None
    ) -> list[V]:
        lane = phase.loops[-1]
        if bounds is not None:
            return self._bounded_loop(phase, row, bounds, lane.extent % self.lanes == 0)
        return self._lanes_of(phase, row, accs, unroll, 0, lane.extent)

    def _lanes_of(
        self, phase: Phase, row: Scope, accs: list[V], unroll: int, begin: V | int, extent: int
    ) -> list[V]:
        """`extent` elements of the lane loop, from `begin` on."""
        f, lane, w = self.f, phase.loops[-1], self.lanes
        block = w * unroll
        full = extent // block * block

        def body(base: V, carried: list[V]) -> list[V]:
            for u in range(unroll):
                at = base + u * w
                carried = self._step(phase, Scope(w, lane, at, None, row), carried, u, unroll)
            return carried

        # Tested first: the constants of polynomials then leave registers to what is computed.
        end = begin + full
        accs = f.loop(begin, end, block, accs, body, runs=False)
        if is_symbolic(extent):
            return self._open_tail(phase, row, accs, unroll, begin, full, extent)
        for u, start in enumerate(range(full, extent, w)):
            left = extent - start
            mask = f.tail_mask(f.i64(left), w) if left < w else None
            at = f.i64(begin + start) if isinstance(begin, int) else begin + start
            accs = self._step(phase, Scope(w, lane, at, mask, row), accs, u, unroll)
        return accs

    def _open_tail(
        self, phase: Phase, row: Scope, accs: list[V], unroll: int, begin: V | int, full: int,
        extent: int,
    ) -> list[V]:
        """The last elements of a loop whose extent is known when the code runs."""
        f, lane, w = self.f, phase.loops[-1], self.lanes
        for u in range(unroll):
            left = f.i64(extent - full - u * w)
            at = f.i64(full + u * w)
            at = at if type(begin) is int and begin == 0 else (f.i64(begin)
                if isinstance(begin, int) else begin) + at

            def step(u: int = u, at: V = at, left: V = left, accs: list[V] = accs) -> list[V]:
                mask = f.tail_mask(left, w)
                return self._step(phase, Scope(w, lane, at, mask, row), accs, u, unroll)

            def same(accs: list[V] = accs) -> list[V]:
                return accs

            accs = f.when(f.cmp("sgt", left, 0), step, same)
        return accs

    def _bounded_loop(self, phase: Phase, row: Scope, bounds: tuple[V, V], whole: bool) -> list[V]:
        """The lane loop of one chunk of a nest without reductions: vectors, and what is left under
        a mask, unless they are known to be `whole`."""
        f, lane, w = self.f, phase.loops[-1], self.lanes
        lo, hi = bounds

        def step(base: V, mask: V | None) -> None:
            self._step(phase, Scope(w, lane, base, mask, row), [], 0, 1)

        if whole:
            return f.loop(lo, hi, w, [], lambda base, _: step(base, None))
        full = hi - (hi - lo) % w
        f.loop(lo, full, w, [], lambda base, _: step(base, None))
        f.when(f.cmp("slt", full, hi), lambda: step(full, f.tail_mask(hi - full, w)))
        return []

    def _step(self, phase: Phase, scope: Scope, accs: list[V], u: int, unroll: int) -> list[V]:
        """One vector of the inner space: evaluate, store, accumulate."""
        accs = list(accs)
        slot = 0
        for r in phase.reduces:
            width = reduction.width(r.kind)
            at = slot + u * width
            x = self._wide(r.value, scope)
            new = reduction.combine(
                self.f, r.kind, r.value.dtype, accs[at : at + width],
                self._reduced(r, x, phase, scope),
            )
            if scope.mask is not None and self.nest.mode == "row":
                new = [self.f.select(scope.mask, n, o)
                       for n, o in zip(new, accs[at : at + width], strict=True)]
            accs[at : at + width] = new
            slot += width * unroll
        self._run_stores(phase.stores, scope)
        return accs

    def _reduced(self, r: Reduce, x: V, phase: Phase, scope: Scope) -> list[V]:
        if reduction.width(r.kind) == 1:
            return [x]
        position = Index.of(phase.loops[-1])
        if scope.lane is phase.loops[-1]:
            return [x, self._index_vector(position, scope, "i64")]
        return [x, self.f.splat(self._index(position, scope), scope.lanes)]

    def _finish(self, phase: Phase, row: Scope, totals: Sequence[list[V]]) -> None:
        for r, (*_, v) in zip(phase.reduces, totals, strict=True):
            if reduction.width(r.kind) == 2:
                v = self.f.cast("trunc", v, element(register_type(r.result.dtype)))
            row.memo[id(r.result)] = v

    def _run_stores(self, stores: Sequence[Store], scope: Scope) -> None:
        """Evaluate everything, then write: a nest may update a buffer in place."""
        values = [self._value(s.value, scope) for s in stores]
        for s, v in zip(stores, values, strict=True):
            self._store(s, v, scope)

    # --- invariants -----------------------------------------------------------------------------

    def _hoist(self, phase: Phase, row: Scope) -> None:
        """Evaluate before the loops what does not change in them."""
        loops = set(phase.loops)
        roots = [s.value for s in phase.stores] + [r.value for r in phase.reduces]
        for e in walk(roots):
            if not depends_on(e, self.dependence) & loops:
                continue
            for child in children(e):
                if child.op != "const" and not depends_on(child, self.dependence) & loops:
                    self._hoist_one(child, e, row)
        for e in roots:
            if e.op != "const" and not depends_on(e, self.dependence) & loops:
                self._hoist_one(e, None, row)

    def _hoist_one(self, e: Expr, user: Expr | None, row: Scope) -> None:
        if user is not None and user.op == "load" and user.args and e is user.args[0]:
            return  # a mask guards memory: keep it with its load
        v = self._value(e, row)
        if self.nest.mode == "row" and lanes_of(v.ty) == 1:
            row.wide.setdefault((id(e), self.lanes), self.f.splat(v, self.lanes))

    # --- memory ---------------------------------------------------------------------------------

    def _store(self, s: Store, v: V, scope: Scope) -> None:
        f, n = self.f, scope.lanes
        offset = s.offset if s.part is None else s.offset * 2 + s.part
        pointer = self.pointers[s.buffer]
        dtype = s.value.dtype
        memory = memory_type(dtype)
        if scope.lane is None:
            p = f.gep(pointer, self._index(offset, scope), memory)
            f.store(scalar.to_memory(f, v, dtype), p)
            return
        wide = v if lanes_of(v.ty) == n else f.splat(v, n)
        raw = scalar.to_memory(f, wide, dtype)
        if offset.coefficient(scope.lane) == 1:
            p = f.gep(pointer, self._index(offset, scope), memory)
            if s.adds:
                old = f.masked_load(raw.ty, p, scope.mask)
                (raw,) = reduction.combine(f, "sum", dtype, [old], [raw])
            if scope.mask is None:
                self._store_vector(s, raw, p, scope)
            else:
                f.masked_store(raw, p, scope.mask)
            return
        full = scope.mask if scope.mask is not None else V(vector("i1", n), "splat (i1 true)")
        scatter(f, raw, self._pointers(pointer, offset, scope, memory), full)


    def _store_vector(self, s: Store, raw: V, p: V, scope: Scope) -> None:
        """A whole vector; past the caches if the buffer is streamed and the place is aligned."""
        nbytes = sizeof(element(raw.ty)) * scope.lanes
        aligned = s.buffer in self.streamed and (nbytes in (16, 32) or nbytes % 64 == 0) \
            and s.offset.const % scope.lanes == 0 and all(
                isinstance(atom, Var) and (atom == scope.lane or c % scope.lanes == 0)
                for atom, c in s.offset.terms)
        if aligned:
            self.f.store(raw, p, min(nbytes, 64), ", !nontemporal !0")
            self.streams = True
        else:
            self.f.store(raw, p)


def scatter(f: Function, value: V, pointers: V, mask: V) -> None:
    """Store each lane to its own address where the mask is set."""
    ty = value.ty
    name = f"llvm.masked.scatter.{suffix(ty)}.v{lanes_of(ty)}p0"
    f.declares.add(f"declare void @{name}({ty}, {pointers.ty}, i32 immarg, {mask.ty})")
    align = sizeof(element(ty))
    f.line(f"call void @{name}({value}, {pointers}, i32 {align}, {mask})")


def emit_nest(
    nest: Nest, target: Target, streamed: Collection[Any] = ()
) -> tuple[Kernel, list[Any]]:
    """The kernel of a nest and its buffers (values) in the order of its `bufs`.

    Buffers in `streamed` begin at a multiple of 64 bytes and are written past the caches.
    """
    emitter = NestEmitter(nest, target, streamed)
    return emitter.kernel(), emitter.buffers



def rows_function(nest: Nest, target: Target, name: str) -> tuple[Function, list[Any], float]:
    """A nest of mode `row` as an internal function `void name(ptr bufs, i64 lo, i64 hi)` of rows,
    for kernels that compute its rows beside others; its buffers in the order of `bufs`, and the
    estimated cycles of all rows."""
    emitter = NestEmitter(nest, target)
    emitter.split = Split(emitter.split.rows, 1, 0, 1)
    emitter.f.name, emitter.f.linkage = name, "internal"
    emitter.kernel()
    return emitter.f, emitter.buffers, emitter.cost
