"""Contrast, saturation, hue and their like, with OpenCV's arithmetic, as in MindSpore: brightness
of 15 bits, mixing in single precision, hues of 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from ...core.declared import NonNegativeNumber, integer, number
from ..declared import argument, state
from ..rules import about_zero, span
from .base import ImageTransform, RandomImageTransform
from .colours import AdjustBrightness

Array = np.ndarray[Any, Any]
_FACTORS = "between which factors; a number x means from 1 - x (at least 0) to 1 + x."
_GREY = np.array([9798, 19235, 3735])
"""0.299, 0.587 and 0.114 of 2**15."""


def brightness(image: Array) -> Array:
    """The brightness of each pixel, as int64[height, width]."""
    return np.asarray((image.astype(np.int64) @ _GREY + (1 << 14)) >> 15)


def mixed(image: Array, other: Any, factor: float) -> Array:
    """`image * factor + other * (1 - factor)`, the second product not rounded."""
    part = np.float32(factor)
    rest = float(np.float32(1) - part)
    made = (np.asarray(other, np.float64) * rest
            + (image.astype(np.float32) * part).astype(np.float64)).astype(np.float32)
    return np.asarray(np.clip(np.rint(made), 0, 255), np.uint8)


class AdjustContrast(ImageTransform):
    """The image mixed with its mean brightness."""

    contrast_factor: NonNegativeNumber = argument(text="0 is grey, 1 the image.")

    def _apply(self, image: Any) -> Any:
        image = self._of_colours(image)
        mean = int(brightness(image).mean() + 0.5)
        return mixed(image, mean, self.contrast_factor)


class AdjustSaturation(ImageTransform):
    """The image mixed with its brightness."""

    saturation_factor: NonNegativeNumber = argument(text="0 is grey, 1 the image.")

    def _apply(self, image: Any) -> Any:
        image = self._of_colours(image)
        return mixed(image, brightness(image)[..., None], self.saturation_factor)


def _fixed_inverse(scale: float) -> Array:
    """`scale / n` for n up to 255, in 12 bits; 0 for 0."""
    numbers = np.arange(256)
    return np.where(numbers, np.rint(scale * 4096 / np.maximum(numbers, 1)), 0).astype(np.int64)


_SATURATIONS, _HUES = _fixed_inverse(255), _fixed_inverse(256 / 6)
_SECTORS = np.array([[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]])
"""Which of (value, low, falling, rising) red, green and blue are, by sixths of the circle."""


def to_hues(image: Array) -> tuple[Array, Array, Array]:
    """Hue, saturation and value of each pixel, from 0 to 255."""
    red, green, blue = (image[..., i].astype(np.int64) for i in range(3))
    value = np.maximum(np.maximum(red, green), blue)
    spread = value - np.minimum(np.minimum(red, green), blue)
    around = np.where(value == red, green - blue, np.where(
        value == green, blue - red + 2 * spread, red - green + 4 * spread))
    hue = (around * _HUES[spread] + 2048) >> 12
    return np.where(hue < 0, hue + 256, hue), (spread * _SATURATIONS[value] + 2048) >> 12, value


def from_hues(hue: Array, saturation: Array, value: Array) -> Array:
    """The image of hues, saturations and values. A turn has 255 here, not 256, as in OpenCV."""
    turned = hue.astype(np.float32) * np.float32(6 / 255)
    saturation, value = (a.astype(np.float32) * np.float32(1 / 255) for a in (saturation, value))
    sector = np.floor(turned).astype(np.int64)
    part, one = (turned - sector).astype(np.float32), np.float32(1)
    ways = np.stack([value, value * (one - saturation), value * (one - saturation * part),
                     value * (one - saturation * (one - part))], -1)
    colours = np.take_along_axis(ways, _SECTORS[sector % 6], -1)
    return np.clip(np.rint(colours * np.float32(255)), 0, 255).astype(np.uint8)


class AdjustHue(ImageTransform):
    """Hues moved around the circle."""

    hue_factor: Annotated[float, number(-0.5, 0.5)] = argument(
        text="from -0.5 to 0.5 of the circle.")

    def _apply(self, image: Any) -> Any:
        hue, saturation, value = to_hues(self._of_colours(image))
        return from_hues((hue + int(self.hue_factor * 255)) % 256, saturation, value)


def _about_one(value: Any) -> tuple[Any, Any]:
    return (max(0.0, 1.0 - value), 1.0 + value)


Factors = Annotated[Any, span(0, one=_about_one)]


class RandomColorAdjust(RandomImageTransform):
    """Brightness, contrast, saturation and hue changed at random."""

    brightness: Factors = argument(default=(1, 1), text=_FACTORS)
    contrast: Factors = argument(default=(1, 1), text=_FACTORS)
    saturation: Factors = argument(default=(1, 1), text=_FACTORS)
    hue: Annotated[Any, span(-0.5, 0.5, one=about_zero)] = argument(
        default=(0, 0),
        text="between which parts of the circle; a number x means from -x to x.")

    _drawn: list[ImageTransform] = state(default=[])

    def _draw(self, image: Any) -> None:
        kinds: list[tuple[Callable[[float], ImageTransform], tuple[float, float], int]] = [
            (AdjustBrightness, self.brightness, 1), (AdjustContrast, self.contrast, 1),
            (AdjustSaturation, self.saturation, 1), (AdjustHue, self.hue, 0)]
        self.random.shuffle(kinds)
        self._drawn = [made(self.random.real(*bounds)) for made, bounds, same in kinds
                       if bounds != (same, same)]

    def _apply(self, image: Any) -> Any:
        image = self._of_colours(image)
        for each in self._drawn:
            image = each._apply(image)
        return image


class Posterize(ImageTransform):
    """Fewer bits for each value, of uint8 images."""

    bits: Annotated[int, integer(0, 8)] = argument(text="how many are kept: 0 to 8.")

    def _apply(self, image: Any) -> Any:
        self._only_bytes(image)
        return image & np.uint8(0xFF << (8 - self.bits) & 0xFF)


__all__ = ["AdjustContrast", "AdjustHue", "AdjustSaturation", "Posterize", "RandomColorAdjust"]
