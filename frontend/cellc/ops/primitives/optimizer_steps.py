"""Primitive classes of one step of an optimizer: `ops.ApplyMomentum()`, `ops.Adam()`, ...

Each writes the new values into the parameters (or tensors) it is given and returns them. 16-bit
values step in float32, as those of `nn.optim` do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from cellc_compiler.ir.op import REQUIRED
from cellc_runtime.dtypes import bfloat16, float16, float32

from ...core.declared import misuse
from ...tensors.indexing import become
from ...tensors.parameter import Parameter
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import tensor
from ..functional import arith, indexing
from ..functional.arith import logical_and, sign, sqrt, where
from ..functional.creation import zeros_like
from ..functional.generated import exp
from ..operands import operands_of
from ..optimizer_rules import adam as adams
from ..optimizer_rules import momentum as momenta
from ..optimizer_rules import squares
from ..optimizer_rules.averages import Decay, blend
from ..primitive import Primitive
from .tables import make_primitives

_NARROW = (float16, bfloat16)


def wider(what: str, *given: Any) -> list[Tensor]:
    """Tensors of one shape to compute with, and scalars, in the type of the first."""
    (first,) = operands_of(what, "var float", given[0])
    kind = float32 if first.dtype in _NARROW else first.dtype
    out = []
    for x in given:
        value = cast_to(x, kind) if isinstance(x, Tensor) else arith.cast(Tensor(x), kind)
        if value.shape != first.shape and value.size != 1:
            raise misuse(what, f"shapes must be that of 'var', {first.shape}, or () for a number",
                         value.shape)
        out.append(value.reshape(()) if value.shape != first.shape else value)
    return out


def stored(*pairs: tuple[Tensor, Tensor]) -> Any:
    """Write new values where they belong; they, or the only one."""
    stored = []
    for place, new in pairs:
        value = cast_to(new, place.dtype)
        stored.append(indexing.assign(place, value) if isinstance(place, Parameter)
                      else become(place, value))
    return stored[0] if len(stored) == 1 else tuple(stored)


_STEPS: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {}
"""Of each primitive its function and the arguments of its init with their defaults."""
_LOCK = {"use_locking": False}


def _step(
    name: str, written: str, only_first: bool = False, **init: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a pure function the step of a primitive: it gets values in one type.

    Args:
        written: the operands that take the function's results.
        only_first: the primitive returns the first of these only.
        init: see `_STEPS`.
    """
    def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
        taken = [p for p in inspect.signature(rule).parameters.values()
                       if p.kind is not p.KEYWORD_ONLY]
        names = [p.name for p in taken]
        places = [names.index(n) for n in written.split()]

        @wraps(rule)
        def function(*operands: Any, use_locking: bool = False, **given: Any) -> Any:
            operands += tuple([given.pop(n) for n in names[len(operands):] if n in given])
            results = rule(*wider(name, *operands), **given)
            pairs = zip([operands[i] for i in places], results, strict=True)
            new = stored(*pairs)
            return new[0] if only_first else new

        fixed = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                   annotation="float" if v is REQUIRED else type(v).__name__)
                 for n, v in init.items()]
        function.__signature__ = (  # type: ignore[attr-defined]  # an attribute that `inspect` reads
            inspect.Signature([*taken, *fixed], return_annotation="Any"))
        _STEPS[name] = function, init
        return function

    return decorate


def _pair(decay: Any) -> Decay:
    return decay, 1.0 - decay


def _correct_rate(rate: Any, power1: Any, power2: Any) -> Any:
    return rate * sqrt(1.0 - power2) / (1.0 - power1)


# --- momentum -------------------------------------------------------------------------------------


@_step("ApplyMomentum", "variable accumulation", True, use_nesterov=False, **_LOCK,
       gradient_scale=1.0)
def _momentum(
    variable: Tensor, accumulation: Tensor, learning_rate: Any, gradient: Tensor, momentum: Any, *,
    use_nesterov: bool, gradient_scale: float,
) -> Any:
    """accumulation = momentum accumulation + gradient; variable -= learning_rate accumulation."""
    g = gradient if gradient_scale == 1.0 else gradient * float(gradient_scale)
    return momenta.momentum(variable, g, learning_rate, accumulation, momentum=momentum,
                            use_nesterov=use_nesterov)


@_step("ApplyKerasMomentum", "var accum", **_LOCK, use_nesterov=False)
def _keras_momentum(
    var: Tensor, accum: Tensor, lr: Any, grad: Tensor, momentum: Any, *, use_nesterov: bool
) -> Any:
    """accum = momentum accum - lr grad; var += accum (with Nesterov, momentum accum - lr grad)."""
    accum = accum * momentum - grad * lr
    return var + (accum * momentum - grad * lr if use_nesterov else accum), accum


