"""Numbers that follow from open sizes, in `Tensor(...)` and in functions of `math`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from cellc_compiler.ir.dims import Dim, is_symbolic
from cellc_compiler.ir.size_functions import OF_MATH

from ..core.module_names import plain
from ..tensors.promotion import default_dtype
from ..tensors.tensor import Tensor
from ..tracing.numbers import as_number, stacked
from .values import scalar, with_parts


def is_math_of_sizes(fn: Any, args: Sequence[Any]) -> bool:
    """Whether a call is one of a function of `math` that stays open."""
    return plain(fn, "__self__") is math and fn.__name__ in OF_MATH and any(map(is_symbolic, args))


def tensor_of_sizes(
    input_data: Any = None, dtype: Any = None, *args: Any, **kwargs: Any
) -> Tensor | None:
    """`Tensor(...)` of numbers some of which follow from open sizes; None if none does."""
    example = _changed(input_data, lambda _: 1)
    if example is input_data:
        return None
    Tensor(example, dtype, *args, **kwargs)  # refuses what it does not take
    if is_symbolic(input_data):
        return scalar(input_data, dtype or default_dtype(input_data))
    return stacked(_changed(input_data, _graph_number), dtype)


def _graph_number(value: Any) -> Any:
    return as_number(scalar(value), int if type(value) is Dim else float)


def _changed(value: Any, change: Callable[[Any], Any], depth: int = 8) -> Any:
    """A number, list or tuple with each number that follows from open sizes changed."""
    if is_symbolic(value):
        return change(value)
    if not depth or not isinstance(value, (list, tuple)):
        return value
    return with_parts(value, lambda v: _changed(v, change, depth - 1))
