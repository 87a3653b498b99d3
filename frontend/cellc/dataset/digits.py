"""Small pictures of digits and things that files hold as numbers: EMNIST, QMNIST, STL-10, USPS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .declared import REQUIRED, ROWS, flag, one_of
from .listed import damaged, lines_of
from .pictures import IDX_IMAGES, IDX_LABELS, Cifar10Dataset, MnistDataset
from .rows import Row
from .texts import FolderDataset

QMNIST_LABELS = 0xC02  # The magic number of a table of int32 in the IDX format


class EMnistDataset(MnistDataset, takes=f"dataset_dir name usage {ROWS}"):
    """Images of handwritten digits and letters, EMNIST.

    Args:
        dataset_dir: the folder of the files (`emnist-digits-train-images-idx3-ubyte`, ...).

    Reference: Cohen et al., 2017.
    """

    name: str = one_of("byclass", "bymerge", "balanced", "letters", "digits", "mnist",
                       default=REQUIRED)

    def _load(self) -> dict[str, Any]:
        parts = ["test", "train"] if self.usage == "all" else [self.usage]
        start = f"emnist-{self.name}"
        images = [self._idx(f"{start}-{p}-images", "idx3-ubyte", IDX_IMAGES) for p in parts]
        labels = [self._idx(f"{start}-{p}-labels", "idx1-ubyte", IDX_LABELS) for p in parts]
        return self._joined(images, labels)

    def _joined(self, images: list[Any], labels: list[Any]) -> dict[str, Any]:
        image, label = np.concatenate(images), np.concatenate(labels)
        if len(image) != len(label):
            raise RuntimeError(f"Invalid data, {type(self).__name__}: {self.dataset_dir} has "
                               f"{len(image)} images but {len(label)} labels.")
        return {"image": image[..., None], "label": label.astype(np.uint32)}


class QMnistDataset(
    EMnistDataset, takes=f"dataset_dir usage compat {ROWS}",
    usages=("train", "test", "test10k", "test50k", "nist", "all"),
):
    """Images of handwritten digits, QMNIST: label is uint32[8] with all that is known of a digit
    unless `compat`.

    Args:
        dataset_dir: the folder of the files (`qmnist-train-images-idx3-ubyte`,
            `qmnist-train-labels-idx2-int`, those of test, and of xnist).
        usage: "train", "test", "test10k" (the first of test), "test50k" (the rest), "nist" or
            "all"; None: "all".
        compat: whether a label is the digit alone.

    Reference: Yadav and Bottou, 2019.
    """

    compat: bool = flag(True)

    def _load(self) -> dict[str, Any]:
        parts = ["train", "test", "nist"] if self.usage == "all" else [self.usage]
        starts = [{"nist": "xnist", "train": "qmnist-train"}.get(p, "qmnist-test") for p in parts]
        cut = {"test10k": slice(0, 10_000), "test50k": slice(10_000, None)}.get(
            self.usage, slice(None))
        images = [self._idx(f"{s}-images", "idx3-ubyte", IDX_IMAGES)[cut] for s in starts]
        labels = [self._idx(f"{s}-labels", "idx2-int", QMNIST_LABELS)[cut] for s in starts]
        return self._joined(images, [each[:, 0] for each in labels] if self.compat else labels)


class STL10Dataset(Cifar10Dataset, usages=("train", "test", "unlabeled", "train+unlabeled", "all")):
    """Pictures of things of ten kinds, binary version; label counts from 0, and is -1 where there
    is none.

    Args:
        dataset_dir: the folder of the files (`train_X.bin`, `train_y.bin`, those of test, and
            `unlabeled_X.bin`).

    Reference: Coates et al., 2011.
    """

    _columns = {"image": "uint8[96, 96, 3]", "label": np.int32}

    def _load(self) -> dict[str, Any]:
        parts = ["test", "train", "unlabeled"] if self.usage == "all" else self.usage.split("+")
        images, labels = [], []
        for part in parts:
            path = self._there(f"{part}_X.bin")
            pixels = self._file(path, 3 * 96 * 96).reshape(-1, 3, 96, 96)
            images.append(pixels.transpose(0, 3, 2, 1))
            found = np.full(len(pixels), 0, np.uint8) if part == "unlabeled" else \
                self._file(self._there(f"{part}_y.bin"), 1)[:, 0]
            if len(found) != len(pixels):
                raise RuntimeError(f"Invalid data, STL10Dataset: {path} has {len(pixels)} images "
                                   f"but there are {len(found)} labels.")
            labels.append(found.astype(np.int32) - 1)
        return {"image": np.ascontiguousarray(np.concatenate(images)),
                "label": np.concatenate(labels)}

    def _there(self, name: str) -> Path:
        path = self.dataset_dir / name
        if not path.is_file():
            raise RuntimeError(f"Invalid data, STL10Dataset can't find {name} in "
                               f"{self.dataset_dir}")
        return path


class SemeionDataset(MnistDataset, takes=f"dataset_dir {ROWS}"):
    """Images of handwritten digits.

    Args:
        dataset_dir: the folder of `semeion.data`.

    Reference: Buscema, 1998.
    """

    _columns = {"image": "uint8[16, 16]", "label": np.uint32}

    def _load(self) -> dict[str, Any]:
        path = self.dataset_dir / "semeion.data"
        rows = []
        for number, line in enumerate(lines_of(path)):
            row = _numbers(line.split(), path, number)
            if len(row) != 266 or np.count_nonzero(row[256:]) != 1:
                raise damaged(path, number, "256 pixels and ten marks, one of them 1, are wanted")
            rows.append(row)
        table = np.array(rows, np.float32).reshape(-1, 266)
        return {"image": table[:, :256].astype(np.uint8).reshape(-1, 16, 16),
                "label": table[:, 256:].argmax(1).astype(np.uint32)}


def _numbers(fields: list[str], path: Any, number: int) -> list[float]:
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise damaged(path, number, f"numbers are wanted ({error})") from error


class USPSDataset(FolderDataset):
    """Digits of the U.S. Postal Service.

    Args:
        dataset_dir: the folder of `usps` and `usps.t`.

    Reference: Hull, 1994.
    """

    _columns = {"image": "uint8[16, 16, 1]", "label": np.uint32}
    _parts = {"train": "usps", "test": "usps.t"}

    def _read(self, path: str) -> list[Row]:
        rows: list[Row] = []
        for number, line in enumerate(lines_of(Path(path))):
            label, *pixels = line.split()
            pairs = [pixel.partition(":") for pixel in pixels]
            if [place for place, _, _ in pairs] != [str(i) for i in range(1, 257)]:
                raise damaged(path, number, "a label and 256 pixels as place:value are wanted")
            values = _numbers([label, *(value for _, _, value in pairs)], path, number)
            shades = np.array(values[1:], np.float32).astype(np.float64)
            image = ((shades + 1) * 127.5).astype(np.uint8)
            rows.append((image.reshape(16, 16, 1), np.array(values[0] - 1).astype(np.uint32)))
        return rows


__all__ = ["EMnistDataset", "QMnistDataset", "STL10Dataset", "SemeionDataset", "USPSDataset"]
