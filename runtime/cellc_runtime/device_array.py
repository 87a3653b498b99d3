"""Elements in the memory of a device.

Inputs and results of programs on a device with memory of its own. A `DeviceArray` keeps its memory
alive; reading its elements copies them to the host, which waits for the device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import dtypes
from .device import Device, Memory
from .dtypes import Array


class DeviceArray:
    """An array on a device, contiguous and row-major.

    Args:
        device: where it is.
        shape: length of each axis.
        dtype: numpy's element type.
        what: it is for, as an error of memory says.

    Attributes:
        address: of the first element, in the device's memory.
        launch: the number of the call whose result it is; 0 if it is none.

    Raises:
        MemoryError: the device has no room for it: what was requested, and what there is.
        RuntimeError: the device is gone.
    """

    __slots__ = ("__weakref__", "_memory", "address", "device", "dtype", "launch", "nbytes",
                 "shape")

    def __init__(
        self, device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], what: str = ""
    ) -> None:
        self.device, self.shape, self.launch = device, shape, 0
        self.dtype = dtypes.from_numpy(dtype).numpy
        self.nbytes = math.prod(shape) * self.dtype.itemsize
        # An array is filled, or the result of a program, which writes all of it.
        self._memory: Memory = allocate(device, self.nbytes, what or f"an array {self}", unset=True)
        self.address = self._memory.address

    @staticmethod
    def of(device: Device, array: Array, what: str = "") -> DeviceArray:
        """A copy of an array of the host.

        Raises: as the class, and
            TypeError: no tensor has this element type.
        """
        out = DeviceArray(device, array.shape, array.dtype, what)
        out.fill(array)
        return out

    @staticmethod
    def over(
        device: Device, shape: tuple[int, ...], dtype: np.dtype[Any], memory: Memory, address: int
    ) -> DeviceArray:
        """An array in memory that is there, from an address in it on."""
        out = object.__new__(DeviceArray)
        out.device, out.shape, out.launch, out.dtype = device, shape, 0, dtype
        out.nbytes = math.prod(shape) * dtype.itemsize
        out._memory, out.address = memory, address
        return out

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def fill(self, array: Array) -> None:
        """Overwrite the elements by those of the host, of this shape and type."""
        self.device.check_usable()
        if self.nbytes:
            plain = np.ascontiguousarray(array, self.dtype)
            self.device.copy(self.address, plain.reshape(-1).view(np.uint8).data)

    def assign(self, other: DeviceArray) -> None:
        """Overwrite the elements by those of another array of this shape and type. Raises
        ValueError if it is on another device."""
        self.device.check_usable()
        on_device(other, self.device, "a value that is assigned")
        if self.nbytes and other.address != self.address:
            self.device.move(self.address, other.address, self.nbytes)

    def check_computed(self) -> None:
        """Raise if it is a result that means nothing. Raises RuntimeError if a check failed in the
        call that was to give it, or in one before."""
        if self.launch and any(self.launch in lost for lost in self.device.lost):
            raise RuntimeError(
                f"a tensor {self} on {self.device.name} has no elements: it is the result of a "
                "call that was launched before a failed check raised its error, "
                "and may not have been computed; call it again")

    def copy(self) -> DeviceArray:
        """A copy on the device."""
        out = DeviceArray(self.device, self.shape, self.dtype)
        out.assign(self)
        return out

    def numpy(self, out: Array | None = None) -> Array:
        """The elements on the host, when what was launched is done.

        Args:
            out: takes them: contiguous, of this shape and type.

        Raises:
            RuntimeError: what was launched failed, or the device is gone.
            RunError: a check of what was launched failed.
        """
        self.device.check_usable()
        array: Array = np.empty(self.shape, self.dtype) if out is None else out
        if self.device.lost:
            self.check_computed()
        if self.nbytes:
            self.device.read(self.address, array.reshape(-1).view(np.uint8).data)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"{dtypes.from_numpy(self.dtype).name}[{dims}]"

    def __repr__(self) -> str:
        return f"<DeviceArray {self} on {self.device.name}>"


def allocate(device: Device, nbytes: int, what: str, unset: bool = False) -> Memory:
    """Memory of a device.

    Args:
        unset: it is written before it is read, and need not be zero.

    Raises:
        MemoryError: there is not enough: what it was for, and what there is.
        RuntimeError: the device is gone.
    """
    device.check_usable()
    try:
        return device.allocate_unset(nbytes) if unset else device.allocate(nbytes)
    except MemoryError as e:
        s = device.statistics()
        there = f"; of its {s.total} bytes {s.allocated} are in use by arrays and programs and " \
                f"{s.free} are free" if s.total else ""
        raise MemoryError(
            f"{device.name} has no memory for {what} of {nbytes} bytes{there}: {e}") from None


def on_device(array: DeviceArray, device: Device, where: str) -> DeviceArray:
    """An array that is on this device. Raises ValueError if it is on another one; RuntimeError if
    it was never computed."""
    if array.device is not device:
        raise ValueError(
            f"{where}: a tensor on {device.name} (number {device.number}) is expected, but it is "
            f"on {array.device.name} (number {array.device.number}); move it first "
            "(Tensor.move_to('CPU') gives a copy that goes anywhere)")
    if device.lost:
        array.check_computed()
    return array


def on_host(value: Any) -> Any:
    """An array of the host for a `DeviceArray`; anything else itself."""
    return value.numpy() if isinstance(value, DeviceArray) else value
