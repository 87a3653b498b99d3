"""`DataLoader`: batches of a dataset, made here or ahead by worker processes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np

from ... import log
from ...core.declared import Flag, NonNegative, NonNegativeNumber, Positive
from ...core.native import names_itself
from ..processes import WorkerError
from ..workers import start_method
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, Generated, RandomSampler, SequentialSampler
from .worker import Fetch, InWorker, Made, Processes, Threads

T_co = TypeVar("T_co", covariant=True)


@names_itself
class DataLoader(Generic[T_co]):
    """Batches of a dataset, to iterate over.

    Args:
        dataset: has `__getitem__`, or is an `IterableDataset`.
        batch_size: rows of a batch; None: rows as they are.
        shuffle: whether rows come in random order.
        sampler: positions of rows, instead of `shuffle`.
        batch_sampler: lists of positions, instead of `batch_size`, `shuffle`, `sampler` and
            `drop_last`.
        num_workers: how many worker processes make batches ahead; 0: they are made here.
        collate_fn: makes a batch of a list of rows; None: `default_collate`, or `default_convert`
            of the row without batches.
        pin_memory: accepted for compatibility: it changes nothing on a CPU.
        drop_last: whether a last batch with fewer rows is left out.
        timeout: seconds to wait for a worker; 0 for ever.
        worker_init_fn: called in each worker with its number.
        multiprocessing_context: how workers start: "fork", "spawn" or a context of one of them;
            None: as pipelines say (`config.set_multiprocessing_start_method`). Where a process
            cannot start so, threads do the work, with a warning.
        generator: draws the order of rows and the seeds of workers; None: a new one.
        prefetch_factor: how many batches each worker makes ahead; None: 2.
        persistent_workers: whether workers stay for the next epoch.
        in_order: whether batches come in the order of the sampler; else as they are done.
    """

    def __init__(
        self, dataset: Any, batch_size: Positive | None = 1, shuffle: Flag | None = None,
        sampler: Iterable[Any] | None = None, batch_sampler: Iterable[Any] | None = None,
        num_workers: NonNegative = 0, collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: Flag = False, drop_last: Flag = False, timeout: NonNegativeNumber = 0.0,
        worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
        generator: Generated | None = None, *, prefetch_factor: Positive | None = None,
        persistent_workers: Flag = False, in_order: Flag = True,
    ) -> None:
        self._iterable = isinstance(dataset, IterableDataset)
        if not self._iterable and not hasattr(dataset, "__getitem__"):
            raise TypeError(f"{type(dataset).__name__} should implement the __getitem__ method if "
                            "it is map style; one without is to be an IterableDataset.")
        self.dataset, self.generator = dataset, generator or np.random.default_rng()
        self._choose(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.num_workers = num_workers
        self.timeout = timeout
        _only_with_workers(num_workers, multiprocessing_context=multiprocessing_context,
                           prefetch_factor=prefetch_factor,
                           persistent_workers=persistent_workers or None)
        self.multiprocessing_context = multiprocessing_context
        self._method = _method(multiprocessing_context)
        self.prefetch_factor = prefetch_factor \
            if prefetch_factor is not None else 2 if num_workers else None
        self.collate_fn, self.worker_init_fn = collate_fn, worker_init_fn
        self.pin_memory, self.in_order = pin_memory, in_order
        self.persistent_workers = persistent_workers
        self._kept: _Ahead | None = None

    def _choose(
        self, batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        """Which rows are in which batch."""
        clashes = {"shuffle": bool(shuffle), "sampler": sampler is not None}
        if self._iterable:
            _exclusive("when dataset is iterable style",
                       **clashes, batch_sampler=batch_sampler is not None)
        if sampler is not None and shuffle:
            raise ValueError("sampler cannot be specified with shuffle.")
        if batch_sampler is not None:
            _exclusive("with batch_sampler", batch_size=batch_size != 1, **clashes,
                       drop_last=drop_last)
            batch_size = None
        if sampler is None:
            sampler = repeat(None) if self._iterable else \
                RandomSampler(self.dataset, generator=self.generator) if shuffle else \
                SequentialSampler(self.dataset)
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        self.batch_sampler = BatchSampler(sampler, batch_size, drop_last) \
            if batch_size is not None else batch_sampler

    def _positions(self) -> Iterator[Any]:
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)

    def _fetch(self) -> Fetch:
        batched = self.batch_sampler is not None
        made = self.collate_fn or (default_collate if batched else default_convert)
        return Fetch(self.dataset, self._iterable, batched, made, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        if self.pin_memory:
            log.warning("DataLoader: pin_memory has no effect on a CPU.")
        if not self.num_workers:
            return _Here(self)
        if not self.persistent_workers:
            return _Ahead(self)
        if self._kept is None or self._kept.stopped:
            self._kept = _Ahead(self)
        else:
            self._kept.start()
        return self._kept

    def __len__(self) -> int:
        """How many batches there are.

        Raises:
            TypeError: the dataset or the sampler has no length.
        """
        if not self._iterable:
            chosen = self.sampler if self.batch_sampler is None else self.batch_sampler
            if not isinstance(chosen, Sized):
                raise TypeError(f"{type(chosen).__name__} has no length.")
            return len(chosen)
        count, size = len(self.dataset), self.batch_size or 1
        return count // size if self.drop_last else -(-count // size)


def _exclusive(when: str, **given: bool) -> None:
    for name, there in given.items():
        if there:
            raise ValueError(f"{name} cannot be specified {when}.")


def _only_with_workers(count: Any, **given: Any) -> None:
    for name, value in given.items():
        if value is not None and not (isinstance(count, int) and count > 0):
            raise ValueError(f"{name} must only be specified when num_workers is greater than 0, "
                             f"but got: {count}.")


def _method(context: Any) -> str | None:
    """How processes start, of a name or of a context of Python's."""
    if context is None:
        return None
    name = context if isinstance(context, str) else \
        context.get_start_method() if hasattr(context, "get_start_method") else None
    if name not in ("fork", "spawn", "forkserver"):
        raise TypeError("multiprocessing_context must be 'fork', 'spawn' or a context of "
                        f"multiprocessing, but got: {context!r}.")
    return "fork" if name == "fork" else "spawn"


