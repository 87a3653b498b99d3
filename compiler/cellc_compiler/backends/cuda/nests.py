"""Loop nests on a GPU: what a thread, a warp or a block does of them.

- *Elements*: nothing is reduced. A thread does one vector of up to 16 bytes of the last axis, or
  one element where that does not lie so.
- *Threads*: a row is a thread's. Where the last axis is kept (mode `column`) threads beside one
  another read elements beside one another; an element is one chain either way.
- *Warps*: a row (or a block of rows whose sums are added to) is a warp's. Lane i is chain i of the
  table (`loops/order.py`), so the halves that are folded are lanes that exchange what they have.
- *Blocks*: a row in parts. Warps do them in turn; what they gave lies in shared memory, and each
  warp reduces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...ir.types import prod
from ...loops import order
from ...loops.expr import Expr
from ...loops.index import Dyn, Index, Quot, Rem, Var
from ...loops.nest import Nest, Phase, Scratch, Store, walk
from ..llvm import reduction, scalar
from ..llvm.convert import memory_type, register_type
from ..llvm.expressions import ExpressionEmitter, Scope, _has_vector_dyn
from ..llvm.math.lanes import X
from ..llvm.text import V, lanes_of, sizeof, vector
from ..plain.writer import Var as Cell
from .code import WARP, KernelCode
from .writer import GpuFunction

WARPS = 4
"""Warps of a block that do rows of their own."""
ROW_WARPS = 16
"""Warps of a block that do one row."""
VECTOR_BYTES = 16
SMALL = 1 << 31


def emit(nest: Nest, target: Target) -> tuple[KernelCode, list[Any]]:
    """The kernel of a nest, and its values in the order of the buffers."""
    buffers = buffers_of(nest)
    lanes = _vector_lanes(nest)
    code = _kind(nest, lanes)(nest, target, buffers, lanes).kernel()
    if lanes > 1:
        plain = _Elements(nest, target, buffers, 1).kernel()
        code = KernelCode(code.text, code.blocks, code.threads, code.shared, code.meets,
                          VECTOR_BYTES, plain)
    return code, buffers


def buffers_of(nest: Nest) -> list[Any]:
    """The values that a nest loads and stores."""
    loads = [e.payload.buffer for e in walk(list(nest.roots())) if e.op == "load"]
    found = dict.fromkeys([*loads, *(s.buffer for p in nest.phases for s in p.stores)])
    return [b for b in found if not isinstance(b, Scratch)]


def _kind(nest: Nest, lanes: int) -> type[_NestKernel]:
    if any(nest.parts(p) > 1 for p in nest.phases):
        return _Blocks
    if is_flat(nest):
        return _Elements
    one_each = nest.mode == "column" or not any(p.loops for p in nest.phases)
    return _Threads if one_each and not nest.block else _Warps


def is_flat(nest: Nest) -> bool:
    """Whether all phases run over one space and nothing is reduced."""
    return not nest.block and len({p.loops for p in nest.phases}) == 1 and not any(
        p.reduces for p in nest.phases) and not any(
        isinstance(s.buffer, Scratch) for p in nest.phases for s in p.stores)


def space_of(nest: Nest) -> tuple[Var, ...]:
    """The variables of a flat nest."""
    return (*nest.rows, *nest.phases[0].loops)


def _vector_lanes(nest: Nest) -> int:
    """Elements that a thread does: as many as 16 bytes of the smallest type have, where the last
    axis lies so in memory that whole vectors are read and written."""
    if not is_flat(nest) or not space_of(nest):
        return 1
    last = space_of(nest)[-1]
    accesses = [(e.dtype, e.payload.offset, e.payload.part) for e in walk(list(nest.roots()))
                if e.op == "load"]
    stores = [(s.value.dtype, s.offset, s.part) for p in nest.phases for s in p.stores]
    whole = [d.itemsize for d, offset, part in stores
             if part is None and offset.coefficient(last) == 1]
    if len(whole) < len(stores):
        return 1
    sizes = [*whole, *(d.itemsize for d, offset, part in accesses
                       if part is None and offset.coefficient(last) == 1)]
    lanes = min(VECTOR_BYTES // min(sizes), 8)
    while lanes > 1 and last.extent % lanes:
        lanes //= 2
    return lanes


class NestWriter(ExpressionEmitter):
    """Writes elements of a nest into a kernel.

    Args:
        f: the kernel.
        nest: whose elements.
        target: for which architecture.
        buffers: values, in the order of the kernel's pointers from `first` on.
    """

    f: GpuFunction

    def __init__(
        self, f: GpuFunction, nest: Nest, target: Target, buffers: Sequence[Any], first: int = 0
    ) -> None:
        super().__init__(f, target)
        self.nest = nest
        self.pointers.update((b, f.pointer(first + i)) for i, b in enumerate(buffers))
        self.index = "i32" if _is_small(nest) else "i64"

    # --- loops ----------------------------------------------------------------------------------

    def place(self, variables: Sequence[Var], number: V) -> None:
        """Variables at a number of their space."""
        values = self.f.split(number, [v.extent for v in variables])
        self.vars.update((v, self._wide_index(i)) for v, i in zip(variables, values, strict=True))

    def _wide_index(self, i: V) -> V:
        return i if i.ty == self.index else self.f.cast("zext", i, self.index)

    def over(self, loops: Sequence[Var], first: V, step: int, body: Callable[[X], None]) -> None:
        """Loops, the last one from `first` on in steps; `body` is given its variable."""
        f = self.f
        *outer, last = loops
        with f.each(*(v.extent for v in outer)) as at:
            self.vars.update((v, self._narrow(i.v)) for v, i in zip(outer, at, strict=True))
            i = f.var(X(f, first))
            with f.repeat(lambda: i.get().cmp("slt", last.extent)):
                now = i.get()
                self.vars[last] = self._narrow(now.v)
                body(now)
                i.set(now + step)

    def _narrow(self, i: V) -> V:
        if i.ty == self.index:
            return i
        return self.f.cast("trunc" if self.index == "i32" else "sext", i, self.index)

    def evaluate(self, phase: Phase, scope: Scope) -> list[list[V]]:
        """An element of a phase: what is stored is, what is reduced is given."""
        values = [self._value(s.value, scope) for s in phase.stores]
        reduced = [[self._value(r.value, scope)] for r in phase.reduces]
        for s, v in zip(phase.stores, values, strict=True):
            self.store(s, v, scope)
        return reduced

    # --- indices --------------------------------------------------------------------------------

    def _index(self, index: Index, scope: Scope) -> V:
        return self._index_of_lane(index, scope, 0)

    def _index_of_lane(self, index: Index, scope: Scope, lane: int) -> V:
        """An index in one lane; the lane variable stands for the first."""
        f = self.f
        total = f.const(self.index, index.const)
        for atom, c in index.terms:
            if isinstance(atom, Var):
                v = self.vars[atom]
                if atom == scope.lane and lane:
                    v = f.add(v, f.const(self.index, lane))
            elif isinstance(atom, Dyn):
                v = self._value(atom.expr, scope)
                v = self._narrow(f.extract(v, lane) if lanes_of(v.ty) > 1 else v)
            else:
                v = self._divide(atom, self._index_of_lane(atom.of, scope, lane))
            total = f.add(total, f.mul(v, f.const(self.index, c)))
        return total

    def _index_value(self, index: Index, scope: Scope) -> V:
        f = self.f
        if self._uniform(index, scope):
            return f.cast("sext", self._index(index, scope), "i64")
        out = f.undef(vector("i64", scope.lanes))
        for lane in range(scope.lanes):
            out = f.insert(out, f.cast("sext", self._index_of_lane(index, scope, lane), "i64"),
                           lane)
        return out

    # --- memory ---------------------------------------------------------------------------------

    def _load(self, e: Expr, scope: Scope) -> V:
        access = e.payload
        where = self._value(e.args[0], scope) if e.args else None
        memory, pointer = memory_type(e.dtype), self.pointers[access.buffer]
        offset = access.offset if access.part is None else access.offset * 2 + access.part
        uniform = self._uniform(offset, scope) and (where is None or lanes_of(where.ty) == 1)
        if scope.lanes == 1 or uniform:
            raw = self._load_lane(pointer, offset, scope, 0, memory, where)
        elif where is None and self._is_vector(offset, scope):
            ty = vector(memory, scope.lanes)
            at = self.f.gep(pointer, self._index(offset, scope), memory)
            raw = self.f.load(ty, at, _vector_align(ty))
        else:
            raw = self.f.undef(vector(memory, scope.lanes))
            for lane in range(scope.lanes):
                test = where and (self.f.extract(where, lane) if lanes_of(where.ty) > 1 else where)
                raw = self.f.insert(
                    raw, self._load_lane(pointer, offset, scope, lane, memory, test), lane)
        return scalar.from_memory(self.f, raw, e.dtype)

    def _load_lane(
        self, pointer: V, offset: Index, scope: Scope, lane: int, memory: str, where: V | None
    ) -> V:
        f, at = self.f, self._index_of_lane(offset, scope, lane)
        if where is None:
            return f.load(memory, f.gep(pointer, at, memory))
        safe = f.select(where, at, f.const(self.index, 0))
        return f.select(where, f.load(memory, f.gep(pointer, safe, memory)), f.zero(memory))

    def _is_vector(self, offset: Index, scope: Scope) -> bool:
        """Whether the lanes are beside one another, and begin at a multiple of their number."""
        assert scope.lane is not None
        if offset.coefficient(scope.lane) != 1 or _has_vector_dyn(self, offset, scope):
            return False
        rest = [c for atom, c in offset.terms if atom != scope.lane]
        return not any(c % scope.lanes for c in (*rest, offset.const))

    def store(self, s: Store, value: V, scope: Scope) -> None:
        """An element, or a vector of them."""
        f, dtype, pointer = self.f, s.value.dtype, self.pointers[s.buffer]
        memory = memory_type(dtype)
        offset = s.offset if s.part is None else s.offset * 2 + s.part
        if s.adds:
            at = f.gep(pointer, self._index(offset, scope), memory)
            held = scalar.from_memory(f, f.load(memory, at), dtype)
            value = scalar.compute(f, Expr("add", (), dtype), [held, value])
        if scope.lanes > 1 and lanes_of(value.ty) == 1:
            value = f.splat(value, scope.lanes)
        raw = scalar.to_memory(f, value, dtype)
        if scope.lanes > 1 and not self._is_vector(offset, scope):
            for lane in range(scope.lanes):
                at = f.gep(pointer, self._index_of_lane(offset, scope, lane), memory)
                f.store(f.extract(raw, lane), at)
            return
        at = f.gep(pointer, self._index(offset, scope), memory)
        f.store(raw, at, _vector_align(raw.ty) if scope.lanes > 1 else None)


class _NestKernel(NestWriter):
    """A kernel of a nest.

    Args:
        nest: what it does.
        target: for which architecture.
        buffers: its values.
        lanes: elements that an expression is computed for at once.
    """

    threads = WARPS * WARP

    def __init__(self, nest: Nest, target: Target, buffers: Sequence[Any], lanes: int) -> None:
        super().__init__(GpuFunction(target, len(buffers), self.threads), nest, target, buffers)
        self.lanes = lanes

    def kernel(self) -> KernelCode:
        """The kernel, written."""
        units = self.units()
        number = self.f.global_thread()
        with self.f.given(X(self.f, self.f.cmp("ult", number, V("i32", str(units))))):
            self.unit(number)
        return self.f.finished(-(-units // self.threads))

    def units(self) -> int:
        """How many threads do something."""
        raise NotImplementedError

    def unit(self, number: V) -> None:
        """What a thread does."""
        raise NotImplementedError


class _Elements(_NestKernel):
    """See the module: elements."""

    threads = 2 * WARPS * WARP

    def units(self) -> int:
        return prod(v.extent for v in space_of(self.nest)) // self.lanes

    def unit(self, number: V) -> None:
        space = space_of(self.nest)
        extents = [v.extent for v in space]
        last = space[-1] if space else None
        if last is not None:
            extents[-1] //= self.lanes
        for v, i in zip(space, self.f.split(number, extents), strict=True):
            wide = self._wide_index(i)
            self.vars[v] = self.f.mul(wide, self.f.const(self.index, self.lanes)) \
                if v is last else wide
        scope = Scope(self.lanes, last if self.lanes > 1 else None, None, None)
        for phase in self.nest.phases:
            self.evaluate(phase, scope)


class _Threads(_NestKernel):
    """See the module: threads."""

    def units(self) -> int:
        return prod(v.extent for v in self.nest.rows)

    def unit(self, number: V) -> None:
        self.place(self.nest.rows, number)
        row = Scope(1, None, None, None)
        for phase in self.nest.phases:
            self.phase(phase, row)

    def phase(self, phase: Phase, row: Scope) -> None:
        """All elements of a phase, in order."""
        f = self.f
        held = [_Chain(f, r.kind, r.value.dtype) for r in phase.reduces]

        def element(i: X) -> None:
            values = self.evaluate(phase, Scope(1, None, None, None, row))
            for chain, x in zip(held, values, strict=True):
                chain.take(x, i)

        if phase.loops:
            self.over(phase.loops, f.i64(0), 1, element)
        else:
            element(f.i(0))
        for r, chain in zip(phase.reduces, held, strict=True):
            self.result(r, chain.values(), row)

    def result(self, reduce: Any, values: list[V], row: Scope) -> None:
        """A value of the row: what was reduced, or its position."""
        value = values[-1]
        row.memo[id(reduce.result)] = value if len(values) == 1 else self.f.cast(
            "trunc", value, register_type(reduce.result.dtype))


class _Warps(_Threads):
    """See the module: warps."""

    def units(self) -> int:
        return prod(v.extent for v in self.nest.rows) // max(self.nest.block, 1) * WARP

    def unit(self, number: V) -> None:
        f = self.f
        self.lane = f.binary("and", number, V("i32", str(WARP - 1)))
        first = f.binary("lshr", number, V("i32", "5"))
        self.scratch()
        if not self.nest.block:
            self.rows(first, clear=None)
            return
        base = f.mul(first, V("i32", str(self.nest.block)))
        with f.each(self.nest.block) as (i,):
            row = f.add(base, f.cast("trunc", i.v, "i32"))
            self.rows(row, i.cmp("eq", 0))

    def scratch(self) -> None:
        """Each lane keeps the elements of a row that it computes."""
        for b in {s.buffer: None for p in self.nest.phases for s in p.stores}:
            if isinstance(b, Scratch):
                self.pointers[b] = self.scratch_of(b)

    def scratch_of(self, buffer: Scratch) -> V:
        """A part of shared memory for each warp of the block."""
        f = self.f
        nbytes = -(-buffer.elements * buffer.dtype.itemsize // 16) * 16
        warp = f.binary("lshr", f.thread(), V("i32", "5"))
        memory = f.shared_memory(nbytes * (self.threads // WARP))
        return f.gep(memory, f.mul(warp, V("i32", str(nbytes))))

    def rows(self, number: V, clear: X | None) -> None:
        """A row, at whose beginning sums may be cleared."""
        self.place(self.nest.rows, number)
        row = Scope(1, None, None, None)
        if clear is not None:
            with self.f.given(clear):
                for phase in self.nest.phases:
                    self.cleared(phase)
        for phase in self.nest.phases:
            self.phase(phase, row)

    def cleared(self, phase: Phase) -> None:
        """Zeros for the sums of a block, by the lanes that add to them."""
        adding = [s for s in phase.stores if s.adds]
        if not adding:
            return

        def zeros(_: X) -> None:
            for s in adding:
                at = self._index(s.offset, Scope(1, None, None, None))
                memory = memory_type(s.value.dtype)
                self.f.store(self.f.zero(memory), self.f.gep(self.pointers[s.buffer], at, memory))

        self.strided(phase, zeros)

    def strided(self, phase: Phase, body: Callable[[X], None]) -> None:
        """The elements of a phase that are this lane's."""
        chains = self.nest.chains(phase) if phase.reduces else WARP
        start = self.f.cast("zext", self.lane, "i64")
        with self.f.given(X(self.f, start).cmp("slt", chains)):
            self.over(phase.loops, start, chains, body)

    def phase(self, phase: Phase, row: Scope) -> None:
        f = self.f
        if not phase.loops:
            self.once(phase, row)
            return
        held = [_Chain(f, r.kind, r.value.dtype) for r in phase.reduces]

        def element(i: X) -> None:
            values = self.evaluate(phase, Scope(1, None, None, None, row))
            for chain, x in zip(held, values, strict=True):
                chain.take(x, i)

        self.strided(phase, element)
        for r, chain in zip(phase.reduces, held, strict=True):
            self.result(r, self.folded(r, chain.values(), self.nest.chains(phase)), row)

    def once(self, phase: Phase, row: Scope) -> None:
        """What is computed once for a row: by all lanes, stored by one."""
        values = [self._value(s.value, row) for s in phase.stores]
        with self.f.given(X(self.f, self.lane).cmp("eq", 0)):
            for s, v in zip(phase.stores, values, strict=True):
                self.store(s, v, Scope(1, None, None, None, row))

    def folded(self, reduce: Any, values: list[V], chains: int) -> list[V]:
        """The result of lanes that are chains, in all lanes."""
        f, half = self.f, chains // 2
        dtype = reduce.value.dtype
        while half:
            other = f.binary("xor", self.lane, V("i32", str(half)))
            theirs = [f.from_lane(v, other) for v in values]
            values = reduction.combine(f, reduce.kind, dtype, values, theirs)
            half //= 2
        return [f.from_lane(v, V("i32", "0")) for v in values]


