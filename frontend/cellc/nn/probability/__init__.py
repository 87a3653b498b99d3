"""Distributions, bijectors that transform distributions, and layers with distributions as weights.

Source: `mindspore.nn.probability`.
"""

from cellc_runtime.lazy import public_names

from . import bijector, distribution
from . import bnn_layers as bnn_layers

__all__ = ["bijector", "distribution"]
__dir__ = public_names(__name__)
