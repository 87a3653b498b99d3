"""Orders of rows and draws of transforms, for one seed: run under MindSpore, and under cellc.

`python orders.py mindspore` (in MindSpore's interpreter) prints what `orders.json` holds.
"""

import importlib
import json
import os
import sys
import tempfile
from typing import Any

import numpy as np

GRID = np.stack([*np.meshgrid(np.arange(20), np.arange(20), indexing="ij"),
                 np.full((20, 20), 7)], -1).astype(np.uint8)
CLASSES = [0, 1, 2] * 4


class Cases:
    """The cases; a method each, that gives a dataset with one column.

    Args:
        ds: the module of datasets.
        mindrecord: that of MindRecord files.
        folder: where files are written.
    """

    def __init__(self, ds: Any, mindrecord: Any, folder: str) -> None:
        self.ds, self.folder = ds, folder
        self.files = []
        for name in "abcde":
            self.files.append(os.path.join(folder, f"{name}.txt"))
            with open(self.files[-1], "w") as stream:
                stream.write("".join(f"{name}{i}\n" for i in range(4)))
        self.records = os.path.join(folder, "rows")
        writer = mindrecord.FileWriter(self.records, 2)
        writer.set_page_size(1 << 15)
        writer.add_schema({"x": {"type": "int32"}}, "")
        writer.write_raw_data([{"x": i} for i in range(12)])
        writer.commit()

    def rows(self, count: int = 10, **options: Any) -> Any:
        return self.ds.NumpySlicesDataset(list(range(count)), ["x"], **options)

    def plain(self, count: int = 10) -> Any:
        return self.rows(count, shuffle=False)

    def orders(self) -> dict[str, Any]:
        ds = self.ds
        text = ds.TextFileDataset
        return {
            "all of 3": lambda: self.rows(3, shuffle=True),
            "all of 10": lambda: self.rows(shuffle=True),
            "all of 101": lambda: self.rows(101, shuffle=True),
            "buffer of 4": lambda: self.plain().shuffle(4),
            "buffer of 50": lambda: self.plain(101).shuffle(50),
            "buffer of more": lambda: self.plain().shuffle(100),
            "two shuffles": lambda: self.rows(shuffle=True).shuffle(4),
            "repeated": lambda: self.rows(shuffle=True).repeat(2),
            "buffer repeated": lambda: self.plain().shuffle(10).repeat(2),
            "replacement": lambda: self.rows(sampler=ds.RandomSampler(True, 7)),
            "some": lambda: self.rows(sampler=ds.RandomSampler(num_samples=5)),
            "subset": lambda: self.rows(sampler=ds.SubsetRandomSampler([1, 3, 5, 7, 9, 0])),
            "weighted": lambda: self.rows(
                sampler=ds.WeightedRandomSampler([.1] * 5 + [.9] * 5, 8)),
            "weighted once": lambda: self.rows(sampler=ds.WeightedRandomSampler(
                [i / 10 for i in range(1, 11)], 8, replacement=False)),
            "shard": lambda: self.rows(num_shards=2, shard_id=1, shuffle=True),
            "shard of 3": lambda: self.rows(sampler=ds.DistributedSampler(3, 2)),
            "shard with offset": lambda: self.rows(sampler=ds.DistributedSampler(3, 1, offset=2)),
            "part of a shuffle": lambda: self.rows(
                sampler=self.nested(ds.SequentialSampler(1, 4), ds.RandomSampler())),
            "shuffle of a part": lambda: self.rows(
                sampler=self.nested(ds.RandomSampler(), ds.SequentialSampler(2, 6))),
            "shuffle of a shuffle": lambda: self.rows(
                sampler=self.nested(ds.RandomSampler(), ds.RandomSampler())),
            "two datasets": lambda: self.rows(5, shuffle=True) + self.rows(5, shuffle=True),
            "split": lambda: self.plain().split([6, 4])[1],
            "split of files": lambda: text(self.files[0], shuffle=False).split([3, 1])[0],
            "files": lambda: text(self.files, shuffle=ds.Shuffle.FILES),
            "lines of files": lambda: text(self.files, shuffle=ds.Shuffle.GLOBAL),
            "lines of a file": lambda: text(self.files[0]),
            "some lines": lambda: text(self.files, num_samples=7),
            "shard of lines": lambda: text(self.files, num_shards=2, shard_id=0),
            "records": lambda: ds.MindDataset(self.records + "0"),
            "records of a shard": lambda: ds.MindDataset(
                self.records + "0", num_shards=2, shard_id=1),
            "record files": lambda: ds.MindDataset(self.records + "0", shuffle=ds.Shuffle.FILES),
            "within record files": lambda: ds.MindDataset(
                self.records + "0", shuffle=ds.Shuffle.INFILE),
        }

    def nested(self, outer: Any, inner: Any) -> Any:
        outer.add_child(inner)
        return outer

    def draws(self) -> dict[str, Any]:
        vision, transforms = self.ds.vision, self.ds.transforms
        near = vision.Inter.NEAREST
        return {
            "RandomHorizontalFlip": [vision.RandomHorizontalFlip()],
            "RandomVerticalFlip": [vision.RandomVerticalFlip(0.3)],
            "flips": [vision.RandomHorizontalFlip(), vision.RandomVerticalFlip()],
            "RandomCrop": [vision.RandomCrop((8, 6))],
            "RandomCrop with padding": [vision.RandomCrop(20, 4)],
            "RandomCrop of a small image": [vision.RandomCrop(24, pad_if_needed=True)],
            "RandomResizedCrop": [vision.RandomResizedCrop(8, interpolation=near)],
            "RandomRotation": [vision.RandomRotation(90)],
            "RandomRotation between": [vision.RandomRotation((10, 40))],
            "RandomColorAdjust brightness": [vision.RandomColorAdjust((0.5, 1.5))],
            "RandomColorAdjust two": [vision.RandomColorAdjust((0.5, 1.5), saturation=(0.5, 1.5))],
            "RandomColorAdjust fixed": [vision.RandomColorAdjust((1.5, 1.5), (0.5, 1.5))],
            "RandomInvert": [vision.RandomInvert(0.5)],
            "CutOut": [vision.CutOut(4, 2)],
            "RandomApply": [transforms.RandomApply(
                [vision.RandomHorizontalFlip(), vision.VerticalFlip()])],
            "RandomApply of a function": [transforms.RandomApply([lambda x: x[::-1]])],
            "RandomChoice": [transforms.RandomChoice(
                [vision.HorizontalFlip(), vision.VerticalFlip(), vision.CenterCrop(10)])],
            "Compose": [transforms.Compose(
                [vision.RandomCrop(8), vision.RandomHorizontalFlip()])],
        }


