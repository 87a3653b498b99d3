"""Continuous distributions on an interval or above 0.

Source: the same names in `mindspore.nn.probability.distribution`.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import DType, float32, float64

from .... import ops
from ....ops.functional.zeta_functions import betainc
from ....tensors.tensor import Tensor
from ..base import Distribution
from ..parameters import held, known
from .formulas import at_value, divergence, draws, figure
from .rates import OfRate


class Uniform(Distribution):
    """The uniform distribution of an interval.

    Args:
        low, high: its ends, low < high.
        seed: of the draws; None and 0: the global generator.
        dtype: of the draws, floats.
        name: of the distribution.
    """

    dist_type = "Uniform"

    def __init__(self, low: Any = None, high: Any = None, seed: int | None = None,
                 dtype: DType = float32, name: str = "Uniform") -> None:
        self._keep(seed, dtype, name, low=low, high=high)
        first, last = self.default_parameters
        if first is not None and last is not None and not (known(first) < known(last)).all():
            raise ValueError("low must be less than high")

    low, high = held("_low_value", "The lower end."), held("_high_value", "The upper end.")

    _mean = figure(lambda self, low, high: 0.5 * (low + high))
    _var = figure(lambda self, low, high: ops.square(high - low) / 12.0)
    _entropy = figure(lambda self, low, high: ops.log(high - low))

    @at_value
    def _log_prob(self, v: Any, low: Any, high: Any) -> Tensor:
        inside = ops.logical_and(v >= low, v <= high)
        return ops.where(inside, -ops.log(high - low), -math.inf)

    _cdf = at_value(lambda self, v, low, high: ops.clamp((v - low) / (high - low), 0.0, 1.0))
    _survival_function = at_value(
        lambda self, v, low, high: ops.clamp((high - v) / (high - low), 0.0, 1.0))

    @divergence
    def _kl_loss(self, low: Any, high: Any, low_b: Any, high_b: Any) -> Tensor:
        within = ops.logical_and(low_b <= low, high <= high_b)
        return ops.where(within, ops.log(high_b - low_b) - ops.log(high - low), math.inf)

    _sample = draws(lambda self, dims, low, high: low + self._uniform(dims) * (high - low))


class Exponential(OfRate):
    """The exponential distribution.

    Args:
        rate: the inverse of the mean, above 0.
        seed, dtype, name: as for Uniform.
    """

    dist_type = "Exponential"

    _mean = figure(lambda self, rate: 1.0 / rate)
    _mode = figure(lambda self, rate: ops.zeros_like(rate))
    _sd = _mean
    _entropy = figure(lambda self, rate: 1.0 - ops.log(rate))
    _log_prob = at_value(
        lambda self, v, rate: ops.where(v < 0, -math.inf, ops.log(rate) - rate * v))
    _cdf = at_value(lambda self, v, rate: -ops.expm1(ops.where(v < 0, 0.0, -rate * v)))
    _log_survival = at_value(lambda self, v, rate: ops.where(v < 0, 0.0, -rate * v))
    _kl_loss = divergence(
        lambda self, rate, rate_b: ops.log(rate) - ops.log(rate_b) + rate_b / rate - 1.0)
    _sample = draws(lambda self, dims, rate: -ops.log1p(-self._uniform(dims)) / rate)


class Gamma(Distribution):
    """The gamma distribution.

    Args:
        concentration: the shape parameter, above 0.
        rate: the inverse of the scale, above 0.
        seed, dtype, name: as for Uniform.
    """

    dist_type = "Gamma"
    _above_zero = {"concentration": "concentration", "rate": "rate"}

    def __init__(self, concentration: Any = None, rate: Any = None, seed: int | None = None,
                 dtype: DType = float32, name: str = "Gamma") -> None:
        self._keep(seed, dtype, name, concentration=concentration, rate=rate)

    concentration = held("_concentration_value", "The shape parameter.")
    rate = held("_rate_value", "The inverse of the scale.")

    _mean = figure(lambda self, a, r: a / r)
    _var = figure(lambda self, a, r: a / ops.square(r))
    _mode = figure(lambda self, a, r: ops.where(a > 1, (a - 1.0) / r, math.nan))
    _entropy = figure(lambda self, a, r: (
        a - ops.log(r) + ops.lgamma(a) + (1.0 - a) * ops.digamma(a)))

    @at_value
    def _log_prob(self, v: Any, a: Any, r: Any) -> Tensor:
        inside = ops.maximum(v, 0.0)
        density = ops.xlogy(a - 1.0, inside) + a * ops.log(r) - r * inside - ops.lgamma(a)
        return ops.where(v < 0, -math.inf, density)

    @at_value
    def _cdf(self, v: Any, a: Any, r: Any) -> Tensor:
        x = ops.maximum(v * r, 0.0)
        return ops.igamma(ops.broadcast_to(a, x.shape), x)

    @at_value
    def _survival_function(self, v: Any, a: Any, r: Any) -> Tensor:
        x = ops.maximum(v * r, 0.0)
        return ops.igammac(ops.broadcast_to(a, x.shape), x)

    @divergence
    def _kl_loss(self, a: Any, rate: Any, b: Any, rate_b: Any) -> Tensor:
        gammas = (a - b) * ops.digamma(a) + ops.lgamma(b) - ops.lgamma(a)
        return gammas + b * (ops.log(rate) - ops.log(rate_b)) + a * (rate_b / rate - 1.0)

    _sample = draws(lambda self, dims, a, r: ops.gamma(dims, a, r, self._seed or None))


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function, in float64 inside, as large terms cancel."""
    x, y = ops.cast(a, float64), ops.cast(b, float64)
    return ops.cast(ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y), a.dtype)


