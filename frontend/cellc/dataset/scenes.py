"""Collections of pictures with boxes around things, of pairs, and of two resolutions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core import declared
from .declared import PICTURES, REQUIRED, ROWS, argument, common, must_be, one_of
from .decoding import GRAYSCALE, read
from .listed import FILE, Entry, ListedDataset, damaged, folders_of, lines_of, pictures_of


class PhotoTourDataset(
    ListedDataset, takes=f"dataset_dir name usage {ROWS}", usages=("train", "test")
):
    """Patches of photographs, uint8[64, 64, 1]; the test part has pairs, and whether both show the
    same place.

    Columns: for "train" image; for "test" image1, image2 and matches (uint32).

    Args:
        dataset_dir: the folder of `notredame` and others, with `info.txt` and sheets of 16 x 16
            patches (`patches0000.bmp`, ...).
        name: which place.

    Reference: Winder and Brown, 2007.
    """

    name: str = one_of("notredame", "yosemite", "liberty", "notredame_harris", "yosemite_harris",
                       "liberty_harris", default=REQUIRED)

    def _prepare(self) -> None:
        super()._prepare()
        self._columns = {"image": FILE} if self.usage == "train" else \
            {"image1": FILE, "image2": FILE, "matches": np.uint32}

    def _find(self) -> Iterator[Entry]:
        folder = self.dataset_dir / self.name
        if self.usage == "train":
            yield from ((number,) for number, _ in enumerate(lines_of(folder / "info.txt")))
            return
        path = folder / "m50_100000_100000_0.txt"
        for number, line in enumerate(lines_of(path)):
            fields = line.split()
            if len(fields) != 7 or not all(map(str.isdecimal, fields)):
                raise damaged(path, number, "seven numbers are wanted")
            yield int(fields[0]), int(fields[3]), fields[1] == fields[4]

    def _picture(self, path: Any) -> np.ndarray[Any, Any]:
        sheet, place = divmod(path, 16 * 16)
        row, column = (64 * n for n in divmod(place, 16))
        whole = _sheet(self.dataset_dir / self.name / f"patches{sheet:04d}.bmp")
        return whole[row : row + 64, column : column + 64].copy()


@lru_cache(4)
def _sheet(path: Path) -> np.ndarray[Any, Any]:
    """The pixels of a sheet of patches."""
    who = f"PhotoTourDataset: {path}"
    try:
        found = read(path.read_bytes(), who, GRAYSCALE)
    except ModuleNotFoundError:
        raise
    except Exception as error:  # what Pillow's readers of formats raise has no common kind
        raise RuntimeError(f"Invalid file, {who} cannot be read: {error}") from error
    if found.shape != (1024, 1024, 1):
        raise RuntimeError(f"Invalid file, {who} has {found.shape[:2]} pixels, not 1024 x 1024.")
    return found


class DIV2KDataset(ListedDataset, takes=f"dataset_dir usage downgrade scale {PICTURES}"):
    """Pictures of 2000 pixels a side, and the same made smaller.

    Args:
        dataset_dir: the folder of `DIV2K_train_HR`, `DIV2K_train_LR_bicubic` and others.
        scale: how many times smaller: 2, 3, 4 or, with "bicubic", 8; with "mild", "difficult" and
            "wild" 4.

    Reference: Agustsson and Timofte, 2017.
    """

    usage: str = must_be("train", "valid", "all")
    downgrade: str = must_be("bicubic", "unknown", "mild", "difficult", "wild")
    scale: int = argument("int", declared.one_of(2, 3, 4, 8, kind=int), 2)
    decode: bool = common("decode", kind="bool | None", default=None)
    _columns = {"hr_image": FILE, "lr_image": FILE}

    def _prepare(self) -> None:
        super()._prepare()
        if self.scale == 8 and self.downgrade != "bicubic":
            raise ValueError("DIV2KDataset: only the downgrade 'bicubic' has a scale of 8.")
        if self.scale != 4 and self.downgrade in ("mild", "difficult", "wild"):
            raise ValueError(f"DIV2KDataset: the downgrade {self.downgrade!r} has a scale of 4.")

    def _find(self) -> Iterator[Entry]:
        folder, end = f"{self.downgrade}/X{self.scale}", ""
        if self.downgrade not in ("bicubic", "unknown"):
            folder, end = self.downgrade, self.downgrade[0]
        elif self.scale == 8:
            folder = "x8"
        for part in ("train", "valid") if self.usage == "all" else (self.usage,):
            for path in pictures_of(self.dataset_dir / f"DIV2K_{part}_HR"):
                yield path, (self.dataset_dir / f"DIV2K_{part}_LR_{folder}"
                             / f"{path.stem}x{self.scale}{end}{path.suffix}")


class KITTIDataset(ListedDataset, takes=f"dataset_dir usage {PICTURES}", usages=("train", "test")):
    """Streets and what is in them: a row for each thing. Labels count the kinds that are there, in
    order of their names; the test part has pictures only.

    Args:
        dataset_dir: the folder of `data_object_image_2` and `data_object_label_2`.

    Reference: Geiger et al., 2012.
    """

    _columns: Mapping[str, Any] = {
        "image": FILE, "label": np.uint32, "truncated": np.float32, "occluded": np.uint32,
        "alpha": np.float32, "bbox": np.float32, "dimensions": np.float32, "location": np.float32,
        "rotation_y": np.float32}

    def _prepare(self) -> None:
        super()._prepare()
        if self.usage == "test":
            self._columns = {"image": FILE}

    def _find(self) -> Iterator[Entry]:
        part = "testing" if self.usage == "test" else "training"
        pictures = pictures_of(self.dataset_dir / "data_object_image_2" / part / "image_2")
        if self.usage == "test":
            yield from ((path,) for path in pictures)
            return
        texts = self.dataset_dir / "data_object_label_2" / part / "label_2"
        found = {path: list(_things(texts / f"{path.stem}.txt")) for path in pictures}
        names = sorted({name for things in found.values() for name, _ in things})
        for path, things in found.items():
            values = np.array([numbers for _, numbers in things]).reshape(-1, 14)
            occluded = values[:, 1:2].astype(np.int64) & 0xFFFFFFFF  # (-1 stands for "unknown")
            yield (path, [[names.index(name)] for name, _ in things], values[:, :1], occluded,
                   values[:, 2:3], values[:, 3:7], values[:, 7:10], values[:, 10:13],
                   values[:, 13:])


def _things(path: Path) -> Iterator[tuple[str, list[float]]]:
    """The kind of each thing that a file of KITTI names, and its 14 numbers."""
    for number, line in enumerate(lines_of(path)):
        name, *fields = line.split()
        try:
            numbers = [float(field) for field in fields]
        except ValueError:
            numbers = []
        if len(numbers) != 14 or not (np.abs(numbers) < 1 << 31).all():
            raise damaged(path, number, "a name and 14 numbers are wanted")
        yield name, numbers


_PERSON = re.compile(r"(\S+)\s+(\d{1,4})")  # A name, and how many pictures there are
_PAIR = re.compile(r"(\S+)\s+(\d{1,4})(?:\s+(\S+))?\s+(\d{1,4})")
"""A name and a picture's number, and the same of another person, or a second number."""
_FUNNELS = {"funneled": "lfw_funneled", "original": "lfw", "deepfunneled": "lfw-deepfunneled"}


