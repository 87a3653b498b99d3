"""Linear algebra, cosine transforms and optimization as scipy has them, on Tensors.

Source: `mindspore.scipy`.
"""

from cellc_runtime.lazy import public_names

from . import fft, linalg, ops, optimize

__all__ = ["fft", "linalg", "ops", "optimize"]
__dir__ = public_names(__name__)
