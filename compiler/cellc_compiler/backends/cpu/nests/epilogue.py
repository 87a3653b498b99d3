"""Elementwise work fused into the tile stores of contractions.

Elementwise ops after a matrix multiplication or convolution (bias, activation, residual, scale and
shift) are applied to the accumulators before they are stored. The accumulator has the type of the
stored element, or is first rounded to it (16-bit floats), so the bits are those of the separate
ops.

A fused expression may read, besides the accumulator: a tensor of the result's own shape at the
same element, a vector along the last axis (matrix products) or along the channels
(convolutions), and scalars. Anything else is left to a nest of its own.

An epilogue of a matrix product may store several results: an optimizer's step on a weight stores
the weight and its moments where the product that is its gradient would be stored, so the gradient
is never in memory. Where results replace operands each element is read before it is written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....ir.graph import Value
from ....loops.expr import Access, Expr
from ....loops.index import Index, Var, ravel, variables
from ....loops.nest import walk
from ...llvm.convert import from_memory, memory_type, round_to, to_memory
from ...llvm.expressions import ExpressionEmitter, Scope
from ...llvm.text import Function, V, lanes_of, vector
from ..kernels.blocked.conv import BlockEpilogue, Spot

H = TypeVar("H")

OPERANDS_AT = 3
"""The place of the epilogue's operands among the buffers of a contraction's kernel, followed by all
results but the first."""


@dataclass(frozen=True, slots=True)
class Fused:
    """An epilogue."""

    roots: tuple[Expr, ...]  # the expressions stored; loads of `source` are the accumulator
    source: Value  # the contraction's result
    operands: tuple[Value, ...]  # the values it reads, in the order of the kernel's extra buffers
    kinds: dict[int, str]  # how each load (by identity) is addressed: `same`, `axis` or `scalar`
    axis: Var | None  # the variable that `axis` loads follow
    lanes_along_axis: bool  # whether lanes run along that axis (matrix products)
    replaces: bool = False  # whether results may be stored where operands are read

    @property
    def key(self) -> str:
        """A name of the computation."""
        return ",".join(e.op for e in walk(self.roots))

    @property
    def buffers(self) -> int:
        """Operands, and results but the first."""
        return len(self.operands) + len(self.roots) - 1

    def on(self, buffers: Mapping[Value, Value]) -> Fused:
        """The same epilogue on other buffers."""
        new: dict[int, Expr] = {}
        kinds: dict[int, str] = {}
        for e in walk(self.roots):
            args = tuple([new[id(a)] for a in e.args])
            if e.op == "load":
                at: Access = e.payload
                made = Expr(e.op, args, e.dtype, Access(buffers[at.buffer], at.offset, at.part))
                if id(e) in self.kinds:
                    kinds[id(made)] = self.kinds[id(e)]
            else:
                made = Expr(e.op, args, e.dtype, e.payload) if args else e
            new[id(e)] = made
        return Fused(
            tuple([new[id(e)] for e in self.roots]), buffers[self.source],
            tuple([buffers[v] for v in self.operands]), kinds, self.axis, self.lanes_along_axis,
            self.replaces,
        )

    def elementwise(self, value: Value) -> bool:
        """Whether an operand is read only at the element that is stored."""
        return all(self.kinds[id(e)] == "same" for e in walk(self.roots)
                   if e.op == "load" and e.payload.buffer is value)

    def emit(
        self, f: Function, target: Target, acc: V, flat: V, axis: V, lanes: int, mask: V | None
    ) -> V:
        """Apply to an accumulator vector: the first result; the others are stored.

        Args:
            flat: flat index of lane 0 in the result (i64).
            axis: the axis position of lane 0 (i64).
        """
        emitter = _Emitter(f, target, self, acc, flat, axis, lanes, mask)
        first, *rest = [emitter.result(root) for root in self.roots]
        for i, v in enumerate(rest):
            emitter.store(i, v)
        return first


class _OnAccumulator(ExpressionEmitter):
    """Evaluates one expression on accumulators, in a function of a kernel family."""

    fused: Fused | BlockFused

    def __init__(self, f: Function, target: Target, acc: V, lanes: int, mask: V | None) -> None:
        super().__init__(f, target)
        self.acc, self.mask = acc, mask
        self.rounded: V | None = None
        self.scope = Scope(lanes, None, None, mask)

    def result(self, root: Expr) -> V:
        """The value to store, in accumulator type."""
        return self._wide(root, self.scope)

    def _load(self, e: Expr, scope: Scope) -> V:
        """An operand, or the contraction's result: the accumulator as its element type has it."""
        source, buffer = self.fused.source, e.payload.buffer
        if buffer is not source:
            return self._operand(e, self.fused.operands.index(buffer), scope)
        if self.rounded is None:
            self.rounded = round_to(self.f, self.acc, source.dtype)
        return self.rounded

    @abstractmethod
    def _operand(self, e: Expr, number: int, scope: Scope) -> V:
        """A load of an operand, by its number."""


