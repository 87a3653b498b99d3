"""Draws from gamma, Poisson and other distributions, by rejection in a fixed number of rounds.

Each round takes a key of the generator, so both modes draw the same numbers. The number of rounds
makes an element without an accepted draw less likely than 1e-12; it keeps its last candidate.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, bool_, float32, float64, int64

from ...core.dispatch import apply, apply_one, scan
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import Ints, boolean, dtype_of, integer, shape_of, tensor
from ..operands import operands_of
from . import arith, creation, draws, joining, shapes

Seed = draws.Seed
_GAMMA_ROUNDS = 12
_FEW, _MANY = 48, 32  # Rounds for Poisson means below and from 10
_BOUND = 10.0


def _keys(count: int, seed: Seed, what: str) -> Tensor:
    """As many keys of the generator, one to a row."""
    return joining.stack([draws.drawing_key(seed, what) for _ in range(count)], 0)


def _uniform(key: Tensor, like: Tensor) -> Tensor:
    """Uniform numbers in (0, 1]."""
    drawn: Tensor = apply("random_uniform", key, shape=like.shape, dtype=like.dtype)
    return 1.0 - drawn


def _log(x: Tensor) -> Tensor:
    return apply_one("log", x)


# --- gamma ----------------------------------------------------------------------------------------


def _gamma_round(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """A candidate by Marsaglia and Tsang (2000), kept where none was accepted before."""
    (value, done), (first, second), (d,) = carried, xs, captures
    x: Tensor = apply("random_normal", first, shape=d.shape, dtype=d.dtype)
    v = x / arith.sqrt(arith.mul(d, 9.0)) + 1.0
    cube = v * (v * v)
    inside = v > 0.0
    log = _log(arith.where(inside, cube, 1.0))
    bound = x * x * 0.5 + arith.mul(d, 1.0 - cube + log)
    accepted = arith.logical_and(inside, _log(_uniform(second, d)) < bound)
    taken = arith.logical_and(inside, arith.logical_not(done))
    return [arith.where(taken, arith.mul(d, cube), value), arith.logical_or(done, accepted)], []


def _standard_gamma(alpha: Tensor, seed: Seed, what: str) -> Tensor:
    """Gamma numbers of scale 1; below 1, alpha is raised by one and a power of a uniform taken."""
    a = alpha if alpha.dtype is float64 else cast_to(alpha, float32)
    small = a < 1.0
    d = arith.where(small, a + 1.0, a) - 1 / 3
    keys = [_keys(_GAMMA_ROUNDS, seed, what) for _ in range(2)]
    start = [d, creation.full(d.shape, False, dtype=bool_)]
    (value, _), _ = scan((what, "gamma"), start, keys, [d], _GAMMA_ROUNDS, _gamma_round)
    power: Tensor = apply("exp", _log(_uniform(draws.drawing_key(seed, what), d)) /
                          arith.where(small, a, 1.0))
    drawn = arith.where(a > 0.0, arith.where(small, arith.mul(value, power), value), math.nan)
    return apply_one("stop_gradient", cast_to(drawn, alpha.dtype))


def _parameter(x: Any, what: str, name: str) -> Tensor:
    (t,) = operands_of(what, f"{name} float", x)
    return t


def gamma(shape: Any, alpha: Tensor, beta: Tensor, seed: Seed = None) -> Tensor:
    """Gamma numbers.

    Args:
        shape: broadcast with the shapes of the parameters.
        alpha: the shape parameter, above 0 (NaN otherwise); floats.
        beta: the inverse scale, above 0; floats.
        seed: None: the global generator.
    """
    what = "gamma"
    a, b = _parameter(alpha, what, "alpha"), _parameter(beta, what, "beta")
    dims = broadcast_all(shape_of(shape, what), a.shape, b.shape)
    return _standard_gamma(shapes.broadcast_to(a, dims), seed, what) / b


def _repeat(shape: Any, x: Tensor, what: str) -> Tensor:
    """A parameter for draws of `shape` for each of its elements: (*shape, *x.shape)."""
    return shapes.broadcast_to(x, (*shape_of(shape, what), *x.shape))


def random_gamma(shape: Any, alpha: Tensor, seed: Seed = None) -> Tensor:
    """Gamma numbers of scale 1: `shape` of them for each element of `alpha`.

    Args:
        shape: a tuple, or a Tensor of known elements.
        alpha: above 0 (NaN otherwise); floats.

    Returns:
        (*shape, *alpha.shape) of the type of `alpha`.
    """
    what = "random_gamma"
    return _standard_gamma(_repeat(shape, _parameter(alpha, what, "alpha"), what), seed, what)


# --- Poisson --------------------------------------------------------------------------------------


def _arrival(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The next arrival of a process of rate 1, counted while it comes before the mean."""
    (time, count), (key,), (mean,) = carried, xs, captures
    waited: Tensor = apply("random_exponential", key, shape=mean.shape, dtype=mean.dtype)
    time = arith.add(time, waited)
    return [time, arith.add(count, arith.where(arith.le(time, mean), 1.0, 0.0))], []


