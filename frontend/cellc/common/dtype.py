"""Element types under MindSpore's import path, `common.dtype`."""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..tensors import dtype as _dtype
from ..tensors.dtype import *  # noqa: F403

__all__ = _dtype.__all__
__dir__ = public_names(__name__)
