"""Prepacking: weights that compiled programs hold packed, and nobody holds otherwise.

Inference reads most weights packed. Keeping them as they were given too would double the memory,
so a Parameter whose array nobody else holds gives it up once a program has packed it, and unpacks
an array of its own the moment its elements are needed. Packing is a permutation: no bit
changes.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from cellc_runtime.device import Device, Memory
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.packing import Packing
from cellc_runtime.platform import Scratch
from cellc_runtime.prepacking import Source

from . import device as on_device
from . import writes
from .memory import LEAST_OWNED, Array, aligned_empty
from .state import State, Storage, storage_of

OFTEN = 4
"""How many times a Parameter is unpacked before it keeps its array: it is read again and again."""


class Prepacked(State):
    """Elements in a block of a compiled program, which is kept alive.

    Args:
        block: where they are; `packing` says how.
    """

    __slots__ = ("block", "dtype", "packing", "shape")
    stays = True

    def __init__(
        self, block: Scratch, packing: Packing, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.block, self.packing, self.shape, self.dtype = block, packing, shape, dtype

    def array(self) -> Array:
        """The elements, unpacked."""
        out = aligned_empty(self.shape, self.dtype)
        self.packing.unpack(self.block.address, out)
        return out

    def loaded(self, storage: Storage) -> None:
        """Until a program that holds it packed is called again the parameter has the array."""
        storage.unpacked += 1
        if storage.unpacked < OFTEN:
            writes.advance()


class Weight(Source):
    """A parameter (or large constant) of a compiled network, as the program is bound to it."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        storage_of(tensor)  # from now on it has a version
        self.shape, self.dtype = tensor.shape, tensor._type.dtype.numpy

    def key(self) -> Hashable | None:
        """Its number and version; None while someone holds an array that shares the memory."""
        storage = storage_of(self.tensor)
        return None if storage.lent else (storage.number, storage.version)

    def array(self) -> Array | DeviceArray:
        """The array, unpacked if need be."""
        data: Array = self.tensor._data
        return data

    def release(self, key: Hashable, block: Memory, packing: Packing) -> Array | None:
        """Give the array up if nobody else has it and it still holds what was packed."""
        storage, array = storage_of(self.tensor), self.tensor._host
        if array is None or array.nbytes < LEAST_OWNED or storage.unpacked >= OFTEN:
            return None
        state = Prepacked(block, packing, array.shape, array.dtype)
        del array  # it counts as somebody's
        return storage.give_up(self.tensor, state, lambda: self.key() == key)


class WeightOnDevice(Weight):
    """A parameter of a network on a device with its own memory: it moves there and keeps its plain
    elements besides the packed ones."""

    def __init__(self, tensor: Any, device: Device) -> None:
        super().__init__(tensor)
        self.device = device

    def key(self) -> Hashable | None:
        """Its number and version: who writes it on the device gives it another one."""
        storage = storage_of(self.tensor)
        return storage.number, storage.version

    def array(self) -> DeviceArray:
        """The elements, on the device."""
        return on_device.to_device(self.tensor, self.device)

    def release(self, key: Hashable, block: Memory, packing: Packing) -> Array | None:
        """Nothing is given up."""
        return None
