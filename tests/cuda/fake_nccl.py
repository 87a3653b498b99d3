"""A stand-in for libnccl: its functions over memory of the host, between threads or processes.

What ranks send each other are files of one folder. With a stand-in for the driver
(`fake_driver.FakeDriver`) the work is put on that one's streams, so it is late, in order, and taken
down by graphs; without one it is done at once, as the emulator does everything.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.cuda.nccl import ID_BYTES, SIGNATURES, TEXTS, UniqueId

from .fake_driver import FakeDriver
from .fake_library import FakeLibrary, Refused

NUMBERS = {2: np.dtype("i4"), 6: np.dtype("f2"), 7: np.dtype("f4"), 8: np.dtype("f8")}
"""Some types that are added up, by NCCL's numbers."""
PATIENCE = 60.0
"""Seconds that a rank waits for another one."""
TEXT = {1: b"unhandled cuda error", 2: b"unhandled system error", 4: b"invalid argument",
        5: b"invalid usage", 6: b"remote process exited or there was a network error"}


Pause = Callable[[float], None]
"""Waits so many seconds."""


def _wait(done: Callable[[], bool], pause: Pause) -> None:
    start = time.monotonic()
    while not done():
        if time.monotonic() - start > PATIENCE:
            raise Refused(6)
        pause(1e-4)


@dataclass(eq=False)
class Comm:
    """A communicator of one rank: its folder, and how many files have gone to and come from each
    of the others."""

    folder: Path
    size: int
    place: int
    sent: dict[int, int] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)

    def send(self, peer: int, data: bytes) -> Path:
        """Put it where the other finds it, and takes it away."""
        number = self.sent[peer] = self.sent.get(peer, 0) + 1
        name = self.folder / f"{self.place}-{peer}-{number}"
        part = name.with_suffix(".part")
        part.write_bytes(data)
        part.rename(name)
        return name

    def receive(self, peer: int, pause: Pause = time.sleep) -> bytes:
        number = self.received[peer] = self.received.get(peer, 0) + 1
        name = self.folder / f"{peer}-{self.place}-{number}"
        _wait(name.exists, pause)
        data = name.read_bytes()
        name.unlink()
        return data


@dataclass
class Group:
    """What a thread has asked for since `ncclGroupStart`."""

    depth: int = 0
    stream: int = 0
    comm: Comm | None = None
    sends: list[tuple[int, int, int]] = field(default_factory=list)
    receives: list[tuple[int, int, int]] = field(default_factory=list)