class _Here:
    """Batches that are made when they are requested."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader, self._positions = loader, loader._positions()
        self._fetch = loader._fetch()
        self._fetch.start()

    def __iter__(self) -> _Here:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        over, batch = self._fetch(next(self._positions))
        if over:
            raise StopIteration
        return batch


class _Ahead:
    """Batches that workers make ahead.

    Tasks go to the workers in turn, as many as are to be under way; a worker whose rows are over
    gets no more. A task after its last row gives nothing and is passed over.
    """

    stopped = False

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader, count = loader, loader.num_workers
        if count > (os.cpu_count() or 1):
            log.warning("DataLoader: num_workers=%s is more than the %s processors of this "
                        "machine.", count, os.cpu_count())
        seed = int(loader.generator.integers(0, np.iinfo(np.int64).max + 1, dtype=np.int64))
        work = InWorker(loader._fetch(), count, seed, loader.worker_init_fn)
        method = start_method(work, loader._method)
        self._pool: Processes | Threads = Processes(work, count, method) if method else \
            Threads(InWorker(loader._fetch(), count, seed, loader.worker_init_fn, True), count)
        self._waiting: deque[tuple[int, Made]] = deque()
        self.start()

    def start(self) -> None:
        """Begin an epoch; what is under way of another one is dropped."""
        self._drain()
        loader = self._loader
        self._positions, self._next = loader._positions(), 0
        self._working = [True] * loader.num_workers
        for worker in range(loader.num_workers):
            self._waiting.append((worker, self._pool.submit(worker, "start", None)))
        while self._waiting:
            self._take(0)
        for _ in range(loader.num_workers * (loader.prefetch_factor or 1)):
            self._hand_out()

    def _drain(self) -> None:
        while self._waiting:
            try:
                self._take(0)
            except Exception as error:
                log.warning("DataLoader: a batch that nobody asked for failed: %s", error)

    def _hand_out(self) -> None:
        """Give the next task to the next worker that has rows, if there is one."""
        workers = [(self._next + i) % len(self._working) for i in range(len(self._working))]
        worker = next((w for w in workers if self._working[w]), None)
        where = next(self._positions, _NONE)
        if worker is None or where is _NONE:
            return
        try:
            made = self._pool.submit(worker, "fetch", where)
        except WorkerError as error:  # comes after the batches that are made
            made = partial(_refuse, error)
        self._waiting.append((worker, made))
        self._next = worker + 1

    def _take(self, place: int) -> tuple[int, bool, Any]:
        """The next result: its worker, whether the rows of that worker have ended, the batch."""
        worker, made = self._waiting[place]
        patience = self._loader.timeout
        if patience and not self._pool.ready([(worker, made)], patience):
            self.stop()
            raise RuntimeError(f"DataLoader timed out waiting for data after {patience} seconds.")
        del self._waiting[place]
        over, batch = made()
        return worker, over, batch

    def _done(self) -> int:
        """Where the result is that is taken next."""
        if self._loader.in_order:
            return 0
        first: dict[int, Made] = {}
        for worker, made in self._waiting:
            first.setdefault(worker, made)
        ready = self._pool.ready(list(first.items()), self._loader.timeout or None)
        return next((i for i, (w, _) in enumerate(self._waiting) if w in ready), 0)

    def __iter__(self) -> _Ahead:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        while self._waiting:
            try:
                worker, over, batch = self._take(self._done())
            except WorkerError:
                self.stop()
                raise
            except Exception:
                if not self.stopped:
                    self._hand_out()
                raise
            if over:
                self._working[worker] = False
            self._hand_out()
            if not over:
                return batch
        if not self._loader.persistent_workers:
            self.stop()
        raise StopIteration

    def stop(self) -> None:
        """End the workers."""
        self.stopped = True
        self._waiting.clear()
        self._pool.stop()


_NONE = object()


def _refuse(error: WorkerError) -> tuple[bool, Any]:
    raise error
