"""Datasets of text in files: lines, and tables of comma-separated values."""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..core.declared import Rule, instance
from . import config, rules
from .declared import LINES, Argument, argument
from .operations import shuffled
from .rows import Row, Run
from .rules import several
from .samplers import Shuffle
from .sources import SourceDataset
from .streams import Mt19937, Mt19937x64

_BUFFER = 10000
"""Rows of files are drawn from a buffer of four files' rows, but at most this number."""
Place = tuple[int, int]
"""A file's number, and that of a row in it."""


ORDER = Argument(
    "Any", Rule(
        "a bool or a Shuffle", instance(bool, Shuffle).fits, normal=lambda value: value if
        isinstance(value, Shuffle) else Shuffle.GLOBAL if value else Shuffle.FALSE), Shuffle.GLOBAL,
    text="`Shuffle.GLOBAL` (or True): all rows; `Shuffle.FILES`: only the order of files; False: "
         "neither.")


class FileDataset(SourceDataset):
    """Base of datasets whose files are read from the start to the end.

    As many files as there are workers are read at once, and their rows come in turn, one of each. A
    shard is a run of rows; the last one continues at the beginning so that all are equally long.
    Both as in MindSpore, whose orders of files and rows these are, too.
    """

    dataset_files: list[str]
    shuffle: Any = ORDER
    _columns: Mapping[str, Any] = {}
    _read_files: list[Sequence[Row]] | None = None

    def _choose(
        self, num_parallel_workers: int | None = None, cache: Any = None, **choice: Any
    ) -> None:
        super().__init__(None, num_parallel_workers, cache)
        self._mode, self.num_samples = choice["shuffle"], choice["num_samples"]
        self.num_shards, self.shard_id = choice["num_shards"], choice["shard_id"]

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


class FolderDataset(FileDataset, takes=f"dataset_dir usage {LINES}"):
    """Base of collections with a file for each part, which `usage` names."""

    dataset_dir: Path
    usage: str
    _parts: Mapping[str, str] = {}  # The file of each part

    def __init_subclass__(cls, usages: tuple[str, ...] = (), **more: Any) -> None:
        parts = vars(cls).get("_parts", ())
        super().__init_subclass__(usages=usages or ((*parts, "all") if parts else ()), **more)

    def _prepare(self) -> None:
        self.dataset_files = self._files_of(self._parts)

    def _files_of(self, parts: Mapping[str, str]) -> list[str]:
        """The files of the chosen part, sorted."""
        names = parts.values() if self.usage == "all" else [parts[self.usage]]
        paths = [self.dataset_dir / name for name in names]
        for path in paths:
            if not path.is_file():
                raise ValueError(f"There is no {path.name} in {self.dataset_dir}.")
        return sorted(map(str, paths))


def _lines(path: str) -> list[Row]:
    """A row for each line that is not empty."""
    return [(np.array(line),) for line in _text(path).split("\n") if line]


class TextFileDataset(FileDataset, takes=f"dataset_files {LINES}"):
    """The lines of text files that are not empty."""

    _columns = {"text": None}

    def _read(self, path: str) -> list[Row]:
        return _lines(path)


_DELIMITER = Rule(
    "one character, no quote and no line end", lambda value: isinstance(value, str),
    lambda value: len(value) == 1 and value not in '"\r\n')


class CSVDataset(
    FileDataset, takes=f"dataset_files field_delim column_defaults column_names {LINES}"
):
    """The rows of files of comma-separated values.

    Args:
        column_defaults: a value for each column that says its type: int (int32), float (float32)
            or str; None: all are strings.
    """

    field_delim: str = argument("str", _DELIMITER, ",", text="what is between the fields.")
    column_defaults: Sequence[Any] | None = argument(
        "Any", several(instance(int, float, str)), None)
    column_names: list[str] | None = argument(
        "Any", rules.NAMES, None, text="None: the first line of each file has them.")
    _header = False

    def _prepare(self) -> None:
        self._header = self.column_names is None

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        if self.column_names is None:
            path = self.dataset_files[0]
            with closing(self._lines(path)) as lines:
                first: list[str] = next((fields for _, fields in lines), [])
            self.column_names = rules.NAMES(first, "CSVDataset", f"the first line of {path}")
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
        is read than is requested."""
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
            raise RuntimeError(f"Invalid csv, {place}: type does not match: column "
                               f"{self.get_col_names()[column]!r} should be {kind.__name__}, but "
                               f"is {text!r}.") from error
