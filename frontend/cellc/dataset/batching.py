"""Putting rows together: batches of equal shapes, padded ones, and buckets by length.

Source: `mindspore.dataset`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

import numpy as np

from cellc_runtime.records import dataclass

from .operations import Columns, Input, Operation, name_of
from .rows import Row, Run, Value, failed, own_value, places_of
from .workers import ONE, Workers, rows_of

PadInfo = Mapping[str, Any]


class BatchInfo:
    """The position of `batch`'s functions: the batch and the epoch that come next."""

    def __init__(self, batch_num: int, epoch_num: int) -> None:
        self._batch_num, self._epoch_num = batch_num, epoch_num

    def get_batch_num(self) -> int:
        """Which batch of the epoch, from 0."""
        return self._batch_num

    def get_epoch_num(self) -> int:
        """Which epoch, from 0."""
        return self._epoch_num


def stack(values: Sequence[Value], column: str, what: str) -> Value:
    """Values of one column as a batch.

    Raises:
        RuntimeError: shapes, dtypes or keys differ.
    """
    first = values[0]
    if isinstance(first, dict):
        for i, each in enumerate(values):
            if not isinstance(each, dict) or each.keys() != first.keys():
                raise RuntimeError(f"{what}: column {column!r}: row 0 of the batch has the keys "
                                   f"{list(first)}, row {i} has not.")
        return {k: stack([v[k] for v in values], f"{column}[{k!r}]", what) for k in first}
    text = first.dtype.kind in "US"
    for i, each in enumerate(values):
        if isinstance(each, dict) or each.shape != first.shape:
            found = "a dict" if isinstance(each, dict) else f"shape {each.shape}"
            raise RuntimeError(
                f"{what}: Cannot batch tensors with different shapes in column {column!r}: the "
                f"first element had shape {first.shape}, element {i} has {found}. Give all the "
                "same shape with 'map', or use 'padded_batch'.")
        if each.dtype != first.dtype and not (text and each.dtype.kind == first.dtype.kind):
            raise RuntimeError(
                f"{what}: Cannot batch tensors with different types in column {column!r}: the "
                f"first element had type {first.dtype}, element {i} has {each.dtype}.")
    return np.stack(values)


@dataclass(eq=False)
class Batch(Operation):
    """Rows put together, some at a time."""

    # rows of a batch, or a function of a BatchInfo that says it
    batch_size: int | Callable[[BatchInfo], int]
    drop_remainder: bool  # whether a last batch with fewer rows is left out
    # called with a list for each column, and a BatchInfo; None for none
    function: Callable[..., Any] | None = None
    taken: list[str] | None = None  # the columns it takes; None for all
    given: list[str] | None = None  # the columns it gives; None for the same
    workers: Workers = ONE  # who puts the rows of a batch together

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        columns = inputs[0].get_col_names()
        return self._spec(columns).after(columns) if self.function else columns

    def _spec(self, columns: list[str]) -> Columns:
        return Columns("batch", self.taken or columns, self.given)

    def size(self, inputs: Sequence[Input]) -> int:
        if callable(self.batch_size):
            return self.counted(inputs)
        rows = inputs[0].get_dataset_size()
        return rows // self.batch_size if self.drop_remainder else -(-rows // self.batch_size)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        return rows_of(self.workers, self._together, self._parts(inputs, run), run, self)

    def _parts(
        self, inputs: Sequence[Input], run: Run
    ) -> Iterator[tuple[list[Row], list[str], BatchInfo]]:
        """The rows of each batch, the columns, and which batch it is."""
        columns = inputs[0].get_col_names()
        rows = inputs[0].rows(run)
        for number in count():
            first = next(rows, None)  # a function for the size is asked only while there are rows
            if first is None:
                return
            info = BatchInfo(number, run.epoch)
            size = self._size(info)
            part = [first, *islice(rows, size - 1)]
            if len(part) < size and self.drop_remainder:
                return
            yield part, columns, info

    def _size(self, info: BatchInfo) -> int:
        if not callable(self.batch_size):
            return self.batch_size
        try:
            size = self.batch_size(info)
        except Exception as error:
            raise failed(f"batch: the batch_size function {name_of(self.batch_size)!r}",
                         error) from error
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise RuntimeError("batch: the batch_size function must give a positive int, but "
                               f"returned {size!r}.")
        return int(size)

    def _together(self, part: list[Row], columns: list[str], info: BatchInfo) -> Row:
        if self.function is None:
            return tuple(stack([r[i] for r in part], c, "batch") for i, c in enumerate(columns))
        spec = self._spec(columns)
        places = places_of(spec.taken, columns, "batch")
        made = spec.checked(self._call(part, places, spec, info), "'per_batch_map'")
        row = [() if i in places else stack([r[i] for r in part], c, "batch")
               for i, c in enumerate(columns)]
        return spec.put(row, places, [_column(v, c) for v, c in zip(made, spec.given, strict=True)])

    def _call(
        self, part: list[Row], places: list[int], spec: Columns, info: BatchInfo
    ) -> Any:
        assert self.function is not None
        try:
            return self.function(*([r[p] for r in part] for p in places), info)
        except Exception as error:
            raise failed(f"batch: per_batch_map {name_of(self.function)!r} on column(s) "
                         f"{spec.taken} of batch {info.get_batch_num()}", error) from error


def _column(given: Any, column: str) -> Value:
    """Return a column of per_batch_map's result: a list of rows, or the whole."""
    where = f"batch: per_batch_map, column {column!r}"
    if not isinstance(given, (list, tuple)):
        return own_value(given, where, RuntimeError)
    if not given:
        raise RuntimeError(f"{where}: an empty list is no batch.")
    values = [own_value(v, where, RuntimeError) for v in given]
    return stack(values, column, "batch: per_batch_map")


