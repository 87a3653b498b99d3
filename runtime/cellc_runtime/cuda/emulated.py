"""A GPU that is emulated in this process: memory of its own, kernels run by the image's emulator.

Its memory is the host's, but no array of the host's is in it, and a program is given only
addresses that are: what a real GPU could not reach is an error here too.
"""

from __future__ import annotations

import bisect
import ctypes
import os
import threading
from collections.abc import Callable, Sequence

from .. import knobs
from ..abi import (
    EMULATED_SHARED,
    EMULATOR_STRUCTURES,
    FAULT_BYTES,
    MAIN,
    MOST_PARTS,
    PRECOMPUTE,
    Ext,
)
from ..device import Code, Device, Event, Memory, MemoryStatistics, host_memory
from ..faults import Faults
from ..forks import renewed
from ..loader import Host, MappedImage, main_function, precompute_function
from ..platform import Scratch
from ..program import Program
from ..target import EMULATED, Target, machine_target
from . import on_stream
from .queues import Queue

COPY, WAIT = "cellc_emulated_copy", "cellc_emulated_wait"
TENSOR_MAP = "cellc_emulated_tensor_map"
_FIELDS = [name for name, _ in EMULATOR_STRUCTURES["emulator"]]
_ERRORS = {
    2: "there is no memory for the threads of a block",
    700: "threads of a block wait for what never comes (lanes at different operations of their "
         "warp, a barrier that not all threads reach, an mbarrier that nobody completes)",
    701: "lanes of a warp give one product different descriptors or shapes",
    702: "a wgmma whose group does not begin with wgmma.fence, or ends without commit_group",
    703: "a descriptor of a wgmma that is not of 128 bytes' swizzle or leaves shared memory",
    704: "an address in shared memory that is outside of it or no multiple of what is moved there",
    705: "an mbarrier that was never set up, or was written over",
    706: "more arrivals at an mbarrier than it counts",
    707: "more asynchronous copies or products under way than the emulator keeps",
    708: "a block ended with asynchronous copies or products that nobody waited for",
    709: "operands of a wgmma changed before its group was waited for",
}


_NO_GRAPHS = (ctypes.c_void_p * MOST_PARTS)()
"""The emulator has none: parts are launched kernel by kernel."""
_GUARD = 4096
_GUARDED = b"\xfd" * _GUARD
"""The bytes before and after a block: a kernel that writes past its block harms nothing, and the
write is found when the block is given back."""


class EmulatedMemory(Scratch):
    """Memory of the emulated device, which knows what is in use. At first it holds NaN."""

    def __init__(self, device: EmulatedDevice, nbytes: int) -> None:
        super().__init__(nbytes + 2 * _GUARD)
        self.address += _GUARD
        self._device, self.nbytes = device, nbytes
        self._guards = [host_memory(self.address + at, _GUARD) for at in (-_GUARD, nbytes)]
        for guard in self._guards:
            guard[:] = _GUARDED
        ctypes.memset(self.address, 0xFF, nbytes)
        device.enter(self.address, nbytes)

    def __del__(self) -> None:
        device = getattr(self, "_device", None)
        if device is not None:
            device.leave(self.address, self.nbytes)
            device.overrun |= any(guard != _GUARDED for guard in self._guards)


class _Adopted(Scratch):
    """Memory of somebody else's that counts as the device's."""

    def __init__(self, device: EmulatedDevice, owner: object, address: int, nbytes: int) -> None:
        self._owner, self._device, self.address, self.nbytes = owner, device, address, nbytes
        device.enter(address, nbytes)

    def __del__(self) -> None:
        self._device.leave(self.address, self.nbytes)


