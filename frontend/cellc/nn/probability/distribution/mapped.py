"""Distributions that are others' images under a bijector, with their own closed forms.

Source: the same names in `mindspore.nn.probability.distribution`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, float32

from .... import ops
from ....tensors.tensor import Tensor
from ..bijector import Exp, GumbelCDF, Invert
from ..parameters import LocScale
from ..transforms import TransformedDistribution
from .bounded import Uniform
from .location_scale import Normal, normal_kl

_GAMMA = float(np.euler_gamma)


class _Mapped(LocScale, TransformedDistribution):
    """Two parameters, `loc` and `scale`, given here or at a call."""

    def extend_repr(self) -> str:
        """Its parameters."""
        return self._described()


class LogNormal(_Mapped):
    """exp of a normal distribution.

    Args:
        loc: the mean of the normal distribution.
        scale: its standard deviation, above 0.
        seed: of the draws; None and 0: the global generator.
        dtype: of the draws, floats.
        name: of the distribution.
    """

    dist_type = "LogNormal"

    def __init__(self, loc: Any = None, scale: Any = None, seed: int = 0, dtype: DType = float32,
                 name: str = "LogNormal") -> None:
        super().__init__(Exp(), Normal(loc, scale, seed, dtype), seed, name)
        own = self._distribution.default_parameters
        for key, value in zip(("loc", "scale"), own, strict=True):
            self._add_parameter(value, key)

    def _log_values(self, value: Tensor) -> Any:
        """Where values are above 0, and their logarithms there."""
        v = self._check_value(value)
        return v > 0, ops.log(ops.where(v > 0, v, 1.0))

    def _log_prob(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        above, log = self._log_values(value)
        loc, scale = self._check_param_type(loc, scale)
        return ops.where(above, self._distribution.log_prob(log, loc, scale) - log, -math.inf)

    def _cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        above, log = self._log_values(value)
        loc, scale = self._check_param_type(loc, scale)
        return ops.where(above, self._distribution.cdf(log, loc, scale), 0.0)

    def _log_cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.log(self._cdf(value, loc, scale))

    def _survival_function(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        above, log = self._log_values(value)
        loc, scale = self._check_param_type(loc, scale)
        return ops.where(above, self._distribution.survival_function(log, loc, scale), 1.0)

    def _log_survival(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.log(self._survival_function(value, loc, scale))

    def _mean(self, loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        return ops.exp(loc + 0.5 * ops.square(scale))

    def _mode(self, loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        return ops.exp(loc - ops.square(scale))

    def _var(self, loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        variance = ops.square(scale)
        return ops.expm1(variance) * ops.exp(2.0 * loc + variance)

    def _entropy(self, loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        return loc + self._distribution.entropy(loc, scale)

    def _kl_loss(self, dist: str, loc_b: Any, scale_b: Any, loc_a: Any = None, scale_a: Any = None
                 ) -> Tensor:
        loc_b, scale_b = self._other(dist, loc_b, scale_b)
        loc, scale = self._check_param_type(loc_a, scale_a)
        return normal_kl(loc, scale, loc_b, scale_b)

    def _sample(self, shape: Any = (), loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        return ops.exp(self._distribution.sample(shape, loc, scale))


class Gumbel(_Mapped):
    """The Gumbel distribution of maxima.

    Args:
        loc: the location.
        scale: the scale, above 0.
        seed, dtype, name: as for LogNormal.
    """

    dist_type = "Gumbel"

    def __init__(self, loc: Any, scale: Any, seed: int = 0, dtype: DType = float32,
                 name: str = "Gumbel") -> None:
        super().__init__(Invert(GumbelCDF(loc, scale)), Uniform(0.0, 1.0, dtype=dtype), seed, name)
        self._add_parameter(loc, "loc")
        self._add_parameter(scale, "scale")

    def _z(self, value: Any, loc: Any, scale: Any) -> Any:
        loc, scale = self._check_param_type(loc, scale)
        return (self._check_value(value) - loc) / scale, scale

    def _log_prob(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        z, scale = self._z(value, loc, scale)
        return -z - ops.exp(-z) - ops.log(scale)

    def _cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.exp(self._log_cdf(value, loc, scale))

    def _log_cdf(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return -ops.exp(-self._z(value, loc, scale)[0])

    def _survival_function(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return -ops.expm1(self._log_cdf(value, loc, scale))

    def _log_survival(self, value: Tensor, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.log(self._survival_function(value, loc, scale))

    def _mean(self, loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        return loc + scale * _GAMMA

    def _mode(self, loc: Any = None, scale: Any = None) -> Tensor:
        location: Tensor = self._check_param_type(loc, scale)[0]
        return location

    def _sd(self, loc: Any = None, scale: Any = None) -> Tensor:
        spread: Tensor = self._check_param_type(loc, scale)[1]
        return spread * (math.pi / math.sqrt(6))

    def _entropy(self, loc: Any = None, scale: Any = None) -> Tensor:
        return ops.log(self._check_param_type(loc, scale)[1]) + (1 + _GAMMA)

    def _kl_loss(self, dist: str, loc_b: Any, scale_b: Any, loc: Any = None, scale: Any = None
                 ) -> Tensor:
        loc_b, scale_b = self._other(dist, loc_b, scale_b)
        loc, scale = self._check_param_type(loc, scale)
        ratio = scale / scale_b
        tail = ops.expm1((loc_b - loc) / scale_b + ops.lgamma(ratio + 1.0))
        logs = ops.log(scale_b) - ops.log(scale) + _GAMMA * (ratio - 1.0)
        return logs + tail + (loc - loc_b) / scale_b

    def _sample(self, shape: Any = (), loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        u = self._open_uniform(self._dims(shape, loc.shape))
        return ops.cast(loc - scale * ops.log(-ops.log(u)), self._dtype)
