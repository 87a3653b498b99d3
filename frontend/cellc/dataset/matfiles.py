"""Arrays of numbers in MAT files of level 5, and the collections that come as such: SVHN."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.unpacking import BASE, MOST_TIMES, ZLIB, unpacked

from . import rules
from .declared import whole
from .pictures import MnistDataset

_HEAD = 128
_MATRIX, _COMPRESSED = 14, 15
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8",
          13: "u8"}


def _element(data: bytes, place: int, order: str) -> tuple[int, bytes, int]:
    """The type and the bytes of the element at a place, and where the next one is."""
    kind, size = struct.unpack_from(f"{order}II", data, place)
    if kind >> 16:  # a short one: size and type in one word, up to four bytes in the next
        kind, size, start, after = kind & 0xFFFF, kind >> 16, place + 4, place + 8
    else:
        start = place + 8
        after = start + size + (0 if kind == _COMPRESSED else -size % 8)
    if start + size > len(data):
        raise ValueError(f"{size} bytes at {start} are not all there")
    return kind, data[start : start + size], after


def _matrix(data: bytes, order: str) -> tuple[str, np.ndarray[Any, Any] | None]:
    """The name and the values of an array; None if it is no array of real numbers."""
    parts: list[tuple[int, bytes]] = []
    place = 0
    while place < len(data) and len(parts) < 4:
        kind, found, place = _element(data, place, order)
        parts.append((kind, found))
    if len(parts) < 3:
        raise ValueError("an array lacks its shape or name")
    shape = np.frombuffer(parts[1][1], f"{order}i4").tolist()
    name = parts[2][1].decode("latin1")
    # The class of real numbers is 6 (double) to 15 (uint64); others have elements within them.
    if len(parts) < 4 or not 6 <= parts[0][1][0 if order == "<" else 3] <= 15:
        return name, None
    values = np.frombuffer(parts[3][1], order + _TYPES[parts[3][0]])
    if values.size != math.prod(shape):
        raise ValueError(f"{name!r} has {values.size} numbers for the shape {shape}")
    return name, values.reshape(shape, order="F")


def arrays_of(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of numbers in a file, by name."""
    found, total = {}, 0
    try:
        data = path.read_bytes()
        order = {b"IM": "<", b"MI": ">"}[data[126:_HEAD]]
        place = _HEAD
        while place < len(data):
            kind, part, place = _element(data, place, order)
            if kind == _COMPRESSED:
                part = unpacked(part, ZLIB)
                total += len(part)
                if total > MOST_TIMES * len(data) + BASE:
                    raise ValueError(f"its arrays have more than {total} bytes")
                kind, part, _ = _element(part, 0, order)
            if kind == _MATRIX:
                name, values = _matrix(part, order)
                if values is not None:
                    found[name] = values
    except (OSError, KeyError, ValueError, IndexError, struct.error) as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read as a MAT file of level 5: "
                           f"{type(error).__name__}: {error}") from error
    return found


class SVHNDataset(
    MnistDataset, usages=("train", "test", "extra", "all"),
    own={"num_parallel_workers": whole(1, 1, "accepted for compatibility.")},
    takes="dataset_dir usage num_samples num_parallel_workers shuffle sampler num_shards shard_id",
):
    """Pictures of house numbers' digits.

    Args:
        dataset_dir: the folder of the files (`train_32x32.mat`, `test_32x32.mat`,
            `extra_32x32.mat`).

    Reference: Netzer et al., 2011.
    """

    _columns = {"image": "uint8[32, 32, 3]", "label": np.uint32}

    def _prepare(self) -> None:
        for path in self._paths():
            rules.existing(path)

    def _paths(self) -> list[Path]:
        parts = ("train", "test", "extra") if self.usage == "all" else (self.usage,)
        return [self.dataset_dir / f"{part}_32x32.mat" for part in parts]

    def _load(self) -> dict[str, Any]:
        images, labels = [], []
        for path in self._paths():
            found = arrays_of(path)
            image, label = found.get("X"), found.get("y")
            if image is None or label is None or image.ndim != 4 or image.dtype != np.uint8 or \
                    image.shape[3] != label.size:
                raise RuntimeError(f"Invalid file, {path} should have X, uint8[height, width, 3, "
                                   "images], and y, a label for each.")
            images.append(image.transpose(3, 0, 1, 2))
            labels.append(label.reshape(-1).astype(np.uint32) % 10)  # 10 stands for 0
        return {"image": np.ascontiguousarray(np.concatenate(images)),
                "label": np.concatenate(labels)}


__all__ = ["SVHNDataset"]
