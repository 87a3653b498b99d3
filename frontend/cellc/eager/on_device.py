"""The eager engine on a device with memory of its own.

Results stay on the device and calls do not wait for it: who looks at elements does. A Parameter
that an op reads moves there for good, any other tensor of the host is copied for the call
(constants once).
"""

from __future__ import annotations

from typing import Any

from cellc_runtime.device import Device
from cellc_runtime.device_array import DeviceArray

from ..core import device as devices
from ..core import dispatch
from ..core.dispatch import Attrs
from ..storage import device as on_device
from ..tensors.parameter import Parameter
from ..tensors.tensor import Elements, Tensor, Tensors, elements_for, result_of
from .engine import EagerEngine, frozen
from .recorder import active_recordings


class DeviceEngine(EagerEngine):
    """Runs ops on a device.

    Args:
        device: has memory of its own.
    """

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self._connected = True  # native sites are for the processor
        self.loops.elements = self.elements

    def elements(self, tensors: Tensors) -> list[Elements]:
        """The elements of operands, as programs on this device take them."""
        return [self._placed(t) for t in tensors]

    def _placed(self, t: Tensor) -> Elements:
        if isinstance(t, Parameter):
            return on_device.to_device(t, self.device)
        return elements_for(t, self.device)

    def run(self, op: str, operands: Tensors, attrs: Attrs) -> Any:
        """Run one op: a Tensor, or a tuple of them."""
        if list in map(type, attrs.values()):
            attrs = {k: frozen(v) for k, v in attrs.items()}
        arrays = self.elements(operands)
        found = self._found(op, operands, arrays, attrs)
        out = found.entry(*arrays)
        result = result_of(out) if found.single else tuple([result_of(a) for a in out])
        for r in active_recordings():
            r.note(found.info, operands, result)
        return result

    def _overwrite(self, parameter: Tensor, value: Tensor) -> Any:
        """Write all elements, on the device, whatever the tensor had before."""
        held = on_device.elements_of(parameter)
        new = self._placed(value)
        if held is None or held.device is not self.device:
            held = DeviceArray(self.device, new.shape, new.dtype)
            _fill(held, new)
            on_device.hold(parameter, held)
        else:
            _fill(held, new)
        return held


def _fill(to: DeviceArray, new: Elements) -> None:
    if isinstance(new, DeviceArray):
        to.assign(new)
    else:
        to.fill(new)


class Engines:
    """The eager engines: that of the processor, and one for each device that was used.

    Args:
        home: that of the processor.
    """

    def __init__(self, home: EagerEngine) -> None:
        self._home = home
        self._made: dict[int, DeviceEngine] = {}

    def use(self, device: Device | None) -> None:
        """Run ops on a device from now on."""
        engine = self._home
        if device is not None:
            found = self._made.get(id(device))  # (the engine keeps the device)
            engine = self._made[id(device)] = found or DeviceEngine(device)
        dispatch.install(engine)


def install() -> None:
    """Let ops run on the device of the context."""
    devices.follow(Engines(EagerEngine()).use)
