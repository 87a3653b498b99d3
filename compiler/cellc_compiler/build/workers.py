"""Processes that compile, seen from the process that asks: started ahead, used again, ended.

LLVM lives in them alone, so what a network needs in memory does not grow by LLVM's 100 MB while it
is compiled, and the 0.1 s that an interpreter and LLVM take to load pass while this process still
traces. A worker that nobody asks for a while ends itself (`worker.py`), and all end with
this process. Two that are wanted at once are a process and its fork, where the system has what it
takes to know a process that is not a child of one's own (Linux): LLVM is in memory once.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import cellc_runtime
from cellc_runtime import knobs
from cellc_runtime.forks import in_child, renewed
from cellc_runtime.platform import usable_cpus
from cellc_runtime.target import Target

from .worker import HELLO, receive, request, send


class Forked:
    """A process that a worker forked off, with as much of `Popen` as is requested.

    Args:
        requests, answers: the descriptors of this process's ends of the pipes to it.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self.stdin, self.stdout = os.fdopen(requests, "wb"), os.fdopen(answers, "rb")
        self.returncode: int | None = None
        self._handle = -1
        """Of the process, once it has said its number: unlike a number it is not used again."""

    def known(self, pid: int) -> None:
        """It has said its number."""
        try:
            self._handle = os.pidfd_open(pid)
        except OSError:
            self.returncode = 0  # it has ended since

    def poll(self) -> int | None:
        """0 if it has ended (nobody knows how); None if it lives, or may come yet."""
        if self.returncode is None and self._handle >= 0 and self._ended(0):
            self.returncode = 0
        return self.returncode

    def kill(self) -> None:
        """End it. If it has not begun it will find its input closed."""
        if self._handle >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it has ended; the last that is asked."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            self._ended(None, handle)
            os.close(handle)
            self.returncode = 0

    def _ended(self, milliseconds: int | None, handle: int = -1) -> bool:
        poll = select.poll()
        poll.register(self._handle if handle < 0 else handle, select.POLLIN)
        return bool(poll.poll(milliseconds))


class Worker:
    """A process that compiles.

    Args:
        process: an own one, started now, if none is given.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, process: subprocess.Popen[bytes] | Forked | None = None) -> None:
        self.process = process or start_worker()
        self.thread: threading.Thread | None = None
        self.begun = False
        """Whether it has said that it can be asked."""
        with _lock:
            _living.add(self)

    def begins(self) -> bool:
        """Wait until it can be asked; whether it can."""
        stream = self.process.stdout
        assert stream is not None
        if not self.begun:
            said, _, number = (receive(stream) or b"").partition(b" ")
            self.begun = said == HELLO
            if self.begun and isinstance(self.process, Forked):
                self.process.known(int(number))
        return self.begun

    def ask(self, target: Target, text: str) -> None:
        """Ask for the object of a text. Raises OSError if it has ended."""
        stream = self.process.stdin
        assert stream is not None
        send(stream, request(target, text))

    def answer(self) -> bytes | None:
        """Its next answer; None when there will be none."""
        stream = self.process.stdout
        assert stream is not None
        try:
            return receive(stream)
        except (OSError, ValueError):
            return None

    def kill(self) -> None:
        """End it; who waits for its answer gets none."""
        self.process.kill()

    def end(self) -> None:
        """Stop the process without waiting for it."""
        with _lock:
            _living.discard(self)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was left to send to a dead worker
                    stream.close()


_lock = renewed(threading.RLock())
_living: set[Worker] = set()
_idle: list[Worker] = []
_able = not getattr(sys, "frozen", False)
"""Whether workers can be started: an executable with Python inside would run itself again."""


def idle() -> Worker | None:
    """A worker that has nothing to do, if there is one: it is the caller's now."""
    while True:
        with _lock:
            worker = _idle.pop() if _idle else None
        if worker is None or worker.process.poll() is None:
            return worker
        worker.end()


def give_back(worker: Worker) -> None:
    """A worker has nothing to do: somebody else may use it."""
    with _lock:
        worker.thread = None
        _idle.append(worker)


def able() -> bool:
    """Whether this process can have workers at all."""
    return _able and bool(sys.executable)


