"""Errors that checks of programs find on a device, raised at the next synchronization.

A check on a device with memory of its own is work like any other: the call that launches it is over
before it is done. The first one that fails writes its number where the host sees it after the next
wait, and until that error is raised no launch changes a parameter or state. So it is as if the
program had stopped there, and later ones had not been called. Their results mean nothing, and are
refused from then on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from .device import Device, Memory
from .errors import run_error
from .forks import renewed
from .records import dataclass

Raise = Callable[[int, int], None]
"""Raises the error of a number, whose values are in the arena at an address."""


@dataclass(slots=True)
class _Pending:
    """Calls of a program in an arena that may not be done: what tells, and the numbers of the first
    and the last of them."""

    arena: Memory
    tell: Raise
    first: int
    last: int


class Faults:
    """The checks of a device.

    Args:
        seen: where the host sees what was found: a number (0: nothing) and the arena's address.
        reset: lets the device forget it, after all earlier launches.
    """

    def __init__(self, device: Device, seen: int, reset: Callable[[], None]) -> None:
        self._device = device
        self._seen = (ctypes.c_int64 * 2).from_address(seen)
        self._seen[0] = 0
        self._reset = reset
        self._lock = renewed(threading.Lock())
        self._pending: dict[int, _Pending] = {}

    @property
    def found(self) -> bool:
        """Whether a check has failed, as far as the host can see without a wait."""
        return bool(self._seen[0])

    @property
    def launched(self) -> int:
        """The number of the last call: a wait that begins now is for all until it."""
        return self._device.launches

    def launching(self, arena: Memory, tell: Raise) -> None:
        """A program with checks is launched in an arena; both are kept until a wait for it."""
        number = self._device.launches
        with self._lock:
            found = self._pending.get(arena.address)
            if found is None:
                self._pending[arena.address] = _Pending(arena, tell, number, number)
            else:
                found.last = number

    def look(self, done: int = 0) -> None:
        """Raise the errors of checks; called after a wait.

        Args:
            done: the calls up to this number are done.

        Raises:
            RunError: the error of the first that failed.
        """
        with self._lock:
            number, arena = self._seen
            if not number:
                self._forget(done)
                return
            found = self._pending.get(arena)
            self._seen[0] = 0  # what the message shows is read by a wait of its own
        try:
            if found is not None:
                found.tell(number, arena)
            raise run_error("RuntimeError", f"check {number} of a program that is gone failed", "",
                            0)
        finally:
            # Any of the calls in that arena may be the one; later ones did not count.
            self._reset()
            first = found.first if found is not None else 1
            self._device.lost = (*self._device.lost, range(first, self._device.launches + 1))

    def _forget(self, done: int) -> None:
        """The calls up to a number went well."""
        for address, pending in list(self._pending.items()):
            if pending.last <= done:
                del self._pending[address]
            else:
                pending.first = max(pending.first, done + 1)
