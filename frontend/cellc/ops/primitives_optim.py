"""Primitive classes of one step of an optimizer: `ops.ApplyMomentum()`, `ops.Adam()`, ...

Each writes the new values into the parameters (or tensors) it is given and returns them. 16-bit
values step in float32, as those of `nn.optim` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import bfloat16, float16, float32

from ..core.dispatch import apply
from ..tensors.indexing import become
from ..tensors.parameter import Parameter
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from .arguments import tensor
from .families import fc, fi, m
from .primitive import Primitive
from .primitives import make_primitives

_NARROW = (float16, bfloat16)


def wider(what: str, *given: Any) -> list[Tensor]:
    """Tensors of one shape to compute with, and scalars, in the type of the first.

    Raises:
        TypeError, ValueError: the first holds no floats; other shapes.
    """
    first = tensor(given[0], what, "var")
    if not first.dtype.is_float:
        raise TypeError(f"For '{what}', 'var' must hold floats, but got {first.dtype}.")
    kind = float32 if first.dtype in _NARROW else first.dtype
    out = []
    for x in given:
        value = cast_to(x, kind) if isinstance(x, Tensor) else m.cast(Tensor(x), kind)
        if value.shape != first.shape and value.size != 1:
            raise ValueError(f"For '{what}', shapes must be that of 'var', {first.shape}, or () "
                             f"for a number, but got {value.shape}.")
        out.append(value.reshape(()) if value.shape != first.shape else value)
    return out


def stored(*pairs: tuple[Tensor, Tensor]) -> Any:
    """Write new values where they belong; they, or the only one."""
    stored = []
    for where, new in pairs:
        value = cast_to(new, where.dtype)
        stored.append(fi.assign(where, value) if isinstance(where, Parameter)
                      else become(where, value))
    return stored[0] if len(stored) == 1 else tuple(stored)


def _near(x: Tensor, rate: Tensor, l1: Tensor, l2: Tensor) -> Tensor:
    """The proximal operator of l1 and l2 penalties."""
    shrunk = m.mul(m.sign(x), m.maximum(m.sub(m.abs(x), m.mul(rate, l1)), 0.0))
    return m.div(m.where(m.gt(l1, 0.0), shrunk, x), m.add(m.mul(rate, l2), 1.0))


def _towards(old: Tensor, new: Tensor, rate: Tensor) -> Tensor:
    """rate * old + (1 - rate) * new."""
    return m.add(old, m.mul(m.sub(new, old), m.sub(1.0, rate)))


# --- momentum -------------------------------------------------------------------------------------


def _momentum(
    variable: Tensor, accumulation: Tensor, learning_rate: Any, gradient: Tensor, momentum: Any,
    use_nesterov: bool, use_locking: bool, gradient_scale: float,
) -> Any:
    """accumulation = momentum accumulation + gradient; variable -= learning_rate accumulation."""
    w, a, rate, g, keep = wider("ApplyMomentum", variable, accumulation, learning_rate, gradient,
                                momentum)
    g = g if gradient_scale == 1.0 else m.mul(g, float(gradient_scale))
    a = m.add(m.mul(a, keep), g)
    step = m.add(g, m.mul(a, keep)) if use_nesterov else a
    return stored((variable, m.sub(w, m.mul(step, rate))), (accumulation, a))[0]


def _keras_momentum(
    var: Tensor, accum: Tensor, lr: Any, grad: Tensor, momentum: Any, use_locking: bool,
    use_nesterov: bool,
) -> Any:
    """accum = momentum accum - lr grad; var += accum (with Nesterov, momentum accum - lr grad)."""
    w, a, rate, g, keep = wider("ApplyKerasMomentum", var, accum, lr, grad, momentum)
    a = m.sub(m.mul(a, keep), m.mul(g, rate))
    step = m.sub(m.mul(a, keep), m.mul(g, rate)) if use_nesterov else a
    return stored((var, m.add(w, step)), (accum, a))


def _sgd(
    parameters: Tensor, gradient: Tensor, learning_rate: Any, accum: Tensor, momentum: Any,
    stat: Tensor, dampening: float, weight_decay: float, nesterov: bool,
) -> Any:
    """Stochastic gradient descent; where `stat` is above zero `accum` is the gradient."""
    w, g, rate, a, keep, s = wider("SGD", parameters, gradient, learning_rate, accum, momentum,
                                   stat)
    g = m.add(g, m.mul(w, float(weight_decay))) if weight_decay else g
    later = m.add(m.mul(a, keep), m.mul(g, 1.0 - float(dampening)))
    moving = m.gt(keep, 0.0)
    new = m.where(m.logical_and(moving, m.le(s, 0.0)), later, g)
    step = m.where(moving, m.add(g, m.mul(new, keep)), g) if nesterov else new
    return stored((parameters, m.sub(w, m.mul(step, rate))),
                  (accum, m.where(moving, new, a)),
                  (stat, m.where(moving, fc.zeros_like(s), s)))[0]


def _descent(var: Tensor, alpha: Any, delta: Tensor) -> Any:
    """var -= alpha delta."""
    w, rate, g = wider("ApplyGradientDescent", var, alpha, delta)
    return stored((var, m.sub(w, m.mul(g, rate))))


def _proximal_descent(var: Tensor, alpha: Any, l1: Any, l2: Any, delta: Tensor) -> Any:
    """A step of gradient descent, and the proximal operator of l1 and l2 penalties."""
    w, rate, one, two, g = wider("ApplyProximalGradientDescent", var, alpha, l1, l2, delta)
    return stored((var, _near(m.sub(w, m.mul(g, rate)), rate, one, two)))


# --- adaptive moments -----------------------------------------------------------------------------


def _corrected(rate: Tensor, power1: Tensor, power2: Tensor) -> Tensor:
    return m.div(m.mul(rate, m.sqrt(m.sub(1.0, power2))), m.sub(1.0, power1))


def adam(
    var: Tensor, m_: Tensor, v: Tensor, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any,
    beta2: Any, epsilon: Any, gradient: Tensor, use_locking: bool, use_nesterov: bool,
) -> Any:
    """m = beta1 m + (1 - beta1) g; v likewise of g**2; var -= l m / (sqrt(v) + epsilon)."""
    w, first, second, p1, p2, rate, b1, b2, eps, g = wider(
        "Adam", var, m_, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, gradient)
    first, second = _towards(first, g, b1), _towards(second, m.mul(g, g), b2)
    ahead = m.add(m.mul(first, b1), m.mul(g, m.sub(1.0, b1))) if use_nesterov else first
    step = m.div(m.mul(_corrected(rate, p1, p2), ahead), m.add(m.sqrt(second), eps))
    return stored((var, m.sub(w, step)), (m_, first), (v, second))


def _adam_decay(
    var: Tensor, m_: Tensor, v: Tensor, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any,
    gradient: Tensor, use_locking: bool,
) -> Any:
    """Adam's moments without their correction; var -= lr (m / (sqrt(v) + epsilon) + decay var)."""
    w, first, second, rate, b1, b2, eps, rest, g = wider(
        "AdamWeightDecay", var, m_, v, lr, beta1, beta2, epsilon, decay, gradient)
    first, second = _towards(first, g, b1), _towards(second, m.mul(g, g), b2)
    step = m.add(m.div(first, m.add(m.sqrt(second), eps)), m.mul(w, rest))
    return stored((var, m.sub(w, m.mul(step, rate))), (m_, first), (v, second))


