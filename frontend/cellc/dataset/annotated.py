"""Pictures with annotated objects: COCO and Pascal VOC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ..core.declared import instance
from .declared import PICTURES, argument
from .listed import FILE, Entry, ListedDataset, lines_of
from .rows import HIDDEN
from .rules import existing

_KINDS = {"target": FILE} | dict.fromkeys(("bbox", "segmentation", "keypoints"), np.float32) | \
    dict.fromkeys(("category_id", "iscrowd", "area", "num_keypoints", "label", "difficult",
                   "truncate"), np.uint32)


class AnnotatedDataset(ListedDataset):
    """Base of pictures whose columns depend on a task."""

    task: str
    extra_metadata: bool
    _tasks: dict[str, tuple[str, ...]] = {}

    def _prepare(self) -> None:
        super()._prepare()
        if self.task not in self._tasks:
            raise ValueError(f"Invalid task type: {self.task}. There are {', '.join(self._tasks)}.")
        names = [*self._tasks[self.task], *([f"{HIDDEN}filename"] if self.extra_metadata else [])]
        self._columns = {"image": FILE, **{name: _KINDS.get(name) for name in names}}

    def _named(self, entry: Entry) -> Entry:
        """A row's entry, with the name of the picture where it is requested."""
        return (*entry, Path(entry[0]).stem) if self.extra_metadata else entry


_TEXT = instance(str)


def _column(values: list[Any]) -> list[list[Any]]:
    return [[value] for value in values]


def _padded(rows: list[list[float]], fill: float) -> list[list[float]]:
    """Rows filled up to the longest."""
    width = max(map(len, rows), default=0)
    return [[*row, *[fill] * (width - len(row))] for row in rows]


class CocoDataset(
    AnnotatedDataset, takes=f"dataset_dir annotation_file task {PICTURES} extra_metadata decrypt"
):
    """COCO: pictures, and what a file of JSON says of them. Pictures of which it says nothing are
    left out.

    Columns, besides image (uint8), with a row for each of a picture's annotations:

    - "Detection": bbox (float32: left, top, width, height), category_id, iscrowd (uint32);
    - "Stuff": segmentation (float32, filled up with -1 to the longest), iscrowd;
    - "Keypoint": keypoints (float32: x, y and visibility of each), num_keypoints (uint32);
    - "Panoptic": bbox, category_id, iscrowd and area (uint32);
    - "Captioning": captions (strings).

    Args:
        dataset_dir: the folder of the pictures.
        annotation_file: the file of JSON.
        task: which of the above.

    Reference: Lin et al., 2014.
    """

    annotation_file: Path
    task: str = argument("str", _TEXT, "Detection")
    _has_classes = False
    _tasks = {
        "Detection": ("bbox", "category_id", "iscrowd"), "Stuff": ("segmentation", "iscrowd"),
        "Keypoint": ("keypoints", "num_keypoints"),
        "Panoptic": ("bbox", "category_id", "iscrowd", "area"), "Captioning": ("captions",),
    }

    _read_file: dict[str, Any] | None = None

    def _file(self) -> dict[str, Any]:
        if self._read_file is None:
            try:
                found = json.loads(self.annotation_file.read_text("utf-8"))
            except (OSError, ValueError) as error:
                raise RuntimeError(f"Invalid file, {self.annotation_file} cannot be read as JSON: "
                                   f"{error}") from error
            if not isinstance(found, dict):
                raise RuntimeError(f"Invalid file, {self.annotation_file} should be an object of "
                                   f"JSON, but is {type(found).__name__}.")
            self._read_file = found
        return self._read_file

    def get_class_indexing(self) -> dict[str, list[int]]:
        """The number of each category, and for "Panoptic" whether it is a thing.

        Raises:
            RuntimeError: the file has no such categories.
        """
        if self.task not in ("Detection", "Panoptic"):
            raise TypeError("Only 'Detection' and 'Panoptic' support get_class_indexing.")
        keys = ("id", "isthing") if self.task == "Panoptic" else ("id",)
        with _said(self.annotation_file, "categories"):
            return {c["name"]: [int(c[key]) for key in keys] for c in self._file()["categories"]}

    def _find(self) -> Iterator[Entry]:
        with _said(self.annotation_file, "images and annotations"):
            by_image: dict[Any, list[Any]] = {}
            for each in self._file()["annotations"]:
                found = each["segments_info"] if self.task == "Panoptic" else [each]
                by_image.setdefault(each["image_id"], []).extend(found)
            images = [(image["file_name"], by_image[image["id"]])
                      for image in self._file()["images"] if image["id"] in by_image]
            entries = [(self.dataset_dir / name, *self._values(those)) for name, those in images]
        yield from map(self._named, entries)

    def _values(self, those: list[Any]) -> list[Any]:
        """The columns of a picture, from its annotations."""
        return [self._value(name, those) for name in self._tasks[self.task]]

    def _value(self, name: str, those: list[Any]) -> Any:
        if name == "bbox":
            return _boxes([each["bbox"] for each in those])
        if name == "segmentation":
            return _padded([line for each in those for line in _outlines(each)], -1.0)
        if name == "keypoints":
            return _padded([each["keypoints"] for each in those], -1.0)
        if name == "captions":
            return _column([str(each["caption"]) for each in those])
        default = {"iscrowd": 0}.get(name)
        return _column([int(each[name] if default is None else each.get(name, default))
                        for each in those])


