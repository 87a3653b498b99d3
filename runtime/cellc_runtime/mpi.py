"""The ranks of MPI, by mpi4py (extra `cellc[mpi]`).

All that is done with MPI is done in turns by the thread of the channel (`channel.py`), so that a
rank can compute meanwhile, and by programs that help it. Waits poll, so that a rank that does not
come can be named (`waits.py`): often while somebody waits for the result, seldom while the rank
computes, whose processor the thread may share. Before the bytes of a step go, its group agrees
about it (`headers.py`).
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import platform
from .channel import DEPTH, Channel
from .headers import Headers
from .liveness import Liveness
from .meeting import Bytes, Meeting
from .waits import Wait
from .world import CollectiveError, Step, disagreement

_SPIN, _YIELDS = 2e-4, 0.05
"""Seconds of waiting before a rank lets others use its processor, and before it sleeps."""
_EAGER, _OFTEN, _SELDOM = 5e-5, 2e-4, 1e-3
"""Seconds between two looks: while somebody waits; and while this rank computes and bytes are on
their way, or others have not come."""
_PHASES = 3  # How often ranks reach a step, at most
_FIRST_TAG = 1 << 14


class MpiWorld:
    """See `cellc_runtime.world.World`.

    Args:
        alone: whether programs compute by one thread; see `Channel`.
    """

    _waits_in = ""

    def __init__(self, alone: Callable[[], bool] = bool) -> None:
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
        self._steps: dict[tuple[int, ...], int] = {}
        self._headers: dict[tuple[tuple[int, ...], int, int], Headers] = {}
        self._given_up: list[Any] = []  # what MPI may still write, for as long as the process lives
        self._sent: list[tuple[Any, Bytes]] = []
        self.channel: Channel | None = Channel(f"collectives of rank {self.rank}",
                                               self._alive.attend, alone)
        atexit.register(self.close)  # MPI ends after Python, and nobody may use it then

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        comm, sent = self._agreed(step), _as_one(parts)
        if sent is None:
            sent = np.concatenate(parts)
        self._receive(step, out, partial(comm.Ialltoallv, [sent, _sizes(parts), self._mpi.BYTE]))

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        self._receive(step, out, partial(self._agreed(step).Iallgatherv, [own, self._mpi.BYTE]))

    def _receive(self, step: Step, out: Sequence[Bytes], begin: Callable[[Any], Any]) -> None:
        """Finish what `begin` begins, which fills all of `out`."""
        received = _as_one(out)
        whole = np.empty(sum(_sizes(out)), np.uint8) if received is None else received
        self._finish(step, begin([whole, _sizes(out), self._mpi.BYTE]))
        if received is None:
            _spread(whole, out)

    def broadcast(self, step: Step, root: int, buffer: Bytes) -> None:
        comm = self._agreed(step)
        self._finish(step, comm.Ibcast([buffer, self._mpi.BYTE], step.group.index(root)))

    def reads(self, group: Sequence[int]) -> bool:
        return self._readable and len(group) > 1 and set(group) <= set(self.near)

    def meeting(self, step: Step, own: Sequence[Bytes]) -> MpiMeeting:
        return MpiMeeting(self, step, own)

    def read(self, step: Step, place: int, address: int, out: Bytes) -> None:
        """Fill `out` with what is at an address of the rank at a place in a step's group."""
        rank = step.group[place]
        try:
            platform.read_memory(self._processes[rank], address, out)
        except OSError as error:
            raise CollectiveError(f"{step.text}{step.place}: rank {rank} does not let itself be "
                                  f"read any more: {error}") from None

    def wait(self, meeting: Meeting) -> None:
        assert isinstance(meeting, MpiMeeting)
        while not meeting.over():
            self._wait_a_little(meeting.waits, others=True)
        self._waits_in = ""

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        self._sent = [(r, b) for r, b in self._sent if not r.Test()]
        own = buffer.copy()
        self._sent.append((self._world.Isend([own, self._mpi.BYTE], to, tag), own))

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        status, wait = self._mpi.Status(), self.begun(step, [source], lambda: [source])
        found = self._until(lambda: self._world.Improbe(source, tag, status), wait, others=True)
        if status.Get_count(self._mpi.BYTE) != out.size:
            raise CollectiveError(
                f"{step.text}: expected {out.size} bytes, but rank {source} sends "
                f"{status.Get_count(self._mpi.BYTE)} with the tag {tag}")
        self._finish(step, found.Irecv([out, self._mpi.BYTE]))

    def has_left(self, rank: int) -> bool:
        """See `World.has_left`; the thread of the channel hears of it."""
        return rank in self._alive.left

    def close(self) -> None:
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.do(self._leave, "close")
            channel.close()
            platform.let_read_memory(False)  # (`_leave` waits until nobody reads any more)

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
        for headers in self._headers.values():
            headers.free()
        self._headers.clear()
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
        """The communicator of a step's group, whose ranks have all reached this step."""
        meeting = self.meeting(step, ())
        try:
            self.wait(meeting)
        finally:
            meeting.leave()
        return self._comm(step.group)

    def next_slot(self, group: tuple[int, ...]) -> int:
        """Which headers the next step of a group has: as many steps as may be under way have some
        of their own."""
        number = self._steps[group] = self._steps.get(group, -1) + 1
        return number % DEPTH

    def headers(self, group: tuple[int, ...], slot: int, phase: int) -> Headers:
        """Return the headers that the ranks of a group exchange at a step."""
        key = group, slot, phase
        if key not in self._headers:
            self._headers[key] = Headers(self._mpi, self._comm(group),
                                         _FIRST_TAG + slot * _PHASES + phase)
        return self._headers[key]

    def forget(self, headers: Headers) -> None:
        """Keep the headers: other ranks may still answer them."""
        self._given_up.append(headers)
        self._headers = {k: h for k, h in self._headers.items() if h is not headers}

    def begun(
        self, step: Step, whom: Sequence[int], absent: Callable[[], Sequence[int]] | None = None
    ) -> Wait:
        """A wait that begins now; see `Wait`."""
        others = [r for r in whom if r != self.rank]
        return Wait(self._alive, self.channel, step, self.rank, others, absent)

    def came(self, wait: Wait | None) -> None:
        """Those who were waited for, if anybody was, are there."""
        if wait is None:
            self._alive.done()
        else:
            wait.end()

    def _finish(self, step: Step, request: Any) -> None:
        wait = self.begun(step, step.group)
        try:
            self._until(request.Test, wait)
        except BaseException:
            self._given_up.append(request)
            raise

    def _until(self, done: Callable[[], Any], wait: Wait, others: bool = False) -> Any:
        """Poll until there is an answer; `others`: the wait is for other ranks, so poll seldom."""
        while not (found := done()):
            self._wait_a_little(wait, others)
        wait.end()
        self._waits_in = ""
        return found

    def _wait_a_little(self, wait: Wait, others: bool) -> None:
        """Check the other ranks once, then yield the processor for a while."""
        self._waits_in, waited = wait.what, wait.seconds
        if waited < _SPIN and self._wanted():
            return
        wait.look()
        if not self._wanted():
            time.sleep(_SELDOM if others else _OFTEN)
        elif waited < _YIELDS:
            os.sched_yield()
        else:
            time.sleep(_EAGER)

    @property
    def waiting(self) -> str:
        """The step that this rank waits in; "" if it does not."""
        return self._waits_in or ("" if self.channel is None else self.channel.waits_in)

    def _wanted(self) -> bool:
        """Whether this rank does nothing meanwhile."""
        return self.channel is None or self.channel.awaited > 0


