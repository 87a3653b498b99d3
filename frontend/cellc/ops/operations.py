"""MindSpore's import path for the primitive classes; the names are those of `cellc.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import *  # noqa: F403
else:
    from .. import ops

    def __getattr__(name: str) -> Any:
        return getattr(ops, name)
