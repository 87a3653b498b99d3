"""Adam and its kin of `experimental.optim`: AdamW, Adamax, NAdam, RAdam.

Source: the same names in `mindspore.experimental.optim`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...ops.optimizer_rules import adam as rules
from ...ops.optimizer_rules.averages import blend, weighted
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .optimizer import Group, Optimizer, Option, checked_betas, rate_of


class _Moments(Optimizer):
    """Optimizers that average gradients and their squares, and count steps."""

    states: tuple[tuple[str, Any], ...] = (("exp_avg", "zeros"), ("exp_avg_sq", "zeros"))
    _counter = "step_t"

    def __init__(
        self, params: Any, lr: Any, betas: tuple[float, float], eps: float, weight_decay: float,
        **options: Any,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": checked_betas(betas, type(self).__name__), "eps": eps,
            "weight_decay": weight_decay, **options})

    def _moments(self, group: Group, gradient: Any, state: Any) -> tuple[Any, Any]:
        """The averages with a gradient."""
        beta1, beta2 = group["betas"]
        return rules.moments(gradient, state[0], state[1], (beta1, 1.0 - beta1),
                             (beta2, 1.0 - beta2), blend, weighted)

    def _rests(self, group: Group, t: Any) -> tuple[Any, Any]:
        """Return the missing weights of the averages after t steps: 1 - beta**t."""
        beta1, beta2 = group["betas"]
        return 1.0 - rules.power(beta1, t), 1.0 - rules.power(beta2, t)

    def _largest(self, group: Group, v: Any, state: Any) -> Any:
        """The largest v so far, with `amsgrad`; else None."""
        return ops.maximum(state[2], v) if group["amsgrad"] else None


class Adam(_Moments):
    """Adaptive moments (Kingma and Ba, 2015); p -= lr c m / (sqrt(v) + eps), c the correction.

    Args:
        params, lr, weight_decay, maximize: see `SGD`.
        betas: decay rates of the moments, in [0, 1).
        eps: non-negative.
        amsgrad: the largest v so far takes the place of v (Reddi et al., 2018).
    """

    states = (("exp_avg", "zeros"), ("exp_avg_sq", "zeros"), ("max_exp_avg_sq", "zeros"))
    _counter = "state_step"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: Option = 1e-8, weight_decay: Option = 0.0, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad=amsgrad, maximize=maximize)

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        m, v = self._moments(group, gradient, state)
        rest1, rest2 = self._rests(group, t)
        most = self._largest(group, v, state)
        rate = ops.cast(group["lr"] * (ops.sqrt(rest2) / rest1), parameter.dtype)
        square = v if most is None else most
        return rules.descend(parameter, m, square, rate, group["eps"]), m, v, most


class AdamW(_Moments):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Args:
        As in `Adam`.
    """

    states = Adam.states
    _counter = "state_step"
    _decoupled = True

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: Option = 1e-8, weight_decay: Option = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad=amsgrad, maximize=maximize)

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        m, v = self._moments(group, gradient, state)
        rest1, rest2 = self._rests(group, t)
        most, kind = self._largest(group, v, state), parameter.dtype
        square = v if most is None else most
        below = ops.sqrt(square) / ops.cast(ops.sqrt(rest2), kind) + group["eps"]
        kept = parameter * (1.0 - rate_of(group, parameter) * group["weight_decay"])
        return kept - ops.cast(group["lr"] / rest1, kind) * m / below, m, v, most


class Adamax(_Moments):
    """Adam with the infinity norm (Kingma and Ba, 2015).

    m = beta1 m + (1 - beta1) g; u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1**t) m / u.

    Args:
        As in `Adam`.
    """

    states = (("exp_avg", "zeros"), ("exp_inf", "zeros"))

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: Option = 1e-8, weight_decay: Option = 0.0, *, maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        beta1, beta2 = group["betas"]
        rate = ops.cast(group["lr"] / (1.0 - rules.power(beta1, t)), parameter.dtype)
        return rules.adamax(
            parameter, gradient, rate, *state, beta1=(beta1, 1.0 - beta1), beta2=beta2,
            eps=group["eps"], average=blend, bounded=True)


class NAdam(_Moments):
    """Adam with Nesterov's momentum (Dozat, 2016).

    Args:
        params, lr, betas, eps, weight_decay: as in `Adam`.
        momentum_decay: how fast the momentum grows to beta1, non-negative.
    """

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: Option = 1e-8, weight_decay: Option = 0.0, momentum_decay: Option = 4e-3,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, momentum_decay=momentum_decay)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group, with the default options where it gives none."""
        super().add_param_group(param_group)
        made = [Parameter(Tensor(np.float32(1.0)), name=f"mu_product_{p.name}")
                for p in self.param_groups[-1]["params"]]
        self.mu_product = [*getattr(self, "mu_product", ()), *made]

    def _state_at(self, group: Group, i: int) -> list[Any]:
        return [*super()._state_at(group, i), self.mu_product[i]]

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        m, v = self._moments(group, gradient, state)
        _, rest2 = self._rests(group, t)
        beta1, decay = group["betas"][0], group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * rules.power(0.96, t * decay))
        after = beta1 * (1.0 - 0.5 * rules.power(0.96, (t + 1.0) * decay))
        product = state[2] * mu
        kind, rate = parameter.dtype, group["lr"]
        rates = (ops.cast(rate * (1.0 - mu) / (1.0 - product), kind),
                 ops.cast(rate * after / (1.0 - product * after), kind))
        return rules.nadam(parameter, gradient, m, v / ops.cast(rest2, kind), rates,
                           group["eps"]), m, v, product


class RAdam(_Moments):
    """Adam whose first steps do without the second moment, too uncertain yet (Liu et al., 2020).

    Args:
        As in `Adam`.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: Option = 1e-8, weight_decay: Option = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        m, v = self._moments(group, gradient, state)
        rest1, rest2 = self._rests(group, t)
        sure, correction = rules.rectification(t, group["betas"][1], rest2)
        kind = parameter.dtype
        scale = ops.cast(correction, kind) / (ops.sqrt(v) + group["eps"])
        step = m * ops.cast(group["lr"] / rest1, kind)
        return parameter - step * ops.where(sure, scale, 1.0), m, v
