"""Image transforms: the very bits MindSpore 2.10 gives where nothing is drawn, recorded as
checksums; and what holds for all draws."""

from __future__ import annotations

import io
import zlib

import numpy as np
import pytest

import cellc as ms
import cellc.dataset as ds
from cellc.dataset import transforms, vision
from cellc.dataset.vision import Border, Inter

PIXELS = (np.arange(13 * 17 * 3) * 151 % 256).astype(np.uint8)
IMAGES = {
    "colour": PIXELS.reshape(13, 17, 3), "grey": PIXELS[: 9 * 8].reshape(9, 8),
    "one": PIXELS[: 28 * 20].reshape(28, 20, 1),
    "float": (PIXELS.astype(np.float32) / 51 - 2).reshape(13, 17, 3),
}
SMALL = np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * 20
GREY = np.arange(4, dtype=np.uint8).reshape(2, 2)

MADE = {
    "rescale": vision.Rescale(1 / 0.3081, -0.1307 / 0.3081), "tensor": vision.ToTensor(),
    "normalize": vision.Normalize([0.1307], [0.3081]),
    "nearest": vision.Resize((20, 9), Inter.NEAREST), "up": vision.Resize((32, 32)),
    "down": vision.Resize((7, 5)), "half": vision.Resize((14, 10)), "shorter": vision.Resize(11),
    "cubic": vision.Resize((20, 9), Inter.BICUBIC), "area": vision.Resize((5, 6), Inter.AREA),
    "area up": vision.Resize((30, 30), Inter.AREA), "crop": vision.CenterCrop((11, 7)),
    "large crop": vision.CenterCrop(25), "pad": vision.Pad((1, 2, 3, 4), 7),
    "reflect": vision.Pad(2, 0, Border.REFLECT), "symmetric": vision.Pad(2, 0, Border.SYMMETRIC),
    "edge": vision.Pad(2, 0, Border.EDGE), "rotate": vision.Rotate(30),
    "smooth": vision.Rotate(-45, Inter.BILINEAR), "expand": vision.Rotate(30, expand=True),
    "flip": vision.HorizontalFlip(), "upside down": vision.VerticalFlip(),
    "channels first": vision.HWC2CHW(), "bright": vision.AdjustBrightness(1.3),
    "contrast": vision.AdjustContrast(1.3), "saturation": vision.AdjustSaturation(0.3),
    "hue": vision.AdjustHue(-0.2), "bits": vision.Posterize(3),
}

