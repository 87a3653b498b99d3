"""Datasets of the user's own data: functions, objects, arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from ..core.declared import Rule, instance
from ..tensors import dtype as dtypes
from . import rules
from .batching import BatchInfo, _column, stack
from .declared import Declared, argument, common, flag
from .operations import name_of
from .pipeline import Dataset
from .rows import Row, Run, failed, own_value
from .samplers import Draw, FixedSampler, Sampler, SequentialSampler, as_sampler, choose
from .workers import ONE, Workers, in_thread, rows_of


class SourceDataset(Declared, Dataset):
    """Base of datasets that are made from no others. Source: `mindspore.dataset`."""

    _columns: Mapping[str, Any] = {}  # The dtype of each column; None for strings

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)


class MappableDataset(SourceDataset):
    """Base of sources whose rows have positions, so samplers choose among them.

    Args:
        sampler: which rows, in which order.
        num_parallel_workers, cache: see `Dataset`.
    """

    _has_classes = True  # Whether a sampler may choose rows by class

    def __init__(
        self, sampler: Sampler | None, num_parallel_workers: int | None = None, cache: Any = None
    ) -> None:
        super().__init__(None, num_parallel_workers, cache)
        self.sampler = sampler

    def _choose(
        self, num_parallel_workers: int | None = None, cache: Any = None, **choice: Any
    ) -> None:
        if type(choice["sampler"]).__name__ == "PKSampler" and not self._has_classes:
            raise ValueError(f"{type(self).__name__} doesn't support PKSampler.")
        MappableDataset.__init__(self, choose(**choice), num_parallel_workers, cache)

    def _count(self) -> int:
        """How many rows there are to choose among."""
        raise TypeError(f"{type(self).__name__} must say how many rows it has.")

    def _row(self, place: int) -> Row:
        """The row at a position."""
        raise TypeError(f"{type(self).__name__} must give rows.")

    def _labels(self, column: str) -> Any:
        """The values of a column in all rows, for PKSampler."""
        names = self.get_col_names()
        if column not in names:
            raise RuntimeError(f"PKSampler: there is no column {column!r} among {names}.")
        return np.array([int(self._row(i)[names.index(column)]) for i in range(self._count())])

    def _selected(self, draw: Draw) -> Sequence[int]:
        count = self._count()
        return range(count) if self.sampler is None else self.sampler.select(count, draw)

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows that the sampler chooses."""
        draw = self._draw(run)
        tasks = ((int(place),) for place in self._selected(draw))
        return rows_of(self._workers(), self._row, tasks, run, self)

    def _draw(self, run: Run) -> Draw:
        """Return the inputs of samplers in the next pass over the rows."""
        return Draw(run.seed, run.times(self), run.kept(self, dict), self._labels)

    def _workers(self) -> Workers:
        return Workers(self.num_parallel_workers)

    def _find_size(self) -> int:
        return len(self._selected(self._draw(Run())))

    def use_sampler(self, new_sampler: Any) -> None:
        """Choose rows by another sampler; None for all, in order."""
        self.sampler = None if new_sampler is None else as_sampler(new_sampler)
        self._size = None

    def add_sampler(self, new_sampler: Any) -> None:
        """Choose by another sampler among what the present one chooses.

        Raises:
            RuntimeError: it has a child already.
        """
        if new_sampler is None:
            return
        added = as_sampler(new_sampler)
        if self.sampler is not None:
            added.add_child(self.sampler)
        self.sampler, self._size = added, None

    def is_shuffled(self) -> bool:
        """Whether rows come in random order."""
        return self.sampler is not None and self.sampler.is_shuffled()

    def is_sharded(self) -> bool:
        """Whether this is the part of one of several processes."""
        return self.sampler is not None and self.sampler.is_sharded()

    def _part(self, start: int, count: int, seed: int, shuffled: bool) -> Dataset:
        """A part for `split`: the same kind of dataset, with a sampler that chooses it."""
        part = copy.copy(self)
        part.sampler, part._size = None, None
        part.add_sampler(FixedSampler(self.sampler or SequentialSampler(), seed, shuffled))
        part.add_sampler(SequentialSampler(start, count))
        return part


