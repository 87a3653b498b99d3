"""Image transforms by histograms, filters and matrices: the bits MindSpore 2.10 gives for uint8,
recorded as checksums; files of pictures; batches that are mixed."""

from __future__ import annotations

import colorsys
import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import cellc.dataset as ds
from cellc import Tensor
from cellc.dataset import vision

PIXELS = np.random.RandomState(3).randint(0, 256, 2000).astype(np.uint8)
IMAGES = {
    "colour": PIXELS[: 23 * 27 * 3].reshape(23, 27, 3), "grey": PIXELS[:72].reshape(9, 8),
    "one": PIXELS[300:860].reshape(28, 20, 1), "four": PIXELS[:168].reshape(7, 6, 4),
    "narrow": 100 + PIXELS[:768].reshape(16, 16, 3) % 40,
}
MADE = {
    "gamma": (vision.AdjustGamma(2.2), "colour grey one"),
    "gain": (vision.AdjustGamma(0.5, 1.3), "colour grey"),
    "smooth": (vision.AdjustSharpness(0.0), "colour grey one"),
    "sharp": (vision.AdjustSharpness(2.3), "colour grey one narrow"),
    "contrast": (vision.AutoContrast(), "colour grey one narrow"),
    "cut": (vision.AutoContrast(7.5, [10, 20, 125]), "colour grey narrow"),
    "cut far": (vision.AutoContrast(49.9), "colour one narrow"),
    "equal": (vision.Equalize(), "colour grey one narrow"),
    "blur": (vision.GaussianBlur(5), "colour grey one narrow"),
    "wide blur": (vision.GaussianBlur((3, 7)), "colour grey"),
    "blur by": (vision.GaussianBlur((5, 3), (0.8, 2.0)), "colour grey"),
    "alpha": (vision.ConvertColor(vision.ConvertMode.COLOR_RGB2BGRA), "colour grey four"),
    "turned": (vision.ConvertColor(vision.ConvertMode.COLOR_RGBA2BGR), "colour four"),
    "to grey": (vision.ConvertColor(vision.ConvertMode.COLOR_BGR2GRAY), "colour four"),
    "from grey": (vision.ConvertColor(vision.ConvertMode.COLOR_GRAY2RGBA), "grey one"),
    "patches": (vision.SlicePatches(3, 4), "colour grey one"),
    "dropped": (vision.SlicePatches(3, 4, vision.SliceMode.DROP), "colour grey one"),
    "to size": (vision.PadToSize((41, 33), (2, 1), (5, 6, 7)), "colour grey one"),
    "centred": (vision.PadToSize(40, None, 0, vision.Border.EDGE), "colour grey"),
    "part": (vision.ResizedCrop(1, 2, 6, 5, (9, 12)), "colour grey one"),
    "from": (vision.Solarize(100), "colour grey"), "between": (vision.Solarize((30, 150)), "grey"),
    "filled": (vision.Rotate(30, fill_value=(7, 8, 9)), "colour grey one"),
    "affine": (vision.Affine(15, (-0.1, 0.1), 1.1, [1.0, 1.0]), "colour grey"),
    "affine mixed": (vision.Affine(-40.0, [0.2, 0], 0.6, 5.0, vision.Inter.BILINEAR, 9),
                     "colour grey"),
    "perspective": (vision.Perspective([[0, 0], [6, 0], [6, 6], [0, 6]],
                                       [[1, 0], [6, 2], [5, 6], [0, 7]]), "colour grey"),
    "colour by": (vision.RandomColor((1.7, 1.7)), "colour narrow"),
    "sharp by": (vision.RandomSharpness((1.7, 1.7)), "colour grey"),
    "bits": (vision.RandomPosterize((3, 3)), "colour grey"),
    "solar": (vision.RandomSolarize((40, 40)), "colour grey"),
}

