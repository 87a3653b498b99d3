"""Devices: where programs are loaded and run, and whose memory they run in.

A device allocates memory, copies to and from it, loads code and launches it. The processor is one:
its memory is the process's own, and a launch is a call that returns when it is done. A GPU has
memory of its own, and does what is launched on a stream, in order, while the caller goes on. An
executable asks `device_of` for the device of its program's target.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from . import fastcall
from .abi import ENTRY, MAIN, PRECOMPUTE, WIN64
from .image import Image
from .loader import Host, MappedImage, main_function, precompute_function
from .platform import Scratch, uses_win64
from .program import Program
from .records import dataclass
from .target import (
    TARGETS,
    Target,
    forget_target,
    host_targets,
    register_target,
    runnable_targets,
    tiles_usable,
)

Memory = Scratch
"""Memory of a device, zeroed, with an `address`; freed with the object."""


class Code(Protocol):
    """A program's code, loaded.

    Attributes:
        native: whether Python may call it through an entry of its own (`fastcall`).
        launch: start `cellc_main` on the addresses of slots, arena and constants; an error code.
    """

    native: bool
    launch: Callable[[int, int, int], int]

    def precompute(self, slots: int, arena: int, consts: int, part: int) -> int:
        """Start a part of `cellc_ahead`; an error code."""

    def address(self, symbol: str) -> int:
        """Where a function is."""


class Device(ABC):
    """Where programs run.

    Attributes:
        name: for errors.
        targets: whose programs it takes, by name.
        own_memory: whether its memory is not the process's own: programs then take and give
            `DeviceArray`s, and arrays are copied in.
    """

    name: str
    targets: Mapping[str, Target]
    own_memory: ClassVar[bool] = False

    @abstractmethod
    def check(self, program: Program) -> None:
        """Whether it can run a program here.

        Raises:
            ValueError: it cannot; what it is compiled for, and what runs.
        """

    @abstractmethod
    def allocate(self, nbytes: int) -> Memory:
        """Fresh memory.

        Raises:
            MemoryError: there is not enough.
        """

    @abstractmethod
    def copy(self, to: int, source: bytes | memoryview) -> None:
        """Copy from the host to an address of the device, behind what was launched; `source` may
        be written when this returns."""

    @abstractmethod
    def read(self, source: int, to: memoryview) -> None:
        """Fill memory of the host from an address of the device, when all that was launched is
        done.

        Raises:
            RuntimeError: what was launched failed.
        """

    def statistics(self) -> MemoryStatistics:
        """What its memory is used for; a device without memory of its own has no figures."""
        return MemoryStatistics()

    @abstractmethod
    def load(self, program: Program, callbacks: Sequence[Host]) -> Code:
        """A program's code, ready to be launched; it goes with the object.

        Raises:
            ArtifactError: the image is malformed.
            MemoryError, OSError: there is no memory for it.
        """

    @abstractmethod
    def wait(self) -> None:
        """Return when all that was launched is done.

        Raises:
            RuntimeError: some of it failed.
        """


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """Bytes of a device's memory.

    Attributes:
        allocated: in use by arrays and programs; `peak_allocated` the most since the process began
            (or since that was reset).
        reserved: taken from the system, in use or kept for what comes; `peak_reserved` likewise.
        free, total: of the device, as its driver says.
    """

    allocated: int = 0
    peak_allocated: int = 0
    reserved: int = 0
    peak_reserved: int = 0
    free: int = 0
    total: int = 0


class _HostCode:
    """See `Code`."""

    def __init__(self, image: Image, callbacks: Sequence[Host]) -> None:
        self._image = MappedImage(image, fastcall.python_functions(), callbacks)
        self._suffix = WIN64 if uses_win64() else ""
        self.native = fastcall.supported() and ENTRY in image.symbols
        self.launch = main_function(self.address(MAIN + self._suffix))

    def precompute(self, slots: int, arena: int, consts: int, part: int) -> int:
        """See `Code`."""
        function = precompute_function(self.address(PRECOMPUTE + self._suffix))
        return function(slots, arena, consts, part)

    def address(self, symbol: str) -> int:
        """See `Code`."""
        return self._image.address(symbol)


class HostDevice(Device):
    """The processor this process runs on."""

    name = "cpu"
    targets = TARGETS

    def check(self, program: Program) -> None:
        names = [t.name for t in runnable_targets()]
        if program.target not in names:
            raise ValueError(
                f"program {program.name!r} is compiled for {program.target}; this machine runs "
                + " and ".join(names)
            )
        if self.targets[program.target].tiles and not tiles_usable():
            raise ValueError(
                f"program {program.name!r} uses AMX's tile registers, which the system does not "
                f"grant this process; compile it for {host_targets()[0].name}"
            )

    def allocate(self, nbytes: int) -> Memory:
        return Scratch(nbytes)

    def copy(self, to: int, source: bytes | memoryview) -> None:
        raw = memoryview(source).cast("B")
        host_memory(to, raw.nbytes)[:] = raw

    def read(self, source: int, to: memoryview) -> None:
        raw = to.cast("B")
        raw[:] = host_memory(source, raw.nbytes)

    def load(self, program: Program, callbacks: Sequence[Host]) -> Code:
        return _HostCode(program.image, callbacks)

    def wait(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""


def host_memory(address: int, nbytes: int) -> memoryview:
    """Memory of this process as bytes."""
    return memoryview((ctypes.c_char * nbytes).from_address(address)).cast("B")


_HOST = HostDevice()
_OTHERS: list[Device] = []


def register(device: Device) -> None:
    """Add a device with its targets.

    Raises:
        ValueError: one of its targets has a device.
    """
    for target in device.targets.values():
        register_target(target)
    _OTHERS.append(device)


def unregister(device: Device) -> None:
    """Forget a device that was registered, and its targets."""
    _OTHERS.remove(device)
    for target in device.targets.values():
        forget_target(target)


def device_of(target: str) -> Device:
    """The device of a target; that of this machine's processor says no to what no device takes."""
    return next((d for d in _OTHERS if target in d.targets), _HOST)
