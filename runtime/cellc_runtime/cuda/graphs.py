"""A program's launches as one graph.

A launch costs the processor about 2 us, a graph of many kernels hardly more than one. So the second
time that a program is called with the same addresses, its `cellc_main` is run once with a stream
that takes down what is launched, and from then on the graph is launched. A main that waits for the
device, calls the host or copies from its own memory (which is gone or changed when the graph runs)
cannot be taken down: such a wait or copy is refused, nothing has run by then, and the program goes
on kernel by kernel.

Addresses are part of a graph. Blocks come back at the same ones from call to call, so a few graphs
serve; one more takes the oldest's place, which is cheaper than a new one.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable

from ..abi import DEVICE_FAILED, Ext
from ..loader import MappedImage
from ..platform import address_of
from .context import Context
from .driver import CAPTURE_THREAD_LOCAL, SIGNATURES, CudaError

LIMIT = 4
"""Graphs of a program: results often take turns in two places."""
_REMEMBERED = 32
_LEAST = 3
"""Launches and copies from which on a graph is worth it."""


_REFUSED = 900
"""`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, as the driver says it of a wait."""
COPY = ctypes.CFUNCTYPE(ctypes.c_int32, *SIGNATURES["cuMemcpyAsync"])


class _UpdateResult(ctypes.Structure):
    """`CUgraphExecUpdateResultInfo`."""

    _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from", ctypes.c_void_p)]


class Graphs:
    """The graphs of one program. Not for two threads at once.

    Args:
        image: the program's code.
        main: its `cellc_main`.
        slots: how many pointers main is given.
        owns: whether bytes from an address on are the device's.

    Attributes:
        possible: whether main can be taken down and it is worth it, as far as is known.
        launches, captures: so often graphs were launched and made.
    """

    def __init__(
        self, context: Context, image: MappedImage, main: Callable[[int, int, int], int],
        slots: int, owns: Callable[[int, int], bool],
    ) -> None:
        self._context, self._image, self._main, self._nbytes = context, image, main, 8 * slots
        self._owns = owns
        self._copy = COPY(self._take_down_copy)
        self._graphs: OrderedDict[bytes, int] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self.possible = True
        self.launches = self.captures = 0

    def launch(self, slots: int, arena: int, consts: int) -> int | None:
        """Launch the graph for these addresses, which may be made for that.

        Returns:
            What main would; None: there is none, call main.
        """
        key = ctypes.string_at(slots, self._nbytes) + arena.to_bytes(8) + consts.to_bytes(8)
        graph = self._graphs.get(key)
        if graph is None:
            if key not in self._seen:
                self._seen[key] = None
                if len(self._seen) > _REMEMBERED:
                    self._seen.popitem(last=False)
                return None
            graph = self._make(key, slots, arena, consts)
            if graph is None:
                return None
        else:
            self._graphs.move_to_end(key)
        self.launches += 1
        driver = self._context.driver
        result = driver.result("cuGraphLaunch", graph, self._context.stream)
        if result:
            self._context.failed(driver.error(result, "launching a graph"))
            return DEVICE_FAILED
        return 0

    def _make(self, key: bytes, slots: int, arena: int, consts: int) -> int | None:
        description = self._describe(slots, arena, consts)
        if description is None:
            self.possible = False
            return None
        driver = self._context.driver
        try:
            graph = self._updated(description) or driver.handle(
                "cuGraphInstantiateWithFlags", description, 0)
        except CudaError:  # no memory for it, say: kernel by kernel needs none
            driver.ready()
            self.possible = False
            return None
        finally:
            driver.result("cuGraphDestroy", description)
        self.captures += 1
        self._graphs[key] = graph
        return graph

    def _updated(self, description: int) -> int | None:
        """The oldest graph with new addresses; None if there is room for a new one."""
        if len(self._graphs) < LIMIT:
            return None
        _, graph = self._graphs.popitem(last=False)
        told = _UpdateResult()
        if not self._context.driver.result(
            "cuGraphExecUpdate_v2", graph, description, ctypes.byref(told)
        ):
            return graph
        self._context.discard("cuGraphExecDestroy", graph)
        return None

    def _describe(self, slots: int, arena: int, consts: int) -> int | None:
        """What main launches, as a graph that cannot run yet; None if main cannot be taken down,
        or launches too little."""
        driver = self._context.driver
        with self._context.capture_stream() as stream:
            if driver.result("cuStreamBeginCapture_v2", stream, CAPTURE_THREAD_LOCAL):
                return None
            self._image.fill({Ext.DEVICE_STREAM: stream,
                              Ext.DEVICE_COPY: address_of(self._copy)})
            try:
                code = self._main(slots, arena, consts)
            finally:
                self._image.fill({Ext.DEVICE_STREAM: self._context.stream,
                                  Ext.DEVICE_COPY: driver.address("cuMemcpyAsync")})
                out = ctypes.c_void_p()
                result = driver.result("cuStreamEndCapture", stream, ctypes.byref(out))
        graph = out.value
        if not graph:
            return None
        count = ctypes.c_size_t()
        driver.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        if code or result or count.value < _LEAST:
            driver.call("cuGraphDestroy", graph)
            return None
        return graph

    def _take_down_copy(self, to: int, source: int, nbytes: int, stream: int) -> int:
        """A copy of a main that is taken down."""
        if not (self._owns(to, nbytes) and self._owns(source, nbytes)):
            return _REFUSED
        return self._context.driver.result("cuMemcpyAsync", to, source, nbytes, stream)

    def __del__(self) -> None:
        for graph in getattr(self, "_graphs", {}).values():
            self._context.discard("cuGraphExecDestroy", graph)