FACTS = {
    ("gamma", "colour"): (1, (23, 27, 3), 3126682045),
    ("gamma", "grey"): (1, (9, 8), 914597012),
    ("gamma", "one"): (1, (28, 20, 1), 2141571962),
    ("gain", "colour"): (1, (23, 27, 3), 577608736),
    ("gain", "grey"): (1, (9, 8), 418973362),
    ("smooth", "colour"): (1, (23, 27, 3), 4058349364),
    ("smooth", "grey"): (1, (9, 8), 3450824971),
    ("smooth", "one"): (1, (28, 20, 1), 2243618905),
    ("sharp", "colour"): (1, (23, 27, 3), 3506360545),
    ("sharp", "grey"): (1, (9, 8), 2852622148),
    ("sharp", "one"): (1, (28, 20, 1), 1379265752),
    ("sharp", "narrow"): (1, (16, 16, 3), 102736140),
    ("contrast", "colour"): (1, (23, 27, 3), 3823502004),
    ("contrast", "grey"): (1, (9, 8), 1989836980),
    ("contrast", "one"): (1, (28, 20, 1), 3485977224),
    ("contrast", "narrow"): (1, (16, 16, 3), 3650090509),
    ("cut", "colour"): (1, (23, 27, 3), 1351963326),
    ("cut", "grey"): (1, (9, 8), 3565445779),
    ("cut", "narrow"): (1, (16, 16, 3), 579635467),
    ("cut far", "colour"): (1, (23, 27, 3), 1207234206),
    ("cut far", "one"): (1, (28, 20, 1), 3911815801),
    ("cut far", "narrow"): (1, (16, 16, 3), 2518072288),
    ("equal", "colour"): (1, (23, 27, 3), 2407919957),
    ("equal", "grey"): (1, (9, 8), 1581239634),
    ("equal", "one"): (1, (28, 20, 1), 1262454035),
    ("equal", "narrow"): (1, (16, 16, 3), 2473749760),
    ("blur", "colour"): (1, (23, 27, 3), 1000734924),
    ("blur", "grey"): (1, (9, 8), 3979793524),
    ("blur", "one"): (1, (28, 20, 1), 101044695),
    ("blur", "narrow"): (1, (16, 16, 3), 179804790),
    ("wide blur", "colour"): (1, (23, 27, 3), 4236970150),
    ("wide blur", "grey"): (1, (9, 8), 1650423733),
    ("blur by", "colour"): (1, (23, 27, 3), 4015105634),
    ("blur by", "grey"): (1, (9, 8), 642507106),
    ("alpha", "colour"): (1, (23, 27, 4), 1068109716),
    ("alpha", "grey"): (1, (9, 8, 4), 765215114),
    ("alpha", "four"): (1, (7, 6, 4), 3712651029),
    ("turned", "colour"): (1, (23, 27, 3), 3065056681),
    ("turned", "four"): (1, (7, 6, 3), 312321871),
    ("to grey", "colour"): (1, (23, 27), 1976080997),
    ("to grey", "four"): (1, (7, 6), 4119784632),
    ("from grey", "grey"): (1, (9, 8, 4), 765215114),
    ("from grey", "one"): (1, (28, 20, 4), 225104629),
    ("patches", "colour"): (12, (8, 7, 3), 3464387544),
    ("patches", "grey"): (12, (3, 2), 3795876215),
    ("patches", "one"): (12, (10, 5, 1), 2101407428),
    ("dropped", "colour"): (12, (7, 6, 3), 1113534509),
    ("dropped", "grey"): (12, (3, 2), 3795876215),
    ("dropped", "one"): (12, (9, 5, 1), 2482229727),
    ("to size", "colour"): (1, (41, 33, 3), 1731696862),
    ("to size", "grey"): (1, (41, 33), 491156695),
    ("to size", "one"): (1, (41, 33, 1), 2031340202),
    ("centred", "colour"): (1, (40, 40, 3), 3974913668),
    ("centred", "grey"): (1, (40, 40), 515850852),
    ("part", "colour"): (1, (9, 12, 3), 3915871403),
    ("part", "grey"): (1, (9, 12), 2797164990),
    ("part", "one"): (1, (9, 12, 1), 1535028769),
    ("from", "colour"): (1, (23, 27, 3), 1133528293),
    ("from", "grey"): (1, (9, 8), 1558085283),
    ("between", "grey"): (1, (9, 8), 2721874612),
    ("filled", "colour"): (1, (23, 27, 3), 974102764),
    ("filled", "grey"): (1, (9, 8), 3679919989),
    ("filled", "one"): (1, (28, 20, 1), 1805586710),
    ("affine", "colour"): (1, (23, 27, 3), 3934332284),
    ("affine", "grey"): (1, (9, 8), 3654113518),
    ("affine mixed", "colour"): (1, (23, 27, 3), 953875601),
    ("affine mixed", "grey"): (1, (9, 8), 500122922),
    ("perspective", "colour"): (1, (23, 27, 3), 1543347564),
    ("perspective", "grey"): (1, (9, 8), 2220096582),
    ("colour by", "colour"): (1, (23, 27, 3), 1058723756),
    ("colour by", "narrow"): (1, (16, 16, 3), 2592874320),
    ("sharp by", "colour"): (1, (23, 27, 3), 3562589888),
    ("sharp by", "grey"): (1, (9, 8), 571878332),
    ("bits", "colour"): (1, (23, 27, 3), 2207541399),
    ("bits", "grey"): (1, (9, 8), 2551541508),
    ("solar", "colour"): (1, (23, 27, 3), 1900148912),
    ("solar", "grey"): (1, (9, 8), 3566840097),
}

