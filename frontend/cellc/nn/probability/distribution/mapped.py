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
from .formulas import at_standard, at_value, divergence, draws, figure
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

    @at_value
    def _log_prob(self, v: Any, loc: Any, scale: Any) -> Tensor:
        log = _log_above(v)
        return ops.where(v > 0, self._distribution.log_prob(log, loc, scale) - log, -math.inf)

    @at_value
    def _cdf(self, v: Any, loc: Any, scale: Any) -> Tensor:
        return ops.where(v > 0, self._distribution.cdf(_log_above(v), loc, scale), 0.0)

    @at_value
    def _survival_function(self, v: Any, loc: Any, scale: Any) -> Tensor:
        above = self._distribution.survival_function(_log_above(v), loc, scale)
        return ops.where(v > 0, above, 1.0)

    def _log_cdf(self, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return ops.log(self._cdf(value, *args, **kwargs))

    def _log_survival(self, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return ops.log(self._survival_function(value, *args, **kwargs))

    _mean = figure(lambda self, loc, scale: ops.exp(loc + 0.5 * ops.square(scale)))
    _mode = figure(lambda self, loc, scale: ops.exp(loc - ops.square(scale)))

    @figure
    def _var(self, loc: Any, scale: Any) -> Tensor:
        variance = ops.square(scale)
        return ops.expm1(variance) * ops.exp(2.0 * loc + variance)

    _entropy = figure(lambda self, loc, scale: loc + self._distribution.entropy(loc, scale))
    _kl_loss = divergence(lambda self, *given: normal_kl(*given))

    def _sample(self, shape: Any = (), loc: Any = None, scale: Any = None) -> Tensor:
        loc, scale = self._check_param_type(loc, scale)
        return ops.exp(self._distribution.sample(shape, loc, scale))


def _log_above(v: Tensor) -> Tensor:
    """The logarithms of values above 0."""
    return ops.log(ops.where(v > 0, v, 1.0))


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

    _log_prob = at_standard(lambda self, z, scale: -z - ops.exp(-z) - ops.log(scale))
    _cdf = at_standard(lambda self, z, scale: ops.exp(-ops.exp(-z)))
    _log_cdf = at_standard(lambda self, z, scale: -ops.exp(-z))
    _survival_function = at_standard(lambda self, z, scale: -ops.expm1(-ops.exp(-z)))
    _log_survival = at_standard(lambda self, z, scale: ops.log(-ops.expm1(-ops.exp(-z))))
    _mean = figure(lambda self, loc, scale: loc + scale * _GAMMA)
    _mode = figure(lambda self, loc, scale: loc)
    _sd = figure(lambda self, loc, scale: scale * (math.pi / math.sqrt(6)))
    _entropy = figure(lambda self, loc, scale: ops.log(scale) + (1 + _GAMMA))

    @divergence
    def _kl_loss(self, loc: Any, scale: Any, loc_b: Any, scale_b: Any) -> Tensor:
        ratio = scale / scale_b
        tail = ops.expm1((loc_b - loc) / scale_b + ops.lgamma(ratio + 1.0))
        logs = ops.log(scale_b) - ops.log(scale) + _GAMMA * (ratio - 1.0)
        return logs + tail + (loc - loc_b) / scale_b

    @draws
    def _sample(self, dims: Any, loc: Any, scale: Any) -> Tensor:
        return loc - scale * ops.log(-ops.log(self._open_uniform(dims)))
