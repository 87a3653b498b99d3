"""Worker processes that turn texts into objects while the compiler still writes texts.

llvmlite holds one lock for a whole process, so texts are compiled by processes of their own. They
are started with a fresh interpreter (a fork of a process with threads may deadlock), take texts
from one queue, the longest first, and end with the crew.

The process that waits compiles too only if fewer workers run than processes are allowed: then it
need not load LLVM, which takes 100 MB, and nobody waits for a processor.
"""

from __future__ import annotations

import heapq
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import cellc_runtime
from cellc_runtime.target import Target

from .compile_worker import HELLO, OK, receive, request, send

_FIRST, _NEXT = 4, 3
"""Texts that repay the first worker and each further one: 0.1 s of interpreter and LLVM."""
_AHEAD = 2
"""Texts a worker holds while texts are written: it must not wait for this process's lock."""


class WorkerError(Exception):
    """A worker refused a text, or ended over it.

    Attributes:
        text: the text.
        reason: what it said.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(reason)
        self.text = text
        self.reason = reason


class Crew:
    """Workers and a queue; leaving the context ends the workers whatever happened.

    Args:
        target: what to compile for.
        processes: that may compile at once, this one included.
        many: many texts will come, so start workers at once.
        here: compiles a text in this process.
        made: called for each object made, in any thread, one call at a time.
    """

    def __init__(
        self, target: Target, processes: int, many: bool,
        here: Callable[[str], bytes], made: Callable[[str, bytes], None],
    ) -> None:
        self._target = target
        self._limit = processes if processes > 1 and sys.executable else 0
        self._first = 1 if many else _FIRST
        self._here = here
        self._made = made
        self._queue: list[tuple[int, int, str]] = []
        self._count = 0
        self._left = 0
        self._complete = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._working = 0

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._complete, self._queue = True, []
            self._changed.notify_all()
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()  # their reads have ended with the processes; now streams may be closed
        for process in self._processes:
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):  # what was left to send to a dead worker
                        stream.close()

    def add(self, text: str) -> None:
        """Queue a text."""
        with self._changed:
            heapq.heappush(self._queue, (-len(text), self._count, text))
            self._count += 1
            self._left += 1
            self._changed.notify()
        wanted = 0 if self._count < self._first else 1 + (self._count - self._first) // _NEXT
        if len(self._processes) < min(wanted, self._limit):
            self._start()

    def finish(self) -> None:
        """Wait until every text is an object, helping if workers are few.

        Raises:
            WorkerError: a worker could not compile a text; or what `here` raised.
        """
        with self._changed:
            self._complete = True
            self._changed.notify_all()
        while (text := self._take_here()) is not None:
            self._done(text, self._here(text))
        if self._error is not None:
            raise self._error

    # --- the queue ------------------------------------------------------------------------------

    def _take_here(self) -> str | None:
        """A text for this process, once there is one it should compile; None at the end."""
        with self._changed:
            while self._left and self._error is None:
                if self._queue and self._working < max(self._limit, 1):
                    return heapq.heappop(self._queue)[2]
                self._changed.wait()
            return None

    def _take(self, wait: bool) -> str | None:
        """A text for a worker; None if there is none now, or with `wait` none any more."""
        with self._changed:
            while self._error is None:
                if self._queue:
                    return heapq.heappop(self._queue)[2]
                if self._complete or not wait:
                    return None
                self._changed.wait()
            return None

    def _done(self, text: str, obj: bytes) -> None:
        with self._changed:
            self._made(text, obj)
            self._left -= 1
            self._changed.notify_all()

    # --- workers --------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            process = start_worker()
        except OSError:  # no more processes: fewer workers, or none
            self._limit = len(self._processes)
            return
        self._processes.append(process)
        self._working += 1
        self._threads.append(threading.Thread(target=self._serve, args=(process,), daemon=True))
        self._threads[-1].start()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        try:
            self._feed(process)
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        if receive(process.stdout) != HELLO:
            return  # it could not start: the others do its part
        sent: deque[str] = deque()
        while True:
            answer = None
            try:
                while len(sent) < (1 if self._complete else _AHEAD):
                    text = self._take(wait=not sent)
                    if text is None:
                        break
                    sent.append(text)
                    send(process.stdin, request(self._target.name, text))
                if not sent:
                    return
                answer = receive(process.stdout)
            except (OSError, ValueError):
                pass
            if answer is None:
                # LLVM ends the process on some errors: say so instead of trying it here.
                self._fail(WorkerError(sent[0], "the compiling process ended"))
                return
            text = sent.popleft()
            if answer[0] != OK:
                self._fail(WorkerError(text, answer[1:].decode(errors="replace")))
                return
            self._done(text, answer[1:])

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


def start_worker() -> subprocess.Popen[bytes]:
    """A process that answers requests; see `compile_worker`."""
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join([*_roots(), *filter(None, [env.get("PYTHONPATH")])])
    # A process group of its own: the terminal's Ctrl-C reaches the parent, which ends workers.
    group = -1 if sys.platform == "win32" else 0
    return subprocess.Popen(
        [sys.executable, "-m", "cellc_compiler.compile_worker"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
        process_group=group,
    )  # fmt: skip


def _roots() -> Iterable[str]:
    return (str(Path(__file__).parent.parent), str(Path(cellc_runtime.__file__).parent.parent))
