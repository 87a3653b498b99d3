"""Layers whose weights are distributions, and the loss that trains these.

Source: `mindspore.nn.probability.bnn_layers`.
"""

from __future__ import annotations

from typing import Any

from .... import ops
from ....core.declared import Flag, Positive, checks_arguments, number
from ....tensors.tensor import Tensor
from ...cell import Cell
from ...layer.activation import get_activation
from ...layer.base import shown
from ...layer.conv import Conv2d
from ..distribution import Normal
from .normals import NormalPrior, Variational, normal_post_fn


class _Dense(Variational):
    """A dense layer whose weight (out, in) and bias (out) are distributions."""

    def __init__(
        self, in_channels: Positive, out_channels: Positive, activation: Any = None,
        has_bias: Flag = True, weight_prior_fn: Any = NormalPrior,
        weight_posterior_fn: Any = normal_post_fn,
        bias_prior_fn: Any = NormalPrior, bias_posterior_fn: Any = normal_post_fn,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.has_bias = has_bias
        self._distributions((out_channels, in_channels), (
            weight_prior_fn, weight_posterior_fn, bias_prior_fn, bias_posterior_fn))
        self.activation = get_activation(activation) if isinstance(activation, str) else activation
        if self.activation is not None and not isinstance(self.activation, Cell):
            raise ValueError("The type of `activation` is wrong.")

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels) to (N, out_channels)."""
        out = self._with_bias(self._weighted(x))
        return out if self.activation is None else self.activation(out)

    def extend_repr(self) -> str:
        """Sizes and parameters."""
        out = f"{shown(self, 'in_channels out_channels')}, {self._shown()}"
        return out if self.activation is None else f"{out}, activation={self.activation}"


class DenseReparam(_Dense):
    """A dense layer that draws its weight and bias in each call.

    Args:
        in_channels, out_channels: sizes.
        activation: a Cell or its name, applied last.
        has_bias: whether a bias is added.
        weight_prior_fn, bias_prior_fn: the distributions expected: Cells, or what makes them.
        weight_posterior_fn, bias_posterior_fn: what makes those trained, of `name` and `shape`.
    """

    def _weighted(self, x: Tensor) -> Tensor:
        return ops.matmul(x, ops.transpose(self.weight_posterior("sample"), (1, 0)))


class DenseLocalReparam(_Dense):
    """A dense layer that draws its products, whose distribution follows from the weight's.

    The gradient varies less than that of `DenseReparam`, whose arguments it has.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.normal = Normal()

    def _weighted(self, x: Tensor) -> Tensor:
        mean, sd = self.weight_posterior("get_dist_args")
        centre = ops.matmul(x, ops.transpose(mean, (1, 0)))
        spread = ops.sqrt(ops.matmul(x * x, ops.transpose(sd * sd, (1, 0))))
        return self.normal("sample", mean=centre, sd=spread)


class ConvReparam(Variational, Conv2d):
    """A 2-D convolution that draws its weight and bias in each call.

    Args:
        in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group,
            has_bias: as in `nn.Conv2d`, whose own weight and bias stay unused and untrained.
        weight_prior_fn, weight_posterior_fn, bias_prior_fn, bias_posterior_fn: as in
            `DenseReparam`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        pad_mode: str = "same", padding: Any = 0, dilation: Any = 1, group: int = 1,
        has_bias: bool = False, weight_prior_fn: Any = NormalPrior,
        weight_posterior_fn: Any = normal_post_fn, bias_prior_fn: Any = NormalPrior,
        bias_posterior_fn: Any = normal_post_fn,
    ) -> None:
        Conv2d.__init__(self, in_channels, out_channels, kernel_size, stride, pad_mode, padding,
                        dilation, group, has_bias, "normal", "zeros")
        self.weight.requires_grad = False
        if self.bias is not None:
            self.bias.requires_grad = False
        self._distributions(self.weight.shape, (
            weight_prior_fn, weight_posterior_fn, bias_prior_fn, bias_posterior_fn))

    def construct(self, x: Tensor) -> Tensor:
        """(N, in_channels, H, W) to (N, out_channels, H', W')."""
        out = ops.conv2d(x, self.weight_posterior("sample"), None, self.stride, self.pad_mode,
                         self.padding, self.dilation, self.group)
        return self._with_bias(out)

    def extend_repr(self) -> str:
        """Sizes, options and parameters."""
        options = shown(self, "in_channels out_channels kernel_size stride pad_mode padding "
                        "dilation group")
        return f"{options}, {self._shown()}"


class WithBNNLossCell(Cell):
    """A network's loss and the distance of its Bayesian layers' weights from those expected.

    Args:
        backbone: the network.
        loss_fn: of its output and the label.
        dnn_factor: what the loss counts.
        bnn_factor: what the distance counts.
    """

    @checks_arguments
    def __init__(self, backbone: Cell, loss_fn: Any, dnn_factor: float = 1,
                 bnn_factor: float = 1) -> None:
        super().__init__(auto_prefix=False)
        for name, factor in (("dnn_factor", dnn_factor), ("bnn_factor", bnn_factor)):
            number(0)(factor, self.cls_name, name)
        self._backbone, self._loss_fn = backbone, loss_fn
        self.dnn_factor, self.bnn_factor = dnn_factor, bnn_factor
        self.kl_loss = [layer.compute_kl_loss for _, layer in backbone.cells_and_names()
                        if isinstance(layer, Variational)]

    @property
    def backbone_network(self) -> Cell:
        """The network."""
        return self._backbone

    def construct(self, x: Any, label: Any) -> Tensor:
        """The loss for data and labels."""
        loss = self._loss_fn(self._backbone(x), label) * self.dnn_factor
        for distance in self.kl_loss:
            loss = loss + distance() * self.bnn_factor
        return loss
