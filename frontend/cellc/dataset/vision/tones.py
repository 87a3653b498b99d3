"""Contrast by histograms, gamma, sharpness, blur, and the spaces of colours.

Source: `mindspore.dataset.vision`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any

import numpy as np

from ...core.declared import (
    Flag,
    NonNegativeNumber,
    Number,
    Share,
    instance,
    integer,
    number,
)
from ..declared import argument
from ..rules import several, span
from .adjusting import Posterize, brightness
from .base import Drawn, ImageTransform, Likely, OnDevice, Perhaps, RandomImageTransform, Size
from .colours import Solarize
from .opencv import converted, equalized, sharpened, smoothed, weighted

Array = np.ndarray[Any, Any]


def _by_channel(image: Array, one: Any) -> Array:
    """A function of planes, of each channel."""
    if image.ndim == 2:
        return np.asarray(one(image))
    return np.stack([one(image[..., i]) for i in range(image.shape[2])], -1)


class AutoContrast(OnDevice, ImageTransform):
    """The range of each channel stretched to 0 to 255, for uint8."""

    cutoff: Annotated[float, number(0, 50, "[)")] = argument(
        default=0.0,
        text="per cent of the darkest, and of the lightest pixels that are not counted.")
    ignore: Annotated[Any, several(integer(0, 255), one=lambda value: (value,))] = argument(
        default=None, none=(), text="values that are not counted: one, or several.")

    def _apply(self, image: Any) -> Any:
        return _by_channel(self._only_bytes(image), self._stretched)

    def _stretched(self, plane: Array) -> Array:
        counts = np.bincount(plane.ravel(), minlength=256)
        counts[list(self.ignore)] = 0
        cut = int(counts.sum()) * int(self.cutoff) // 100  # of whole per cents, as MindSpore
        for order in (counts, counts[::-1]):
            kept = np.maximum(np.cumsum(order) - cut, 0)
            order[:] = np.diff(kept, prepend=0)
        found = np.flatnonzero(counts)
        if not len(found) or found[0] == found[-1]:
            return plane
        low, high = int(found[0]), int(found[-1])
        scale = np.float32(255.0) / np.float32(high - low)
        table = np.arange(256, dtype=np.float32) * scale + np.float32(-low) * scale
        return np.asarray(np.clip(table, 0, 255), np.uint8)[plane]


class Equalize(OnDevice, ImageTransform):
    """Values of each channel spread so that all are as common, for uint8."""

    def _apply(self, image: Any) -> Any:
        return _by_channel(self._only_bytes(image), equalized)


class AdjustGamma(ImageTransform):
    """`gain * value ** gamma` of uint8, `(gain * value) ** gamma` of floats from 0 to 1."""

    gamma: NonNegativeNumber = argument(text="not negative; above 1 what is dark gets darker.")
    gain: Number = argument(default=1, text="a factor.")

    def _apply(self, image: Any) -> Any:
        if image.dtype == np.uint8:
            part = np.power(np.arange(256) / 255, self.gamma) * (255.999 * self.gain)
            return np.clip(part, 0, 255).astype(np.uint8)[image]
        made = np.power(image.astype(np.float32) * np.float32(self.gain), np.float32(self.gamma))
        return np.clip(made, 0, 1).astype(image.dtype)


class AdjustSharpness(OnDevice, ImageTransform):
    """The image mixed with a smooth one."""

    sharpness_factor: NonNegativeNumber = argument(text="0 is smooth, 1 the image, 2 sharper.")

    def _apply(self, image: Any) -> Any:
        return sharpened(image, self.sharpness_factor)


class RandomAdjustSharpness(Likely):
    """Perhaps `AdjustSharpness`."""

    degree: NonNegativeNumber = argument(text="0 is smooth, 1 the image, 2 sharper.")
    prob: Share = 0.5

    def _done(self, image: Any) -> Any:
        return sharpened(image, self.degree)


class RandomAutoContrast(Likely, AutoContrast):
    """Perhaps `AutoContrast`."""

    prob: Share = 0.5


class RandomEqualize(Perhaps, Equalize):
    """Perhaps `Equalize`."""


class RandomSharpness(Drawn):
    """`AdjustSharpness` by a factor that is drawn."""

    degrees: Annotated[Any, span(0)] = argument(default=(0.1, 1.9), text="between which factors.")

    def _draw(self, image: Any) -> None:
        self._drawn = [AdjustSharpness(self.random.real(*self.degrees))]


class RandomColor(RandomImageTransform):
    """An image of colours mixed with its brightness by a factor that is drawn."""

    degrees: Annotated[Any, span(0)] = argument(
        default=(0.1, 1.9), text="between which factors; 0 is grey, 1 the image.")
    _factor = 1.0

    def _draw(self, image: Any) -> None:
        self._factor = self.random.real(*self.degrees)

    def _apply(self, image: Any) -> Any:
        if self._only_bytes(image).ndim != 3 or image.shape[2] != 3:
            raise self._refused(f"an image of 3 channels is wanted, but it has {image.shape}.")
        grey, part = np.repeat(brightness(image)[..., None], 3, 2), np.float32(self._factor)
        return weighted(image, part, grey, 1 - part)


class GaussianBlur(OnDevice, ImageTransform):
    """The image smoothed by a Gaussian kernel; what is beyond the edges is the mirrored image."""

    kernel_size: Size = argument(text="odd: an int, or (width, height).")
    sigma: Annotated[Any, several(number(0), 2, one=lambda value: (value, value))] = argument(
        default=None, none=(0.0, 0.0),
        text="its deviation in pixels, not negative: a number, or (of width, of height); None or "
             "0: 0.3 * ((width - 1) * 0.5 - 1) + 0.8 of the kernel.")

    def _prepare(self) -> None:
        if not all(size % 2 for size in self.kernel_size):
            raise ValueError(f"For 'GaussianBlur', 'kernel_size' must be odd, but got "
                             f"{self.kernel_size}.")

    def _apply(self, image: Any) -> Any:
        sigma = self.sigma[0] or ((self.kernel_size[0] - 1) * 0.5 - 1) * 0.3 + 0.8
        return smoothed(image, self.kernel_size, (sigma, self.sigma[1] or sigma))


class ConvertMode(IntEnum):
    """From which channels to which."""

    COLOR_BGR2BGRA = 0
    COLOR_RGB2RGBA = 0
    COLOR_BGRA2BGR = 1
    COLOR_RGBA2RGB = 1
    COLOR_BGR2RGBA = 2
    COLOR_RGB2BGRA = 2
    COLOR_RGBA2BGR = 3
    COLOR_BGRA2RGB = 3
    COLOR_BGR2RGB = 4
    COLOR_RGB2BGR = 4
    COLOR_BGRA2RGBA = 5
    COLOR_RGBA2BGRA = 5
    COLOR_BGR2GRAY = 6
    COLOR_RGB2GRAY = 7
    COLOR_GRAY2BGR = 8
    COLOR_GRAY2RGB = 8
    COLOR_GRAY2BGRA = 9
    COLOR_GRAY2RGBA = 9
    COLOR_BGRA2GRAY = 10
    COLOR_RGBA2GRAY = 11


class ConvertColor(OnDevice, ImageTransform):
    """Channels in another order, added or left out, or their brightness, for uint8.

    Raises:
        RuntimeError: (when called) the image has other channels.
    """

    convert_mode: ConvertMode = argument(text="a `ConvertMode`.")

    def _apply(self, image: Any) -> Any:
        mode = int(self.convert_mode)
        image = self._only_bytes(image)
        one = mode in (8, 9)
        if image.ndim == 2 and mode < 6:
            image = np.repeat(image[..., None], 3, -1)
        channels = 1 if image.ndim == 2 else image.shape[2]
        if channels not in ((1,) if one else (3, 4)):
            raise self._refused(f"{self.convert_mode.name} is for images of "
                                f"{'1 channel' if one else '3 or 4 channels'}, but it has "
                                f"{channels}.")
        return converted(image, self.convert_mode.name.removeprefix("COLOR_"))


class RandomPosterize(Drawn):
    """`Posterize` to a number of bits that is drawn."""

    bits: Annotated[Any, several(
        integer(1, 8), 2, one=lambda value: (value, value), rising=True)] = argument(
            default=(8, 8), text="the number, or the (least, greatest) of it.")

    def _draw(self, image: Any) -> None:
        low, high = self.bits
        self._drawn = [Posterize(low + self.random.below(high - low + 1))]


class RandomSolarize(Drawn):
    """`Solarize` within a range that is drawn."""

    threshold: Annotated[Any, several(integer(0, 255), 2, rising=True)] = argument(
        default=(0, 255), text="the (least, greatest) value of that range.")

    def _draw(self, image: Any) -> None:
        low, high = self.threshold
        ends = [low + self.random.below(high - low + 1) for _ in range(2)]
        self._drawn = [Solarize(tuple(sorted(ends)))]


class _OfSpaces(ImageTransform):
    """Base of transforms between spaces of colours, of an image or a batch of them."""

    is_hwc: Flag = argument(
        default=False, text="whether channels are last; else they are before height and width.")

    def _one(self, image: Any, draws: bool = True) -> Any:
        if not isinstance(image, np.ndarray):
            raise TypeError(f"img should be NumPy array. Got {type(image)}.")
        axis = -1 if self.is_hwc else -3
        if image.ndim not in (3, 4) or image.shape[axis] != 3:
            raise TypeError(f"an image of 3 channels (axis {axis}) or a batch of them is wanted, "
                            f"but it has the shape {image.shape}.")
        made = self._converted(*np.moveaxis(image, axis, 0))
        return np.stack(made, axis)

    def _converted(self, *channels: Array) -> list[Array]:
        """The three new channels of the three old ones, for a subclass to say."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


