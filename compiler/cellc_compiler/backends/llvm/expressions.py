"""Expressions of loop nests on lanes: what an element of each lane is, at the scope's place."""

from __future__ import annotations

from typing import Any

from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from ...ir.dims import is_symbolic
from ...ir.graph import Value
from ...loops.expr import Expr
from ...loops.index import Dyn, Index, Quot, Var, leaves
from . import scalar
from .convert import memory_type, register_type
from .text import Function, V, element, lanes_of, sizeof, vector


@dataclass(slots=True)
class Scope:
    """Where expressions are evaluated: lanes along one variable, values found so far."""

    lanes: int
    lane: Var | None
    base: V | None
    mask: V | None
    parent: Scope | None = None
    memo: dict[int, V] = field(default_factory=dict)
    wide: dict[tuple[int, int], V] = field(default_factory=dict)


class ExpressionEmitter:
    """Writes expressions into a function, for who knows where buffers and loop variables are."""

    def __init__(self, f: Function, target: Target) -> None:
        self.f = f
        self.target = target
        self.pointers: dict[Any, V] = {}  # of buffers
        self.vars: dict[Var, V] = {}  # loop variables

    # --- values ---------------------------------------------------------------------------------

    def _value(self, e: Expr, scope: Scope) -> V:
        """The value of an expression: a vector of the scope's lanes, or a scalar if uniform."""
        key = id(e)
        around: Scope | None = scope
        while around is not None:
            if key in around.memo:
                return around.memo[key]
            around = around.parent
        found = scope.memo[key] = self._compute(e, scope)
        return found

    def _wide(self, e: Expr, scope: Scope) -> V:
        """The value as a vector of the scope's lanes."""
        if e.op == "const":
            return self.f.const(vector(register_type(e.dtype), scope.lanes), e.payload)
        v = self._value(e, scope)
        if lanes_of(v.ty) == scope.lanes:
            return v
        s: Scope | None = scope
        while s is not None:
            if (id(e), scope.lanes) in s.wide:
                return s.wide[(id(e), scope.lanes)]
            s = s.parent
        wide = scope.wide[(id(e), scope.lanes)] = self.f.splat(v, scope.lanes)
        return wide

    def _compute(self, e: Expr, scope: Scope) -> V:
        if e.op == "const":
            return self.f.const(register_type(e.dtype), e.payload)
        if e.op == "load":
            return self._load(e, scope)
        if e.op == "index":
            return self._index_value(e.payload, scope)
        if e.op == "ref":
            raise KeyError("a reduction is read before its phase")
        args = [self._value(a, scope) for a in e.args]
        if e.op == "philox":
            return self._random_bits(e, args)
        if len({lanes_of(a.ty) for a in args}) > 1:
            args = [self._wide(a, scope) for a in e.args]
        return scalar.compute(self.f, e, args)

    def _random_bits(self, e: Expr, args: list[V]) -> V:
        """Bits of each lane's element under one key, which is a scalar (see `loops.build`)."""
        if any(lanes_of(v.ty) > 1 for v in args[1:]):
            raise ValueError("a draw has a key for each lane, where one for all is computed")
        return scalar.compute(self.f, e, args)

    # --- indices --------------------------------------------------------------------------------

    def _uniform(self, index: Index, scope: Scope) -> bool:
        if scope.lane is None:
            return True
        if scope.lane in leaves(index):
            return False
        return not has_vector_dyn(self, index, scope)

    def _index_value(self, index: Index, scope: Scope) -> V:
        if self._uniform(index, scope):
            return self._index(index, scope)
        return self._index_vector(index, scope, "i64")

    def _index(self, index: Index, scope: Scope) -> V:
        """A scalar index; the lane variable stands for the first lane."""
        f = self.f
        total = f.i64(index.const)
        for atom, c in index.terms:
            if isinstance(atom, Var):
                v = scope.base if atom == scope.lane and scope.base is not None else self.vars[atom]
            elif isinstance(atom, Dyn):
                v = self._value(atom.expr, scope)
            else:
                v = self._divide(atom, self._index(atom.of, scope))
            total = total + v * c
        return total

    def _divide(self, atom: Any, v: V) -> V:
        """Floor division or remainder by a constant."""
        f, by = self.f, self.f.const(v.ty, atom.by)
        kind = "div" if isinstance(atom, Quot) else "rem"
        if atom.of.bounds[0] >= 0:
            return f.binary("u" + kind, v, by)
        low = (atom.by - 1 - atom.of.bounds[0]) // atom.by * atom.by  # makes it non-negative
        shifted = f.binary("add", v, f.const(v.ty, low))
        out = f.binary("u" + kind, shifted, by)
        return out if kind == "rem" else f.binary("sub", out, f.const(v.ty, low // atom.by))

    def _index_vector(self, index: Index, scope: Scope, ty: str) -> V:
        """An index in every lane."""
        f, n = self.f, scope.lanes
        assert scope.lane is not None
        wide = vector(ty, n)
        stride = index.coefficient(scope.lane)
        if stride is not None and not has_vector_dyn(self, index, scope):
            base = f.splat(_to(f, self._index(index, scope), ty), n)
            if is_symbolic(stride):
                return f.binary("add", base, f.binary("mul", f.iota(wide), f.const(wide, stride)))
            steps = [str(stride * i) for i in range(n)]
            ramp = V(wide, "<" + ", ".join(f"{ty} {s}" for s in steps) + ">")
            return f.binary("add", base, ramp) if n > 1 else base
        total = f.const(wide, index.const)
        for atom, c in index.terms:
            v = self._atom_vector(atom, scope, ty)
            total = f.binary("add", total, f.binary("mul", v, f.const(wide, c)))
        return total

    def _atom_vector(self, atom: Any, scope: Scope, ty: str) -> V:
        f, n = self.f, scope.lanes
        if isinstance(atom, Var):
            if atom == scope.lane:
                return self._index_vector(Index.of(atom), scope, ty)
            return f.splat(_to(f, self.vars[atom], ty), n)
        if isinstance(atom, Dyn):
            v = self._value(atom.expr, scope)
            v = v if lanes_of(v.ty) == n else f.splat(v, n)
            return v if ty == "i64" else f.cast("trunc", v, ty)
        return self._divide(atom, self._index_vector(atom.of, scope, ty))

    # --- memory ---------------------------------------------------------------------------------

    def _load(self, e: Expr, scope: Scope) -> V:
        f, access = self.f, e.payload
        where = self._value(e.args[0], scope) if e.args else None
        memory = memory_type(e.dtype)
        pointer, offset = self.pointers[access.buffer], access.offset
        if access.part is not None:
            offset = offset * 2 + access.part
        uniform = self._uniform(offset, scope) and (where is None or lanes_of(where.ty) == 1)
        if uniform:
            raw = self._load_scalar(pointer, self._index(offset, scope), memory, where)
        else:
            raw = self._load_vector(access.buffer, offset, scope, memory, where)
        return scalar.from_memory(f, raw, e.dtype)

    def _load_scalar(self, pointer: V, at: V, memory: str, where: V | None) -> V:
        f = self.f
        if where is None:
            return f.load(memory, f.gep(pointer, at, memory))
        safe = f.select(where, at, f.i64(0))
        raw = f.load(memory, f.gep(pointer, safe, memory))
        return f.select(where, raw, f.zero(memory))

    def _load_vector(
        self, buffer: Any, offset: Index, scope: Scope, memory: str, where: V | None
    ) -> V:
        f, n, pointer = self.f, scope.lanes, self.pointers[buffer]
        ty = vector(memory, n)
        mask = self._mask(where, scope)
        assert scope.lane is not None
        if offset.coefficient(scope.lane) == 1 and not has_vector_dyn(self, offset, scope):
            at = self._index(offset, scope)
            if where is not None and lanes_of(where.ty) == 1:
                # A load of no lane outside of the process's memory would take hundreds of cycles.
                at = f.select(where, at, f.i64(0))
            return f.masked_load(ty, f.gep(pointer, at, memory), mask if n > 1 else None)
        full = mask if mask is not None else V(vector("i1", n), "splat (i1 true)")
        if sizeof(memory) < 4 and n > 1 and self.target.vector_bytes > 16:
            nbytes = buffer.type.nbytes if isinstance(buffer, Value) else 0
            if type(nbytes) is int and 4 <= nbytes < 1 << 31:
                at = self._positions(offset, scope)
                return gather_words(f, memory, pointer, at, full, nbytes)
        return f.gather(ty, self._pointers(pointer, offset, scope, memory), full)

    def _positions(self, offset: Index, scope: Scope) -> V:
        lo, hi = offset.bounds
        small = type(lo) is type(hi) is int and lo >= -(1 << 31) and hi < (1 << 31) - 4
        ty = "i32" if small else "i64"
        return self._index_vector(offset, scope, ty)

    def _pointers(self, pointer: V, offset: Index, scope: Scope, memory: str) -> V:
        at = self._positions(offset, scope)
        return self.f.emit(vector("ptr", scope.lanes), f"getelementptr {memory}, {pointer}, {at}")

    def _mask(self, where: V | None, scope: Scope) -> V | None:
        if where is None:
            return scope.mask
        wide = where if lanes_of(where.ty) == scope.lanes else self.f.splat(where, scope.lanes)
        return wide if scope.mask is None else wide & scope.mask


def _to(f: Function, v: V, ty: str) -> V:
    return v if v.ty == ty else f.cast("trunc", v, ty) if not v.ref.lstrip("-").isdigit() \
        else V(ty, v.ref)


def has_vector_dyn(em: ExpressionEmitter, offset: Index, scope: Scope) -> bool:
    return any(isinstance(d, Dyn) and lanes_of(em._value(d.expr, scope).ty) > 1
               for d in leaves(offset))


def gather_words(f: Function, memory: str, base: V, at: V, mask: V, nbytes: int) -> V:
    """`Function.gather` of elements of 1 or 2 bytes at `base + at`, for which there is no
    instruction: LLVM would branch for each lane. Gather four bytes that begin with the element; at
    the end of the `nbytes` (4 at least) from `base` on, the last four, in which it lies further
    up."""
    size, lanes = sizeof(memory), lanes_of(at.ty)
    first = f.binary("mul", at, f.const(at.ty, size)) if size > 1 else at
    inside = f.intrinsic("smin", at.ty, first, f.const(at.ty, nbytes - 4))
    pointers = f.emit(vector("ptr", lanes), f"getelementptr i8, {base}, {inside}")
    found = f.gather(vector("i32", lanes), pointers, mask, align=1)
    part = first - inside
    part = part if element(at.ty) == "i32" else f.cast("trunc", part, "i32")
    shift = part << f.const(part.ty, 3)
    # A lane that is masked out may be anywhere.
    shift = shift & f.const(part.ty, 31)
    raw = f.cast("trunc", found >> shift, f"i{8 * size}")
    return f.cast("bitcast", raw, memory) if memory == "half" else raw
