"""Image transforms that give several parts of an image, or one of a certain size."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

from .. import checks
from ..pictures import pillow
from .base import (
    Border,
    ImageTransform,
    Inter,
    RandomImageTransform,
    fill_of,
    inter_of,
    is_picture,
    pair,
)
from .shapes import Resize, cropped, with_border

Array = np.ndarray[Any, Any]


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

    Args:
        size: of each: an int, or (height, width).

    Raises:
        ValueError: (when called) the image is smaller.

    Source: `mindspore.dataset.vision.FiveCrop`.
    """

    def __init__(self, size: Any) -> None:
        self.size = pair(size)

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

    Args:
        size: of each: an int, or (height, width).
        use_vertical_flip: mirrored upside down rather than left to right.

    Raises:
        ValueError: (when called) the image is smaller.

    Source: `mindspore.dataset.vision.TenCrop`.
    """

    def __init__(self, size: Any, use_vertical_flip: bool = False) -> None:
        self.five = FiveCrop(size)
        self.use_vertical_flip = checks.of_type("use_vertical_flip", use_vertical_flip, bool)

    def _apply(self, image: Any) -> Any:
        mirrored = image[::-1] if self.use_vertical_flip else image[:, ::-1]
        return (*self.five._apply(image), *self.five._apply(mirrored))


class SliceMode(IntEnum):
    """What is done with an image that patches do not divide. Source:
    `mindspore.dataset.vision.SliceMode`."""

    PAD = 0
    DROP = 1


class SlicePatches(ImageTransform):
    """An image cut into equal patches, row by row.

    Args:
        num_height, num_width: how many patches lie below each other, and beside each other.
        slice_mode: pixels are added at the lower and right edge, or left out there.
        fill_value: of added pixels.

    Raises:
        RuntimeError: (when called) there are more patches than pixels.

    Source: `mindspore.dataset.vision.SlicePatches`.
    """

    def __init__(
        self, num_height: int = 1, num_width: int = 1, slice_mode: SliceMode = SliceMode.PAD,
        fill_value: int = 0,
    ) -> None:
        self.counts = (checks.integer("num_height", num_height, 1),
                       checks.integer("num_width", num_width, 1))
        self.slice_mode = checks.of_type("slice_mode", slice_mode, SliceMode)
        self.fill_value = checks.integer("fill_value", fill_value, 0, 255)

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

    Args:
        size: an int, or (height, width); not less than the image's.
        offset: how many are added at the top and on the left: an int, or (top, left); None: the
            image is in the middle.
        fill_value: of `Border.CONSTANT`: one number, or one for each channel.
        padding_mode: a `Border`.

    Raises:
        RuntimeError: (when called) the image is larger.

    Source: `mindspore.dataset.vision.PadToSize`.
    """

    def __init__(
        self, size: Any, offset: Any = None, fill_value: Any = 0,
        padding_mode: Border = Border.CONSTANT,
    ) -> None:
        self.size = pair(size)
        self.offset: tuple[int, ...] | None = None
        if offset is not None:
            checks.of_type("offset", offset, (int, list, tuple))
            many = (offset, offset) if isinstance(offset, int) else tuple(offset)
            if many:
                if len(many) != 2:
                    raise ValueError("offset must be empty or a sequence of 2 integers.")
                self.offset = tuple(checks.integer("offset", n, 0) for n in many)
        self.fill_value = fill_of(fill_value)
        self.padding_mode = checks.of_type("padding_mode", padding_mode, Border)

    def _apply(self, image: Any) -> Any:
        added = [size - have for size, have in zip(self.size, image.shape, strict=False)]
        top, left = self.offset if self.offset is not None else [n // 2 for n in added]
        if added[0] < top or added[1] < left:
            raise self._refused(f"an image of {image.shape[:2]} and the offset {(top, left)} are "
                                f"more than the size {self.size}.")
        return with_border(image, (left, top, added[1] - left, added[0] - top), self.fill_value,
                           self.padding_mode)


class ResizedCrop(ImageTransform):
    """A part of an image in another size.

    Args:
        top, left, height, width: which part.
        size: an int, or (height, width).
        interpolation: an `Inter`.

    Raises:
        RuntimeError: (when called) the part is not within the image.

    Source: `mindspore.dataset.vision.ResizedCrop`.
    """

    def __init__(
        self, top: int, left: int, height: int, width: int, size: Any,
        interpolation: Inter = Inter.BILINEAR,
    ) -> None:
        self.top, self.left = checks.integer("top", top, 0), checks.integer("left", left, 0)
        self.height = checks.integer("height", height, 1)
        self.width = checks.integer("width", width, 1)
        self.resize = Resize(pair(size), interpolation)

    def _apply(self, image: Any) -> Any:
        if self.top + self.height > image.shape[0] or self.left + self.width > image.shape[1]:
            raise self._refused(
                f"the part {(self.height, self.width)} at {(self.top, self.left)} is not within "
                f"an image of {image.shape[:2]}.")
        return self.resize._apply(cropped(image, self.top, self.left, self.height, self.width))


class RandomResize(RandomImageTransform):
    """`Resize` with an interpolation that is drawn: NEAREST, BILINEAR, BICUBIC or AREA.

    Args:
        size: (height, width), or an int for the shorter side.

    Source: `mindspore.dataset.vision.RandomResize`.
    """

    def __init__(self, size: Any) -> None:
        self.size = size
        self._resize = Resize(size)

    def _draw(self, image: Any) -> None:
        ways = (Inter.BILINEAR, Inter.NEAREST, Inter.BICUBIC, Inter.AREA)
        self._resize = Resize(self.size, inter_of(ways[self.random.below(4)]))

    def _apply(self, image: Any) -> Any:
        return self._resize._apply(image)


__all__ = ["FiveCrop", "PadToSize", "RandomResize", "ResizedCrop", "SliceMode", "SlicePatches",
           "TenCrop"]
