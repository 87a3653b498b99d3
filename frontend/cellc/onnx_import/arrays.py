"""Elements of tensors: decoded where they are small, mapped from the file where they are not.

A tensor's bytes must be in the file before an array of its shape is made. External data lies in
the model's folder: no absolute path, no `..`, and no link that leads out of it.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.protobuf import Message, signed_numbers

from .wire import WHAT, OnnxError, RawTensor, floats_of

Array = np.ndarray[Any, Any]
TYPES: dict[int, DType] = {
    1: dtypes.float32, 2: dtypes.uint8, 3: dtypes.int8, 4: dtypes.uint16, 5: dtypes.int16,
    6: dtypes.int32, 7: dtypes.int64, 9: dtypes.bool_, 10: dtypes.float16, 11: dtypes.float64,
    12: dtypes.uint32, 13: dtypes.uint64, 14: dtypes.complex64, 15: dtypes.complex128,
    16: dtypes.bfloat16,
}
"""ONNX's numbers of the element types that tensors have here."""
HALVES = {21: (dtypes.uint8, 0, 15), 22: (dtypes.int8, -8, 7)}
"""4-bit ints, two to a byte: the type they are widened to, and their range."""
_NAMES = {0: "undefined", 8: "string", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2",
          20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0",
          25: "uint2", 26: "int2"}


def element_type(code: int, what: str) -> DType:
    """The element type with this number.

    Raises:
        OnnxError: tensors cannot have it.
    """
    found = TYPES.get(code)
    if found is None:
        raise OnnxError(f"{what} has elements of the type {_NAMES.get(code, code)}, which no "
                        "tensor here can hold")
    return found


class Files:
    """The folder of a model, and the files of external data that are mapped."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self._mapped: dict[str, memoryview] = {}

    def external(self, t: RawTensor) -> memoryview:
        """The bytes of external data.

        Raises:
            OnnxError: they are missing, short, or outside of the folder.
        """
        entries = t.external or {}
        location = entries.get("location", "")
        offset = _number(entries.get("offset", "0"), t)
        view = self._mapped.get(location)
        if view is None:
            view = self._mapped[location] = self._map(location, t.name)
        length = _number(entries["length"], t) if "length" in entries else len(view) - offset
        if offset + length > len(view) or length < 0:
            raise OnnxError(f"the external data of {t.name!r} ends beyond its file {location!r}: "
                            f"bytes {offset} to {offset + length} of {len(view)}")
        return view[offset : offset + length]

    def _map(self, location: str, name: str) -> memoryview:
        if not location or not location.isprintable() or os.path.isabs(location) or \
                ".." in location.replace("\\", "/").split("/"):
            raise OnnxError(f"the external data of {name!r} is at {location!r}, which is no path "
                            "inside of the model's folder")
        path = os.path.realpath(os.path.join(self.folder, location))
        if os.path.commonpath([self.folder, path]) != self.folder:
            raise OnnxError(f"the external data of {name!r} is at {location!r}, a link out of the "
                            "model's folder")
        return map_file(path, f"the external data {location!r} of {name!r}")


def map_file(path: str, what: str) -> memoryview:
    """A file's bytes, mapped: writes to them do not reach the file.

    Raises:
        OnnxError: it cannot be read, or is no plain file.
    """
    if not os.path.isfile(path):
        raise OnnxError(f"{what} is not there, or no plain file")
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except (OSError, ValueError) as e:
        raise OnnxError(f"{what} cannot be read: {e}") from e


def _number(text: str, t: RawTensor) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise OnnxError(f"the external data of {t.name!r} has {text[:40]!r} for a number")
    return int(text)


_FIELD = {1: 4, 11: 10, 14: 4, 15: 10, 7: 7, 13: 11, 12: 11}
"""Where elements are that are no raw bytes; `int32_data` for all others."""


def array_of(t: RawTensor, files: Files, aligned: bool = True) -> Array:
    """The elements of a tensor, which is a view of the file where its bytes are aligned.

    Args:
        aligned: whether elements that are not are copied: not where a Parameter copies them.

    Raises:
        OnnxError: its bytes and its shape disagree, or no tensor has its type.
    """
    what = f"the tensor {t.name!r}" if t.name else "a tensor"
    half = HALVES.get(t.code)
    dtype = half[0] if half else element_type(t.code, what)
    count = math.prod(t.dims)
    if min(t.dims, default=0) < 0:
        raise OnnxError(f"{what} has elements, but the open shape {list(t.dims)}")
    if t.external is not None or t.raw is not None:
        data = files.external(t) if t.external is not None else t.raw
        assert data is not None
        if any(t.fields.values()) or (t.external is not None and t.raw):
            raise OnnxError(f"{what} has its elements twice")
        size = -(-count // 2) if half else count * dtype.itemsize
        if len(data) != size:
            raise OnnxError(f"{what} of shape {list(t.dims)} needs {size} bytes of {dtype.name}, "
                            f"but has {len(data)}")
        stored = np.frombuffer(data, np.uint8 if half else dtype.numpy)
        if (aligned and not stored.flags.aligned) or not stored.flags.writeable:
            stored = stored.copy()
    else:
        stored = _listed(t, dtypes.uint8 if half else dtype, what,
                         -(-count // 2) if half else count)
    if dtype is dtypes.bool_ and stored.view(np.uint8).max(initial=0) > 1:
        raise OnnxError(f"{what} of bools has bytes other than 0 and 1")
    if half:
        stored = _halves(stored.astype(np.uint8), half[1] < 0)[:count]
    try:
        return stored.reshape(t.dims)
    except ValueError as e:  # no elements, along axes that no array can have
        raise OnnxError(f"{what} has the impossible shape {list(t.dims)}") from e


def _halves(packed: Array, signed: bool) -> Array:
    """4-bit ints from bytes, the low half first."""
    both = np.stack([packed & 15, packed >> 4], -1).reshape(-1)
    return ((both ^ 8).astype(np.int8) - 8).astype(np.int8) if signed else both


def _listed(t: RawTensor, dtype: DType, what: str, count: int) -> Array:
    """Elements that are listed in a field of their own."""
    number = _FIELD.get(t.code, 5)
    m = Message(memoryview(b""), WHAT)
    parts = t.fields.get(number, [])
    if number in (4, 10):
        found = floats_of(m, parts, "<f4" if number == 4 else "<f8").copy()
        found = found.view(dtype.numpy) if dtype.is_complex and found.size % 2 == 0 else found
    else:
        ints = signed_numbers(m, parts)
        narrow = dtype.numpy if dtype.kind in ("int", "uint") else \
            np.dtype(np.uint16) if dtype.itemsize == 2 else np.dtype(np.uint8)
        found = np.array(ints, np.int64)
        range_ = np.iinfo(narrow)
        if narrow.itemsize < 8 and found.size and not (
                range_.min <= found.min() and found.max() <= range_.max):
            raise OnnxError(f"{what} has elements that do not fit {dtype.name}")
        found = found.astype(narrow).view(dtype.numpy)
    if found.size != count:
        raise OnnxError(f"{what} of shape {list(t.dims)} needs {count} elements, but has "
                        f"{found.size}")
    return found