IMAGE = IMAGES["colour"]
BOXES = np.array([[3, 2, 10, 5, 7], [0, 0, 27, 23, 8], [20, 20, 2, 3, 9]], np.float32)
"""x, y, width, height, and something else."""


@pytest.mark.parametrize("name, image", FACTS)
def test_bits(name: str, image: str) -> None:
    made = MADE[name][0](IMAGES[image])
    parts = list(made) if isinstance(made, (list, tuple)) else [made]
    crc = 0
    for part in parts:
        assert part.dtype == np.uint8
        crc = zlib.crc32(np.ascontiguousarray(part).tobytes(), crc)
    assert (len(parts), parts[0].shape, crc) == FACTS[name, image]


def test_floats() -> None:
    image = (IMAGE / 255).astype(np.float32)
    np.testing.assert_allclose(vision.AdjustGamma(0.5, 1.3)(image),
                               np.minimum(np.sqrt(image * 1.3), 1), rtol=1e-6)
    np.testing.assert_array_equal(vision.AdjustSharpness(1.0)(image), image)
    assert vision.GaussianBlur(5)(image).dtype == np.float32
    constant = np.full((6, 7), 0.25, np.float32)
    np.testing.assert_allclose(vision.GaussianBlur(5, 2.0)(constant), constant, rtol=1e-6)


def test_hues() -> None:
    image = IMAGE / 255
    hues = vision.RgbToHsv(True)(image)
    expected = np.array([[colorsys.rgb_to_hsv(*p) for p in row] for row in image])
    np.testing.assert_allclose(hues, expected, atol=1e-12)
    np.testing.assert_allclose(vision.HsvToRgb(True)(hues), image, atol=1e-12)
    batch = np.stack([image.transpose(2, 0, 1)] * 2)
    np.testing.assert_array_equal(vision.RgbToHsv()(batch)[1], hues.transpose(2, 0, 1))
    with pytest.raises(TypeError, match=r"3 channels .* shape \(9, 8\)"):
        vision.RgbToHsv()(IMAGES["grey"])


def test_whitening() -> None:
    image, rng = IMAGES["grey"][:2, :3, None], np.random.default_rng(0)
    matrix, mean = rng.standard_normal((6, 6)), rng.standard_normal(6)
    made = vision.LinearTransformation(matrix, mean)(image)
    np.testing.assert_allclose(made.ravel(), (image.ravel() - mean) @ matrix)
    with pytest.raises(ValueError, match="6 elements"):
        vision.LinearTransformation(matrix, mean)(IMAGE)
    with pytest.raises(ValueError, match="square"):
        vision.LinearTransformation(matrix[:5], mean)