def _boxes(boxes: list[Any]) -> list[Any]:
    for box in boxes:
        if len(box) != 4:
            raise ValueError(f"bbox {box} has not four numbers")
    return boxes


def _outlines(each: dict[str, Any]) -> list[list[float]]:
    """The polygons of an annotation, or its runs of pixels as one."""
    found = each["segmentation"]
    return [found["counts"]] if isinstance(found, dict) else list(found)


class _said:
    """Errors of what a file should say, with its name."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what = path, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, (KeyError, TypeError, ValueError, AttributeError,
                              OverflowError)):
            raise RuntimeError(
                f"Invalid file, {self.path} has no {self.what} of the kind that is wanted: "
                f"{type(error).__name__}: {error}.") from error


class VOCDataset(
    AnnotatedDataset,
    takes=f"dataset_dir task usage class_indexing {PICTURES} extra_metadata decrypt",
):
    """Pascal VOC: pictures, and what is in them.

    Columns: for "Segmentation" image and target (uint8); for "Detection", with a row for each
    thing, image, bbox (float32: left, top, width, height), label, difficult and truncate (uint32).

    Args:
        dataset_dir: the folder of `JPEGImages`, `Annotations`, `ImageSets` and
            `SegmentationClass`.
        task: "Segmentation" or "Detection".
        usage: which list of `ImageSets/Segmentation` or `ImageSets/Main`: "train", "val", ...
        class_indexing: for "Detection": which classes, and the label of each; None: all that the
            list's pictures have, in order of their names.

    Reference: Everingham et al., 2010.
    """

    task: str = argument("str", _TEXT, "Segmentation")
    usage: str = argument("str", _TEXT, "train")
    class_indexing: dict[str, int] | None
    _tasks = {"Segmentation": ("target",), "Detection": ("bbox", "label", "difficult", "truncate")}
    _read_things: list[tuple[str, list[Any]]] | None = None

    def _prepare(self) -> None:
        super()._prepare()
        if self.task == "Segmentation" and self.class_indexing is not None:
            raise ValueError("class_indexing is not supported in Segmentation task.")
        sets = "Main" if self.task == "Detection" else self.task
        self._list = existing(self.dataset_dir / "ImageSets" / sets / f"{self.usage}.txt")

    def _names(self) -> list[str]:
        return [line.split()[0] for line in lines_of(self._list)]

    def _things(self) -> list[tuple[str, list[Any]]]:
        """The names of the pictures, and the things in each."""
        if self._read_things is None:
            self._read_things = [
                (name, _things_in(self.dataset_dir / "Annotations" / f"{name}.xml"))
                for name in self._names()]
        return self._read_things

    def get_class_indexing(self) -> dict[str, int]:
        """The label of each class.

        Raises:
            TypeError: the task is "Segmentation".
        """
        if self.task != "Detection":
            raise TypeError("Only 'Detection' support get_class_indexing.")
        if self.class_indexing is None:
            names = sorted({thing[0] for _, things in self._things() for thing in things})
            self.class_indexing = {name: i for i, name in enumerate(names)}
        return self.class_indexing

    def _find(self) -> Iterator[Entry]:
        pictures = self.dataset_dir / "JPEGImages"
        if self.task == "Segmentation":
            targets = self.dataset_dir / "SegmentationClass"
            for name in self._names():
                yield self._named((pictures / f"{name}.jpg", targets / f"{name}.png"))
            return
        labels = self.get_class_indexing()
        for name, things in self._things():
            kept = [thing for thing in things if thing[0] in labels]
            if kept:
                names, boxes, *marks = zip(*kept, strict=True)
                yield self._named((
                    pictures / f"{name}.jpg", list(boxes), _column([labels[n] for n in names]),
                    *(_column(list(mark)) for mark in marks)))


def _things_in(path: Path) -> list[Any]:
    """Class, box, and whether it is difficult and cut off, of each thing that a file names."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise RuntimeError(f"Invalid xml, {path} cannot be read: {error}") from error
    found = []
    for each in root.iter("object"):
        sides = []
        for side in ("xmin", "ymin", "xmax", "ymax"):
            text = each.findtext(f"bndbox/{side}", "")
            try:
                sides.append(float(text))
            except ValueError:
                raise RuntimeError(f"Invalid xml, {path}: {side} of bndbox should be a number, but "
                                   f"is {text!r}.") from None
        left, top, right, bottom = sides
        if min(sides) <= 0 or right < left or bottom < top:
            raise RuntimeError(f"Invalid bndbox, the coordinate of bndbox in {path} should be "
                               f"greater than 0 and in order, but got {sides}.")
        name = each.findtext("name")
        if not name:
            raise RuntimeError(f"Invalid xml, {path}: an object has no name.")
        with _said(path, "difficult and truncated"):
            marks = [int(each.findtext(what, "0") or 0) for what in ("difficult", "truncated")]
        found.append((name, [left, top, right - left, bottom - top], *marks))
    return found


__all__ = ["CocoDataset", "VOCDataset"]
