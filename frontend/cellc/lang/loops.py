"""Loops of which only the run knows the trips: a `while` of the graph. (`rolling` has the others.)

The carried values of a run-time loop are found by tracing its body: names assigned in the body that
are live at its head or after it, and any place that the body changes. If a trace shows that more
must be carried (or a number must be of another element type), it is thrown away and repeated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass, field, replace

from ..calls.pieces import OBJECT
from ..tensors.tensor import Tensor, ir_type
from ..tensors.views import perhaps
from ..tracing.numbers import DTYPES, Kind, kind_of
from ..tracing.pytree import RunObject
from ..tracing.tracer import Entered, Region
from . import regions
from .analysis import Names, assigned
from .asking import answer, avoidable, inside, is_asked
from .assignment import assign_to
from .control import DEAD, Known, condition, ends_here, logical, truth, under
from .errors import CompileError
from .journal import Change, Element, Slot, Variable, unchanged
from .outcome import BREAK, CONTINUE, DONE, NEXT, RETURN, Outcome
from .pieces import operations
from .values import (
    MISSING,
    Later,
    MergeError,
    Poison,
    RuntimeRange,
    as_tensor,
    describe,
    fits,
    flatten,
    is_number,
    join_types,
    number_dtype,
    restored,
    same_constant,
    same_structure,
    skeleton,
)

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

Loop = ast.While | ast.For
ATTEMPTS = 12  # Traces of one loop body before its state is taken not to settle


def live_around(node: Loop, frame: Frame) -> Names:
    """The variables that are live at the head of a loop or after it."""
    facts = frame.source.live
    return facts.head.get(node, frozenset()) | facts.after.get(node, frozenset())


def finish(vm: Interpreter, node: Loop, outcome: Outcome, frame: Frame) -> Outcome:
    """After the last iteration: `else` unless the loop was broken off."""
    if not node.orelse or not outcome.falls:
        return outcome.without(BREAK)
    if not outcome.mixed:
        return vm.block(node.orelse, frame)
    live = frame.source.live.after[node.orelse[-1]]
    # A `break` in `else` belongs to the loop around this one.
    ended = outcome.rename(BREAK, DONE)
    return under(
        vm, node, ended, frame, lambda: vm.block(node.orelse, frame), live
    ).without(DONE)


PEELED = 16  # Iterations with a run-time `break` that are unrolled before the rest becomes a loop


def while_statement(vm: Interpreter, node: ast.While, frame: Frame) -> Outcome:
    """`while test: ... else: ...`, unrolled as long as the test is known."""
    return _while(vm, node, frame, PEELED)


def _while(vm: Interpreter, node: ast.While, frame: Frame, peel: int) -> Outcome:
    while True:
        vm.check_work(frame, node)
        known = _trial(vm, node.test, frame)
        if known is None:
            known = _asked(vm, node, frame)
        if known is None:
            return _graph_while(vm, node, frame)
        if not known:
            return finish(vm, node, NEXT, frame)
        outcome = vm.block(node.body, frame).without(CONTINUE)
        if outcome.mixed:
            return _rest_of_while(vm, node, outcome, frame, peel)
        if not outcome.falls:
            return finish(vm, node, outcome, frame)


def _asked(vm: Interpreter, node: ast.While, frame: Frame) -> bool | None:
    """The truth of a loop's test in this trip, if the run is asked for it; else None."""
    if not is_asked(vm, node, frame):
        return None
    known = condition(vm, node.test, frame)
    return known if isinstance(known, bool) else answer(vm, known, node, frame)


def _graph_while(vm: Interpreter, node: ast.While, frame: Frame) -> Outcome:
    def test() -> Known:
        return condition(vm, node.test, frame)

    return RuntimeLoop(vm, node, frame, test, lambda: vm.block(node.body, frame)).run()