class LFWDataset(
    ListedDataset, takes=f"dataset_dir task usage image_set {PICTURES}",
    usages=("10fold", "train", "test", "all"),
):
    """Faces: of whom each is, or whether two are of one person (label is 1).

    Args:
        dataset_dir: the folder of the lists (`people.txt`, `pairsDevTrain.txt`, ...) and of the
            folders of pictures.

    Reference: Huang et al., 2007.
    """

    task: str = one_of("people", "pairs")
    image_set: str = one_of(*_FUNNELS)

    def _prepare(self) -> None:
        super()._prepare()
        pictures = ("image",) if self.task == "people" else ("image1", "image2")
        self._columns = {**dict.fromkeys(pictures, FILE), "label": np.uint32}

    def _find(self) -> Iterator[Entry]:
        ends = {"10fold": ("",), "all": ("DevTrain", "DevTest")}.get(
            self.usage, (f"Dev{self.usage.capitalize()}",))
        labels: dict[str, int] = {}
        if self.task == "people":
            names = (line.split()[0] for line in lines_of(self.dataset_dir / "lfw-names.txt"))
            labels = {name: i for i, name in enumerate(names)}
        for end in ends:
            path = self.dataset_dir / f"{self.task}{end}.txt"
            for number, line in enumerate(lines_of(path)):
                if not number or len(line.split()) == 1:
                    continue  # how many lines follow
                found = (_PERSON if self.task == "people" else _PAIR).fullmatch(line.strip())
                if not found or (self.task == "people" and found[1] not in labels):
                    raise damaged(path, number, f"this is not one of the {self.task}")
                if self.task == "people":
                    yield from ((self._face(found[1], i), labels[found[1]])
                                for i in range(1, int(found[2]) + 1))
                else:
                    yield (self._face(found[1], int(found[2])),
                           self._face(found[3] or found[1], int(found[4])), found[3] is None)

    def _face(self, name: str, number: int) -> Path:
        folder = self.dataset_dir / _FUNNELS[self.image_set] / name
        return folder / f"{name}_{number:04d}.jpg"


