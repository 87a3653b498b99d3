"""Activations, normalisation and clipping.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

from cellc_runtime.dtypes import DType, bool_

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, plain_calls
from ...core.native import native, native_body, native_of_any_shape
from ...tensors.indexing import become
from ...tensors.promotion import cast_to, constant, inexact
from ...tensors.tensor import Tensor
from ..arguments import (
    axis_of,
    choice,
    dtype_of,
    integer,
    ints,
    named,
    number,
    own_axis,
    ranked,
    real,
    sequence,
    tensor,
)
from ..operands import operands_of
from . import arith, creation, joining, linalg, shapes, statistics

# --- activations ----------------------------------------------------------------------------------


@native
def softmax(input: Tensor, axis: int = -1, *, dtype: DType | None = None) -> Tensor:
    """exp(x) / the sum of exp(x) along an axis, without overflow.

    Args:
        dtype: element type to convert to first.
    """
    x = _floating(input, "softmax") if dtype is None else \
        cast_to(tensor(input, "softmax"), dtype_of(dtype, "softmax"))
    return _along("softmax", x, axis)


def _floating(x: Any, what: str) -> Tensor:
    t = tensor(x, what)
    if not t.dtype.is_float:
        raise misuse(what, "the input must be a tensor of floats", t.dtype, TypeError)
    return t


def _along(op: str, x: Tensor, axis: Any) -> Tensor:
    a = axis_of(axis, x.ndim, op)
    return apply_one(op, x, axis=a)


@native
def log_softmax(logits: Tensor, axis: int = -1) -> Tensor:
    """x - max - log(sum(exp(x - max))) along `axis`: log(softmax(x)) without its rounding to 0.
    Floats only."""
    return _along("log_softmax", _floating(logits, "log_softmax"), axis)


@native
def softmin(x: Tensor, axis: int = -1, *, dtype: DType | None = None) -> Tensor:
    """exp(-x) / sum(exp(-x)) along `axis`, the last by default: positive numbers that add up to 1.
    Floats only."""
    return softmax(arith.neg(x), axis, dtype=dtype)


@native_of_any_shape
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise: of the shape and type of x. NaN stays NaN; complex numbers are a
    TypeError."""
    x = tensor(input, "relu")
    out: Tensor = x if x.dtype is bool_ else apply("relu", x)
    return become(x, out) if inplace else out


@native_of_any_shape
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x.

    Args:
        approximate: `"none"` (erf) or `"tanh"`.
    """
    choice(approximate, ("none", "tanh"), "gelu", "approximate")
    return apply_one("gelu", _floating(input, "gelu"), approximate=approximate)


class _OfX(Protocol):
    def __call__(self, x: Tensor) -> Tensor: ...


def _of_one(name: str, doc: str, op: str = "") -> _OfX:
    what = op or name

    def function(x: Tensor) -> Tensor:
        return _activation(what, x)

    return named(function, name, f"{doc} Elementwise, of the shape and type of x, floats only.")


fast_gelu = _of_one("fast_gelu", "x * sigmoid(1.702 x), an approximation of gelu.", "quick_gelu")


@native_body(by_op=True, any_shape=True)
def _activation(op: str, x: Any, **attrs: Any) -> Tensor:
    return apply_one(op, _floating(x, op), **attrs)


def silu(input: Tensor) -> Tensor:
    """x * sigmoid(x), elementwise, also called swish: of the shape and type of x. Floats only,
    other types are a TypeError."""
    return _activation("silu", input)


@native_of_any_shape
def elu(input_x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, alpha (exp(x) - 1) elsewhere, elementwise: it goes to -alpha for x to
    -infinity. Floats only."""
    return _activation("elu", input_x, alpha=real(alpha, "elu", "alpha"))


