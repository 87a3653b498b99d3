"""Operations of a pipeline on rows: map, filter, shuffle, repeat and the operations on columns.

An operation is given the datasets before it, and says which columns it gives, how many rows, and
the rows of an epoch. `batching` has those that put rows together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np

from cellc_runtime.records import dataclass

from . import config
from .callbacks import DSCallback, Told
from .processes import WorkerError
from .rows import Row, Run, Value, failed, places_of, to_value
from .streams import Mt19937x64
from .workers import ONE, Made, Workers, made_of, under_way


class Input(Protocol):
    """A dataset, as operations see it."""

    def get_col_names(self) -> list[str]:
        """The columns."""

    def get_dataset_size(self) -> int:
        """How many rows an epoch has."""

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows of an epoch."""


class Operation:
    """Base of operations; this one changes nothing."""

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        """The columns it gives."""
        return inputs[0].get_col_names()

    def size(self, inputs: Sequence[Input]) -> int:
        """How many rows it gives."""
        return inputs[0].get_dataset_size()

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        """The rows of an epoch."""
        return inputs[0].rows(run)

    def counted(self, inputs: Sequence[Input]) -> int:
        """How many rows there are, by going through them."""
        return sum(1 for _ in self.rows(inputs, Run()))


class Columns:
    """Which columns a function takes and gives, and where the others go.

    Args:
        what: the operation, for errors.
        taken: the names it takes.
        given: the names it gives; None for the same.
    """

    def __init__(self, what: str, taken: Sequence[str], given: Sequence[str] | None) -> None:
        self.what, self.taken = what, list(taken)
        self.given = list(taken) if given is None else list(given)

    def after(self, columns: Sequence[str]) -> list[str]:
        """The columns afterwards: each in the place of the one it was made of where there are as
        many as before, else the new ones first."""
        found = list(self.put(columns, places_of(self.taken, columns, self.what), self.given))
        twice = [c for c in found if found.count(c) > 1]
        if twice:
            raise RuntimeError(f"{self.what}: column {twice[0]!r} would be there twice.")
        return found

    def put(self, row: Sequence[Value], places: Sequence[int], made: Sequence[Value]) -> Row:
        """A row with what the function made of the values at `places`."""
        if len(self.given) == len(self.taken):
            found = list(row)
            for place, value in zip(places, made, strict=True):
                found[place] = value
            return tuple(found)
        return (*made, *(v for i, v in enumerate(row) if i not in places))

    def checked(self, result: Any, by: str) -> tuple[Any, ...]:
        """Return a function's result as one value for each column."""
        values = result if isinstance(result, tuple) else (result,)
        if len(values) != len(self.given):
            raise RuntimeError(
                f"{self.what}: the number of columns returned in {by} should match the number of "
                f"'output_columns' {self.given}, but got {len(values)} of them.")
        return values


def name_of(operation: Any) -> str:
    """How errors call a function or transform."""
    return str(getattr(operation, "__name__", None) or type(operation).__name__)


@dataclass(eq=False)
class Map(Operation):
    """Functions on some columns of each row, each called with what the one before gave.

    Attributes:
        taken: the columns; None for the first.
        given: the columns afterwards; None for the same.
        workers: who calls the functions.
        callbacks: called for each row.
    """

    functions: Sequence[Callable[..., Any]]
    taken: list[str] | None
    given: list[str] | None
    workers: Workers = ONE
    callbacks: tuple[DSCallback, ...] = ()

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        return self._columns(inputs).after(inputs[0].get_col_names())

    def _columns(self, inputs: Sequence[Input]) -> Columns:
        taken = self.taken or inputs[0].get_col_names()[:1]
        return Columns("map", taken, self.given)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        spec = self._columns(inputs)
        spec.after(inputs[0].get_col_names())
        places = places_of(spec.taken, inputs[0].get_col_names(), "map")
        mode, spare, waiting = config.get_error_samples_mode(), None, 0
        told = self._told(run)
        for (row, position), made in self._made(inputs[0].rows(run), places, spec, run, told):
            try:
                values = made()
            except RuntimeError as error:
                if mode is config.ErrorSamplesMode.RETURN or isinstance(error, WorkerError):
                    raise
                waiting += mode is config.ErrorSamplesMode.REPLACE and spare is None
                if mode is config.ErrorSamplesMode.REPLACE and spare is not None:
                    yield spare
                continue
            if told is not None:
                told.step_end(position)
            spare = spec.put(row, places, values)
            yield spare
            for _ in range(waiting):
                yield spare
            waiting = 0

    def _told(self, run: Run) -> Told | None:
        """Return the caller of this iterator's callbacks."""
        if not self.callbacks or not run.reports:
            return None
        if any(c.waits for c in self.callbacks):
            run.keep_step()
        told = run.kept(self.callbacks, lambda: Told(self.callbacks))
        told.begin(run)
        return told

    def _made(
        self, rows: Iterator[Row], places: list[int], spec: Columns, run: Run, told: Told | None
    ) -> Iterator[tuple[tuple[Row, Any], Made]]:
        """Yield each row and its callbacks' context, with a function for its new values.

        With one worker a transform draws from one stream, row after row, epoch after epoch. With
        several each row has a seed of its own, so that it does not matter how many there are.
        """
        tasks = (((row, told.step_begin() if told is not None else None),
                  (number, [row[p] for p in places])) for number, row in enumerate(rows))
        if self.workers.count == 1:
            functions = run.kept(self, lambda: _bound(self.functions, run.seed))
            made = made_of(self.workers, partial(_apply, functions, spec), tasks, run, self)
            # Callbacks hear of rows ahead, as with several workers.
            return made if told is None else under_way(made, config.get_prefetch_size(), run)
        seed = (run.seed, run.times(self))
        items = ((kept, (seed, *task)) for kept, task in tasks)
        return made_of(self.workers, partial(_apply_apart, self.functions, spec), items, run, self)


