"""Zeta, polygamma and incomplete beta functions, in float64 and rounded.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import float64

from ...compiled.inline import call_here
from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, scan
from ...tensors.promotion import cast_to, operands
from ...tensors.tensor import Tensor
from ..arguments import tensor
from ..operands import operands_of
from . import arith, classes, control_source, creation, shapes

_LEAST_STEPS, _ENOUGH = 9, 9.0
_LOWEST = -1e5  # Below, sums are too long: the result is NaN
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
              43867 / 798, -174611 / 330)
"""B2, B4, ..."""
_LARGEST_FACTORIAL = 170  # The last order whose factorial a float64 holds
_MOST_ORDERS = 1 << 53  # Zeta is 0 or infinite from far below on
_TRIPS = 300  # Terms of the continued fraction: enough for 1e-12 where a and b are at most 10000


def _log(x: Tensor) -> Tensor:
    return apply_one("log", x)


def _sum_of_powers(x: Tensor, q: Tensor) -> Tensor:
    """The sum of (q + k)**-x over k >= 0, x > 1, for q that are no integers below 1: terms up to
    q + k > 9, then Euler and Maclaurin's formula."""
    def unfinished(carried: Any) -> Tensor:
        _, at, count = carried
        return arith.logical_or(arith.le(at, _ENOUGH), arith.lt(count, float(_LEAST_STEPS))).any()

    def step(carried: Any) -> Any:
        total, at, count = carried
        going = arith.logical_or(arith.le(at, _ENOUGH), arith.lt(count, float(_LEAST_STEPS)))
        here = arith.where(going, at, 1.0)
        term = arith.where(going, here ** (-x), 0.0)
        return arith.add(total,
                         term), arith.where(going, arith.add(at, 1.0), at), arith.add(count, 1.0)

    start = (creation.zeros_like(q), q, creation.zeros_like(q))
    total, at, _ = call_here(control_source.while_loop, (unfinished, step, start))
    power = arith.pow(at, -x)
    total = arith.add(total, arith.mul(power, at) / (x - 1.0) + power * 0.5)
    factor = arith.div(power * x, at)
    for k, b in enumerate(_BERNOULLI, 1):
        total = arith.add(total, arith.mul(factor, b / math.factorial(2 * k)))
        following = (x + float(2 * k - 1)) * (x + float(2 * k))
        factor = factor * following / arith.mul(at, at)
    return total


def _zeta(x: Tensor, q: Tensor) -> Tensor:
    """The Hurwitz zeta function of float64 tensors of one shape."""
    pole = arith.logical_and(q <= 0.0, q == arith.floor(q))
    whole = x == arith.floor(x)
    valid = arith.logical_and(x > 1.0, arith.logical_and(arith.logical_or(q > 0.0, whole),
                                                         arith.logical_not(pole)))
    inside = arith.logical_and(valid, arith.logical_and(arith.gt(q, _LOWEST), q < math.inf))
    value = _sum_of_powers(arith.where(inside, x, 2.0), arith.where(inside, q, 1.0))
    value = arith.where(inside, value, arith.where(arith.logical_and(valid, q == math.inf), 0.0,
                                                   math.nan))
    infinite = arith.logical_or(x == 1.0, arith.logical_and(pole, x > 1.0))
    return arith.where(infinite, math.inf, value)


def zeta(input: Any, other: Any) -> Tensor:
    """The Hurwitz zeta function: the sum of (k + other)**-input over k >= 0.

    Args:
        input: above 1 (infinite at 1, NaN below).
        other: above -1e5; infinite at 0, -1, -2, ..., below 0 only for whole `input`.
            Float32 or float64 Tensors, or one number; they broadcast.
    """
    x, q = operands("zeta", input, other)
    if not x.dtype.is_float:
        raise misuse("zeta", "floats are needed", x.dtype, TypeError)
    wide = shapes.broadcast_tensors(cast_to(x, float64), cast_to(q, float64))
    return cast_to(_zeta(*wide), x.dtype)