def _adam_decay_cast(
    var: Tensor, m_: Tensor, v: Tensor, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any,
    gradient: Tensor, norm: Any = 1.0, *, use_locking: bool,
) -> Any:
    """`AdamWeightDecay` for 16-bit gradients, which are divided by `norm` first."""
    (first,) = wider("FusedCastAdamWeightDecay", m_)
    wide = m.div(cast_to(tensor(gradient, "FusedCastAdamWeightDecay", "gradient"), first.dtype),
                 norm)
    return _adam_decay(var, m_, v, lr, beta1, beta2, epsilon, decay, wide, use_locking)


def _adamax(
    var: Tensor, m_: Tensor, v: Tensor, beta1_power: Any, lr: Any, beta1: Any, beta2: Any,
    epsilon: Any, grad: Tensor,
) -> Any:
    """Adam with v the largest of beta2 v and the size of the gradient."""
    w, first, second, p1, rate, b1, b2, eps, g = wider(
        "ApplyAdaMax", var, m_, v, beta1_power, lr, beta1, beta2, epsilon, grad)
    first, second = _towards(first, g, b1), m.maximum(m.mul(second, b2), m.abs(g))
    step = m.div(m.mul(m.div(rate, m.sub(1.0, p1)), first), m.add(second, eps))
    return stored((var, m.sub(w, step)), (m_, first), (v, second))


