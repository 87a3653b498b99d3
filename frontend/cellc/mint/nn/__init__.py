"""`mint.nn`: so far its functions, in `functional`."""

from __future__ import annotations

from . import functional

__all__ = ["functional"]
