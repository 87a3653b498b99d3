"""Image transforms that give several parts of an image, or one of a certain size.

Source: `mindspore.dataset.vision`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any

import numpy as np

from ...core.declared import NON_NEGATIVE, Flag, NonNegative, Positive
from ..declared import argument
from ..decoding import pillow
from ..rules import Byte, several
from .base import Border, Drawn, Fill, ImageTransform, Inter, OnDevice, Size, is_picture
from .shapes import Resize, Shorter, cropped, with_border

Array = np.ndarray[Any, Any]
_PART = "which part."


class _Parts(ImageTransform):
    """Base of transforms that give several images: of a picture of Pillow, pictures."""

    def _one(self, image: Any, draws: bool = True) -> Any:
        made = super()._one(image, draws)
        if not is_picture(image):
            return made
        return tuple(pillow(type(self).__name__).fromarray(part) for part in made)


class FiveCrop(_Parts):
    """The four corners and the middle of an image: upper left, upper right, lower left, lower
    right, middle.

    Raises:
        ValueError: (when called) the image is smaller.
    """

    size: Size

    def _apply(self, image: Any) -> Any:
        height, width = self.size
        down, right = image.shape[0] - height, image.shape[1] - width
        if down < 0 or right < 0:
            raise ValueError(f"Crop size {self.size} exceeds the size {image.shape[:2]} of the "
                             "input image.")
        corners = [cropped(image, top, left, height, width)
                   for top in (0, down) for left in (0, right)]
        middle = cropped(image, round(down / 2), round(right / 2), height, width)
        return (*corners, middle)


class TenCrop(_Parts):
    """The five parts of `FiveCrop`, then those of the mirrored image.

    Raises:
        ValueError: (when called) the image is smaller.
    """

    size: Size
    use_vertical_flip: Flag = argument(
        default=False, text="mirrored upside down rather than left to right.")

    def _prepare(self) -> None:
        self.five = FiveCrop(self.size)

    def _apply(self, image: Any) -> Any:
        mirrored = image[::-1] if self.use_vertical_flip else image[:, ::-1]
        return (*self.five._apply(image), *self.five._apply(mirrored))


class SliceMode(IntEnum):
    """The treatment of an image that patches do not divide."""

    PAD = 0
    DROP = 1


class SlicePatches(ImageTransform):
    """An image cut into equal patches, row by row.

    Raises:
        RuntimeError: (when called) there are more patches than pixels.
    """

    num_height: Positive = argument(default=1, text="how many patches lie below each other.")
    num_width: Positive = argument(default=1, text="how many patches lie next to each other.")
    slice_mode: SliceMode = argument(
        default=SliceMode.PAD, text="pixels are added at the lower and right edge, or left out "
                                    "there.")
    fill_value: Byte = argument(default=0, text="of added pixels.")

    def _prepare(self) -> None:
        self.counts = (self.num_height, self.num_width)

    def _apply(self, image: Any) -> Any:
        if any(n > count for n, count in zip(self.counts, image.shape, strict=False)):
            raise self._refused(f"{self.counts} patches are more than an image of "
                                f"{image.shape[:2]} has pixels.")
        if self.slice_mode is SliceMode.PAD:
            rest = [-size % n for size, n in zip(image.shape, self.counts, strict=False)]
            image = with_border(image, (0, 0, rest[1], rest[0]), (self.fill_value,) * 3,
                                Border.CONSTANT)
        height, width = (size // n for size, n in zip(image.shape, self.counts, strict=False))
        return tuple(cropped(image, i * height, j * width, height, width)
                     for i in range(self.counts[0]) for j in range(self.counts[1]))


class PadToSize(ImageTransform):
    """Pixels added at the edges up to a size.

    Raises:
        RuntimeError: (when called) the image is larger.
    """

    size: Size = argument(text="an int, or (height, width); not less than the image's.")
    offset: Annotated[Any, several(
        NON_NEGATIVE, 0, 2, one=lambda value: (value, value), error=ValueError)] = argument(
            default=None, text="how many are added at the top and on the left: an int, or (top, "
                               "left); None: the image is in the middle.")
    fill_value: Fill = argument(
        default=0, text="of `Border.CONSTANT`: one number, or one for each channel.")
    padding_mode: Border = Border.CONSTANT

    def _apply(self, image: Any) -> Any:
        added = [size - have for size, have in zip(self.size, image.shape, strict=False)]
        top, left = self.offset or [n // 2 for n in added]
        if added[0] < top or added[1] < left:
            raise self._refused(f"an image of {image.shape[:2]} and the offset {(top, left)} are "
                                f"more than the size {self.size}.")
        return with_border(image, (left, top, added[1] - left, added[0] - top), self.fill_value,
                           self.padding_mode)


class ResizedCrop(OnDevice, ImageTransform):
    """A part of an image in another size.

    Raises:
        RuntimeError: (when called) the part is not within the image.
    """

    top: NonNegative = argument(text=_PART)
    left: NonNegative = argument(text=_PART)
    height: Positive = argument(text=_PART)
    width: Positive = argument(text=_PART)
    size: Size
    interpolation: Inter = Inter.BILINEAR

    def _prepare(self) -> None:
        self.resize = Resize(self.size, self.interpolation)

    def _apply(self, image: Any) -> Any:
        if self.top + self.height > image.shape[0] or self.left + self.width > image.shape[1]:
            raise self._refused(
                f"the part {(self.height, self.width)} at {(self.top, self.left)} is not within "
                f"an image of {image.shape[:2]}.")
        return self.resize._apply(cropped(image, self.top, self.left, self.height, self.width))


class RandomResize(Drawn):
    """`Resize` with an interpolation that is drawn: NEAREST, BILINEAR, BICUBIC or AREA."""

    size: Shorter = argument(text="(height, width), or an int for the shorter side.")

    def _draw(self, image: Any) -> None:
        ways = (Inter.BILINEAR, Inter.NEAREST, Inter.BICUBIC, Inter.AREA)
        self._drawn = [Resize(self.size, ways[self.random.below(4)])]


__all__ = ["FiveCrop", "PadToSize", "RandomResize", "ResizedCrop", "SliceMode", "SlicePatches",
           "TenCrop"]
