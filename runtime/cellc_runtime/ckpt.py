"""MindSpore's `.ckpt` format: read and written here, every bound checked.

The file is one message of Protocol Buffers (its wire format is documented at protobuf.dev):

    file   = [ 15: number of values ] { 1: value }
             [ "crc_num" crc32 of all before it, 10 bytes, big endian ]
    value  = 1: name   2: tensor | 3: a map of tensors (not read)
    tensor = { 1: dimension }  2: element type ("Float32")  3: elements, little endian

A tensor of more than 512 MiB is several values in a row with one name, each with all dimensions
and a part of the elements. A text is a tensor of type "str" whose elements are UTF-32. The number
of values is ours: without it a file that is cut off between two values looks whole. Readers of the
format pass over a field that they do not know.

Reading gives views of a copy of the file where one part holds the tensor; nothing in a file is
ever executed, and memory is taken for bytes the file has, never for sizes it claims.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import dtypes
from .checkpoint import array_over
from .errors import ArtifactError, CutOff
from .files import read_file, write_atomically
from .protobuf import Message, field_of, number_of, varint
from .records import dataclass, field

Array = npt.NDArray[Any]

PART_BYTES = 512 << 20
"""Elements of one value at most: what MindSpore writes, and far from protobuf's 2 GiB."""
_CRC_MARK = b"crc_num"
_CRC_BYTES = 10
_MAX_RANK = 32
_COUNT = 15  # The field with the number of values
_TYPES = {d.printed: d for d in dtypes.ALL}


# --- writing ------------------------------------------------------------------------------------


def encode(entries: Mapping[str, Array | str], crc: bool = False) -> Iterator[bytes | memoryview]:
    """The pieces of a file, in the order of `entries`.

    Args:
        entries: arrays, or texts, by name.
        crc: whether a CRC-32 of everything follows.

    Raises:
        TypeError: an element type that a tensor cannot hold.
    """
    count = number_of(_COUNT, sum(map(_parts, entries.values())))
    sum32 = zlib.crc32(count)
    yield count
    for name, value in entries.items():
        for piece in _values(name, value):
            if crc:
                sum32 = zlib.crc32(piece, sum32)
            yield piece
    if crc:
        yield _CRC_MARK + sum32.to_bytes(_CRC_BYTES, "big")


