"""Files of pictures as arrays, read by OpenCV as MindSpore does. Pillow says what a file is and how
large, before anything is allocated."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
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


def library(module: str, who: str, name: str, extra: str = "images") -> ModuleType:
    """A library that an extra installs, imported where it is used: it is heavy."""
    try:
        with no_fork():  # a child would wait for the thread that imports
            return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{who} needs {name}: pip install 'cellc[{extra}]'",
                                  name=module.split(".")[0]) from error


def pillow(who: str) -> ModuleType:
    """The Pillow library, which reads and writes pictures."""
    return library("PIL.Image", who, "Pillow to read pictures")


@contextmanager
def opencv(who: str = "cellc.dataset.vision") -> Iterator[ModuleType]:
    """OpenCV without Intel's primitives, which round otherwise: MindSpore's is built so."""
    found = library("cv2", who, "OpenCV")
    before = found.ipp.useIPP()  # a setting of this thread
    found.ipp.setUseIPP(False)
    try:
        yield found
    except found.error as error:
        raise RuntimeError(f"OpenCV cannot transform the image: {error}") from error
    finally:
        found.ipp.setUseIPP(before)


def picture_of(data: bytes, who: str) -> Any:
    """A picture of Pillow's over a file's contents, whose elements are not read yet. Raises
    Exception if it is no picture."""
    picture = pillow(who).open(io.BytesIO(data), formats=_FORMATS)
    if math.prod(picture.size) > max(_PIXELS, _PER_BYTE * len(data)):
        raise ValueError(f"{len(data)} bytes are too few for {picture.size} pixels")
    if picture.format == "PNG":
        _check_chunks(data)
    return picture


def _check_chunks(data: bytes) -> None:
    """Refuse a PNG file with a chunk that is longer than the file: OpenCV allocates what it says.
    """
    at, kind = 8, b""  # after the signature
    while kind != b"IEND":
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if at + 12 + size > len(data):
            raise ValueError(f"the chunk at byte {at} is cut off")
        at += 12 + size


def decoded(data: bytes, who: str) -> Array:
    """A picture file's contents as uint8[height, width, 3]."""
    try:
        with picture_of(data, who) as picture:
            if picture.mode == "CMYK" and picture.format == "JPEG":  # Pillow is nearer to MindSpore
                return np.asarray(picture.convert("RGB"))
        return _read(data, who, "IMREAD_COLOR", "IMREAD_IGNORE_ORIENTATION")
    except ModuleNotFoundError:
        raise
    except Exception as error:  # what Pillow's readers of formats raise has no common kind
        raise RuntimeError(f"{who}: the image is broken or of an unknown kind: {error}") from error


def read(data: bytes, who: str, mode: int) -> Array:
    """A picture file's contents as [height, width, channels].

    `UNCHANGED` gives uint8, or the file's wider elements, without alpha; other modes give uint8 and
    turn the picture as its EXIF data asks for. Raises Exception if it is no picture, or its
    elements are not of the kind.
    """
    picture_of(data, who).close()
    return _read(data, who, f"IMREAD_{('UNCHANGED', 'GRAYSCALE', 'COLOR')[mode]}")


def _read(data: bytes, who: str, *flags: str) -> Array:
    with opencv(who) as library:
        given = np.frombuffer(data, np.uint8)
        found = library.imdecode(given, sum(getattr(library, flag) for flag in flags))
        if found is None:
            whole = library.imdecode(given, library.IMREAD_UNCHANGED)
            raise ValueError("it is damaged" if whole is None else
                             f"its elements are {whole.dtype}, of which no colours are known; "
                             "read_image with ImageReadMode.UNCHANGED gives them")
    return np.asarray(found[..., None] if found.ndim == 2 else found[..., 2::-1])
