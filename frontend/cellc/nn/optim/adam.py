"""Adam and its kin: AdamOffload, LazyAdam, AdamWeightDecay, AdaMax, Lamb."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core import checks
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..registering import opt_init_args_register
from .optimizer import Optimizer, complement, wide


def _betas(optimizer: Optimizer, beta1: Any, beta2: Any, eps: Any) -> None:
    """Check and keep the decay rates of the moments.

    Raises:
        TypeError: no floats.
        ValueError: not between 0 and 1 (eps: not positive).
    """
    what = optimizer.cls_name
    for name, value in (("beta1", beta1), ("beta2", beta2), ("eps", eps)):
        if not isinstance(value, float):
            raise TypeError(
                f"For '{what}', the type of '{name}' should be 'float', but got type "
                f"'{type(value).__name__}'."
            )
    optimizer.beta1 = checks.between(beta1, 0.0, 1.0, "beta1", what, "()")
    optimizer.beta2 = checks.between(beta2, 0.0, 1.0, "beta2", what, "()")
    optimizer.eps = checks.above_zero(eps, "eps", what)
    optimizer.rest1 = complement(beta1)
    optimizer.rest2 = complement(beta2)


class Adam(Optimizer):
    """Adaptive moments (Kingma and Ba, 2015). Source: `mindspore.nn.Adam`.

    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g**2;
    p -= lr sqrt(1 - beta2**t) / (1 - beta1**t) m / (sqrt(v) + eps).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        beta1, beta2: decay rates of the moments, in (0, 1).
        eps: positive.
        use_locking: accepted for compatibility.
        use_nesterov: the next m takes the place of m; not with `use_amsgrad`, which goes first.
        use_amsgrad: the largest v so far takes the place of v (Reddi et al., 2018).
        use_lazy, use_offload: accepted for compatibility, one at most and without `use_amsgrad`:
            gradients are dense, and parameters on the CPU already.

    Raises:
        TypeError, ValueError: arguments of a wrong kind or out of range.
    """

    _power_shape: tuple[int, ...] = ()

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, use_locking: bool = False, use_nesterov: bool = False,
        weight_decay: Any = 0.0, loss_scale: float = 1.0, use_amsgrad: bool = False,
        use_lazy: bool = False, use_offload: bool = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        _betas(self, beta1, beta2, eps)
        checks.boolean(use_locking, "use_locking", self.cls_name)
        self.use_lazy = checks.boolean(use_lazy, "use_lazy", self.cls_name)
        self.use_offload = checks.boolean(use_offload, "use_offload", self.cls_name)
        if use_lazy + use_offload + bool(use_amsgrad) > 1:
            raise ValueError(
                f"For '{self.cls_name}', only one of 'use_lazy', 'use_offload' and 'use_amsgrad' "
                f"can be True, but got {use_lazy}, {use_offload} and {use_amsgrad}."
            )
        self.use_nesterov = checks.boolean(use_nesterov, "use_nesterov", self.cls_name)
        self.use_amsgrad = checks.boolean(use_amsgrad, "use_amsgrad", self.cls_name)
        one = Tensor(np.ones(self._power_shape, np.float32))
        self.beta1_power = Parameter(one, name="beta1_power")
        self.beta2_power = Parameter(Tensor(one), name="beta2_power")
        self.moment1 = self.state_of("moment1", "zeros")
        self.moment2 = self.state_of("moment2", "zeros")
        if use_amsgrad:
            self.vhat = self.state_of("vhat", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        power1 = self.beta1_power * self.beta1
        power2 = self.beta2_power * self.beta2
        ops.assign(self.beta1_power, power1)
        ops.assign(self.beta2_power, power2)
        correction = ops.reshape(ops.sqrt(1.0 - power2) / (1.0 - power1), ())
        nesterov = self.use_nesterov and not self.use_amsgrad
        how = self.beta1, self.rest1, self.rest2, self.eps, nesterov
        for i in range(self.param_length):
            vhat = self.vhat[i] if self.use_amsgrad else None
            new = _adam(self.own_part(i), gradients[i], self.moment1[i], self.moment2[i], vhat,
                        lr[i] if self.is_group_lr else lr, correction, how)
            self.put_part(i, new)
        return self.done()


def _adam(
    parameter: Any, gradient: Any, moment1: Parameter, moment2: Parameter,
    vhat: Parameter | None, lr: Any, correction: Any, how: tuple[float, float, float, float, bool],
) -> Any:
    """The value that `Adam` gives to one parameter; its state is assigned."""
    beta1, rest1, rest2, eps, nesterov = how
    weight, gradient, m, v = wide(parameter, gradient, moment1, moment2)
    m = m + (gradient - m) * rest1
    v = v + (ops.square(gradient) - v) * rest2
    ops.assign(moment1, m)
    ops.assign(moment2, v)
    if vhat is not None:
        v = ops.maximum(ops.cast(vhat, v.dtype), v)
        ops.assign(vhat, v)
    if nesterov:
        m = m * beta1 + gradient * rest1
    rate = ops.cast(lr * correction, weight.dtype)
    return weight - rate * m / (ops.sqrt(v) + eps)


class AdamOffload(Adam):
    """Adam whose state a device leaves to the host; here they are one.

    Args:
        As in `Adam`.

    Source: `mindspore.nn.AdamOffload` (deprecated there).
    """

    _power_shape = (1,)

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, use_locking: bool = False, use_nesterov: bool = False,
        weight_decay: Any = 0.0, loss_scale: float = 1.0,
    ) -> None:
        super().__init__(params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov,
                         weight_decay, loss_scale)


class LazyAdam(AdamOffload):
    """Adam that leaves rows without a sparse gradient alone; as gradients are dense, Adam.

    Args:
        As in `Adam`.

    Source: `mindspore.nn.LazyAdam` (deprecated there).
    """


class AdamWeightDecay(Optimizer):
    """Adam with decoupled weight decay and without bias correction (as BERT trains with).

    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g**2;
    p -= lr (m / (sqrt(v) + eps) + weight_decay p).

    Args:
        As in `Adam`.

    Source: `mindspore.nn.AdamWeightDecay`.
    """

    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-6, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        _betas(self, beta1, beta2, eps)
        self.moments1 = self.state_of("adam_m", "zeros")
        self.moments2 = self.state_of("adam_v", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.gradients_centralization(self.own_gradients(gradients))
        decay = self.get_weight_decay()
        lr = self.next_rate()
        how = self.beta1, self.rest1, self.beta2, self.rest2, self.eps
        for i in range(self.param_length):
            new = _adam_weight_decay(
                self.own_part(i), gradients[i], self.moments1[i], self.moments2[i],
                lr[i] if self.is_group_lr else lr,
                self.decay_of(decay, i) if self.decay_flags[i] else None, how)
            self.put_part(i, new)
        return self.done()


_Rates = tuple[float, float, float, float, float]
"""beta1, 1 - beta1, beta2, 1 - beta2 and epsilon."""


def _moments(
    gradient: Any, moment1: Parameter, moment2: Parameter, how: _Rates
) -> tuple[Any, Any]:
    """The next means of the gradient and of its square, in float32."""
    beta1, rest1, beta2, rest2, _ = how
    gradient = ops.cast(gradient, float32)
    m = ops.cast(moment1, float32) * beta1 + gradient * rest1
    v = ops.cast(moment2, float32) * beta2 + ops.square(gradient) * rest2
    return m, v


def _adam_weight_decay(
    parameter: Any, gradient: Any, moment1: Parameter, moment2: Parameter, lr: Any,
    decay: Any, how: _Rates,
) -> Any:
    """The value that `AdamWeightDecay` gives to one parameter; its state is assigned."""
    m, v = _moments(gradient, moment1, moment2, how)
    step = m / (ops.sqrt(v) + how[-1])
    if decay is not None:
        step = step + ops.cast(parameter, float32) * decay
    ops.assign(moment1, m)
    ops.assign(moment2, v)
    return ops.cast(parameter, float32) - lr * step


class AdaMax(Optimizer):
    """Adam with the infinity norm (Kingma and Ba, 2015). Source: `mindspore.nn.AdaMax`.

    m = beta1 m + (1 - beta1) g; v = max(beta2 v, |g|); p -= lr / (1 - beta1**t) m / (v + eps).

    Args:
        As in `Adam`.
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, weight_decay: Any = 0.0, loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        _betas(self, beta1, beta2, eps)
        self.beta1_power = Parameter(Tensor(np.ones((1,), np.float32)), name="beta1_power")
        self.moment1 = self.state_of("moment1", "zeros")
        self.moment2 = self.state_of("moment2", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        power = self.beta1_power * self.beta1
        ops.assign(self.beta1_power, power)
        correction = 1.0 - ops.reshape(power, ())
        how = self.beta1, self.rest1, self.beta2, self.eps
        for i in range(self.param_length):
            new = _adamax(self.own_part(i), gradients[i], self.moment1[i], self.moment2[i],
                          lr[i] if self.is_group_lr else lr, correction, how)
            self.put_part(i, new)
        return self.done()


def _adamax(
    parameter: Any, gradient: Any, moment1: Parameter, moment2: Parameter, lr: Any,
    correction: Any, how: tuple[float, float, float, float],
) -> Any:
    """The value that `AdaMax` gives to one parameter; its state is assigned."""
    beta1, rest1, beta2, eps = how
    weight, gradient, m, v = wide(parameter, gradient, moment1, moment2)
    m = m * beta1 + gradient * rest1
    v = ops.maximum(v * beta2, ops.abs(gradient))
    ops.assign(moment1, m)
    ops.assign(moment2, v)
    rate = ops.cast(lr / correction, weight.dtype)
    return weight - rate * m / (v + eps)


class Lamb(Optimizer):
    """Adam steps scaled by the norm of each layer's weight (You et al., 2020).

    Args:
        As in `Adam`; the weight decay is part of the step, as in `AdamWeightDecay`.

    Source: `mindspore.nn.Lamb`.
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-6, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        _betas(self, beta1, beta2, eps)
        self.moments1 = self.state_of("lamb_m", "zeros")
        self.moments2 = self.state_of("lamb_v", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.gradients_centralization(self.own_gradients(gradients))
        decay = self.get_weight_decay()
        lr = self.next_rate()
        count = ops.cast(ops.reshape(self.global_step, ()), float32)
        power1 = ops.pow(Tensor(self.beta1, float32), count)
        power2 = ops.pow(Tensor(self.beta2, float32), count)
        how = self.beta1, self.rest1, self.beta2, self.rest2, self.eps
        for i, parameter in enumerate(self.parameters):
            step = _lamb_step(
                self.own_part(i), gradients[i], self.moments1[i], self.moments2[i],
                self.decay_of(decay, i) if self.decay_flags[i] else None, power1, power2, how)
            # Norms are of all rows, added up in the order that they have without ranks.
            step = self.all_rows(i, step)
            ratio = _trust_ratio(ops.cast(parameter, float32), step)
            rate = lr[i] if self.is_group_lr else lr
            ops.assign(parameter, ops.cast(parameter, float32) - rate * ratio * step)
        return self.done()


def _lamb_step(
    parameter: Any, gradient: Any, moment1: Parameter, moment2: Parameter, decay: Any, power1: Any,
    power2: Any, how: _Rates,
) -> Any:
    """The step of `Lamb` for one parameter, before it is scaled; the moments are assigned."""
    m, v = _moments(gradient, moment1, moment2, how)
    step = (m / (1.0 - power1)) / (ops.sqrt(v / (1.0 - power2)) + how[-1])
    if decay is not None:
        step = step + ops.cast(parameter, float32) * decay
    ops.assign(moment1, m)
    ops.assign(moment2, v)
    return step


def _trust_ratio(weight: Any, step: Any) -> Any:
    """The norm of a parameter over that of its step; 1 where one of them is 0."""
    size = ops.sqrt(ops.sum(ops.square(weight)))
    length = ops.sqrt(ops.sum(ops.square(step)))
    both = ops.logical_and(size > 0, length > 0)
    return ops.where(both, size / ops.where(both, length, 1.0), 1.0)
