"""Pools whose windows lie at drawn places.

Source: `mindspore.nn.FractionalMaxPool2d` and its like; Graham, "Fractional Max-Pooling", 2014.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...tensors.tensor import Tensor
from .base import Layer


class _Fractional(Layer):
    """The common part of pooling at drawn places.

    Args:
        kernel_size: size of a window.
        output_size: size of the result; or
        output_ratio: what part of the input's that is, in (0, 1).
        return_indices: return also the flat position of each.
        _random_samples: (N, C, axes) numbers in [0, 1) that place the windows; drawn if None.
    """

    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: Tensor | None = None


class FractionalMaxPool2d(_Fractional):
    """The largest element of windows at drawn places of (N, C, H, W). `nn.FractionalMaxPool2d`."""

    def construct(self, input: Tensor) -> Any:
        """(N, C, H, W) or (C, H, W) to the size; also positions (int64) if asked for."""
        return ops.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples)


class FractionalMaxPool3d(_Fractional):
    """`FractionalMaxPool2d` for (N, C, D, H, W). Source: `mindspore.nn.FractionalMaxPool3d`."""

    def construct(self, input: Tensor) -> Any:
        """(N, C, D, H, W) or (C, D, H, W) to the size; also positions (int64) if asked for."""
        return ops.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples)
