"""Datasets of images in files: MNIST and its kin, CIFAR, folders of pictures."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from . import checks
from .rows import Row
from .samplers import choose
from .sources import ArrayDataset, MappableDataset, _check_source
from .streams import Mt19937

IDX_IMAGES, IDX_LABELS = 0x803, 0x801
IDX_INTS = 0xC00
"""The part of the magic number that says: int32."""


def pillow(who: str) -> ModuleType:
    """The Pillow library, which reads and writes pictures.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        from PIL import Image  # heavy, and not needed by other datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{who} needs Pillow to read pictures: pip install cellc[images]", name="PIL"
        ) from error
    return Image


_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The kinds of pictures. Others of Pillow's start a program (EPS) or are hardly tested."""
_PIXELS, _PER_BYTE = 1 << 26, 64
"""A picture may have `_PIXELS`, or `_PER_BYTE` for each byte of the file if that is more."""


def picture_of(data: bytes, who: str) -> Any:
    """A picture of Pillow's over a file's contents, whose elements are not read yet.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        ValueError: it has too many elements for its length.
        Exception: it is no picture.
    """
    picture = pillow(who).open(io.BytesIO(data), formats=_FORMATS)
    if math.prod(picture.size) > max(_PIXELS, _PER_BYTE * len(data)):
        raise ValueError(f"{len(data)} bytes are too few for {picture.size} pixels")
    return picture


def decoded(data: bytes, who: str) -> np.ndarray[Any, Any]:
    """A picture file's contents as uint8[height, width, 3].

    Raises:
        RuntimeError: it is no picture.
    """
    try:
        with picture_of(data, who) as picture:
            return np.asarray(picture.convert("RGB"))
    except Exception as error:  # what Pillow's readers of formats raise has no common kind
        raise RuntimeError(f"{who}: the image is broken or of an unknown kind: {error}") from error


def _folder(path: Any) -> Path:
    checks.of_type("dataset_dir", path, (str, os.PathLike))
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"The folder {path} does not exist or is not a directory or permission "
                         "denied!")
    return folder


def _usage(given: Any, *known: str) -> str:
    if given is None:
        return "all"
    checks.of_type("usage", given, str)
    if given not in known:
        raise ValueError(f"Input usage is not within the valid set of {list(known)}.")
    return str(given)


def idx_array(data: bytes, magic: int, path: Path, who: str) -> np.ndarray[Any, Any]:
    """What a file of the IDX format holds: a magic number, the lengths, then bytes or int32.

    Raises:
        RuntimeError: it is none.
    """
    axes, kind = magic & 0xFF, np.dtype(">i4" if magic & 0xFF00 == IDX_INTS else np.uint8)
    header = np.frombuffer(data[: 4 + 4 * axes], ">u4").tolist() if len(data) >= 4 + 4 * axes \
        else [0]
    if header[0] != magic or len(data) != 4 + 4 * axes + kind.itemsize * math.prod(header[1:]):
        raise RuntimeError(f"Invalid data, {who}: {path} is no file of the IDX format with "
                           f"{axes} axes of {'bytes' if kind.itemsize == 1 else 'int32'}: it may "
                           "be packed, or not whole.")
    return np.frombuffer(data, kind, offset=4 + 4 * axes).reshape(header[1:])


