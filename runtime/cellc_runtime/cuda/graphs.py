"""A program's launches as one graph.

A launch costs the processor about 2 us, a graph of many kernels hardly more than one. So the second
time that a program is called with the same addresses, its `cellc_main` is run once with a stream
that takes down what is launched, and from then on the graph is launched. A main that waits for the
device, calls the host or copies from its own memory (which is gone or changed when the graph runs)
cannot be taken down: such a wait or copy is refused, nothing has run by then, and the program goes
on kernel by kernel. A main that waits by what it was compiled for has parts, which are launched
between its waits: each is taken down by itself.

Addresses are part of a graph. Blocks come back at the same ones from call to call, so a few graphs
serve; one more takes the oldest's place, which is cheaper than a new one.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..abi import DEVICE_FAILED, MOST_PARTS, Ext
from ..forks import renewed
from ..loader import MappedImage
from ..platform import address_of
from .context import Context
from .driver import CAPTURE_THREAD_LOCAL, SIGNATURES, CudaError

LIMIT = 4  # Graphs of a program: results often take turns in two places
_REMEMBERED = 32
_LEAST = 3  # Launches and copies from which on a graph is worth it


_REFUSED = 900  # `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, as the driver says it of a wait
COPY = ctypes.CFUNCTYPE(ctypes.c_int32, *SIGNATURES["cuMemcpyAsync"])


Table = ctypes.Array[ctypes.c_void_p]
"""The graphs of parts, by number; null where there is none."""


def _table() -> Table:
    return (ctypes.c_void_p * MOST_PARTS)()


NO_GRAPHS = _table()


class _UpdateResult(ctypes.Structure):
    """`CUgraphExecUpdateResultInfo`."""

    _fields_ = [("result", ctypes.c_int), ("node", ctypes.c_void_p), ("from", ctypes.c_void_p)]


class Capture:
    """Takes down what functions of a program launch.

    Args:
        owns: whether bytes from an address on are the device's.
    """

    def __init__(
        self, context: Context, image: MappedImage, owns: Callable[[int, int], bool]
    ) -> None:
        self._context, self.image, self._owns = context, image, owns
        self._copy = COPY(self._take_down_copy)

    def describe(self, run: Callable[[], int]) -> int | None:
        """Capture a function's launches as a graph that cannot run yet; None if that fails, or they
        are too few. No other thread may run functions of the image meanwhile."""
        driver = self._context.driver
        with self._context.capture_stream() as stream:
            if driver.result("cuStreamBeginCapture_v2", stream, CAPTURE_THREAD_LOCAL):
                return None
            self.image.fill({Ext.DEVICE_STREAM: stream, Ext.DEVICE_COPY: address_of(self._copy)})
            try:
                code = run()
            finally:
                self.image.fill({Ext.DEVICE_STREAM: self._context.stream,
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

    def instantiated(self, description: int, graph: int | None = None) -> int | None:
        """A graph that can run, of a description that goes (given one: that); None if there is no
        memory for it: kernel by kernel needs none."""
        driver = self._context.driver
        try:
            return graph or driver.handle("cuGraphInstantiateWithFlags", description, 0)
        except CudaError:
            driver.ready()
            return None
        finally:
            driver.result("cuGraphDestroy", description)

    def _take_down_copy(self, to: int, source: int, nbytes: int, stream: int) -> int:
        """A copy of a main that is taken down."""
        if not (self._owns(to, nbytes) and self._owns(source, nbytes)):
            return _REFUSED
        return self._context.driver.result("cuMemcpyAsync", to, source, nbytes, stream)


class Graphs:
    """The graphs of one program. Not for two threads at once.

    Args:
        main: its `cellc_main`.
        slots: how many pointers main is given.

    Attributes:
        possible: whether main can be taken down and it is worth it, as far as is known.
        launches, captures: so often graphs were launched and made.
    """

    def __init__(
        self, context: Context, capture: Capture, main: Callable[[int, int, int], int], slots: int,
    ) -> None:
        self._context, self._capture, self._main, self._nbytes = context, capture, main, 8 * slots
        self._graphs: OrderedDict[bytes, int] = OrderedDict()
        self._seen = _Seen()
        self.possible = True
        self.launches = self.captures = 0

    def launch(self, slots: int, arena: int, consts: int) -> int | None:
        """Launch the graph for these addresses, which may be made for that.

        Returns:
            Launch the graph of main; None: there is no graph, call main.
        """
        key = _key(slots, self._nbytes, arena, consts)
        graph = self._graphs.get(key)
        if graph is None:
            if self._seen.first_time(key):
                return None
            graph = self._make(key, slots, arena, consts)
            if graph is None:
                return None
        else:
            self._graphs.move_to_end(key)
        return self._launched(graph)

    def _launched(self, graph: int) -> int:
        self.launches += 1
        driver = self._context.driver
        result = driver.result("cuGraphLaunch", graph, self._context.stream)
        if result:
            self._context.failed(driver.error(result, "launching a graph"))
            return DEVICE_FAILED
        return 0

    def _make(self, key: bytes, slots: int, arena: int, consts: int) -> int | None:
        description = self._capture.describe(lambda: self._main(slots, arena, consts))
        if description is None:
            self.possible = False
            return None
        graph = self._capture.instantiated(description, self._updated(description))
        if graph is None:
            self.possible = False
            return None
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

    def __del__(self) -> None:
        for graph in getattr(self, "_graphs", {}).values():
            self._context.discard("cuGraphExecDestroy", graph)


class GraphsTogether(Graphs):
    """The graphs of a program whose collectives are in them.

    NCCL wants all ranks to take down, or launch, the same thing at the same time. So before each
    call the ranks say which graph they have for their addresses, and whether they can make one:
    all do the same. Graphs have numbers, equal on all ranks.

    Args:
        votes: given a number and yes or no, gives what each of the ranks says.
    """

    def __init__(
        self, context: Context, capture: Capture, main: Callable[[int, int, int], int], slots: int,
        votes: Callable[[tuple[int, bool]], list[tuple[int, bool]]],
    ) -> None:
        super().__init__(context, capture, main, slots)
        self._votes = votes
        self._numbers: dict[bytes, int] = {}

    def launch(self, slots: int, arena: int, consts: int) -> int | None:
        key = _key(slots, self._nbytes, arena, consts)
        number = self._numbers.get(key, 0)
        known = bool(number) or not self._seen.first_time(key)
        said = self._votes((number, known))
        if number and set(said) == {(number, True)}:
            return self._launched(self._graphs[key])
        if not all(known for _, known in said):
            return None
        self._drop(key)
        graph = self._make(key, slots, arena, consts)
        if not all(made for _, made in self._votes((0, graph is not None))):
            self._drop(key)
            self.possible = False
            return None
        assert graph is not None
        self._numbers[key] = self.captures
        return self._launched(graph)

    def _updated(self, description: int) -> int | None:
        """None: graphs with NCCL's kernels are rebuilt. The oldest makes room."""
        if len(self._graphs) == LIMIT:
            self._drop(next(iter(self._graphs)))
        return None

    def _drop(self, key: bytes) -> None:
        self._numbers.pop(key, None)
        graph = self._graphs.pop(key, None)
        if graph is not None:
            self._context.discard("cuGraphExecDestroy", graph)


