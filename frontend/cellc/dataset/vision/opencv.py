"""Images by OpenCV, whose arithmetic MindSpore's transforms have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..decoding import opencv, pillow
from .base import Inter

Array = np.ndarray[Any, Any]
_WAYS = {Inter.NEAREST: "INTER_NEAREST", Inter.BILINEAR: "INTER_LINEAR",
         Inter.BICUBIC: "INTER_CUBIC", Inter.AREA: "INTER_AREA"}
_KINDS = ("uint8", "uint16", "int16", "float32", "float64")
"""The elements that all of the functions take; others become float32 for them."""


def _applied(image: Array, work: Callable[[Any, Array], Any]) -> Array:
    """A function of OpenCV and an array, of an image with any elements."""
    given = image if image.dtype.name in _KINDS else image.astype(
        np.uint8 if image.dtype == bool else np.float32)
    with opencv() as library:
        made = np.asarray(work(library, given))
    return made.reshape(*made.shape[:2], *image.shape[2:]).astype(image.dtype, copy=False)


def resized(image: Array, height: int, width: int, how: Inter) -> Array:
    """An image [height, width] or [height, width, channels] in another size."""
    if how is Inter.AREA and image.ndim == 3 and image.shape[2] > 4:  # more than OpenCV takes
        return np.concatenate([resized(image[..., i : i + 4], height, width, how)
                               for i in range(0, image.shape[2], 4)], 2)
    if how in _WAYS:
        return _applied(image, lambda cv, array: cv.resize(
            array, (width, height), interpolation=getattr(cv, _WAYS[how])))
    if how is Inter.PILCUBIC and image.dtype == np.uint8 and image.ndim == 3 and \
            image.shape[2] == 3:
        reader = pillow("Resize with Inter.PILCUBIC")
        return np.asarray(reader.fromarray(image).resize((width, height), reader.BICUBIC)).copy()
    raise RuntimeError(f"Resize: {how.name} is not for arrays {image.dtype}{list(image.shape)}: "
                       "PILCUBIC is for uint8 images of 3 channels, ANTIALIAS for PIL images.")


def rotated(
    image: Array, degrees: float, how: Inter, expand: bool, center: Any,
    fill: tuple[int, int, int],
) -> Array:
    """An image rotated counter-clockwise; see `Rotate`."""
    height, width = image.shape[:2]
    middle = (width - 1) / 2, (height - 1) / 2
    with opencv() as library:
        forward = library.getRotationMatrix2D(
            middle if center is None or expand else center, degrees, 1.0)
        if expand:
            corners = library.boxPoints((middle, (width, height), degrees))
            size = np.ptp(corners, 0).astype(np.float64)
            forward[:, 2] += (size - (width, height)) / 2
            width, height = np.rint(size).astype(int).tolist()
    return warped(image, forward, height, width, how, fill)


def warped(
    image: Array, forward: Array, height: int, width: int, how: Inter, fill: tuple[int, int, int]
) -> Array:
    """An image whose pixels go to `forward @ (x, y, 1)`."""
    return _moved(image, how, lambda cv, array, flags: cv.warpAffine(
        array, forward, (width, height), flags=flags, borderValue=fill))


def projected(image: Array, start: Any, end: Any, how: Inter) -> Array:
    """An image of which four places go to others; 0 beyond the edges."""
    def move(cv: Any, array: Array, flags: int) -> Any:
        forward = cv.getPerspectiveTransform(*(np.array(p, np.float32) for p in (start, end)))
        return cv.warpPerspective(array, forward, array.shape[1::-1], flags=flags)

    return _moved(image, how, move)


def _moved(image: Array, how: Inter, move: Callable[[Any, Array, int], Any]) -> Array:
    def work(cv: Any, array: Array) -> Any:
        flags = getattr(cv, _WAYS[how])
        if array.dtype != np.float32 or (image.ndim == 3 and image.shape[2] > 1):
            return move(cv, array, flags)
        # For a single channel of floats, newer releases fuse products and sums.
        return move(cv, np.repeat(array.reshape(*array.shape[:2], 1), 2, 2), flags)[..., 0]

    return _applied(image, work)


def smoothed(image: Array, size: tuple[int, int], sigma: tuple[float, float]) -> Array:
    """An image smoothed by a Gaussian kernel."""
    return _applied(image, lambda cv, array: cv.GaussianBlur(
        array, size, sigmaX=float(np.float32(sigma[0])), sigmaY=float(np.float32(sigma[1]))))


_NEAR = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / np.float32(13)


def sharpened(image: Array, factor: float) -> Array:
    """An image mixed with a smooth one: 0 is smooth, 1 the image, more is sharper."""
    smooth, part = image.copy(), np.float32(factor)
    smooth[1:-1, 1:-1] = _applied(image, lambda cv, a: cv.filter2D(a, -1, _NEAR))[1:-1, 1:-1]
    return weighted(image, part, smooth, 1 - part)


def weighted(first: Array, part: Any, second: Array, rest: Any) -> Array:
    """`first * part + second * rest` of images of one shape; the first product is not rounded."""
    return _applied(first, lambda cv, array: cv.addWeighted(
        array, float(part), second.astype(array.dtype, copy=False), float(rest), 0))


def converted(image: Array, code: str) -> Array:
    """An image in other channels: `code` is a name of OpenCV's, as "RGB2GRAY"."""
    with opencv() as library:
        return np.asarray(library.cvtColor(image, getattr(library, f"COLOR_{code}")))


def equalized(plane: Array) -> Array:
    """A plane of uint8 whose values are spread so that all are as common."""
    with opencv() as library:
        return np.asarray(library.equalizeHist(np.ascontiguousarray(plane)))