class MnistDataset(ArrayDataset):
    """Images of the MNIST format: columns image, uint8[28, 28, 1], and label, uint32.

    Args:
        dataset_dir: the folder of the files (`train-images-idx3-ubyte`, `train-labels-idx1-ubyte`,
            and those that start with `t10k`).
        usage: "train", "test" or "all"; None for all.
        num_samples: at most so many rows; None for all.
        num_parallel_workers: accepted for compatibility.
        shuffle: whether rows come in random order; None: yes.
        sampler: which rows, in which order.
        num_shards, shard_id: take the part of one of several processes.
        cache: must be None.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a file is not there, or broken.

    Source: `mindspore.dataset.MnistDataset`.
    """

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.usage = _usage(usage, *self._usages)
        _check_source(num_samples, shuffle, num_shards, shard_id)
        self._loaded: dict[str, Any] | None = None
        super().__init__(choose(num_samples, sampler, shuffle, num_shards, shard_id),
                         num_parallel_workers, cache)

    _usages: tuple[str, ...] = ("train", "test", "all")
    _columns: tuple[str, ...] = ("image", "label")

    @property
    def _arrays(self) -> dict[str, Any]:  # type: ignore[override]  # read when first needed
        """The columns, read when they are first needed."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)

    def _load(self) -> dict[str, Any]:
        parts = {"train": ["train"], "test": ["t10k"], "all": self._sets()}[self.usage]
        images = [self._idx(f"{p}-images", "idx3-ubyte", IDX_IMAGES) for p in parts]
        labels = [self._idx(f"{p}-labels", "idx1-ubyte", IDX_LABELS) for p in parts]
        for part, image, label in zip(parts, images, labels, strict=True):
            if len(image) != len(label):
                raise RuntimeError(f"{type(self).__name__}: {self.dataset_dir} has {len(image)} "
                                   f"images but {len(label)} labels of {part!r}.")
        return {"image": np.concatenate(images)[..., None],
                "label": np.concatenate(labels).astype(np.uint32)}

    def _sets(self) -> list[str]:
        """The sets of which there are images: often a folder has one of the two."""
        sets = ["t10k", "train"]
        return [p for p in sets if any(self.dataset_dir.glob(f"{p}-images*"))] or sets

    def _idx(self, start: str, end: str, magic: int) -> np.ndarray[Any, Any]:
        """A file of the IDX format."""
        who = type(self).__name__
        for name in (f"{start}-{end}", f"{start}.{end}"):
            path = self.dataset_dir / name
            if path.is_file():
                break
        else:
            raise RuntimeError(f"Invalid data, {who} can't read the data file "
                               f"'{start}-{end}' in directory: {self.dataset_dir}")
        return idx_array(path.read_bytes(), magic, path, who)


class FashionMnistDataset(MnistDataset):
    """Fashion-MNIST: files and columns as of `MnistDataset`.

    Source: `mindspore.dataset.FashionMnistDataset`.
    """


class KMnistDataset(MnistDataset):
    """Kuzushiji-MNIST: files and columns as of `MnistDataset`.

    Source: `mindspore.dataset.KMnistDataset`.
    """


class Cifar10Dataset(MnistDataset):
    """CIFAR-10, binary version: columns image, uint8[32, 32, 3], and label, uint32.

    Args:
        dataset_dir: the folder of the files (`data_batch_1.bin`, ..., `test_batch.bin`).
        usage, num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache:
            as for `MnistDataset`.

    Source: `mindspore.dataset.Cifar10Dataset`.
    """

    _files = {"train": "data_batch_*.bin", "test": "test_batch*.bin", "all": "*_batch*.bin"}

    def _load(self) -> dict[str, Any]:
        labels = len(self._columns) - 1
        rows = np.concatenate([self._file(p, labels + 32 * 32 * 3) for p in self._paths()])
        images = rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        found = {"image": np.ascontiguousarray(images)}
        for i, name in enumerate(self._columns[1:]):
            found[name] = rows[:, i].astype(np.uint32)
        return found

    def _paths(self) -> list[Path]:
        paths = sorted(self.dataset_dir.glob(self._files[self.usage]))
        if not paths:
            raise RuntimeError(f"Invalid data, {type(self).__name__} can't find "
                               f"'{self._files[self.usage]}' in directory: {self.dataset_dir}")
        return paths

    def _file(self, path: Path, width: int) -> np.ndarray[Any, Any]:
        data = np.fromfile(path, np.uint8)
        if not data.size or data.size % width:
            raise RuntimeError(
                f"Invalid data, {type(self).__name__}: {path} has {data.size} bytes, which are no "
                f"rows of {width}: re-download the data (the binary version).")
        return data.reshape(-1, width)


class Cifar100Dataset(Cifar10Dataset):
    """CIFAR-100, binary version: columns image, coarse_label and fine_label.

    Args:
        dataset_dir: the folder of the files (`train.bin`, `test.bin`).
        usage, num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache:
            as for `MnistDataset`.

    Source: `mindspore.dataset.Cifar100Dataset`.
    """

    _columns = ("image", "coarse_label", "fine_label")
    _files = {"train": "train.bin", "test": "test.bin", "all": "t[er]*.bin"}


class ImageFolderDataset(MappableDataset):
    """Pictures in folders, one folder for each class: columns image, uint8, and label, int32.

    Args:
        dataset_dir: the folder of the folders.
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.
        extensions: which files, as [".jpg", ".png"]; None for all.
        class_indexing: which folders, and the label of each; None: all, in order from 0.
        decode: whether images are uint8[height, width, 3]; else the bytes of the files.
        decrypt: must be None.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        ModuleNotFoundError: `decode`, and Pillow is not installed.
        RuntimeError: (when rows are asked for) there are no files, or one is no picture.

    Source: `mindspore.dataset.ImageFolderDataset`.
    """

    def __init__(
        self, dataset_dir: str, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        extensions: Any = None, class_indexing: dict[str, int] | None = None, decode: bool = False,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
        decrypt: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        _check_source(num_samples, shuffle, num_shards, shard_id)
        checks.of_type("decode", decode, bool)
        if decrypt is not None:
            raise ValueError("ImageFolderDataset: decrypt must be None.")
        if class_indexing is not None:
            checks.of_type("class_indexing", class_indexing, dict)
            for name, label in class_indexing.items():
                checks.of_type("key in class_indexing", name, str)
                checks.integer(f"class_indexing[{name!r}]", label, 0)
        self.extensions = None if extensions is None else \
            tuple(e.lower() for e in checks.names("extensions", extensions))
        if decode:
            pillow("ImageFolderDataset(decode=True)")
        self.decode, self.class_indexing = decode, class_indexing
        self._files: list[tuple[Path, int]] | None = None
        super().__init__(choose(num_samples, sampler, shuffle, num_shards, shard_id),
                         num_parallel_workers, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["image", "label"]

    def get_class_indexing(self) -> dict[str, int]:
        """The label of each folder."""
        if self.class_indexing is None:
            names = sorted(p.name for p in self.dataset_dir.iterdir() if p.is_dir())
            self.class_indexing = {name: i for i, name in enumerate(names)}
        return self.class_indexing

    def num_classes(self) -> int:
        """How many folders there are."""
        return len(self.get_class_indexing())

    def _found(self) -> list[tuple[Path, int]]:
        if self._files is None:
            labels = self.get_class_indexing()
            self._files = [
                (path, labels[name]) for name in sorted(labels)
                for path in sorted((self.dataset_dir / name).glob("**/*"))
                if path.is_file() and (self.extensions is None
                                       or path.suffix.lower() in self.extensions)]
            if not self._files:
                raise RuntimeError("Invalid data, ImageFolderDataset can't find files. Check image "
                                   f"folder file path: {self.dataset_dir}")
        return self._files

    def _count(self) -> int:
        return len(self._found())

    def _row(self, place: int) -> Row:
        path, label = self._found()[place]
        data = path.read_bytes()
        image = decoded(data, f"ImageFolderDataset: {path}").copy() if self.decode else \
            np.frombuffer(data, np.uint8).copy()
        return image, np.array(label, np.int32)

    def _labels(self, column: str) -> Any:
        if column != "label":
            return super()._labels(column)
        return np.array([label for _, label in self._found()])


class FakeImageDataset(MappableDataset):
    """Images of random numbers, MindSpore's: columns image, uint8, and label, uint32.

    An image is the bytes of float64 numbers, the positive ones of a normal distribution and zeros.

    Args:
        num_images: how many there are.
        image_size: height, width and channels.
        num_classes: labels are below it.
        base_seed: of the first image; the next have the seeds that follow.
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong.

    Source: `mindspore.dataset.FakeImageDataset`.
    """

    num_classes: Any
    """How many labels there are: a number, as in MindSpore, where other datasets have a method."""

    def __init__(
        self, num_images: int = 1000, image_size: Sequence[int] = (224, 224, 3),
        num_classes: int = 10, base_seed: int = 0, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.num_images = checks.integer("num_images", num_images, 1)
        checks.of_type("image_size", image_size, (list, tuple))
        if len(image_size) != 3:
            raise ValueError("image_size should be a list or tuple of length 3, but got "
                             f"{len(image_size)}")
        self.image_size = tuple(
            checks.integer(f"image_size[{i}]", n, 1) for i, n in enumerate(image_size))
        self.num_classes = checks.integer("num_classes", num_classes, 1)
        self.base_seed = checks.integer("base_seed", base_seed, -checks.INT32_MAX - 1)
        _check_source(num_samples, shuffle, num_shards, shard_id)
        super().__init__(choose(num_samples, sampler, shuffle, num_shards, shard_id),
                         num_parallel_workers, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return ["image", "label"]

    def _count(self) -> int:
        return self.num_images

    def _row(self, place: int) -> Row:
        seed = (self.base_seed + place) % 2**32
        size = math.prod(self.image_size)
        numbers = np.maximum(Mt19937(seed).normals(-(-size // 8)), 0.0)
        image = numbers.view(np.uint8)[:size].reshape(self.image_size)
        return image, np.array(Mt19937(seed).below(self.num_classes), np.uint32)
