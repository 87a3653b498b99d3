"""Handles that take a hook away again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from typing import Any

Hooks = OrderedDict[int, Callable[..., Any]]
_numbers = count()


class Handle:
    """The result of registering a hook: `remove()` takes the hook away."""

    def __init__(self, table: Hooks, number: int) -> None:
        self._table = weakref.ref(table)
        self._number = number

    def remove(self) -> None:
        """Take the hook away; nothing the second time."""
        table = self._table()
        if table is not None:
            table.pop(self._number, None)


def add_hook(table: Hooks, hook: Callable[..., Any]) -> Handle:
    """Put a hook into a table, last; its handle."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, but got {type(hook).__name__}")
    number = next(_numbers)
    table[number] = hook
    return Handle(table, number)