class Beta(Distribution):
    """The beta distribution.

    Args:
        concentration1, concentration0: alpha and beta, above 0.
        seed, dtype, name: as for Uniform.
    """

    dist_type = "Beta"
    _above_zero = {"concentration1": "concentration1", "concentration0": "concentration0"}

    def __init__(self, concentration1: Any = None, concentration0: Any = None,
                 seed: int | None = None, dtype: DType = float32, name: str = "Beta") -> None:
        self._keep(seed, dtype, name, concentration1=concentration1, concentration0=concentration0)

    concentration1 = held("_concentration1_value", "Alpha.")
    concentration0 = held("_concentration0_value", "Beta.")

    _mean = figure(lambda self, a, b: a / (a + b))

    @figure
    def _var(self, a: Any, b: Any) -> Tensor:
        total = a + b
        return a * b / (total * total * (total + 1.0))

    @figure
    def _mode(self, a: Any, b: Any) -> Tensor:
        peaked = ops.logical_and(a > 1, b > 1)
        below = ops.where(peaked, a + b - 2.0, 1.0)
        return ops.where(peaked, (a - 1.0) / below, math.nan)

    @figure
    def _entropy(self, a: Any, b: Any) -> Tensor:
        parts = (a - 1.0) * ops.digamma(a) + (b - 1.0) * ops.digamma(b)
        return _log_beta(a, b) - parts + (a + b - 2.0) * ops.digamma(a + b)

    @at_value
    def _log_prob(self, v: Any, a: Any, b: Any) -> Tensor:
        x = ops.clamp(v, 0.0, 1.0)
        density = ops.xlogy(a - 1.0, x) + ops.xlogy(b - 1.0, 1.0 - x) - _log_beta(a, b)
        return ops.where(ops.logical_and(v >= 0, v <= 1), density, -math.inf)

    @at_value
    def _cdf(self, v: Any, a: Any, b: Any) -> Tensor:
        x = ops.clamp(v, 0.0, 1.0) + ops.zeros_like(a)
        return betainc(ops.broadcast_to(a, x.shape), ops.broadcast_to(b, x.shape), x)

    @divergence
    def _kl_loss(self, a: Any, b: Any, c: Any, d: Any) -> Tensor:
        parts = (a - c) * ops.digamma(a) + (b - d) * ops.digamma(b)
        return _log_beta(c, d) - _log_beta(a, b) + parts - (a + b - c - d) * ops.digamma(a + b)

    @draws
    def _sample(self, dims: Any, a: Any, b: Any) -> Tensor:
        # In float64, as both draws would vanish in float32 for small parameters.
        one = ops.ones_like(ops.cast(a, float64))
        x, y = (ops.gamma(dims, ops.cast(c, float64), one, self._seed or None) for c in (a, b))
        return x / (x + y)
