"""Which compiled entries read which attribute: so that a change invalidates exactly those.

A compiled entry registers every attribute it read while it was compiled. Setting an attribute
of a Cell looks the pair up (nothing more than a failed dictionary look-up in the usual case)
and marks its readers stale; the call path checks one flag.

Places are known by the `id` of their object: whoever owns a flag holds the objects that it watches,
so none of them is another object's while the flag is there. A place goes with its last reader.

Members that a program replaces in classes of cellc (`Tensor.__add__ = f`) are found by a comparison
with those that cellc has set (`own_members`, `replaced_members`).
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cellc_runtime.forks import renewed

_Place = tuple[int, str]  # The `id` of an object, and the name of an attribute


class Stale:
    """The flag of one compiled entry: whether what it read has changed, and what."""

    __slots__ = ("__weakref__", "cause", "forget", "stale", "watched")

    def __init__(self) -> None:
        self.stale = False
        self.cause = ""
        # called when it has: takes away what answers calls without looking here
        self.forget: Callable[[], None] | None = None
        self.watched: list[_Place] = []  # the places that it is a reader of

    def raise_(self, cause: str) -> None:
        """Something has changed."""
        self.stale, self.cause = True, cause
        self.drop()

    def __del__(self) -> None:
        self.drop()
        _left.extend(self.watched)

    def drop(self) -> None:
        """Let nothing answer without looking here."""
        forget, self.forget = self.forget, None
        if forget is not None:
            forget()


_readers: dict[_Place, weakref.WeakSet[Stale]] = {}
_left: deque[_Place] = deque()
"""Places that have lost a reader: they are looked at by the next `watch`, for a destructor may run
anywhere, also within one."""
_lock = renewed(threading.RLock())


def watch(reads: Iterable[tuple[Any, str]], flag: Stale) -> None:
    """`flag` goes up when one of these attributes is set. Its owner holds their objects."""
    with _lock:
        _sweep()
        places = [(id(target), name) for target, name in reads]
        for place in places:
            if place not in _readers:
                _readers[place] = weakref.WeakSet()
            _readers[place].add(flag)
        flag.watched += places


def _sweep() -> None:
    """Forget places without readers."""
    while _left:
        place = _left.popleft()
        readers = _readers.get(place)
        if readers is not None and not readers:
            del _readers[place]


_own: dict[type, dict[str, list[Any]]] = {}
_whole: list[type] = []  # The classes of which all members are noted


def own_members(cls: type, *names: str) -> None:
    """Note the members that cellc has given to a class by now: those of these names, or all."""
    members = _own.setdefault(cls, {})
    if not names:
        _whole.append(cls)
    for name in names or tuple(vars(cls)):
        members.setdefault(name, []).append(vars(cls)[name])


def own_member(cls: type, name: str) -> Any:
    """The first member of this name that cellc gave to a class; None if it gave none."""
    return _own[cls].get(name, (None,))[0]


def is_own_member(cls: type, name: str) -> bool:
    """Whether a class still has a member as cellc set it."""
    return any(vars(cls).get(name) is own for own in _own[cls].get(name, ()))


def replaced_members() -> dict[str, Any]:
    """The members of Tensor and its kinds that a program has replaced, deleted (then None) or
    added to their special methods, by name."""
    found: dict[str, Any] = {}
    for cls in _whole:
        own, now = _own[cls], vars(cls)
        found.update((name, None) for name in own if name not in now)
        for name, value in now.items():
            known = own.get(name)
            if known is None:
                if _is_special(name) or any(name in _own[c] for c in _whole):
                    found[name] = value
            elif not any(value is k for k in known):
                found[name] = value
    return found


def _is_special(name: str) -> bool:
    return name.startswith("__") and name not in _BOOKS_OF_PYTHON


_BOOKS_OF_PYTHON = ("__doc__", "__module__", "__dict__", "__weakref__", "__annotations__")
_changes = 0


def count() -> int:
    """How many attributes have been set."""
    return _changes


def changed(target: Any, name: str) -> None:
    """An attribute was set."""
    global _changes
    _changes += 1
    if (id(target), name) not in _readers:
        return
    with _lock:
        readers = _readers.pop((id(target), name), None)
    if readers:
        for flag in readers:
            what = "the hooks" if name == "_hooks" else f"the attribute {name!r}"
            flag.raise_(f"{what} of {type(target).__name__} "
                        f"{'were changed' if name == '_hooks' else 'was set'}")