def _amsgrad(
    var: Tensor, m_: Tensor, v: Tensor, vhat: Tensor, beta1_power: Any, beta2_power: Any, lr: Any,
    beta1: Any, beta2: Any, epsilon: Any, grad: Tensor, use_locking: bool,
) -> Any:
    """Adam with the largest v so far in the place of v (Reddi et al., 2018)."""
    w, first, second, top, p1, p2, rate, b1, b2, eps, g = wider(
        "ApplyAdamWithAmsgrad", var, m_, v, vhat, beta1_power, beta2_power, lr, beta1, beta2,
        epsilon, grad)
    first, second = _towards(first, g, b1), _towards(second, m.mul(g, g), b2)
    top = m.maximum(top, second)
    step = m.div(m.mul(_corrected(rate, p1, p2), first), m.add(m.sqrt(top), eps))
    return stored((var, m.sub(w, step)), (m_, first), (v, second), (vhat, top))


def _amsgrad_fixed(
    var: Tensor, m_: Tensor, v: Tensor, vhat: Tensor, beta1_power: Any, beta2_power: Any, lr: Any,
    grad: Tensor, beta1: float, beta2: float, epsilon: float, use_locking: bool,
) -> Any:
    return _amsgrad(var, m_, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad,
                    use_locking)


# --- sums of squares ------------------------------------------------------------------------------


def rms(
    var: Tensor, mean_square: Tensor, moment: Tensor, learning_rate: Any, grad: Tensor, decay: Any,
    momentum: Any, epsilon: Any, use_locking: bool,
) -> Any:
    """s = decay s + (1 - decay) g**2; v = momentum v + lr g / sqrt(s + epsilon); var -= v."""
    w, s, v, rate, g, rho, keep, eps = wider("ApplyRMSProp", var, mean_square, moment,
                                             learning_rate, grad, decay, momentum, epsilon)
    s = _towards(s, m.mul(g, g), rho)
    v = m.add(m.mul(v, keep), m.div(m.mul(rate, g), m.sqrt(m.add(s, eps))))
    return stored((var, m.sub(w, v)), (mean_square, s), (moment, v))[0]


def _centered_rms(
    var: Tensor, mean_gradient: Tensor, mean_square: Tensor, moment: Tensor, grad: Tensor,
    learning_rate: Any, decay: Any, momentum: Any, epsilon: Any, use_locking: bool,
) -> Any:
    """`ApplyRMSProp` with the square of the mean gradient taken from s."""
    w, mean, s, v, g, rate, rho, keep, eps = wider(
        "ApplyCenteredRMSProp", var, mean_gradient, mean_square, moment, grad, learning_rate,
        decay, momentum, epsilon)
    mean, s = _towards(mean, g, rho), _towards(s, m.mul(g, g), rho)
    below = m.sqrt(m.add(m.sub(s, m.mul(mean, mean)), eps))
    v = m.add(m.mul(v, keep), m.div(m.mul(rate, g), below))
    return stored((var, m.sub(w, v)), (mean_gradient, mean), (mean_square, s), (moment, v))[0]


