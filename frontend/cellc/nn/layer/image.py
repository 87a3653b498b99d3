"""Images: cropping, differences, and measures of how alike two images are.

Source: `mindspore.nn`.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import Float, Positive, PositiveFloat, instance, misuse, number
from ...tensors.tensor import Tensor
from ..cell import Cell
from .activation import ReLU
from .base import Layer
from .container import CellList
from .conv import Conv2d
from .pooling import AvgPool2d

Fraction = Annotated[float, number(0, 1, ends="(]", whole=False)]
MaxValue = Annotated[float, number(0, ends="(]", normal=lambda value: value)]
"""The largest pixel value."""
Weights = Annotated[Any, instance(tuple, list)]


def _pair(img1: Tensor, img2: Tensor, what: str) -> None:
    """Two batches of images of one type and shape."""
    for name, img in (("img1", img1), ("img2", img2)):
        if img.ndim != 4:
            raise misuse(what, f"the dimension of '{name}' must be 4d", img.ndim)
    if img1.dtype != img2.dtype:
        raise misuse(what, "'img1' and 'img2' must have one type", f"{img1.dtype} and {img2.dtype}",
                     TypeError)
    if img1.shape != img2.shape:
        raise misuse(what, "'img1' and 'img2' must have one shape",
                     f"{img1.shape} and {img2.shape}")


class CentralCrop(Layer):
    """The middle of images.

    Args:
        central_fraction: what part of rows and columns stays, a float in (0, 1].
    """

    central_fraction: Fraction

    def construct(self, image: Tensor) -> Tensor:
        """(C, H, W) or (N, C, H, W), cut on all four sides."""
        if image.ndim not in (3, 4):
            raise ValueError(f"CentralCrop image must be 3d or 4d, but got shape {image.shape}")
        h, w = image.shape[-2], image.shape[-1]
        top = int((h - h * self.central_fraction) / 2)
        left = int((w - w * self.central_fraction) / 2)
        return image[..., top : h - top, left : w - left]


class ImageGradients(Cell):
    """The differences of neighbouring pixels of (N, C, H, W) along columns, x[h + 1] - x[h], and
    along rows: two Tensors of that shape, with zeros in the last row or column."""

    def construct(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(N, C, H, W) to two of that shape; the last row or column is zero."""
        if images.ndim != 4:
            raise misuse("ImageGradients", "the dimension of 'images' must be 4d", images.ndim)
        down = ops.pad(images[:, :, 1:] - images[:, :, :-1], (0, 0, 0, 1))
        right = ops.pad(images[:, :, :, 1:] - images[:, :, :, :-1], (0, 1))
        return down, right


class PSNR(Layer):
    """The peak signal-to-noise ratio of two batches of images, in dB. `mindspore.nn.PSNR`.

    Args:
        max_val: the range of pixel values, above zero.
    """

    max_val: MaxValue = 1.0

    def construct(self, img1: Tensor, img2: Tensor) -> Tensor:
        """Two tensors (N, C, H, W) to (N), float32."""
        _pair(img1, img2, "PSNR")
        apart = ops.cast(img1, float32) - ops.cast(img2, float32)
        mse = ops.mean(ops.square(apart), (-3, -2, -1))
        return 10 * ops.log10(self.max_val**2 / mse)


class _Structure(Cell):
    """The common part of structure measures: a Gaussian window and the constants; see `SSIM`."""

    def __init__(
        self, max_val: MaxValue, filter_size: Positive, filter_sigma: PositiveFloat, k1: Float,
        k2: Float,
    ) -> None:
        super().__init__()
        self.max_val = max_val
        self.filter_size = filter_size
        self.filter_sigma = filter_sigma
        self.k1 = k1
        self.k2 = k2

    def _convolution(self) -> Conv2d:
        """The window as a convolution of one channel that is not trained."""
        offsets = np.arange(self.filter_size, dtype=np.float64) - (self.filter_size - 1) / 2
        line = np.exp(-np.square(offsets) / (2 * self.filter_sigma**2))
        window = np.outer(line, line) / np.sum(np.outer(line, line))
        size = self.filter_size
        conv = Conv2d(1, 1, size, pad_mode="valid",
                      weight_init=Tensor(window.reshape(1, 1, size, size).astype(np.float32)))
        conv.weight.requires_grad = False
        return conv

    def _check_images(self, img1: Tensor, img2: Tensor) -> None:
        _pair(img1, img2, self.cls_name)
        for axis in (2, 3):
            if img1.shape[axis] < self.filter_size:
                raise misuse(self.cls_name,
                             f"the img1 shape[{axis}] should be >= filter_size: {self.filter_size}",
                             img1.shape[axis])


