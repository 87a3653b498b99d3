"""Tiny collections in the formats in which they are published: read by MindSpore, and by cellc.

`python folders.py mindspore` (in MindSpore's interpreter) prints what `folders.json` holds.
"""

import importlib
import json
import os
import struct
import sys
import tempfile
import zlib
from typing import Any

import numpy as np

Made = dict[str, Any]


def png(shade: int, height: int = 2, width: int = 3) -> bytes:
    """A picture file, all of one colour."""
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))

    lines = (b"\0" + bytes([shade, shade // 2, 255 - shade]) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines))
            + part(b"IEND", b""))


def wav(values: list[int], rate: int = 8000, channels: int = 1, width: int = 2) -> bytes:
    """A sound file of `width` bytes a sample."""
    data = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    wide = width * channels
    return struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1,
                       channels, rate, wide * rate, wide, 8 * width, b"data", len(data)) + data


def mat(**arrays: Any) -> bytes:
    """A MAT file of level 5, every second array compressed."""
    def part(kind: int, data: bytes, fill: bool = True) -> bytes:
        return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8 * fill)

    out = b"made by hand".ljust(124) + struct.pack("<H", 0x100) + b"IM"
    for i, (name, given) in enumerate(arrays.items()):
        array = np.asarray(given)
        kind, element = {"uint8": (9, 2), "float64": (6, 9)}[array.dtype.name]
        short = struct.pack("<HH4s", 1, len(name), name.encode()) if len(name) <= 4 else \
            part(1, name.encode())
        whole = part(14, part(6, struct.pack("<II", kind, 0)) + part(
            5, struct.pack(f"<{array.ndim}i", *array.shape)) + short
            + part(element, array.tobytes(order="F")))
        out += part(15, zlib.compress(whole), False) if i % 2 else whole
    return out


