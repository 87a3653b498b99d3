"""Devices: where programs are loaded and run, and whose memory they run in.

A device allocates memory, copies to and from it, loads code and launches it. The processor is one:
its memory is the process's own, and a launch is a call that returns when it is done. A GPU has
memory of its own, and runs launches on a stream, in order, while the caller continues. An
executable asks `device_of` for the device of its program's target.
"""

from __future__ import annotations

import ctypes
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, Protocol

from . import fastcall, knobs
from .abi import ENTRY, MAIN, PRECOMPUTE, WIN64
from .forks import in_child, renewed
from .image import Image
from .lazy import imported
from .loader import Host, MappedImage, main_function, precompute_function
from .platform import Scratch, uses_win64
from .program import Program
from .records import dataclass
from .target import (
    CHECKED,
    EMULATED,
    TARGETS,
    Target,
    best_of,
    forget_target,
    host_target,
    host_targets,
    known_target,
    register_target,
    runnable_targets,
    tiles_usable,
)
from .world import place_on_machine

Memory = Scratch
"""Memory of a device, with an `address`; freed with the object."""


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


class Event(Protocol):
    """A mark in what a stream does."""

    def record(self, stream: Stream | None = None) -> None:
        """Set the mark after all present work of a stream (None: the one programs run on)."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream go on only when the mark is reached."""

    def query(self) -> bool:
        """Whether it is reached."""

    def synchronize(self) -> None:
        """Return when it is reached."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this mark to another; both were made with `timing`."""


class Stream(Protocol):
    """The work of a device in order."""

    def query(self) -> bool:
        """Whether it has done all it was given."""

    def synchronize(self) -> None:
        """Return when it has."""


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties of a device."""

    name: str  # of the product
    total_memory: int = 0  # bytes
    # major, minor: of its compute capability
    major: int = 0
    minor: int = 0
    multi_processor_count: int = 0  # of what runs blocks of threads


class Device(ABC):
    """Where programs run.

    Attributes:
        targets: whose programs it takes, by name, the best first.
        number: which of its kind.
        own_memory: whether its memory is not the process's own: programs then take and give
            `DeviceArray`s, and arrays are copied in. Memory is given back in the order of the
            stream: what was launched may still use it when the last reference goes.
        gone: why it cannot be used any more; "" while it can.
        launches: how many calls of programs there were.
        lost: of those, the ones whose results mean nothing, because a check had failed.
    """

    name: str
    targets: Mapping[str, Target]
    number: int = 0
    own_memory: ClassVar[bool] = False
    gone: str = ""
    launches: int = 0
    lost: Sequence[range] = ()

    def check_usable(self) -> None:
        """Raise if it is not there any more.

        Raises:
            RuntimeError: it is not; why.
        """
        if self.gone:
            raise RuntimeError(f"{self.name}: {self.gone}")

    @abstractmethod
    def check(self, program: Program) -> None:
        """Whether it can run a program here.

        Raises:
            ValueError: it cannot; what it is compiled for, and what runs.
        """

    @abstractmethod
    def allocate(self, nbytes: int) -> Memory:
        """Memory; the processor's is of zeros, others' may hold anything. Raises MemoryError if
        there is not enough."""

    def allocate_unset(self, nbytes: int) -> Memory:
        """The same, for what is written before it is read: it may be as it was left.

        Raises: as `allocate`.
        """
        return self.allocate(nbytes)

    def timed(self, code: Code) -> Callable[[], list[tuple[int, float]]]:
        """Time each launch of a program from now on.

        Returns:
            Return a function for the times since its last call: kernel number and seconds, by
            order; it waits.

        Raises:
            RuntimeError: the device takes no times.
        """
        raise RuntimeError(f"the device {self.name!r} takes no times of kernels: profile on the "
                           "CPU (set_context(device_target='CPU')) or on a real GPU")

    def adopt(self, owner: object, address: int, nbytes: int) -> Memory:
        """Memory of the device that somebody else has taken; it lives as long as the owner. Raises
        ValueError if it does not begin at a 64-byte boundary."""
        return Memory.over(owner, address, nbytes)

    @property
    def order(self) -> int | None:
        """The handle of the stream that programs run on, for other libraries; None where work is
        done when a call returns."""
        return None

    @abstractmethod
    def copy(self, to: int, source: bytes | memoryview) -> None:
        """Copy from the host to an address of the device, after earlier launches; `source` may be
        written when this returns."""

    @abstractmethod
    def read(self, source: int, to: memoryview) -> None:
        """Fill memory of the host from an address of the device, when all that was launched is
        done. Raises RuntimeError if an earlier launch failed."""

    def launching(self, arena: Memory, tell: Callable[[int, int], None]) -> None:  # noqa: B027
        """A program that checks something is launched in an arena. When its checks are done,
        `tell(number, address)` raises the error of one that failed, at the next synchronization."""

    def poll(self) -> None:  # noqa: B027
        """Raise what a check has found since the last wait, as far as that is known by now. Raises
        RunError if a check failed (the first)."""

    def move(self, to: int, source: int, nbytes: int) -> None:
        """Copy within the device, after earlier launches; the two places do not overlap."""
        raw = bytearray(nbytes)
        self.read(source, memoryview(raw))
        self.copy(to, bytes(raw))

    def statistics(self) -> MemoryStatistics:
        """Return the use of its memory; a device without memory of its own has no figures."""
        return MemoryStatistics()

    def reset_peaks(self) -> None:  # noqa: B027 (a device without figures has no peaks)
        """Restart the count of peaks."""

    def trim(self) -> None:  # noqa: B027 (a device may keep nothing)
        """Give memory that is kept for what comes back to the system."""

    def properties(self) -> Properties:
        """The properties of this device."""
        return Properties(self.name)

    def stream(self) -> Stream:
        """A stream apart from the one that programs run on."""
        return HostStream(self)

    def default_stream(self) -> Stream:
        """The one that programs run on."""
        return HostStream(self)

    def event(self, timing: bool = False) -> Event:
        """A mark, not set yet."""
        return HostEvent(self)

    @abstractmethod
    def load(self, program: Program, callbacks: Sequence[Host]) -> Code:
        """A program's code, ready to be launched; it goes with the object. Raises ArtifactError if
        the image is malformed; MemoryError or OSError if there is no memory for it."""

    @abstractmethod
    def wait(self) -> None:
        """Return when all that was launched is done. Raises RuntimeError if some of it failed."""


class HostStream:
    """The stream of a device that does everything on the one stream of its programs."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def query(self) -> bool:
        self._device.wait()
        return True

    def synchronize(self) -> None:
        self._device.wait()


