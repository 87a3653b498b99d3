"""Python objects that were there before a trace, and what the traced function does to them.

While it is traced, a function changes its objects as Python would, so that what it reads next is
right; when the trace ends, all is put back (`State.undo`). Each change also becomes a host call of
the graph, at its place in program order, under the branches and loops it stands in: so the run
makes it, before whatever Python code comes next, and before what raises.

A number or Tensor that is read first and changed later must not be taken for known: the trace is
repeated with the place as an input (`State.again`).
"""

from __future__ import annotations

import ast
import operator
import os
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from cellc_compiler.ir.graph import Node
from cellc_compiler.ir.op import has_effect
from cellc_compiler.ir.types import TensorType
from cellc_runtime.records import dataclass, field, replace

from ..core.dispatch import apply
from ..core.module_names import contained, function_name, is_exactly, module_of, plain
from ..tensors.tensor import Tensor, ir_type
from ..tensors.views import family, view_of
from ..tracing.arguments import CHANGEABLE, at_hand, objects_in, returned
from ..tracing.numbers import DTYPES, GraphNumber, Kind, kind_of
from ..tracing.python_state import PythonState, StateInput, can_be_input
from ..tracing.reads import Read, content, is_iterator, short
from ..tracing.state_numbers import Answers, number_input
from ..tracing.tracer import GraphTensor, Tracer
from . import _model
from .errors import CompileError, CompileRuntimeError, Place
from .journal import BOXES, Content, Slot, differs, elements_in, shallow
from .places import Stored
from .reads_log import ReadsLog
from .recipes import Recipe, recipe_of
from .structure import Structure
from .trust import is_structural
from .values import MISSING, scalar

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

_HOLDERS = (*BOXES, tuple)


@dataclass(slots=True)
class _Emitted:
    """The latest change of a place that the graph makes."""

    node: Node
    value: Any
    mark: tuple[Any, ...]


_BOUND = (BuiltinMethodType, MethodWrapperType)


def _holds_others(value: Any) -> bool:
    """Whether a value is a container or an iterator, each of which has a place of its own."""
    return isinstance(value, _HOLDERS) or is_iterator(value)


