"""The eager engine on a device with memory of its own.

Results stay on the device and calls do not wait for it: who looks at elements does. A Parameter
that an op reads moves there for good, any other tensor of the host is copied for the call
(constants once). Positions are checked there, too: errors are raised at the next synchronization,
and until then no Parameter changes.
"""

from __future__ import annotations

import inspect
from types import FrameType
from typing import Any

from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime.device import Device
from cellc_runtime.device_array import DeviceArray
from cellc_runtime.executable import Executable

from ..core import device as devices
from ..core import dispatch
from ..core.dispatch import Attrs
from ..core.later import driver
from ..core.lru import LRU
from ..storage import device as on_device
from ..tensors.parameter import Parameter
from ..tensors.tensor import Elements, Tensor, Tensors, elements_for, result_of
from .engine import EagerEngine, frozen
from .recorder import active_recordings

_KEPT = 256  # Types of Parameters whose programs of assignment are kept


class DeviceEngine(EagerEngine):
    """Runs ops on a device.

    Args:
        device: has memory of its own.
    """

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self._connected = True  # native sites are for the processor
        self._assigning: LRU[Any, Executable] = LRU(_KEPT)
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
        new = self._placed(value)
        held = on_device.elements_of(parameter)
        if held is not None and held.device is not self.device:
            on_device.hold(parameter, DeviceArray(self.device, new.shape, new.dtype))
        held = on_device.to_device(parameter, self.device)
        self._assign(value).call([held, new])
        return held

    def _assign(self, value: Tensor) -> Executable:
        """Return the program that overwrites elements of a type, unless a check has failed."""
        kind = TensorType(value.shape, value.dtype)
        found = self._assigning.get(kind)
        if found is None:
            graph = Graph("assign")
            old, new = (graph.add_input(kind, name) for name in ("old", "new"))
            graph.updates.append((old, new))
            found = self._assigning[kind] = Executable(driver.compile_program(graph))
        return found

    # --- checks ---------------------------------------------------------------------------------

    def stays(self, tensor: Tensor) -> bool:
        """See `cellc.core.dispatch.stays`."""
        return on_device.elements_of(tensor) is not None

    def check(self, index: Tensor, low: int, high: int, parts: tuple[str | int, ...]) -> None:
        """See `cellc.core.dispatch.check_there`. The program knows the user's line, so that each
        line has one of its own."""
        self.run("check", (index,), {"low": low, "high": high, "error": "IndexError",
                                     "parts": parts, "detail": _called_at()})


def _called_at() -> str:
    """The user's line that calls, as errors note it."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        if module not in ("cellc", "cellc_runtime", "contextlib", "functools"):
            return f"  at {frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


class Engines:
    """The eager engines: that of the processor, and one for each device that was used."""

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