@_step("SGD", "parameters accum stat", True, dampening=0.0, weight_decay=0.0, nesterov=False)
def _sgd(
    parameters: Tensor, gradient: Tensor, learning_rate: Any, accum: Tensor, momentum: Any,
    stat: Tensor, *, dampening: float, weight_decay: float, nesterov: bool,
) -> Any:
    """Stochastic gradient descent; where `stat` is above zero `accum` is the gradient."""
    g = gradient + parameters * float(weight_decay) if weight_decay else gradient
    later = accum * momentum + g * (1.0 - float(dampening))
    moving = momentum > 0.0
    new = where(logical_and(moving, stat <= 0.0), later, g)
    step = where(moving, g + new * momentum, g) if nesterov else new
    return (parameters - step * learning_rate, where(moving, new, accum),
            where(moving, zeros_like(stat), stat))


@_step("ApplyGradientDescent", "var")
def _descent(var: Tensor, alpha: Any, delta: Tensor) -> Any:
    """A step of gradient descent: var - alpha * delta is written into the Parameter `var`, and
    returned."""
    return (var - delta * alpha,)


@_step("ApplyProximalGradientDescent", "var")
def _proximal_descent(var: Tensor, alpha: Any, l1: Any, l2: Any, delta: Tensor) -> Any:
    """A step of gradient descent, and the proximal operator of l1 and l2 penalties."""
    return (squares.proximal(var - delta * alpha, alpha, l1, l2),)


# --- adaptive moments -----------------------------------------------------------------------------


@_step("Adam", "var m_ v", **_LOCK, use_nesterov=False)
def adam(
    var: Tensor, m_: Tensor, v: Tensor, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any,
    beta2: Any, epsilon: Any, gradient: Tensor, *, use_nesterov: bool,
) -> Any:
    """m = beta1 m + (1 - beta1) g; v likewise of g**2; var -= l m / (sqrt(v) + epsilon)."""
    return adams.adam(var, gradient, _correct_rate(lr, beta1_power, beta2_power), m_, v,
                      beta1=_pair(beta1), beta2=_pair(beta2), eps=epsilon,
                      use_nesterov=use_nesterov)


@_step("AdamWeightDecay", "var m_ v", **_LOCK)
def _adam_decay(
    var: Tensor, m_: Tensor, v: Tensor, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any,
    gradient: Tensor,
) -> Any:
    """Adam's moments without their correction; var -= lr (m / (sqrt(v) + epsilon) + decay var)."""
    return adams.adam_weight_decay(var, gradient, lr, m_, v, beta1=_pair(beta1),
                                   beta2=_pair(beta2), eps=epsilon, decay=decay, average=blend)


def _adam_decay_cast(
    var: Tensor, m_: Tensor, v: Tensor, lr: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any,
    gradient: Tensor, norm: Any = 1.0, *, use_locking: bool = False,
) -> Any:
    """`AdamWeightDecay` for 16-bit gradients, which are divided by `norm` first."""
    (first,) = wider("FusedCastAdamWeightDecay", m_)
    wide = arith.div(cast_to(tensor(gradient, "FusedCastAdamWeightDecay", "gradient"), first.dtype),
                     norm)
    return _adam_decay(var, m_, v, lr, beta1, beta2, epsilon, decay, wide)


@_step("ApplyAdaMax", "var m_ v")
def _adamax(
    var: Tensor, m_: Tensor, v: Tensor, beta1_power: Any, lr: Any, beta1: Any, beta2: Any,
    epsilon: Any, grad: Tensor,
) -> Any:
    """Adam with v the largest of beta2 v and the size of the gradient."""
    return adams.adamax(var, grad, lr / (1.0 - beta1_power), m_, v, beta1=_pair(beta1),
                        beta2=beta2, eps=epsilon, average=blend)


@_step("ApplyAdamWithAmsgradV2", "var m_ v vhat", **_LOCK)
def _amsgrad(
    var: Tensor, m_: Tensor, v: Tensor, vhat: Tensor, beta1_power: Any, beta2_power: Any, lr: Any,
    beta1: Any, beta2: Any, epsilon: Any, grad: Tensor,
) -> Any:
    """Adam with the largest v so far in the place of v (Reddi et al., 2018)."""
    return adams.adam(var, grad, _correct_rate(lr, beta1_power, beta2_power), m_, v, vhat,
                      beta1=_pair(beta1), beta2=_pair(beta2), eps=epsilon)


def _amsgrad_fixed(
    var: Tensor, m_: Tensor, v: Tensor, vhat: Tensor, beta1_power: Any, beta2_power: Any, lr: Any,
    grad: Tensor, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
    use_locking: bool = False,
) -> Any:
    return _amsgrad(var, m_, v, vhat, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad)


# --- sums of squares ------------------------------------------------------------------------------


@_step("ApplyRMSProp", "var mean_square moment", True, **_LOCK)
def rms(
    var: Tensor, mean_square: Tensor, moment: Tensor, learning_rate: Any, grad: Tensor, decay: Any,
    momentum: Any, epsilon: Any,
) -> Any:
    """s = decay s + (1 - decay) g**2; v = momentum v + lr g / sqrt(s + epsilon); var -= v."""
    return squares.rms_prop(var, grad, learning_rate, mean_square, moment, decay=_pair(decay),
                            momentum=momentum, epsilon=epsilon, average=blend)


