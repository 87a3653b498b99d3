"""Image transforms that move pixels: flips, crops, padding, resizing, rotation, axes.

Source: `mindspore.dataset.vision`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from ...core.declared import NON_NEGATIVE, Flag, Number, Positive, Rule, number, per_axis
from ..declared import Fields, argument
from ..decoding import decoded, pillow
from ..rules import about_zero, several, span
from ..transforms import NumpyType, Transform
from .base import (
    Border,
    Fill,
    ImageTransform,
    Inter,
    OnDevice,
    Padding,
    Perhaps,
    Plain,
    RandomImageTransform,
    Size,
    is_picture,
)
from .opencv import resized, rotated

Array = np.ndarray[Any, Any]
_FILL = "of `Border.CONSTANT`: one number, or one for each channel."
_NUMPY_BORDERS = {Border.EDGE: "edge", Border.REFLECT: "reflect", Border.SYMMETRIC: "symmetric"}


def cropped(image: Array, top: int, left: int, height: int, width: int) -> Array:
    """A part of an image."""
    return np.ascontiguousarray(image[top : top + height, left : left + width])


def with_border(
    image: Array, padding: tuple[int, int, int, int], fill: tuple[int, int, int], mode: Border
) -> Array:
    """An image with pixels added at its edges."""
    left, top, right, bottom = padding
    edges = [(top, bottom), (left, right)]
    if mode is not Border.CONSTANT:
        beyond = edges + [(0, 0)] * (image.ndim - 2)
        how: Any = _NUMPY_BORDERS[mode]
        return np.pad(image, beyond, how)
    shape = (image.shape[0] + top + bottom, image.shape[1] + left + right, *image.shape[2:])
    colours = np.array(fill, image.dtype)
    value = colours[: image.shape[2]] if image.ndim == 3 and image.shape[2] <= 3 else colours[0]
    made = np.empty(shape, image.dtype)
    made[...] = value
    made[top : top + image.shape[0], left : left + image.shape[1]] = image
    return made


class HorizontalFlip(OnDevice, ImageTransform):
    """The image mirrored left to right."""

    def _apply(self, image: Any) -> Any:
        return np.ascontiguousarray(image[:, ::-1])


class VerticalFlip(OnDevice, ImageTransform):
    """The image upside down."""

    def _apply(self, image: Any) -> Any:
        return np.ascontiguousarray(image[::-1])


class RandomHorizontalFlip(Perhaps, HorizontalFlip):
    """Perhaps the image mirrored left to right."""


class RandomVerticalFlip(Perhaps, VerticalFlip):
    """Perhaps the image upside down."""


class Crop(OnDevice, ImageTransform):
    """A part of the image.

    Raises:
        RuntimeError: (when called) it is not within the image.
    """

    coordinates: Annotated[Any, several(NON_NEGATIVE, 2)] = argument(
        text="its upper left corner (top, left).")
    size: Size

    def _prepare(self) -> None:
        self.top, self.left = self.coordinates

    def _apply(self, image: Any) -> Any:
        if self.top + self.size[0] > image.shape[0] or self.left + self.size[1] > image.shape[1]:
            raise self._refused(f"the part {self.size} at {(self.top, self.left)} is not within an "
                                f"image of {image.shape[:2]}.")
        return cropped(image, self.top, self.left, *self.size)


class CenterCrop(ImageTransform):
    """The middle of the image; what is beyond its edges is 0."""

    size: Size

    def _apply(self, image: Any) -> Any:
        for axis, wanted in enumerate(self.size):
            have = image.shape[axis]
            if have < wanted:
                before = (wanted - have + 1) // 2
                edges = [(0, 0)] * image.ndim
                edges[axis] = (before, wanted - have - before)
                image = np.pad(image, edges)
            else:
                start = (have - wanted) // 2
                image = image[(slice(None),) * axis + (slice(start, start + wanted),)]
        return np.ascontiguousarray(image)


class Pad(OnDevice, ImageTransform):
    """Pixels added at the edges."""

    padding: Padding
    fill_value: Fill = argument(default=0, text=_FILL)
    padding_mode: Border = Border.CONSTANT

    def _apply(self, image: Any) -> Any:
        return with_border(image, self.padding, self.fill_value, self.padding_mode)


class RandomCrop(RandomImageTransform):
    """A part of the image at a random place.

    Raises:
        RuntimeError: (when called) the image is smaller.
    """

    size: Size
    padding: Padding = argument(default=None, none=(0, 0, 0, 0))
    pad_if_needed: Flag = argument(default=False, text="whether a smaller image is padded on both "
                                                       "sides until it is large enough.")
    fill_value: Fill = argument(default=0, text=_FILL)
    padding_mode: Border = Border.CONSTANT

    def _prepare(self) -> None:
        self.corner = (0, 0)

    def _draw(self, image: Any) -> None:
        height, width = self._bordered(image).shape[:2]
        left, top = (self.random.below(max(0, have - want) + 1)
                     for have, want in ((width, self.size[1]), (height, self.size[0])))
        self.corner = (top, left)

    def added(self, image: Any) -> tuple[int, int]:
        """How many pixels are added above and left of an image."""
        more = [b - a for a, b in zip(image.shape, self._bordered(image).shape, strict=True)]
        left, top, right, bottom = self.padding
        return top + (more[0] - top - bottom) // 2, left + (more[1] - left - right) // 2

    def _bordered(self, image: Any) -> Any:
        image = with_border(image, self.padding, self.fill_value, self.padding_mode)
        if self.pad_if_needed:
            down, across = (max(0, want - have) for want, have in
                            zip(self.size, image.shape[:2], strict=True))
            # As MindSpore: what is missing is added at both sides, and the crop falls within.
            image = with_border(image, (across, down, across, down), self.fill_value,
                                self.padding_mode)
        return image

    def _apply(self, image: Any) -> Any:
        image = self._bordered(image)
        if any(have < want for have, want in zip(image.shape[:2], self.size, strict=True)):
            raise self._refused(f"the crop {self.size} is larger than the image "
                                f"{image.shape[:2]}: give a padding, or pad_if_needed.")
        return cropped(image, *self.corner, *self.size)


_PAIR = per_axis(2, most=1 << 24)
Shorter = Annotated[Any, Rule(
    "a positive int or a tuple of 2", _PAIR.fits, _PAIR.holds,
    lambda value: value if isinstance(value, int) else tuple(value))]
"""A size, where an int is that of the shorter edge, and stays one."""


class Resize(OnDevice, ImageTransform):
    """Another size."""

    size: Shorter = argument(
        text="(height, width); an int: the length of the shorter edge, in proportion.")
    interpolation: Inter = argument(
        default=Inter.BILINEAR, text="an `Inter`; ANTIALIAS is for pictures of Pillow, PILCUBIC "
                                     "for uint8.")

    def _one(self, image: Any, draws: bool = True) -> Any:
        if not is_picture(image):
            return super()._one(image, draws)
        library = pillow("Resize")
        how = {Inter.NEAREST: library.NEAREST, Inter.ANTIALIAS: library.LANCZOS,
               Inter.BILINEAR: library.BILINEAR, Inter.AREA: library.BOX}
        height, width = self._wanted((image.height, image.width))
        return image.resize((width, height), how.get(self.interpolation, library.BICUBIC))

    def _apply(self, image: Any) -> Any:
        return resized(image, *self._wanted(image.shape[:2]), self.interpolation)

    def _wanted(self, have: tuple[int, int]) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size[0], self.size[1]
        (height, width), edge = have, self.size
        if height < width:
            return edge, max(1, int(edge / height * width))
        return max(1, int(edge / width * height)), edge


class RandomResizedCrop(RandomImageTransform):
    """A part of the image of random size, shape and place, resized."""

    size: Size = argument(text="of the result: an int, or (height, width).")
    scale: Annotated[Any, span(0)] = argument(
        default=(0.08, 1.0), text="from which to which part of the image's area.")
    ratio: Annotated[Any, span(1e-9)] = argument(
        default=(3.0 / 4.0, 4.0 / 3.0),
        text="from which to which width, relative to the height.")
    interpolation: Inter = Inter.BILINEAR
    max_attempts: Positive = argument(
        default=10, text="how often to draw before the middle is taken.")

    def _prepare(self) -> None:
        self.part = (0, 0, 1, 1)

    def _draw(self, image: Any) -> None:
        self.part = self._part(*image.shape[:2])

    def _apply(self, image: Any) -> Any:
        height, width = self.size
        return resized(cropped(image, *self.part), height, width, self.interpolation)

    def _part(self, height: int, width: int) -> tuple[int, int, int, int]:
        for _ in range(self.max_attempts):
            area = height * width * self.random.real(*self.scale)
            shape = math.exp(self.random.real(math.log(self.ratio[0]), math.log(self.ratio[1])))
            w = round(math.sqrt(area * shape))
            h = round(w / shape)
            if 0 < w <= width and 0 < h <= height:
                left = self.random.below(width - w + 1)
                return self.random.below(height - h + 1), left, h, w
        now = width / height
        w = width if now < self.ratio[0] else min(width, round(height * self.ratio[1]))
        h = height if now > self.ratio[1] else min(height, round(w / min(max(
            w / height, self.ratio[0]), self.ratio[1])))
        return (height - h) // 2, (width - w) // 2, h, w


class Rotate(OnDevice, ImageTransform):
    """The image rotated counter-clockwise."""

    degrees: Number = argument(text="by how much.")
    resample: Plain = Inter.NEAREST
    expand: Flag = argument(
        default=False, text="whether the result is as large as the rotated image.")
    center: Annotated[Any, several(number(normal=lambda value: value), 2)] | None = argument(
        default=None, text="about which pixel (x, y); None for the middle. Not with `expand`.")
    fill_value: Fill = argument(default=0, text="of what is beyond the edges.")

    def _apply(self, image: Any) -> Any:
        # MindSpore gives the last of the three colours to the first channel here.
        return rotated(image, self.degrees, self.resample, self.expand, self.center,
                       self.fill_value[::-1])


class RandomRotation(Rotate, RandomImageTransform):
    """The image rotated by a random angle."""

    degrees: Annotated[Any, span(-math.inf, one=about_zero)] = argument(
        text="between which angles; a number means from minus to plus that.")

    def _prepare(self) -> None:
        self.range = self.degrees

    def _draw(self, image: Any) -> None:
        self.degrees = self.random.real(*self.range)


class HWC2CHW(ImageTransform):
    """Channels first; an image without channels stays."""

    _stays = False

    def _apply(self, image: Any) -> Any:
        return np.ascontiguousarray(image.transpose(2, 0, 1)) if image.ndim == 3 else image


class ToTensor(ImageTransform):
    """Channels first, from 0 to 1: `[channels, height, width]`, divided by 255."""

    output_type: NumpyType = argument(default=np.float32, text="the dtype of the result.")
    _stays = False

    def _apply(self, image: Any) -> Any:
        image = image if image.ndim == 3 else image[..., None]
        scaled = image.transpose(2, 0, 1).astype(np.float32) * np.float32(1 / 255)
        return np.ascontiguousarray(scaled.astype(self.output_type))


class ToType(Fields, Transform):
    """Another element type."""

    data_type: NumpyType = argument(text="a dtype of numpy or cellc.")

    def _apply(self, *args: Any) -> Any:
        return args[0].astype(self.data_type)


class Decode(OnDevice, Fields, Transform):
    """A picture file's bytes as uint8[height, width, 3].

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError, RuntimeError: (when called) no bytes, or no picture.
    """

    to_pil: Flag = argument(default=False, text="whether the result is a picture of Pillow.")

    def _prepare(self) -> None:
        pillow("Decode")

    def __call__(self, *args: Any) -> Any:
        """The picture."""
        (data,) = args
        if isinstance(data, np.ndarray):
            if data.ndim > 1:
                raise TypeError("The number of array dimensions of the encoded image should be 1, "
                                f"but got {data.ndim}.")
            data = data.tobytes()
        if not isinstance(data, bytes):
            raise TypeError(f"Decode: expected the bytes of a picture, but got {type(data)}.")
        image = decoded(data, "Decode").copy()
        return pillow("Decode").fromarray(image) if self.to_pil else image


class RandomCropDecodeResize(RandomResizedCrop):
    """A part of a picture file's image of random size, shape and place, resized: `Decode`, then
    `RandomResizedCrop`, with the draws of the latter.

    Raises:
        ModuleNotFoundError: Pillow is not installed.
        TypeError, RuntimeError: (when called) no bytes, or no picture.
    """

    def __call__(self, *args: Any) -> Any:
        """The part of the picture."""
        return super().__call__(*map(Decode(), args))


class ToPIL(Transform):
    """A picture of Pillow."""

    def __init__(self) -> None:
        pillow("ToPIL")

    def __call__(self, *args: Any) -> Any:
        """The picture."""
        (image,) = args
        if is_picture(image):
            return image
        array = self._array(image)
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        return pillow("ToPIL").fromarray(array)


class ToNumpy(Transform):
    """The array of a picture of Pillow."""

    def _apply(self, *args: Any) -> Any:
        return args[0].copy()


__all__ = [
    "CenterCrop", "Crop", "Decode", "HWC2CHW", "HorizontalFlip", "Pad", "RandomCrop",
    "RandomCropDecodeResize", "RandomHorizontalFlip", "RandomResizedCrop", "RandomRotation",
    "RandomVerticalFlip", "Resize", "Rotate", "ToNumpy", "ToPIL", "ToTensor", "ToType",
    "VerticalFlip",
]
