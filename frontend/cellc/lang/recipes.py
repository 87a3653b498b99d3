"""How the run makes a value that Python objects are to hold, from tensors of the graph.

Each call rebuilds the containers and objects that the trace made; older ones are handed over as
they are.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_runtime.records import dataclass, field

from ..calls.callbacks import written_part
from ..core.module_names import plain
from ..tensors.tensor import Tensor, tensor_of
from ..tracing.arguments import CHANGEABLE
from ..tracing.numbers import GraphNumber
from ..tracing.pytree import RunObject
from ..tracing.reads import is_iterator
from ..tracing.tracer import GraphTensor
from .functions import Callback, InterpretedFunction
from .journal import BOXES, builtin_of, elements_in
from .per_trip import PerTrip
from .text import flat, joined, shown
from .trust import is_own_class, own_method
from .values import Poison, RuntimeRange, Text, holds_runtime, scalar

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

Build = Callable[[Sequence[Tensor]], Any]
_VALUES: tuple[Any, Any] = (frozenset, tuple)


@dataclass(slots=True)
class Recipe:
    """Values, made from tensors."""

    leaves: list[Tensor] = field(default_factory=list)  # the tensors of the graph that they need
    builds: list[Build] = field(default_factory=list)  # one for each value
    # what they were made of: equal marks, equal values
    marks: list[Any] = field(default_factory=list)

    @property
    def mark(self) -> tuple[Any, ...]:
        """Return a mark that shows whether a value has changed since."""
        return tuple(self.marks)

    def values(self, tensors: Sequence[Tensor]) -> list[Any]:
        """The values for the tensors of a run."""
        return [b(tensors) for b in self.builds]


def recipe_of(
    vm: Interpreter, values: Sequence[Any], what: str, frame: Frame, escape: bool = False
) -> Recipe:
    """How to make values that `what` is to hold.

    With `escape`, containers that the run makes are known by those of the trace from then on.

    Raises:
        CompileTypeError: one is of a kind that only the trace knows (CE501).
    """
    maker = _Maker(vm, what, frame, escape)
    maker.recipe.builds = [maker.build(v) for v in values]
    return maker.recipe


class _Maker:
    def __init__(self, vm: Interpreter, what: str, frame: Frame, escape: bool) -> None:
        self.vm, self.what, self.frame, self.escape = vm, what, frame, escape
        self.recipe = Recipe()
        self.inside: dict[int, list[Any]] = {}

    def build(self, value: Any) -> Build:
        if self.vm.pieces is not None:
            value = self.vm.pieces.handed.get(id(value), (None, value))[1]
        if isinstance(value, GraphTensor):
            return self._tensor(value)
        if is_symbolic(value):
            made = self._tensor_of(scalar(value))
            return lambda tensors: made(tensors)._snapshot().item()
        if isinstance(value, Text):
            return self._text(value)
        if type(value) is RunObject:
            return self._object_of_run(value)
        if isinstance(value, slice) and holds_runtime(value):
            return self._slice(value)
        if isinstance(value, (InterpretedFunction, Callback, PerTrip, Poison, RuntimeRange)) or (
            is_iterator(value) and not self.vm.state.is_outside(value)
        ):
            raise self.refused(value)
        known = isinstance(value, (tuple, frozenset)) or not self.vm.state.is_outside(value)
        if not known:
            return self._itself(value)
        again = self.inside.get(id(value))
        if again is not None:  # it holds itself, or several hold it
            self.recipe.marks.append(id(value))
            return lambda _: again[0]
        build = self._made(value)
        if not self.escape or not (isinstance(value, BOXES) or _has_attributes(value)):
            return build
        place: list[Any] = [None]
        self.vm.state.escapes(value, place)

        def keep(tensors: Sequence[Tensor]) -> Any:
            place[0] = build(tensors)
            return place[0]

        return keep

    def _itself(self, value: Any) -> Build:
        escaped = self.vm.state.escaped.get(id(value))
        if escaped is not None:
            place = escaped[1]
            self.recipe.marks.append(id(value))
            return lambda _: place[0]
        self.recipe.marks.append((id(value), value if isinstance(value, (int, str)) else None))
        found = self.vm.state.in_call(value)
        return lambda _: found()

    def _tensor(self, value: GraphTensor) -> Build:
        place = len(self.recipe.leaves)
        self.recipe.leaves.append(GraphTensor(value.ir_value))
        self.recipe.marks.append(id(value.ir_value))
        if isinstance(value, GraphNumber):
            kind = value._number
            return lambda tensors: kind(tensors[place]._snapshot().item())
        return lambda tensors: tensors[place]

    def _object_of_run(self, value: RunObject) -> Build:
        place, kind = len(self.recipe.leaves), value.kind
        self.recipe.leaves.append(value.handle)
        self.recipe.marks.append(id(value.handle.ir_value))
        return lambda tensors: kind.of(tensors[place])

    def _slice(self, value: slice) -> Build:
        parts = [self.build(v) for v in (value.start, value.stop, value.step)]
        return lambda tensors: slice(*(p(tensors) for p in parts))

    def _text(self, value: Text) -> Build:
        parts: list[Build] = []
        for part in joined(flat([value])):
            operand, mark = shown(part)
            if operand is None:
                parts.append(self._itself(part))
            else:
                parts.append(_written(self._tensor_of(operand), mark))
        return lambda tensors: "".join(p(tensors) for p in parts)

    def _tensor_of(self, operand: Tensor) -> Build:
        place = len(self.recipe.leaves)
        self.recipe.leaves.append(operand)
        self.recipe.marks.append(id(getattr(operand, "ir_value", operand)))
        return lambda tensors: tensors[place]

    def _made(self, value: Any) -> Build:
        """A container or object that the trace made: each call makes one."""
        kind: Any = type(value)
        sized = hasattr(kind, "__len__") and own_method(value, "__len__") is None
        self.recipe.marks.append((kind, len(value) if sized else 0))
        if isinstance(value, Tensor):
            elements = value._snapshot()
            return lambda _: tensor_of(elements.copy())
        if isinstance(value, (np.ndarray, array)):
            self.recipe.marks.append(value.tobytes())
            whole = copy(value)
            return lambda _: copy(whole)
        if isinstance(value, (tuple, frozenset)):
            parts, own = [self.build(v) for v in value], _VALUES[isinstance(value, tuple)]
            return lambda tensors: own.__new__(kind, [p(tensors) for p in parts])
        if isinstance(value, CHANGEABLE):
            return self._container(value)
        return self._object(value) if _has_attributes(value) else self._itself(value)

    def _container(self, value: Any) -> Build:
        """A container, filled by the methods of Python's class, with what else it holds."""
        kind: Any = type(value)
        own, held = builtin_of(value), elements_in(value)
        if own is bytearray:
            self.recipe.marks.append(bytes(held))
        elif isinstance(held, dict):
            self.recipe.marks.append(tuple(map(id, held)))
        place = self.inside[id(value)] = [None]
        keys = list(held) if isinstance(held, dict) else None
        inside = held.values() if isinstance(held, dict) else held
        parts = [self.build(v) for v in inside]
        attributes = self._attributes(value)
        start = (((), value.maxlen) if own is deque else (value.default_factory,)
                 if isinstance(value, defaultdict) else ())

        def make(tensors: Sequence[Tensor]) -> Any:
            made = place[0] = kind.__new__(kind)
            (defaultdict if isinstance(made, defaultdict) else own).__init__(made, *start)
            if keys is None:
                (own.update if own is set else own.extend)(made, [p(tensors) for p in parts])
            for key, part in zip(keys or (), parts, strict=False):
                own.__setitem__(made, key, part(tensors))
            attributes(made, tensors)
            return made

        return make

    def _attributes(self, value: Any) -> Callable[[Any, Sequence[Tensor]], None]:
        """Return a function that sets the attributes of an object like those of another."""
        parts = {k: self.build(v) for k, v in plain(value, "__dict__", {}).items()}
        slots = []
        for member in members(value):
            with suppress(AttributeError):  # it is empty
                slots.append((member, self.build(member.__get__(value))))

        def put(made: Any, tensors: Sequence[Tensor]) -> None:
            if parts:
                vars(made).update({k: p(tensors) for k, p in parts.items()})
            for member, build in slots:
                member.__set__(made, build(tensors))

        return put

    def _object(self, value: Any) -> Build:
        bare = _bare(value)
        place = self.inside[id(value)] = [None]
        args = self.build(value.args) if isinstance(value, BaseException) else None
        attributes = self._attributes(value)

        def make(tensors: Sequence[Tensor]) -> Any:
            made = place[0] = bare()
            if args is not None:
                made.args = args(tensors)
            attributes(made, tensors)
            return made

        return make

    def refused(self, value: Any) -> Exception:
        kinds = {InterpretedFunction: "a function defined in a compiled one",
                 Callback: "a function defined in a compiled one"}
        named = kinds.get(type(value), f"a {type(value).__name__}")
        return self.vm.error(
            "CE501", TypeError, f"{self.what} cannot hold {named}", self.frame,
            hint="define it outside",
        )


def _has_attributes(value: Any) -> bool:
    """Whether a value is an object that holds attributes."""
    return not isinstance(value, (type, Tensor, np.ndarray)) and (
        isinstance(plain(value, "__dict__"), dict) or bool(members(value)))


_NUMBERS: tuple[tuple[type, Any], ...] = (
    (int, int.__int__), (float, float.__float__), (complex, complex.__complex__),
    (str, str.__str__), (bytes, bytes.__bytes__))


def _bare(value: Any) -> Callable[[], Any]:
    """A function that makes an object of the class of a value, without its attributes."""
    kind: Any = type(value)
    for base, own in _NUMBERS:
        if isinstance(value, base):
            made: Any = base
            return partial(made.__new__, kind, own(value))
    return partial(kind.__new__ if isinstance(value, BaseException) else object.__new__, kind)


def members(value: Any) -> list[MemberDescriptorType]:
    """The slots that a user's classes give to an object."""
    return [m for c in type(value).__mro__ if is_own_class(c) for m in vars(c).values()
            if isinstance(m, MemberDescriptorType)]


def _written(build: Build, mark: Any) -> Build:
    return lambda tensors: written_part(mark, build(tensors))
