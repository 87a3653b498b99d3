"""The two transformations of images around Winograd's convolution.

F(4x4, 3x3): tiles of 4 x 4 outputs from 6 x 6 inputs, `Y = A' [(G g G') * (B' d B)] A`.
Source: Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016, section 4.3.

The pass `winograd` of `numerics="fast"` makes them; they have no public function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32
from cellc_runtime.records import dataclass

from ..ir import attributes as attr
from ..ir.op import Array, Op, Sample, Spec
from ..ir.types import TensorType

TILE = 4  # Rows and columns of outputs that a tile gives
PATCH = 6  # Rows and columns of inputs that a tile reads

G = np.array([[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
              [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]])
B = np.array([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
              [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]], float).T
A = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0],
              [0, 1, -1, 8, -8, 1]], float).T


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of `n` images of `h` x `w` outputs."""

    n: int
    h: int
    w: int

    @property
    def rows(self) -> int:
        """Tiles down an image."""
        return -(-self.h // TILE)

    @property
    def columns(self) -> int:
        """Tiles along a row."""
        return -(-self.w // TILE)

    @property
    def count(self) -> int:
        """All tiles."""
        return self.n * self.rows * self.columns


def _images(name: str, x: TensorType, rank: int) -> None:
    if x.rank != rank or x.dtype is not float32:
        raise TypeError(f"{name} needs a float32 tensor of {rank} dimensions, got {x}")


class WinogradInput(Op):
    """`B' d B` of each 6 x 6 patch d of images (N, C, H, W): (36, C, tiles).

    Patches overlap by two and each gives 4 x 4 outputs of a 3 x 3 convolution of stride 1.
    Source: Lavin & Gray 2016.

    Attributes:
        pads: zeros added at the top, bottom, left and right.
    """

    name = "winograd_input"
    opaque = True
    operands = ("input",)
    attrs = {"pads": attr.tuple_of(attr.whole(0, attr.MOST_COUNTED), 4)}
    dtypes = (float32,)
    cost = "heavy"
    tolerance = 64.0

    def infer(self, x: TensorType, *, pads: tuple[int, int, int, int]) -> TensorType:
        _images("winograd_input", x, 4)
        return TensorType((36, x.dims[1], tiles_of(x, pads).count), x.dtype)

    def reference(self, x: Array, *, pads: tuple[int, int, int, int]) -> Array:
        return self._by(B, x, pads).astype(x.dtype)

    def summed(self, *arrays: Array, **attrs: Any) -> Array:
        """Each sum of the transform."""
        return self._by(np.abs(B), np.abs(arrays[0]), attrs["pads"])

    def _by(self, matrix: Array, x: Array, pads: tuple[int, int, int, int]) -> Array:
        tiles = tiles_of(TensorType(x.shape, float32), pads)
        n, c = x.shape[:2]
        bottom = 4 * tiles.rows + 2 - x.shape[2] - pads[0]
        right = 4 * tiles.columns + 2 - x.shape[3] - pads[2]
        padded = np.pad(x, ((0, 0), (0, 0), (pads[0], max(bottom, 0)), (pads[2], max(right, 0))))
        d = np.empty((6, 6, n, c, tiles.rows, tiles.columns), x.dtype)
        for i in range(tiles.rows):
            for j in range(tiles.columns):
                patch = padded[:, :, 4 * i:4 * i + 6, 4 * j:4 * j + 6]
                d[..., i, j] = np.moveaxis(patch, (2, 3), (0, 1))
        out = _transformed(d, matrix).swapaxes(2, 3)
        return out.reshape(36, c, tiles.count)

    def samples(self) -> Sequence[Sample]:
        return tuple(
            Sample((Spec(shape),), {"pads": pads}, grad=False) for shape, pads in (
                ((1, 2, 8, 8), (1, 1, 1, 1)), ((2, 3, 5, 71), (0, 0, 0, 0)),
                ((1, 1, 3, 3), (0, 0, 0, 0)), ((2, 1, 7, 130), (1, 0, 2, 1)),
                ((0, 2, 8, 8), (1, 1, 1, 1)))
        )


class WinogradOutput(Op):
    """`A' m A` of each tile: products (36, C, tiles) to images (N, C, H, W).

    Source: Lavin & Gray 2016.

    Attributes:
        n, h, w: images, and rows and columns of each.
    """

    name = "winograd_output"
    opaque = True
    operands = ("products",)
    attrs = {"n": attr.size(), "h": attr.size(), "w": attr.size()}
    dtypes = (float32,)
    cost = "heavy"
    tolerance = 64.0

    def infer(self, m: TensorType, *, n: int, h: int, w: int) -> TensorType:
        _images("winograd_output", m, 3)
        tiles = Tiles(n, h, w)
        if (m.dims[0], m.dims[2]) != (36, tiles.count):
            raise ValueError(f"winograd_output needs (36, C, {tiles.count}), got {m}")
        return TensorType((n, m.dims[1], h, w), m.dtype)

    def reference(self, m: Array, *, n: int, h: int, w: int) -> Array:
        return self._by(A, m, Tiles(n, h, w)).astype(m.dtype)

    def summed(self, *arrays: Array, **attrs: Any) -> Array:
        """Each sum of the transform."""
        return self._by(np.abs(A), np.abs(arrays[0]), Tiles(**attrs))

    def _by(self, matrix: Array, m: Array, tiles: Tiles) -> Array:
        n, h, w = tiles.n, tiles.h, tiles.w
        parts = m.reshape(6, 6, m.shape[1], n, tiles.rows, tiles.columns)
        out = _transformed(parts, matrix).transpose(3, 2, 4, 0, 5, 1)
        full = out.reshape(n, m.shape[1], 4 * tiles.rows, 4 * tiles.columns)
        return full[:, :, :h, :w]

    def samples(self) -> Sequence[Sample]:
        return tuple(
            Sample((Spec((36, c, Tiles(n, h, w).count)),), {"n": n, "h": h, "w": w},
                   grad=False)
            for n, c, h, w in ((1, 2, 8, 8), (2, 3, 3, 69), (1, 1, 1, 1), (2, 1, 5, 128),
                               (0, 2, 8, 8))
        )


def tiles_of(x: TensorType, pads: tuple[int, int, int, int]) -> Tiles:
    """The tiles of a 3 x 3 convolution over images of a type. Raises ValueError if the kernel does
    not fit."""
    n, _, h, w = x.dims
    h, w = h + pads[0] + pads[1] - 2, w + pads[2] + pads[3] - 2
    if h < 1 or w < 1:
        raise ValueError(f"a 3x3 kernel does not fit the padded image {x}")
    return Tiles(n, h, w)


def _transformed(d: Array, matrix: Array) -> Array:
    """`matrix' d matrix` over the first two axes; a factor of 0 reads nothing, not even NaN."""
    for axis in (0, 1):
        d = np.stack([
            sum(c * d.take(p, axis) for p, c in enumerate(column) if c) for column in matrix.T
        ], axis)
    return d
