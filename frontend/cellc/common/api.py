"""MindSpore's import path for `jit`."""

from ..jit import jit

__all__ = ["jit"]
