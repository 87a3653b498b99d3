"""Makers of a DataLoader's batches: here, in worker processes, or in threads."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Any

import numpy as np

from cellc_runtime.records import dataclass

from ...tensors.seed import manual_seed, set_seed
from ..processes import ProcessPool
from ..rows import failed

Made = Callable[[], tuple[bool, Any]]
"""Gives whether the rows of a worker are over, and a batch; or raises what made none."""


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker this is."""

    id: int  # counted from 0
    num_workers: int  # how many there are
    seed: int  # of the worker's global generators
    dataset: Any  # its own copy


class _Here:
    """Which worker this process is, and each thread."""

    process: WorkerInfo | None = None
    thread = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Which worker of a DataLoader this code runs in: `id`, `num_workers`, `seed`, `dataset`; None
    outside of one."""
    found: WorkerInfo | None = getattr(_Here.thread, "info", _Here.process)
    return found


class Fetch:
    """Makes batches of a dataset.

    Args:
        dataset: where rows come from.
        iterable: whether they come one after the other.
        batched: whether a batch has several.
        collate_fn: called with the rows of a batch, or the one row.
        drop_last: of rows one after the other: whether fewer than a batch has are dropped.
    """

    def __init__(
        self, dataset: Any, iterable: bool, batched: bool, collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset, self.iterable, self.batched = dataset, iterable, batched
        self.collate_fn, self.drop_last = collate_fn, drop_last
        self._rows: Iterator[Any] | None = None
        self._over = False

    def start(self) -> None:
        """Begin with the first row again."""
        self._rows, self._over = iter(self.dataset) if self.iterable else None, False

    def __call__(self, where: Any) -> tuple[bool, Any]:
        """Whether rows are over, and a batch: of the rows at positions, or of the next ones."""
        if self._rows is None:
            rows = [self.dataset[i] for i in where] if self.batched else self.dataset[where]
            return False, self.collate_fn(rows)
        found = []
        for row in () if self._over else self._rows:
            found.append(row)
            if not self.batched or len(found) == len(where):
                break
        self._over = not found or (self.batched and len(found) < len(where))
        if not found or (self._over and self.drop_last):
            return True, None
        return False, self.collate_fn(found if self.batched else found[0])


class InWorker:
    """Executes a worker's tasks: (its number, "start" or "fetch", where).

    Args:
        fetch: makes the batches.
        count: how many workers there are.
        base_seed: the seeds of the workers follow from it.
        init: called with the number of the worker before its first task, or None.
        threads: whether workers are threads, which have no generators of their own.
    """

    def __init__(
        self, fetch: Fetch, count: int, base_seed: int, init: Callable[[int], None] | None,
        threads: bool = False,
    ) -> None:
        self._fetch, self._count, self._base_seed = fetch, count, base_seed
        self._init, self._threads, self._known = init, threads, False

    def __call__(self, number: int, what: str, where: Any) -> tuple[bool, Any]:
        """Do a task."""
        try:
            if not self._known:
                self._begin(number)
                self._known = True
            if what == "start":
                self._fetch.start()
                return False, None
            return self._fetch(where)
        except Exception as error:
            raise failed(f"DataLoader worker {number}", error) from error

    def own(self) -> InWorker:
        """The same for another thread."""
        made = copy.copy(self)
        made._fetch = copy.copy(self._fetch)
        return made

    def _begin(self, number: int) -> None:
        seed = self._base_seed + number
        info = WorkerInfo(number, self._count, seed, self._fetch.dataset)
        if self._threads:
            _Here.thread.info = info
        else:
            _Here.process = info
            set_seed(seed & 0xFFFFFFFF)
            manual_seed(seed)
            random.seed(seed & 0xFFFFFFFF)
            low, high = self._base_seed & 0xFFFFFFFF, self._base_seed >> 32
            np.random.seed(np.random.SeedSequence([number, low, high, 0]).generate_state(4))
        if self._init is not None:
            self._init(number)


class Processes:
    """Workers that are processes.

    Args:
        count: how many there are.
        method: how they start: "fork" or "spawn".
    """

    def __init__(self, work: InWorker, count: int, method: str) -> None:
        self._pool = ProcessPool(work, count, method, seeded=False)
        self.stop = self._pool.stop

    def submit(self, worker: int, what: str, where: Any) -> Made:
        """Hand a task to one of them; its results are to be requested in the order of its tasks."""
        return self._pool.submit_to(worker, (worker, what, where))

    def ready(self, waiting: Sequence[tuple[int, Made]], patience: float | None) -> list[int]:
        """Which workers have a result, or have ended; after `patience` seconds none."""
        return self._pool.ready([worker for worker, _ in waiting], patience)


class Threads:
    """Workers that are threads.

    Args:
        count: how many there are.
    """

    def __init__(self, work: InWorker, count: int) -> None:
        self._work = [work.own() for _ in range(count)]
        self._threads = [futures.ThreadPoolExecutor(1, "cellc_loader") for _ in range(count)]
        self._given: dict[Made, futures.Future[Any]] = {}

    def submit(self, worker: int, what: str, where: Any) -> Made:
        """Hand a task to one of them."""
        future = self._threads[worker].submit(self._work[worker], worker, what, where)
        self._given = {m: f for m, f in self._given.items() if not f.done()}
        self._given[future.result] = future
        return future.result

    def ready(self, waiting: Sequence[tuple[int, Made]], patience: float | None) -> list[int]:
        """Which workers have a result; after `patience` seconds none."""
        under_way = {made: self._given[made] for _, made in waiting if made in self._given}
        if len(under_way) == len(waiting):
            futures.wait(under_way.values(), patience, futures.FIRST_COMPLETED)
        return [w for w, made in waiting if made not in under_way or under_way[made].done()]

    def stop(self) -> None:
        """Drop what is not begun."""
        for thread in self._threads:
            thread.shutdown(wait=False, cancel_futures=True)