FACTS = {
    ("contrast", "colour"): ("uint8", (13, 17, 3), 1646930234),
    ("saturation", "colour"): ("uint8", (13, 17, 3), 388458666),
    ("hue", "colour"): ("uint8", (13, 17, 3), 4118880670),
    ("bits", "colour"): ("uint8", (13, 17, 3), 1698223758),
    ("bits", "grey"): ("uint8", (9, 8), 3939376143),
    ("bits", "one"): ("uint8", (28, 20, 1), 3650815366),
    ("rescale", "colour"): ("float32", (13, 17, 3), 2327451452),
    ("rescale", "grey"): ("float32", (9, 8), 2622541461),
    ("rescale", "one"): ("float32", (28, 20, 1), 3102113253),
    ("rescale", "float"): ("float32", (13, 17, 3), 130092367),
    ("tensor", "colour"): ("float32", (3, 13, 17), 1821676884),
    ("tensor", "grey"): ("float32", (1, 9, 8), 3662971011),
    ("tensor", "one"): ("float32", (1, 28, 20), 1032964688),
    ("tensor", "float"): ("float32", (3, 13, 17), 1255730541),
    ("normalize", "colour"): ("float32", (13, 17, 3), 878777891),
    ("normalize", "grey"): ("float32", (9, 8), 780763938),
    ("normalize", "one"): ("float32", (28, 20, 1), 2317198582),
    ("normalize", "float"): ("float32", (13, 17, 3), 4118936824),
    ("nearest", "colour"): ("uint8", (20, 9, 3), 2825325304),
    ("nearest", "grey"): ("uint8", (20, 9), 2436746325),
    ("nearest", "one"): ("uint8", (20, 9, 1), 3121078948),
    ("nearest", "float"): ("float32", (20, 9, 3), 858310450),
    ("up", "colour"): ("uint8", (32, 32, 3), 4280741609),
    ("up", "grey"): ("uint8", (32, 32), 3144816481),
    ("up", "one"): ("uint8", (32, 32, 1), 1481678687),
    ("up", "float"): ("float32", (32, 32, 3), 62259467),
    ("down", "colour"): ("uint8", (7, 5, 3), 316442179),
    ("down", "grey"): ("uint8", (7, 5), 2654049218),
    ("down", "one"): ("uint8", (7, 5, 1), 4080380106),
    ("down", "float"): ("float32", (7, 5, 3), 1910829929),
    ("half", "one"): ("uint8", (14, 10, 1), 3009283372),
    ("shorter", "colour"): ("uint8", (11, 14, 3), 1939137456),
    ("shorter", "grey"): ("uint8", (12, 11), 2495015144),
    ("shorter", "one"): ("uint8", (15, 11, 1), 2002163345),
    ("shorter", "float"): ("float32", (11, 14, 3), 813418146),
    ("cubic", "colour"): ("uint8", (20, 9, 3), 3608630341),
    ("cubic", "grey"): ("uint8", (20, 9), 1204900775),
    ("area", "colour"): ("uint8", (5, 6, 3), 804403973),
    ("area", "grey"): ("uint8", (5, 6), 1462307450),
    ("area", "float"): ("float32", (5, 6, 3), 2188318145),
    ("area up", "colour"): ("uint8", (30, 30, 3), 2856574864),
    ("area up", "grey"): ("uint8", (30, 30), 3763040317),
    ("area up", "one"): ("uint8", (30, 30, 1), 4177892712),
    ("area up", "float"): ("float32", (30, 30, 3), 3428006391),
    ("crop", "colour"): ("uint8", (11, 7, 3), 2313041802),
    ("crop", "grey"): ("uint8", (11, 7), 2161526052),
    ("crop", "one"): ("uint8", (11, 7, 1), 1814353633),
    ("crop", "float"): ("float32", (11, 7, 3), 4017402466),
    ("large crop", "colour"): ("uint8", (25, 25, 3), 2730990788),
    ("large crop", "grey"): ("uint8", (25, 25), 4122632495),
    ("large crop", "one"): ("uint8", (25, 25, 1), 1637488311),
    ("large crop", "float"): ("float32", (25, 25, 3), 3035120213),
    ("pad", "colour"): ("uint8", (19, 21, 3), 3724855281),
    ("pad", "grey"): ("uint8", (15, 12), 3266465015),
    ("pad", "one"): ("uint8", (34, 24, 1), 1442046596),
    ("pad", "float"): ("float32", (19, 21, 3), 770915719),
    ("reflect", "colour"): ("uint8", (17, 21, 3), 423886482),
    ("reflect", "grey"): ("uint8", (13, 12), 2515912565),
    ("reflect", "one"): ("uint8", (32, 24, 1), 58040525),
    ("reflect", "float"): ("float32", (17, 21, 3), 356255665),
    ("symmetric", "colour"): ("uint8", (17, 21, 3), 2947256075),
    ("symmetric", "grey"): ("uint8", (13, 12), 1258473408),
    ("symmetric", "one"): ("uint8", (32, 24, 1), 3406679156),
    ("symmetric", "float"): ("float32", (17, 21, 3), 193860545),
    ("edge", "colour"): ("uint8", (17, 21, 3), 1523766497),
    ("edge", "grey"): ("uint8", (13, 12), 3167610224),
    ("edge", "one"): ("uint8", (32, 24, 1), 2576601084),
    ("edge", "float"): ("float32", (17, 21, 3), 321749670),
    ("rotate", "colour"): ("uint8", (13, 17, 3), 156972786),
    ("rotate", "grey"): ("uint8", (9, 8), 872255783),
    ("rotate", "one"): ("uint8", (28, 20, 1), 2062560283),
    ("rotate", "float"): ("float32", (13, 17, 3), 3730165680),
    ("smooth", "colour"): ("uint8", (13, 17, 3), 2911887434),
    ("smooth", "grey"): ("uint8", (9, 8), 785538807),
    ("smooth", "one"): ("uint8", (28, 20, 1), 1759026980),
    ("smooth", "float"): ("float32", (13, 17, 3), 4002656118),
    ("expand", "colour"): ("uint8", (20, 21, 3), 1581838769),
    ("expand", "grey"): ("uint8", (12, 11), 3023284340),
    ("expand", "one"): ("uint8", (34, 31, 1), 314379572),
    ("expand", "float"): ("float32", (20, 21, 3), 2232142684),
    ("flip", "colour"): ("uint8", (13, 17, 3), 1791433057),
    ("flip", "grey"): ("uint8", (9, 8), 3759090994),
    ("flip", "one"): ("uint8", (28, 20, 1), 1221268263),
    ("flip", "float"): ("float32", (13, 17, 3), 3770180975),
    ("upside down", "colour"): ("uint8", (13, 17, 3), 611402342),
    ("upside down", "grey"): ("uint8", (9, 8), 1992626598),
    ("upside down", "one"): ("uint8", (28, 20, 1), 425345395),
    ("upside down", "float"): ("float32", (13, 17, 3), 1103854321),
    ("channels first", "colour"): ("uint8", (3, 13, 17), 413622359),
    ("channels first", "grey"): ("uint8", (9, 8), 2236225393),
    ("channels first", "one"): ("uint8", (1, 28, 20), 4125057283),
    ("channels first", "float"): ("float32", (3, 13, 17), 2611458164),
    ("bright", "colour"): ("uint8", (13, 17, 3), 3373947182),
    ("bright", "grey"): ("uint8", (9, 8), 1228706175),
    ("bright", "one"): ("uint8", (28, 20, 1), 3630027978),
    ("bright", "float"): ("float32", (13, 17, 3), 3754119309),
}