def adagrad(var: Tensor, accum: Tensor, lr: Any, grad: Tensor, update_slots: bool) -> Any:
    """accum += grad**2; var -= lr grad / sqrt(accum)."""
    w, a, rate, g = wider("ApplyAdagrad", var, accum, lr, grad)
    a = m.add(a, m.mul(g, g)) if update_slots else a
    return stored((var, m.sub(w, m.div(m.mul(rate, g), m.sqrt(a)))), (accum, a))


def adagrad_eps(
    var: Tensor, accum: Tensor, lr: Any, grad: Tensor, epsilon: float, update_slots: bool
) -> Any:
    """accum += grad**2; var -= lr grad / (sqrt(accum) + epsilon)."""
    w, a, rate, g = wider("ApplyAdagradV2", var, accum, lr, grad)
    a = m.add(a, m.mul(g, g)) if update_slots else a
    step = m.div(m.mul(rate, g), m.add(m.sqrt(a), float(epsilon)))
    return stored((var, m.sub(w, step)), (accum, a))


def _adagrad_dual(
    var: Tensor, gradient_accumulator: Tensor, gradient_squared_accumulator: Tensor, grad: Tensor,
    lr: Any, l1: Any, l2: Any, global_step: Any, use_locking: bool,
) -> Any:
    """Dual averaging (Duchi et al., 2011): the value follows from the sums of gradients alone."""
    _, a, s, g, rate, one, two, step = wider(
        "ApplyAdagradDA", var, gradient_accumulator, gradient_squared_accumulator, grad, lr, l1,
        l2, global_step)
    a, s = m.add(a, g), m.add(s, m.mul(g, g))
    shrunk = m.mul(m.sign(a), m.maximum(m.sub(m.abs(a), m.mul(one, step)), 0.0))
    above = m.mul(rate, m.where(m.gt(one, 0.0), shrunk, a))
    below = m.add(m.mul(m.mul(two, step), rate), m.sqrt(s))
    return stored((var, m.neg(m.div(above, below))), (gradient_accumulator, a),
                  (gradient_squared_accumulator, s))[0]


def adadelta(
    var: Tensor, accum: Tensor, accum_update: Tensor, lr: Any, rho: Any, epsilon: Any, grad: Tensor
) -> Any:
    """Steps scaled by the ratio of past steps and past gradients (Zeiler, 2012)."""
    w, s, u, rate, keep, eps, g = wider("ApplyAdadelta", var, accum, accum_update, lr, rho,
                                        epsilon, grad)
    s = _towards(s, m.mul(g, g), keep)
    step = m.mul(m.div(m.sqrt(m.add(u, eps)), m.sqrt(m.add(s, eps))), g)
    u = _towards(u, m.mul(step, step), keep)
    return stored((var, m.sub(w, m.mul(rate, step))), (accum, s), (accum_update, u))


def proximal_adagrad(
    var: Tensor, accum: Tensor, lr: Any, l1: Any, l2: Any, grad: Tensor, use_locking: bool
) -> Any:
    """A step of Adagrad, and the proximal operator of l1 and l2 penalties."""
    w, a, rate, one, two, g = wider("ApplyProximalAdagrad", var, accum, lr, l1, l2, grad)
    a = m.add(a, m.mul(g, g))
    scaled = m.div(rate, m.sqrt(a))
    return stored((var, _near(m.sub(w, m.mul(scaled, g)), scaled, one, two)), (accum, a))


