"""The names that kernels may call, and what they are where a kernel runs as plain Python.

They are those of MindSpore's hybrid language (`mindspore.ops.kernel`), and some more functions of
numbers. A loop's kind (`parallel`, `vectorize`, ...) says how it might be scheduled and changes no
result: each is the loop of `range`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType

BUFFERS = ("output_tensor", "allocate")
"""Calls that create a tensor: a result, or memory of the kernel's own."""

LOOPS = ("range", "serial", "vectorize", "parallel", "reduce")  # Calls that count in a `for`

SCOPES = ("block_realize", "attr")  # Calls of a `with`

FLOAT: Mapping[str, Any] = {
    "sqrt": np.sqrt, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.asarray(x).dtype.type(math.erf(x)),
}
"""Functions of a number that give a float."""

SAME: Mapping[str, Any] = {
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "round": np.round,
}
"""Functions that keep the type of their number."""

TESTS: Mapping[str, Any] = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
"""Questions about a number."""

PAIRS: Mapping[str, Any] = {
    "power": np.power, "atan2": np.arctan2, "ceil_div": lambda a, b: (a + b - 1) // b,
}
"""Functions of two numbers."""

NUMBERS: tuple[DType, ...] = (
    dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32,
    dtypes.float64,
)
"""The element types that kernels compute with."""

CASTS: Mapping[str, DType] = {
    **{d.name: d for d in NUMBERS},
    "bool": dtypes.bool_, "int": dtypes.int64, "float": dtypes.float64,
}
"""Conversions, by name."""

ARITY: Mapping[str, int] = {
    **dict.fromkeys((*FLOAT, *SAME, *TESTS, *CASTS), 1), **dict.fromkeys(PAIRS, 2),
}
"""How many numbers each of these functions takes."""


def allocate(shape: Sequence[int], dtype: Any = "float32", scope: str = "global") -> Any:
    """A tensor of zeros."""
    return np.zeros(shape, dtype.numpy if isinstance(dtype, DType) else dtype)


def grid(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All positions of a shape, in order."""
    return product(*map(range, extents))


PYTHON: Mapping[str, Any] = {
    **dict.fromkeys(BUFFERS, allocate), **dict.fromkeys(LOOPS, range), "grid": grid,
    **dict.fromkeys(SCOPES, lambda *_: nullcontext()), **FLOAT, **SAME, **TESTS, **PAIRS,
    **{name: d.numpy.type for name, d in CASTS.items()},
    "int": int, "float": float, "bool": bool, "max": max, "min": min, "len": len,
}
"""The meaning of the names where a kernel runs as plain Python, over numpy arrays."""

CALLABLE = frozenset(PYTHON)  # Every name that a kernel may call
