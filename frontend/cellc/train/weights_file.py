"""Checkpoint files of both formats behind one pair of functions."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime import checkpoint, ckpt
from cellc_runtime.errors import ArtifactError
from cellc_runtime.files import write_atomically

Array = np.ndarray[Any, Any]
Entries = Mapping[str, "Array | str"]

FORMATS = ("ckpt", "safetensors")
_CRC_KEY = "crc_num"
_TEXT_PREFIX = "text:"
"""Texts of a safetensors file are in its metadata, as its tensors cannot hold them."""


def with_suffix(name: str, format: str) -> str:
    """The file name with the suffix that the format asks for."""
    return name if name.endswith(format) else f"{name}.{format}"


def write(path: str, entries: Entries, format: str, crc: bool = False) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        OSError: it cannot be written; an older file is as it was.
        TypeError: an element type that a tensor cannot hold.
    """
    if format == "ckpt":
        ckpt.save(path, entries, crc)
        return
    arrays = {n: v for n, v in entries.items() if not isinstance(v, str)}
    metadata = {"format": "ms"}
    metadata |= {_TEXT_PREFIX + n: v for n, v in entries.items() if isinstance(v, str)}
    if crc:
        metadata[_CRC_KEY] = str(_crc_of(arrays))
    write_atomically(path, checkpoint.encode(arrays, metadata))


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
    file: str | io.BytesIO, format: str, crc: bool = False,
    warn: Callable[[str], None] = lambda text: None,
) -> dict[str, Array | str]:
    """Arrays (read-only) and texts of a checkpoint, all of it checked.

    Args:
        file: a path, or the bytes of a safetensors file.
        format: "ckpt" or "safetensors".
        crc: whether the CRC-32 is checked.
        warn: told when `crc` is asked for and the file has none.

    Raises:
        ArtifactError: what is wrong with the file.
        OSError: it cannot be read.
    """
    data = file.getbuffer() if isinstance(file, io.BytesIO) else checkpoint.map_file(file)
    what = "checkpoint" if isinstance(file, io.BytesIO) else f"checkpoint {Path(file).name}"
    if format == "ckpt":
        found, has_crc = ckpt.decode(data, what, crc)
    else:
        arrays, metadata = checkpoint.decode(data, what)
        has_crc = _CRC_KEY in metadata
        if crc and has_crc and str(_crc_of(arrays)) != metadata[_CRC_KEY]:
            raise ArtifactError(
                f"the {what} is damaged: its CRC-32 is not the one it was saved with"
            )
        found = {**arrays}
        for key, text in metadata.items():
            if key.startswith(_TEXT_PREFIX):
                found[key.removeprefix(_TEXT_PREFIX)] = text
    if crc and not has_crc:
        warn(f"the {what} has no CRC-32 to check; it was saved without crc_check")
    return found
