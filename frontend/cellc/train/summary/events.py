"""Event files as TensorBoard reads them: protocol buffers, each framed by its length and checksums.

The few messages that are needed are written field by field; there is no dependency. Formats:
TFRecord (length, CRC of it, data, CRC of them), `event.proto`, `summary.proto`, `graph.proto`.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cellc_runtime.protobuf import field_of, number_of, varint

Array = np.ndarray[Any, Any]
_TYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "int64": 9,
          "bool": 10, "uint16": 17, "float16": 19, "uint32": 22, "uint64": 23}
_STRING = 7


# --- messages -----------------------------------------------------------------------------------


def block(field: int, value: bytes | str) -> bytes:
    """A field of a string, bytes or a message."""
    return field_of(field, value.encode() if isinstance(value, str) else value)


def double(field: int, value: float) -> bytes:
    """A field of type double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def event(time: float, step: int = 0, *, version: str = "", graph: bytes = b"",
          values: Sequence[bytes] = ()) -> bytes:
    """One event: the file's version, a graph, or values of a summary."""
    out = double(1, time) + number_of(2, step)
    if version:
        out += block(3, version)
    if graph:
        out += block(4, graph)
    if values:
        out += block(5, b"".join(block(1, v) for v in values))
    return out


def scalar(tag: str, value: float) -> bytes:
    """A value: a number."""
    return block(1, tag) + varint(2 << 3 | 5) + struct.pack("<f", value)


def _metadata(plugin: str) -> bytes:
    return block(9, block(1, block(1, plugin)))


def text(tag: str, value: str) -> bytes:
    """A value: a text."""
    tensor = number_of(1, _STRING) + block(2, block(2, number_of(1, 1))) + block(8, value)
    return block(1, tag) + block(8, tensor) + _metadata("text")


def tensor(tag: str, value: Array) -> bytes:
    """A value: all elements of an array.

    Raises:
        TypeError: an element type without a number of its own.
    """
    kind = _TYPES.get(value.dtype.name)
    if kind is None:
        raise TypeError(f"an event file holds no {value.dtype.name}")
    shape = b"".join(block(2, number_of(1, n)) for n in value.shape)
    data = number_of(1, kind) + block(2, shape) + block(4, np.ascontiguousarray(value).tobytes())
    return block(1, tag) + block(8, data) + _metadata("tensor")


def histogram(tag: str, value: Array, bins: int = 30) -> bytes:
    """A histogram of the elements of a value; elements that are not finite are left out."""
    x = np.asarray(value, np.float64).ravel()
    x = x[np.isfinite(x)]
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    counts, edges = np.histogram(x, bins=bins if high > low else 1)
    data = double(1, low) + double(2, high) + double(3, float(x.size))
    data += double(4, math.fsum(x)) + double(5, math.fsum(x * x))
    data += block(6, edges[1:].astype("<f8").tobytes())
    data += block(7, counts.astype("<f8").tobytes())
    return block(1, tag) + block(5, data)


def image(tag: str, value: Array) -> bytes:
    """A value: an image [height, width, channels] of uint8, with 1, 3 or 4 channels, as PNG."""
    height, width, channels = value.shape
    sizes = b"".join(number_of(i, n) for i, n in enumerate((height, width, channels), 1))
    return block(1, tag) + block(4, sizes + block(4, png(value)))


def png(value: Array) -> bytes:
    """An image [height, width, channels] of uint8 as a PNG file."""
    height, width, channels = value.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = value.reshape(height, -1)

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + \
            struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + \
        part(b"IDAT", zlib.compress(rows.tobytes())) + part(b"IEND", b"")


def graph_def(nodes: Iterable[tuple[str, str, Sequence[str]]]) -> bytes:
    """A graph of nodes: each with its name, its op and the names of its inputs."""
    out = b""
    for name, op, inputs in nodes:
        node = block(1, name) + block(2, op) + b"".join(block(3, i) for i in inputs)
        out += block(1, node)
    return out


__all__ = ["event", "graph_def", "histogram", "image", "png", "scalar", "tensor", "text"]
