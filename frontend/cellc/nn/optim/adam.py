"""Adam and its kin: AdamOffload, LazyAdam, AdamWeightDecay, AdaMax, Lamb.

Source: the same names in `mindspore.nn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32

from ... import ops
from ...core.declared import Flag, OpenShare, SmallFloat, misuse
from ...ops.optimizer_rules import adam as rules
from ...tensors.parameter import Parameter
from ...tensors.tensor import Tensor
from ..registering import opt_init_args_register
from .by_rule import RuleOptimizer, take_step


class Adam(RuleOptimizer):
    """Adaptive moments (Kingma and Ba, 2015).

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
    """

    _rule = staticmethod(rules.adam)
    _state: tuple[str, ...] = ("moment1", "moment2")
    _decays, _constants = ("beta1", "beta2"), ("eps", "use_nesterov")
    _power_shape: tuple[int, ...] = ()

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: OpenShare = 0.9,
        beta2: OpenShare = 0.999, eps: SmallFloat = 1e-8, use_locking: Flag = False,
        use_nesterov: Flag = False, weight_decay: Any = 0.0, loss_scale: float = 1.0,
        use_amsgrad: Flag = False, use_lazy: Flag = False, use_offload: Flag = False,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.use_locking, self.use_lazy, self.use_offload = use_locking, use_lazy, use_offload
        if use_lazy + use_offload + bool(use_amsgrad) > 1:
            raise misuse(self.cls_name,
                         "only one of 'use_lazy', 'use_offload' and 'use_amsgrad' can be True",
                         f"{use_lazy}, {use_offload} and {use_amsgrad}")
        self.use_nesterov, self.use_amsgrad = use_nesterov, use_amsgrad
        one = Tensor(np.ones(self._power_shape, np.float32))
        self.beta1_power = Parameter(one, name="beta1_power")
        self.beta2_power = Parameter(Tensor(one), name="beta2_power")
        self.moment1 = self.state_of("moment1", "zeros")
        self.moment2 = self.state_of("moment2", "zeros")
        if use_amsgrad:
            self._state = (*self._state, "vhat")
            self.vhat = self.state_of("vhat", "zeros")

    def _begin(self) -> Any:
        """The correction of both averages, after one more step."""
        power1 = self.beta1_power * self.beta1
        power2 = self.beta2_power * self.beta2
        ops.assign(self.beta1_power, power1)
        ops.assign(self.beta2_power, power2)
        return ops.reshape(ops.sqrt(1.0 - power2) / (1.0 - power1), ())

    def _scaled(self, rate: Any, shared: Any) -> Any:
        return rate * shared


class AdamOffload(Adam):
    """Adam whose state a device leaves to the host; here they are one.

    Args:
        As in `Adam`.

    Source: `mindspore.nn.AdamOffload` (deprecated there).
    """

    _power_shape = (1,)

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: OpenShare = 0.9,
        beta2: OpenShare = 0.999, eps: SmallFloat = 1e-8, use_locking: Flag = False,
        use_nesterov: Flag = False, weight_decay: Any = 0.0, loss_scale: float = 1.0,
    ) -> None:
        super().__init__(params, learning_rate, beta1, beta2, eps, use_locking, use_nesterov,
                         weight_decay, loss_scale)


class LazyAdam(AdamOffload):
    """Adam that leaves rows without a sparse gradient alone; as gradients are dense, Adam.

    Args:
        As in `Adam`.

    Source: `mindspore.nn.LazyAdam` (deprecated there).
    """


class _Decoupled(RuleOptimizer):
    """Optimizers that add weight decay to the step, which they compute in float32."""

    _state = ("moments1", "moments2")
    _decays, _constants = ("beta1", "beta2"), ("eps",)

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their moments."""
        gradients = self.gradients_centralization(self.own_gradients(gradients))
        decays = self.get_weight_decay()
        lr = self.next_rate()
        keywords = {**self._keywords(), **self._shared()}
        for i in range(self.param_length):
            rate = lr[i] if self.is_group_lr else lr
            decay = self.decay_of(decays, i) if self.decay_flags[i] else None
            self._put(i, rate, take_step(
                self._rule, float32, (self.own_part(i), gradients[i], rate), self._state_at(i),
                {**keywords, "decay": decay}))
        return self.done()

    def _shared(self) -> dict[str, Any]:
        """Keyword arguments of the rule that change from step to step."""
        return {}

    def _put(self, i: int, rate: Any, value: Any) -> None:
        self.put_part(i, value)


class AdamWeightDecay(_Decoupled):
    """Adam with decoupled weight decay and without bias correction (as BERT trains with).

    m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g**2;
    p -= lr (m / (sqrt(v) + eps) + weight_decay p).

    Args:
        As in `Adam`.
    """

    _rule = staticmethod(rules.adam_weight_decay)

    def __init__(
        self, params: Any, learning_rate: Any = 1e-3, beta1: OpenShare = 0.9,
        beta2: OpenShare = 0.999, eps: SmallFloat = 1e-6, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.moments1 = self.state_of("adam_m", "zeros")
        self.moments2 = self.state_of("adam_v", "zeros")


class AdaMax(RuleOptimizer):
    """Adam with the infinity norm (Kingma and Ba, 2015).

    m = beta1 m + (1 - beta1) g; v = max(beta2 v, |g|); p -= lr / (1 - beta1**t) m / (v + eps).

    Args:
        As in `Adam`.
    """

    _rule = staticmethod(rules.adamax)
    _state = ("moment1", "moment2")
    _decays, _constants = ("beta1",), ("beta2", "eps")

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.001, beta1: OpenShare = 0.9,
        beta2: OpenShare = 0.999, eps: SmallFloat = 1e-8, weight_decay: Any = 0.0,
        loss_scale: float = 1.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.beta1_power = Parameter(Tensor(np.ones((1,), np.float32)), name="beta1_power")
        self.moment1 = self.state_of("moment1", "zeros")
        self.moment2 = self.state_of("moment2", "zeros")

    def _begin(self) -> Any:
        """The sum of the weights of the average, after one more step."""
        power = self.beta1_power * self.beta1
        ops.assign(self.beta1_power, power)
        return 1.0 - ops.reshape(power, ())

    def _scaled(self, rate: Any, shared: Any) -> Any:
        return rate / shared


class Lamb(_Decoupled):
    """Adam steps scaled by the norm of each layer's weight (You et al., 2020).

    Args:
        As in `Adam`; the weight decay is part of the step, as in `AdamWeightDecay`.
    """

    _rule = staticmethod(rules.lamb)

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any, beta1: OpenShare = 0.9,
        beta2: OpenShare = 0.999, eps: SmallFloat = 1e-6, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.moments1 = self.state_of("lamb_m", "zeros")
        self.moments2 = self.state_of("lamb_v", "zeros")

    def _shared(self) -> dict[str, Any]:
        count = ops.cast(ops.reshape(self.global_step, ()), float32)
        return {"powers": (rules.power(self.beta1, count), rules.power(self.beta2, count))}

    def _put(self, i: int, rate: Any, value: Any) -> None:
        # Norms are of all rows, added up in the order that they have without ranks.
        weight, step = ops.cast(self.parameters[i], float32), self.all_rows(i, value)
        ops.assign(self.parameters[i], weight - rate * rules.trust_ratio(weight, step) * step)