class HostEvent:
    """An event on such a device: the time at which it was recorded, after all earlier work."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._at: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._device.wait()
        self._at = time.perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        """See `Event`: what is in order waits for itself."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        self._device.wait()

    def elapsed_time(self, end: Event) -> float:
        """See `Event`. Raises RuntimeError if one of them was never recorded."""
        if not isinstance(end, HostEvent) or self._at is None or end._at is None:
            raise RuntimeError("the time between two events is known when both were recorded")
        return (end._at - self._at) * 1e3


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """Bytes of a device's memory."""

    # in use by arrays and programs; `peak_allocated` the most since the process began (or since
    # that was reset)
    allocated: int = 0
    peak_allocated: int = 0
    # taken from the system, in use or kept for what comes; `peak_reserved` likewise
    reserved: int = 0
    peak_reserved: int = 0
    # free, total: of the device, as its driver says
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
        function = precompute_function(self.address(PRECOMPUTE + self._suffix))
        return function(slots, arena, consts, part)

    def address(self, symbol: str) -> int:
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
    """Add a device with its targets, which may be those of GPUs: it then stands for one. Raises
    ValueError if there is another target of a name."""
    for target in device.targets.values():
        if known_target(target.name) is not target:
            register_target(target)
    _OTHERS.append(device)


def unregister(device: Device) -> None:
    """Forget a device that was registered, and its targets."""
    _OTHERS.remove(device)
    for target in device.targets.values():
        if not target.accelerator:
            forget_target(target)


class NoDevice(RuntimeError):
    """There is no GPU that can be used; what is missing."""


