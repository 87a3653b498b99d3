"""The GPU's parts that collectives and messages use: memory, the programs' stream, others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..device import Event, Memory
from ..dtypes import DType
from ..records import dataclass

Zero = Callable[[int, int, int], None]
"""Fills memory with zeros: the address, the number of bytes, the stream."""
Move = Callable[[int, int, int], None]
"""Copies in the order of the programs' stream: target address, source address, number of bytes."""


class Lane(Protocol):
    """A stream apart from that of the programs."""

    handle: int  # as the driver has it

    def follow(self, mark: Event | None) -> None:
        """Let later work on it wait for a mark of `Queue.mark`."""

    def finish(self) -> None:
        """Return when all on it is done. Raises RuntimeError if some of it failed."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A device as collectives and messages need it."""

    name: str  # which GPU of the machine it is, the same for all processes
    use: Callable[[], None]  # makes it the one of this thread's calls
    # zero, move: see `Zero` and `Move`
    zero: Zero
    move: Move
    # allocates a number of bytes, given back in the order of the programs' stream
    room: Callable[[int], Memory]
    # after the present work of the programs' stream; None where that is done already
    mark: Callable[[], Event | None]
    lane: Callable[[], Lane]  # a stream of its own


@dataclass(frozen=True, slots=True)
class Given:
    """Arguments of a callback: addresses and bytes in the GPU's memory, the stream, and the type of
    the elements. A message has no result, or no operand: 0 bytes at 0."""

    x: int
    x_bytes: int
    out: int
    out_bytes: int
    stream: int
    dtype: DType
