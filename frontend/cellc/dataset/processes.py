"""Worker processes: a function on tasks, in other processes of this machine.

Each worker has one socket, for tasks and results. Tasks go to the workers in turn, and results are
requested in that order, so nothing has to be sorted. Long arrays go through memory that has no
name: a file of the kernel's whose descriptor is sent; so nothing remains, whoever is killed.

A worker ends when its socket is shut down, and when the process that started it is gone. A thread
of its own watches for both, so it does not matter what the user's function does meanwhile.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import random
import signal
import socket
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import connection, reduction
from typing import Any

import numpy as np

from .. import log
from . import config

_SHARED = 1 << 16  # Bytes from which arrays go through memory instead of the socket
_ALIGNED = 64
_WATCH = 1.0  # Seconds between two looks whether the process that started a worker is still there
_PATIENCE = 2.0  # Seconds that a worker has to end by itself


class WorkerError(RuntimeError):
    """A worker process that ended: no fault of a row."""


class _Told(Exception):
    """The traceback of an exception in another process, as its cause here."""

    def __init__(self, text: str) -> None:
        super().__init__(f"\n{text}")


# --- values between processes ---------------------------------------------------------------------


def send(channel: Any, value: Any, limit: int) -> None:
    """Send a value; arrays of up to `limit` bytes together go through shared memory."""
    found: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, 5, buffer_callback=found.append)
    parts = [b.raw() for b in found]
    sizes = [p.nbytes for p in parts]
    shared = _SHARED <= sum(sizes) <= limit and hasattr(os, "memfd_create") and \
        config.get_enable_shared_mem()
    channel.send((shared, data, sizes))
    if not shared:
        for part in parts:
            channel.send_bytes(part)
        return
    memory = os.memfd_create("cellc_rows")
    try:
        with open(memory, "wb", closefd=False) as stream:
            for part, start in zip(parts, _starts(sizes), strict=True):
                stream.seek(start)
                stream.write(part)
        reduction.send_handle(channel, memory, None)
    finally:
        os.close(memory)


def receive(channel: Any) -> Any:
    """Return the data that the other side sent; its arrays are the receiver's own. Raises EOFError
    or OSError if there is no other side any more."""
    shared, data, sizes = channel.recv()
    if not shared:
        return pickle.loads(data, buffers=[bytearray(channel.recv_bytes()) for _ in sizes])
    buffers = [bytearray(size) for size in sizes]
    memory = reduction.recv_handle(channel)
    # Read, not mapped: a mapping keeps its descriptor, and rows may be kept by the thousand.
    with open(memory, "rb") as stream:
        for buffer, start in zip(buffers, _starts(sizes), strict=True):
            stream.seek(start)
            stream.readinto(buffer)
    return pickle.loads(data, buffers=buffers)


def _starts(sizes: Sequence[int]) -> list[int]:
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _ALIGNED) * _ALIGNED
    return starts


# --- in a worker ----------------------------------------------------------------------------------


def _serve(
    channel: Any, function: Callable[..., Any], parent: int, seed: int | None, limit: int
) -> None:
    """Run the loop of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it hears of it, and ends it
    tasks: queue.SimpleQueue[tuple[int, tuple[Any, ...]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(channel, parent, tasks), daemon=True).start()
    while True:
        number, task = tasks.get()
        if seed is not None:
            _seed_of_task(seed, number)
        try:
            _send_result(channel, *_outcome(function, task), limit)
        except OSError:  # nobody listens
            _leave()


def _listen(channel: Any, parent: int, tasks: Any) -> None:
    """Receive tasks as they arrive, so that the sender need not wait; ends with the socket."""
    try:
        while True:
            while not channel.poll(_WATCH):
                if os.getppid() != parent:
                    _leave()
            tasks.put(receive(channel))
    except (EOFError, OSError):
        _leave()


def _leave() -> None:
    """End at once, whatever the user's function is at."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.raise_signal(signal.SIGKILL)


def _seed_of_task(seed: int, number: int) -> None:
    """Global generators differ from task to task, not from worker to worker."""
    random.seed(seed << 64 | number)
    np.random.seed([seed & 0xFFFFFFFF, number & 0xFFFFFFFF])


def _outcome(function: Callable[..., Any], task: tuple[Any, ...]) -> tuple[str, Any]:
    """A result and no text, or an exception and its traceback."""
    try:
        return "", function(*task)
    except Exception as error:
        return traceback.format_exc(), error


def _send_result(channel: Any, text: str, value: Any, limit: int) -> None:
    try:
        send(channel, (text, value), limit)
    except OSError:
        raise
    except Exception as error:  # it cannot be pickled: an exception or a row of the user's
        what = f"{type(value).__name__}: {value}" if text else \
            f"the result cannot be sent to the process that asked for it: {error}"
        send(channel, (text or traceback.format_exc(), RuntimeError(what)), limit)


# --- who asks -------------------------------------------------------------------------------------


@contextmanager
def _safe_path() -> Iterator[None]:
    """A process that starts in the block imports nothing from the current folder."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


class _Worker:
    """One process, and this side of its socket."""

    def __init__(self, method: str, target: Callable[[Any], None]) -> None:
        context: Any = multiprocessing.get_context(method)
        self.channel, other = context.Pipe()
        self.process = context.Process(target=target, args=(other,), daemon=True)
        with warnings.catch_warnings():
            # From Python 3.12 on a fork in a process with threads gives a warning, also for those
            # of numpy's BLAS, which are made for it.
            warnings.simplefilter("ignore", DeprecationWarning)
            with _safe_path() if method == "spawn" else nullcontext():
                self.process.start()
        other.close()

    def ended(self, number: int) -> WorkerError:
        """The error that says what became of it."""
        self.process.join(_PATIENCE)
        code = self.process.exitcode
        how = f"ended with exit code {code}" if code is None or code >= 0 else \
            f"was killed by signal {-code}; memory may be too small for this number of workers"
        return WorkerError(
            f"A worker process of the dataset (pid {self.process.pid}) {how}, before it gave task "
            f"{number} back. Its output says more; with num_parallel_workers=1 or "
            "python_multiprocessing=False (of a DataLoader: num_workers=0) the work is done in "
            "this process.")

    def receive(self, number: int) -> tuple[str, Any]:
        """Its next result. Raises WorkerError if it has ended."""
        waited = config.get_multiprocessing_timeout_interval()
        while True:
            ready = connection.wait([self.channel, self.process.sentinel], waited)
            if self.channel in ready:
                try:
                    found: tuple[str, Any] = receive(self.channel)
                    return found
                except (EOFError, OSError):
                    raise self.ended(number) from None
            if ready:
                raise self.ended(number)
            log.warning("A worker process of the dataset (pid %s) has been at task %s for %s "
                        "seconds.", self.process.pid, number, waited)


def _stop(workers: Sequence[_Worker], process: int) -> None:
    """End processes: first all are asked to end, then those that remain are killed."""
    if os.getpid() != process:
        return  # a child made by fork ends; they work for its parent
    for worker in workers:
        # Not closed: processes that were forked later have this end of the socket too.
        with socket.socket(fileno=os.dup(worker.channel.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
    for worker in workers:
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
        worker.channel.close()


class ProcessPool:
    """Processes that call a function.

    Args:
        function: called with the elements of a task.
        count: how many processes.
        method: how they start: "fork" or "spawn".
        limits: the bytes of a task, and of a result, up to which it goes through shared memory.
        seeded: whether Python's and numpy's global generators restart for each task.
    """

    def __init__(
        self, function: Callable[..., Any], count: int, method: str,
        limits: tuple[int, int] = (sys.maxsize, sys.maxsize), seeded: bool = True,
    ) -> None:
        chosen = config.chosen_seed()
        seed = None if not seeded else \
            int.from_bytes(os.urandom(4), "little") if chosen is None else chosen
        target = partial(_serve, function=function, parent=os.getpid(), seed=seed, limit=limits[1])
        self._limit, self._sent = limits[0], 0
        self._workers: list[_Worker] = []
        self.stop = weakref.finalize(self, _stop, self._workers, os.getpid())
        """Ends the workers; so does losing the last reference to this."""
        for _ in range(count):
            self._workers.append(_Worker(method, target))

    def submit(self, task: tuple[Any, ...]) -> Callable[[], Any]:
        """Hand out a task. Results are to be requested in the order of their tasks. Raises
        WorkerError if the next worker has ended."""
        return self.submit_to(self._sent % len(self._workers), task)

    def submit_to(self, which: int, task: tuple[Any, ...]) -> Callable[[], Any]:
        """As `submit`, to one of the workers; of each of them results are requested in order.
        Raises WorkerError if the worker has ended."""
        number, self._sent = self._sent, self._sent + 1
        worker = self._workers[which]
        try:
            send(worker.channel, (number, task), self._limit)
        except OSError:
            raise worker.ended(number) from None
        return partial(_result, worker, number)

    def ready(self, which: Sequence[int], patience: float | None) -> list[int]:
        """Those of some workers that have a result, or have ended; after `patience` seconds
        none."""
        ends: dict[Any, int] = {}
        for w in which:
            ends |= {self._workers[w].channel: w, self._workers[w].process.sentinel: w}
        found = connection.wait(list(ends), patience)
        return [ends[end] for end in found]


def _result(worker: _Worker, number: int) -> Any:
    """Return the function's result for a task, or raise its exception."""
    text, value = worker.receive(number)
    if not text:
        return value
    raise value from _Told(text)
