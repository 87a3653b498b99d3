"""Entries of networks in which Python does a part (`lang.pieces`).

Each call has a log and a table of objects (`calls.pieces`). Where Python gives another shape or
value than the program is compiled for, or a branch is taken for the first time in which it has a
part, the call is traced again; the log keeps what has been done from being done twice. Older
programs stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import context
from ..calls.pieces import CallLog, Changed, Given, running
from ..core.invalidation import watch
from ..core.lru import LRU
from .entry import Entry

KEPT = 32  # Programs for other shapes and values that are kept for certain, at each place


class PiecesEntry(Entry):
    """The compiled programs for one signature.

    Args:
        part: runs the graph.
        given: what pieces gave, by their keys; later traces know it.
        again: traces and compiles a call another time, for arrays of the signature's types.
        call: that the trace was made for; it is to be run next.
    """

    several = True

    def __init__(
        self, part: Entry, given: dict[Any, Given],
        again: Callable[[CallLog, Sequence[Any]], PiecesEntry], call: CallLog,
    ) -> None:
        super().__init__(part.traced)
        self.part, self.given, self.again = part, given, again
        self.first: CallLog | None = call
        self.others: LRU[Any, PiecesEntry] = LRU(KEPT)
        self.count(part)
        watch([(context.OPTIONS, "jit_syntax_level")], self.flag)

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for arrays of the signature's types."""
        first, self.first = self.first, None
        known = first is not None and first.thread == CallLog().thread
        return self._run(first if known and first is not None else CallLog(), arrays, set())

    def _run(self, call: CallLog, arrays: Sequence[Any], seen: set[Any]) -> Any:
        self.calls += 1
        call.again()
        try:
            with running(call):
                return self.part.run(arrays)
        except Changed as e:
            changed = e
        self._check(call, changed, seen)
        self.given[changed.key[0]] = changed.given
        other = self.others.get(changed.key)
        if other is None or not other.fresh():
            other = self.others[changed.key] = self.again(call, arrays)
            other.first = None
        return other._run(call, arrays, seen | {changed.key})

    def _check(self, call: CallLog, changed: Changed, seen: set[Any]) -> None:
        """Refuse a call that cannot be repeated."""
        if changed.key in seen:
            raise TypeError(f"{changed}, in one call: in a loop it must always give the same type "
                            "and shape") from None
        if call.changed:
            raise TypeError(f"{changed}, and the network has changed Python objects before, so "
                            "that it cannot be traced again for it") from None