def ftrl(
    var: Tensor, accum: Tensor, linear: Tensor, grad: Tensor, lr: Any, l1: Any, l2: Any,
    lr_power: Any, use_locking: bool,
) -> Any:
    """Follow the regularised leader (McMahan et al., 2013)."""
    w, a, z, g, rate, one, two, power = wider("ApplyFtrl", var, accum, linear, grad, lr, l1, l2,
                                              lr_power)
    total = m.add(a, m.mul(g, g))
    before, after = m.pow(a, m.neg(power)), m.pow(total, m.neg(power))
    z = m.sub(m.add(z, g), m.mul(m.div(m.sub(after, before), rate), w))
    below = m.add(m.div(after, rate), m.mul(two, 2.0))
    new = m.div(m.sub(m.mul(m.sign(z), one), z), below)
    return stored((var, m.where(m.gt(m.abs(z), one), new, fc.zeros_like(z))), (accum, total),
                  (linear, z))[0]


# --- signs ----------------------------------------------------------------------------------------


def _add_sign(
    var: Tensor, m_: Tensor, lr: Any, alpha: Any, sign_decay: Any, beta: Any, grad: Tensor
) -> Any:
    """var -= lr (alpha + sign_decay sign(g) sign(m)) g (Bello et al., 2017)."""
    w, first, rate, base, decay, b, g = wider("ApplyAddSign", var, m_, lr, alpha, sign_decay, beta,
                                              grad)
    first = _towards(first, g, b)
    scale = m.add(m.mul(m.mul(decay, m.sign(g)), m.sign(first)), base)
    return stored((var, m.sub(w, m.mul(rate, m.mul(scale, g)))), (m_, first))


def _power_sign(
    var: Tensor, m_: Tensor, lr: Any, logbase: Any, sign_decay: Any, beta: Any, grad: Tensor
) -> Any:
    """var -= lr exp(logbase sign_decay sign(g) sign(m)) g (Bello et al., 2017)."""
    w, first, rate, base, decay, b, g = wider("ApplyPowerSign", var, m_, lr, logbase, sign_decay,
                                              beta, grad)
    first = _towards(first, g, b)
    scale = apply("exp", m.mul(m.mul(base, decay), m.mul(m.sign(g), m.sign(first))))
    return stored((var, m.sub(w, m.mul(rate, m.mul(scale, g)))), (m_, first))


_LOCK = {"use_locking": False}

_STEPS: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "Adam": (adam, {**_LOCK, "use_nesterov": False}),
    "AdamWeightDecay": (_adam_decay, _LOCK), "FusedCastAdamWeightDecay": (_adam_decay_cast, _LOCK),
    "ApplyAdaMax": (_adamax, {}), "ApplyAdadelta": (adadelta, {}),
    "ApplyAdagrad": (adagrad, {"update_slots": True}),
    "ApplyAdagradV2": (adagrad_eps, {"epsilon": REQUIRED, "update_slots": True}),
    "ApplyAdagradDA": (_adagrad_dual, _LOCK),
    "ApplyAdamWithAmsgrad": (_amsgrad_fixed, {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
                                              **_LOCK}),
    "ApplyAdamWithAmsgradV2": (_amsgrad, _LOCK), "ApplyAddSign": (_add_sign, {}),
    "ApplyCenteredRMSProp": (_centered_rms, _LOCK), "ApplyFtrl": (ftrl, _LOCK),
    "ApplyGradientDescent": (_descent, {}),
    "ApplyKerasMomentum": (_keras_momentum, {**_LOCK, "use_nesterov": False}),
    "ApplyMomentum": (_momentum, {"use_nesterov": False, **_LOCK, "gradient_scale": 1.0}),
    "ApplyPowerSign": (_power_sign, {}),
    "ApplyProximalAdagrad": (proximal_adagrad, _LOCK),
    "ApplyProximalGradientDescent": (_proximal_descent, {}),
    "ApplyRMSProp": (rms, _LOCK),
    "SGD": (_sgd, {"dampening": 0.0, "weight_decay": 0.0, "nesterov": False}),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives({}, _STEPS)
"""Every primitive class of this module by name."""
