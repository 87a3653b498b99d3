"""Distributions, and bijectors that make others of them.

Source: `mindspore.nn.probability`.
"""

from cellc_runtime.lazy import public_names

from . import bijector, distribution

__all__ = ["bijector", "distribution"]
__dir__ = public_names(__name__)
