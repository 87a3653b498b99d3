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
from .formulas import at_standard, at_value, divergence, draws, figure

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
        self._keep(seed, dtype, self.dist_type if name is None else name, loc=loc, scale=scale)

    _mode = figure(lambda self, loc, scale: loc)


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

    _mean = figure(lambda self, mean, sd: mean)
    _mode = _mean
    _sd = figure(lambda self, mean, sd: sd)
    _entropy = figure(lambda self, mean, sd: ops.log(sd) + (_LOG_SQRT_2PI + 0.5))
    _log_prob = at_standard(lambda self, z, sd: -0.5 * z * z - ops.log(sd) - _LOG_SQRT_2PI)
    _cdf = at_standard(lambda self, z, sd: 0.5 * ops.erfc(z * -math.sqrt(0.5)))
    _survival_function = at_standard(lambda self, z, sd: 0.5 * ops.erfc(z * math.sqrt(0.5)))
    _kl_loss = divergence(lambda self, *given: normal_kl(*given))
    _sample = draws(lambda self, dims, mean, sd: mean + self._normal(dims) * sd)


class HalfNormal(_MeanSd):
    """The normal density above 0, doubled; MindSpore's, of which it has prob and log_prob.

    Args:
        mean, sd, seed, dtype, name: as for Normal.
    """

    dist_type = "HalfNormal"

    @at_value
    def _log_prob(self, v: Any, mean: Any, sd: Any) -> Tensor:
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

    _mean = figure(lambda self, mean, sd: mean)
    _mode = _mean
    _sd = figure(lambda self, mean, sd: sd * math.sqrt(2))
    _entropy = figure(lambda self, mean, sd: ops.log(sd) + (1 + math.log(2)))
    _log_prob = at_standard(lambda self, z, sd: -ops.abs(z) - ops.log(sd) - math.log(2))

    @at_standard
    def _cdf(self, z: Any, sd: Any) -> Tensor:
        half = 0.5 * ops.exp(-ops.abs(z))
        return ops.where(z < 0, half, 1.0 - half)

    @at_standard
    def _survival_function(self, z: Any, sd: Any) -> Tensor:
        half = 0.5 * ops.exp(-ops.abs(z))
        return ops.where(z < 0, 1.0 - half, half)

    @divergence
    def _kl_loss(self, mean: Any, sd: Any, mean_b: Any, sd_b: Any) -> Tensor:
        apart = ops.abs(mean - mean_b)
        near = (sd * ops.exp(-apart / sd) + apart) / sd_b
        return ops.log(sd_b) - ops.log(sd) + near - 1.0

    _sample = draws(lambda self, dims, mean, sd: mean + ops.standard_laplace(
        dims, self._seed or None) * sd)


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

    @at_value
    def _log_prob(self, v: Any, df: Any, mean: Any, sd: Any) -> Tensor:
        z = (v - mean) / sd
        half = 0.5 * (df + 1.0)
        gammas = ops.lgamma(half) - ops.lgamma(0.5 * df) - 0.5 * ops.log(df * math.pi)
        return gammas - ops.log(sd) - half * ops.log1p(z * z / df)

    def _tail(self, v: Any, df: Any, mean: Any, sd: Any) -> Any:
        """Values in scales, and the probability of a draw farther out on their side."""
        z = (v - mean) / sd
        d = ops.broadcast_to(df, z.shape)
        return z, 0.5 * betainc(0.5 * d, ops.full_like(d, 0.5), d / (d + z * z))

    @at_value
    def _cdf(self, v: Any, df: Any, mean: Any, sd: Any) -> Tensor:
        z, tail = self._tail(v, df, mean, sd)
        return ops.where(z < 0, tail, 1.0 - tail)

    @at_value
    def _survival_function(self, v: Any, df: Any, mean: Any, sd: Any) -> Tensor:
        z, tail = self._tail(v, df, mean, sd)
        return ops.where(z < 0, 1.0 - tail, tail)

    _mean = figure(lambda self, df, mean, sd: ops.where(df > 1, mean, math.nan))
    _mode = figure(lambda self, df, mean, sd: mean)

    @figure
    def _var(self, df: Any, mean: Any, sd: Any) -> Tensor:
        finite = sd * sd * df / ops.where(df > 2, df - 2.0, 1.0)
        return ops.where(df > 2, finite, ops.where(df > 1, math.inf, math.nan))

    @figure
    def _entropy(self, df: Any, mean: Any, sd: Any) -> Tensor:
        half = 0.5 * (df + 1.0)
        beta = math.lgamma(0.5) + ops.lgamma(0.5 * df) - ops.lgamma(half)
        slopes = half * (ops.digamma(half) - ops.digamma(0.5 * df))
        return slopes + 0.5 * ops.log(df) + beta + ops.log(sd)

    @draws
    def _sample(self, dims: Any, df: Any, mean: Any, sd: Any) -> Tensor:
        half = 0.5 * df
        chi = ops.gamma(dims, half, ops.ones_like(half), self._seed or None)
        return mean + self._normal(dims) * ops.sqrt(half / chi) * sd


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

    @at_standard
    def _log_prob(self, z: Any, scale: Any) -> Tensor:
        return -math.log(math.pi) - ops.log(scale) - ops.log1p(z * z)

    _cdf = at_standard(lambda self, z, scale: ops.atan2(ops.ones_like(z), -z) / math.pi)
    _survival_function = at_standard(
        lambda self, z, scale: ops.atan2(ops.ones_like(z), z) / math.pi)
    _entropy = figure(lambda self, loc, scale: ops.log(scale) + math.log(4 * math.pi))

    @divergence
    def _kl_loss(self, loc: Any, scale: Any, loc_b: Any, scale_b: Any) -> Tensor:
        far = ops.log(ops.square(scale + scale_b) + ops.square(loc - loc_b))
        return far - math.log(4) - ops.log(scale) - ops.log(scale_b)

    @draws
    def _sample(self, dims: Any, loc: Any, scale: Any) -> Tensor:
        return loc + scale * ops.tan(math.pi * (self._open_uniform(dims) - 0.5))


class Logistic(_LocScale):
    """The logistic distribution.

    Args:
        loc: the location.
        scale: the scale, above 0.
        seed, dtype, name: as for Normal.
    """

    dist_type = "Logistic"

    _mean = _LocScale._mode
    _sd = figure(lambda self, loc, scale: scale * (math.pi / math.sqrt(3)))
    _entropy = figure(lambda self, loc, scale: ops.log(scale) + 2.0)
    _log_prob = at_standard(
        lambda self, z, scale: ops.logsigmoid(z) + ops.logsigmoid(-z) - ops.log(scale))
    _cdf = at_standard(lambda self, z, scale: ops.sigmoid(z))
    _log_cdf = at_standard(lambda self, z, scale: ops.logsigmoid(z))
    _survival_function = at_standard(lambda self, z, scale: ops.sigmoid(-z))
    _log_survival = at_standard(lambda self, z, scale: ops.logsigmoid(-z))

    @draws
    def _sample(self, dims: Any, loc: Any, scale: Any) -> Tensor:
        u = self._open_uniform(dims)
        return loc + scale * (ops.log(u) - ops.log1p(-u))
