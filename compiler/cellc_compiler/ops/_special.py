"""Special functions numpy has not, for reference evaluation only (float64, elementwise)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from cellc_runtime.dtypes import Array
from cellc_runtime.lazy import statistics


def _vector(f: Callable[[float], float]) -> Callable[[Array], Array]:
    def apply(x: Array) -> Array:
        x = np.asarray(x)
        flat = [f(float(v)) for v in x.ravel()]
        return np.array(flat, np.float64).reshape(x.shape).astype(x.dtype)

    return apply


def _zeta_less_1(k: int) -> float:
    """The sum of i^-k from i = 2 on: the first ones, and the rest by Euler and Maclaurin."""
    n = 100.0
    rest = n**(1 - k) / (k - 1) + n**-k / 2 + k * n**(-k - 1) / 12 - (
        k * (k + 1) * (k + 2) * n**(-k - 3) / 720)
    return math.fsum([*(float(i)**-k for i in range(2, 100)), rest])


@cache
def _lgamma_at_2() -> tuple[float, ...]:
    """Factors of the powers of x - 2, for |x - 2| <= 3/4 (Abramowitz & Stegun, 6.1.33)."""
    euler = 0.5772156649015329
    return 1 - euler, *((-1)**k * _zeta_less_1(k) / k for k in range(2, 45))


def _lgamma(x: float) -> float:
    """Python's own is a thousand units off next to the zeros at 1 and 2."""
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.inf
    if not 0.5 < x < 2.75:
        return math.lgamma(x)
    z = x - (2 if x > 1.25 else 1)
    series = math.fsum(c * z**k for k, c in enumerate(_lgamma_at_2(), 1))
    return series if x > 1.25 else series - math.log1p(z)


def _erfinv(y: float) -> float:
    """The normal quantile (Wichura, AS 241), then two Newton steps on erf or erfc."""
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    if y == 0:
        return y
    a = abs(y)
    if a > 1e-3:
        x = -statistics.NormalDist().inv_cdf((1 - a) / 2) / math.sqrt(2)  # (1 - a is exact)
    else:
        x = a * math.sqrt(math.pi) / 2
    for _ in range(3):
        miss = math.erf(x) - a if a < 0.5 else (1 - a) - math.erfc(x)
        x -= miss / (2 / math.sqrt(math.pi) * math.exp(-x * x))
    return math.copysign(x, y)


def _polygamma_tail(x: float, order: int) -> tuple[float, float]:
    """Shift x above 20 by the recurrence; the shifted x and what the steps added."""
    added = 0.0
    while x < 20:
        added += -1 / x if order == 0 else 1 / (x * x)
        x += 1
    return x, added


def _digamma(x: float) -> float:
    if x == math.inf or math.isnan(x):
        return x
    if x == -math.inf:
        return math.nan
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0:
        if x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * (x - math.floor(x)))
    x, added = _polygamma_tail(x, 0)
    r = 1 / (x * x)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))
    return added + math.log(x) - 0.5 / x - series


def _trigamma(x: float) -> float:
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == math.inf:
        return 0.0
    if x <= 0:
        if x == math.floor(x):
            return math.inf
        s = math.sin(math.pi * (x - round(x)))
        return math.pi**2 / (s * s) - _trigamma(1 - x)
    x, added = _polygamma_tail(x, 1)
    r = 1 / (x * x)
    series = (1 / 6 - r * (1 / 30 - r * (1 / 42 - r * (1 / 30 - r * 5 / 66)))) * r / x
    return added + 1 / x + 0.5 * r + series


erf = _vector(math.erf)
erfc = _vector(math.erfc)
lgamma = _vector(_lgamma)
erfinv = _vector(_erfinv)
digamma = _vector(_digamma)
trigamma = _vector(_trigamma)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
