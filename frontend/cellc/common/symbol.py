"""Symbol under MindSpore's import path, `common.symbol`."""

from __future__ import annotations

from ..tensors.symbol import Symbol

__all__ = ["Symbol"]
