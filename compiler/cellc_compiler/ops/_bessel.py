"""Bessel functions by integrals, for reference evaluation only (float64, elementwise).

The trapezoidal rule converges geometrically for these (Trefethen & Weideman, 2014). Y0 comes from
Neumann's series over J (Abramowitz & Stegun, 9.1.89), Y1 is minus its derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_EULER = 0.5772156649015329
_POINTS = 256
"""Of the rule: J of orders below 100 is exact to rounding for arguments up to about 100."""


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


def _ends(function: Callable[[Array, int], Array], order: int) -> Callable[[Array], Array]:
    """With the limits at infinity, which are 0; K and Y are none below 0."""
    def whole(x: Array) -> Array:
        limit = np.where(x < 0, np.nan, 0.0) if function in (_ke, _y) else 0.0
        return np.where(np.isinf(x), limit, function(np.where(np.isinf(x), 1.0, x), order))

    return _wide(whole)


def _scaled(function: Callable[[Array], Array], sign: int) -> Callable[[Array], Array]:
    return _wide(lambda x: np.exp(sign * (np.abs(x) if sign > 0 else x)) * function(x))


i0e, i1e = (_ends(_ie, n) for n in (0, 1))
i0, i1 = (_scaled(f, 1) for f in (i0e, i1e))
k0e, k1e = (_ends(_ke, n) for n in (0, 1))
k0, k1 = (_scaled(f, -1) for f in (k0e, k1e))
j0, j1 = (_ends(_j, n) for n in (0, 1))
y0, y1 = (_ends(_y, n) for n in (0, 1))
