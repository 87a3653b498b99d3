"""Initial values of parameters under MindSpore's import path, `common.initializer`."""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..tensors import initializer as _initializer
from ..tensors.initializer import *  # noqa: F403

__all__ = _initializer.__all__
__dir__ = public_names(__name__)
