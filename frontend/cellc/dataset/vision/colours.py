"""Image transforms that change values: scaling, normalising, colours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..declared import argument, integer, member, number
from ..transforms import numpy_type
from .base import ImageTransform, Perhaps, RandomImageTransform

Array = np.ndarray[Any, Any]
_PART = "which part."


class Rescale(ImageTransform):
    """Values times a number plus another, as float32, rounded once."""

    rescale: float = number(-math.inf, math.inf, text="the factor.")
    shift: float = number(-math.inf, math.inf, text="what is added.")

    def _apply(self, image: Any) -> Any:
        # Exact in double precision for float32, so this is a fused multiply and add.
        exact = image.astype(np.float32).astype(np.float64)
        factor, shift = (float(np.float32(v)) for v in (self.rescale, self.shift))
        return (exact * factor + shift).astype(np.float32)


class Normalize(ImageTransform):
    """Less a mean and divided by a deviation, for each channel, as float32.

    Args:
        mean, std: one number for each channel, or one for all.
        is_hwc: whether channels are last; else first.

    Raises:
        RuntimeError: (when called) there are more or fewer channels.

    Source: `mindspore.dataset.vision.Normalize`.
    """

    def __init__(self, mean: Any, std: Any, is_hwc: bool = True) -> None:
        for name, values in (("mean", mean), ("std", std)):
            checks.of_type(name, values, (list, tuple, np.ndarray))
        if len(mean) != len(std):
            raise ValueError("Length of mean and std must be equal.")
        if not len(mean):
            raise ValueError("mean and std cannot be empty.")
        for i, (m, s) in enumerate(zip(mean, std, strict=True)):
            checks.number(f"mean[{i}]", m, 0.0, 255.0)
            if checks.number(f"std[{i}]", s, 0.0, 255.0) == 0:
                raise ValueError(f"Input std[{i}] is not within the required interval of (0, 255].")
        self.is_hwc = checks.of_type("is_hwc", is_hwc, bool)
        self.mean, self.std = np.array(mean, np.float32), np.array(std, np.float32)

    def _apply(self, image: Any) -> Any:
        axis = 2 if self.is_hwc else 0
        channels = image.shape[axis] if image.ndim == 3 else 1
        if len(self.mean) not in (1, channels):
            raise self._refused(f"the image has {channels} channels, but there are "
                                f"{len(self.mean)} means.")
        shape = [-1 if i == axis else 1 for i in range(3)] if image.ndim == 3 else [1, 1]
        return (image.astype(np.float32) - self.mean.reshape(shape)) / self.std.reshape(shape)


class NormalizePad(Normalize):
    """As `Normalize`, and a channel of zeros after the others.

    Args:
        mean, std, is_hwc: see `Normalize`.
        dtype: "float32" or "float16".

    Source: `mindspore.dataset.vision.NormalizePad`.
    """

    def __init__(self, mean: Any, std: Any, dtype: str = "float32", is_hwc: bool = True) -> None:
        super().__init__(mean, std, is_hwc)
        if dtype not in ("float32", "float16"):
            raise ValueError("dtype is not float32 or float16.")
        self.dtype = numpy_type("dtype", np.dtype(dtype))

    def _apply(self, image: Any) -> Any:
        made = super()._apply(image).astype(self.dtype)
        axis = 2 if self.is_hwc else 0
        blank = np.zeros_like(np.take(made, [0], axis))
        return np.concatenate([made, blank], axis)


def inverted(image: Array) -> Array:
    """255 less the values."""
    return np.asarray(255 - image, image.dtype)


class Invert(ImageTransform):
    """255 less the values, of images of 3 channels. Source: `mindspore.dataset.vision.Invert`."""

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


def _channels(name: str, value: Any) -> Any:
    if value not in (1, 3):
        raise ValueError(f"Number of channels should be either 1 or 3, but got {value!r}.")
    return value


class Grayscale(ImageTransform):
    """The brightness of an image of 3 channels, for uint8."""

    num_output_channels: int = argument(_channels, default=1, text="1, or 3 of the same.")

    def _apply(self, image: Any) -> Any:
        self._only_bytes(image)
        one = image if image.ndim == 2 else image[..., 0] if image.shape[2] == 1 else \
            grey(image[..., :3])
        return one if self.num_output_channels == 1 else np.repeat(one[..., None], 3, -1)


class RandomGrayscale(Perhaps):
    """Perhaps the brightness in each channel."""

    prob: float = number(0.0, 1.0, default=0.1, text="how likely it is.")

    def _done(self, image: Any) -> Any:
        return Grayscale(3)._apply(image) if image.ndim == 3 and image.shape[2] == 3 else image


class AdjustBrightness(ImageTransform):
    """Values times a factor, within 0 to 255 for uint8."""

    brightness_factor: float = number(0.0, math.inf, text="0 is black, 1 the image.")

    def _apply(self, image: Any) -> Any:
        made = image.astype(np.float32) * np.float32(self.brightness_factor)
        if image.dtype.kind in "iu":
            bounds = np.iinfo(image.dtype)
            made = np.clip(np.rint(made), bounds.min, bounds.max)
        return made.astype(image.dtype)


class Solarize(ImageTransform):
    """Values within a range inverted, for uint8.

    Args:
        threshold: (least, greatest); one number, or the same twice: from there up.

    Raises:
        TypeError, ValueError: neither a number nor two that grow, or not from 0 to 255.

    Source: `mindspore.dataset.vision.Solarize`.
    """

    def __init__(self, threshold: Any) -> None:
        many = (threshold, threshold) if isinstance(threshold, (int, float)) else tuple(threshold)
        if len(many) != 2:
            raise TypeError("threshold must be a single number or sequence of two numbers.")
        self.low, self.high = (checks.number("threshold", t, 0.0, 255.0) for t in many)
        if self.low > self.high:
            raise ValueError("threshold must be in order of (min, max).")

    def _apply(self, image: Any) -> Any:
        inside = (image >= self.low) & ((image <= self.high) | (self.low == self.high))
        return np.where(inside, 255 - image, image).astype(image.dtype)


class Erase(ImageTransform):
    """A part of the image filled with a value."""

    top: int = integer(0, text=_PART)
    left: int = integer(0, text=_PART)
    height: int = integer(1, text=_PART)
    width: int = integer(1, text=_PART)
    value: Any = argument(
        lambda name, value: checks.of_type(name, value, (int, float, list, tuple)), default=0,
        text="one number, or one for each channel.")
    inplace: bool = member(bool, default=False, text="accepted for compatibility: the image given "
                                                     "stays as it is.")

    def _apply(self, image: Any) -> Any:
        made = image.copy()
        made[self.top : self.top + self.height, self.left : self.left + self.width] = self.value
        return made


class RandomErasing(RandomImageTransform):
    """Perhaps a part of an image [channels, height, width] filled with a value (Zhong et al.,
    2020).

    Args:
        prob: how likely it is.
        scale: from which to which part of the image's area.
        ratio: from which to which height, relative to the width.
        value: one number, one for each channel, or "random": standard normal draws, which are not
            those of MindSpore.
        inplace: whether the image given is changed.
        max_attempts: how often to draw before it stays as it is.

    Source: `mindspore.dataset.vision.RandomErasing`.
    """

    def __init__(
        self, prob: float = 0.5, scale: Any = (0.02, 0.33), ratio: Any = (0.3, 3.3),
        value: Any = 0, inplace: bool = False, max_attempts: int = 10,
    ) -> None:
        self.prob = checks.number("prob", prob, 0.0, 1.0)
        (self.scale, self.ratio) = (tuple(checks.number(name, v, 0.0) for v in given)
                                    for name, given in (("scale", scale), ("ratio", ratio)))
        for name, ends in (("scale", self.scale), ("ratio", self.ratio)):
            if len(ends) != 2 or ends[0] > ends[1]:
                raise ValueError(f"{name} should be (min, max), but got {ends}.")
        if not self.ratio[0]:
            raise ValueError("ratio should be positive.")
        self.value = checks.of_type("value", value, (int, str, list, tuple))
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is a string, it should be 'random'.")
        self.inplace = checks.of_type("inplace", inplace, bool)
        self.max_attempts = checks.integer("max_attempts", max_attempts, 1)

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
        """Top, left, height and width of what is filled; None if none was found."""
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
    uint8. The draws are not those of MindSpore.
    """

    alpha: float = number(
        0.0, math.inf, default=0.05,
        text="the deviation of the normal draws that the components are multiplied by.")

    def _prepare(self) -> None:
        self._added: Array = np.zeros(3)

    def _draw(self, image: Any) -> None:
        draws = np.random.default_rng(self.random.below(1 << 31))
        self._added = _COLOUR_AXES @ (draws.normal(0, self.alpha, 3) * _COLOUR_SPREADS)

    def _apply(self, image: Any) -> Any:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise self._refused("an image uint8[height, width, 3] is wanted, but it is "
                                f"{image.dtype}{list(image.shape)}.")
        return np.clip(np.rint(image + self._added), 0, 255).astype(np.uint8)


class CutOut(RandomImageTransform):
    """Squares at random places set to 0."""

    length: int = integer(1, text="their edges.")
    num_patches: int = integer(1, default=1, text="how many.")
    is_hwc: bool = member(bool, default=True, text="whether channels are last; else first.")

    def _prepare(self) -> None:
        self._at: Any = ()

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
