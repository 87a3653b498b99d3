"""Optimizers that scale by past squares: RMSProp, Adagrad, Adadelta, ProximalAdagrad, FTRL.

Source: `mindspore.nn`.
"""

from __future__ import annotations

from typing import Annotated, Any

from ...core.declared import Flag, Share, SmallFloat, misuse, number
from ...ops.optimizer_rules import squares
from ..registering import opt_init_args_register
from .by_rule import NonNegativeOption, RuleOptimizer


class RMSProp(RuleOptimizer):
    """s = decay s + (1 - decay) g**2; v = momentum v + lr g / sqrt(s + epsilon); p -= v.

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        decay, momentum: non-negative.
        epsilon: positive.
        use_locking: accepted for compatibility.
        centered: subtract the square of the mean gradient from s.

    Source: `mindspore.nn.RMSProp` (Tieleman and Hinton, 2012).
    """

    _rule = staticmethod(squares.rms_prop)
    _state: tuple[str, ...] = ("ms", "moment")
    _decays, _constants = ("decay",), ("momentum", "epsilon")

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.1, decay: NonNegativeOption = 0.9,
        momentum: NonNegativeOption = 0.0, epsilon: SmallFloat = 1e-10, use_locking: Flag = False,
        centered: Flag = False,
        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.decay, self.momentum, self.epsilon = decay, momentum, epsilon
        self.use_locking, self.centered = use_locking, centered
        if centered:
            self._state = (*self._state, "mg")
            self.mg = self.state_of("mean_grad", "zeros")
        self.ms = self.state_of("mean_square", "ones")
        self.moment = self.state_of("moment", "zeros")


class Adagrad(RuleOptimizer):
    """s += g**2; p -= lr g / sqrt(s).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        accum: s at first, non-negative.
        update_slots: whether s changes.

    Source: `mindspore.nn.Adagrad` (Duchi et al., 2011).
    """

    _rule = staticmethod(squares.adagrad)
    _state, _constants = ("accum",), ("update_slots",)

    @opt_init_args_register
    def __init__(
        self, params: Any, accum: NonNegativeOption = 0.1, learning_rate: Any = 0.001,
        update_slots: Flag = True, loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.update_slots = update_slots
        self.accum = self.state_of("accum", accum)


class Adadelta(RuleOptimizer):
    """Steps scaled by the ratio of past steps and past gradients (Zeiler, 2012).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        rho: decay rate of both, in [0, 1].
        epsilon: non-negative.
    """

    _rule = staticmethod(squares.adadelta)
    _state = ("accum", "accum_update")
    _decays, _constants = ("rho",), ("epsilon",)

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 1.0, rho: Share = 0.9,
        epsilon: NonNegativeOption = 1e-6,        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.rho, self.epsilon = rho, epsilon
        self.accum = self.state_of("accum", "zeros")
        self.accum_update = self.state_of("accum_update", "zeros")


class ProximalAdagrad(RuleOptimizer):
    """Adagrad steps followed by the proximal operator of l1 and l2 penalties.

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        accum: the sum of squares at first, non-negative.
        l1, l2: weights of the penalties, non-negative.
        use_locking: accepted for compatibility.

    Source: `mindspore.nn.ProximalAdagrad` (Duchi and Singer, 2009).
    """

    _rule = staticmethod(squares.proximal_adagrad)
    _state, _constants = ("accum",), ("l1", "l2")

    @opt_init_args_register
    def __init__(
        self, params: Any, accum: NonNegativeOption = 0.1, learning_rate: Any = 0.001,
        l1: NonNegativeOption = 0.0, l2: NonNegativeOption = 0.0, use_locking: Flag = False,
        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.l1, self.l2, self.use_locking = l1, l2, use_locking
        self.accum = self.state_of("accum", accum)


class FTRL(RuleOptimizer):
    """Follow the regularised leader (McMahan et al., 2013).

    Args:
        params, weight_decay, loss_scale: see `Optimizer`.
        initial_accum: the sum of squares at first, non-negative.
        learning_rate: a float (one rate for all steps and parameters), positive.
        lr_power: exponent of the rate's decay, not positive.
        l1, l2: weights of the penalties, non-negative.
        use_locking: accepted for compatibility.
    """

    _rule = staticmethod(squares.ftrl)
    _state, _constants = ("moments", "linear"), ("l1", "l2", "lr_power")

    @opt_init_args_register
    def __init__(
        self, params: Any, initial_accum: NonNegativeOption = 0.1, learning_rate: Any = 0.001,
        lr_power: Annotated[float, number(high=0)] = -0.5, l1: NonNegativeOption = 0.0,
        l2: NonNegativeOption = 0.0, use_locking: Flag = False,
        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        what = self.cls_name
        if self.dynamic_lr or self.is_group_lr:
            raise misuse(what, "one constant learning rate is wanted")
        self.lr_power = lr_power
        if not self.is_group:
            self.decay_flags = (True,) * self.param_length
            self.exec_weight_decay = self.dynamic_weight_decay or float(self.weight_decay) > 0
        self.l1, self.l2, self.use_locking = l1, l2, use_locking
        self.moments = self.state_of("moments", initial_accum)
        self.linear = self.state_of("linear", "zeros")
