"""Bessel functions by integrals, for reference evaluation only (float64, elementwise).

The trapezoidal rule converges geometrically for these (Trefethen & Weideman, 2014). Y0 comes from
Neumann's series over J (Abramowitz & Stegun, 9.1.89), Y1 is minus its derivative. Far from 0,
where the rule would need ever more points, Hankel's expansions are exact to rounding (9.2.5 to
9.2.10, 9.7.1 and 9.7.2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cellc_runtime.dtypes import Array

_EULER = 0.5772156649015329
_POINTS = 256
"""Of the rule: J of orders below 100 is exact to rounding for arguments up to about 100."""
_NEAR = 50.0  # Up to where the rule is used
_TERMS = 14  # Of the expansions: 1e-20 of the first one is left at `_NEAR`


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        x = np.asarray(x)
        with np.errstate(all="ignore"):
            return function(x.astype(np.float64)).astype(x.dtype)

    return apply


def _j(x: Array, order: int) -> Array:
    angle = np.arange(_POINTS) * (2 * np.pi / _POINTS)
    if order == 1:  # what cancels around the circle is left out: near 0 the terms have one sign
        sine = np.sin(angle)
        near: Array = (sine * np.sin(x[..., None] * sine)).mean(-1)
        return near
    out: Array = np.cos(order * angle - x[..., None] * np.sin(angle)).mean(-1)
    return out


def _ie(x: Array, order: int) -> Array:
    """exp(-|x|) times I of order 0 or 1; each angle with its opposite, so that nothing cancels."""
    angle = np.arange(_POINTS) * (2 * np.pi / _POINTS)
    size, cosine = np.abs(x)[..., None], np.cos(angle)
    if not order:
        out: Array = np.exp(size * (cosine - 1)).mean(-1)
        return out
    cosine = np.where(np.abs(cosine) < 1e-9, 0.0, np.abs(cosine))
    out = (cosine * np.exp(size * (cosine - 1)) * -np.expm1(-2 * size * cosine)).mean(-1) / 2
    return np.copysign(out, x)


def _ke(x: Array, order: int) -> Array:
    step = 1 / 32
    t = np.arange(0, 120, step)  # enough for x above 1e-50
    weight = np.where(t == 0, 0.5, 1.0) * step
    inner = np.exp(-x[..., None] * (np.cosh(t) - 1)) * np.cosh(order * t)
    out: Array = (inner * weight).sum(-1)
    return np.where(x > 0, out, np.where(x == 0, np.inf, np.nan))


def _y(x: Array, order: int) -> Array:
    log = np.log(x / 2) + _EULER
    total = np.zeros_like(x)
    for k in range(1, 60):
        term = 2 * _j(x, 2 * k) if order == 0 else _j(x, 2 * k + 1) - _j(x, 2 * k - 1)
        total += (-1) ** k / k * term
    main = log * _j(x, 0) if order == 0 else log * _j(x, 1) - _j(x, 0) / x
    out = 2 / np.pi * (main - total)
    return np.where(x > 0, out, np.where(x == 0, -np.inf, np.nan))


def _terms(x: Array, order: int) -> list[Array]:
    """a_k / x^k, a_k the product of 4 order^2 - (2i - 1)^2 over 8i, i from 1 to k."""
    terms = [np.ones_like(x)]
    for i in range(1, _TERMS):
        terms.append(terms[-1] * (4 * order**2 - (2 * i - 1) ** 2) / (8 * i * x))
    return terms


def _alternating(terms: list[Array]) -> Array:
    total: Array = np.sum([t * (-1.0) ** k for k, t in enumerate(terms)], 0)
    return total


def _far(function: Callable[[Array, int], Array], x: Array, order: int) -> Array:
    """Return the values of a function far from 0."""
    size = np.abs(x)
    terms = _terms(size, order)
    sign = np.sign(x) if order else 1.0
    if function is _ke:
        return np.where(x > 0, np.sqrt(np.pi / (2 * size)) * np.sum(terms, 0), np.nan)
    if function is _ie:
        ended: Array = sign * _alternating(terms) / np.sqrt(2 * np.pi * size)
        return ended
    even, odd = _alternating(terms[::2]), _alternating(terms[1::2])
    # Of x less pi/4 or 3 pi/4, whose rounding would count.
    cosine, sine = np.cos(size), np.sin(size)
    cosine, sine = (sine - cosine, -sine - cosine) if order else (cosine + sine, sine - cosine)
    scale = 1 / np.sqrt(np.pi * size)
    if function is _j:
        waves: Array = sign * scale * (even * cosine - odd * sine)
        return waves
    return np.where(x > 0, scale * (even * sine + odd * cosine), np.nan)


def _ends(function: Callable[[Array, int], Array], order: int) -> Callable[[Array], Array]:
    """Near 0 and far from it, with the limits at infinity, which are 0; K and Y are none below
    0."""
    def whole(x: Array) -> Array:
        limit = np.where(x < 0, np.nan, 0.0) if function in (_ke, _y) else 0.0
        near = np.abs(x) <= _NEAR
        far = _far(function, np.where(near | np.isinf(x), _NEAR, x), order)
        finite = np.where(near | np.isnan(x), function(np.where(near | np.isnan(x), x, 1.0), order),
                          far)
        return np.where(np.isinf(x), limit, finite)

    return _wide(whole)


def _scaled(function: Callable[[Array], Array], sign: int) -> Callable[[Array], Array]:
    return _wide(lambda x: np.exp(sign * (np.abs(x) if sign > 0 else x)) * function(x))


i0e, i1e = (_ends(_ie, n) for n in (0, 1))
i0, i1 = (_scaled(f, 1) for f in (i0e, i1e))
k0e, k1e = (_ends(_ke, n) for n in (0, 1))
k0, k1 = (_scaled(f, -1) for f in (k0e, k1e))
j0, j1 = (_ends(_j, n) for n in (0, 1))
y0, y1 = (_ends(_y, n) for n in (0, 1))
