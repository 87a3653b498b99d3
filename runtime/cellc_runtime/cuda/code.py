"""A program's code on a GPU: its kernels loaded, its `cellc_main` in this process."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import knobs
from ..abi import DEVICE_FAILED, MAIN, PARTS, PRECOMPUTE, WIN64, Ext
from ..forks import renewed
from ..loader import Host, MappedImage, main_function, precompute_function
from ..platform import address_of, uses_win64
from ..program import Program
from . import driver as cuda
from . import on_stream
from .context import Context
from .driver import CudaError
from .graphs import COPY, NO_GRAPHS, Capture, Graphs, GraphsTogether, PartGraphs
from .modules import Kernel, Modules
from .streams import CudaEvent

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int32, *cuda.SIGNATURES["cuLaunchKernel"])
_MAP = ctypes.CFUNCTYPE(ctypes.c_int32, *cuda.SIGNATURES["cuTensorMapEncodeTiled"])
_WAIT = ctypes.CFUNCTYPE(ctypes.c_int32, *cuda.SIGNATURES["cuStreamSynchronize"])


class CudaCode:
    """See `Code`: a program's code, its kernels loaded.

    Args:
        owns: whether bytes from an address on are the device's.
        as_ptx: its cubins are another GPU's, or a later driver's; where there is PTX it is taken.

    Raises:
        CudaError: the driver refuses a kernel.
    """

    native = False

    def __init__(
        self, context: Context, modules: Modules, program: Program, callbacks: Sequence[Host],
        owns: Callable[[int, int], bool], as_ptx: bool = False,
    ) -> None:
        settings = knobs.read()
        self._context, self._name = context, program.name
        self._labels = [_label(program, i) for i in range(len(program.kernels))]
        self._kernels: list[Kernel] = [
            modules.load(k, where, as_ptx)
            for k, where in zip(program.kernels, self._labels, strict=True)]
        self._blocking = settings.gpu_blocking
        self._checked = _Checked(self)
        self._image = MappedImage(program.image, self._checked.entries(), callbacks,
                                  [k.function for k in self._kernels])
        self._suffix = WIN64 if uses_win64() else ""
        self._main = main_function(self.address(MAIN + self._suffix))
        self.launch: Callable[[int, int, int], int] = self._launch
        self._first = True
        self.timer: _Timer | None = None
        self._lock = renewed(threading.Lock())
        capture = Capture(context, self._image, owns)
        self.graphs = Graphs(context, capture, self._main, len(program.slots))
        group = on_stream.group_of(callbacks)
        wanted = bool(settings.gpu_graphs and not self._blocking and (program.kernels or group))
        self.parts: PartGraphs | None = None
        if wanted and PARTS in program.image.symbols and not uses_win64():
            launch = precompute_function(self.address(PARTS))  # (a function of the same arguments)
            self.parts = PartGraphs(context, capture, launch, len(program.slots))
        self.graphs.possible = wanted and not callbacks and self.parts is None
        self._together: GraphsTogether | None = None
        if wanted and group:
            self._together = GraphsTogether(
                context, capture, self._main, len(program.slots),
                partial(on_stream.votes, f"the launch of {self._name}", group))

    def _launch(self, slots: int, arena: int, consts: int) -> int:
        self._context.use()
        self._context.launched(self._name)
        if (code := self._launch_together(slots, arena, consts)) is not None:
            return code
        if self.parts is not None:
            with self.parts.of_call(slots, arena, consts):
                return self._run(lambda: self._main(slots, arena, consts))
        if not self.graphs.possible:
            code = self._run(lambda: self._main(slots, arena, consts))
            if self._blocking and not code:
                self._context.wait()  # it tells what checks have found
            return code
        # While a program is taken down its launches do not go to the stream.
        with self._lock:
            found = self.graphs.launch(slots, arena, consts)  # none in the first call
            return self._run(lambda: self._main(slots, arena, consts)) if found is None else found

    def _launch_together(self, slots: int, arena: int, consts: int) -> int | None:
        """Launch a graph that other ranks launch, too; None: there is none, call main."""
        if self._together is None or not self._together.possible or on_stream.engine() is None:
            return None
        with self._lock:
            self._image.fill({Ext.DEVICE_PARTS: ctypes.addressof(NO_GRAPHS)})
            return self._together.launch(slots, arena, consts)

    def precompute(self, slots: int, arena: int, consts: int, part: int) -> int:
        self._context.use()
        self._context.launched(self._name)
        function = precompute_function(self.address(PRECOMPUTE + self._suffix))
        return self._run(lambda: function(slots, arena, consts, part), stays=True)

    def address(self, symbol: str) -> int:
        return self._image.address(symbol)

    def timed(self) -> Callable[[], list[tuple[int, float]]]:
        """See `Device.timed`: launches go kernel by kernel, by way of Python, from now on."""
        self.timer = _Timer(self._context)
        self.parts, self.graphs.possible, self._together = None, False, None
        self._image.fill(self._checked.entries())
        return self.timer.taken

    def number_of(self, function: int) -> int | None:
        """Which kernel a function is; None if it is not the program's."""
        return next((i for i, k in enumerate(self._kernels) if k.function == function), None)

    def _run(self, main: Callable[[], int], stays: bool = False) -> int:
        """Call a function of the image. `stays`: that calls are checked, though this one goes
        well."""
        code = main()
        if code == DEVICE_FAILED:
            self._context.failed(self._checked.failure() or self._unnamed())
        elif self._first and not stays and not self._blocking and self.timer is None:
            # The driver refuses a launch the first time or never: sizes are the same.
            self._first = False
            self._image.fill({e: self._context.driver.address(n) for e, n in _ENTRIES.items()})
        return code

    def _unnamed(self) -> CudaError:
        """Return the error of a failure that no call reported where it occurred."""
        driver = self._context.driver
        result = driver.result("cuStreamQuery", self._context.stream)
        if result and result != cuda.NOT_READY:
            return driver.error(result, f"program {self._name!r}")
        return CudaError(f"program {self._name!r}: the driver refused a launch or a copy; "
                         "CELLC_GPU_BLOCKING=1 names it")


