"""The fields of a MindRecord file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import packing
from .exceptions import MRMBuildSchemaError, MRMInvalidSchemaError

_NUMBERS = ("int32", "int64", "float32", "float64")
_SQL = {"int32": "INTEGER", "int64": "INTEGER", "float32": "REAL", "float64": "REAL",
        "string": "TEXT"}
_FLOAT_ENDS = {"float32": 2.0**128 - 2.0**103, "float64": math.inf}
"""From where on numbers are rounded to infinity."""


def _holds_int(type_: str, value: int) -> bool:
    """Whether a type of numbers holds an integer as it is."""
    if type_.startswith("int"):
        bounds = np.iinfo(type_)
        return int(bounds.min) <= value <= int(bounds.max)
    try:
        exact = float(value)
    except OverflowError:
        return False
    return exact == value and (type_ == "float64" or float(np.float32(exact)) == exact)


class Field:
    """A field: a number, a string, bytes, or an array.

    Args:
        described: its type, and the shape of an array; one length may be -1, for any.
    """

    def __init__(self, name: str, described: Mapping[str, Any]) -> None:
        self.name, self.type = name, str(described["type"])
        self.shape: tuple[int, ...] | None = \
            tuple(described["shape"]) if "shape" in described else None
        self.blob = self.type == "bytes" or self.shape is not None
        self.sql = None if self.blob else _SQL[self.type]

    def fault(self, value: Any) -> str:
        """Why a value cannot be this field's; empty if it can."""
        if self.shape is not None:
            return self._array_fault(value)
        wanted: dict[str, tuple[type, ...]] = {
            "bytes": (bytes,), "string": (str,), "int32": (int, np.int32),
            "int64": (int, np.int64), "float32": (float, np.float32, int),
            "float64": (float, np.float64, int)}
        if not isinstance(value, wanted[self.type]) or isinstance(value, bool):
            return f"{self.name!r} should be {self.type}, but got {type(value).__name__}"
        return ""

    def out_of_range(self, value: Any) -> str:
        """Why the field's type cannot hold a number of the right kind; empty if it can."""
        if self.blob or self.type == "string":
            return ""
        if isinstance(value, (int, np.integer)):
            fits = _holds_int(self.type, int(value))
        else:
            fits = not math.isfinite(value) or abs(value) < _FLOAT_ENDS[self.type]
        return "" if fits else f"{self.name!r} is {self.type}, which cannot hold {value}"

    def _array_fault(self, value: Any) -> str:
        shape = list(self.shape or ())
        what = f"{self.name!r} should be an array of {self.type} with shape {shape}"
        if not isinstance(value, np.ndarray):
            return f"{what}, but got {type(value).__name__}"
        fits = value.dtype == self.type and len(value.shape) == len(self.shape or ()) and all(
            want in (-1, have) for want, have in zip(self.shape or (), value.shape, strict=True))
        return "" if fits else f"{what}, but got one of {value.dtype} with {list(value.shape)}"

    def pack(self, value: Any) -> bytes:
        """The bytes of an array or of bytes."""
        if self.shape is None:
            return bytes(value)
        if self.type.startswith("int"):
            return packing.pack_integers(value)
        return np.ascontiguousarray(value, np.dtype(self.type).newbyteorder("<")).tobytes()

    def unpack(self, data: bytes) -> Any:
        """Return the argument of `pack`."""
        if self.shape is None:
            return data
        dtype = np.dtype(self.type)
        flat = packing.unpack_integers(data, dtype) if dtype.kind == "i" else \
            np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
        return flat.reshape(self.shape)

    def plain(self, value: Any) -> Any:
        """A number or string as Python has it."""
        return value.item() if isinstance(value, np.generic) else value


class Schema:
    """The fields of a file: numbers and strings, and what is kept in blobs, each sorted by name.

    Args:
        content: type (and shape) by name.
        desc: what the user says of it.
    """

    def __init__(self, content: Mapping[str, Any], desc: str) -> None:
        self.content, self.desc = dict(content), desc
        fields = [Field(name, content[name]) for name in sorted(content)]
        self.fields = {f.name: f for f in fields}
        self.raws = [f for f in fields if not f.blob]
        self.blobs = [f for f in fields if f.blob]

    def fault(self, row: Mapping[str, Any]) -> str:
        """Why a row does not fit; empty if it does."""
        for name, field in self.fields.items():
            if name not in row:
                return f"there is no {name!r}"
            if why := field.fault(row[name]):
                return why
        return ""

    def out_of_range(self, row: Mapping[str, Any]) -> str:
        """Which number of a row its type cannot hold; empty if none."""
        return next(filter(None, (f.out_of_range(row[f.name]) for f in self.raws)), "")

    def described(self) -> dict[str, Any]:
        """Return its description in the header of a file."""
        content = {name: dict(sorted(self.content[name].items())) for name in sorted(self.content)}
        return {"blob_fields": [f.name for f in self.blobs], "desc": self.desc, "schema": content}


def checked(content: Any, desc: Any) -> Schema:
    """The schema that a user describes. Raises MRMInvalidSchemaError or MRMBuildSchemaError if it
    describes no rows."""
    if not isinstance(content, dict):
        raise MRMInvalidSchemaError("Schema content should be dict.")
    if not content:
        raise MRMInvalidSchemaError("Schema content is empty.")
    if desc is not None and not isinstance(desc, str):
        raise MRMInvalidSchemaError("Schema description should be str.")
    for name, described in content.items():
        _check_field(name, described)
    return Schema(content, desc or "")


def _check_field(name: Any, described: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[0-9a-zA-Z_]+", name):
        raise MRMInvalidSchemaError(
            f"Field {name!r} should be composed of '0-9' or 'a-z' or 'A-Z' or '_'.")
    if not isinstance(described, dict):
        raise MRMInvalidSchemaError(f"Field {name!r} should be dict.")
    if "type" not in described or set(described) - {"type", "shape"}:
        raise MRMInvalidSchemaError(f"Field '{described}' contains illegal attributes: expected "
                                    "'type', and 'shape' for an array.")
    kind, shape = described["type"], described.get("shape")
    if kind not in (*_NUMBERS, "string", "bytes") or ("shape" in described
                                                      and kind not in _NUMBERS):
        raise MRMInvalidSchemaError(
            f"Field {name!r} contain illegal attribute {kind!r}: expected one of "
            f"{[*_NUMBERS, 'string', 'bytes']}, and of the first four for an array.")
    if "shape" not in described:
        return
    if not isinstance(shape, list) or not all(type(n) is int for n in shape):
        raise MRMInvalidSchemaError(
            f"Field {name!r} contain illegal attribute {shape!r}: a shape is a list of ints.")
    if any(n < 1 and n != -1 for n in shape) or shape.count(-1) > 1:
        raise MRMBuildSchemaError(f"field {name!r} has shape {shape}: lengths are positive, and "
                                  "one of them may be -1, for any.")
