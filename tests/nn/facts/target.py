"""The library the facts are about: cellc, or MindSpore where they are recorded."""

from __future__ import annotations

import builtins
import importlib
import os
from collections.abc import Callable
from typing import Any

ms: Any = importlib.import_module(os.environ.get("CELLC_FACTS_OF", "cellc"))
nn, ops = ms.nn, ms.ops
Tensor, Parameter, ParameterTuple = ms.Tensor, ms.Parameter, ms.ParameterTuple


def raised(error: BaseException) -> str:
    """The kind of an exception: its nearest builtin base."""
    kind = next(c for c in type(error).__mro__ if getattr(builtins, c.__name__, None) is c)
    return f"raises {kind.__name__}"


def attempt(action: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call gives, or the kind of its exception."""
    try:
        return action(*args, **kwargs)
    except Exception as e:
        return raised(e)
