"""Functions of 16-bit floats, in float32 arithmetic and without divisions: what is rounded to 11 or
8 bits needs no more.

`exp` is 2^k times a polynomial of the reduced argument. `tanh` and `erf` are odd: x times a
polynomial in x^2, which goes to where they are 1 in the format. `sigmoid` is 1/(1 + e) or e/(1 + e)
with e = e^-|x|; the reciprocal is a polynomial in e and a step of Newton's. All machines do the
same operations. Coefficients by Remez exchange (`tests/codegen/minimax.py`).

Largest errors of the rounded results over all numbers, in ulp (`tests/codegen/test_halves.py`):

               exp     sigmoid   tanh    erf
    float16    0.504    0.506     0.517   0.515
    bfloat16   0.500    0.500     0.526   0.501
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

from .exp import clamp, power_of_two, scale
from .lanes import X, poly

# 2^r on |r| <= 1/2: 2^-18.5. 1/(1 + e) on 0 <= e <= 1: 2^-9.1, and 2^-18.3 after a step.
_EXP2 = (0.9999992624244328, 0.6931218154336336, 0.24024744777906318, 0.05591786901313422,
         0.009570095904281602)
_RECIPROCAL = (0.9982668977469671, -0.9428076256499134, 0.6655112651646448, -0.2218370883882149)
# f(x)/x in t = 2 (x/limit)^2 - 1, up to the limit. tanh: 2^-16.5, of bfloat16 2^-12.9; erf: 2^-17.
_TANH_LIMIT, _ERF_LIMIT = 4.7, 2.75
_TANH = (0.3001189543760464, -0.14748720893326617, 0.10589238494538604, -0.08201375505086314,
         0.07743490713893034, -0.0740048752860894, -0.05818183969861719, 0.11720406016072189,
         0.5142663009223516, -0.6523418929794205, -1.2301404049236075, 1.4441021454251521,
         1.813255617599938, -1.9543882533890236, -1.364338577284548, 1.3850057479782367,
         0.4480523067213223, -0.4297068691767056)
_TANH_BFLOAT16 = (0.3001531124436945, -0.14767342062938815, 0.10286048731682589,
                  -0.07544116228893329, 0.11844583878173727, -0.1355047384961369,
                  -0.23715466623958534, 0.32771727368918163, 0.7264215816625167,
                  -0.8167328468475628, -0.791463932731754, 0.8252557675647639,
                  0.38702376461666704, -0.37120408360328533)
_ERF = (0.511193969105527, -0.24270184343239964, 0.1577542082302362, -0.10129117270766613,
        0.0592493925997992, -0.029626135307138455, 0.014641758923629214,
        -0.008764882938584179, 0.0031472391824505495)
_LOG2_E = 1.4426950408889634
_RANGE = {dtypes.float16: (-18.0, 12.0), dtypes.bfloat16: (-94.0, 89.0)}
"""Below it e^x is rounded to 0, above it to infinity."""
_FAR = 64


def _parts(x: X) -> tuple[X, X]:
    """e^x = y 2^k: y, and the bits of k as a float with an offset that a shift drops."""
    t = x.fma(_LOG2_E, x.fmt.magic)
    return poly(x.fma(_LOG2_E, -(t - x.fmt.magic)), _EXP2), t.bits()


def _small_power(x: X, dtype: DType) -> X:
    """e^x for x in the range and not above 0 by much: 2^k, or 2^(k + 64), is a normal float32."""
    y, k = _parts(x)
    if dtype is dtypes.float16:
        return y * power_of_two(k, x)
    return y * power_of_two(k, x, _FAR) * 2.0**-_FAR


def exp(x: X, dtype: DType) -> X:
    """e^x."""
    low, high = _RANGE[dtype]
    b = clamp(x, low, high)
    if dtype is dtypes.float16:
        return _small_power(b, dtype)
    # Never 0 by underflow, which costs some CPUs a hundred cycles.
    return x.lt(low).where(0.0, scale(*_parts(b)))


def sigmoid(x: X, dtype: DType) -> X:
    """1/(1 + e^-x)."""
    a, limit = x.abs(), -_RANGE[dtype][0]
    far = a.gt(limit)
    e = _small_power(-far.where(limit, a), dtype)
    if dtype is not dtypes.float16:
        e = far.where(0.0, e)
    r = poly(e, _RECIPROCAL)
    r = r.fma((-r).fma(1.0 + e, 1.0), r)
    return x.lt(0.0).where(e, 1.0) * r


def _odd(x: X, limit: float, coefficients: tuple[float, ...]) -> X:
    b = clamp(x, -limit, limit)
    t = (b * (2.0 / limit**2)).fma(b, -1.0)
    return b * poly(t, coefficients)


def tanh(x: X, dtype: DType) -> X:
    """Hyperbolic tangent."""
    return _odd(x, _TANH_LIMIT, _TANH if dtype is dtypes.float16 else _TANH_BFLOAT16)


def erf(x: X, dtype: DType) -> X:
    """Error function."""
    return _odd(x, _ERF_LIMIT, _ERF)


SHORT: dict[str, Callable[[X, DType], X]] = {
    "exp": exp, "sigmoid": sigmoid, "tanh": tanh, "erf": erf}
"""By name: of float32 values that a 16-bit type holds, to be rounded to it."""
