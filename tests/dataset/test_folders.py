"""Collections in tiny folders: rows, names and classes are MindSpore's; files that are none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.dataset as ds

from ..others import ORACLE, answer, needs_oracle, run
from . import folders
from .folders import Folder, mat, png, wav

RECORDED = json.loads(Path(__file__).with_name("folders.json").read_text())
"""What MindSpore 2.10 gave."""


@pytest.fixture(scope="module")
def ours() -> Any:
    pytest.importorskip("PIL.Image")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ds.config._Settings, "kept", {"num_parallel_workers": 1})
        return json.loads(json.dumps(folders.run(ds)))


@pytest.mark.parametrize("case", RECORDED)
def test_rows_are_mindspores(ours: Any, case: str) -> None:
    assert ours[case] == RECORDED[case]


def test_every_case_was_recorded(ours: Any) -> None:
    assert ours.keys() == RECORDED.keys()


@needs_oracle
def test_the_records_are_mindspores() -> None:
    assert answer(run(ORACLE, Path(folders.__file__), ["mindspore"])) == RECORDED


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path), "made")


def first(data: Any) -> Any:
    return next(data.create_tuple_iterator(num_epochs=1, output_numpy=True))


BROKEN: list[tuple[str, dict[str, bytes | str], Callable[[Folder], Any], str]] = [
    ("no list", {"images/a/1.jpg": png(1)}, lambda f: ds.Food101Dataset(f.path, "train"),
     r"meta/train\.txt cannot be read"),
    ("no picture", {"meta/train.txt": "pie/1\n"}, lambda f: ds.Food101Dataset(f.path, "train"),
     r"pie/1\.jpg cannot be read"),
    ("broken picture", {"a/1.jpg": png(1)[:50]},
     lambda f: ds.Caltech256Dataset(f.path, decode=True), r"a/1\.jpg: the image is broken"),
    ("a number of KITTI", {"data_object_image_2/training/image_2/000000.png": png(1),
                           "data_object_label_2/training/label_2/000000.txt": "Car 1 x\n"},
     lambda f: ds.KITTIDataset(f.path), "line 1: a name and 14 numbers are wanted"),
    ("a person of LFW", {"lfw-names.txt": "A\t1\n", "peopleDevTrain.txt": "1\nB\t1\n"},
     lambda f: ds.LFWDataset(f.path, usage="train"), "line 2: this is not one of the people"),
    ("faces of WIDERFace",
     {"wider_face_split/wider_face_train_bbx_gt.txt": "0/0.jpg\n99999\n1 2\n"},
     lambda f: ds.WIDERFaceDataset(f.path, "train"), "ten ints are wanted"),
    ("no outlines of Cityscapes", {"leftImg8bit/val/ulm/a_leftImg8bit.png": png(1),
                                   "gtFine/val/ulm/a_gtFine_polygons.json": "{"},
     lambda f: ds.CityscapesDataset(f.path, "val", task="polygon"), "cannot be read as JSON"),
    ("no labels of flowers", {"imagelabels.mat": mat(x=np.zeros((1, 1), np.uint8))},
     lambda f: ds.Flowers102Dataset(f.path), "has no array 'labels'"),
    ("a number of flowers", {"imagelabels.mat": mat(labels=np.ones((1, 1), np.uint8)),
                             "setid.mat": mat(valid=np.full((1, 1), 2, np.uint8))},
     lambda f: ds.Flowers102Dataset(f.path, usage="valid"), "there is no label of 2"),
    ("a pair of patches", {"liberty/m50_100000_100000_0.txt": "0 0 0 1 0 0\n"},
     lambda f: ds.PhotoTourDataset(f.path, "liberty", "test"), "seven numbers are wanted"),
    ("a sheet of patches", {"liberty/info.txt": "0 0\n", "liberty/patches0000.bmp": png(1)},
     lambda f: ds.PhotoTourDataset(f.path, "liberty"), r"\(2, 3\) pixels, not 1024 x 1024"),
    ("the rate of music", {"rock/rock.00000.wav": wav([1], 8000)},
     lambda f: ds.GTZANDataset(f.path), "the rate must be 22050 Hz, but is 8000"),
    ("fewer translations", {
        "texts/de/en/de-en/train.tags.de-en.de": "a\nb\n",
        "texts/de/en/de-en/train.tags.de-en.en": "a\n"},
     lambda f: ds.IWSLT2016Dataset(f.path, "train"), "has 2 sentences, but .* 1"),
    ("an empty line", {"texts/de/en/de-en/train.tags.de-en.de": "a\n\nb\n",
                       "texts/de/en/de-en/train.tags.de-en.en": "a\nb\n"},
     lambda f: ds.IWSLT2016Dataset(f.path, "train"), "at line 2: a sentence is wanted"),
    ("no XML", {f"texts/de/en/de-en/IWSLT16.TED.tst2014.de-en.{end}.xml": "<a>"
                for end in ("de", "en")},
     lambda f: ds.IWSLT2016Dataset(f.path, "test"), "cannot be read as XML"),
    ("no pictures", {"a/1.txt": "x"}, lambda f: ds.Caltech256Dataset(f.path), "can't find data"),
    ("no number", {"places365_val.txt": "/a/1.jpg one\n"},
     lambda f: ds.Places365Dataset(f.path, "val"), r"places365_val\.txt at line 1"),
    ("other signs", {"list_attr_celeba.txt": "1\nOld\n1.jpg 2\n"},
     lambda f: ds.CelebADataset(f.path), r"list_attr_celeba\.txt at line 3"),
    ("no JSON", {"a.json": "{"}, lambda f: ds.CocoDataset(f.path, f.at("a.json")),
     r"a\.json cannot be read as JSON"),
    ("a list", {"a.json": "[]"}, lambda f: ds.CocoDataset(f.path, f.at("a.json")),
     r"a\.json should be an object"),
    ("no box", {"a.json": json.dumps({
        "images": [{"id": 1, "file_name": "1.jpg"}], "categories": [],
        "annotations": [{"image_id": 1, "category_id": 1}]})},
     lambda f: ds.CocoDataset(f.path, f.at("a.json")), r"a\.json has no .*KeyError: 'bbox'"),
    ("half a box", {"a.json": json.dumps({
        "images": [{"id": 1, "file_name": "1.jpg"}], "categories": [],
        "annotations": [{"image_id": 1, "category_id": 1, "bbox": [1]}]})},
     lambda f: ds.CocoDataset(f.path, f.at("a.json")), "has not four numbers"),
    ("no xml", {"ImageSets/Main/train.txt": "a\n", "Annotations/a.xml": "<annotation>"},
     lambda f: ds.VOCDataset(f.path, "Detection"), r"a\.xml cannot be read"),
    ("no corner", {"ImageSets/Main/train.txt": "a\n", "Annotations/a.xml":
                   "<a><object><name>x</name><bndbox><xmin>1</xmin></bndbox></object></a>"},
     lambda f: ds.VOCDataset(f.path, "Detection"), r"a\.xml: ymin of bndbox .* is ''"),
    ("turned box", {"ImageSets/Main/train.txt": "a\n", "Annotations/a.xml":
                    "<a><object><name>x</name><bndbox><xmin>5</xmin><ymin>1</ymin><xmax>2</xmax>"
                    "<ymax>2</ymax></bndbox></object></a>"},
     lambda f: ds.VOCDataset(f.path, "Detection"), r"bndbox in .*a\.xml should be"),
    ("cut file", {"train_X.bin": bytes(27647), "train_y.bin": b"\1"},
     lambda f: ds.STL10Dataset(f.path, "train"), r"train_X\.bin has 27647 bytes"),
    ("labels", {"train_X.bin": bytes(27648), "train_y.bin": b"\1\2"},
     lambda f: ds.STL10Dataset(f.path, "train"), "1 images but there are 2 labels"),
    ("short row", {"semeion.data": "1 0 0\n"}, lambda f: ds.SemeionDataset(f.path),
     r"semeion\.data at line 1: 256 pixels"),
    ("no pixel", {"usps": "1 1:x\n"}, lambda f: ds.USPSDataset(f.path, "train"),
     "usps at line 1: a label and 256"),
    ("a MAT file of level 4", {"test_32x32.mat": bytes(200)},
     lambda f: ds.SVHNDataset(f.path, "test"), r"test_32x32\.mat cannot be read as a MAT"),
    ("a cut MAT file", {"test_32x32.mat": mat(X=np.zeros((2, 2, 3, 1), np.uint8))[:-9]},
     lambda f: ds.SVHNDataset(f.path, "test"), r"test_32x32\.mat cannot be read as a MAT"),
    ("no labels", {"test_32x32.mat": mat(X=np.zeros((2, 2, 3, 1), np.uint8))},
     lambda f: ds.SVHNDataset(f.path, "test"), r"test_32x32\.mat should have X"),
    ("cut sound", {"1_0.wav": wav([1, 2])[:-1]}, lambda f: ds.YesNoDataset(f.path),
     r"1_0\.wav: it has fewer than the 4 bytes of samples"),
    *((f"{8 * width} bits", {"1_0.wav": wav([1, 2], width=width)},
       lambda f: ds.YesNoDataset(f.path),
       rf"1_0\.wav: a sample must have 16 bits, but has {8 * width}") for width in (1, 3, 4)),
    ("no sound", {"1_0.wav": b"RIFF"}, lambda f: ds.YesNoDataset(f.path),
     r"1_0\.wav cannot be read as a WAV"),
    ("fields", {"metadata.csv": "a|b\n"}, lambda f: ds.LJSpeechDataset(f.path),
     r"metadata\.csv at line 1: three fields"),
    ("no object", {"a.manifest": '{"source": "x"}\n'},
     lambda f: ds.ManifestDataset(f.at("a.manifest")), r"a\.manifest at line 1"),
    ("questions", {"train-v1.1.json": '{"data": 3}', "dev-v1.1.json": "{}"},
     lambda f: ds.SQuADDataset(f.path), r"train-v1\.1\.json: TypeError|dev-v1\.1\.json: KeyError"),
    ("one side", {"training/train.en": "a\nb\n", "training/train.de": "a\n"},
     lambda f: ds.Multi30kDataset(f.path, "train"), r"train\.en has 2 lines, .*train\.de 1"),
]


@pytest.mark.parametrize("files, make, text", [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_files_are_named(
    at: Folder, files: dict[str, bytes | str], make: Callable[[Folder], Any], text: str,
) -> None:
    for name, data in files.items():
        at.write(name, data)
    with pytest.raises(RuntimeError, match=text):
        first(make(at))


def test_wrong_arguments(at: Folder) -> None:
    at.write("a.json", "{}")
    at.write("ImageSets/Segmentation/train.txt", "")
    for kind, text, make in (
        (ValueError, "Invalid task type: Boxes",
         lambda: ds.CocoDataset(at.path, at.at("a.json"), "Boxes")),
        (ValueError, r"no\.json does not exist", lambda: ds.CocoDataset(at.path, "no.json")),
        (ValueError, "CocoDataset doesn't support PKSampler",
         lambda: ds.CocoDataset(at.path, at.at("a.json"), sampler=ds.PKSampler(1))),
        (TypeError, "'decrypt' must be a function",
         lambda: ds.CocoDataset(at.path, at.at("a.json"), decrypt=3)),
        (ValueError, r"Main/train\.txt does not exist",
         lambda: ds.VOCDataset(at.path, "Detection")),
        (ValueError, "class_indexing is not supported in Segmentation",
         lambda: ds.VOCDataset(at.path, class_indexing={"a": 0})),
        (TypeError, "Only 'Detection'", lambda: ds.VOCDataset(at.path).get_class_indexing()),
        (ValueError, "'name' must be one of", lambda: ds.EMnistDataset(at.path, "x")),
        (ValueError, "'usage' must be", lambda: ds.CityscapesDataset(at.path, "train_extra")),
        (ValueError, "'task' must be one of", lambda: ds.Flowers102Dataset(at.path, "x")),
        (ValueError, "'target_type' must be one of", lambda: ds.Caltech101Dataset(at.path, "x")),
        (ValueError, "two languages", lambda: ds.IWSLT2016Dataset(at.path, "all", ["de", "fr"])),
        (ValueError, "'test_set' must be", lambda: ds.IWSLT2016Dataset(at.path, test_set="x")),
        (ValueError, "'usage' must be one of", lambda: ds.QMnistDataset(at.path, "x")),
        (ValueError, "'usage' must be one of", lambda: ds.Places365Dataset(at.path, "train")),
        (ValueError, "does not exist", lambda: ds.SUN397Dataset("no such folder")),
        (TypeError, "decode", lambda: ds.SBUDataset(at.path, decode=1)),
        (ValueError, "language_pair", lambda: ds.Multi30kDataset(at.path, None, ["en", "fr"])),
    ):
        with pytest.raises(kind, match=text):
            make()


def test_pictures_are_decrypted_and_chosen(at: Folder) -> None:
    folders.coco(ds, at)
    shown = ds.CocoDataset(at.at("images"), at.at("boxes.json"), shuffle=False,
                           decrypt=lambda path: Path(path).name.encode())
    assert bytes(first(shown)[0]) == b"b.jpg"
    with pytest.raises(RuntimeError, match=r"decrypt should give bytes, .* b\.jpg|images/b\.jpg"):
        first(ds.CocoDataset(at.at("images"), at.at("boxes.json"), shuffle=False, decrypt=len))
    meta = ds.CocoDataset(at.at("images"), at.at("boxes.json"), shuffle=False, extra_metadata=True)
    (name,) = next(meta.create_tuple_iterator(["_meta-filename"], output_numpy=True))
    assert name == "b"
    at.pictures("c/2/1.jpg", "c/1/1.jpg", "c/1/2.jpg")
    chosen = ds.Caltech256Dataset(at.at("c"), sampler=ds.PKSampler(1))
    assert [int(row[1]) for row in chosen.create_tuple_iterator(output_numpy=True)] == [0, 1]


def test_the_last_of_qmnists_test_part(at: Folder) -> None:
    at.idx("qmnist-test-images-idx3-ubyte", np.zeros((10_002, 28, 28)), 0x803)
    at.idx("qmnist-test-labels-idx2-int", np.arange(10_002 * 8).reshape(-1, 8), 0xC02)
    data = ds.QMnistDataset(at.path, "test50k", shuffle=False)
    assert [int(row[1]) for row in data.create_tuple_iterator(output_numpy=True)] == [80000, 80008]
