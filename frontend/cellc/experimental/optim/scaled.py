"""Optimizers of `experimental.optim` that scale by past squares: Adadelta, Adagrad, RMSprop.

Source: the same names in `mindspore.experimental.optim`.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import Flag
from ...ops.optimizer_rules import squares
from ...ops.optimizer_rules.averages import weighted
from .optimizer import (
    NON_NEGATIVE,
    Group,
    NonNegative,
    Optimizer,
    Option,
    PositiveOption,
    Ratio,
    rate_of,
)


class Adadelta(Optimizer):
    """Steps scaled by the ratio of past steps and past gradients (Zeiler, 2012).

    Args:
        params, lr, weight_decay, maximize: see `SGD`.
        rho: decay rate of both averages, in [0, 1].
        eps: positive.
    """

    states = (("accum", "zeros"), ("accum_update", "zeros"))

    def __init__(
        self, params: Any, lr: Any = 1.0, rho: Ratio = 0.9,
        eps: PositiveOption = 1e-6, weight_decay: float = 0.0, *, maximize: Flag = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize})

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        rho = group["rho"]
        return squares.adadelta(parameter, gradient, rate_of(group, parameter), *state,
                                rho=(rho, 1.0 - rho), epsilon=group["eps"])


class Adagrad(Optimizer):
    """s += g**2; p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps) (Duchi et al., 2011).

    Args:
        params, lr, weight_decay, maximize: see `SGD`.
        lr_decay: decay of the rate, non-negative.
        initial_accumulator_value: s at first, non-negative.
        eps: non-negative.
    """

    states = (("accum", "initial_accumulator_value"),)
    _counter = "step_t"

    def __init__(
        self, params: Any, lr: Any = 1e-2, lr_decay: Option = 0.0, weight_decay: float = 0.0,
        initial_accumulator_value: NonNegative = 0.0, eps: Option = 1e-10, *,
        maximize: Flag = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "maximize": maximize})

    def _start(self, start: Any, group: Group) -> Any:
        return NON_NEGATIVE(group[start], self.cls_name, start)

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        rate = ops.cast(group["lr"] / (1.0 + (t - 1.0) * group["lr_decay"]), parameter.dtype)
        return squares.adagrad(parameter, gradient, rate, *state, epsilon=group["eps"])


class RMSprop(Optimizer):
    """s = alpha s + (1 - alpha) g**2; v = momentum v + g / (sqrt(s) + eps); p -= lr v.

    Args:
        params, lr, weight_decay, maximize: see `SGD`.
        alpha, momentum: non-negative.
        eps: positive.
        centered: subtract the square of the mean gradient from s.
    """

    states = (("mean_grad", "zeros"), ("mean_square", "zeros"), ("moment", "zeros"))

    def __init__(
        self, params: Any, lr: Any = 1e-2, alpha: Option = 0.99, eps: PositiveOption = 1e-8,
        weight_decay: float = 0.0, momentum: Option = 0.0, centered: bool = False,
        maximize: Flag = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "maximize": maximize})

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        mean_grad, mean_square, moment = state
        mean, decay = None, (group["alpha"], 1.0 - group["alpha"])
        square = spread = weighted(mean_square, ops.square(gradient), decay)
        if group["centered"]:
            mean = weighted(mean_grad, gradient, decay)
            spread = square - ops.square(mean)
        step = moment * group["momentum"] + gradient / (ops.sqrt(spread) + group["eps"])
        return parameter - rate_of(group, parameter) * step, mean, square, step
