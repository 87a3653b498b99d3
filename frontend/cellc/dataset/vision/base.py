"""The common part of image transforms: their arguments, and pictures of Pillow or numpy arrays."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

import numpy as np

from .. import checks
from ..declared import Fields, number
from ..decoding import pillow
from ..transforms import RandomTransform, Transform


class Inter(IntEnum):
    """How pixels between pixels are found. Source: `mindspore.dataset.vision.Inter`."""

    NEAREST = 0
    ANTIALIAS = 1
    BILINEAR = 2
    LINEAR = 2
    BICUBIC = 3
    CUBIC = 3
    AREA = 4
    PILCUBIC = 5


class Border(str, Enum):  # noqa: UP042 (a StrEnum prints its value, MindSpore's its name)
    """The pixels beyond the edge of an image. Source: `mindspore.dataset.vision.Border`."""

    CONSTANT = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


def is_picture(image: Any) -> bool:
    """Whether it is an image of Pillow."""
    return type(image).__module__.startswith("PIL.")


class ImageTransform(Fields, Transform):
    """Base of transforms of an image: an array [height, width] or [height, width, channels], or a
    picture of Pillow, which stays one.
    """

    _stays = True
    """Whether a picture of Pillow stays one where it can."""

    def __call__(self, *args: Any) -> Any:
        """The image's transform; of several images each, with the same draws for all."""
        if len(args) == 1:
            return self._one(args[0])
        self._draw(np.asarray(args[0]))
        return tuple(self._one(a, False) for a in args)

    def _one(self, image: Any, draws: bool = True) -> Any:
        picture = is_picture(image)
        if not picture and not isinstance(image, np.ndarray):
            raise TypeError(f"Input should be NumPy or PIL image, got {type(image)}.")
        array = np.asarray(image)
        if array.ndim not in (2, 3) or not array.size:
            raise self._refused("an image should have the shape [height, width] or [height, width, "
                                f"channels], but has {array.shape}.")
        if draws:
            self._draw(array)
        made = self._apply(array)
        if picture and self._stays and isinstance(made, np.ndarray) and made.dtype == np.uint8:
            return pillow(type(self).__name__).fromarray(made)
        return made

    def _only_bytes(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The image, if it is one of uint8."""
        if image.dtype != np.uint8:
            raise self._refused(f"an image of uint8 is wanted, but it is {image.dtype}.")
        return image

    def _draw(self, image: Any) -> None:
        """For random ones: what is the same for all images of a call, of which this is the first.

        Drawn in the order in which MindSpore does, so that the same seed gives the same.
        """


ImageTensorOperation = ImageTransform
"""MindSpore's inner name."""


class RandomImageTransform(ImageTransform, RandomTransform):
    """Base of image transforms that draw."""


class Perhaps(RandomImageTransform):
    """Base of transforms that are applied or not."""

    prob: float = number(0.0, 1.0, default=0.5, text="how likely it is that they are.")
    _happens = False

    def _draw(self, image: Any) -> None:
        self._happens = self.random.happens(self.prob)

    def _apply(self, image: Any) -> Any:
        return self._done(image) if self._happens else image

    def _done(self, image: Any) -> Any:
        """The work, for a subclass to do."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


def pair(name: str, size: Any) -> tuple[int, int]:
    """A height and a width; an int means both."""
    checks.of_type(name, size, (int, list, tuple))
    many = (size, size) if isinstance(size, int) else tuple(size)
    if len(many) != 2:
        raise TypeError("Size should be a single integer or a list/tuple (h, w) of length 2.")
    return (checks.integer(name, many[0], 1, 16777216), checks.integer(name, many[1], 1, 16777216))


def padding_of(name: str, padding: Any) -> tuple[int, int, int, int]:
    """How many pixels are added (left, top, right, bottom): one number for all, two for (left and
    right, top and bottom), or four.
    """
    checks.of_type(name, padding, (int, list, tuple))
    many = [padding] if isinstance(padding, int) else list(padding)
    if len(many) not in (1, 2, 4) or (len(many) == 1 and not isinstance(padding, int)):
        raise ValueError("The size of the padding list or tuple should be 2 or 4.")
    found = [checks.integer(name, p, 0) for p in many]
    left, top, right, bottom = (found * 4)[:4] if len(found) < 4 else found
    return left, top, right, bottom


def fill_of(name: str, value: Any) -> tuple[int, int, int]:
    """A colour: one number for all channels, or three."""
    checks.of_type(name, value, (int, list, tuple))
    many = (value,) * 3 if isinstance(value, int) else tuple(value)
    if len(many) != 3:
        raise TypeError("fill_value should be a single integer or a 3-tuple.")
    for each in many:
        checks.integer(name, each, 0, 255)
    return many


def inter_of(name: str, value: Any) -> Inter:
    """An `Inter`."""
    checks.of_type(name, value, Inter)
    return Inter(value)
