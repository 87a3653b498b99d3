"""Datasets of text in files: lines, and tables of comma-separated values."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, zip_longest
from typing import Any, TextIO

import numpy as np

from . import checks, config
from .operations import shuffled
from .rows import Row, Run
from .samplers import Shuffle
from .sources import SourceDataset, _check_source
from .streams import Mt19937, Mt19937x64

_BUFFER = 10000
"""Rows of files are drawn from a buffer of four files' rows, but not of more than so many."""
Place = tuple[int, int]
"""A file's number, and that of a row in it."""


class FileDataset(SourceDataset):
    """Base of datasets whose files are read from the start to the end.

    As many files as there are workers are read at once, and their rows come in turn, one of each. A
    shard is a run of rows; the last one goes on at the beginning so that all are equally long. Both
    as in MindSpore, whose orders of files and rows these are, too.
    """

    def __init__(
        self, dataset_files: Any, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        super().__init__(None, num_parallel_workers, cache)
        self.dataset_files = _paths(dataset_files)
        if not isinstance(shuffle, Shuffle):
            checks.of_type("shuffle", shuffle, (bool, Shuffle))
        _check_source(num_samples, None, num_shards, shard_id)
        self._mode = shuffle if isinstance(shuffle, Shuffle) else \
            Shuffle.GLOBAL if shuffle else Shuffle.FALSE
        self.num_samples, self.num_shards, self.shard_id = num_samples, num_shards, shard_id
        self._read_files: list[Sequence[Row]] | None = None

    def _read(self, path: str) -> Sequence[Row]:
        """The rows of a file."""
        raise TypeError(f"{type(self).__name__} must read its files.")

    def _files(self) -> list[Sequence[Row]]:
        if self._read_files is None:
            self._read_files = [self._read(path) for path in self.dataset_files]
        return self._read_files

    def _find_size(self) -> int:
        rows = sum(len(rows) for rows in self._files())
        each = -(-rows // (self.num_shards or 1))
        return min(each, self.num_samples) if self.num_samples else each

    def rows(self, run: Run) -> Iterator[Row]:
        """The rows of an epoch."""
        files = list(range(len(self.dataset_files)))
        if self._mode is not Shuffle.FALSE:
            files = run.kept(self, lambda: files)
            # Further than in the pass before. Processes that share the rows may have other seeds.
            seed = run.seed if self.num_shards is None else 1 + run.times(self)
            Mt19937(seed).shuffle(files)
        mine = self._own([(i, n) for i in files for n in range(len(self._files()[i]))])
        places = _in_turn(mine, self.num_parallel_workers or config.get_num_parallel_workers())
        places = places[: self.num_samples] if self.num_samples else places
        rows = (self._files()[file][number] for file, number in places)
        if self._mode in (Shuffle.FALSE, Shuffle.FILES):
            return rows
        random = run.kept(self.dataset_files, lambda: Mt19937x64(run.seed))
        return shuffled(rows, max(1, min(4 * (len(mine) // len(files)), _BUFFER)), random)

    def _own(self, places: list[Place]) -> list[Place]:
        """The places of rows that are this process's."""
        if self.num_shards is None or self.shard_id is None or not places:
            return places
        each = -(-len(places) // self.num_shards)
        start = each * self.shard_id
        return [places[(start + i) % len(places)] for i in range(each)]


def _paths(given: Any) -> list[str]:
    """The files that paths and patterns name, sorted."""
    many = [given] if isinstance(given, (str, os.PathLike)) else given
    checks.of_type("dataset_files", many, (list, tuple))
    found: list[str] = []
    missing = []
    for each in many:
        checks.of_type("dataset_files", each, (str, os.PathLike))
        matched = [p for p in glob.glob(os.fspath(each)) if os.path.isfile(p)]
        missing += [] if matched else [os.fspath(each)]
        found += matched
    if missing or not found:
        raise ValueError(f"The following patterns did not match any files: {missing}.")
    return sorted(found)


def _in_turn(places: list[Place], workers: int) -> list[Place]:
    """Rows of several files, one of each worker's in turn; a worker has every so manieth file."""
    by_file: dict[int, list[Place]] = {}
    for place in places:
        by_file.setdefault(place[0], []).append(place)
    files = list(by_file.values())
    turns = zip_longest(*(chain(*files[i::workers]) for i in range(workers)))
    return [place for turn in turns for place in turn if place is not None]


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            yield stream
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read as UTF-8: {error}") from error


def _text(path: str) -> str:
    with _opened(path) as stream:
        return stream.read()


class TextFileDataset(FileDataset):
    """The lines of text files that are not empty: a column text.

    Args:
        dataset_files: a path or pattern, or a list of them.
        num_samples: at most so many rows; None for all.
        num_parallel_workers: how many files are read in turn; None: as the configuration says.
        shuffle: `Shuffle.GLOBAL` (or True): all lines; `Shuffle.FILES`: only the order of files;
            False: neither.
        num_shards, shard_id: take the part of one of several processes.
        cache: must be None.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such file.

    Source: `mindspore.dataset.TextFileDataset`.
    """

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["text"]

    def _read(self, path: str) -> list[Row]:
        return [(np.array(line),) for line in _text(path).split("\n") if line]


class CSVDataset(FileDataset):
    """The rows of files of comma-separated values.

    Args:
        dataset_files: a path or pattern, or a list of them.
        field_delim: what is between the fields.
        column_defaults: a value for each column that says its type: int (int32), float (float32)
            or str; None: all are strings.
        column_names: None: the first line of each file has them.
        num_samples, num_parallel_workers, shuffle, num_shards, shard_id, cache: as for
            `TextFileDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such file.
        RuntimeError: (when rows are asked for) a line does not fit.

    Source: `mindspore.dataset.CSVDataset`.
    """

    def __init__(
        self, dataset_files: Any, field_delim: str = ",", column_defaults: Any = None,
        column_names: Any = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        checks.of_type("field_delim", field_delim, str)
        if len(field_delim) != 1 or field_delim in '"\r\n':
            raise ValueError("field_delim should be one character, no quote and no line end, but "
                             f"got {field_delim!r}.")
        if column_defaults is not None:
            checks.of_type("column_defaults", column_defaults, (list, tuple))
            for i, each in enumerate(column_defaults):
                checks.of_type(f"column_defaults[{i}]", each, (int, float, str))
        self.field_delim, self.column_defaults = field_delim, column_defaults
        self.column_names = None if column_names is None else \
            checks.names("column_names", column_names)
        self._header = column_names is None
        super().__init__(dataset_files, num_samples, num_parallel_workers, shuffle, num_shards,
                         shard_id, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        if self.column_names is None:
            path = self.dataset_files[0]
            with closing(self._lines(path)) as lines:
                first: list[str] = next((fields for _, fields in lines), [])
            self.column_names = checks.names(f"the names in the first line of {path}", first)
        return list(self.column_names)

    def _read(self, path: str) -> list[Row]:
        names = self.get_col_names()
        rows = []
        for number, (line, fields) in enumerate(self._lines(path)):
            if not fields or (self._header and number == 0):
                continue
            if len(fields) != len(names):
                raise RuntimeError(
                    f"Invalid csv, {path} at line {line}: {len(fields)} fields for the "
                    f"{len(names)} columns {names}.")
            rows.append(tuple(self._field(text, i, f"{path} at line {line}")
                              for i, text in enumerate(fields)))
        return rows

    def _lines(self, path: str) -> Generator[tuple[int, list[str]], None, None]:
        """The fields of each row, and the line that it ends in, counted from 1; of the file no more
        is read than is asked for."""
        with _opened(path) as stream:
            lines = chain.from_iterable(line.splitlines(keepends=True) for line in stream)
            reader = csv.reader(lines, delimiter=self.field_delim)
            try:
                for fields in reader:
                    yield reader.line_num, fields
            except csv.Error as error:
                raise RuntimeError(
                    f"Invalid csv, {path} at line {reader.line_num}: {error}") from error

    def _field(self, text: str, column: int, place: str) -> np.ndarray[Any, Any]:
        defaults = self.column_defaults or []
        kind = type(defaults[column]) if column < len(defaults) else str
        if kind is str:
            return np.array(text)
        try:
            return np.array(int(text), np.int32) if kind is int else \
                np.array(float(text), np.float32)
        except (ValueError, OverflowError) as error:
            raise RuntimeError(
                f"Invalid csv, {place}: type does not match: column "
                f"{self.get_col_names()[column]!r} should be {kind.__name__}, but is {text!r}."
            ) from error
