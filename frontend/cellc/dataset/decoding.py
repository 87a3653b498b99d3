"""Files of pictures as arrays, with the channels, widths and rounding of MindSpore's readers.

Pillow reads the files. It cuts elements of 16 bits to 255 where it makes colours of them, so these
are taken from it as they are.
"""

from __future__ import annotations

import io
import math
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from cellc_runtime.forks import no_fork

Array = np.ndarray[Any, Any]

UNCHANGED, GRAYSCALE, COLOR = 0, 1, 2

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""The kinds of pictures. Others of Pillow's start a program (EPS) or are hardly tested."""
_PIXELS, _PER_BYTE = 1 << 26, 64
"""A picture may have `_PIXELS`, or `_PER_BYTE` for each byte of the file if that is more."""
_LOW_BYTES = {
    "RGB;16B": "RGB;16L", "RGB;16L": "RGB;16B", "RGB;16N": "RGB;16B",
    "RGBA;16B": "RGBA;16L", "RGBA;16L": "RGBA;16B", "RGBA;16N": "RGBA;16B",
}  # fmt: skip
"""Layouts of 16-bit colours of which Pillow reads the high bytes, and those that give the low ones
(the other order of bytes; N is a little-endian machine's own)."""
_ORIENTATION = 0x0112
_TURNS = {2: (1, -1, False), 3: (-1, -1, False), 4: (-1, 1, False), 5: (1, 1, True),
          6: (-1, 1, True), 7: (-1, -1, True), 8: (1, -1, True)}
"""For each orientation of EXIF: the steps over rows and columns, and whether axes then change."""
_OPENCV, _LIBPNG = (4899, 9617, 1868, 1 << 13, 14), (9797, 19234, 3737, 0, 15)
"""Weights of red, green and blue in a brightness, a half to round, and bits to drop."""


def library(module: str, who: str, name: str, extra: str = "images") -> ModuleType:
    """A library that an extra installs, imported where it is used: it is heavy."""
    try:
        with no_fork():  # a child would wait for the thread that imports
            return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{who} needs {name}: pip install 'cellc[{extra}]'", name=module.split(".")[0]
        ) from error


def pillow(who: str) -> ModuleType:
    """The Pillow library, which reads and writes pictures."""
    return library("PIL.Image", who, "Pillow to read pictures")


def picture_of(data: bytes, who: str) -> Any:
    """A picture of Pillow's over a file's contents, whose elements are not read yet.

    Raises:
        Exception: it is no picture.
    """
    picture = pillow(who).open(io.BytesIO(data), formats=_FORMATS)
    if math.prod(picture.size) > max(_PIXELS, _PER_BYTE * len(data)):
        raise ValueError(f"{len(data)} bytes are too few for {picture.size} pixels")
    return picture


def decoded(data: bytes, who: str) -> Array:
    """A picture file's contents as uint8[height, width, 3]."""
    try:
        with picture_of(data, who) as picture:
            return _colours(picture)
    except Exception as error:  # what Pillow's readers of formats raise has no common kind
        raise RuntimeError(f"{who}: the image is broken or of an unknown kind: {error}") from error


def read(data: bytes, who: str, mode: int) -> Array:
    """A picture file's contents as [height, width, channels].

    `UNCHANGED` gives uint8, or the file's wider elements, without alpha; other modes give uint8 and
    turn the picture as its EXIF data asks for.

    Raises:
        Exception: it is no picture, or its elements are not of the kind.
    """
    with picture_of(data, who) as picture:
        if mode == UNCHANGED:
            return _unchanged(picture, data, who)
        array = _brightness(picture, data, who) if mode == GRAYSCALE else _colours(picture)
        rows, columns, swapped = _TURNS.get(_orientation(picture), (1, 1, False))
        array = array[::rows, ::columns]
        return array.swapaxes(0, 1) if swapped else array


def _orientation(picture: Any) -> Any:
    try:
        return picture.getexif().get(_ORIENTATION)
    except Exception:  # data about a picture that is whole; MindSpore leaves these out, too
        return None