def checksum(array):
    return str(array.dtype), array.shape, zlib.crc32(np.ascontiguousarray(array).tobytes())


@pytest.mark.parametrize("name", MADE)
def test_the_bits_of_mindspore(name):
    for kind, image in IMAGES.items():
        if (name, kind) in FACTS:
            before = image.copy()
            assert checksum(MADE[name](image)) == FACTS[name, kind], kind
            assert np.array_equal(image, before)


def test_small_facts():
    assert vision.ToTensor(np.uint8)(SMALL).max() == 0
    assert vision.ToTensor(ms.float16)(SMALL).dtype == np.float16
    assert vision.ToType(ms.float16)(SMALL).dtype == np.float16
    assert vision.Invert()(SMALL)[0, 0].tolist() == [255, 235, 215]
    assert vision.Crop((0, 1), (1, 1))(SMALL).tolist() == [[[60, 80, 100]]]
    assert vision.Solarize((100, 200))(SMALL)[1].tolist() == [[135, 115, 95], [75, 55, 220]]
    assert vision.Erase(0, 0, 1, 1, 7)(SMALL)[0].tolist() == [[7, 7, 7], [60, 80, 100]]
    assert vision.HWC2CHW()(GREY).shape == (2, 2)
    assert vision.Normalize([1, 2, 3], [4, 5, 6], is_hwc=False)(SMALL.transpose(2, 0, 1)).shape == (
        3, 2, 2)
    assert vision.NormalizePad([1, 2, 3], [4, 5, 6])(SMALL)[..., 3].max() == 0
    assert [(i.name, i.value) for i in Inter] == [
        ("NEAREST", 0), ("ANTIALIAS", 1), ("BILINEAR", 2), ("BICUBIC", 3), ("AREA", 4),
        ("PILCUBIC", 5)]
    assert (str(Border.EDGE), str(ds.Shuffle.GLOBAL), str(Inter.AREA)) == (
        "Border.EDGE", "Shuffle.GLOBAL", "4")
    assert ds.Shuffle.FILES == "files"


