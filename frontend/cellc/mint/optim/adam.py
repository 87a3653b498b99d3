"""Adam, AdamW and FusedAdamW of `mint.optim`. Source: the same names in `mindspore.mint.optim`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import misuse
from ...experimental.optim.optimizer import Group, Optimizer, rate_of
from ...ops.optimizer_rules import adam as rules
from ...ops.optimizer_rules.averages import weighted
from ...tensors.parameter import Parameter, ParameterTuple
from ...tensors.tensor import Tensor


def _of_type(value: Any, kind: type, name: str, what: str) -> Any:
    """`value`, which must be exactly of a type."""
    if type(value) is not kind:
        raise misuse(what, f"the type of '{name}' should be '{kind.__name__}'",
                     f"type '{type(value).__name__}'", TypeError)
    return value


class _Adam(Optimizer):
    """The common part of the three: checks, moments and the step.

    Args:
        params: Parameters, or dicts with `params` and options of this group.
        lr: the learning rate, a float.
        betas: decay rates of the moments, two floats in [0, 1).
        eps: added to the root of the second moment.
        weight_decay: see each class.
        amsgrad: the largest second moment so far takes its place (Reddi et al., 2018).
        maximize: step along the gradient, not against it.

    Attributes:
        exp_avg, exp_avg_sq: the moments; max_exp_avg_sq: the largest, with `amsgrad`.
        state_step: counts steps.
    """

    states: tuple[tuple[str, Any], ...] = (("exp_avg", "zeros"), ("exp_avg_sq", "zeros"))
    first_step = 0  # The initial value of `state_step`

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        what = type(self).__name__
        _of_type(betas, tuple, "betas", what)
        if len(betas) != 2:
            raise misuse(what, "'betas' must hold 2 floats", len(betas))
        for value, name in ((betas[0], "betas[0]"), (betas[1], "betas[1]"), (eps, "eps"),
                            (weight_decay, "weight_decay"), (lr, "lr")):
            if not _of_type(value, float, name, what) >= 0.0:
                raise misuse(what, f"the '{name}' must be >= 0.0", value)
        _of_type(amsgrad, bool, "amsgrad", what)
        _of_type(maximize, bool, "maximize", what)
        for i, beta in enumerate(betas):
            if not beta < 1.0:
                raise misuse(what, f"betas[{i}] must be in [0, 1)", beta)
        if params is None:
            raise misuse("Optimizer", "the argument params can not be None")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize,
        })
        self.state_step = Parameter(Tensor([float(self.first_step)], float32), name="state_step")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """One more group, with the default options where it gives none."""
        super().add_param_group(param_group)
        if any(group["amsgrad"] for group in self.param_groups):
            # Of all parameters, so that positions are those of the other states.
            kept = getattr(self, "max_exp_avg_sq", ())
            new = self.parameters[len(kept):]
            self.max_exp_avg_sq = ParameterTuple(
                [*kept, *self.state_of("max_exp_avg_sq", "zeros", new)])

    def begin(self) -> Any:
        """Count the step; its number, from 1."""
        step = self.state_step + 1.0
        ops.assign(self.state_step, step)
        return ops.reshape(step, ()) - float(self.first_step)

    def _state_at(self, group: Group, i: int) -> list[Any]:
        kept = super()._state_at(group, i)
        return [*kept, self.max_exp_avg_sq[i]] if group["amsgrad"] else kept

    def _moments(
        self, group: Group, gradient: Any, state: Any, t: Any
    ) -> tuple[Any, Any, list[Any]]:
        """Both moments with a gradient over what they lack of a whole, and the new state."""
        beta1, beta2 = group["betas"]
        m, v = rules.moments(gradient, state[0], state[1], (beta1, 1.0 - beta1),
                             (beta2, 1.0 - beta2), weighted, weighted)
        kind = gradient.dtype
        mean = m / ops.cast(1.0 - rules.power(beta1, t), kind)
        square = v / ops.cast(1.0 - rules.power(beta2, t), kind)
        if not group["amsgrad"]:
            return mean, square, [m, v]
        most = ops.maximum(state[2], square)
        return mean, most, [m, v, most]


class Adam(_Adam):
    """Adaptive moments (Kingma and Ba, 2015): p -= lr m / (sqrt(v) + eps).

    m and v are the averages of gradients and of their squares, each over 1 - beta**t; the weight
    decay times the parameter is added to the gradient. `weight_decay` is 0 by default.
    """

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        m, v, after = self._moments(group, gradient, state, t)
        rate = rate_of(group, parameter)
        return rules.decoupled(parameter, m, v, rate, group["eps"]), *after


class AdamW(_Adam):
    """Adam whose parameters decay apart from the gradient: p -= lr weight_decay p first.

    `weight_decay` is 0.01 by default (Loshchilov and Hutter, 2019).
    """

    first_step = -1
    _decoupled = True

    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        m, v, after = self._moments(group, gradient, state, t)
        rate = rate_of(group, parameter)
        kept = parameter * (1.0 - rate * group["weight_decay"])
        return rules.descend(kept, m, v, rate, group["eps"]), *after


class FusedAdamW(AdamW):
    """`AdamW`; every step over all parameters is one compiled program anyway."""
