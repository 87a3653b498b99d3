"""Collections of pictures in folders, with lists of what they show.

Each has a list of entries, made when rows are first asked for: the file of a picture, and the
values of the other columns. How it is found is what differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import rules
from .declared import PICTURES, ROWS, argument, common, flag, one_of
from .decoding import decoded, pillow
from .rows import Row
from .sources import MappableDataset

Entry = tuple[Any, ...]  # A picture's path, and the values of the other columns
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm")


def lines_of(path: Path) -> list[str]:
    """The lines of a text file that are not blank, without what is white at their end."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read: {error}") from error
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def damaged(path: Any, number: int, why: str) -> RuntimeError:
    """The error that a line, counted from 0, does not fit."""
    return RuntimeError(f"Invalid file, {path} at line {number + 1}: {why}.")


def folders_of(path: Path) -> list[Path]:
    """The folders in a folder, by name."""
    try:
        return sorted(p for p in path.iterdir() if p.is_dir())
    except OSError as error:
        raise RuntimeError(f"Invalid folder, {path} cannot be read: {error}") from error


def pictures_of(path: Path) -> list[Path]:
    """The pictures in a folder, by name."""
    try:
        return sorted(p for p in path.iterdir() if p.suffix.lower() in _PICTURES)
    except OSError as error:
        raise RuntimeError(f"Invalid folder, {path} cannot be read: {error}") from error


FILE = "uint8"
"""The kind of a column of pictures, whose entries are paths."""


class ListedDataset(MappableDataset, takes=f"dataset_dir {PICTURES}"):
    """Base of sources with a row for each entry of a list."""

    dataset_dir: Path  # the folder that was given
    usage: str
    decode: bool  # whether pictures are decoded
    decrypt: Any  # reads a picture's file instead
    _columns: Mapping[str, Any] = {}
    """The dtype of each column; None for strings, `FILE` for pictures."""
    _found: list[Entry] | None = None

    def _prepare(self) -> None:
        self.decode, self.decrypt = getattr(self, "decode", False), getattr(self, "decrypt", None)
        if self.decode:
            pillow(f"{type(self).__name__}(decode=True)")

    def _find(self) -> Iterator[Entry]:
        """The entries, in order."""
        raise TypeError(f"{type(self).__name__} must find its files.")

    def _place(self) -> Path:
        """Where the list is."""
        return self.dataset_dir

    def _entries(self) -> list[Entry]:
        if self._found is None:
            self._found = list(self._find())
            if not self._found:
                raise RuntimeError(f"Invalid data, {type(self).__name__} can't find data in "
                                   f"{self._place()}: check the path and the other arguments.")
        return self._found

    def _count(self) -> int:
        return len(self._entries())

    def _row(self, place: int) -> Row:
        entry = self._entries()[place]
        return tuple(self._picture(value) if kind is FILE else self._values_of(name, value, kind)
                     for (name, kind), value in zip(self._columns.items(), entry, strict=True))

    def _values_of(self, column: str, value: Any, kind: Any) -> np.ndarray[Any, Any]:
        try:
            return np.array(value, kind)
        except (OverflowError, TypeError, ValueError) as error:
            raise RuntimeError(
                f"Invalid data, {type(self).__name__} of {self._place()}: {column} {value!r} is "
                f"nothing of {np.dtype(kind)}: {error}.") from error

    def _picture(self, path: Any) -> np.ndarray[Any, Any]:
        who = f"{type(self).__name__}: {path}"
        try:
            data = Path(path).read_bytes() if self.decrypt is None else self.decrypt(str(path))
        except OSError as error:
            raise RuntimeError(f"Invalid file, {who} cannot be read: {error}") from error
        if not isinstance(data, (bytes, bytearray)):
            raise RuntimeError(f"{type(self).__name__}: decrypt should give bytes, but gave "
                               f"{type(data)} for {path}.")
        return decoded(bytes(data), who).copy() if self.decode else \
            np.frombuffer(data, np.uint8).copy()

    def _labels(self, column: str) -> Any:
        if self._columns.get(column, FILE) is FILE:
            return super()._labels(column)
        place = list(self._columns).index(column)
        return np.array([entry[place] for entry in self._entries()])


# --- folders --------------------------------------------------------------------------------------


class Caltech256Dataset(ListedDataset):
    """Things of 256 kinds, in a folder for each; label is the place of the folder.

    Reference: Griffin et al., 2007.
    """

    _columns = {"image": FILE, "label": np.int32}

    def _find(self) -> Iterator[Entry]:
        for label, folder in enumerate(folders_of(self.dataset_dir)):
            yield from ((path, label) for path in pictures_of(folder))