def _smooth(conv: Cell, x: Tensor) -> Tensor:
    """Each channel of (N, C, H, W) convolved on its own."""
    n, c, h, w = x.shape
    out = conv(ops.reshape(x, (n * c, 1, h, w)))
    return ops.reshape(out, (n, c) + out.shape[2:])


def _terms(conv: Cell, x: Tensor, y: Tensor, c1: float, c2: float) -> tuple[Tensor, Tensor]:
    """The terms of luminance and of contrast and structure of (N, C, H, W), for each window."""
    mean_x, mean_y = _smooth(conv, x), _smooth(conv, y)
    product = mean_x * mean_y * 2.0
    squares = ops.square(mean_x) + ops.square(mean_y)
    luminance = (product + c1) / (squares + c1)
    together = _smooth(conv, x * y) * 2.0
    apart = _smooth(conv, ops.square(x) + ops.square(y))
    return luminance, (together - product + c2) / (apart - squares + c2)


class SSIM(_Structure):
    """The structural similarity of two batches of images (Wang et al. 2004). `mindspore.nn.SSIM`.

    Args:
        max_val: the range of pixel values, above zero.
        filter_size, filter_sigma: size and standard deviation of the Gaussian window.
        k1, k2: constants of the terms of luminance and of contrast.
    """

    def __init__(
        self, max_val: MaxValue = 1.0, filter_size: int = 11, filter_sigma: float = 1.5,
        k1: float = 0.01, k2: float = 0.03,
    ) -> None:
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        self.conv = self._convolution()

    def construct(self, img1: Tensor, img2: Tensor) -> Tensor:
        """Two tensors (N, C, H, W) to (N), float32."""
        self._check_images(img1, img2)
        c1, c2 = (self.k1 * self.max_val) ** 2, (self.k2 * self.max_val) ** 2
        luminance, structure = _terms(
            self.conv, ops.cast(img1, float32), ops.cast(img2, float32), c1, c2)
        return ops.mean(ops.mean(luminance * structure, (2, 3)), -1)


class MSSSIM(_Structure):
    """The structural similarity over several scales (Wang et al. 2003). `mindspore.nn.MSSSIM`.

    Args:
        max_val: the range of pixel values, above zero.
        power_factors: the weight of each scale, each half as fine as the one before.
        filter_size, filter_sigma: size and standard deviation of the Gaussian window.
        k1, k2: constants of the terms of luminance and of contrast.
    """

    def __init__(
        self, max_val: MaxValue = 1.0,
        power_factors: Weights = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333), filter_size: int = 11,
        filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03,
    ) -> None:
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        self.power_factors = power_factors
        self.level = len(power_factors)
        self.multi_convs_list = CellList([self._convolution() for _ in power_factors])
        self.avg_pool = AvgPool2d(kernel_size=2, stride=2, pad_mode="valid")
        self.relu = ReLU()

    def construct(self, img1: Tensor, img2: Tensor) -> Tensor:
        """Two tensors (N, C, H, W) to (N), float32; the window fits the coarsest scale."""
        self._check_images(img1, img2)
        small = 2 ** (self.level - 1) * self.filter_size
        if min(img1.shape[2:]) < small:
            raise misuse("MSSSIM", f"rows and columns must be at least {small} for {self.level} "
                         f"scales and windows of {self.filter_size}, but 'img1' has shape "
                         f"{img1.shape}")
        c1, c2 = (self.k1 * self.max_val) ** 2, (self.k2 * self.max_val) ** 2
        x, y = ops.cast(img1, float32), ops.cast(img2, float32)
        product: Any = 1.0
        for i in range(self.level):
            if i > 0:
                x, y = self.avg_pool(x), self.avg_pool(y)
            luminance, structure = _terms(self.multi_convs_list[i], x, y, c1, c2)
            term = luminance * structure if i == self.level - 1 else structure
            mean = self.relu(ops.mean(term, (2, 3)))
            product = product * ops.pow(mean, self.power_factors[i])
        return ops.mean(product, -1)
