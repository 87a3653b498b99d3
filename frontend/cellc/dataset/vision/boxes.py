"""Image transforms that keep bounding boxes where they belong.

They are called with an image and its boxes [count, 4 or more]: x, y, width and height in pixels,
then anything. Boxes come back in an array of the same dtype.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from ...core.declared import Flag, Function, Positive, Share
from ..declared import Fields, argument
from ..rules import span
from ..transforms import RandomTransform, Transform
from .base import Border, Fill, Inter, Padding, Size
from .cutting import RandomResize
from .shapes import RandomCrop, RandomResizedCrop, Resize, Shorter

Array = np.ndarray[Any, Any]


class _WithBoxes(Fields, Transform):
    """Base of transforms of (image, boxes)."""

    def __call__(self, *args: Any) -> Any:
        """The image and the boxes.

        Raises:
            RuntimeError: no image, or boxes that are not within it.
        """
        if len(args) != 2:
            raise self._refused(f"an image and its boxes are wanted, but {len(args)} values came.")
        image, boxes = (self._array(a) for a in args)
        if image.ndim not in (2, 3) or not image.size:
            raise self._refused("an image should have the shape [height, width] or [height, width, "
                                f"channels], but has {image.shape}.")
        if boxes.ndim != 2 or boxes.shape[1] < 4 or not len(boxes):
            raise self._refused("boxes should have the shape [count, 4 or more], but have "
                                f"{boxes.shape}.")
        x, y, w, h = boxes[:, :4].astype(np.float64).T
        inside = (x >= 0) & (y >= 0) & (x + w <= image.shape[1]) & (y + h <= image.shape[0])
        if not (inside & (w > 0) & (h > 0)).all():
            first = int(np.flatnonzero(~(inside & (w > 0) & (h > 0)))[0])
            raise self._refused(f"bounding box {first}, {boxes[first, :4].tolist()} (x, y, width, "
                                "height), is empty or not within the image of "
                                f"{image.shape[:2]} pixels.")
        return self._both(image, boxes.copy())

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        """The work, for a subclass to do."""
        raise TypeError(f"{type(self).__name__} is no transform by itself.")


class _RandomWithBoxes(_WithBoxes, RandomTransform):
    """Base of those that draw."""


def _within(boxes: Array, top: int, left: int, height: int, width: int) -> Array:
    """Return boxes' parts within a part of the image, as seen there; one of zeros if none."""
    ends = np.array([width, height])
    start = boxes[:, :2].astype(np.float64) - (left, top)
    low, high = np.clip(start, 0, ends), np.clip(start + boxes[:, 2:4], 0, ends)
    made = boxes[((high - low) > 0).all(1)]
    kept = ((high - low) > 0).all(1)
    if not kept.any():
        return np.zeros((1, boxes.shape[1]), boxes.dtype)
    made[:, :2], made[:, 2:4] = low[kept], (high - low)[kept]
    return made


def _scaled(boxes: Array, before: tuple[int, ...], after: tuple[int, ...]) -> Array:
    """Boxes of an image that has another size now."""
    down, across = (new / old for new, old in zip(after[:2], before[:2], strict=True))
    boxes[:, :4] = boxes[:, :4] * np.array([across, down, across, down])
    return boxes


class _Mirrored(_RandomWithBoxes):
    """Base of those that perhaps turn an axis around."""

    prob: Share = argument(default=0.5, text="how likely it is.")
    _axis = 0

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        if not self.random.happens(self.prob):
            return image, boxes
        start = 1 - self._axis
        boxes[:, start] = image.shape[self._axis] - boxes[:, start] - boxes[:, start + 2]
        return np.ascontiguousarray(np.flip(image, self._axis)), boxes


class RandomHorizontalFlipWithBBox(_Mirrored):
    """Perhaps the image and its boxes mirrored left to right."""

    _axis = 1


class RandomVerticalFlipWithBBox(_Mirrored):
    """Perhaps the image and its boxes upside down."""


class ResizeWithBBox(_WithBoxes):
    """`Resize`, of the boxes too."""

    size: Shorter
    interpolation: Inter = Inter.BILINEAR

    def _prepare(self) -> None:
        self.resize = Resize(self.size, self.interpolation)

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.resize(image)
        return made, _scaled(boxes, image.shape, made.shape)


class _Inner(_RandomWithBoxes):
    """Base of those that are a random transform of the image, and say what it does to boxes."""

    _transform: ClassVar[Any] = None  # Made of the arguments

    def _prepare(self) -> None:
        self.inner: Any = self._transform(*(getattr(self, name) for name in self._takes.split()))

    def bound(self, seed: int) -> RandomTransform:
        """The same, and so the transform of the image."""
        made = super().bound(seed)
        assert isinstance(made, _Inner)
        made.inner = self.inner.bound(seed) if hasattr(self.inner, "bound") else self.inner
        return made


class RandomResizeWithBBox(_Inner):
    """`RandomResize`, of the boxes too."""

    size: Shorter
    _transform: ClassVar[Any] = RandomResize

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.inner(image)
        return made, _scaled(boxes, image.shape, made.shape)


class RandomCropWithBBox(_Inner):
    """`RandomCrop`, of the boxes too; those beyond it are left out (a box of zeros if all are)."""

    size: Size
    padding: Padding = argument(default=None, text="see `RandomCrop`.")
    pad_if_needed: Flag = argument(default=False, text="see `RandomCrop`.")
    fill_value: Fill = argument(default=0, text="see `RandomCrop`.")
    padding_mode: Border = Border.CONSTANT
    _transform: ClassVar[Any] = RandomCrop

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.inner(image)
        (top, left), (above, beside) = self.inner.corner, self.inner.added(image)
        return made, _within(boxes, top - above, left - beside, *made.shape[:2])


class RandomResizedCropWithBBox(_Inner):
    """`RandomResizedCrop`, of the boxes too; those beyond it are left out (a box of zeros if all
    are)."""

    size: Size
    scale: Annotated[Any, span(0)] = argument(default=(0.08, 1.0), text="see `RandomResizedCrop`.")
    ratio: Annotated[Any, span(1e-9)] = argument(
        default=(3.0 / 4.0, 4.0 / 3.0), text="see `RandomResizedCrop`.")
    interpolation: Inter = Inter.BILINEAR
    max_attempts: Positive = argument(default=10, text="see `RandomResizedCrop`.")
    _transform: ClassVar[Any] = RandomResizedCrop

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.inner(image)
        top, left, height, width = self.inner.part
        found = _within(boxes, top, left, height, width)
        return made, _scaled(found, (height, width), made.shape)


class BoundingBoxAugment(_Inner):
    """Transforms the contents of some of the boxes.

    Raises:
        RuntimeError: (when called) the transform gives another size.
    """

    transform: Function = argument(text="of an image, which keeps its size.")
    ratio: Share = argument(default=0.3, text="how likely it is for each box.")

    def _prepare(self) -> None:
        self.inner = self.transform

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = image.copy()
        for x, y, w, h in boxes[:, :4].astype(np.int64):
            if w and h and self.random.happens(self.ratio):
                part = made[y : y + h, x : x + w]
                new = np.asarray(self.inner(part.copy()))
                if new.shape != part.shape:
                    raise self._refused(f"the transform made {new.shape} of a box {part.shape}: "
                                        "it should keep the size.")
                part[...] = new
        return made, boxes


__all__ = [
    "BoundingBoxAugment", "RandomCropWithBBox", "RandomHorizontalFlipWithBBox",
    "RandomResizeWithBBox", "RandomResizedCropWithBBox", "RandomVerticalFlipWithBBox",
    "ResizeWithBBox",
]
