"""Messages between GPUs by NCCL, with the meaning of MPI's: a send does not wait, and tags tell
messages apart.

NCCL has no tags, and what it sends waits until it is received. So for each rank that one sends to
there is a communicator of the two, and a thread that sends, on a stream of its own, what the
program has put aside for that: a copy in the GPU's memory, made in the order of the program's
stream. Nobody but this thread waits for the other side, also where NCCL makes the connection.

Before a message goes, its *envelope* goes through the world: tag, type, and how the bytes come. A
receive waits for the envelope of its tag, so a missing message, or one of another type, raises the
same error as on CPUs. NCCL has the bytes in the order of the envelopes: what comes before those
that are wanted is received, too, into memory of its own, where a later receive finds it.

*No deadlock*: a send waits for nothing. A receive waits on the host for an envelope, which was sent
when the program of the other side reached its send, and then on the GPU for bytes, which that side
sends when its stream reaches that place. So all that waits waits for an earlier place of another
rank's program, as with messages by the host.

Two ranks must have the same NCCL and a GPU each. A rank knows that of another one from a collective
of theirs, from what ranks tell each other when a pipeline begins, or from an envelope that has come
from it; until then the bytes go by the host's memory, and the envelope says so.
"""

from __future__ import annotations

import atexit
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

import numpy as np

from .. import knobs
from ..channel import Channel
from ..collectives import Message, in_order, other_rank
from ..device import Event, Memory
from ..records import dataclass
from ..world import CollectiveError, Step, world
from . import nccl
from .queues import Given, Lane, Queue

TAG = 32766
"""The tag of envelopes, which no message may have (the highest that any MPI must know is one
more)."""
_LOOK, _UNDER_WAY = 0.1, 2.0
"""Seconds between looks at who has left, and for what is under way when the other side does."""
_ENVELOPE = np.dtype([
    ("tag", np.int64), ("nbytes", np.int64), ("by_nccl", np.bool_), ("what", "S128"),
    ("place", "S384"), ("machine", "S256"), ("version", "S16"), ("id", f"S{nccl.ID_BYTES}")])


@dataclass(frozen=True, slots=True)
class Peer:
    """The data by which a rank connects with NCCL."""

    gpu: str  # its machine, and which GPU there
    version: str  # of its NCCL, as text; "" if it has none

    def reaches(self, other: Peer | None) -> bool:
        """Whether NCCL connects the two."""
        return other is not None and bool(self.version) and self.version == other.version \
            and self.gpu != other.gpu


