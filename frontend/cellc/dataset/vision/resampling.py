"""Resizing and rotating images, with OpenCV's arithmetic, as in MindSpore.

That library (OpenCV) resizes uint8 with weights of 11 bits, float32 in single precision. Its
vectorised loops sum in other orders: cubic results of float32 differ in the last bit, and cubic and
area ones of images of one channel by one now and then. It rotates by fixed-point places.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..decoding import pillow
from .base import Inter

Array = np.ndarray[Any, Any]
_ONE = 2048
"""A weight of one."""
_BITS = 10
"""Of the fraction of a place in the old image."""
_PARTS = 5
"""Of them, those that bilinear weights are made of."""


def resized(image: Array, height: int, width: int, how: Inter) -> Array:
    """An image [height, width] or [height, width, channels] in another size."""
    if image.shape[:2] == (height, width) and how is not Inter.PILCUBIC:
        return image.copy()
    if image.dtype not in (np.uint8, np.float32):
        return resized(image.astype(np.float32), height, width, how).astype(image.dtype)
    if how is Inter.NEAREST:
        rows, columns = (_nearest(image.shape[i], n) for i, n in ((0, height), (1, width)))
        return np.ascontiguousarray(image[rows][:, columns])
    if how is Inter.BILINEAR:
        halved = image.shape[0] == 2 * height and image.shape[1] == 2 * width
        return _areas(image, height, width) if halved else _linear(image, height, width)
    if how is Inter.BICUBIC:
        return _cubic(image, height, width)
    if how is Inter.AREA:
        if image.shape[0] >= height and image.shape[1] >= width:
            return _areas(image, height, width)
        return _linear(image, height, width, True)
    if how is Inter.PILCUBIC and image.dtype == np.uint8 and image.ndim == 3 and \
            image.shape[2] == 3:
        library = pillow("Resize with Inter.PILCUBIC")
        return np.asarray(library.fromarray(image).resize((width, height), library.BICUBIC)).copy()
    raise RuntimeError(f"Resize: {how.name} is not for arrays {image.dtype}{list(image.shape)}: "
                       "PILCUBIC is for uint8 images of 3 channels, ANTIALIAS for PIL images.")


def _nearest(before: int, after: int) -> Array:
    places = np.floor(np.arange(after) * (1.0 / (after / before))).astype(np.int64)
    return np.asarray(np.minimum(places, before - 1))


def _places(before: int, after: int, by_area: bool) -> tuple[Array, Array]:
    """For each new pixel the one before it, and how far it is beyond that one."""
    scale = 1.0 / (after / before)
    new = np.arange(after)
    if by_area:
        first = np.floor(new * scale).astype(np.int64)
        part = ((new + 1) - (first + 1) * (after / before)).astype(np.float32)
        return first, np.asarray(np.where(part <= 0, 0, part - np.floor(part)), np.float32)
    at = ((new + 0.5) * scale - 0.5).astype(np.float32)
    first = np.floor(at).astype(np.int64)
    return first, (at - first).astype(np.float32)


def _along(weights: Array, axis: int, rank: int) -> Array:
    return weights.reshape([-1 if i == axis else 1 for i in range(rank)])


def _linear(image: Array, height: int, width: int, by_area: bool = False) -> Array:
    top, down = _places(image.shape[0], height, by_area)
    left, across = _places(image.shape[1], width, by_area)
    # Beyond the edge a column counts whole; a row is mixed with itself, which rounds differently.
    across = np.where((left < 0) | (left >= image.shape[1] - 1), np.float32(0), across)
    rows = [np.clip(top + i, 0, image.shape[0] - 1) for i in (0, 1)]
    columns = [np.clip(left + i, 0, image.shape[1] - 1) for i in (0, 1)]
    one = np.float32(1)
    if image.dtype != np.uint8:
        wide = image[:, columns[0]] * _along(one - across, 1, image.ndim) + \
            image[:, columns[1]] * _along(across, 1, image.ndim)
        return np.asarray(wide[rows[0]] * _along(one - down, 0, image.ndim)
                          + wide[rows[1]] * _along(down, 0, image.ndim))
    x = [_along(_fixed(w), 1, image.ndim) for w in (one - across, across)]
    y = [_along(_fixed(w), 0, image.ndim) for w in (one - down, down)]
    sums = image[:, columns[0]] * x[0] + image[:, columns[1]] * x[1]
    mixed = ((y[0] * (sums[rows[0]] >> 4)) >> 16) + ((y[1] * (sums[rows[1]] >> 4)) >> 16)
    return np.asarray(np.clip((mixed + 2) >> 2, 0, 255), np.uint8)


def _fixed(weights: Array) -> Array:
    return np.rint(weights * np.float32(_ONE)).astype(np.int64)


def _cubic_weights(before: int, after: int) -> tuple[Array, Array]:
    """The four pixels about each new one, and their weights (Keys, 1981, with a = -0.75)."""
    first, x = _places(before, after, False)
    a, one = np.float32(-0.75), np.float32(1)

    def near(d: Array) -> Array:
        return ((a + np.float32(2)) * d - (a + np.float32(3))) * d * d + one

    far = ((a * (x + one) - np.float32(5) * a) * (x + one) + np.float32(8) * a) * (x + one) \
        - np.float32(4) * a
    weights = [far, near(x), near(one - x)]
    weights.append(one - weights[0] - weights[1] - weights[2])
    places = np.clip(first + np.arange(-1, 3)[:, None], 0, before - 1)
    return places, np.stack(weights).astype(np.float32)


def _cubic(image: Array, height: int, width: int) -> Array:
    rows, down = _cubic_weights(image.shape[0], height)
    columns, across = _cubic_weights(image.shape[1], width)
    exact = image.dtype == np.uint8
    x, y = (_fixed(across), _fixed(down)) if exact else (across, down)
    wide = sum(image[:, columns[i]] * _along(x[i], 1, image.ndim) for i in range(4))
    made = np.asarray(sum(np.asarray(wide)[rows[i]] * _along(y[i], 0, image.ndim)
                          for i in range(4)))
    if exact:
        return np.asarray(np.clip((made + (1 << 21)) >> 22, 0, 255), np.uint8)
    return made.astype(np.float32)


def _areas(image: Array, height: int, width: int) -> Array:
    """Means of the pixels that each new pixel covers."""
    down, across = image.shape[0] / height, image.shape[1] / width
    exact = image.dtype == np.uint8
    if down == int(down) and across == int(across):
        blocks = image.reshape(height, int(down), width, int(across), *image.shape[2:])
        if exact and (down, across) == (2, 2):
            return np.asarray((blocks.sum((1, 3), dtype=np.int64) + 2) >> 2, np.uint8)
        part = np.float32(1 / (down * across))
        sums = blocks.sum((1, 3), dtype=np.int64 if exact else np.float32)
        return np.asarray(np.rint(sums * part) if exact else sums * part, image.dtype)
    x, y = _shares(image.shape[1], width), _shares(image.shape[0], height)
    wide = np.einsum("ij...,kj->ik...", image.astype(np.float32), x)
    made = np.einsum("ij...,ki->kj...", wide, y)
    return np.asarray(np.clip(np.rint(made), 0, 255) if exact else made, image.dtype)


def _shares(before: int, after: int) -> Array:
    """Return the contribution of each pixel to each new one: [after, before]."""
    scale = before / after
    shares = np.zeros((after, before), np.float32)
    for new in range(after):
        start, end = new * scale, new * scale + scale
        width = min(scale, before - start)
        last = min(int(np.floor(end)), before - 1)
        first = min(int(np.ceil(start)), last)
        if first - start > 1e-3:
            shares[new, first - 1] = (first - start) / width
        shares[new, first:last] = 1 / width
        if end - last > 1e-3:
            shares[new, last] = min(min(end - last, 1.0), width) / width
    return shares


def rotated(
    image: Array, degrees: float, how: Inter, expand: bool, center: Any,
    fill: tuple[int, int, int],
) -> Array:
    """An image rotated counter-clockwise; see `Rotate`."""
    height, width = image.shape[:2]
    angle = math.radians(degrees)
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = ((width - 1) / 2, (height - 1) / 2) if center is None or expand else map(float, center)
    forward = np.array([[cos, sin, (1 - cos) * x - sin * y], [-sin, cos, sin * x + (1 - cos) * y]])
    if expand:
        wide = height * abs(sin) + width * abs(cos)
        high = height * abs(cos) + width * abs(sin)
        forward[:, 2] += (wide - width) / 2, (high - height) / 2
        height, width = round(high), round(wide)
    turn = np.linalg.inv(forward[:, :2])
    back = np.column_stack([turn, -turn @ forward[:, 2]])
    return warped(image, back, height, width, how, fill)


def warped(
    image: Array, back: Array, height: int, width: int, how: Inter, fill: tuple[int, int, int]
) -> Array:
    """An image whose pixels come from `back @ (x, y, 1)`, in fixed-point arithmetic."""
    one = 1 << _BITS
    rounding = one // 2 if how is Inter.NEAREST else one >> (_PARTS + 1)
    columns, rows = np.arange(width), np.arange(height)[:, None]
    x, y = (np.rint(back[i, 0] * columns * one).astype(np.int64)
            + np.rint((back[i, 1] * rows + back[i, 2]) * one).astype(np.int64) + rounding
            for i in (0, 1))
    channels = image.shape[2] if image.ndim == 3 else 1
    blank = np.array((*fill, 0)[:channels] if channels <= 4 else [fill[0]] * channels, image.dtype)
    blank = blank if image.ndim == 3 else blank[0]
    if how is Inter.NEAREST:
        return _pixels(image, x >> _BITS, y >> _BITS, blank)
    return _mixed(image, x >> (_BITS - _PARTS), y >> (_BITS - _PARTS), blank)


def _pixels(image: Array, x: Array, y: Array, blank: Array) -> Array:
    """The pixels at places, or the fill."""
    inside = (x >= 0) & (x < image.shape[1]) & (y >= 0) & (y < image.shape[0])
    found = image[np.clip(y, 0, image.shape[0] - 1), np.clip(x, 0, image.shape[1] - 1)]
    return np.where(inside.reshape(inside.shape + (1,) * (image.ndim - 2)), found, blank)


def _mixed(image: Array, x: Array, y: Array, blank: Array) -> Array:
    """Four pixels about each place, weighted by its fraction of 5 bits."""
    part = np.float32(1 / (1 << _PARTS))
    right, down = ((p & ((1 << _PARTS) - 1)).astype(np.float32) * part for p in (x, y))
    left_of, above = x >> _PARTS, y >> _PARTS
    exact = image.dtype == np.uint8
    total: Any = 0
    for dy, wy in ((0, 1 - down), (1, down)):
        for dx, wx in ((0, 1 - right), (1, right)):
            weight = (wx * wy).reshape(x.shape + (1,) * (image.ndim - 2))
            weight = np.rint(weight * 32768).astype(np.int64) if exact else weight
            total = total + _pixels(image, left_of + dx, above + dy, blank) * weight
    if exact:
        return np.asarray(np.clip((total + (1 << 14)) >> 15, 0, 255), np.uint8)
    return np.asarray(total, image.dtype)


def projected(image: Array, back: Array, how: Inter) -> Array:
    """An image whose pixels come from `back @ (x, y, 1)`, divided by its third element; 0 beyond
    the edges."""
    columns, rows = np.arange(image.shape[1]), np.arange(image.shape[0])[:, None]
    x, y, w = (back[i, 0] * columns + (back[i, 1] * rows + back[i, 2]) for i in range(3))
    unit = 1 if how is Inter.NEAREST else 1 << _PARTS
    scale = np.where(w == 0, 0.0, unit / np.where(w == 0, 1, w))
    limit = float(1 << 30)
    at = [np.rint(np.clip(v * scale, -limit, limit)).astype(np.int64) for v in (x, y)]
    channels = (image.shape[2],) if image.ndim == 3 else ()
    blank = np.zeros(channels, image.dtype)
    return (_pixels if how is Inter.NEAREST else _mixed)(image, at[0], at[1], blank)
