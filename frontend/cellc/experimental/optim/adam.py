"""Adam and its kin of `experimental.optim`: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .optimizer import Optimizer, checked_betas, checked_rate, option, rate_of


class _Moments(Optimizer):
    """Optimizers that average gradients and their squares, and count steps."""

    states: tuple[tuple[str, Any], ...] = (("exp_avg", "zeros"), ("exp_avg_sq", "zeros"))
    _counter = "step_t"

    def __init__(
        self, params: Any, lr: Any, betas: tuple[float, float], eps: float, weight_decay: float,
        **options: Any,
    ) -> None:
        what = type(self).__name__
        checked_rate(lr, what)
        pair = checked_betas(betas, what)
        option(eps, "eps", what)
        option(weight_decay, "weight_decay", what)
        super().__init__(params, {"lr": lr, "betas": pair, "eps": eps,
                                  "weight_decay": weight_decay, **options})

    def moments(self, group: dict[str, Any], gradient: Any, i: int) -> tuple[Any, Any]:
        """The averages with a gradient, which are assigned."""
        beta1, beta2 = group["betas"]
        m = self.exp_avg[i] + (gradient - self.exp_avg[i]) * (1.0 - beta1)
        v = self.exp_avg_sq[i] * beta2 + ops.square(gradient) * (1.0 - beta2)
        ops.assign(self.exp_avg[i], m)
        ops.assign(self.exp_avg_sq[i], v)
        return m, v

    def rests(self, group: dict[str, Any], t: Any) -> tuple[Any, Any]:
        """What the averages of t steps lack of a whole: 1 - beta**t."""
        beta1, beta2 = group["betas"]
        return 1.0 - _power(beta1, t), 1.0 - _power(beta2, t)

    def largest(self, group: dict[str, Any], v: Any, i: int) -> Any:
        """The largest v so far, with `amsgrad`."""
        if not group["amsgrad"]:
            return v
        v = ops.maximum(self.max_exp_avg_sq[i], v)
        ops.assign(self.max_exp_avg_sq[i], v)
        return v


def _power(beta: float, t: Any) -> Any:
    return ops.pow(Tensor(beta, float32), t)


class Adam(_Moments):
    """Adaptive moments (Kingma and Ba, 2015); p -= lr c m / (sqrt(v) + eps), c the correction.

    Args:
        params, lr, weight_decay, maximize: see `SGD`.
        betas: decay rates of the moments, in [0, 1).
        eps: non-negative.
        amsgrad: the largest v so far takes the place of v (Reddi et al., 2018).

    Source: `mindspore.experimental.optim.Adam`.
    """

    states = (("exp_avg", "zeros"), ("exp_avg_sq", "zeros"), ("max_exp_avg_sq", "zeros"))
    _counter = "state_step"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad=amsgrad, maximize=maximize)

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its moments are assigned."""
        m, v = self.moments(group, self.prepared(group, parameter, gradient), i)
        rest1, rest2 = self.rests(group, t)
        v = self.largest(group, v, i)
        rate = ops.cast(group["lr"] * (ops.sqrt(rest2) / rest1), parameter.dtype)
        return parameter - rate * m / (ops.sqrt(v) + group["eps"])


class AdamW(_Moments):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Args:
        As in `Adam`.

    Source: `mindspore.experimental.optim.AdamW`.
    """

    states = Adam.states
    _counter = "state_step"

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad=amsgrad, maximize=maximize)

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its moments are assigned."""
        gradient = ops.cast(gradient, parameter.dtype)
        m, v = self.moments(group, -gradient if group["maximize"] else gradient, i)
        rest1, rest2 = self.rests(group, t)
        v = self.largest(group, v, i)
        kind = parameter.dtype
        below = ops.sqrt(v) / ops.cast(ops.sqrt(rest2), kind) + group["eps"]
        kept = parameter * (1.0 - rate_of(group, parameter) * group["weight_decay"])
        return kept - ops.cast(group["lr"] / rest1, kind) * m / below