@dataclass(slots=True)
class State:
    """The reads and changes of one trace on objects from outside.

    Attributes:
        inputs: places whose values are inputs of the graph.
        fixed: keys of places that are taken as they are, and compared before each call.
        open: containers whose elements are read too (`unseen` has those that only grow).
        first_values: of the places that are inputs, when the trace began.
        asked: places in the source where the run is asked which way it goes (`asking`).
        asks: how often it was asked so far.
        variables: Tensors from outside that the trace changes in place.
        tracer: of this trace.
        outside: containers and iterators that were there before.
        made: other objects that the trace has made.
        origins: where the trace has made its constant tensors, by `id`.
        changed: of these places those whose tensors it changes in place.
        in_graph: places whose tensors the trace before has changed, so they are no constants.
        log: hears of reads, too.
    """

    inputs: tuple[Stored, ...] = ()
    fixed: frozenset[Hashable] = frozenset()
    open: dict[int, Any] = field(default_factory=dict)
    asked: frozenset[Hashable] = frozenset()
    asks: int = 0
    variables: tuple[Tensor, ...] = ()
    in_graph: frozenset[Hashable] = frozenset()
    tracer: Tracer | None = None
    outside: dict[int, Any] = field(default_factory=dict)
    made: dict[int, Any] = field(default_factory=dict)
    origins: dict[int, Hashable] = field(default_factory=dict)
    changed: set[Hashable] = field(default_factory=set)
    arguments: dict[int, tuple[int, Any]] = field(default_factory=dict)
    changed_arguments: bool = False
    returned_arguments: bool = False
    unseen: dict[int, Any] = field(default_factory=dict)
    defaults: dict[int, tuple[str, str, Any]] = field(default_factory=dict)
    read: dict[Hashable, Stored] = field(default_factory=dict)
    written: dict[Hashable, Stored] = field(default_factory=dict)
    before: dict[Hashable, tuple[Slot, Any]] = field(default_factory=dict)
    emitted: dict[Hashable, _Emitted] = field(default_factory=dict)
    stores: dict[int, Node] = field(default_factory=dict)
    answers: Answers = field(default_factory=lambda: Answers(lambda: ""))
    first: tuple[str, Place | None] | None = None
    conflicts: dict[int, Any] = field(default_factory=dict)
    worlds: list[Read] = field(default_factory=list)
    entered: dict[int, Any] = field(default_factory=dict)
    first_values: list[Tensor] = field(default_factory=list)
    escaped: dict[int, tuple[Any, list[Any]]] = field(default_factory=dict)
    handed: list[tuple[list[Any], tuple[Any, ...], str, Frame, ast.AST | None]] = field(
        default_factory=list)
    natively: dict[int, tuple[str, Structure, Frame, ast.AST | None]] = field(
        default_factory=dict)
    log: ReadsLog | None = None

    # --- the course of a trace --------------------------------------------------------------------

    def begin(self, tracer: Tracer) -> list[StateInput]:
        """Set the places that are inputs to the numbers and tensors of the graph."""
        self.answers.place, self.tracer = tracer.place, tracer
        tracer.variables.update((id(t), t) for t in self.variables)
        return [self._enter(slot, number, tracer) for number, slot in enumerate(self.inputs)]

    def _enter(self, slot: Stored, number: int, tracer: Tracer) -> StateInput:
        value = slot.now()
        kind = kind_of(value)
        ty = ir_type(value) if kind is None else TensorType((), DTYPES[kind])
        given = tracer.input(ty, f"state{number or ''}.{slot.name}")
        self.keep(slot)
        self.first_values.append(value if kind is None else scalar(value, DTYPES[kind]))
        self.entered[id(given)] = given
        slot.put(given if kind is None else
                 number_input(given.ir_value, value, number, self.answers))
        return StateInput(slot.label(), slot.now, kind, ty if kind is None else None)

    def changes(self) -> frozenset[int]:
        """The numbers of the functions that make changes in the run."""
        return frozenset(n.attrs["number"] for n in self.stores.values())

    def undo(self) -> None:
        """Put everything back."""
        for slot, old in reversed(self.before.values()):
            slot.put(old)
        self.before.clear()

    def retraced(self, error: Exception | None) -> State | None:
        """Return the state for another trace, after `undo`; None if none is needed.

        Args:
            error: how it failed, if it did.
        """
        base = partial(State, variables=self.variables, in_graph=self.in_graph)
        tracer = self.tracer
        for tensor in () if tracer is None else tracer.wanted.values():
            self.change(tensor)
        if self.changed:
            return base(self.inputs, self.fixed, self.open, self.asked,
                        in_graph=self.in_graph | self.changed)
        wanted = [] if tracer is None else [
            t for t in tracer.wanted.values() if self.is_outside(t) and type(t) is Tensor
            and can_be_input(t) and view_of(t) is None]
        # (Tensors that each trace makes would be wanted for ever: no trace reads those of before.)
        if wanted and tracer is not None and all(t in tracer.parameters for t in self.variables):
            return base(self.inputs, self.fixed, self.open, self.asked,
                        variables=(*self.variables, *wanted))
        if isinstance(error, CompileError) and error.not_ahead and error.site is not None \
                and error.site not in self.asked:  # it stands for what the trace has done since
            return base(asked=self.asked | {error.site})
        known = {s.key() for s in self.inputs}
        more = [s for k, s in self.written.items() if k in self.read and k not in known
                and k not in self.fixed and id(s.target) not in self.arguments
                and id(s.target) not in self.escaped and can_be_input(s.now())
                and not any(s.now() is t for t in self.variables)]
        if more or self.conflicts:
            return base((*self.inputs, *more), self.fixed, {**self.open, **self.conflicts},
                        self.asked)
        site = getattr(error, "site", None)
        if site is not None and site not in self.asked:
            return base(self.inputs, self.fixed, self.open, self.asked | {site})
        if error is not None and self.inputs:  # perhaps it must be known what they are
            return base((), self.fixed | known, self.open, self.asked)
        return None

    def finish(self, inputs: list[StateInput], reads: list[Read]) -> PythonState | None:
        """Return the data for the finished trace's calls, after `undo`; None if no object changes.

        Reads of places that the trace changes are taken out of `reads`.
        """
        reads += self.worlds
        for label, where, value in self.defaults.values():
            reads.append(Read(label, where, _always(value), value, short(value), content(value)))
        for read in reads:
            if id(read.value) in self.unseen:
                read.content = None
        if self.first is None:
            return None
        own = [r for r in reads if r.compared or r.key in self._own()]
        for read in own:
            read.watched = False
            reads.remove(read)
        what, place = self.first
        return PythonState(inputs, self.answers.found, own, lambda: _refuse(what, place),
                           self.changed_arguments)

    def _own(self) -> set[tuple[int, str]]:
        return {(id(s.target), s.name) for s in self.written.values()}

    def own_attributes(
        self, attributes: Sequence[tuple[Any, str]]
    ) -> list[tuple[Any, str]]:
        """Those that the trace does not change: setting one makes it stale."""
        own = self._own()
        return [(t, n) for t, n in attributes if (id(t), n) not in own]

    def environment(self, name: Any, vm: Interpreter) -> None:
        """A variable of the environment is read: it is compared before calls."""
        value = os.environ.get(name)
        self.worlds.append(Read(f"the environment variable {name}", vm.tracer.place(),
                                lambda: os.environ.get(name), value, short(value)))

    # --- what is outside --------------------------------------------------------------------------

    def mark(self, value: Any) -> None:
        """A value came from outside, with all that it holds; a method of a container, too."""
        if isinstance(value, _BOUND):
            value = value.__self__
        if _holds_others(value):
            if id(value) in self.outside:
                return
            self.outside[id(value)] = value
            if id(value) in self.unseen:
                self.conflicts[id(value)] = value
            for part in _parts(value):
                self.mark(part)

    def is_outside(self, value: Any) -> bool:
        """Whether a value was there before the trace."""
        while isinstance(value, (np.ndarray, np.flatiter)):
            if id(value) in self.outside:
                return True
            if value.base is None:
                return False
            value = value.base  # that of a view
        if _holds_others(value):
            return id(value) in self.outside or id(value) in self.unseen
        return id(value) not in self.made

    def new(self, value: Any) -> Any:
        """Say that an object was made by the trace."""
        self.made[id(value)] = value
        return value

    def escapes(self, value: Any, place: list[Any]) -> None:
        """An object of the trace counts as one from outside from now on: the run finds in `place`
        the one that it has made instead."""
        self.escaped[id(value)] = value, place
        self.outside[id(value)] = value
        self.made.pop(id(value), None)

    def of_library(self, value: Any, given: Iterable[Any], place: Hashable) -> Any:
        """Return the result of a function of cellc: tensors and gradient functions count as made by
        the trace at a place in the source, unless one of `given` is the result (that of `cast`)."""
        if any(value is a for a in given):
            return value
        if module_of(type(value)).startswith("cellc.transforms."):
            self.made[id(value)] = value
        return self.made_at(value, place)

    def made_at(self, value: Any, place: Hashable) -> Any:
        """Return what the trace has made at a place in the source.

        A Tensor is a constant, unless the trace before has changed one of this place: then it is
        a value of the graph from the beginning, so that all that hold it see the change.
        """
        if type(value) is tuple or type(value) is list:
            return type(value)(self.made_at(v, place) for v in value)
        if not isinstance(value, Tensor) or isinstance(value, GraphTensor) \
                or family(value)[0] is not value:  # (a view is where its root is)
            return value
        if place in self.in_graph and self.tracer is not None:
            return GraphTensor(self.tracer.lift(value))
        self.origins[id(value)] = place
        return self.new(value)

    def change(self, tensor: Tensor) -> None:
        """Note that the trace changes a constant tensor in place."""
        origin = self.origins.get(id(family(tensor)[0]))
        if origin is not None:
            self.changed.add(origin)

    def argument(self, value: Any) -> None:
        """The arguments of the trace: a change of what is in them is one of the caller's."""
        for number, held in enumerate(objects_in(value)):
            self.arguments.setdefault(id(held), (number, held))
            self.mark(held)

    def in_call(self, value: Any) -> Callable[[], Any]:
        """How the run finds what stands for an object of the trace: of the call's arguments, or
        the object itself."""
        if id(value) in self.escaped:
            place = self.escaped[id(value)][1]
            return lambda: place[0]
        found = self.arguments.get(id(value))
        if found is None:
            return _always(value)
        number, traced = found
        self.changed_arguments = True
        return lambda: at_hand(number, traced)

    def origin(self, value: Any) -> Callable[[], Any] | None:
        """How a result finds a container that was there before: as in Python, the caller gets that
        very object. None for one that the trace has made."""
        if not isinstance(value, CHANGEABLE):
            return None
        found = self.arguments.get(id(value))
        if found is not None:
            number, self.returned_arguments = found[0], True
            return lambda: returned(number)
        own = self.is_outside(value) and id(value) not in self.escaped
        return _always(value) if own else None

    def default(self, label: str, where: str, value: Any) -> None:
        """The default of an argument: one that can change is compared before calls."""
        if isinstance(value, _BOUND):
            self.mark(value)
        elif isinstance(value, BOXES) and id(value) not in self.defaults:
            self.defaults[id(value)] = label, where, value
            self.mark(value)

    # --- reads and changes ------------------------------------------------------------------------

    def note_read(self, target: Any, name: str) -> bool:
        """An attribute is read; whether its value comes from outside."""
        outside = self.note_place(Stored(target, name))
        if outside and self.log is not None:
            self.log.note(target, name)
        return outside

    def note_place(self, slot: Stored) -> bool:
        """A place is read; whether its value comes from outside."""
        key = slot.key()
        if key in self.written or (self.inputs and any(key == s.key() for s in self.inputs)):
            return False
        self.read[key] = slot
        return True

    def keep(self, slot: Slot) -> None:
        """A place from outside is about to change: remember what it held when the trace began."""
        if slot.key() not in self.before:
            self.before[slot.key()] = slot, slot.get()

    def emit(
        self, vm: Interpreter, what: str, act: Callable[..., None], recipe: Recipe,
        key: Hashable = None,
    ) -> Node:
        """Have the run make a change: `act` of the values of the recipe."""
        if self.first is None:
            frame = vm.frame
            self.first = what, vm.place(frame, frame.node) if frame is not None else None
        nodes = vm.tracer.regions[-1].graph.nodes
        before = self.emitted.get(key) if key is not None else None
        if before is not None:
            self._drop(nodes, before.node)

        def change(*tensors: Tensor) -> None:
            act(*recipe.values(tensors))

        vm.tracer.host_call(change, what, recipe.leaves, [])
        made = nodes[-1]
        self.stores[id(made)] = made
        return made

    def _drop(self, nodes: list[Node], old: Node) -> None:
        """Take a change away that nothing can see before the next one."""
        for i in range(len(nodes) - 1, -1, -1):
            if nodes[i] is old:
                del nodes[i]
                return
            if nodes[i].regions or (has_effect(nodes[i]) and id(nodes[i]) not in self.stores):
                return

    def write(self, vm: Interpreter, slot: Stored, value: Any, recipe: Recipe) -> None:
        """Set an attribute, now and when the network runs."""
        key = slot.key()
        if vm.region_depth:  # where this is not run, the old value stays
            self.note_place(slot)
        self.keep(slot)
        if slot.get() is MISSING:
            slot.put(slot.now())  # the class's, for a branch
        vm.note(slot)
        slot.put(value)
        self.written[key] = slot
        target = self.in_call(slot.target)
        node = self.emit(vm, slot.label(), lambda v: slot.store(target(), v), recipe, key)
        self.emitted[key] = _Emitted(node, value, recipe.mark)

    def remove(self, vm: Interpreter, slot: Stored) -> None:
        """Delete an attribute, now and when the network runs."""
        self.keep(slot)
        vm.note(slot)
        slot.put(MISSING)
        self.written[slot.key()] = slot
        target = self.in_call(slot.target)
        self.emit(vm, slot.label(), lambda: slot.remove(target()), Recipe())
        self.emitted.pop(slot.key(), None)

    def settle(self, vm: Interpreter) -> None:
        """Where a value was changed after it was stored, store it as it is now."""
        for key, emitted in list(self.emitted.items()):
            slot = self.written[key]
            if slot.get() is not emitted.value or vm.frame is None:
                continue
            recipe = recipe_of(vm, [emitted.value], slot.label(), vm.frame)
            if recipe.mark != emitted.mark:
                self.write(vm, slot, emitted.value, recipe)
        for what, found, frame, node in self.natively.values():
            if found.changed(self._changed()):
                raise _changes_natively(vm, what, frame, node)
        for values, mark, what, frame, node in self.handed:
            if recipe_of(vm, values, what, frame).mark != mark:
                raise vm.error(
                    "CE501", TypeError, f"what was put into {what} under a condition known only at "
                    "run time is changed afterwards", frame, node, hint="put it there when it is "
                    "complete",
                )

    def current(self, vm: Interpreter, slot: Stored, value: Any) -> Any:
        """The value of an attribute: one that was set in a graph of its own is read again."""
        if not isinstance(value, GraphTensor) or vm.tracer.reaches(value.ir_value):
            return value
        target = self.in_call(slot.target)
        kind = kind_of(value)
        (found,) = vm.tracer.host_call(
            lambda *_: replace(slot, target=target()).now(), slot.label(), _of_none(vm.tracer),
            [ir_type(value)])
        assert isinstance(found, GraphTensor)
        return found if kind is None else type_of(found, kind)

    def grow(
        self, vm: Interpreter, target: Any, name: str, box: Any, method: str, args: list[Any],
        frame: Frame,
    ) -> None:
        """Have the run add to a container that the trace does not look into."""
        if self.note_read(target, name):
            vm.report(target, name)
        self.unseen[id(box)] = box
        what = f"a {type(box).__name__} in {Stored(target, name).label()}"
        self.hand_over(vm, what, getattr(box, method), self._taken(args), frame)

    def _taken(self, args: Sequence[Any]) -> list[Any]:
        """Arguments for the run, which has no iterators of the trace: what these give."""
        return [list(a) if is_iterator(a) and not self.is_outside(a) else a for a in args]

    def mutate(
        self, vm: Interpreter, boxes: Sequence[Any], fn: Callable[..., Any], args: Sequence[Any],
        kwargs: Mapping[str, Any], frame: Frame,
    ) -> Any:
        """Call a function that may change containers, and have the run make the change."""
        own = [b for b in boxes if isinstance(b, BOXES) and self.is_outside(b)]
        if own:
            args = self._taken(args)
        kept = [shallow(b) for b in own]
        for box in own:
            if id(box) in self.unseen:
                self.conflicts[id(box)] = box
            self.keep(Content(box))
        result = fn(*args, **kwargs)
        if any(map(differs, own, kept)):
            named, count, bound = list(kwargs), len(args), plain(fn, "__self__")

            function = unbound(fn) if isinstance(bound, BOXES) else fn
            first = [bound] if function is not fn else []

            def act(*v: Any) -> None:
                most = count + len(first)
                function(*v[:most], **dict(zip(named, v[most:], strict=True)))

            self.hand_over(vm, _box(own[0]), act, [*first, *args, *kwargs.values()], frame)
            if not vm.region_depth:
                self._refuse_unknown(vm, own, kept, fn, frame)
        return result

    def whole(
        self, vm: Interpreter, fn: Any, values: Sequence[Any], frame: Frame, run: Callable[[], Any]
    ) -> Any:
        """The result of `run`, a call of `fn` that may read and change all that objects lead to.

        Raises:
            CompileTypeError: it changes some that was there before, or the trace has (CE501).
        """
        if any(b is w for v in values for b in type(v).__mro__ for w in _WEAK):
            raise vm.error(
                "CE307", RuntimeError, "a weak container is read: which of its objects are still "
                "there is known when it is", frame, hint="hold the objects in a list or a dict")
        parts = [part for v in values for part in (_parts(v) if isinstance(v, BOXES) else [v])]
        found = self._structure(parts)
        for held, _ in found.held:  # Python looks into them, or hands them on
            if isinstance(held, BOXES):
                self.mark(held)
        own = self._changed() if found.held else set()
        result = run()
        if not found.held:
            return result
        given = {id(v) for v, _ in self._structure([p for p in parts if p is not fn]).held}
        changed = [id(v) for v in found.changes()]
        if changed and not given.intersection(changed):  # it may set itself up in its first call
            found = self._structure(parts)
            result = run()
        structural = is_structural(fn)
        if found.drawn() or found.changed() or (
                not structural and any(id(v) in own for v, _ in found.held)):
            raise _changes_natively(vm, function_name(fn), frame, frame.node)
        self.worlds.append(Read(
            f"what is given to {function_name(fn)}()", vm.tracer.place(),
            partial(found.changed, own), False, "what it was"))
        if isinstance(result, BOXES) and any(result is v for v, _ in found.held):
            self.mark(result)
        return result

    def _structure(self, values: Iterable[Any]) -> Structure:
        return Structure(values, self.is_outside, self.made)

    def of_python(self, what: str, value: Any, vm: Interpreter) -> None:
        """Python runs special methods of an object itself: `settle` looks at what they change."""
        if id(value) not in self.natively and vm.frame is not None:
            found = self._structure([value])
            self.natively[id(value)] = what, found, vm.frame, vm.frame.node

    def _changed(self) -> set[int]:
        """Objects that the trace has changed, by identity."""
        return {id(slot.owner()) for slot, _ in self.before.values()}

    def _refuse_unknown(
        self, vm: Interpreter, own: Sequence[Any], kept: Sequence[Any], fn: Any, frame: Frame
    ) -> None:
        """A container that a function has made and put into another is one that the run cannot
        find: what is done to it later would be lost."""
        for box, before in zip(own, kept, strict=True):
            known = {id(v) for v in _parts(before)} if isinstance(before, BOXES) else set()
            for part in _parts(box):
                if id(part) not in known and isinstance(part, BOXES) and not self.is_outside(part):
                    raise vm.error(
                        "CE501", TypeError, f"{fn.__name__}() makes {_box(part)} and puts it into "
                        f"{_box(box)} that was there before", frame,
                        hint="make it in the network, and put it there",
                    )

    def hand_over(
        self, vm: Interpreter, what: str, act: Callable[..., Any], values: list[Any], frame: Frame
    ) -> None:
        """Emit a change by which containers come to hold values.

        Containers among these that the trace made are made by the run: what is done to them later
        is done to those (`escaped`). Where the run may not get here, they must stay as they are.
        """
        recipe = recipe_of(vm, values, what, frame, escape=not vm.region_depth)
        if vm.region_depth:
            self.handed.append((values, recipe.mark, what, frame, frame.node))
        self.emit(vm, what, act, recipe)


