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
from ..parameters import held, known, need_positive, need_probability
from .rates import OfRate


class _OfProbability(Distribution):
    """One parameter, `probs`, which calls take as `probs1`."""

    discrete = True

    def __init__(self, probs: Any = None, seed: int | None = None, dtype: DType = int32,
                 name: str | None = None) -> None:
        self._keep(seed, dtype, self.dist_type if name is None else name, probs=probs)
        need_probability(self._probs_value)

    probs = held("_probs_value", "The probability of 1, or of success.")

    def _get_dist_args(self, probs1: Any = None) -> Any:
        return self._check_param_type(probs1)


class Bernoulli(_OfProbability):
    """1 with a probability, else 0.

    Args:
        probs: the probability of 1, between 0 and 1.
        seed: of the draws; None and 0: the global generator.
        dtype: of the draws.
        name: of the distribution.
    """

    dist_type = "Bernoulli"

    def _mean(self, probs1: Any = None) -> Tensor:
        return self._check_param_type(probs1)

    def _mode(self, probs1: Any = None) -> Tensor:
        return ops.cast(self._check_param_type(probs1) > 0.5, self._dtype)

    def _var(self, probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        return p * (1.0 - p)

    def _entropy(self, probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        return -ops.xlogy(p, p) - ops.xlogy(1.0 - p, 1.0 - p)

    def _log_prob(self, value: Tensor, probs1: Any = None) -> Tensor:
        v, p = self._check_value(value), self._check_param_type(probs1)
        return ops.xlogy(v, p) + ops.xlogy(1.0 - v, 1.0 - p)

    def _cdf(self, value: Tensor, probs1: Any = None) -> Tensor:
        v, p = self._check_value(value), self._check_param_type(probs1)
        return ops.where(v < 0, 0.0, ops.where(v < 1, 1.0 - p, 1.0))

    def _kl_loss(self, dist: str, probs1_b: Any, probs1: Any = None) -> Tensor:
        q, p = self._other(dist, probs1_b), self._check_param_type(probs1)
        ones = ops.xlogy(p, p) - ops.xlogy(p, q)
        return ones + ops.xlogy(1.0 - p, 1.0 - p) - ops.xlogy(1.0 - p, 1.0 - q)

    def _sample(self, shape: Any = (), probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        return ops.cast(self._uniform(self._dims(shape, p.shape)) < p, self._dtype)


class Geometric(_OfProbability):
    """The number of failures before the first success.

    Args:
        probs: the probability of success, between 0 and 1.
        seed, dtype, name: as for Bernoulli.
    """

    dist_type = "Geometric"

    def _mean(self, probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        return (1.0 - p) / p

    def _mode(self, probs1: Any = None) -> Tensor:
        return ops.cast(ops.zeros_like(self._check_param_type(probs1)), self._dtype)

    def _var(self, probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        return (1.0 - p) / ops.square(p)

    def _entropy(self, probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        return -ops.log(p) - ops.xlogy(1.0 - p, 1.0 - p) / p

    def _log_prob(self, value: Tensor, probs1: Any = None) -> Tensor:
        v, p = self._check_value(value), self._check_param_type(probs1)
        failures = ops.floor(ops.maximum(v, 0.0))
        return ops.where(v < 0, -math.inf, ops.xlogy(failures, 1.0 - p) + ops.log(p))

    def _log_survival(self, value: Tensor, probs1: Any = None) -> Tensor:
        v, p = self._check_value(value), self._check_param_type(probs1)
        trials = ops.floor(ops.maximum(v, 0.0)) + 1.0
        return ops.where(v < 0, 0.0, ops.xlogy(trials, 1.0 - p))

    def _kl_loss(self, dist: str, probs1_b: Any, probs1: Any = None) -> Tensor:
        q, p = self._other(dist, probs1_b), self._check_param_type(probs1)
        failures = (1.0 - p) / p * (ops.log1p(-p) - ops.log1p(-q))
        return ops.log(p) - ops.log(q) + failures

    def _sample(self, shape: Any = (), probs1: Any = None) -> Tensor:
        p = self._check_param_type(probs1)
        u = self._open_uniform(self._dims(shape, p.shape))
        return ops.cast(ops.floor(ops.log(u) / ops.log1p(-p)), self._dtype)


class Poisson(OfRate):
    """The number of events of a constant rate.

    Args:
        rate: the mean, above 0.
        seed, dtype, name: as for Bernoulli.
    """

    dist_type = "Poisson"
    discrete = True

    def _mean(self, rate: Any = None) -> Tensor:
        return self._check_param_type(rate)

    def _mode(self, rate: Any = None) -> Tensor:
        return ops.floor(self._check_param_type(rate))

    def _var(self, rate: Any = None) -> Tensor:
        return self._mean(rate)

    def _log_prob(self, value: Tensor, rate: Any = None) -> Tensor:
        v, rate = self._check_value(value), self._check_param_type(rate)
        count = ops.maximum(v, 0.0)
        log = ops.xlogy(count, rate) - rate - ops.lgamma(count + 1.0)
        return ops.where(v < 0, -math.inf, log)

    def _order(self, value: Tensor, rate: Any) -> Any:
        """Values, and what the incomplete gamma functions of their probabilities take."""
        v = self._check_value(value) + ops.zeros_like(self._check_param_type(rate))
        rate = ops.broadcast_to(self._check_param_type(rate), v.shape)
        return v, ops.floor(ops.maximum(v, 0.0)) + 1.0, rate

    def _cdf(self, value: Tensor, rate: Any = None) -> Tensor:
        v, order, rate = self._order(value, rate)
        return ops.where(v < 0, 0.0, ops.igammac(order, rate))

    def _survival_function(self, value: Tensor, rate: Any = None) -> Tensor:
        v, order, rate = self._order(value, rate)
        return ops.where(v < 0, 1.0, ops.igamma(order, rate))

    def _kl_loss(self, dist: str, rate_b: Any, rate: Any = None) -> Tensor:
        rate_b, rate = self._other(dist, rate_b), self._check_param_type(rate)
        return rate * (ops.log(rate) - ops.log(rate_b)) - rate + rate_b

    def _sample(self, shape: Any = (), rate: Any = None) -> Tensor:
        rate = self._check_param_type(rate)
        return ops.cast(ops.poisson(self._dims(shape, rate.shape), rate, self._seed or None),
                        self._dtype)


class Categorical(Distribution):
    """Positions of a list of probabilities.

    Args:
        probs: (..., n) probabilities above 0, whose last axis adds up to 1.
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
        need_positive(kept, "Probabilities")
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

    def _mean(self, probs: Any = None) -> Tensor:
        return self._moment(self._check_param_type(probs), 1)

    def _mode(self, probs: Any = None) -> Tensor:
        return ops.cast(ops.argmax(self._check_param_type(probs), -1), self._dtype)

    def _var(self, probs: Any = None) -> Tensor:
        p = self._check_param_type(probs)
        return self._moment(p, 2) - ops.square(self._moment(p, 1))

    def _entropy(self, probs: Any = None) -> Tensor:
        p = self._check_param_type(probs)
        return -ops.sum(ops.xlogy(p, p), -1)

    def _at(self, value: Tensor, table: Tensor) -> Any:
        """Whole values of the shape of the answer, and what a table (..., n) has there."""
        v = ops.floor(self._check_value(value))
        count = table.shape[-1]
        dims = broadcast_all(v.shape, table.shape[:-1])
        v, wide = ops.broadcast_to(v, dims), ops.broadcast_to(table, (*dims, count))
        place = ops.cast(ops.clamp(v, 0.0, count - 1.0), int32)
        return v, ops.squeeze(ops.gather_elements(wide, -1, ops.unsqueeze(place, -1)), -1)

    def _log_prob(self, value: Tensor, probs: Any = None) -> Tensor:
        p = self._check_param_type(probs)
        v, log = self._at(value, ops.log(p))
        return ops.where(ops.logical_and(v >= 0, v < p.shape[-1]), log, -math.inf)

    def _cdf(self, value: Tensor, probs: Any = None) -> Tensor:
        p = self._check_param_type(probs)
        v, below = self._at(value, ops.cumsum(p, -1))
        return ops.where(v < 0, 0.0, ops.where(v < p.shape[-1] - 1, below, 1.0))

    def _kl_loss(self, dist: str, probs_b: Any, probs: Any = None) -> Tensor:
        q, p = self._other(dist, probs_b), self._check_param_type(probs)
        return ops.sum(ops.xlogy(p, p) - ops.xlogy(p, q), -1)

    def _sample(self, shape: Any = (), probs: Any = None) -> Tensor:
        p = self._check_param_type(probs)
        batch = p.shape[:-1]
        dims = self._dims(shape, batch)
        if 0 in dims:
            return ops.zeros(dims, self._dtype)
        rows = ops.reshape(p, (-1, p.shape[-1]))
        found = ops.multinomial(rows, math.prod(shape), True, self._seed or None)
        return ops.cast(ops.reshape(ops.transpose(found, (1, 0)), dims), self._dtype)