class Adamax(_Moments):
    """Adam with the infinity norm (Kingma and Ba, 2015).

    m = beta1 m + (1 - beta1) g; u = max(beta2 u, |g| + eps); p -= lr / (1 - beta1**t) m / u.

    Args:
        As in `Adam`.

    Source: `mindspore.experimental.optim.Adamax`.
    """

    states = (("exp_avg", "zeros"), ("exp_inf", "zeros"))

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, *, maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, maximize=maximize)

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its moments are assigned."""
        gradient = self.prepared(group, parameter, gradient)
        beta1, beta2 = group["betas"]
        m = self.exp_avg[i] + (gradient - self.exp_avg[i]) * (1.0 - beta1)
        u = ops.maximum(self.exp_inf[i] * beta2, ops.abs(gradient) + group["eps"])
        ops.assign(self.exp_avg[i], m)
        ops.assign(self.exp_inf[i], u)
        rate = ops.cast(group["lr"] / (1.0 - _power(beta1, t)), parameter.dtype)
        return parameter - rate * m / u


class NAdam(_Moments):
    """Adam with Nesterov's momentum (Dozat, 2016).

    Args:
        params, lr, betas, eps, weight_decay: as in `Adam`.
        momentum_decay: how fast the momentum grows to beta1, non-negative.

    Source: `mindspore.experimental.optim.NAdam`.
    """

    def __init__(
        self, params: Any, lr: Any = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, momentum_decay: float = 4e-3,
    ) -> None:
        option(momentum_decay, "momentum_decay", "NAdam")
        super().__init__(params, lr, betas, eps, weight_decay, momentum_decay=momentum_decay)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group, with the default options where it gives none."""
        super().add_param_group(param_group)
        made = [Parameter(Tensor(np.float32(1.0)), name=f"mu_product_{p.name}")
                for p in self.param_groups[-1]["params"]]
        self.mu_product = [*getattr(self, "mu_product", ()), *made]

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its moments are assigned."""
        gradient = self.prepared(group, parameter, gradient)
        m, v = self.moments(group, gradient, i)
        _, rest2 = self.rests(group, t)
        beta1, decay = group["betas"][0], group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * _power(0.96, t * decay))
        after = beta1 * (1.0 - 0.5 * _power(0.96, (t + 1.0) * decay))
        product = self.mu_product[i] * mu
        ops.assign(self.mu_product[i], product)
        kind = parameter.dtype
        below = ops.sqrt(v / ops.cast(rest2, kind)) + group["eps"]
        rate = group["lr"]
        new = parameter - ops.cast(rate * (1.0 - mu) / (1.0 - product), kind) * gradient / below
        later = ops.cast(rate * after / (1.0 - product * after), kind)
        return new - later * m / below


class RAdam(_Moments):
    """Adam whose first steps do without the second moment, too uncertain yet (Liu et al., 2020).

    Args:
        As in `Adam`.

    Source: `mindspore.experimental.optim.RAdam`.
    """

    def __init__(
        self, params: Any, lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)

    def update(self, group: dict[str, Any], parameter: Any, gradient: Any, i: int, t: Any) -> Any:
        """The new value of a parameter; its moments are assigned."""
        m, v = self.moments(group, self.prepared(group, parameter, gradient), i)
        rest1, rest2 = self.rests(group, t)
        most = 2.0 / (1.0 - group["betas"][1]) - 1.0
        length = most - 2.0 * t * (1.0 - rest2) / rest2
        sure = length > 5.0
        safe = ops.where(sure, length, 6.0)
        ratio = (safe - 4.0) * (safe - 2.0) * most / ((most - 4.0) * (most - 2.0) * safe)
        kind = parameter.dtype
        scale = ops.cast(ops.sqrt(ratio) * ops.sqrt(rest2), kind) / (ops.sqrt(v) + group["eps"])
        step = m * ops.cast(group["lr"] / rest1, kind)
        return parameter - step * ops.where(sure, scale, 1.0)
