"""Devices: where programs are loaded and run, and whose memory they run in.

A device allocates memory, copies into it, loads code and launches it. The processor is one: its
memory is the process's own, and a launch is a call that returns when it is done. An executable
asks `device_of` for the device of its program's target.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from . import fastcall
from .abi import ENTRY, MAIN, PRECOMPUTE, WIN64
from .image import Image
from .loader import Host, MappedImage, main_function, precompute_function
from .platform import Scratch, uses_win64
from .program import Program
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
    """

    name: str
    targets: Mapping[str, Target]

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
    def copy(self, to: int, source: bytes) -> None:
        """Copy from the host to an address of the device."""

    @abstractmethod
    def load(self, image: Image, callbacks: Sequence[Host]) -> Code:
        """Code, ready to be launched; it goes with the object.

        Raises:
            ArtifactError: the image is malformed.
            MemoryError, OSError: there is no memory for it.
        """

    @abstractmethod
    def wait(self) -> None:
        """Return when all that was launched is done."""


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

    def copy(self, to: int, source: bytes) -> None:
        ctypes.memmove(to, source, len(source))

    def load(self, image: Image, callbacks: Sequence[Host]) -> Code:
        return _HostCode(image, callbacks)

    def wait(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""


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
