"""Arrays of numbers in MAT files of level 5, and the collections that come with such files: SVHN,
Flowers102 and Caltech101."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.unpacking import BASE, MOST_TIMES, ZLIB, unpacked

from . import rules
from .declared import common, must_be, one_of, whole
from .listed import FILE, Entry, ListedDataset, folders_of, pictures_of
from .pictures import MnistDataset

_FEWER = "num_samples num_parallel_workers shuffle decode sampler num_shards shard_id"
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
    takes="dataset_dir usage num_samples num_parallel_workers shuffle sampler num_shards shard_id",
):
    """Pictures of house numbers' digits.

    Args:
        dataset_dir: the folder of the files (`train_32x32.mat`, `test_32x32.mat`,
            `extra_32x32.mat`).

    Reference: Netzer et al., 2011.
    """

    num_parallel_workers: Any = whole(1, 1, "accepted for compatibility.")
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


def _numbers_of(path: Path, name: str) -> np.ndarray[Any, Any]:
    """An array of a file, in which it must be."""
    found = arrays_of(path).get(name)
    if found is None:
        raise RuntimeError(f"Invalid file, {path} has no array {name!r} of numbers.")
    return found


class Flowers102Dataset(ListedDataset, takes=f"dataset_dir task usage {_FEWER}"):
    """Flowers of 102 kinds; for "Segmentation" with a picture that shows the flower alone.

    Args:
        dataset_dir: the folder of `jpg`, `segmim`, `imagelabels.mat` and `setid.mat`.

    Reference: Nilsback and Zisserman, 2008.
    """

    task: str = must_be("Classification", "Segmentation")
    usage: str = must_be("all", "train", "valid", "test")
    num_parallel_workers: Any = common("num_parallel_workers", kind="int", default=1, none=None)
    _sets = {"train": ("trnid",), "valid": ("valid",), "test": ("tstid",),
             "all": ("trnid", "tstid", "valid")}

    def _prepare(self) -> None:
        super()._prepare()
        more = {"segmentation": FILE} if self.task == "Segmentation" else {}
        self._columns = {"image": FILE, **more, "label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        labels = _numbers_of(self.dataset_dir / "imagelabels.mat", "labels").ravel()
        path = self.dataset_dir / "setid.mat"
        for name in self._sets[self.usage]:
            for number in _numbers_of(path, name).ravel().astype(int).tolist():
                if not 0 < number <= labels.size:
                    raise RuntimeError(f"Invalid file, {path}: there is no label of {number}.")
                pictures = [self.dataset_dir / "jpg" / f"image_{number:05d}.jpg"]
                if self.task == "Segmentation":
                    pictures.append(self.dataset_dir / "segmim" / f"segmim_{number:05d}.jpg")
                yield (*pictures, int(labels[number - 1]) - 1)

    def get_class_indexing(self) -> dict[str, int]:
        """The label of each kind."""
        kinds = Path(__file__).with_name("flowers102.txt").read_text(encoding="ascii")
        return {name: i for i, name in enumerate(kinds.splitlines())}


_OUTLINES = {"Faces": "Faces_2", "Faces_easy": "Faces_3", "Motorbikes": "Motorbikes_16",
             "airplanes": "Airplanes_Side_2"}
"""Folders of outlines whose names are not those of the pictures' folders."""


class Caltech101Dataset(ListedDataset, takes=f"dataset_dir target_type {_FEWER}"):
    """Things of 101 kinds: category counts the folders, annotation is an outline (float64[2, n]).

    Args:
        dataset_dir: the folder of `101_ObjectCategories` and `Annotations`.
        target_type: "category", "annotation" or "all"; None: "category".

    Reference: Fei-Fei et al., 2004.
    """

    target_type: str = one_of("category", "annotation", "all", none="category")
    num_parallel_workers: Any = common("num_parallel_workers", kind="int", default=1, none=None)

    def _prepare(self) -> None:
        super()._prepare()
        kinds = {"category": np.int64, "annotation": np.float64}
        self._columns = {"image": FILE, **{
            name: kind for name, kind in kinds.items() if self.target_type in (name, "all")}}

    def _kinds(self) -> list[str]:
        folders = folders_of(self.dataset_dir / "101_ObjectCategories")
        return [each.name for each in folders if each.name != "BACKGROUND_Google"]

    def get_class_indexing(self) -> dict[str, int]:
        """The category of each folder."""
        return {name: i for i, name in enumerate(self._kinds())}

    def _find(self) -> Iterator[Entry]:
        for i, name in enumerate(self._kinds()):
            outlines = self.dataset_dir / "Annotations" / _OUTLINES.get(name, name)
            for path in pictures_of(self.dataset_dir / "101_ObjectCategories" / name):
                outline = outlines / f"annotation_{path.stem.removeprefix('image_')}.mat"
                yield path, *({"category": i, "annotation": outline}[column]
                              for column in [*self._columns][1:])

    def _values_of(self, column: str, value: Any, kind: Any) -> np.ndarray[Any, Any]:
        if column == "annotation":
            return _numbers_of(value, "obj_contour")
        return super()._values_of(column, value, kind)


__all__ = ["Caltech101Dataset", "Flowers102Dataset", "SVHNDataset"]