@native
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > 0, alpha (exp(x / alpha) - 1) elsewhere: smooth at 0 for each alpha but 0. Floats
    only."""
    a = real(alpha, "celu", "alpha")
    if a == 0.0:
        raise misuse("celu", "'alpha' must not be 0")
    return _activation("celu", x, alpha=a)


def selu(input_x: Tensor) -> Tensor:
    """1.0507 x where x > 0, 1.0507 * 1.6733 (exp(x) - 1) elsewhere, with the constants of Klambauer
    et al. (2017). Floats only."""
    return _activation("selu", input_x)


@native_of_any_shape
def leaky_relu(input: Tensor, alpha: float = 0.2) -> Tensor:
    """x where x > 0, alpha x elsewhere, elementwise: of the shape of x. `alpha` is 0.2 by default.
    Ints are computed in float32."""
    a = real(alpha, "leaky_relu", "alpha")
    x = tensor(input, "leaky_relu")
    return _activation("leaky_relu", inexact(x), alpha=a)


@native
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where x > 0, weight * x elsewhere, where `weight` has one element, or one for each channel
    (axis 1)."""
    x, w = _floating(input, "prelu"), tensor(weight, "prelu", "weight")
    if w.ndim != 1 or (w.size > 1 and (x.ndim < 2 or w.size != x.shape[1])):
        raise misuse("prelu", f"'weight' {w.shape} does not fit an input {x.shape}")
    return apply_one("prelu", x, cast_to(w, x.dtype))


relu6 = _of_one("relu6", "min(max(x, 0), 6), between 0 and 6.")


@native
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """min(max(x, min_val), max_val), elementwise: x brought into [-1, 1] by default. Ints are
    computed in float32."""
    low, high = number(min_val, "hardtanh", "min_val"), number(max_val, "hardtanh", "max_val")
    x = tensor(input, "hardtanh")
    if low > high:
        raise misuse("hardtanh", f"min_val {low} must not be above max_val {high}")
    if low == high or not x.dtype.is_float:
        return arith.clamp(x, low, high)
    return _activation("hard_tanh", x, min=real(low, "hardtanh", "min_val"),
                       max=real(high, "hardtanh", "max_val"))


@native_of_any_shape
def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta, a smooth relu; x itself where beta x > threshold. Floats
    only."""
    return _activation("softplus", input, beta=real(beta, "softplus", "beta"),
                       threshold=real(threshold, "softplus", "threshold"))


softsign = _of_one("softsign", "x / (1 + |x|), between -1 and 1.")
logsigmoid = _of_one("logsigmoid", "log(sigmoid(x)) without overflow.", "log_sigmoid")
mish = _of_one("mish", "x * tanh(log(1 + exp(x))).")


@native
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """a * sigmoid(b) for the halves a and b of x along an axis of even length, which has half of it
    in the result. Floats only."""
    first, second = _halves(x, axis, "glu")
    return first * apply_one("sigmoid", second)


@native
def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    """silu(a) * b for the halves a and b of the input along an axis of even length; the result has
    half of it. Floats only."""
    first, second = _halves(input, dim, "swiglu")
    return silu(first) * second


def _halves(x: Any, axis: Any, what: str) -> tuple[Tensor, ...]:
    t = _floating(x, what)
    a = own_axis(axis, t.ndim, what)
    if t.shape[a] % 2:
        raise misuse(what, f"axis {a} of {t.shape} must have an even length")
    return joining.chunk(t, 2, a) if t.shape[a] else (t, t)


@native
def threshold(input: Tensor, thr: float, value: float) -> Tensor:
    """x where x > thr, `value` elsewhere, elementwise: of the shape and type of the input."""
    x = tensor(input, "threshold")
    return arith.where(arith.gt(x, thr), x, constant(value, x.dtype))


@native
def dense(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias: (..., n) with a weight of (m, n) and a bias of (m,) or None gives
    (..., m)."""
    x, w = tensor(input, "dense"), tensor(weight, "dense", "weight")
    if x.ndim and w.ndim == 2 and x.shape[-1] == w.shape[1] and x.dtype is w.dtype:
        if plain_calls() and (bias is None or _is_row(bias, w)):
            return apply_one("dense", x, w) if bias is None else apply_one("dense", x, w, bias)
        rows = shapes.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])) if x.ndim != 2 else x
        product: Tensor = apply("matmul", rows, w, transpose_b=True)
        out = shapes.reshape(product, (*x.shape[:-1], w.shape[0])) if x.ndim != 2 else product
    else:
        out = linalg.matmul(x, shapes.swapaxes(w, -1, -2) if w.ndim > 1 else w)
    return out if bias is None else arith.add(out, bias)


