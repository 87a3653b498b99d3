"""`Dataset`: rows of named columns, and the methods that make one dataset from another.

A pipeline is a tree of datasets. Nothing runs until rows are asked for; then each operation asks
those before it, row by row, in the thread that asked. So an error carries the whole stack. An
operation with several workers asks for some rows ahead and lets these work on them (`workers`).
`base` has what a dataset says of its rows and how one goes through them, `operations` and
`batching` what is done with them.
Source: `mindspore.dataset`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import batching, callbacks, checks, config
from . import operations as _operations
from .base import DatasetBase
from .operations import Operation
from .rows import Row, Run
from .samplers import DistributedSampler, RandomSampler
from .workers import Workers


class Dataset(DatasetBase):
    """Base of datasets. Most of its methods make another dataset, of this one.

    Args:
        children: the datasets it is made from.
        num_parallel_workers: how many workers make rows; None: as many as
            `config.set_num_parallel_workers` said, or one. One is the caller itself.
        cache: must be None.

    Raises:
        ValueError: `cache` is not None.

    Source: `mindspore.dataset.Dataset`.
    """

    # --- rows together ---------------------------------------------------------------------------

    def batch(
        self, batch_size: int | Callable[[batching.BatchInfo], int], drop_remainder: bool = False,
        num_parallel_workers: int | None = None, **kwargs: Any,
    ) -> Dataset:
        """Rows put together, some at a time.

        Args:
            batch_size: rows of a batch, or a function of a `BatchInfo` that says it.
            drop_remainder: whether a last batch with fewer rows is left out.
            num_parallel_workers: how many threads put batches together; None: see `Dataset`.
            kwargs: `per_batch_map`, called with a list for each column and a `BatchInfo`;
                `input_columns`, which of them it takes; `output_columns`, what its results are
                called; `python_multiprocessing` and `max_rowsize` as for `map`.

        Raises:
            RuntimeError: (when rows are asked for) shapes differ, or a function fails.
        """
        checks.workers(num_parallel_workers)
        size = checks.batch_size(batch_size)
        checks.of_type("drop_remainder", drop_remainder, bool)
        checks.only("batch", kwargs, "per_batch_map", "input_columns", "output_columns",
              "python_multiprocessing", "max_rowsize")
        function, taken = kwargs.get("per_batch_map"), kwargs.get("input_columns")
        given = kwargs.get("output_columns")
        if function is not None and not callable(function):
            raise TypeError("per_batch_map should be a function, but got "
                            f"{type(function).__name__}.")
        if function is None and (taken is not None or given is not None):
            raise ValueError("input_columns and output_columns of 'batch' need a per_batch_map.")
        return BatchDataset(self, batching.Batch(
            size, drop_remainder, function,
            None if taken is None else checks.names("input_columns", taken),
            None if given is None else checks.names("output_columns", given),
            _workers(num_parallel_workers, kwargs)))

    def padded_batch(
        self, batch_size: int | Callable[[batching.BatchInfo], int], drop_remainder: bool = False,
        num_parallel_workers: int | None = None, pad_info: Any = None,
    ) -> Dataset:
        """Rows padded to one shape, and put together.

        Args:
            batch_size, drop_remainder, num_parallel_workers: as for `batch`.
            pad_info: (shape, fill) by column; None in a shape, or for it, means the longest of
                the batch; `{}` means that of all columns, filled up with 0.
        """
        checks.workers(num_parallel_workers)
        checks.of_type("drop_remainder", drop_remainder, bool)
        size = checks.batch_size(batch_size)
        return BatchDataset(
            self, batching.PaddedBatch(size, drop_remainder, pad_info=checks.pad_info(pad_info),
                                       workers=Workers(num_parallel_workers)))

    def bucket_batch_by_length(
        self, column_names: Any, bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int], element_length_function: Any = None,
        pad_info: Any = None, pad_to_bucket_boundary: bool = False, drop_remainder: bool = False,
    ) -> Dataset:
        """Rows put together with rows of about their length, padded.

        Args:
            column_names: what the length is found from.
            bucket_boundaries: increasing; bucket i has lengths below boundary i.
            bucket_batch_sizes: rows of a batch; one more than there are boundaries.
            element_length_function: of the columns; None: the first axis of the only one.
            pad_info: as for `padded_batch`.
            pad_to_bucket_boundary: whether None in shapes means the boundary - 1.
            drop_remainder: whether batches with fewer rows are left out.
        """
        names = checks.names("column_names", column_names)
        for what, values in (("bucket_boundaries", bucket_boundaries),
                             ("bucket_batch_sizes", bucket_batch_sizes)):
            checks.of_type(what, values, (list, tuple))
            if not values:
                raise ValueError(f"{what} cannot be empty.")
            for i, each in enumerate(values):
                checks.integer(f"{what}[{i}]", each, 1)
        if any(a >= b for a, b in pairwise(bucket_boundaries)):
            raise ValueError("bucket_boundaries should be strictly increasing.")
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                "bucket_batch_sizes must contain one element more than bucket_boundaries.")
        if element_length_function is None and len(names) != 1:
            raise ValueError("If element_length_function is not specified, exactly one column name "
                             f"should be passed, but got {names}.")
        checks.of_type("pad_to_bucket_boundary", pad_to_bucket_boundary, bool)
        checks.of_type("drop_remainder", drop_remainder, bool)
        return BatchDataset(self, batching.Buckets(
            names, list(bucket_boundaries), list(bucket_batch_sizes), element_length_function,
            checks.pad_info(pad_info), pad_to_bucket_boundary, drop_remainder))

    # --- rows ------------------------------------------------------------------------------------

    def map(
        self, operations: Any, input_columns: Any = None, output_columns: Any = None,
        num_parallel_workers: int | None = None, **kwargs: Any,
    ) -> Dataset:
        """Functions on some columns of each row.

        Args:
            operations: a function or transform, or a list of them.
            input_columns: what the first takes; None for the first column.
            output_columns: what the results of the last are called; None for the same. With as
                many as were taken, each is in its column's place; else the new ones come first.
            num_parallel_workers: how many workers call them; None: see `Dataset`. With several
                what a transform draws differs from that with one, but not with their number.
            kwargs: `python_multiprocessing`, whether workers are processes instead of threads;
                `max_rowsize`, up to how many MB a row goes to and from processes through shared
                memory (two of them in a list; None or -1 for any); `callbacks`, a `DSCallback` or
                a list of them; `cache` (must be None); `offload` for compatibility.

        Raises:
            RuntimeError: (when rows are asked for) a function fails.
        """
        checks.workers(num_parallel_workers)
        checks.only("map", kwargs, "python_multiprocessing", "max_rowsize", "cache", "callbacks",
              "offload")
        if kwargs.get("cache") is not None:
            raise ValueError("map: 'cache' must be None.")
        functions = operations if isinstance(operations, (list, tuple)) else [operations]
        if not functions:
            raise ValueError("Parameter operations of method map cannot be empty.")
        for each in functions:
            if not callable(each):
                raise ValueError("Parameter operations's element of method map should be a python "
                                 "function or class method which should be callable, but got: "
                                 f"{each}.")
        taken = None if input_columns is None else checks.names("input_columns", input_columns)
        given = None if output_columns is None else checks.names("output_columns", output_columns)
        return MapDataset(self, _operations.Map(
            list(functions), taken, given, _workers(num_parallel_workers, kwargs),
            callbacks.checked(kwargs.get("callbacks"))))

    def filter(
        self, predicate: Callable[..., Any], input_columns: Any = None,
        num_parallel_workers: int | None = None,
    ) -> Dataset:
        """The rows that a function says yes to.

        Args:
            predicate: called with the columns.
            input_columns: which of them; None for all.
            num_parallel_workers: how many threads call it; None: see `Dataset`.
        """
        checks.workers(num_parallel_workers)
        if not callable(predicate):
            raise TypeError("Predicate should be a Python function or a callable Python object.")
        taken = None if input_columns is None else checks.names("input_columns", input_columns)
        return FilterDataset(self, _operations.Filter(
            predicate, taken, Workers(num_parallel_workers)))

    def shuffle(self, buffer_size: int) -> Dataset:
        """Return rows drawn at random from a buffer of `buffer_size`.

        Raises:
            TypeError, ValueError: no int of 2 or more.
        """
        checks.integer("buffer_size", buffer_size, 2)
        return ShuffleDataset(self, _operations.Shuffle(buffer_size))

    def repeat(self, count: int | None = None) -> Dataset:
        """The rows `count` times over; without end for None and -1."""
        if count is not None:
            checks.of_type("count", count, int)
        if count is not None and (count < -1 or count == 0):
            raise ValueError(
                "count should be either -1 or positive integer, range[1, INT32_MAX].")
        return RepeatDataset(self, _operations.Repeat(-1 if count is None else count))

    def take(self, count: int = -1) -> Dataset:
        """The first `count` rows; all for -1."""
        return TakeDataset(self, _operations.Take(checks.count_or_all("count", count)))

    def skip(self, count: int) -> Dataset:
        """All but the first `count` rows.

        Raises:
            TypeError, ValueError: no int of 0 or more.
        """
        return SkipDataset(self, _operations.Skip(checks.integer("count", count, 0)))

    def flat_map(self, func: Callable[..., Dataset]) -> Dataset:
        """The rows of the datasets that a function makes of each row.

        Args:
            func: called with the columns as arrays; gives a dataset.

        Raises:
            TypeError: no function, no row, or what it gives is no dataset.
        """
        if not callable(func):
            raise TypeError(f"func must be a function, but got {type(func).__name__}.")
        made = []
        for row in self.create_tuple_iterator(num_epochs=1, output_numpy=True):
            each = func(*row)
            if not isinstance(each, Dataset):
                raise TypeError(f"flat_map: func must return a dataset, but got {type(each)}.")
            made.append(each)
        if not made:
            raise TypeError("flat_map: there are no rows to make datasets of.")
        return made[0].concat(made[1:]) if len(made) > 1 else made[0]

    def split(self, sizes: Any, randomize: bool = True) -> tuple[Dataset, ...]:
        """Parts without rows in common.

        Args:
            sizes: how many rows each has (ints that add up to the size), or which part of the rows
                (floats that add up to 1).
            randomize: whether the rows of the parts are drawn at random. Which rows a part has
                stays as it is over the epochs.

        Raises:
            RuntimeError: the sizes do not fit.
        """
        checks.of_type("randomize", randomize, bool)
        counts = checks.split_counts(sizes, self.get_dataset_size())
        chosen = config.chosen_seed()
        seed = int.from_bytes(os.urandom(4), "little") if chosen is None else chosen
        starts = np.cumsum([0, *counts]).tolist()
        return tuple(self._part(start, count, seed, randomize)
                     for start, count in zip(starts, counts, strict=False))

    def _part(self, start: int, count: int, seed: int, shuffled: bool) -> Dataset:
        fixed = _Derived(self, _operations.Fixed(seed, shuffled))
        return fixed.skip(start).take(count)

    # --- several datasets ------------------------------------------------------------------------

    def zip(self, datasets: Any) -> Dataset:
        """This and other datasets side by side, as long as the shortest.

        Args:
            datasets: a dataset, or a tuple of them; no two have a column of the same name.
        """
        if isinstance(datasets, tuple):
            return zip_datasets((self, *datasets))
        if isinstance(datasets, Dataset):
            return zip_datasets((self, datasets))
        raise TypeError(f"Invalid datasets, expected Dataset object or tuple of Dataset, but got "
                        f"{datasets!r}!")

    def concat(self, datasets: Any) -> Dataset:
        """This dataset's rows, then those of others with the same columns.

        Raises:
            TypeError: no dataset, nor a list of them.
        """
        many = [datasets] if isinstance(datasets, Dataset) else datasets
        if not isinstance(many, list) or not all(isinstance(d, Dataset) for d in many):
            raise TypeError(f"Argument datasets with value {datasets!r} is not of type "
                            f"['list', 'Dataset'], but got {type(datasets)}.")
        return ConcatDataset([self, *many], _operations.Concat())

    def __add__(self, datasets: Any) -> Dataset:
        return self.concat(datasets)

    def apply(self, apply_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return the dataset that a function makes of this one.

        Raises:
            TypeError: no function, or it gives no dataset.
        """
        if not callable(apply_func):
            raise TypeError("apply_func must be a function.")
        made = apply_func(self)
        if not isinstance(made, Dataset):
            raise TypeError("apply_func must return a dataset.")
        return made

    # --- columns ---------------------------------------------------------------------------------

    def project(self, columns: Any) -> Dataset:
        """Some columns, in the order given."""
        return ProjectDataset(self, _operations.Project(checks.names("columns", columns)))

    def rename(self, input_columns: Any, output_columns: Any) -> Dataset:
        """Other names for some columns.

        Raises:
            TypeError, ValueError: no names, or not equally many.
        """
        before = checks.names("input_columns", input_columns)
        after = checks.names("output_columns", output_columns)
        if len(before) != len(after):
            raise ValueError("Number of column in input_columns and output_columns is not equal.")
        return RenameDataset(self, _operations.Rename(before, after))

    # --- the training loop -----------------------------------------------------------------------

    def sync_wait(
        self, condition_name: str, num_batch: int = 1, callback: Callable[..., Any] | None = None
    ) -> Dataset:
        """A place in the pipeline that `sync_update` sends news to.

        Args:
            condition_name: what it is called.
            num_batch: accepted for compatibility: rows are made when they are asked for, so none
                is made before the news that come before it.
            callback: called with the news.

        Raises:
            TypeError, ValueError, RuntimeError: an argument is wrong, or the name is taken.
        """
        checks.of_type("condition_name", condition_name, str)
        checks.integer("num_batch", num_batch, 1)
        if callback is not None and not callable(callback):
            raise TypeError("callback must be a function.")
        if condition_name in (place.condition_name for place in self._sync_places()):
            raise RuntimeError(f"Condition name is already in use: {condition_name!r}.")
        return SyncWaitDataset(self, _operations.SyncWait(condition_name, callback))

    def sync_update(self, condition_name: str, num_batch: Any = None, data: Any = None) -> None:
        """Send news to a `sync_wait`.

        Args:
            condition_name: what it is called.
            num_batch: None or a positive int; accepted for compatibility.
            data: what its callback is given.

        Raises:
            TypeError, ValueError, RuntimeError: an argument is wrong, or there is no such place.
        """
        if num_batch is not None:
            checks.integer("num_batch", num_batch, 1)
        found = [p for p in self._sync_places() if p.condition_name == condition_name]
        if not found:
            raise RuntimeError(f"Condition name not found: {condition_name!r}.")
        if found[0].callback is not None:
            found[0].callback(data)

    def device_que(
        self, send_epoch_end: bool = True, create_data_info_queue: bool = False,
        queue_name: str = "",
    ) -> Dataset:
        """The dataset, for a device that fetches it: there is one memory, so it stays as it is."""
        return TransferDataset(self, Operation())