def test_random_ones():
    ds.config.set_seed(1)
    numbered = np.arange(36, dtype=np.uint8).reshape(6, 6)
    crops = {tuple(vision.RandomCrop(5)(numbered).ravel()) for _ in range(40)}
    assert 1 < len({crop[0] for crop in crops}) <= 4
    crop = vision.RandomCrop(3)
    firsts = {int(crop(numbered)[0, 0]) for _ in range(400)}
    assert firsts == {6 * i + j for i in range(4) for j in range(4)}
    assert vision.RandomCrop(8, pad_if_needed=True)(numbered).shape == (8, 8)
    assert vision.RandomCrop((6, 7), padding=[1, 0])(numbered).shape == (6, 7)
    flip = vision.RandomHorizontalFlip(0.5)
    assert {tuple(flip(GREY)[0]) for _ in range(40)} == {(0, 1), (1, 0)}
    assert vision.RandomVerticalFlip(1.0)(GREY).tolist() == [[2, 3], [0, 1]]
    assert vision.RandomHorizontalFlip(0.0)(GREY).tolist() == GREY.tolist()
    assert vision.RandomResizedCrop((4, 5))(SMALL).shape == (4, 5, 3)
    assert vision.RandomRotation((90, 90))(GREY).tolist() == [[1, 3], [0, 2]]
    assert vision.RandomInvert(1.0)(SMALL)[0, 0, 0] == 255
    assert len(set(vision.RandomGrayscale(1.0)(SMALL)[0, 0].tolist())) == 1
    assert vision.CutOut(2)(np.full((8, 8, 3), 9, np.uint8)).min() == 0
    adjust = vision.RandomColorAdjust(0.4, 0.4, (0.5, 2), 0.1)
    assert len({adjust(SMALL).tobytes() for _ in range(9)}) > 1
    assert vision.RandomColorAdjust()(SMALL).tolist() == SMALL.tolist()
    assert vision.RandomColorAdjust((2, 2))(SMALL)[0, 0].tolist() == [0, 40, 80]
    pair = vision.RandomCrop(2)(numbered, numbered)
    assert np.array_equal(*pair)


def test_draws_in_a_pipeline_follow_the_seed():
    data = ds.NumpySlicesDataset({"x": np.tile(np.arange(100, dtype=np.uint8), (3, 1)).reshape(
        3, 10, 10)}, shuffle=False).map(
        transforms.Compose([vision.RandomCrop(4), vision.RandomHorizontalFlip()]), "x")

    def epochs(count):
        iterator = data.create_tuple_iterator(num_epochs=count, output_numpy=True)
        return [[row[0].tolist() for row in iterator] for _ in range(count)]

    ds.config.set_seed(5)
    first, second = epochs(2)
    assert epochs(1) == [first] != [second]
    ds.config.set_seed(6)
    assert epochs(1) != [first]


def test_transforms_run_on_the_cpu():
    crop = vision.Crop((0, 0), 1)
    assert crop.device() is crop and crop.device("CPU") is crop
    assert crop.device()(SMALL).shape == (1, 1, 3)
    assert isinstance(vision.Decode().device(), vision.Decode)
    with pytest.raises(ValueError, match=r"For 'Crop', 'device_target' must be 'CPU'.*'Ascend'"):
        crop.device("Ascend")
    with pytest.raises(TypeError, match="For 'Decode', 'device_target' must be a str, but got 1"):
        vision.Decode().device(1)


