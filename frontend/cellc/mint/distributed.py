"""Collectives and groups with PyTorch's parameters; see `ops.communication`.

Source: `mindspore.mint.distributed`.
"""

from __future__ import annotations

from cellc_runtime.lazy import public_names

from ..ops.communication import *  # noqa: F403
from ..ops.communication import CommHandle as CommHandle
from ..ops.communication import __all__ as _all

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

__all__ = [n for n in _all if n not in (
    "TCPStore", "all_to_all_v_c", "gather_into_tensor", "scatter_tensor", "set_comm_ops_inplace")]

__dir__ = public_names(__name__)
