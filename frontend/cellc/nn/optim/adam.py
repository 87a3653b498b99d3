"""Adam and its kin: AdamOffload, LazyAdam, AdamWeightDecay, AdaMax, Lamb."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core import checks
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from .optimizer import Optimizer, complement


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
        self.moment1 = self.parameters.clone(prefix="moment1", init="zeros")
        self.moment2 = self.parameters.clone(prefix="moment2", init="zeros")
        if use_amsgrad:
            self.vhat = self.parameters.clone(prefix="vhat", init="zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        power1 = self.beta1_power * self.beta1
        power2 = self.beta2_power * self.beta2
        ops.assign(self.beta1_power, power1)
        ops.assign(self.beta2_power, power2)
        correction = ops.reshape(ops.sqrt(1.0 - power2) / (1.0 - power1), ())
        for i in range(self.param_length):
            weight, gradient, m, v = self.wide(
                i, self.parameters[i], gradients[i], self.moment1[i], self.moment2[i])
            m = m + (gradient - m) * self.rest1
            v = v + (ops.square(gradient) - v) * self.rest2
            ops.assign(self.moment1[i], m)
            ops.assign(self.moment2[i], v)
            if self.use_amsgrad:
                v = ops.maximum(ops.cast(self.vhat[i], v.dtype), v)
                ops.assign(self.vhat[i], v)
            if self.use_nesterov and not self.use_amsgrad:
                m = m * self.beta1 + gradient * self.rest1
            rate = ops.cast((lr[i] if self.is_group_lr else lr) * correction, weight.dtype)
            ops.assign(self.parameters[i], weight - rate * m / (ops.sqrt(v) + self.eps))
        return self.done()


class AdamOffload(Adam):
    """Adam whose state a device leaves to the host; here they are one.

    Args:
        As in `Adam`.

    Source: `mindspore.nn.AdamOffload` (deprecated there).
    """

    _power_shape = (1,)

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
        self.moments1 = self.parameters.clone(prefix="adam_m", init="zeros")
        self.moments2 = self.parameters.clone(prefix="adam_v", init="zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.gradients_centralization(gradients)
        decay = self.get_weight_decay()
        lr = self.next_rate()
        for i in range(self.param_length):
            weight = self.parameters[i]
            gradient = ops.cast(gradients[i], float32)
            m = ops.cast(self.moments1[i], float32) * self.beta1 + gradient * self.rest1
            v = ops.cast(self.moments2[i], float32) * self.beta2 + \
                ops.square(gradient) * self.rest2
            step = m / (ops.sqrt(v) + self.eps)
            if self.decay_flags[i]:
                step = step + ops.cast(weight, float32) * self.decay_of(decay, i)
            rate = lr[i] if self.is_group_lr else lr
            ops.assign(self.moments1[i], m)
            ops.assign(self.moments2[i], v)
            ops.assign(weight, ops.cast(weight, float32) - rate * step)
        return self.done()


class AdaMax(Optimizer):
    """Adam with the infinity norm (Kingma and Ba, 2015). Source: `mindspore.nn.AdaMax`.

    m = beta1 m + (1 - beta1) g; v = max(beta2 v, |g|); p -= lr / (1 - beta1**t) m / (v + eps).

    Args:
        As in `Adam`.
    """

    def __init__(
        self, params: Any, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-8, weight_decay: Any = 0.0, loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        _betas(self, beta1, beta2, eps)
        self.beta1_power = Parameter(Tensor(np.ones((1,), np.float32)), name="beta1_power")
        self.moment1 = self.parameters.clone(prefix="moment1", init="zeros")
        self.moment2 = self.parameters.clone(prefix="moment2", init="zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        power = self.beta1_power * self.beta1
        ops.assign(self.beta1_power, power)
        correction = 1.0 - ops.reshape(power, ())
        for i in range(self.param_length):
            weight, gradient, m, v = self.wide(
                i, self.parameters[i], gradients[i], self.moment1[i], self.moment2[i])
            m = m * self.beta1 + gradient * self.rest1
            v = ops.maximum(v * self.beta2, ops.abs(gradient))
            ops.assign(self.moment1[i], m)
            ops.assign(self.moment2[i], v)
            rate = ops.cast((lr[i] if self.is_group_lr else lr) / correction, weight.dtype)
            ops.assign(self.parameters[i], weight - rate * m / (v + self.eps))
        return self.done()


class Lamb(Optimizer):
    """Adam steps scaled by the norm of each layer's weight (You et al., 2020).

    Args:
        As in `Adam`; the weight decay is part of the step, as in `AdamWeightDecay`.

    Source: `mindspore.nn.Lamb`.
    """

    def __init__(
        self, params: Any, learning_rate: Any, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-6, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        _betas(self, beta1, beta2, eps)
        self.moments1 = self.parameters.clone(prefix="lamb_m", init="zeros")
        self.moments2 = self.parameters.clone(prefix="lamb_v", init="zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.gradients_centralization(gradients)
        decay = self.get_weight_decay()
        lr = self.next_rate()
        count = ops.cast(ops.reshape(self.global_step, ()), float32)
        power1 = ops.pow(Tensor(self.beta1, float32), count)
        power2 = ops.pow(Tensor(self.beta2, float32), count)
        for i in range(self.param_length):
            weight = ops.cast(self.parameters[i], float32)
            gradient = ops.cast(gradients[i], float32)
            m = ops.cast(self.moments1[i], float32) * self.beta1 + gradient * self.rest1
            v = ops.cast(self.moments2[i], float32) * self.beta2 + \
                ops.square(gradient) * self.rest2
            step = (m / (1.0 - power1)) / (ops.sqrt(v / (1.0 - power2)) + self.eps)
            if self.decay_flags[i]:
                step = step + weight * self.decay_of(decay, i)
            size = ops.sqrt(ops.sum(ops.square(weight)))
            length = ops.sqrt(ops.sum(ops.square(step)))
            both = ops.logical_and(size > 0, length > 0)
            ratio = ops.where(both, size / ops.where(both, length, 1.0), 1.0)
            rate = lr[i] if self.is_group_lr else lr
            ops.assign(self.moments1[i], m)
            ops.assign(self.moments2[i], v)
            ops.assign(self.parameters[i], weight - rate * ratio * step)
        return self.done()
