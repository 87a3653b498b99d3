"""Run-time choice: conditions on tensors, and the `cond` of two interpreted paths."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..core.dispatch import apply
from ..core.module_names import is_exactly
from ..tensors.tensor import Tensor, elements_now
from ..tracing.numbers import as_number, kind_of
from ..tracing.pytree import RunObject
from ..tracing.state_numbers import StateNumber
from ..tracing.tracer import Entered, Region
from .analysis import Names, is_total
from .asking import answer, avoidable, inside, site
from .errors import CompileError
from .iteration import Walk
from .journal import Change, Slot, Variable, unchanged
from .outcome import NEVER, RETURN, Diverged, Outcome
from .pieces import operations
from .pieces.operations import held
from .protocols import checked
from .regions import opened
from .values import (
    MISSING,
    Build,
    MergeError,
    Merger,
    Poison,
    RuntimeRange,
    Text,
    always,
    as_tensor,
    is_runtime,
    like,
    same_constant,
    scalar,
)

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

Known = bool | Tensor
"""A truth value: known now, or a bool scalar of the graph."""


def truth(vm: Interpreter, value: Any, frame: Frame) -> Known:
    """The truth of a value: known now, or a bool scalar tensor.

    Raises:
        CompileValueError: a tensor with more than one element (CE401).
    """
    if vm.pieces is not None and is_exactly(value, (RunObject, Text)):
        return truth(vm, operations.truth(vm, value, frame), frame)
    if not isinstance(value, Tensor):
        for name in ("__bool__", "__len__"):
            found = vm.special(value, name)
            if found is not None:
                return truth(vm, checked(name, vm.call(found, [value], {}, frame)), frame)
        if isinstance(value, (RuntimeRange, Text)):
            raise TypeError("the truth of this value is not known while compiling")
        return bool(value)
    if isinstance(value, StateNumber):
        return bool(value)
    if value._type.size != 1:
        raise vm.error(
            "CE401", ValueError,
            f"the truth value of a tensor of shape {value.shape} is ambiguous", frame,
            hint="reduce it first: .any() or .all()",
        )
    if not is_runtime(value):
        return bool(elements_now(value).item())
    one: Tensor = apply("reshape", value, shape=()) if value.shape else value
    if one.dtype is not dtypes.bool_:
        one = apply("ne", one, scalar(0, one.dtype))
    return one


def as_bool(known: Known) -> Any:
    """A truth value as what `bool(...)` gives: a bool, or one of the graph."""
    return known if isinstance(known, bool) else as_number(known, bool)


def logical(op: str, a: Known, b: Known | None = None) -> Known:
    """`not a`, `a and b`, `a or b` of truth values."""
    if op == "not":
        out: Tensor | bool = (not a) if isinstance(a, bool) else apply("logical_not", a)
        return out
    assert b is not None
    if isinstance(a, bool):
        return b if a == (op == "and") else a
    if isinstance(b, bool):
        return a if b == (op == "and") else b
    both: Tensor = apply(f"logical_{op}", a, b)
    return both


def condition(vm: Interpreter, node: ast.expr, frame: Frame) -> Known:
    """The truth of an expression where only its truth matters (`if`, `while`, `assert`, ...)."""
    if isinstance(node, ast.BoolOp):
        return _all_or_any(vm, node, node.values, frame)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = condition(vm, node.operand, frame)
        vm.at(node, frame)
        return logical("not", inner)
    value = vm.eval(node, frame)
    vm.at(node, frame)
    return truth(vm, value, frame)


def _all_or_any(
    vm: Interpreter, node: ast.BoolOp, values: Sequence[ast.expr], frame: Frame
) -> Known:
    op = "and" if isinstance(node.op, ast.And) else "or"
    first, rest = condition(vm, values[0], frame), values[1:]
    if isinstance(first, bool):
        if not rest or first != (op == "and"):
            return first
        return _all_or_any(vm, node, rest, frame)
    if not rest:
        return first
    vm.at(node, frame)
    if all(is_total(v) for v in rest):
        return logical(op, first, _always_run(
            vm, node, frame, lambda: _all_or_any(vm, node, rest, frame)))
    # The operands after it may fail or have effects, so they run only if Python would run them.
    sides = (lambda: _all_or_any(vm, node, rest, frame)), (lambda: op == "or")
    found = choose(vm, node, first, frame, *(sides if op == "and" else sides[::-1]))
    return truth(vm, found, frame)


def _always_run(vm: Interpreter, node: ast.AST, frame: Frame, work: Callable[[], Any]) -> Any:
    """The value of operands that Python may leave out: they must change nothing."""
    before = len(vm.state.stores)
    value = work()
    if len(vm.state.stores) != before:
        raise vm.error(
            "CE404", TypeError, "an operand that changes Python objects would be evaluated under a "
            "condition known only at run time", frame, node, hint="write it as an if statement",
        )
    return value


def short_circuit(
    vm: Interpreter, node: ast.BoolOp, values: Sequence[ast.expr], frame: Frame
) -> Any:
    """`a and b`, `a or b` as Python values: one of the operands."""
    is_and = isinstance(node.op, ast.And)
    if not is_and and len(values) > 1 and _is_and(values[0]):
        return _and_or(vm, node, values[0], values[1:], frame)
    first = vm.eval(values[0], frame)
    if len(values) == 1:
        return first
    vm.at(node, frame)
    known, rest = truth(vm, first, frame), values[1:]
    if isinstance(known, bool):
        return short_circuit(vm, node, rest, frame) if known == is_and else first
    if first._type == known._type and all(is_total(v) for v in rest):
        second = _always_run(vm, node, frame, lambda: short_circuit(vm, node, rest, frame))
        vm.at(node, frame)
        if kind_of(first) is kind_of(second) and getattr(second, "_type", None) == known._type:
            return like(logical("and" if is_and else "or", known, second), first, second)
        if isinstance(second, bool):
            return like(logical("and" if is_and else "or", known, second), first)
        return choose(vm, node, known, frame, *_sides(is_and, lambda: second, lambda: first))
    later = lambda: short_circuit(vm, node, rest, frame)  # noqa: E731
    return choose(vm, node, known, frame, *_sides(is_and, later, lambda: first))


def _is_and(node: ast.expr) -> TypeGuard[ast.BoolOp]:
    return isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)


def _and_or(
    vm: Interpreter, node: ast.BoolOp, both: ast.BoolOp, rest: Sequence[ast.expr], frame: Frame
) -> Any:
    """`a and b or c`: what `a and b` gives where it is false is never the result, so `b` and `c`
    alone need a type in common."""
    known = truth(vm, vm.eval(both.values[0], frame), frame)

    def last() -> Any:
        return short_circuit(vm, node, rest, frame)

    def more() -> Any:
        inner = both.values[1:]
        if len(inner) == 1:
            return short_circuit(vm, node, [inner[0], *rest], frame)
        others = ast.copy_location(ast.BoolOp(both.op, inner), both)
        return _and_or(vm, node, others, rest, frame)

    vm.at(node, frame)
    if isinstance(known, bool):
        return more() if known else last()
    return choose(vm, node, known, frame, more, last)


def _sides(
    is_and: bool, second: Callable[[], Any], first: Callable[[], Any]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    return (second, first) if is_and else (first, second)


# --- two paths ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """One traced path: its region, how it ended, what it changed."""

    region: Region
    outcome: Outcome
    changes: dict[Hashable, Change]

    def gone(self) -> bool:
        """Whether the path surely left the function, so that its variables do not matter."""
        return self.outcome.kinds <= {RETURN} and not self.outcome.falls

    def never(self) -> bool:
        """Whether the path surely ended the whole call."""
        return not self.outcome.kinds and not self.outcome.falls


def choose(
    vm: Interpreter, node: ast.AST, pred: Known, frame: Frame,
    then: Callable[[], Any], other: Callable[[], Any],
) -> Any:
    """The value of one of two expressions, chosen now or at run time."""
    if isinstance(pred, bool):
        return then() if pred else other()
    ends = [lambda f=f: Outcome.returned(f(), node) for f in (then, other)]
    return fork(vm, node, pred, frame, ends[0], ends[1], None).value


def fork(
    vm: Interpreter, node: ast.AST, pred: Tensor, frame: Frame,
    then: Callable[[], Outcome], other: Callable[[], Outcome], live: Names | None,
) -> Outcome:
    """Interpret two paths from the same state and join them in a `cond`.

    Args:
        live: variables of the frame that are read afterwards; None for an expression, whose
            value is the outcome's.
    """
    asked = answer(vm, pred, node, frame)
    if asked is not None:
        return then() if asked else other()
    sides = []
    for name, run in (("then", then), ("else", other)):
        how = Entered(test=pred, wanted=name == "then")
        with opened(vm.tracer, name, entered=how) as (region, _), inside(vm, frame, node):
            saved = vm.open_journal(frame)
            changes: dict[Hashable, Change] = {}
            try:
                outcome = ends_here(vm, run)
            finally:
                changes = vm.close_journal(saved)
        sides.append(Side(region, outcome, changes))
    vm.frame = frame
    vm.at(node, frame)
    outcome = _Join(vm, node, frame, sides[0], sides[1], live).run(pred)
    if all(side.never() for side in sides):
        raise Diverged(len(vm.tracer.regions))
    return outcome


def ends_here(vm: Interpreter, run: Callable[[], Outcome]) -> Outcome:
    """The outcome of a path in a region of its own; NEVER if a run-time `raise` ends it."""
    depth = len(vm.tracer.regions)
    try:
        return run()
    except Diverged as e:
        if e.depth != depth:
            raise
        return NEVER


class _Join:
    """The merge of two sides into one state and one outcome."""

    def __init__(
        self, vm: Interpreter, node: ast.AST, frame: Frame, a: Side, b: Side, live: Names | None
    ) -> None:
        self.vm, self.node, self.frame, self.a, self.b, self.live = vm, node, frame, a, b, live
        self.merger = Merger(
            None if vm.pieces is None else lambda value: held(vm, value, frame))
        self.stores: list[tuple[Slot, Build, int]] = []

    def run(self, pred: Tensor) -> Outcome:
        kinds = self.a.outcome.kinds | self.b.outcome.kinds
        falls = self.a.outcome.falls or self.b.outcome.falls
        flags: dict[str, Build] = {}
        if len(kinds) + falls > 1:
            for k in sorted(kinds):
                flags[k] = self.merger.merge(self.a.outcome.flag(k), self.b.outcome.flag(k))
        value = self._value() if RETURN in kinds else None
        self._changes()
        results = self._close(pred)
        for slot, build, line in self.stores:
            self.vm.note(slot)
            slot.put(build(results))
            if isinstance(slot, Variable):
                slot.lines[slot.name] = line
        node = self.a.outcome.node or self.b.outcome.node
        return Outcome(
            kinds, {k: f(results) for k, f in flags.items()}, falls,
            MISSING if value is None else value(results), node,
        )

    def _close(self, pred: Tensor) -> list[Tensor]:
        tracer = self.vm.tracer
        built = []
        for side, index in ((self.a, 1), (self.b, 2)):
            with tracer.reopened(side.region):
                tensors = [as_tensor(pair[index], pair[0]) for pair in self.merger.pairs]
            built.append((side.region, tensors))
        regions = self.a.region, self.b.region
        if not self.merger.pairs and not any(r.graph.nodes or r.assigned for r in regions):
            return []
        return tracer.close_cond(pred, built)

    def _value(self) -> Build:
        values = [
            s.outcome.value if RETURN in s.outcome.kinds else MISSING for s in (self.a, self.b)
        ]
        try:
            return self.merger.merge(*values)
        except MergeError as e:
            error = self._value_error(e)
            raise (error if e.fixed else avoidable(self.vm, error, self.node)) from None

    def _value_error(self, e: MergeError) -> CompileError:
        vm, frame = self.vm, self.frame
        hint = e.hint
        if self.live is None:
            return vm.error(
                "CE204", TypeError, f"the two sides of a run-time choice differ: {e}", frame,
                self.node, hint=hint,
            )
        lines = sorted({
            getattr(s.outcome.node, "lineno", 0) for s in (self.a, self.b) if s.outcome.node
        })
        notes = [f"line {n}: {frame.source.text(n).strip()}" for n in lines]
        return vm.error(
            "CE402", TypeError,
            f"{frame.name}() returns different types, chosen at run time: {e}", frame, self.node,
            notes=notes, hint=hint,
        )

    def _changes(self) -> None:
        for key in {**self.a.changes, **self.b.changes}:
            a, b = self.a.changes.get(key), self.b.changes.get(key)
            known = a or b
            assert known is not None
            if (a is None or unchanged(a)) and (b is None or unchanged(b)):
                continue
            new_a = a.new if a is not None else known.old
            new_b = b.new if b is not None else known.old
            new_a = _ABSENT if self.a.never() else new_a
            new_b = _ABSENT if self.b.never() else new_b
            line = max(c.line for c in (a, b) if c is not None)
            if isinstance(known.slot, Variable):
                self._variable(known.slot, new_a, new_b, (a, b), line)
            else:
                self._object(known.slot, new_a, new_b)

    def _variable(
        self, slot: Variable, a: Any, b: Any, changes: tuple[Change | None, Change | None],
        line: int,
    ) -> None:
        own = slot.table is self.frame.table
        if own and self.live is not None:
            gone = self._gone(self.a), self._gone(self.b)
            if all(gone):
                return
            # (`live` is what the code below reads; a `break` or `continue` goes elsewhere.)
            jumps = (self.a.outcome.kinds | self.b.outcome.kinds) - {RETURN}
            if not jumps and slot.name not in self.live \
                    and slot.name not in self.frame.source.live.captured:
                self.stores.append((slot, always(DEAD), line))
                return
            a, b = (_ABSENT if is_gone else v for is_gone, v in zip(gone, (a, b), strict=True))
        self.stores.append((slot, self._merge_variable(slot, a, b, changes), line))

    def _gone(self, side: Side) -> bool:
        """Whether nobody reads the variables after a path: it left the function, and no `finally`
        runs before that."""
        return side.gone() and (not self.frame.finals or side.never())

    def _merge_variable(
        self, slot: Variable, a: Any, b: Any, changes: tuple[Change | None, Change | None]
    ) -> Build:
        # (A variable that no code reads after one side may be read after the other: a `break`.)
        a, b = (_ABSENT if v is DEAD else v for v in (a, b))
        if a is _ABSENT and b is _ABSENT:
            return always(DEAD)
        for x, y in ((a, b), (b, a)):
            if x is _ABSENT:
                return self.merger.merge(*((MISSING, y) if x is a else (y, MISSING)))
        for value in (a, b):
            if isinstance(value, Poison):
                return always(value)
        if a is MISSING or b is MISSING:
            return always(self._one_sided(slot, a is MISSING, changes))
        before = len(self.merger.pairs)
        try:
            return self.merger.merge(a, b)
        except MergeError as e:
            del self.merger.pairs[before:]
            return always(self._different(slot, e, changes))

    def _lines(self, name: str, changes: tuple[Change | None, Change | None]) -> tuple[str, ...]:
        notes = []
        for change, which in zip(changes, ("holds", "does not hold"), strict=True):
            if change is not None and change.line:
                text = self.frame.source.text(change.line).strip()
                notes.append(f"line {change.line}, if it {which}: {text}")
        return tuple(notes)

    def _condition(self) -> str:
        return f"the condition at line {getattr(self.node, 'lineno', 0)}"

    def _one_sided(
        self, slot: Variable, first: bool, changes: tuple[Change | None, Change | None]
    ) -> Poison:
        when = "does not hold" if first else "holds"
        return Poison(
            "CE203", UnboundLocalError,
            f"'{slot.name}' is defined only if {self._condition()} {when}, and that is known only "
            "at run time",
            self._lines(slot.name, changes), f"assign '{slot.name}' in both branches or before",
        )

    def _different(
        self, slot: Variable, e: MergeError, changes: tuple[Change | None, Change | None]
    ) -> Poison:
        return Poison(
            "CE204", TypeError,
            f"'{slot.name}' depends on {self._condition()}, known only at run time, and its two "
            f"values differ in more than elements: {e}",
            self._lines(slot.name, changes), e.hint, None if e.fixed else self._site(),
        )

    def _site(self) -> Hashable:
        return self.vm.sites[0] if self.vm.sites else site(self.frame, self.node)

    def _object(self, slot: Slot, a: Any, b: Any) -> None:
        reached = a is not _ABSENT and b is not _ABSENT
        if reached and isinstance(slot, Walk) and not same_constant(a, b):
            self.stores.append((slot, always(MISSING), 0))  # an error, if it is asked for more
            return
        if not reached:
            a, b = (MISSING if v is _ABSENT else v for v in (a, b))
        try:
            self.stores.append((slot, self.merger.merge(a, b), 0))
        except MergeError as e:
            raise avoidable(self.vm, self.vm.error(
                "CE208", TypeError,
                f"{slot.label()} is changed under a condition known only at run time: {e}",
                self.frame, self.node,
                hint="keep its structure the same in both branches",
            ), self.node) from None


class _Absent:
    """The variable of a path that left the function: any value will do."""


_ABSENT: Any = _Absent()
DEAD = Poison("CE203", UnboundLocalError, "the variable has no value here")


def under(
    vm: Interpreter, node: ast.AST, outcome: Outcome, frame: Frame,
    rest: Callable[[], Outcome], live: Names,
) -> Outcome:
    """Go on with `rest` where a mixed outcome falls through; the joined outcome."""
    if not outcome.falls:
        return outcome
    jumped: Known = False
    for kind in sorted(outcome.kinds):
        jumped = logical("or", jumped, outcome.flag(kind))
    assert isinstance(jumped, Tensor)
    return fork(vm, node, jumped, frame, outcome.jumps, rest, live)
