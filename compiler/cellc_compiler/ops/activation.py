"""Activation functions.

All but `relu` are compositions, computed in float32 for half floats and rounded once. Their
gradient is the cotangent times `slope`, itself made of ops, so second order needs nothing more.
The slope at a kink is MindSpore's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import FLOATS, INTS, Array, Op, Sample, Spec
from ..ir.types import TensorType
from ..loops import expr as E
from ..loops.expr import Expr
from . import _special as S
from ._members import Grads, case, define
from .elementwise import (
    Formula,
    Unary,
    check_dtype,
    same_dtype,
    squared,
    to_dtype,
    unbroadcast,
    widen,
)


class ReLU(Unary):
    """max(input, 0); NaN stays. Source: `mindspore.ops.relu`. The slope at 0 is 0."""

    name = "relu"
    cost = "cheap"
    dtypes = FLOATS + INTS
    primitive = "ReLU"

    def scalar(self, x: Expr) -> Expr:
        zero = E.const(0, x.dtype)
        return E.where(x.lt(zero), zero, x)

    def reference(self, x: Array) -> Array:
        return np.where(x < 0, np.zeros((), x.dtype), x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        zero = b.scalar(0, like=node.result)
        return [b.where(b.gt(node.result, zero), dys[0], zero)]


class Activation(Formula):
    """Base: a formula with samples for each set of attributes."""

    defaults: ClassVar[tuple[dict[str, Any], ...]] = ({},)  # Attributes of the samples

    def samples(self) -> Sequence[Sample]:
        x = Spec((5, 9), -4, 4)
        return (*(case(x, **a) for a in self.defaults), case((), **self.defaults[0]),
                case((0, 2), **self.defaults[0]))


def _c(b: Builder, x: float, like: Value) -> Value:
    return b.scalar(x, like=like)


def _inside(b: Builder, x: Value, low: float, high: float, value: Value | float) -> Value:
    """`value` where low < x < high, else 0."""
    kept = value if isinstance(value, Value) else _c(b, value, x)
    both = b.logical_and(b.gt(x, _c(b, low, x)), b.lt(x, _c(b, high, x)))
    return b.where(both, kept, _c(b, 0, x))


def _limit(b: Builder, x: Value, low: float, high: float) -> Value:
    return b.minimum(b.maximum(x, _c(b, low, x)), _c(b, high, x))


def _settled(b: Builder, x: Value) -> Value:
    """x for a slope that changes no more beyond +-100: there a factor that is about to vanish would
    meet one that overflows."""
    return _limit(b, x, -100, 100)


define(Activation, "relu6",
       "min(max(input, 0), 6). Source: `mindspore.ops.relu6`. The slope at 0 and 6 is 0.",
       lambda x: np.clip(x, 0, 6), formula=lambda self, b, x: _limit(b, x, 0, 6),
       slope=lambda self, b, x: _inside(b, x, 0, 6, 1), primitive="ReLU6")


class LeakyReLU(Activation):
    """input where positive, else alpha * input. Source: `mindspore.ops.leaky_relu`.

    Attributes:
        alpha: slope of the negative side; at 0 the slope is (1 + alpha) / 2.
    """

    name = "leaky_relu"
    attrs = {"alpha": attr.real(0.2)}
    defaults = ({"alpha": 0.2}, {"alpha": 0.01})

    def formula(self, b: Builder, x: Value, *, alpha: float) -> Value:
        return b.where(b.gt(x, _c(b, 0, x)), x, b.mul(x, _c(b, alpha, x)))

    def slope(self, b: Builder, x: Value, *, alpha: float) -> Value:
        zero = _c(b, 0, x)
        below = b.where(b.eq(x, zero), _c(b, (1 + alpha) / 2, x), _c(b, alpha, x))
        return b.where(b.gt(x, zero), _c(b, 1, x), below)

    def reference(self, x: Array, *, alpha: float) -> Array:
        return np.where(x > 0, x, np.asarray(alpha, x.dtype) * x)


class PReLU(Op):
    """input where positive, else weight * input. Source: `mindspore.ops.prelu`.

    `weight` has one element or one per channel (axis 1). The slope at 0 is the weight.
    """

    name = "prelu"
    operands = ("input", "weight")
    primitive = "PReLU"

    def infer(self, x: TensorType, w: TensorType) -> TensorType:
        check_dtype(self, x)
        same_dtype(self.name, x, w)
        channels = x.shape[1] if x.rank > 1 else 1
        if w.rank != 1 or w.shape[0] not in (1, channels):
            raise ValueError(f"prelu needs a weight of shape (1,) or ({channels},), got {w}")
        return x

    def _weight(self, b: Builder, x: Value, w: Value) -> Value:
        rank = x.type.rank
        shape = (1, w.shape[0], *(1,) * (rank - 2)) if rank > 1 else (1,) * rank
        return b.reshape(w, shape=shape)

    def expand(self, b: Builder, x: Value, w: Value) -> Value:
        return b.where(b.gt(x, _c(b, 0, x)), x, b.mul(x, self._weight(b, x, w)))

    def reference(self, x: Array, w: Array) -> Array:
        scale = w.reshape((1, w.size) + (1,) * (x.ndim - 2)) if x.ndim > 1 else w.reshape(
            (1,) * x.ndim)
        return np.where(x > 0, x, x * scale)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, w), dy = node.operands, dys[0]
        zero, scale = _c(b, 0, x), self._weight(b, node.operands[0], node.operands[1])
        positive = b.gt(x, zero)
        dw = unbroadcast(b, b.where(positive, zero, b.mul(dy, x)), scale.type)
        return [b.where(positive, dy, b.mul(dy, scale)), b.reshape(dw, shape=w.type.shape)]

    def samples(self) -> Sequence[Sample]:
        return (case((2, 3, 5), (3,)), case((2, 3), (1,)), case((4,), (1,)), case((0, 2), (2,)))


class _ExpSide(Activation):
    """Base: x where x >= 0, else depth * (exp(x / width) - 1)."""

    def sides(self, **attrs: Any) -> tuple[float, float]:
        """Depth and width."""
        raise TypeError(f"{self.name} has no sides")

    def _negative(self, b: Builder, x: Value, width: float) -> Value:
        negative = b.minimum(x, _c(b, 0, x))  # exp must not overflow on the other side
        return negative if width == 1 else b.div(negative, _c(b, width, x))

    def formula(self, b: Builder, x: Value, **attrs: Any) -> Value:
        depth, width = self.sides(**attrs)
        side = b.mul(b.expm1(self._negative(b, x, width)), _c(b, depth, x))
        return b.where(b.lt(x, _c(b, 0, x)), side, x)

    def slope(self, b: Builder, x: Value, **attrs: Any) -> Value:
        depth, width = self.sides(**attrs)
        side = b.mul(b.exp(self._negative(b, x, width)), _c(b, depth / width, x))
        return b.where(b.lt(x, _c(b, 0, x)), side, _c(b, 1, x))

    def reference(self, x: Array, **attrs: Any) -> Array:
        depth, width = self.sides(**attrs)
        side = depth * np.expm1(np.minimum(x, 0) / np.asarray(width, x.dtype))
        return np.where(x < 0, side, x)


class ELU(_ExpSide):
    """input where >= 0, else alpha * (exp(input) - 1). Source: `mindspore.ops.elu`.

    Attributes:
        alpha: depth of the negative side.
    """

    name = "elu"
    attrs = {"alpha": attr.real(1.0)}
    primitive = "Elu"
    defaults = ({}, {"alpha": 0.5})

    def sides(self, *, alpha: float) -> tuple[float, float]:
        return alpha, 1


class CELU(_ExpSide):
    """input where >= 0, else alpha * (exp(input / alpha) - 1). Source: `mindspore.ops.celu`.

    Attributes:
        alpha: depth and width of the negative side, not 0.
    """

    name = "celu"
    attrs = {"alpha": attr.real(1.0)}
    primitive = "CeLU"
    defaults = ({}, {"alpha": 2.0})

    def infer(self, x: TensorType, **attrs: Any) -> TensorType:
        if attrs["alpha"] == 0:
            raise ValueError("celu needs an alpha that is not 0")
        return super().infer(x)

    def sides(self, *, alpha: float) -> tuple[float, float]:
        return alpha, alpha


# Klambauer et al. 2017, "Self-normalizing neural networks".
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


class SELU(Unary):
    """The self-normalising ELU (Klambauer et al. 2017). Source: `mindspore.ops.selu`."""

    name = "selu"
    dtypes = FLOATS
    primitive = "SeLU"

    def reference(self, x: Array) -> Array:
        return np.where(x < 0, _SELU_SCALE * _SELU_ALPHA * np.expm1(np.minimum(x, 0)),
                        _SELU_SCALE * x).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = widen(b, node.operands[0]), widen(b, dys[0])
        return [to_dtype(b, b.mul(dy, b.selu_slope(x)), node.result.dtype)]


class SELUSlope(Unary):
    """The derivative of `selu`: a positive number times exp(input) below 0."""

    name = "selu_slope"
    dtypes = FLOATS

    def reference(self, x: Array) -> Array:
        below = _SELU_SCALE * _SELU_ALPHA * np.exp(np.minimum(x, 0))
        return np.where(x < 0, below, np.where(np.isnan(x), x, _SELU_SCALE)).astype(x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = node.operands[0], dys[0]
        zero = _c(b, 0, x)
        return [b.mul(dy, b.where(b.lt(x, zero), node.result, zero))]


_TANH_C = math.sqrt(2 / math.pi)
_TANH_K = 0.044715


class GELU(Activation):
    """x * Phi(x), Phi the normal distribution function. Source: `mindspore.ops.gelu`.

    Attributes:
        approximate: `"none"` (through erf) or `"tanh"` (Hendrycks & Gimpel 2016).
    """

    name = "gelu"
    attrs = {"approximate": attr.choice("none", "tanh", default="none")}
    amp = "high"
    tolerance = 8.0
    defaults = ({}, {"approximate": "tanh"})

    def formula(self, b: Builder, x: Value, *, approximate: str) -> Value:
        if approximate == "tanh":
            return b.mul(x, b.sigmoid(b.mul(x, self._steepness(b, x, _TANH_K))))
        return b.mul(b.mul(x, _c(b, 0.5, x)), b.add(self._error(b, x), _c(b, 1, x)))

    def slope(self, b: Builder, x: Value, *, approximate: str) -> Value:
        one = _c(b, 1, x)
        if approximate == "tanh":
            x = _settled(b, x)
            phi = b.sigmoid(b.mul(x, self._steepness(b, x, _TANH_K)))
            steep = b.mul(x, self._steepness(b, x, 3 * _TANH_K))
            return b.add(phi, b.mul(b.mul(phi, b.sub(one, phi)), steep))
        phi = b.mul(b.add(self._error(b, x), one), _c(b, 0.5, x))
        density = b.mul(b.exp(b.mul(b.mul(x, x), _c(b, -0.5, x))),
                        _c(b, 1 / math.sqrt(2 * math.pi), x))
        return b.add(phi, b.mul(x, density))

    def _error(self, b: Builder, x: Value) -> Value:
        """Twice Phi(x), minus 1."""
        return b.erf(b.mul(x, _c(b, math.sqrt(0.5), x)))

    def _steepness(self, b: Builder, x: Value, cubic: float) -> Value:
        """c = 2 sqrt(2/pi) (1 + cubic x^2): the tanh form of Phi is the sigmoid of c x, and the
        slope of that is c of three times `cubic`."""
        square = b.mul(b.mul(x, x), _c(b, 2 * _TANH_C * cubic, x))
        return b.add(square, _c(b, 2 * _TANH_C, x))

    def short(self, b: Builder, x: Value, to: str, *, approximate: str) -> Value:
        if approximate == "none":
            return b.mul(x, b.short_normal_cdf(x, to=to))
        return b.mul(x, b.short_sigmoid(b.mul(x, self._steepness(b, x, _TANH_K)), to=to))

    def short_slope(self, b: Builder, x: Value, to: str, *, approximate: str) -> Value:
        if approximate == "none":
            return b.short_gelu_slope(x, to=to)
        x = _settled(b, x)
        z = b.mul(x, self._steepness(b, x, _TANH_K))
        steep = b.mul(x, self._steepness(b, x, 3 * _TANH_K))
        return b.add(b.short_sigmoid(z, to=to), b.mul(b.short_sigmoid_slope(z, to=to), steep))

    def reference(self, x: Array, *, approximate: str) -> Array:
        if approximate == "none":
            return 0.5 * x * (1 + S.erf(x * np.asarray(math.sqrt(0.5), x.dtype)))
        return x * S.sigmoid(2 * _TANH_C * (x + _TANH_K * x**3))


class SiLU(Activation):
    """x * sigmoid(x), elementwise, also called swish: of the shape and type of x. Floats only,
    other types are a TypeError. Source: `mindspore.ops.silu`."""

    name = "silu"

    def formula(self, b: Builder, x: Value) -> Value:
        return b.mul(x, b.sigmoid(x))

    def slope(self, b: Builder, x: Value) -> Value:
        s, one = b.sigmoid(x), _c(b, 1, x)
        return b.mul(s, b.add(one, b.mul(x, b.sub(one, s))))

    def short(self, b: Builder, x: Value, to: str) -> Value:
        return b.mul(x, b.short_sigmoid(x, to=to))

    def short_slope(self, b: Builder, x: Value, to: str) -> Value:
        return b.short_silu_slope(x, to=to)

    def reference(self, x: Array) -> Array:
        return x * S.sigmoid(x)


class QuickGELU(Activation):
    """x * sigmoid(1.702 x). Source: `mindspore.ops.fast_gelu`."""

    name = "quick_gelu"
    primitive = "FastGeLU"
    tolerance = 8.0

    def formula(self, b: Builder, x: Value) -> Value:
        return b.mul(x, b.sigmoid(b.mul(x, _c(b, 1.702, x))))

    def slope(self, b: Builder, x: Value) -> Value:
        scale, one = _c(b, 1.702, x), _c(b, 1, x)
        s = b.sigmoid(b.mul(x, scale))
        # s (1 - s) first: it is 0 where 1.702 x overflows.
        steep = b.mul(b.mul(s, b.sub(one, s)), scale)
        return b.add(s, b.mul(steep, x))

    def short(self, b: Builder, x: Value, to: str) -> Value:
        return b.mul(x, b.short_sigmoid(b.mul(x, _c(b, 1.702, x)), to=to))

    def short_slope(self, b: Builder, x: Value, to: str) -> Value:
        return b.short_silu_slope(b.mul(x, _c(b, 1.702, x)), to=to)

    def reference(self, x: Array) -> Array:
        return x * S.sigmoid(1.702 * x)


define(Activation, "hard_sigmoid",
       "min(max(x/6 + 1/2, 0), 1). Source: `mindspore.ops.hardsigmoid`. Slope 0 at -3 and 3.",
       lambda x: np.clip(x + 3, 0, 6) / 6,
       formula=lambda self, b, x: b.div(_limit(b, b.add(x, _c(b, 3, x)), 0, 6), _c(b, 6, x)),
       short=lambda self, b, x, to: b.mul(
           _limit(b, b.add(x, _c(b, 3, x)), 0, 6), _c(b, 1 / 6, x)),
       slope=lambda self, b, x: _inside(b, x, -3, 3, 1 / 6),
       function="hardsigmoid", primitive="HSigmoid")


class HardSwish(Activation):
    """x * hard_sigmoid(x). Source: `mindspore.ops.hardswish`.

    The slope at -3 and 3 is that of the middle piece.
    """

    name = "hard_swish"
    function = "hardswish"
    primitive = "HSwish"

    def formula(self, b: Builder, x: Value) -> Value:
        return self._between(b, x, b.div(self._parabola(b, x), _c(b, 6, x)))

    def short(self, b: Builder, x: Value, to: str) -> Value:
        return self._between(b, x, b.mul(self._parabola(b, x), _c(b, 1 / 6, x)))

    def _parabola(self, b: Builder, x: Value) -> Value:
        return b.mul(x, b.add(x, _c(b, 3, x)))

    def _between(self, b: Builder, x: Value, middle: Value) -> Value:
        low = b.where(b.le(x, _c(b, -3, x)), _c(b, 0, x), middle)
        return b.where(b.ge(x, _c(b, 3, x)), x, low)

    def slope(self, b: Builder, x: Value) -> Value:
        middle = b.add(b.div(x, _c(b, 3, x)), _c(b, 0.5, x))
        low = b.where(b.lt(x, _c(b, -3, x)), _c(b, 0, x), middle)
        return b.where(b.gt(x, _c(b, 3, x)), _c(b, 1, x), low)

    def reference(self, x: Array) -> Array:
        middle = np.clip(x, -3, 3)
        return np.where(x >= 3, x, middle * (middle + 3) / 6)


class HardTanh(Activation):
    """Values limited to [min, max]. Source: `mindspore.ops.hardtanh`. Half the slope at the edges.

    Attributes:
        min, max: the bounds, min < max.
    """

    name = "hard_tanh"
    attrs = {"min": attr.real(-1.0), "max": attr.real(1.0)}
    defaults = ({}, {"min": -2.0, "max": 0.5})

    def formula(self, b: Builder, x: Value, *, min: float, max: float) -> Value:
        return _limit(b, x, min, max)

    def slope(self, b: Builder, x: Value, *, min: float, max: float) -> Value:
        edge = b.logical_or(b.eq(x, _c(b, min, x)), b.eq(x, _c(b, max, x)))
        return b.where(edge, _c(b, 0.5, x), _inside(b, x, min, max, 1))

    def reference(self, x: Array, *, min: float, max: float) -> Array:
        return np.clip(x, min, max)


class _Shrink(Activation):
    """Base of what is 0 in a dead zone."""

    attrs = {"lambd": attr.real(0.5)}

    def slope(self, b: Builder, x: Value, *, lambd: float) -> Value:
        return b.where(b.le(b.abs(x), _c(b, lambd, x)), _c(b, 0, x), _c(b, 1, x))


class HardShrink(_Shrink):
    """0 where |x| <= lambd, else x. Source: `mindspore.ops.hardshrink`.

    Attributes:
        lambd: half-width of the dead zone; the slope is 0 up to its edges.
    """

    name = "hard_shrink"
    function = "hardshrink"
    primitive = "HShrink"

    def formula(self, b: Builder, x: Value, *, lambd: float) -> Value:
        return b.where(b.le(b.abs(x), _c(b, lambd, x)), _c(b, 0, x), x)

    def reference(self, x: Array, *, lambd: float) -> Array:
        return np.where(np.abs(x) <= lambd, np.zeros((), x.dtype), x)


class SoftShrink(_Shrink):
    """x moved towards 0 by lambd, 0 within it. Source: `mindspore.ops.softshrink`.

    Attributes:
        lambd: half-width of the dead zone; the slope is 0 up to its edges.
    """

    name = "soft_shrink"
    function = "softshrink"
    primitive = "SoftShrink"

    def formula(self, b: Builder, x: Value, *, lambd: float) -> Value:
        return b.sub(x, _limit(b, x, -lambd, lambd))

    def reference(self, x: Array, *, lambd: float) -> Array:
        return x - np.clip(x, -lambd, lambd)


define(Activation, "tanh_shrink",
       "x - tanh(x), elementwise: about x**3 / 3 for small x. Source: `mindspore.ops.tanhshrink`.",
       lambda x: x - np.tanh(x), formula=lambda self, b, x: b.sub(x, b.tanh(x)),
       slope=lambda self, b, x: squared(b, b.tanh(x)), function="tanhshrink")


class Threshold(Activation):
    """x where above the threshold, else `value`. Source: `mindspore.ops.threshold`.

    Attributes:
        threshold, value: numbers. NaN gives `value`.
    """

    name = "threshold"
    attrs = {"threshold": attr.real(), "value": attr.real()}
    defaults = ({"threshold": 0.5, "value": 2.0},)

    def formula(self, b: Builder, x: Value, *, threshold: float, value: float) -> Value:
        return b.where(b.gt(x, _c(b, threshold, x)), x, _c(b, value, x))

    def slope(self, b: Builder, x: Value, *, threshold: float, value: float) -> Value:
        return b.where(b.gt(x, _c(b, threshold, x)), _c(b, 1, x), _c(b, 0, x))

    def reference(self, x: Array, *, threshold: float, value: float) -> Array:
        return np.where(x > threshold, x, np.asarray(value, x.dtype))


class Softplus(Activation):
    """log(1 + exp(beta x)) / beta, x itself above the threshold. Source: `mindspore.ops.softplus`.

    Attributes:
        beta: sharpness.
        threshold: where beta * x exceeds it the function is x.
    """

    name = "softplus"
    attrs = {"beta": attr.real(1.0), "threshold": attr.real(20.0)}
    amp = "high"
    primitive = "Softplus"
    defaults = ({}, {"beta": 2.0, "threshold": 3.0})

    def formula(self, b: Builder, x: Value, *, beta: float, threshold: float) -> Value:
        z = x if beta == 1 else b.mul(x, _c(b, beta, x))
        y = b.log1pexp(z)
        y = y if beta == 1 else b.div(y, _c(b, beta, x))
        return b.where(b.gt(z, _c(b, threshold, x)), x, y)

    def slope(self, b: Builder, x: Value, *, beta: float, threshold: float) -> Value:
        z = x if beta == 1 else b.mul(x, _c(b, beta, x))
        return b.where(b.gt(z, _c(b, threshold, x)), _c(b, 1, x), b.sigmoid(z))

    def short(self, b: Builder, x: Value, to: str, *, beta: float, threshold: float) -> Value:
        z = x if beta == 1 else b.mul(x, _c(b, beta, x))
        y = b.short_softplus(z, to=to)
        inverse = 1 / beta if beta else math.copysign(math.inf, beta)  # (as a tensor divides)
        y = y if beta == 1 else b.mul(y, _c(b, inverse, x))
        return b.where(b.gt(z, _c(b, threshold, x)), x, y)

    def short_slope(self, b: Builder, x: Value, to: str, *, beta: float, threshold: float) -> Value:
        z = x if beta == 1 else b.mul(x, _c(b, beta, x))
        return b.where(b.gt(z, _c(b, threshold, x)), _c(b, 1, x), b.short_sigmoid(z, to=to))

    def reference(self, x: Array, *, beta: float, threshold: float) -> Array:
        return np.where(beta * x > threshold, x, S.softplus(beta * x) / np.asarray(beta, x.dtype))


define(Activation, "softsign", "x / (1 + |x|). Source: `mindspore.ops.softsign`.",
       lambda x: x / (1 + np.abs(x)),
       formula=lambda self, b, x: b.div(x, b.add(b.abs(x), _c(b, 1, x))),
       slope=lambda self, b, x: squared(b, b.reciprocal(b.add(b.abs(x), _c(b, 1, x)))),
       primitive="Softsign")


class Mish(Activation):
    """x * tanh(log(1 + exp(x))), elementwise: smooth, and negative for some x below 0. Floats only;
    the result has the shape of x. Source: `mindspore.ops.mish`."""

    name = "mish"
    amp = "high"
    primitive = "Mish"
    tolerance = 8.0

    def formula(self, b: Builder, x: Value) -> Value:
        return b.mul(x, b.tanh(b.log1pexp(x)))

    def slope(self, b: Builder, x: Value) -> Value:
        t = b.tanh(b.log1pexp(x))
        bend = b.mul(b.sub(_c(b, 1, x), b.mul(t, t)), b.sigmoid(x))
        return b.add(t, b.mul(x, bend))

    def short(self, b: Builder, x: Value, to: str) -> Value:
        return b.mul(x, b.short_mish_gate(x, to=to))

    def short_slope(self, b: Builder, x: Value, to: str) -> Value:
        return b.short_mish_derivative(x, to=to)

    def reference(self, x: Array) -> Array:
        return x * np.tanh(S.softplus(x))


define(Activation, "log_sigmoid",
       "log(sigmoid(x)) without overflow. Source: `mindspore.ops.logsigmoid`.",
       lambda x: -S.softplus(-x), formula=lambda self, b, x: b.neg(b.log1pexp(b.neg(x))),
       slope=lambda self, b, x: b.sigmoid(b.neg(x)), amp="high",
       short=lambda self, b, x, to: b.neg(b.short_softplus(b.neg(x), to=to)),
       short_slope=lambda self, b, x, to: b.short_sigmoid(b.neg(x), to=to))
