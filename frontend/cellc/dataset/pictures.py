"""Datasets of images in files: MNIST and its kin, CIFAR, folders of pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.unpacking import GZIP, unpacked

from ..core.declared import POSITIVE
from . import rules
from .declared import ROWS, argument, whole
from .decoding import decoded, pillow
from .rows import Row
from .rules import several
from .sources import ArrayDataset, MappableDataset
from .streams import Mt19937

IDX_IMAGES, IDX_LABELS = 0x803, 0x801
IDX_INTS = 0xC00  # The part of the magic number that says: int32


def idx_array(data: bytes, magic: int, path: Path, who: str) -> np.ndarray[Any, Any]:
    """Return the array of an IDX file: a magic number, the lengths, then bytes or int32."""
    axes, kind = magic & 0xFF, np.dtype(">i4" if magic & 0xFF00 == IDX_INTS else np.uint8)
    header = np.frombuffer(data[: 4 + 4 * axes], ">u4").tolist() if len(data) >= 4 + 4 * axes \
        else [0]
    if header[0] != magic or len(data) != 4 + 4 * axes + kind.itemsize * math.prod(header[1:]):
        raise RuntimeError(f"Invalid data, {who}: {path} is no file of the IDX format with "
                           f"{axes} axes of {'bytes' if kind.itemsize == 1 else 'int32'}: it may "
                           "be packed, or not whole.")
    return np.frombuffer(data, kind, offset=4 + 4 * axes).reshape(header[1:])


def idx_file(
    folder: Path, names: Sequence[str], magic: int, who: str
) -> np.ndarray[Any, Any]:
    """The array of the first of some IDX files that is in a folder, `.gz` files packed."""
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        raise RuntimeError(f"Invalid data, {who} can't read the data file '{names[0]}' in "
                           f"directory: {folder}")
    data = path.read_bytes()
    try:
        data = unpacked(data, GZIP) if path.suffix == ".gz" else data
    except ValueError as error:
        raise RuntimeError(f"{who}: {path} cannot be unpacked: {error}") from error
    return idx_array(data, magic, path, who)


class MnistDataset(ArrayDataset, takes=f"dataset_dir usage {ROWS}"):
    """Images of handwritten digits in the MNIST format.

    Args:
        dataset_dir: the folder of the files (`train-images-idx3-ubyte`, `train-labels-idx1-ubyte`,
            and those that start with `t10k`).
        num_parallel_workers: accepted for compatibility.
    """

    dataset_dir: Path
    usage: str
    _columns = {"image": "uint8[28, 28, 1]", "label": np.uint32}
    _loaded: dict[str, Any] | None = None

    @property
    def _arrays(self) -> dict[str, Any]:  # type: ignore[override]  # read when first needed
        """The columns, read when they are first needed."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

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
        return idx_file(self.dataset_dir, (f"{start}-{end}", f"{start}.{end}"), magic,
                        type(self).__name__)


class FashionMnistDataset(MnistDataset):
    """Pictures of clothes, Fashion-MNIST, in the files of MNIST."""


class KMnistDataset(MnistDataset):
    """Handwritten kana, Kuzushiji-MNIST, in the files of MNIST."""


class Cifar10Dataset(MnistDataset):
    """Pictures of things of ten kinds, CIFAR-10, binary version.

    Args:
        dataset_dir: the folder of the files (`data_batch_1.bin`, ..., `test_batch.bin`).
    """

    _columns = {"image": "uint8[32, 32, 3]", "label": np.uint32}
    _files = {"train": "data_batch_*.bin", "test": "test_batch*.bin", "all": "*_batch*.bin"}

    def _load(self) -> dict[str, Any]:
        labels = len(self._columns) - 1
        rows = np.concatenate([self._file(p, labels + 32 * 32 * 3) for p in self._paths()])
        images = rows[:, labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        found = {"image": np.ascontiguousarray(images)}
        for i, name in enumerate([*self._columns][1:]):
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
    """Pictures of things of a hundred kinds, CIFAR-100, binary version.

    Args:
        dataset_dir: the folder of the files (`train.bin`, `test.bin`).
    """

    _columns = {"image": "uint8[32, 32, 3]", "coarse_label": np.uint32, "fine_label": np.uint32}
    _files = {"train": "train.bin", "test": "test.bin", "all": "t[er]*.bin"}


class ImageFolderDataset(
    MappableDataset,
    takes="dataset_dir num_samples num_parallel_workers shuffle sampler extensions class_indexing "
          "decode num_shards shard_id cache decrypt",
):
    """Pictures in folders, one folder for each class.

    Args:
        dataset_dir: the folder of the folders.
    """

    dataset_dir: Path
    extensions: tuple[str, ...] | None
    class_indexing: dict[str, int] | None
    decode: bool
    decrypt: Any = argument("Any", rules.nothing("files are read as they are"), None,
                            text="must be None.")
    _columns = {"image": np.uint8, "label": np.int32}
    _files: list[tuple[Path, int]] | None = None

    def _prepare(self) -> None:
        if self.decode:
            pillow("ImageFolderDataset(decode=True)")

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


class FakeImageDataset(
    MappableDataset, takes=f"num_images image_size num_classes base_seed {ROWS}"
):
    """Images of random numbers, MindSpore's.

    An image is the bytes of float64 numbers, the positive ones of a normal distribution and zeros.
    """

    num_images: int = whole(1000, 1, "how many there are.")
    image_size: tuple[int, ...] = argument(
        "Sequence[int]", several(POSITIVE, 3, error=ValueError), (224, 224, 3),
        text="height, width and channels.")
    num_classes: Any = whole(10, 1, "labels are below it.")
    """How many labels there are: a number, as in MindSpore, where other datasets have a method."""
    base_seed: int = whole(0, -rules.INT32_MAX - 1, "of the first image; the next have the seeds "
                                                    "that follow.")
    _columns = {"image": np.uint8, "label": np.uint32}

    def _count(self) -> int:
        return self.num_images

    def _row(self, place: int) -> Row:
        seed = (self.base_seed + place) % 2**32
        size = math.prod(self.image_size)
        numbers = np.maximum(Mt19937(seed).normals(-(-size // 8)), 0.0)
        image = numbers.view(np.uint8)[:size].reshape(self.image_size)
        return image, np.array(Mt19937(seed).below(self.num_classes), np.uint32)
