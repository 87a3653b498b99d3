"""Which compiled entries read which attribute: so that a change invalidates exactly those.

A compiled entry registers every attribute it read while it was compiled. Setting an attribute
of a Cell looks the pair up (nothing more than a failed dictionary look-up in the usual case)
and marks its readers stale; the call path checks one flag.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any


class Stale:
    """The flag of one compiled entry: whether what it read has changed, and what.

    Attributes:
        forget: called when it has: takes away what answers calls without looking here.
    """

    __slots__ = ("__weakref__", "cause", "forget", "stale")

    def __init__(self) -> None:
        self.stale = False
        self.cause = ""
        self.forget: Callable[[], None] | None = None

    def raise_(self, cause: str) -> None:
        """Something has changed."""
        self.stale, self.cause = True, cause
        self.drop()

    def __del__(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Let nothing answer without looking here."""
        forget, self.forget = self.forget, None
        if forget is not None:
            forget()


_readers: dict[tuple[int, str], weakref.WeakSet[Stale]] = {}


def watch(reads: Iterable[tuple[Any, str]], flag: Stale) -> None:
    """`flag` goes up when one of these attributes is set."""
    for target, name in reads:
        _readers.setdefault((id(target), name), weakref.WeakSet()).add(flag)


_changes = 0


def count() -> int:
    """How many attributes have been set."""
    return _changes


def changed(target: Any, name: str) -> None:
    """An attribute was set."""
    global _changes
    _changes += 1
    readers = _readers.pop((id(target), name), None)
    if readers:
        for flag in readers:
            what = "the hooks" if name == "_hooks" else f"the attribute {name!r}"
            flag.raise_(f"{what} of {type(target).__name__} "
                        f"{'were changed' if name == '_hooks' else 'was set'}")
