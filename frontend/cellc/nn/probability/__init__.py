"""Distributions, bijectors that make others of them, and layers whose weights are distributions.

Source: `mindspore.nn.probability`.
"""

from cellc_runtime.lazy import public_names

from . import bijector, distribution
from . import bnn_layers as bnn_layers

__all__ = ["bijector", "distribution"]
__dir__ = public_names(__name__)
