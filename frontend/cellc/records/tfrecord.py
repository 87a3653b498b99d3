"""TFRecord files: their frames, which TensorBoard's events have too, and `tf.train.Example`.

A record is its length (8 bytes, the lowest first), a checksum of that, data, a checksum of them.
The message is a protocol buffer: a map from names to lists of bytes, of float32 or of int64.
Formats: `tensorflow/core/example/{example,feature}.proto`.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

Feature = list[bytes] | np.ndarray[Any, Any]
"""The values of a feature: float32 or int64, or a list of bytes."""


@cache
def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of bytes."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """The CRC of bytes as a TFRecord has it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    """One record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + \
        struct.pack("<I", masked_crc32c(data))


def invalid(path: str, why: str) -> RuntimeError:
    """The error for a file that holds no records."""
    return RuntimeError(f"Invalid file. {path} is not a valid TFRecord file: {why}.")


class TFRecordFile:
    """The records of a file: where they are is found once, each is read when it is asked for.

    Args:
        path: of the file.
        compression: "", "GZIP" or "ZLIB"; a compressed file is held in memory.

    Raises:
        RuntimeError: it holds no records.
    """

    def __init__(self, path: str, compression: str = "") -> None:
        self.path, self._file = path, -1
        self._data = _decompressed(path, compression) if compression else None
        self.places = list(self._found())

    def _size(self) -> int:
        return os.path.getsize(self.path) if self._data is None else len(self._data)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_file": -1}

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)

    def _found(self) -> Iterator[tuple[int, int]]:
        """Where the data of each record is: its start and length."""
        size, start = self._size(), 0
        while start < size:
            head = self._part(start, 12)
            length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else size
            if len(head) < 12 or struct.unpack("<I", head[8:])[0] != masked_crc32c(head[:8]):
                raise invalid(self.path, f"no record begins at byte {start}")
            if start + length + 16 > size:
                raise invalid(self.path, f"the record at byte {start} has {length} bytes, but "
                                         f"the file ends before it does")
            yield start + 12, length
            start += length + 16

    def _part(self, start: int, length: int) -> bytes:
        if self._data is not None:
            return self._data[start : start + length]
        if self._file < 0:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        return os.pread(self._file, length, start)

    def __len__(self) -> int:
        return len(self.places)

    def example(self, number: int) -> dict[str, Feature]:
        """The features of a record, by name.

        Raises:
            RuntimeError: it is no `tf.train.Example`.
        """
        start, length = self.places[number]
        try:
            return parse_example(self._part(start, length))
        except (ValueError, IndexError, struct.error) as error:
            raise RuntimeError(f"Failed to parse tfrecord file: {self.path}, record {number}: "
                               f"{error}.") from error


def _decompressed(path: str, compression: str) -> bytes:
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        return gzip.decompress(data) if compression == "GZIP" else zlib.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise invalid(path, f"it is not compressed by {compression}: {error}") from error


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = data[start]
        value |= (byte & 127) << shift
        start, shift = start + 1, shift + 7
        if byte < 128:
            return value, start
        if shift > 63:
            raise ValueError("a number has more than ten bytes")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields of a message."""
    start = 0
    while start < len(data):
        key, start = _varint(data, start)
        kind = key & 7
        if kind == 0:
            number, start = _varint(data, start)
            yield key >> 3, number
            continue
        if kind == 2:
            length, start = _varint(data, start)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if start + length > len(data):
            raise ValueError("a field ends behind its message")
        yield key >> 3, data[start : start + length]
        start += length


def _blocks(data: bytes | int, number: int) -> Iterator[bytes]:
    """The fields of a message with a number, that are messages, strings or packed."""
    if isinstance(data, int):
        raise ValueError("a number where a message is expected")
    for found, value in _fields(data):
        if found == number and not isinstance(value, int):
            yield value


def parse_example(data: bytes) -> dict[str, Feature]:
    """The features of a message, by name; those without values are left out.

    Raises:
        ValueError, IndexError, struct.error: it is no `tf.train.Example`.
    """
    features: dict[str, Feature] = {}
    for feature_map in _blocks(data, 1):
        for entry in _blocks(feature_map, 1):
            parts = dict(_fields(entry))
            name, message = parts.get(1, b""), parts.get(2, b"")
            if isinstance(name, int) or isinstance(message, int):
                raise ValueError("an entry has no name")
            for kind, values in _fields(message):
                features[name.decode()] = _values(kind, values)
    return features


def _values(kind: int, data: bytes | int) -> Feature:
    if kind == 1:
        return list(_blocks(data, 1))
    if isinstance(data, int) or kind not in (2, 3):
        raise ValueError(f"a list of the unknown kind {kind}")
    if kind == 2:
        return np.frombuffer(b"".join(_blocks(data, 1)), "<f4")
    return np.array(list(_integers(data)), np.uint64).view(np.int64)


def _integers(data: bytes) -> Iterator[int]:
    """Packed or one by one."""
    for number, value in _fields(data):
        if number != 1:
            continue
        if isinstance(value, int):
            yield value & (1 << 64) - 1
            continue
        start = 0
        while start < len(value):
            found, start = _varint(value, start)
            yield found & (1 << 64) - 1
