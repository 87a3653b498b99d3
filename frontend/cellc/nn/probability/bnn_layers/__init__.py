"""Layers of Bayesian networks. Source: `mindspore.nn.probability.bnn_layers`."""

from cellc_runtime.lazy import public_names

from .layers import ConvReparam, DenseLocalReparam, DenseReparam, WithBNNLossCell
from .normals import NormalPosterior, NormalPrior

__all__ = [
    "ConvReparam", "DenseLocalReparam", "DenseReparam", "NormalPosterior", "NormalPrior",
    "WithBNNLossCell",
]
__dir__ = public_names(__name__)
