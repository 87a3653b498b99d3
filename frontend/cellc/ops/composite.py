"""MindSpore's import path for gradient and composite operations; names as in `cellc.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__path__: list[str] = []  # MindSpore has a package here: `old_paths` finds what is below

if TYPE_CHECKING:
    from . import *  # noqa: F403
else:
    from .. import ops

    def __getattr__(name: str) -> Any:
        return getattr(ops, name)
