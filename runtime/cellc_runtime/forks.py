"""Preparation of a child made by fork: free locks, and nothing half done.

The child has one thread. A lock that another thread of the parent held would never be released
there, so every lock of the packages is registered here and is free in the child (`tests/structure`
finds those that are not). Locks do not help where they guard state of a library: Python's imports,
SQLite and LLVM. A fork waits while another thread is in one of those.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import methodcaller
from threading import get_ident
from typing import Any, TypeVar

L = TypeVar("L")
_PATIENCE = 5.0  # Seconds that a fork waits for other threads
_POLL = 2e-4

_renew = methodcaller("_at_fork_reinit")  # what Python's own modules call in a child
_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_within: dict[int, int] = {}
"""How many times each thread is in what forks wait for. Each thread changes its own entry only, so
the interpreter's lock suffices."""
_forking: list[int] = []  # The threads that fork


def renewed(lock: L) -> L:
    """A Lock, RLock, Condition or Event that is free in a child made by fork.

    An RLock stays held where the forking thread holds it: that thread continues in the child.
    Raises TypeError if it is something else, a semaphore, say.
    """
    if not hasattr(lock, "_at_fork_reinit"):
        raise TypeError(f"a {type(lock).__name__} cannot be made free in a child")
    _locks.add(lock)
    return lock


def in_child(function: Callable[[], object]) -> None:
    """Call a function in each child made by fork, after the locks are free."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


@contextmanager
def no_fork() -> Iterator[None]:
    """No other thread forks within the block (a fork waits for some seconds, no longer)."""
    me = get_ident()
    depth = _within.get(me, 0)
    end = time.monotonic() + _PATIENCE
    while True:
        _within[me] = depth + 1
        if depth or not _others(_forking) or time.monotonic() > end:
            break
        del _within[me]
        time.sleep(_POLL)
    try:
        yield
    finally:
        if depth:
            _within[me] = depth
        else:
            _within.pop(me, None)


def _others(threads: list[int] | dict[int, int]) -> bool:
    me = get_ident()
    return any(thread != me for thread in tuple(threads))


def _before() -> None:
    _forking.append(get_ident())
    end = time.monotonic() + _PATIENCE
    while _others(_within) and time.monotonic() < end:
        time.sleep(_POLL)


def _in_parent() -> None:
    _forking.remove(get_ident())


def _in_child() -> None:
    me = get_ident()
    _forking.clear()
    for thread in [t for t in _within if t != me]:
        del _within[thread]
    for lock in _locks:
        owned = getattr(lock, "_is_owned", None)
        if owned is None or not owned():
            _renew(lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
