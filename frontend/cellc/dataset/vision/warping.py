"""Rotation, with the fixed-point places of the library behind MindSpore (OpenCV)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .base import Inter

Array = np.ndarray[Any, Any]
_BITS = 10
"""Of the fraction of a place in the old image."""
_PARTS = 5
"""Of them, those that bilinear weights are made of."""


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
    return _warped(image, _inverse(forward), height, width, how, fill)


def _inverse(forward: Array) -> Array:
    turn = np.linalg.inv(forward[:, :2])
    return np.column_stack([turn, -turn @ forward[:, 2]])


def _warped(
    image: Array, back: Array, height: int, width: int, how: Inter, fill: tuple[int, int, int]
) -> Array:
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
