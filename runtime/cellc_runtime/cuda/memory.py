"""A caching allocator of a GPU's memory.

The driver's own allocation takes up to a millisecond and waits for the GPU. So freed blocks are
kept by size and used again at once: everything runs on one stream, so the next user of a block runs
after the last one. Repeated calls find the blocks at the same addresses, which lets one captured
graph serve them.

Sizes are rounded to eight steps per power of two, blocks up to `SMALL` are cut from slabs. Kept
blocks go back to the driver when it runs out of memory.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable

from ..device import Memory, MemoryStatistics
from ..forks import renewed
from ..records import dataclass

GRANULE = 512  # Blocks begin at multiples of this many bytes and are as large
SMALL, SLAB = 1 << 20, 2 << 20
"""Blocks up to the first size are cut from slabs of the second, which is the driver's page."""


class NoMemory(Exception):
    """The driver has no memory for a segment."""


@dataclass(slots=True, eq=False)
class _Segment:
    """Memory from the driver, whole or cut into blocks of one size."""

    address: int
    nbytes: int
    live: int = 0  # blocks in use


@dataclass(frozen=True, slots=True)
class _Block:
    address: int
    nbytes: int
    segment: _Segment


class _Owner:
    """Gives a block back when the memory goes.

    That may happen at any moment (the garbage collector's), also while the allocator is at work,
    and when the interpreter ends: so it only leaves a note.
    """

    __slots__ = ("_block", "_returned")

    def __init__(self, block: _Block, returned: deque[_Block]) -> None:
        self._block = block
        self._returned = returned

    def __del__(self) -> None:
        self._returned.append(self._block)


def block_size(nbytes: int) -> int:
    """Return the size of the block that holds a number of bytes."""
    step = max(GRANULE, 1 << max(nbytes - 1, 0).bit_length() >> 4)
    if nbytes > SMALL:
        step = max(step, SLAB)
    return -(-max(nbytes, 1) // step) * step


class Allocator:
    """The memory of one GPU.

    Args:
        take: takes a number of bytes from the driver, as an address; raises `NoMemory`.
        give: an address back to the driver.
        wait: until all that was launched is done.
        sizes: of the GPU: free and total bytes.
    """

    def __init__(
        self, take: Callable[[int], int], give: Callable[[int], None],
        wait: Callable[[], None], sizes: Callable[[], tuple[int, int]],
    ) -> None:
        self._take, self._give, self._wait, self._sizes = take, give, wait, sizes
        # Finalizers that the garbage collector runs may allocate while this thread is at work here.
        self._lock = renewed(threading.RLock())
        self._returned: deque[_Block] = deque()
        self._free: dict[int, list[_Block]] = {}
        self._segments: set[_Segment] = set()
        self._allocated = self._reserved = self._peak_allocated = self._peak_reserved = 0

    def allocate(self, nbytes: int) -> Memory:
        """Memory as it was left, at a multiple of 512 bytes. Raises NoMemory if there is none, nor
        in what was kept."""
        size = block_size(nbytes)
        with self._lock:
            block = self._find(size) or self._fresh(size)
            block.segment.live += 1
            self._allocated += size
            self._peak_allocated = max(self._peak_allocated, self._allocated)
        return Memory.over(_Owner(block, self._returned), block.address, nbytes)

    def owns(self, address: int, nbytes: int) -> bool:
        """Whether bytes lie in one segment."""
        with self._lock:
            return any(s.address <= address and address + nbytes <= s.address + s.nbytes
                       for s in self._segments)

    def release(self) -> int:
        """Give what is kept back to the driver; how many bytes that were."""
        with self._lock:
            return self._release()

    def statistics(self) -> MemoryStatistics:
        with self._lock:
            self._collect()
            return MemoryStatistics(self._allocated, self._peak_allocated, self._reserved,
                                    self._peak_reserved, *self._sizes())

    def reset_peaks(self) -> None:
        """Let the peaks begin at what is in use now."""
        with self._lock:
            self._collect()
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def _collect(self) -> None:
        """Take back what was freed since."""
        while self._returned:
            block = self._returned.popleft()
            block.segment.live -= 1
            self._allocated -= block.nbytes
            self._free.setdefault(block.nbytes, []).append(block)

    def _find(self, size: int) -> _Block | None:
        self._collect()
        kept = self._free.get(size)
        return kept.pop() if kept else None

    def _fresh(self, size: int) -> _Block:
        """A block of a new segment."""
        nbytes = size if size > SMALL else SLAB
        segment = _Segment(self._segment(nbytes), nbytes)
        self._segments.add(segment)
        self._reserved += nbytes
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        first, *others = (_Block(segment.address + at, size, segment)
                          for at in range(0, nbytes - size + 1, size))
        self._free.setdefault(size, []).extend(reversed(others))
        return first

    def _segment(self, nbytes: int) -> int:
        try:
            return self._take(nbytes)
        except NoMemory:
            gc.collect()  # tensors in cycles of garbage hold memory too
            self._release()
            return self._take(nbytes)

    def _release(self) -> int:
        self._collect()
        idle = {s for s in self._segments if not s.live}
        if not idle:
            return 0
        self._wait()  # what was launched may still use blocks that are free by now
        for size, kept in self._free.items():
            self._free[size] = [b for b in kept if b.segment not in idle]
        for segment in idle:
            self._give(segment.address)
        self._segments -= idle
        freed = sum(s.nbytes for s in idle)
        self._reserved -= freed
        return freed
