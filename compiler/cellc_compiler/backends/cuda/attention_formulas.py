"""The arithmetic of online attention between its products, as formulas of one element.

Of a row nest (scale, mask, softmax) and of the nest of its gradient, formulas are read that need no
whole row: what the softmax is taken of, what becomes of a weight, and the gradient of a score. They
are over the place of an element (matrix, query, key) and over what a kernel has there, the leaves
below. Floats of 16 bits are float32 in them: only products round. Where a constant mask hides
later keys from each query, it becomes a comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType, float32
from cellc_runtime.records import dataclass

from ...ir.graph import Value
from ...loops.expr import Access, Expr, compare, index_value
from ...loops.index import Dyn, Index, Quot, Var, substitute, unravel
from ...loops.nest import Nest, Scratch, children, walk
from ..masks import Array, constant_of, last_seen

SCORE, WEIGHT, DOT, ROW = (Expr("ref", (), float32, name)
                           for name in ("score", "weight", "dot", "row"))
"""Leaves: a score; its softmax; the product of the output's gradient and a value; the sum over a
row of weights times gradients."""
_HIDES = {dtypes.float16: -6e4}
_HIDES_OTHERS = -1e9
"""A score that a mask makes as low as this has no weight next to one that it leaves."""


class Unfit(Exception):
    """A nest is not of the kind that is computed online."""


@dataclass(frozen=True, slots=True)
class External:
    """A buffer that formulas read, by its number."""

    number: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Formulas:
    """The formulas of an element."""

    place: tuple[Var, Var, Var]  # the variables of the matrix, the query and the key
    softmax_of: Expr  # what the softmax is taken of, by `SCORE`
    weigh: Expr  # what the values are multiplied with, by `WEIGHT`
    # of the score, by `WEIGHT`, `DOT` and `ROW` (and `SCORE`); None without one
    gradient: Expr | None
    drops: bool  # whether `weigh` leaves weights out, so that a row without any has zeros
    seen: int  # keys that the query at position i may look at are those below i + `seen`
    externals: tuple[External, ...]  # in the order of the kernel's pointers

    @property
    def key(self) -> tuple[Any, ...]:
        """Return the facts that kernels follow from, without identities."""
        roots = [e for e in (self.softmax_of, self.weigh, self.gradient) if e is not None]
        numbers: dict[int, int] = {}
        out: list[Any] = [tuple(v.extent for v in self.place), self.gradient is None, self.drops,
                          self.seen, self.externals]
        for e in walk(roots):
            numbers[id(e)] = len(numbers)
            out.append((e.op, tuple(numbers[id(a)] for a in e.args), e.dtype, repr(e.payload)))
        return (*out, *(numbers[id(e)] for e in roots))


class Reading:
    """Nests as expressions over one place, each distinct one once.

    Args:
        matrices, m, n: extents of the place.
    """

    def __init__(self, matrices: int, m: int, n: int) -> None:
        self.place = Var("matrix", matrices), Var("query", m), Var("key", n)
        self.values: list[Value] = []
        self.table: dict[Any, Expr] = {}

    def made(self, op: str, args: tuple[Expr, ...], dtype: DType, payload: Any = None) -> Expr:
        """The one expression of this form."""
        key = op, tuple(map(id, args)), dtype, repr(payload) if op == "const" else payload
        if key not in self.table:
            self.table[key] = Expr(op, args, dtype, payload)
        return self.table[key]

    def external(self, value: Value) -> External:
        """The number of a value that is read from memory."""
        if value not in self.values:
            self.values.append(value)
        return External(self.values.index(value), value.dtype)

    def nest(self, nest: Nest, own: Mapping[Any, Value], leaves: Mapping[Value, Expr]) -> Read:
        """Read the reductions and stores of a nest.

        Args:
            own: the values that its buffers are.
            leaves: what stands for loads of a value.

        Raises:
            Unfit: it is no row nest over the place.
        """
        matrix, query, key = map(Index.of, self.place)
        at = unravel(matrix * self.place[1].extent + query, tuple(v.extent for v in nest.rows))
        where = dict(zip(nest.rows, at, strict=True))
        found = Read(self, own, leaves, where)
        if nest.mode != "row" or nest.block or not nest.rows:
            raise Unfit
        for phase in nest.phases:
            if len(phase.loops) != 1 or phase.loops[0].extent != self.place[2].extent:
                raise Unfit
            where[phase.loops[0]] = key
            found.phase(phase)
        return found


class Read:
    """The reductions of a nest (kind, operand, and a reference to the result) and its stores; see
    `Reading.nest`."""

    def __init__(self, reading: Reading, own: Mapping[Any, Value], leaves: Mapping[Value, Expr],
                 where: dict[Var, Index]) -> None:
        self.reading, self.own, self.leaves, self.where = reading, own, leaves, where
        self.known: dict[int, Expr] = {}
        self.scratch: dict[Any, tuple[Index, Expr]] = {}
        self.reduces: list[tuple[str, Expr, Expr]] = []
        self.stores: dict[Value, Expr] = {}

    def phase(self, phase: Any) -> None:
        """Take in a phase."""
        for s in phase.stores:
            value, offset = self.expression(s.value), substitute(s.offset, self.where)
            if s.adds or s.part is not None:
                raise Unfit
            if isinstance(s.buffer, Scratch):
                self.scratch[s.buffer] = offset, value
            else:
                self.stores[self.own[s.buffer]] = value
        for r in phase.reduces:
            ref = Expr("ref", (), r.result.dtype, f"{r.kind}{len(self.reduces)}")
            self.reduces.append((r.kind, self.expression(r.value), ref))
            self.known[id(r.result)] = ref

    def expression(self, root: Expr) -> Expr:
        """An expression of the nest."""
        for e in walk([root]):
            if id(e) not in self.known:
                self.known[id(e)] = self._one(e)
        return self.known[id(root)]

    def _one(self, e: Expr) -> Expr:
        if len(children(e)) > len(e.args) or e.op in ("ref", "bitcast") \
                or e.dtype is dtypes.float64:
            raise Unfit  # a position that is found at run time, say
        args = tuple(self.known[id(a)] for a in e.args)
        if e.op == "load":
            return self._load(e, args)
        if e.op == "cast" and args[0].dtype is _wide(e.dtype):
            return args[0]
        payload = substitute(e.payload, self.where) if e.op == "index" else e.payload
        own = e.op.startswith(("short_exp", "normal_exp"))  # the kernel has its own
        op = "exp" if own else e.op
        return self.reading.made(op, args, _wide(e.dtype), payload)

    def _load(self, e: Expr, args: tuple[Expr, ...]) -> Expr:
        offset = substitute(e.payload.offset, self.where)
        if e.payload.part is not None:
            raise Unfit
        if isinstance(e.payload.buffer, Scratch):
            at, held = self.scratch.get(e.payload.buffer, (None, e))
            if at != offset:
                raise Unfit
            return held
        value = self.own[e.payload.buffer]
        if value in self.leaves:
            if offset != self._here() or args:
                raise Unfit
            return self.leaves[value]
        access = Access(self.reading.external(value), offset)
        raw = self.reading.made("load", args, e.dtype, access)
        wide = _wide(e.dtype)
        return raw if wide is e.dtype else self.reading.made("cast", (raw,), wide)

    def _here(self) -> Index:
        matrix, query, key = self.reading.place
        return (Index.of(matrix) * query.extent + Index.of(query)) * key.extent + Index.of(key)


def _wide(dtype: DType) -> DType:
    return float32 if dtype.is_float and dtype.itemsize == 2 else dtype


# --- the forms ------------------------------------------------------------------------------------


def softmax_of(read: Read) -> tuple[Expr, dict[Value, Expr], dict[Value, Expr]]:
    """Return the operand of a nest's softmax, its stores that depend on each weight, by `WEIGHT`,
    and its stores that depend on neither (a mask). These stores and the softmax's reductions leave
    `read`; in others `WEIGHT` stands for weights. Raises Unfit if it computes something else."""
    if [kind for kind, _, _ in read.reduces[:2]] != ["max", "sum"]:
        raise Unfit
    (_, x, largest), (_, e, total) = read.reduces[:2]
    made = read.reading.made
    if e is not made("exp", (made("sub", (x, largest), float32),), float32):
        raise Unfit
    table = {id(weight): WEIGHT for weight in (
        made("div", (e, total), float32),
        made("mul", (e, made("reciprocal", (total,), float32)), float32))}
    stores = {v: _replaced(read.reading, s, table) for v, s in read.stores.items()}
    read.reduces = [(kind, _replaced(read.reading, value, table), ref)
                    for kind, value, ref in read.reduces[2:]]
    if _leaves([x]) != {"score"}:
        raise Unfit
    weights, others = ({v: s for v, s in stores.items() if _leaves([s]) == of}
                       for of in ({"weight"}, set()))
    read.stores = {v: s for v, s in stores.items() if v not in weights and v not in others}
    return x, weights, others


def gradient_of(read: Read, weigh: Expr) -> Expr:
    """The gradient of a score, by `WEIGHT`, `DOT` and `ROW`.

    The sum of the row is that of the output's gradient times the output, if what it sums are
    weights as they are multiplied with values, times `DOT`. Raises Unfit if it is no softmax's.
    """
    if [kind for kind, _, _ in read.reduces] != ["sum"] or len(read.stores) != 1:
        raise Unfit
    (_, summed, total), = read.reduces
    if summed.op != "mul":
        raise Unfit
    sides = sorted(summed.args, key=lambda e: "dot" in _leaves([e]))
    steps = _steps(sides[0], WEIGHT), _steps(sides[1], DOT), _steps(weigh, WEIGHT)
    if Counter([*steps[0], *steps[1]]) != Counter(steps[2]):
        raise Unfit
    (stored,) = read.stores.values()
    out = _replaced(read.reading, stored, {id(total): ROW})
    if not _leaves([out]) <= {"weight", "dot", "row"}:
        raise Unfit
    return out


def _steps(e: Expr, leaf: Expr) -> list[tuple[Any, ...]]:
    """By what a leaf is multiplied, factor by factor: a zero or one by a condition, or a number."""
    out: list[tuple[Any, ...]] = []
    while e is not leaf:
        name = leaf.payload
        inner = [a for a in e.args if name in _leaves([a])]
        if len(inner) != 1:
            raise Unfit
        rest = [a for a in e.args if a is not inner[0]]
        if e.op == "select" and e.args[0] is not inner[0] and _is_zero(rest[-1]):
            out.append(("select", id(e.args[0]), e.args[1] is inner[0]))
        elif e.op == "mul" or (e.op == "div" and e.args[0] is inner[0]):
            out.append((e.op, id(rest[0])))
        else:
            raise Unfit
        e = inner[0]
    return out


def _is_zero(e: Expr) -> bool:
    return e.op == "const" and e.payload == 0


def _leaves(roots: Sequence[Expr]) -> set[str]:
    """The names of all references below."""
    return {e.payload for e in walk(roots) if e.op == "ref"}


def _replaced(reading: Reading, root: Expr, table: Mapping[int, Expr]) -> Expr:
    """An expression with others in the place of some."""
    done = dict(table)
    for e in walk([root]):
        if id(e) not in done:
            args = tuple(done[id(a)] for a in e.args)
            same = all(a is b for a, b in zip(args, e.args, strict=True))
            done[id(e)] = e if same else reading.made(e.op, args, e.dtype, e.payload)
    return done[id(root)]


# --- masks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hidden:
    """A constant mask: its condition, whether it hides where true, and how many keys are seen;
    `exactly` if each query sees just the keys below its own position and that number."""

    condition: Expr
    where: bool
    seen: int
    exactly: bool


def formulas_of(reading: Reading, x: Expr, weigh: Expr, gradient: Expr | None, dtype: DType,
                memo: dict[Any, Any]) -> Formulas:
    """The formulas of one attention, as kernels take them.

    Args:
        x, weigh, gradient: see `Formulas`.
        dtype: of the scores.
        memo: keeps what is found of masks.
    """
    hidden = _hidden_by_constant(reading, x, dtype, memo)
    seen = reading.place[2].extent
    if hidden is not None:
        seen = hidden.seen
        # Where a mask hides keys, they have no weights that it could leave out once more.
        steps = _steps(weigh, WEIGHT)
        if steps == [("select", id(hidden.condition), not hidden.where)]:
            weigh = WEIGHT
        if hidden.exactly:
            _, query, key = map(Index.of, reading.place)
            later = compare("ge" if hidden.where else "lt", index_value(key),
                            index_value(query + seen))
            table = {id(hidden.condition): later}
            x, weigh = _replaced(reading, x, table), _replaced(reading, weigh, table)
            gradient = gradient and _replaced(reading, gradient, table)
    roots = [e for e in (x, weigh, gradient) if e is not None]
    used = {e.payload.buffer for e in walk(roots) if e.op == "load"}
    drops = any(step[0] == "select" for step in _steps(weigh, WEIGHT))
    return Formulas(reading.place, x, weigh, gradient, drops, seen,
                    tuple(sorted(used, key=lambda b: b.number)))


def _hidden_by_constant(
    reading: Reading, x: Expr, dtype: DType, memo: dict[Any, Any]
) -> _Hidden | None:
    """The first of the masks around a score that is constant, if it leaves each query a key."""
    lowest = _HIDES.get(dtype, _HIDES_OTHERS)
    while x.op == "select":
        condition, *ways = x.args
        fills = [w for w in ways if w.op == "const" and w.payload <= lowest]
        if len(fills) != 1:
            return None
        where = fills[0] is ways[0]
        found = _looked_at(reading, condition, where, memo)
        if found is not None:
            return _Hidden(condition, where, *found)
        x = ways[1] if where else ways[0]
    return None


def _looked_at(
    reading: Reading, condition: Expr, where: bool, memo: dict[Any, Any]
) -> tuple[int, bool] | None:
    """How many keys queries see, and whether just those; None of a mask that is not constant or
    leaves a query none."""
    m, n = (v.extent for v in reading.place[1:])
    read = {e.payload.buffer.number for e in walk([condition]) if e.op == "load"}
    key = ("hidden", where, m, n, tuple(reading.values[i] for i in sorted(read)),
           tuple((e.op, e.dtype, repr(e.payload)) for e in walk([condition])))
    if key not in memo:
        array = _evaluated(reading, condition)
        memo[key] = None
        if array is not None:
            hides = np.broadcast_to(array == where, (m, n))
            if not hides.all(1).any():
                seen = min(last_seen(hides), n)
                triangle = np.arange(n) >= np.arange(m)[:, None] + seen
                memo[key] = seen, bool(np.array_equal(hides, triangle))
    found: tuple[int, bool] | None = memo[key]
    return found


_OPS: dict[str, Callable[..., Array]] = {
    "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert, "add": np.add,
    "sub": np.subtract, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}


def _evaluated(reading: Reading, condition: Expr) -> Array | None:
    """A condition for all queries and keys, if it follows from constants and their places."""
    found: dict[int, Array] = {}
    for e in walk([condition]):
        name = e.payload if e.op == "cmp" else e.op
        if e.op == "const":
            found[id(e)] = np.asarray(e.payload)
        elif e.op == "index" or (e.op == "load" and not e.args):
            own = _element(reading, e)
            if own is None:
                return None
            found[id(e)] = own
        elif name in _OPS and (e.op == "cmp" or not e.dtype.is_float):
            found[id(e)] = _OPS[name](*(found[id(a)] for a in e.args))
        else:
            return None
    return found[id(condition)]


def _element(reading: Reading, e: Expr) -> Array | None:
    """A place or an element of a constant, for all queries and keys."""
    if e.op == "index":
        return _places(reading, e.payload)
    array = constant_of(reading.values[e.payload.buffer.number])
    at = _places(reading, e.payload.offset)
    return None if array is None or at is None else array.reshape(-1)[at]


def _places(reading: Reading, index: Index) -> Array | None:
    """An index for all queries and keys; None if it depends on the matrix."""
    matrix, query, key = reading.place
    at = {query: np.arange(query.extent)[:, None], key: np.arange(key.extent)[None]}
    total = np.asarray(index.const)
    for atom, c in index.terms:
        if isinstance(atom, (Var, Dyn)):
            own = None if not isinstance(atom, Var) or atom == matrix else at[atom]
        else:
            inner = _places(reading, atom.of)
            own = None if inner is None else (
                inner // atom.by if isinstance(atom, Quot) else inner % atom.by)
        if own is None:
            return None
        total = total + own * c
    return total
