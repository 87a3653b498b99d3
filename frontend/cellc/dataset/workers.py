"""Rows made ahead by several workers, given in the order in which one would make them.

The consumer of a row hands out tasks first, until enough of them are under way. So nothing runs in
the background but the tasks, what is ahead is bounded, and a pipeline that nobody asks stands
still. Workers are threads, or processes (`processes`) where the caller wants them.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any, Protocol

from cellc_runtime.records import dataclass

from .. import log
from . import config
from .processes import ProcessPool
from .rows import Row, Run

Made = Callable[[], Any]  # Gives what a function made of a task, or raises what it raised


class Pool(Protocol):
    """Workers that are given tasks, and asked for their results in the same order."""

    def submit(self, task: tuple[Any, ...]) -> Made:
        """Hand out a task."""

    def stop(self) -> None:
        """End the workers, whatever they do."""


class ThreadPool:
    """Threads that call a function.

    Args:
        function: called with the elements of a task.
        count: how many threads.
    """

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self._function = function
        self._threads = ThreadPoolExecutor(count, "cellc_dataset")

    def submit(self, task: tuple[Any, ...]) -> Made:
        """Hand out a task."""
        return self._threads.submit(self._function, *task).result

    def stop(self) -> None:
        """Drop what is not begun; what a thread does it ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Workers:
    """The workers of an operation."""

    # how many workers its user asked for; None: as many as the configuration says
    given: int | None = None
    processes: bool = False  # whether they are processes
    # the bytes of a task, and of a result, up to which it goes through shared memory
    limits: tuple[int, int] = (sys.maxsize, sys.maxsize)

    @property
    def count(self) -> int:
        """How many; one means that the caller does the work."""
        if config.get_debug_mode():
            return 1
        return self.given or config.workers_asked_for() or 1

    def pool(self, function: Callable[..., Any]) -> Pool:
        """New workers."""
        method = start_method(function) if self.processes else None
        if method is None:
            return ThreadPool(function, self.count)
        return ProcessPool(function, self.count, method, self.limits)


ONE = Workers(1)


def made_of(
    workers: Workers, function: Callable[..., Any], items: Iterable[tuple[Any, tuple[Any, ...]]],
    run: Run, owner: object,
) -> Iterator[tuple[Any, Made]]:
    """Yield a function's results for tasks, in their order.

    Args:
        workers: who calls it.
        function: the same in all epochs, for its workers stay from one to the next.
        items: of each task what its caller keeps, and the arguments.
        run: the epoch.
        owner: whose workers these are.
    """
    if workers.count == 1:
        for kept, arguments in items:
            yield kept, partial(function, *arguments)
        return
    # Workers that are in use are not among those kept: a dataset may be gone through twice at once.
    pool = run.pools.pop(id(owner), None) or workers.pool(function)
    done = False
    try:
        handed = ((kept, pool.submit(arguments)) for kept, arguments in items)
        yield from under_way(handed, max(workers.count, config.get_prefetch_size()), run)
        done = True
    finally:
        if done:
            run.pools[id(owner)] = pool
        else:
            pool.stop()


def under_way(
    handed: Iterator[tuple[Any, Made]], most: int, run: Run | None = None
) -> Iterator[tuple[Any, Made]]:
    """Yield tasks with at most `most` under way; one by one where the run says so.

    Raises:
        Exception: one of the tasks' source, raised after all earlier results.
    """
    waiting: deque[tuple[Any, Made]] = deque()
    failure = None
    while True:
        try:
            waiting.append(next(handed))
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        while len(waiting) >= most or (waiting and run is not None and run.in_step):
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()
    if failure is not None:
        raise failure


def rows_of(
    workers: Workers, function: Callable[..., Row], tasks: Iterable[tuple[Any, ...]], run: Run,
    owner: object,
) -> Iterator[Row]:
    """As `made_of`, where each task makes a row."""
    items = ((None, task) for task in tasks)
    return (made() for _, made in made_of(workers, function, items, run, owner))


def in_thread(rows: Iterator[Row]) -> Iterator[Row]:
    """The rows of an iterator, which one thread asks for ahead."""
    pool = ThreadPool(partial(next, rows, None), 1)
    try:
        handed = ((None, pool.submit(())) for _ in repeat(None))
        for _, made in under_way(handed, config.get_prefetch_size()):
            row = made()
            if row is None:
                return
            yield row
    finally:
        pool.stop()


# --- how processes start --------------------------------------------------------------------------


def start_method(function: Callable[..., Any], wanted: str | None = None) -> str | None:
    """How worker processes start; None, with a warning, where only threads can do the work.

    Args:
        wanted: "fork" or "spawn"; None: as the configuration says.

    A fork is what MindSpore's users write for: functions need no name, and scripts no guard. But a
    fork in a process with other threads of Python may wait for ever for locks that they held.
    """
    wanted = wanted or config.get_multiprocessing_start_method()
    if multiprocessing.current_process().daemon:
        why = "this is a worker process itself"
    elif wanted == "fork" and threading.active_count() == 1 and hasattr(os, "fork"):
        return "fork"
    else:
        why = _unsendable(function)
        if not why:
            return "spawn"
    log.warning("Rows are made by threads instead of processes: %s.", why)
    return None


class _Sink:
    """Takes what is pickled, and notes whether it names the user's script."""

    names_main = False

    def write(self, data: Any) -> int:
        self.names_main |= b"__main__" in bytes(data)
        return len(data)


def _unsendable(function: Callable[..., Any]) -> str:
    """Return why a new process cannot have a function; empty if it can."""
    sink = _Sink()
    try:
        pickle.Pickler(sink).dump(function)
    except Exception as error:  # __reduce__ of anything the user's function holds
        return (f"other threads run, and to a process that starts anew the function cannot be sent "
                f"({type(error).__name__}: {error}); define it at the level of a module")
    path = getattr(sys.modules["__main__"], "__file__", None)
    if path is None or not os.path.isfile(path):
        return "it is defined in no file" if sink.names_main else ""
    if not _is_guarded(path):
        return (f"other threads run, and a process that starts anew would run {path} again: put "
                "what it does below 'if __name__ == \"__main__\":'")
    return ""


def _is_guarded(path: str) -> bool:
    """Whether a script asks at its top level if it is the one that was started."""
    try:
        with open(path, "rb") as stream:
            body = ast.parse(stream.read()).body
    except (SyntaxError, ValueError):  # no script of Python's: a program that holds one
        return True
    return any(isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) for node in body)
