"""Copies between the host and a GPU through pinned memory.

The GPU reads and writes pages of the host by itself only where the system cannot move them away.
A few pinned chunks take turns, so that one is filled while the GPU still empties another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from .driver import NO_TIMING, CudaError, Driver

CHUNK = 4 << 20
CHUNKS = 3


class _Chunk:
    """Pinned memory, and the event after the last copy that uses it."""

    def __init__(self, driver: Driver) -> None:
        self.address = driver.handle("cuMemHostAlloc", CHUNK, 0)
        self.event = driver.handle("cuEventCreate", NO_TIMING)
        self.used = 0
        self.busy = False


class Staging:
    """Pinned chunks for copies on one stream; made when the first copy needs them.

    Args:
        stream: on which copies run.
        wait: until all of the stream is done.
    """

    def __init__(self, driver: Driver, stream: int, wait: Callable[[], None]) -> None:
        self._driver, self._stream, self._wait = driver, stream, wait
        self._chunks: list[_Chunk] = []
        self._turn = 0
        self._pinned = True

    def write(self, to: int, source: int, nbytes: int) -> None:
        """Copy from the host to the GPU, in the stream's order; the source may change afterwards.
        Raises CudaError if the driver refuses it."""
        if not self._have_chunks():
            self._driver.call("cuMemcpyHtoDAsync_v2", to, source, nbytes, self._stream)
            self._wait()
            return
        done = 0
        while done < nbytes:
            chunk = self._chunk_with_room(min(nbytes - done, CHUNK))
            part = min(nbytes - done, CHUNK - chunk.used)
            place = chunk.address + chunk.used
            ctypes.memmove(place, source + done, part)
            self._driver.call("cuMemcpyHtoDAsync_v2", to + done, place, part, self._stream)
            chunk.used += -(-part // 64) * 64
            done += part

    def read(self, source: int, to: int, nbytes: int) -> None:
        """Copy from the GPU to the host, after the present work of the stream. Raises CudaError if
        the driver refuses it, or what was launched failed."""
        if not self._have_chunks():
            self._driver.call("cuMemcpyDtoHAsync_v2", to, source, nbytes, self._stream)
            self._wait()
            return
        coming: list[tuple[_Chunk, int, int]] = []
        for done in range(0, nbytes, CHUNK):
            if len(coming) == CHUNKS - 1:
                self._arrive(*coming.pop(0))
            chunk, part = self._next(), min(nbytes - done, CHUNK)
            self._driver.call("cuMemcpyDtoHAsync_v2", chunk.address, source + done, part,
                              self._stream)
            self._mark(chunk)
            coming.append((chunk, to + done, part))
        for piece in coming:
            self._arrive(*piece)

    def _arrive(self, chunk: _Chunk, to: int, nbytes: int) -> None:
        self._driver.call("cuEventSynchronize", chunk.event)
        chunk.busy = False
        ctypes.memmove(to, chunk.address, nbytes)

    def _chunk_with_room(self, nbytes: int) -> _Chunk:
        """The chunk of the last small copy if it has room, or the next one."""
        chunk = self._chunks[self._turn]
        if not chunk.busy and chunk.used + nbytes <= CHUNK:
            return chunk
        return self._next()

    def _next(self) -> _Chunk:
        """An empty chunk, when the GPU is done with it."""
        current = self._chunks[self._turn]
        if current.used and not current.busy:
            self._mark(current)
        self._turn = (self._turn + 1) % CHUNKS
        chunk = self._chunks[self._turn]
        if chunk.busy:
            self._driver.call("cuEventSynchronize", chunk.event)
        chunk.used, chunk.busy = 0, False
        return chunk

    def _mark(self, chunk: _Chunk) -> None:
        """Nothing may change the chunk until the copies so far are done."""
        self._driver.call("cuEventRecord", chunk.event, self._stream)
        chunk.busy = True

    def _have_chunks(self) -> bool:
        """Whether there is pinned memory; a system that grants none does without."""
        if self._pinned and not self._chunks:
            try:
                self._chunks = [_Chunk(self._driver) for _ in range(CHUNKS)]
            except CudaError:
                self._driver.ready()  # it may be lost
                self._pinned = False
        return self._pinned