def _changes_natively(
    vm: Interpreter, what: str, frame: Frame, node: ast.AST | None
) -> Exception:
    return vm.error(
        "CE501", TypeError, f"{what}() runs Python code that changes objects made outside, or "
        "reads what the network has changed", frame, node,
        hint="call it outside, and pass what it gives as an argument")


def _of_none(tracer: Tracer) -> list[Tensor]:
    """None of the elements of what gradients may be asked for: what is made of them says that its
    gradient is not known, instead of counting as a constant."""
    given = [v for r in tracer.regions for v in r.graph.inputs if v.dtype.is_inexact]
    flat = [apply("reshape", GraphTensor(v), shape=(v.type.size,)) for v in given]
    return [apply("slice", t, start=(0,), stop=(0,), step=(1,)) for t in flat]


def _box(box: Any) -> str:
    return f"a {type(box).__name__}"


def type_of(tensor: GraphTensor, kind: Kind) -> GraphNumber:
    """A tensor of the graph as the number it stands for."""
    return GraphNumber(tensor.ir_value, kind)


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


def _parts(value: Any) -> list[Any]:
    if isinstance(value, (list, dict, set, deque)):
        found = elements_in(value)
        return list(found.values() if isinstance(found, dict) else found)
    return [*contained(value)] if isinstance(value, tuple) else []


