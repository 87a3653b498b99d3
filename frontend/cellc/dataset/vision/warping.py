"""Affine and perspective transforms of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from ...core.declared import Number, PositiveNumber, Rule, Share, number, one_of
from ..declared import argument, state
from ..decoding import pillow
from ..rules import about_zero, several, span
from .base import Drawn, Fill, ImageTransform, Inter, OnDevice, Plain, RandomImageTransform
from .opencv import projected, warped

Array = np.ndarray[Any, Any]


Shear = Annotated[Any, several(number(), 2, one=lambda value: (value, 0.0))]


class Affine(OnDevice, ImageTransform):
    """The image rotated clockwise, sheared, scaled and moved, about its middle."""

    degrees: Number = argument(text="of the rotation.")
    translate: Annotated[Any, several(number(-1, 1), 2)] = argument(
        text="(right, down), as parts of width and height, from -1 to 1.")
    scale: PositiveNumber = argument(text="positive.")
    shear: Shear = argument(text="degrees: a number along x, or (along x, along y).")
    resample: Plain = Inter.NEAREST
    fill_value: Fill = argument(default=0, text="of what is beyond the edges.")

    def _apply(self, image: Any) -> Any:
        height, width = image.shape[:2]
        moved = (self.translate[0] * width, self.translate[1] * height)
        middle = ((width - 1) / 2, (height - 1) / 2)
        forward = _matrix(self.degrees, moved, self.scale, self.shear, middle)
        return warped(image, forward, height, width, self.resample, self.fill_value)


def _matrix(
    degrees: float, moved: tuple[float, float], scale: float, shear: tuple[float, ...],
    middle: tuple[float, float],
) -> Array:
    """Where pixels go: [2, 3]."""
    turn, (along_x, along_y) = math.radians(degrees), (math.radians(s) for s in shear)
    first = math.cos(turn - along_y) / math.cos(along_y)
    third = math.sin(turn - along_y) / math.cos(along_y)
    made = scale * np.array([
        [first, -first * math.tan(along_x) - math.sin(turn)],
        [third, -third * math.tan(along_x) + math.cos(turn)]])
    forward = np.column_stack([made, np.add(middle, moved) - made @ np.array(middle)])
    return forward.astype(np.float32)  # as MindSpore keeps it


Angles = Annotated[Any, span(-math.inf, one=about_zero)]
_RANGE = several(number(), 2, one=about_zero, rising=True)
_FOUR = several(number(), 4)
_SHEARS = Rule("a non-negative number, (min, max), or two of these",
               lambda value: _RANGE.fits(value) or _FOUR.fits(value),
               lambda value: not _RANGE.fits(value) or _RANGE.holds(value),
               lambda value: (_RANGE if _RANGE.fits(value) else _FOUR).normal(value))


class RandomAffine(Drawn):
    """`Affine` with what is drawn."""

    degrees: Angles = argument(text="a number x for -x to x, or (least, greatest).")
    translate: Annotated[Any, several(number(-1, 1), 2, 4)] = argument(
        default=None, none=(0.0, 0.0),
        text="(least, greatest of x), or also (least, greatest of y), as parts of width and height "
             "from -1 to 1; None for none.")
    scale: Annotated[Any, span(0)] = argument(
        default=None, none=(1.0, 1.0), text="(least, greatest); None for 1.")
    shear: Annotated[Any, _SHEARS] = argument(
        default=None, none=(0.0, 0.0),
        text="a number x for -x to x along the width; two, the range of that; four, a second "
             "range along the height; None for none.")
    resample: Plain = Inter.NEAREST
    fill_value: Fill = argument(default=0, text="see `Affine`.")

    def _prepare(self) -> None:
        self.translate, self.shear = (
            (*pair, 0.0, 0.0) if len(pair) == 2 else pair for pair in (self.translate, self.shear))
        if not self.scale[1]:
            raise ValueError(f"For 'RandomAffine', 'scale' must be positive, but got {self.scale}.")

    def _draw(self, image: Any) -> None:
        real, t, s = self.random.real, self.translate, self.shear
        self._drawn = [Affine(
            real(*self.degrees), (real(t[0], t[1]), real(t[2], t[3])), real(*self.scale),
            (real(s[0], s[1]), real(s[2], s[3])), self.resample, self.fill_value)]


Corners = Annotated[Any, several(several(number(-1e9, 1e9), 2), 4)]


class Perspective(OnDevice, ImageTransform):
    """The image seen from elsewhere.

    Raises:
        RuntimeError: (when called) three of them lie on a line.
    """

    start_points: Corners = argument(
        text="four places [x, y]: upper left, upper right, lower right, lower left.")
    end_points: Corners = argument(text="where they go.")
    interpolation: Plain = Inter.BILINEAR

    def _apply(self, image: Any) -> Any:
        try:
            _back(self.start_points, self.end_points)
        except np.linalg.LinAlgError:
            raise self._refused(f"three of the points {self.end_points} lie on a line.") from None
        return projected(image, self.start_points, self.end_points, self.interpolation)


def _back(start: Sequence[Sequence[float]], end: Sequence[Sequence[float]]) -> Array:
    """The eight numbers that say where the pixels at `end` come from."""
    rows: list[list[float]] = []
    for (x, y), (u, v) in zip(end, start, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -x * u, -y * u], [0, 0, 0, x, y, 1, -x * v, -y * v]]
    return np.linalg.solve(np.array(rows), np.array(start, np.float64).ravel())


class RandomPerspective(RandomImageTransform):
    """Perhaps `Perspective`, each corner moved inwards at random."""

    distortion_scale: Share = argument(
        default=0.5, text="how far at most: as part of half of the image, from 0 to 1.")
    prob: Share = argument(default=0.5, text="how likely it is.")
    interpolation: Annotated[Any, one_of(
        Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC, kind=Inter)] = Inter.BICUBIC
    _drawn: Array | None = state(default=None)

    def _draw(self, image: Any) -> None:
        self._drawn = None
        if not self.random.happens(self.prob):
            return
        height, width = image.shape[:2]
        far = [int(self.distortion_scale * n / 2) + 1 for n in (width, height)]
        moved = [[self.random.below(n) for n in far] for _ in range(4)]
        corners = [(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)]
        ends = [[abs(at - by) for at, by in zip(c, m, strict=True)]
                for c, m in zip(corners, moved, strict=True)]
        self._drawn = _back(corners, ends)

    def _apply(self, image: Any) -> Any:
        if self._drawn is None:
            return image
        library = pillow("RandomPerspective")
        ways = library.Resampling
        way = {Inter.NEAREST: ways.NEAREST, Inter.BILINEAR: ways.BILINEAR,
               Inter.BICUBIC: ways.BICUBIC}[self.interpolation]
        plane = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
        made = library.fromarray(plane).transform(
            plane.shape[1::-1], library.Transform.PERSPECTIVE, self._drawn.tolist(), way)
        return np.asarray(made).reshape(image.shape)


__all__ = ["Affine", "Perspective", "RandomAffine", "RandomPerspective"]
