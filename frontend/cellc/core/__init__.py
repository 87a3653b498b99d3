"""The meeting point of both modes: dispatch of ops, the tracer, compiled networks."""

from __future__ import annotations

from .. import common as _common  # noqa: F401  isort: skip (first of all)
