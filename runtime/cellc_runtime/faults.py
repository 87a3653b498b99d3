"""What checks of programs have found on a device, told by the next wait.

A check on a device with memory of its own is work like any other: the call that launches it is over
before it is done. The first one that fails writes its number where the host sees it behind the next
wait, and until that is told nothing that programs launch changes a parameter or state. So it is as
if the program had stopped there, and those behind it had not been called. What they gave as results
means nothing, and is refused from then on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from .device import Device, Memory
from .errors import run_error

Raise = Callable[[int, int], None]
"""Raises the error of a number, whose values are in the arena at an address."""


class Faults:
    """The checks of a device.

    Args:
        device: whose checks they are.
        seen: where the host sees what was found: a number (0: nothing) and the arena's address.
        reset: lets the device forget it, behind all that was launched.
    """

    def __init__(self, device: Device, seen: int, reset: Callable[[], None]) -> None:
        self._device = device
        self._seen = (ctypes.c_int64 * 2).from_address(seen)
        self._seen[0] = 0
        self._reset = reset
        self._lock = threading.Lock()
        # Who is to tell is kept for two waits: what was launched before the first is done then.
        self._now: dict[int, tuple[Memory, Raise, int]] = {}
        self._before: dict[int, tuple[Memory, Raise, int]] = {}

    @property
    def found(self) -> bool:
        """Whether a check has failed, as far as the host can see without a wait."""
        return bool(self._seen[0])

    def launching(self, arena: Memory, tell: Raise) -> None:
        """A program with checks is launched in an arena; both are kept until a wait."""
        self._now.setdefault(arena.address, (arena, tell, self._device.launches))

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
            told = self._before.get(arena) or self._now.get(arena)
            self._seen[0] = 0  # what the message shows is read by a wait of its own
            # Of the calls in that arena any may be the one; all before the first of them are done.
            first, last = told[2] if told is not None else 0, self._device.launches
            self._device.lost = (*self._device.lost, range(first, last + 1))
        try:
            if told is not None:
                told[1](number, arena)
            raise run_error("RuntimeError", f"check {number} of a program that is gone failed", "",
                            0)
        finally:
            self._reset()
