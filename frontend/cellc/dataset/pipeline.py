"""`Dataset`: rows of named columns, and the methods that make one dataset from another.

A pipeline is a tree of datasets. Nothing runs until rows are requested; then each operation asks
those before it, row by row, in the thread that asked. So an error carries the whole stack. An
operation with several workers asks for some rows ahead and lets these work on them (`workers`).
`operations` and `batching` have what is done with rows.
Source: `mindspore.dataset`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from ..core.declared import (
    BOOL,
    FUNCTION,
    POSITIVE,
    Flag,
    Function,
    Listed,
    NonNegative,
    Positive,
    Rule,
    checks_arguments,
    integer,
    is_int,
    one_of,
)
from ..core.native import names_itself
from . import batching, callbacks, config, saving
from . import operations as _operations
from .iterators import DictIterator, TupleIterator
from .operations import Operation
from .rows import Row, Run
from .rules import (
    BATCH_SIZE,
    COUNT_OR_ALL,
    INT32_MAX,
    NAMES,
    ROW_SIZES,
    Names,
    nothing,
    several,
)
from .samplers import DistributedSampler, RandomSampler
from .workers import Workers


def _all_datasets(value: Any) -> bool:
    return all(isinstance(each, Dataset) for each in value)


def _epochs(count: int) -> int:
    if count != -1 and count < 1:
        raise RuntimeError("num_epochs should be either -1 or positive integer, num_epochs: "
                           f"{count}")
    return count


BatchSize = Annotated[Any, BATCH_SIZE]
CountOrAll = Annotated[int, COUNT_OR_ALL]
Sizes = Annotated[Any, Rule(
    "a list of positive ints", several(POSITIVE).fits,
    lambda value: len(value) > 0 and several(POSITIVE).holds(value), list)]
Others = Annotated[Any, Rule("a Dataset or a list of them", lambda value: isinstance(
    value, Dataset) or (isinstance(value, list) and _all_datasets(value)))]
Tuple = Annotated[Any, Rule("a tuple of Datasets", lambda value: isinstance(value, tuple)
                            and _all_datasets(value))]
_PADS = several(Rule("a positive int or None", lambda n: n is None or is_int(n),
                     lambda n: n is None or n > 0))
PadInfo = Annotated[Any, Rule(
    "a dict of (shape, fill) by column",
    lambda value: isinstance(value, dict) and all(isinstance(name, str) and isinstance(
        each, tuple) and len(each) == 2 and (each[0] is None or _PADS.fits(each[0]))
        for name, each in value.items()),
    lambda value: all(each[0] is None or _PADS.holds(each[0]) for each in value.values()))]
"""How columns are padded."""


@names_itself
class Dataset:
    """Base of datasets. Most of its methods make another dataset, of this one.

    Args:
        children: the datasets it is made from.
        num_parallel_workers: how many workers make rows; None: as many as
            `config.set_num_parallel_workers` said, or one. One is the caller itself.
        cache: must be None.
    """

    def __init__(
        self, children: Any = None, num_parallel_workers: Positive | None = None,
        cache: Any = None,
    ) -> None:
        if cache is not None:
            raise ValueError("cache must be None: there is no cache server; keep what is costly in "
                             "a list and give it to NumpySlicesDataset or GeneratorDataset.")
        many = children if isinstance(children, (list, tuple)) else [children]
        self.children: list[Dataset] = [c for c in many if c is not None]
        self.num_parallel_workers = num_parallel_workers
        self._input_indexs: Any = ()
        self._size: int | None = None

    # --- what there is ---------------------------------------------------------------------------

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows of an epoch, as numpy values; iterators give them as Tensors.

        Raises:
            TypeError: a subclass does not give any.
        """
        raise TypeError(f"{type(self).__name__} gives no rows: use GeneratorDataset or another of "
                        "the datasets.")

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return self.children[0].get_col_names()

    def get_dataset_size(self) -> int:
        """How many rows an epoch has; where only they know, they are gone through once."""
        if self._size is None:
            self._size = self._find_size()
        return self._size

    @property
    def dataset_size(self) -> int | None:
        """The result of `get_dataset_size`; None before it was called."""
        return self._size

    def _find_size(self) -> int:
        return sum(1 for _ in self.rows(Run()))

    def __len__(self) -> int:
        return self.get_dataset_size()

    def get_batch_size(self) -> int:
        """Rows of a batch; 1 without batches, -1 where a function says it."""
        return self.children[0].get_batch_size() if self.children else 1

    def get_repeat_count(self) -> int:
        """Return the argument of the last `repeat`; 1 without it."""
        return self.children[0].get_repeat_count() if self.children else 1

    def num_classes(self) -> int | None:
        """How many classes there are; None if the source does not know."""
        return self.children[0].num_classes() if self.children else None

    def get_class_indexing(self) -> dict[str, Any]:
        """Numbers of the classes by name; empty if the source does not know."""
        return self.children[0].get_class_indexing() if self.children else {}

    @property
    def input_indexs(self) -> Any:
        """Which columns a network takes; kept for the scripts that set it."""
        return self._input_indexs

    @input_indexs.setter
    def input_indexs(self, value: Any) -> None:
        self._input_indexs = value

    @checks_arguments
    def output_shapes(self, estimate: Flag = False) -> list[list[int | None]]:
        """The shapes of the columns, of the first row.

        Args:
            estimate: look at all rows, and give None for lengths that differ.
        """
        rows = self.rows(Run())
        shapes: list[list[int | None]] = [list(np.shape(v)) for v in next(rows, ())]
        for row in rows if estimate else ():
            for shape, value in zip(shapes, row, strict=True):
                for i, length in enumerate(np.shape(value)[: len(shape)]):
                    shape[i] = shape[i] if shape[i] == length else None
        return shapes

    def output_types(self) -> list[Any]:
        """The numpy dtypes of the columns, of the first row."""
        first = next(self.rows(Run()), ())
        dtypes = [np.asarray(v).dtype for v in first]
        return [np.dtype(d.kind) if d.kind in "US" else d for d in dtypes]

    # --- going through it ------------------------------------------------------------------------

    @checks_arguments
    def create_tuple_iterator(
        self, columns: Names | None = None, num_epochs: int = -1, output_numpy: Flag = False,
        do_copy: Flag = False,
    ) -> TupleIterator:
        """An iterator of rows as lists.

        Args:
            columns: which columns, in which order; None for all.
            num_epochs: how often it can be gone through; -1 for any number.
            output_numpy: whether values are numpy arrays instead of Tensors.
            do_copy: accepted for compatibility: values are always the caller's own.
        """
        return TupleIterator(self, columns, _epochs(num_epochs), output_numpy)

    @checks_arguments
    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: Flag = False, do_copy: Flag = False
    ) -> DictIterator:
        """An iterator of rows as dicts; see `create_tuple_iterator`."""
        return DictIterator(self, None, _epochs(num_epochs), output_numpy)

    def __iter__(self) -> TupleIterator:
        return self.create_tuple_iterator(num_epochs=1)

    def reset(self) -> None:
        """Accepted for compatibility: each iterator starts at the beginning."""

    def close(self) -> None:
        """Accepted for compatibility: there is nothing to close."""

    def _sync_places(self) -> list[Any]:
        return [place for child in self.children for place in child._sync_places()]

    # --- writing them -----------------------------------------------------------------------------

    @checks_arguments
    def save(
        self, file_name: str, num_files: Annotated[int, integer(1, 1000)] = 1,
        file_type: Annotated[str, one_of("mindrecord")] = "mindrecord",
    ) -> None:
        """Write the rows of an epoch as MindRecord files.

        Args:
            file_name: of the file, or what the names of several begin with.
            num_files: how many.
            file_type: "mindrecord".

        Raises:
            RuntimeError: there is no row, a value has no place in such a file, or files exist.
        """
        run = Run(reports=True)
        saving.save(self.get_col_names(), self.rows(run), file_name, num_files)
        run.end()

    def to_json(self, filename: str = "") -> dict[str, Any]:
        """Refused: a pipeline holds Python functions.

        Raises:
            RuntimeError: always; it says what to do.
        """
        raise RuntimeError("Dataset.to_json: pipelines hold Python functions and are not written "
                           "as JSON. Keep the Python function that makes the pipeline.")

    # --- rows together ---------------------------------------------------------------------------

    @checks_arguments
    def batch(
        self, batch_size: BatchSize, drop_remainder: Flag = False,
        num_parallel_workers: Positive | None = None, **kwargs: Any,
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
            RuntimeError: (when rows are requested) shapes differ, or a function fails.
        """
        given = _options("batch", kwargs, _FOR_BATCH)
        function, taken, made = (given.get(name) for name in (
            "per_batch_map", "input_columns", "output_columns"))
        if function is None and (taken is not None or made is not None):
            raise ValueError("input_columns and output_columns of 'batch' need a per_batch_map.")
        return BatchDataset(self, batching.Batch(
            batch_size, drop_remainder, function, taken, made,
            _workers(num_parallel_workers, given)))

    @checks_arguments
    def padded_batch(
        self, batch_size: BatchSize, drop_remainder: Flag = False,
        num_parallel_workers: Positive | None = None, pad_info: PadInfo | None = None,
    ) -> Dataset:
        """Rows padded to one shape, and put together.

        Args:
            batch_size, drop_remainder, num_parallel_workers: as for `batch`.
            pad_info: (shape, fill) by column; None in a shape, or for it, means the longest of
                the batch; `{}` means that of all columns, filled up with 0.
        """
        return BatchDataset(self, batching.PaddedBatch(
            batch_size, drop_remainder, pad_info=pad_info, workers=Workers(num_parallel_workers)))

    @checks_arguments
    def bucket_batch_by_length(
        self, column_names: Names, bucket_boundaries: Sizes, bucket_batch_sizes: Sizes,
        element_length_function: Any = None, pad_info: PadInfo | None = None,
        pad_to_bucket_boundary: Flag = False, drop_remainder: Flag = False,
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
        if any(a >= b for a, b in pairwise(bucket_boundaries)):
            raise ValueError("bucket_boundaries should be strictly increasing.")
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                "bucket_batch_sizes must contain one element more than bucket_boundaries.")
        if element_length_function is None and len(column_names) != 1:
            raise ValueError("If element_length_function is not specified, exactly one column name "
                             f"should be passed, but got {column_names}.")
        return BatchDataset(self, batching.Buckets(
            column_names, list(bucket_boundaries), list(bucket_batch_sizes),
            element_length_function, pad_info, pad_to_bucket_boundary, drop_remainder))

    # --- rows ------------------------------------------------------------------------------------

    @checks_arguments
    def map(
        self, operations: Any, input_columns: Names | None = None,
        output_columns: Names | None = None, num_parallel_workers: Positive | None = None,
        **kwargs: Any,
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
            RuntimeError: (when rows are requested) a function fails.
        """
        given = _options("map", kwargs, _FOR_MAP)
        functions = operations if isinstance(operations, (list, tuple)) else [operations]
        if not functions:
            raise ValueError("Parameter operations of method map cannot be empty.")
        for each in functions:
            if not callable(each):
                raise ValueError("Parameter operations's element of method map should be a python "
                                 "function or class method which should be callable, but got: "
                                 f"{each}.")
        return MapDataset(self, _operations.Map(
            list(functions), input_columns, output_columns, _workers(num_parallel_workers, given),
            callbacks.checked(given.get("callbacks"))))

    @checks_arguments
    def filter(
        self, predicate: Function, input_columns: Names | None = None,
        num_parallel_workers: Positive | None = None,
    ) -> Dataset:
        """The rows that a function says yes to.

        Args:
            predicate: called with the columns.
            input_columns: which of them; None for all.
            num_parallel_workers: how many threads call it; None: see `Dataset`.
        """
        return FilterDataset(self, _operations.Filter(
            predicate, input_columns, Workers(num_parallel_workers)))

    @checks_arguments
    def shuffle(self, buffer_size: Annotated[int, integer(2, INT32_MAX)]) -> Dataset:
        """Return rows drawn at random from a buffer of `buffer_size`."""
        return ShuffleDataset(self, _operations.Shuffle(buffer_size))

    @checks_arguments
    def repeat(self, count: CountOrAll | None = None) -> Dataset:
        """The rows `count` times over; without end for None and -1."""
        return RepeatDataset(self, _operations.Repeat(-1 if count is None else count))

    @checks_arguments
    def take(self, count: CountOrAll = -1) -> Dataset:
        """The first `count` rows; all for -1."""
        return TakeDataset(self, _operations.Take(count))

    @checks_arguments
    def skip(self, count: NonNegative) -> Dataset:
        """All but the first `count` rows."""
        return SkipDataset(self, _operations.Skip(count))

    @checks_arguments
    def flat_map(self, func: Function) -> Dataset:
        """The rows of the datasets that a function makes of each row.

        Args:
            func: called with the columns as arrays; gives a dataset.

        Raises:
            TypeError: there is no row, or what it gives is no dataset.
        """
        made = []
        for row in self.create_tuple_iterator(num_epochs=1, output_numpy=True):
            each = func(*row)
            if not isinstance(each, Dataset):
                raise TypeError(f"flat_map: func must return a dataset, but got {type(each)}.")
            made.append(each)
        if not made:
            raise TypeError("flat_map: there are no rows to make datasets of.")
        return made[0].concat(made[1:]) if len(made) > 1 else made[0]

    @checks_arguments
    def split(self, sizes: Listed, randomize: Flag = True) -> tuple[Dataset, ...]:
        """Parts without rows in common.

        Args:
            sizes: how many rows each has (ints that add up to the size), or which part of the rows
                (floats that add up to 1).
            randomize: whether the rows of the parts are drawn at random. Which rows a part has
                stays as it is over the epochs.

        Raises:
            RuntimeError: the sizes do not fit.
        """
        counts = _split_counts(sizes, self.get_dataset_size())
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

    @checks_arguments
    def concat(self, datasets: Others) -> Dataset:
        """This dataset's rows, then those of others with the same columns."""
        many = [datasets] if isinstance(datasets, Dataset) else datasets
        return ConcatDataset([self, *many], _operations.Concat())

    def __add__(self, datasets: Any) -> Dataset:
        return self.concat(datasets)

    @checks_arguments
    def apply(self, apply_func: Function) -> Dataset:
        """Return the dataset that a function makes of this one.

        Raises:
            TypeError: it gives no dataset.
        """
        made = apply_func(self)
        if not isinstance(made, Dataset):
            raise TypeError("apply_func must return a dataset.")
        return made

    # --- columns ---------------------------------------------------------------------------------

    @checks_arguments
    def project(self, columns: Names) -> Dataset:
        """Some columns, in the order given."""
        return ProjectDataset(self, _operations.Project(columns))

    @checks_arguments
    def rename(self, input_columns: Names, output_columns: Names) -> Dataset:
        """Other names for some columns, equally many."""
        if len(input_columns) != len(output_columns):
            raise ValueError("Number of column in input_columns and output_columns is not equal.")
        return RenameDataset(self, _operations.Rename(input_columns, output_columns))

    # --- the training loop -----------------------------------------------------------------------

    @checks_arguments
    def sync_wait(
        self, condition_name: str, num_batch: Positive = 1, callback: Function | None = None
    ) -> Dataset:
        """A place in the pipeline that `sync_update` sends news to.

        Args:
            condition_name: what it is called.
            num_batch: accepted for compatibility: rows are made when they are requested, so none
                is made before the news that come before it.
            callback: called with the news.

        Raises:
            RuntimeError: the name is taken.
        """
        if condition_name in (place.condition_name for place in self._sync_places()):
            raise RuntimeError(f"Condition name is already in use: {condition_name!r}.")
        return SyncWaitDataset(self, _operations.SyncWait(condition_name, callback))

    @checks_arguments
    def sync_update(
        self, condition_name: str, num_batch: Positive | None = None, data: Any = None
    ) -> None:
        """Send news to a `sync_wait`.

        Args:
            condition_name: what it is called.
            num_batch: None or a positive int; accepted for compatibility.
            data: what its callback is given.

        Raises:
            RuntimeError: there is no such place.
        """
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


_FOR_BOTH: Mapping[str, Rule | None] = {"python_multiprocessing": BOOL, "max_rowsize": ROW_SIZES}
_FOR_BATCH = {**_FOR_BOTH, "per_batch_map": FUNCTION, "input_columns": NAMES,
              "output_columns": NAMES}
_FOR_MAP = {**_FOR_BOTH, "callbacks": None, "offload": None,
            "cache": nothing("there is no cache server")}


def _options(
    what: str, given: Mapping[str, Any], known: Mapping[str, Rule | None]
) -> dict[str, Any]:
    """The keyword arguments of `map` and `batch` that are not None, by their rules."""
    for name in given:
        if name not in known:
            raise TypeError(f"{what}() got an unexpected keyword argument {name!r}; there are "
                            f"{', '.join(known)}.")
    return {name: value if (rule := known[name]) is None else rule(value, f"Dataset.{what}", name)
            for name, value in given.items() if value is not None}


def _workers(count: int | None, options: Mapping[str, Any]) -> Workers:
    """The workers that the options of `map` and `batch` ask for."""
    return Workers(count, options.get("python_multiprocessing", False),
                   options.get("max_rowsize", ROW_SIZES.normal(None)))


def _split_counts(sizes: Sequence[Any], size: int) -> list[int]:
    """How many rows each part has, of `Dataset.split`.

    Args:
        sizes: numbers of rows, or parts of 1.
        size: how many rows there are.
    """
    if not sizes:
        raise ValueError("sizes cannot be empty.")
    if size <= 0:
        raise RuntimeError("Dataset size is 0, so it cannot be split.")
    if all(map(is_int, sizes)):
        if any(s <= 0 for s in sizes):
            raise ValueError("there should be no negative or zero numbers in sizes.")
        if sum(sizes) != size:
            raise RuntimeError(f"Sum of split sizes {sum(sizes)} is not equal to dataset size "
                               f"{size}.")
        return [int(s) for s in sizes]
    if not all(isinstance(s, (float, np.floating)) for s in sizes):
        raise ValueError("sizes should be list of int or list of float.")
    if any(not 0 < s <= 1 for s in sizes):
        raise ValueError("sizes is a list of float, but there should be numbers between (0, 1].")
    if abs(sum(sizes) - 1) > 1e-6:
        raise ValueError("sizes is a list of float, but the percentages do not sum up to 1.")
    return _rounded([float(s) * size for s in sizes], size)


def _rounded(wanted: list[float], size: int) -> list[int]:
    """Whole numbers near the wanted ones that add up to `size`: a remainder goes to the first, an
    excess is taken from the first that keep at least one."""
    counts = [round(w) for w in wanted]
    if any(c == 0 for c in counts):
        raise RuntimeError(f"The size of split {counts.index(0)} is 0, please provide other sizes.")
    surplus = size - sum(counts)
    if surplus > 0:
        counts[0] += surplus
    for i, count in enumerate(counts):
        if surplus < 0:
            taken = min(count - 1, -surplus)
            counts[i] -= taken
            surplus += taken
    if surplus < 0:
        raise RuntimeError(f"{size} rows cannot be split into {len(counts)} parts.")
    return counts


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
        """Accepted for compatibility: rows are made when they are requested."""

    def stop_send(self) -> None:
        """Accepted for compatibility."""

    def continue_send(self) -> None:
        """Accepted for compatibility."""

    def release(self) -> None:
        """Accepted for compatibility."""

    def get_data_info(self) -> tuple[list[Any], list[list[int | None]]]:
        """The dtypes and shapes of a row."""
        return self.output_types(), self.output_shapes()


@checks_arguments
def zip_datasets(datasets: Tuple) -> Dataset:
    """Datasets side by side, as long as the shortest.

    Args:
        datasets: two or more; no two have a column of the same name.

    Source: `mindspore.dataset.zip`.
    """
    if len(datasets) <= 1:
        raise ValueError("Can't zip empty or just one dataset!")
    return ZipDataset(list(datasets), _operations.Zip())