class WIDERFaceDataset(
    ListedDataset, takes=f"dataset_dir usage {PICTURES}", usages=("train", "test", "valid", "all")
):
    """Faces in scenes: bbox is int32[faces, 4], and there is a number for each face in the other
    columns; the test part has pictures only.

    Args:
        dataset_dir: the folder of `WIDER_train`, `WIDER_val`, `WIDER_test` and
            `wider_face_split`.
        usage: "train", "valid", "test" or "all" (those for training and validation); None: "all".

    Reference: Yang et al., 2016.
    """

    _columns: Mapping[str, Any] = {"image": FILE, **dict.fromkeys(
        ("bbox", "blur", "expression", "illumination", "occlusion", "pose", "invalid"), np.int32)}

    def _prepare(self) -> None:
        super()._prepare()
        if self.usage == "test":
            self._columns = {"image": FILE}

    def _find(self) -> Iterator[Entry]:
        lists = self.dataset_dir / "wider_face_split"
        if self.usage == "test":
            yield from ((self._picture_of("test", name),)
                        for name in lines_of(lists / "wider_face_test_filelist.txt"))
            return
        parts = {"train": ("train",), "valid": ("val",)}.get(self.usage, ("train", "val"))
        for part in parts:
            path = lists / f"wider_face_{part}_bbx_gt.txt"
            lines = enumerate(lines_of(path))
            for number, name in lines:
                count = next(lines, (0, ""))[1]
                if not count.isdecimal() or len(count) > 6:
                    raise damaged(path, number, "the number of faces is wanted after a name")
                faces = [_ten(path, *each) for each in islice(lines, max(int(count), 1))]
                if len(faces) != max(int(count), 1):
                    raise damaged(path, number, f"{count} faces are wanted")
                table = np.array(faces)
                yield self._picture_of(part, name), table[:, :4], *table[:, 4:].T

    def _picture_of(self, part: str, name: str) -> Path:
        return self.dataset_dir / f"WIDER_{part}" / "images" / name


def _ten(path: Path, number: int, line: str) -> Sequence[int]:
    """The ten numbers of a face."""
    try:
        found = [int(field) for field in line.split()]
    except ValueError:
        found = []
    if len(found) != 10:
        raise damaged(path, number, "ten ints are wanted")
    return found


_CITY_PARTS = {"fine": ("train", "test", "val"), "coarse": ("train", "train_extra", "val")}
_CITY_ENDS = {"instance": "instanceIds.png", "semantic": "labelIds.png", "color": "color.png",
              "polygon": "polygons.json"}


class CityscapesDataset(ListedDataset, takes=f"dataset_dir usage quality_mode task {PICTURES}"):
    """Streets, and for each pixel (or by outlines, a text of JSON) what it shows.

    Args:
        dataset_dir: the folder of `leftImg8bit` and `gtFine` or `gtCoarse`.

    Reference: Cordts et al., 2016.
    """

    usage: str = must_be("train", "test", "val", "all", "train_extra")
    quality_mode: str = must_be("fine", "coarse")
    task: str = must_be("instance", "semantic", "polygon", "color")
    decode: bool = common("decode", kind="bool | None", default=None)

    def _prepare(self) -> None:
        super()._prepare()
        parts = _CITY_PARTS[self.quality_mode]
        if self.usage not in (*parts, "all"):
            raise ValueError(f"For 'CityscapesDataset', 'usage' must be one of {(*parts, 'all')} "
                             f"for {self.quality_mode!r}, but got {self.usage!r}.")
        self._columns = {"image": FILE, "task": None if self.task == "polygon" else FILE}

    def _find(self) -> Iterator[Entry]:
        truth = "gt" + self.quality_mode.capitalize()
        parts = _CITY_PARTS[self.quality_mode] if self.usage == "all" else (self.usage,)
        for part in parts:
            for city in folders_of(self.dataset_dir / "leftImg8bit" / part):
                for path in pictures_of(city):
                    name = path.stem.removesuffix("leftImg8bit")
                    said = self.dataset_dir / truth / part / city.name
                    yield path, said / f"{name}{truth}_{_CITY_ENDS[self.task]}"

    def _values_of(self, column: str, value: Any, kind: Any) -> np.ndarray[Any, Any]:
        try:
            return np.array(json.dumps(json.loads(Path(value).read_text("utf-8")), sort_keys=True,
                                       separators=(",", ":"), ensure_ascii=False))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"Invalid file, {value} cannot be read as JSON: {error}") from error


__all__ = ["CityscapesDataset", "DIV2KDataset", "KITTIDataset", "LFWDataset", "PhotoTourDataset",
           "WIDERFaceDataset"]
