"""TFRecord files: their frames, which TensorBoard's events have too, and `tf.train.Example`.

A record is its length (8 bytes, the lowest first), a checksum of that, data, a checksum of them.
The message is a protocol buffer: a map from names to lists of bytes, of float32 or of int64.
Formats: `tensorflow/core/example/{example,feature}.proto`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from cellc_runtime.protobuf import Message
from cellc_runtime.unpacking import GZIP, ZLIB, unpacked

Feature = list[bytes] | np.ndarray[Any, Any]
"""The values of a feature: float32 or int64, or a list of bytes."""


_CASTAGNOLI = 0x82F63B78
_BLOCK = 512  # Bytes of which the checksum is found at once


@cache
def _byte_table() -> np.ndarray[Any, Any]:
    """uint32[256]: the checksums of one byte, without the inversions at both ends."""
    table: np.ndarray[Any, Any] = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(_CASTAGNOLI), np.uint32(0))
    return table


def _with_zero(crcs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Checksums of what is one byte of 0 longer."""
    return np.asarray((crcs >> np.uint32(8)) ^ _byte_table()[crcs & 255])


@cache
def _block_tables() -> tuple[np.ndarray[Any, Any], list[list[int]]]:
    """Return each byte's contribution to a block's checksum, uint32[_BLOCK, 256]; and the new value
    of each of a checksum's four bytes when a block of 0 follows."""
    rows = [_byte_table()]
    while len(rows) < _BLOCK:
        rows.append(_with_zero(rows[-1]))
    after = [np.arange(256, dtype=np.uint32) << np.uint32(8 * i) for i in range(4)]
    for _ in range(_BLOCK):
        after = [_with_zero(each) for each in after]
    return np.array(rows[::-1]), [each.tolist() for each in after]


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of bytes.

    Checksums are linear: that of a block is the exclusive or of what its bytes add, each by its
    place. numpy takes these from tables, some twenty times as fast as byte by byte.
    """
    crc, start = 0xFFFFFFFF, 0
    if len(data) >= 2 * _BLOCK:
        adds, after = _block_tables()
        start = len(data) // _BLOCK * _BLOCK
        blocks = np.frombuffer(data, np.uint8, start).reshape(-1, _BLOCK)
        sums = np.concatenate([_of_blocks(adds, blocks[i : i + 256])
                               for i in range(0, len(blocks), 256)])
        for own in sums.tolist():
            crc = own ^ after[0][crc & 255] ^ after[1][crc >> 8 & 255] ^ \
                after[2][crc >> 16 & 255] ^ after[3][crc >> 24]
    table = _byte_list()
    for byte in data[start:]:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _of_blocks(
    adds: np.ndarray[Any, Any], blocks: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The checksum of each row, from 0 on."""
    return np.asarray(np.bitwise_xor.reduce(adds[np.arange(_BLOCK), blocks], axis=1))


@cache
def _byte_list() -> list[int]:
    found: list[int] = _byte_table().tolist()
    return found


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
    """The records of a file: where they are is found once, each is read when it is requested.

    Args:
        compression: "", "GZIP" or "ZLIB"; a compressed file is held in memory.
    """

    def __init__(self, path: str, compression: str = "") -> None:
        self.path, self._file = path, -1
        self._data = _decompress(path, compression) if compression else None
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
        size, start, number = self._size(), 0, 0
        while start < size:
            head = self._part(start, 12)
            length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else size
            if len(head) < 12 or struct.unpack("<I", head[8:])[0] != masked_crc32c(head[:8]):
                raise invalid(self.path, f"no record begins at byte {start} (record {number})")
            if start + length + 16 > size:
                raise invalid(self.path, f"record {number} at byte {start} has {length} bytes, but "
                                         f"the file ends before it does")
            yield start + 12, length
            start, number = start + length + 16, number + 1

    def _part(self, start: int, length: int) -> bytes:
        if self._data is not None:
            return self._data[start : start + length]
        if self._file < 0:
            self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        return os.pread(self._file, length, start)

    def __len__(self) -> int:
        return len(self.places)

    def data(self, number: int) -> bytes:
        """Return the contents of a record."""
        start, length = self.places[number]
        data, end = self._part(start, length), self._part(start + length, 4)
        if len(data) != length or end != struct.pack("<I", masked_crc32c(data)):
            raise invalid(self.path, f"record {number} at byte {start - 12} is damaged: the "
                                     f"checksum of its {length} bytes is another one")
        return data

    def example(self, number: int) -> dict[str, Feature]:
        """The features of a record, by name."""
        data = self.data(number)
        try:
            return parse_example(data)
        except ValueError as error:
            raise RuntimeError(f"Failed to parse tfrecord file: {self.path}, record {number}: "
                               f"{error}.") from error


def _decompress(path: str, compression: str) -> bytes:
    with open(path, "rb") as stream:
        data = stream.read()
    try:
        return unpacked(data, GZIP if compression == "GZIP" else ZLIB)
    except ValueError as error:
        raise invalid(path, f"it is not compressed by {compression}: {error}") from error


def _blocks(message: Message, number: int) -> Iterator[Message]:
    """The fields of a message with a number, that are messages, strings or packed."""
    return (Message(value, message.what) for found, value in message.fields()
            if found == number and not isinstance(value, int))


def parse_example(data: bytes) -> dict[str, Feature]:
    """The features of a message, by name; those without values are left out. Raises ValueError if
    it is no `tf.train.Example`."""
    features: dict[str, Feature] = {}
    for feature_map in _blocks(Message(memoryview(data), "example"), 1):
        for entry in _blocks(feature_map, 1):
            parts = dict(entry.fields())
            name = entry.bytes(parts.get(1, memoryview(b"")))
            for kind, values in entry.inner(parts.get(2, memoryview(b""))).fields():
                features[entry.text(name)] = _values(kind, entry.inner(values))
    return features


def _values(kind: int, values: Message) -> Feature:
    if kind == 1:
        return [bytes(block.view) for block in _blocks(values, 1)]
    if kind == 2:
        return np.frombuffer(b"".join(block.view for block in _blocks(values, 1)), "<f4")
    if kind != 3:
        raise ValueError(f"a list of the unknown kind {kind}")
    numbers = [n for number, value in values.fields() if number == 1  # packed, or one by one
               for n in ([value] if isinstance(value, int) else Message(value, "list").packed())]
    return np.array(numbers, np.uint64).view(np.int64)