def unbound(method: Any) -> Any:
    """A method of a container as a function of it: the very one, which its class may override."""
    if isinstance(method, MethodType):
        return method.__func__
    owner = method.__self__
    found = [c.__dict__[method.__name__] for c in type(owner).__mro__
             if method.__name__ in c.__dict__]
    return next(f for f in found if f.__get__(owner, type(owner)) == method)


def insert_missing(vm: Interpreter, box: Any, key: Any, frame: Frame) -> Any:
    """`box[key]` of a dict that has no such key: its class may make a value.

    Raises:
        KeyError: it makes none.
    """
    made = getattr(type(box), "__missing__", MISSING)
    vm.special(box, "__missing__")  # reports where it was found
    if made is defaultdict.__missing__:
        factory = vm.guarded(box, "default_factory", lambda: box.default_factory)
        if factory is None:
            raise KeyError(key)
        value = vm.call(factory, [], {}, frame)
        vm.call(operator.setitem, [box, key, value], {}, frame)
        return value
    if made is MISSING:
        raise KeyError(key)
    return vm.call(made, [box, key], {}, frame)


def _refuse(what: str, place: Place | None) -> None:
    raise CompileRuntimeError(
        "CE504", f"the network changes {what}, but a file has no Python objects", place,
        hint="keep state in a Parameter (ops.assign), or return the value",
    )


_WEAK = (WeakKeyDictionary, WeakSet, WeakValueDictionary)
GROWTH = ("append", "appendleft", "add", "extend")
"""Methods that look at nothing that is in a container."""


def unseen_box(vm: Interpreter, target: Any, name: str) -> Any:
    """A container in an attribute of which nothing but its growth matters so far; else None."""
    state = vm.state
    if isinstance(target, (type, ModuleType, FunctionType, Tensor)) or vm.rolling:
        return None
    if not _model.is_cell(target) and not state.is_outside(target):
        return None
    slot = Stored(target, name)
    box = slot.get()
    if not is_exactly(box, (list, set, deque)) or slot.key() in state.written \
            or id(box) in state.open or id(box) in state.outside or id(box) in state.arguments:
        return None
    return box