def _poisson_round(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """A candidate by transformed rejection (Hoermann, 1993: PTRS), for means from 10."""
    (value, done), (first, second), (mean,) = carried, xs, captures
    b = arith.sqrt(mean) * 2.53 + 0.931
    a = b * 0.02483 + -0.059
    u = _uniform(first, mean) - 0.5
    v = _uniform(second, mean)
    us = 0.5 - arith.abs(u)
    k = arith.floor(arith.add((a * 2.0 / arith.maximum(us, 1e-30) + b) * u, mean) + 0.43)
    valid = arith.logical_and(k >= 0.0, arith.logical_or(us >= 0.013, v <= us))
    inverse = 1.1328 / (b - 3.4) + 1.1239
    spread = a / arith.maximum(us * us, 1e-30) + b
    k_safe = arith.maximum(k, 0.0)
    left = _log(v * inverse / spread)
    right = arith.sub(k_safe * _log(mean), mean) - apply("lgamma", k_safe + 1.0)
    accepted = arith.logical_and(valid, left <= right)
    taken = arith.logical_and(k >= 0.0, arith.logical_not(done))
    return [arith.where(taken, k, value), arith.logical_or(done, accepted)], []


def _poisson(mean: Tensor, seed: Seed, what: str) -> Tensor:
    """Poisson numbers in float64; NaN of a mean below 0."""
    x = cast_to(mean, float64)
    few = arith.lt(x, _BOUND)
    none = creation.zeros(x.shape, float64)
    (_, count), _ = scan((what, "few"), [none, none], [_keys(_FEW, seed, what)],
                         [arith.where(few, x, 0.0)], _FEW, _arrival)
    large = arith.where(few, _BOUND, x)
    (many,
     _), _ = scan((what, "many"), [arith.floor(large), creation.full(x.shape, False, dtype=bool_)],
                  [_keys(_MANY, seed, what) for _ in range(2)], [large], _MANY,
                  _poisson_round)
    drawn = arith.where(x >= 0.0, arith.where(few, count, many), math.nan)
    return apply_one("stop_gradient", drawn)


def poisson(shape: Any, mean: Tensor, seed: Seed = None) -> Tensor:
    """Poisson numbers, float32.

    Args:
        shape: broadcast with the shape of `mean`.
        mean: above 0; floats.
        seed: None: the global generator.
    """
    return cast_to(counts_over(shape, mean, seed, "poisson"), float32)


def counts_over(shape: Any, mean: Tensor, seed: Seed, what: str) -> Tensor:
    """Poisson numbers of a shape that broadcasts with that of their means, in float64."""
    mu = _parameter(mean, what, "mean")
    dims = broadcast_all(shape_of(shape, what), mu.shape)
    return _poisson(shapes.broadcast_to(mu, dims), seed, what)


def random_poisson(
    shape: Any, rate: Tensor, seed: Seed = None, dtype: DType = float32
) -> Tensor:
    """Poisson numbers: `shape` of them for each element of `rate`.

    Args:
        shape: a tuple, or a Tensor of known elements.
        rate: the means, not below 0; numbers.
        dtype: of the result; a float type, int32 or int64.

    Returns:
        (*shape, *rate.shape).
    """
    what = "random_poisson"
    mean, to = tensor(rate, what, "rate"), dtype_of(dtype, what)
    return cast_to(_poisson(_repeat(shape, mean, what), seed, what), to)


# --- others ---------------------------------------------------------------------------------------


def key_of(seed: Any, offset: Any, what: str) -> Tensor | None:
    """The key of a seed and an offset; None (the global generator) where they are -1 and 0."""
    first, second = integer(seed, what, "seed"), integer(offset, what, "offset")
    if first == -1 and second == 0:
        return None
    return tensor_of(np.array([first % 2**64, second % 2**64], np.uint64))


def multinomial_with_replacement(
    x: Tensor, seed: Any, offset: Any, numsamples: int, replacement: bool = False
) -> Tensor:
    """Positions drawn with the weights in each row of (..., n): int64 (..., numsamples).

    Args:
        seed, offset: of the draw; -1 and 0: the global generator.
        replacement: a position may be drawn more than once.
    """
    what = "multinomial_with_replacement"
    key, again = key_of(seed, offset, what), boolean(replacement, what, "replacement")
    return cast_to(draws.multinomial(x, numsamples, again, key), int64)


def truncated_between(
    shape: Ints, mean: Tensor, stdevs: Tensor, low: Tensor, high: Tensor, seed: Seed
) -> Tensor:
    """Normal numbers between bounds, by the inverse of the distribution function in float64."""
    what = "ParameterizedTruncatedNormal"
    centre, spread, a, b = (
        cast_to(shapes.reshape(t, (-1,) + (1,) * (len(shape) - 1)) if t.ndim else t, float64)
        for t in (mean, stdevs, low, high))

    def cumulative(x: Tensor) -> Tensor:
        return apply_one("erfc", arith.sub(x, centre) / spread * -math.sqrt(0.5)) * 0.5

    first, last = cumulative(a), cumulative(b)
    u: Tensor = apply("random_uniform", draws.drawing_key(seed, what), shape=shape, dtype=float64)
    p = arith.add(first, u * arith.sub(last, first))
    z: Tensor = apply("erfinv", arith.clamp(p * 2.0 - 1.0, -1 + 1e-16, 1 - 1e-16))
    out = centre + z * math.sqrt(2.0) * spread
    return cast_to(arith.minimum(arith.maximum(out, a), b), mean.dtype)
