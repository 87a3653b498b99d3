"""MindSpore's import path for functions with a gradient of their own."""

from __future__ import annotations

from ..transforms.function import Function as _Function

__all__ = ["_Function"]
