"""Writing the rows of a pipeline as MindRecord files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..records.writer import FileWriter
from .rows import Row

_AT_ONCE = 256
_TYPES = {"bool": "int32", "int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32",
          "int32": "int32", "uint32": "int64", "int64": "int64", "uint64": "int64",
          "float16": "float32", "float32": "float32", "float64": "float64"}


def save(names: Sequence[str], rows: Iterable[Row], file_name: str, num_files: int) -> None:
    """Write rows; numbers become int32, int64, float32 or float64.

    Args:
        names: of the columns.
        rows: the values.
        file_name: of the file, or what the names of several begin with.
        num_files: how many.

    Raises:
        RuntimeError: there is no row, a value has no place in such a file, or files exist.
    """
    remaining = iter(rows)
    part = list(islice(remaining, _AT_ONCE))
    if not part:
        raise RuntimeError(f"Dataset.save({file_name!r}): there is no row to write.")
    schema = {name: _described(name, [row[i] for row in part]) for i, name in enumerate(names)}
    writer = FileWriter(file_name, num_files)
    writer.add_schema(schema)
    while part:
        writer.write_raw_data([
            {n: _value(n, v, schema[n]) for n, v in zip(names, row, strict=True)} for row in part])
        part = list(islice(remaining, _AT_ONCE))
    writer.commit()


def _described(name: str, values: list[Any]) -> dict[str, Any]:
    """What the schema says of a column, from some of its values."""
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


def _value(name: str, value: Any, described: dict[str, Any]) -> Any:
    array = np.asarray(value)
    if described["type"] == "bytes":
        return array.tobytes()
    if described["type"] == "string":
        return str(array.reshape(()))
    if array.dtype.name not in _TYPES or array.ndim != len(described.get("shape", ())):
        raise RuntimeError(f"Dataset.save: column {name!r} is {described} in the first row, but "
                           f"{array.dtype} with shape {list(array.shape)} in another.")
    made = array.astype(described["type"])
    return made if array.ndim else made.item()
