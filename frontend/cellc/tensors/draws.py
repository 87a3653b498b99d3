"""Draws for whole parameters: Philox4x32-10 counted from a seed, as MindSpore's initializers draw.

The numbers follow from the seed and an element's position alone: blocks are drawn by all processors
in any order. Sources: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011; Box and
Muller, "A Note on the Generation of Random Normal Deviates", 1958; Wichura, "Algorithm AS 241: The
Percentage Points of the Normal Distribution", 1988.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.lazy import futures
from cellc_runtime.platform import usable_cpus

Array = np.ndarray[Any, Any]
Draw = Callable[[int, Array], None]  # Fills an array with draws of a seed
_BLOCK = 1 << 16
"""Elements of a block, a multiple of 4: what is drawn is scaled while it is in the cache."""
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_EDGE, _LAST = 0.425, 38.0


def new_seed() -> int:
    """A seed of numpy's global generator, which `set_seed` restarts."""
    return int(np.random.randint(1, 1 << 63, dtype=np.int64))


def words(seed: int, start: int, count: int) -> Array:
    """Words of a stream: uint32[count].

    Args:
        seed: the key; also the upper half of the counters.
        start: of the first word; a multiple of 4.
        count: how many.
    """
    numbers = np.arange(start // 4, start // 4 + -(-count // 4), dtype=np.uint64)
    low, high = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    x0, x1 = numbers & _LOW, numbers >> _HALF
    x2, x3 = (np.full(numbers.shape, half, np.uint64) for half in (low, high))
    for _ in range(10):
        first, second = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0 = second >> _HALF ^ x1 ^ np.uint64(low)
        x2 = first >> _HALF ^ x3 ^ np.uint64(high)
        x1, x3 = second & _LOW, first & _LOW
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], 1, dtype=np.uint32, casting="unsafe").ravel()[:count]


def fill_uniform(seed: int, arr: Array, low: float, high: float) -> None:
    """Fill an array from the uniform distribution on [low, high)."""

    def block(start: int, out: Array) -> None:
        part = words(seed, start, out.size) * (2.0**-32 * width)
        part += first
        out[...] = part

    first, width = float(np.float32(low)), float(np.float32(high) - np.float32(low))
    _fill(arr, block)


def fill_normal(seed: int, arr: Array, mean: float, sigma: float) -> None:
    """Fill an array from a normal distribution."""

    def block(start: int, out: Array) -> None:
        _standard_normal(words(seed, start, out.size + out.size % 2), out)
        out *= sigma
        if mean:
            out += mean

    _fill(arr, block)


def _standard_normal(drawn: Array, out: Array) -> None:
    """Box and Muller's transform of the lower 23 bits of pairs of words."""
    unit = (drawn & np.uint32(0x7FFFFF)).astype(np.float32)
    unit *= np.float32(2.0**-23)
    radius, angle = np.maximum(unit[0::2], np.float32(1e-7)), unit[1::2]
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle *= np.float32(2 * 3.1415926)  # the number that MindSpore has
    out[0::2] = np.cos(angle) * radius
    out[1::2] = (np.sin(angle) * radius)[: out.size // 2]


def fill_truncated(
    seed: int, arr: Array, mean: float, sigma: float, low: float, high: float
) -> None:
    """Fill an array from a normal distribution restricted to [low, high]."""
    if not low < high:
        raise ValueError(f"a truncated normal needs bounds a < b, but got {low} and {high}")
    if not sigma > 0:
        raise ValueError(f"a truncated normal needs a positive sigma, but got {sigma}")
    first, last = (low - mean) / sigma, (high - mean) / sigma
    side = -1.0 if first > 0 else 1.0  # in the upper tail by that of the lower, which is precise
    begin, end = normal_cdf(side * first), normal_cdf(side * last)

    def block(start: int, out: Array) -> None:
        part = words(seed, start, out.size) * 2.0**-32
        found = side * normal_quantile(begin + (end - begin) * part)
        out[...] = np.clip(mean + sigma * found, low, high)

    _fill(arr, block)


def normal_cdf(z: float) -> float:
    """The distribution function of the standard normal distribution."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def normal_quantile(p: Array) -> Array:
    """The inverse of `normal_cdf`, to float64's precision."""
    q = p - 0.5
    found: Array = q * _ratio(_EDGE * _EDGE - q * q, _MIDDLE)
    places = np.flatnonzero(np.abs(q) > _EDGE)
    rest = p[places]
    with np.errstate(divide="ignore"):
        tail = np.sqrt(-np.log(np.minimum(rest, 1 - rest)))
    far = tail > 5
    values = _ratio(np.where(far, 0.0, tail - 1.6), _NEAR)
    values[far] = _ratio(np.minimum(tail[far], _LAST) - 5, _FAR)  # (of 0 that of a tiny number)
    found[places] = np.copysign(values, q[places])
    return found


def _ratio(x: Array, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    top, bottom = (np.full(x.shape, c[0]) for c in coefficients)
    for above, below in zip(*(c[1:] for c in coefficients), strict=True):
        top *= x
        top += above
        bottom *= x
        bottom += below
    top /= bottom
    return top


# Of the highest power first.
_MIDDLE = (
    (2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
     4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
     1.3314166789178437745e+2, 3.3871328727963666080e+0),
    (5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4,
     2.1213794301586595867e+4, 5.3941960214247511077e+3, 6.8718700749205790830e+2,
     4.2313330701600911252e+1, 1.0))
_NEAR = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
     4.63033784615654529590e+0, 1.42343711074968357734e+0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
     2.05319162663775882187e+0, 1.0))
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
     5.46378491116411436990e+0, 6.65790464350110377720e+0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0))


def _fill(arr: Array, draw: Callable[[int, Array], None]) -> None:
    """Fill an array block by block, on all processors; what is drawn is float32. `draw`: given the
    first element of a block, and its elements."""
    direct = arr.flags.c_contiguous and arr.dtype == np.float32
    out = arr if direct else np.empty(arr.shape, np.float32)
    flat = out.reshape(-1)

    def work(start: int) -> None:
        draw(start, flat[start : start + _BLOCK])

    blocks = range(0, flat.size, _BLOCK)
    # (Few blocks need no thread, and asking the system for its processors takes 2 ms.)
    threads = min(usable_cpus()[0], len(blocks)) if len(blocks) > 4 else 1
    if threads > 1:
        with futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, blocks))
    else:
        for start in blocks:
            work(start)
    if not direct:
        arr[...] = out
