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
    out: Array = np.cos(order * angle - x[..., None] * np.sin(angle)).mean(-1)
    return out


def _ie(x: Array, order: int) -> Array:
    angle = np.arange(_POINTS) * (2 * np.pi / _POINTS)
    size = np.abs(x)[..., None]
    out: Array = (np.exp(size * (np.cos(angle) - 1)) * np.cos(order * angle)).mean(-1)
    return np.where(x < 0, -out, out) if order else out


def _ke(x: Array, order: int) -> Array:
    step = 1 / 32
    t = np.arange(0, 9, step)
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


i0e, i1e = (_wide(lambda x, n=n: _ie(x, n)) for n in (0, 1))
i0, i1 = (_wide(lambda x, n=n: np.exp(np.abs(x)) * _ie(x, n)) for n in (0, 1))
k0e, k1e = (_wide(lambda x, n=n: _ke(x, n)) for n in (0, 1))
k0, k1 = (_wide(lambda x, n=n: np.exp(-x) * _ke(x, n)) for n in (0, 1))
j0, j1 = (_wide(lambda x, n=n: _j(x, n)) for n in (0, 1))
y0, y1 = (_wide(lambda x, n=n: _y(x, n)) for n in (0, 1))
