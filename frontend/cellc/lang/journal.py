"""The changes of a branch or loop body, so that they can be undone and merged.

Both branches of a run-time `if` are interpreted, one after the other, from the same state. Every
store goes through a place (a variable, the content of a list, an attribute, ...); while a
journal is open, the first store to a place saves its value.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from operator import is_
from typing import Any, Protocol

import numpy as np

from cellc_runtime.records import dataclass, field

from ..core.module_names import is_exactly
from ..tracing.arguments import CHANGEABLE
from ..tracing.reads import content, holds_content
from ..tracing.tracer import GraphTensor
from .places import Stored
from .values import MISSING

BOXES = (*CHANGEABLE, array, np.ndarray)
"""Objects that functions of Python and numpy can change in place."""


class Slot(Protocol):
    """A place a program can change."""

    def key(self) -> Hashable:
        """Its identity."""

    def get(self) -> Any:
        """The present value (a copy, for containers)."""

    def put(self, value: Any) -> None:
        """Set the value in place."""

    def owner(self) -> Any:
        """The object it is part of."""

    def label(self) -> str:
        """Return its name in messages."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A local variable: `table` is the dict that holds it, `lines` where it was assigned."""

    table: dict[str, Any]
    lines: dict[str, int]
    name: str

    def key(self) -> Hashable:
        return id(self.table), self.name

    def get(self) -> Any:
        return self.table.get(self.name, MISSING)

    def put(self, value: Any) -> None:
        if value is MISSING:
            self.table.pop(self.name, None)
        else:
            self.table[self.name] = value

    def owner(self) -> Any:
        return self.table

    def label(self) -> str:
        return f"'{self.name}'"


@dataclass(frozen=True, slots=True)
class Content:
    """The elements of a list, dict, set or other container."""

    box: Any

    def key(self) -> Hashable:
        return "content", id(self.box)

    def get(self) -> Any:
        return self.box.copy() if isinstance(self.box, np.ndarray) else elements_in(self.box)

    def put(self, value: Any) -> None:
        box, own = self.box, builtin_of(self.box)
        if own is np.ndarray:
            if box.shape != value.shape:
                box.resize(value.shape, refcheck=False)
            if box.flags.writeable:  # (another may have changed none)
                box[...] = value
        elif own in (list, bytearray, array):
            own.__setitem__(box, slice(None), value)
        elif own is deque:
            own.clear(box)
            own.extend(box, value)
        elif issubclass(own, dict):
            if not same_elements(list(own.__iter__(box)), list(value)):
                own.clear(box)
            for key, element in value.items():
                own.__setitem__(box, key, element)  # a walk over keys that stay is where it was
        elif elements_in(box) != value:
            own.clear(box)
            own.update(box, value)

    def owner(self) -> Any:
        return self.box

    def label(self) -> str:
        return f"a {type(self.box).__name__}"


class Attribute(Stored):
    """An attribute of an object, as its class lets it be read and set."""

    __slots__ = ()

    def get(self) -> Any:
        return getattr(self.target, self.name, MISSING)

    def put(self, value: Any) -> None:
        if value is MISSING:
            if hasattr(self.target, self.name):
                delattr(self.target, self.name)
        else:
            setattr(self.target, self.name, value)

    def label(self) -> str:
        return f"the attribute '{self.name}' of a {type(self.target).__name__}"


@dataclass(frozen=True, slots=True)
class Element:
    """The value of a tensor that is written in place (`x[i] = v`)."""

    tensor: GraphTensor

    def key(self) -> Hashable:
        return "tensor", id(self.tensor)

    def get(self) -> Any:
        return GraphTensor(self.tensor.ir_value)

    def put(self, value: Any) -> None:
        self.tensor.ir_value = value.ir_value

    def owner(self) -> Any:
        return self.tensor

    def label(self) -> str:
        return "a tensor written in place"


@dataclass(frozen=True, slots=True)
class Change:
    """A place with its value before and after."""

    slot: Slot
    old: Any
    new: Any
    line: int


@dataclass(slots=True)
class Journal:
    """The places stored to since it was opened, with their values before."""

    old: dict[Hashable, tuple[Slot, Any]] = field(default_factory=dict)
    fresh: dict[int, Any] = field(default_factory=dict)
    """Objects made since then, by identity: nothing outside can see them change."""

    def note(self, slot: Slot) -> None:
        """Remember a place that is about to change."""
        key = slot.key()
        if key not in self.old and id(slot.owner()) not in self.fresh:
            # Old values are held here, so no identity is reused while the journal lives.
            self.old[key] = slot, slot.get()

    def undo(self) -> dict[Hashable, Change]:
        """Put everything back; what had changed."""
        changes = {
            key: Change(slot, old, slot.get(),
                        slot.lines.get(slot.name, 0) if isinstance(slot, Variable) else 0)
            for key, (slot, old) in self.old.items()
        }
        for slot, old in self.old.values():
            slot.put(old)
        return changes


def same_elements(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(a) == len(b) and all(map(is_, a, b))


def unchanged(change: Change) -> bool:
    """Whether a place holds what it held before."""
    if isinstance(change.slot, Element):
        return change.old.ir_value is change.new.ir_value
    return change.old is change.new


_BUILTIN: tuple[Any, ...] = (
    list, OrderedDict, dict, set, deque, bytearray, array, np.ndarray)


def builtin_of(box: Any) -> Any:
    """The class of Python that keeps what is in a container: its methods are not overridden."""
    return type(box) if is_exactly(box, _BUILTIN) else next(
        k for k in _BUILTIN if isinstance(box, k))


def elements_in(box: Any) -> Any:
    """Return the contents of a container, as a plain one."""
    own = builtin_of(box)
    if issubclass(own, dict):
        return dict(own.items(box))
    if own is array:
        return own.__getitem__(box, slice(None))
    return (own if own in (set, bytearray) else list)(own.__iter__(box))


def shallow(box: Any) -> Any:
    """Return the contents of a container, for `differs`."""
    return content(box) if isinstance(box, np.ndarray) else elements_in(box)


def differs(box: Any, before: Any) -> bool:
    """Whether a container holds other objects than its shallow copy."""
    if isinstance(box, np.ndarray):
        return before is None or not holds_content(box, before)
    now = elements_in(box)
    if isinstance(box, dict):
        return not same_elements(list(now), list(before)) or \
            not same_elements(list(now.values()), list(before.values()))
    if isinstance(box, array):
        return bool(now.tobytes() != before.tobytes())
    if isinstance(box, (set, bytearray)):
        return bool(now != before)
    return not same_elements(now, before)
