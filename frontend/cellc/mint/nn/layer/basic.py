"""Layers of `mint.nn` that rearrange: Flatten, PixelShuffle, upsampling.

Source: `mindspore.mint.nn`.
"""

from __future__ import annotations

from typing import Any

from ....nn.layer import basic
from ....nn.layer.base import Layer, OfInput
from ....tensors.tensor import Tensor
from .. import functional


class Flatten(basic.Flatten):
    """The axes from `start_dim` to `end_dim` as one.

    Args:
        start_dim, end_dim: the first and last axis.
    """

    def construct(self, input: Tensor) -> Any:
        """The same elements."""
        return functional.flatten(input, self.start_dim, self.end_dim)


class Fold(OfInput, function=functional.fold):
    """Columns (N, C kH kW, positions) summed into images (N, C, H, W). Source: `mint.nn.Fold`.

    Without N where the input has none.

    Args:
        output_size: rows and columns of the images.
        kernel_size, dilation, padding, stride: of the windows, rows and columns.
    """

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


class PixelShuffle(OfInput, function=functional.pixel_shuffle):
    """(..., C r r, H, W) rearranged to (..., C, H r, W r). Source: `mint.nn.PixelShuffle`.

    Args:
        upscale_factor: r.
    """

    upscale_factor: int


class _Upsampling(Layer):
    """Images resized in one mode.

    Args:
        size: rows and columns; or `scale_factor`: what to multiply them by.
    """

    size: Any = None
    scale_factor: Any = None


class UpsamplingNearest2d(_Upsampling):
    """Images resized by the nearest element."""

    def construct(self, input: Tensor) -> Any:
        """(N, C, H, W) to (N, C, *size)."""
        return functional.interpolate(input, self.size, self.scale_factor, "nearest")


class UpsamplingBilinear2d(_Upsampling):
    """Images resized by bilinear interpolation, corners aligned."""

    def construct(self, input: Tensor) -> Any:
        """(N, C, H, W) to (N, C, *size)."""
        return functional.interpolate(input, self.size, self.scale_factor, "bilinear", True)