_ENTRIES = {Ext.DEVICE_LAUNCH: "cuLaunchKernel", Ext.DEVICE_COPY: "cuMemcpyAsync",
            Ext.DEVICE_WAIT: "cuStreamSynchronize",
            Ext.DEVICE_TENSOR_MAP: "cuTensorMapEncodeTiled"}


class _Checked:
    """The driver's functions as a program calls them while errors are to be named.

    Python stands between main and the driver: in the first call of a program, and always with
    `CELLC_GPU_BLOCKING=1`.
    """

    def __init__(self, code: CudaCode) -> None:
        self._driver, self._code = code._context.driver, code
        self._stream = code._context.stream
        self._failures: dict[int, CudaError] = {}
        # ctypes keeps only what is referenced.
        self._functions = {Ext.DEVICE_LAUNCH: _LAUNCH(self._launch),
                           Ext.DEVICE_COPY: COPY(self._copy), Ext.DEVICE_WAIT: _WAIT(self._wait),
                           Ext.DEVICE_TENSOR_MAP: _MAP(self._map)}

    def entries(self) -> dict[Ext, int]:
        """The entries of the external table."""
        context = self._code._context
        return {Ext.DEVICE_STREAM: self._stream, Ext.DEVICE_FAULT: context.fault,
                Ext.DEVICE_FAULT_SEEN: context.fault_seen,
                Ext.DEVICE_GRAPH: context.driver.address("cuGraphLaunch"),
                Ext.DEVICE_PARTS: ctypes.addressof(NO_GRAPHS),
                **{entry: address_of(f) for entry, f in self._functions.items()}}

    def failure(self) -> CudaError | None:
        """Return and forget the error of this thread."""
        return self._failures.pop(threading.get_ident(), None)

    def _launch(self, function: int, *given: Any) -> int:
        timer = self._code.timer
        if timer is not None:
            timer.begin()
        result = self._driver.result("cuLaunchKernel", function, *given)
        if timer is not None:
            timer.end(self._code.number_of(function))
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

    def _map(self, *given: Any) -> int:
        result = self._driver.result("cuTensorMapEncodeTiled", *given)
        if result:
            self._keep(result, f"a tensor map of program {self._code._name!r}, rank {given[2]}, at "
                               f"{given[3] or 0:#x}")
        return result

    def _keep(self, result: int, doing: str) -> None:
        # A main gathers results and continues: the first one names the error.
        self._failures.setdefault(threading.get_ident(), self._driver.error(result, doing))

    def _label(self, function: int) -> str:
        number = self._code.number_of(function)
        return f"a kernel of program {self._code._name!r}" if number is None \
            else self._code._labels[number]


class _Timer:
    """The times of launches: each is between two events of the stream."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._begun: CudaEvent | None = None
        self._launches: list[tuple[int, CudaEvent, CudaEvent]] = []

    def begin(self) -> None:
        """Before a launch."""
        self._begun = self._event()

    def end(self, kernel: int | None) -> None:
        """Behind it."""
        assert self._begun is not None
        if kernel is not None:
            self._launches.append((kernel, self._begun, self._event()))

    def _event(self) -> CudaEvent:
        event = CudaEvent(self._context, timing=True)
        event.record()
        return event

    def taken(self) -> list[tuple[int, float]]:
        self._context.wait()
        launches, self._launches = self._launches, []
        return [(kernel, first.elapsed_time(last) * 1e-3) for kernel, first, last in launches]


def _label(program: Program, number: int) -> str:
    """A kernel of a program, for errors."""
    own = program.kernels[number].name
    return (f"kernel {number + 1} of {len(program.kernels)}" + (f" ({own})" if own else "")
            + f" of program {program.name!r}")


def _sizes(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))