def summed(image: Any) -> list[int]:
    """Numbers that tell an image from others."""
    array = np.asarray(image).astype(np.int64)
    weights = np.arange(1, array.size + 1).reshape(array.shape)
    return [*array.shape, int(array.sum()), int((array * weights).sum())]


def run(ds: Any, mindrecord: Any) -> dict[str, Any]:
    """What each case gives: orders of four epochs with two seeds, and two epochs of ten images."""
    found: dict[str, Any] = {}
    before = ds.config.get_num_parallel_workers()
    ds.config.set_num_parallel_workers(2)
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(ds, mindrecord, folder)
        for name, make in cases.orders().items():
            for seed in (1, 4321):
                ds.config.set_seed(seed)
                rows = make().create_tuple_iterator(num_epochs=4, output_numpy=True)
                found[f"{name}, seed {seed}"] = [
                    [str(np.asarray(r[0])) for r in rows] for _ in range(4)]
        ds.config.set_num_parallel_workers(1)
        for name, operations in cases.draws().items():
            ds.config.set_seed(1)
            images = ds.NumpySlicesDataset(np.stack([GRID] * 10), ["x"], shuffle=False)
            rows = images.map(operations, ["x"]).create_tuple_iterator(
                num_epochs=2, output_numpy=True)
            found[name] = [[summed(r[0]) for r in rows] for _ in range(2)]
    ds.config.set_num_parallel_workers(before)
    return found


if __name__ == "__main__":
    library = sys.argv[1]
    result = run(importlib.import_module(f"{library}.dataset"),
                 importlib.import_module(f"{library}.mindrecord"))
    json.dump(result, sys.stdout, separators=(",", ":"))
