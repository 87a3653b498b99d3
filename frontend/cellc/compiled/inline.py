"""Calls of users' functions while a graph is traced: interpreted from their source into it.

The interpreter (`cellc.lang`) loads at the first call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellc_runtime.lazy import lazy_imports

from ..core.dispatch import active_tracer
from ..tracing.tracer import Tracer

with lazy_imports(__name__):
    from .. import lang


def inline(tracer: Tracer, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A call made by library code while a graph is traced: interpreted into that graph."""
    return lang.interpret_call(tracer, fn, args, kwargs)


def call_here(fn: Any, args: Sequence[Any]) -> Any:
    """A call of a user's function in the mode at hand."""
    tracer = active_tracer()
    return fn(*args) if tracer is None else inline(tracer, fn, args, {})