class SUN397Dataset(ListedDataset):
    """Scenes, in folders that `ClassName.txt` lists; label is the place there.

    Reference: Xiao et al., 2010.
    """

    _columns = {"image": FILE, "label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        for label, name in enumerate(lines_of(self.dataset_dir / "ClassName.txt")):
            yield from ((path, label)
                        for path in pictures_of(self.dataset_dir / name.strip().lstrip("/")))


class RenderedSST2Dataset(
    ListedDataset, takes=f"dataset_dir usage {PICTURES}", usages=("val", "all", "train", "test")
):
    """Sentences of reviews as pictures; label is 1 for those that like a film.

    Reference: Radford et al., 2021.
    """

    _columns = {"image": FILE, "label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        chosen = ["test", "train", "valid"] if self.usage == "all" else \
            ["valid" if self.usage == "val" else self.usage]
        for part in chosen:
            for label, name in enumerate(("negative", "positive")):
                yield from ((path, label) for path in pictures_of(self.dataset_dir / part / name))


class OmniglotDataset(ListedDataset, takes=f"dataset_dir background {PICTURES}"):
    """Handwritten characters, in a folder for each in one for each alphabet; label is the
    character's place among all.

    Args:
        dataset_dir: the folder of `images_background` and `images_evaluation`.

    Reference: Lake et al., 2015.
    """

    background: bool = flag(None, "which of the folders; None: the first.", none=True)
    _columns = {"image": FILE, "label": np.int32}

    def _find(self) -> Iterator[Entry]:
        part = "images_background" if self.background else "images_evaluation"
        characters = [character for alphabet in folders_of(self.dataset_dir / part)
                      for character in folders_of(alphabet)]
        for label, folder in enumerate(characters):
            yield from ((path, label) for path in pictures_of(folder))


class LSUNDataset(
    ListedDataset, takes=f"dataset_dir usage classes {PICTURES}",
    usages=("train", "test", "valid", "all"),
):
    """Scenes, in folders such as `bedroom_train` and `bedroom_val`; label is the folder's place
    among the chosen ones.

    Args:
        usage: "train", "test", "valid" or "all" (those for training and validation); None: "all".
        classes: which kinds, as "bedroom" or a list; None for all.

    Reference: Yu et al., 2015.
    """

    classes: list[str] | None = argument("Any", rules.NAMES, None)
    _columns = {"image": FILE, "label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        if self.usage == "test":
            yield from ((path, 0) for path in pictures_of(self.dataset_dir / "test"))
            return
        ends = {"train": ("train",), "valid": ("val",)}.get(self.usage, ("train", "val"))
        chosen = []
        for folder in folders_of(self.dataset_dir):
            name, _, end = folder.name.rpartition("_")
            if end in ends and (self.classes is None or name in self.classes):
                chosen.append(folder)
        for label, folder in enumerate(chosen):
            yield from ((path, label) for path in pictures_of(folder))


# --- lists ----------------------------------------------------------------------------------------


class Food101Dataset(ListedDataset, takes=f"dataset_dir usage {PICTURES}"):
    """Dishes; label is the dish's name. Reference: Bossard et al., 2014."""

    _columns = {"image": FILE, "label": None}

    def _find(self) -> Iterator[Entry]:
        for part in ("train", "test") if self.usage == "all" else (self.usage,):
            for name in lines_of(self.dataset_dir / "meta" / f"{part}.txt"):
                yield self.dataset_dir / "images" / f"{name}.jpg", name.split("/")[0]


class Places365Dataset(
    ListedDataset, takes=f"dataset_dir usage small decode {ROWS}",
    usages=("train-standard", "train-challenge", "val"),
):
    """Places of 365 kinds.

    Args:
        dataset_dir: the folder of the lists (`places365_train_standard.txt`, ...) and of the
            folders of pictures (`data_256_standard`, `val_large`, ...).

    Reference: Zhou et al., 2017.
    """

    small: bool = flag(True, "whether pictures have 256 x 256 pixels.")
    _columns = {"image": FILE, "label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        size = "256" if self.small else "large"
        path = self.dataset_dir / f"places365_{self.usage.replace('-', '_')}.txt"
        pictures = self.dataset_dir / (f"val_{size}" if self.usage == "val" else
                                       f"data_{size}_{self.usage.split('-')[1]}")
        for number, line in enumerate(lines_of(path)):
            name, _, label = line.rpartition(" ")
            if not name or not label.isdecimal():
                raise damaged(path, number, f"a path and a number are wanted, not {line!r}")
            yield pictures / name.lstrip("/"), int(label)


class CelebADataset(
    ListedDataset,
    takes="dataset_dir num_parallel_workers shuffle usage sampler decode extensions num_samples "
          "num_shards shard_id cache decrypt",
):
    """Faces; attr is 1 for each attribute that a face has.

    Args:
        dataset_dir: the folder of `list_attr_celeba.txt` and the pictures.
        usage: "train", "valid", "test" (by `list_eval_partition.txt`) or "all".

    Reference: Liu et al., 2015.
    """

    usage: str = one_of("all", "train", "valid", "test", default="all")
    extensions: tuple[str, ...] | None
    _columns = {"image": FILE, "attr": np.uint32}
    _has_classes = False

    def _find(self) -> Iterator[Entry]:
        path = self.dataset_dir / "list_attr_celeba.txt"
        lines = lines_of(path)
        width = len(lines[1].split()) if len(lines) > 1 else 0
        chosen = self._chosen()
        for number, line in enumerate(lines[2:], 2):
            name, *signs = line.split()
            if len(signs) != width or not set(signs) <= {"1", "-1"}:
                raise damaged(path, number, f"a file's name and {width} times 1 or -1 are wanted")
            if (chosen is None or name in chosen) and (
                    self.extensions is None or Path(name).suffix.lower() in self.extensions):
                yield self.dataset_dir / name, [sign == "1" for sign in signs]

    def _chosen(self) -> set[str] | None:
        """The names of the files of the part, or None for all."""
        if self.usage == "all":
            return None
        wanted = str(("train", "valid", "test").index(self.usage))
        fields = (line.split() for line in lines_of(self.dataset_dir / "list_eval_partition.txt"))
        return {each[0] for each in fields if each[1:] == [wanted]}


class SBUDataset(ListedDataset):
    """Photographs and their owners' captions. Photographs without a file are left out.

    Reference: Ordonez et al., 2011.
    """

    _columns = {"image": FILE, "caption": None}

    def _find(self) -> Iterator[Entry]:
        both = [lines_of(self.dataset_dir / f"SBU_captioned_photo_dataset_{what}.txt")
                for what in ("urls", "captions")]
        if len(both[0]) != len(both[1]):
            raise RuntimeError(f"Invalid data, {self.dataset_dir} has {len(both[0])} addresses of "
                               f"pictures but {len(both[1])} captions.")
        for url, caption in zip(*both, strict=True):
            name = re.sub(r"^https?://[^/]*/", "", url.strip()).replace("/", "_")
            path = self.dataset_dir / "sbu_images" / f"m_{name}"
            if path.is_file():
                yield path, caption.strip()


class FlickrDataset(ListedDataset, takes=f"dataset_dir annotation_file {PICTURES}"):
    """Photographs and sentences about them; annotation is an array of strings.

    Args:
        dataset_dir: the folder of the pictures.
        annotation_file: the file of lines such as "1.jpg#0", a tab, a sentence.

    Reference: Hodosh et al., 2013, Young et al., 2014.
    """

    annotation_file: Path
    decode: bool = common("decode", kind="bool | None", default=None)
    _columns = {"image": FILE, "annotation": None}

    def _find(self) -> Iterator[Entry]:
        said: dict[str, list[str]] = {}
        for number, line in enumerate(lines_of(self.annotation_file)):
            place, tab, text = line.partition("\t")
            name, sign, _ = place.rpartition("#")
            if not tab or not sign:
                raise damaged(self.annotation_file, number,
                              "the name of a picture, #, a number, a tab and a text are wanted")
            said.setdefault(name, []).append(text)
        for name in sorted(said):
            yield self.dataset_dir / name, said[name]


class ManifestDataset(
    ListedDataset,
    takes="dataset_file usage num_samples num_parallel_workers shuffle sampler class_indexing "
          "decode num_shards shard_id cache",
):
    """Pictures that a file lists, an object of JSON in each line."""

    dataset_file: Path = argument("str", rules.FILE, text="the file of the list.")
    usage: str = one_of("train", "eval", "inference", default="train")
    class_indexing: dict[str, int] | None
    _columns = {"image": FILE, "label": np.int32}

    def _place(self) -> Path:
        return self.dataset_file

    def _read(self) -> list[tuple[str, list[str]]]:
        """The paths of the part, and the names of what each shows."""
        found = []
        for number, line in enumerate(lines_of(self.dataset_file)):
            try:
                each = json.loads(line)
                row = each["source"], [str(a["name"]) for a in each.get("annotation", ())]
                if each["usage"].lower() == self.usage:
                    found.append(row)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise damaged(self.dataset_file, number, "an object with source, usage and "
                              f"annotation is wanted ({type(error).__name__}: {error})") from error
        return found

    def get_class_indexing(self) -> dict[str, int]:
        """The label of each class."""
        if self.class_indexing is None:
            names = sorted({name for _, those in self._read() for name in those})
            self.class_indexing = {name: i for i, name in enumerate(names)}
        return self.class_indexing

    def num_classes(self) -> int:
        """How many classes there are."""
        return len(self.get_class_indexing())

    def _find(self) -> Iterator[Entry]:
        labels = self.get_class_indexing()
        for path, names in self._read():
            kept = [labels[name] for name in names if name in labels]
            if kept:
                yield path, kept[0] if len(kept) == 1 else kept


__all__ = [
    "Caltech256Dataset", "CelebADataset", "FlickrDataset", "Food101Dataset", "LSUNDataset",
    "ManifestDataset", "OmniglotDataset", "Places365Dataset",
    "RenderedSST2Dataset", "SBUDataset", "SUN397Dataset",
]