def test_five_and_ten_parts() -> None:
    five = vision.FiveCrop((7, 5))(IMAGE)
    assert [p.shape for p in five] == [(7, 5, 3)] * 5
    np.testing.assert_array_equal(five[3], IMAGE[-7:, -5:])
    np.testing.assert_array_equal(five[4], IMAGE[8:15, 11:16])
    ten = vision.TenCrop((7, 5), True)(IMAGE)
    np.testing.assert_array_equal(ten[5], IMAGE[::-1][:7, :5])
    pictures = vision.FiveCrop(6)(vision.ToPIL()(IMAGE))
    assert [p.size for p in pictures] == [(6, 6)] * 5
    with pytest.raises(ValueError, match=r"Crop size \(100, 100\) exceeds"):
        vision.FiveCrop(100)(IMAGE)


def test_files(tmp_path: Path) -> None:
    where = str(tmp_path / "a.png")
    vision.write_png(where, IMAGE, 9)
    np.testing.assert_array_equal(vision.read_image(where), IMAGE)
    assert vision.read_image(where, vision.ImageReadMode.GRAYSCALE).shape == (23, 27, 1)
    data = vision.encode_png(Tensor(IMAGES["grey"]))
    np.testing.assert_array_equal(vision.Decode(to_pil=True)(data).convert("L"), IMAGES["grey"])
    vision.write_jpeg(str(tmp_path / "a.jpg"), IMAGE, 95)
    assert vision.read_image(str(tmp_path / "a.jpg")).shape == IMAGE.shape
    vision.write_file(str(tmp_path / "b"), data)
    np.testing.assert_array_equal(vision.read_file(str(tmp_path / "b")), data)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jpg", "a.png", "b"]
    assert vision.get_image_size(IMAGE) == [23, 27]
    assert vision.get_image_size(vision.ToPIL()(IMAGE)) == [23, 27]
    assert vision.get_image_num_channels(IMAGES["grey"]) == 1