class RgbToHsv(_OfSpaces):
    """Red, green and blue (0 to 1) as hue, saturation (0 to 1) and value, as float64."""

    def _converted(self, *channels: Array) -> list[Array]:
        red, green, blue = (c.astype(np.float64) for c in channels)
        value, low = np.maximum(np.maximum(red, green), blue), \
            np.minimum(np.minimum(red, green), blue)
        spread = value - low
        some = np.where(spread == 0, 1, spread)
        from_red, from_green, from_blue = ((value - c) / some for c in (red, green, blue))
        hue = np.where(value == red, from_blue - from_green, np.where(
            value == green, 2.0 + from_red - from_blue, 4.0 + from_green - from_red))
        hue = np.where(spread == 0, 0.0, hue / 6.0 % 1.0)
        saturation = np.where(spread == 0, 0.0, spread / np.where(value == 0, 1, value))
        return [hue, saturation, value]


class HsvToRgb(_OfSpaces):
    """Hue, saturation (0 to 1) and value as red, green and blue, as float64."""

    def _converted(self, *channels: Array) -> list[Array]:
        hue, saturation, value = (c.astype(np.float64) for c in channels)
        sector = np.floor(hue * 6.0)
        part = hue * 6.0 - sector
        low = value * (1.0 - saturation)
        falling = value * (1.0 - saturation * part)
        rising = value * (1.0 - saturation * (1.0 - part))
        ways = np.stack([value, low, falling, rising])
        which = np.array([[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]])
        places = which[sector.astype(np.int64) % 6]
        return [np.take_along_axis(ways, places[None, ..., i], 0)[0] for i in range(3)]


