"""Linear algebra, cosine transforms and optimization as scipy has them, on Tensors.

Source: `mindspore.scipy`.
"""

from . import fft, linalg, optimize

__all__ = ["fft", "linalg", "optimize"]
