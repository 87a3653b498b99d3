"""How the arrays and bytes of a row lie in a MindRecord file.

A field alone is there as it is; several each have their length before them (8 bytes, the highest
first). Arrays of integers are packed: how many there are (4 bytes, the highest first), for each
two bits that say whether it has 1, 2, 4 or 8 bytes, then these, the lowest byte first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_CODES = ((-(1 << 7), 1 << 7), (-(1 << 15), 1 << 15), (-(1 << 31), 1 << 31))
_SHIFTS = np.array([6, 4, 2, 0], np.uint8)
_EMPTY = bytes(4)


def _kept_bytes(codes: Array) -> Array:
    """Which of the eight bytes of each integer are written."""
    return np.arange(8) < (1 << codes.astype(np.int64))[:, None]


def pack_integers(values: Array) -> bytes:
    """The bytes of an array of integers."""
    wide = np.ascontiguousarray(values, "<i8").ravel()
    codes = np.full(wide.size, 3, np.uint8)
    for code in (2, 1, 0):
        low, high = _CODES[code]
        codes[(wide >= low) & (wide < high)] = code
    flags = np.zeros(-(-wide.size // 4) * 4, np.uint8)
    flags[: wide.size] = codes
    marks = np.bitwise_or.reduce(flags.reshape(-1, 4) << _SHIFTS, axis=1).astype(np.uint8)
    kept: bytes = wide.view(np.uint8).reshape(-1, 8)[_kept_bytes(codes)].tobytes()
    flags_bytes: bytes = marks.tobytes()
    return struct.pack(">I", wide.size) + flags_bytes + kept


def unpack_integers(data: bytes, dtype: np.dtype[Any]) -> Array:
    """The integers of `pack_integers`."""
    if len(data) < 4:
        raise ValueError("an array of integers has at least 4 bytes")
    count = struct.unpack(">I", data[:4])[0]
    marked = 4 + -(-count // 4)
    marks = np.frombuffer(data[4:marked], np.uint8)
    if marks.size != marked - 4:
        raise ValueError(f"{count} integers are more than {len(data)} bytes hold")
    codes = ((marks[:, None] >> _SHIFTS) & 3).ravel()[:count]
    kept = _kept_bytes(codes)
    given = np.frombuffer(data[marked:], np.uint8)
    if given.size != int(kept.sum()):
        raise ValueError(f"{count} integers have {int(kept.sum())} bytes, not {given.size}")
    wide = np.zeros((count, 8), np.uint8)
    wide[kept] = given
    shift = (64 - (8 << codes.astype(np.int64)))
    found: Array = (wide.view("<i8").ravel() << shift) >> shift
    return found.astype(dtype)


def join(parts: Sequence[bytes]) -> bytes:
    """The bytes of all fields of a row that are arrays or bytes."""
    if not parts:
        return _EMPTY
    if len(parts) == 1:
        return parts[0]
    return b"".join(struct.pack(">Q", len(p)) + p for p in parts)


def split(data: bytes, count: int) -> list[bytes]:
    """The bytes of each field.

    Raises:
        ValueError: they are not those of `count` fields.
    """
    if count < 2:
        return [data][:count]
    found, start = [], 0
    for _ in range(count):
        if start + 8 > len(data):
            raise ValueError(f"the row has fewer than {count} arrays")
        end = start + 8 + struct.unpack(">Q", data[start : start + 8])[0]
        found.append(data[start + 8 : end])
        start = end
    if start != len(data):
        raise ValueError(f"its {count} arrays have {start} bytes, not {len(data)}")
    return found