class ArrayDataset(MappableDataset):
    """A source of columns that are held in memory."""

    _arrays: Mapping[str, Any]

    def _workers(self) -> Workers:
        return ONE  # handing a row to another thread takes longer than to pick it

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._arrays)

    def _count(self) -> int:
        return len(next(iter(self._arrays.values())))

    def _row(self, place: int) -> Row:
        return tuple(own_value(values[place], f"column {name!r}, row {place}")
                     for name, values in self._arrays.items())

    def _labels(self, column: str) -> Any:
        found = self._arrays.get(column)
        return super()._labels(column) if found is None else np.asarray(found)


_ROWS = Rule(
    "a function, something iterable, or an object with __getitem__", lambda value: callable(value)
    or any(hasattr(value, name) for name in ("__getitem__", "__iter__", "__next__")))


class GeneratorDataset(
    MappableDataset,
    takes="source column_names column_types schema num_samples num_parallel_workers shuffle "
          "sampler num_shards shard_id python_multiprocessing max_rowsize batch_sampler collate_fn",
):
    """Rows from Python: a function that gives an iterator, something iterable, or an object with
    `__getitem__` and `__len__`.

    Args:
        source: gives rows: tuples with a value for each column, or a single value.
        num_parallel_workers: how many workers ask for rows with positions; of others one thread
            asks ahead if there are to be several.
        python_multiprocessing, max_rowsize: whether workers are processes, and what of a row
            these share; see `Dataset.map`.
        shuffle: whether rows come in random order; None: if they have positions.
        sampler: which rows, in which order; for rows with positions.
        num_shards, shard_id: take the part of one of several processes; for rows with positions.
        batch_sampler: gives lists of positions, each of which is a batch.
        collate_fn: with `batch_sampler`: called with a list for each column and a `BatchInfo`.

    Raises:
        RuntimeError: (when rows are requested) the source fails, or its rows do not fit.
    """

    source: Any = argument("Any", _ROWS)
    column_names: list[str] = argument("Any", rules.NAMES, None, text="one or several.")
    column_types: Any = argument(
        default=None, text="the dtypes that values must have; None for any.")
    schema: Any = argument("Any", rules.nothing(
        "give column_names, and column_types where types are to be checked"), None,
        text="must be None.")
    num_parallel_workers: Any = common("num_parallel_workers", kind="int", default=1, none=None)
    python_multiprocessing: bool = flag(True)
    max_rowsize: tuple[int, int] = argument(
        "Any", rules.ROW_SIZES, None, rules.ROW_SIZES.normal(None))
    batch_sampler: Any = argument(default=None)
    collate_fn: Callable[..., Any] | None = argument("Callable[..., Any] | None", default=None)
    num_samples: int | None
    _has_classes = False

    def _prepare(self) -> None:
        if self.column_names is None:
            raise ValueError("Neither columns_names nor schema are provided: name the elements of "
                             "a row, as in column_names=['data', 'label'].")
        self.column_types = _types(self.column_types, self.column_names)
        self._places = hasattr(self.source, "__getitem__") and hasattr(self.source, "__len__")

    def _choose(
        self, num_parallel_workers: int | None = None, cache: Any = None, **choice: Any
    ) -> None:
        sampler, shuffle = choice["sampler"], choice["shuffle"]
        if not self._places:
            for name, value in (("sampler", sampler), ("num_shards", choice["num_shards"]),
                                ("batch_sampler", self.batch_sampler)):
                if value is not None:
                    raise ValueError(f"{name} is not supported if source does not have attribute "
                                     "'__getitem__'.")
        if self.collate_fn is not None and self.batch_sampler is None:
            raise ValueError("collate_fn can be specified only when batch_sampler is set.")
        if self.batch_sampler is not None and any(x is not None for x in choice.values()):
            raise ValueError("batch_sampler is mutually exclusive with num_samples, shuffle, "
                             "num_shards, shard_id and sampler.")
        self.num_samples = choice["num_samples"]
        if self._places and self.batch_sampler is None:
            # A sampler together with shuffle=False is what MindSpore accepts here too.
            choice["shuffle"] = None if sampler is not None and shuffle is False else shuffle
            super()._choose(num_parallel_workers, cache, **choice)
        else:
            MappableDataset.__init__(self, None, num_parallel_workers, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self.column_names)

    def _count(self) -> int:
        return len(self.source)

    def _find_size(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler) if hasattr(self.batch_sampler, "__len__") else \
                sum(1 for _ in self.batch_sampler)
        if self._places:
            return super()._find_size()
        if hasattr(self.source, "__len__"):
            size = len(self.source)
            return min(size, self.num_samples) if self.num_samples else size
        return sum(1 for _ in self.rows(Run()))

    def get_batch_size(self) -> int:
        """1; -1 with a batch_sampler."""
        return 1 if self.batch_sampler is None else -1

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows of an epoch."""
        if self.batch_sampler is not None:
            return self._batches(run)
        if self._places:
            return super().rows(run)
        return self._in_turn() if self._workers().count == 1 else in_thread(self._in_turn())

    def _workers(self) -> Workers:
        return Workers(self.num_parallel_workers, self.python_multiprocessing, self.max_rowsize)

    def _row(self, place: int) -> Row:
        try:
            element = self.source[place]
        except Exception as error:
            raise failed(f"GeneratorDataset: the source's __getitem__({place}) for column(s) "
                         f"{self.column_names}", error) from error
        return self._as_row(element, place)

    def _in_turn(self) -> Iterator[Row]:
        what = f"GeneratorDataset: the source {name_of(self.source)!r} for column(s) " \
            f"{self.column_names}"
        number = 0
        try:
            iterator = _iterator_of(self.source)
        except Exception as error:
            raise failed(what, error) from error
        while not self.num_samples or number < self.num_samples:
            try:
                element = next(iterator)
            except StopIteration:
                return
            except Exception as error:
                raise failed(f"{what}, row {number},", error) from error
            yield self._as_row(element, number)
            number += 1

    def _batches(self, run: Run) -> Iterator[Row]:
        tasks = ((number, [int(p) for p in places], run.epoch)
                 for number, places in enumerate(self.batch_sampler))
        return rows_of(self._workers(), self._batch, tasks, run, self)

    def _batch(self, number: int, places: list[int], epoch: int) -> Row:
        part = [self._row(p) for p in places]
        columns = [[r[i] for r in part] for i in range(len(self.column_names))]
        if self.collate_fn is None:
            return tuple(stack(v, c, "GeneratorDataset")
                         for v, c in zip(columns, self.column_names, strict=True))
        try:
            made = self.collate_fn(*columns, BatchInfo(number, epoch))
        except Exception as error:
            raise failed(f"GeneratorDataset: collate_fn on batch {number}", error) from error
        made = made if isinstance(made, tuple) else (made,)
        self._check_width(len(made), number)
        return tuple(_column(v, c) for v, c in zip(made, self.column_names, strict=True))

    def _check_width(self, width: int, number: int) -> None:
        if width != len(self.column_names):
            raise RuntimeError(
                "Invalid Python function, the 'source' of 'GeneratorDataset' should return same "
                "number of NumPy arrays as specified in column_names, the size of column_names is: "
                f"{len(self.column_names)} and number of returned NumPy array is: {width} (row "
                f"{number}, columns {self.column_names}).")

    def _as_row(self, element: Any, number: int) -> Row:
        several = isinstance(element, tuple) or (
            isinstance(element, list) and len(self.column_names) > 1)
        values = element if several else (element,)
        self._check_width(len(values), number)
        row = tuple(own_value(v, f"GeneratorDataset: column {c!r} of row {number}", RuntimeError)
                    for v, c in zip(values, self.column_names, strict=True))
        for value, wanted, column in zip(row, self.column_types or (), self.column_names,
                                         strict=False):
            if isinstance(value, dict) or value.dtype != wanted:
                raise RuntimeError(
                    f"GeneratorDataset: column {column!r} of row {number} should be {wanted} as "
                    f"column_types says, but is {getattr(value, 'dtype', 'a dict')}.")
        return row


def _iterator_of(source: Any) -> Iterator[Any]:
    """Return the iterator over the rows of the next epoch."""
    if hasattr(source, "__iter__"):
        return iter(source)
    if hasattr(source, "__next__"):
        rows: Iterator[Any] = source
        return rows
    if callable(source):
        return iter(source())
    return iter(source)  # by __getitem__, up to IndexError


def _types(given: Any, names: list[str]) -> list[Any] | None:
    if given is None:
        return None
    many = given if isinstance(given, (list, tuple)) else [given]
    if len(many) != len(names):
        raise ValueError(f"column_types has {len(many)} types for {len(names)} columns.")
    return [np.dtype(dtypes.dtype_to_nptype(dtypes.convert(t, "column_types"))) for t in many]


_DATA = Rule("an array, list, tuple or dict that is not empty",
             instance(list, tuple, dict, np.ndarray).fits, lambda value: len(value) > 0)


class NumpySlicesDataset(
    ArrayDataset,
    takes="data column_names num_samples num_parallel_workers shuffle sampler num_shards shard_id",
):
    """Rows of arrays: one for each position along the first axis.

    Args:
        data: an array or list (one column), a tuple of them (several), or a dict by column name.
        column_names: None: those of the dict, or column_0, column_1 and so on.
    """

    data: Any = argument("Any", _DATA)
    column_names: list[str] | None = argument("Any", rules.NAMES, None)
    num_parallel_workers: Any = common("num_parallel_workers", kind="int", default=1, none=None)

    def _prepare(self) -> None:
        data, given = self.__dict__.pop("data"), self.__dict__.pop("column_names")
        columns = list(data.values()) if isinstance(data, dict) else \
            list(data) if isinstance(data, tuple) else [data]
        names = _column_names(given, data, len(columns))
        for name, column in zip(names, columns, strict=True):
            if not hasattr(column, "__len__") or not hasattr(column, "__getitem__"):
                raise TypeError(f"NumpySlicesDataset: column {name!r} should be an array or list, "
                                f"but got {type(column)}.")
        if len({len(c) for c in columns}) > 1:
            raise ValueError("Data length in each column is not equal: "
                             f"{ {n: len(c) for n, c in zip(names, columns, strict=True)} }.")
        self._arrays = dict(zip(names, columns, strict=True))


def _column_names(names: list[str] | None, data: Any, count: int) -> list[str]:
    if names is None:
        if isinstance(data, dict):
            names = rules.NAMES(list(data), "NumpySlicesDataset", "keys of data")
        else:
            names = [f"column_{i}" for i in range(count)]
    if len(names) != count:
        raise ValueError(f"Num of input column names is {len(names)}, but required is {count}.")
    return names


_SAMPLES = Rule("a list of dicts", lambda value: isinstance(value, (list, tuple)) and all(
    isinstance(each, dict) for each in value), bool)


class PaddedDataset(ArrayDataset):
    """Given rows, for filling up data so that all processes have equally many.

    Args:
        padded_samples: the rows, as dicts by column name.
    """

    def __init__(self, padded_samples: Annotated[Any, _SAMPLES]) -> None:
        for each in padded_samples:
            if each.keys() != padded_samples[0].keys():
                raise ValueError("padded_samples must all have the keys "
                                 f"{list(padded_samples[0])}, but got {list(each)}.")
        self.padded_samples = padded_samples
        self._arrays = {name: [row[name] for row in padded_samples] for name in padded_samples[0]}
        super().__init__(None)
