"""Optimizers of `experimental.optim` that scale by past squares: Adadelta, Adagrad, RMSprop.

Source: the same names in `mindspore.experimental.optim`.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.declared import Flag
from ...ops.optimizer_rules import squares
from ...ops.optimizer_rules.averages import weighted
from .optimizer import NON_NEGATIVE, NonNegative, Optimizer, Option, PositiveOption, Ratio, rate_of


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

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its statistics are assigned."""
        gradient = self.prepared(group, parameter, gradient)
        rho = group["rho"]
        new, square, later = squares.adadelta(
            parameter, gradient, rate_of(group, parameter), self.accum[i], self.accum_update[i],
            rho=(rho, 1.0 - rho), epsilon=group["eps"])
        ops.assign(self.accum[i], square)
        ops.assign(self.accum_update[i], later)
        return new


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

    def _start(self, start: Any, group: dict[str, Any]) -> Any:
        return NON_NEGATIVE(group[start], self.cls_name, start)

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its `accum` is assigned."""
        gradient = self.prepared(group, parameter, gradient)
        rate = ops.cast(group["lr"] / (1.0 + (t - 1.0) * group["lr_decay"]), parameter.dtype)
        new, total = squares.adagrad(parameter, gradient, rate, self.accum[i],
                                     epsilon=group["eps"])
        ops.assign(self.accum[i], total)
        return new


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

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its statistics are assigned."""
        gradient = self.prepared(group, parameter, gradient)
        decay = group["alpha"], 1.0 - group["alpha"]
        square = spread = weighted(self.mean_square[i], ops.square(gradient), decay)
        if group["centered"]:
            mean = weighted(self.mean_grad[i], gradient, decay)
            spread = square - ops.square(mean)
            ops.assign(self.mean_grad[i], mean)
        step = self.moment[i] * group["momentum"] + gradient / (ops.sqrt(spread) + group["eps"])
        ops.assign(self.mean_square[i], square)
        ops.assign(self.moment[i], step)
        return parameter - rate_of(group, parameter) * step
