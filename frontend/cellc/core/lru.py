"""An LRU dict: what was used last stays, so that new shapes without end fill no memory.

It has two generations. Entries are looked up in the younger first; one found in the elder moves
over. When the younger is full it becomes the elder, and what the old elder still holds has not been
used since and goes. A hit in the younger, the usual case, costs one look-up: less than an order of
use kept in a list, and no lock, since each step is one operation of a dict.
"""

from __future__ import annotations

from collections.abc import Hashable, ItemsView, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_ABSENT: Any = object()


class LRU(Generic[K, V]):
    """Values by key. The `limit` keys used last are always there, twice as many at most."""

    __slots__ = ("_elder", "_younger", "limit")

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"expected a limit of at least 1 entry, got {limit}")
        self.limit = limit
        self._younger: dict[K, V] = {}
        self._elder: dict[K, V] = {}

    def get(self, key: K, default: V | None = None) -> V | None:
        """The value of a key, which counts as used now, or the default."""
        found: V = self._younger.get(key, _ABSENT)
        if found is not _ABSENT:
            return found
        found = self._elder.get(key, _ABSENT)
        if found is _ABSENT:
            return default
        return self.setdefault(key, found)

    def __getitem__(self, key: K) -> V:
        found: V = self.get(key, _ABSENT)  # type: ignore[assignment]  # never None
        if found is _ABSENT:
            raise KeyError(key)
        return found

    def setdefault(self, key: K, value: V) -> V:
        """Keep a value, unless another thread was first: what is kept."""
        return self._with_room(key).setdefault(key, value)

    def __setitem__(self, key: K, value: V) -> None:
        self._with_room(key)[key] = value

    def _with_room(self, key: K) -> dict[K, V]:
        """The younger generation, emptied if it has no room for a key."""
        younger = self._younger
        if len(younger) >= self.limit and key not in younger:
            self._elder = younger
            self._younger = younger = {}
        return younger

    def pop(self, key: K, default: V | None = None) -> V | None:
        """Forget a key; the value it had, or the default."""
        elder = self._elder.pop(key, default)
        return self._younger.pop(key, elder)

    def items(self) -> ItemsView[K, V]:
        """Keys with their values, which do not count as used by that."""
        return {**self._elder, **self._younger}.items()

    def values(self) -> list[V]:
        """The values, none of which counts as used by that."""
        return [value for _, value in self.items()]

    def __contains__(self, key: object) -> bool:
        return key in self._younger or key in self._elder

    def __len__(self) -> int:
        return len(set(self))

    def __iter__(self) -> Iterator[K]:
        return iter({**self._elder, **self._younger})

    def clear(self) -> None:
        """Forget everything."""
        self._younger, self._elder = {}, {}
