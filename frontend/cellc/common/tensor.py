"""Tensor under MindSpore's import path, `common.tensor`."""

from __future__ import annotations

from ..tensors.tensor import Tensor

__all__ = ["Tensor"]
