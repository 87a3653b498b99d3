"""Collectives on the memory and the stream of a GPU, by NCCL; messages are in `messages.py`.

A program asks for a collective by its callback, with the addresses of operand and result in the
GPU's memory and the stream. The callback puts a collective on the stream if it can, so that nobody
waits and a graph captures it, too; else it returns `BY_HOST`, and the program copies the operand to
the host and asks again.

NCCL moves bytes, and adds where the order is left open (`numerics="fast"`). Other sums are ops of
the program, between an exchange of slices and a gather (`cellc_compiler.passes.slices`), so their
order is that of the ranks as on a CPU. Before bytes go, the ranks of the group exchange their steps
through the world: one that does not come, or reaches another step, is named.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from .. import collectives
from ..abi import BY_HOST
from ..collectives import gathered_texts, in_order
from ..dtypes import DType
from ..loader import Host
from ..platform import gpu_driver_version
from ..program import Program
from ..world import CollectiveError, Step, World, world
from . import messages, nccl
from .queues import Given, Queue, Zero


class Called(Protocol):
    """The callback of a program that calls the host (`executable.py`).

    Attributes:
        function: what is called.
        types: dtype and shape of each of its arguments, and whether it is written.
        failed: raises an error after the program.
    """

    @property
    def function(self) -> Callable[..., None]:
        """See the class."""

    types: Sequence[tuple[DType, tuple[int, ...], bool]]
    failed: Callable[[BaseException], None]

    def __call__(self, buffers: int) -> int:
        """Do it, on the host's memory."""


class Engine:
    """The communicators of one rank, by group.

    Args:
        load: gives NCCL, when this rank reaches its first collective or message on a GPU:
            hundreds of megabytes that a process which computes elsewhere does without.
    """

    def __init__(self, load: Callable[[], nccl.Nccl]) -> None:
        self._load = load
        self._loaded: tuple[nccl.Nccl | None, str] | None = None
        self._comms: dict[tuple[int, ...], tuple[nccl.Nccl, int] | None] = {}
        self._messages = messages.Messages(self._own, self._library)
        # of the device whose programs exchange something; None before one is loaded
        self.queue: Queue | None = None

    def put(
        self, what: collectives.Called | collectives.Message, step: Step, given: Given, queue: Queue
    ) -> bool:
        """Put a collective or a message on a stream; whether it can be done here. Raises
        CollectiveError if the ranks disagree or NCCL cannot do it."""
        if isinstance(what, collectives.Message):
            return self._messages.put(what, step, given, queue)
        self._messages.check()
        if not _is_put(what):
            return False
        if step.group not in self._comms:
            self._comms[step.group] = self._met(step, queue)
        found = self._comms[step.group]
        if found is None:
            return False
        library, comm = found
        in_order(lambda: _agree(step), step.text)
        queue.use()
        doing = f"{step.text}{step.place}"
        library.check(comm, doing)
        _WORK[what.kind](_Work(library, comm, what, given, doing, queue.zero))
        return True

    def introduce(self, group: tuple[int, ...]) -> None:
        """Exchange the connection data of all ranks of a group, so that their first messages use
        NCCL. All ranks call this."""
        own = self._own(self.queue) if self.queue is not None else messages.Peer("", "")
        step = Step("what connects ranks", group)
        said = in_order(lambda: gathered_texts(step, f"{own.gpu}\n{own.version}"), step.text)
        for rank, text in zip(group, said, strict=True):
            self._messages.peers[rank] = messages.Peer(*text.split("\n"))

    def close(self) -> None:
        """This rank leaves: nothing of it runs any more."""
        try:
            self._messages.close()
        finally:
            for library, comm in filter(None, self._comms.values()):
                library.call("ncclCommAbort", comm)
            self._comms.clear()

    def _met(self, step: Step, queue: Queue) -> tuple[nccl.Nccl, int] | None:
        """The library and the communicator of a group, all of which reach their first collective;
        None: it goes by the host. The first of them says why."""
        first, (library, why) = world().rank == step.group[0], self._found()
        made = library.unique_id().hex() if first and library is not None else ""
        own = self._own(queue)
        told = "\n".join((made, own.gpu, own.version, why))
        said = [text.split("\n", 3) for text in
                in_order(lambda: gathered_texts(step, told), step.text)]
        for rank, (_, gpu, version, _) in zip(step.group, said, strict=True):
            self._messages.peers[rank] = messages.Peer(gpu, version)
        apart = _apart(step.group, said)
        if library is None or apart:
            if first:
                sys.stderr.write(f"cellc: {apart}: what they exchange goes through the host's "
                                 "memory\n")
            return None
        queue.use()
        return library, library.communicator(
            bytes.fromhex(said[0][0]), len(step.group), step.group.index(world().rank),
            f"{step.text}{step.place}")


    def _found(self) -> tuple[nccl.Nccl | None, str]:
        """The library, or why there is none."""
        if self._loaded is None:
            try:
                self._loaded = self._load(), ""
            except nccl.NoNccl as error:
                self._loaded = None, str(error)
        return self._loaded

    def _library(self) -> nccl.Nccl:
        library, why = self._found()
        if library is None:
            raise CollectiveError(why)
        return library

    def _own(self, queue: Queue) -> messages.Peer:
        """Return the data by which this rank connects."""
        library, _ = self._found()
        version = nccl.dotted(library.version) if library is not None else ""
        # (NCCL tells machines apart by this variable, too.)
        machine = os.environ.get("NCCL_HOSTID") or os.uname().nodename
        return messages.Peer(f"{machine} {queue.name}", version)


