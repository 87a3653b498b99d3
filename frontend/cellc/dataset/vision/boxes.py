"""Image transforms that keep bounding boxes where they belong.

They are called with an image and its boxes [count, 4 or more]: x, y, width and height in pixels,
then anything. Boxes come back in an array of the same dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..declared import Fields, number
from ..transforms import RandomTransform, Transform
from .base import Border, Inter
from .cutting import RandomResize
from .shapes import RandomCrop, RandomResizedCrop, Resize

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


class RandomHorizontalFlipWithBBox(_RandomWithBoxes):
    """Perhaps the image and its boxes mirrored left to right."""

    prob: float = number(0.0, 1.0, default=0.5, text="how likely it is.")

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        if not self.random.happens(self.prob):
            return image, boxes
        boxes[:, 0] = image.shape[1] - boxes[:, 0] - boxes[:, 2]
        return np.ascontiguousarray(image[:, ::-1]), boxes


class RandomVerticalFlipWithBBox(_RandomWithBoxes):
    """Perhaps the image and its boxes upside down."""

    prob: float = number(0.0, 1.0, default=0.5, text="how likely it is.")

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        if not self.random.happens(self.prob):
            return image, boxes
        boxes[:, 1] = image.shape[0] - boxes[:, 1] - boxes[:, 3]
        return np.ascontiguousarray(image[::-1]), boxes


class ResizeWithBBox(_WithBoxes):
    """`Resize`, of the boxes too.

    Args:
        size, interpolation: see there.

    Source: `mindspore.dataset.vision.ResizeWithBBox`.
    """

    def __init__(self, size: Any, interpolation: Inter = Inter.BILINEAR) -> None:
        self.resize = Resize(size, interpolation)

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.resize(image)
        return made, _scaled(boxes, image.shape, made.shape)


class _Inner(_RandomWithBoxes):
    """Base of those that are a random transform of the image, and say what it does to boxes."""

    inner: Any

    def bound(self, seed: int) -> RandomTransform:
        """The same, and so the transform of the image."""
        made = super().bound(seed)
        assert isinstance(made, _Inner)
        made.inner = self.inner.bound(seed) if hasattr(self.inner, "bound") else self.inner
        return made


class RandomResizeWithBBox(_Inner):
    """`RandomResize`, of the boxes too.

    Args:
        size: see there.

    Source: `mindspore.dataset.vision.RandomResizeWithBBox`.
    """

    def __init__(self, size: Any) -> None:
        self.inner = RandomResize(size)

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.inner(image)
        return made, _scaled(boxes, image.shape, made.shape)


class RandomCropWithBBox(_Inner):
    """`RandomCrop`, of the boxes too; those beyond it are left out (a box of zeros if all are).

    Args:
        size, padding, pad_if_needed, fill_value, padding_mode: see there.

    Source: `mindspore.dataset.vision.RandomCropWithBBox`.
    """

    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill_value: Any = 0,
        padding_mode: Border = Border.CONSTANT,
    ) -> None:
        self.inner = RandomCrop(size, padding, pad_if_needed, fill_value, padding_mode)

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.inner(image)
        (top, left), (above, beside) = self.inner.corner, self.inner.added(image)
        return made, _within(boxes, top - above, left - beside, *made.shape[:2])


class RandomResizedCropWithBBox(_Inner):
    """`RandomResizedCrop`, of the boxes too; those beyond it are left out (a box of zeros if all
    are).

    Args:
        size, scale, ratio, interpolation, max_attempts: see there.

    Source: `mindspore.dataset.vision.RandomResizedCropWithBBox`.
    """

    def __init__(
        self, size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Inter = Inter.BILINEAR, max_attempts: int = 10,
    ) -> None:
        self.inner = RandomResizedCrop(size, scale, ratio, interpolation, max_attempts)

    def _both(self, image: Array, boxes: Array) -> tuple[Array, Array]:
        made = self.inner(image)
        top, left, height, width = self.inner.part
        found = _within(boxes, top, left, height, width)
        return made, _scaled(found, (height, width), made.shape)


class BoundingBoxAugment(_Inner):
    """Transforms the contents of some of the boxes.

    Args:
        transform: of an image, which keeps its size.
        ratio: how likely it is for each box.

    Raises:
        RuntimeError: (when called) the transform gives another size.

    Source: `mindspore.dataset.vision.BoundingBoxAugment`.
    """

    def __init__(self, transform: Any, ratio: float = 0.3) -> None:
        if not callable(transform):
            raise TypeError(f"Argument transform should be a transform, but got {transform!r}.")
        self.inner = transform
        self.ratio = checks.number("ratio", ratio, 0.0, 1.0)

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
