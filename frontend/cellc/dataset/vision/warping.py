"""Affine and perspective transforms of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import checks
from ..declared import argument, number
from ..decoding import pillow
from .base import ImageTransform, Inter, RandomImageTransform, fill_of, inter_of
from .resampling import projected, warped
from .shapes import plain

Array = np.ndarray[Any, Any]


def _numbers(name: str, given: Any, count: int, low: float, high: float) -> tuple[float, ...]:
    checks.of_type(name, given, (list, tuple))
    if len(given) != count:
        raise TypeError(f"The length of {name} should be {count}, but got {len(given)}.")
    return tuple(checks.number(f"{name}[{i}]", v, low, high) for i, v in enumerate(given))


def _both(name: str, value: Any) -> tuple[float, ...]:
    checks.of_type(name, value, (int, float, list, tuple))
    both: Any = (value, 0.0) if isinstance(value, (int, float)) else value
    return _numbers(name, both, 2, -math.inf, math.inf)


def _scale(name: str, value: Any) -> float:
    found = checks.number(name, value, 0.0)
    if not found:
        raise ValueError(f"Input {name} must be greater than 0.")
    return found


class Affine(ImageTransform):
    """The image rotated clockwise, sheared, scaled and moved, about its middle."""

    degrees: float = number(-math.inf, math.inf, text="of the rotation.")
    translate: Any = argument(
        lambda name, value: _numbers(name, value, 2, -1.0, 1.0),
        text="(right, down), as parts of width and height, from -1 to 1.")
    scale: float = argument(_scale, text="positive.")
    shear: Any = argument(_both, text="degrees: a number along x, or (along x, along y).")
    resample: Inter = argument(plain, default=Inter.NEAREST,
                              text="`Inter.NEAREST` or `Inter.BILINEAR`.")
    fill_value: Any = argument(fill_of, default=0, text="of what is beyond the edges.")

    def _apply(self, image: Any) -> Any:
        height, width = image.shape[:2]
        moved = (self.translate[0] * width, self.translate[1] * height)
        middle = ((width - 1) / 2, (height - 1) / 2)
        forward = _matrix(self.degrees, moved, self.scale, self.shear, middle)
        turn = np.linalg.inv(forward[:, :2])
        back = np.column_stack([turn, -turn @ forward[:, 2]])
        return warped(image, back, height, width, self.resample, self.fill_value)


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
    return np.column_stack([made, np.add(middle, moved) - made @ np.array(middle)])


class RandomAffine(RandomImageTransform):
    """`Affine` with what is drawn.

    Args:
        degrees: a number x for -x to x, or (least, greatest).
        translate: (least, greatest of x), or also (least, greatest of y), as parts of width and
            height from -1 to 1; None for none.
        scale: (least, greatest); None for 1.
        shear: a number x for -x to x along the width; two, the range of that; four, a second
            range along the height; None for none.
        resample, fill_value: see `Affine`.

    Source: `mindspore.dataset.vision.RandomAffine`.
    """

    def __init__(
        self, degrees: Any, translate: Any = None, scale: Any = None, shear: Any = None,
        resample: Inter = Inter.NEAREST, fill_value: Any = 0,
    ) -> None:
        self.degrees = _about_zero("degrees", degrees)
        moved = (0, 0) if translate is None else translate
        checks.of_type("translate", moved, (list, tuple))
        self.translate = _numbers("translate", (*moved, 0, 0) if len(moved) == 2 else moved, 4,
                                  -1.0, 1.0)
        self.scale = (1.0, 1.0) if scale is None else _numbers("scale", scale, 2, 0.0, math.inf)
        if not self.scale[1] or self.scale[0] > self.scale[1]:
            raise ValueError(f"scale should be in (min, max) format and positive, got {scale}.")
        four = shear if isinstance(shear, (list, tuple)) and len(shear) == 4 else None
        self.shear = (0.0, 0.0, 0.0, 0.0) if shear is None else \
            _numbers("shear", four, 4, -math.inf, math.inf) if four is not None else \
            (*_about_zero("shear", shear), 0.0, 0.0)
        self.resample = plain("resample", resample)
        self.fill_value = fill_of("fill_value", fill_value)
        self._drawn: Affine | None = None

    def _draw(self, image: Any) -> None:
        real, t, s = self.random.real, self.translate, self.shear
        self._drawn = Affine(
            real(*self.degrees), (real(t[0], t[1]), real(t[2], t[3])), real(*self.scale),
            (real(s[0], s[1]), real(s[2], s[3])), self.resample, self.fill_value)

    def _apply(self, image: Any) -> Any:
        assert self._drawn is not None
        return self._drawn._apply(image)


def _about_zero(name: str, given: Any) -> tuple[float, float]:
    checks.of_type(name, given, (int, float, list, tuple))
    if isinstance(given, (int, float)):
        if given < 0:
            raise ValueError(f"Input {name} is not within the required interval of [0, inf).")
        given = (-given, given)
    low, high = _numbers(name, given, 2, -math.inf, math.inf)
    if low > high:
        raise ValueError(f"{name} should be in (min, max) format. Got {given}.")
    return low, high


def _corners(name: str, points: Any) -> list[tuple[float, ...]]:
    checks.of_type(name, points, (list, tuple))
    if len(points) != 4:
        raise TypeError(f"{name} should be a list or tuple of length 4, but got {len(points)}.")
    return [_numbers(f"{name}[{i}]", p, 2, -2147483648, 2147483647) for i, p in enumerate(points)]


class Perspective(ImageTransform):
    """The image seen from elsewhere.

    Raises:
        RuntimeError: (when called) three of them lie on a line.
    """

    start_points: Any = argument(
        _corners, text="four places [x, y]: upper left, upper right, lower right, lower left.")
    end_points: Any = argument(_corners, text="where they go.")
    interpolation: Inter = argument(
        plain, default=Inter.BILINEAR, text="`Inter.NEAREST` or `Inter.BILINEAR`.")

    def _apply(self, image: Any) -> Any:
        try:
            back = _back(self.start_points, self.end_points)
        except np.linalg.LinAlgError:
            raise self._refused(f"three of the points {self.end_points} lie on a line.") from None
        return projected(image, np.append(back, 1.0).reshape(3, 3), self.interpolation)


def _back(start: Sequence[Sequence[float]], end: Sequence[Sequence[float]]) -> Array:
    """The eight numbers that say where the pixels at `end` come from."""
    rows: list[list[float]] = []
    for (x, y), (u, v) in zip(end, start, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -x * u, -y * u], [0, 0, 0, x, y, 1, -x * v, -y * v]]
    return np.linalg.solve(np.array(rows), np.array(start, np.float64).ravel())


class RandomPerspective(RandomImageTransform):
    """Perhaps `Perspective`, each corner moved inwards at random.

    Args:
        distortion_scale: how far at most: as part of half of the image, from 0 to 1.
        prob: how likely it is.
        interpolation: `Inter.NEAREST`, `Inter.BILINEAR` or `Inter.BICUBIC`, done by Pillow.

    Source: `mindspore.dataset.vision.RandomPerspective`.
    """

    def __init__(
        self, distortion_scale: float = 0.5, prob: float = 0.5,
        interpolation: Inter = Inter.BICUBIC,
    ) -> None:
        self.distortion_scale = checks.number("distortion_scale", distortion_scale, 0.0, 1.0)
        self.prob = checks.number("prob", prob, 0.0, 1.0)
        self.how = inter_of("interpolation", interpolation)
        if self.how not in (Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC):
            raise ValueError("interpolation should be Inter.NEAREST, Inter.BILINEAR or "
                             f"Inter.BICUBIC, but got {self.how!r}.")
        self._drawn: Array | None = None

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
               Inter.BICUBIC: ways.BICUBIC}[self.how]
        plane = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
        made = library.fromarray(plane).transform(
            plane.shape[1::-1], library.Transform.PERSPECTIVE, self._drawn.tolist(), way)
        return np.asarray(made).reshape(image.shape)


__all__ = ["Affine", "Perspective", "RandomAffine", "RandomPerspective"]
