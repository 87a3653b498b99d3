"""Parameters of compiled networks on a device with memory of its own."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from cellc_runtime.device import Device, Memory
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.packing import Packing
from cellc_runtime.prepacking import Source

from ..storage import device as on_device
from ..storage import storage_of
from ..tensors.tensor import Tensor


class OnDevice(Source):
    """A parameter (or large constant) as a program on a device is bound to it: it moves there.

    Args:
        tensor: the parameter.
        device: where the program runs.
    """

    def __init__(self, tensor: Tensor, device: Device) -> None:
        self.tensor, self.device = tensor, device
        self.shape, self.dtype = tensor.shape, tensor._type.dtype.numpy

    def key(self) -> Hashable | None:
        """Its number and version: who writes it on the device gives it another one."""
        storage = storage_of(self.tensor)
        return storage.number, storage.version

    def array(self) -> DeviceArray:
        """The elements, on the device."""
        return on_device.to_device(self.tensor, self.device)

    def release(self, key: Hashable, block: Memory, packing: Packing) -> Any:
        """It keeps its elements as they are beside what is packed of them."""
