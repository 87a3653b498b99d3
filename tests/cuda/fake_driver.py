"""A stand-in for libcuda: its functions over memory of the host, for tests without a GPU.

What a GPU does while the caller goes on is done here as late as possible: when something waits for
it. So a wait that is missing shows. Memory of the "device" is apart (what kernels and copies touch
must lie in one allocation), filled with rubbish when it is fresh and when it is freed. Kernels are
Python functions. What the real driver refuses is refused: no context in a thread, another
architecture, too much shared memory, waits while a stream takes down a graph.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cellc_runtime.cuda.driver import SIGNATURES

from .fake_library import FakeLibrary, Refused

Array = np.ndarray[Any, Any]
Work = Callable[[], None]
KernelFunction = Callable[..., None]
FRESH, FREED = 0xCD, 0xDD
REAL = "a real cubin"
NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 3: "CUDA_ERROR_NOT_INITIALIZED",
    100: "CUDA_ERROR_NO_DEVICE", 201: "CUDA_ERROR_INVALID_CONTEXT",
    209: "CUDA_ERROR_NO_BINARY_FOR_GPU", 218: "CUDA_ERROR_INVALID_PTX",
    400: "CUDA_ERROR_INVALID_HANDLE", 500: "CUDA_ERROR_NOT_FOUND", 600: "CUDA_ERROR_NOT_READY",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    719: "CUDA_ERROR_LAUNCH_FAILED", 900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 910: "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
}
_SINGLE = {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
           "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute",
           "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
           "cuTensorMapEncodeTiled"}  # fmt: skip
"""What needs no context."""


class Fault(Exception):
    """A kernel broke the device."""

    def __init__(self, code: int = 700) -> None:
        super().__init__(code)
        self.code = code


@dataclass(eq=False)
class Node:
    """What is launched: a kernel or a copy, by kind for updates of graphs."""

    kind: str
    work: Work


@dataclass(eq=False)
class Stream:
    """Work that waits; `running` is the thread that does some of it, which another one may let go
    on."""

    queue: list[Node] = field(default_factory=list)
    capture: list[Node] | None = None
    owner: int = 0
    invalid: bool = False
    running: int = 0


@dataclass(eq=False)
class Event:
    """A point in a stream."""

    stream: Stream | None = None
    node: Node | None = None
    done: float | None = None


@dataclass
class Function:
    """A kernel of a module."""

    name: str
    allowed: int = 48 << 10


@dataclass
class Launch:
    """A launch as it was asked for."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