def test_errors():
    for make, kind, message in (
        (lambda: vision.HorizontalFlip()([1, 2]), TypeError, "NumPy or PIL image, got .*list"),
        (lambda: vision.Normalize([1, 2], [4, 5])(SMALL), RuntimeError, "3 channels, .*2 means"),
        (lambda: vision.Normalize([1], [0]), ValueError, "'std' must be a list, each a number"),
        (lambda: vision.Crop((0, 1), (2, 2))(SMALL), RuntimeError, "not within an image"),
        (lambda: vision.RandomCrop(3)(SMALL), RuntimeError, "larger than the image"),
        (lambda: vision.Invert()(GREY), RuntimeError, r"\[height, width, channels\]"),
        (lambda: vision.HWC2CHW()(np.zeros((2, 2, 3, 4))), RuntimeError, "has .2, 2, 3, 4"),
        (lambda: vision.RandomHorizontalFlip(2), ValueError, "'prob' must be a number in"),
        (lambda: vision.Resize(-1), ValueError, "must be a positive int"),
        (lambda: vision.Resize((1, 2, 3)), TypeError, "a positive int or a tuple of 2"),
        (lambda: vision.CenterCrop("a"), TypeError, "'size' must be .*, but got 'a'"),
        (lambda: vision.Resize(3, "x"), TypeError, "interpolation"),
        (lambda: vision.Resize(3, Inter.ANTIALIAS)(SMALL), RuntimeError, "ANTIALIAS for PIL"),
        (lambda: vision.RandomResizedCrop(3, scale=(2, 1)), ValueError, "min, max"),
        (lambda: vision.Rotate(3, Inter.AREA), ValueError, "'resample' must be one of"),
        (lambda: vision.ToTensor("no type"), TypeError, "'output_type' must be a dtype"),
        (lambda: vision.RandomColorAdjust(-1), ValueError, "but got -1"),
        (lambda: vision.RandomColorAdjust(contrast=(2, 1)), ValueError, "min, max"),
        (lambda: vision.RandomColorAdjust(hue=0.7), ValueError, "'hue' must be a number in .-0.5"),
        (lambda: vision.RandomColorAdjust(0.4)(GREY), RuntimeError, r"uint8\[height, width, 3\]"),
        (lambda: vision.Pad((1, 2, 3)), ValueError, "left and right, top and bottom"),
    ):
        with pytest.raises(kind, match=message):
            make()


def test_pictures_of_pillow():
    image = pytest.importorskip("PIL.Image")
    picture = vision.ToPIL()(SMALL)
    assert picture.size == (2, 2)
    assert vision.HorizontalFlip()(picture).size == (2, 2)
    assert vision.Resize((4, 6), Inter.ANTIALIAS)(picture).size == (6, 4)
    assert np.array_equal(vision.ToTensor()(picture), vision.ToTensor()(SMALL))
    assert np.array_equal(vision.ToNumpy()(picture), SMALL)
    assert vision.Grayscale()(picture).mode == "L"
    assert np.array_equal(vision.Grayscale()(SMALL), np.asarray(picture.convert("L")))
    smooth = vision.Resize((20, 9), Inter.PILCUBIC)(IMAGES["colour"])
    assert np.array_equal(smooth, np.asarray(image.fromarray(IMAGES["colour"]).resize(
        (9, 20), image.Resampling.BICUBIC)))
    with pytest.raises(TypeError, match="should be 1, but got 2"):
        vision.Decode()(GREY)
    with pytest.raises(RuntimeError, match="broken"):
        vision.Decode()(b"no picture")


def test_a_part_of_a_picture_file():
    """The draws of RandomResizedCrop, as in MindSpore; the sums are MindSpore's."""
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    picture = (np.arange(40 * 44 * 3).reshape(40, 44, 3) % 251).astype(np.uint8)
    image.fromarray(picture).save(file, "PNG")
    data = np.frombuffer(file.getvalue(), np.uint8)
    ds.config.set_seed(5)
    for steps in ([vision.RandomCropDecodeResize(8, interpolation=Inter.NEAREST)],
                  [vision.Decode(), vision.RandomResizedCrop(8, interpolation=Inter.NEAREST)]):
        rows = ds.GeneratorDataset([(data,)] * 4, ["image"], shuffle=False).map(steps, "image")
        found = [int(row[0].astype(int).sum()) for row in
                 rows.create_tuple_iterator(output_numpy=True, num_epochs=1)]
        assert found == [22545, 23271, 21624, 20877]
    with pytest.raises(TypeError, match="dimensions of the encoded image should be 1"):
        vision.RandomCropDecodeResize(8)(picture)
