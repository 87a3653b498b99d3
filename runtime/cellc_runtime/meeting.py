"""Steps of ranks that read each other's memory, as whoever takes part sees them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

import numpy as np

Bytes = np.ndarray[Any, Any]  # A writable or readable array of uint8 with one axis


class Meeting(Protocol):
    """A step of ranks that read each other's memory, which come to it once and again.

    A rank does not wait for those that have come: `over` asks. Memory written before a rank came is
    visible once `over` is true, and nobody may write memory that others read before all have come
    once more.
    """

    def over(self) -> bool:
        """Whether all have come as often as this rank. Raises CollectiveError if they have reached
        different steps."""

    def again(self) -> None:
        """This rank comes again, since it was over."""

    def read(self, place: int, buffer: int, start: int, out: Bytes) -> None:
        """Fill `out` with what the group's rank at a place has in one of its buffers."""

    def look(self) -> None:
        """See that those who have not come will; called while it is not over. Raises
        CollectiveError if they will not."""

    def leave(self) -> None:
        """This rank does not come again: all is read, or given up."""


Phases = Generator[Meeting]
"""A collective that gives the meeting which must be over before it continues."""