class Folder:
    """Files of one collection, in a folder of its own."""

    def __init__(self, root: str, name: str) -> None:
        self.path = os.path.join(root, name)
        os.makedirs(self.path)

    def at(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    def write(self, name: str, data: bytes | str) -> None:
        path = self.at(*name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)

    def pictures(self, *names: str) -> None:
        for i, name in enumerate(names):
            self.write(name, png(40 * i % 256))

    def idx(self, name: str, array: Any, magic: int) -> None:
        array = np.asarray(array)
        kind = ">i4" if magic & 0xFF00 == 0xC00 else ">u1"
        self.write(name, struct.pack(f">{1 + array.ndim}i", magic, *array.shape)
                   + array.astype(kind).tobytes())


def digits(count: int, start: int = 0) -> Any:
    return (np.arange(start, start + count * 784).reshape(count, 28, 28) * 7) % 251


def emnist(ds: Any, f: Folder) -> Made:
    for part, count in (("train", 3), ("test", 2)):
        f.idx(f"emnist-digits-{part}-images-idx3-ubyte", digits(count, count), 0x803)
        f.idx(f"emnist-digits-{part}-labels-idx1-ubyte", np.arange(count), 0x801)
    made = ds.EMnistDataset
    return {"all": lambda: made(f.path, "digits", shuffle=False),
            "train": lambda: made(f.path, "digits", "train", shuffle=False, num_samples=2)}


def qmnist(ds: Any, f: Folder) -> Made:
    for name, count in (("qmnist-train", 2), ("qmnist-test", 10002), ("xnist", 1)):
        f.idx(f"{name}-images-idx3-ubyte", digits(count, count) if count < 9 else
              np.zeros((count, 28, 28)), 0x803)
        labels = np.arange(count * 8).reshape(count, 8) % 10
        labels[:, 1:] += 1000
        f.idx(f"{name}-labels-idx2-int", labels, 0xC02)
    made = ds.QMnistDataset
    few = {"shuffle": False}
    some = [0, 1, 2, 3, 10003, 10004]
    return {"train": lambda: made(f.path, "train", **few),
            "full": lambda: made(f.path, "train", False, **few),
            "all": lambda: made(f.path, "all", sampler=ds.SubsetSampler(some)),
            "test10k": lambda: made(f.path, "test10k", sampler=ds.SubsetSampler([9999])),
            "nist": lambda: made(f.path, "nist", **few)}


def stl10(ds: Any, f: Folder) -> Made:
    for part, count in (("train", 2), ("test", 1), ("unlabeled", 1)):
        f.write(f"{part}_X.bin", ((np.arange(count * 27648) * 3 + len(part)) % 253).astype(
            np.uint8).tobytes())
        if part != "unlabeled":
            f.write(f"{part}_y.bin", bytes([10, 4][:count]))
    made = ds.STL10Dataset
    return {part: lambda part=part: made(f.path, part, shuffle=False)
            for part in ("train", "test", "unlabeled", "train+unlabeled", "all")}


def coco(ds: Any, f: Folder) -> Made:
    f.pictures("images/b.jpg", "images/a.jpg", "images/c.jpg")
    images = [{"id": i, "file_name": n, "height": 2, "width": 3}
              for i, n in ((7, "b.jpg"), (3, "a.jpg"), (5, "c.jpg"))]
    names = [{"id": 2, "name": "cat"}, {"id": 1, "name": "dog"}]
    boxes = [
        {"id": 1, "image_id": 7, "category_id": 1, "iscrowd": 0, "bbox": [1, 2.5, 3, 4],
         "segmentation": [[1, 2, 3, 4, 5, 6], [7, 8.5]]},
        {"id": 2, "image_id": 3, "category_id": 2, "iscrowd": 1, "bbox": [0, 0, 1, 1],
         "segmentation": {"counts": [3, 4, 5], "size": [2, 3]}},
        {"id": 3, "image_id": 7, "category_id": 2, "iscrowd": 0, "bbox": [9, 8, 7, 6],
         "segmentation": [[0, 1]]}]
    f.write("boxes.json", json.dumps({"images": images, "categories": names,
                                      "annotations": boxes}))
    points = [dict(b, keypoints=[1, 2, 2] * (1 + i), num_keypoints=1 + i)
              for i, b in enumerate(boxes)]
    f.write("points.json", json.dumps({"images": images, "categories": [
        {"id": 1, "name": "person", "keypoints": ["nose"], "skeleton": [[1, 1]]},
        {"id": 2, "name": "other", "keypoints": ["nose"], "skeleton": [[1, 1]]}],
        "annotations": points}))
    parts = [{"image_id": i, "file_name": n, "segments_info": [
        {"id": 9, "category_id": c, "iscrowd": 0, "bbox": [1, 2, 3, 4], "area": 12 + c}
        for c in (1, 2)]} for i, n in ((3, "a.png"), (7, "b.png"))]
    f.write("parts.json", json.dumps({"images": images, "categories": [
        {"id": 2, "name": "sky", "isthing": 0}, {"id": 1, "name": "dog", "isthing": 1}],
        "annotations": parts}))
    f.write("said.json", json.dumps({"images": images, "annotations": [
        {"image_id": i, "id": n, "caption": f"text {n}"} for n, i in enumerate((5, 3, 5))]}))
    made = ds.CocoDataset

    def of(file: str, task: str, **more: Any) -> Any:
        return lambda: made(f.at("images"), f.at(file), task, shuffle=False, **more)

    return {"Detection": of("boxes.json", "Detection"),
            "decoded": of("boxes.json", "Detection", decode=True, num_samples=1),
            "Stuff": of("boxes.json", "Stuff"), "Keypoint": of("points.json", "Keypoint"),
            "Panoptic": of("parts.json", "Panoptic"), "Captioning": of("said.json", "Captioning"),
            "names": lambda: of("boxes.json", "Detection", extra_metadata=True)().rename(
                "_meta-filename", "file"),
            "names left": of("boxes.json", "Detection", extra_metadata=True),
            "shard": lambda: made(f.at("images"), f.at("boxes.json"), num_shards=2, shard_id=1,
                                  shuffle=False)}


def voc(ds: Any, f: Folder) -> Made:
    f.write("ImageSets/Main/train.txt", "b\na\n")
    f.write("ImageSets/Main/val.txt", "c\n")
    f.write("ImageSets/Segmentation/train.txt", "a\nb\n")
    f.pictures(*(f"JPEGImages/{n}.jpg" for n in "abc"),
               *(f"SegmentationClass/{n}.png" for n in "ab"))

    def thing(name: str, difficult: str, truncated: str, *box: int) -> str:
        sides = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
        return (f"<object><name>{name}</name>{truncated}{difficult}<bndbox>"
                + "".join(f"<{s}>{v}</{s}>" for s, v in sides) + "</bndbox></object>")

    hard, cut = "<difficult>1</difficult>", "<truncated>1</truncated>"
    for name, things in (("a", thing("dog", "", cut, 1, 2, 5, 7) + thing("cat", hard, "", 3, 1, 4,
                                                                       3)),
                         ("b", thing("cow", hard, cut, 4, 3, 9, 8)),
                         ("c", thing("ant", "", "", 1, 1, 2, 2))):
        f.write(f"Annotations/{name}.xml",
                f"<annotation><filename>{name}.jpg</filename>{things}</annotation>")
    made = ds.VOCDataset
    return {"Segmentation": lambda: made(f.path, shuffle=False),
            "decoded": lambda: made(f.path, shuffle=False, decode=True),
            "Detection": lambda: made(f.path, "Detection", shuffle=False),
            "val": lambda: made(f.path, "Detection", "val", shuffle=False, decode=True),
            "some": lambda: made(f.path, "Detection", class_indexing={"cow": 5, "dog": 3},
                                 shuffle=False),
            "fewer": lambda: made(f.path, "Detection", class_indexing={"cow": 5}, shuffle=False),
            "names": lambda: made(f.path, "Detection", shuffle=False, extra_metadata=True).rename(
                "_meta-filename", "file")}


def celeba(ds: Any, f: Folder) -> Made:
    f.pictures(*(f"{i:06}.jpg" for i in range(1, 5)))
    f.write("list_attr_celeba.txt", "4\nOld Young Tall\n" + "".join(
        f"{i:06}.jpg {'-1' if i % 2 else ' 1'}  1 -1\n" for i in range(1, 5)))
    f.write("list_eval_partition.txt", "".join(
        f"{i:06}.jpg {p}\n" for i, p in enumerate((0, 1, 2, 0), 1)))
    made = ds.CelebADataset
    return {"all": lambda: made(f.path, shuffle=False),
            "valid": lambda: made(f.path, usage="valid", decode=True, shuffle=False),
            "train": lambda: made(f.path, usage="train", shuffle=False, extensions=[".jpg"])}


def places(ds: Any, f: Folder) -> Made:
    f.write("categories_places365.txt", "/a/one 0\n/b/two 1\n")
    f.write("places365_train_standard.txt", "/b/two/2.jpg 1\n/a/one/1.jpg 0\n")
    f.write("places365_train_challenge.txt", "/b/two/2.jpg 1\n")
    f.write("places365_val.txt", "Places365_val_00000001.jpg 1\n")
    f.pictures("data_256_standard/b/two/2.jpg", "data_256_standard/a/one/1.jpg",
               "data_large_standard/b/two/2.jpg", "data_large_standard/a/one/1.jpg",
               "data_256_challenge/b/two/2.jpg", "val_256/Places365_val_00000001.jpg")
    made = ds.Places365Dataset
    return {"standard": lambda: made(f.path, shuffle=False),
            "large": lambda: made(f.path, "train-standard", False, True, shuffle=False),
            "challenge": lambda: made(f.path, "train-challenge", shuffle=False),
            "val": lambda: made(f.path, "val", shuffle=False)}


def food(ds: Any, f: Folder) -> Made:
    f.pictures("images/pie/2.jpg", "images/pie/1.jpg", "images/cake/3.jpg")
    f.write("meta/train.txt", "pie/2\ncake/3\n")
    f.write("meta/test.txt", "pie/1\n")
    f.write("meta/classes.txt", "cake\npie\n")
    made = ds.Food101Dataset
    return {"all": lambda: made(f.path, shuffle=False),
            "train": lambda: made(f.path, "train", shuffle=False, decode=True),
            "test": lambda: made(f.path, "test", shuffle=False)}


def trees(ds: Any, f: Folder) -> Made:
    f.pictures("c/002.b/2.jpg", "c/002.b/1.jpg", "c/001.a/3.jpg")
    f.write("s/ClassName.txt", "/a/abbey\n/a/house/outdoor\n")
    f.pictures("s/a/abbey/sun_b.jpg", "s/a/abbey/sun_a.jpg", "s/a/house/outdoor/sun_c.jpg")
    f.pictures(*(f"r/{p}/{k}/{p}{k[0]}.png" for p in ("train", "test", "valid")
                 for k in ("negative", "positive")))
    f.pictures("o/images_background/B/c2/02.png", "o/images_background/B/c2/01.png",
               "o/images_background/A/c1/03.png", "o/images_evaluation/C/c1/04.png")
    f.pictures("l/bedroom_train/1.jpg", "l/bedroom_val/2.jpg", "l/bridge_train/3.jpg",
               "l/test/4.jpg")
    off = {"shuffle": False}
    return {"256": lambda: ds.Caltech256Dataset(f.at("c"), **off),
            "256 decoded": lambda: ds.Caltech256Dataset(f.at("c"), decode=True, **off),
            "SUN397": lambda: ds.SUN397Dataset(f.at("s"), **off),
            "RenderedSST2": lambda: ds.RenderedSST2Dataset(f.at("r"), **off),
            "RenderedSST2 val": lambda: ds.RenderedSST2Dataset(f.at("r"), "val", **off),
            "Omniglot": lambda: ds.OmniglotDataset(f.at("o"), **off),
            "Omniglot evaluation": lambda: ds.OmniglotDataset(f.at("o"), False, decode=True, **off),
            "LSUN": lambda: ds.LSUNDataset(f.at("l"), **off),
            "LSUN train": lambda: ds.LSUNDataset(f.at("l"), "train", **off),
            "LSUN valid": lambda: ds.LSUNDataset(f.at("l"), "valid", ["bedroom"], **off),
            "LSUN test": lambda: ds.LSUNDataset(f.at("l"), "test", **off)}


def lists(ds: Any, f: Folder) -> Made:
    pixels = [["1.0000" if (i + n) % 3 else "0.0000" for i in range(256)] for n in range(2)]
    f.write("semeion.data", "".join(
        " ".join(p + ["1" if d == n + 4 else "0" for d in range(10)]) + " \n"
        for n, p in enumerate(pixels)))
    f.write("usps", "".join(f"{n + 1} " + " ".join(
        f"{i + 1}:{(i * 7 + n) % 200 / 100 - 1:.4f}" for i in range(256)) + " \n"
        for n in range(2)))
    f.write("usps.t", "10 " + " ".join(f"{i + 1}:{i / 128 - 1:.6f}" for i in range(256)) + " \n")
    f.write("SBU_captioned_photo_dataset_urls.txt", "".join(
        f"http://static.flickr.com/1/{n}.jpg\n" for n in ("2_b", "1_a", "gone")))
    f.write("SBU_captioned_photo_dataset_captions.txt", "two b \none a\nno picture\n")
    f.pictures("sbu_images/m_1_2_b.jpg", "sbu_images/m_1_1_a.jpg")
    f.pictures("images/2.jpg", "images/1.jpg")
    f.write("token.txt", "".join(f"{n}.jpg#{i}\ttext {n} {i} .\n" for n in (2, 1)
                                 for i in range(5)))
    f.write("rows.manifest", "".join(json.dumps(
        {"source": f.at("images", f"{n}.jpg"), "usage": u,
         "annotation": [{"name": k, "type": "modelarts/image_classification"}]}) + "\n"
        for n, u, k in ((2, "train", "dog"), (1, "train", "cat"), (1, "eval", "dog"))))
    off = {"shuffle": False}
    return {"Semeion": lambda: ds.SemeionDataset(f.path, **off),
            "USPS": lambda: ds.USPSDataset(f.path, **off),
            "USPS test": lambda: ds.USPSDataset(f.path, "test", **off),
            "SBU": lambda: ds.SBUDataset(f.path, **off),
            "Flickr": lambda: ds.FlickrDataset(f.at("images"), f.at("token.txt"), **off),
            "Manifest": lambda: ds.ManifestDataset(f.at("rows.manifest"), **off),
            "Manifest eval": lambda: ds.ManifestDataset(
                f.at("rows.manifest"), "eval", class_indexing={"dog": 4}, decode=True, **off)}


def scenes(ds: Any, f: Folder) -> Made:
    for part in ("train", "valid"):
        f.pictures(*(f"d/DIV2K_{part}_{where}" for n in ("0001", "0003") for where in (
            f"HR/{n}.png", f"LR_bicubic/X2/{n}x2.png", f"LR_unknown/X3/{n}x3.png",
            f"LR_x8/{n}x8.png", f"LR_mild/{n}x4m.png", f"LR_wild/{n}x4w.png")))
    f.pictures(*(f"k/data_object_image_2/{part}/image_2/00000{n}.png"
                 for part in ("training", "testing") for n in (0, 1)))
    labels = "k/data_object_label_2/training/label_2"
    f.write(f"{labels}/000000.txt",
            "Van 0.5 1 -0.2 712.4 143 810.73 307.92 1.89 .48 1.2 1.84 1.47 8 .01\n"
            "DontCare -1 -1 -10 0 1 2 3 -1 -1 -1 -1000 -1000 -1000 -10\n")
    f.write(f"{labels}/000001.txt", "Car 0 3 1 1 2 3 4 5 6 7 8 9 10 11\n")
    f.pictures(*(f"l/{funnel}/{name}/{name}_000{n}.jpg" for name in ("Ann", "Bob", "Cy")
                 for n in (1, 2) for funnel in ("lfw", "lfw_funneled", "lfw-deepfunneled")))
    f.write("l/lfw-names.txt", "Ann\t2\nBob\t1\nCy\t2\n")
    f.write("l/people.txt", "2\n1\nCy\t2\n2\nBob\t1\nAnn\t1\n")
    f.write("l/pairs.txt", "2\t1\nAnn\t1\t2\nAnn\t1\tBob\t1\nCy\t2\t1\nCy\t1\tBob\t1\n")
    for part, name in (("Train", "Ann"), ("Test", "Cy")):
        f.write(f"l/peopleDev{part}.txt", f"1\n{name}\t2\n")
        f.write(f"l/pairsDev{part}.txt", f"1\n{name}\t1\t2\n{name}\t2\tBob\t1\n")
    boxes = "0--A/0.jpg\n2\n449 330 122 149 0 1 0 2 0 1 \n1 2 3 4 5 6 7 8 9 10 \n1--B/1.jpg\n0\n" \
        "0 0 0 0 0 0 0 0 0 0 \n"
    for part in ("train", "val", "test"):
        f.pictures(f"w/WIDER_{part}/images/0--A/0.jpg", f"w/WIDER_{part}/images/1--B/1.jpg")
        f.write(f"w/wider_face_split/wider_face_{part}_bbx_gt.txt", boxes)
    f.write("w/wider_face_split/wider_face_test_filelist.txt", "0--A/0.jpg\n1--B/1.jpg\n")
    off = {"shuffle": False}
    smaller = {"": (), "all": ("all",), "unknown 3": ("valid", "unknown", 3),
               "bicubic 8": ("train", "bicubic", 8), "mild": ("train", "mild", 4),
               "wild": ("train", "wild", 4)}
    faces = {"": (), "10fold": ("people", "10fold"), "train": ("people", "train", "original"),
             "pairs": ("pairs", "all", "deepfunneled"), "pairs 10fold": ("pairs", "10fold"),
             "pairs test": ("pairs", "test")}
    return {**{f"DIV2K {n}": lambda a=a: ds.DIV2KDataset(f.at("d"), *a, **off)
               for n, a in smaller.items()},
            "DIV2K decoded": lambda: ds.DIV2KDataset(f.at("d"), decode=True, **off),
            "KITTI": lambda: ds.KITTIDataset(f.at("k"), **off),
            "KITTI test": lambda: ds.KITTIDataset(f.at("k"), "test", decode=True, **off),
            **{f"LFW {n}": lambda a=a: ds.LFWDataset(f.at("l"), *a, **off)
               for n, a in faces.items()},
            **{f"WIDERFace {u}": lambda u=u: ds.WIDERFaceDataset(f.at("w"), u, **off)
               for u in (None, "valid", "test")}}


def svhn(ds: Any, f: Folder) -> Made:
    for part, labels in (("train", [1, 10]), ("test", [3, 3]), ("extra", [4, 9, 10])):
        count = len(labels)
        pixels = (np.arange(32 * 32 * 3 * count) * 3 % 253).astype(np.uint8)
        f.write(f"{part}_32x32.mat", mat(X=pixels.reshape(32, 32, 3, count),
                                         y=np.array(labels, np.float64)[:, None]))
    return {part: lambda part=part: ds.SVHNDataset(f.path, part, shuffle=False)
            for part in ("train", "extra", "all")}


def sounds(ds: Any, f: Folder) -> Made:
    for name in ("cat/bb_nohash_0", "cat/aa_nohash_1", "dog/cc_nohash_2"):
        f.write(f"k/{name}.wav", wav([0, 100, -200, 32767, -32768], 16000))
    f.write("k/validation_list.txt", "cat/aa_nohash_1.wav\n")
    f.write("k/testing_list.txt", "dog/cc_nohash_2.wav\n")
    f.write("y/0_1_1_0_0_1_1_0.wav", wav([1, 2, 3, 4], channels=2))
    f.write("j/metadata.csv", "LJ-2|Two, 2|Two, two\nLJ-1|One 1|One one\n")
    for n in (1, 2):
        f.write(f"j/wavs/LJ-{n}.wav", wav([n, -n], 22050))
    f.write("a/cmu_us_aew_arctic/etc/txt.done.data",
            '( arctic_a0002 "Two words." )\n( arctic_a0001 "Author, one" )\n')
    for n in (1, 2):
        f.write(f"a/cmu_us_aew_arctic/wav/arctic_a000{n}.wav", wav([5 * n], 16000))
    name = "l/dev-clean/116/288045/116_288045"
    f.write(f"{name}.trans.tsv", "".join(
        f"116_288045_00000{n}_000000\tText {n}, 3\tText {n}, three\n" for n in (3, 1)))
    for n in (1, 3):
        f.write(f"{name}_00000{n}_000000.wav", wav([n] * 4, 24000))
    off = {"shuffle": False}
    return {"SpeechCommands": lambda: ds.SpeechCommandsDataset(f.at("k"), **off),
            "SpeechCommands train": lambda: ds.SpeechCommandsDataset(f.at("k"), "train", **off),
            "SpeechCommands valid": lambda: ds.SpeechCommandsDataset(f.at("k"), "valid", **off),
            "SpeechCommands test": lambda: ds.SpeechCommandsDataset(f.at("k"), "test", **off),
            "YesNo": lambda: ds.YesNoDataset(f.at("y"), **off),
            "LJSpeech": lambda: ds.LJSpeechDataset(f.at("j"), **off),
            "CMUArctic": lambda: ds.CMUArcticDataset(f.at("a"), **off),
            "LibriTTS": lambda: ds.LibriTTSDataset(f.at("l"), "dev-clean", **off)}


def texts(ds: Any, f: Folder) -> Made:
    for part, name in (("training", "train"), ("validation", "val"), ("mmt16_task1_test", "test")):
        for kind in ("en", "de"):
            for end in (name, "val") if name == "test" else (name,):
                f.write(f"m/{part}/{end}.{kind}", f"{kind} {part} {end} 1 \n\n{kind} 2\n")
    for part in ("train", "dev"):
        f.write(f"q/{part}-v1.1.json", json.dumps({"version": "1.1", "data": [
            {"title": "t", "paragraphs": [{"context": f"{part} c", "qas": [
                {"id": "1", "question": "q 1", "answers": [
                    {"text": "x", "answer_start": 5}, {"text": "y z", "answer_start": 7}]},
                {"id": "2", "question": "q 2", "is_impossible": True, "answers": []}]}]}]}))
    off = {"shuffle": False}
    return {"Multi30k": lambda: ds.Multi30kDataset(f.at("m"), **off),
            "Multi30k train": lambda: ds.Multi30kDataset(f.at("m"), "train", ["de", "en"], **off),
            "Multi30k test": lambda: ds.Multi30kDataset(f.at("m"), "test", **off),
            "SQuAD": lambda: ds.SQuADDataset(f.at("q"), **off),
            "SQuAD dev": lambda: ds.SQuADDataset(f.at("q"), "dev", **off)}


def streets(ds: Any, f: Folder) -> Made:
    """Cityscapes."""
    for part in ("train", "val", "test"):
        for city, names in (("ulm", ("a_1", "a_0")), ("bern", ("b_0",))):
            for i, name in enumerate(names):
                shade = 10 * i + len(part) + len(city)
                f.write(f"leftImg8bit/{part}/{city}/{name}_leftImg8bit.png", png(shade))
                for kind in ("color", "instanceIds", "labelIds"):
                    f.write(f"gtFine/{part}/{city}/{name}_gtFine_{kind}.png",
                            png(shade + len(kind)))
                f.write(f"gtFine/{part}/{city}/{name}_gtFine_polygons.json", f'{{"{name}": [{i}]}}')
    f.write("leftImg8bit/train_extra/ulm/c_0_leftImg8bit.png", png(99))
    for part in ("train", "train_extra", "val"):
        for name in ("ulm/c_0",) if part == "train_extra" else ("ulm/a_1", "ulm/a_0", "bern/b_0"):
            f.write(f"gtCoarse/{part}/{name}_gtCoarse_labelIds.png", png(50 + len(part)))
    off = {"shuffle": False}
    return {
        "train": lambda: ds.CityscapesDataset(f.path, **off),
        "val semantic": lambda: ds.CityscapesDataset(
            f.path, "val", task="semantic", decode=True, **off),
        "polygons": lambda: ds.CityscapesDataset(f.path, task="polygon", **off),
        "colours": lambda: ds.CityscapesDataset(f.path, "all", task="color", decode=True, **off),
        "coarse": lambda: ds.CityscapesDataset(f.path, "all", "coarse", "semantic", **off),
        "more": lambda: ds.CityscapesDataset(f.path, "train_extra", "coarse", "semantic", **off)}


def more_sounds(ds: Any, f: Folder) -> Made:
    """GTZAN."""
    for kind in ("blues", "rock", "disco"):
        for i in (1, 0):
            f.write(f"{kind}/{kind}.0000{i}.wav", wav([len(kind), i, -9], 22050))
    return {"GTZAN": lambda: ds.GTZANDataset(f.path, shuffle=False),
            "GTZAN all": lambda: ds.GTZANDataset(f.path, "all", num_samples=2, shuffle=False)}


def flowers(ds: Any, f: Folder) -> Made:
    """Oxford's flowers, and Caltech's 101 things."""
    for i in range(1, 6):
        f.write(f"o/jpg/image_0000{i}.jpg", png(i))
        f.write(f"o/segmim/segmim_0000{i}.jpg", png(100 + i))
    f.write("o/imagelabels.mat", mat(labels=np.array([[3, 1, 2, 1, 3]], np.uint8)))
    f.write("o/setid.mat", mat(trnid=np.array([[4, 1]], np.uint8), valid=np.array([[2]], np.uint8),
                               tstid=np.array([[5, 3]], np.uint8)))
    off = {"shuffle": False}
    for i, name in enumerate(("Faces", "accordion", "Motorbikes", "BACKGROUND_Google")):
        for n in range(2):
            f.write(f"c/101_ObjectCategories/{name}/image_000{n + 1}.jpg", png(10 * i + n))
    for i, name in enumerate(("Faces_2", "accordion", "Motorbikes_16")):
        for n in range(2):
            f.write(f"c/Annotations/{name}/annotation_000{n + 1}.mat",
                  mat(box_coord=np.array([[1.0, 2.0, 3.0, 4.0]]),
                      obj_contour=np.array([[1.5, i, n], [4.0, 5.0, 6.0]])))
    return {
        "flowers": lambda: ds.Flowers102Dataset(f.at("o"), **off),
        "flowers train": lambda: ds.Flowers102Dataset(f.at("o"), "Segmentation", "train", **off),
        "flowers valid": lambda: ds.Flowers102Dataset(
            f.at("o"), "Segmentation", "valid", decode=True, **off),
        "flowers test": lambda: ds.Flowers102Dataset(f.at("o"), usage="test", decode=True, **off),
        "101": lambda: ds.Caltech101Dataset(f.at("c"), **off),
        "101 annotations": lambda: ds.Caltech101Dataset(f.at("c"), "annotation", **off),
        "101 all": lambda: ds.Caltech101Dataset(f.at("c"), "all", decode=True, **off)}


def translations(ds: Any, f: Folder) -> Made:
    """IWSLT 2016 and 2017."""
    def talk(words: str, tag: str = "seg") -> str:
        lines = "".join(f'<{tag} id="{i}"> {word} </{tag}>\n'
                        for i, word in enumerate(words.split()))
        return '<?xml version="1.0"?>\n<mteval>\n<srcset setid="x" srclang="y">\n' \
            f'<doc docid="1" genre="g">\n<title>t</title>\n{lines}</doc>\n</srcset>\n</mteval>\n'

    for root, year, sets in (("a/texts/de/en/de-en/", 16, ("dev2010", "tst2013", "tst2014")),
                             ("b/texts/DeEnItNlRo/DeEnItNlRo/DeEnItNlRo-DeEnItNlRo/", 17,
                              ("dev2010", "tst2010"))):
        for language, words in (("de", "eins zwei"), ("en", "one two")):
            f.write(f"{root}train.tags.de-en.{language}", "<url>http</url>\n<title>t</title>\n"
                    + "\n ".join(words.split()) + "\n")
            for name in sets:
                for pair in ("de-en", "en-de"):
                    f.write(f"{root}IWSLT{year}.TED.{name}.{pair}.{language}.xml",
                            talk(f"{words} {name}"))
    off = {"shuffle": False}
    pair = ["de", "en"]
    return {
        "2016": lambda: ds.IWSLT2016Dataset(f.at("a"), **off),
        "2016 test": lambda: ds.IWSLT2016Dataset(
            f.at("a"), "test", pair, "tst2013", "tst2014", **off),
        "2016 valid": lambda: ds.IWSLT2016Dataset(
            f.at("a"), "valid", pair, "dev2010", "tst2013", **off),
        "2017": lambda: ds.IWSLT2017Dataset(f.at("b"), "train", pair, **off),
        "2017 back": lambda: ds.IWSLT2017Dataset(f.at("b"), "valid", ["en", "de"], **off),
        "2017 all": lambda: ds.IWSLT2017Dataset(f.at("b"), "all", pair, **off)}


def patches(ds: Any, f: Folder) -> Made:
    """Photo Tour."""
    head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 1078 + 1024**2, 0, 1078, 40, 1024, -1024, 1, 8,
                       0, 1024**2, 0, 0, 256, 0)
    head += bytes(n for g in range(256) for n in (g, g, g, 0))
    for sheet in range(2):
        pixels = np.arange(1024**2) * (37 + sheet) // 11 % 251
        f.write(f"liberty/patches000{sheet}.bmp", head + pixels.astype(np.uint8).tobytes())
    f.write("liberty/info.txt", "".join(f"{n // 3} 0\n" for n in range(300)))
    f.write("liberty/m50_100000_100000_0.txt",
            "0 0 0 1 0 0 0\n5 1 0 299 99 0 0\n257 85 0 256 85 0 0\n")
    rows = {"num_samples": 20, "shuffle": False}
    return {"PhotoTour": lambda: ds.PhotoTourDataset(f.path, "liberty", **rows),
            "PhotoTour test": lambda: ds.PhotoTourDataset(f.path, "liberty", "test", **rows)}


