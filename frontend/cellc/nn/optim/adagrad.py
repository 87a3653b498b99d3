"""Optimizers that scale by past squares: RMSProp, Adagrad, Adadelta, ProximalAdagrad, FTRL."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core import checks
from ..registering import opt_init_args_register
from .optimizer import Optimizer, complement
from .sgd import non_negative_float


class RMSProp(Optimizer):
    """s = decay s + (1 - decay) g**2; v = momentum v + lr g / sqrt(s + epsilon); p -= v.

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        decay, momentum: non-negative.
        epsilon: positive.
        use_locking: accepted for compatibility.
        centered: subtract the square of the mean gradient from s.

    Source: `mindspore.nn.RMSProp` (Tieleman and Hinton, 2012).
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 0.1, decay: float = 0.9, momentum: float = 0.0,
        epsilon: float = 1e-10, use_locking: bool = False, centered: bool = False,
        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        what = self.cls_name
        self.decay = non_negative_float(decay, "decay", what)
        self.rest = complement(self.decay)
        self.momentum = non_negative_float(momentum, "momentum", what)
        self.epsilon = checks.above_zero(
            checks.floating(epsilon, "epsilon", what), "epsilon", what)
        checks.boolean(use_locking, "use_locking", what)
        self.centered = checks.boolean(centered, "centered", what)
        if centered:
            self.mg = self.state_of("mean_grad", "zeros")
        self.ms = self.state_of("mean_square", "ones")
        self.moment = self.state_of("moment", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their statistics."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        for i in range(self.param_length):
            weight, gradient, square, moment = self.wide(
                i, self.own_part(i), gradients[i], self.ms[i], self.moment[i])
            square = square * self.decay + ops.square(gradient) * self.rest
            below = square + self.epsilon
            if self.centered:
                mean = ops.cast(self.mg[i], gradient.dtype) * self.decay + gradient * self.rest
                below = below - ops.square(mean)
                ops.assign(self.mg[i], mean)
            step = moment * self.momentum + self.rate_of(lr, i) * gradient / ops.sqrt(below)
            ops.assign(self.ms[i], square)
            ops.assign(self.moment[i], step)
            self.put_part(i, weight - step)
        return self.done()


class Adagrad(Optimizer):
    """s += g**2; p -= lr g / sqrt(s).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        accum: s at first, non-negative.
        update_slots: whether s changes.

    Source: `mindspore.nn.Adagrad` (Duchi et al., 2011).
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, accum: float = 0.1, learning_rate: Any = 0.001,
        update_slots: bool = True, loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        first = non_negative_float(accum, "accum", self.cls_name)
        self.update_slots = checks.boolean(update_slots, "update_slots", self.cls_name)
        self.accum = self.state_of("accum", first)

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their `accum`."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        for i in range(self.param_length):
            weight, gradient, total = self.wide(
                i, self.own_part(i), gradients[i], self.accum[i])
            if self.update_slots:
                total = total + ops.square(gradient)
            step = self.rate_of(lr, i) * gradient / ops.sqrt(total)
            self.put_part(i, weight - step)
            if self.update_slots:
                ops.assign(self.accum[i], total)
        return self.done()


class Adadelta(Optimizer):
    """Steps scaled by the ratio of past steps and past gradients (Zeiler, 2012).

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        rho: decay rate of both, in [0, 1].
        epsilon: non-negative.

    Source: `mindspore.nn.Adadelta`.
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, learning_rate: Any = 1.0, rho: float = 0.9, epsilon: float = 1e-6,
        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.rho = checks.between(rho, 0.0, 1.0, "rho", self.cls_name)
        self.rest = complement(self.rho)
        self.epsilon = non_negative_float(epsilon, "epsilon", self.cls_name)
        self.accum = self.state_of("accum", "zeros")
        self.accum_update = self.state_of("accum_update", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their statistics."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        for i in range(self.param_length):
            weight, gradient, square, later = self.wide(
                i, self.own_part(i), gradients[i], self.accum[i], self.accum_update[i])
            square = square * self.rho + ops.square(gradient) * self.rest
            step = ops.sqrt(later + self.epsilon) / ops.sqrt(square + self.epsilon) * gradient
            later = later * self.rho + ops.square(step) * self.rest
            ops.assign(self.accum[i], square)
            ops.assign(self.accum_update[i], later)
            self.put_part(i, weight - self.rate_of(lr, i) * step)
        return self.done()


class ProximalAdagrad(Optimizer):
    """Adagrad steps followed by the proximal operator of l1 and l2 penalties.

    Args:
        params, learning_rate, weight_decay, loss_scale: see `Optimizer`.
        accum: the sum of squares at first, non-negative.
        l1, l2: weights of the penalties, non-negative.
        use_locking: accepted for compatibility.

    Source: `mindspore.nn.ProximalAdagrad` (Duchi and Singer, 2009).
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, accum: float = 0.1, learning_rate: Any = 0.001, l1: float = 0.0,
        l2: float = 0.0, use_locking: bool = False, loss_scale: float = 1.0,
        weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        what = self.cls_name
        self.l1 = non_negative_float(l1, "l1", what)
        self.l2 = non_negative_float(l2, "l2", what)
        checks.boolean(use_locking, "use_locking", what)
        self.accum = self.state_of("accum", non_negative_float(accum, "accum", what))

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their `accum`."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        for i in range(self.param_length):
            weight, gradient, total = self.wide(
                i, self.own_part(i), gradients[i], self.accum[i])
            total = total + ops.square(gradient)
            rate = self.rate_of(lr, i) / ops.sqrt(total)
            near = weight - rate * gradient
            if self.l1 > 0:
                near = ops.sign(near) * ops.maximum(ops.abs(near) - rate * self.l1, 0.0)
            ops.assign(self.accum[i], total)
            self.put_part(i, near / (1.0 + rate * self.l2))
        return self.done()


class FTRL(Optimizer):
    """Follow the regularised leader (McMahan et al., 2013). Source: `mindspore.nn.FTRL`.

    Args:
        params, weight_decay, loss_scale: see `Optimizer`.
        initial_accum: the sum of squares at first, non-negative.
        learning_rate: a float (one rate for all steps and parameters), positive.
        lr_power: exponent of the rate's decay, not positive.
        l1, l2: weights of the penalties, non-negative.
        use_locking: accepted for compatibility.

    Raises:
        ValueError: the rate is not one constant, or `lr_power` is positive.
    """

    @opt_init_args_register
    def __init__(
        self, params: Any, initial_accum: float = 0.1, learning_rate: Any = 0.001,
        lr_power: float = -0.5, l1: float = 0.0, l2: float = 0.0, use_locking: bool = False,
        loss_scale: float = 1.0, weight_decay: Any = 0.0,
    ) -> None:
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        what = self.cls_name
        if self.dynamic_lr or self.is_group_lr:
            raise ValueError(f"For '{what}', one constant learning rate is wanted.")
        if checks.number(lr_power, "lr_power", what) > 0:
            raise ValueError(f"For '{what}', 'lr_power' must not be positive, got {lr_power}.")
        self.lr_power = float(lr_power)
        self.l1 = non_negative_float(l1, "l1", what)
        self.l2 = non_negative_float(l2, "l2", what)
        if not self.is_group:
            self.decay_flags = (True,) * self.param_length
            self.exec_weight_decay = self.dynamic_weight_decay or float(self.weight_decay) > 0
        checks.boolean(use_locking, "use_locking", what)
        first = non_negative_float(initial_accum, "initial_accum", what)
        self.moments = self.state_of("moments", first)
        self.linear = self.state_of("linear", "zeros")

    def construct(self, gradients: Any) -> tuple[bool, ...]:
        """Assign new values to the parameters and their statistics."""
        gradients = self.prepared(gradients)
        lr = self.next_rate()
        for i in range(self.param_length):
            weight, gradient, moment, linear = self.wide(
                i, self.own_part(i), gradients[i], self.moments[i], self.linear[i])
            rate = self.rate_of(lr, i)
            total = moment + ops.square(gradient)
            before = ops.pow(moment, -self.lr_power)
            after = ops.pow(total, -self.lr_power)
            linear = linear + gradient - (after - before) / rate * weight
            below = after / rate + 2.0 * self.l2
            new = (ops.sign(linear) * self.l1 - linear) / below
            ops.assign(self.moments[i], total)
            ops.assign(self.linear[i], linear)
            self.put_part(i, ops.where(ops.abs(linear) > self.l1, new, 0.0))
        return self.done()
