"""Elements on a device with memory of its own.

A read of them (`asnumpy`, printing, checkpoints) gets a copy on the host, after all launched work
of the device, and the tensor stays where it is. An access that may write the host array
(`Tensor._data`) moves the tensor back to the host.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.device import Device
from cellc_runtime.device_array import DeviceArray

from . import writes
from .memory import Array, aligned_empty
from .state import LOCK, State, Storage, state_of, storage_of


class OnDevice(State):
    """Elements of a tensor that are on a device.

    Args:
        elements: where they are; other tensors may share them.
    """

    __slots__ = ("dtype", "elements", "shape")
    stays = True

    def __init__(self, elements: DeviceArray) -> None:
        self.elements, self.shape, self.dtype = elements, elements.shape, elements.dtype

    def array(self) -> Array:
        """The elements, copied to the host when the device has done what was launched."""
        return self.elements.numpy(aligned_empty(self.shape, self.dtype))

    def loaded(self, storage: Storage) -> None:
        """Programs that are bound to what was on the device look for what the tensor has now."""
        writes.advance()


def elements_of(tensor: Any) -> DeviceArray | None:
    """The elements of a tensor that is on a device; None of any other."""
    state = state_of(tensor)
    return state.elements if type(state) is OnDevice else None


def hold(tensor: Any, elements: DeviceArray) -> None:
    """The elements of a tensor are these from now on, whatever it had."""
    with LOCK:
        storage = storage_of(tensor)
        storage.leases = ()  # what was lent shares nothing with it from now on
        storage.defer(tensor, OnDevice(elements))


def to_device(tensor: Any, device: Device) -> DeviceArray:
    """Move a tensor to a device, where it stays; its elements there.

    An array that was lent before keeps what it holds, and is the tensor's no more. Raises
    MemoryError if the device has no room.
    """
    found = elements_of(tensor)
    if found is None:
        with LOCK:
            found = elements_of(tensor)
            if found is None:
                found = DeviceArray.of(device, storage_of(tensor).peek(tensor))
                hold(tensor, found)
                writes.advance()
    return checked(found, device)


def checked(elements: DeviceArray, device: Device) -> DeviceArray:
    """Elements on this device."""
    if elements.device is not device:
        raise ValueError(
            f"the device in use is {named(device)}, but a tensor {elements} is on "
            f"{named(elements.device)}; move it first: x.move_to('CPU') gives a copy that goes "
            "anywhere")
    return elements


def named(device: Device) -> str:
    """A device as users know it: `GPU:0`."""
    return f"GPU:{device.number}"
