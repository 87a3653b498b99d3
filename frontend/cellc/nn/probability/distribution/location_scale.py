"""Distributions of a location and a scale on all of the reals, and the half of the normal one.

Source: the same names in `mindspore.nn.probability.distribution`.
"""

from __future__ import annotations

import math
from typing import Any

from cellc_runtime.dtypes import DType, float32

from .... import ops
from ....ops.functional.zeta_functions import betainc
from ....tensors.tensor import Tensor
from ..base import Distribution
from ..parameters import LocScale

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class _MeanSd(Distribution):
    """Two parameters, `mean` and `sd`."""

    _above_zero = {"sd": "Standard deviation"}

    def __init__(self, mean: Any = None, sd: Any = None, seed: int | None = None,
                 dtype: DType = float32, name: str | None = None) -> None:
        self._keep(seed, dtype, self.dist_type if name is None else name, mean=mean, sd=sd)


class _LocScale(LocScale, Distribution):
    """Two parameters, `loc` and `scale`."""

    labels = ("location", "scale")
    _above_zero = {"scale": "scale"}

    def __init__(self, loc: Any = None, scale: Any = None, seed: int | None = None,
                 dtype: DType = float32, name: str | None = None) -> None:
        self._keep(seed, dtype, self.dist_type if name is None else name, loc=loc,
                   scale=scale)

    def _z(self, value: Any, loc: Any, scale: Any) -> Any:
        """Values from the location, in scales; and the scale."""
        loc, scale = self._check_param_type(loc, scale)
        return (self._check_value(value) - loc) / scale, scale

    def _mode(self, loc: Any = None, scale: Any = None) -> Tensor:
        location: Tensor = self._check_param_type(loc, scale)[0]
        return location


def normal_kl(mean: Any, sd: Any, mean_b: Any, sd_b: Any) -> Tensor:
    """The divergence of two normal distributions, which is that of two log-normal ones."""
    distance, logs = (mean - mean_b) / sd_b, ops.log(sd) - ops.log(sd_b)
    out: Tensor = 0.5 * distance * distance + 0.5 * ops.expm1(2.0 * logs) - logs
    return out


