"""Collections of pictures in folders, with lists of what they show.

Each has a list of entries, made when rows are first asked for: the file of a picture, and the
values of the other columns. How it is found is what differs. Arguments that all have are those of
`MnistDataset`; `decode` says whether pictures are uint8[height, width, 3] or the files' bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import checks
from .pictures import _folder, _usage, decoded, pillow
from .rows import Row
from .samplers import choose
from .sources import MappableDataset, _check_source

Entry = tuple[Any, ...]
"""A picture's path, and the values of the other columns."""
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".ppm")


def lines_of(path: Path) -> list[str]:
    """The lines of a text file that are not blank, without what is white at their end.

    Raises:
        RuntimeError: there is no such file, or it is no text.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeError(f"Invalid file, {path} cannot be read: {error}") from error
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def damaged(path: Any, number: int, why: str) -> RuntimeError:
    """The error that a line, counted from 0, does not fit."""
    return RuntimeError(f"Invalid file, {path} at line {number + 1}: {why}.")


def folders_of(path: Path) -> list[Path]:
    """The folders in a folder, by name.

    Raises:
        RuntimeError: there is no such folder.
    """
    try:
        return sorted(p for p in path.iterdir() if p.is_dir())
    except OSError as error:
        raise RuntimeError(f"Invalid folder, {path} cannot be read: {error}") from error


def pictures_of(path: Path) -> list[Path]:
    """The pictures in a folder, by name.

    Raises:
        RuntimeError: there is no such folder.
    """
    try:
        return sorted(p for p in path.iterdir() if p.suffix.lower() in _PICTURES)
    except OSError as error:
        raise RuntimeError(f"Invalid folder, {path} cannot be read: {error}") from error


class ListedDataset(MappableDataset):
    """Base of sources with a row for each entry of a list.

    Attributes:
        dataset_dir: the folder that was given.
    """

    dataset_dir: Path
    _columns: tuple[str, ...] = ("image", "label")
    _kinds: Mapping[str, Any] = {}
    """dtypes of columns; strings where there is none."""
    _files: tuple[str, ...] = ("image",)
    """Columns of pictures, whose entries are paths."""

    def _listed(
        self, decode: Any, num_samples: Any, num_parallel_workers: Any, shuffle: Any,
        sampler: Any, num_shards: Any, shard_id: Any, cache: Any,
    ) -> None:
        """Check and keep the arguments that all have."""
        _check_source(num_samples, shuffle, num_shards, shard_id)
        self.decode = bool(checks.of_type("decode", False if decode is None else decode, bool))
        if self.decode:
            pillow(f"{type(self).__name__}(decode=True)")
        self._found: list[Entry] | None = None
        MappableDataset.__init__(
            self, choose(num_samples, sampler, shuffle, num_shards, shard_id),
            num_parallel_workers, cache)

    def get_col_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)

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
        return tuple(self._picture(value) if name in self._files else self._values_of(name, value)
                     for name, value in zip(self._columns, entry, strict=True))

    def _values_of(self, column: str, value: Any) -> np.ndarray[Any, Any]:
        kind = self._kinds.get(column)
        try:
            return np.array(value, kind)
        except (OverflowError, TypeError, ValueError) as error:
            raise RuntimeError(
                f"Invalid data, {type(self).__name__} of {self._place()}: {column} {value!r} is "
                f"nothing of {np.dtype(kind)}: {error}.") from error

    def _picture(self, path: Any) -> np.ndarray[Any, Any]:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise RuntimeError(f"Invalid file, {type(self).__name__}: {path} cannot be read: "
                               f"{error}") from error
        return decoded(data, f"{type(self).__name__}: {path}").copy() if self.decode else \
            np.frombuffer(data, np.uint8).copy()

    def _labels(self, column: str) -> Any:
        if column not in self._columns or column in self._files:
            return super()._labels(column)
        place = self._columns.index(column)
        return np.array([entry[place] for entry in self._entries()])


class _Plain(ListedDataset):
    """Base of those with a folder and nothing else that is their own."""

    def __init__(
        self, dataset_dir: str, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
        sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)


class _InParts(ListedDataset):
    """Base of those with a folder and parts that `usage` names; None for all."""

    _usages: tuple[str, ...] = ("train", "test", "all")

    def __init__(
        self, dataset_dir: str, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
        sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.usage = _usage(usage, *self._usages)
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)


# --- folders --------------------------------------------------------------------------------------


class Caltech256Dataset(_Plain):
    """Things of 256 kinds, in a folder for each: image, and label (int32), by the folders' order.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) there are no pictures, or one is broken.

    Source: `mindspore.dataset.Caltech256Dataset`; Griffin et al., 2007.
    """

    _kinds = {"label": np.int32}

    def _find(self) -> Iterator[Entry]:
        for label, folder in enumerate(folders_of(self.dataset_dir)):
            yield from ((path, label) for path in pictures_of(folder))


class SUN397Dataset(_Plain):
    """Scenes, in folders that `ClassName.txt` lists: image, and label (uint32), the place there.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a folder or the list is not there, or a picture is
            broken.

    Source: `mindspore.dataset.SUN397Dataset`; Xiao et al., 2010.
    """

    _kinds = {"label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        for label, name in enumerate(lines_of(self.dataset_dir / "ClassName.txt")):
            yield from ((path, label)
                        for path in pictures_of(self.dataset_dir / name.strip().lstrip("/")))


class RenderedSST2Dataset(_InParts):
    """Sentences of reviews as pictures: image, and label (uint32), 1 for those that like a film.

    Args:
        usage: "train", "val", "test" or "all"; None for all.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a folder is not there, or a picture is broken.

    Source: `mindspore.dataset.RenderedSST2Dataset`; Radford et al., 2021.
    """

    _kinds = {"label": np.uint32}
    _usages = ("val", "all", "train", "test")

    def _find(self) -> Iterator[Entry]:
        chosen = ["test", "train", "valid"] if self.usage == "all" else \
            ["valid" if self.usage == "val" else self.usage]
        for part in chosen:
            for label, name in enumerate(("negative", "positive")):
                yield from ((path, label) for path in pictures_of(self.dataset_dir / part / name))


class OmniglotDataset(ListedDataset):
    """Handwritten characters, in a folder for each in one for each alphabet: image, and label
    (int32), the character's place among all.

    Args:
        dataset_dir: the folder of `images_background` and `images_evaluation`.
        background: which of them; None for the first.
        decode: whether pictures are uint8[height, width, 3].
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) there are no pictures, or one is broken.

    Source: `mindspore.dataset.OmniglotDataset`; Lake et al., 2015.
    """

    _kinds = {"label": np.int32}

    def __init__(
        self, dataset_dir: str, background: bool | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool = False,
        sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.background = bool(checks.of_type(
            "background", True if background is None else background, bool))
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

    def _find(self) -> Iterator[Entry]:
        part = "images_background" if self.background else "images_evaluation"
        characters = [character for alphabet in folders_of(self.dataset_dir / part)
                      for character in folders_of(alphabet)]
        for label, folder in enumerate(characters):
            yield from ((path, label) for path in pictures_of(folder))


class LSUNDataset(ListedDataset):
    """Scenes, in folders such as `bedroom_train` and `bedroom_val`: image, and label (uint32), the
    folder's place among the chosen ones.

    Args:
        dataset_dir: the folder of the folders.
        usage: "train", "test", "valid" or "all" (those for training and validation); None for all.
        classes: which kinds, as "bedroom" or a list; None for all.
        decode: whether pictures are uint8[height, width, 3].
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) there are no pictures, or one is broken.

    Source: `mindspore.dataset.LSUNDataset`; Yu et al., 2015.
    """

    _kinds = {"label": np.uint32}

    def __init__(
        self, dataset_dir: str, usage: str | None = None, classes: Any = None,
        num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: Any = None, decode: bool = False, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.usage = _usage(usage, "train", "test", "valid", "all")
        self.classes = None if classes is None else checks.names("classes", classes)
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

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


class Food101Dataset(_InParts):
    """Dishes: image, and label, the dish's name; usage "train", "test" or "all", None for all.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a list or a picture is not there, or broken.

    Source: `mindspore.dataset.Food101Dataset`; Bossard et al., 2014.
    """

    def _find(self) -> Iterator[Entry]:
        for part in ("train", "test") if self.usage == "all" else (self.usage,):
            for name in lines_of(self.dataset_dir / "meta" / f"{part}.txt"):
                yield self.dataset_dir / "images" / f"{name}.jpg", name.split("/")[0]


class Places365Dataset(ListedDataset):
    """Places of 365 kinds: image, and label (uint32).

    Args:
        dataset_dir: the folder of the lists (`places365_train_standard.txt`, ...) and of the
            folders of pictures (`data_256_standard`, `val_large`, ...).
        usage: "train-standard", "train-challenge" or "val"; None for the first.
        small: whether pictures have 256 x 256 pixels.
        decode: whether pictures are uint8[height, width, 3].
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a list or a picture is not there, or broken.

    Source: `mindspore.dataset.Places365Dataset`; Zhou et al., 2017.
    """

    _kinds = {"label": np.uint32}

    def __init__(
        self, dataset_dir: str, usage: str | None = None, small: bool = True,
        decode: bool = False, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.usage = _usage("train-standard" if usage is None else usage, "train-standard",
                            "train-challenge", "val")
        self.small = bool(checks.of_type("small", small, bool))
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

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


class CelebADataset(ListedDataset):
    """Faces: image, and attr (uint32[40]), 1 for each attribute that a face has.

    Args:
        dataset_dir: the folder of `list_attr_celeba.txt` and the pictures.
        usage: "train", "valid", "test" (by `list_eval_partition.txt`) or "all".
        decode: whether pictures are uint8[height, width, 3].
        extensions: which files, as [".jpg"]; None for all.
        decrypt: called with a picture's path, gives its bytes; None: they are those of the file.
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`; the sampler no `PKSampler`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a list or a picture is not there, or broken.

    Source: `mindspore.dataset.CelebADataset`; Liu et al., 2015.
    """

    _columns = ("image", "attr")
    _kinds = {"attr": np.uint32}

    def __init__(
        self, dataset_dir: str, num_parallel_workers: int | None = None, shuffle: Any = None,
        usage: str = "all", sampler: Any = None, decode: bool = False, extensions: Any = None,
        num_samples: int | None = None, num_shards: int | None = None,
        shard_id: int | None = None, cache: Any = None, decrypt: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.usage = _usage(usage, "all", "train", "valid", "test")
        self.extensions = None if not extensions else \
            tuple(e.lower() for e in checks.names("extensions", extensions))
        self.decrypt = checked_decrypt(decrypt)
        no_classes(self, sampler)
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

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

    def _picture(self, path: Any) -> np.ndarray[Any, Any]:
        return decrypted(self, path) if self.decrypt else super()._picture(path)


def checked_decrypt(decrypt: Any) -> Any:
    """A function that decrypts pictures, or None.

    Raises:
        TypeError: it cannot be called.
    """
    if decrypt is not None and not callable(decrypt):
        raise TypeError(f"Argument decrypt is not a callable object, but got {type(decrypt)}")
    return decrypt


def no_classes(data: Any, sampler: Any) -> None:
    """Refuse a sampler that needs a class for each row.

    Raises:
        ValueError: it is one.
    """
    if type(sampler).__name__ == "PKSampler":
        raise ValueError(f"{type(data).__name__} doesn't support PKSampler.")


def decrypted(data: Any, path: Any) -> np.ndarray[Any, Any]:
    """A picture that the user's function decrypts.

    Raises:
        RuntimeError: what it gives is no bytes, or no picture.
    """
    found = data.decrypt(str(path))
    if not isinstance(found, (bytes, bytearray)):
        raise RuntimeError(f"{type(data).__name__}: decrypt should give bytes, but gave "
                           f"{type(found)} for {path}.")
    return decoded(bytes(found), f"{type(data).__name__}: {path}").copy() if data.decode else \
        np.frombuffer(found, np.uint8).copy()


class SBUDataset(_Plain):
    """Photographs and what their owners say of them: image, caption. Those whose file is not there
    are left out.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder.
        RuntimeError: (when rows are asked for) a list is not there or they do not fit, or a picture
            is broken.

    Source: `mindspore.dataset.SBUDataset`; Ordonez et al., 2011.
    """

    _columns = ("image", "caption")

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


class FlickrDataset(ListedDataset):
    """Photographs and sentences about them: image, and annotation, an array of strings.

    Args:
        dataset_dir: the folder of the pictures.
        annotation_file: the file of lines such as "1.jpg#0", a tab, a sentence.
        decode: whether pictures are uint8[height, width, 3].
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such folder or file.
        RuntimeError: (when rows are asked for) a line does not fit, or a picture is not there or
            broken.

    Source: `mindspore.dataset.FlickrDataset`; Hodosh et al., 2013, Young et al., 2014.
    """

    _columns = ("image", "annotation")

    def __init__(
        self, dataset_dir: str, annotation_file: str, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, decode: bool | None = None,
        sampler: Any = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        self.dataset_dir = _folder(dataset_dir)
        self.annotation_file = existing("annotation_file", annotation_file)
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

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


def existing(name: str, path: Any) -> Path:
    """The path of a file.

    Raises:
        TypeError, ValueError: no path, or no such file.
    """
    checks.of_type(name, path, (str, Path))
    found = Path(path)
    if not found.is_file():
        raise ValueError(f"The file {path} does not exist or permission denied!")
    return found


class ManifestDataset(ListedDataset):
    """Pictures that a file lists, an object of JSON in each line: image, and label (int32).

    Args:
        dataset_file: the file of the list.
        usage: "train", "eval" or "inference".
        class_indexing: which classes, and the label of each; None: all, in order of their names.
        decode: whether pictures are uint8[height, width, 3].
        num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id, cache: as for
            `MnistDataset`.

    Raises:
        TypeError, ValueError: an argument is wrong, or there is no such file.
        RuntimeError: (when rows are asked for) a line does not fit, or a picture is not there or
            broken.

    Source: `mindspore.dataset.ManifestDataset`.
    """

    _kinds = {"label": np.int32}

    def __init__(
        self, dataset_file: str, usage: str = "train", num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: Any = None, sampler: Any = None,
        class_indexing: dict[str, int] | None = None, decode: bool = False,
        num_shards: int | None = None, shard_id: int | None = None, cache: Any = None,
    ) -> None:
        self.dataset_file = existing("dataset_file", dataset_file)
        self.usage = _usage("train" if usage is None else usage, "train", "eval", "inference")
        self.class_indexing = class_labels(class_indexing)
        self._listed(decode, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
                     shard_id, cache)

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


def class_labels(given: Any) -> dict[str, int] | None:
    """The label of each class as the user says, or None.

    Raises:
        TypeError, ValueError: no dict of ints by name.
    """
    if not given:
        return None
    checks.of_type("class_indexing", given, dict)
    for name, label in given.items():
        checks.of_type("key in class_indexing", name, str)
        checks.integer(f"class_indexing[{name!r}]", label, 0)
    return dict(given)


__all__ = [
    "Caltech256Dataset", "CelebADataset", "FlickrDataset", "Food101Dataset", "LSUNDataset",
    "ListedDataset", "ManifestDataset", "OmniglotDataset", "Places365Dataset",
    "RenderedSST2Dataset", "SBUDataset", "SUN397Dataset",
]
