"""Element types under MindSpore's import path, `common.dtype`."""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..tensors.dtype import *  # noqa: F403
from ..tensors.dtype import __all__ as __all__

__dir__ = public_names(__name__)
