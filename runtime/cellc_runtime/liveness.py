"""Whether ranks that others wait for are alive, and what they are at.

A rank that waits asks those that have not come. The thread of their collectives (`channel.py`)
answers while they compute, sleep or loop, with the line of the user's code that they are at and the
processor time they have used. Who does not answer is stopped or gone: on this machine the operating
system says so too, so that a rank whose code holds the interpreter's lock is not taken for one.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import knobs, platform
from .world import CollectiveError

_QUESTION, _ANSWER, _LEFT = 1, 2, 3
_PATIENCE = 1.0
"""Seconds that a rank waits before it asks, and between its questions."""
_UNDER_WAY = 2.0
"""Seconds for what a rank sent before it left to arrive."""
_LOOK = 0.02
"""Seconds between looks at questions while a rank waits."""
_OURS = ("cellc", "cellc_compiler", "cellc_runtime", "mpi4py")
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in ', re.MULTILINE)


class Liveness:
    """Questions and answers of one rank; all its calls come from one thread.

    Args:
        mpi: the module `mpi4py.MPI`.
        comm: a communicator that nothing else uses.
        processes: of the ranks on this machine, their process ids.

    Attributes:
        left: the ranks that have said that they do no more collectives, and when this was heard.
    """

    def __init__(self, mpi: Any, comm: Any, processes: dict[int, int]) -> None:
        self._mpi, self._comm, self._processes = mpi, comm, processes
        self._asked: dict[int, float] = {}
        self._heard: dict[int, tuple[float, str]] = {}
        self._sent: list[tuple[Any, Any]] = []
        self._next_look = 0.0
        self.left: dict[int, float] = {}
        self.done()

    def done(self) -> None:
        """A collective of this rank is done: what it reports counts from now."""
        self._since, self._used = time.monotonic(), _processor_time()

    def attend(self) -> None:
        """Answer questions, and take in answers."""
        status = self._mpi.Status()
        while self._comm.Iprobe(self._mpi.ANY_SOURCE, self._mpi.ANY_TAG, status):
            source, tag = status.Get_source(), status.Get_tag()
            text = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
            self._comm.Recv([text, self._mpi.BYTE], source, tag)
            if tag == _QUESTION:
                self._send(source, _ANSWER, self.report())
            elif tag == _LEFT:
                self.left[source] = time.monotonic()
            else:
                self._asked.pop(source, None)
                self._heard[source] = time.monotonic(), text.tobytes().decode()
        self._sent = [(r, b) for r, b in self._sent if not r.Test()]

    def watch(self, missing: Iterable[int], waited: float, what: str) -> bool:
        """This rank has waited so many seconds for others: attend, and ask them now and then;
        whether this was the time to.

        Raises:
            CollectiveError: one of them does not answer.
        """
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK
        self.attend()
        for rank in missing if waited > _PATIENCE else ():
            if rank in self._asked:
                self._check(rank, now - self._asked[rank], what)
            elif now - self._heard.get(rank, (0.0, ""))[0] > _PATIENCE:
                self._asked[rank] = now
                self._send(rank, _QUESTION, "")
        return True

    def leave(self, others: Iterable[int]) -> None:
        """Tell other ranks that this one does no more collectives."""
        for rank in others:
            self._send(rank, _LEFT, "")

    def check_left(self, missing: Iterable[int], what: str) -> None:
        """See that those who are waited for can still come.

        Raises:
            CollectiveError: one of them has left.
        """
        now = time.monotonic()
        for rank in missing:
            if now - self.left.get(rank, now) > _UNDER_WAY:
                raise CollectiveError(
                    f"{what}: rank {rank} has left without coming to it: its script has ended, or "
                    "it has called 'release'. All ranks must do as many steps (a data set of other "
                    "length?)")

    def forget(self, missing: Iterable[int]) -> None:
        """They have come."""
        for rank in missing:
            self._asked.pop(rank, None)

    def told(self, ranks: Iterable[int]) -> str:
        """What ranks have answered lately, for messages."""
        return "".join(f". Rank {r} {self._heard[r][1]}" for r in ranks if r in self._heard)

    def report(self) -> str:
        """What this process is at."""
        passed = time.monotonic() - self._since
        used = _processor_time() - self._used
        doing = "computes" if used > passed / 10 else "sleeps or waits"
        return (f"{doing} at {_line()}: {used:.1f} s of processor time in the {passed:.1f} s since "
                "its last collective")

    def _check(self, rank: int, silent: float, what: str) -> None:
        halted = platform.is_halted(self._processes[rank]) if rank in self._processes else None
        if silent > knobs.read().silence_timeout and halted is not False:
            raise CollectiveError(
                f"{what}: rank {rank} has not answered for {silent:.0f} s: its process is stopped "
                "or has ended, or its machine is gone (CELLC_SILENCE_TIMEOUT sets how long)"
                + (f". When last heard of it {self._heard[rank][1]}" if rank in self._heard else "")
            )

    def _send(self, rank: int, tag: int, text: str) -> None:
        data = np.frombuffer(text.encode(), np.uint8)
        self._sent.append((self._comm.Isend([data, self._mpi.BYTE], rank, tag), data))


def _processor_time() -> float:
    """Seconds of all threads of this process but this one."""
    return time.process_time() - time.thread_time()


def _line() -> str:
    """The line of the user's code that the main thread is at."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        text = file.read()
    main = f"0x{threading.main_thread().ident or 0:016x}"
    stack = next((part for part in text.split("hread ") if part.startswith(main)), "")
    ours = tuple(os.path.dirname(sys.modules[name].__file__ or "") + os.sep
                 for name in _OURS if name in sys.modules)
    lines = [f"{file}:{line}" for file, line in _FRAME.findall(stack)
             if not file.startswith(ours) and file != threading.__file__]
    return lines[0] if lines else "its end"
