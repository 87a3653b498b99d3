"""The normal distributions of a Bayesian layer's weights: before training, and trained.

Source: `mindspore.nn.probability.bnn_layers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, float32

from .... import ops
from ....core.declared import NUMBER, checks_arguments
from ....tensors.parameter import Parameter
from ....tensors.tensor import Tensor
from ...cell import Cell
from ..distribution import Normal


class NormalPrior(Cell):
    """The normal distribution that weights are expected to have.

    Args:
        dtype: of the draws.
        mean, std: of the distribution.
    """

    def __init__(self, dtype: DType = float32, mean: float = 0, std: float = 0.1) -> None:
        super().__init__()
        self.normal = Normal(mean, std, dtype=dtype)

    def construct(self, *inputs: Any) -> Any:
        """Return the distribution's answer: the name of its method, then its arguments."""
        return self.normal(*inputs)


class NormalPosterior(Cell):
    """A normal distribution for each weight, whose mean and width are trained.

    The standard deviation is softplus of a parameter, so that it stays above zero.

    Args:
        name: what the names of the two parameters begin with.
        shape: of the weights.
        dtype: of the parameters and draws.
        loc_mean, loc_std: the means are first drawn from this normal distribution.
        untransformed_scale_mean, untransformed_scale_std: so is what softplus is taken of.
    """

    @checks_arguments
    def __init__(
        self, name: str, shape: Sequence[int], dtype: DType = float32, loc_mean: float = 0,
        loc_std: float = 0.1, untransformed_scale_mean: float = -5,
        untransformed_scale_std: float = 0.1,
    ) -> None:
        super().__init__()
        what = self.cls_name
        self.mean = _draw_parameter(loc_mean, loc_std, shape, dtype, f"{name}_mean", what)
        self.untransformed_std = _draw_parameter(
            untransformed_scale_mean, untransformed_scale_std, shape, dtype,
            f"{name}_untransformed_std", what)
        self.normal = Normal(dtype=dtype)

    def construct(self, *inputs: Any) -> Any:
        """Return the answer of the distribution with these parameters."""
        return self.normal(*inputs, mean=self.mean, sd=ops.softplus(self.untransformed_std))


def _draw_parameter(mean: float, std: float, shape: Sequence[int], dtype: DType, name: str,
                    what: str) -> Parameter:
    """A parameter drawn by numpy's generator, as MindSpore's are."""
    value = np.random.normal(NUMBER(mean, what, "mean"), NUMBER(std, what, "std"), tuple(shape))
    return Parameter(Tensor(value, dtype), name=name)


def normal_post_fn(name: str, shape: Sequence[int]) -> NormalPosterior:
    """The posterior distribution that layers use where none is given."""
    return NormalPosterior(name, shape)


def prior_of(given: Any, name: str) -> Any:
    """A prior distribution, from itself or from what makes it."""
    return _normal(given() if callable(given) and not isinstance(given, Cell) else given, name)


def posterior_of(given: Callable[..., Any], shape: Sequence[int], parameter: str, name: str) -> Any:
    """The posterior distribution of a parameter of this shape and name."""
    try:
        made = given(shape=list(shape), name=parameter)
    except TypeError as e:
        raise TypeError(f"The type of `{name}` must be `NormalPosterior`") from e
    return _normal(made, name)


def _normal(made: Any, name: str) -> Any:
    if not isinstance(made, Cell) or not isinstance(getattr(made, "normal", None), Normal):
        raise TypeError(f"The type of distribution of `{name}` must be `normal`")
    return made


class Variational(Cell):
    """A layer whose weight and bias are drawn in each call: its distributions."""

    has_bias: bool
    weight_prior: Cell
    weight_posterior: Cell

    def _distributions(self, shape: Sequence[int], functions: Sequence[Any]) -> None:
        """Make the distributions of a weight of this shape, and of a bias if there is one."""
        weight_prior, weight_posterior, bias_prior, bias_posterior = functions
        self.weight_prior = prior_of(weight_prior, "weight_prior_fn")
        self.weight_posterior = posterior_of(weight_posterior, shape, "bnn_weight",
                                             "weight_posterior_fn")
        if self.has_bias:
            self.bias_prior = prior_of(bias_prior, "bias_prior_fn")
            self.bias_posterior = posterior_of(bias_posterior, shape[:1], "bnn_bias",
                                               "bias_posterior_fn")

    def _with_bias(self, x: Tensor) -> Tensor:
        """The output with a bias drawn for this call."""
        return ops.bias_add(x, self.bias_posterior("sample")) if self.has_bias else x

    def compute_kl_loss(self) -> Tensor:
        """How far the distributions are from those expected: the sum of their divergences."""
        loss = _distance(self.weight_prior, self.weight_posterior)
        return loss + _distance(self.bias_prior, self.bias_posterior) if self.has_bias else loss

    def _shown(self) -> str:
        """The parameters, as `extend_repr` shows them."""
        out = (f"weight_mean={self.weight_posterior.mean}, "
               f"weight_std={self.weight_posterior.untransformed_std}, has_bias={self.has_bias}")
        if self.has_bias:
            out += (f", bias_mean={self.bias_posterior.mean}, "
                    f"bias_std={self.bias_posterior.untransformed_std}")
        return out


def _distance(prior: Cell, posterior: Cell) -> Tensor:
    """The divergence of the posterior distribution from the prior one, over all elements."""
    mean, sd = posterior("get_dist_args")
    return ops.reduce_sum(prior("kl_loss", posterior("get_dist_type"), mean, sd))