class _Emitter(_OnAccumulator):
    """On accumulators that lie as the result does."""

    def __init__(
        self, f: Function, target: Target, fused: Fused, acc: V, flat: V, axis: V, lanes: int,
        mask: V | None,
    ) -> None:
        super().__init__(f, target, acc, lanes, mask)
        self.fused: Fused = fused
        self.flat, self.axis = flat, axis

    def store(self, number: int, value: V) -> None:
        """Store one of the results after the first."""
        f, fused = self.f, self.fused
        dtype = fused.roots[number + 1].dtype
        raw = to_memory(f, value, dtype)
        at = OPERANDS_AT + len(fused.operands) + number
        base = f.load("ptr", f.gep(f.arg("bufs"), at, "ptr"))
        pointer = f.gep(base, self.flat, memory_type(dtype))
        f.masked_store(raw, pointer, self.mask if lanes_of(raw.ty) > 1 else None)

    def _operand(self, e: Expr, number: int, scope: Scope) -> V:
        f, access, memory = self.f, e.payload, memory_type(e.dtype)
        base = f.load("ptr", f.gep(f.arg("bufs"), OPERANDS_AT + number, "ptr"))
        kind = self.fused.kinds[id(e)]
        if kind == "scalar":
            at: V = f.i64(access.offset.const)
        elif kind == "same":
            at = self.flat
        else:
            step = access.offset.coefficient(self.fused.axis)
            at = self.axis * step + access.offset.const
        pointer = f.gep(base, at, memory)
        wide = kind == "same" or (kind == "axis" and self.fused.lanes_along_axis)
        if not wide or scope.lanes == 1:
            return from_memory(f, f.load(memory, pointer), e.dtype)
        raw = f.masked_load(vector(memory, scope.lanes), pointer, self.mask)
        return from_memory(f, raw, e.dtype)


def classify(
    roots: tuple[Expr, ...], source: Value, full: tuple[Index, ...], axis: int,
    lanes_along_axis: bool, replaces: bool = False,
) -> Fused | None:
    """The epilogue for expressions over the result's index space; None if they read otherwise.

    Args:
        roots: the stored expressions.
        source: the contraction's result.
        full: the canonical index of the result.
        axis: which axis the kernel family gives the position of.
        lanes_along_axis: whether lanes run along it.
        replaces: whether results may be stored where operands are read.
    """
    flat = ravel(full, source.shape)
    along = next((v for v in variables(full[axis]) if full[axis] == Index.of(v)), None)

    def address(offset: Index) -> str | None:
        return _kind(offset, flat, along, lanes_along_axis)

    found = _reads(roots, source, address, lambda offset: address(offset) == "same")
    if found is None:
        return None
    kinds, operands = found
    return Fused(roots, source, operands, kinds, along, lanes_along_axis, replaces)


def _reads(
    roots: tuple[Expr, ...], source: Value, address: Callable[[Index], H | None],
    own: Callable[[Index], bool],
) -> tuple[dict[int, H], tuple[Value, ...]] | None:
    """How each load (by identity) but those of `source` is addressed, and the values loaded.

    None where something is read in another way, or the source not at its `own` element.
    """
    kinds: dict[int, H] = {}
    operands: dict[Any, None] = {}
    for e in walk(roots):
        if e.op == "index":
            return None
        if e.op != "load":
            continue
        if e.args or e.payload.part is not None:
            return None
        if e.payload.buffer is source:
            if not own(e.payload.offset):
                return None
            continue
        kind = address(e.payload.offset)
        if kind is None:
            return None
        kinds[id(e)] = kind
        operands.setdefault(e.payload.buffer)
    return kinds, tuple(operands)


