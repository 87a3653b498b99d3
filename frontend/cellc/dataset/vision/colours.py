"""Image transforms that change values: scaling, normalising, colours."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ...core.declared import (
    Flag,
    NonNegative,
    NonNegativeNumber,
    Number,
    Positive,
    Rule,
    Share,
    instance,
    number,
    one_of,
)
from ..declared import argument, state
from ..rules import several, span
from .base import ImageTransform, OnDevice, Perhaps, RandomImageTransform

Array = np.ndarray[Any, Any]
_PART = "which part."


class Rescale(ImageTransform):
    """Values times a number plus another, as float32, rounded once."""

    rescale: Number = argument(text="the factor.")
    shift: Number = argument(text="what is added.")

    def _apply(self, image: Any) -> Any:
        # Exact in double precision for float32, so this is a fused multiply and add.
        exact = image.astype(np.float32).astype(np.float64)
        factor, shift = (float(np.float32(v)) for v in (self.rescale, self.shift))
        return (exact * factor + shift).astype(np.float32)


def _listed(each: Rule) -> Rule:
    """A list or array of values of a rule."""
    many = several(each)
    return Rule(f"a list, each {each.wanted}", lambda value: many.fits(
        value.tolist() if isinstance(value, np.ndarray) else value),
        lambda value: len(value) > 0 and many.holds(list(value)), np.array)


Means = Annotated[Any, _listed(number(0, 255))]
Deviations = Annotated[Any, _listed(number(0, 255, "(]"))]


class Normalize(OnDevice, ImageTransform):
    """Less a mean and divided by a deviation, for each channel, as float32.

    Raises:
        RuntimeError: (when called) there are more or fewer channels.
    """

    mean: Means = argument(text="one number for each channel, or one for all.")
    std: Deviations = argument(text="as many numbers.")
    is_hwc: Flag = argument(default=True, text="whether channels are last; else first.")

    def _prepare(self) -> None:
        if len(self.mean) != len(self.std):
            raise ValueError("Length of mean and std must be equal.")
        self.mean, self.std = np.array(self.mean, np.float32), np.array(self.std, np.float32)

    def _apply(self, image: Any) -> Any:
        axis = 2 if self.is_hwc else 0
        channels = image.shape[axis] if image.ndim == 3 else 1
        if len(self.mean) not in (1, channels):
            raise self._refused(f"the image has {channels} channels, but there are "
                                f"{len(self.mean)} means.")
        shape = [-1 if i == axis else 1 for i in range(3)] if image.ndim == 3 else [1, 1]
        return (image.astype(np.float32) - self.mean.reshape(shape)) / self.std.reshape(shape)


class NormalizePad(ImageTransform):
    """As `Normalize`, and a channel of zeros after the others."""

    mean: Means = argument(text="see `Normalize`.")
    std: Deviations = argument(text="see `Normalize`.")
    dtype: Annotated[str, one_of("float32", "float16")] = "float32"
    is_hwc: Flag = argument(default=True, text="see `Normalize`.")

    def _prepare(self) -> None:
        self.normalize = Normalize(self.mean, self.std, self.is_hwc)

    def _apply(self, image: Any) -> Any:
        made = self.normalize._apply(image).astype(self.dtype)
        axis = 2 if self.is_hwc else 0
        blank = np.zeros_like(np.take(made, [0], axis))
        return np.concatenate([made, blank], axis)


def inverted(image: Array) -> Array:
    """255 less the values."""
    return np.asarray(255 - image, image.dtype)


class Invert(OnDevice, ImageTransform):
    """255 less the values, of images of 3 channels."""

    def _apply(self, image: Any) -> Any:
        if image.ndim != 3:
            raise self._refused(f"an image [height, width, channels] is wanted, but it has "
                                f"{image.shape}.")
        return inverted(image)


class RandomInvert(Perhaps):
    """Perhaps 255 less the values."""

    def _done(self, image: Any) -> Any:
        return inverted(image)


def grey(image: Array) -> Array:
    """The brightness of an image of 3 channels, as MindSpore's PIL transforms find it."""
    weights = np.array([19595, 38470, 7471])  # of 0.299, 0.587 and 0.114 in 16 bits, as Pillow
    return np.asarray((image.astype(np.int64) @ weights + 0x8000) >> 16, image.dtype)


class Grayscale(ImageTransform):
    """The brightness of an image of 3 channels, for uint8."""

    num_output_channels: Annotated[int, one_of(1, 3)] = argument(
        default=1, text="1, or 3 of the same.")

    def _apply(self, image: Any) -> Any:
        self._only_bytes(image)
        one = image if image.ndim == 2 else image[..., 0] if image.shape[2] == 1 else \
            grey(image[..., :3])
        return one if self.num_output_channels == 1 else np.repeat(one[..., None], 3, -1)


class RandomGrayscale(Perhaps):
    """Perhaps the brightness in each channel."""

    prob: Share = 0.1

    def _done(self, image: Any) -> Any:
        return Grayscale(3)._apply(image) if image.ndim == 3 and image.shape[2] == 3 else image


class AdjustBrightness(OnDevice, ImageTransform):
    """Values times a factor, within 0 to 255 for uint8."""

    brightness_factor: NonNegativeNumber = argument(text="0 is black, 1 the image.")

    def _apply(self, image: Any) -> Any:
        made = image.astype(np.float32) * np.float32(self.brightness_factor)
        if image.dtype.kind in "iu":
            bounds = np.iinfo(image.dtype)
            made = np.clip(np.rint(made), bounds.min, bounds.max)
        return made.astype(image.dtype)


