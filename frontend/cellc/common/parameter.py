"""Parameter and ParameterTuple under MindSpore's import path, `common.parameter`."""

from __future__ import annotations

from ..tensors.parameter import Parameter, ParameterTuple

__all__ = ["Parameter", "ParameterTuple"]
