"""Contrast, saturation, hue and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from ...core.declared import NonNegativeNumber, integer, number
from ..declared import argument
from ..rules import about_zero, span
from .base import Drawn, ImageTransform, OnDevice
from .colours import AdjustBrightness
from .opencv import converted, weighted

Array = np.ndarray[Any, Any]
_FACTORS = "between which factors; a number x means from 1 - x (at least 0) to 1 + x."


def brightness(image: Array) -> Array:
    """The brightness of each pixel of an image of 3 channels, as uint8[height, width]."""
    return converted(image, "RGB2GRAY")


def _mixed(image: Array, other: Any, factor: float) -> Array:
    part = np.float32(factor)
    return weighted(np.broadcast_to(other, image.shape), 1 - part, image, part)


class AdjustContrast(OnDevice, ImageTransform):
    """The image mixed with its mean brightness."""

    contrast_factor: NonNegativeNumber = argument(text="0 is grey, 1 the image.")

    def _apply(self, image: Any) -> Any:
        image = self._of_colours(image)
        mean = np.uint8(brightness(image).mean() + 0.5)
        return _mixed(image, mean, self.contrast_factor)


class AdjustSaturation(OnDevice, ImageTransform):
    """The image mixed with its brightness."""

    saturation_factor: NonNegativeNumber = argument(text="0 is grey, 1 the image.")

    def _apply(self, image: Any) -> Any:
        image = self._of_colours(image)
        return _mixed(image, brightness(image)[..., None], self.saturation_factor)


class AdjustHue(OnDevice, ImageTransform):
    """Hues moved around the circle."""

    hue_factor: Annotated[float, number(-0.5, 0.5)] = argument(
        text="from -0.5 to 0.5 of the circle.")

    def _apply(self, image: Any) -> Any:
        hues = converted(self._of_colours(image), "RGB2HSV_FULL")
        hues[..., 0] += np.array(int(self.hue_factor * 255)).astype(np.uint8)  # a circle of 256
        return converted(hues, "HSV2RGB_FULL")


def _about_one(value: Any) -> tuple[Any, Any]:
    return (max(0.0, 1.0 - value), 1.0 + value)


Factors = Annotated[Any, span(0, one=_about_one)]


class RandomColorAdjust(Drawn):
    """Brightness, contrast, saturation and hue changed at random."""

    brightness: Factors = argument(default=(1, 1), text=_FACTORS)
    contrast: Factors = argument(default=(1, 1), text=_FACTORS)
    saturation: Factors = argument(default=(1, 1), text=_FACTORS)
    hue: Annotated[Any, span(-0.5, 0.5, one=about_zero)] = argument(
        default=(0, 0),
        text="between which parts of the circle; a number x means from -x to x.")

    def _draw(self, image: Any) -> None:
        kinds: list[tuple[Callable[[float], ImageTransform], tuple[float, float], int]] = [
            (AdjustBrightness, self.brightness, 1), (AdjustContrast, self.contrast, 1),
            (AdjustSaturation, self.saturation, 1), (AdjustHue, self.hue, 0)]
        self.random.shuffle(kinds)
        self._drawn = [made(self.random.real(*bounds)) for made, bounds, same in kinds
                       if bounds != (same, same)]

    def _apply(self, image: Any) -> Any:
        return super()._apply(self._of_colours(image))


class Posterize(OnDevice, ImageTransform):
    """Fewer bits for each value, of uint8 images."""

    bits: Annotated[int, integer(0, 8)] = argument(text="how many are kept: 0 to 8.")

    def _apply(self, image: Any) -> Any:
        self._only_bytes(image)
        return image & np.uint8(0xFF << (8 - self.bits) & 0xFF)


__all__ = ["AdjustContrast", "AdjustHue", "AdjustSaturation", "Posterize", "RandomColorAdjust"]
