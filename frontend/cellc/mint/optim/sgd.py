"""SGD of `mint.optim`. Source: the same names in `mindspore.mint.optim`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import int32

from ... import ops
from ...core.declared import BOOL, misuse
from ...experimental.optim.optimizer import Group, Optimizer, rate_of
from ...ops.optimizer_rules.momentum import momentum as momentum_rule
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor


def _number(value: Any, name: str, what: str) -> Any:
    """A bool, int or float."""
    if not isinstance(value, (bool, int, float)):
        raise misuse(what, f"the type of '{name}' should be one of '['float', 'int', 'bool']'",
                     f"type '{type(value).__name__}'", TypeError)
    return value


class SGD(Optimizer):
    """v = momentum v + (1 - dampening) g; p -= lr v (with Nesterov, lr (g + momentum v)).

    Args:
        params: Parameters, or dicts with `params` and options of this group.
        lr: the learning rate, a number or a Tensor of one.
        momentum: non-negative. In the first step v is g.
        dampening: how much of the gradient v does not take.
        weight_decay: factor of the parameter that is added to its gradient, non-negative.
        nesterov: needs a momentum and no dampening.
        maximize: step along the gradient, not against it.

    Attributes:
        momentum_buf: v; step_t: counts steps.
    """

    states = (("momentum_buf", "zeros"),)

    def __init__(
        self, params: Any, lr: Any, momentum: float = 0, dampening: float = 0,
        weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
    ) -> None:
        what = "SGD"
        if not isinstance(lr, Tensor):
            _number(lr, "lr", what)
        for value, name in ((momentum, "momentum"), (dampening, "dampening"),
                            (weight_decay, "weight_decay")):
            _number(value, name, what)
        for flag, name in ((nesterov, "nesterov"), (maximize, "maximize")):
            BOOL(flag, what, name)
        for value, name in ((lr, "learning rate"), (momentum, "momentum"),
                            (weight_decay, "weight_decay")):
            if not float(value) >= 0.0:
                raise misuse(what, f"the {name} must be >= 0", value)
        if nesterov and (momentum <= 0.0 or dampening != 0.0):
            raise misuse(what, "if 'nesterov' is true, 'momentum' must be > 0.0 and 'dampening' "
                         "must equal to 0.0", f"'momentum' {momentum}, 'dampening' {dampening}")
        if params is None:
            raise misuse("Optimizer", "the argument params can not be None")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening,
            "weight_decay": float(weight_decay), "nesterov": nesterov, "maximize": maximize,
        })
        self.step_t = Parameter(Tensor(0, int32), name="step_t")

    def begin(self) -> Any:
        """Count the step; whether it is the first."""
        first = ops.equal(self.step_t, 0)
        ops.assign(self.step_t, self.step_t + 1)
        return first

    def _step(self, group: Group, parameter: Any, gradient: Any, state: Any, t: Any) -> Any:
        rate = rate_of(group, parameter)
        if group["momentum"] == 0.0:
            return (parameter - gradient * rate,)
        return momentum_rule(
            parameter, gradient, rate, *state, momentum=group["momentum"],
            rest=1.0 - group["dampening"], fresh=t, use_nesterov=group["nesterov"])
