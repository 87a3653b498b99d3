"""`for` over what is known now: unrolled, or, where many trips do the same, one `scan`.

The first trip of a long loop is traced as it is. Then one more trip is traced for all the others,
with the loop's variable standing for a number (or a row) per trip; if nothing in it depends on
which trip it is but such numbers and rows, the rest of the loop becomes a `scan` of that body. Its
carried values are found as for run-time loops. If anything speaks against it (another structure
after a trip, a list that grows, a number that is compared, `break`), the trace is thrown away and
the loop is unrolled, so rolling changes nothing but the size of the graph: bits and gradients are
those of the unrolled loop (`stepwise`, see `cellc_compiler.ops.control.Scan`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.graph import Value

from ..core import watching
from ..core.module_names import is_exactly
from ..tensors.tensor import Tensor, ir_type, tensor_of
from ..tracing.pytree import RunObject
from ..tracing.tracer import GraphTensor, Region, Tracer
from . import regions, runtime_errors
from .analysis import read_first
from .asking import is_asked
from .assignment import assign_to
from .control import DEAD, under
from .errors import Cascade, CompileError
from .iteration import Elements, Rows, Walk, ahead, asked_range, walk
from .journal import Change, Content, Slot, Variable, same_elements, unchanged
from .loops import RuntimeLoop, finish, live_around, runtime_range
from .outcome import CONTINUE, NEXT, Diverged, NotRollable, Outcome
from .per_trip import PerTrip
from .pieces import operations
from .values import RuntimeRange, as_tensor

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

SHORTEST = 32  # Trips from which on a loop may be rolled
LEAST_NODES = 400
"""Nodes that unrolling would make from which on it is rolled: few nodes fuse into few kernels."""


def for_statement(vm: Interpreter, node: ast.For, frame: Frame) -> Outcome:
    """`for target in iterable: ... else: ...`"""
    source = vm.eval(node.iter, frame)
    vm.at(node.iter, frame)
    if isinstance(source, RuntimeRange):
        if not is_asked(vm, node, frame):
            return runtime_range(vm, node, source, frame)
        source = asked_range(vm, source)
    if type(source) is RunObject:
        found, element = operations.trips(vm, source, frame)
        if isinstance(found, RuntimeRange):
            return runtime_range(vm, node, found, frame, element)
        source = Elements(vm, found)
    live = live_around(node, frame)
    outcome = NEXT
    elements = walk(vm, source)
    before, first = _size(vm), True
    for element in elements:
        vm.check_work(frame, node)
        outcome = under(vm, node, outcome, frame, _iteration(vm, node, element, frame), live) \
            if outcome.mixed else _iteration(vm, node, element, frame)()
        if not outcome.falls:
            break
        if first and outcome is NEXT and _rest_as_one(
            vm, node, (source, elements), element, _size(vm) - before, frame
        ):
            break
        first = False
    return finish(vm, node, outcome, frame)


def _iteration(
    vm: Interpreter, node: ast.For, element: Any, frame: Frame
) -> Callable[[], Outcome]:
    def run() -> Outcome:
        assign_to(vm, node.target, element, frame)
        return vm.block(node.body, frame).without(CONTINUE)

    return run


def _size(vm: Interpreter) -> int:
    return len(vm.tracer.regions[-1].graph.nodes)


def _rest_as_one(
    vm: Interpreter, node: ast.For, walked: tuple[Any, Walk], first: Any, nodes: int,
    frame: Frame,
) -> bool:
    """Do all trips but the first as one loop of the graph, if that is worth it and they allow it.

    Args:
        walked: what the loop is over, and the walk, which has given `first` only.
        nodes: those that the first trip made.
    """
    source, elements = walked
    if vm.collect or not nodes or watching.active:  # (each trip has Cells of its own)
        return False
    if isinstance(source, Tensor):
        known: Sequence[Any] = Rows(source)
        boxes: list[Sequence[Any]] = []
    else:
        found = ahead(elements)
        if found is None:
            return False
        known, boxes = [first, *found[0]], found[1]
    if len(known) < SHORTEST or len(known) * nodes < LEAST_NODES:
        return False
    if not roll(vm, node, known, boxes, frame):
        return False
    elements.end()
    return True


def roll(
    vm: Interpreter, node: ast.For, elements: Sequence[Any], boxes: Sequence[Sequence[Any]],
    frame: Frame,
) -> bool:
    """Do all trips but the first as one loop of the graph; False (and no trace left) if they
    are not alike.

    Args:
        boxes: the sequences that give the elements, which no trip may change.
    """
    saved = regions.snapshot(vm.tracer)
    journal = vm.open_journal(frame)
    errors, state = len(vm.errors), (vm.catching, vm.tidying, vm.try_region, vm.fault)
    rolled = False
    vm.rolling += 1
    try:
        RolledLoop(vm, node, frame, elements, boxes).run()
        rolled = True
    except (NotRollable, CompileError, Cascade, Diverged):
        pass  # unrolled, an error shows where it belongs
    finally:
        vm.rolling -= 1
        changes = vm.close_journal(journal)
    if not rolled:
        regions.restore(vm.tracer, saved)
        del vm.errors[errors:]
        vm.catching, vm.tidying, vm.try_region, vm.fault = state
        vm.frame = frame
        vm.at(node, frame)
        return False
    for change in changes.values():
        vm.note(change.slot)
        change.slot.put(change.new)
        if isinstance(change.slot, Variable) and change.line:
            change.slot.lines[change.slot.name] = change.line
    return True


class RolledLoop(RuntimeLoop):
    """All trips but the first of a `for` as one `scan`."""

    def __init__(
        self, vm: Interpreter, node: ast.For, frame: Frame, elements: Sequence[Any],
        boxes: Sequence[Sequence[Any]],
    ) -> None:
        self.elements, self.boxes = elements, boxes
        self.trips = len(elements) - 1
        self.level = 0
        self.sequences: list[Tensor] = []
        self.row_values: list[GraphTensor] = []
        self.read: dict[Value | Tensor, tuple[int, ...]] = {}
        self.last: dict[Hashable, tuple[Slot, Any]] = {}
        self.bound: Any = None
        self.bound_value: Value | None = None
        super().__init__(vm, node, frame, _never, lambda: vm.block(node.body, frame))

    @property
    def tracer(self) -> Tracer:
        """Receives the nodes."""
        return self.vm.tracer

    def _carry(self, slot: Slot, value: Any) -> None:
        """Only tensors are carried: a number that changes may be read as a number."""
        super()._carry(slot, value)
        if not all(isinstance(v, Tensor) for v in self.carried[slot.key()].leaves):
            raise NotRollable

    def _starts(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    # --- rows -----------------------------------------------------------------------------------

    def row(self, table: Tensor) -> GraphTensor:
        """A row per trip of a tensor made outside of the loop."""
        region = self._region()
        ty = ir_type(table)
        value = region.graph.add_input(ty.with_shape(ty.dims[1:]), f"row{len(self.sequences)}")
        region.owned.add(value)
        self.sequences.append(table)
        self.row_values.append(GraphTensor(value))
        return self.row_values[-1]

    def table(self, values: np.ndarray[Any, Any]) -> GraphTensor:
        """A row per trip of numbers."""
        around = self.vm.tracer.regions[self.level - 1]
        value = around.builder.literal(values)
        if self.level > 1:
            around.owned.add(value)
        return self.row(GraphTensor(value))

    def _region(self) -> Region:
        return self.vm.tracer.regions[self.level]

    def rows_of(self, tensor: Tensor, indices: Sequence[Any]) -> GraphTensor:
        """`tensor[i]` with an index per trip; the tensor is made outside of the loop."""
        tracer = self.vm.tracer
        if not tensor.shape or not all(type(i) is int for i in indices):
            raise NotRollable
        if not isinstance(tensor, GraphTensor):
            if any(tensor in r.assigned for r in tracer.regions[self.level :]) \
                    or any(p is tensor for p in self.parameters):
                raise NotRollable
        elif tracer._home(tensor.ir_value) >= self.level:
            raise NotRollable
        length = tensor.shape[0]
        if not all(-length <= i < length for i in indices):
            raise NotRollable
        places = tuple(i % length for i in indices)
        whose = tensor.ir_value if isinstance(tensor, GraphTensor) else tensor
        # A row's contributions to the gradient must come from one trip, or their order differs.
        if len(set(places)) < len(places) or self.read.setdefault(whose, places) != places:
            raise NotRollable
        row = self.row(self._rows(tensor, places))
        self.vm.rows.add(row.ir_value)
        return row

    def _rows(self, tensor: Tensor, places: tuple[int, ...]) -> Tensor:
        """The rows at some places, made in the graph around the loop."""
        tracer = self.vm.tracer
        inner = tracer.regions[self.level :]
        del tracer.regions[self.level :]
        try:
            start = places[0]
            if places == tuple(range(start, start + len(places))):
                rows: Tensor = tensor[start : start + len(places)]
            else:
                rows = tensor[tensor_of(np.array(places, np.int64))]
            return rows
        finally:
            tracer.regions += inner

    def _check_read(self, region: Region) -> None:
        """A tensor whose rows are walked must not be read whole as well."""
        tracer = self.vm.tracer
        for whose in self.read:
            value = whose if isinstance(whose, Value) else tracer.lift(whose)
            if tracer._capture(value, self.level - 1) in region.captures:
                raise NotRollable

    def _element(self, values: Sequence[Any]) -> Any:
        """Return the value of the loop's target."""
        if isinstance(values, Rows):
            return self.rows_of(values.tensor, range(1, len(values)))
        rest = values[1:]
        if all(is_exactly(v, (bool, int, float)) for v in rest):
            return PerTrip(self, rest)
        if all(v is values[0] for v in rest) and not isinstance(values[0], (list, dict, set)):
            return values[0]
        if all(type(v) is tuple and len(v) == len(values[0]) for v in values):
            return tuple([self._element(part) for part in zip(*values, strict=True)])
        raise NotRollable

    # --- tracing --------------------------------------------------------------------------------

    def _trace(self) -> Outcome:
        vm, tracer = self.vm, self.vm.tracer
        entry, _ = self._inputs()
        vm.at(self.node, self.frame)
        init = [as_tensor(v, ty) for v, ty in entry]
        types = [ty for _, ty in entry] + [ir_type(p) for p in self.parameters]
        self.sequences, self.row_values, self.read, self.last = [], [], {}, {}
        self.level = len(tracer.regions)
        with regions.opened(tracer, "scan_body", types) as (region, args):
            outcome, changes = self._in_loop(region, args, self._iterate)
        if outcome.without(CONTINUE).kinds:
            raise NotRollable
        self._check_parameters(region)
        with tracer.reopened(region):
            new = self._outputs(outcome.without(CONTINUE), changes, args)
        self._check_read(region)
        vm.at(self.node, self.frame)
        out = regions.close_scan(tracer, init, self.parameters, self.sequences,
                                 self.row_values, self.trips, (region, new))
        self._set(out)
        for slot, value in self.last.values():
            vm.note(slot)
            slot.put(value)
        return NEXT

    def _iterate(self) -> Outcome:
        node = self.node
        assert isinstance(node, ast.For)
        self.bound = self._element(self.elements)
        self.bound_value = getattr(self.bound, "ir_value", None)
        try:
            assign_to(self.vm, node.target, self.bound, self.frame)
            return self.body()
        except (CompileError, Cascade, Diverged):
            raise
        except Exception as e:
            if _is_own_fault(e):
                raise
            raise NotRollable from e  # of the program: unrolled, it is raised in its trip

    def _find_new(self, outcome: Outcome, changes: dict[Hashable, Change]) -> None:
        """As for a run-time loop; and what a variable of the body holds after the last trip."""
        target = assigned_names(self.node)
        assert isinstance(self.node, ast.For)
        first = read_first(self.node.body) - target
        if any(self._changes_walked(change) for change in changes.values()):
            raise NotRollable
        for key, change in list(changes.items()):
            slot = change.slot
            if key in self.carried or unchanged(change):
                continue
            own = isinstance(slot, Variable) and slot.table is self.frame.table
            if own and isinstance(slot, Variable) and slot.name not in first and (
                type(change.new) is PerTrip or slot.name in target
            ):
                self.last[key] = slot, self._last(slot.name, change.new)
                del changes[key]
            elif type(change.new) is PerTrip:
                raise NotRollable
        super()._find_new(outcome, changes)
        for change in self.local.values():
            slot = change.slot
            assert isinstance(slot, Variable)
            if slot.name in self.live:
                raise NotRollable
            self.last[slot.key()] = slot, self._only_inside(slot, change)

    def _changes_walked(self, change: Change) -> bool:
        slot = change.slot
        return isinstance(slot, Content) and any(slot.box is box for box in self.boxes) \
            and not same_elements(change.old, change.new)

    def _last(self, name: str, value: Any) -> Any:
        """A variable's value after the last trip."""
        if type(value) is PerTrip:
            return value.values[-1]
        if not isinstance(value, Tensor):
            return value
        if name not in self.live:
            return DEAD
        if value is not self.bound or value.ir_value is not self.bound_value:
            raise NotRollable  # the body gave it another value
        return self.elements[self.trips]


def _is_own_fault(error: Exception) -> bool:
    """Whether an exception is a broken invariant of the compiler, not a failure of the program
    (whose own assertions are raised by `runtime_errors`)."""
    if not isinstance(error, AssertionError):
        return False
    *_, (frame, _) = walk_tb(error.__traceback__)
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(("cellc.", "cellc_compiler.")) and name != runtime_errors.__name__


def assigned_names(node: ast.AST) -> set[str]:
    """The names that the target of a `for` binds."""
    assert isinstance(node, ast.For)
    return {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}


def _never() -> bool:
    raise AssertionError("a rolled loop has no test")
