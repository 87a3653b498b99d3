"""Containers and objects among the arguments of a call, which a network may change.

A trace works on copies (`copied`): the n-th container of the copy stands for the n-th of the call.
While a program runs that changes some, those of its call are at hand (`given`), and its host calls
look them up by number (`at_hand`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import is_dataclass
from typing import Any

from ..core.module_names import contained
from ..tensors.tensor import Tensor
from .numbers import Kind, as_number
from .pytree import Structure, parts_of, put_together

CHANGEABLE = (list, dict, set, deque, bytearray)
"""Containers of Python that can be changed in place."""


def objects_in(value: Any) -> list[Any]:
    """Return a structure's changeable objects, in order; twice if they stand there twice."""
    found: list[Any] = []

    def walk(x: Any) -> None:
        if isinstance(x, CHANGEABLE):
            found.append(x)
        if isinstance(x, Tensor):
            return
        if isinstance(x, (list, tuple, dict, deque)):
            for part in contained(x):
                walk(part)
        elif inner := parts_of(x):
            found.append(x)
            for part in inner.values():
                walk(part)

    walk(value)
    return found


def shared(value: Any) -> tuple[int, ...]:
    """Which of the objects in a structure are one: for each the first; empty if none is there
    twice."""
    found = objects_in(value)
    first: dict[int, int] = {}
    places = tuple(first.setdefault(id(x), i) for i, x in enumerate(found))
    return places if len(first) != len(found) else ()


def copied(
    structure: Structure, leaves: Sequence[Any], places: Sequence[int],
    number: Callable[[Any, Kind], Any] = as_number,
) -> Any:
    """`put_together`, where what is there twice (`places`, of `shared`) is one object again."""
    made = put_together(structure, leaves, number)
    if not places:
        return made
    found = objects_in(made)
    return _joined(made, {id(x): found[at] for x, at in zip(found, places, strict=True)})


def _joined(value: Any, same: dict[int, Any]) -> Any:
    """A structure with objects replaced; containers that can be changed stay what they are."""
    one = same.get(id(value), value)
    if isinstance(value, Tensor) or one is not value:
        return one
    if isinstance(value, tuple):
        parts = [_joined(v, same) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, (list, deque)):
        for i, part in enumerate(value):
            value[i] = _joined(part, same)
    elif isinstance(value, dict):
        for key, part in value.items():
            value[key] = _joined(part, same)
    elif is_dataclass(value) and not isinstance(value, type):
        for name, part in parts_of(value).items():
            object.__setattr__(value, name, _joined(part, same))
    return value


class _Given(threading.local):
    """The objects of the calls that run in this thread, the innermost last."""

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []


_given = _Given()


@contextmanager
def given(value: Any) -> Iterator[None]:
    """In the block a program runs for these arguments."""
    _given.calls.append(objects_in(value))
    try:
        yield
    finally:
        _given.calls.pop()


def at_hand(number: int, traced: Any) -> Any:
    """The object that one of a trace stands for in the call at hand. Where a graph is run without
    a call (`verify`, profiles) nobody sees the change: it is made to a copy."""
    return _given.calls[-1][number] if _given.calls else copy(traced)


def returned(number: int) -> Any:
    """The object among the arguments of the call at hand that it returns; None without a call."""
    return _given.calls[-1][number] if _given.calls else None
