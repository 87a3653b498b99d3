"""Exponentials, logarithms, trigonometric and special functions.

The scalar functions are those of `backends.llvm.math`; float16 and bfloat16 are computed in
float32 and rounded once. Gradients are the textbook derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir.graph import Builder, Node, Value
from ..ir.op import COMPLEX, FLOATS, Array, Op, Sample, Spec, register
from ..ir.types import TensorType, broadcast_shapes
from . import _special as S
from ._complex import conj
from .elementwise import (
    Binary,
    Formula,
    Grads,
    Unary,
    both,
    check_dtype,
    same_dtype,
    to_dtype,
    widen,
)


class _Function(Unary):
    """Base of functions of one float."""

    dtypes = FLOATS
    amp = "high"


class _Analytic(_Function):
    """Base of functions of one float or complex number."""

    dtypes = FLOATS + COMPLEX


def _times(b: Builder, dy: Value | None, x: float) -> Value:
    assert dy is not None
    out: Value = b.mul(dy, b.scalar(x, like=dy))
    return out


def _one_plus(b: Builder, v: Value) -> Value:
    out: Value = b.add(v, b.scalar(1, like=v))
    return out


def _one_minus(b: Builder, v: Value) -> Value:
    out: Value = b.sub(b.scalar(1, like=v), v)
    return out


def _one_minus_square(b: Builder, v: Value) -> Value:
    """1 - v*v as (1 - v)(1 + v), accurate near 1."""
    out: Value = b.mul(_one_minus(b, v), _one_plus(b, v))
    return out


@register
class Exp(_Analytic):
    """e to the power of each element. Source: `mindspore.ops.exp`."""

    name = "exp"
    function = "exp"
    method = "exp"
    primitive = "Exp"

    def reference(self, x: Array) -> Array:
        return np.exp(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], conj(b, node.result))]


@register
class Exp2(_Function):
    """2 to the power of each element. Source: `mindspore.ops.exp2`."""

    name = "exp2"
    method = "exp2"

    def reference(self, x: Array) -> Array:
        return np.exp2(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(_times(b, dys[0], math.log(2)), node.result)]


@register
class Expm1(_Function):
    """exp(input) - 1, accurate near 0. Source: `mindspore.ops.expm1`."""

    name = "expm1"
    function = "expm1"
    method = "expm1"
    primitive = "Expm1"

    def reference(self, x: Array) -> Array:
        return np.expm1(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], _one_plus(b, node.result))]


class _Log(_Function):
    """Base of logarithms: -infinity at 0, NaN below."""

    low, high = 0.25, 4.0


@register
class Log(_Log):
    """The natural logarithm. Source: `mindspore.ops.log`."""

    name = "log"
    dtypes = FLOATS + COMPLEX
    function = "log"
    method = "log"
    primitive = "Log"

    def reference(self, x: Array) -> Array:
        return np.log(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.div(dys[0], conj(b, node.operands[0]))]


@register
class Log2(_Log):
    """The logarithm to base 2. Source: `mindspore.ops.log2`."""

    name = "log2"
    function = "log2"
    method = "log2"

    def reference(self, x: Array) -> Array:
        return np.log2(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.div(_times(b, dys[0], 1 / math.log(2)), node.operands[0])]


@register
class Log10(_Log):
    """The logarithm to base 10. Source: `mindspore.ops.log10`."""

    name = "log10"
    function = "log10"
    method = "log10"

    def reference(self, x: Array) -> Array:
        return np.log10(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.div(_times(b, dys[0], 1 / math.log(10)), node.operands[0])]


@register
class Log1p(_Function):
    """log(1 + input), accurate near 0. Source: `mindspore.ops.log1p`."""

    name = "log1p"
    function = "log1p"
    method = "log1p"
    primitive = "Log1p"
    low, high = -0.5, 3.0

    def reference(self, x: Array) -> Array:
        return np.log1p(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.div(dys[0], _one_plus(b, node.operands[0]))]


@register
class Sin(_Analytic):
    """The sine of radians. Source: `mindspore.ops.sin`."""

    name = "sin"
    function = "sin"
    method = "sin"
    primitive = "Sin"

    def reference(self, x: Array) -> Array:
        return np.sin(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], conj(b, b.cos(node.operands[0])))]


@register
class Cos(_Analytic):
    """The cosine of radians. Source: `mindspore.ops.cos`."""

    name = "cos"
    function = "cos"
    method = "cos"
    primitive = "Cos"

    def reference(self, x: Array) -> Array:
        return np.cos(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.neg(b.mul(dys[0], conj(b, b.sin(node.operands[0]))))]


@register
class Tan(_Function):
    """The tangent of radians. Source: `mindspore.ops.tan`."""

    name = "tan"
    function = "tan"
    method = "tan"
    primitive = "Tan"
    low, high = -1.2, 1.2

    def reference(self, x: Array) -> Array:
        return np.tan(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y = node.result
        return [b.mul(dys[0], _one_plus(b, b.mul(y, y)))]


@register
class Asin(_Function):
    """The arc sine, radians; NaN outside [-1, 1]. Source: `mindspore.ops.asin`."""

    name = "asin"
    function = "asin"
    method = "asin"
    primitive = "Asin"
    low, high = -0.9, 0.9

    def reference(self, x: Array) -> Array:
        return np.arcsin(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.div(dys[0], b.sqrt(_one_minus_square(b, node.operands[0])))]


@register
class Acos(_Function):
    """The arc cosine, radians; NaN outside [-1, 1]. Source: `mindspore.ops.acos`."""

    name = "acos"
    function = "acos"
    method = "acos"
    primitive = "ACos"
    low, high = -0.9, 0.9

    def reference(self, x: Array) -> Array:
        return np.arccos(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.neg(b.div(dys[0], b.sqrt(_one_minus_square(b, node.operands[0]))))]


@register
class Atan(_Function):
    """The arc tangent, radians. Source: `mindspore.ops.atan`."""

    name = "atan"
    function = "atan"
    method = "atan"
    primitive = "Atan"

    def reference(self, x: Array) -> Array:
        return np.arctan(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x = node.operands[0]
        return [b.div(dys[0], _one_plus(b, b.mul(x, x)))]


@register
class Atan2(Binary):
    """The angle of the point (other, input), radians in [-pi, pi]. Source: `mindspore.ops.atan2`.

    The cotangents at the origin are NaN.
    """

    name = "atan2"
    amp = "high"
    primitive = "Atan2"
    other_low = 0.25

    def reference(self, a: Array, b: Array) -> Array:
        return np.arctan2(a, b)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y, x = node.operands
        scale = b.div(dys[0], b.add(b.mul(y, y), b.mul(x, x)))
        return both(b, node, b.mul(scale, x), b.neg(b.mul(scale, y)))


@register
class Sinh(_Analytic):
    """The hyperbolic sine. Source: `mindspore.ops.sinh`."""

    name = "sinh"
    function = "sinh"
    method = "sinh"
    primitive = "Sinh"

    def reference(self, x: Array) -> Array:
        return np.sinh(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], conj(b, b.cosh(node.operands[0])))]


@register
class Cosh(_Analytic):
    """The hyperbolic cosine. Source: `mindspore.ops.cosh`."""

    name = "cosh"
    function = "cosh"
    method = "cosh"
    primitive = "Cosh"

    def reference(self, x: Array) -> Array:
        return np.cosh(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], conj(b, b.sinh(node.operands[0])))]


@register
class Tanh(_Analytic):
    """The hyperbolic tangent. Source: `mindspore.ops.tanh`."""

    name = "tanh"
    amp = "promote"
    function = "tanh"
    method = "tanh"
    primitive = "Tanh"

    def reference(self, x: Array) -> Array:
        return np.tanh(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y = conj(b, node.result)
        return [b.mul(dys[0], _one_minus(b, b.mul(y, y)))]


@register
class Asinh(_Function):
    """The inverse hyperbolic sine. Source: `mindspore.ops.asinh`."""

    name = "asinh"
    function = "asinh"
    method = "asinh"
    primitive = "Asinh"

    def reference(self, x: Array) -> Array:
        return np.arcsinh(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x = node.operands[0]
        return [b.div(dys[0], b.sqrt(_one_plus(b, b.mul(x, x))))]


@register
class Acosh(_Function):
    """The inverse hyperbolic cosine; NaN below 1. Source: `mindspore.ops.acosh`."""

    name = "acosh"
    function = "acosh"
    method = "acosh"
    primitive = "Acosh"
    low, high = 1.25, 4.0

    def reference(self, x: Array) -> Array:
        return np.arccosh(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x = node.operands[0]
        below = b.sub(x, b.scalar(1, like=x))
        return [b.div(dys[0], b.mul(b.sqrt(below), b.sqrt(_one_plus(b, x))))]


@register
class Atanh(_Function):
    """The inverse hyperbolic tangent; NaN outside [-1, 1]. Source: `mindspore.ops.atanh`."""

    name = "atanh"
    function = "atanh"
    method = "atanh"
    primitive = "Atanh"
    low, high = -0.8, 0.8

    def reference(self, x: Array) -> Array:
        return np.arctanh(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.div(dys[0], _one_minus_square(b, node.operands[0]))]


@register
class Sigmoid(_Function):
    """1 / (1 + exp(-input)). Source: `mindspore.ops.sigmoid`."""

    name = "sigmoid"
    amp = "promote"
    function = "sigmoid"
    method = "sigmoid"
    primitive = "Sigmoid"

    def reference(self, x: Array) -> Array:
        return S.sigmoid(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y = node.result
        return [b.mul(dys[0], b.mul(y, _one_minus(b, y)))]


def _gauss(b: Builder, dy: Value | None, x: Value, sign: int) -> Value:
    """dy * sign * 2/sqrt(pi) * exp(-x*x): the slope of erf and erfc."""
    bell = b.exp(b.neg(b.mul(x, x)))
    out: Value = b.mul(_times(b, dy, sign * 2 / math.sqrt(math.pi)), bell)
    return out


@register
class Erf(_Function):
    """The error function. Source: `mindspore.ops.erf`."""

    name = "erf"
    function = "erf"
    method = "erf"
    primitive = "Erf"

    def reference(self, x: Array) -> Array:
        return S.erf(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [_gauss(b, dys[0], node.operands[0], 1)]


@register
class Erfc(_Function):
    """1 - erf(input), accurate for large input. Source: `mindspore.ops.erfc`."""

    name = "erfc"
    function = "erfc"
    method = "erfc"
    primitive = "Erfc"

    def reference(self, x: Array) -> Array:
        return S.erfc(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [_gauss(b, dys[0], node.operands[0], -1)]


@register
class Erfinv(_Function):
    """The inverse of erf on (-1, 1). Source: `mindspore.ops.erfinv`."""

    name = "erfinv"
    function = "erfinv"
    method = "erfinv"
    primitive = "Erfinv"
    low, high = -0.9, 0.9

    def reference(self, x: Array) -> Array:
        return S.erfinv(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y = node.result
        return [b.mul(_times(b, dys[0], math.sqrt(math.pi) / 2), b.exp(b.mul(y, y)))]


@register
class Lgamma(_Function):
    """log |gamma(input)|; infinite at 0, -1, -2, ... Source: `mindspore.ops.lgamma`."""

    name = "lgamma"
    function = "lgamma"
    primitive = "Lgamma"
    low, high = 0.3, 6.0
    tolerance = 16.0

    def reference(self, x: Array) -> Array:
        return S.lgamma(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], b.digamma(node.operands[0]))]


@register
class Digamma(_Function):
    """The derivative of lgamma. Source: `mindspore.ops.digamma`."""

    name = "digamma"
    function = "digamma"
    primitive = "Digamma"
    low, high = 0.3, 6.0
    tolerance = 16.0

    def reference(self, x: Array) -> Array:
        return S.digamma(x)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], b.trigamma(node.operands[0]))]


_SHIFT = 8
# B(2k) of the expansion 1/x + 1/(2x^2) + sum B(2k) / x^(2k+1) (Abramowitz & Stegun 6.4.12).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


@register
class Trigamma(Op):
    """The derivative of digamma (polygamma of order 1). Source: `mindspore.ops.polygamma`.

    Composition: reflection below 1/2, eight steps of the recurrence, then the asymptotic series
    (error below 1e-13 relative). Infinite at 0, -1, -2, ...
    """

    name = "trigamma"
    amp = "high"
    elementwise = True
    tolerance = 32.0

    def infer(self, x: TensorType) -> TensorType:
        check_dtype(self, x)
        return x

    def expand(self, b: Builder, x: Value) -> Value:
        v = widen(b, x)
        one, half = b.scalar(1, like=v), b.scalar(0.5, like=v)
        reflect = b.lt(v, half)
        z = b.where(reflect, b.sub(one, v), v)
        value = self._positive(b, z)
        angle = b.mul(b.sub(v, b.floor(v)), b.scalar(math.pi, like=v))
        sine = b.sin(b.where(reflect, angle, one))
        below = b.sub(b.div(b.scalar(math.pi**2, like=v), b.mul(sine, sine)), value)
        return to_dtype(b, b.where(reflect, below, value), x.dtype)

    def _positive(self, b: Builder, z: Value) -> Value:
        """The function for z >= 1/2."""
        total: Value | None = None
        for k in range(_SHIFT):
            step = b.add(z, b.scalar(k, like=z))
            term = b.reciprocal(b.mul(step, step))
            total = term if total is None else b.add(total, term)
        r = b.reciprocal(b.add(z, b.scalar(_SHIFT, like=z)))
        r2 = b.mul(r, r)
        series: Value = b.scalar(_BERNOULLI[-1], like=z)
        for c in reversed(_BERNOULLI[:-1]):
            series = b.add(b.mul(series, r2), b.scalar(c, like=z))
        tail = b.add(b.mul(b.mul(series, r2), r), b.mul(r2, b.scalar(0.5, like=z)))
        out: Value = b.add(total, b.add(r, tail))
        return out

    def reference(self, x: Array) -> Array:
        return S.trigamma(x)

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((3, 5), 0.6, 6),)), Sample((Spec((9,), -0.9, -0.1),)),
                Sample((Spec((0, 2)),)))


@register
class Xlogy(Op):
    """input * log(other), 0 where input is 0 unless other is NaN. Source: `mindspore.ops.xlogy`."""

    name = "xlogy"
    operands = ("input", "other")
    amp = "high"
    elementwise = True
    primitive = "Xlogy"

    def infer(self, x: TensorType, y: TensorType) -> TensorType:
        same_dtype(self.name, x, y)
        check_dtype(self, x)
        return x.with_shape(broadcast_shapes(x.shape, y.shape, "operands of xlogy"))

    def expand(self, b: Builder, x: Value, y: Value) -> Value:
        zero = b.scalar(0, like=x)
        skip = b.logical_and(b.eq(x, zero), b.eq(y, y))
        wx, wy = widen(b, x), widen(b, y)
        out = b.where(skip, b.scalar(0, like=wx), b.mul(wx, b.log(wy)))
        return to_dtype(b, out, x.dtype)

    def reference(self, a: Array, b: Array) -> Array:
        return np.where((a == 0) & ~np.isnan(b), np.zeros((), a.dtype), a * np.log(b))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, y), dy = node.operands, dys[0]
        zero, one = b.scalar(0, like=x), b.scalar(1, like=x)
        flat = b.logical_and(b.eq(x, zero), b.le(y, zero))  # 0 beyond the logarithm's range
        dx = b.mul(dy, b.log(b.where(flat, one, y)))
        return both(b, node, dx, b.div(b.mul(dy, x), y))

    def samples(self) -> Sequence[Sample]:
        x, row = Spec((4, 5), 0.25, 2), Spec((5,), 0.25, 2)
        return Sample((x, x)), Sample((x, row)), Sample((Spec((0, 3)), Spec((3,))))


_SINC_SLOPE = tuple((-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 10))
"""Taylor coefficients of the derivative of sin(z)/z: of z, z**3, ... z**17."""


@register
class Sinc(Formula):
    """sin(pi x) / (pi x), 1 at 0. Source: `mindspore.ops.sinc`.

    The slope below |pi x| = 1 is a Taylor series, as (cos z - sin(z)/z) / z cancels there.
    """

    name = "sinc"
    amp = "high"
    tolerance = 8.0

    def _parts(self, b: Builder, x: Value, limit: float) -> tuple[Value, Value, Value]:
        """pi x, whether it is at most `limit` in size, and 1 in its place there."""
        z = b.mul(x, b.scalar(math.pi, like=x))
        near = b.le(b.abs(z), b.scalar(limit, like=z))
        return z, near, b.where(near, b.scalar(1, like=z), z)

    def formula(self, b: Builder, x: Value) -> Value:
        _, zero, far = self._parts(b, x, 0)
        return b.where(zero, b.scalar(1, like=x), b.div(b.sin(far), far))

    def slope(self, b: Builder, x: Value) -> Value:
        z, near, far = self._parts(b, x, 1)
        square = b.where(near, b.mul(z, z), b.scalar(1, like=z))
        series: Value = b.scalar(_SINC_SLOPE[-1], like=z)
        for c in reversed(_SINC_SLOPE[:-1]):
            series = b.add(b.mul(series, square), b.scalar(c, like=z))
        usual = b.div(b.sub(b.cos(far), b.div(b.sin(far), far)), far)
        return b.mul(b.where(near, b.mul(series, z), usual), b.scalar(math.pi, like=z))

    def reference(self, x: Array) -> Array:
        return np.sinc(x)

    def samples(self) -> Sequence[Sample]:
        return (Sample((Spec((5, 9), -3, 3),)), Sample((Spec((7,), -0.3, 0.3),)),
                Sample((Spec((0, 2)),)))


@register
class Logit(Formula):
    """log(x / (1 - x)), NaN outside of [0, 1]. Source: `mindspore.ops.logit`.

    Attributes:
        eps: x is first brought into [eps, 1 - eps], where its slope is 0; None for no bounds.
    """

    name = "logit"
    amp = "high"
    attrs = {"eps": None}
    tolerance = 16.0

    def formula(self, b: Builder, x: Value, *, eps: float | None) -> Value:
        if eps is not None:
            x = b.clamp(x, min=eps, max=1 - eps)
        return b.log(b.div(x, _one_minus(b, x)))

    def slope(self, b: Builder, x: Value, *, eps: float | None) -> Value:
        low, high = (0, 1) if eps is None else (eps, 1 - eps)
        steep = b.reciprocal(b.mul(x, _one_minus(b, x)))
        outside = b.logical_or(b.lt(x, b.scalar(low, like=x)), b.gt(x, b.scalar(high, like=x)))
        return b.where(outside, b.scalar(math.nan if eps is None else 0, like=x), steep)

    def reference(self, x: Array, *, eps: float | None) -> Array:
        if eps is not None:
            x = np.clip(x, eps, 1 - eps)
        return np.log(x / (1 - x))

    def samples(self) -> Sequence[Sample]:
        x = Spec((4, 7), 0.05, 0.95)
        return Sample((x,)), Sample((x,), {"eps": 0.1}), Sample((Spec((0, 2)),))