COLLECTIONS = {made.__name__: made for made in (
    emnist, qmnist, stl10, coco, voc, celeba, places, food, trees, lists, scenes, svhn, sounds,
    texts, streets, more_sounds, flowers, translations, patches)}


def value(array: Any) -> Any:
    """A column's dtype, shape and values, or what sums up many of them."""
    array = np.asarray(array)
    many = array.size > 16
    kept = zlib.crc32(np.ascontiguousarray(array).tobytes()) if many else array.tolist()
    return ["str" if array.dtype.kind == "U" else array.dtype.name, list(array.shape), kept]


def read(case: Any) -> Any:
    """What a dataset says of itself, and its rows."""
    data = case()
    rows = [[value(v) for v in row]
            for row in data.create_tuple_iterator(num_epochs=1, output_numpy=True)]
    try:  # (MindSpore names 101 classes, whatever folders there are.)
        classes = None if "Caltech101" in type(data).__name__ else data.get_class_indexing()
    except (NotImplementedError, TypeError):  # of other tasks
        classes = None
    return {"columns": data.get_col_names(), "size": data.get_dataset_size(), "rows": rows,
            "classes": classes}


def run(ds: Any) -> dict[str, Any]:
    """What a module of datasets reads from each folder."""
    found = {}
    with tempfile.TemporaryDirectory() as root:
        for name in COLLECTIONS:
            cases = COLLECTIONS[name](ds, Folder(root, name))
            found.update({f"{name}: {case}": read(made) for case, made in cases.items()})
    return found


if __name__ == "__main__":
    module = importlib.import_module(f"{sys.argv[1]}.dataset")
    module.config.set_num_parallel_workers(1)
    print(json.dumps(run(module)))