class _Blocks(_Warps):
    """See the module: blocks."""

    threads = ROW_WARPS * WARP

    def kernel(self) -> KernelCode:
        f = self.f
        self.lane = f.binary("and", f.thread(), V("i32", str(WARP - 1)))
        self.warp = f.binary("lshr", f.thread(), V("i32", "5"))
        self.scratch()
        self.rows(f.block(), clear=None)
        return f.finished(prod(v.extent for v in self.nest.rows))

    def scratch_of(self, buffer: Scratch) -> V:
        return self.f.shared_memory(buffer.elements * buffer.dtype.itemsize)

    def once(self, phase: Phase, row: Scope) -> None:
        values = [self._value(s.value, row) for s in phase.stores]
        with self.f.given(X(self.f, self.f.thread()).cmp("eq", 0)):
            for s, v in zip(phase.stores, values, strict=True):
                self.store(s, v, Scope(1, None, None, None, row))

    def strided(self, phase: Phase, body: Callable[[X], None]) -> None:
        if phase.reduces:
            super().strided(phase, body)
        else:
            start = self.f.cast("zext", self.f.thread(), "i64")
            self.over(phase.loops, start, self.threads, body)

    def phase(self, phase: Phase, row: Scope) -> None:
        parts = self.nest.parts(phase)
        if parts == 1:
            super().phase(phase, row)
        else:
            self.in_parts(phase, row, parts)

    def in_parts(self, phase: Phase, row: Scope, parts: int) -> None:
        """Warp w does parts w, w + ROW_WARPS, ...; all warps reduce what they gave."""
        f, size = self.f, phase.loops[0].extent // parts
        chains = self.nest.chains(phase)
        tables = [[f.shared_memory(parts * sizeof(v.ty)) for v in identity]
                  for identity in (_identity(f, r.kind, r.value.dtype) for r in phase.reduces)]
        part = f.var(X(f, f.cast("zext", self.warp, "i64")))
        with f.repeat(lambda: part.get().cmp("slt", parts)):
            now = part.get()
            for r, values, table in zip(
                phase.reduces, self.part(phase, row, now * size, size, chains), tables,
                strict=True,
            ):
                total = self.folded(r, values, chains)
                with f.given(X(f, self.lane).cmp("eq", 0)):
                    for v, at in zip(total, table, strict=True):
                        f.store(v, f.gep(at, now.v, _stored(v.ty)))
            part.set(now + ROW_WARPS)
        f.barrier()
        for r, table in zip(phase.reduces, tables, strict=True):
            self.result(r, self.row_of_parts(r, table, parts), row)
        f.barrier()  # the tables may be written again

    def part(
        self, phase: Phase, row: Scope, first: X, size: int, chains: int
    ) -> list[list[V]]:
        """What this lane has of a part of the row."""
        f = self.f
        held = [_Chain(f, r.kind, r.value.dtype) for r in phase.reduces]
        i = f.var(X(f, f.cast("zext", self.lane, "i64")))
        with f.repeat(lambda: i.get().cmp("slt", size) & X(f, self.lane).cmp("slt", chains)):
            now = i.get()
            self.vars[phase.loops[0]] = self._narrow((first + now).v)
            values = self.evaluate(phase, Scope(1, None, None, None, row))
            for chain, x in zip(held, values, strict=True):
                chain.take(x, first + now)
            i.set(now + chains)
        return [chain.values() for chain in held]

    def row_of_parts(self, reduce: Any, table: Sequence[V], parts: int) -> list[V]:
        """The results of parts, reduced as a row."""
        f = self.f
        chains = order.chains(self.nest.accumulate, parts)
        chain = _Chain(f, reduce.kind, reduce.value.dtype)
        i = f.var(X(f, f.cast("zext", self.lane, "i64")))
        with f.repeat(lambda: i.get().cmp("slt", parts) & X(f, self.lane).cmp("slt", chains)):
            now = i.get()
            chain.take_all([f.load(c.ty, f.gep(at, now.v, _stored(c.ty)))
                            for c, at in zip(chain.cells, table, strict=True)])
            i.set(now + chains)
        return self.folded(reduce, chain.values(), chains)