def _kind(offset: Index, flat: Index, along: Var | None, lanes_along_axis: bool) -> str | None:
    if not offset.terms:
        return "scalar"
    if offset == flat or (dict(offset.terms) == dict(flat.terms) and offset.const == flat.const):
        return "same"
    if along is None or any(atom != along for atom, _ in offset.terms):
        return None  # (a position that is known at run time has no variables, perhaps)
    return None if lanes_along_axis and offset.coefficient(along) != 1 else "axis"


# --- blocked images ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Where:
    """How a load of a blocked epilogue is addressed."""

    steps: tuple[int, int, int, int]  # elements between images, blocks, rows and columns
    wide: bool  # whether the channels of a block lie together (else they share one element)
    offset: int  # elements from the start of the buffer


@dataclass(frozen=True, slots=True)
class BlockFused:
    """An epilogue of an op on blocked images, `[N, C / B, H, W, B]`."""

    root: Expr  # the expression stored; loads of `source` are the accumulator
    source: Value  # the op's result
    operands: tuple[Value, ...]  # the values it reads, in the order of the kernel's extra buffers
    loads: dict[int, Where]  # how each load (by identity) is addressed
    border: tuple[int, int, int, int]  # zeros stored around the result (top, bottom, left, right)

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The expression, as `Fused` has them."""
        return (self.root,)

    @property
    def bare(self) -> bool:
        """Whether it stores the result as it is."""
        return self.root.op == "load" and self.root.payload.buffer is self.source

    def emitter(self, target: Target, first: int = OPERANDS_AT) -> BlockEpilogue:
        """Return the function that applies it to the accumulator at (block, row, column in the
        tile). `first`: where the kernel has the operands among its buffers."""
        def emit(f: Function, acc: V, spot: Spot, at: tuple[int, int, int]) -> V:
            return _BlockEmitter(f, target, self, acc, spot, at, first).result(self.root)

        return emit


class _BlockEmitter(_OnAccumulator):
    """On an accumulator of a blocked kernel."""

    def __init__(
        self, f: Function, target: Target, fused: BlockFused, acc: V, spot: Spot,
        at: tuple[int, int, int], first: int,
    ) -> None:
        super().__init__(f, target, acc, fused.source.shape[-1], None)
        self.fused: BlockFused = fused
        self.spot, self.at, self.first = spot, at, first

    def _operand(self, e: Expr, number: int, scope: Scope) -> V:
        f, memory = self.f, memory_type(e.dtype)
        key = ("operand", number)
        base = self.spot.memo.get(key)
        if base is None:
            base = f.load("ptr", f.gep(f.arg("bufs"), self.first + number, "ptr"))
            self.spot.memo[key] = base
        where = self.fused.loads[id(e)]
        pointer = self.spot.pointer(f, base, where.steps, self.at, memory)
        pointer = f.gep(pointer, where.offset, memory)
        ty = vector(memory, scope.lanes) if where.wide else memory
        return from_memory(f, f.load(ty, pointer), e.dtype)


def classify_blocked(
    root: Expr, source: Value, full: tuple[Index, ...], border: tuple[int, int, int, int]
) -> BlockFused | None:
    """The epilogue for an expression over a blocked image; None if it reads otherwise. `full`: the
    canonical index of the result."""
    axes = [next(iter(variables(i)), None) for i in full]
    own = ravel(full, source.shape)
    found = _reads((root,), source, lambda offset: _where(offset, axes),
                   lambda offset: offset == own)
    if found is None:
        return None
    loads, operands = found
    return BlockFused(root, source, operands, loads, border)


def _where(offset: Index, axes: list[Var | None]) -> Where | None:
    """Strides of an offset along the axes; None where it is not linear in them."""
    if any(atom not in axes for atom, _ in offset.terms):
        return None
    steps = [0 if v is None else offset.coefficient(v) for v in axes]
    if any(s is None for s in steps) or steps[-1] not in (0, 1):
        return None
    n, b, h, w, lane = (0 if s is None else s for s in steps)
    return Where((n, b, h, w), lane == 1, offset.const)