class LinearTransformation(ImageTransform):
    """`(image - mean) @ matrix` of an image as one row, for whitening."""

    transformation_matrix: Annotated[Any, instance(np.ndarray)] = argument(
        text="[pixels, pixels], pixels being channels * height * width.")
    mean_vector: Annotated[Any, instance(np.ndarray)] = argument(text="[pixels].")

    def _prepare(self) -> None:
        self.matrix, self.mean = self.transformation_matrix, self.mean_vector
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError(f"transformation_matrix should be square, got {self.matrix.shape}.")
        if self.mean.shape != self.matrix.shape[:1]:
            raise ValueError(f"mean_vector length {self.mean.shape} should match any one dimension "
                             f"of the transformation_matrix {self.matrix.shape}.")

    def _apply(self, image: Any) -> Any:
        if image.size != len(self.mean):
            raise ValueError(f"an image of {len(self.mean)} elements is wanted, but its shape is "
                             f"{image.shape}.")
        made = (image.reshape(1, -1) - self.mean) @ self.matrix
        return made.reshape(image.shape)


__all__ = [
    "AdjustGamma", "AdjustSharpness", "AutoContrast", "ConvertColor", "ConvertMode", "Equalize",
    "GaussianBlur", "HsvToRgb", "LinearTransformation", "RandomAdjustSharpness",
    "RandomAutoContrast", "RandomColor", "RandomEqualize", "RandomPosterize", "RandomSharpness",
    "RandomSolarize", "RgbToHsv",
]