def unable() -> None:
    """A worker could not begin: no further one is tried."""
    global _able
    _able = False


def living() -> int:
    """How many workers there are, those that have not begun yet among them."""
    with _lock:
        gone = [w for w in _idle if w.process.poll() is not None]
        _idle[:] = [w for w in _idle if w not in gone]
    for worker in gone:
        worker.end()
    return len(_living)


def compile_jobs() -> int:
    """Processes that may compile at once; with one, this process does it."""
    return knobs.read().compile_jobs or usable_cpus()[0]


_SEVERAL = 4
_programs = 0  # How many programs workers were prepared for


def prepare(count: int) -> None:
    """A program is going to be compiled: start workers now, as far as there are none.

    Where program follows program (PyNative mode) a second worker pays for small ones too: most
    have two texts or three.
    """
    global _programs
    _programs += 1
    start(max(count, 2 if _programs >= _SEVERAL else 1))


def start(count: int) -> None:
    """Start workers as far as there are none, `count` at most."""
    jobs = compile_jobs() if able() else 1
    wanted = min(count, jobs) - living() if jobs > 1 else 0
    try:
        if wanted > 1 and can_fork():
            for worker in pair():
                give_back(worker)
            wanted -= 2
        for _ in range(wanted):
            give_back(Worker())
    except OSError:
        return


@cache
def can_fork() -> bool:
    """Whether a worker can be the fork of another one, and then be identified safely."""
    if not hasattr(os, "pidfd_open") or not hasattr(os, "fork"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:  # an older system, or a sandbox
        return False
    return True


def pair() -> tuple[Worker, Worker]:
    """Two workers that load LLVM once. Raises OSError if they cannot be started."""
    requests, answers = _pipe(), _pipe()
    theirs = (requests[0], answers[1])
    try:
        process = start_worker(descriptors=theirs)
    except OSError:
        os.close(requests[1])
        os.close(answers[0])
        raise
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return Worker(process), Worker(Forked(requests[1], answers[0]))


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are no standard streams, though the process may have closed these."""
    spare: list[int] = []
    try:
        while min(ends := os.pipe()) <= 2:
            spare.extend(ends)
        return ends
    finally:
        for end in spare:
            os.close(end)


def end_idle() -> None:
    """End the workers that have nothing to do."""
    while (worker := idle()) is not None:
        worker.end()


def _end_all() -> None:
    """At the end of this process: no worker stays, no thread waits for one."""
    with _lock:
        living = list(_living)
        _idle.clear()
    for worker in living:
        worker.kill()
    for worker in living:
        thread = worker.thread
        if thread is not None:
            thread.join(1.0)  # its read has ended with the process
        worker.end()


def _forget() -> None:
    """In a child made by fork: the workers are its parent's. They end when they are idle."""
    _idle.clear()
    for worker in _living:
        worker.process.returncode = 0  # not this process's to wait for
    _parents.extend(_living)
    _living.clear()


_parents: list[Worker] = []
"""In a child made by fork: workers of its parent, whose streams must not be touched."""

atexit.register(_end_all)
in_child(_forget)


def start_worker(*program: str, descriptors: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """A process that answers requests; see `compile_worker`.

    Args:
        program: what its interpreter runs instead.
        descriptors: of pipes for a second process that it forks off.
    """
    # A process group of its own: the terminal's Ctrl-C reaches the parent, which ends workers.
    group = -1 if sys.platform == "win32" else 0
    command = program or ("-m", "cellc_compiler.build.worker", *map(str, descriptors))
    return subprocess.Popen(
        [*ISOLATED_PYTHON, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=isolated_environment(), process_group=group, pass_fds=descriptors,
    )


ISOLATED_PYTHON = (sys.executable, "-P")
"""How a process of Python starts that imports nothing from the current folder, which may hold a
module with the name of one of ours or of Python's."""


def isolated_environment(*roots: str) -> dict[str, str]:
    """The environment for it: it finds the packages that this process uses. `roots`: folders of
    further packages."""
    own = [str(Path(p).parents[n]) for p, n in ((__file__, 2), (cellc_runtime.__file__, 1))]
    given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*roots, *own, *given]))}