class PartGraphs:
    """The graphs of the parts of a program that waits in between.

    Main finds them in an array, by number, that it asks for when it begins. They are made, and
    given to main, only while no other call of the program runs.

    Args:
        launch: `cellc_parts`.
        slots: how many pointers main is given.
    """

    def __init__(
        self, context: Context, capture: Capture, launch: Callable[[int, int, int, int], int],
        slots: int,
    ) -> None:
        self._context, self._capture, self._launch = context, capture, launch
        self._nbytes = 8 * slots
        self._tables: OrderedDict[bytes, Table] = OrderedDict()
        self._seen = _Seen()
        self._lock = renewed(threading.Lock())
        self._running = 0
        self.captures = 0  # the number of graphs made

    @contextmanager
    def of_call(self, slots: int, arena: int, consts: int) -> Iterator[None]:
        """Within the block main is called with these addresses, and finds graphs for them."""
        with self._lock:
            self._running += 1
            alone = self._running == 1
            table = self._table(slots, arena, consts) if alone else NO_GRAPHS
            self._capture.image.fill({Ext.DEVICE_PARTS: ctypes.addressof(table)})
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1

    def _table(self, slots: int, arena: int, consts: int) -> Table:
        """The graphs for these addresses, made the second time they are seen."""
        key = _key(slots, self._nbytes, arena, consts)
        table = self._tables.get(key)
        if table is not None:
            self._tables.move_to_end(key)
            return table
        if self._seen.first_time(key):
            return NO_GRAPHS
        if len(self._tables) == LIMIT:
            self._discard(self._tables.popitem(last=False)[1])
        made = self._tables[key] = _table()
        for number in range(MOST_PARTS):
            description = self._capture.describe(
                partial(self._launch, slots, arena, consts, number))
            if description is None:
                break
            made[number] = graph = self._capture.instantiated(description)
            self.captures += graph is not None
        return made

    def _discard(self, table: Table) -> None:
        handles: Any = table  # (of an array of `c_void_p` an item is a number, or None)
        for graph in handles:
            if graph is not None:
                self._context.discard("cuGraphExecDestroy", graph)

    def __del__(self) -> None:
        for table in getattr(self, "_tables", {}).values():
            self._discard(table)


class _Seen:
    """Addresses of calls, the last few."""

    def __init__(self) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()

    def first_time(self, key: bytes) -> bool:
        """Whether a call has new addresses, as far as is remembered."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _REMEMBERED:
            self._keys.popitem(last=False)
        return True


def _key(slots: int, nbytes: int, arena: int, consts: int) -> bytes:
    """All addresses of a call."""
    return ctypes.string_at(slots, nbytes) + arena.to_bytes(8) + consts.to_bytes(8)
