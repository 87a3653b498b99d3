"""The ranks of MPI, by mpi4py (extra `cellc[mpi]`).

One thread (`channel.py`) does all that is done with MPI, so that a rank can compute meanwhile. Its
waits poll, so that a rank that does not come can be named (`liveness.py`): often while somebody
waits for the result, seldom while the rank computes, whose processor it may share. Before the bytes
of a step go, its group agrees about it.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import knobs, platform
from .channel import Channel
from .liveness import LEAST_LIMIT, Liveness
from .world import Bytes, CollectiveError, Read, Step, disagreement

_TEXT = 192
"""Bytes by which ranks tell each other what step they are at."""
_ADDRESSES = 2
"""Buffers that others may read in a step."""
_HEADER = np.dtype([("text", f"S{_TEXT}"), ("addresses", np.int64, _ADDRESSES)])
_SPIN = 2e-4
"""Seconds of waiting before a rank lets others use its processor."""
_EAGER, _OFTEN, _SELDOM = 5e-5, 2e-4, 1e-3
"""Seconds between two looks: while somebody waits; and while this rank computes and bytes are on
their way, or others have not come."""
_HEADERS_TAG = 1 << 14
_NOTICE = 8.0
"""Seconds of waiting after which a rank says so, and says it again after twice as long."""


class MpiWorld:
    """See `cellc_runtime.world.World`.

    Attributes:
        waiting: the step that this rank waits in; "" if it does not.
    """

    waiting = ""
    _notice = _NOTICE

    def __init__(self) -> None:
        from mpi4py import MPI  # an extra: it loads a library of hundreds of kilobytes

        if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
            raise RuntimeError(
                "this MPI lets no thread but the main one communicate (its thread level is "
                f"{MPI.Query_thread()}); cellc needs MPI_THREAD_SERIALIZED or "
                "MPI_THREAD_MULTIPLE: leave mpi4py.rc.thread_level as it is at first")
        self._mpi = MPI
        self._world = MPI.COMM_WORLD
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        near = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        processes: dict[int, int] = dict(near.allgather((self.rank, os.getpid())))
        self.near: tuple[int, ...] = tuple(sorted(processes))
        self._processes = processes
        self._readable = _all_read(near, processes)
        near.Free()
        self._alive = Liveness(MPI, self._world.Dup(), processes)
        self.groups: dict[str, tuple[int, ...]] = {}
        self._comms: dict[tuple[int, ...], Any] = {}
        self._sent: list[tuple[Any, Bytes]] = []
        self.channel: Channel | None = Channel(f"collectives of rank {self.rank}",
                                               self._alive.attend)
        atexit.register(self.close)  # MPI ends behind Python, and nobody may use it then

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        """See `World.all_to_all`."""
        comm = self._agreed(step)
        sent, received = _as_one(parts), _as_one(out)
        if sent is None:
            sent = np.concatenate(parts)
        direct = received is not None
        if received is None:
            received = np.empty(sum(_sizes(out)), np.uint8)
        self._finish(step, comm.Ialltoallv(
            [sent, _sizes(parts), self._mpi.BYTE], [received, _sizes(out), self._mpi.BYTE]))
        if not direct:
            _spread(received, out)

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        """See `World.all_gather`."""
        comm = self._agreed(step)
        received = _as_one(out)
        direct = received is not None
        if received is None:
            received = np.empty(sum(_sizes(out)), np.uint8)
        self._finish(step, comm.Iallgatherv(
            [own, self._mpi.BYTE], [received, _sizes(out), self._mpi.BYTE]))
        if not direct:
            _spread(received, out)

    def broadcast(self, step: Step, root: int, buffer: Bytes) -> None:
        """See `World.broadcast`."""
        comm = self._agreed(step)
        self._finish(step, comm.Ibcast([buffer, self._mpi.BYTE], step.group.index(root)))

    def readers(self, step: Step, own: Sequence[Bytes]) -> Sequence[Read] | None:
        """See `World.readers`."""
        if not (self._readable and set(step.group) <= set(self.near)):
            return None
        places = self._told(step, [b.ctypes.data for b in own])

        def reader(rank: int, addresses: Sequence[int]) -> Read:
            def read(which: int, start: int, out: Bytes) -> None:
                try:
                    platform.read_memory(self._processes[rank], addresses[which] + start, out)
                except OSError as error:
                    raise CollectiveError(f"{step.text}{step.place}: rank {rank} does not let "
                                          f"itself be read any more: {error}") from None

            return read

        return [reader(r, p) for r, p in zip(step.group, places, strict=True)]

    def meet(self, step: Step) -> None:
        """See `World.meet`."""
        self._finish(step, self._comm(step.group).Ibarrier())

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        """See `World.send`."""
        self._sent = [(r, b) for r, b in self._sent if not r.Test()]
        own = buffer.copy()
        self._sent.append((self._world.Isend([own, self._mpi.BYTE], to, tag), own))

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        """See `World.receive`."""
        status = self._mpi.Status()
        found = self._waited(step, lambda: self._world.Improbe(source, tag, status), [source],
                             lambda: [source])
        if status.Get_count(self._mpi.BYTE) != out.size:
            raise CollectiveError(
                f"{step.text}: expected {out.size} bytes, but rank {source} sends "
                f"{status.Get_count(self._mpi.BYTE)} with the tag {tag}")
        self._finish(step, found.Irecv([out, self._mpi.BYTE]))

    def has_left(self, rank: int) -> bool:
        """See `World.has_left`; the thread of the channel hears of it."""
        return rank in self._alive.left

    def close(self) -> None:
        """See `World.close`."""
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.do(self._leave, "close")
            channel.close()

    def _leave(self) -> None:
        """Say that this rank leaves, wait until all do, and give back what MPI has made for it.

        (MPI would wait for them too, but answer no questions meanwhile.) If one of the others is
        stopped, all end.
        """
        others, start = [r for r in range(self.size) if r != self.rank], time.monotonic()
        self._alive.leave(others)
        what = f"rank {self.rank} has ended and waits for the others to end"
        while missing := [r for r in others if r not in self._alive.left]:
            try:
                if self._alive.is_due():
                    self._alive.watch(missing, time.monotonic() - start, what)
            except CollectiveError as e:
                sys.stderr.write(f"{e}\n")
                sys.stderr.flush()
                self.abort()
            time.sleep(_SELDOM)
        self._free()

    def _free(self) -> None:
        self._mpi.Request.Waitall([r for r, _ in self._sent])
        for comm in self._comms.values():
            comm.Free()
        self._comms.clear()

    def abort(self) -> None:
        """End all ranks."""
        self._world.Abort(1)

    def _comm(self, group: tuple[int, ...]) -> Any:
        """The communicator of a group; made by its members alone."""
        comm = self._comms.get(group)
        if comm is None:
            ranks = self._world.Get_group().Incl(list(group))
            comm = self._comms[group] = self._world.Create_group(ranks)
        return comm

    def _agreed(self, step: Step) -> Any:
        """The communicator of a step's group, whose ranks have all come to this step."""
        self._told(step, ())
        return self._comm(step.group)

    def _told(self, step: Step, addresses: Sequence[int]) -> list[list[int]]:
        """All ranks of a step's group come to it, and tell each other addresses."""
        comm = self._comm(step.group)
        others = [i for i, r in enumerate(step.group) if r != self.rank]
        said = np.zeros(len(step.group), _HEADER)
        own = np.zeros((), _HEADER)
        own["text"], own["addresses"][: len(addresses)] = step.text.encode(), addresses
        said[step.group.index(self.rank)] = own
        asked = {i: comm.Irecv([said[i : i + 1].view(np.uint8), self._mpi.BYTE], i, _HEADERS_TAG)
                 for i in others}
        sent = [comm.Isend([own, self._mpi.BYTE], i, _HEADERS_TAG) for i in others]

        def come() -> bool:
            for i in [i for i, r in asked.items() if r.Test()]:
                del asked[i]
            return not asked

        self._waited(step, come, step.group, lambda: [step.group[i] for i in asked])
        self._finish(step, *sent)
        wrong = disagreement(step.group, [t.decode(errors="replace") for t in said["text"]])
        if wrong is not None:
            raise CollectiveError(f"{wrong}. This is rank {self.rank}{step.place}")
        found: list[list[int]] = said["addresses"].tolist()
        return found

    def _finish(self, step: Step, *requests: Any) -> None:
        self._waited(step, lambda: self._mpi.Request.Testall(list(requests)), step.group)

    def _waited(
        self, step: Step, done: Callable[[], Any], whom: Sequence[int],
        absent: Callable[[], Sequence[int]] | None = None,
    ) -> Any:
        """Ask until there is an answer.

        Raises:
            CollectiveError: there was none in the time of `CELLC_COLLECTIVE_TIMEOUT`.
        """
        start, what = time.monotonic(), f"{step.text}{step.place}"
        self.waiting, self._notice = what, _NOTICE
        while not (found := done()):
            waited = time.monotonic() - start
            if waited > _SPIN or not self._wanted():
                if self._alive.is_due():
                    self._look(waited, what, whom, absent)
                self._pause(waited, absent is not None)
        self._alive.forget(whom)
        self._alive.done()
        self.waiting = ""
        return found

    def _look(
        self, waited: float, what: str, whom: Sequence[int],
        absent: Callable[[], Sequence[int]] | None,
    ) -> None:
        """See what those do who are waited for, now and then.

        Raises:
            CollectiveError: it has taken too long, one of those waited for does not answer, has
                left or hangs, or nobody wants it any more.
        """
        if self.channel is not None and self.channel.failed is not None:
            raise CollectiveError(f"{what} was given up: {self.channel.failed!r}")
        missing = [r for r in (absent() if absent else whom) if r != self.rank]
        waiting = f"rank {self.rank} waits in {what}"
        self._alive.watch(missing, waited, waiting)
        if waited > LEAST_LIMIT:
            self._hold_out(waited, missing, what)
        if absent is not None:
            self._alive.check_left(missing, what)
            self._alive.check_hung(missing, waited, waiting)

    def _hold_out(self, waited: float, missing: Sequence[int], what: str) -> None:
        """Go on waiting, up to the limit; others are told of it.

        Raises:
            CollectiveError: the limit is reached.
        """
        limit = knobs.read().collective_timeout
        said = (f"{what}: rank {self.rank} has waited {waited:.0f} s for "
                f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} "
                f"(CELLC_COLLECTIVE_TIMEOUT sets how long){self._alive.told(missing)}")
        if waited > limit:
            raise CollectiveError(said)
        if waited > self._notice:
            self._notice *= 2
            sys.stderr.write(f"{said}\nIt goes on waiting, up to {limit} s.\n")
            sys.stderr.flush()

    def _pause(self, waited: float, others: bool) -> None:
        """Leave the processor to others for a while; `others` are those who have not come."""
        if self._wanted():
            if waited < 0.05:
                os.sched_yield()
            else:
                time.sleep(_EAGER)
        else:
            time.sleep(_SELDOM if others else _OFTEN)

    def _wanted(self) -> bool:
        """Whether this rank does nothing meanwhile."""
        return self.channel is None or self.channel.awaited > 0


def _all_read(comm: Any, processes: dict[int, int]) -> bool:
    """Whether all ranks of a communicator can read each other's memory; the same on each."""
    # (A container may give another process the same number, so what is there is a secret.)
    probe, found = np.frombuffer(os.urandom(64), np.uint8), np.empty(64, np.uint8)
    platform.let_read_memory()
    reads = True
    for process, address, held in comm.allgather((os.getpid(), probe.ctypes.data, bytes(probe))):
        try:
            platform.read_memory(process, address, found)
        except OSError:
            reads = False
        reads = reads and bytes(found) == held
    return all(comm.allgather(reads))


def _sizes(parts: Sequence[Bytes]) -> list[int]:
    return [p.size for p in parts]


def _as_one(parts: Sequence[Bytes]) -> Bytes | None:
    """Parts that follow one another in memory as one array over it; None if they do not."""
    end = start = parts[0].ctypes.data
    for part in parts:
        if part.ctypes.data != end:
            return None
        end += part.size
    whole: Bytes = np.lib.stride_tricks.as_strided(parts[0], (end - start,), (1,))
    return whole


def _spread(received: Bytes, out: Sequence[Bytes]) -> None:
    at = 0
    for part in out:
        part[:] = received[at : at + part.size]
        at += part.size