@_step("ApplyCenteredRMSProp", "var mean_gradient mean_square moment", True, **_LOCK)
def _centered_rms(
    var: Tensor, mean_gradient: Tensor, mean_square: Tensor, moment: Tensor, grad: Tensor,
    learning_rate: Any, decay: Any, momentum: Any, epsilon: Any,
) -> Any:
    """`ApplyRMSProp` with the square of the mean gradient taken from s."""
    mean = blend(mean_gradient, grad, _pair(decay))
    square = blend(mean_square, grad * grad, _pair(decay))
    moment = moment * momentum + learning_rate * grad / sqrt(square - mean * mean + epsilon)
    return var - moment, mean, square, moment


@_step("ApplyAdagrad", "var accum", update_slots=True)
def adagrad(var: Tensor, accum: Tensor, lr: Any, grad: Tensor, *, update_slots: bool) -> Any:
    """accum += grad**2; var -= lr grad / sqrt(accum)."""
    new, *total = squares.adagrad(var, grad, lr, accum, update_slots=update_slots)
    return new, *(total or [accum])


@_step("ApplyAdagradV2", "var accum", epsilon=REQUIRED, update_slots=True)
def adagrad_eps(
    var: Tensor, accum: Tensor, lr: Any, grad: Tensor, *, epsilon: float, update_slots: bool
) -> Any:
    """accum += grad**2; var -= lr grad / (sqrt(accum) + epsilon)."""
    new, *total = squares.adagrad(var, grad, lr, accum, epsilon=float(epsilon),
                                  update_slots=update_slots)
    return new, *(total or [accum])


@_step("ApplyAdagradDA", "var gradient_accumulator gradient_squared_accumulator", True, **_LOCK)
def _adagrad_dual(
    var: Tensor, gradient_accumulator: Tensor, gradient_squared_accumulator: Tensor, grad: Tensor,
    lr: Any, l1: Any, l2: Any, global_step: Any,
) -> Any:
    """Dual averaging (Duchi et al., 2011): the value follows from the sums of gradients alone."""
    total, square = gradient_accumulator + grad, gradient_squared_accumulator + grad * grad
    above = lr * where(l1 > 0.0, squares.shrink(total, l1 * global_step), total)
    return -(above / (l2 * global_step * lr + sqrt(square))), total, square


@_step("ApplyAdadelta", "var accum accum_update")
def adadelta(
    var: Tensor, accum: Tensor, accum_update: Tensor, lr: Any, rho: Any, epsilon: Any, grad: Tensor
) -> Any:
    """Steps scaled by the ratio of past steps and past gradients (Zeiler, 2012)."""
    return squares.adadelta(var, grad, lr, accum, accum_update, rho=_pair(rho), epsilon=epsilon,
                            average=blend)


@_step("ApplyProximalAdagrad", "var accum", **_LOCK)
def proximal_adagrad(var: Tensor, accum: Tensor, lr: Any, l1: Any, l2: Any, grad: Tensor) -> Any:
    """A step of Adagrad, and the proximal operator of l1 and l2 penalties."""
    return squares.proximal_adagrad(var, grad, lr, accum, l1=l1, l2=l2)


@_step("ApplyFtrl", "var accum linear", True, **_LOCK)
def ftrl(
    var: Tensor, accum: Tensor, linear: Tensor, grad: Tensor, lr: Any, l1: Any, l2: Any,
    lr_power: Any,
) -> Any:
    """Follow the regularised leader (McMahan et al., 2013)."""
    return squares.ftrl(var, grad, lr, accum, linear, l1=l1, l2=l2, lr_power=lr_power)


# --- signs ----------------------------------------------------------------------------------------


@_step("ApplyAddSign", "var m_")
def _add_sign(
    var: Tensor, m_: Tensor, lr: Any, alpha: Any, sign_decay: Any, beta: Any, grad: Tensor
) -> Any:
    """var -= lr (alpha + sign_decay sign(g) sign(m)) g (Bello et al., 2017)."""
    mean = blend(m_, grad, _pair(beta))
    return var - lr * ((sign_decay * sign(grad) * sign(mean) + alpha) * grad), mean


@_step("ApplyPowerSign", "var m_")
def _power_sign(
    var: Tensor, m_: Tensor, lr: Any, logbase: Any, sign_decay: Any, beta: Any, grad: Tensor
) -> Any:
    """var -= lr exp(logbase sign_decay sign(g) sign(m)) g (Bello et al., 2017)."""
    mean = blend(m_, grad, _pair(beta))
    return var - lr * (exp(logbase * sign_decay * (sign(grad) * sign(mean))) * grad), mean


PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives({}, _STEPS, {
    "FusedCastAdamWeightDecay": _adam_decay_cast, "ApplyAdamWithAmsgrad": _amsgrad_fixed})
"""Every primitive class of this module by name."""