class Normal(_MeanSd):
    """The normal distribution.

    Args:
        mean: the mean.
        sd: the standard deviation, above 0.
        seed: of the draws; None and 0: the global generator.
        dtype: of the draws, floats.
        name: of the distribution.
    """

    dist_type = "Normal"
    labels = ("mean", "standard deviation")

    def _mean(self, mean: Any = None, sd: Any = None) -> Tensor:
        mean, sd = self._check_param_type(mean, sd)
        return mean

    def _mode(self, mean: Any = None, sd: Any = None) -> Tensor:
        return self._mean(mean, sd)

    def _sd(self, mean: Any = None, sd: Any = None) -> Tensor:
        mean, sd = self._check_param_type(mean, sd)
        return sd

    def _entropy(self, mean: Any = None, sd: Any = None) -> Tensor:
        return ops.log(self._sd(mean, sd)) + (_LOG_SQRT_2PI + 0.5)

    def _z(self, value: Any, mean: Any, sd: Any) -> Any:
        mean, sd = self._check_param_type(mean, sd)
        return (self._check_value(value) - mean) / sd, sd

    def _log_prob(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        z, sd = self._z(value, mean, sd)
        return -0.5 * z * z - ops.log(sd) - _LOG_SQRT_2PI

    def _cdf(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        z, sd = self._z(value, mean, sd)
        return 0.5 * ops.erfc(z * -math.sqrt(0.5))

    def _survival_function(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        z, sd = self._z(value, mean, sd)
        return 0.5 * ops.erfc(z * math.sqrt(0.5))

    def _kl_loss(self, dist: str, mean_b: Any, sd_b: Any, mean: Any = None, sd: Any = None
                 ) -> Tensor:
        mean_b, sd_b = self._other(dist, mean_b, sd_b)
        mean, sd = self._check_param_type(mean, sd)
        return normal_kl(mean, sd, mean_b, sd_b)

    def _sample(self, shape: Any = (), mean: Any = None, sd: Any = None) -> Tensor:
        mean, sd = self._check_param_type(mean, sd)
        return ops.cast(mean + self._normal(self._dims(shape, mean.shape)) * sd, self._dtype)


class HalfNormal(_MeanSd):
    """The normal density above 0, doubled; MindSpore's, of which it has prob and log_prob.

    Args:
        mean, sd, seed, dtype, name: as for Normal.
    """

    dist_type = "HalfNormal"

    def _log_prob(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        mean, sd = self._check_param_type(mean, sd)
        v = self._check_value(value)
        z = (v - mean) / sd
        inside = -0.5 * z * z - ops.log(sd) + (math.log(2) - _LOG_SQRT_2PI)
        return ops.where(v < 0, -math.inf, inside)


class Laplace(_MeanSd):
    """The Laplace distribution.

    Args:
        mean: the mean.
        sd: the scale, above 0 (MindSpore's name; the standard deviation is sqrt(2) times it).
        seed, dtype, name: as for Normal.
    """

    dist_type = "Laplace"

    def _z(self, value: Any, mean: Any, sd: Any) -> Any:
        mean, sd = self._check_param_type(mean, sd)
        return (self._check_value(value) - mean) / sd, sd

    def _log_prob(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        z, sd = self._z(value, mean, sd)
        return -ops.abs(z) - ops.log(sd) - math.log(2)

    def _cdf(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        z, sd = self._z(value, mean, sd)
        half = 0.5 * ops.exp(-ops.abs(z))
        return ops.where(z < 0, half, 1.0 - half)

    def _survival_function(self, value: Tensor, mean: Any = None, sd: Any = None) -> Tensor:
        z, sd = self._z(value, mean, sd)
        half = 0.5 * ops.exp(-ops.abs(z))
        return ops.where(z < 0, 1.0 - half, half)

    def _mean(self, mean: Any = None, sd: Any = None) -> Tensor:
        mean, sd = self._check_param_type(mean, sd)
        return mean

    def _mode(self, mean: Any = None, sd: Any = None) -> Tensor:
        return self._mean(mean, sd)

    def _sd(self, mean: Any = None, sd: Any = None) -> Tensor:
        scale: Tensor = self._check_param_type(mean, sd)[1]
        return scale * math.sqrt(2)

    def _entropy(self, mean: Any = None, sd: Any = None) -> Tensor:
        return ops.log(self._check_param_type(mean, sd)[1]) + (1 + math.log(2))

    def _kl_loss(self, dist: str, mean_b: Any, sd_b: Any, mean: Any = None, sd: Any = None
                 ) -> Tensor:
        mean_b, sd_b = self._other(dist, mean_b, sd_b)
        mean, sd = self._check_param_type(mean, sd)
        apart = ops.abs(mean - mean_b)
        near = (sd * ops.exp(-apart / sd) + apart) / sd_b
        return ops.log(sd_b) - ops.log(sd) + near - 1.0

    def _sample(self, shape: Any = (), mean: Any = None, sd: Any = None) -> Tensor:
        mean, sd = self._check_param_type(mean, sd)
        z = ops.standard_laplace(self._dims(shape, mean.shape), self._seed or None)
        return ops.cast(mean + z * sd, self._dtype)


class StudentT(Distribution):
    """Student's t-distribution, moved and scaled.

    Args:
        df: the degrees of freedom, above 0.
        mean: the location (the mean where df > 1).
        sd: the scale, above 0 (MindSpore's name for it).
        seed, dtype, name: as for Normal.
    """

    dist_type = "StudentT"
    _above_zero = {"df": "Degrees of freedom", "sd": "Standard deviation"}

    def __init__(self, df: Any = None, mean: Any = None, sd: Any = None, seed: int | None = None,
                 dtype: DType = float32, name: str = "StudentT") -> None:
        self._keep(seed, dtype, name, df=df, mean=mean, sd=sd)

    def _log_prob(self, value: Tensor, df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        df, mean, sd = self._check_param_type(df, mean, sd)
        z = (self._check_value(value) - mean) / sd
        half = 0.5 * (df + 1.0)
        gammas = ops.lgamma(half) - ops.lgamma(0.5 * df) - 0.5 * ops.log(df * math.pi)
        return gammas - ops.log(sd) - half * ops.log1p(z * z / df)

    def _tail(self, value: Tensor, df: Any, mean: Any, sd: Any) -> Any:
        """Values in scales, and the probability of a draw farther out on their side."""
        df, mean, sd = self._check_param_type(df, mean, sd)
        z = (self._check_value(value) - mean) / sd
        d = ops.broadcast_to(df, z.shape)
        return z, 0.5 * betainc(0.5 * d, ops.full_like(d, 0.5), d / (d + z * z))

    def _cdf(self, value: Tensor, df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        z, tail = self._tail(value, df, mean, sd)
        return ops.where(z < 0, tail, 1.0 - tail)

    def _survival_function(self, value: Tensor, df: Any = None, mean: Any = None, sd: Any = None
                           ) -> Tensor:
        z, tail = self._tail(value, df, mean, sd)
        return ops.where(z < 0, 1.0 - tail, tail)

    def _mean(self, df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        df, mean, sd = self._check_param_type(df, mean, sd)
        return ops.where(df > 1, mean, math.nan)

    def _mode(self, df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        location: Tensor = self._check_param_type(df, mean, sd)[1]
        return location

    def _var(self, df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        df, mean, sd = self._check_param_type(df, mean, sd)
        finite = sd * sd * df / ops.where(df > 2, df - 2.0, 1.0)
        return ops.where(df > 2, finite, ops.where(df > 1, math.inf, math.nan))

    def _entropy(self, df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        df, mean, sd = self._check_param_type(df, mean, sd)
        half = 0.5 * (df + 1.0)
        beta = math.lgamma(0.5) + ops.lgamma(0.5 * df) - ops.lgamma(half)
        slopes = half * (ops.digamma(half) - ops.digamma(0.5 * df))
        return slopes + 0.5 * ops.log(df) + beta + ops.log(sd)

    def _sample(self, shape: Any = (), df: Any = None, mean: Any = None, sd: Any = None) -> Tensor:
        df, mean, sd = self._check_param_type(df, mean, sd)
        dims = self._dims(shape, mean.shape)
        half = 0.5 * df
        chi = ops.gamma(dims, half, ops.ones_like(half), self._seed or None)
        z = self._normal(dims) * ops.sqrt(half / chi)
        return ops.cast(mean + z * sd, self._dtype)


class Cauchy(_LocScale):
    """The Cauchy distribution, which has no mean and no variance.

    Args:
        loc: the location.
        scale: the scale, above 0.
        seed, dtype, name: as for Normal.
    """

    dist_type = "Cauchy"

    def _mean(self, *args: Any, **kwargs: Any) -> Tensor:
        raise ValueError("mean is undefined for Cauchy distribution.")

    def _sd(self, *args: Any, **kwargs: Any) -> Tensor:
        raise ValueError("standard deviation is undefined for Cauchy distribution.")

    def _var(self, *args: Any, **kwargs: Any) -> Tensor:
        raise ValueError("variance is undefined for Cauchy distribution.")

    def _log_prob(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        z, scale = self._z(value, loc, scale)
        return -math.log(math.pi) - ops.log(scale) - ops.log1p(z * z)

    def _cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        z, scale = self._z(value, loc, scale)
        return ops.atan2(ops.ones_like(z), -z) / math.pi

    def _survival_function(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        z, scale = self._z(value, loc, scale)
        return ops.atan2(ops.ones_like(z), z) / math.pi

    def _entropy(self, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.log(self._check_param_type(loc, scale)[1]) + math.log(4 * math.pi)

    def _kl_loss(self, dist: str, loc_b: Any, scale_b: Any, loc_a: Any = None, scale_a: Any = None
                 ) -> Tensor:
        loc_b, scale_b = self._other(dist, loc_b, scale_b)
        loc, scale = self._check_param_type(loc_a, scale_a)
        far = ops.log(ops.square(scale + scale_b) + ops.square(loc - loc_b))
        return far - math.log(4) - ops.log(scale) - ops.log(scale_b)

    def _sample(self, shape: Any = (), loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        u = self._open_uniform(self._dims(shape, loc.shape))
        return ops.cast(loc + scale * ops.tan(math.pi * (u - 0.5)), self._dtype)


class Logistic(_LocScale):
    """The logistic distribution.

    Args:
        loc: the location.
        scale: the scale, above 0.
        seed, dtype, name: as for Normal.
    """

    dist_type = "Logistic"

    def _mean(self, loc: Any = None, scale: Any = None) -> Tensor:
        return self._mode(loc, scale)

    def _sd(self, loc: Any = None, scale: Any = None) -> Tensor:
        spread: Tensor = self._check_param_type(loc, scale)[1]
        return spread * (math.pi / math.sqrt(3))

    def _entropy(self, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.log(self._check_param_type(loc, scale)[1]) + 2.0

    def _log_prob(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        z, scale = self._z(value, loc, scale)
        return ops.logsigmoid(z) + ops.logsigmoid(-z) - ops.log(scale)

    def _cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.sigmoid(self._z(value, loc, scale)[0])

    def _log_cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.logsigmoid(self._z(value, loc, scale)[0])

    def _survival_function(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.sigmoid(-self._z(value, loc, scale)[0])

    def _log_survival(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.logsigmoid(-self._z(value, loc, scale)[0])

    def _sample(self, shape: Any = (), loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        u = self._open_uniform(self._dims(shape, loc.shape))
        return ops.cast(loc + scale * (ops.log(u) - ops.log1p(-u)), self._dtype)