def _bound(functions: Sequence[Callable[..., Any]], seed: int) -> list[Callable[..., Any]]:
    return [f.bound(seed) if hasattr(f, "bound") else f for f in functions]


def _apply_apart(
    functions: Sequence[Callable[..., Any]], spec: Columns, seed: tuple[int, int], number: int,
    values: Sequence[Value],
) -> list[Value]:
    """As `_apply`, with streams of the row's own."""
    own = int(np.random.SeedSequence((*seed, number)).generate_state(1)[0])
    return _apply(_bound(functions, own), spec, number, values)


def _apply(
    functions: Sequence[Callable[..., Any]], spec: Columns, number: int, values: Sequence[Value]
) -> list[Value]:
    """Return the results of functions on a row's values, one after the other."""
    result: Any = tuple(values)
    for function in functions:
        try:
            result = function(*result) if isinstance(result, tuple) else function(result)
        except Exception as error:
            raise failed(f"map operation {name_of(function)!r} on column(s) {spec.taken} of "
                         f"row {number}", error) from error
    made = spec.checked(result, "'map' operations")
    by = name_of(functions[-1])
    return [to_value(v, f"map operation {by!r}, column {c!r}", RuntimeError)
            for v, c in zip(made, spec.given, strict=True)]


@dataclass(eq=False)
class Filter(Operation):
    """The rows a function says yes to; it takes some columns, or all (None)."""

    predicate: Callable[..., Any]
    taken: list[str] | None
    workers: Workers = ONE

    def size(self, inputs: Sequence[Input]) -> int:
        return self.counted(inputs)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        """The rows that stay.

        Raises:
            Exception: that of the predicate, with the operation, the columns and the row.
        """
        columns = inputs[0].get_col_names()
        taken = self.taken or columns
        places = places_of(taken, columns, "filter")
        items = ((row, (taken, number, [row[p] for p in places]))
                 for number, row in enumerate(inputs[0].rows(run)))
        for row, made in made_of(self.workers, self._stays, items, run, self):
            if made():
                yield row

    def _stays(self, taken: list[str], number: int, values: Sequence[Value]) -> bool:
        try:
            return bool(self.predicate(*values))
        except Exception as error:
            raise failed(f"filter predicate {name_of(self.predicate)!r} on column(s) {taken} of "
                         f"row {number}", error) from error


@dataclass(eq=False)
class Shuffle(Operation):
    """Rows drawn from a buffer of `buffer_size` that is filled up again."""

    buffer_size: int

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        random = run.kept(self, lambda: Mt19937x64(run.seed))
        return shuffled(inputs[0].rows(run), self.buffer_size, random)


def shuffled(rows: Iterator[Row], size: int, random: Mt19937x64) -> Iterator[Row]:
    """Yield rows drawn from a buffer of `size`."""
    buffer = list(islice(rows, size))
    while buffer:
        place = random.word() % len(buffer)
        drawn, buffer[place] = buffer[place], buffer[-1]
        del buffer[-1]
        buffer.extend(islice(rows, 1))
        yield drawn


@dataclass(eq=False)
class Share(Operation):
    """One row of each `number`."""

    number: int
    which: int

    def size(self, inputs: Sequence[Input]) -> int:
        return len(range(self.which, inputs[0].get_dataset_size(), self.number))

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        return islice(inputs[0].rows(run), self.which, None, self.number)


