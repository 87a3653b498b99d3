"""Places outside of the trace that hold a Python value: attributes, global and captured names."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import FrozenInstanceError
from enum import EnumType
from types import MemberDescriptorType
from typing import Any

from cellc_runtime.records import dataclass

from ..core.module_names import plain
from ..tracing.reads import in_class
from .trust import is_interpreted
from .values import MISSING


@dataclass(frozen=True, slots=True)
class Stored:
    """An attribute as the object itself holds it, without its class and its `__setattr__`."""

    target: Any
    name: str

    def key(self) -> Hashable:
        return "attribute", id(self.target), self.name

    def get(self) -> Any:
        table = plain(self.target, "__dict__")
        if table is not None and self.name in table:
            return table[self.name]
        if isinstance(_in_class(self.target, self.name), MemberDescriptorType):
            return getattr(self.target, self.name, MISSING)
        return MISSING

    def put(self, value: Any) -> None:
        target, name = self.target, self.name
        table = plain(target, "__dict__")
        if isinstance(target, type) or not isinstance(table, dict):
            if value is not MISSING:
                setattr(target, name, value)
            elif self.get() is not MISSING:
                delattr(target, name)
        elif value is MISSING:
            table.pop(name, None)
        else:
            table[name] = value

    def now(self) -> Any:
        """Return the value that Python reads there, from the class too."""
        return getattr(self.target, self.name, MISSING)

    def store(self, holder: Any, value: Any) -> None:
        """Set it as Python does, in `holder`: what stands for the target in a call."""
        setattr(holder, self.name, value)

    def remove(self, holder: Any) -> None:
        """Delete it as Python does."""
        delattr(holder, self.name)

    def owner(self) -> Any:
        return self.target

    def label(self) -> str:
        if isinstance(self.target, type):
            return f"the attribute '{self.name}' of the class {self.target.__name__}"
        return f"the attribute '{self.name}' of {type(self.target).__name__}"


class PlainlyStored(Stored):
    """One of an object whose class has a `__setattr__` or `__delattr__` of the user, which has run
    already."""

    __slots__ = ()

    def store(self, holder: Any, value: Any) -> None:
        plain_method(holder, "__setattr__")(holder, self.name, value)

    def remove(self, holder: Any) -> None:
        plain_method(holder, "__delattr__")(holder, self.name)


def plain_method(holder: Any, name: str) -> Any:
    """The special method of an object that the user's own ones lead to."""
    found = (c.__dict__.get(name) for c in type(holder).__mro__)
    return next(f for f in found if f and not is_interpreted(f))


class GlobalName(Stored):
    """A global name; `target` are the globals that hold it."""

    __slots__ = ()

    def get(self) -> Any:
        return self.target.get(self.name, MISSING)

    now = get

    def put(self, value: Any) -> None:
        if value is MISSING:
            self.target.pop(self.name, None)
        else:
            self.target[self.name] = value

    def store(self, holder: Any, value: Any) -> None:
        holder[self.name] = value

    def label(self) -> str:
        return f"the global name '{self.name}'"


class CapturedName(Stored):
    """A variable of a Python function around the compiled one; `target` is its cell."""

    __slots__ = ()

    def get(self) -> Any:
        try:
            return self.target.cell_contents
        except ValueError:
            return MISSING

    now = get

    def put(self, value: Any) -> None:
        if value is not MISSING:
            self.target.cell_contents = value
        elif self.get() is not MISSING:
            del self.target.cell_contents

    def store(self, holder: Any, value: Any) -> None:
        holder.cell_contents = value

    def label(self) -> str:
        return f"the variable '{self.name}' of a function outside"


def _in_class(target: Any, name: str) -> Any:
    return in_class(target if isinstance(target, type) else type(target), name, MISSING)


def raise_if_frozen(holder: Any, name: str, act: str) -> None:
    """Raise what Python raises where an attribute of a frozen dataclass, or a member of an enum, is
    set or deleted: their methods are generated or Python's own.

    Raises:
        AttributeError: it is one.
    """
    if isinstance(holder, type):
        if isinstance(holder, EnumType) and name in holder.__members__:
            raise AttributeError(f"cannot reassign member {name!r}" if act == "assign to" else
                                 f"{holder.__name__!r} cannot delete member {name!r}.")
        return
    for base in type(holder).__mro__:
        params = base.__dict__.get("__dataclass_params__")
        if params is not None and params.frozen and (
                base is type(holder) or name in base.__dict__["__dataclass_fields__"]):
            raise FrozenInstanceError(f"cannot {act} field {name!r}")