class MpiMeeting:
    """See `cellc_runtime.meeting.Meeting`."""

    def __init__(self, world: MpiWorld, step: Step, own: Sequence[Bytes]) -> None:
        self._world, self._step, self._phase = world, step, 0
        self._slot = world.next_slot(step.group)
        self._headers = world.headers(step.group, self._slot, 0)
        self._addresses: list[tuple[int, ...]] = []
        self._wait: Wait | None = None
        self._over = False
        self._headers.begin(step.text, [b.ctypes.data for b in own])

    @property
    def waits(self) -> Wait:
        """For the others; begins when it is requested."""
        if self._wait is None:
            self._wait = self._world.begun(self._step, self._step.group,
                                           self._missing if self._phase == 0 else None)
        return self._wait

    def _missing(self) -> list[int]:
        return [self._step.group[i] for i in self._headers.missing()]

    def over(self) -> bool:
        if not self._over and self._headers.over():
            self._over = True
            self._world.came(self._wait)
            if self._phase == 0:
                self._addresses = self._headers.addresses()
                self._agree()
        return self._over

    def _agree(self) -> None:
        wrong = disagreement(self._step.group, self._headers.texts())
        if wrong is not None:
            raise CollectiveError(f"{wrong}. This is rank {self._world.rank}{self._step.place}")

    def again(self) -> None:
        self._phase += 1
        self._headers = self._world.headers(self._step.group, self._slot, self._phase)
        self._wait, self._over = None, False
        self._headers.begin("")

    def read(self, place: int, buffer: int, start: int, out: Bytes) -> None:
        self._world.read(self._step, place, self._addresses[place][buffer] + start, out)

    def look(self) -> None:
        self.waits.look()

    def leave(self) -> None:
        if not self._over:
            self._world.forget(self._headers)


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
    all_do = all(comm.allgather(reads))
    if not all_do:
        platform.let_read_memory(False)
    return all_do


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
