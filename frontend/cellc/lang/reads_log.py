"""The reads of a call from its arguments' objects, so that they can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .interpreter import Interpreter

OnRead = Callable[[Any, str], None] | None


class ReadsLog:
    """Reads of attributes, by the numbers of the objects.

    Args:
        objects: whose reads are noted.
        outer: a log that gets the same entries.
    """

    def __init__(self, objects: Sequence[Any], outer: ReadsLog | None) -> None:
        self._numbers = {id(o): i for i, o in enumerate(objects)}
        self._outer = outer
        self._noted: dict[tuple[int, str], None] = {}
        self._reported: dict[tuple[int, str], str] = {}

    def note(self, target: Any, name: str) -> None:
        """`State.note_read` has noted a read."""
        number = self._numbers.get(id(target))
        if number is not None:
            self._noted[number, name] = None
        if self._outer is not None:
            self._outer.note(target, name)

    def has(self, number: int, name: str) -> bool:
        """Whether an attribute of an object was read."""
        return (number, name) in self._noted or (number, name) in self._reported

    def reporting(self, vm: Interpreter, report: OnRead) -> OnRead:
        """`Hooks.on_attribute_read` that this log hears too."""
        if report is None:
            return None

        def both(target: Any, name: str) -> None:
            number = self._numbers.get(id(target))
            if number is not None:
                self._reported.setdefault((number, name), vm.position())
            report(target, name)

        return both

    def again(self, vm: Interpreter, objects: Sequence[Any]) -> None:
        """The same reads of other objects."""
        for number, name in self._noted:
            if vm.state.note_read(objects[number], name):
                vm.state.mark(getattr(objects[number], name, None))
        report = vm.hooks.on_attribute_read
        if report is not None:
            outer = vm.read_at
            for (number, name), place in self._reported.items():
                vm.read_at = place
                report(objects[number], name)
            vm.read_at = outer
