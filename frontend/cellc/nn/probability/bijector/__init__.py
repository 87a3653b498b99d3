"""The bijectors. Source: `mindspore.nn.probability.bijector`."""

from cellc_runtime.lazy import public_names

from ..transforms import Bijector
from .maps import Exp, GumbelCDF, Invert, PowerTransform, ScalarAffine, Softplus

__all__ = ["Bijector", "Exp", "GumbelCDF", "Invert", "PowerTransform", "ScalarAffine", "Softplus"]
__dir__ = public_names(__name__)
