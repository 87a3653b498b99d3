"""MindSpore's import path for `jit`."""

from ..compiled.jit import jit

__all__ = ["jit"]