def _workers(count: int | None, options: Mapping[str, Any]) -> Workers:
    """The workers that the options of `map` and `batch` ask for."""
    processes = checks.of_type(
        "python_multiprocessing", options.get("python_multiprocessing", False), bool)
    return Workers(count, processes, checks.row_sizes("max_rowsize", options.get("max_rowsize")))


class _Derived(Dataset):
    """A dataset made by an operation from others."""

    def __init__(self, children: Any, operation: Operation) -> None:
        super().__init__(children)
        self.operation = operation

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows of an epoch."""
        return self.operation.rows(self.children, run)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return self.operation.columns(self.children)

    def _find_size(self) -> int:
        return self.operation.size(self.children)


class BatchDataset(_Derived):
    """The result of `batch`, `padded_batch` and `bucket_batch_by_length`."""

    def get_batch_size(self) -> int:
        """Rows of a batch; -1 where they differ."""
        size = getattr(self.operation, "batch_size", -1)
        return -1 if callable(size) else int(size)


class MapDataset(_Derived):
    """The result of `map`."""


class FilterDataset(_Derived):
    """The result of `filter`."""


class ShuffleDataset(_Derived):
    """The result of `shuffle`."""


class RepeatDataset(_Derived):
    """The result of `repeat`."""

    def get_repeat_count(self) -> int:
        """How often; -1 for without end."""
        return int(getattr(self.operation, "count", 1))


class TakeDataset(_Derived):
    """The result of `take`."""


class SkipDataset(_Derived):
    """The result of `skip`."""


class ZipDataset(_Derived):
    """The result of `zip`."""


class ConcatDataset(_Derived):
    """The result of `concat`."""

    def use_sampler(self, sampler: Any) -> None:
        """Choose among the rows of all datasets.

        Args:
            sampler: a `DistributedSampler` that does not shuffle, or a `RandomSampler` without
                replacement; neither with a number of samples.

        Raises:
            ValueError: one with other options.
        """
        if not isinstance(sampler, (DistributedSampler, RandomSampler)):
            raise TypeError(f"The parameter {sampler} of concat must be DistributedSampler or "
                            "RandomSampler.")
        chosen: Operation
        if isinstance(sampler, DistributedSampler):
            partial, chosen = sampler.shuffle, _operations.Share(
                sampler.num_shards, sampler.shard_id)
        else:
            partial, chosen = sampler.replacement, _operations.Shuffle(self.get_dataset_size())
        if partial or sampler.num_samples is not None:
            raise ValueError("A sampler of concat takes all rows: without num_samples, a "
                             "DistributedSampler without shuffle, a RandomSampler without "
                             "replacement.")
        children = self.children
        self.children, self._size = [_Derived(children, _operations.Concat())], None
        self.operation = chosen


class ProjectDataset(_Derived):
    """The result of `project`."""


class RenameDataset(_Derived):
    """The result of `rename`."""


class SyncWaitDataset(_Derived):
    """The result of `sync_wait`."""

    def _sync_places(self) -> list[Any]:
        return [self.operation, *super()._sync_places()]


class TransferDataset(_Derived):
    """The result of `device_que`."""

    def send(self, num_epochs: int = -1) -> None:
        """Accepted for compatibility: rows are made when they are asked for."""

    def stop_send(self) -> None:
        """Accepted for compatibility."""

    def continue_send(self) -> None:
        """Accepted for compatibility."""

    def release(self) -> None:
        """Accepted for compatibility."""

    def get_data_info(self) -> tuple[list[Any], list[list[int | None]]]:
        """The dtypes and shapes of a row."""
        return self.output_types(), self.output_shapes()


def zip_datasets(datasets: tuple[Dataset, ...]) -> Dataset:
    """Datasets side by side, as long as the shortest.

    Args:
        datasets: two or more; no two have a column of the same name.

    Raises:
        TypeError: no tuple of datasets.

    Source: `mindspore.dataset.zip`.
    """
    checks.of_type("datasets", datasets, tuple)
    if len(datasets) <= 1:
        raise ValueError("Can't zip empty or just one dataset!")
    for each in datasets:
        checks.of_type("datasets", each, Dataset)
    return ZipDataset(list(datasets), _operations.Zip())
