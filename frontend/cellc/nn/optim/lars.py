"""LARS: gradients scaled layer by layer before another optimizer takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import Flag, Float, instance, misuse
from ...ops.optimizer_rules import adam as rules
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..registering import opt_init_args_register
from .optimizer import Optimizer


def _suits(parameter: Parameter) -> bool:
    return "LayerNorm" not in parameter.name and "bias" not in parameter.name


class LARS(Optimizer):
    """Layer-wise adaptive rates (You et al., 2017) around another optimizer.

    With |w| and |g| the norms of a parameter and its gradient, and d its weight decay,
    g = coefficient |w| / (|g| + d |w| + epsilon) (g + d w). The factor is 1 where a norm is 0.

    Args:
        optimizer: what takes the new gradients; its weight decay moves here.
        epsilon, coefficient: floats.
        use_clip: divide the factor by the rate and cut it to at most 1; the rates of groups
            must then be the same in all steps.
        lars_filter: gives whether a parameter is scaled; the other gradients stay as they are.

    Source: `mindspore.nn.LARS` (not there on the CPU).
    """

    takes_rows = False  # it scales by norms of whole gradients; the optimizer takes rows of them

    @opt_init_args_register
    def __init__(
        self, optimizer: Any, epsilon: Float = 1e-05, coefficient: Float = 0.001,
        use_clip: Flag = False, lars_filter: Callable[[Parameter], bool] = _suits,
    ) -> None:
        instance(Optimizer)(optimizer, "LARS", "optimizer")
        super().__init__(0.0, [Parameter(Tensor(np.float32(0.0)), name="fake_param")])
        what = self.cls_name
        self.epsilon = epsilon
        self.coefficient = coefficient
        self.use_clip = use_clip
        if use_clip and optimizer.is_group_lr and optimizer.dynamic_lr:
            raise misuse(what, "'use_clip' divides by one rate for each parameter, but the groups "
                         "of this optimizer have rates that change from step to step. Give one "
                         "schedule for all groups, or leave 'use_clip' False")
        self.learning_rate = Parameter(Tensor(0.0, float32), name="fake_lr")
        self.opt = optimizer
        self.lars_flag = tuple(bool(lars_filter(p)) for p in optimizer.parameters)
        self._take_over(optimizer)

    def _take_over(self, optimizer: Optimizer) -> None:
        """Make the other's parameters and weight decay ours."""
        for name in ("parameters", "param_length", "global_step", "is_group", "weight_decay",
                     "dynamic_weight_decay", "decay_flags", "exec_weight_decay", "loss_scale",
                     "reciprocal_scale", "need_scale"):
            setattr(self, name, getattr(optimizer, name))
        optimizer.decay_flags = (False,) * self.param_length
        optimizer.exec_weight_decay = False
        optimizer.need_scale = False
        if self.sharded:
            self.shares = (None,) * self.param_length

    def construct(self, gradients: Any) -> Any:
        """Scale the gradients and give them to the optimizer."""
        scaled = self.scale_grad(gradients)
        rates: Any = self.opt.get_lr() if self.use_clip else 1.0
        many = self.use_clip and self.opt.is_group_lr
        decays = self._plain_decay()
        return self.opt(tuple([
            self._by_layer(
                scaled[i], self.parameters[i],
                self.decay_of(decays, i) if self.decay_flags[i] else 0.0,
                rates[i] if many else rates,
            ) if self.lars_flag[i] else scaled[i]
            for i in range(self.param_length)
        ]))

    def _plain_decay(self) -> Any:
        """The weight decay without the loss scale: the gradients are divided by then."""
        decays = self.get_weight_decay()
        if not self.need_scale:
            return decays
        if self.is_group:
            return [decay * self.reciprocal_scale for decay in decays]
        return decays * self.reciprocal_scale

    def _by_layer(self, gradient: Any, weight: Any, decay: Any, rate: Any) -> Any:
        """A gradient with its decay, times its layer's trust ratio; in the gradient's type."""
        w, g = ops.cast(weight, float32), ops.cast(gradient, float32)
        norms = rules.norm(w), rules.norm(g)
        scaled = rules.lars(w, g, norms, decay, self.epsilon, self.coefficient,
                            rate if self.use_clip else None)
        return ops.cast(scaled, gradient.dtype)
