"""Tensors, parameters, dtypes, initialisers and seeds, under MindSpore's import paths."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .parameter import Parameter, ParameterTuple
from .seed import get_seed, set_seed
from .tensor import Tensor

__all__ = ["Parameter", "ParameterTuple", "Tensor", "get_seed", "set_seed"]


def __getattr__(name: str) -> Any:
    if name == "_Function":  # it stands on what stands on this package
        return import_module("._grad_function", __name__)._Function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