def _png(array: np.ndarray[Any, Any], colour: int) -> bytes:
    """A PNG file of 16 bits."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in array)
    head = struct.pack(">IIBBBBB", array.shape[1], array.shape[0], 16, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + \
        chunk(b"IEND", b"")


def _exif(orientation: int) -> Any:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


WIDE = np.array([[0, 256, 1000, 40000, 65535], [127, 128, 129, 255, 511]], np.uint16)
DEEP = np.stack([WIDE, WIDE[::-1], 65535 - WIDE], axis=2)


def _saved(kind: str, array: np.ndarray[Any, Any], mode: str | None = None, **more: Any) -> bytes:
    image = Image.fromarray(array)
    data = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(data, kind, **more)
    return data.getvalue()


ALPHA = np.dstack([DEEP >> 8, WIDE >> 8]).astype(np.uint8)
BYTES = ALPHA[..., :3]
ORIENTED = {1: BYTES, 3: BYTES[::-1, ::-1], 6: np.rot90(BYTES, -1), 8: np.rot90(BYTES)}
UNCHANGED = {
    "16 bits, PNG": (_saved("PNG", WIDE), WIDE), "16 bits, TIFF": (_saved("TIFF", WIDE), WIDE),
    "colours of 16 bits": (_png(DEEP, 2), DEEP),
    "colours of 16 bits and alpha": (_png(np.dstack([DEEP, WIDE]), 6), DEEP),
    "brightness of 16 bits and alpha":
        (_png(np.dstack([WIDE, 65535 - WIDE]), 4), np.dstack([WIDE] * 3)),
    "floats": (_saved("TIFF", WIDE.astype(np.float32) / 3), WIDE.astype(np.float32) / 3),
    "ints": (_saved("TIFF", WIDE.astype(np.int32) - 300), WIDE.astype(np.int32) - 300),
    "one bit": (_saved("PNG", BYTES[..., 0], "1"), np.array(
        Image.fromarray(BYTES[..., 0]).convert("1").convert("L"))),
    "alpha": (_saved("PNG", ALPHA), BYTES),
    "alpha, TIFF": (_saved("TIFF", ALPHA), (
        BYTES.astype(int) * ALPHA[..., 3:] + 127) // 255),
    "palette": (_saved("PNG", BYTES, "P"), np.array(
        Image.fromarray(BYTES).convert("P").convert("RGB"))),
    "turned": (_saved("PNG", BYTES, exif=_exif(6)), BYTES),
}


@pytest.mark.parametrize("kind", UNCHANGED)
def test_read_image_keeps_widths_and_drops_alpha(kind: str, tmp_path: Path) -> None:
    """Types, channels and elements are those that MindSpore 2.10 gives for the same files."""
    data, want = UNCHANGED[kind]
    (tmp_path / "p").write_bytes(data)
    found = vision.read_image(str(tmp_path / "p"))
    want = want if want.dtype != int else want.astype(np.uint8)
    np.testing.assert_array_equal(found, want if want.ndim == 3 else want[..., None], strict=True)


@pytest.mark.parametrize("kind", [k for k in UNCHANGED if "16" in k])
def test_eight_bits_are_the_high_byte(kind: str, tmp_path: Path) -> None:
    data, want = UNCHANGED[kind]
    high = (want if want.ndim == 3 else np.dstack([want] * 3)) >> 8
    (tmp_path / "p").write_bytes(data)
    np.testing.assert_array_equal(vision.Decode()(np.frombuffer(data, np.uint8)), high)
    np.testing.assert_array_equal(
        vision.read_image(str(tmp_path / "p"), vision.ImageReadMode.COLOR), high)


@pytest.mark.parametrize("kind", ["floats", "ints"])
def test_elements_that_are_no_colours(kind: str, tmp_path: Path) -> None:
    data = UNCHANGED[kind][0]
    (tmp_path / "p").write_bytes(data)
    text = "its elements are (float32|int32), of which no colours are known"
    with pytest.raises(RuntimeError, match=text):
        vision.Decode()(np.frombuffer(data, np.uint8))
    for mode in (vision.ImageReadMode.COLOR, vision.ImageReadMode.GRAYSCALE):
        with pytest.raises(RuntimeError, match=text):
            vision.read_image(str(tmp_path / "p"), mode)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("orientation", ORIENTED)
def test_read_image_turns_colours_and_brightness(
        kind: str, orientation: int, tmp_path: Path) -> None:
    file = tmp_path / "p"
    file.write_bytes(_saved(kind, BYTES, exif=_exif(orientation)))
    colours, grey = (vision.read_image(str(file), mode) for mode in (
        vision.ImageReadMode.COLOR, vision.ImageReadMode.GRAYSCALE))
    assert grey.shape == (*ORIENTED[orientation].shape[:2], 1)
    if kind == "PNG":  # libpng's weights; OpenCV's for formats without loss of their own
        np.testing.assert_array_equal(colours, ORIENTED[orientation])
        np.testing.assert_array_equal(grey[..., 0], colours @ [9797, 19234, 3737] >> 15)


def test_brightness_is_opencvs(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(_saved("BMP", BYTES))
    found = vision.read_image(str(tmp_path / "p"), vision.ImageReadMode.GRAYSCALE)[..., 0]
    np.testing.assert_array_equal(found, BYTES @ [4899, 9617, 1868] + (1 << 13) >> 14)


def test_bad_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(vision.encode_png(IMAGE).tobytes()[:300])
    with pytest.raises(RuntimeError, match=r"broken\.png is broken or no picture"):
        vision.read_image(str(broken))
    with pytest.raises(RuntimeError, match="does not exist"):
        vision.read_file(str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="uint8"):
        vision.write_file(str(tmp_path / "new"), np.zeros(3, np.float32))
    with pytest.raises(RuntimeError, match=r"quality should be in range \[1, 100\]"):
        vision.write_jpeg(str(tmp_path / "new"), IMAGE, 101)
    with pytest.raises(RuntimeError, match="should have the shape"):
        vision.encode_png(IMAGES["four"])
    with pytest.raises(RuntimeError, match="no regular file"):
        vision.write_file(str(tmp_path), np.zeros(3, np.uint8))
    with pytest.raises(RuntimeError, match="cannot be written"):
        vision.write_file(str(tmp_path / "none" / "new"), np.zeros(3, np.uint8))
    assert not (tmp_path / "new").exists()


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: vision.AutoContrast(50.0), ValueError, "cutoff"),
    (lambda: vision.GaussianBlur(4), ValueError, "odd"),
    (lambda: vision.AdjustGamma(-1.0), ValueError, "gamma"),
    (lambda: vision.Affine(0, (2, 0), 1.0, 0.0), ValueError, "translate"),
    (lambda: vision.Affine(0, (0, 0), 0.0, 0.0), ValueError, "scale"),
    (lambda: vision.Perspective([[0, 0]] * 3, [[0, 0]] * 4), TypeError, "tuple of 4"),
    (lambda: vision.Perspective([[0, 0]] * 4, [[0, 0]] * 4)(IMAGE), RuntimeError, "on a line"),
    (lambda: vision.RandomPosterize((0, 4)), ValueError, "bits"),
    (lambda: vision.RandomSolarize((9, 4)), ValueError, "min, max"),
    (lambda: vision.ConvertColor(vision.ConvertMode.COLOR_GRAY2BGR)(IMAGE), RuntimeError,
     "1 channel"),
    (lambda: vision.Equalize()(IMAGE.astype(np.float32)), RuntimeError, "uint8"),
    (lambda: vision.PadToSize(5)(IMAGE), RuntimeError, "more than the size"),
    (lambda: vision.ResizedCrop(1, 2, 600, 5, 9)(IMAGE), RuntimeError, "not within"),
    (lambda: vision.SlicePatches(100, 1)(IMAGE), RuntimeError, "patches"),
    (lambda: vision.RandomErasing(value="any"), ValueError, 'an int, "random"'),
    (lambda: vision.RandomErasing(scale=(0.5, 0.1)), ValueError, "scale"),
    (lambda: vision.RandomLighting(-1.0), ValueError, "alpha"),
    (lambda: vision.MixUpBatch(0.0), ValueError, "alpha"),
    (lambda: vision.MixUpBatch()(IMAGE, np.eye(2)), RuntimeError, "4 dimensions"),
    (lambda: vision.MixUpBatch()(IMAGE[None], np.zeros(1)), RuntimeError, "labels"),
    (lambda: vision.RandAugment(magnitude=31), ValueError, "less than num_magnitude_bins"),
    (lambda: vision.TrivialAugmentWide(1), ValueError, "num_magnitude_bins"),
    (lambda: vision.AutoAugment()(IMAGES["grey"]), RuntimeError, "height, width, 3"),
    (lambda: vision.AutoAugment("imagenet"), TypeError, "policy"),
    (lambda: vision.ResizeWithBBox(9)(IMAGE, np.array([[20, 2, 30, 3]])), RuntimeError,
     r"box 0, \[20, 2, 30, 3\]"),
    (lambda: vision.ResizeWithBBox(9)(IMAGE, np.zeros((2, 3))), RuntimeError, "4 or more"),
    (lambda: vision.BoundingBoxAugment(vision.Resize(3), 1.0)(IMAGE, BOXES), RuntimeError,
     "keep the size"),
    (lambda: vision.UniformAugment([vision.Invert()], 2), ValueError, "num_ops"),
    (lambda: vision.RandomSelectSubpolicy([[vision.Invert()]]), TypeError, "probability"),
]


@pytest.mark.parametrize("made, kind, text", BAD)
def test_bad(made: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        made()


RANDOM = [
    vision.RandomAdjustSharpness(2.0), vision.RandomAutoContrast(5.0), vision.RandomEqualize(),
    vision.RandomSharpness(), vision.RandomColor(), vision.RandomPosterize((1, 7)),
    vision.RandomSolarize(), vision.RandomResize(9), vision.RandomAffine(30, (0.2, 0.3), (0.5, 2)),
    vision.AutoAugment(), vision.AutoAugment(vision.AutoAugmentPolicy.CIFAR10),
    vision.AutoAugment(vision.AutoAugmentPolicy.SVHN, vision.Inter.BILINEAR, 9),
    vision.RandomLighting(0.5), vision.RandomErasing(value=9, ratio=(1, 1)),
    vision.RandAugment(), vision.TrivialAugmentWide(),
    vision.RandomPerspective(), vision.UniformAugment([vision.Invert(), vision.VerticalFlip()]),
    vision.RandomSelectSubpolicy([[(vision.Invert(), 0.5)], [(vision.VerticalFlip(), 1.0)]]),
]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_draws_follow_the_seed(transform: Any) -> None:
    def run(seed: int) -> list[bytes]:
        ds.config.set_seed(seed)
        rows = ds.NumpySlicesDataset(np.stack([IMAGE] * 12), ["x"], shuffle=False)
        return [x.tobytes() for (x,) in rows.map(transform).create_tuple_iterator(
            num_epochs=1, output_numpy=True)]

    first = run(7)
    assert first == run(7)
    assert len(set(first)) > 1


def test_batches_are_mixed() -> None:
    images = np.stack([np.full((4, 6, 3), 50 * i, np.uint8) for i in range(4)])
    labels = np.eye(4, dtype=np.float32)
    data = ds.NumpySlicesDataset((images, labels), ["x", "y"], shuffle=False).batch(4)
    for transform in (vision.MixUpBatch(), vision.CutMixBatch(vision.ImageBatchFormat.NHWC),
                      vision.MixUp(4, 1.0), vision.MixUp(4, 1.0, False)):
        ((x, y),) = data.map(transform, ["x", "y"]).create_tuple_iterator(
            num_epochs=1, output_numpy=True)
        exact = isinstance(transform, vision.MixUp)
        assert (x.dtype, y.dtype) == ((np.float64,) * 2 if exact else (np.uint8, np.float32))
        np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
        means = x.astype(np.float64).mean((1, 2, 3))
        rounded = 1e-3 if exact else 0.5
        np.testing.assert_allclose(means, y @ np.arange(0, 200, 50), rtol=1e-3, atol=rounded)
    x, y = vision.MixUpBatch()(images.astype(np.float32), labels)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x.mean((1, 2, 3)), y @ np.arange(0, 200, 50), rtol=1e-3, atol=1e-3)
    x, y = vision.MixUp(1, 0.2)(images, labels)  # one weight for all
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
    x, y = vision.MixUp(2, 0.2, False)(images[1], labels[1:2])  # an image as a batch of copies
    np.testing.assert_allclose(x, np.stack([images[1]] * 2), rtol=1e-12)
    assert y.tolist() == [[0, 1, 0, 0]] * 2
    first = images.transpose(0, 3, 1, 2)
    x, y = vision.CutMixBatch(vision.ImageBatchFormat.NCHW)(first, labels)
    np.testing.assert_allclose(x.mean((1, 2, 3)), y @ np.arange(0, 200, 50), rtol=1e-3, atol=1e-3)
    x, y = vision.CutMixBatch(vision.ImageBatchFormat.NHWC, prob=0.0)(images, labels)
    np.testing.assert_array_equal(x, images)


def marked() -> np.ndarray[Any, Any]:
    """An image that is 255 within the first box."""
    image = np.zeros((23, 27, 3), np.uint8)
    image[2:7, 3:13] = 255
    return image


def box_of(image: np.ndarray[Any, Any]) -> list[int]:
    rows, columns = (np.flatnonzero(image.any(tuple({0, 1, 2} - {a}))) for a in (0, 1))
    return [columns[0], rows[0], len(columns), len(rows)] if len(rows) else [0, 0, 0, 0]


BOXED = [
    vision.RandomHorizontalFlipWithBBox(1.0), vision.RandomVerticalFlipWithBBox(1.0),
    vision.ResizeWithBBox((46, 81), vision.Inter.NEAREST), vision.RandomCropWithBBox(12),
    vision.RandomCropWithBBox((20, 25), [4, 3, 2, 1]),
    vision.RandomCropWithBBox(40, pad_if_needed=True),
]


@pytest.mark.parametrize("transform", BOXED, ids=lambda t: type(t).__name__)
def test_boxes_stay_with_what_they_hold(transform: Any) -> None:
    before = BOXES.copy()
    for _ in range(20):
        image, boxes = transform(marked(), BOXES)
        assert boxes.dtype == np.float32 and boxes.shape[1] == 5
        held = [b[:4].tolist() for b in boxes if b[4] == 7] or [[0, 0, 0, 0]]
        assert held == [box_of(image)]
    np.testing.assert_array_equal(BOXES, before)


def test_boxes_of_resized_parts() -> None:
    for _ in range(20):
        image, boxes = vision.RandomResizedCropWithBBox((46, 54), (0.5, 1.0))(marked(), BOXES)
        held = [b[:4].tolist() for b in boxes if b[4] == 7] or [[0, 0, 0, 0]]
        np.testing.assert_allclose(held[0], box_of(image), atol=4)
    image, boxes = vision.RandomResizeWithBBox(46)(marked(), BOXES)
    np.testing.assert_allclose(boxes[0, :4], BOXES[0, :4] * 2)


def test_boxes_changed() -> None:
    image, boxes = vision.BoundingBoxAugment(vision.Invert(), 1.0)(marked(), BOXES[:1])
    assert not image.any()
    np.testing.assert_array_equal(boxes, BOXES[:1])


def test_policies_are_those_of_the_paper() -> None:
    from cellc.dataset.vision.augmenting import _NAMES, _POLICIES
    for policy, text in _POLICIES.items():
        pairs = [[change.split() for change in pair.split(",")] for pair in text.split(";")]
        assert [len(p) for p in pairs] == [2] * 25, policy
        for name, prob, *level in (c for p in pairs for c in p):
            assert name in (*_NAMES, "Invert")
            assert 0 <= float(prob) <= 1
            assert len(level) == (name not in ("AutoContrast", "Equalize", "Invert"))


def test_erased() -> None:
    image = np.zeros((3, 30, 40), np.float32)
    made = vision.RandomErasing(1.0, (0.1, 0.2), (0.5, 2.0), (1, 2, 3))(image)
    assert not image.any()
    rows, columns = (np.flatnonzero(made[0].any(a)) for a in (1, 0))
    assert 0.08 < len(rows) * len(columns) / 1200 < 0.23
    part = made[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    np.testing.assert_array_equal(part, np.broadcast_to([[[1]], [[2]], [[3]]], part.shape))
    assert made.sum() == part.sum()
    assert vision.RandomErasing(1.0, value="random", inplace=True)(image) is image
    assert image.any()


def test_lighting_moves_all_pixels_alike() -> None:
    image = np.full((4, 5, 3), 128, np.uint8)
    made = vision.RandomLighting(1.0)(image)
    assert (made == made[0, 0]).all()
    np.testing.assert_array_equal(vision.RandomLighting(0.0)(image), image)


@pytest.mark.parametrize("name", ["DecodeVideo", "VideoDecoder", "read_video",
                                  "read_video_timestamps"])
def test_videos_say_what_reads_them(name):
    with pytest.raises(RuntimeError, match="PyAV"):
        getattr(vision, name)(*["a.mp4"] * (name != "DecodeVideo"))