def _apart(group: tuple[int, ...], said: Sequence[Sequence[str]]) -> str:
    """Why NCCL does not connect ranks, from what each says: by what they meet, its GPU, its version
    of the library, and why there is none; "" if it does."""
    ranks = f"ranks {', '.join(map(str, group))}"
    for rank, (_, _, version, why) in zip(group, said, strict=True):
        if not version:
            return f"{ranks} are not connected by NCCL, for on rank {rank} {why}"
    versions = [version for _, _, version, _ in said]
    if len(set(versions)) > 1:
        return f"{ranks} have different versions of NCCL ({', '.join(versions)})"
    if len({gpu for _, gpu, _, _ in said}) < len(group):  # which NCCL does not do
        return (f"{ranks} do not have a GPU each (set_device('GPU') takes that of a process's "
                "number on its machine)")
    return ""


def _is_put(what: collectives.Called) -> bool:
    """Whether NCCL can do it: it moves bytes of other ranks, and parts are rows, one after the
    other in memory."""
    axes: list[int] = [what.attrs.get(name, 0) for name in ("split_axis", "concat_axis")]
    return what.kind in _WORK and len(what.group) > 1 and axes == [0, 0]


def _agree(step: Step) -> None:
    out = [np.empty(1, np.uint8) for _ in step.group]
    world().all_gather(step, np.zeros(1, np.uint8), out)


# --- what is put on the stream --------------------------------------------------------------------


class _Work:
    """One collective: what it is, where, and on which communicator."""

    def __init__(
        self, library: nccl.Nccl, comm: int, what: collectives.Called, given: Given, doing: str,
        zero: Zero,
    ) -> None:
        self.group, self.attrs, self.given = what.group, what.attrs, given
        self.here, self.count = what.group.index(world().rank), len(what.group)
        self.root = what.group.index(what.attrs["root"]) if "root" in what.attrs else 0
        self._library, self._comm, self._doing, self.zero = library, comm, doing, zero

    def call(self, name: str, *arguments: Any) -> None:
        """A function of NCCL; the communicator and the stream are its last arguments."""
        self._library.call(name, *arguments, self._comm, self.given.stream, doing=self._doing,
                           comm=self._comm)

    def add(self, name: str, nbytes: int) -> None:
        """Add a reduction that the library makes, in its order, of the given number of bytes."""
        dtype = self.given.dtype
        self.call(name, self.given.x, self.given.out, nbytes // dtype.itemsize,
                  nccl.TYPES[dtype.name], nccl.REDUCTIONS[self.attrs["reduction"]])

    def exchange(self, sent: Sequence[int], received: Sequence[int]) -> None:
        """So many bytes of the operand to each rank, and of each to the result, one after the
        other, all at the same time."""
        self._library.call("ncclGroupStart", doing=self._doing)
        try:
            for name, start, sizes in (("ncclSend", self.given.x, sent),
                                       ("ncclRecv", self.given.out, received)):
                for peer, size in enumerate(sizes):
                    if size:
                        self.call(name, start, size, nccl.UINT8, peer)
                    start += size
        finally:
            self._library.call("ncclGroupEnd", doing=self._doing, comm=self._comm)


def _all_gather(w: _Work) -> None:
    w.call("ncclAllGather", w.given.x, w.given.out, w.given.x_bytes, nccl.UINT8)


def _broadcast_from(w: _Work) -> None:
    w.call("ncclBroadcast", w.given.x, w.given.out, w.given.x_bytes, nccl.UINT8, w.root)


def _gather_to(w: _Work) -> None:
    if w.here != w.root:
        w.zero(w.given.out, w.given.out_bytes, w.given.stream)
    w.exchange([w.given.x_bytes if i == w.root else 0 for i in range(w.count)],
               [w.given.x_bytes if w.here == w.root else 0] * w.count)


def _scatter_from(w: _Work) -> None:
    w.exchange([w.given.out_bytes if w.here == w.root else 0] * w.count,
               [w.given.out_bytes if i == w.root else 0 for i in range(w.count)])


def _all_to_all(w: _Work) -> None:
    size = w.given.x_bytes // w.count
    w.exchange([size] * w.count, [size] * w.count)


def _all_to_all_v(w: _Work) -> None:
    send, receive = w.attrs["send_sizes"], w.attrs["receive_sizes"]
    row = w.given.x_bytes // sum(send) if sum(send) else \
        w.given.out_bytes // max(sum(receive), 1)
    w.exchange([n * row for n in send], [n * row for n in receive])


