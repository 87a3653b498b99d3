"""A device with memory of its own, over the processor's kernels.

Its memory is blocks that it gave itself. A launch looks at every address that it is given: one that
lies in none of the blocks (an array of the host that was handed in by mistake) is an error.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from cellc_compiler import backends
from cellc_compiler.backends.base import Backend, Build
from cellc_compiler.lower.machine import Machine
from cellc_compiler.passes.base import Pass
from cellc_runtime import device
from cellc_runtime.device import Device, MemoryStatistics, Properties, host_memory
from cellc_runtime.loader import Host
from cellc_runtime.platform import Scratch
from cellc_runtime.program import Program
from cellc_runtime.records import replace
from cellc_runtime.target import Target, host_targets

TARGET = replace(host_targets()[0], name="far", accelerator=True)
ROOM = 1 << 30


class Block(Scratch):
    """Memory of the device; it leaves the device's list with its last reference."""

    def __init__(self, home: FarDevice, nbytes: int) -> None:
        super().__init__(nbytes)
        ctypes.memset(self.address, 0xFF, nbytes)  # NaN, in floats
        weakref.finalize(self, home.gone_blocks.append, self.address)


class FarDevice(Device):
    """See the module.

    Attributes:
        launches: of programs.
        reads: copies to the host; `copies` from it.
        failure: what the next launch fails of; "" for nothing.
    """

    own_memory = True

    def __init__(self, name: str = "far", number: int = 0, target: Target = TARGET) -> None:
        self.name, self.number, self.targets = name, number, {target.name: target}
        self.launches = self.reads = self.copies = 0
        self.failure = ""
        self.room = ROOM
        self.gone_blocks: deque[int] = deque()
        self._lock = threading.RLock()
        self._blocks: dict[int, int] = {}
        self._peak = 0

    def check(self, program: Program) -> None:
        if program.target not in self.targets:
            raise ValueError(f"program {program.name!r} is compiled for {program.target}; "
                             f"{self.name} runs {', '.join(self.targets)}")

    def allocate(self, nbytes: int) -> Any:
        with self._lock:
            if self.used() + nbytes > self.room:
                raise MemoryError(f"{nbytes} bytes are more than there is room for")
            block = Block(self, nbytes)
            self._present()  # the address may be that of one that is gone
            self._blocks[block.address] = max(nbytes, 1)
            self._peak = max(self._peak, self.used())
        return block

    def _present(self) -> dict[int, int]:
        """The blocks, without those that are gone (which finalisers say at any time)."""
        while self.gone_blocks:
            del self._blocks[self.gone_blocks.popleft()]
        return self._blocks

    def used(self) -> int:
        """Bytes of all blocks."""
        with self._lock:
            return sum(self._present().values())

    def owns(self, address: int, nbytes: int) -> bool:
        """Whether memory is all in one of the blocks."""
        with self._lock:
            return any(start <= address and address + nbytes <= start + size
                       for start, size in self._present().items())

    def _checked(self, address: int, nbytes: int, what: str) -> None:
        if not self.owns(address, nbytes):
            raise AssertionError(f"{what}: {nbytes} bytes at {address:#x} are not {self.name}'s")

    def copy(self, to: int, source: bytes | memoryview) -> None:
        raw = memoryview(source).cast("B")
        self._checked(to, raw.nbytes, "a copy to the device")
        self.copies += 1
        host_memory(to, raw.nbytes)[:] = raw

    def read(self, source: int, to: memoryview) -> None:
        raw = to.cast("B")
        self._checked(source, raw.nbytes, "a copy to the host")
        self.reads += 1
        raw[:] = host_memory(source, raw.nbytes)

    def move(self, to: int, source: int, nbytes: int) -> None:
        for address in (to, source):
            self._checked(address, nbytes, "a copy on the device")
        ctypes.memmove(to, source, nbytes)

    def statistics(self) -> MemoryStatistics:
        used = self.used()
        return MemoryStatistics(used, self._peak, used, self._peak, self.room - used, self.room)

    def reset_peaks(self) -> None:
        self._peak = self.used()

    def properties(self) -> Properties:
        return Properties("A far device", self.room, 9, 0, 132)

    def load(self, program: Program, callbacks: Sequence[Host]) -> Any:
        return _FarCode(self, program, callbacks)

    def wait(self) -> None:
        if self.failure:
            raise RuntimeError(f"{self.name}: {self.failure}")


class _FarCode:
    """A program of the processor's, whose launches are looked at."""

    native = False

    def __init__(self, home: FarDevice, program: Program, callbacks: Sequence[Host]) -> None:
        self._home, self._program = home, program
        self._code = device.host().load(program, callbacks)

    def launch(self, slots: int, arena: int, consts: int) -> int:
        """See `Code`."""
        home = self._home
        if home.failure:
            return -2
        home.launches += 1
        given = (ctypes.c_void_p * len(self._program.slots)).from_address(slots)
        unread = self._program.unread
        for i, (slot, address) in enumerate(zip(self._program.slots, given, strict=True)):
            if address or i not in unread:
                home._checked(address or 0, slot.nbytes, f"{slot.name} of {self._program.name}")
        home._checked(arena, self._program.arena_bytes, "the arena")
        home._checked(consts, len(self._program.constants), "the constants")
        return self._code.launch(slots, arena, consts)

    def precompute(self, slots: int, arena: int, consts: int, part: int) -> int:
        """See `Code`."""
        self._home._checked(arena, self._program.precompute_arena_bytes, "the arena")
        given = (ctypes.c_void_p * len(self._program.slots)).from_address(slots)
        for address in given:
            if address:
                self._home._checked(address, 0, "what is computed ahead")
        return self._code.precompute(slots, arena, consts, part)

    def address(self, symbol: str) -> int:
        """See `Code`."""
        return self._code.address(symbol)


class FarBackend(Backend):
    """The processor's back end, for a target of another name."""

    name = "far"

    def __init__(self, target: Target = TARGET) -> None:
        self.target, self.targets = target, {target.name: target}
        self._cpu = backends.backend(backends.DEFAULT)

    def default_target(self) -> Target:
        return self.target

    def version(self) -> str:
        return self._cpu.version()

    def passes(self, target: Target) -> tuple[Pass, ...]:
        return self._cpu.passes(target)

    def fast_passes(self) -> tuple[Pass, ...]:
        return self._cpu.fast_passes()

    def machine(self, target: Target) -> Machine:
        return self._cpu.machine(target)

    def prepare(self, nodes: int) -> None:
        self._cpu.prepare(nodes)

    def build(self, target: Target) -> AbstractContextManager[Build]:
        return self._cpu.build(target)


@contextmanager
def registered(*devices: FarDevice) -> Iterator[None]:
    """Within the block, these devices are known, and the back end of their targets."""
    for d in devices:
        device.register(d)
        (target,) = d.targets.values()
        backends.register(d.name, lambda target=target: FarBackend(target))
    try:
        yield
    finally:
        for d in devices:
            backends.unregister(d.name)
            device.unregister(d)


def same_bits(one: Any, other: Any) -> bool:
    """Whether two arrays are equal to the bit."""
    a, b = np.asarray(one), np.asarray(other)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
