"""Loop nests: the loop IR between graph IR and LLVM.

A nest is a parallel loop over rows; each row runs phases in order; each phase is a loop over the
inner space that evaluates expressions, stores some and reduces others. A reduction's result is
a value of the row, read by later phases. Softmax is one nest of three phases.

In mode `row` a row is one point of the kept axes and the vector lanes run along the last inner
axis. In mode `column` the last axis is kept: the lanes run along it, and a row is a strip of
lanes. The mode and the order of accumulation (`loops/order.py`) follow from the reduced shape
alone, so a reduction gives the same bits whatever is fused around it.

Sums over blocks of rows (what `passes/split.py` makes of a sum over many rows) need no nest of
mode `column`: a nest of rows adds each row to the sums of its block, which stay in the first-level
cache. An element is the same chain either way. So the gradient of a layer normalisation reads its
operands once, for the rows and for the sums over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass, field

from . import order
from .expr import Access, Expr
from .index import Dyn, Index, Quot, Rem, Var, leaves, substitute
from .index import variables as variables


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """A row-local buffer of the inner space, private to a task."""

    elements: int
    dtype: DType


@dataclass(slots=True)
class Store:
    """Write an expression to a buffer at a linear element offset (part as in `Access`).

    With `adds` it is added to what is there, and a block of rows begins with zeros there.
    """

    buffer: Any
    offset: Index
    value: Expr
    part: int | None = None
    adds: bool = False


@dataclass(slots=True, eq=False)
class Reduce:
    """Reduce an expression over the phase's loops into a value of the row.

    `result` (and `position` for argmax/argmin) are the `ref` expressions later phases read.
    """

    kind: str
    value: Expr
    result: Expr


@dataclass(slots=True)
class Phase:
    """Loops (outer to inner) with their stores and reductions. No loops: once per row."""

    loops: tuple[Var, ...]
    stores: list[Store] = field(default_factory=list)
    reduces: list[Reduce] = field(default_factory=list)

    def roots(self) -> list[Expr]:
        """Every stored or reduced expression."""
        return [*(s.value for s in self.stores), *(r.value for r in self.reduces)]


@dataclass(slots=True)
class Nest:
    """A fused kernel."""

    mode: str  # `"row"` or `"column"`
    # row variables, outer to inner; in mode `column` the last one carries the lanes
    rows: tuple[Var, ...]
    phases: list[Phase]  # in order
    accumulate: int = 4  # size in bytes of the accumulators (it sets the lanes of reductions)
    # rows over which stores that add do so, a divisor of the number of rows; 0 without such stores.
    # A task does whole blocks.
    block: int = 0

    def roots(self) -> Iterator[Expr]:
        """Every stored or reduced expression."""
        for phase in self.phases:
            yield from phase.roots()

    def chains(self, phase: Phase) -> int:
        """Partial results of each of the phase's reductions, in each part (`order.chains`)."""
        if self.mode == "column" or not phase.reduces:
            return 1
        return order.chains(self.accumulate, phase.loops[-1].extent // self.parts(phase))

    def parts(self, phase: Phase) -> int:
        """Parts that the phase's reductions are cut into (`order.kernel_parts`)."""
        if self.mode == "column" or len(phase.loops) != 1 or not phase.reduces:
            return 1
        return order.kernel_parts(phase.loops[0].extent)


def walk(roots: Sequence[Expr]) -> Iterator[Expr]:
    """Every expression below `roots` once, arguments first."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        e, done = stack.pop()
        if done:
            yield e
            continue
        if e in seen:
            continue
        seen.add(e)
        stack += [(e, True), *[(a, False) for a in reversed(children(e))]]


def children(e: Expr) -> list[Expr]:
    """Arguments of an expression, those inside its indices included."""
    index = _index_of(e)
    return list(e.args) if index is None else [
        *e.args, *(a.expr for a in leaves(index) if isinstance(a, Dyn))]


def _index_of(e: Expr) -> Index | None:
    if e.op == "load":
        offset: Index = e.payload.offset
        return offset
    return e.payload if e.op == "index" else None


def rewrite(roots: Sequence[Expr], change: Callable[[Index], Index]) -> dict[int, Expr]:
    """Rebuild expressions with every index changed; `id(old) -> new`."""
    table: dict[int, Expr] = {}

    def fix(index: Index) -> Index:
        out = Index((), index.const)
        for atom, c in index.terms:
            if isinstance(atom, Dyn):
                out = out + Index.of(Dyn(table[id(atom.expr)], atom.lo, atom.hi)) * c
            elif isinstance(atom, Quot):
                out = out + (fix(atom.of) // atom.by) * c
            elif isinstance(atom, Rem):
                out = out + (fix(atom.of) % atom.by) * c
            else:
                out = out + Index.of(atom) * c
        return change(out)

    for e in walk(roots):
        args = tuple(table[id(a)] for a in e.args)
        if e.op == "load":
            a: Access = e.payload
            table[id(e)] = Expr("load", args, e.dtype, Access(a.buffer, fix(a.offset), a.part))
        elif e.op == "index":
            table[id(e)] = Expr("index", args, e.dtype, fix(e.payload))
        elif all(x is y for x, y in zip(args, e.args, strict=True)):
            table[id(e)] = e
        else:
            table[id(e)] = Expr(e.op, args, e.dtype, e.payload)
    return table


# --- merging of loops ----------------------------------------------------------------------------


def indices(nest: Nest) -> list[Index]:
    """Every index of the nest: loads, stores and index values."""
    out = [i for e in walk(list(nest.roots())) if (i := _index_of(e)) is not None]
    out += [s.offset for phase in nest.phases for s in phase.stores]
    return out


def merge_rows(nest: Nest, keep_last: bool) -> None:
    """Merge adjacent row variables wherever every index allows it.

    Two variables a, b (extent of b: e) merge if each index has coefficient(a) == e *
    coefficient(b) and neither occurs inside a division or run-time index.
    """
    rows = [v for v in nest.rows if v.extent != 1]
    used = indices(nest)
    i = len(rows) - 2
    while i >= 0:
        a, b = rows[i], rows[i + 1]
        if (keep_last and i + 1 == len(rows) - 1) or not _mergeable(used, a, b):
            i -= 1
            continue
        merged = Var(f"{a.name}{b.name}", a.extent * b.extent)
        table = {a: Index((), 0), b: Index.of(merged)}
        _substitute(nest, table)
        rows[i : i + 2] = [merged]
        used = indices(nest)
        i = min(i, len(rows) - 2)
    nest.rows = tuple(rows)


def _mergeable(used: Sequence[Index], a: Var, b: Var) -> bool:
    for index in used:
        for level in _levels(index):
            table = dict(level.terms)
            if table.get(a, 0) != table.get(b, 0) * b.extent:
                return False
    return True


def _levels(index: Index) -> Iterator[Index]:
    """An index and every index inside its divisions."""
    yield index
    for atom, _ in index.terms:
        if isinstance(atom, (Quot, Rem)):
            yield from _levels(atom.of)


def _substitute(nest: Nest, table: dict[Var, Index]) -> None:
    new = rewrite(list(nest.roots()), lambda i: substitute(i, table))
    for phase in nest.phases:
        for s in phase.stores:
            s.value, s.offset = new[id(s.value)], substitute(s.offset, table)
        for r in phase.reduces:
            r.value = new[id(r.value)]


# --- text ------------------------------------------------------------------------------------


def print_nest(nest: Nest, names: Callable[[Any], str] | None = None) -> str:
    """The nest as readable text (for dumps). `names`: what buffers are called; "" for a number."""
    return _Printer(names).nest(nest)


class _Printer:
    def __init__(self, names: Callable[[Any], str] | None) -> None:
        self.names = names
        self.numbers: dict[Any, int] = {}
        self.shown: dict[int, str] = {}

    def nest(self, nest: Nest) -> str:
        """The whole text."""
        lines = [f"nest {nest.mode} rows({_loops(nest.rows)})"]
        for phase in nest.phases:
            lines.append(f"  for ({_loops(phase.loops)})")
            lines += [f"    {line}" for line in self.phase(phase)]
        return "\n".join(lines) + "\n"

    def phase(self, phase: Phase) -> Iterator[str]:
        """The expressions in the order in which they are needed, then what becomes of them."""
        for e in walk([s.value for s in phase.stores] + [r.value for r in phase.reduces]):
            if id(e) in self.shown:
                continue
            if e.op == "const":
                self.shown[id(e)] = repr(e.payload)
            else:
                text = self.expression(e)
                yield f"{self.fresh(e)}: {e.dtype.name} = {text}"
        for s in phase.stores:
            sign = "+=" if s.adds else "="
            place = f"{self.buffer(s.buffer)}[{self.index(s.offset)}]"
            yield f"{place} {sign} {self.shown[id(s.value)]}"
        for r in phase.reduces:
            value = self.shown[id(r.value)]
            yield f"{self.fresh(r.result)} = {r.kind} {value}"

    def expression(self, e: Expr) -> str:
        """One operation over names."""
        if e.op == "load":
            return f"{self.buffer(e.payload.buffer)}[{self.index(e.payload.offset)}]"
        if e.op == "index":
            return f"index {self.index(e.payload)}"
        name = e.payload if e.op == "cmp" else e.op
        return f"{name}({', '.join(self.shown[id(a)] for a in e.args)})"

    def fresh(self, e: Expr) -> str:
        """A new name for a value."""
        name = self.shown[id(e)] = f"t{len(self.shown)}"
        return name

    def buffer(self, buffer: Any) -> str:
        """The name of a buffer."""
        own: str = self.names(buffer) if self.names else getattr(buffer, "name", "")
        return own or f"b{self.numbers.setdefault(buffer, len(self.numbers))}"

    def index(self, index: Index) -> str:
        """An offset as a sum."""
        parts = [f"{c}*{self.atom(a)}" if c != 1 else self.atom(a) for a, c in index.terms]
        return "+".join([*parts, *([str(index.const)] if index.const or not parts else [])])

    def atom(self, atom: Any) -> str:
        """A part of an offset."""
        if isinstance(atom, Var):
            return atom.name
        if isinstance(atom, Dyn):
            return f"[{self.shown.get(id(atom.expr), '?')}]"
        return f"({self.index(atom.of)}){'//' if isinstance(atom, Quot) else '%'}{atom.by}"


def _loops(loops: Iterable[Var]) -> str:
    return ", ".join(f"{v.name}<{v.extent}" for v in loops)


def depends_on(e: Expr, memo: dict[int, frozenset[Var]]) -> frozenset[Var]:
    """The loop variables below an expression (refs depend on none: they belong to the row)."""
    stack = [e]
    while stack:
        x = stack[-1]
        if id(x) not in memo:
            below = children(x)
            missing = [c for c in below if id(c) not in memo]
            if missing:
                stack += missing
                continue
            index = _index_of(x)
            own = frozenset(a for a in leaves(index) if isinstance(a, Var)) \
                if index is not None else frozenset()
            memo[id(x)] = own.union(*(memo[id(c)] for c in below))
        stack.pop()
    return memo[id(e)]
