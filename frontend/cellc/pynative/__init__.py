"""PyNative mode: ops run at once through compiled kernels; gradients by recording."""

from __future__ import annotations

from .. import common as _common  # noqa: F401  isort: skip (first of all)
