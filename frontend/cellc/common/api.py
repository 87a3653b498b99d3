"""MindSpore's import path for `jit`."""

from ..jitted import jit

__all__ = ["jit"]
