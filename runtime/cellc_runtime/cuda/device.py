"""A GPU of NVIDIA's as a device: memory, copies, programs, graphs, errors.

All programs of a GPU run on one stream, in order, while the caller goes on; only `read`, `wait` and
what a program itself asks for wait. What fails on the GPU is therefore told later: by the wait that
finds it, with the programs that were launched since the one before. `CELLC_GPU_BLOCKING=1` waits
behind each kernel and names the one that failed.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from .. import knobs
from ..abi import DEVICE_FAILED, MAIN, PRECOMPUTE, WIN64, Ext
from ..device import Code, Device, Memory, MemoryStatistics
from ..loader import Host, MappedImage, main_function, precompute_function
from ..platform import address_of, uses_win64
from ..program import Program
from ..records import dataclass
from ..target import CUDA, Target
from . import driver as cuda
from .driver import CudaError, DeviceLost, Driver, GpuMissing
from .graphs import Graphs
from .memory import Allocator, NoMemory
from .modules import Kernel, Modules, is_cubin
from .staging import Staging
from .streams import CudaEvent, CudaStream

_NAMED = 8
"""Programs launched last that an error names."""
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int32, *cuda.SIGNATURES["cuLaunchKernel"])
_COPY = ctypes.CFUNCTYPE(ctypes.c_int32, *cuda.SIGNATURES["cuMemcpyAsync"])
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int32, *cuda.SIGNATURES["cuStreamSynchronize"])


@dataclass(frozen=True, slots=True)
class CudaProperties:
    """What a GPU is.

    Attributes:
        name: `"NVIDIA H200"`.
        total_memory: bytes.
        major, minor: of its compute capability, 9 and 0 for sm_90.
        multi_processor_count: how many.
        l2_bytes: of its cache.
        shared_bytes: of shared memory that a block may have.
        driver: the CUDA that the driver serves, 13000 is 13.0.
    """

    name: str
    total_memory: int
    major: int
    minor: int
    multi_processor_count: int
    l2_bytes: int
    shared_bytes: int
    driver: int

    @property
    def capability(self) -> tuple[int, int]:
        """Its architecture, (9, 0) for sm_90."""
        return self.major, self.minor


class CudaDevice(Device):
    """A GPU.

    Args:
        driver: of the machine.
        number: of the GPU, as the driver counts those it shows.

    Raises:
        GpuMissing: there are not so many.
        CudaError: the driver refuses it.

    Attributes:
        stream_handle: the stream that programs run on.
    """

    own_memory: ClassVar[bool] = True
    gone: str = ""

    def __init__(self, driver: Driver, number: int = 0) -> None:
        count = driver.number("cuDeviceGetCount")
        if not 0 <= number < count:
            raise GpuMissing(f"there is no GPU {number}: the driver shows {count}, numbered from 0")
        self.driver, self.number, self.name = driver, number, f"cuda:{number}"
        handle = driver.number("cuDeviceGet", number)
        self._properties = _properties(driver, handle)
        self.targets = self._targets()
        self._context = driver.handle("cuDevicePrimaryCtxRetain", handle)
        self._discarded: deque[tuple[str, int]] = deque()
        self._failures: dict[int, CudaError] = {}
        self._launched: deque[str] = deque(maxlen=_NAMED)
        self._lock = threading.RLock()
        self._capture_lock = threading.Lock()
        self.use()
        self.stream_handle = driver.handle("cuStreamCreate", cuda.NON_BLOCKING)
        self._capture_handle = driver.handle("cuStreamCreate", cuda.NON_BLOCKING)
        self._allocator = Allocator(self._take, self._give, self._synchronize, self._sizes)
        self._staging = Staging(driver, self.stream_handle, self._synchronize)
        self.modules = Modules(driver, self._properties.shared_bytes, self.discard)

    def properties(self) -> CudaProperties:
        """What it is."""
        return self._properties

    def check_usable(self) -> None:
        """Raise if it is not there any more.

        Raises:
            DeviceLost: it cannot be used any more.
            CudaError: this process is a fork of the one that has the GPU.
        """
        self.driver.ready()

    def use(self) -> None:
        """Make it the GPU that this thread's calls are for.

        Raises: as `check_usable`.
        """
        self.check_usable()
        self.driver.call("cuCtxSetCurrent", self._context)

    # --- what runs ---------------------------------------------------------------------------

    def _targets(self) -> dict[str, Target]:
        """What it runs, machine code or PTX, the best first.

        Code with `a` runs on its own architecture alone, other machine code on its generation from
        there on, other PTX on all later ones.
        """
        found = [t for t in CUDA.values() if self._runs(t, ptx=True)]
        if not found:
            raise GpuMissing(f"{self} is older than cellc's targets: {', '.join(CUDA)}")
        return {t.name: t for t in reversed(found)}

    def _runs(self, target: Target, ptx: bool) -> bool:
        number = target.cpu.removeprefix("sm_")
        wanted = divmod(int(number.rstrip("a")), 10)
        own = self._properties.capability
        if number.endswith("a"):
            return own == wanted
        return own >= wanted and (ptx or own[0] == wanted[0])

    def check(self, program: Program) -> None:
        """See `Device.check`."""
        target = CUDA.get(program.target)
        cubin = any(is_cubin(k) for k in program.kernels)
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
        self.use()
        return CudaCode(self, program, callbacks)

    # --- memory ------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, zeroed: bool = True) -> Memory:
        """See `Device.allocate`.

        Args:
            zeroed: whether it must be; else it is as it was left.
        """
        self.use()
        try:
            memory = self._allocator.allocate(nbytes)
        except NoMemory:
            raise self._no_memory(nbytes) from None
        if zeroed and nbytes:
            self.driver.call("cuMemsetD8Async", memory.address, 0, nbytes, self.stream_handle)
        return memory

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
        out = ctypes.c_void_p()
        result = self.driver.result("cuMemAlloc_v2", ctypes.byref(out), nbytes)
        if result == cuda.OUT_OF_MEMORY:
            raise NoMemory
        if result:
            raise self._blamed(self.driver.error(result, "allocating memory"))
        return out.value or 0

    def _give(self, address: int) -> None:
        self.driver.call("cuMemFree_v2", address)

    def _sizes(self) -> tuple[int, int]:
        if self.driver.lost is not None or self.driver.forked:
            return 0, self._properties.total_memory
        self.use()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def statistics(self) -> MemoryStatistics:
        """See `Device.statistics`."""
        return self._allocator.statistics()

    def reset_peaks(self) -> None:
        """Let the peaks of `statistics` begin at what is in use now."""
        self._allocator.reset_peaks()

    def trim(self) -> None:
        """Give memory that is kept for the next allocations back to the driver."""
        self.use()
        self._allocator.release()

    def copy(self, to: int, source: bytes | memoryview) -> None:
        """See `Device.copy`."""
        held, nbytes = _host(memoryview(source))
        if nbytes:
            with self._lock, self._blaming():
                self.use()
                self._staging.write(to, held, nbytes)

    def read(self, source: int, to: memoryview) -> None:
        """See `Device.read`."""
        held, nbytes = _host(to)
        if nbytes:
            with self._lock, self._blaming():
                self.use()
                self._raise_failure()
                self._staging.read(source, held, nbytes)

    def move(self, to: int, source: int, nbytes: int) -> None:
        """Copy from one place of its memory to another, behind what was launched."""
        if nbytes:
            with self._blaming():
                self.use()
                self.driver.call("cuMemcpyAsync", to, source, nbytes, self.stream_handle)

    # --- order and errors --------------------------------------------------------------------

    def wait(self) -> None:
        """See `Device.wait`."""
        self.use()
        self._raise_failure()
        self._synchronize()
        self._launched.clear()
        self._collect()

    def stream(self) -> CudaStream:
        """A stream beside the one that programs run on."""
        return CudaStream(self)

    def default_stream(self) -> CudaStream:
        """The one that programs run on."""
        return CudaStream(self, self.stream_handle)

    def event(self, timing: bool = False) -> CudaEvent:
        """A mark, not set yet; with `timing` it has the time at which it is reached."""
        return CudaEvent(self, timing)

    def discard(self, function: str, handle: int) -> None:
        """Call a function of the driver on a handle later, when nothing runs that may use it.

        Handles go with Python's objects, whenever that is: when the interpreter ends too.
        """
        self._discarded.append((function, handle))

    def _collect(self) -> None:
        while self._discarded:
            function, handle = self._discarded.popleft()
            self.driver.result(function, handle)

    @contextmanager
    def capture_stream(self) -> Iterator[int]:
        """The stream that takes down what is launched, for one program at a time."""
        with self._capture_lock:
            yield self._capture_handle

    def launched(self, program: str) -> None:
        """A program was launched."""
        self._launched.append(program)

    def failed(self, error: CudaError) -> None:
        """A launch of this thread failed; its next wait raises the error."""
        self._failures[threading.get_ident()] = self._blamed(error)

    def _raise_failure(self) -> None:
        error = self._failures.pop(threading.get_ident(), None)
        if error is not None:
            raise error

    def _synchronize(self) -> None:
        with self._blaming():
            self.driver.call("cuStreamSynchronize", self.stream_handle)

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        try:
            yield
        except CudaError as error:
            raise self._blamed(error) from None

    def _blamed(self, error: CudaError) -> CudaError:
        """The error, with the programs that may have caused it."""
        names = list(dict.fromkeys(self._launched))
        if not isinstance(error, DeviceLost) or not names:
            return error
        self._launched.clear()
        told = DeviceLost(f"{error}\nlaunched since the last wait: {', '.join(names)}; "
                          "CELLC_GPU_BLOCKING=1 names the kernel", error.code, error.name)
        self.driver.lost = told
        return told

    def __str__(self) -> str:
        major, minor = self._properties.capability
        return f"{self.name} ({self._properties.name}, sm_{major}{minor})"


class CudaCode:
    """See `Code`: a program's code, its kernels loaded."""

    native = False

    def __init__(self, device: CudaDevice, program: Program, callbacks: Sequence[Host]) -> None:
        settings = knobs.read()
        self._device, self._name = device, program.name
        self._labels = [_label(program, i) for i in range(len(program.kernels))]
        self._kernels: list[Kernel] = [
            device.modules.load(k, where)
            for k, where in zip(program.kernels, self._labels, strict=True)]
        self._blocking = settings.gpu_blocking
        self._checked = _Checked(self)
        self._image = MappedImage(program.image, self._checked.entries(), callbacks,
                                  [k.function for k in self._kernels])
        self._suffix = WIN64 if uses_win64() else ""
        self._main = main_function(self.address(MAIN + self._suffix))
        self.launch: Callable[[int, int, int], int] = self._launch
        self._first = True
        self._lock = threading.Lock()
        self.graphs = Graphs(device, self._image, self._main, len(program.slots))
        self.graphs.possible = bool(settings.gpu_graphs and not callbacks and program.kernels
                                    and not self._blocking)

    def _launch(self, slots: int, arena: int, consts: int) -> int:
        """See `Code`."""
        device = self._device
        device.use()
        device.launched(self._name)
        if not self.graphs.possible:
            return self._run(lambda: self._main(slots, arena, consts))
        # While a program is taken down its launches do not go to the stream.
        with self._lock:
            code = self.graphs.launch(slots, arena, consts)  # none in the first call
            return self._run(lambda: self._main(slots, arena, consts)) if code is None else code

    def precompute(self, slots: int, arena: int, consts: int, part: int) -> int:
        """See `Code`."""
        self._device.use()
        self._device.launched(self._name)
        function = precompute_function(self.address(PRECOMPUTE + self._suffix))
        return self._run(lambda: function(slots, arena, consts, part), stays=True)

    def address(self, symbol: str) -> int:
        """See `Code`."""
        return self._image.address(symbol)

    def _run(self, main: Callable[[], int], stays: bool = False) -> int:
        """Call a function of the image.

        Args:
            stays: that calls are checked, though this one goes well.
        """
        code = main()
        if code == DEVICE_FAILED:
            self._device.failed(self._checked.failure() or self._unnamed())
        elif self._first and not stays and not self._blocking:
            # What the driver refuses of a launch it refuses the first time: sizes are the same.
            self._first = False
            for entry, name in _ENTRIES.items():
                self._image.set_entry(entry, self._device.driver.address(name))
        return code

    def _unnamed(self) -> CudaError:
        """The error behind a failure that was not seen where it came up."""
        driver = self._device.driver
        result = driver.result("cuStreamQuery", self._device.stream_handle)
        if result and result != cuda.NOT_READY:
            return driver.error(result, f"program {self._name!r}")
        return CudaError(f"program {self._name!r}: the driver refused a launch or a copy; "
                         "CELLC_GPU_BLOCKING=1 names it")


