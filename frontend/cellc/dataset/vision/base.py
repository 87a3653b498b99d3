"""The common part of image transforms: their arguments, and pictures of Pillow or numpy arrays.

Source: `mindspore.dataset.vision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Annotated, Any, Self

import numpy as np

from ...core.declared import (
    NON_NEGATIVE,
    Rule,
    Share,
    integer,
    is_int,
    misuse,
    one_of,
    per_axis,
)
from ..declared import Fields, state
from ..decoding import pillow
from ..rules import several
from ..transforms import RandomTransform, Transform


class Inter(IntEnum):
    """How pixels between pixels are found."""

    NEAREST = 0
    ANTIALIAS = 1
    BILINEAR = 2
    LINEAR = 2
    BICUBIC = 3
    CUBIC = 3
    AREA = 4
    PILCUBIC = 5


class Border(str, Enum):  # noqa: UP042 (a StrEnum prints its value, MindSpore's its name)
    """The pixels beyond the edge of an image."""

    CONSTANT = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


def is_picture(image: Any) -> bool:
    """Whether it is an image of Pillow."""
    return type(image).__module__.startswith("PIL.")


class ImageTransform(Fields, Transform):
    """Base of transforms of an image: an array [height, width] or [height, width, channels], or a
    picture of Pillow, which stays one."""

    _stays = True  # Whether a picture of Pillow stays one where it can

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

    def _of_colours(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The image, if it is one of uint8[height, width, 3]."""
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise self._refused("an image uint8[height, width, 3] is wanted, but it is "
                                f"{image.dtype}{list(image.shape)}.")
        return image

    def _only_bytes(self, image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The image, if it is one of uint8."""
        if image.dtype != np.uint8:
            raise self._refused(f"an image of uint8 is wanted, but it is {image.dtype}.")
        return image

    def _draw(self, image: Any) -> None:
        """For random transforms: the values shared by all images of a call; this is the first
        image.

        Drawn in the order in which MindSpore does, so that the same seed gives the same.
        """


class OnDevice:
    """The method of transforms that MindSpore can run on another device."""

    def device(self, device_target: str = "CPU") -> Self:
        """The transform itself, which runs on the CPU.

        Raises:
            ValueError: another device.
        """
        if not isinstance(device_target, str):
            raise misuse(type(self).__name__, "'device_target' must be a str", device_target,
                         TypeError)
        if device_target != "CPU":
            raise misuse(type(self).__name__, "'device_target' must be 'CPU': transforms run on no "
                         "other device", repr(device_target))
        return self


ImageTensorOperation = ImageTransform  # MindSpore's inner name


class RandomImageTransform(ImageTransform, RandomTransform):
    """Base of image transforms that draw."""


class Drawn(RandomImageTransform):
    """Base of transforms that are others, with what is drawn."""

    _drawn: Sequence[ImageTransform] = state(default=())

    def _apply(self, image: Any) -> Any:
        for each in self._drawn:
            image = each._apply(image)
        return image


class _Chance:
    """The attribute of transforms that are applied or not; subclasses declare the argument."""

    prob: float


class Likely(_Chance, RandomImageTransform):
    """Base of transforms that are applied or not, with `prob` in any place."""

    _texts = {"prob": "how likely it is that they are applied."}
    _happens = False

    def _draw(self, image: Any) -> None:
        self._happens = self.random.happens(self.prob)

    def _apply(self, image: Any) -> Any:
        return self._done(image) if self._happens else image

    def _done(self, image: Any) -> Any:
        """The work: that of the next base, unless a subclass says it."""
        return super()._apply(image)


class Perhaps(Likely):
    """Base of transforms that are applied or not."""

    prob: Share = 0.5


def _four(value: Any) -> tuple[int, ...]:
    many = (value,) if isinstance(value, int) else tuple(value)
    return many if len(many) == 4 else many * (4 // len(many))


_SIDES = several(NON_NEGATIVE, 2, 4, error=ValueError)
Size = Annotated[Any, per_axis(2, most=1 << 24)]
"""A height and a width; an int means both."""
Padding = Annotated[Any, Rule(
    "a non-negative int, (left and right, top and bottom), or (left, top, right, bottom)",
    lambda value: is_int(value) or _SIDES.fits(value),
    lambda value: value >= 0 if is_int(value) else _SIDES.holds(value), _four)]
Fill = Annotated[Any, several(integer(0, 255), 3, one=lambda value: (value,) * 3)]
"""A colour: one number for all channels, or three."""
Plain = Annotated[Any, one_of(Inter.NEAREST, Inter.BILINEAR, kind=Inter)]
"""An `Inter` without more than bilinear mixing."""
