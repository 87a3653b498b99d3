"""Whether ranks that others wait for are alive, and what they are at.

A rank that waits asks those that have not come. The thread of their collectives (`channel.py`)
answers while they compute, sleep or loop, with the line of the user's code that they are at and the
processor time they have used. A rank that does not answer is stopped or gone: on this machine the
system confirms it, so that a rank whose code holds the interpreter's lock is not taken for one.

An answer also says for how long the rank has done nothing at all (`activity.py`), and whom it waits
for itself. So a rank that hangs is distinguished from one that computes, and ranks that wait for
each other find that out.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from . import knobs, platform
from .activity import Watch, main_thread
from .world import CollectiveError

_QUESTION, _ANSWER, _LEFT = 1, 2, 3
_PATIENCE = 1.0  # Seconds that a rank waits before it asks, and between its questions
_UNDER_WAY = 2.0  # Seconds for what a rank sent before it left to arrive
_LOOK = 0.02  # Seconds between looks at questions while a rank waits
LEAST_LIMIT = 0.9
"""Seconds that may be waited without a look at the limits of waiting, which are whole seconds:
reading them takes as long as many looks for what is waited for."""
_FRESH = 3.0  # Seconds for which an answer counts
_ENVELOPE = 256  # The most bytes of a message besides its text
_HELD = ". It does not answer: its code holds the interpreter's lock"
Waits = dict[int, tuple[str, list[int], float, float]]
"""Of ranks that wait: in what, for which ranks, for how many seconds, and how long ago that was."""
_OURS = ("cellc", "cellc_compiler", "cellc_runtime", "mpi4py")


class Liveness:
    """Questions and answers of one rank; all its calls come from one thread.

    Args:
        mpi: the module `mpi4py.MPI`.
        comm: a communicator that nothing else uses.
        processes: of the ranks on this machine, their process ids.
    """

    def __init__(self, mpi: Any, comm: Any, processes: dict[int, int]) -> None:
        self._mpi, self._comm, self._processes = mpi, comm, processes
        self._asked: dict[int, float] = {}
        self._heard: dict[int, tuple[float, dict[str, Any]]] = {}
        self._waits: tuple[str, list[int], float] | None = None
        self._since: tuple[float, float] | None = None
        self._activity: Watch | None = None
        self._outside: dict[int, tuple[float, Watch, float | None]] = {}
        self._sent: list[tuple[Any, Any]] = []
        self._next_look = 0.0
        # the ranks that have said that they do no more collectives, and when this was heard
        self.left: dict[int, float] = {}

    def done(self) -> None:
        """A collective of this rank is done: what it reports counts from the next look on, since
        asking the system for processor time takes longer than all else that is done here."""
        self._waits = self._since = None
        if self._activity is not None:
            self._activity.forget()

    def attend(self) -> None:
        """Answer questions, and take in answers."""
        if self._since is None:
            self._since = time.monotonic(), _processor_time()
        status = self._mpi.Status()
        while self._comm.Iprobe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG, status):
            source, tag = status.Get_source(), status.Get_tag()
            text = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
            self._comm.Recv([text, self._mpi.BYTE], source, tag)
            if tag == _QUESTION:
                self._send(source, _ANSWER, json.dumps(self._answer()))
            elif tag == _LEFT:
                self.left[source] = time.monotonic()
            else:
                self._asked.pop(source, None)
                self._heard[source] = time.monotonic(), json.loads(text.tobytes())
        self._sent = [(r, b) for r, b in self._sent if not r.Test()]

    def is_due(self) -> bool:
        """Whether it is time to `watch`."""
        return time.monotonic() >= self._next_look

    def watch(self, missing: Iterable[int], waited: float, what: str) -> None:
        """After a wait of some seconds for others: attend, and query them now and then. Raises
        CollectiveError if one of them does not answer."""
        now = time.monotonic()
        self._next_look = now + _LOOK
        self.attend()
        for rank in missing if waited > _PATIENCE else ():
            if rank in self._asked:
                self._check(rank, now - self._asked[rank], what)
            elif now - self._heard.get(rank, (0.0, ""))[0] > _PATIENCE:
                self._asked[rank] = now
                self._send(rank, _QUESTION, "")

    def leave(self, others: Iterable[int]) -> None:
        """Tell other ranks that this one does no more collectives."""
        for rank in others:
            self._send(rank, _LEFT, "")

    def check_left(self, missing: Iterable[int], what: str) -> None:
        """Check that the ranks that this one waits for can still arrive. Raises CollectiveError if
        one of them has left."""
        now = time.monotonic()
        for rank in missing:
            if now - self.left.get(rank, now) > _UNDER_WAY:
                raise CollectiveError(
                    f"{what}: rank {rank} has left without coming to it: its script has ended, or "
                    "it has called 'release'. All ranks must do as many steps (a data set of other "
                    "length?)")

    def check_hung(self, missing: Sequence[int], waited: float, what: str) -> None:
        """Raise an error if the ranks that are missing after this wait hang.

        A rank that does nothing may wait for one of the others (for a file that it writes, say), so
        none is blamed while one of them does something. Raises CollectiveError if none of them has
        done anything in the seconds of `CELLC_HANG_TIMEOUT`, or one waits for this rank.
        """
        self._waits = what, list(missing), waited
        if waited < LEAST_LIMIT:
            return
        limit = knobs.read().hang_timeout
        if not limit or waited <= limit:
            return
        self._check_circle(missing, limit, what)
        idle = [(self._idle(rank) or 0.0, rank) for rank in missing]
        if min(idle)[0] > max(limit - 2 * _PATIENCE, limit / 2):
            longest, rank = max(idle)
            raise CollectiveError(
                f"{what}: rank {rank} hangs. For {longest:.0f} s it has used no processor time, "
                "moved no bytes and waited for no disk (CELLC_HANG_TIMEOUT sets how long that may "
                f"be; 0 is for ever){self.told(missing) or _HELD}")

    def forget(self, missing: Iterable[int]) -> None:
        """They have come."""
        for rank in missing:
            self._asked.pop(rank, None)
            self._outside.pop(rank, None)

    def told(self, ranks: Iterable[int]) -> str:
        """Return recent answers of ranks, for messages."""
        return "".join(f". Rank {r} {self._heard[r][1]['text']}" for r in ranks if r in self._heard)

    def _answer(self) -> dict[str, Any]:
        """Return this process's position, its idle time, and the waits that it knows of."""
        if self._activity is None:
            self._activity = Watch(os.getpid(), threading.get_native_id())
        idle, waits = self._activity.idle(), self._known_waits()
        if self._waits is not None:  # for others, who are asked too
            waits[self._comm.Get_rank()] = *self._waits, 0.0
            idle = None
        return {"text": self._report(), "idle": idle, "waits": waits}

    def _report(self) -> str:
        assert self._since is not None  # (asked within `attend`)
        passed = time.monotonic() - self._since[0]
        used = max(0.0, _processor_time() - self._since[1])  # (two clocks: it may lack a digit)
        doing = "computes" if used > passed / 10 else "sleeps or waits"
        text = (f"{doing} at {_line()}: {used:.1f} s of processor time in the {passed:.1f} s since "
                "its last collective")
        if self._waits is None:
            return text
        what, missing, waited = self._waits
        return f"{text}; {what} since {waited:.1f} s for {_named(missing)}"

    def _known_waits(self) -> Waits:
        """Return recent waits of ranks, from their answers and from those of others."""
        now, found = time.monotonic(), Waits()
        for heard, answer in self._heard.values():
            for name, (what, missing, waited, age) in answer["waits"].items():
                rank, age = int(name), age + now - heard
                if age < min(_FRESH, found[rank][3] if rank in found else _FRESH):
                    found[rank] = what, missing, waited, age
        return found

    def _check_circle(self, missing: Iterable[int], limit: float, what: str) -> None:
        """Check that no rank that this rank waits for waits for this rank. (All of them must have
        waited long: all that was sent has arrived.)"""
        here = self._comm.Get_rank()
        waits = {r: w for r, w in self._known_waits().items() if w[2] > limit / 2}
        paths = [[rank] for rank in missing]
        seen = set(missing)
        for path in paths:
            for rank in waits[path[-1]][1] if path[-1] in waits else ():
                if rank == here:
                    all_ = sorted([(what, [path[0]]), *(waits[r][:2] for r in path)])
                    raise CollectiveError(
                        f"collective mismatch: {'; '.join(f'{w} for {_named(m)}' for w, m in all_)}"
                        ". They wait for each other: all ranks must come to messages, and to the "
                        "collectives of groups that have ranks in common, in the same order")
                if rank not in seen:
                    seen.add(rank)
                    paths.append([*path, rank])

    def _idle(self, rank: int) -> float | None:
        """For how long a rank has done nothing; None if that is not known."""
        now = time.monotonic()
        heard, answer = self._heard.get(rank, (0.0, {}))
        if now - heard < _FRESH:
            found: float | None = answer["idle"]
            return found
        return self._outside[rank][2] if rank in self._outside else None

    def _look(self, rank: int) -> None:
        """See from outside what a rank of this machine does that does not answer."""
        now = time.monotonic()
        looked, watch, _ = self._outside.get(rank, (0.0, Watch(self._processes[rank]), None))
        if now - looked > _PATIENCE / 2:
            self._outside[rank] = now, watch, watch.idle()

    def _check(self, rank: int, silent: float, what: str) -> None:
        halted = None
        if rank in self._processes:
            halted = platform.is_halted(self._processes[rank])
            self._look(rank)
        if silent > knobs.read().silence_timeout and halted is not False:
            raise CollectiveError(
                f"{what}: rank {rank} has not answered for {silent:.0f} s: its process is stopped "
                "or has ended, or its machine is gone (CELLC_SILENCE_TIMEOUT sets how long)"
                + (f". When last heard of it {self._heard[rank][1]['text']}"
                   if rank in self._heard else ""))

    def _send(self, rank: int, tag: int, text: str) -> None:
        data = np.frombuffer(text.encode(), np.uint8)
        if self._activity is not None:
            self._activity.own += 2 * (data.size + _ENVELOPE)  # and what it answers, or is answered
        self._sent.append((self._comm.Isend([data, self._mpi.BYTE], rank, tag), data))


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _processor_time() -> float:
    """Seconds of all threads of this process but this one."""
    return time.process_time() - time.thread_time()


def _line() -> str:
    """The line of the user's code that the main thread is at."""
    ours = tuple(os.path.dirname(sys.modules[name].__file__ or "") + os.sep
                 for name in _OURS if name in sys.modules)
    lines = [f"{file}:{line}" for file, line in main_thread()
             if not file.startswith(ours) and file != threading.__file__]
    return lines[0] if lines else "its end"
