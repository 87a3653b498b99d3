"""Blocks that programs compute when parameters are bound, shared by all that compute the same.

A block is named by what fills it and by the contents of its sources, so programs for other sizes of
one network share packed weights. A program that reads a parameter packed needs no unpacked copy: a
`Source` is notified where its elements are packed, and may then free its own array.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .device import Device, Memory
from .device_array import DeviceArray, allocate
from .dtypes import Array
from .packing import Packing
from .platform import HUGE, Scratch, Slabs, trim_memory
from .program import Program

Fill = Callable[[int, Mapping[int, int]], None]

_shared: weakref.WeakValueDictionary[Any, Memory] = weakref.WeakValueDictionary()
"""Blocks in use, by where they are, what fills them and the contents of their sources."""

_TRIM = 16 << 20  # Bytes that were given up after which the system gets them back


class _FreeBlocks:
    """Memory for packed weights.

    Large weights that were packed and given up lie in huge pages: the next ones of their size are
    packed into their memory, for the system takes as long to give fresh memory as packing takes.
    Smaller ones lie in small pages, from which kernels of few rows read slowly: the next ones are
    cut from slabs.

    Args:
        sizes: bytes of all blocks.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        # One copy of all weights, and room for the largest block in addition.
        self._limit = max(sizes, default=0)
        self._slabs = Slabs(sum(n for n in sizes if n < HUGE))
        self._arrays: dict[int, list[Array]] = {}
        self._bytes = 0
        self._released = 0

    def add(self, array: Array | None) -> None:
        """Nobody uses this array any more, if it is one."""
        if array is None:
            return
        if array.nbytes < HUGE:
            self._released += array.nbytes
            return
        self._arrays.setdefault(array.nbytes, []).append(array)
        self._bytes += array.nbytes

    def take(self, nbytes: int, zeroed: bool) -> Scratch:
        """A block of this size; whatever is in it, unless it is to be zeros."""
        found = self._arrays.get(nbytes, []) if not zeroed else []
        while found:
            array = found.pop()
            self._bytes -= nbytes
            address = int(array.__array_interface__["data"][0])
            if not address % 64:
                return Scratch.over(array, address, nbytes)
            self._released += nbytes
        while self._arrays and self._bytes + nbytes > self._limit:
            size, arrays = self._arrays.popitem()
            self._bytes -= size * len(arrays)
            self._released += size * len(arrays)
            del arrays
        if self._released >= _TRIM:
            self._released = 0
            trim_memory()
        return self._slabs.take(nbytes) if nbytes < HUGE else Scratch(nbytes)

    def drop(self) -> None:
        """Give all of it up."""
        gone = self._bytes + self._released
        self._arrays.clear()
        self._bytes = self._released = 0
        if gone:
            trim_memory()


class Source(ABC):
    """A parameter that may give up its memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def key(self) -> Hashable | None:
        """Differs whenever the elements do; None if they may change at any time, unseen."""

    @abstractmethod
    def array(self) -> Array | DeviceArray:
        """The elements."""

    @abstractmethod
    def release(self, key: Hashable, block: Memory, packing: Packing) -> Array | None:
        """The elements that were there under `key` are in a block, in this layout.

        Returns:
            The array, if it was given up: its memory is the caller's now.
        """


class Blocks:
    """Makes or finds the blocks of one program.

    Args:
        fill: called with the number of a block and the addresses of its slot and sources.
    """

    def __init__(self, program: Program, fill: Fill, device: Device) -> None:
        self._program = program
        self._device = device
        self._fill = fill
        self._first = len(program.slots) - len(program.precomputed)
        self._last = {s: number for number, a in enumerate(program.precomputed) for s in a.sources}

    def bind(
        self, addresses: Mapping[int, int], keys: Mapping[int, Hashable | None],
        sources: Mapping[int, Source], take: Callable[[int], Array | DeviceArray],
    ) -> list[Memory]:
        """The blocks for parameters of these contents, in order.

        One after the other: a weight that is packed is given up before the next one is.

        Args:
            addresses: by slot, of the parameters that are arrays.
            keys: by slot, of the contents of parameters.
            sources: by slot, of the parameters that are not.
            take: the array of such a parameter, laid out as the program needs it.
        """
        known = dict(keys)
        blocks: list[Memory] = []
        packed: dict[int, tuple[Memory, Packing]] = {}
        free = _FreeBlocks([s.nbytes for s in self._program.slots[self._first :]])
        for number, precomputed in enumerate(self._program.precomputed):
            parts = tuple(known[s] for s in precomputed.sources)
            key = None if None in parts else (self._place(), precomputed.key, parts)
            block = _shared.get(key) if key is not None else None
            if block is None:
                block = self._made(number, blocks, addresses, sources, take, free)
                if key is not None:
                    _shared[key] = block
            known[self._first + number] = key
            blocks.append(block)
            if key is None or self._device.own_memory:
                continue
            if precomputed.packing is not None:
                packed.setdefault(precomputed.sources[0], (block, precomputed.packing))
            for s in precomputed.sources:
                if self._last[s] == number and s in packed and s in sources:
                    free.add(sources[s].release(known[s], *packed[s]))
        free.drop()
        return blocks

    def _place(self) -> Hashable:
        """Which memory: that of the process, or that of a device."""
        return (self._device.name, self._device.number) if self._device.own_memory else ""

    def _room(self, number: int, free: _FreeBlocks) -> Memory:
        """Memory for a block; of zeros where it has gaps between its elements."""
        precomputed = self._program.precomputed[number]
        nbytes = self._program.slots[self._first + number].nbytes
        whole = precomputed.packing is not None and precomputed.packing.stored_bytes == nbytes
        if not self._device.own_memory:
            return free.take(nbytes, zeroed=not whole)
        block = allocate(self._device, nbytes, f"packed weights of {self._program.name!r}")
        if nbytes and not whole:
            self._device.copy(block.address, bytes(nbytes))
        return block

    def _made(
        self, number: int, before: list[Memory], addresses: Mapping[int, int],
        sources: Mapping[int, Source], take: Callable[[int], Array | DeviceArray],
        free: _FreeBlocks,
    ) -> Memory:
        """A block, filled: memory of its own, for a call that still runs may use the old."""
        slot, precomputed = self._first + number, self._program.precomputed[number]
        block = self._room(number, free)
        places = {slot: block.address}
        held: list[Array | DeviceArray] = []  # until the block is filled
        for s in precomputed.sources:
            if s >= self._first:
                places[s] = before[s - self._first].address
            elif s in sources:
                array = take(s)
                held.append(array)
                places[s] = array.address if isinstance(array, DeviceArray) else \
                    int(array.__array_interface__["data"][0])
            else:
                places[s] = addresses[s]
        self._fill(number, places)
        return block
