"""Where `make_accuracy.py` measures, and how far from the exact number a result is.

Points of one operand: all 65,536 numbers of a 16-bit type; of float32 and float64 bit patterns at
equal steps (each exponent of each sign alike), ordinary ranges, and neighbours of the numbers at
which functions have zeros, kinks and poles or at which implementations change their formula.
Pairs: all strata of exponents against one another, equal and nearly equal operands, integral
exponents, and powers that nearly overflow. Everything follows from fixed seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Format:
    """A type of floats: digits behind the point, least and largest exponents, points measured."""

    kind: Any
    word: Any
    digits: int
    low: int
    high: int
    points: int


FORMATS = {
    "float16": Format(np.float16, np.uint16, 10, -14, 15, 1 << 16),
    "bfloat16": Format(ml_dtypes.bfloat16, np.uint16, 7, -126, 127, 1 << 16),
    "float32": Format(np.float32, np.uint32, 23, -126, 127, 1 << 20),
    "float64": Format(np.float64, np.uint64, 52, -1022, 1023, 1 << 17),
}
_MARKS = (
    0.25, 0.47, 0.5, 0.6, 0.625, 0.72, 0.75, 0.88, 1, 1.4, 1.5, 2, 2.25, 2.5, 3, 3.75, 4, 5.5, 6,
    7.5, 8, 9, 10, 16, 17.3, 18, 20, 22, 32, 44, 64, 88, 88.72, 100, 103.9, 104, 110, 128, 150,
    709.78, 745.1, 1024, 1 / 3, math.log(2), math.log(2) / 2, math.pi, math.pi / 2, math.pi / 4,
    3 * math.pi / 4, 3 * math.pi / 2, 2.0**-12, 2.0**-23, 2.0**-24, 2.0**-27, 2.0**-53, 2.0**17,
    2.0**28, 2.0**30, 1e5, 1e10,
)
_AROUND = 32


def _neighbours(f: Format) -> Array:
    """Numbers next to the marks, of both signs; zero, the smallest and the largest numbers."""
    steps = np.arange(-_AROUND, _AROUND)
    with np.errstate(over="ignore"):
        marks = np.array([m for m in _MARKS if m < 2.0**f.high]).astype(f.kind)
    words = marks.view(f.word).astype(np.int64)
    near = (words[:, None] + steps).ravel()
    least = np.array([2.0**f.low]).astype(f.kind).view(f.word).astype(np.int64)
    top = np.array([math.inf]).astype(f.kind).view(f.word).astype(np.int64)
    edges = [np.arange(_AROUND), least + steps, top - 1 - np.arange(_AROUND)]
    positive = np.concatenate([near, *edges]).astype(f.word).view(f.kind)
    return np.concatenate([positive, -positive])


def patterns(f: Format, count: int, rng: np.random.Generator) -> Array:
    """One bit pattern at a random place of each of `count` equal steps."""
    step = 1 << (8 * np.dtype(f.word).itemsize - count.bit_length() + 1)
    starts = np.arange(count, dtype=f.word) * f.word(step)
    return (starts + rng.integers(0, step, count, dtype=f.word)).view(f.kind)


def unary(dtype: str) -> Array:
    """Finite numbers at which functions of one operand are measured."""
    f = FORMATS[dtype]
    if f.points == 1 << 16:
        return _finite(np.arange(f.points, dtype=np.uint16).view(f.kind))
    rng, n = np.random.default_rng(17), f.points // 8
    parts = [
        patterns(f, f.points, rng), rng.uniform(-1, 1, n), rng.uniform(-8, 8, n),
        rng.uniform(-100, 100, n), rng.choice([-1.0, 1.0], n) * 2 ** rng.uniform(-30, 8, n),
        _neighbours(f),
    ]
    return _finite(np.concatenate([p.astype(f.kind) for p in parts]))


def _finite(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # ml_dtypes warns of signalling NaNs
        return x[np.isfinite(x)]


def binary(dtype: str) -> tuple[Array, Array]:
    """Pairs of finite numbers."""
    f = FORMATS[dtype]
    rng, n = np.random.default_rng(18), max(f.points // 4, 1 << 15)
    with np.errstate(all="ignore"):
        a, b = (_spread(f, n, rng) for _ in range(2))
        near = _spread(f, n, rng)
        beside = near.astype(np.float64) * (1 + rng.standard_normal(n) * 2.0 ** -rng.integers(
            0, f.digits + 2, n))
        base = 2 ** rng.uniform(f.low, f.high, n)
        power = rng.uniform(f.low - f.digits, f.high + 1, n) / np.log2(base)
        whole = rng.integers(-40, 40, n)
        close = 1 + rng.standard_normal(n) * 2.0 ** -rng.integers(1, f.digits, n)
        steep = rng.standard_normal(n) * 2.0 ** rng.integers(0, f.digits + 6, n)
        usual = [rng.uniform(-8, 8, n) for _ in range(4)]
        pairs = [(a, b), (near, beside), (base, power), (usual[0], whole), (close, steep),
                 (usual[1], usual[2]), (np.abs(usual[1]), usual[3]), (near, near)]
        x, y = (np.concatenate([p[i].astype(f.kind) for p in pairs]) for i in range(2))
        both = np.isfinite(x) & np.isfinite(y)
    return x[both], y[both]


def _spread(f: Format, n: int, rng: np.random.Generator) -> Array:
    """Bit patterns of all strata in random order."""
    x = patterns(f, 1 << (n - 1).bit_length(), rng)
    return rng.permutation(x)[:n]


def widened(x: Array) -> Array:
    """Numbers of any type as long doubles."""
    if x.dtype == ml_dtypes.bfloat16:
        x = x.astype(np.float32)
    return x.astype(np.longdouble)


def errors(got: Array, exact: Array, dtype: str) -> Array:
    """|got - exact| in ulps of the exact number; NaN for a NaN that should be a number, 0 where
    nothing is expected (the exact value is NaN: outside of the domain, or at a kink) or infinite.

    A result that overflows is compared with the first number that is too large.
    """
    f = FORMATS[dtype]
    with np.errstate(all="ignore"):
        top = np.longdouble(2.0) ** (f.high + 1)
        want = np.clip(exact, -top, top)
        result = np.clip(widened(got), -top, top)
        exponent = np.clip(np.frexp(want)[1] - 1, f.low, f.high)
        error = np.abs(result - want) / np.ldexp(np.longdouble(1), exponent - f.digits)
        # What rounds to infinity is one only beyond half a step behind the largest number.
        error = np.where(np.isnan(exact) | np.isinf(exact), 0, error)
    return error.astype(np.float64)


def worst(got: Array, exact: Array, dtype: str, *operands: Array) -> tuple[float, Sequence[float]]:
    """The largest error and where it is; NaN if a NaN came where a number should be."""
    error = errors(got, exact, dtype)
    missing = np.isnan(error)
    at = int(missing.argmax() if missing.any() else error.argmax())
    return float(error[at]), [float(x[at]) for x in operands]
