"""Distributions of whole numbers.

Source: the same names in `mindspore.nn.probability.distribution`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, int32

from .... import ops
from ....tensors.tensor import Tensor
from ..base import Distribution
from ..parameters import held, known, need_probability
from .formulas import at_value, divergence, draws, figure
from .rates import OfRate


class _OfProbability(Distribution):
    """One parameter, `probs`, which calls take as `probs1`."""

    discrete = True
    _call_names = ("probs1",)

    def __init__(self, probs: Any = None, seed: int | None = None, dtype: DType = int32,
                 name: str | None = None) -> None:
        self._keep(seed, dtype, self.dist_type if name is None else name, probs=probs)
        need_probability(self._probs_value)

    probs = held("_probs_value", "The probability of 1, or of success.")


class Bernoulli(_OfProbability):
    """1 with a probability, else 0.

    Args:
        probs: the probability of 1, between 0 and 1.
        seed: of the draws; None and 0: the global generator.
        dtype: of the draws.
        name: of the distribution.
    """

    dist_type = "Bernoulli"

    _mean = figure(lambda self, p: p)
    _mode = figure(lambda self, p: ops.cast(p > 0.5, self._dtype))
    _var = figure(lambda self, p: p * (1.0 - p))
    _entropy = figure(lambda self, p: -ops.xlogy(p, p) - ops.xlogy(1.0 - p, 1.0 - p))
    _log_prob = at_value(lambda self, v, p: ops.xlogy(v, p) + ops.xlogy(1.0 - v, 1.0 - p))
    _cdf = at_value(lambda self, v, p: ops.where(v < 0, 0.0, ops.where(v < 1, 1.0 - p, 1.0)))

    @divergence
    def _kl_loss(self, p: Any, q: Any) -> Tensor:
        ones = ops.xlogy(p, p) - ops.xlogy(p, q)
        return ones + ops.xlogy(1.0 - p, 1.0 - p) - ops.xlogy(1.0 - p, 1.0 - q)

    _sample = draws(lambda self, dims, p: self._uniform(dims) < p)


class Geometric(_OfProbability):
    """The number of failures before the first success.

    Args:
        probs: the probability of success, between 0 and 1.
        seed, dtype, name: as for Bernoulli.
    """

    dist_type = "Geometric"

    _mean = figure(lambda self, p: (1.0 - p) / p)
    _mode = figure(lambda self, p: ops.cast(ops.zeros_like(p), self._dtype))
    _var = figure(lambda self, p: (1.0 - p) / ops.square(p))
    _entropy = figure(lambda self, p: -ops.log(p) - ops.xlogy(1.0 - p, 1.0 - p) / p)

    @at_value
    def _log_prob(self, v: Any, p: Any) -> Tensor:
        failures = ops.floor(ops.maximum(v, 0.0))
        return ops.where(v < 0, -math.inf, ops.xlogy(failures, 1.0 - p) + ops.log(p))

    @at_value
    def _log_survival(self, v: Any, p: Any) -> Tensor:
        trials = ops.floor(ops.maximum(v, 0.0)) + 1.0
        return ops.where(v < 0, 0.0, ops.xlogy(trials, 1.0 - p))

    @divergence
    def _kl_loss(self, p: Any, q: Any) -> Tensor:
        failures = (1.0 - p) / p * (ops.log1p(-p) - ops.log1p(-q))
        return ops.log(p) - ops.log(q) + failures

    _sample = draws(
        lambda self, dims, p: ops.floor(ops.log(self._open_uniform(dims)) / ops.log1p(-p)))


class Poisson(OfRate):
    """The number of events of a constant rate.

    Args:
        rate: the mean, above 0.
        seed, dtype, name: as for Bernoulli.
    """

    dist_type = "Poisson"
    discrete = True

    _mean = figure(lambda self, rate: rate)
    _mode = figure(lambda self, rate: ops.floor(rate))
    _var = _mean

    @at_value
    def _log_prob(self, v: Any, rate: Any) -> Tensor:
        count = ops.maximum(v, 0.0)
        log = ops.xlogy(count, rate) - rate - ops.lgamma(count + 1.0)
        return ops.where(v < 0, -math.inf, log)

    def _order(self, v: Any, rate: Any) -> Any:
        """Values, and what the incomplete gamma functions of their probabilities take."""
        v = v + ops.zeros_like(rate)
        return v, ops.floor(ops.maximum(v, 0.0)) + 1.0, ops.broadcast_to(rate, v.shape)

    @at_value
    def _cdf(self, v: Any, rate: Any) -> Tensor:
        v, order, rate = self._order(v, rate)
        return ops.where(v < 0, 0.0, ops.igammac(order, rate))

    @at_value
    def _survival_function(self, v: Any, rate: Any) -> Tensor:
        v, order, rate = self._order(v, rate)
        return ops.where(v < 0, 1.0, ops.igamma(order, rate))

    _kl_loss = divergence(
        lambda self, rate, rate_b: rate * (ops.log(rate) - ops.log(rate_b)) - rate + rate_b)
    _sample = draws(lambda self, dims, rate: ops.poisson(dims, rate, self._seed or None))


class Categorical(Distribution):
    """Positions of a list of probabilities.

    Args:
        probs: (..., n) probabilities between 0 and 1, both excluded, whose last axis adds up to 1.
        seed, dtype, name: as for Bernoulli.
    """

    dist_type = "Categorical"
    discrete = True

    def __init__(self, probs: Any = None, seed: int | None = None, dtype: DType = int32,
                 name: str = "Categorical") -> None:
        self._keep(seed, dtype, name, probs=probs)
        kept = self._probs_value
        if kept is None:
            return
        if kept.ndim == 0:
            raise ValueError("For Categorical, probs must have an axis of categories, but got a "
                             "number.")
        need_probability(kept)
        if not np.allclose(known(kept).sum(-1), 1.0, rtol=0.0, atol=1e-3):
            raise ValueError("Probabilities for each category should sum to one for Categorical "
                             "distribution.")
        self._is_scalar_batch = kept.ndim == 1

    @property
    def broadcast_shape(self) -> tuple[int, ...] | None:
        """The shape of the probabilities without the categories."""
        return None if self._batch_shape is None else self._batch_shape[:-1]

    probs = held("_probs_value", "The probabilities.")

    def _moment(self, probs: Any, power: int) -> Tensor:
        places = ops.cast(ops.arange(probs.shape[-1]), probs.dtype)
        return ops.sum(probs * places**power, -1, keepdim=True)

    _mean = figure(lambda self, p: self._moment(p, 1))
    _mode = figure(lambda self, p: ops.cast(ops.argmax(p, -1), self._dtype))
    _var = figure(lambda self, p: self._moment(p, 2) - ops.square(self._moment(p, 1)))
    _entropy = figure(lambda self, p: -ops.sum(ops.xlogy(p, p), -1))

    def _at(self, v: Tensor, table: Tensor) -> Any:
        """Whole values of the shape of the answer, and what a table (..., n) has there."""
        v = ops.floor(v)
        count = table.shape[-1]
        dims = broadcast_all(v.shape, table.shape[:-1])
        v, wide = ops.broadcast_to(v, dims), ops.broadcast_to(table, (*dims, count))
        place = ops.cast(ops.clamp(v, 0.0, count - 1.0), int32)
        return v, ops.squeeze(ops.gather_elements(wide, -1, ops.unsqueeze(place, -1)), -1)

    @at_value
    def _log_prob(self, v: Any, p: Any) -> Tensor:
        v, log = self._at(v, ops.log(p))
        return ops.where(ops.logical_and(v >= 0, v < p.shape[-1]), log, -math.inf)

    @at_value
    def _cdf(self, v: Any, p: Any) -> Tensor:
        v, below = self._at(v, ops.cumsum(p, -1))
        return ops.where(v < 0, 0.0, ops.where(v < p.shape[-1] - 1, below, 1.0))

    _kl_loss = divergence(lambda self, p, q: ops.sum(ops.xlogy(p, p) - ops.xlogy(p, q), -1))

    def _sample(self, shape: Any = (), probs: Any = None) -> Tensor:
        p = self._check_param_type(probs)
        batch = p.shape[:-1]
        dims = self._dims(shape, batch)
        if 0 in dims:
            return ops.zeros(dims, self._dtype)
        rows = ops.reshape(p, (-1, p.shape[-1]))
        found = ops.multinomial(rows, math.prod(shape), True, self._seed or None)
        return ops.cast(ops.reshape(ops.transpose(found, (1, 0)), dims), self._dtype)