def _rest_of_while(
    vm: Interpreter, node: ast.While, outcome: Outcome, frame: Frame, peel: int
) -> Outcome:
    """After an iteration that may have been broken off: the others, if it was not."""
    endless = isinstance(node.test, ast.Constant)

    def again() -> Outcome:
        if is_asked(vm, node, frame):
            return _while(vm, node, frame, peel)
        if endless or not peel:
            return _graph_while(vm, node, frame)
        return _while(vm, node, frame, peel - 1)

    # `else` runs inside, in the path that was not broken off.
    ended = outcome.rename(BREAK, DONE)
    return under(vm, node, ended, frame, again, live_around(node, frame)).without(DONE)


def _trial(vm: Interpreter, test: ast.expr, frame: Frame) -> bool | None:
    """The truth of a test, or None (and no trace left) if only the run knows it."""
    mark = regions.mark(vm.tracer)
    journal = vm.open_journal(frame)
    known: Known | None = None
    try:
        known = condition(vm, test, frame)
    finally:
        changes = vm.close_journal(journal)
    if not isinstance(known, bool):
        regions.rewind(vm.tracer, mark)
        return None
    for change in changes.values():
        vm.note(change.slot)
        change.slot.put(change.new)
    return known


def runtime_range(
    vm: Interpreter, node: ast.For, source: RuntimeRange, frame: Frame,
    element: Callable[[Any], Any] | None = None,
) -> Outcome:
    """A `for` over a range whose bounds only the run knows: a while loop with a counter.

    Args:
        element: what the target is for a number of the range; None: the number.
    """
    counter = f".range{node.lineno}"
    frame.table[counter] = source.start

    def test() -> Known:
        i = frame.table[counter]
        return truth(vm, i < source.stop if source.step > 0 else i > source.stop, frame)

    def body() -> Outcome:
        i = frame.table[counter]
        assign_to(vm, node.target, i if element is None else element(i), frame)
        vm.note(Variable(frame.table, frame.lines, counter))
        frame.table[counter] = i + source.step
        return vm.block(node.body, frame)

    return RuntimeLoop(vm, node, frame, test, body, counter).run()


# --- loops of the graph -------------------------------------------------------------------------


@dataclass(slots=True)
class Carried:
    """A place the loop carries: its value on entry, split into leaves."""

    slot: Slot
    value: Any
    leaves: list[Any] = field(default_factory=list)
    # types, kinds: of the leaves in the loop; a kind for those that are numbers there
    types: list[TensorType] = field(default_factory=list)
    kinds: list[Kind | None] = field(default_factory=list)
    held: bool = False  # it is an object of the run in the loop, whatever it is


class Retry(Exception):
    """The trace showed that the loop must carry more, or other types."""