class FakeNccl(FakeLibrary):
    """The library, as one rank has it.

    Args:
        folder: the same for all ranks.
        driver: whose streams the work is put on; None: it is done at once.

    Attributes:
        version: what it says of itself.
        log: the functions called, with what of their arguments is no address.
        asynchronous: what went wrong later.
    """

    def __init__(self, folder: Path, driver: FakeDriver | None = None) -> None:
        self.folder, self.driver = folder, driver
        self.version, self.asynchronous = 23203, 0
        self.log: list[tuple[Any, ...]] = []
        self.comms: dict[int, Comm] = {}
        self._numbers = itertools.count(0x100, 16)
        self._groups: dict[int, Group] = {}
        super().__init__(SIGNATURES)
        self._texts = {code: ctypes.create_string_buffer(text) for code, text in TEXT.items()}
        self._last = ctypes.create_string_buffer(b"as the test wanted it")
        address = {"ncclGetErrorString": lambda code: ctypes.addressof(self._texts[code]),
                   "ncclGetLastError": lambda comm: ctypes.addressof(self._last)}
        for name, types in TEXTS.items():  # (a callback returns no text, but its address)
            self._functions[name] = _Text(ctypes.CFUNCTYPE(ctypes.c_void_p, *types)(address[name]))

    def _group(self) -> Group:
        return self._groups.setdefault(threading.get_ident(), Group())

    def _of(self, comm: int | None) -> Comm:
        if comm not in self.comms:
            raise Refused(4)
        return self.comms[comm]

    # --- the functions ------------------------------------------------------------------------

    def _ncclGetVersion(self, out: int) -> None:
        ctypes.c_int.from_address(out).value = self.version

    def _ncclGetUniqueId(self, out: int) -> None:
        ctypes.memmove(out, uuid.uuid4().hex.encode().ljust(ID_BYTES, b"\0"), ID_BYTES)

    def _ncclCommInitRank(self, out: int, size: int, made: UniqueId, place: int) -> None:
        folder = self.folder / made.internal.decode()
        folder.mkdir(exist_ok=True)
        comm, handle = Comm(folder, size, place), next(self._numbers)
        for peer in range(size):
            comm.send(peer, b"here")
        for peer in range(size):
            comm.receive(peer)
        self.comms[handle] = comm
        self.log.append(("ncclCommInitRank", size, place))
        ctypes.c_void_p.from_address(out).value = handle

    def _ncclCommAbort(self, comm: int) -> None:
        self._of(comm)
        del self.comms[comm]

    def _ncclCommGetAsyncError(self, comm: int, out: int) -> None:
        self._of(comm)
        ctypes.c_int.from_address(out).value = self.asynchronous

    def _ncclGroupStart(self) -> None:
        self._group().depth += 1

    def _ncclGroupEnd(self) -> None:
        group = self._group()
        if not group.depth:
            raise Refused(5)
        group.depth -= 1
        if group.depth:
            return
        del self._groups[threading.get_ident()]
        if group.comm is not None:
            self._put(group.stream, lambda: self._exchange(group))

    def _ncclSend(self, x: int, n: int, kind: int, peer: int, comm: int, stream: int) -> None:
        self._message("ncclSend", x, n, kind, peer, comm, stream)

    def _ncclRecv(self, x: int, n: int, kind: int, peer: int, comm: int, stream: int) -> None:
        self._message("ncclRecv", x, n, kind, peer, comm, stream)

    def _message(
        self, name: str, x: int, n: int, kind: int, peer: int, comm: int, stream: int
    ) -> None:
        group, of = self._group(), self._of(comm)
        self.log.append((name, n, peer))
        if kind != 1 or not 0 <= peer < of.size or not group.depth or group.comm not in (None, of):
            raise Refused(4)  # (one alone waits for the other side, which may wait for this one)
        group.comm, group.stream = of, stream
        (group.sends if name == "ncclSend" else group.receives).append((peer, x, n))

    def _ncclAllGather(
        self, x: int, out: int, n: int, kind: int, comm: int, stream: int
    ) -> None:
        of = self._of(comm)
        self.log.append(("ncclAllGather", n))
        self._put(stream, lambda: self._exchange(Group(
            comm=of, sends=[(peer, x, n) for peer in range(of.size)],
            receives=[(peer, out + peer * n, n) for peer in range(of.size)])))

    def _ncclBroadcast(
        self, x: int, out: int, n: int, kind: int, root: int, comm: int, stream: int
    ) -> None:
        of = self._of(comm)
        self.log.append(("ncclBroadcast", n, root))
        self._put(stream, lambda: self._exchange(Group(
            comm=of, receives=[(root, out, n)],
            sends=[(peer, x, n) for peer in range(of.size) if of.place == root])))

    def _ncclAllReduce(
        self, x: int, out: int, n: int, kind: int, how: int, comm: int, stream: int
    ) -> None:
        of = self._of(comm)
        self.log.append(("ncclAllReduce", n, kind, how))
        self._put(stream, lambda: self._reduce(of, [x] * of.size, out, n, (kind, how)))

    def _ncclReduceScatter(
        self, x: int, out: int, n: int, kind: int, how: int, comm: int, stream: int
    ) -> None:
        of, step = self._of(comm), n * NUMBERS[kind].itemsize
        self.log.append(("ncclReduceScatter", n, kind, how))
        self._put(stream, lambda: self._reduce(
            of, [x + peer * step for peer in range(of.size)], out, n, (kind, how)))

    # --- the work -------------------------------------------------------------------------------

    def _put(self, stream: int, work: Callable[[], None]) -> None:
        if self.driver is None:
            work()
        else:
            self.driver._put(stream, "nccl", work)

    def _pause(self, seconds: float) -> None:
        """Let other threads go on meanwhile, as a GPU's other streams do."""
        if self.driver is None:
            time.sleep(seconds)
        else:
            self.driver.changed.wait(seconds)

    def _exchange(self, group: Group) -> None:
        """All at the same time; it is done when what was sent is received, too."""
        assert group.comm is not None
        sent = []
        for peer, at, n in group.sends:
            self._inside(at, n)
            sent.append(group.comm.send(peer, ctypes.string_at(at, n)))
        for peer, at, n in group.receives:
            self._inside(at, n)
            data = group.comm.receive(peer, self._pause)
            if len(data) != n:
                raise Refused(5)
            ctypes.memmove(at, data, n)
        for name in sent:
            _wait(lambda name=name: not name.exists(), self._pause)

    def _reduce(
        self, comm: Comm, parts: list[int], out: int, n: int, kind: tuple[int, int]
    ) -> None:
        """From the last rank on: an order that is not that of the ranks."""
        dtype, add = NUMBERS[kind[0]], (np.add, np.multiply)[kind[1]]
        for peer, at in enumerate(parts):
            self._inside(at, n * dtype.itemsize)
            comm.send(peer, ctypes.string_at(at, n * dtype.itemsize))
        came = [np.frombuffer(comm.receive(peer), dtype) for peer in range(comm.size)]
        self._inside(out, n * dtype.itemsize)
        ctypes.memmove(out, functools.reduce(add, came[::-1]).tobytes(), n * dtype.itemsize)

    def _inside(self, at: int, n: int) -> None:
        if self.driver is not None:
            self.driver._inside(at, n)


class _Text:
    """A function that returns a text."""

    def __init__(self, function: Callable[[Any], int]) -> None:
        self._function = function
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, argument: Any) -> bytes:
        return ctypes.string_at(self._function(argument))


def of_environment() -> FakeNccl:
    """That of a process that others share `FAKE_NCCL`, a folder, with."""
    return FakeNccl(Path(os.environ["FAKE_NCCL"]))
