"""Bessel functions of orders 0 and 1: J and Y, and the modified ones I and K, also scaled.

All are computed in float64 from polynomials, two or three pieces each (`_bessel_tables`), and
rounded to the element type: in float64 a few units in the last place off, of J and Y relative to
their envelope sqrt(2 / (pi x)), as they pass zero. Slopes are by the functions' recurrences; far
from 0, where they cancel, by ratios of two functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from cellc_runtime.dtypes import float64
from cellc_runtime.lazy import lazy_imports

from ..ir.graph import Builder, Node, Value
from ..ir.op import FLOATS, Sample, Spec
from ._members import Grads, case, define
from .elementwise import Composed, to_dtype

with lazy_imports(__name__):
    from . import _bessel as reference
    from . import _bessel_tables as tables


def _number(b: Builder, value: float) -> Value:
    return b.literal(value, float64)


def _times(b: Builder, x: Value, factor: float) -> Value:
    return b.mul(x, _number(b, factor))


def _plus(b: Builder, x: Value, term: float) -> Value:
    return b.add(x, _number(b, term))


def _polynomial(b: Builder, t: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule."""
    total: Value = _number(b, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = _plus(b, b.mul(total, t), c)
    return total


def _between(b: Builder, x: Value, high: float) -> Value:
    """`x` brought into the range of a piece, 0 to `high`, which is not read outside of it."""
    return b.minimum(b.maximum(x, _number(b, 0.0)), _number(b, high))


def _choose(b: Builder, x: Value, bound: float, below: Value, above: Value) -> Value:
    """`below` up to a bound, else `above`; NaN stays."""
    return b.where(b.le(x, _number(b, bound)), below, above)


# --- pieces, of |x| or of x > 0 -------------------------------------------------------------------


def _scaled_i(b: Builder, x: Value, order: int) -> Value:
    """exp(-x) I(x), x >= 0."""
    low, high = ((tables.I0_LOW, tables.I0_HIGH), (tables.I1_LOW, tables.I1_HIGH))[order]
    near = _between(b, x, 8.0)
    below = _polynomial(b, _plus(b, _times(b, near, 0.25), -1.0), low)
    below = b.mul(below, near) if order else below
    far = b.maximum(x, _number(b, 8.0))
    above = _polynomial(b, _plus(b, b.div(_number(b, 16.0), far), -1.0), high)
    return _choose(b, x, 8.0, below, b.div(above, b.sqrt(far)))


def _k_of(b: Builder, x: Value, order: int, scaled: bool) -> Value:
    """K(x), x > 0, or exp(x) K(x) if `scaled`: up to 2 the series is of K, beyond of that."""
    series, rest, high = ((tables.I0_NEAR, tables.K0_LOW, tables.K0_HIGH),
                          (tables.I1_NEAR, tables.K1_LOW, tables.K1_HIGH))[order]
    near = _between(b, x, 2.0)
    t = _plus(b, _times(b, b.mul(near, near), 0.5), -1.0)
    log = b.log(_times(b, near, 0.5))
    other, smooth = _polynomial(b, t, series), _polynomial(b, t, rest)
    below = b.add(b.mul(log, b.mul(other, near)), b.div(smooth, near)) if order else \
        b.sub(smooth, b.mul(log, other))
    far = b.maximum(x, _number(b, 2.0))
    above = _polynomial(b, _plus(b, b.div(_number(b, 4.0), far), -1.0), high)
    above = b.div(above, b.sqrt(far))
    if scaled:
        below = b.mul(below, b.exp(near))
    else:
        above = b.mul(above, b.exp(b.neg(far)))
    return _positive(b, x, _choose(b, x, 2.0, below, above), math.inf)


def _ratio(b: Builder, t: Value, kind: str) -> Value:
    """(1 - I1 / I0) / t or (K1 / K0 - 1) / t of x = 1 / t, from the bound of `_FAR` on: with it far
    slopes are products of what has one sign, where the recurrences would cancel."""
    bound, table = _FAR[kind]
    return _polynomial(b, _plus(b, _times(b, t, 2 * bound), -1.0), getattr(tables, table))


_FAR = {"i": (12.0, "I_RATIO"), "k": (8.0, "K_RATIO")}


def _far_slope(
    b: Builder, x: Value, kind: str, near: Value, far: Callable[[Value, Value], Value]
) -> Value:
    """A slope by its recurrence up to a bound of |x|, beyond of 1 / |x| and the ratio."""
    bound = _FAR[kind][0]
    size = b.abs(x)
    t = b.reciprocal(b.maximum(size, _number(b, bound)))
    return _choose(b, size, bound, near, far(t, _ratio(b, t, kind)))


def _positive(b: Builder, x: Value, value: Value, at_zero: float) -> Value:
    """A value for x > 0; a pole at 0, NaN below."""
    zero = _number(b, 0.0)
    pole = b.where(b.eq(x, zero), _number(b, at_zero), _number(b, math.nan))
    return b.where(b.le(x, zero), pole, value)


def _near_j(b: Builder, x: Value, order: int) -> tuple[Value, Value]:
    """J(x) for 0 <= x <= 8, and t."""
    t = _plus(b, _times(b, b.mul(x, x), 1 / 32), -1.0)
    value = _polynomial(b, t, (tables.J0, tables.J1)[order])
    return (b.mul(value, _times(b, x, 0.125)) if order else value), t


def _far(b: Builder, x: Value, order: int) -> tuple[Value, Value]:
    """J(x) and Y(x) for x >= 8, from phase and amplitude: with s and c for sine and cosine of x,
    those of x - pi/4 are (s - c) / sqrt(2) and (c + s) / sqrt(2)."""
    z = b.div(_number(b, 8.0), x)
    t = _plus(b, _times(b, b.mul(z, z), 2.0), -1.0)
    p = _polynomial(b, t, (tables.P0, tables.P1)[order])
    q = b.mul(_polynomial(b, t, (tables.Q0, tables.Q1)[order]), z)
    sine, cosine = b.sin(x), b.cos(x)
    even, odd = b.add(cosine, sine), b.sub(sine, cosine)
    if order:  # a quarter turn later
        even, odd = odd, b.neg(even)
    scale = b.reciprocal(b.sqrt(_times(b, x, math.pi)))
    j = b.mul(b.sub(b.mul(p, even), b.mul(q, odd)), scale)
    y = b.mul(b.add(b.mul(p, odd), b.mul(q, even)), scale)
    ends = b.eq(x, _number(b, math.inf))
    zero = _number(b, 0.0)
    return b.where(ends, zero, j), b.where(ends, zero, y)


def _j(b: Builder, x: Value, order: int) -> Value:
    below, _ = _near_j(b, _between(b, x, 8.0), order)
    return _choose(b, x, 8.0, below, _far(b, b.maximum(x, _number(b, 8.0)), order)[0])


def _y(b: Builder, x: Value, order: int) -> Value:
    near = _between(b, x, 8.0)
    j, t = _near_j(b, near, order)
    smooth = _polynomial(b, t, (tables.Y0, tables.Y1)[order])
    singular = b.mul(b.log(_times(b, near, 0.5)), j)
    if order:
        singular = b.sub(singular, b.reciprocal(near))
        smooth = b.mul(smooth, _times(b, near, 0.125))
    below = b.add(_times(b, singular, 2 / math.pi), smooth)
    above = _far(b, b.maximum(x, _number(b, 8.0)), order)[1]
    return _positive(b, x, _choose(b, x, 8.0, below, above), -math.inf)


def _signed(b: Builder, x: Value, size: Value) -> Value:
    """An odd function of `x` from its values on |x|."""
    return b.where(b.lt(x, _number(b, 0.0)), b.neg(size), size)


# --- ops ------------------------------------------------------------------------------------------


class _Bessel(Composed):
    """Base: `computed` in float64; `slope` from that and the op's partner."""

    dtypes = FLOATS
    amp = "high"
    tolerance = 32.0
    low: ClassVar[float] = -12.0
    high: ClassVar[float] = 12.0

    def computed(self, b: Builder, x: Value) -> Value:
        """The function of a float64."""
        raise TypeError(f"{self.name} is not computed")

    def slope(self, b: Builder, x: Value) -> Value:
        """Its derivative."""
        raise TypeError(f"{self.name} has no slope")

    def expand(self, b: Builder, x: Value) -> Value:
        return to_dtype(b, self.computed(b, to_dtype(b, x, float64)), x.dtype)

    def gradient(self, b: Builder, node: Node, dys: Grads) -> Grads:
        x, dy = node.operands[0], dys[0]
        slope = self.slope(b, to_dtype(b, x, float64))
        return [to_dtype(b, b.mul(to_dtype(b, dy, float64), slope), x.dtype)]

    def samples(self) -> Sequence[Sample]:
        lo, hi = self.low, self.high
        return (case(Spec((3, 7), lo, hi)), case(Spec((9,), max(lo, 0.3), 1.9)), case((0, 2)))


def _over(b: Builder, y: Value, x: Value) -> Value:
    """y / x, or its limit 1/2 at 0."""
    zero = _number(b, 0.0)
    none = b.eq(x, zero)
    return b.where(none, _number(b, 0.5), b.div(y, b.where(none, _number(b, 1.0), x)))


_Slope = Callable[[Builder, Value], Value]


def _op(name: str, text: str, value: _Slope, slope: _Slope, low: float = -12.0) -> None:
    """Make the op of one function."""
    short = name.removeprefix("bessel_")
    define(_Bessel, name, f"{text} Source: `mindspore.ops.{name}`.",
           lambda x: getattr(reference, short)(x), function=name,
           primitive=f"Bessel{short.capitalize()}", low=low, computed=staticmethod(value),
           slope=staticmethod(slope))


def _i0(b: Builder, x: Value) -> Value:
    size = b.abs(x)
    return b.mul(b.exp(size), _scaled_i(b, size, 0))


def _i1(b: Builder, x: Value) -> Value:
    size = b.abs(x)
    return _signed(b, x, b.mul(b.exp(size), _scaled_i(b, size, 1)))


def _i0e(b: Builder, x: Value) -> Value:
    return _scaled_i(b, b.abs(x), 0)


def _i1e(b: Builder, x: Value) -> Value:
    return _signed(b, x, _scaled_i(b, b.abs(x), 1))


def _k(order: int, scaled: bool) -> _Slope:
    return lambda b, x: _k_of(b, x, order, scaled)


def _i0e_slope(b: Builder, x: Value) -> Value:
    value = b.bessel_i0e(x)
    near = b.sub(b.bessel_i1e(x), b.mul(b.sign(x), value))
    return _far_slope(b, x, "i", near, lambda t, ratio: b.mul(
        b.neg(_signed(b, x, value)), b.mul(t, ratio)))


def _i1_slope(b: Builder, x: Value) -> Value:
    value = b.bessel_i0(x)
    near = b.sub(value, _over(b, b.bessel_i1(x), x))
    one = _number(b, 1.0)  # (far, both terms may be infinite)
    return _far_slope(b, x, "i", near, lambda t, ratio: b.mul(
        value, b.sub(one, b.mul(t, b.sub(one, b.mul(t, ratio))))))


def _i1e_slope(b: Builder, x: Value) -> Value:
    value, odd = b.bessel_i0e(x), b.bessel_i1e(x)
    near = b.sub(b.sub(value, _over(b, odd, x)), b.mul(b.sign(x), odd))
    return _far_slope(b, x, "i", near, lambda t, ratio: b.mul(
        value, b.mul(t, _plus(b, b.mul(ratio, _plus(b, t, 1.0)), -1.0))))


def _k0e_slope(b: Builder, x: Value) -> Value:
    value = b.bessel_k0e(x)
    return _far_slope(b, x, "k", b.sub(value, b.bessel_k1e(x)), lambda t, ratio: b.mul(
        b.neg(value), b.mul(t, ratio)))


def _k1e_slope(b: Builder, x: Value) -> Value:
    value, other = b.bessel_k0e(x), b.bessel_k1e(x)
    near = b.sub(b.mul(other, b.sub(_number(b, 1.0), b.reciprocal(x))), value)
    return _far_slope(b, x, "k", near, lambda t, ratio: b.mul(
        value, b.mul(t, _plus(b, b.mul(ratio, b.sub(_number(b, 1.0), t)), -1.0))))


_op("bessel_i0", "The modified Bessel function of the first kind, order 0.", _i0,
    lambda b, x: b.bessel_i1(x))
_op("bessel_i0e", "exp(-|x|) times `bessel_i0`, without overflow for large x.", _i0e, _i0e_slope)
_op("bessel_i1", "The modified Bessel function of the first kind, order 1.", _i1, _i1_slope)
_op("bessel_i1e", "exp(-|x|) times `bessel_i1`, without overflow for large x.", _i1e, _i1e_slope)
_op("bessel_j0", "The Bessel function of the first kind, order 0.",
    lambda b, x: _j(b, b.abs(x), 0), lambda b, x: b.neg(b.bessel_j1(x)))
_op("bessel_j1", "The Bessel function of the first kind, order 1.",
    lambda b, x: _signed(b, x, _j(b, b.abs(x), 1)),
    lambda b, x: b.sub(b.bessel_j0(x), _over(b, b.bessel_j1(x), x)))
_op("bessel_y0", "The Bessel function of the second kind, order 0: -inf at 0, NaN below.",
    lambda b, x: _y(b, x, 0), lambda b, x: b.neg(b.bessel_y1(x)), 0.3)
_op("bessel_y1", "The Bessel function of the second kind, order 1: -inf at 0, NaN below.",
    lambda b, x: _y(b, x, 1), lambda b, x: b.sub(b.bessel_y0(x), b.div(b.bessel_y1(x), x)), 0.3)
_op("bessel_k0", "The modified Bessel function of the second kind, order 0: inf at 0, NaN below.",
    _k(0, False), lambda b, x: b.neg(b.bessel_k1(x)), 0.3)
_op("bessel_k0e", "exp(x) times `bessel_k0`, not 0 for large x.", _k(0, True), _k0e_slope, 0.3)
_op("bessel_k1", "The modified Bessel function of the second kind, order 1: inf at 0, NaN below.",
    _k(1, False), lambda b, x: b.neg(b.add(b.bessel_k0(x), b.div(b.bessel_k1(x), x))), 0.3)
_op("bessel_k1e", "exp(x) times `bessel_k1`, not 0 for large x.", _k(1, True), _k1e_slope, 0.3)
