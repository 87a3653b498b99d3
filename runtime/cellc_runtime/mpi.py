"""The ranks of MPI, by mpi4py (extra `cellc[mpi]`).

Every wait polls, so that an interrupt or a signal reaches Python while a rank waits, and so that a
rank that does not come can be named. Before the bytes of a step go, its group agrees about it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import knobs
from .world import Bytes, CollectiveError, Step, disagreement

_HEADER = 192
"""Bytes by which ranks tell each other what step they are at."""
_SPIN = 2e-4
"""Seconds of waiting before a rank lets others use its processor."""
_HEADERS_TAG = 1 << 14


class MpiWorld:
    """See `cellc_runtime.world.World`.

    Attributes:
        waiting: the step that this rank waits in; "" if it does not.
    """

    waiting = ""

    def __init__(self) -> None:
        from mpi4py import MPI  # an extra: it loads a library of hundreds of kilobytes

        self._mpi = MPI
        self._world = MPI.COMM_WORLD
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        near = self._world.Split_type(MPI.COMM_TYPE_SHARED)
        self.near: tuple[int, ...] = tuple(sorted(near.allgather(self.rank)))
        near.Free()
        self.groups: dict[str, tuple[int, ...]] = {}
        self._comms: dict[tuple[int, ...], Any] = {}
        self._sent: list[tuple[Any, Bytes]] = []

    def all_to_all(self, step: Step, parts: Sequence[Bytes], out: Sequence[Bytes]) -> None:
        """See `World.all_to_all`."""
        comm = self._agreed(step)
        sent, received = np.concatenate(parts), np.empty(sum(o.size for o in out), np.uint8)
        self._finish(step, comm.Ialltoallv(
            [sent, _sizes(parts), self._mpi.BYTE], [received, _sizes(out), self._mpi.BYTE]))
        _spread(received, out)

    def all_gather(self, step: Step, own: Bytes, out: Sequence[Bytes]) -> None:
        """See `World.all_gather`."""
        comm = self._agreed(step)
        received = np.empty(sum(o.size for o in out), np.uint8)
        self._finish(step, comm.Iallgatherv(
            [own, self._mpi.BYTE], [received, _sizes(out), self._mpi.BYTE]))
        _spread(received, out)

    def broadcast(self, step: Step, root: int, buffer: Bytes) -> None:
        """See `World.broadcast`."""
        comm = self._agreed(step)
        self._finish(step, comm.Ibcast([buffer, self._mpi.BYTE], step.group.index(root)))

    def send(self, step: Step, to: int, tag: int, buffer: Bytes) -> None:
        """See `World.send`."""
        self._sent = [(r, b) for r, b in self._sent if not r.Test()]
        own = buffer.copy()
        self._sent.append((self._world.Isend([own, self._mpi.BYTE], to, tag), own))

    def receive(self, step: Step, source: int, tag: int, out: Bytes) -> None:
        """See `World.receive`."""
        status = self._mpi.Status()
        found = self._waited(step, lambda: self._world.Improbe(source, tag, status), [source])
        if status.Get_count(self._mpi.BYTE) != out.size:
            raise CollectiveError(
                f"{step.text}: expected {out.size} bytes, but rank {source} sends "
                f"{status.Get_count(self._mpi.BYTE)} with the tag {tag}")
        self._finish(step, found.Irecv([out, self._mpi.BYTE]))

    def close(self) -> None:
        """See `World.close`."""
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
        comm = self._comm(step.group)
        own = np.zeros(_HEADER, np.uint8)
        text = step.text.encode()[:_HEADER]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        others = [i for i, r in enumerate(step.group) if r != self.rank]
        said = np.empty((len(step.group), _HEADER), np.uint8)
        said[step.group.index(self.rank)] = own
        asked = {i: comm.Irecv([said[i], self._mpi.BYTE], i, _HEADERS_TAG) for i in others}
        sent = [comm.Isend([own, self._mpi.BYTE], i, _HEADERS_TAG) for i in others]

        def come() -> bool:
            for i in [i for i, r in asked.items() if r.Test()]:
                del asked[i]
            return not asked

        self._waited(step, come, step.group, lambda: [step.group[i] for i in asked])
        self._finish(step, *sent)
        wrong = disagreement(step.group, [bytes(row).rstrip(b"\0").decode(errors="replace")
                                          for row in said])
        if wrong is not None:
            raise CollectiveError(f"{wrong}. This is rank {self.rank}{step.place}")
        return comm

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
        start = time.monotonic()
        self.waiting = f"{step.text}{step.place}"
        while not (found := done()):
            waited = time.monotonic() - start
            if waited > knobs.read().collective_timeout:
                missing = [r for r in (absent() if absent else whom) if r != self.rank]
                raise CollectiveError(
                    f"{step.text}{step.place}: rank {self.rank} has waited {waited:.0f} s for "
                    f"rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))} "
                    "(CELLC_COLLECTIVE_TIMEOUT sets how long)")
            if waited > _SPIN:
                os.sched_yield() if waited < 0.05 else time.sleep(5e-5)
        self.waiting = ""
        return found


def _sizes(parts: Sequence[Bytes]) -> list[int]:
    return [p.size for p in parts]


def _spread(received: Bytes, out: Sequence[Bytes]) -> None:
    at = 0
    for part in out:
        part[:] = received[at : at + part.size]
        at += part.size