def padded(value: Value, shape: Sequence[int | None] | None, fill: Any, column: str) -> Value:
    """A value of a given shape: cut off where it is longer, filled up where it is shorter.

    Args:
        shape: the wanted lengths; None: as they are.
        fill: what to fill up with; None for 0 or an empty string.
        column: for errors.
    """
    if shape is None:
        return value
    if isinstance(value, dict) or len(shape) != value.ndim:
        found = "a dict" if isinstance(value, dict) else f"shape {value.shape}"
        raise RuntimeError(f"padding: column {column!r} has {found}, but the pad shape is "
                           f"{list(shape)}.")
    lengths = [n if want is None else want for n, want in zip(value.shape, shape, strict=True)]
    if tuple(lengths) == value.shape:
        return value
    text = value.dtype.kind in "US"
    if fill is not None and isinstance(fill, (str, bytes)) != text:
        raise RuntimeError(f"padding: column {column!r} of {value.dtype} cannot be filled up with "
                           f"{fill!r}.")
    blank, dtype = 0 if fill is None else fill, value.dtype
    if text:
        blank = np.asarray("" if fill is None else fill).astype(dtype.kind)
        dtype = np.promote_types(blank.dtype, dtype)
    made = np.full(lengths, blank, dtype)
    kept = tuple(slice(0, min(n, have)) for n, have in zip(lengths, value.shape, strict=True))
    made[kept] = value[kept]
    return made


def pad_together(
    values: Sequence[Value], info: Any, column: str, bound: int | None = None
) -> list[Value]:
    """The values of a column, padded to one shape.

    Args:
        values: the column's values in a batch.
        info: (shape, fill); lengths of None, and a shape of None, mean the longest.
        column: for errors.
        bound: what lengths of None are instead; None for the longest.
    """
    shape, fill = info
    ranks = {getattr(v, "ndim", -1) for v in values}
    if len(ranks) != 1 or -1 in ranks:
        raise RuntimeError(f"padding: column {column!r} has values of different numbers of axes.")
    rank = ranks.pop()
    wanted = [None] * rank if shape is None else list(shape)
    if len(wanted) != rank:
        raise RuntimeError(f"padding: column {column!r} has {rank} axes, but the pad shape is "
                           f"{wanted}.")
    longest = [max(v.shape[i] for v in values) if bound is None else bound for i in range(rank)]
    full = [longest[i] if n is None else n for i, n in enumerate(wanted)]
    return [padded(v, full, fill, column) for v in values]


@dataclass(eq=False)
class PaddedBatch(Batch):
    """Rows put together after their columns are padded."""

    # (shape, fill) by column; empty: all columns to the longest; None: none
    pad_info: PadInfo | None = None

    def _together(self, part: list[Row], columns: list[str], info: BatchInfo) -> Row:
        return _padded_batch(part, columns, self.pad_info, "padded_batch")


def _padded_batch(
    part: list[Row], columns: list[str], pad_info: PadInfo | None, what: str,
    bound: int | None = None,
) -> Row:
    pads: PadInfo = dict.fromkeys(columns, (None, None)) if pad_info == {} else pad_info or {}
    places_of(list(pads), columns, f"{what}: pad_info")
    made = []
    for i, column in enumerate(columns):
        values = [r[i] for r in part]
        if column in pads:
            values = pad_together(values, pads[column], column, bound)
        made.append(stack(values, column, what))
    return tuple(made)


@dataclass(eq=False)
class Buckets(Operation):
    """Rows put together with rows of about their length, as `Dataset.bucket_batch_by_length` says;
    the length is found from the columns `taken`."""

    taken: list[str]
    boundaries: list[int]
    sizes: list[int]
    length: Callable[..., Any] | None
    pad_info: PadInfo | None
    pad_to_boundary: bool
    drop_remainder: bool

    def size(self, inputs: Sequence[Input]) -> int:
        return self.counted(inputs)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        columns = inputs[0].get_col_names()
        places = places_of(self.taken, columns, "bucket_batch_by_length")
        buckets: list[list[Row]] = [[] for _ in self.sizes]
        for number, row in enumerate(inputs[0].rows(run)):
            length = self._length([row[p] for p in places], number)
            i = int(np.searchsorted(self.boundaries, length, side="right"))
            buckets[i].append(row)
            if len(buckets[i]) == self.sizes[i]:
                yield self._batch(buckets[i], columns, i)
                buckets[i] = []
        if self.drop_remainder:
            return
        for i, part in sorted(enumerate(buckets), key=lambda b: (-len(b[1]), b[0])):
            if part:
                yield self._batch(part, columns, i)

    def _length(self, values: list[Value], number: int) -> int:
        if self.length is None:
            if not getattr(values[0], "ndim", 0):
                raise RuntimeError(f"bucket_batch_by_length: column {self.taken[0]!r} of row "
                                   f"{number} has no axis: give element_length_function.")
            return int(values[0].shape[0])
        try:
            length = int(np.asarray(self.length(*values)).item())
        except Exception as error:
            raise failed("bucket_batch_by_length: element_length_function on row "
                         f"{number}", error) from error
        if length < 0:
            raise RuntimeError("bucket_batch_by_length: element_length_function must give a "
                               f"length of 0 or more, but returned {length}.")
        return length

    def _batch(self, part: list[Row], columns: list[str], bucket: int) -> Row:
        bound = None
        if self.pad_to_boundary:
            if bucket == len(self.boundaries):
                raise RuntimeError(
                    "bucket_batch_by_length: pad_to_bucket_boundary is set, but a row is longer "
                    f"than the last boundary {self.boundaries[-1]}.")
            bound = self.boundaries[bucket] - 1
        return _padded_batch(part, columns, self.pad_info, "bucket_batch_by_length", bound)