@dataclass(slots=True)
class _Chain:
    """One chain of a reduction, in variables."""

    f: GpuFunction
    kind: str
    dtype: DType
    cells: list[Cell]

    def __init__(self, f: GpuFunction, kind: str, dtype: DType) -> None:
        self.f, self.kind, self.dtype = f, kind, dtype
        self.cells = [f.var(X(f, v)) for v in _identity(f, kind, dtype)]

    def values(self) -> list[V]:
        return [c.get().v for c in self.cells]

    def take(self, x: list[V], position: X) -> None:
        """An element, at a place of its line."""
        self.take_all([*x, position.v][: len(self.cells)])

    def take_all(self, x: list[V]) -> None:
        new = reduction.combine(self.f, self.kind, self.dtype, self.values(), x)
        for c, v in zip(self.cells, new, strict=True):
            c.set(X(self.f, v))


def _identity(f: GpuFunction, kind: str, dtype: DType) -> list[V]:
    return reduction.identity(f, kind, register_type(dtype), dtype)


def _stored(ty: str) -> str:
    """What a type is in memory (a flag takes a byte)."""
    return "i8" if ty == "i1" else ty


def _vector_align(ty: str) -> int:
    return min(VECTOR_BYTES, sizeof(ty))


def _is_small(nest: Nest) -> bool:
    """Whether every index fits 31 bits, with room for a vector."""
    def offsets() -> Iterator[Index]:
        for e in walk(list(nest.roots())):
            if e.op == "load":
                yield e.payload.offset
            elif e.op == "index":
                yield e.payload
        for phase in nest.phases:
            yield from (s.offset for s in phase.stores)

    def parts(index: Index) -> Iterator[Index]:
        yield index
        for atom, _ in index.terms:
            if isinstance(atom, (Quot, Rem)):
                yield from parts(atom.of)

    return all(lo > -SMALL // 4 and hi < SMALL // 4
               for offset in offsets() for part in parts(offset)
               for lo, hi in (part.bounds,)) and all(
        prod(v.extent for v in (*nest.rows, *p.loops)) < SMALL // 4 for p in nest.phases)