class FakeDriver(FakeLibrary):
    """The library.

    Args:
        kernels: by name, the types of their arguments and what they do.
        version, capability, memory, devices: what the driver says of itself and its GPUs.

    Attributes:
        launches: of kernels, as they were asked for; `done` those that have run.
        log: names of the functions called.
        sticky: what every call says once the device is lost.
    """

    def __init__(
        self, kernels: dict[str, tuple[Sequence[Any], KernelFunction]] | None = None, *,
        version: int = 13000, capability: tuple[int, int] = (9, 0), memory: int = 1 << 30,
        devices: int = 1, missing: Sequence[str] = (),
    ) -> None:
        self.kernels = kernels or {}
        self.version, self.capability, self.memory = version, capability, memory
        self.devices, self.first_bus = devices, 1
        self.launches: list[Launch] = []
        self.done: list[str] = []
        self.log: list[str] = []
        self.sticky = 0
        self.blocks: dict[int, Any] = {}
        self.handles: dict[int, Any] = {}
        self._numbers = itertools.count(0x1000, 16)
        self._contexts: dict[int, int] = {}
        self._lock = threading.RLock()
        self.changed = threading.Condition(self._lock)
        self._names = {code: ctypes.create_string_buffer(n.encode()) for code, n in NAMES.items()}
        self._texts = {code: ctypes.create_string_buffer(n[11:].replace("_", " ").lower().encode())
                       for code, n in NAMES.items()}
        super().__init__(SIGNATURES, missing, self._lock)

    def begin(self, name: str) -> None:
        """See `FakeLibrary`."""
        self.log.append(name)

    def check(self, name: str) -> None:
        """See `FakeLibrary`."""
        if name not in _SINGLE:
            self._usable()

    def _usable(self) -> None:
        if self.sticky:
            raise Refused(self.sticky)
        if not self._contexts.get(threading.get_ident()):
            raise Refused(201)

    # --- for tests ---------------------------------------------------------------------------

    def array(self, address: int, count: int, dtype: Any = np.float32) -> Array:
        """Memory of the device, which must lie in one allocation.

        Raises:
            Fault: it does not.
        """
        nbytes = count * np.dtype(dtype).itemsize
        self._inside(address, nbytes)
        return np.frombuffer((ctypes.c_char * nbytes).from_address(address), dtype)

    def _inside(self, address: int, nbytes: int) -> None:
        if not self._is_device(address, nbytes):
            raise Fault(700)

    def _is_device(self, address: int, nbytes: int) -> bool:
        return any(start <= address and address + nbytes <= start + len(block)
                   for start, block in self.blocks.items())

    def pending(self) -> int:
        """Launches and copies that have not run."""
        return sum(len(s.queue) for s in self.handles.values() if isinstance(s, Stream))

    def count(self, kind: type) -> int:
        """Handles of a kind that live."""
        return sum(isinstance(h, kind) for h in self.handles.values())

    # --- work --------------------------------------------------------------------------------

    def _new(self, out: int, thing: Any) -> None:
        handle = next(self._numbers)
        self.handles[handle] = thing
        _fill(out, handle)

    def _of(self, handle: int | None, kind: type) -> Any:
        thing = self.handles.get(handle or 0)
        if not isinstance(thing, kind):
            raise Refused(400)
        return thing

    def _put(self, stream: int | None, kind: str, work: Work) -> None:
        found: Stream = self._of(stream, Stream)
        (found.queue if found.capture is None else found.capture).append(Node(kind, work))

    def _run(self, stream: Stream, until: Node | None = None) -> None:
        here = threading.get_ident()
        while stream.queue and (until is None or until in stream.queue):
            if stream.running not in (0, here):
                self.changed.wait(1e-3)
                continue
            node, stream.running = stream.queue[0], here
            try:
                node.work()
            except Fault as fault:
                self.sticky = fault.code
                for other in self.handles.values():
                    if isinstance(other, Stream):
                        other.queue.clear()
                raise Refused(fault.code) from None
            finally:
                stream.running = 0
                if node in stream.queue:
                    stream.queue.remove(node)
            if node is until:
                return

    def _run_all(self) -> None:
        for stream in [s for s in self.handles.values() if isinstance(s, Stream)]:
            self._run(stream)

    # --- the driver's functions --------------------------------------------------------------

    def _cuInit(self, flags: int) -> None:
        if not self.devices:
            raise Refused(100)

    def _cuDriverGetVersion(self, out: int) -> None:
        _fill(out, self.version, ctypes.c_int)

    def _cuGetErrorName(self, code: int, out: int) -> None:
        _fill(out, ctypes.addressof(self._names[code]) if code in self._names else 0)

    def _cuGetErrorString(self, code: int, out: int) -> None:
        _fill(out, ctypes.addressof(self._texts[code]) if code in self._texts else 0)

    def _cuDeviceGetCount(self, out: int) -> None:
        _fill(out, self.devices, ctypes.c_int)

    def _cuDeviceGet(self, out: int, number: int) -> None:
        _fill(out, number, ctypes.c_int)

    def _cuDeviceGetName(self, out: int, size: int, device: int) -> None:
        ctypes.memmove(out, b"Fake GPU\0", 9)

    def _cuDeviceGetAttribute(self, out: int, attribute: int, device: int) -> None:
        values = {75: self.capability[0], 76: self.capability[1], 16: 4, 38: 1 << 20, 97: 227 << 10,
                  50: 0, 33: self.first_bus + device, 34: 0}
        _fill(out, values[attribute], ctypes.c_int)

    def _cuDeviceTotalMem_v2(self, out: int, device: int) -> None:
        _fill(out, self.memory, ctypes.c_size_t)

    def _cuDevicePrimaryCtxRetain(self, out: int, device: int) -> None:
        self._new(out, "context")

    def _cuCtxSetCurrent(self, context: int | None) -> None:
        self._contexts[threading.get_ident()] = context or 0

    def _cuMemGetInfo_v2(self, free: int, total: int) -> None:
        _fill(free, self.memory - sum(map(len, self.blocks.values())), ctypes.c_size_t)
        _fill(total, self.memory, ctypes.c_size_t)

    def _cuMemAlloc_v2(self, out: int, nbytes: int) -> None:
        self._not_while_capturing()
        if nbytes > self.memory - sum(map(len, self.blocks.values())):
            raise Refused(2)
        raw = (ctypes.c_char * (nbytes + 512))()
        ctypes.memset(raw, FRESH, len(raw))
        address = -(-ctypes.addressof(raw) // 512) * 512
        block = (ctypes.c_char * nbytes).from_buffer(raw, address - ctypes.addressof(raw))
        self.blocks[address] = block
        _fill(out, address)

    def _cuMemFree_v2(self, address: int) -> None:
        if address not in self.blocks:
            raise Refused(1)
        self._run_all()
        block = self.blocks.pop(address)
        ctypes.memset(block, FREED, len(block))
        self.handles[-address] = block  # a late access reads rubbish, not what comes next

    def _cuMemHostAlloc(self, out: int, nbytes: int, flags: int) -> None:
        raw = ctypes.create_string_buffer(nbytes)
        self.handles[ctypes.addressof(raw)] = raw
        _fill(out, ctypes.addressof(raw))

    def _cuMemcpyAsync(self, to: int, source: int, nbytes: int, stream: int) -> None:
        if self._of(stream, Stream).capture is None and not self._is_device(source, nbytes):
            # What is not pinned is read before the call returns; a graph reads it when it runs.
            held = ctypes.create_string_buffer(ctypes.string_at(source, nbytes), nbytes)
            self._put(stream, "copy", lambda: _move(to, ctypes.addressof(held), nbytes))
            return
        self._put(stream, "copy", lambda: _move(to, source, nbytes))

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        if not self._is_device(to, nbytes) or self._is_device(source, 1):
            raise Refused(1)
        self._put(stream, "copy", lambda: _move(to, source, nbytes))

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, nbytes: int, stream: int) -> None:
        if not self._is_device(source, nbytes) or self._is_device(to, 1):
            raise Refused(1)
        self._put(stream, "copy", lambda: _move(to, source, nbytes))

    def _cuMemsetD8Async(self, to: int, value: int, nbytes: int, stream: int) -> None:
        if not self._is_device(to, nbytes):
            raise Refused(1)
        self._put(stream, "set", lambda: _set(to, value, nbytes))

    def _cuStreamCreate(self, out: int, flags: int) -> None:
        self._new(out, Stream())

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        self._run(self._of(stream, Stream))
        del self.handles[stream]

    def _cuStreamSynchronize(self, stream: int) -> None:
        found: Stream = self._of(stream, Stream)
        if found.capture is not None:
            found.invalid = True
            raise Refused(900)
        self._run(found)

    def _cuStreamQuery(self, stream: int) -> None:
        if self._of(stream, Stream).queue:
            raise Refused(600)

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        found: Event = self._of(event, Event)
        at, node = found.stream, found.node
        if at is not None:
            self._put(stream, "wait", lambda: self._run(at, node) if node in at.queue else None)

    def _cuStreamBeginCapture_v2(self, stream: int, mode: int) -> None:
        found: Stream = self._of(stream, Stream)
        if mode != 1 or found.capture is not None:
            raise Refused(1)
        found.capture, found.owner, found.invalid = [], threading.get_ident(), False

    def _cuStreamEndCapture(self, stream: int, out: int) -> None:
        found: Stream = self._of(stream, Stream)
        taken, found.capture = found.capture, None
        _fill(out, 0)
        if taken is None or found.owner != threading.get_ident():
            raise Refused(1)
        if found.invalid:
            raise Refused(901)
        self._new(out, Graph(taken))

    def _not_while_capturing(self) -> None:
        """What a thread that takes down a graph may not call."""
        for stream in self.handles.values():
            if isinstance(stream, Stream) and stream.capture is not None \
                    and stream.owner == threading.get_ident():
                stream.invalid = True
                raise Refused(900)

    def _cuEventCreate(self, out: int, flags: int) -> None:
        self._new(out, Event())

    def _cuEventDestroy_v2(self, event: int) -> None:
        self._of(event, Event)
        del self.handles[event]

    def _cuEventRecord(self, event: int, stream: int) -> None:
        found: Event = self._of(event, Event)
        found.stream, found.done = self._of(stream, Stream), None

        def reached() -> None:
            found.done = time.perf_counter() * 1e3

        self._put(stream, "event", reached)
        found.node = found.stream.queue[-1] if found.stream is not None else None

    def _cuEventQuery(self, event: int) -> None:
        found: Event = self._of(event, Event)
        if found.stream is not None and found.done is None:
            raise Refused(600)

    def _cuEventSynchronize(self, event: int) -> None:
        found: Event = self._of(event, Event)
        if found.stream is not None and found.done is None:
            self._run(found.stream, found.node)

    def _cuEventElapsedTime(self, out: int, start: int, end: int) -> None:
        first, last = self._of(start, Event).done, self._of(end, Event).done
        if first is None or last is None:
            raise Refused(600)
        _fill(out, last - first, ctypes.c_float)

    def _cuModuleLoadDataEx(self, out: int, image: int, count: int, keys: int,
                            values: int) -> None:
        text = ctypes.string_at(image)
        if text.startswith(b"\x7fELF\2") or b".entry cellc_kernel" in text:
            # From ptxas, or PTX from LLVM: it can be launched, and does nothing.
            said = {"name": REAL}
        elif text.startswith(b"\x7fELF"):
            said = json.loads(text[4:])
            major, minor = self.capability
            if said["sm"].rstrip("a") != f"sm_{major}{minor}" and (
                said["sm"].endswith("a") or said["sm"][3] != str(major)
            ):
                raise Refused(209)
        elif not text.startswith(b"// "):
            log = (ctypes.c_void_p * 2).from_address(values)
            ctypes.memmove(log[0] or 0, b"ptxas: line 1: what is that\0", 28)
            raise Refused(218)
        else:
            said = json.loads(text[3:])
        self._new(out, said["name"])

    def _cuModuleGetFunction(self, out: int, module: int, name: bytes) -> None:
        if name != b"cellc_kernel" and self._of(module, str) != REAL:
            raise Refused(500)
        self._new(out, Function(self._of(module, str)))

    def _cuModuleUnload(self, module: int) -> None:
        self._of(module, str)
        del self.handles[module]

    def _cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        if attribute != 8 or value > 227 << 10:
            raise Refused(1)
        self._of(function, Function).allowed = value

    def _cuFuncGetAttribute(self, out: int, attribute: int, function: int) -> None:
        raise Refused(801)

    def _cuLaunchKernel(self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int,
                        shared: int, stream: int, params: int, extra: int) -> None:
        found: Function = self._of(function, Function)
        if min(gx, gy, gz, bx, by, bz) < 1 or bx * by * bz > 1024 or shared > found.allowed:
            raise Refused(1)
        types, body = self.kernels.get(found.name) or ((), lambda _: None)
        pointers = (ctypes.c_void_p * max(len(types), 1)).from_address(params)
        given = [t.from_address(pointers[i] or 0).value for i, t in enumerate(types)]
        self.launches.append(Launch(found.name, (gx, gy, gz), (bx, by, bz), shared))

        def work() -> None:
            body(self, *given)
            self.done.append(found.name)

        self._put(stream, found.name, work)

    def _cuTensorMapEncodeTiled(self, out: int, dtype: int, rank: int, at: int, sizes: int,
                                strides: int, box: int, steps: int, *options: int) -> None:
        if not 1 <= rank <= 5 or at % 16 or out % 64:
            raise Refused(1)
        rows = (ctypes.c_uint64 * max(rank - 1, 1)).from_address(strides)
        boxes = (ctypes.c_uint32 * rank).from_address(box)
        if any(s % 16 for s in rows[: rank - 1]) or not all(0 < b <= 256 for b in boxes):
            raise Refused(1)
        ctypes.memset(out, 7, 128)

    def _cuGraphInstantiateWithFlags(self, out: int, graph: int, flags: int) -> None:
        self._new(out, GraphExec(list(self._of(graph, Graph).nodes)))

    def _cuGraphGetNodes(self, graph: int, nodes: int | None, count: int) -> None:
        _fill(count, len(self._of(graph, Graph).nodes), ctypes.c_size_t)

    def _cuGraphExecUpdate_v2(self, made: int, graph: int, told: int) -> None:
        found: GraphExec = self._of(made, GraphExec)
        nodes: list[Node] = self._of(graph, Graph).nodes
        same = [n.kind for n in nodes] == [n.kind for n in found.nodes]
        _fill(told, 0 if same else 2, ctypes.c_int)
        if not same:
            raise Refused(910)
        found.nodes = list(nodes)

    def _cuGraphLaunch(self, made: int, stream: int) -> None:
        for node in self._of(made, GraphExec).nodes:
            self._put(stream, node.kind, node.work)

    def _cuGraphDestroy(self, graph: int) -> None:
        self._of(graph, Graph)
        del self.handles[graph]

    def _cuGraphExecDestroy(self, made: int) -> None:
        self._of(made, GraphExec)
        del self.handles[made]


@dataclass(eq=False)
class Graph:
    """What was taken down."""

    nodes: list[Node]


@dataclass(eq=False)
class GraphExec:
    """A graph that can be launched."""

    nodes: list[Node]


def _fill(out: int, value: Any, kind: Any = ctypes.c_void_p) -> None:
    kind.from_address(out).value = value


def _move(to: int, source: int, nbytes: int) -> None:
    ctypes.memmove(to, source, nbytes)


def _set(to: int, value: int, nbytes: int) -> None:
    ctypes.memset(to, value, nbytes)


def cubin(name: str, architecture: str = "sm_90a") -> bytes:
    """Machine code of a kernel, as this driver has it."""
    return b"\x7fELF" + json.dumps({"name": name, "sm": architecture}).encode()


def ptx(name: str) -> bytes:
    """PTX of a kernel, as this driver has it."""
    return b"// " + json.dumps({"name": name}).encode()