class RuntimeLoop:
    """One `while` of the graph.

    Args:
        test, body: interpret the condition and the body.
        counter: name of a hidden loop variable.
    """

    def __init__(
        self, vm: Interpreter, node: Loop, frame: Frame, test: Callable[[], Known],
        body: Callable[[], Outcome], counter: str = "",
    ) -> None:
        self.vm, self.node, self.frame = vm, node, frame
        self.test, self.body = test, body
        self.replay = False
        self.live = live_around(node, frame) | frame.source.live.captured | {counter}
        self.carried: dict[Hashable, Carried] = {}
        self.parameters: list[Tensor] = []
        self.kinds: frozenset[str] = frozenset()
        self.returned: Any = MISSING
        self.local: dict[Hashable, Change] = {}
        names = (assigned([node]) & self.live) | ({counter} if counter else set())
        for name in sorted(names):
            value = frame.table.get(name, MISSING)
            if self._starts(value):
                self._carry(Variable(frame.table, frame.lines, name), value)

    def _starts(self, value: Any) -> bool:
        """Whether a variable that the loop assigns is carried before it is seen to change."""
        return isinstance(value, Tensor) or is_number(value)

    def _carry(self, slot: Slot, value: Any) -> None:
        item = Carried(slot, value)
        flatten(value, item.leaves, True)
        item.types = [
            ir_type(v) if isinstance(v, Tensor) else TensorType((), number_dtype(v))
            for v in item.leaves
        ]
        item.kinds = [kind_of(v) for v in item.leaves]
        self.carried[slot.key()] = item

    def run(self) -> Outcome:
        for _ in range(ATTEMPTS):
            saved = regions.snapshot(self.vm.tracer)
            errors = len(self.vm.errors)
            try:
                return self._trace()
            except Retry:
                regions.restore(self.vm.tracer, saved)
                del self.vm.errors[errors:]
        raise self.vm.error(
            "CE205", TypeError, "the state of the loop does not settle", self.frame, self.node,
            hint="give every variable its final shape and dtype before the loop",
        )

    # --- tracing ---------------------------------------------------------------------------------

    def _inputs(self) -> tuple[list[tuple[Any, TensorType]], int]:
        """Entry values with types: the places' leaves, jump flags, the returned value's leaves."""
        entry: list[tuple[Any, TensorType]] = []
        for item in self.carried.values():
            entry += zip(item.leaves, item.types, strict=True)
        state = len(entry)
        for _ in self.kinds:
            entry.append((False, TensorType((), number_dtype(False))))
        leaves: list[Any] = []
        if self.returned is not MISSING:
            flatten(self.returned, leaves, False)
        entry += [(MISSING, ir_type(v)) for v in leaves]
        return entry, state

    def _trace(self) -> Outcome:
        vm, tracer = self.vm, self.vm.tracer
        entry, state = self._inputs()
        vm.at(self.node, self.frame)
        init = [as_tensor(v, ty) for v, ty in entry]
        types = [ty for _, ty in entry] + [ir_type(p) for p in self.parameters]
        first = (*init, *self.parameters)
        with regions.opened(tracer, "while_test", types, Entered(first)) as (test_region, args), \
                inside(vm, self.frame, self.node):
            test, tested = self._in_loop(test_region, args, lambda: self._go_on(args, state))
        how = Entered(first, test, True, test_region)
        with regions.opened(tracer, "while_body", types, how) as (body_region, args), \
                inside(vm, self.frame, self.node):
            outcome, changes = self._in_loop(body_region, args, self._iterate)
        outcome = outcome.without(CONTINUE)
        self._check_test(test_region, tested)
        self._check_parameters(body_region)
        with tracer.reopened(body_region):
            new = self._outputs(outcome, changes, args)
        vm.at(self.node, self.frame)
        out = regions.close_while(tracer, init, self.parameters, (test_region, test),
                                  (body_region, new))
        return self._leave(out, state)

    def _in_loop(
        self, region: Region, args: list[Tensor], work: Callable[[], Any]
    ) -> tuple[Any, dict[Hashable, Change]]:
        """Run `work` with the carried places set to the region's inputs; what it changed."""
        vm = self.vm
        count = len(args) - len(self.parameters)
        vm.tracer.enter_parameters(region, self.parameters, args[count:])
        outside = vm.open_journal(self.frame)
        try:
            self._set(args)
            entered = vm.open_journal(self.frame)
            for item in self.carried.values():
                if isinstance(item.slot, Element):  # it looks as if it were made in this region
                    vm.note(item.slot)
            try:
                result = work()
            finally:
                changes = vm.close_journal(entered)
        finally:
            vm.close_journal(outside)
        vm.frame = self.frame
        return result, changes

    def _set(self, args: list[Tensor]) -> None:
        at = 0
        for item in self.carried.values():
            leaves: list[Any] = []
            build = flatten(item.value, leaves, True)
            self.vm.note(item.slot)
            given = restored(args[at : at + len(leaves)], item.kinds)
            for new, source in zip(given, item.leaves, strict=True):
                perhaps(new, source, None)
            item.slot.put(build(given))
            at += len(leaves)

    def _go_on(self, args: list[Tensor], state: int) -> Tensor:
        """The test of the graph's loop: no jump yet, and the condition holds."""
        known = self._tested()
        for i in range(len(self.kinds)):
            known = logical("and", known, logical("not", args[state + i]))
        return known if isinstance(known, Tensor) else as_tensor(known, _BOOL)

    def _tested(self) -> Known:
        """The condition; False on a path that a run-time `raise` has ended."""
        found: list[Known] = []

        def run() -> Outcome:
            found.append(self.test())
            return NEXT

        ends_here(self.vm, run)
        return found[0] if found else False

    def _iterate(self) -> Outcome:
        def run() -> Outcome:
            if self.replay:
                self.test()
            return self.body()

        return ends_here(self.vm, run)

    # --- what leaves an iteration ----------------------------------------------------------------

    def _check_test(self, region: Region, changes: dict[Hashable, Change]) -> None:
        """A test that changes something is run again in the body and after the loop."""
        changed = region.assigned or not all(map(unchanged, changes.values()))
        if changed and not self.replay:
            self.replay = True
            raise Retry

    def _check_parameters(self, region: Region) -> None:
        known = set(map(id, self.parameters))  # (`in` a list would compare elements)
        found = [p for p in region.assigned if id(p) not in known]
        if found:
            self.parameters += dict.fromkeys(found)
            raise Retry

    def _outputs(
        self, outcome: Outcome, changes: dict[Hashable, Change], args: list[Tensor]
    ) -> list[Tensor]:
        self._find_new(outcome, changes)
        new: list[Tensor] = []
        gone = outcome.kinds <= {RETURN} and not outcome.falls
        for key, item in self.carried.items():
            change = changes.get(key)
            new += args[len(new) : len(new) + len(item.types)] if change is None \
                else self._leaves_of(item, change.new, gone)
        for kind in sorted(self.kinds):
            new.append(as_tensor(outcome.flag(kind), _BOOL))
        if RETURN in self.kinds:
            leaves: list[Any] = []
            flatten(outcome.value, leaves, False)
            new += leaves
        return new

    def _find_new(self, outcome: Outcome, changes: dict[Hashable, Change]) -> None:
        """Retry if the iteration changed something that is not carried yet."""
        again = bool(outcome.kinds - self.kinds)
        self.kinds |= outcome.kinds
        if RETURN in outcome.kinds and self.returned is MISSING:
            self.returned, again = outcome.value, True
        self.local = {}
        for key, change in changes.items():
            if key in self.carried or unchanged(change):
                continue
            slot = change.slot
            if isinstance(slot, Variable) and slot.table is self.frame.table and (
                change.old is MISSING or slot.name not in self.live
            ):
                self.local[key] = change
            elif not same_constant(change.old, change.new):
                self._carry(slot, change.old)
                again = True
        if again:
            raise Retry

    def _leaves_of(self, item: Carried, value: Any, gone: bool) -> list[Tensor]:
        """The leaves of a carried place after an iteration, checked against those before."""
        # (Dead: `else` of this loop assigns it, say, so what an iteration leaves is read nowhere.)
        if isinstance(item.slot, Variable) and (gone or value is DEAD):
            return [as_tensor(MISSING, ty) for ty in item.types]
        if isinstance(value, Poison):
            self.vm.poisoned(value, self.frame)
        if item.held:
            return [operations.held(self.vm, value, self.frame).handle]
        if not same_structure(skeleton(item.value, True), skeleton(value, True)):
            self._hold(item, value)
            raise self._unsteady(item, item.value, value)
        leaves: list[Any] = []
        flatten(value, leaves, True)
        out = []
        for i, (leaf, ty) in enumerate(zip(leaves, item.types, strict=True)):
            kind = item.kinds[i]
            if (isinstance(leaf, Tensor) and ir_type(leaf) != ty) or (
                kind is not None and kind_of(leaf) is not kind
            ):
                self._promote(item, i, leaf, value)
            try:
                join_types(as_tensor(MISSING, ty), leaf)
            except MergeError:
                raise self._unsteady(item, item.value, value) from None
            out.append(as_tensor(leaf, ty))
        return out

    def _hold(self, item: Carried, value: Any) -> None:
        """Carry an object of the run where another value becomes one, or the other way round."""
        known = next((v for v in (item.value, value) if type(v) is RunObject), None)
        if known is None or any(isinstance(v, Tensor) and kind_of(v) is None
                                for v in (item.value, value)):
            return
        entered = item.value
        item.leaves = [Later(lambda: operations.held(self.vm, entered, self.frame).handle)]
        item.value = RunObject(known.handle, replace(known.kind, cls=object))
        item.types, item.kinds, item.held = [OBJECT], [None], True
        raise Retry

    def _promote(self, item: Carried, index: int, leaf: Any, value: Any) -> None:
        """A number on entry takes the kind or the element type of what replaces it."""
        before, old, new = item.leaves[index], item.kinds[index], kind_of(leaf)
        if (old, new) == (int, float):
            item.types[index], item.kinds[index] = TensorType((), DTYPES[float]), float
            raise Retry
        if new is None and not (old is None and isinstance(before, Tensor)):
            if isinstance(leaf, Tensor) and leaf.shape == () and fits(before, leaf.dtype):
                item.types[index], item.kinds[index] = ir_type(leaf), None
                raise Retry
        elif new is not None and old is None and item.types[index].rank == 0:
            return  # a tensor whose place a number takes
        raise self._unsteady(item, item.value, value)

    def _unsteady(self, item: Carried, before: Any, after: Any) -> Exception:
        return avoidable(self.vm, self._changing(item, before, after), self.node)

    def _changing(self, item: Carried, before: Any, after: Any) -> CompileError:
        slot, frame = item.slot, self.frame
        if not isinstance(slot, Variable):
            return self.vm.error(
                "CE208", TypeError,
                f"{slot.label()} changes its structure in a loop whose number of iterations only "
                "the run knows", frame, self.node,
                hint="write into a tensor of fixed size: out[i] = value",
            )
        line = slot.lines.get(slot.name, 0)
        notes = [f"line {line}: {frame.source.text(line).strip()}"] if line else []
        return self.vm.error(
            "CE205", TypeError,
            f"'{slot.name}' enters an iteration as {describe(before)} and leaves it as "
            f"{describe(after)}, in a loop whose number of iterations only the run knows",
            frame, self.node, notes=notes,
            hint=f"give '{slot.name}' its final shape and dtype before the loop",
        )

    # --- after the loop --------------------------------------------------------------------------

    def _leave(self, out: list[Tensor], state: int) -> Outcome:
        vm, frame = self.vm, self.frame
        self._set(out)
        for change in self.local.values():
            slot = change.slot
            assert isinstance(slot, Variable)
            vm.note(slot)
            slot.put(self._only_inside(slot, change))
        kinds = sorted(self.kinds)
        flags = {k: out[state + i] for i, k in enumerate(kinds)}
        value: Any = MISSING
        if RETURN in flags:
            leaves: list[Any] = []
            build = flatten(self.returned, leaves, False)
            value = build(restored(out[state + len(kinds) :], [kind_of(v) for v in leaves]))
        outcome = Outcome(frozenset(kinds), flags, True, value, self.node) if kinds else NEXT
        if self.replay:  # the last test also assigned its variables
            outcome = under(vm, self.node, outcome, frame, self._last_test, self.live) \
                if outcome.mixed else self._last_test()
        return finish(vm, self.node, outcome, frame)

    def _last_test(self) -> Outcome:
        self.test()
        return NEXT

    def _only_inside(self, slot: Variable, change: Change) -> Poison:
        line = getattr(self.node, "lineno", 0)
        return Poison(
            "CE206", UnboundLocalError,
            f"'{slot.name}' is assigned only inside the loop at line {line}, which may not run",
            (f"line {change.line}: {self.frame.source.text(change.line).strip()}",),
            f"assign '{slot.name}' before the loop",
        )


_BOOL = TensorType((), number_dtype(False))
