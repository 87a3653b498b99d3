"""A GPU of NVIDIA's as a device: memory, copies, and which programs it runs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from ..abi import FAULT_BYTES
from ..device import Code, Device, Event, Memory, MemoryStatistics, NoDevice, Properties, Stream
from ..faults import Faults
from ..forks import renewed
from ..loader import Host
from ..program import Program
from ..records import dataclass
from ..target import CUDA, Target
from . import driver as cuda
from . import on_stream
from .code import CudaCode
from .context import Context
from .driver import Driver
from .memory import Allocator, NoMemory
from .modules import Modules
from .queues import Queue
from .staging import Staging
from .streams import CudaEvent, CudaLane, CudaStream


@dataclass(frozen=True, slots=True)
class CudaProperties(Properties):
    """Properties of a GPU."""

    l2_bytes: int = 0  # of its cache
    shared_bytes: int = 0  # of shared memory that a block may have
    driver: int = 0  # the CUDA that the driver serves, 13000 is 13.0

    @property
    def capability(self) -> tuple[int, int]:
        """Its architecture, (9, 0) for sm_90."""
        return self.major, self.minor


class CudaDevice(Device):
    """A GPU.

    Args:
        number: of the GPU, as the driver counts those it shows.

    Raises:
        NoDevice: there are fewer devices.
        CudaError: the driver refuses it.
    """

    own_memory: ClassVar[bool] = True

    def __init__(self, driver: Driver, number: int = 0) -> None:
        count = driver.number("cuDeviceGetCount")
        if not 0 <= number < count:
            raise NoDevice(f"there is no GPU {number}: the driver shows {count}, numbered from 0")
        self.driver, self.number, self.name = driver, number, f"cuda:{number}"
        handle = driver.number("cuDeviceGet", number)
        self._properties = _properties(driver, handle)
        # where on its machine it is; processes may be shown GPUs under different numbers
        self.place = ":".join(f"{driver.number('cuDeviceGetAttribute', part, handle):02x}"
                              for part in cuda.PCI_PLACE)
        self.targets = self._targets()
        self.context = Context(driver, handle)  # what its programs, streams and events share
        self._lock = renewed(threading.RLock())
        wait = self.context.synchronize
        self._allocator = Allocator(self._take, self._give, wait, self._sizes)
        self._staging = Staging(driver, self.context.stream, wait)
        self._modules = Modules(driver, self._properties.shared_bytes, self.context.discard)

    def properties(self) -> CudaProperties:
        """The properties of this GPU."""
        return self._properties

    def check_usable(self) -> None:
        """Raise if it is not there any more. Raises DeviceLost if it cannot be used any more;
        CudaError if this process is a fork of the one that has the GPU."""
        super().check_usable()
        self.driver.ready()

    # --- what runs ---------------------------------------------------------------------------

    def _targets(self) -> dict[str, Target]:
        """Return the targets that it runs, machine code or PTX, the best first.

        Code with `a` runs on its own architecture alone, other machine code on its generation from
        there on, other PTX on all later ones.
        """
        found = [t for t in CUDA.values() if self._runs(t, ptx=True)]
        if not found:
            raise NoDevice(f"{self} is older than cellc's targets: {', '.join(CUDA)}")
        return {t.name: t for t in reversed(found)}

    def _runs(self, target: Target, ptx: bool) -> bool:
        number = target.cpu.removeprefix("sm_")
        wanted = divmod(int(number.rstrip("a")), 10)
        own = self._properties.capability
        if number.endswith("a"):
            return own == wanted
        return own >= wanted and (ptx or own[0] == wanted[0])

    def check(self, program: Program) -> None:
        target = CUDA.get(program.target)
        cubin = any(k.is_cubin and not k.ptx for k in program.kernels)  # nothing else
        if target is None or not self._runs(target, not cubin):
            runs = [n if self._runs(t, False) else f"{n} as PTX" for n, t in self.targets.items()]
            raise ValueError(f"program {program.name!r} is compiled for {program.target}"
                             f"{' (machine code)' if cubin else ''}; this GPU is {self} and runs "
                             + " or ".join(runs))
        if cubin and self.driver.version < cuda.CUBIN_VERSION:
            raise ValueError(f"program {program.name!r} carries machine code; "
                             + self.driver.too_old("cubins of ptxas 13.0", cuda.CUBIN_VERSION))
        planned = program.memory()
        if sum(planned.values()) > self._properties.total_memory:
            raise MemoryError(f"program {program.name!r} needs {_shown(sum(planned.values()))} "
                              f"({_plan(planned)}); {self} has "
                              f"{_shown(self._properties.total_memory)}")

    def load(self, program: Program, callbacks: Sequence[Host]) -> Code:
        """See `Device.load`; also CudaError: the driver refuses a kernel."""
        self.context.use()
        self._begin_checks()
        as_ptx = not self._runs(CUDA[program.target], ptx=False) or \
            self.driver.version < cuda.CUBIN_VERSION
        queue = Queue(self.place, self.context.use, self._zero, self.move, self.allocate_unset,
                      self._mark, lambda: CudaLane(self.context))
        hosts = on_stream.on_stream(program, callbacks, queue)
        return CudaCode(self.context, self._modules, program, hosts, self._allocator.owns, as_ptx)

    def _zero(self, address: int, nbytes: int, stream: int) -> None:
        self.driver.call("cuMemsetD8Async", address, 0, nbytes, stream)

    def _mark(self) -> CudaEvent:
        mark = CudaEvent(self.context)
        mark.record()
        return mark

    def _begin_checks(self) -> None:
        """Room for what checks find, when the first program is loaded. The GPU writes what the host
        is to see into pinned memory itself."""
        with self._lock:
            if self.context.faults is not None:
                return
            self._fault = self.allocate(FAULT_BYTES)
            self.context.fault = self._fault.address
            self.context.fault_seen = self.driver.handle("cuMemHostAlloc", 16, 0)
            self.context.faults = Faults(self, self.context.fault_seen, self._forget_fault)

    def _forget_fault(self) -> None:
        self.driver.result("cuMemsetD8Async", self.context.fault, 0, 8, self.context.stream)

    def launching(self, arena: Memory, tell: Callable[[int, int], None]) -> None:
        if self.context.faults is not None:
            self.context.faults.launching(arena, tell)

    def poll(self) -> None:
        if self.context.faults is not None and self.context.faults.found:
            self.wait()

    # --- memory ------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Memory:
        memory = self.allocate_unset(nbytes)
        if nbytes:
            self.context.use()
            self.driver.call("cuMemsetD8Async", memory.address, 0, nbytes, self.context.stream)
        return memory

    def allocate_unset(self, nbytes: int) -> Memory:
        try:
            return self._allocator.allocate(nbytes)
        except NoMemory:
            raise self._no_memory(nbytes) from None

    def _no_memory(self, nbytes: int) -> MemoryError:
        held = self._allocator.statistics()
        others = held.total - held.free - held.reserved
        return MemoryError(
            f"{self} has no {_shown(nbytes)} left: of {_shown(held.total)}, {_shown(held.free)} "
            f"are free, this process holds {_shown(held.allocated)} in tensors and programs and "
            f"{_shown(held.reserved - held.allocated)} for the next ones, and the driver and "
            f"other processes {_shown(max(others, 0))}; make batches smaller, use recompute, or "
            "end the others")

    def _take(self, nbytes: int) -> int:
        self.context.use()
        out = ctypes.c_void_p()
        result = self.driver.result("cuMemAlloc_v2", ctypes.byref(out), nbytes)
        if result == cuda.OUT_OF_MEMORY:
            raise NoMemory
        if result:
            raise self.context.blamed(self.driver.error(result, "allocating memory"))
        return out.value or 0

    def _give(self, address: int) -> None:
        self.driver.call("cuMemFree_v2", address)

    def _sizes(self) -> tuple[int, int]:
        if self.driver.lost is not None or self.driver.forked:
            return 0, self._properties.total_memory
        self.context.use()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def statistics(self) -> MemoryStatistics:
        return self._allocator.statistics()

    def reset_peaks(self) -> None:
        """Let the peaks of `statistics` begin at what is in use now."""
        self._allocator.reset_peaks()

    def trim(self) -> None:
        """Give memory that is kept for the next allocations back to the driver."""
        self.context.use()
        self._allocator.release()

    def copy(self, to: int, source: bytes | memoryview) -> None:
        held, nbytes = _host(memoryview(source))
        if nbytes:
            with self._lock, self.context.blaming():
                self.context.use()
                self._staging.write(to, held, nbytes)

    def read(self, source: int, to: memoryview) -> None:
        held, nbytes = _host(to)
        if nbytes:
            with self._lock, self.context.blaming():
                self.context.use()
                self.context.raise_failure()
                done = self.context.launched_calls
                with self.context.waiting():
                    self._staging.read(source, held, nbytes)
                self.context.look(done)

    def move(self, to: int, source: int, nbytes: int) -> None:
        """Copy from one place of its memory to another, after all earlier launches."""
        if nbytes:
            with self.context.blaming():
                self.context.use()
                self.driver.call("cuMemcpyAsync", to, source, nbytes, self.context.stream)

    # --- order and errors --------------------------------------------------------------------

    def wait(self) -> None:
        self.context.wait()

    def stream(self) -> Stream:
        """A stream apart from the one that programs run on."""
        return CudaStream(self.context)

    def default_stream(self) -> Stream:
        """The one that programs run on."""
        return CudaStream(self.context, self.context.stream)

    @property
    def order(self) -> int | None:
        return self.context.stream

    def timed(self, code: Code) -> Callable[[], list[tuple[int, float]]]:
        """See `Device.timed`: by events of the stream."""
        assert isinstance(code, CudaCode)
        return code.timed()

    def event(self, timing: bool = False) -> Event:
        """A mark, not set yet; with `timing` it has the time at which it is reached."""
        return CudaEvent(self.context, timing)

    def __str__(self) -> str:
        major, minor = self._properties.capability
        return f"{self.name} ({self._properties.name}, sm_{major}{minor})"


def _host(view: memoryview) -> tuple[int, int]:
    """The address and bytes of contiguous memory of the host."""
    if not view.nbytes:
        return 0, 0
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]), view.nbytes


def _shown(nbytes: int) -> str:
    """Bytes for people."""
    return f"{nbytes / 2**20:,.1f} MiB" if nbytes >= 1 << 19 else f"{nbytes:,} bytes"


def _plan(planned: dict[str, int]) -> str:
    return ", ".join(f"{what} {_shown(n)}" for what, n in planned.items() if n)


def _properties(driver: Driver, handle: int) -> CudaProperties:
    def attribute(number: int) -> int:
        return driver.number("cuDeviceGetAttribute", number, handle)

    text = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", text, len(text), handle)
    total = ctypes.c_size_t()
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(total), handle)
    return CudaProperties(
        name=text.value.decode("utf-8", "replace"),
        total_memory=total.value,
        major=attribute(cuda.MAJOR),
        minor=attribute(cuda.MINOR),
        multi_processor_count=attribute(cuda.MULTIPROCESSORS),
        l2_bytes=attribute(cuda.L2_BYTES),
        shared_bytes=attribute(cuda.SHARED_BYTES),
        driver=driver.version,
    )


class _Opened:
    """The driver and the GPUs that this process has opened."""

    def __init__(self) -> None:
        self._lock = renewed(threading.Lock())
        self._driver: Driver | None = None
        self._devices: dict[int, CudaDevice] = {}

    def driver(self) -> Driver:
        """The driver, loaded at first."""
        with self._lock:
            if self._driver is None:
                self._driver = cuda.load()
            return self._driver

    def device(self, number: int) -> CudaDevice:
        """A GPU, opened at first."""
        driver = self.driver()
        with self._lock:
            if number not in self._devices:
                self._devices[number] = CudaDevice(driver, number)
            return self._devices[number]


_OPENED = _Opened()


def open_device(number: int = 0) -> CudaDevice:
    """A GPU of this machine; the same object for a number. Raises NoDevice if there is none, no
    driver, or one that is too old; CudaError if the driver refuses it."""
    return _OPENED.device(number)


def device_count() -> int:
    """How many GPUs the driver shows.

    Raises:
        NoDevice: there is none, no driver, or one that is too old.
    """
    return _OPENED.driver().number("cuDeviceGetCount")
