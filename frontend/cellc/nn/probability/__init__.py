"""Distributions, bijectors that make others of them, and layers whose weights are distributions.

Source: `mindspore.nn.probability`.
"""

from cellc_runtime.lazy import public_names

from . import bijector, bnn_layers, distribution

__all__ = ["bijector", "bnn_layers", "distribution"]
__dir__ = public_names(__name__)