@dataclass(eq=False)
class Repeat(Operation):
    """The rows several times over; -1 for without end."""

    count: int

    def size(self, inputs: Sequence[Input]) -> int:
        return inputs[0].get_dataset_size() * max(1, self.count)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        done = 0
        while done != self.count:
            empty = True
            for row in inputs[0].rows(run):
                empty = False
                yield row
            if empty:
                return
            done += 1


@dataclass(eq=False)
class Take(Operation):
    """The first `count` rows; -1 for all."""

    count: int

    def size(self, inputs: Sequence[Input]) -> int:
        size = inputs[0].get_dataset_size()
        return size if self.count < 0 else min(size, self.count)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        rows = inputs[0].rows(run)
        return rows if self.count < 0 else islice(rows, self.count)


@dataclass(eq=False)
class Skip(Operation):
    """All but the first `count` rows."""

    count: int

    def size(self, inputs: Sequence[Input]) -> int:
        return max(0, inputs[0].get_dataset_size() - self.count)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        return islice(inputs[0].rows(run), self.count, None)


@dataclass(eq=False)
class Fixed(Operation):
    """Rows in an order that is the same in each epoch: for parts that share them.

    Operations before draw from the seed, as does the shuffling of all rows.
    """

    seed: int
    shuffled: bool

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        rows = inputs[0].rows(Run(0, self.seed))
        if not self.shuffled:
            return rows
        kept = list(rows)
        return shuffled(iter(kept), len(kept), Mt19937x64(self.seed))


class Zip(Operation):
    """The columns of several datasets side by side; as long as the shortest."""

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        found = [c for each in inputs for c in each.get_col_names()]
        twice = [c for c in found if found.count(c) > 1]
        if twice:
            raise RuntimeError(f"zip: duplicate column {twice[0]!r} already exists when zipping "
                               "datasets: rename it in one of them.")
        return found

    def size(self, inputs: Sequence[Input]) -> int:
        return min(each.get_dataset_size() for each in inputs)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        self.columns(inputs)
        rows = (each.rows(run.branch(i, self)) for i, each in enumerate(inputs))
        for parts in zip(*rows, strict=False):
            yield tuple(value for part in parts for value in part)


class Concat(Operation):
    """The rows of several datasets, one after the other."""

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        """Those of the first, which the others must have too.

        Raises:
            RuntimeError: they have others, or in another order.
        """
        first = inputs[0].get_col_names()
        for each in inputs[1:]:
            if each.get_col_names() != first:
                raise RuntimeError("concat: 'column name' or 'column order' of concat datasets "
                                   f"should be the same, but got {first} and "
                                   f"{each.get_col_names()}.")
        return first

    def size(self, inputs: Sequence[Input]) -> int:
        return sum(each.get_dataset_size() for each in inputs)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        """The rows; each column keeps its dtype and number of axes.

        Raises:
            RuntimeError: a column has another dtype or number of axes in a later dataset.
        """
        columns = self.columns(inputs)
        kinds: list[tuple[Any, int] | None] | None = None
        for number, each in enumerate(inputs):
            for row in each.rows(run.branch(number, self)):
                found = [_kind(v) for v in row]
                if kinds is None:
                    kinds = found
                elif found != kinds:
                    i = next(i for i, k in enumerate(found) if k != kinds[i])
                    raise RuntimeError(
                        "concat: 'data type' and 'rank' of concat datasets should be the same, but "
                        f"column {columns[i]!r} has {_told(kinds[i])} and {_told(found[i])}.")
                yield row


def _kind(value: Value) -> tuple[Any, int] | None:
    if isinstance(value, dict):
        return None
    return value.dtype.kind if value.dtype.kind in "US" else value.dtype, value.ndim


def _told(kind: tuple[Any, int] | None) -> str:
    return "dicts" if kind is None else f"{kind[0]} of {kind[1]} axes"


@dataclass(eq=False)
class Project(Operation):
    """Some columns, in a new order."""

    names: list[str]

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        places_of(self.names, inputs[0].get_col_names(), "project")
        return list(self.names)

    def rows(self, inputs: Sequence[Input], run: Run) -> Iterator[Row]:
        places = places_of(self.names, inputs[0].get_col_names(), "project")
        for row in inputs[0].rows(run):
            yield tuple(row[p] for p in places)


@dataclass(eq=False)
class Rename(Operation):
    """Other names for some columns."""

    before: list[str]
    after: list[str]

    def columns(self, inputs: Sequence[Input]) -> list[str]:
        return Columns("rename", self.before, self.after).after(inputs[0].get_col_names())


@dataclass(eq=False)
class SyncWait(Operation):
    """A place of a name in the pipeline; what a training loop sends there its callback gets."""

    condition_name: str
    callback: Callable[..., Any] | None
