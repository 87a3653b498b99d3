"""A convolution or dense layer followed by normalisation and activation.

Source: `mindspore.nn.Conv2dBnAct`, `mindspore.nn.DenseBnAct`.
"""

from __future__ import annotations

from typing import Any

from ...core.declared import Flag
from ...tensors.tensor import Tensor
from ..cell import Cell
from .activation import LeakyReLU
from .basic import Dense, activation_of
from .conv import Conv2d
from .normalization import BatchNorm1d, BatchNorm2d


def _activation(activation: Any, alpha: float, what: str) -> Any:
    """As `activation_of`, "leakyrelu" with its slope."""
    leaky = isinstance(activation, str) and activation == "leakyrelu"
    return LeakyReLU(alpha) if leaky else activation_of(activation, what)


class Conv2dBnAct(Cell):
    """A convolution, a BatchNorm if requested, an activation if given. `nn.Conv2dBnAct`.

    Args:
        in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group,
            has_bias, weight_init, bias_init: of the `Conv2d`.
        has_bn: whether a BatchNorm follows.
        momentum, eps: of the BatchNorm.
        activation: a Cell, a Primitive or its name.
        alpha: the slope of a `"leakyrelu"`.
        after_fake: accepted for compatibility (quantisation).
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        pad_mode: str = "same", padding: Any = 0, dilation: Any = 1, group: int = 1,
        has_bias: bool = False, weight_init: Any = "normal", bias_init: Any = "zeros",
        has_bn: Flag = False, momentum: float = 0.997, eps: float = 1e-5, activation: Any = None,
        alpha: float = 0.2, after_fake: Flag = True,
    ) -> None:
        super().__init__()
        what = self.cls_name
        self.conv = Conv2d(in_channels, out_channels, kernel_size, stride, pad_mode, padding,
                           dilation, group, has_bias, weight_init, bias_init)
        self.has_bn = has_bn
        self.has_act = activation is not None
        self.after_fake = after_fake
        if has_bn:
            self.batchnorm = BatchNorm2d(out_channels, eps, momentum)
        self.activation = _activation(activation, alpha, what)

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        out: Tensor = self.conv(x)
        if self.has_bn:
            out = self.batchnorm(out)
        if self.has_act:
            out = self.activation(out)
        return out


class DenseBnAct(Cell):
    """A dense layer, a BatchNorm if requested, an activation if given. `nn.DenseBnAct`.

    Args:
        in_channels, out_channels, weight_init, bias_init, has_bias: of the `Dense`.
        has_bn, momentum, eps, activation, alpha, after_fake: as in `Conv2dBnAct`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, weight_init: Any = "normal",
        bias_init: Any = "zeros", has_bias: bool = True, has_bn: Flag = False,
        momentum: float = 0.9, eps: float = 1e-5, activation: Any = None, alpha: float = 0.2,
        after_fake: Flag = True,
    ) -> None:
        super().__init__()
        what = self.cls_name
        self.dense = Dense(in_channels, out_channels, weight_init, bias_init, has_bias)
        self.has_bn = has_bn
        self.has_act = activation is not None
        self.after_fake = after_fake
        if has_bn:
            self.batchnorm = BatchNorm1d(out_channels, eps, momentum)
        self.activation = _activation(activation, alpha, what)

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels) to (N, out_channels)."""
        out: Tensor = self.dense(x)
        if self.has_bn:
            out = self.batchnorm(out)
        if self.has_act:
            out = self.activation(out)
        return out
