"""Pooling layers of `mint.nn`."""

from __future__ import annotations

from typing import Any

from ....nn.cell import Cell
from ....nn.layer.base import Family
from ....tensors.tensor import Tensor
from .. import functional


class _Adaptive(Family):
    """Windows that divide the last axes evenly, so that `output_size` come out.

    Args:
        output_size: a size for each axis (None: that of the input), or one for all.
    """

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_Adaptive):
    """Means of windows of (N, C, L) or (C, L). Source: `mindspore.mint.nn.AdaptiveAvgPool1d`."""

    def construct(self, input: Tensor) -> Any:
        """(N, C, output_size)."""
        return functional.adaptive_avg_pool1d(input, self.output_size)

    def extend_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class _AdaptiveAvg(_Adaptive):
    def construct(self, input: Tensor) -> Any:
        """(N, C, *output_size)."""
        return self._function(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvg, function=functional.adaptive_avg_pool2d):
    """Means of windows of (N, C, H, W) or (C, H, W). Source: `mint.nn.AdaptiveAvgPool2d`."""

    extend_repr = AdaptiveAvgPool1d.extend_repr


class AdaptiveAvgPool3d(_AdaptiveAvg, function=functional.adaptive_avg_pool3d):
    """Means of windows of (N, C, D, H, W) or (C, D, H, W). Source: `mint.nn.AdaptiveAvgPool3d`."""


class AdaptiveMaxPool1d(_Adaptive):
    """Maxima of windows of (N, C, L) or (C, L). Source: `mindspore.mint.nn.AdaptiveMaxPool1d`.

    Args:
        output_size: how many come out.
        return_indices: return also the position of each, int64.
    """

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def construct(self, input: Tensor) -> Any:
        """(N, C, output_size), with `return_indices` a pair."""
        return functional.adaptive_max_pool1d(input, self.output_size, self.return_indices)

    def extend_repr(self) -> str:
        """The options."""
        return f"output_size={self.output_size}, return_indices={self.return_indices}"


class AdaptiveMaxPool2d(_Adaptive):
    """Maxima of windows of (N, C, H, W) or (C, H, W). Source: `mint.nn.AdaptiveMaxPool2d`.

    Args:
        output_size: rows and columns (None: those of the input), or one int for both.
        return_indices: return also the position of each in its plane, int64.
    """

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def construct(self, input: Tensor) -> Any:
        """(N, C, *output_size), with `return_indices` a pair."""
        return functional.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class MaxUnpool2d(Cell):
    """Maxima put back where they came from, zeros elsewhere. Source: `mint.nn.MaxUnpool2d`.

    Args:
        kernel_size, stride, padding: of the pooling; the stride is the kernel if None.
    """

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def construct(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """(N, C, H, W) and the positions `max_pool2d` gave to (N, C, H', W')."""
        return functional.max_unpool2d(input, indices, self.kernel_size, self.stride,
                                       self.padding, output_size)