_ENTRIES = {Ext.DEVICE_LAUNCH: "cuLaunchKernel", Ext.DEVICE_COPY: "cuMemcpyAsync",
            Ext.DEVICE_WAIT: "cuStreamSynchronize"}


class _Checked:
    """The driver's functions as a program calls them while errors are to be named.

    Python stands between main and the driver: in the first call of a program, and always with
    `CELLC_GPU_BLOCKING=1`.
    """

    def __init__(self, code: CudaCode) -> None:
        self._driver, self._code = code._device.driver, code
        self._stream = code._device.stream_handle
        self._failures: dict[int, CudaError] = {}
        # ctypes keeps only what is referenced.
        self._functions = {Ext.DEVICE_LAUNCH: _LAUNCH(self._launch),
                           Ext.DEVICE_COPY: _COPY(self._copy), Ext.DEVICE_WAIT: _WAIT(self._wait)}

    def entries(self) -> dict[Ext, int]:
        """The entries of the external table."""
        return {Ext.DEVICE_STREAM: self._stream,
                **{entry: address_of(f) for entry, f in self._functions.items()}}

    def failure(self) -> CudaError | None:
        """What went wrong in this thread."""
        return self._failures.pop(threading.get_ident(), None)

    def _launch(self, function: int, *given: Any) -> int:
        result = self._driver.result("cuLaunchKernel", function, *given)
        if self._code._blocking:
            result = result or self._driver.result("cuStreamSynchronize", self._stream)
        if result:
            grid, block, shared = given[:3], given[3:6], given[6]
            self._keep(result, f"{self._label(function)}: grid {_sizes(grid)}, block "
                               f"{_sizes(block)}, {shared:,} bytes of shared memory")
        return result

    def _copy(self, to: int, source: int, nbytes: int, stream: int) -> int:
        result = self._driver.result("cuMemcpyAsync", to, source, nbytes, stream)
        if result:
            self._keep(result, f"a copy of {nbytes:,} bytes in program {self._code._name!r}")
        return result

    def _wait(self, stream: int) -> int:
        result = self._driver.result("cuStreamSynchronize", stream)
        if result:
            self._keep(result, f"program {self._code._name!r}, or one launched before it")
        return result

    def _keep(self, result: int, doing: str) -> None:
        self._failures[threading.get_ident()] = self._driver.error(result, doing)

    def _label(self, function: int) -> str:
        for kernel, label in zip(self._code._kernels, self._code._labels, strict=True):
            if kernel.function == function:
                return label
        return f"a kernel of program {self._code._name!r}"


def _label(program: Program, number: int) -> str:
    """A kernel of a program, for errors."""
    own = program.kernels[number].name
    return (f"kernel {number + 1} of {len(program.kernels)}" + (f" ({own})" if own else "")
            + f" of program {program.name!r}")


def _sizes(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


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
        self._lock = threading.Lock()
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
    """A GPU of this machine; the same object for a number.

    Raises:
        GpuMissing: there is none, no driver, or one that is too old.
        CudaError: the driver refuses it.
    """
    return _OPENED.device(number)


def device_count() -> int:
    """How many GPUs the driver shows.

    Raises:
        GpuMissing: there is none, no driver, or one that is too old.
    """
    return _OPENED.driver().number("cuDeviceGetCount")
