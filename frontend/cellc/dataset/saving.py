"""Writing the rows of a pipeline as MindRecord files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from cellc_runtime.dtypes import inexact

from ..records.writer import FileWriter
from .rows import Row

_AT_ONCE = 256
_TYPES = {"bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
          "int32": "int32", "uint32": "int64", "int64": "int64", "uint64": "int64",
          "float16": "float32", "float32": "float32", "float64": "float64"}


def save(names: Sequence[str], rows: Iterable[Row], file_name: str, num_files: int) -> None:
    """Write rows; numbers become int32, int64, float32 or float64.

    Args:
        file_name: of the file, or what the names of several begin with.
        num_files: how many.

    Raises:
        RuntimeError: there is no row, a value has no place in such a file or does not fit the type
            of the first row, or files exist.
    """
    remaining = iter(rows)
    part = list(islice(remaining, _AT_ONCE))
    if not part:
        raise RuntimeError(f"Dataset.save({file_name!r}): there is no row to write.")
    schema = {name: _described(name, [row[i] for row in part]) for i, name in enumerate(names)}
    writer = FileWriter(file_name, num_files)
    writer.add_schema(schema)
    start = 0
    while part:
        writer.write_raw_data([
            {n: _value(n, v, schema[n], start + i) for n, v in zip(names, row, strict=True)}
            for i, row in enumerate(part)])
        start += len(part)
        part = list(islice(remaining, _AT_ONCE))
    writer.commit()


def _described(name: str, values: list[Any]) -> dict[str, Any]:
    """Return the schema of a column, from some of its values."""
    first = np.asarray(values[0])
    if first.dtype.kind in "US":
        if first.size != 1:
            raise RuntimeError(f"Dataset.save: column {name!r} has {first.size} strings in a row; "
                               "MindRecord files have one.")
        return {"type": "string" if first.dtype.kind == "U" else "bytes"}
    kind = _TYPES.get(first.dtype.name)
    if kind is None:
        raise RuntimeError(f"Dataset.save: column {name!r} is {first.dtype}, which MindRecord "
                           f"files have not: convert it to one of {sorted(_TYPES)}.")
    if not first.shape:
        return {"type": kind}
    varies = any(np.shape(v)[:1] != first.shape[:1] for v in values)
    # One axis may have any length, as later rows may have.
    return {"type": kind, "shape": [-1 if varies or first.ndim == 1 else first.shape[0],
                                    *first.shape[1:]]}


def _value(name: str, value: Any, described: dict[str, Any], row: int) -> Any:
    """A value as the schema has it."""
    array = np.asarray(value)
    kind, shape = described["type"], described.get("shape", [])
    wanted = {"bytes": "S", "string": "U"}.get(kind, "number")
    fits = array.size == 1 if wanted in "US" else array.ndim == len(shape) and all(
        n in (-1, have) for n, have in zip(shape, array.shape, strict=True))
    if not fits or wanted != (array.dtype.kind if array.dtype.kind in "US" else "number") or \
            (wanted == "number" and array.dtype.name not in _TYPES):
        raise RuntimeError(
            f"For 'Dataset.save', column {name!r} is {described} by the first rows, but "
            f"{array.dtype} with shape {list(array.shape)} in row {row}. Give all rows one type, "
            "and shapes that differ in the first axis only.")
    if kind == "bytes":
        return array.tobytes()
    if kind == "string":
        return str(array.reshape(()))
    lost = np.argwhere(inexact(array, np.dtype(kind)))
    if len(lost):
        raise RuntimeError(
            f"For 'Dataset.save', column {name!r} is {kind} by the first row, but row {row} has "
            f"{array[tuple(lost[0])]} ({array.dtype}), which {kind} cannot hold as it is. Convert "
            "the column to one type before.")
    made = array.astype(kind)
    return made if array.ndim else made.item()