def _single(picture: Any) -> Array | None:
    """The elements of one channel of more than 8 bits; None for other pictures."""
    if not picture.mode.startswith(("I", "F")):
        return None
    array: Array = np.asarray(picture)[..., None]
    wide: bool = picture.mode == "F" or (picture.mode == "I" and picture.format == "TIFF")
    return array if wide else array.astype(np.uint16)


def _bytes_of_single(picture: Any) -> Array | None:
    single = _single(picture)
    if single is None:
        return None
    if single.dtype != np.uint16:
        raise ValueError(f"its elements are {single.dtype}, of which no colours are known; "
                         "read_image with ImageReadMode.UNCHANGED gives them")
    return (single >> 8).astype(np.uint8)


def _colours(picture: Any) -> Array:
    single = _bytes_of_single(picture)
    if single is not None:
        return np.repeat(single, 3, axis=2)
    if picture.format == "TIFF" and picture.mode == "RGBA":  # libtiff multiplies by alpha
        array = np.asarray(picture).astype(np.uint16)
        return ((array[..., :3] * array[..., 3:] + 127) // 255).astype(np.uint8)
    return np.asarray(picture.convert("RGB"))


def _sixteen(picture: Any, data: bytes, who: str) -> Array | None:
    """The elements of colours of 16 bits, as uint16[height, width, 3]; None for other pictures."""
    layout = _layout(picture)
    if picture.mode not in ("RGB", "RGBA") or ";16" not in layout:
        return None
    if layout == "LA;16B":  # of each pixel four bytes: brightness and alpha
        _read_as(picture, "RGBA")
        pairs = np.asarray(picture).astype(np.uint16)
        return np.repeat(pairs[..., :1] << 8 | pairs[..., 1:2], 3, axis=2)
    if layout not in _LOW_BYTES:
        raise ValueError(f"colours of the layout {layout} are not read")
    with picture_of(data, who) as low:
        _read_as(low, _LOW_BYTES[layout])
        high, below = (np.asarray(p)[..., :3].astype(np.uint16) for p in (picture, low))
        whole: Array = high << 8 | below
        return whole


def _layout(picture: Any) -> str:
    """Pillow's name for how the file's bytes are laid out; '' where a reader has none."""
    arguments = picture.tile[0][3] if picture.tile else ""
    name = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return name if isinstance(name, str) else ""


def _read_as(picture: Any, layout: str) -> None:
    def renamed(arguments: Any) -> Any:
        return (layout, *arguments[1:]) if isinstance(arguments, tuple) else layout

    kind = type(picture.tile[0])
    tiles = [(*tile[:3], renamed(tile[3])) for tile in picture.tile]
    picture.tile = tiles if kind is tuple else [kind(*tile) for tile in tiles]


def _unchanged(picture: Any, data: bytes, who: str) -> Array:
    single = _single(picture)
    if single is not None:
        return single
    wide = _sixteen(picture, data, who)
    if wide is not None:
        return wide
    if picture.mode in ("1", "L") or (picture.mode == "LA" and picture.format == "TIFF"):
        return np.asarray(picture.convert("L"))[..., None]
    return _colours(picture)


def _brightness(picture: Any, data: bytes, who: str) -> Array:
    """One channel. Each format's library has its own way to it."""
    single = _bytes_of_single(picture)
    if single is not None:
        return single
    png = picture.format == "PNG"
    if picture.format == "JPEG":
        picture.draft("L", picture.size)  # the file holds the brightness
    wide = _sixteen(picture, data, who) if png else None
    if wide is not None:
        red, green, blue, _, bits = _LIBPNG
        return (_weighted(wide, (red, green, blue, 1 << bits - 1, bits)) >> 8).astype(np.uint8)
    if picture.mode in ("1", "L", "LA"):
        return np.asarray(picture.convert("L"))[..., None]
    return _weighted(_colours(picture), _LIBPNG if png else _OPENCV).astype(np.uint8)


def _weighted(colours: Array, weights: tuple[int, int, int, int, int]) -> Array:
    *channels, half, bits = weights
    sums: Array = colours.astype(np.int64) @ np.array(channels)[:, None] + half
    return sums >> bits
