"""The reads of a call from its arguments' objects, so that they can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class ReadsLog:
    """Reads of attributes, by the numbers of the objects.

    Args:
        objects: whose reads are noted.
        outer: a log that gets the same entries.
    """

    def __init__(self, objects: Sequence[Any], outer: ReadsLog | None) -> None:
        self._numbers = {id(o): i for i, o in enumerate(objects)}
        self._outer = outer
        # the object's number and the attribute of each read that `State` noted
        self.noted: dict[tuple[int, str], None] = {}
        # of each read that was reported -> the place of the read
        self.reported: dict[tuple[int, str], str] = {}

    def note(self, target: Any, name: str) -> None:
        """`State.note_read` has noted a read."""
        number = self._numbers.get(id(target))
        if number is not None:
            self.noted[number, name] = None
        if self._outer is not None:
            self._outer.note(target, name)

    def has(self, number: int, name: str) -> bool:
        """Whether an attribute of an object was read."""
        return (number, name) in self.noted or (number, name) in self.reported

    def report(self, target: Any, name: str, position: Callable[[], str]) -> None:
        """A read was reported; `position` gives the place that is being compiled."""
        number = self._numbers.get(id(target))
        if number is not None and (number, name) not in self.reported:
            self.reported[number, name] = position()
        if self._outer is not None:
            self._outer.report(target, name, position)