class _Gpus:
    """The GPUs that were opened, by the knob `CELLC_GPU` and their number."""

    def __init__(self) -> None:
        self._lock = renewed(threading.RLock())
        self._opened: dict[tuple[str, int], Device] = {}
        self.number = 0
        self.forked = False

    def get(self, number: int) -> Device:
        """One of them, opened at first."""
        kind = knobs.read().gpu
        registered = next((d for d in _OTHERS if d.own_memory and d.name == kind), None)
        if registered is not None:
            return registered
        with self._lock:
            if self.forked:
                raise NoDevice(_FORKED)
            found = self._opened.get((kind, number))
            if found is None:
                found = self._opened[kind, number] = _opened(kind, number)
            return found

    def count(self) -> int:
        """How many there are."""
        try:
            self.get(0)
        except NoDevice:
            return 0
        return self.shown()

    def shown(self) -> int:
        """How many the driver shows; none of them is opened. Raises NoDevice if there is no
        driver."""
        kind = knobs.read().gpu
        if kind and kind != "cuda":
            return 1
        count: int = imported(f"{__package__}.cuda.device").device_count()
        return count

    def fork(self) -> None:
        """In a child: what the parent opened is the parent's."""
        for device in (*self._opened.values(), *_OTHERS):
            if device.own_memory:
                device.gone = _FORKED
        self.forked = bool(self._opened)
        self._opened.clear()


_FORKED = ("this process was forked from one that had used the GPU, whose memory and programs it "
           "does not have; start it anew (multiprocessing.get_context('spawn')), or fork before "
           "the GPU is used")


def _opened(kind: str, number: int) -> Device:
    """A GPU, or its emulation where the knob says so. Raises NoDevice if it is not there, or cannot
    be used."""
    if kind and kind != "cuda":
        name = kind if "-" in kind else f"{kind}-sm_90a"
        if name not in EMULATED and name not in CHECKED:
            known = ", ".join(sorted(("cuda", "emulated", *EMULATED, "checked", *CHECKED)))
            raise NoDevice(f"CELLC_GPU={kind!r} is none of {known}")
        if number:
            raise NoDevice(f"there is one emulated GPU, 0, but {number} was asked for")
        if name in CHECKED:
            return _made("checked", "CheckedDevice", CHECKED[name])
        return _made("emulated", "EmulatedDevice", EMULATED[name])
    return _made("device", "open_device", number)


def _made(module: str, name: str, *arguments: object) -> Device:
    """Return a device from a part of `cuda`, which loads with its first use."""
    try:
        make: Callable[..., Device] = getattr(imported(f"{__package__}.cuda.{module}"), name)
    except ModuleNotFoundError as e:
        raise NoDevice(f"this installation has no module {e.name}") from None
    try:
        return make(*arguments)
    except NoDevice:
        raise
    except (OSError, RuntimeError, ValueError) as e:
        raise NoDevice(str(e)) from e


_GPUS = _Gpus()
in_child(_GPUS.fork)


def gpu(number: int | None = None) -> Device:
    """A GPU (None: the one in use): NVIDIA's by its driver, or what the knob `CELLC_GPU` says.

    Raises:
        NoDevice: there is none; what is missing.
    """
    return _GPUS.get(_GPUS.number if number is None else number)


def gpu_count() -> int:
    """How many GPUs there are."""
    return _GPUS.count()


def own_gpu() -> int:
    """The number of the GPU of a process that chooses none: 0, but each of several processes of a
    machine has its own as long as there are enough. None is opened for that."""
    place = place_on_machine()
    if not place:
        return 0
    try:
        return place % max(_GPUS.shown(), 1)
    except NoDevice:  # (every use raises it)
        return 0


def use_gpu(number: int) -> Device:
    """Run programs for GPUs on this one from now on.

    Raises:
        NoDevice: as `gpu`.
    """
    found = _GPUS.get(number)
    _GPUS.number = number
    return found


def device_of(target: str) -> Device:
    """The device of a target; that of this machine's processor says no to what no device takes.
    Raises NoDevice if the target is a GPU's, and there is none."""
    for device in _OTHERS:
        if target in device.targets:
            return device
    known = known_target(target)
    return gpu() if known is not None and known.accelerator else _HOST


def best_for(names: Collection[str]) -> Target | None:
    """Of targets that there is code for, the one to run here: a GPU's, else the best of the
    processor's; if the knob `CELLC_TARGET` names one, that one alone. Raises ValueError if the knob
    names no target."""
    wanted = knobs.read().target
    if wanted is not None:
        if known_target(wanted) is None:
            host_target()  # its error lists the targets
        names = [wanted] if wanted in names else []
    kinds = map(known_target, names)
    if any(t is not None and t.accelerator for t in kinds):
        try:
            found = next((t for n, t in gpu().targets.items() if n in names), None)
        except NoDevice:
            found = None
        if found is not None:
            return found
    return best_of(names)


def host() -> Device:
    """This machine's processor."""
    return _HOST
