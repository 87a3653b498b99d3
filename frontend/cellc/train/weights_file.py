"""Checkpoint files of both formats, read and written by one pair of functions."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime import checkpoint, ckpt
from cellc_runtime.errors import ArtifactError, CutOff, UnsupportedType
from cellc_runtime.files import read_file, write_atomically

Array = np.ndarray[Any, Any]
Entries = Mapping[str, "Array | str"]

FORMATS = ("ckpt", "safetensors")
_CRC_KEY = "crc_num"
_TEXT_PREFIX = "text:"
"""Texts of a safetensors file are in its metadata, as its tensors cannot hold them."""


def with_suffix(name: str, format: str) -> str:
    """The file name with the suffix that the format asks for."""
    return name if name.endswith(format) else f"{name}.{format}"


def write(
    path: str, entries: Entries, format: str, crc: bool = False,
    more: Mapping[str, str] | None = None, mode_of: str | None = None,
) -> None:
    """Write a checkpoint, whole or not at all.

    Args:
        path: the file.
        entries: arrays, or texts, by name.
        format: "ckpt" or "safetensors".
        crc: whether a CRC-32 is written.
        more: metadata of a safetensors file; a `.ckpt` has none.
        mode_of: as in `write_atomically`.

    Raises:
        OSError: it cannot be written; an older file is as it was.
    """
    if format == "ckpt":
        write_atomically(path, ckpt.encode(entries, crc), mode_of)
        return
    arrays = {n: v for n, v in entries.items() if not isinstance(v, str)}
    metadata = {"format": "ms", **(more or {})}
    metadata |= {_TEXT_PREFIX + n: v for n, v in entries.items() if isinstance(v, str)}
    if crc:
        metadata[_CRC_KEY] = str(_crc_of(arrays))
    write_atomically(path, checkpoint.encode(arrays, metadata), mode_of)


def _crc_of(arrays: Mapping[str, Array]) -> int:
    """MindSpore's checksum of a safetensors file: names and elements, in the order of names."""
    sum32 = 0
    for name in sorted(arrays):
        sum32 = zlib.crc32(name.encode(), sum32)
        array = np.ascontiguousarray(arrays[name])
        if array.size:
            sum32 = zlib.crc32(array.reshape(-1).view(np.uint8).data, sum32)
    return sum32


def read(
    file: str | io.BytesIO, format: str, crc: bool = False
) -> dict[str, Array | str]:
    """Arrays (read-only) and texts of a checkpoint, all of it checked.

    Args:
        file: a path, or the bytes of a safetensors file.
        format: "ckpt" or "safetensors".
        crc: whether the CRC-32 is checked; a file without one is an error then.

    Raises:
        ArtifactError: what is wrong with the file.
        OSError: it cannot be read.
    """
    data = file.getbuffer() if isinstance(file, io.BytesIO) else read_file(file)
    what = "checkpoint" if isinstance(file, io.BytesIO) else f"checkpoint {Path(file).name}"
    try:
        found, has_crc = _decoded(data, what, format, crc)
    except ArtifactError as e:
        reason = _in_plain_words(bytes(data[:256]), format, e)
        detail = str(e).replace(f"the {what} ", "it ")
        raise type(e)(f"the {what} cannot be loaded: {reason} ({detail})") from None
    if crc and not has_crc:
        raise ArtifactError(f"the {what} has no CRC-32 to check: it was saved without crc_check, "
                            "or it is cut off. Leave crc_check out if you know that it was")
    return found


def is_whole(file: str, format: str) -> bool:
    """Whether a file can be loaded: its structure, and its CRC-32 if it has one, are checked."""
    try:
        data = read_file(file)
        _, has_crc = _decoded(data, file, format, False)
        if has_crc:
            _decoded(data, file, format, True)
    except (ArtifactError, OSError):
        return False
    return True


def _decoded(
    data: memoryview | bytes, what: str, format: str, crc: bool
) -> tuple[dict[str, Array | str], bool]:
    """Return the contents of a checkpoint, and whether it has a CRC-32."""
    found: dict[str, Array | str]
    if not len(data):
        raise CutOff(f"the {what} is empty")
    if format == "ckpt":
        found, has_crc = ckpt.decode(data, what, crc)
    else:
        arrays, metadata = checkpoint.decode(data, what)
        has_crc = _CRC_KEY in metadata
        if crc and has_crc and str(_crc_of(arrays)) != metadata[_CRC_KEY]:
            raise ArtifactError(f"the {what} is damaged: its CRC-32 is not the one it was saved "
                                "with")
        found = {**arrays}
        for key, text in metadata.items():
            if key.startswith(_TEXT_PREFIX):
                found[key.removeprefix(_TEXT_PREFIX)] = text
    for name in found:
        check_name(name, f"the {what}")
    return found, has_crc


_LONGEST = 4096
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def check_name(name: str, what: str) -> None:
    """Check that a message can show the name of an array. Raises ArtifactError if it is too long,
    or has control characters or ones that turn the direction of writing."""
    if len(name) > _LONGEST:
        raise ArtifactError(f"{what} has a name of {len(name)} characters; {_LONGEST} are the most "
                            "that is read")
    if _CONTROLS.search(name):
        raise ArtifactError(f"{what} has a name with control characters: {name[:80]!a}")


_CONVERT = "convert it where it was written: save a dict of arrays, then ms.save_checkpoint it"
_OTHERS = (
    (b"<", "it is a web page: the download gave an error or a login page instead of the file"),
    (b"version https://git-lfs", "it is a pointer of Git LFS: fetch the file itself (git lfs "
     "pull)"),
    (b"PK\x03\x04", f"it is a zip file, as PyTorch and numpy write them: {_CONVERT}"),
    (b"\x80\x02", f"it is a pickle of Python, which could run code and is not read: {_CONVERT}"),
    (b"\x80\x04", f"it is a pickle of Python, which could run code and is not read: {_CONVERT}"),
    (b"\x1f\x8b", "it is compressed: unpack it first (gunzip)"),
    (b"\x89HDF", f"it is an HDF5 file, as Keras writes them: {_CONVERT}"),
    (b"\x93NUMPY", f"it is an array of numpy (.npy): {_CONVERT}"),
    (bytes(16), "it begins with zeros, as files do when a disk was full or a machine went down: "
     "take another copy, or save it again"),
)
"""How files begin that are no checkpoints, and what to say of them."""


def _in_plain_words(head: bytes, format: str, error: ArtifactError) -> str:
    """Return the likely fault of a file, and the remedy."""
    if not head:
        return "it is empty: what was to write or copy it did not get that far"
    safetensors = head[8:9] == b"{" and head[3:8] == bytes(5)
    for start, reason in () if safetensors else _OTHERS:
        if head.lstrip()[: len(start)] == start or head.startswith(start):
            return reason
    if format == "ckpt" and safetensors:
        return "it is a safetensors file: give format='safetensors', and a name that ends so"
    if format == "safetensors" and head[:1] in b"\nx" and b"Float" in head:
        return "it is a .ckpt file: give format='ckpt', and a name that ends so"
    if not safetensors and head.isascii() and all(c >= 32 or c in b"\t\n\r" for c in head):
        return "it is a text"
    if isinstance(error, UnsupportedType):
        return "tensors have no such element type: save the array as float16, bfloat16 or float32"
    if isinstance(error, CutOff):
        return "it ends too early: a copy, a download or a save was cut off. Take another copy, " \
               "or save it again"
    return "its bytes are not those that were saved: take another copy, or save it again"
