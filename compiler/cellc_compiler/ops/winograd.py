"""The two transformations of images around Winograd's convolution; see `kernels/winograd.py`.

The pass `winograd` of `numerics="fast"` makes them; they have no public function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cellc_runtime.dtypes import float32
from cellc_runtime.lazy import lazy_module
from cellc_runtime.target import Target

from ..ir.graph import Node
from ..ir.op import REQUIRED, Array, Op, Sample, Spec, register
from ..ir.types import TensorType
from ..lower.plan import KernelPlan, Step
from .conv import tile_epilogue

if TYPE_CHECKING:
    from ..backends.cpu.kernels import winograd as kernels
    from ..backends.cpu.nests.epilogue import Fused
else:  # kernel families load when one is generated
    kernels = lazy_module("cellc_compiler.backends.cpu.kernels.winograd")


def _images(name: str, x: TensorType, rank: int) -> None:
    if x.rank != rank or x.dtype is not float32:
        raise TypeError(f"{name} needs a float32 tensor of {rank} dimensions, got {x}")


@register
class WinogradInput(Op):
    """`B' d B` of each 6 x 6 patch d of images (N, C, H, W): (36, C, tiles).

    Patches overlap by two and each gives 4 x 4 outputs of a 3 x 3 convolution of stride 1.
    Source: Lavin & Gray 2016.

    Attributes:
        pads: zeros added at the top, bottom, left and right.
    """

    name = "winograd_input"
    operands = ("input",)
    attrs = {"pads": REQUIRED}
    dtypes = (float32,)
    cost = "heavy"
    tolerance = 64.0

    def infer(self, x: TensorType, *, pads: tuple[int, int, int, int]) -> TensorType:
        _images("winograd_input", x, 4)
        return TensorType((36, x.dims[1], _tiles(x, pads).count), x.dtype)

    def reference(self, x: Array, *, pads: tuple[int, int, int, int]) -> Array:
        tiles = _tiles(TensorType(x.shape, float32), pads)
        n, c = x.shape[:2]
        bottom = 4 * tiles.rows + 2 - x.shape[2] - pads[0]
        right = 4 * tiles.columns + 2 - x.shape[3] - pads[2]
        padded = np.pad(x, ((0, 0), (0, 0), (pads[0], max(bottom, 0)), (pads[2], max(right, 0))))
        d = np.empty((6, 6, n, c, tiles.rows, tiles.columns), x.dtype)
        for i in range(tiles.rows):
            for j in range(tiles.columns):
                patch = padded[:, :, 4 * i:4 * i + 6, 4 * j:4 * j + 6]
                d[..., i, j] = np.moveaxis(patch, (2, 3), (0, 1))
        out = _transformed(d, kernels.B).swapaxes(2, 3)
        return out.reshape(36, c, -1).astype(x.dtype)

    def kernels(self, node: Node, target: Target) -> KernelPlan:
        (x,), pads = node.operands, node.attrs["pads"]
        if node.result.type.size == 0:
            return KernelPlan(())
        tiles = _tiles(x.type, pads)
        _, channels, h, w = x.shape
        kernel = kernels.input_kernel(tiles, channels, (h, w), (pads[0], pads[2]), target)
        return KernelPlan((Step(kernel, ("in0", "out0")),))

    def samples(self) -> Sequence[Sample]:
        return tuple(
            Sample((Spec(shape),), {"pads": pads}, grad=False) for shape, pads in (
                ((1, 2, 8, 8), (1, 1, 1, 1)), ((2, 3, 5, 71), (0, 0, 0, 0)),
                ((1, 1, 3, 3), (0, 0, 0, 0)), ((2, 1, 7, 130), (1, 0, 2, 1)),
                ((0, 2, 8, 8), (1, 1, 1, 1)))
        )


@register
class WinogradOutput(Op):
    """`A' m A` of each tile: products (36, C, tiles) to images (N, C, H, W).

    Source: Lavin & Gray 2016.

    Attributes:
        n, h, w: images, and rows and columns of each.
    """

    name = "winograd_output"
    operands = ("products",)
    attrs = {"n": REQUIRED, "h": REQUIRED, "w": REQUIRED}
    dtypes = (float32,)
    cost = "heavy"
    tolerance = 64.0

    def infer(self, m: TensorType, *, n: int, h: int, w: int) -> TensorType:
        _images("winograd_output", m, 3)
        tiles = kernels.Tiles(n, h, w)
        if (m.dims[0], m.dims[2]) != (36, tiles.count):
            raise ValueError(f"winograd_output needs (36, C, {tiles.count}), got {m}")
        return TensorType((n, m.dims[1], h, w), m.dtype)

    def reference(self, m: Array, *, n: int, h: int, w: int) -> Array:
        tiles = kernels.Tiles(n, h, w)
        parts = m.reshape(6, 6, m.shape[1], n, tiles.rows, tiles.columns)
        out = _transformed(parts, kernels.A).transpose(3, 2, 4, 0, 5, 1)
        full = out.reshape(n, m.shape[1], 4 * tiles.rows, 4 * tiles.columns)
        return full[:, :, :h, :w].astype(m.dtype)

    def kernels(self, node: Node, target: Target, epilogue: Fused | None = None) -> KernelPlan:
        """The kernel; `epilogue` is applied to outputs before the store."""
        n, channels, h, w = node.result.shape
        if node.result.type.size == 0:
            return KernelPlan(())
        tiles = kernels.Tiles(n, h, w)
        if epilogue is None:
            kernel = kernels.output_kernel(tiles, channels, target)
            return KernelPlan((Step(kernel, ("in0", "out0")),))
        extra = len(epilogue.operands)
        kernel = kernels.output_kernel(
            tiles, channels, target, tile_epilogue(epilogue, target), extra
        )
        roles = ("in0", "out0", "out0", *(f"epilogue{i}" for i in range(extra)))
        return KernelPlan((Step(kernel, roles),))

    def samples(self) -> Sequence[Sample]:
        return tuple(
            Sample((Spec((36, c, kernels.Tiles(n, h, w).count)),), {"n": n, "h": h, "w": w},
                   grad=False)
            for n, c, h, w in ((1, 2, 8, 8), (2, 3, 3, 69), (1, 1, 1, 1), (2, 1, 5, 128),
                               (0, 2, 8, 8))
        )


def _tiles(x: TensorType, pads: tuple[int, int, int, int]) -> kernels.Tiles:
    n, _, h, w = x.dims
    h, w = h + pads[0] + pads[1] - 2, w + pads[2] + pads[3] - 2
    if h < 1 or w < 1:
        raise ValueError(f"a 3x3 kernel does not fit the padded image {x}")
    return kernels.Tiles(n, h, w)


def _transformed(d: Array, matrix: Array) -> Array:
    """`matrix' d matrix` over the first two axes; a factor of 0 reads nothing, not even NaN."""
    for axis in (0, 1):
        d = np.stack([
            sum(c * d.take(p, axis) for p, c in enumerate(column) if c) for column in matrix.T
        ], axis)
    return d
