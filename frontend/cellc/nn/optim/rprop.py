"""Rprop and ASGD. Source: the same names in `mindspore.nn`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import Float, instance, misuse
from ...ops.optimizer_rules import momentum as rules
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..registering import opt_init_args_register
from .optimizer import Optimizer


class Rprop(Optimizer):
    """Steps of a size that grows while the sign of the gradient stays, and shrinks when it changes.

    Args:
        params, learning_rate, weight_decay: see `Optimizer`; the first size is the rate.
        etas: factors of shrinking and growing, etas[0] < 1 < etas[1].
        step_sizes: smallest and largest size.

    Source: `mindspore.nn.Rprop` (Riedmiller and Braun, 1993).
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.1, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0), weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        what = self.cls_name
        for name, pair in (("etas", etas), ("step_sizes", step_sizes)):
            instance(tuple)(pair, what, name)
            if len(pair) != 2 or not 0 <= pair[0] <= pair[1]:
                raise misuse(what, f"'{name}' must be a growing pair", pair)
        if not etas[0] < 1.0 < etas[1]:
            raise misuse(what, "'etas' must lie around 1", etas)
        self.etas = etas
        self.step_sizes = step_sizes
        self.prev = self.state_of("prev", "zeros")
        self.step_size = self.state_of("step_size", "zeros")

    def construct(self, gradients: Any) -> bool:
        """Assign new values to the parameters and their state."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        first = ops.equal(ops.reshape(self.global_step, ()), 1)
        for i in range(self.param_length):
            weight = self.own_part(i)
            gradient = ops.cast(gradients[i], weight.dtype)
            start = ops.broadcast_to(self.rate_of(lr, i), weight.shape)
            size = ops.where(first, start, self.step_size[i])
            new, gradient, size = rules.rprop(
                weight, gradient, self.prev[i], size, self.etas, self.step_sizes)
            ops.assign(self.prev[i], gradient)
            ops.assign(self.step_size[i], size)
            self.put_part(i, new)
        return True


class ASGD(Optimizer):
    """Stochastic gradient descent that also averages the parameters (Polyak, Juditsky, 1992).

    p *= 1 - lambd eta; p -= eta g; ax += mu (p - ax); then
    eta = lr / (1 + lambd lr t)**alpha and mu = 1 / max(1, t - t0).

    Args:
        params, learning_rate, weight_decay: see `Optimizer`.
        lambd: decay of the parameters.
        alpha: exponent of the rate's decay.
        t0: the step from which on averages are taken.
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.1, lambd: Float = 1e-4, alpha: Float = 0.75,
        t0: Float = 1e6, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self.lambd, self.alpha, self.t0 = lambd, alpha, t0
        self.mu = [_scalar(1.0, f"mu_{p.name}") for p in self.parameters]
        self.eta = [_scalar(0.0, f"eta_{p.name}") for p in self.parameters]
        for scalar in [*self.mu, *self.eta]:
            self.insert_param_to_cell(scalar.name, scalar, check_name_contain_dot=False)
        self.ax = self.state_of("ax_", "zeros")

    def construct(self, gradients: Any) -> bool:
        """Assign new values to the parameters, their averages and rates."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        count = ops.cast(ops.reshape(self.global_step, ()), float32)
        for i in range(self.param_length):
            rate = lr[i] if self.is_group_lr else lr
            new, average, eta = rules.averaged(
                ops.cast(self.own_part(i), float32), ops.cast(gradients[i], float32), rate,
                ops.cast(self.ax[i], float32), ops.where(ops.equal(count, 1), rate, self.eta[i]),
                self.mu[i], count, self.lambd, self.alpha)
            ops.assign(self.ax[i], average)
            self.put_part(i, new)
            ops.assign(self.eta[i], eta)
            ops.assign(self.mu[i], 1.0 / ops.maximum(count - self.t0, 1.0))
        return True


def _scalar(value: float, name: str) -> Parameter:
    return Parameter(Tensor(value, float32), name=name)