class Solarize(OnDevice, ImageTransform):
    """Values within a range inverted, for uint8."""

    threshold: Annotated[Any, span(0, 255, one=lambda value: (value, value))] = argument(
        text="(least, greatest); one number, or the same twice: from there up.")

    def _apply(self, image: Any) -> Any:
        low, high = self.threshold
        inside = (image >= low) & ((image <= high) | (low == high))
        return np.where(inside, 255 - image, image).astype(image.dtype)


class Erase(OnDevice, ImageTransform):
    """A part of the image filled with a value."""

    top: NonNegative = argument(text=_PART)
    left: NonNegative = argument(text=_PART)
    height: Positive = argument(text=_PART)
    width: Positive = argument(text=_PART)
    value: Annotated[Any, instance(int, float, list, tuple)] = argument(
        default=0, text="one number, or one for each channel.")
    inplace: Flag = argument(
        default=False, text="accepted for compatibility: the image given stays as it is.")

    def _apply(self, image: Any) -> Any:
        made = image.copy()
        made[self.top : self.top + self.height, self.left : self.left + self.width] = self.value
        return made


class RandomErasing(RandomImageTransform):
    """Perhaps a part of an image [channels, height, width] filled with a value (Zhong et al.,
    2020)."""

    prob: Share = argument(default=0.5, text="how likely it is.")
    scale: Annotated[Any, span(0)] = argument(
        default=(0.02, 0.33), text="from which to which part of the image's area.")
    ratio: Annotated[Any, span(0, ends="(]")] = argument(
        default=(0.3, 3.3), text="from which to which height, relative to the width.")
    value: Annotated[Any, Rule(
        "an int, \"random\", or a list or tuple", instance(int, str, list, tuple).fits,
        lambda value: not isinstance(value, str) or value == "random")] = argument(
            default=0, text="one number, one for each channel, or \"random\": standard normal "
                            "draws, which are not those of MindSpore.")
    inplace: Flag = argument(default=False, text="whether the image given is changed.")
    max_attempts: Positive = argument(
        default=10, text="how often to draw before it stays as it is.")

    def _apply(self, image: Any) -> Any:
        if image.ndim != 3:
            raise self._refused(f"an image [channels, height, width] is wanted, but it has "
                                f"{image.shape}.")
        box = self._box(*image.shape[1:]) if self.random.happens(self.prob) else None
        if box is None:
            return image
        made = image if self.inplace else image.copy()
        part = made[:, box[0] : box[0] + box[2], box[1] : box[1] + box[3]]
        if isinstance(self.value, str):
            draws = np.random.default_rng(self.random.below(1 << 31))
            part[...] = draws.standard_normal(part.shape)
        else:
            part[...] = np.reshape(self.value, (-1, 1, 1))
        return made

    def _box(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        """Top, left, height and width of the erased area; None if none was found."""
        for _ in range(self.max_attempts):
            area = height * width * self.random.real(*self.scale)
            shape = self.random.real(*self.ratio)
            h, w = round((area * shape) ** 0.5), round((area / shape) ** 0.5)
            if 0 < h < height and 0 < w < width:
                return self.random.below(height - h + 1), self.random.below(width - w + 1), h, w
        return None


_COLOUR_AXES = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140],
                         [-0.5836, -0.6948, 0.4203]])
_COLOUR_SPREADS = np.array([0.2175, 0.0188, 0.0045]) * 255
"""The principal components of colours in ImageNet."""


class RandomLighting(RandomImageTransform):
    """A colour added along the principal components of ImageNet's (Krizhevsky et al., 2012), for
    uint8. The draws are not those of MindSpore."""

    alpha: NonNegativeNumber = argument(default=0.05, text="the deviation of the normal draws that "
                                                           "the components are multiplied by.")

    _added: Array = state(default=np.zeros(3))

    def _draw(self, image: Any) -> None:
        draws = np.random.default_rng(self.random.below(1 << 31))
        self._added = _COLOUR_AXES @ (draws.normal(0, self.alpha, 3) * _COLOUR_SPREADS)

    def _apply(self, image: Any) -> Any:
        return np.clip(np.rint(self._of_colours(image) + self._added), 0, 255).astype(np.uint8)


class CutOut(RandomImageTransform):
    """Squares at random places set to 0."""

    length: Positive = argument(text="their edges.")
    num_patches: Positive = argument(default=1, text="how many.")
    is_hwc: Flag = argument(default=True, text="whether channels are last; else first.")

    _at: Any = state(default=())

    def _draw(self, image: Any) -> None:
        height, width = image.shape[:2] if self.is_hwc or image.ndim == 2 else image.shape[1:]
        # From where nothing is left of the patch on one side, to where nothing is on the other.
        self._at = [tuple(self.random.below(n + self.length + 1) - self.length
                          for n in (height, width)) for _ in range(self.num_patches)]

    def _apply(self, image: Any) -> Any:
        made = image.copy()
        plane = made if self.is_hwc or made.ndim == 2 else made.transpose(1, 2, 0)
        for top, left in self._at:
            plane[max(0, top) : max(0, top + self.length),
                  max(0, left) : max(0, left + self.length)] = 0
        return made


__all__ = [
    "AdjustBrightness", "CutOut", "Erase", "Grayscale", "Invert", "Normalize", "NormalizePad",
    "RandomErasing", "RandomGrayscale", "RandomInvert", "RandomLighting", "Rescale", "Solarize",
]
