"""The distributions. Source: `mindspore.nn.probability.distribution`."""

from cellc_runtime.lazy import public_names

from ..base import Distribution
from ..transforms import TransformedDistribution
from .bounded import Beta, Exponential, Gamma, Uniform
from .discrete import Bernoulli, Categorical, Geometric, Poisson
from .location_scale import Cauchy, HalfNormal, Laplace, Logistic, Normal, StudentT
from .mapped import Gumbel, LogNormal

__all__ = [
    "Bernoulli", "Beta", "Categorical", "Cauchy", "Distribution", "Exponential", "Gamma",
    "Geometric", "Gumbel", "HalfNormal", "Laplace", "LogNormal", "Logistic", "Normal", "Poisson",
    "StudentT", "TransformedDistribution", "Uniform",
]
__dir__ = public_names(__name__)
