"""All that objects lead to: attributes, elements, and what the user's functions read.

Code that Python runs itself (a method in C or of an installed package, a special method that
`sorted` calls) may read and change any of it. All of it is compared before each call; a change by
such code is an error.
"""

from __future__ import annotations

import functools
import random
import types
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np

from ..core import invalidation
from ..core.console_source import all_codes
from ..core.module_names import elements, module_of
from ..tensors.tensor import Tensor
from ..tracing.reads import content, in_class, own_attributes, same
from .trust import is_foreign_class, is_library, is_own_class, is_user_function

MOST = 20_000  # Objects that are followed; what leads to more is not compared
_ENDS = (Tensor, bool, int, float, complex, str, bytes, range, types.ModuleType, types.CodeType,
         types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType,
         types.MethodDescriptorType, types.ClassMethodDescriptorType, np.generic, np.dtype,
         np.ufunc)
_FIXED = frozenset(("pathlib", "re", "datetime", "decimal", "fractions", "uuid", "logging",
                    "threading", "cellc"))
"""Modules whose objects do not change, keep words of their own for speed, or are not the
program's."""
_EXTENDED = (int, float, complex, str, bytes)
"""Classes without parts, which users' classes extend by attributes and methods."""
_CONTAINERS = (dict, list, tuple, set, frozenset, deque)
_DESCRIPTORS = (property, classmethod, staticmethod, functools.cached_property)
_OF_CLASSES = frozenset(
    ("__dict__", "__weakref__", "__module__", "__doc__", "_abc_impl",
     "__abstractmethods__", "__match_args__", "__slotnames__"))


class Structure:
    """All that objects lead to, as it is now."""

    def __init__(
        self, roots: Iterable[Any], is_outside: Callable[[Any], bool], made: Container[int]
    ) -> None:
        """
        Args:
            is_outside: whether an object was there before.
            made: identities of objects that were not.
        """
        stack = [(r, False) for r in roots if not _is_end(r)]
        # each object that may change with what it holds; empty: nothing, or too much
        self.held: list[tuple[Any, Any]] = []
        seen: set[int] = set()
        while stack and len(seen) <= MOST:
            value, within = stack.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            parts = _now(value)
            outside = id(value) not in made and (within or is_outside(value))
            if outside:
                self.held.append((value, parts))
            if isinstance(parts, list):
                stack += [(p, outside) for p in parts if not _is_end(p)]
        if len(seen) > MOST:
            self.held = []
        self._drawn = _drawn() if self.held else None

    def changed(self, besides: Container[int] = ()) -> bool:
        """Whether an object holds something else now.

        Args:
            besides: identities of objects that may.
        """
        return any(id(value) not in besides for value in self.changes())

    def changes(self) -> Iterator[Any]:
        """The objects that hold something else now."""
        for value, before in self.held:
            now = _now(value)
            alike = len(before) == len(now) and all(map(same, before, now)) \
                if isinstance(now, list) else before == now
            if not alike:
                yield value

    def drawn(self) -> bool:
        """Whether numbers were drawn, or an attribute of a Cell was set."""
        return bool(self.held) and _drawn() != self._drawn


def _drawn() -> tuple[Any, ...]:
    state: Any = np.random.get_state(legacy=False)
    return (random.getstate(), state["state"]["pos"], state["state"]["key"].tobytes(),
            invalidation.count())


def _now(value: Any) -> Any:
    """The parts of a value, or the elements of an array."""
    return content(value) if isinstance(value, np.ndarray) else list(_parts(value))


def _is_end(value: Any) -> bool:
    """Whether nothing below a value is followed."""
    if value is None or isinstance(value, _ENDS):
        return not isinstance(value, _EXTENDED) or isinstance(value, Enum) \
            or not is_own_class(type(value))
    if isinstance(value, (*_CONTAINERS, np.ndarray, *_DESCRIPTORS, types.MethodType)):
        return False
    if isinstance(value, types.FunctionType):
        return is_library(value.__globals__.get("__name__"))
    if isinstance(value, type):
        return not is_own_class(value) or is_foreign_class(value)
    kind = type(value)
    return module_of(kind).partition(".")[0].lstrip("_") in _FIXED or \
        any(module_of(c).startswith("cellc.") for c in kind.__mro__)


def _parts(value: Any) -> Iterator[Any]:
    """The parts of a value. Attributes that keep computed values do not count."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
        return
    if isinstance(value, type):
        for base in value.__mro__:
            if not _is_end(base):
                yield from (p for n, p in base.__dict__.items() if n not in _OF_CLASSES)
        return
    if isinstance(value, dict):
        for item in elements(value):
            yield from item
    elif isinstance(value, _CONTAINERS):
        yield from elements(value)
    elif isinstance(value, (*_DESCRIPTORS, types.MethodType)):
        yield from (getattr(value, n, None) for n in ("fget", "func", "__func__", "__self__"))
        return
    yield type(value)
    yield from _of_object(value)


def _of_object(value: Any) -> Iterator[Any]:
    kind = type(value)
    for name, part in (own_attributes(value) or {}).items():
        found = in_class(kind, name)
        if not isinstance(found, functools.cached_property) and "cache" not in str(name):
            yield name
            yield part
    for base in kind.__mro__:
        for name, found in base.__dict__.items():
            if isinstance(found, types.MemberDescriptorType) and name not in _OF_CLASSES:
                try:
                    yield found.__get__(value, kind)
                except AttributeError:  # it holds nothing yet
                    yield name


def _of_function(fn: types.FunctionType) -> Iterator[Any]:
    yield from (fn.__code__, fn.__defaults__, fn.__kwdefaults__, fn.__dict__, fn.__annotations__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        if "cache" not in name:
            try:
                yield cell.cell_contents
            except ValueError:  # not set yet
                yield name
    if is_user_function(fn):
        yield from (fn.__globals__.get(name) for name in names_in(fn.__code__))


def names_in(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes in a function and in those within it."""
    return (name for each in all_codes(code) for name in each.co_names)
