"""What a branch or loop body changed, so that it can be undone and merged.

Both branches of a run-time `if` are interpreted, one after the other, from the same state. Every
store goes through a place (a variable, the content of a list, an attribute, ...); while a
journal is open, the first store to a place saves its value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from cellc_runtime.records import dataclass, field

from ..tracing.reads import content, holds_content
from ..tracing.tracer import GraphTensor
from .values import MISSING


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
        """What messages call it."""


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
        return self.box.copy()

    def put(self, value: Any) -> None:
        if isinstance(self.box, (list, bytearray)):
            self.box[:] = value
        elif isinstance(self.box, np.ndarray):
            self.box[...] = value
        elif isinstance(self.box, deque):
            self.box.clear()
            self.box.extend(value)
        elif isinstance(self.box, dict):
            if not same_elements(list(self.box), list(value)):
                self.box.clear()
            for key, element in value.items():  # (the `update` of a Counter adds.)
                self.box[key] = element  # a walk over keys that stay is where it was
        elif self.box != value:
            self.box.clear()
            self.box.update(value)

    def owner(self) -> Any:
        return self.box

    def label(self) -> str:
        return f"a {type(self.box).__name__}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an object."""

    target: Any
    name: str

    def key(self) -> Hashable:
        return "attribute", id(self.target), self.name

    def get(self) -> Any:
        return getattr(self.target, self.name, MISSING)

    def put(self, value: Any) -> None:
        if value is MISSING:
            if hasattr(self.target, self.name):
                delattr(self.target, self.name)
        else:
            setattr(self.target, self.name, value)

    def owner(self) -> Any:
        return self.target

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
            key: Change(slot, old, slot.get(), _line(slot))
            for key, (slot, old) in self.old.items()
        }
        for slot, old in self.old.values():
            slot.put(old)
        return changes


def same_elements(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _line(slot: Slot) -> int:
    return slot.lines.get(slot.name, 0) if isinstance(slot, Variable) else 0


def unchanged(change: Change) -> bool:
    """Whether a place holds what it held before."""
    if isinstance(change.slot, Element):
        return change.old.ir_value is change.new.ir_value
    return change.old is change.new


def shallow(box: Any) -> Any:
    """What a container holds, for `differs`."""
    return content(box) if isinstance(box, np.ndarray) else box.copy()


def differs(box: Any, before: Any) -> bool:
    """Whether a container holds other objects than its shallow copy."""
    if isinstance(box, np.ndarray):
        return before is None or not holds_content(box, before)
    if isinstance(box, (set, bytearray)):
        return bool(box != before)
    if len(box) != len(before):
        return True
    if isinstance(box, dict):
        return any(a is not b or box[a] is not before[b]
                   for a, b in zip(box, before, strict=True))
    return any(a is not b for a, b in zip(box, before, strict=True))