class EmulatedDevice(Device):
    """See the module.

    Args:
        seed: the order in which warps and lanes run.
        limit: bytes that may be in use; None for as many as the process gets.
    """

    name = "emulated"
    own_memory = True

    def __init__(
        self, target: Target = EMULATED["emulated-sm_90a"], seed: int = 0, limit: int | None = None
    ) -> None:
        self.targets = {target.name: target}
        self.limit = limit
        self._state = (ctypes.c_int64 * len(_FIELDS))()
        self._shared = Scratch(EMULATED_SHARED + 1024)
        self.set_state("shared", -(-self._shared.address // 1024) * 1024)
        self.set_state("seed", seed)
        self.lock = renewed(threading.RLock())  # (a callback may run programs, too)
        self.overrun = False
        self._starts: list[int] | None = None
        self._sizes: dict[int, int] = {}
        self._used = self._peak = 0
        self._fault = Scratch(FAULT_BYTES + 16)  # the part that the host sees follows it
        self.enter(self._fault.address, FAULT_BYTES + 16)
        self._used = self._peak = 0
        self.faults = Faults(self, self.fault_seen, self._forget_fault)

    def state(self, name: str) -> int:
        """A field of what the emulator sees of this device (`abi.EMULATOR_STRUCTURES`)."""
        return int(self._state[_FIELDS.index(name)])

    def set_state(self, name: str, value: int) -> None:
        """Set one."""
        self._state[_FIELDS.index(name)] = value

    # --- checks ---------------------------------------------------------------------------------

    @property
    def fault(self) -> int:
        """The address of what checks have found (`abi.Ext.DEVICE_FAULT`)."""
        return self._fault.address

    @property
    def fault_seen(self) -> int:
        """The address at which the host sees it."""
        return self._fault.address + FAULT_BYTES

    def _forget_fault(self) -> None:
        ctypes.memset(self.fault, 0, 8)

    def launching(self, arena: Memory, tell: Callable[[int, int], None]) -> None:
        self.faults.launching(arena, tell)

    def poll(self) -> None:
        if self.faults.found:
            self.wait()

    # --- memory ---------------------------------------------------------------------------------

    def enter(self, address: int, nbytes: int) -> None:
        """A block is in use."""
        self._sizes[address] = nbytes
        self._starts = None
        self._used += nbytes
        self._peak = max(self._peak, self._used)

    def leave(self, address: int, nbytes: int) -> None:
        """A block is free."""
        del self._sizes[address]  # (at the interpreter's end there are no modules any more)
        self._starts = None
        self._used -= nbytes

    def owns(self, address: int, nbytes: int) -> bool:
        """Whether bytes lie in one block that is in use."""
        starts = self._starts
        if starts is None:
            starts = self._starts = sorted(self._sizes)
        at = bisect.bisect_right(starts, address) - 1
        if at < 0:
            return False
        start = starts[at]
        return address + nbytes <= start + max(self._sizes[start], 1)

    def adopt(self, owner: object, address: int, nbytes: int) -> Memory:
        if self.owns(address, nbytes):
            return super().adopt(owner, address, nbytes)
        return _Adopted(self, owner, address, nbytes)

    def allocate(self, nbytes: int) -> EmulatedMemory:
        if self.limit is not None and self._used + nbytes > self.limit:
            raise MemoryError(
                f"the emulated GPU has no memory for {nbytes} bytes more: {self._used} of "
                f"{self.limit} are in use")
        return EmulatedMemory(self, nbytes)

    def copy(self, to: int, source: bytes | memoryview) -> None:
        raw = memoryview(source).cast("B")
        self._owned(to, raw.nbytes)
        host_memory(to, raw.nbytes)[:] = raw

    def read(self, source: int, to: memoryview) -> None:
        self.wait()
        raw = to.cast("B")
        self._owned(source, raw.nbytes)
        raw[:] = host_memory(source, raw.nbytes)

    def _owned(self, address: int, nbytes: int) -> None:
        if nbytes and not self.owns(address, nbytes):
            raise RuntimeError(f"{nbytes} bytes at {address:#x} are not in the memory of the "
                               "emulated GPU")

    def statistics(self) -> MemoryStatistics:
        total = self.limit if self.limit is not None else 0
        return MemoryStatistics(self._used, self._peak, self._used, self._peak,
                                max(total - self._used, 0), total)

    # --- programs -------------------------------------------------------------------------------

    def check(self, program: Program) -> None:
        machine = machine_target().triple.split("-")[0]
        if program.target not in self.targets or program.image.machine != machine:
            raise ValueError(
                f"program {program.name!r} is compiled for {program.target} with a host of "
                f"{program.image.machine}; the emulated GPU of this process runs "
                f"{' and '.join(self.targets)} with one of {machine}")

    @property
    def queue_name(self) -> str:
        """A name that is unique among all emulated GPUs of this machine."""
        return f"{self.name} {os.getpid()} {id(self)}"

    def load(self, program: Program, callbacks: Sequence[Host]) -> Code:
        queue = Queue(self.queue_name, lambda: None, _zero, _move, self.allocate, lambda: None,
                      _Lane)
        return _EmulatedCode(self, program, on_stream.on_stream(program, callbacks, queue))

    def wait(self) -> None:
        code = self.state("error")
        self.set_state("error", 0)
        if self.overrun:
            self.overrun = False
            raise RuntimeError("a kernel has written beside a block of the emulated GPU's memory")
        if code:
            raise RuntimeError(f"a launch on the emulated GPU failed (error {code}): "
                               f"{_ERRORS.get(code, 'unknown')}")
        self.faults.look(self.launches)

    @property
    def state_address(self) -> int:
        """The address of the emulated stream that programs launch on."""
        return ctypes.addressof(self._state)


def _zero(address: int, nbytes: int, stream: int) -> None:
    ctypes.memset(address, 0, nbytes)


def _move(to: int, source: int, nbytes: int) -> None:
    ctypes.memmove(to, source, nbytes)


class _Lane:
    """See `queues.Lane`: all is done at once."""

    handle = 0

    def follow(self, mark: Event | None) -> None:
        """It is done."""

    def finish(self) -> None:
        """It is done."""


class _EmulatedCode:
    """See `Code`."""

    native = False

    def __init__(self, device: EmulatedDevice, program: Program, callbacks: Sequence[Host]) -> None:
        self._device, self._program = device, program
        extra = {Ext.DEVICE_STREAM: device.state_address, Ext.DEVICE_FAULT: device.fault,
                 Ext.DEVICE_FAULT_SEEN: device.fault_seen,
                 Ext.DEVICE_PARTS: ctypes.addressof(_NO_GRAPHS)}
        self._blocking = knobs.read().gpu_blocking
        self._image = MappedImage(program.image, extra, callbacks)
        self._image.fill({Ext.DEVICE_COPY: self._image.address(COPY),
                          Ext.DEVICE_WAIT: self._image.address(WAIT),
                          Ext.DEVICE_TENSOR_MAP: self._image.address(TENSOR_MAP)})
        self._main = main_function(self.address(MAIN))
        self.launch: Callable[[int, int, int], int] = self._launch

    def _launch(self, slots: int, arena: int, consts: int) -> int:
        """Start `cellc_main`; every slot must be in the device's memory."""
        given = self._program.slots
        table = (ctypes.c_void_p * max(len(given), 1)).from_address(slots)
        for number, (pointer, slot) in enumerate(zip(table, given, strict=False)):
            if slot.nbytes and number not in self._program.unread and not self._device.owns(
                    pointer or 0, slot.nbytes):
                raise RuntimeError(f"{self._program.name!r} was given memory for {slot.name!r} "
                                   f"({slot}, {slot.kind}) that is not the emulated GPU's")
        with self._device.lock:  # threads of a block are the device's, one block after the other
            code = self._main(slots, arena, consts)
        if self._blocking and not code:
            self._device.wait()
        return code

    def precompute(self, slots: int, arena: int, consts: int, part: int) -> int:
        function = precompute_function(self.address(PRECOMPUTE))
        with self._device.lock:
            return function(slots, arena, consts, part)

    def address(self, symbol: str) -> int:
        return self._image.address(symbol)