def polygamma(n: Any, input: Tensor) -> Tensor:
    """The derivative of order n of `digamma`: (-1)**(n + 1) n! zeta(n + 1, input).

    Args:
        n: an int of 0 or more, or a Tensor of one; the order. Above 170 its factorial is infinite,
            and the result infinite or (where zeta is 0) NaN.
        input: floats above -1e5 (NaN below); infinite at 0, -1, -2, ...
    """
    (x,) = operands_of("polygamma", "input float", input)
    if not isinstance(n, Tensor):
        return _polygamma_known(n, x)
    if not n.dtype.is_integer:
        raise misuse("polygamma", "'n' must hold ints", n.dtype, TypeError)
    order, wide = shapes.broadcast_tensors(cast_to(n, float64), cast_to(x, float64))
    later = arith.maximum(order, 1.0) + 1.0
    sign = arith.where(order % 2.0 == 0.0, -1.0, 1.0)
    size: Tensor = apply("exp", apply("lgamma", later)) * _zeta(later, wide)
    found = arith.where(order == 0.0, apply("digamma", wide), sign * size)
    return cast_to(arith.where(order < 0.0, math.nan, found), x.dtype)


def _polygamma_known(n: Any, x: Tensor) -> Tensor:
    if not isinstance(n, int) or isinstance(n, bool):
        raise misuse("polygamma", "'n' must be an int or a Tensor of one", repr(n), TypeError)
    if n < 0:
        raise misuse("polygamma", "'n' must be 0 or more", n)
    if n < 2:
        return apply_one("digamma" if n == 0 else "trigamma", x)
    wide = cast_to(x, float64)
    size = float(math.factorial(n)) if n <= _LARGEST_FACTORIAL else math.inf
    factor = size if n % 2 else -size
    order = float(min(n, _MOST_ORDERS)) + 1.0
    return cast_to(_zeta(creation.full_like(wide, order), wide) * factor, x.dtype)


# --- incomplete beta function ---------------------------------------------------------------------


def _fraction(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Two steps of Lentz's method (Numerical Recipes, 6.4)."""
    h, c, d = carried
    a, b, x = captures
    n = cast_to(i, float64) + 1.0
    twice = arith.add(a, n * 2.0)
    even = arith.mul(n * arith.sub(b, n), x) / ((twice - 1.0) * twice)
    odd = -(arith.mul(arith.add(a, n) * (arith.add(a, b) + n), x) / (twice * (twice + 1.0)))
    for numerator in (even, odd):
        d = 1.0 / classes.not_zero(arith.mul(numerator, d) + 1.0)
        c = classes.not_zero(arith.div(numerator, c) + 1.0)
        h = arith.mul(h, arith.mul(c, d))
    return [h, c, d], []


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The regularized incomplete beta function I_x(a, b); NaN out of its domain.

    Args:
        a, b: above 0, up to about 10000.
        x: in [0, 1]; all of one float type and shape.
    """
    given = [tensor(t, "Betainc", n) for t, n in ((a, "a"), (b, "b"), (x, "x"))]
    if not given[0].dtype.is_float or len({t.dtype for t in given}) > 1:
        raise misuse("Betainc", "'a', 'b' and 'x' must have one float type",
                     [str(t.dtype) for t in given], TypeError)
    if len({t.shape for t in given}) > 1:
        raise misuse("Betainc", "'a', 'b' and 'x' must have one shape", [t.shape for t in given])
    p, q, t = (cast_to(v, float64) for v in given)
    valid = arith.logical_and(arith.logical_and(p > 0.0, q > 0.0),
                              arith.logical_and(arith.ge(t, 0.0), arith.le(t, 1.0)))
    inner = arith.logical_and(valid, arith.logical_and(arith.gt(t, 0.0), arith.lt(t, 1.0)))
    p, q = arith.where(valid, p, 1.0), arith.where(valid, q, 1.0)
    inside = arith.where(inner, t, 0.5)
    value = arith.where(inner, _beta_inside(p, q, inside), arith.where(arith.ge(t, 1.0), 1.0, 0.0))
    return cast_to(arith.where(valid, value, math.nan), given[0].dtype)


def _beta_inside(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """The function for 0 < x < 1: the fraction converges fast below (a + 1) / (a + b + 2)."""
    turned = x > (a + 1.0) / (a + b + 2.0)
    p, q = arith.where(turned, b, a), arith.where(turned, a, b)
    t = arith.where(turned, 1.0 - x, x)
    d = 1.0 - (p + q) * t / (p + 1.0)
    d = 1.0 / classes.not_zero(d)
    (h, _,
     _), _ = scan(("betainc", "fraction"), [d, creation.ones_like(d), d], [], [p, q, t], _TRIPS,
                  _fraction)
    total: Tensor = apply("lgamma", a + b)
    beta = total - apply("lgamma", a) - apply("lgamma", b)
    logs = a * _log(x) + b * apply("log1p", -x) + beta
    below: Tensor = apply("exp", logs) * arith.div(h, p)
    return arith.where(turned, 1.0 - below, below)
