"""A classifier's last layer on normalised inputs and weights."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...tensors.initializer import initializer
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..cell import Cell
from ..layer.basic import Dense


class CommonHeadLastFN(Cell):
    """multiplier * (x / |x| @ (weight / |weight|).T + bias), a Dense layer of directions.

    Args:
        in_channels, out_channels: lengths of inputs and outputs.
        weight_init, bias_init: initial values.
        has_bias: whether there is a bias.

    Inputs:
        (n, in_channels) floats.

    Outputs:
        (n, out_channels).
    """

    def __init__(
        self, in_channels: int, out_channels: int, weight_init: Any = "normal",
        bias_init: Any = "zeros", has_bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = Parameter(initializer(weight_init, (out_channels, in_channels)),
                                name="weight")
        self.multiplier = Parameter(Tensor([1.0]), name="multiplier")
        self.has_bias = has_bias
        if has_bias:
            self.bias = Parameter(initializer(bias_init, (out_channels,)), name="bias")

    def construct(self, x: Tensor) -> Tensor:
        """The layer's outputs."""
        out = ops.matmul(_directions(x), ops.transpose(_directions(self.weight), (1, 0)))
        if self.has_bias:
            out = out + self.bias
        return self.multiplier * out


def _directions(x: Tensor) -> Tensor:
    return ops.L2Normalize(axis=1)(x)


class LessBN(Cell):
    """A network that is marked `less_bn`, its last Dense layers on normalised values if requested.

    Args:
        network: the network, which is changed.
        fn_flag: let the last Dense of each Cell be a `CommonHeadLastFN`.

     The mark itself changes nothing on a CPU, as in MindSpore.
    """

    def __init__(self, network: Cell, fn_flag: bool = False) -> None:
        super().__init__()
        self.network = network
        if "less_bn" not in network.get_flags():
            network.set_boost("less_bn")
            network.update_cell_prefix()
            if fn_flag:
                _normalise_heads(network)
            network.add_flags(defer_inline=True)

    def construct(self, *inputs: Any) -> Any:
        """Return the network's result."""
        return self.network(*inputs)


def _normalise_heads(net: Cell) -> None:
    dense = [(n, c) for n, c in net.name_cells().items() if isinstance(c, Dense)]
    for cell in net.name_cells().values():
        if not isinstance(cell, Dense) and cell is not net:
            _normalise_heads(cell)
    if dense:
        name, old = dense[-1]
        new = CommonHeadLastFN(old.in_channels, old.out_channels, old.weight, has_bias=False)
        new.update_parameters_name(f"{old.param_prefix}.")
        net.insert_child_to_cell(name, new)
