"""Datasets of record files: MindRecord and TFRecord."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.declared import NON_NEGATIVE, Rule, instance, one_of
from ..records.reader import Records
from ..records.schema import Field
from ..records.tfrecord import Feature, TFRecordFile
from . import rules
from .declared import argument, flag
from .rows import Row, Run, own_value
from .samplers import (
    BuiltinSampler,
    DistributedSampler,
    Draw,
    Ids,
    RecordDraw,
    Sampler,
    SequentialSampler,
    Shuffle,
    choose,
)
from .schema import Schema
from .sources import MappableDataset
from .texts import FileDataset, Place

_PART = 1_000_000
_CHOOSERS = ("SubsetRandomSampler", "SubsetSampler", "PKSampler", "RandomSampler",
             "SequentialSampler", "DistributedSampler")


class _InFiles(BuiltinSampler):
    """Rows shuffled within runs of them, or the runs shuffled.

    Args:
        ends: where each run ends.
        runs: whether the runs are shuffled instead of what is in them.
    """

    _shuffles = True

    def __init__(self, ends: Sequence[int], runs: bool) -> None:
        super().__init__()
        self.ends, self.runs = ends, runs

    def _positions(self, ids: Ids, draw: Draw) -> Ids:
        parts = [p.tolist() for p in np.split(np.arange(len(ids)), self.ends[:-1])]
        if self.runs:
            parts = draw.shuffled(self, parts, draw.stream())
        else:
            parts = [draw.shuffled((self, i), p, draw.stream()) for i, p in enumerate(parts)]
        return [place for part in parts for place in part]


def _readable(files: Any) -> Any:
    for each in [files] if isinstance(files, str) else files:
        try:
            with open(each, "rb"):
                pass
        except OSError as error:
            raise ValueError(f"The file {each} does not exist or permission denied!") from error
    return files if isinstance(files, str) else list(files)


_FILES = Rule("a path or a list of them", lambda value: isinstance(value, str) or (
    isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)),
    normal=_readable)


def _columns_list() -> Any:
    """The argument of the columns that are read."""
    return argument("Any", rules.NAMES, None, text="which columns; None for all.")


class MindDataset(
    MappableDataset,
    takes="dataset_files columns_list num_parallel_workers shuffle num_shards shard_id sampler "
          "padded_sample num_padded num_samples cache",
):
    """Rows of MindRecord files; the columns are the fields, sorted by name.

    Numbers and strings are scalars, bytes an array of one, arrays have the shape the file says.

    Args:
        dataset_files: one of the files that were written together, or a list of files.
        shuffle: None, True, `Shuffle.GLOBAL` or `Shuffle.ADAPTIVE`: all rows (the last, of more
            than 100 million, by the million, as `Shuffle.PARTIAL`); `Shuffle.FILES`: the order of
            files; `Shuffle.INFILE`: rows within each file; False: none.

    Raises:
        RuntimeError: a file is damaged, or there is no such column.
    """

    dataset_files: str | list[str] = argument("str | list[str]", _FILES)
    columns_list: list[str] | None = _columns_list()
    padded_sample: Mapping[str, Any] | None = argument(
        "Mapping[str, Any] | None", instance(dict), None,
        text="a row that is added after the others; it needs `columns_list`.")
    num_padded: int = argument("int | None", NON_NEGATIVE, None, text="how many times.")

    def _prepare(self) -> None:
        self._records = Records(self.dataset_files)
        fields = self._records.schema.fields
        if self.columns_list is not None:
            self._records.check_names(self.columns_list)
        self._fields = [field for name, field in fields.items()
                        if self.columns_list is None or name in self.columns_list]
        self._padded, self.num_padded = self._padding(
            self.columns_list, self.padded_sample, self.num_padded)

    def _choose(
        self, num_parallel_workers: int | None = None, cache: Any = None, **choice: Any
    ) -> None:
        sampler = choice["sampler"]
        if sampler is not None and choice["shuffle"] is not None:
            raise RuntimeError("sampler and shuffle cannot be specified at the same time.")
        if isinstance(sampler, Sampler) and isinstance(sampler, BuiltinSampler) and \
                type(sampler).__name__ not in _CHOOSERS:
            raise ValueError(f"The sampler is not supported yet: expected one of {_CHOOSERS}.")
        MappableDataset.__init__(self, self._order(**choice), num_parallel_workers, cache)

    def _padding(
        self, columns_list: Any, sample: Mapping[str, Any] | None, count: int | None
    ) -> tuple[Row | None, int]:
        if sample is None:
            if count is not None:
                raise RuntimeError("num_padded is specified but padded_sample is not.")
            return None, 0
        if columns_list is None:
            raise RuntimeError("padded_sample is specified and requires columns_list as well.")
        if count is None:
            raise RuntimeError("padded_sample is specified and requires num_padded as well.")
        missing = [f.name for f in self._fields if f.name not in sample]
        if missing:
            raise RuntimeError(f"padded_sample lacks the columns {missing}.")
        return self._values(sample), count

    def _order(
        self, num_samples: int | None, sampler: Any, shuffle: Any, num_shards: int | None,
        shard_id: int | None,
    ) -> Sampler:
        mode = Shuffle(shuffle) if isinstance(shuffle, str) else Shuffle.ADAPTIVE
        count = self._count()
        if mode is Shuffle.ADAPTIVE and count > 100 * _PART:
            mode = Shuffle.PARTIAL
        if sampler is not None or mode in (Shuffle.ADAPTIVE, Shuffle.GLOBAL, Shuffle.FALSE):
            return choose(num_samples, sampler, shuffle, num_shards, shard_id)
        ends = [*range(_PART, count, _PART), count] if mode is Shuffle.PARTIAL else \
            [*self._records.ends[:-1], count]
        many = num_samples or None
        chosen: Sampler = SequentialSampler(num_samples=many) if num_shards is None else \
            DistributedSampler(num_shards, shard_id or 0, False, many)
        chosen.add_child(_InFiles(ends, mode is Shuffle.FILES))
        return chosen

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return [f.name for f in self._fields]

    def _count(self) -> int:
        return len(self._records) + self.num_padded

    def _row(self, place: int) -> Row:
        if place >= len(self._records) and self._padded is not None:
            return self._padded
        return self._values(self._records.row(place, self.get_col_names()))

    def _draw(self, run: Run) -> Draw:
        return RecordDraw(run.seed, run.times(self), run.kept(self, dict), self._labels)

    def _labels(self, column: str) -> Any:
        """From the index where the column is one: no row is read for it."""
        if column not in self.get_col_names():
            return super()._labels(column)
        shards = self._records.shards
        if any(column not in shard.indexes for shard in shards):
            return super()._labels(column)
        found = [value for shard in shards for value in shard.values(column)]
        if self._padded is not None:
            at = self.get_col_names().index(column)
            found += [self._padded[at].item()] * self.num_padded
        return np.array(found)

    def _values(self, row: Mapping[str, Any]) -> Row:
        """A row as the columns have it."""
        return tuple(_value(field, row[field.name]) for field in self._fields)


def _value(field: Field, value: Any) -> np.ndarray[Any, Any]:
    what = f"MindDataset: column {field.name!r}"
    if field.shape is not None:
        return np.asarray(own_value(value, what), field.type)
    if field.type == "bytes":
        # An array of strings of numpy keeps bytes of 0 at the end, though its elements do not.
        data = bytes(value)
        return np.frombuffer(data, f"S{len(data)}") if data else np.zeros(1, "S1")
    return np.array(str(value)) if field.type == "string" else np.array(value, field.type)


_SCHEMA = Rule("a Schema or the path of one", instance(str, Schema).fits,
               normal=lambda value: Schema(value) if isinstance(value, str) else value)


class TFRecordDataset(
    FileDataset,
    takes="dataset_files schema columns_list num_samples num_parallel_workers shuffle num_shards "
          "shard_id shard_equal_rows cache compression_type",
):
    """Rows of TFRecord files of `tf.train.Example` messages.

    Without a schema the columns are the features of the first row, sorted by name: int64, float32,
    or bytes as uint8; with one they are its columns, with its types and shapes.

    Args:
        num_samples: the most rows; None: as many as the schema says, or all.
        num_shards, shard_id: take the part of one of several processes: every so manieth file.

    Raises:
        RuntimeError: a file is damaged, or its features do not fit the schema.
    """

    schema: Schema | None = argument("str | Schema | None", _SCHEMA, None,
                                     text="a `Schema`, or the path of its JSON file.")
    columns_list: list[str] | None = _columns_list()
    shard_equal_rows: bool = flag(False, "take a run of rows instead, so that all parts are "
                                         "equally long.")
    compression_type: str = argument("str | None", one_of("", "GZIP", "ZLIB"), None, "",
                                     '"GZIP" or "ZLIB"; "" or None for none.')
    _read_columns: list[dict[str, Any]] | None = None

    def _choose(
        self, num_parallel_workers: int | None = None, cache: Any = None, **choice: Any
    ) -> None:
        if self.schema is not None:
            choice["num_samples"] = choice["num_samples"] or self.schema.num_rows or None
        super()._choose(num_parallel_workers, cache, **choice)
        if self.num_shards is not None and not self.shard_equal_rows and \
                len(self.dataset_files) < self.num_shards:
            raise RuntimeError(
                "Invalid file, numbers of tfrecord file should not less than num_shards when "
                "shard_equal_rows is false, but got numbers of tfrecord file: "
                f"{len(self.dataset_files)}, num_shards: {self.num_shards}.")

    def _own(self, places: list[Place]) -> list[Place]:
        if self.num_shards is None or self.shard_equal_rows:
            return super()._own(places)
        files = list(dict.fromkeys(file for file, _ in places))[self.shard_id :: self.num_shards]
        return [place for place in places if place[0] in files]

    def _find_size(self) -> int:
        if self.num_shards is None or self.shard_equal_rows:
            return super()._find_size()
        count = sum(len(rows) for rows in self._files()[self.shard_id :: self.num_shards])
        return min(count, self.num_samples) if self.num_samples else count

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return [c["name"] for c in self._described()]

    def _described(self) -> list[dict[str, Any]]:
        """The columns: names, types, and shapes where the schema has them."""
        if self._read_columns is None:
            found = self.schema.columns if self.schema is not None else self._first()
            if self.columns_list is not None:
                known = {c["name"]: c for c in found}
                for name in self.columns_list:
                    if name not in known:
                        raise RuntimeError("Invalid columns_list, tfrecord file failed to find "
                                           f"column name: {name}; there are {list(known)}.")
                found = [known[n] for n in self.columns_list]
            self._read_columns = found
        return self._read_columns

    def _first(self) -> list[dict[str, Any]]:
        """Columns as the first row has them."""
        for path in self.dataset_files:
            file = TFRecordFile(path, self.compression_type)
            if len(file):
                features = file.example(0)
                return [{"name": n, "type": _type_of(features[n])} for n in sorted(features)]
        raise RuntimeError(f"Invalid file. {self.dataset_files} have no rows.")

    def _read(self, path: str) -> Sequence[Row]:
        return _Rows(TFRecordFile(path, self.compression_type), self._row_of)

    def _row_of(self, features: Mapping[str, Feature], path: str) -> Row:
        row = []
        for column in self._described():
            name = column["name"]
            if name not in features:
                raise RuntimeError(f"Feature name: {name} is required in schema but could not be "
                                   f"found in tfrecord file {path}: there are {sorted(features)}.")
            row.append(_shaped(_typed(features[name], column, path), column, path))
        return tuple(row)


class _Rows(Sequence[Row]):
    """The rows of a file, each read when it is requested."""

    def __init__(self, file: TFRecordFile, row_of: Callable[..., Row]) -> None:
        self._file, self._row_of = file, row_of

    def __len__(self) -> int:
        return len(self._file)

    def __getitem__(self, number: Any) -> Any:
        return self._row_of(self._file.example(number), self._file.path)


def _type_of(feature: Feature) -> str:
    return "uint8" if isinstance(feature, list) else str(feature.dtype.name)


def _typed(feature: Feature, column: Mapping[str, Any], path: str) -> np.ndarray[Any, Any]:
    kind = column["type"]
    if isinstance(feature, list):
        if kind == "string":
            return np.array([b.decode("utf-8", "replace") for b in feature])
        # Bytes of several strings are contiguous, all as long as the longest.
        longest = max(map(len, feature), default=0)
        data = b"".join(b.ljust(longest) for b in feature)
        if kind in ("uint8", "int8"):
            return np.frombuffer(data, kind)
        raise RuntimeError(f"{path}: column {column['name']!r} has bytes, not {kind}.")
    wanted = np.dtype("U" if kind == "string" else kind)
    if wanted.kind not in ("f" if feature.dtype.kind == "f" else "iub"):
        raise RuntimeError(f"{path}: column {column['name']!r} has {feature.dtype.name}, not "
                           f"{kind}.")
    return feature.astype(wanted)


def _shaped(
    values: np.ndarray[Any, Any], column: Mapping[str, Any], path: str
) -> np.ndarray[Any, Any]:
    shape = column.get("shape")
    if shape is None:
        return values
    try:
        return values.reshape(shape)
    except ValueError as error:
        raise RuntimeError(
            f"{path}: Column shape of {column['name']} defined in schema does not match the shape "
            f"actually load: {values.size} values are not {shape}.") from error