def _parts(value: Array | str) -> int:
    """How many values a tensor is written as."""
    return 1 if isinstance(value, str) else max(1, -(-np.asarray(value).nbytes // PART_BYTES))


def _values(name: str, value: Array | str) -> Iterator[bytes | memoryview]:
    """One tensor: a value for each part of it."""
    if isinstance(value, str):
        yield from _value(name, (0,), "str", memoryview(value.encode("utf-32-le")))
        return
    given = np.asarray(value)
    dtype = dtypes.from_numpy(given.dtype)
    array = np.ascontiguousarray(given, dtype.numpy).reshape(-1)
    raw = array.view(np.uint8).data if array.size else memoryview(b"")
    for at in range(0, max(len(raw), 1), PART_BYTES):
        yield from _value(name, given.shape, dtype.printed, raw[at : at + PART_BYTES])


def _value(
    name: str, shape: Sequence[int], kind: str, raw: memoryview
) -> Iterator[bytes | memoryview]:
    dims = b"".join(b"\x08" + varint(d) for d in shape)
    head = dims + field_of(2, kind.encode()) + b"\x1a" + varint(len(raw))
    tag = field_of(1, name.encode())
    size = len(head) + len(raw)
    tensor = b"\x12" + varint(size)
    yield b"\x0a" + varint(len(tag) + len(tensor) + size) + tag + tensor + head
    yield raw


# --- reading ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tensor:
    """A tensor as it is read: its parts are put together at the end."""

    kind: str = ""
    shape: list[int] = field(default_factory=list)
    parts: list[memoryview] = field(default_factory=list)


def decode(
    data: memoryview | bytes, what: str = "checkpoint", crc: bool = False
) -> tuple[dict[str, Array | str], bool]:
    """Tensors and texts by name, and whether the file has a CRC-32.

    Arrays are read-only views of `data` where that is possible.

    Args:
        what: what to call it in errors.
        crc: whether the CRC-32, if there is one, is checked.

    Raises:
        ArtifactError: what is wrong with the file.
    """
    view = memoryview(data).toreadonly().cast("B")
    has_crc = bytes(view[-17:-10]) == _CRC_MARK
    if has_crc:
        stored = int.from_bytes(view[-10:], "big")
        view = view[:-17]
        if crc and zlib.crc32(view) != stored:
            raise ArtifactError(
                f"the {what} is damaged: its CRC-32 is not the one it was saved with"
            )
    tensors = _tensors(Message(view, what))
    return {name: _array(name, t, what) for name, t in tensors.items()}, has_crc


def _tensors(file: Message) -> dict[str, _Tensor]:
    found: dict[str, _Tensor] = {}
    last = None
    count, expected = 0, None
    for number, content in file.fields():
        if number == _COUNT and isinstance(content, int) and expected is None:
            expected = content
            continue
        if number != 1:
            raise file.bad(f"it has a field {number}")
        count += 1
        name, tensor = _read_value(file.inner(content))
        known = found.get(name)
        if known is None:
            found[name] = tensor
        elif name != last or (known.kind, known.shape) != (tensor.kind, tensor.shape):
            raise file.bad(f"{name[:80]!r} is there twice")
        else:
            known.parts += tensor.parts
        last = name
    if expected is not None and count != expected:
        kind = CutOff if count < expected else ArtifactError
        raise file.bad(f"it holds {count} values where {expected} were saved", kind)
    return found


def _read_value(value: Message) -> tuple[str, _Tensor]:
    parts = dict(value.fields())
    name = value.text(parts[1]) if 1 in parts else ""
    if 3 in parts:
        raise ArtifactError(
            f"the {value.what} holds a map of tensors ({name[:80]!r}), "
            "which only MindSpore itself reads"
        )
    if 1 not in parts or 2 not in parts:
        raise value.bad("a value lacks its name or its tensor")
    return name, _read_tensor(value.inner(parts[2]))


def _read_tensor(message: Message) -> _Tensor:
    tensor = _Tensor()
    for number, content in message.fields():
        if number == 1 and isinstance(content, int):
            tensor.shape.append(content)
        elif number == 1:
            tensor.shape += message.inner(content).packed()
        elif number == 2:
            tensor.kind = message.text(content)
        elif number == 3:
            tensor.parts.append(message.bytes(content))
        if len(tensor.shape) > _MAX_RANK:
            raise message.bad(f"a tensor has more than {_MAX_RANK} dimensions")
    return tensor


def _array(name: str, tensor: _Tensor, what: str) -> Array | str:
    size = sum(map(len, tensor.parts))
    where = f"{name[:80]!r} of the {what}"
    if tensor.kind == "str":
        try:
            return b"".join(tensor.parts).decode("utf-32-le")
        except UnicodeDecodeError:
            raise ArtifactError(f"the text {where} is not UTF-32") from None
    dtype = _TYPES.get(tensor.kind)
    if dtype is None:
        raise ArtifactError(
            f"{where} has elements of type {tensor.kind[:40]!r}; known are {', '.join(_TYPES)}"
        )
    expected = dtype.itemsize
    for dim in tensor.shape:
        expected *= dim
    if size != expected:
        raise ArtifactError(
            f"{where} has {size} bytes; {tensor.kind}{tensor.shape} takes {expected}"
        )
    data = tensor.parts[0] if len(tensor.parts) == 1 else b"".join(tensor.parts)
    return array_over(data, dtype, tensor.shape, f"{where} is of type Bool and")


def save(
    path: str | os.PathLike[str], entries: Mapping[str, Array | str], crc: bool = False
) -> None:
    """Write a `.ckpt` file, whole or not at all.

    Raises:
        OSError: it cannot be written; an older file is as it was.
        TypeError: an element type that a tensor cannot hold.
    """
    write_atomically(path, encode(entries, crc))


def load(path: str | os.PathLike[str], crc: bool = False) -> dict[str, Array | str]:
    """The arrays and texts of a `.ckpt` file.

    Raises:
        ArtifactError: what is wrong with the file.
        OSError: it cannot be read.
    """
    return decode(read_file(path), crc=crc)[0]
