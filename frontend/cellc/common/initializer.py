"""Initial values of parameters under MindSpore's import path, `common.initializer`."""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..tensors.initializer import *  # noqa: F403
from ..tensors.initializer import __all__ as __all__

__dir__ = public_names(__name__)
