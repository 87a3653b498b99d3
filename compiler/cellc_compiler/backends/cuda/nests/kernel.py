"""The common part of kernels of loop nests: places of loop variables, indices, loads and stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from cellc_runtime.target import Target

from ....ir.types import prod
from ....loops.expr import Expr
from ....loops.index import Dyn, Index, Quot, Rem, Var
from ....loops.nest import Nest, Store, walk
from ...llvm import scalar
from ...llvm.convert import memory_type
from ...llvm.expressions import ExpressionEmitter, Scope, has_vector_dyn
from ...llvm.math.lanes import X
from ...llvm.text import V, element, lanes_of, sizeof, vector
from ..code import VECTOR_BYTES, WARP, KernelCode
from ..writer import GpuFunction

WARPS = 4  # Warps of a block that do rows of their own
_MOST_LANES = 8
_SMALL = 1 << 29  # Indices below fit 32 bits, with room for sums of a few


class NestWriter(ExpressionEmitter):
    """Writes elements of a nest into a kernel.

    Args:
        nest: whose elements.
        target: for which architecture.
        buffers: its values, in the order of the kernel's pointers from `first` on.
    """

    f: GpuFunction

    def __init__(
        self, f: GpuFunction, nest: Nest, target: Target, buffers: Sequence[Any], first: int = 0
    ) -> None:
        super().__init__(f, target)
        self.nest, self.buffers = nest, buffers
        self.pointers.update((b, f.pointer(first + i)) for i, b in enumerate(buffers))
        self.index = "i32" if _is_small(nest) else "i64"

    # --- loops ----------------------------------------------------------------------------------

    def place(self, variables: Sequence[Var], number: V) -> None:
        """Variables at a number of their space."""
        values = self.f.split(number, [v.extent for v in variables])
        self.vars.update((v, self.widened(i)) for v, i in zip(variables, values, strict=True))

    def widened(self, i: V) -> V:
        """A number that is not negative in the type of indices."""
        return i if i.ty == self.index else self.f.cast("zext", i, self.index)

    def narrow(self, i: V) -> V:
        """A number in the type of indices."""
        if i.ty == self.index:
            return i
        return self.f.cast("trunc" if self.index == "i32" else "sext", i, self.index)

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
                    v = v + f.const(self.index, lane)
            elif isinstance(atom, Dyn):
                v = self._value(atom.expr, scope)
                v = self.narrow(f.extract(v, lane) if lanes_of(v.ty) > 1 else v)
            else:
                v = self._divide(atom, self._index_of_lane(atom.of, scope, lane))
            total = total + v * f.const(self.index, c)
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
        """Whether the lanes are adjacent, and begin at a multiple of their number."""
        assert scope.lane is not None
        if offset.coefficient(scope.lane) != 1 or has_vector_dyn(self, offset, scope):
            return False
        rest = [c for atom, c in offset.terms if atom != scope.lane]
        return not any(c % scope.lanes for c in (*rest, offset.const))

    def addresses(self, s: Store, scope: Scope) -> list[V]:
        """Where the lanes of a store go: one place for all, or one for each."""
        f, memory = self.f, memory_type(s.value.dtype)
        offset = s.offset if s.part is None else s.offset * 2 + s.part
        together = scope.lanes == 1 or self._is_vector(offset, scope)
        return [f.gep(self.pointers[s.buffer], self._index_of_lane(offset, scope, lane), memory)
                for lane in range(1 if together else scope.lanes)]

    def store(self, s: Store, value: V, to: Sequence[V]) -> None:
        """An element, or a vector of them, at its addresses."""
        f, dtype = self.f, s.value.dtype
        if s.adds:
            held = self._get(vector(memory_type(dtype), lanes_of(value.ty)), to)
            value = scalar.compute(
                f, Expr("add", (), dtype), [scalar.from_memory(f, held, dtype), value])
        self.put_at(scalar.to_memory(f, value, dtype), to)

    def _get(self, ty: str, at: Sequence[V]) -> V:
        """Load from one address, or lane by lane."""
        f = self.f
        if len(at) == 1:
            return f.load(ty, at[0], _vector_align(ty) if lanes_of(ty) > 1 else None)
        raw = f.undef(ty)
        for lane, place in enumerate(at):
            raw = f.insert(raw, f.load(element(ty), place), lane)
        return raw

    def put_at(self, raw: V, to: Sequence[V]) -> None:
        """Store to one address, or lane by lane."""
        if len(to) == 1:
            self.f.store(raw, to[0], _vector_align(raw.ty) if lanes_of(raw.ty) > 1 else None)
            return
        for lane, at in enumerate(to):
            self.f.store(self.f.extract(raw, lane), at)

    def elements(self, scope: Scope) -> None:
        """An element of each phase, or a vector of them, of a nest that reduces nothing."""
        for phase in self.nest.phases:
            values = [self._value(s.value, scope) for s in phase.stores]
            for s, value in zip(phase.stores, values, strict=True):
                wide = value if lanes_of(value.ty) == scope.lanes else self.f.splat(
                    value, scope.lanes)
                self.store(s, wide, self.addresses(s, scope))


class NestKernel(NestWriter, ABC):
    """A kernel of a nest.

    Args:
        target: for which architecture.
        lanes: elements that an expression is computed for at once.
    """

    threads = WARPS * WARP  # Of a block

    def __init__(self, nest: Nest, target: Target, buffers: Sequence[Any], lanes: int) -> None:
        self.threads = self.threads_for(nest, target)
        super().__init__(GpuFunction(target, len(buffers), self.threads), nest, target, buffers)
        self.lanes = lanes

    def threads_for(self, nest: Nest, target: Target) -> int:
        """Threads of a block."""
        return self.threads

    def kernel(self) -> KernelCode:
        """The kernel, written."""
        units = self.units()
        number = self.f.global_thread()
        with self.f.given(X(self.f, self.f.cmp("ult", number, units))):
            self.unit(number)
        return self.f.finished_for(units)

    @abstractmethod
    def units(self) -> int:
        """How many threads do something."""

    @abstractmethod
    def unit(self, number: V) -> None:
        """Write the work of one thread."""


def lanes_for(sizes: Sequence[int], extents: Sequence[int]) -> int:
    """Elements that a thread computes at once: as many as 16 bytes of the smallest have, and such
    that extents are whole vectors. `sizes`: bytes of adjacent elements along the lanes."""
    lanes = min(VECTOR_BYTES // min(sizes, default=VECTOR_BYTES), _MOST_LANES)
    while lanes > 1 and any(n % lanes for n in extents):
        lanes //= 2
    return lanes


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

    return all(lo > -_SMALL and hi < _SMALL
               for offset in offsets() for part in parts(offset)
               for lo, hi in (part.bounds,)) and all(
        prod(v.extent for v in (*nest.rows, *p.loops)) < _SMALL for p in nest.phases)
