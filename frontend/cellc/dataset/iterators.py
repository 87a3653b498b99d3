"""Iterators over the rows of a pipeline, epoch after epoch. Source: `mindspore.dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.native import names_itself
from .operations import Input
from .rows import HIDDEN, Row, Run, Value, places_of, to_tensor


@names_itself
class RowIterator:
    """Base of iterators: rows of one epoch until StopIteration, then of the next.

    Args:
        columns: which of them, in which order; None for all but those whose name starts with
            `HIDDEN`.
        num_epochs: how many epochs; -1 for any number.
        as_numpy: whether values are numpy arrays instead of Tensors.

    Raises:
        RuntimeError: a column is not there, or there are no more epochs (at the call).
    """

    def __init__(
        self, dataset: Input, columns: Sequence[str] | None, num_epochs: int, as_numpy: bool
    ) -> None:
        self._dataset, self._as_numpy = dataset, as_numpy
        try:
            found = dataset.get_col_names()
        except RuntimeError as error:
            error.names_place = True  # type: ignore[attr-defined]  # it names the stage of the pipeline
            raise
        self._columns = list(columns) if columns else \
            [name for name in found if not name.startswith(HIDDEN)]
        self._places = None if self._columns == found else \
            places_of(self._columns, found, "create_tuple_iterator")
        self._left, self._epoch = num_epochs, 0
        self._rows: Iterator[Row] | None = None
        self._run: Run | None = None

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self._rows is None:
            if self._left == 0:
                raise RuntimeError(
                    f"the iterator was made for {self._epoch} epoch(s), which are over: ask for "
                    "more with 'num_epochs', or make another one.")
            self._left -= self._left > 0
            self._run = Run(self._epoch, before=self._run, reports=True)
            self._rows = self._dataset.rows(self._run)
            self._epoch += 1
        try:
            row = next(self._rows)
        except StopIteration:
            self._rows = None
            if self._run is not None:
                self._run.end()
            if self._left == 0:
                self._run = None
            raise
        return self._given(row)

    def _given(self, row: Row) -> Any:
        chosen = row if self._places is None else [row[p] for p in self._places]
        return [self._value(v) for v in chosen]

    def _value(self, value: Value) -> Any:
        if not self._as_numpy:
            return to_tensor(value)
        return value if isinstance(value, dict) or value.ndim else np.asarray(value)

    def get_next(self) -> Any:
        """The next row."""
        return self.__next__()

    def stop(self) -> None:
        """Give no more rows, and end the workers that make them."""
        self._rows, self._left, self._run = None, 0, None

    def release(self) -> None:
        """Give no more rows."""
        self.stop()


class TupleIterator(RowIterator):
    """Rows as lists, a value for each column."""


class DictIterator(RowIterator):
    """Rows as dicts by column name."""

    def _given(self, row: Row) -> Any:
        return dict(zip(self._columns, super()._given(row), strict=True))
