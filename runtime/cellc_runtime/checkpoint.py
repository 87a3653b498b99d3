"""Weights in the safetensors format: read and written here, every bound checked.

    8 bytes   length of the header (u64, little endian)
    header    JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {}}
    data      arrays, contiguous and row-major, with no gaps

Reading gives views of a copy of the file; nothing in a file is ever executed.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dtypes
from .container import is_count, parse_json
from .errors import ArtifactError, CutOff, UnsupportedType
from .files import read_file, write_atomically

Array = npt.NDArray[Any]

MAX_HEADER = 100 << 20
_ALIGN = 64
_NAMES = {
    "BOOL": dtypes.bool_, "I8": dtypes.int8, "I16": dtypes.int16, "I32": dtypes.int32,
    "I64": dtypes.int64, "U8": dtypes.uint8, "U16": dtypes.uint16, "U32": dtypes.uint32,
    "U64": dtypes.uint64, "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32,
    "F64": dtypes.float64, "C64": dtypes.complex64, "C128": dtypes.complex128,
}  # fmt: skip
_UNSUPPORTED = ("F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ",
                "F8_E8M0")
"""Types of the format that no tensor has."""
_BY_DTYPE = {dtype: name for name, dtype in _NAMES.items()}


def encode(
    arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> list[bytes | memoryview]:
    """The pieces of a safetensors file; the data starts at a multiple of 64 bytes.

    Raises:
        TypeError: an element type that a tensor cannot hold.
        ValueError: a name that the format reserves.
    """
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = dict(metadata)
    pieces: list[bytes | memoryview] = []
    at = 0
    # Large elements first keep every array aligned without gaps, which the format forbids.
    order = sorted(arrays, key=lambda name: -np.asarray(arrays[name]).dtype.itemsize)
    for name in order:
        if name == "__metadata__":
            raise ValueError("'__metadata__' cannot be the name of an array")
        given = np.asarray(arrays[name])
        dtype = dtypes.from_numpy(given.dtype)
        array = np.asarray(given, dtype.numpy, order="C")
        end = at + array.nbytes
        header[name] = {
            "dtype": _BY_DTYPE[dtype], "shape": list(array.shape), "data_offsets": [at, end]
        }  # fmt: skip
        pieces.append(array.tobytes() if array.ndim == 0 else array.reshape(-1).view(np.uint8).data)
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGN)
    return [struct.pack("<Q", len(text)), text, *pieces]


def decode(
    data: memoryview | bytes, what: str = "checkpoint"
) -> tuple[dict[str, Array], dict[str, str]]:
    """Arrays (read-only views of `data`) and metadata. Raises ArtifactError if the file is
    damaged."""
    view = memoryview(data).toreadonly().cast("B")
    if len(view) < 8:
        raise CutOff(f"the {what} is cut off: {len(view)} bytes")
    length, = struct.unpack_from("<Q", view)
    if length > MAX_HEADER or length > len(view) - 8:
        kind = ArtifactError if length > MAX_HEADER else CutOff
        raise kind(f"the {what} claims a header of {length} bytes")
    header = parse_json(bytes(view[8 : 8 + length]), what)
    if not isinstance(header, dict):
        raise ArtifactError(f"the {what}'s header is malformed")
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(
        isinstance(v, str) for v in metadata.values()
    ):
        raise ArtifactError(f"the {what}'s metadata is malformed")
    body = view[8 + length :]
    entries = {name: _entry(name, row, len(body), what) for name, row in header.items()}
    _cover(sorted((begin, end) for _, _, begin, end in entries.values()), len(body), what)
    arrays = {name: array_over(body[begin:end], dtype, shape, "a boolean array")
              for name, (dtype, shape, begin, end) in entries.items()}
    return arrays, metadata


def _entry(
    name: str, row: Any, size: int, what: str
) -> tuple[dtypes.DType, tuple[int, ...], int, int]:
    bad = ArtifactError(f"the {what}'s entry {name[:80]!r} is malformed")
    if not isinstance(row, dict) or row.keys() != {"dtype", "shape", "data_offsets"}:
        raise bad
    shape, offsets = row["shape"], row["data_offsets"]
    dtype = _NAMES.get(row["dtype"]) if isinstance(row["dtype"], str) else None
    if row["dtype"] in _UNSUPPORTED:
        raise UnsupportedType(f"array {name[:80]!r} of the {what} has the type {row['dtype']}")
    if dtype is None or not isinstance(shape, list) or len(shape) > 32:
        raise bad
    if not isinstance(offsets, list) or len(offsets) != 2:
        raise bad
    if not all(is_count(n, 1 << 48) for n in (*shape, *offsets)):
        raise bad
    nbytes = dtype.itemsize
    for dim in shape:
        nbytes *= dim
    begin, end = offsets
    if end > size or end - begin != nbytes:
        kind = CutOff if end > size else ArtifactError
        raise kind(f"array {name[:80]!r} of the {what} does not fit its place")
    return dtype, tuple(shape), begin, end


def _cover(ranges: list[tuple[int, int]], size: int, what: str) -> None:
    at = 0
    for begin, end in ranges:
        if begin != at:
            raise ArtifactError(f"arrays of the {what} overlap or leave a gap")
        at = end
    if at != size:
        raise ArtifactError(f"the {what} has {size - at} bytes that belong to nothing")


def array_over(
    data: bytes | memoryview, dtype: dtypes.DType, shape: Sequence[int], what: str
) -> Array:
    """A read-only array over bytes of a file.

    Raises:
        ArtifactError: `what` is of bools, and some are neither 0 nor 1; or sizes that no array with
            a 0 among them can have.
    """
    if math.prod(n for n in shape if n) * dtype.itemsize > sys.maxsize:
        raise ArtifactError(f"{what} claims the shape {tuple(shape)}, which no array can have")
    raw = np.frombuffer(data, np.uint8)
    if raw.size and (raw.ctypes.data % dtype.itemsize):
        raw = raw.copy()  # other writers do not align
    if dtype is dtypes.bool_ and bool((raw > 1).any()):
        raise ArtifactError(f"{what} holds something else than 0 and 1")
    array: Array = raw.view(dtype.numpy).reshape(shape)
    array.flags.writeable = False
    return array


def save(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Array],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a safetensors file, whole or not at all. Raises OSError if it cannot be written; an
    older file is as it was."""
    write_atomically(path, encode(arrays, metadata))


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a safetensors file, as read-only views of a copy of the file.

    Raises:
        ArtifactError: what is wrong with the file.
        OSError: it cannot be read.
    """
    return decode(read_file(path))[0]
