"""Exponentials, logarithms, trigonometric and special functions.

The scalar functions are those of `backends.llvm.math`; float16 and bfloat16 are computed in
float32 and rounded once. Gradients are the textbook derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import float32, float64

from ..ir import attributes as attr
from ..ir.graph import Builder, Node, Value
from ..ir.op import COMPLEX, FLOATS, Array, Op, Sample, Spec
from . import _special as S
from ._complex import conj
from ._members import Grads, case, define, same_as
from .elementwise import Binary, Composed, Formula, Unary, both, squared, to_dtype, widen


class _Function(Unary):
    """Base of functions of one float."""

    dtypes = FLOATS
    amp = "high"


class _Analytic(_Function):
    """Base of functions of one float or complex number."""

    dtypes = FLOATS + COMPLEX


def _times(b: Builder, dy: Value, x: float) -> Value:
    return b.mul(dy, b.scalar(x, like=dy))


def _one_plus(b: Builder, v: Value) -> Value:
    return b.add(v, b.scalar(1, like=v))


def _one_minus(b: Builder, v: Value) -> Value:
    return b.sub(b.scalar(1, like=v), v)


def _one_minus_square(b: Builder, v: Value) -> Value:
    """1 - v*v as (1 - v)(1 + v), accurate near 1."""
    return b.mul(_one_minus(b, v), _one_plus(b, v))


def _gauss(b: Builder, dy: Value, x: Value, sign: int) -> Value:
    """dy * sign * 2/sqrt(pi) * exp(-x*x): the slope of erf and erfc."""
    slope = _times(b, widen(b, dy), sign * 2 / math.sqrt(math.pi))
    return to_dtype(b, b.mul(slope, b.gauss(widen(b, x))), dy.dtype)


def _erfinv_slope(b: Builder, dy: Value, x: Value, y: Value) -> Value:
    """dy * sqrt(pi)/2 * exp(y*y), y the result.

    Near the ends that is many ulps off for half an ulp of y; of float64 what y lacks is found there
    from erfc(|y|) - (1 - |x|), of which 1 - |x| is exact, and put back to first order.
    """
    slope = _times(b, widen(b, dy), math.sqrt(math.pi) / 2)
    grown = b.exp_square(widen(b, y))
    if x.dtype is float64:
        size, one = b.abs(x), b.scalar(1, like=x)
        inside = b.logical_and(b.gt(size, b.scalar(0.5, like=x)), b.lt(size, one))
        end = b.where(inside, b.abs(y), one)
        lack = b.mul(b.sub(b.erfc(end), b.sub(one, size)), b.mul(end, grown))
        more = b.mul(grown, _times(b, lack, math.sqrt(math.pi)))
        grown = b.add(grown, b.where(inside, more, b.scalar(0, like=x)))
    return to_dtype(b, b.mul(slope, grown), dy.dtype)


def _define(base: type[Op], name: str, doc: str, numpy: Callable[..., Any],
            pull: Callable[[Builder, Any, Value, Value], Any], **facts: Any) -> None:
    """See `define`; the function and the method of Tensor are called as the op."""
    define(base, name, doc, numpy, pull, **{"function": name, "method": name, **facts})


_define(_Analytic, "exp", "e to the power of each element. Source: `mindspore.ops.exp`.",
        np.exp, lambda b, dy, x, y: b.mul(dy, conj(b, y)), primitive="Exp")


NORMAL_EXP = -87.3365
"""Where e^x is about to leave the normal numbers of float32."""


class NormalExp(_Function):
    """e to the power of each element, 0 below -87.3365, where that is hardly a normal number.

    For the weights of a softmax: numbers of fewer digits change no sum with a 1 in it, but a
    product that meets them takes some processors a hundred cycles.
    """

    name = "normal_exp"
    dtypes = (float32,)

    def reference(self, x: Array) -> Array:
        return np.where(x < np.float32(NORMAL_EXP), 0, np.exp(x))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        return [b.mul(dys[0], node.result)]


def _exp_of_square(sign: int) -> Callable[[Array], Array]:
    """exp of a square, or of minus one, with what a float64 loses there by rounding (Dekker's
    product)."""
    def reference(x: Array) -> Array:
        square = x * x
        found: Array = np.exp(sign * square)
        if x.dtype != np.float64:
            return found
        high = 134217729.0 * x - (134217729.0 * x - x)
        low = x - high
        lost = ((high * high - square) + 2 * high * low) + low * low
        return found * (1 + sign * np.where(square < 1000, lost, 0))  # beyond: 0 or infinite

    return reference


_define(_Function, "exp2", "2 to the power of each element. Source: `mindspore.ops.exp2`.",
        np.exp2, lambda b, dy, x, y: b.mul(_times(b, dy, math.log(2)), y), function=None)
_define(_Function, "expm1", "exp(input) - 1, accurate near 0. Source: `mindspore.ops.expm1`.",
        np.expm1, lambda b, dy, x, y: b.mul(dy, _one_plus(b, y)), primitive="Expm1")


class _Log(_Function):
    """Base of logarithms: -infinity at 0, NaN below."""

    low, high = 0.25, 4.0


_define(_Log, "log", "The natural logarithm. Source: `mindspore.ops.log`.",
        np.log, lambda b, dy, x, y: b.div(dy, conj(b, x)), primitive="Log", dtypes=FLOATS + COMPLEX)
_define(_Log, "log2", "The logarithm to base 2. Source: `mindspore.ops.log2`.",
        np.log2, lambda b, dy, x, y: b.div(_times(b, dy, 1 / math.log(2)), x))
_define(_Log, "log10", "The logarithm to base 10. Source: `mindspore.ops.log10`.",
        np.log10, lambda b, dy, x, y: b.div(_times(b, dy, 1 / math.log(10)), x))
_define(_Function, "log1p", "log(1 + input), accurate near 0. Source: `mindspore.ops.log1p`.",
        np.log1p, lambda b, dy, x, y: b.div(dy, _one_plus(b, x)), primitive="Log1p",
        low=-0.5, high=3.0)

_define(_Analytic, "sin", "The sine of radians. Source: `mindspore.ops.sin`.",
        np.sin, lambda b, dy, x, y: b.mul(dy, conj(b, b.cos(x))), primitive="Sin")
_define(_Analytic, "cos", "The cosine of radians. Source: `mindspore.ops.cos`.",
        np.cos, lambda b, dy, x, y: b.neg(b.mul(dy, conj(b, b.sin(x)))), primitive="Cos")
_define(_Function, "tan", "The tangent of radians. Source: `mindspore.ops.tan`.",
        np.tan, lambda b, dy, x, y: b.mul(dy, b.one_plus_square(y)), primitive="Tan",
        low=-1.2, high=1.2)
_define(_Function, "asin",
        "The arc sine, radians; NaN outside [-1, 1]. Source: `mindspore.ops.asin`.",
        np.arcsin, lambda b, dy, x, y: b.div(dy, b.sqrt(_one_minus_square(b, x))),
        primitive="Asin", low=-0.9, high=0.9)
_define(_Function, "acos",
        "The arc cosine, radians; NaN outside [-1, 1]. Source: `mindspore.ops.acos`.",
        np.arccos, lambda b, dy, x, y: b.neg(b.div(dy, b.sqrt(_one_minus_square(b, x)))),
        primitive="ACos", low=-0.9, high=0.9)
_define(_Function, "atan", "The arc tangent, radians. Source: `mindspore.ops.atan`.",
        np.arctan, lambda b, dy, x, y: b.div(dy, _one_plus(b, squared(b, x))), primitive="Atan")


class Atan2(Binary):
    """The angle of the point (other, input), radians in [-pi, pi]. Source: `mindspore.ops.atan2`.

    The cotangents at the origin are NaN.
    """

    name = "atan2"
    amp = "high"
    primitive = "Atan2"
    other_low = 0.25
    reference = same_as(np.arctan2)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        y, x = node.operands
        scale = b.div(dys[0], b.add(b.mul(y, y), b.mul(x, x)))
        return both(b, node, b.mul(scale, x), b.neg(b.mul(scale, y)))


_define(_Analytic, "sinh", "The hyperbolic sine. Source: `mindspore.ops.sinh`.",
        np.sinh, lambda b, dy, x, y: b.mul(dy, conj(b, b.cosh(x))), primitive="Sinh")
_define(_Analytic, "cosh", "The hyperbolic cosine. Source: `mindspore.ops.cosh`.",
        np.cosh, lambda b, dy, x, y: b.mul(dy, conj(b, b.sinh(x))), primitive="Cosh")
_define(_Analytic, "tanh", "The hyperbolic tangent. Source: `mindspore.ops.tanh`.",
        np.tanh, lambda b, dy, x, y: b.mul(dy, _one_minus(b, squared(b, conj(b, y)))),
        primitive="Tanh", amp="promote")
_define(_Function, "asinh", "The inverse hyperbolic sine. Source: `mindspore.ops.asinh`.",
        np.arcsinh, lambda b, dy, x, y: b.div(dy, b.sqrt(_one_plus(b, squared(b, x)))),
        primitive="Asinh")
_define(_Function, "acosh",
        "The inverse hyperbolic cosine; NaN below 1. Source: `mindspore.ops.acosh`.",
        np.arccosh, lambda b, dy, x, y: b.div(dy, b.mul(
            b.sqrt(b.sub(x, b.scalar(1, like=x))), b.sqrt(_one_plus(b, x)))),
        primitive="Acosh", low=1.25, high=4.0)
_define(_Function, "atanh",
        "The inverse hyperbolic tangent; NaN outside [-1, 1]. Source: `mindspore.ops.atanh`.",
        np.arctanh, lambda b, dy, x, y: b.div(dy, _one_minus_square(b, x)),
        primitive="Atanh", low=-0.8, high=0.8)

_define(_Function, "sigmoid", "1 / (1 + exp(-input)). Source: `mindspore.ops.sigmoid`.",
        S.sigmoid, lambda b, dy, x, y: b.mul(dy, b.mul(y, _one_minus(b, y))),
        primitive="Sigmoid", amp="promote")
_define(_Function, "gauss", "exp(-input**2).", _exp_of_square(-1),
        lambda b, dy, x, y: b.mul(_times(b, dy, -2), b.mul(x, y)), function=None, method=None)
_define(_Function, "exp_square", "exp(input**2).", _exp_of_square(1),
        lambda b, dy, x, y: b.mul(_times(b, dy, 2), b.mul(x, y)), function=None, method=None)
_define(_Function, "one_plus_square", "1 + input**2, rounded once.", lambda x: 1 + x * x,
        lambda b, dy, x, y: b.mul(_times(b, dy, 2), x), function=None, method=None)
_define(_Function, "log1pexp", "log(1 + exp(input)) without overflow.", S.softplus,
        lambda b, dy, x, y: b.mul(dy, b.sigmoid(x)), function=None, method=None)
_define(_Function, "erf", "The error function. Source: `mindspore.ops.erf`.",
        S.erf, lambda b, dy, x, y: _gauss(b, dy, x, 1), primitive="Erf")
_define(_Function, "erfc",
        "1 - erf(input), accurate for large input. Source: `mindspore.ops.erfc`.",
        S.erfc, lambda b, dy, x, y: _gauss(b, dy, x, -1), primitive="Erfc")
_define(_Function, "erfinv", "The inverse of erf on (-1, 1). Source: `mindspore.ops.erfinv`.",
        S.erfinv, lambda b, dy, x, y: _erfinv_slope(b, dy, x, y),
        primitive="Erfinv", low=-0.9, high=0.9)
_define(_Function, "lgamma",
        "log |gamma(input)|; infinite at 0, -1, -2, ... Source: `mindspore.ops.lgamma`.",
        S.lgamma, lambda b, dy, x, y: b.mul(dy, b.digamma(x)), primitive="Lgamma",
        low=0.3, high=6.0, tolerance=16.0)
_define(_Function, "digamma", "The derivative of lgamma. Source: `mindspore.ops.digamma`.",
        S.digamma, lambda b, dy, x, y: b.mul(dy, b.trigamma(x)), primitive="Digamma",
        low=0.3, high=6.0, tolerance=16.0)

_SHIFT = 8
# B(2k) of the expansion 1/x + 1/(2x^2) + sum B(2k) / x^(2k+1) (Abramowitz & Stegun 6.4.12).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


class Trigamma(Composed):
    """The derivative of digamma (polygamma of order 1). Source: `mindspore.ops.polygamma`.

    Composition: reflection below 1/2, eight steps of the recurrence, then the asymptotic series
    (error below 1e-13 relative). Infinite at 0, -1, -2, ...
    """

    name = "trigamma"
    amp = "high"
    tolerance = 32.0
    reference = same_as(S.trigamma)

    def expand(self, b: Builder, x: Value) -> Value:
        # The sums in float32 would lose more than its own precision.
        v = b.cast(x, dtype=float64) if x.dtype is float32 else widen(b, x)
        one, half = b.scalar(1, like=v), b.scalar(0.5, like=v)
        reflect = b.lt(v, half)
        z = b.where(reflect, b.sub(one, v), v)
        value = self._positive(b, z)
        angle = b.mul(b.sub(v, b.round(v)), b.scalar(math.pi, like=v))  # exact near the poles
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
        return b.add(total, b.add(r, tail))

    def samples(self) -> Sequence[Sample]:
        return (case(Spec((3, 5), 0.6, 6)), case(Spec((9,), -0.9, -0.1)), case((0, 2)))


class Xlogy(Binary):
    """input * log(other), 0 where input is 0 unless other is NaN. Source: `mindspore.ops.xlogy`."""

    name = "xlogy"
    amp = "high"
    primitive = "Xlogy"

    def reference(self, a: Array, b: Array) -> Array:
        return np.where((a == 0) & ~np.isnan(b), np.zeros((), a.dtype), a * np.log(b))

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        (x, y), dy = node.operands, dys[0]
        zero, one = b.scalar(0, like=x), b.scalar(1, like=x)
        flat = b.logical_and(b.eq(x, zero), b.le(y, zero))  # 0 beyond the logarithm's range
        dx = b.mul(dy, b.log(b.where(flat, one, y)))
        return both(b, node, dx, b.div(b.mul(dy, x), y))

    def samples(self) -> Sequence[Sample]:
        x, row = (Spec((4, 5), 0.25, 2), Spec((5,), 0.25, 2))
        return (case(x, x), case(x, row), case((0, 3), (3,)))


_SINC_SLOPE = tuple((-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 10))
"""Taylor coefficients of the derivative of sin(z)/z: of z, z**3, ... z**17."""


class Sinc(Formula):
    """sin(pi x) / (pi x), 1 at 0. Source: `mindspore.ops.sinc`.

    Sine and cosine are of the distance to the nearest integer, which is exact: at integers the
    function is 0, and the product pi x rounds for no argument by much of a period. The slope below
    |pi x| = 1 is a Taylor series, as (cos z - sin(z)/z) / z cancels there.
    """

    name = "sinc"
    amp = "high"
    tolerance = 8.0

    def reference(self, x: Array) -> Array:
        whole = np.round(x)
        sign = np.where(np.mod(whole, 2) == 0, 1.0, -1.0).astype(x.dtype)
        out: Array = np.sin(np.pi * (x - whole)) * sign / np.where(x == 0, 1, np.pi * x)
        return np.where(x == 0, np.ones((), x.dtype), out).astype(x.dtype)

    def _parts(self, b: Builder, x: Value, limit: float) -> tuple[Value, Value, Value]:
        """pi x, whether it is at most `limit` in size, and 1 in its place there."""
        z = b.mul(x, b.scalar(math.pi, like=x))
        near = b.le(b.abs(z), b.scalar(limit, like=z))
        return z, near, b.where(near, b.scalar(1, like=z), z)

    def _nearest(self, b: Builder, x: Value) -> tuple[Value, Value]:
        """pi times the distance to the nearest integer; 1 where that is even, -1 where odd."""
        whole = b.round(x)
        half = b.mul(whole, b.scalar(0.5, like=x))
        odd = b.mul(b.sub(half, b.floor(half)), b.scalar(4, like=x))  # 0 or 2
        return (b.mul(b.sub(x, whole), b.scalar(math.pi, like=x)), b.sub(b.scalar(1, like=x), odd))

    def formula(self, b: Builder, x: Value) -> Value:
        _, zero, far = self._parts(b, x, 0)
        turn, sign = self._nearest(b, x)
        return b.where(zero, b.scalar(1, like=x), b.div(b.mul(b.sin(turn), sign), far))

    def slope(self, b: Builder, x: Value) -> Value:
        z, near, far = self._parts(b, x, 1)
        square = b.where(near, b.mul(z, z), b.scalar(1, like=z))
        series: Value = b.scalar(_SINC_SLOPE[-1], like=z)
        for c in reversed(_SINC_SLOPE[:-1]):
            series = b.add(b.mul(series, square), b.scalar(c, like=z))
        turn, sign = self._nearest(b, x)
        wave = b.sub(b.cos(turn), b.div(b.sin(turn), far))
        usual = b.div(b.mul(wave, sign), far)
        return b.mul(b.where(near, b.mul(series, z), usual), b.scalar(math.pi, like=z))

    def samples(self) -> Sequence[Sample]:
        return (case(Spec((5, 9), -3, 3)), case(Spec((7,), -0.3, 0.3)), case((0, 2)))


class Logit(Formula):
    """log(x / (1 - x)), NaN outside of [0, 1]. Source: `mindspore.ops.logit`.

    Attributes:
        eps: x is first brought into [eps, 1 - eps], where its slope is 0; None for no bounds.
    """

    name = "logit"
    amp = "high"
    attrs = {"eps": attr.optional(attr.real())}
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
        return (case(x), case(x, eps=0.1), case((0, 2)))