def _all_reduce(w: _Work) -> None:
    w.add("ncclAllReduce", w.given.x_bytes)


def _reduce_scatter(w: _Work) -> None:
    w.add("ncclReduceScatter", w.given.out_bytes)


_WORK: Mapping[str, Callable[[_Work], None]] = {
    "any_order_all_reduce": _all_reduce, "any_order_reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather, "broadcast_from": _broadcast_from, "gather_to": _gather_to,
    "scatter_from": _scatter_from, "all_to_all": _all_to_all, "all_to_all_v": _all_to_all_v,
}
"""By the names of the ops. Sums in the order of the ranks are made of these."""


# --- who uses it ----------------------------------------------------------------------------------

_engines: WeakKeyDictionary[World, Engine] = WeakKeyDictionary()
"""By world: that of the process, or of a thread that plays a rank."""


def engine() -> Engine | None:
    """That of this thread's world; None where collectives go by the host."""
    return _engines.get(world())


def use(load: Callable[[], nccl.Nccl]) -> Engine:
    """From now on this rank's collectives on GPUs go by a library. All ranks do this together."""
    made = _engines[world()] = Engine(load)
    return made


def connect() -> str:
    """Decide, with all other ranks, whether collectives on GPUs are to go by NCCL: if all have a
    driver of NVIDIA's. (Called when ranks have met; nothing is loaded.)

    Returns:
        Why they are not, for people; "" if they are, or no rank has a GPU.
    """
    path = nccl.found()
    own = _NO_GPU if not gpu_driver_version() else "" if path else "CELLC_NCCL=none"
    step = Step("whether NCCL is there", tuple(range(world().size)))
    said: list[str] = in_order(lambda: gathered_texts(step, own), step.text)
    if all(text == _NO_GPU for text in said):
        return ""
    if any(said):
        return next(f"rank {rank}: {text}" for rank, text in enumerate(said) if text)
    use(lambda: nccl.load(path))
    return ""


_NO_GPU = "there is no GPU"


def disconnect() -> None:
    """This rank leaves its world."""
    made = _engines.pop(world(), None)
    if made is not None:
        made.close()


def introduce(group: tuple[int, ...]) -> None:
    """All ranks of a group call this before they send each other messages; see
    `Engine.introduce`."""
    found = engine()
    if found is not None:
        found.introduce(group)


def on_stream(program: Program, hosts: Sequence[Host], queue: Queue) -> list[Host]:
    """A program's callbacks for a device whose mains ask for collectives on their stream."""
    found = engine()
    if found is not None and any(collectives.asks(c.name) for c in program.callbacks):
        found.queue = queue
    return [_Asked(host, queue) if collectives.asks(callback.name) else host
            for host, callback in zip(hosts, program.callbacks, strict=True)]


def group_of(hosts: Sequence[Host]) -> tuple[int, ...]:
    """The ranks that a program exchanges with, if all that it calls can be put on its stream and is
    of one group; else none."""
    asked = [h.what for h in hosts if isinstance(h, _Asked) and
             isinstance(h.what, collectives.Called)]
    groups = {what.group for what in asked if _is_put(what)}
    return groups.pop() if len(groups) == 1 and len(asked) == len(hosts) and \
        all(map(_is_put, asked)) else ()


def votes(text: str, group: tuple[int, ...], own: tuple[int, bool]) -> list[tuple[int, bool]]:
    """Return the votes of the ranks of a group: a number, and yes or no."""
    step, sent = Step(text, group), np.array([own[0], own[1]], np.int64)
    parts = [np.empty_like(sent) for _ in group]
    in_order(lambda: world().all_gather(step, sent.view(np.uint8),
                                        [p.view(np.uint8) for p in parts]), text)
    return [(int(number), bool(yes)) for number, yes in parts]


class _Asked:
    """The callback of a collective, as `cellc_main` of a GPU calls it.

    Behind the pointers of operand and result is the stream, and they are the GPU's; or null, and
    they are the host's.
    """

    def __init__(self, host: Any, queue: Queue) -> None:
        self._host: Called = host
        self._queue = queue
        self.what = self._host.function

    def __call__(self, buffers: int) -> int:
        types = self._host.types
        pointers = (ctypes.c_void_p * (len(types) + 1)).from_address(buffers)
        stream, found, what = pointers[len(types)], engine(), self.what
        if stream is None:
            return self._host(buffers)
        if found is None or not isinstance(what, collectives.Called | collectives.Message):
            return BY_HOST
        dtype, shape, _ = types[0]
        places = {written: (pointer or 0, own.itemsize * math.prod(dims))
                  for pointer, (own, dims, written) in zip(pointers, types, strict=False)}
        x, out = (places.get(written, (0, 0)) for written in (False, True))
        given = Given(*x, *out, stream, dtype)
        try:
            step = what.step(np.broadcast_to(np.zeros((), dtype.numpy), shape))
            return 0 if found.put(what, step, given, self._queue) else BY_HOST
        except BaseException as error:  # it crosses native code, and is raised after it
            self._host.failed(error)
            return 1
