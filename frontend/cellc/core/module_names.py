"""Names of classes and functions and parts of containers, without a method of the user's."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Container, Iterator
from types import MappingProxyType, MethodType
from typing import Any


def module_of(value: Any) -> str:
    """The module of a class or function, "" where it has none.

    `exec` in a namespace without `__name__` gives functions the module None, and classes the
    `__name__` that Python then finds: that of `builtins`.
    """
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return ""
    executed = module == "builtins" and isinstance(value, type) and "__module__" in vars(value)
    return "" if executed else module


def plain(value: Any, name: str, missing: Any = None) -> Any:
    """An attribute of any object, without the `__getattr__` and `__getattribute__` of its class;
    a method has those of its function."""
    if type(value) is MethodType and name not in ("__self__", "__func__"):
        value = value.__func__
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return missing


def function_name(value: Any) -> str:
    """The name of a function or class; of other objects that of their class."""
    name = plain(value, "__name__")
    return name if isinstance(name, str) and name else type(value).__name__


def elements(value: Any) -> Iterator[Any]:
    """The elements of a container, the items of a dict: without methods of derived classes."""
    if isinstance(value, dict):
        return iter((OrderedDict if isinstance(value, OrderedDict) else dict).items(value))
    if isinstance(value, MappingProxyType):
        return iter(value.items())
    kind: Any = next(k for k in (list, tuple, set, frozenset, deque) if isinstance(value, k))
    walked: Iterator[Any] = kind.__iter__(value)
    return walked


def is_exactly(value: Any, kinds: Container[Any]) -> bool:
    """Whether the class of a value is one of several, whose metaclass is `type`. Another metaclass
    may have an `__eq__` or `__hash__` of the user's: it is not asked."""
    kind = type(value)
    return type(kind) is type and kind in kinds


class Itself:
    """A value that counts by identity; held, so that no other value gets its identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and other.value is self.value


def class_key(kind: type) -> Any:
    """A class as a part of a key: by identity where a metaclass may compare it."""
    return kind if type(kind) is type else Itself(kind)


def contained(value: Any) -> Iterator[Any]:
    """The elements of a container, the values of a dict: without methods of derived classes."""
    return iter(dict.values(value)) if isinstance(value, dict) else elements(value)