def _is_row(bias: Any, w: Tensor) -> bool:
    """Whether a bias has one element for each row of the weights, and their type."""
    return isinstance(bias, Tensor) and bias.shape == w.shape[:1] and bias.dtype is w.dtype


@native
def bias_add(input_x: Tensor, bias: Tensor) -> Tensor:
    """input_x + bias, where bias (C,) belongs to axis 1 of input_x, the channels of (N, C) or (N,
    C, ...)."""
    x, b = operands_of("bias_add", "input_x (n, c, ...), bias (c)", input_x, bias)
    return x + shapes.reshape(b, (b.size,) + (1,) * (x.ndim - 2))


# --- normalisation --------------------------------------------------------------------------------


def _update(running: Tensor, batch: Tensor, momentum: Any) -> None:
    """running = (1 - momentum) * running + momentum * batch, in place."""
    if isinstance(momentum, Tensor):
        momentum = cast_to(momentum, running.dtype)
    new = arith.mul(running, 1.0 - momentum) + arith.mul(cast_to(batch, running.dtype), momentum)
    new = apply("stop_gradient", new)
    become(running, new)


@native
def batch_norm(
    input_x: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor, bias: Tensor,
    training: bool = False, momentum: Any = 0.1, eps: float = 1e-05,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel (axis 1).

    Args:
        running_mean, running_var: used as mean and variance when not training; when training the
            statistics are the batch's, and these are updated in place:
            `(1 - momentum) * running + momentum * batch` (variance over n - 1).
        momentum: a number, or a Tensor of one.
        weight, bias: (C).
        eps: added to the variance.
    """
    x = ranked(_floating(input_x, "batch_norm"), 2, None, "batch_norm", "input_x")
    for name, v in (("running_mean", running_mean), ("running_var", running_var),
                    ("weight", weight), ("bias", bias)):
        if tensor(v, "batch_norm", name).shape != (x.shape[1],):
            raise misuse("batch_norm", f"'{name}' must have shape ({x.shape[1]},)", v.shape)
    w, b = cast_to(weight, x.dtype), cast_to(bias, x.dtype)
    if not training:
        return apply_one("batch_norm_inference", x, w, b, cast_to(running_mean, x.dtype),
                         cast_to(running_var, x.dtype), eps=float(eps))
    y: Tensor
    y, mean, var = apply("batch_norm", x, w, b, eps=float(eps))
    count = x.size // max(x.shape[1], 1)
    share = momentum if isinstance(momentum, Tensor) else float(momentum)
    _update(running_mean, mean, share)
    _update(running_var, arith.mul(var, count / max(count - 1, 1)), share)
    return y


@native
def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
    bias: Tensor | None = None, eps: float = 1e-05,
) -> Tensor:
    """Normalised over the last axes, which must have the shape `normalized_shape`.

    Args:
        weight, bias: of that shape; ones and zeros if None.
    """
    x = _floating(input, "layer_norm")
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else \
        ints(normalized_shape, "layer_norm", "normalized_shape")
    if not shape or x.shape[x.ndim - len(shape) :] != shape:
        raise misuse("layer_norm", f"the last axes of the input {x.shape} must be {shape}")
    w = creation.ones(shape, x.dtype) if weight is None else tensor(weight, "layer_norm", "weight")
    b = creation.zeros(shape, x.dtype) if bias is None else tensor(bias, "layer_norm", "bias")
    y: Tensor
    y, _, _ = apply("layer_norm", x, cast_to(w, x.dtype), cast_to(b, x.dtype),
                    begin=x.ndim - len(shape), eps=float(eps))
    return y


@native
def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-06) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean of squares + epsilon) * gamma over the axes of gamma; also 1 / sqrt(...)."""
    t, g = _floating(x, "rms_norm"), tensor(gamma, "rms_norm", "gamma")
    if not g.ndim or t.shape[t.ndim - g.ndim :] != g.shape:
        raise misuse("rms_norm", f"'gamma' {g.shape} must fit the last axes of {t.shape}")
    y, scale = apply("rms_norm", t, cast_to(g, t.dtype), eps=float(epsilon))
    return y, scale


@native
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """Normalised over each of `num_groups` groups of channels (axis 1) of every sample.

    Args:
        weight, bias: (C), ones and zeros if None.
    """
    x = _floating(input, "group_norm")
    groups = integer(num_groups, "group_norm", "num_groups")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise misuse("group_norm", f"{x.shape} cannot be divided into {groups} groups")
    c = x.shape[1]
    w = creation.ones((c,), x.dtype) if weight is None else tensor(weight, "group_norm", "weight")
    b = creation.zeros((c,), x.dtype) if bias is None else tensor(bias, "group_norm", "bias")
    y: Tensor
    y, _, _ = apply("group_norm", x, cast_to(w, x.dtype), cast_to(b, x.dtype), groups=groups,
                    eps=float(eps))
    return y


@native
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x over its p-norm along an axis (at least eps)."""
    x = _floating(input, "normalize")
    wide = arith.wide(x)
    return cast_to(wide / arith.maximum(statistics.norm(wide, float(p), dim, True), float(eps)),
                   x.dtype)


# --- clipping -------------------------------------------------------------------------------------


def _as_list(x: Any) -> tuple[list[Tensor], bool]:
    many = isinstance(x, (list, tuple))
    return [tensor(t, "clip") for t in (x if many else [x])], many


def _total_norm(xs: list[Tensor], p: float) -> Tensor:
    norms = [statistics.norm(shapes.ravel(arith.wide(t)), p, 0) for t in xs]
    return norms[0] if len(norms) == 1 else statistics.norm(joining.stack(norms), p, 0)


def clip_by_norm(
    x: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Any:
    """Tensors scaled so that the norm of all their elements together is at most `max_norm`.

    Args:
        x: a Tensor, or a list or tuple of them (a tuple comes back).
        norm_type: the order of the norm.
        error_if_nonfinite: raise a RuntimeError for a norm that is NaN or infinite (eager only).
    """
    xs, many = _as_list(x)
    total = _total_norm(xs, float(number(norm_type, "clip_by_norm", "norm_type")))
    if error_if_nonfinite and not bool(arith.isfinite(total)):
        raise RuntimeError("For clip_by_norm, the total norm of the tensors is not finite.")
    most = float(number(max_norm, "clip_by_norm", "max_norm"))
    factor = arith.minimum(most / (total + 1e-6), 1.0)
    out = tuple(cast_to(arith.mul(t, factor), t.dtype) for t in xs)
    return out if many else out[0]


def clip_by_global_norm(x: Any, clip_norm: float = 1.0, use_norm: Any = None) -> Any:
    """Tensors scaled by clip_norm / max(g, clip_norm), where g is the 2-norm of all of their
    elements together. `use_norm` must be None."""
    if use_norm is not None:
        raise misuse("clip_by_global_norm", "'use_norm' must be None", repr(use_norm))
    limit = float(number(clip_norm, "clip_by_global_norm", "clip_norm"))
    if limit <= 0:
        raise misuse("clip_by_global_norm", "'clip_norm' must be positive", limit)
    xs = [tensor(t, "clip_by_global_norm", "x") for t in sequence(x, "clip_by_global_norm", "x")]
    total = _total_norm(xs, 2.0)
    scale = limit / arith.maximum(total, limit)
    return tuple(cast_to(arith.mul(t, scale), t.dtype) for t in xs)