@dataclass(frozen=True, slots=True)
class _Envelope:
    """See the module."""

    tag: int
    nbytes: int
    by_nccl: bool
    what: str  # type and shape
    place: str  # in the sender's code
    sender: Peer  # whose it is
    made: bytes  # by what the two meet, in the first that goes by NCCL

    def packed(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """As bytes."""
        texts = (t.encode() for t in (self.what, self.place, self.sender.gpu, self.sender.version))
        out = np.array([(self.tag, self.nbytes, self.by_nccl, *texts, self.made)], _ENVELOPE)
        return out.view(np.uint8)


def _unpacked(data: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> _Envelope:
    tag, nbytes, by_nccl, *texts, made = data.view(_ENVELOPE)[0].tolist()
    what, place, gpu, version = (text.decode(errors="replace") for text in texts)
    return _Envelope(tag, nbytes, by_nccl, what, place, Peer(gpu, version),
                     made.ljust(nccl.ID_BYTES, b"\0"))


class Messages:
    """The messages of one rank.

    Args:
        own: what connects this rank, given its GPU.
        library: NCCL; called where `own` says that there is one.

    Attributes:
        peers: what connects the others, as far as that is known.
    """

    def __init__(self, own: Callable[[Queue], Peer], library: Callable[[], nccl.Nccl]) -> None:
        self.peers: dict[int, Peer] = {}
        self._own, self._library = own, library
        self._to: dict[int, _Outgoing] = {}
        self._from: dict[int, _Incoming] = {}

    def put(self, what: Message, step: Step, given: Given, queue: Queue) -> bool:
        """Send or receive. True if this thread did it, not the host. Raises CollectiveError if
        there is no such rank, the message of the other side has another type or does not arrive, or
        NCCL cannot transfer it."""
        other_rank(step, what.rank)
        if what.tag == TAG:
            raise CollectiveError(f"{step.text}{step.place}: the tag {TAG} is cellc's own")
        for outgoing in self._to.values():
            outgoing.free()
        self.check()
        if what.kind == "send_to":
            return self._send(what, step, given, queue)
        return self._receive(what, step, given, queue)

    def check(self) -> None:
        """See that nothing that was sent has failed. Raises CollectiveError if something has."""
        for outgoing in self._to.values():
            outgoing.check()

    def _send(self, what: Message, step: Step, given: Given, queue: Queue) -> bool:
        own = self._own(queue)
        goes = bool(given.x_bytes) and own.reaches(self.peers.get(what.rank))
        made, doing = b"", f"{step.text}{step.place}"
        if goes and what.rank not in self._to:
            made = self._library().unique_id()
            self._to[what.rank] = _Outgoing(what.rank, self._library(), made, queue)
            _flush_at_exit(self)
        copy = _copied(given, queue) if goes else None
        envelope = _Envelope(what.tag, given.x_bytes, goes, _type(step), step.place, own, made)
        mark = queue.mark() if copy is not None else None

        def send() -> None:
            world().send(step, what.rank, TAG, envelope.packed())
            if copy is not None:
                self._to[what.rank].send(copy, given.x_bytes, mark, doing)

        in_order(send, doing)
        return goes

    def _receive(self, what: Message, step: Step, given: Given, queue: Queue) -> bool:
        self._own(queue)
        incoming = self._from.setdefault(what.rank, _Incoming(what.rank))
        early = incoming.taken(what.tag)
        if early is not None:
            envelope, memory = early
        else:
            envelope, memory = self._awaited(what, step, given, queue, incoming), None
        if (envelope.what, envelope.nbytes) != (_type(step)[:128], given.out_bytes):
            raise CollectiveError(
                f"collective mismatch: rank {what.rank} at send_to of {envelope.what}"
                f"{envelope.place}; rank {world().rank} at {step.text}{step.place}, both with the "
                f"tag {what.tag}. The receiver must expect the type and shape that is sent")
        if not envelope.by_nccl:
            return False
        if memory is not None:
            queue.move(given.out, memory.address, given.out_bytes)
        else:
            incoming.receive(given.out, given.out_bytes, given.stream, f"{step.text}{step.place}")
        return True

    def _awaited(
        self, what: Message, step: Step, given: Given, queue: Queue, incoming: _Incoming
    ) -> _Envelope:
        """The envelope of a tag, which comes now; what comes before it is put aside."""
        doing = f"{step.text}{step.place}"
        wanted = Step(f"{step.text} with the tag {what.tag}", step.group, step.place)
        while True:
            try:
                envelope: _Envelope = in_order(lambda: _next(wanted, what.rank), doing)
            except CollectiveError as error:
                raise incoming.unexpected(what.tag, error) from None
            self.peers[what.rank] = envelope.sender
            if envelope.by_nccl:
                queue.use()
                incoming.meet(self._library, envelope, doing)
            if envelope.tag == what.tag:
                return envelope
            memory = None
            if envelope.by_nccl:
                memory = queue.room(envelope.nbytes)
                incoming.receive(memory.address, envelope.nbytes, given.stream, doing)
            incoming.early.append((envelope, memory))

    def flush(self) -> None:
        """Wait until what was sent is received: while the others are there, and at most as long as
        for a collective."""
        end = time.monotonic() + knobs.read().collective_timeout
        for peer, outgoing in self._to.items():
            while not outgoing.channel.finish(_LOOK):
                left = world().has_left(peer)
                if time.monotonic() > end or (left and not outgoing.channel.finish(_UNDER_WAY)):
                    sys.stderr.write(f"cellc: rank {peer} has {'ended and ' * left}not received "
                                     f"all that rank {world().rank} has sent to it\n")
                    break

    def close(self) -> None:
        """This rank leaves. Raises CollectiveError if a message that was sent has failed without an
        error."""
        self.flush()
        _open.discard(self)
        outgoing, incoming = list(self._to.values()), list(self._from.values())
        self._to.clear()
        self._from.clear()
        for sent in outgoing:
            sent.close()
        for received in incoming:
            received.close()
        for sent in outgoing:
            sent.check(again=False)


class _Outgoing:
    """Messages from this rank to another one.

    Args:
        peer: that rank.
        made: by what the two meet.
    """

    def __init__(self, peer: int, library: nccl.Nccl, made: bytes, queue: Queue) -> None:
        # the thread that sends
        self.channel = Channel(f"messages of rank {world().rank} to rank {peer}")
        self._library, self._made, self._queue = library, made, queue
        self._comm = 0
        self._lane: Lane | None = None
        self._sent: deque[Memory] = deque()
        self._told = False

    def send(self, copy: Memory, nbytes: int, mark: Event | None, doing: str) -> None:
        """Send a copy that is complete once an event is reached."""
        self.channel.start(lambda: self._send(copy, nbytes, mark, doing), doing)

    def _send(self, copy: Memory, nbytes: int, mark: Event | None, doing: str) -> None:
        self._queue.use()
        if self._lane is None:
            self._lane = self._queue.lane()
            self._comm = self._library.communicator(self._made, 2, 0, doing)
        self._library.check(self._comm, doing)
        self._lane.follow(mark)
        with _grouped(self._library, self._comm, doing):
            self._library.call("ncclSend", copy.address, nbytes, nccl.UINT8, 1, self._comm,
                               self._lane.handle, doing=doing, comm=self._comm)
        self._lane.finish()
        self._sent.append(copy)

    def free(self) -> None:
        """Give back the memory of what has been sent. (On the program's thread, which a device
        without threads of its own may be at work on.)"""
        while self._sent:
            self._sent.popleft()

    def check(self, again: bool = True) -> None:
        """See `Messages.check`; an error that was raised before is raised `again`."""
        if self.channel.failed is not None and (again or not self._told):
            self._told = True
            raise self.channel.failed

    def close(self) -> None:
        """It ends; a thread that waits for the other side ends with the process."""
        if self.channel.finish(0):
            self.channel.close()
            if self._comm:
                self._library.call("ncclCommAbort", self._comm)


class _Incoming:
    """Messages from another rank to this one."""

    def __init__(self, peer: int) -> None:
        # what has come and no receive has asked for: envelopes, and the bytes that came by NCCL
        self.early: deque[tuple[_Envelope, Memory | None]] = deque()
        self._peer, self._comm = peer, 0
        self._library: nccl.Nccl | None = None

    def taken(self, tag: int) -> tuple[_Envelope, Memory | None] | None:
        """The first of these with a tag."""
        found = next((e for e in self.early if e[0].tag == tag), None)
        if found is not None:
            self.early.remove(found)
        return found

    def meet(self, library: Callable[[], nccl.Nccl], envelope: _Envelope, doing: str) -> None:
        """Meet the other side, the first time."""
        if self._library is None:
            found = library()
            self._comm = found.communicator(envelope.made, 2, 1, doing)
            self._library = found
        self._library.check(self._comm, doing)

    def receive(self, address: int, nbytes: int, stream: int, doing: str) -> None:
        """Put the next bytes on a stream."""
        assert self._library is not None
        with _grouped(self._library, self._comm, doing):
            self._library.call("ncclRecv", address, nbytes, nccl.UINT8, 0, self._comm, stream,
                               doing=doing, comm=self._comm)

    def unexpected(self, tag: int, error: CollectiveError) -> CollectiveError:
        """Return the error for a tag without a message: it names the tags that have come."""
        if not self.early:
            return error
        said = "; ".join(f"{e.what} with the tag {e.tag}{e.place}" for e, _ in self.early)
        return CollectiveError(
            f"collective mismatch: rank {world().rank} waits for a message of rank {self._peer} "
            f"with the tag {tag}, but nobody has received what that one has sent: {said}. {error}")

    def close(self) -> None:
        """It ends."""
        if self._library is not None:
            self._library.call("ncclCommAbort", self._comm)


_open: WeakSet[Messages] = WeakSet()


def _flush_at_exit(messages: Messages) -> None:
    """A process that ends has sent what it has said it sends. (What was registered before, MPI's
    end, comes after that.)"""
    atexit.unregister(_flush_all)
    atexit.register(_flush_all)
    _open.add(messages)


def _flush_all() -> None:
    for messages in list(_open):
        messages.flush()
        try:
            messages.check()
        except CollectiveError as error:  # the other side would wait for ever
            sys.stderr.write(f"{error}\n")
            world().abort()


def _type(step: Step) -> str:
    """Return the type and shape of a step's message."""
    return step.text.partition(" of ")[2]


def _next(step: Step, source: int) -> _Envelope:
    data = np.empty(_ENVELOPE.itemsize, np.uint8)
    world().receive(step, source, TAG, data)
    return _unpacked(data)


def _copied(given: Given, queue: Queue) -> Memory:
    copy = queue.room(given.x_bytes)
    queue.move(copy.address, given.x, given.x_bytes)
    return copy


@contextmanager
def _grouped(library: nccl.Nccl, comm: int, doing: str) -> Iterator[None]:
    library.call("ncclGroupStart", doing=doing)
    try:
        yield
    finally:
        library.call("ncclGroupEnd", doing=doing, comm=comm)
