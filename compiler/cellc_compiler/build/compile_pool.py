"""A pool of processes that compile: texts become objects while the compiler still writes texts.

llvmlite holds one lock for a whole process, so texts are compiled by processes of their own
(`workers.py`). They have a fresh interpreter (a fork of a process with threads may deadlock) and
take texts from one queue, the longest first.

The process that waits compiles only where no worker can: it need not load LLVM, which takes 100
MB, and nobody waits for a processor.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable

from cellc_runtime.forks import renewed
from cellc_runtime.platform import joined, started
from cellc_runtime.target import Target

from . import workers
from .worker import GOODBYE, OK
from .workers import Worker

_NEXT = 3  # Texts that repay each further worker: 0.1 s of interpreter and LLVM
_AHEAD = 2  # Texts a worker holds while texts are written: it must not wait for this process's lock


class WorkerError(Exception):
    """A worker refused a text, or ended over it."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(reason)
        self.text = text  # the text
        self.reason = reason  # what it said


class CompilePool:
    """Workers and a queue.

    Leaving the context hands the workers back; if not all is done, it ends them.

    Args:
        processes: that may compile at once; with one, this process does it.
        here: compiles a text in this process.
        made: called for each object made, in any thread, one call at a time.
    """

    def __init__(
        self, target: Target, processes: int,
        here: Callable[[str], bytes], made: Callable[[str, bytes], None],
    ) -> None:
        self._target = target
        self._limit = processes if processes > 1 and workers.able() else 0
        self._here = here
        self._made = made
        self._queue: list[tuple[int, int, str]] = []
        self._count = 0
        self._left = 0
        self._complete = False
        self._ended = False
        self._error: BaseException | None = None
        self._changed = renewed(threading.Condition())
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._working = 0

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            done = not self._left and self._error is None
            self._complete, self._ended, self._queue = True, not done, []
            self._changed.notify_all()
            # While they are listed: a worker that is handed back may get another pool's thread.
            serving = [w.thread for w in self._workers if w.begun and w.thread is not None]
        if done:
            # Their threads hand the workers back: at once, or when they have begun.
            for thread in serving:
                joined(thread)
            return
        for worker in list(self._workers):
            worker.kill()
        for thread in self._threads:
            joined(thread)  # reads have ended with the processes; now streams may be closed
        for worker in self._workers:
            worker.end()

    def add(self, text: str) -> None:
        """Queue a text."""
        with self._changed:
            heapq.heappush(self._queue, (-len(text), self._count, text))
            self._count += 1
            self._left += 1
            self._changed.notify()
        if len(self._workers) < self._limit:
            wanted = 1 + (self._count - 1) // _NEXT
            worker = workers.idle()
            if worker is None and len(self._workers) < wanted and (
                    not self._workers or workers.living() < self._limit):
                worker = _new()
            if worker is not None:
                self._employ(worker)
            elif not self._workers:
                self._limit = 0  # there can be no process

    def finish(self) -> None:
        """Wait until every text is an object. Raises WorkerError if a worker could not compile a
        text (or the error of `here`)."""
        with self._changed:
            self._complete = True
            self._changed.notify_all()
        while (text := self._take_here()) is not None:
            self._done(text, self._here(text))
        if self._error is not None:
            raise self._error

    # --- the queue ------------------------------------------------------------------------------

    def _take_here(self) -> str | None:
        """A text for this process, where no worker takes it; None at the end."""
        with self._changed:
            while self._left and self._error is None:
                if self._queue and not self._working:
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

    def _employ(self, worker: Worker) -> None:
        self._workers.append(worker)
        self._working += 1
        worker.thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
        self._threads.append(worker.thread)
        if not started(worker.thread):
            self._let_go(worker)

    def _let_go(self, worker: Worker) -> None:
        """End a worker that no thread serves: there is no memory for one more."""
        with self._changed:
            self._threads.pop()
            self._workers.remove(worker)
            self._working -= 1
            self._limit = len(self._workers)
        worker.kill()
        worker.end()

    def _serve(self, worker: Worker) -> None:
        serving: Worker | None = worker
        try:
            while serving is not None:
                serving = self._feed(serving)
        except BaseException as error:  # whoever waits must hear of it
            self._fail(error)
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _feed(self, worker: Worker) -> Worker | None:
        """Give a worker texts while there are any; another one in its place if it has ended
        itself, for nobody had asked it for too long."""
        if not worker.begins():
            if not self._ended:
                workers.unable()
            return None  # the others do its part, or this process
        sent: deque[str] = deque()
        while True:
            try:
                while len(sent) < (1 if self._complete else _AHEAD):
                    text = self._take(wait=not sent)
                    if text is None:
                        break
                    sent.append(text)
                    worker.ask(self._target, text)
            except OSError:
                pass  # it has ended; what it said before that tells why
            if not sent:
                self._hand_back(worker)
                return None
            answer = worker.answer()
            if answer == GOODBYE:
                return self._replaced(worker, sent)
            if answer is None:
                # LLVM ends the process on some errors: say so instead of trying it here.
                self._fail(WorkerError(sent[0], "the compiling process ended"))
                return None
            text = sent.popleft()
            if answer[0] != OK:
                self._fail(WorkerError(text, answer[1:].decode(errors="replace")))
                return None
            self._done(text, answer[1:])

    def _hand_back(self, worker: Worker) -> None:
        with self._changed:
            if self._ended or self._error is not None:
                return
            self._workers.remove(worker)
        workers.give_back(worker)

    def _replaced(self, worker: Worker, sent: deque[str]) -> Worker | None:
        """A new worker for the texts that one did not compile; None if there can be none."""
        new = _new()
        with self._changed:
            stays = new if not self._ended else None
            for text in sent:
                self._count += 1
                heapq.heappush(self._queue, (-len(text), self._count, text))
            if stays is not None:
                stays.thread = worker.thread
                self._workers.append(stays)
            self._workers.remove(worker)
            self._changed.notify_all()
        worker.end()
        if new is not None and stays is None:
            new.end()
        return stays

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()


def _new() -> Worker | None:
    try:
        return Worker()
    except OSError:  # no more processes: fewer workers, or none
        return None
