"""Layers of `mint.nn` that rearrange: Flatten, PixelShuffle, upsampling."""

from __future__ import annotations

from typing import Any

from ....nn.cell import Cell
from ....nn.layer import basic
from ....tensors.tensor import Tensor
from .. import functional


class Flatten(basic.Flatten):
    """The axes from `start_dim` to `end_dim` as one. Source: `mindspore.mint.nn.Flatten`.

    Args:
        start_dim, end_dim: the first and last axis.
    """

    def construct(self, input: Tensor) -> Any:
        """The same elements."""
        return functional.flatten(input, self.start_dim, self.end_dim)


class Fold(Cell):
    """Columns (N, C kH kW, positions) summed into images. Source: `mindspore.mint.nn.Fold`.

    Args:
        output_size: rows and columns of the images.
        kernel_size, dilation, padding, stride: of the windows, rows and columns.
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def construct(self, input: Tensor) -> Any:
        """(N, C, H, W), without N where the input has none."""
        return functional.fold(input, self.output_size, self.kernel_size, self.dilation,
                               self.padding, self.stride)


class PixelShuffle(Cell):
    """(..., C r r, H, W) rearranged to (..., C, H r, W r). Source: `mint.nn.PixelShuffle`.

    Args:
        upscale_factor: r.
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def construct(self, input: Tensor) -> Any:
        """The same elements."""
        return functional.pixel_shuffle(input, self.upscale_factor)


class _Upsampling(Cell):
    """Images resized in one mode.

    Args:
        size: rows and columns; or `scale_factor`: what to multiply them by.
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor


class UpsamplingNearest2d(_Upsampling):
    """Images resized by the nearest element. Source: `mindspore.mint.nn.UpsamplingNearest2d`."""

    def construct(self, input: Tensor) -> Any:
        """(N, C, H, W) to (N, C, *size)."""
        return functional.interpolate(input, self.size, self.scale_factor, "nearest")


class UpsamplingBilinear2d(_Upsampling):
    """Images resized by bilinear interpolation, corners aligned.

    Source: `mindspore.mint.nn.UpsamplingBilinear2d`.
    """

    def construct(self, input: Tensor) -> Any:
        """(N, C, H, W) to (N, C, *size)."""
        return functional.interpolate(input, self.size, self.scale_factor, "bilinear", True)
