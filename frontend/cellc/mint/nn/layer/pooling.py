"""Pooling layers of `mint.nn`. Source: `mindspore.mint.nn`."""

from __future__ import annotations

from typing import Any

from ....nn.layer.base import Layer, OfInput
from ....tensors.tensor import Tensor
from .. import functional


class _Adaptive(OfInput):
    """Windows that divide the last axes evenly, so that `output_size` come out.

    Args:
        output_size: a size for each axis (None: that of the input), or one for all.
    """

    output_size: Any


class AdaptiveAvgPool1d(_Adaptive, function=functional.adaptive_avg_pool1d):
    """Means of windows of (N, C, L) or (C, L)."""

    def extend_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(_Adaptive, function=functional.adaptive_avg_pool2d):
    """Means of windows of (N, C, H, W) or (C, H, W). Source: `mint.nn.AdaptiveAvgPool2d`."""

    extend_repr = AdaptiveAvgPool1d.extend_repr


class AdaptiveAvgPool3d(_Adaptive, function=functional.adaptive_avg_pool3d):
    """Means of windows of (N, C, D, H, W) or (C, D, H, W). Source: `mint.nn.AdaptiveAvgPool3d`."""


class AdaptiveMaxPool1d(_Adaptive, function=functional.adaptive_max_pool1d):
    """Maxima of windows of (N, C, L) or (C, L).

    Args:
        output_size: how many come out.
        return_indices: return also the position of each, int64.
    """

    output_size: Any
    return_indices: bool = False

    def extend_repr(self) -> str:
        """The options."""
        return f"output_size={self.output_size}, return_indices={self.return_indices}"


class AdaptiveMaxPool2d(_Adaptive, function=functional.adaptive_max_pool2d):
    """Maxima of windows of (N, C, H, W) or (C, H, W). Source: `mint.nn.AdaptiveMaxPool2d`.

    Args:
        output_size: rows and columns (None: those of the input), or one int for both.
        return_indices: return also the position of each in its plane, int64.
    """

    output_size: Any
    return_indices: bool = False


class MaxUnpool2d(Layer):
    """Maxima put back where they came from, zeros elsewhere. Source: `mint.nn.MaxUnpool2d`.

    Args:
        kernel_size, stride, padding: of the pooling; the stride is the kernel if None.
    """

    kernel_size: Any
    stride: Any = None
    padding: Any = 0

    def construct(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """(N, C, H, W) and the positions `max_pool2d` gave to (N, C, H', W')."""
        return functional.max_unpool2d(input, indices, self.kernel_size, self.stride,
                                       self.padding, output_size)
