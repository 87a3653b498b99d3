"""Stochastic gradient descent and Momentum. Source: the same names in `mindspore.nn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import Flag, misuse
from ...ops.optimizer_rules import momentum as rules
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..registering import opt_init_args_register
from .by_rule import NonNegativeOption, RuleOptimizer, decay_pair
from .optimizer import Optimizer, wide


class SGD(Optimizer):
    """v = momentum v + (1 - dampening) g; p -= lr v (with Nesterov, lr (g + momentum v)).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        momentum, dampening: non-negative. In the first step v is g.
        nesterov: needs a momentum and no dampening.
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.1, momentum: NonNegativeOption = 0.0,
        dampening: NonNegativeOption = 0.0, weight_decay: Any = 0.0, nesterov: Flag = False,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        what = self.cls_name
        self.dampening = dampening
        self.nesterov = nesterov
        if nesterov and (momentum == 0.0 or dampening != 0.0):
            raise misuse(what, "if 'nesterov' is true, 'momentum' must be > 0.0 and 'dampening' "
                         "must equal to 0.0", f"'momentum' {momentum}, 'dampening' {dampening}")
        self.has_momentum = momentum > 0.0
        self.momentum = Parameter(Tensor(momentum, float32), name="momentum")
        self.accum = self.state_of("accum", "zeros")
        self.stat = self.state_of("stat", "ones")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their `accum` and `stat`."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        momentum = self.momentum if self.has_momentum else None
        rest = decay_pair(self.dampening)[1]
        for i in range(self.param_length):
            new = _sgd(self.own_part(i), gradients[i], self.accum[i], self.stat[i], momentum,
                       lr[i] if self.is_group_lr else lr, rest, self.nesterov)
            self.put_part(i, new)
        return self.done()


def _sgd(
    parameter: Any, gradient: Any, accum: Parameter, stat: Parameter, momentum: Any,
    lr: Any, rest: float, nesterov: bool,
) -> Any:
    """The value that `SGD` gives to one parameter; its state is assigned."""
    weight, gradient, rate, velocity = wide(parameter, gradient, lr, accum)
    step = gradient
    if momentum is not None:
        momentum = ops.cast(momentum, weight.dtype)
        velocity = rules.next_velocity(gradient, velocity, momentum, rest, stat > 0)
        step = gradient + velocity * momentum if nesterov else velocity
        ops.assign(accum, velocity)
        ops.assign(stat, ops.zeros_like(stat))
    return weight - step * rate


class Momentum(RuleOptimizer):
    """v = momentum v + g; p -= lr v (with Nesterov, lr (g + momentum v)).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        momentum: non-negative.
        use_nesterov: as above.
    """

    _rule = staticmethod(rules.momentum)
    _state, _constants = ("moments",), ("momentum", "use_nesterov")

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any, momentum: NonNegativeOption, weight_decay: Any = 0.0,
        loss_scale: float = 1.0, use_nesterov: Flag = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.use_nesterov = use_nesterov
        self.momentum = Parameter(Tensor(np.float32(momentum)), name="momentum")
        self.params = self.parameters
        self.moments = self.state_of("moments", "zeros")
