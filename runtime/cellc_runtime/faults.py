"""What checks of programs have found on a device, told by the next wait.

A check on a device with memory of its own is work like any other: the call that launches it is over
before it is done. The first one that fails writes its number where the host sees it behind the next
wait, and until that is told nothing that programs launch changes a parameter or state. So it is as
if the program had stopped there, and those behind it had not been called; what they gave as results
means nothing.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from .device import Memory
from .errors import run_error

Raise = Callable[[int, int], None]
"""Raises the error of a number, whose values are in the arena at an address."""


class Faults:
    """The checks of a device.

    Args:
        seen: where the host sees what was found: a number (0: nothing) and the arena's address.
        reset: lets the device forget it, behind all that was launched.
    """

    def __init__(self, seen: int, reset: Callable[[], None]) -> None:
        self._seen = (ctypes.c_int64 * 2).from_address(seen)
        self._seen[:] = 0, 0
        self._reset = reset
        self._lock = threading.Lock()
        # Who is to tell is kept for two waits: what was launched before the first is done then.
        self._now: dict[int, tuple[Memory, Raise]] = {}
        self._before: dict[int, tuple[Memory, Raise]] = {}

    @property
    def found(self) -> bool:
        """Whether a check has failed, as far as the host can see without a wait."""
        return bool(self._seen[0])

    def launching(self, arena: Memory, tell: Raise) -> None:
        """A program with checks is launched in an arena; both are kept until a wait."""
        self._now[arena.address] = arena, tell

    def look(self) -> None:
        """Raise what checks have found; called behind a wait.

        Raises:
            RunError: the error of the first that failed.
        """
        with self._lock:
            number, arena = self._seen
            if not number:
                self._before, self._now = self._now, {}
                return
            told = self._now.get(arena) or self._before.get(arena)
            self._seen[0] = 0  # what the message shows is read by a wait of its own
        try:
            if told is not None:
                told[1](number, arena)
            raise run_error("RuntimeError", f"check {number} of a program that is gone failed", "",
                            0)
        finally:
            self._reset()
