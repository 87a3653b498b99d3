"""Collectives and groups with PyTorch's parameters; see `ops.communication`.

Source: `mindspore.mint.distributed`.
"""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..ops.communication import *  # noqa: F403
from ..ops.communication import CommHandle as CommHandle
from ..ops.communication import __all__ as __all__

__dir__ = public_names(__name__)
