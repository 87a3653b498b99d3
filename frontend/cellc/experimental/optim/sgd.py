"""SGD, ASGD and Rprop of `experimental.optim`.

Source: the same names in `mindspore.experimental.optim`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import NUMBER, Flag, Float, Number, misuse, number
from ...ops.optimizer_rules import momentum as rules
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .optimizer import Group, NonNegative, Optimizer, rate_of


class SGD(Optimizer):
    """v = momentum v + (1 - dampening) g; p -= lr v (with Nesterov, lr (g + momentum v)).

    Args:
        params: see `Optimizer`.
        lr: the learning rate.
        momentum, dampening: non-negative. In the first step v is g.
        weight_decay: factor of the parameter that is added to its gradient.
        nesterov: needs a momentum and no dampening.
        maximize: step along the gradient, not against it.
    """

    states = (("accum", "zeros"), ("stat", "ones"))

    def __init__(
        self, params: Any, lr: Any, momentum: NonNegative = 0, dampening: Number = 0,
        weight_decay: float = 0.0, nesterov: Flag = False, *, maximize: Flag = False,
    ) -> None:
        if nesterov and (momentum == 0.0 or dampening != 0):
            raise misuse("SGD", "if 'nesterov' is true, 'momentum' must be > 0.0 and 'dampening' "
                         "must equal to 0.0", f"'momentum' {momentum}, 'dampening' {dampening}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": float(dampening),
            "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize,
            "grad_centralization": False,
        })

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        (accum, stat), rate = state, rate_of(group, parameter)
        if group["momentum"] == 0.0:
            return (parameter - gradient * rate,)
        new, velocity = rules.momentum(
            parameter, gradient, rate, accum, momentum=group["momentum"],
            rest=1.0 - group["dampening"], fresh=stat > 0, use_nesterov=group["nesterov"])
        return new, velocity, ops.zeros_like(stat)


class ASGD(Optimizer):
    """Stochastic gradient descent that also averages the parameters (Polyak, Juditsky, 1992).

    p = p (1 - lambd eta) - eta g; ax += mu (p - ax); then
    eta = lr / (1 + lambd lr t)**alpha and mu = 1 / max(1, t - t0).

    Args:
        params, lr, weight_decay, maximize: see `SGD`.
        lambd: decay of the parameters.
        alpha: exponent of the rate's decay.
        t0: the step from which on averages are taken.
    """

    states = (("ax", "zeros"),)
    _counter = "step_t"

    def __init__(
        self, params: Any, lr: Any = 1e-2, lambd: Float = 1e-4, alpha: Float = 0.75,
        t0: Float = 1e6, weight_decay: float = 0.0, maximize: Flag = False,
    ) -> None:
        self.eta: list[Parameter] = []
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "maximize": maximize,
        })

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group, with the default options where it gives none."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        rate = np.float32(group["lr"].asnumpy())
        self.eta = [*self.eta, *(Parameter(Tensor(rate), name=f"eta_{p.name}")
                                 for p in group["params"])]

    def _state_at(self, group: Group, i: int) -> list[Any]:
        return [self.ax[i], self.eta[i]]

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        average, eta = state
        return rules.averaged(
            ops.cast(parameter, float32), ops.cast(gradient, float32),
            ops.cast(group["lr"], float32), ops.cast(average, float32), eta,
            1.0 / ops.maximum(t - 1.0 - group["t0"], 1.0), t, group["lambd"], group["alpha"])


class Rprop(Optimizer):
    """Steps of a size that grows while the sign of the gradient stays, and shrinks when it changes.

    Args:
        params, lr, maximize: see `SGD`; the first size is the rate.
        etas: factors of shrinking and growing, 0 < etas[0] < 1 < etas[1].
        step_sizes: smallest and largest size.
    """

    states = (("prev", "zeros"), ("step_size", "zeros"))
    _counter = "step_t"

    def __init__(
        self, params: Any, lr: Any = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, maximize: Flag = False,
    ) -> None:
        what = "Rprop"
        for name, pair in (("etas", etas), ("step_sizes", step_sizes)):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise misuse(what, f"'{name}' must be a pair", repr(pair), TypeError)
        number(0, 1, "()")(etas[0], what, "etas[0]")
        if not NUMBER(etas[1], what, "etas[1]") > 1.0:
            raise misuse(what, "the etas[1] must be greater than 1.0", etas[1])
        super().__init__(params, {"lr": lr, "etas": etas, "step_sizes": step_sizes,
                                  "maximize": maximize})

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        (before, size), rate = state, ops.cast(group["lr"], parameter.dtype)
        size = ops.where(t == 1.0, ops.broadcast_to(rate, parameter.shape), size)
        return rules.rprop(parameter, gradient, before, size, group["etas"], group["step_sizes"])
