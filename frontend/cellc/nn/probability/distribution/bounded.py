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

    def _mean(self, low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        return 0.5 * (low + high)

    def _var(self, low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        return ops.square(high - low) / 12.0

    def _entropy(self, low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        return ops.log(high - low)

    def _log_prob(self, value: Tensor, low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        v = self._check_value(value)
        inside = ops.logical_and(v >= low, v <= high)
        return ops.where(inside, -ops.log(high - low), -math.inf)

    def _cdf(self, value: Tensor, low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        return ops.clamp((self._check_value(value) - low) / (high - low), 0.0, 1.0)

    def _survival_function(self, value: Tensor, low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        return ops.clamp((high - self._check_value(value)) / (high - low), 0.0, 1.0)

    def _kl_loss(self, dist: str, low_b: Any, high_b: Any, low: Any = None, high: Any = None
                 ) -> Tensor:
        low_b, high_b = self._other(dist, low_b, high_b)
        low, high = self._check_param_type(low, high)
        within = ops.logical_and(low_b <= low, high <= high_b)
        return ops.where(within, ops.log(high_b - low_b) - ops.log(high - low), math.inf)

    def _sample(self, shape: Any = (), low: Any = None, high: Any = None) -> Tensor:
        low, high = self._check_param_type(low, high)
        u = self._uniform(self._dims(shape, low.shape))
        return ops.cast(low + u * (high - low), self._dtype)


class Exponential(OfRate):
    """The exponential distribution.

    Args:
        rate: the inverse of the mean, above 0.
        seed, dtype, name: as for Uniform.
    """

    dist_type = "Exponential"

    def _mean(self, rate: Any = None) -> Tensor:
        return 1.0 / self._check_param_type(rate)

    def _mode(self, rate: Any = None) -> Tensor:
        return ops.zeros_like(self._check_param_type(rate))

    def _sd(self, rate: Any = None) -> Tensor:
        return self._mean(rate)

    def _entropy(self, rate: Any = None) -> Tensor:
        return 1.0 - ops.log(self._check_param_type(rate))

    def _log_prob(self, value: Tensor, rate: Any = None) -> Tensor:
        v, rate = self._check_value(value), self._check_param_type(rate)
        return ops.where(v < 0, -math.inf, ops.log(rate) - rate * v)

    def _cdf(self, value: Tensor, rate: Any = None) -> Tensor:
        return -ops.expm1(self._log_survival(value, rate))

    def _log_survival(self, value: Tensor, rate: Any = None) -> Tensor:
        v, rate = self._check_value(value), self._check_param_type(rate)
        return ops.where(v < 0, 0.0, -rate * v)

    def _kl_loss(self, dist: str, rate_b: Any, rate: Any = None) -> Tensor:
        rate_b, rate = self._other(dist, rate_b), self._check_param_type(rate)
        return ops.log(rate) - ops.log(rate_b) + rate_b / rate - 1.0

    def _sample(self, shape: Any = (), rate: Any = None) -> Tensor:
        rate = self._check_param_type(rate)
        u = self._uniform(self._dims(shape, rate.shape))
        return ops.cast(-ops.log1p(-u) / rate, self._dtype)


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

    def _mean(self, concentration: Any = None, rate: Any = None) -> Tensor:
        a, r = self._check_param_type(concentration, rate)
        return a / r

    def _var(self, concentration: Any = None, rate: Any = None) -> Tensor:
        a, r = self._check_param_type(concentration, rate)
        return a / ops.square(r)

    def _mode(self, concentration: Any = None, rate: Any = None) -> Tensor:
        a, r = self._check_param_type(concentration, rate)
        return ops.where(a > 1, (a - 1.0) / r, math.nan)

    def _entropy(self, concentration: Any = None, rate: Any = None) -> Tensor:
        a, r = self._check_param_type(concentration, rate)
        return a - ops.log(r) + ops.lgamma(a) + (1.0 - a) * ops.digamma(a)

    def _log_prob(self, value: Tensor, concentration: Any = None, rate: Any = None) -> Tensor:
        a, r = self._check_param_type(concentration, rate)
        v = self._check_value(value)
        inside = ops.maximum(v, 0.0)
        density = ops.xlogy(a - 1.0, inside) + a * ops.log(r) - r * inside - ops.lgamma(a)
        return ops.where(v < 0, -math.inf, density)

    def _bounds(self, value: Tensor, concentration: Any, rate: Any) -> Any:
        """The shape parameter, and values in scales, 0 below 0."""
        a, r = self._check_param_type(concentration, rate)
        x = ops.maximum(self._check_value(value) * r, 0.0)
        return ops.broadcast_to(a, x.shape), x

    def _cdf(self, value: Tensor, concentration: Any = None, rate: Any = None) -> Tensor:
        a, x = self._bounds(value, concentration, rate)
        return ops.igamma(a, x)

    def _survival_function(self, value: Tensor, concentration: Any = None, rate: Any = None
                           ) -> Tensor:
        a, x = self._bounds(value, concentration, rate)
        return ops.igammac(a, x)

    def _kl_loss(self, dist: str, concentration_b: Any, rate_b: Any, concentration_a: Any = None,
                 rate_a: Any = None) -> Tensor:
        b, rate_b = self._other(dist, concentration_b, rate_b)
        a, rate = self._check_param_type(concentration_a, rate_a)
        gammas = (a - b) * ops.digamma(a) + ops.lgamma(b) - ops.lgamma(a)
        return gammas + b * (ops.log(rate) - ops.log(rate_b)) + a * (rate_b / rate - 1.0)

    def _sample(self, shape: Any = (), concentration: Any = None, rate: Any = None) -> Tensor:
        a, r = self._check_param_type(concentration, rate)
        return ops.cast(ops.gamma(self._dims(shape, a.shape), a, r, self._seed or None),
                        self._dtype)


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

    def _mean(self, concentration1: Any = None, concentration0: Any = None) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        return a / (a + b)

    def _var(self, concentration1: Any = None, concentration0: Any = None) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        total = a + b
        return a * b / (total * total * (total + 1.0))

    def _mode(self, concentration1: Any = None, concentration0: Any = None) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        peaked = ops.logical_and(a > 1, b > 1)
        below = ops.where(peaked, a + b - 2.0, 1.0)
        return ops.where(peaked, (a - 1.0) / below, math.nan)

    def _entropy(self, concentration1: Any = None, concentration0: Any = None) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        parts = (a - 1.0) * ops.digamma(a) + (b - 1.0) * ops.digamma(b)
        return _log_beta(a, b) - parts + (a + b - 2.0) * ops.digamma(a + b)

    def _log_prob(self, value: Tensor, concentration1: Any = None, concentration0: Any = None
                  ) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        v = self._check_value(value)
        x = ops.clamp(v, 0.0, 1.0)
        density = ops.xlogy(a - 1.0, x) + ops.xlogy(b - 1.0, 1.0 - x) - _log_beta(a, b)
        return ops.where(ops.logical_and(v >= 0, v <= 1), density, -math.inf)

    def _cdf(self, value: Tensor, concentration1: Any = None, concentration0: Any = None) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        x = ops.clamp(self._check_value(value), 0.0, 1.0) + ops.zeros_like(a)
        return betainc(ops.broadcast_to(a, x.shape), ops.broadcast_to(b, x.shape), x)

    def _kl_loss(self, dist: str, concentration1_b: Any, concentration0_b: Any,
                 concentration1_a: Any = None, concentration0_a: Any = None) -> Tensor:
        c, d = self._other(dist, concentration1_b, concentration0_b)
        a, b = self._check_param_type(concentration1_a, concentration0_a)
        parts = (a - c) * ops.digamma(a) + (b - d) * ops.digamma(b)
        return _log_beta(c, d) - _log_beta(a, b) + parts - (a + b - c - d) * ops.digamma(a + b)

    def _sample(self, shape: Any = (), concentration1: Any = None, concentration0: Any = None
                ) -> Tensor:
        a, b = self._check_param_type(concentration1, concentration0)
        dims, one = self._dims(shape, a.shape), ops.ones_like(ops.cast(a, float64))
        # In float64, as both draws would vanish in float32 for small parameters.
        x = ops.gamma(dims, ops.cast(a, float64), one, self._seed or None)
        y = ops.gamma(dims, ops.cast(b, float64), one, self._seed or None)
        return ops.cast(x / (x + y), self._dtype)
