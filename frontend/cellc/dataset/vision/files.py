"""Pictures in files and in memory: read, written, encoded, measured.

Source: `mindspore.dataset.vision`.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from cellc_runtime.files import write_atomically

from ...core.declared import Int, checks_arguments, instance
from ...tensors.tensor import Tensor
from ..decoding import opencv, read
from .base import is_picture

Array = np.ndarray[Any, Any]


class ImageReadMode(IntEnum):
    """Which channels are read."""

    UNCHANGED = 0
    GRAYSCALE = 1
    COLOR = 2


def _bytes_of(who: str, name: str, given: Any) -> Array:
    """A uint8 array of an argument, which may be a Tensor."""
    instance(np.ndarray, Tensor)(given, who, name)
    array = given.asnumpy() if isinstance(given, Tensor) else given
    if array.dtype != np.uint8:
        raise RuntimeError(f"The type of {name} should be uint8, but got {array.dtype}.")
    return np.asarray(array)


def _encoded(who: str, image: Any, kind: str, option: str, value: int) -> Array:
    array = _bytes_of(who, "image", image)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3)) or \
            not array.size:
        raise RuntimeError(f"{who}: an image should have the shape [height, width], [height, "
                           f"width, 1] or [height, width, 3], but has {array.shape}.")
    with opencv(who) as library:
        _, data = library.imencode(kind, array[..., ::-1] if array.ndim == 3 else array,
                                   [getattr(library, option), value])
    return np.asarray(data)


@checks_arguments
def encode_jpeg(image: Any, quality: Int = 75) -> Array:
    """An image uint8[height, width], or with 1 or 3 channels, as the bytes of a JPEG file.

    Args:
        image: an array or Tensor.
        quality: from 1 to 100.

    Returns:
        uint8[length].

    Raises:
        TypeError, RuntimeError: no such image, or a quality out of range.
    """
    if not 1 <= quality <= 100:
        raise RuntimeError(f"quality should be in range [1, 100], but got {quality}.")
    return _encoded("encode_jpeg", image, ".jpg", "IMWRITE_JPEG_QUALITY", quality)


@checks_arguments
def encode_png(image: Any, compression_level: Int = 6) -> Array:
    """An image uint8[height, width], or with 1 or 3 channels, as the bytes of a PNG file.

    Args:
        image: an array or Tensor.
        compression_level: from 0 to 9.

    Returns:
        uint8[length].

    Raises:
        TypeError, RuntimeError: no such image, or a level out of range.
    """
    if not 0 <= compression_level <= 9:
        raise RuntimeError("compression_level should be in range [0, 9], but got "
                           f"{compression_level}.")
    return _encoded("encode_png", image, ".png", "IMWRITE_PNG_COMPRESSION", compression_level)


def _source(filename: str) -> Path:
    path = Path(filename)
    if not path.is_file():
        raise RuntimeError(f"Invalid file path, {filename} does not exist or is no regular file.")
    return path


@checks_arguments
def read_file(filename: str) -> Array:
    """A file's bytes, as uint8[length].

    Raises:
        RuntimeError: there is no such file.
    """
    return np.frombuffer(_source(filename).read_bytes(), np.uint8).copy()


@checks_arguments
def read_image(filename: str, mode: ImageReadMode = ImageReadMode.UNCHANGED) -> Array:
    """A picture's file as [height, width, channels].

    Args:
        filename: a JPEG, PNG, BMP or TIFF file.
        mode: UNCHANGED gives one channel, or three of colour, uint8 or as wide as in the file;
            GRAYSCALE one of brightness and COLOR three, uint8 and turned as EXIF data ask for.

    Raises:
        RuntimeError: there is no such file, or it is no picture.
    """
    path = _source(filename)
    try:
        return read(path.read_bytes(), "read_image", mode).copy()
    except ModuleNotFoundError:
        raise
    except Exception as error:  # what Pillow's readers of formats raise has no common kind
        raise RuntimeError(f"read_image: {filename} is broken or no picture: {error}") from error


def _write(filename: Any, data: bytes) -> None:
    path = Path(filename)
    if path.exists() and not path.is_file():
        raise RuntimeError(f"Invalid file path, {filename} is no regular file.")
    try:
        write_atomically(path, [data])
    except OSError as error:
        raise RuntimeError(f"{filename} cannot be written: {error}") from error


@checks_arguments
def write_file(filename: str, data: Any) -> None:
    """Write uint8[length] to a file.

    Raises:
        RuntimeError: the data has another dtype or rank, or the file cannot be written.
    """
    array = _bytes_of("write_file", "data", data)
    if array.ndim != 1:
        raise RuntimeError(f"write_file: data should have one dimension, but has {array.shape}.")
    _write(filename, array.tobytes())


@checks_arguments
def write_jpeg(filename: str, image: Any, quality: int = 75) -> None:
    """Write an image as a JPEG file; see `encode_jpeg`."""
    _write(filename, encode_jpeg(image, quality).tobytes())


@checks_arguments
def write_png(filename: str, image: Any, compression_level: int = 6) -> None:
    """Write an image as a PNG file; see `encode_png`."""
    _write(filename, encode_png(image, compression_level).tobytes())


def _shape(image: Any) -> tuple[int, ...]:
    if is_picture(image):
        return (image.size[1], image.size[0], len(image.getbands()))
    if not isinstance(image, np.ndarray):
        raise TypeError(f"Input image is not of type {np.ndarray} or Image.Image, but got: "
                        f"{type(image)}.")
    if image.ndim < 2:
        raise RuntimeError(f"Invalid image shape {image.shape}: at least two dimensions are "
                           "wanted, [height, width].")
    return tuple(image.shape)


def get_image_num_channels(image: Any) -> int:
    """How many channels an image has; 1 for [height, width]."""
    shape = _shape(image)
    return 1 if len(shape) == 2 else int(shape[-1])


def get_image_size(image: Any) -> list[int]:
    """The height and the width of an image."""
    shape = _shape(image)
    height, width = shape if len(shape) == 2 else shape[-3:-1]
    return [int(height), int(width)]


__all__ = [
    "ImageReadMode", "encode_jpeg", "encode_png", "get_image_num_channels", "get_image_size",
    "read_file", "read_image", "write_file", "write_jpeg", "write_png",
]
