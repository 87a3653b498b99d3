"""Datasets of other formats made into MindRecord files.

Pictures are written as PNG files, which lose nothing. Source: `mindspore.mindrecord`.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..core.declared import Arguments, Rule, instance, integer, misuse
from ..core.native import names_itself
from ..dataset.decoding import pillow
from ..dataset.pictures import IDX_IMAGES, IDX_LABELS, idx_file
from ..records.tfrecord import TFRecordFile
from ..records.writer import FileWriter
from .cifar import read_batch

_AT_ONCE = 256
_TFRECORD_TYPES = {"int64": "int64", "float32": "float32", "string": "string"}


@names_itself
class _Converter(Arguments):
    """Base: `transform` writes files, and says what went wrong by raising it."""

    def run(self) -> None:
        """As `transform`."""
        self.transform()

    def transform(self) -> None:
        """Write the files.

        Raises:
            RuntimeError, ValueError: the source is not what it should be, or the files exist.
        """
        raise TypeError(f"{type(self).__name__} must define transform.")


def _write(destination: str, count: int, schema: dict[str, Any], desc: str,
           indexes: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    writer = FileWriter(destination, count)
    writer.add_schema(schema, desc)
    if indexes:
        writer.add_index(list(indexes))
    remaining = iter(rows)
    while part := list(islice(remaining, _AT_ONCE)):
        writer.write_raw_data(part)
    writer.commit()


def _path(what: str, there: Callable[[str], bool]) -> Rule:
    return Rule(what, lambda value: True, lambda value: isinstance(value, str) and there(value),
                Path)


Folder = Annotated[Path, _path("the path of a folder", os.path.isdir)]
File = Annotated[Path, _path("the path of a file", os.path.isfile)]
Destination = Annotated[str, Rule(
    "a str that is not empty", lambda value: True,
    lambda value: isinstance(value, str) and value != "")]
Partitions = Annotated[int, integer(1, 1000).always(ValueError)]


def _png(pixels: np.ndarray[Any, Any], who: str) -> bytes:
    stream = io.BytesIO()
    pillow(who).fromarray(pixels).save(stream, "png")
    return stream.getvalue()


class Cifar10ToMR(_Converter):
    """CIFAR-10 (the Python version): `destination`, and `destination`_test.

    Fields: id and label (int64), data (a PNG file's bytes).

    Args:
        source: the folder of `data_batch_1` and so on.
        destination: the file of the training set.
    """

    _batches = {"": "data_batch_?", "_test": "test_batch"}
    _labels = {"label": b"labels"}

    source: Folder
    destination: Destination

    def run(self, fields: list[str] | None = None) -> None:
        """As `transform`."""
        self.transform(fields)

    def transform(self, fields: list[str] | None = None) -> None:
        """Write the files.

        Args:
            fields: the indexes; None for all numbers.

        Raises:
            RuntimeError: a file is missing or broken.
            ModuleNotFoundError: Pillow is not installed.
        """
        known = ["id", *self._labels]
        if fields is not None and (not isinstance(fields, list) or set(fields) - set(known)):
            raise ValueError(f"The parameter fields must be a list of {known}, but got {fields!r}.")
        schema = {name: {"type": "int64"} for name in known} | {"data": {"type": "bytes"}}
        for suffix, pattern in self._batches.items():
            paths = sorted(self.source.glob(pattern))
            if not paths:
                raise RuntimeError(f"{type(self).__name__}: there is no {pattern} in "
                                   f"{self.source}.")
            _write(self.destination + suffix, 1, schema, f"img{suffix or '_train'}",
                   fields or (), self._rows(paths))

    def _rows(self, paths: list[Path]) -> Iterator[dict[str, Any]]:
        number = 0
        for path in paths:
            batch = self._batch(path)
            for i, pixels in enumerate(batch[b"data"]):
                image = pixels.reshape(3, 32, 32).transpose(1, 2, 0)
                labels = {name: batch[key][i] for name, key in self._labels.items()}
                yield {"id": number, **labels, "data": _png(image, type(self).__name__)}
                number += 1

    def _batch(self, path: Path) -> dict[bytes, Any]:
        try:
            return read_batch(path, tuple(self._labels.values()))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"{type(self).__name__}: {path} is no batch of the Python version: "
                               f"{error}") from error


class Cifar100ToMR(Cifar10ToMR):
    """CIFAR-100 (the Python version): `destination`, and `destination`_test.

    Fields: id, fine_label and coarse_label (int64), data (a PNG file's bytes).

    Args:
        source: the folder of `train` and `test`.
        destination: the file of the training set.
    """

    _batches = {"": "train", "_test": "test"}
    _labels = {"fine_label": b"fine_labels", "coarse_label": b"coarse_labels"}


class CsvToMR(_Converter):
    """A file of comma-separated values, whose first line has the names.

    A column is int64 or float64 if all its values are, else string.

    Args:
        source: the file.
        destination: the file to write.
        columns_list: which columns; None for all.
        partition_number: how many files.
    """

    source: File
    destination: Destination
    columns_list: Annotated[list[str], Rule(
        "a list of names that is not empty", lambda value: True,
        lambda value: isinstance(value, list) and len(value) > 0)] | None = None
    partition_number: Partitions = 1

    def transform(self) -> None:
        """Write the files.

        Raises:
            ValueError: a name begins with a digit.
            RuntimeError: there is no such column, or a line has other than one value for each.
        """
        with self.source.open(encoding="utf-8", newline="") as stream:
            names, *lines = [fields for fields in csv.reader(stream) if fields] or [[]]
        for number, fields in enumerate(lines):
            if len(fields) != len(names):
                raise RuntimeError(f"{self.source}, row {number}: {len(fields)} values for the "
                                   f"{len(names)} columns {names}.")
        for name in names:
            if not name or name[0].isdigit():
                raise ValueError("The first line of the csv file is used as column name, but "
                                 f"{name!r} is empty or begins with a digit.")
        wanted = self.columns_list or names
        missing = [n for n in wanted if n not in names]
        if missing:
            raise RuntimeError(f"The parameter columns_list is illegal: {missing} are not among "
                               f"{names}.")
        columns = {n: _column([line[names.index(n)] for line in lines]) for n in wanted}
        schema = {n: {"type": kind} for n, (kind, _) in columns.items()}
        rows = [dict(zip(wanted, values, strict=True))
                for values in zip(*(v for _, v in columns.values()), strict=True)]
        _write(self.destination, self.partition_number, schema, "csv_schema", (), rows)


def _column(texts: list[str]) -> tuple[str, list[Any]]:
    for kind, of in (("int64", int), ("float64", float)):
        try:
            return kind, [of(t) for t in texts]
        except ValueError:
            continue
    return "string", texts


class ImageNetToMR(_Converter):
    """Pictures in folders. Fields: label (int32), image (a file's bytes), file_name.

    Args:
        map_file: lines of a folder's name and its label.
        image_dir: the folder of the folders.
        destination: the file to write.
        partition_number: how many files.
    """

    map_file: File
    image_dir: Folder
    destination: Destination
    partition_number: Partitions = 1

    def transform(self) -> None:
        """Write the files.

        Raises:
            RuntimeError: a line is no folder and label, or a folder is missing.
        """
        schema = {"label": {"type": "int32"}, "image": {"type": "bytes"},
                  "file_name": {"type": "string"}}
        _write(self.destination, self.partition_number, schema, "imagenet_schema",
               ("label", "file_name"), self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        for line in self.map_file.read_text(encoding="utf-8").splitlines():
            folder, _, label = line.strip().partition(" ")
            path = self.image_dir / folder
            if not folder:
                continue
            if not label.strip().isdigit() or not path.is_dir():
                raise RuntimeError(f"{self.map_file}: {line!r} is no folder of {self.image_dir} "
                                   "and its label.")
            for image in sorted(p for p in path.iterdir() if p.is_file()):
                yield {"label": int(label), "image": image.read_bytes(), "file_name": image.name}


class MnistToMR(_Converter):
    """MNIST: `destination`_train.mindrecord and `destination`_test.mindrecord.

    Fields: label (int64), data (a PNG file's bytes).

    Args:
        source: the folder of `train-images-idx3-ubyte.gz` and so on (packed or not).
        destination: what the files' names begin with.
        partition_number: how many files each.
    """

    source: Folder
    destination: Destination
    partition_number: Partitions = 1

    def transform(self) -> None:
        """Write the files.

        Raises:
            RuntimeError: a file is missing or broken.
            ModuleNotFoundError: Pillow is not installed.
        """
        schema = {"label": {"type": "int64"}, "data": {"type": "bytes"}}
        for part, name in (("train", "train"), ("t10k", "test")):
            images, labels = (
                idx_file(self.source, (f"{part}-{what}.gz", f"{part}-{what}"), magic, "MnistToMR")
                for what, magic in (("images-idx3-ubyte", IDX_IMAGES),
                                    ("labels-idx1-ubyte", IDX_LABELS)))
            if len(images) != len(labels):
                raise RuntimeError(f"MnistToMR: {self.source} has {len(images)} images but "
                                   f"{len(labels)} labels of {part!r}.")
            rows = ({"label": int(label), "data": _png(image, "MnistToMR")}
                    for image, label in zip(images, labels, strict=True))
            _write(f"{self.destination}_{name}.mindrecord", self.partition_number, schema,
                   "mnist_schema", ("label",), rows)


class TFRecordToMR(_Converter):
    """A TFRecord file of `tf.train.Example` messages.

    Args:
        source: the file.
        destination: the file to write.
        feature_dict: of each feature an object with `shape` and `dtype`, as
            `tf.io.FixedLenFeature`: of strings (without axes), int64 or float32.
        bytes_fields: which of the strings are bytes.
    """

    source: File
    destination: Destination
    feature_dict: Annotated[dict[str, Any], Rule(
        "a dict that is not empty", lambda value: True,
        lambda value: isinstance(value, dict) and len(value) > 0)]
    bytes_fields: Annotated[list[str], instance(list).always(ValueError)] | None = None

    def __post_init__(self) -> None:
        unknown = [n for n in self.bytes_fields or () if n not in self.feature_dict]
        if unknown:
            raise misuse("TFRecordToMR", "'bytes_fields' must be names of 'feature_dict'", unknown)
        self._fields = {name: self._field(name, f) for name, f in self.feature_dict.items()}

    def _field(self, name: str, feature: Any) -> dict[str, Any]:
        """Return the schema of a feature."""
        shape = getattr(feature, "shape", None)
        kind = getattr(getattr(feature, "dtype", None), "name", "")
        if shape is None or kind not in _TFRECORD_TYPES or (kind == "string" and len(shape)):
            raise ValueError(f"Parameter feature_dict[{name!r}] should be a FixedLenFeature of a "
                             f"string without axes, int64 or float32, but got {feature!r}.")
        if name in (self.bytes_fields or ()):
            return {"type": "bytes"}
        return {"type": kind, "shape": list(shape)} if len(shape) else {"type": kind}

    def transform(self) -> None:
        """Write the files.

        Raises:
            RuntimeError: the file is damaged, or a row lacks a feature or has another shape.
        """
        schema = {_plain(n): f for n, f in self._fields.items()}
        _write(self.destination, 1, schema, "TFRecord to MindRecord", (), self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        file = TFRecordFile(os.fspath(self.source))
        for number in range(len(file)):
            example = file.example(number)
            yield {_plain(n): self._value(n, f, example, number) for n, f in self._fields.items()}

    def _value(self, name: str, field: dict[str, Any], example: Mapping[str, Any],
               number: int) -> Any:
        what = f"{self.source}, record {number}: feature {name!r}"
        if name not in example:
            raise RuntimeError(f"{what} is not there: there are {sorted(example)}.")
        found, shape = example[name], field.get("shape", [])
        kind = "string" if isinstance(found, list) else found.dtype.name
        wanted = "string" if field["type"] == "bytes" else field["type"]
        if kind != wanted or len(found) != int(np.prod(shape)):
            raise RuntimeError(f"{what} has {len(found)} values of {kind}, but {wanted} with shape "
                               f"{shape} is said.")
        if isinstance(found, list):
            return found[0] if field["type"] == "bytes" else found[0].decode("utf-8", "replace")
        return found.reshape(shape) if shape else found[0].item()


def _plain(name: str) -> str:
    """A feature's name as a field's: letters, digits, underscores."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)
