"""Primitive classes of steps of optimizers whose gradient has some rows of a parameter only.

The rows of the parameter and of its state are taken out, stepped as `optimizer_steps` steps whole
parameters, and written back. Gradients of one row are added first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...core.dispatch import apply_one
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..functional import arith, creation, indexing
from ..operands import operands_of
from ..optimizer_rules.adam import lars
from ..primitive import Primitive
from . import optimizer_steps
from .tables import make_primitives

_State = tuple[Tensor, ...]


def _check_rows(what: str, var: Tensor, grad: Tensor, indices: Tensor) -> None:
    """Raises a ValueError or TypeError where a gradient has other rows than `indices` names."""
    v, _, at = operands_of(what, "var (m, ...), grad (n, ...), indices int (n)", var, grad, indices)
    indexing.check_index(at, v.shape[0], what)


def _spread(var: Tensor, grad: Tensor, indices: Tensor) -> Tensor:
    """The gradient of the whole parameter."""
    zeros = creation.zeros(var.shape, grad.dtype)
    return indexing.tensor_scatter_add(zeros, indices.reshape((-1, 1)), grad)


def _by_rows(
    what: str, state: _State, grad: Tensor, indices: Tensor,
    step: Callable[..., Any],
) -> _State:
    """Step the rows of tensors at `indices`: `step(*rows, their gradient)` writes into the rows.

    Returns:
        The whole tensors afterwards.
    """
    _check_rows(what, state[0], grad, indices)
    rows = tuple(_take(t, indices) for t in state)
    step(*rows, _take(_spread(state[0], grad, indices), indices))
    points = indices.reshape((-1, 1))
    stored = optimizer_steps.stored(
        *((t, indexing.tensor_scatter_update(t, points, cast_to(r, t.dtype)))
          for t, r in zip(state, rows, strict=True)))
    return stored if isinstance(stored, tuple) else (stored,)


def _take(x: Tensor, indices: Tensor) -> Tensor:
    return apply_one("gather", x, indices, axis=0)


def _ftrl(what: str) -> Callable[..., _State]:
    return lambda var, accum, linear, grad, indices, *, lr, l1, l2, lr_power, use_locking=False: \
        _by_rows(what, (var, accum, linear), grad, indices,
                 lambda w, a, z, g: optimizer_steps.ftrl(w, a, z, g, lr, l1, l2, lr_power))


def _ftrl_shrinking(
    var: Tensor, accum: Tensor, linear: Tensor, grad: Tensor, indices: Tensor, *, lr: float,
    l1: float, l2: float, l2_shrinkage: float, lr_power: float, use_locking: bool = False,
) -> _State:
    """`SparseApplyFtrl`, whose linear part also takes 2 l2_shrinkage var (not the squares)."""
    def step(w: Tensor, a: Tensor, z: Tensor, g: Tensor) -> None:
        optimizer_steps.stored((z, arith.add(z, arith.mul(w, 2.0 * l2_shrinkage))))
        optimizer_steps.ftrl(w, a, z, g, lr, l1, l2, lr_power)

    return _by_rows("SparseApplyFtrlV2", (var, accum, linear), grad, indices, step)


def _proximal(what: str) -> Callable[..., _State]:
    return lambda var, accum, lr, l1, l2, grad, indices, *, use_locking=False: _by_rows(
        what, (var, accum), grad, indices,
        lambda w, a, g: optimizer_steps.proximal_adagrad(w, a, lr, l1, l2, g))


def _adam(
    var: Tensor, m: Tensor, v: Tensor, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any,
    beta2: Any, epsilon: Any, gradient: Tensor, indices: Tensor, *, use_locking: bool = False,
    use_nesterov: bool = False,
) -> _State:
    """`Adam` of a gradient that is zero in all other rows: their moments decay, too."""
    _check_rows("FusedSparseAdam", var, gradient, indices)
    return tuple(
        optimizer_steps.adam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon,
                             _spread(var, gradient, indices), use_nesterov=use_nesterov))


def _lazy_adam(
    var: Tensor, m: Tensor, v: Tensor, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any,
    beta2: Any, epsilon: Any, gradient: Tensor, indices: Tensor, *, use_locking: bool = False,
    use_nesterov: bool = False,
) -> _State:
    """`Adam` of the rows that have a gradient alone."""
    return _by_rows(
        "FusedSparseLazyAdam", (var, m, v), gradient, indices,
        lambda w, a, b, g: optimizer_steps.adam(w, a, b, beta1_power, beta2_power, lr, beta1, beta2,
                                       epsilon, g, use_nesterov=use_nesterov))


def _adam_change(
    m: Tensor, v: Tensor, beta1_power: Any, beta2_power: Any, lr: Any, beta1: Any, beta2: Any,
    epsilon: Any, gradient: Tensor, *, use_locking: bool = False, use_nesterov: bool = False,
) -> Tensor:
    """Return the change that `Adam` adds to a parameter; the moments are stepped."""
    change = creation.zeros_like(m)
    optimizer_steps.adam(
        change, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, gradient,
        use_nesterov=use_nesterov)
    return change


def _lars(
    weight: Tensor, gradient: Tensor, norm_weight: Tensor, norm_gradient: Tensor,
    weight_decay: Any, learning_rate: Any, *, epsilon: float = 1e-05, hyperpara: float = 0.001,
    use_clip: bool = False,
) -> Tensor:
    """The gradient times the layer's rate of You et al. (2017), with the weights' decay."""
    w, g, wn, gn, decay, rate = optimizer_steps.wider(
        "LARSUpdate", weight, gradient, norm_weight, norm_gradient, weight_decay, learning_rate)
    scaled = lars(w, g, (arith.sqrt(wn), arith.sqrt(gn)), decay, float(epsilon), float(hyperpara),
                  rate if use_clip else None)
    return cast_to(scaled, gradient.dtype)


_OWN: dict[str, Callable[..., Any]] = {
    "AdamNoUpdateParam": _adam_change, "FusedSparseAdam": _adam,
    "FusedSparseFtrl": _ftrl("FusedSparseFtrl"), "FusedSparseLazyAdam": _lazy_adam,
    "FusedSparseProximalAdagrad": _proximal("FusedSparseProximalAdagrad"), "LARSUpdate": _lars,
    "SparseApplyAdadelta": lambda var, accum, accum_update, lr, rho, grad, indices, *, epsilon,
    use_locking=False: _by_rows(
        "SparseApplyAdadelta", (var, accum, accum_update), grad, indices,
        lambda w, a, u, g: optimizer_steps.adadelta(w, a, u, lr, rho, epsilon, g)),
    "SparseApplyAdagrad": lambda var, accum, grad, indices, *, lr, update_slots=True,
    use_locking=False: _by_rows(
        "SparseApplyAdagrad", (var, accum), grad, indices,
        lambda w, a, g: optimizer_steps.adagrad(w, a, lr, g, update_slots=update_slots)),
    "SparseApplyAdagradV2": lambda var, accum, grad, indices, *, lr, epsilon, use_locking=False,
    update_slots=True: _by_rows(
        "SparseApplyAdagradV2", (var, accum), grad, indices,
        lambda w, a, g: optimizer_steps.adagrad_eps(
            w, a, lr, g, epsilon=epsilon, update_slots=update_slots)),
    "SparseApplyFtrl": _ftrl("SparseApplyFtrl"), "SparseApplyFtrlV2": _ftrl_shrinking,
    "SparseApplyProximalAdagrad": _proximal("SparseApplyProximalAdagrad"),
    "SparseApplyRMSProp": lambda var, ms, mom, lr, grad, indices, *, rho, momentum, epsilon,
    use_locking=False: _by_rows(
        "SparseApplyRMSProp", (var, ms, mom), grad, indices,
        lambda w, s, v, g: optimizer_steps.rms(w, s, v, lr, g, rho, momentum, epsilon)),
}

PRIMITIVES: Mapping[str, type[Primitive]] = make_primitives({}, {}, _OWN)
"""Every primitive class of this module by name."""
