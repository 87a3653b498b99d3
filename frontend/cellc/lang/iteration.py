"""What a loop, star or comprehension walks over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.tensor import Tensor
from .trust import own_method
from .values import RuntimeRange, Text
from .world import refuse_iterators

if TYPE_CHECKING:
    from .frames import Frame
    from .interpreter import Interpreter

LIMIT = 1_000_000
"""Elements of a static loop before it is taken to be endless."""


def items(vm: Interpreter, value: Any, frame: Frame) -> list[Any]:
    """The elements of anything iterable; a tensor gives its rows.

    Raises:
        TypeError: it is not iterable, or its length depends on run-time values.
    """
    if isinstance(value, Tensor):
        if not value.shape:
            raise TypeError("iteration over a 0-d tensor")
        return [value[i] for i in range(value.shape[0])]
    if isinstance(value, (RuntimeRange, Text)):
        raise TypeError(
            "a range with run-time bounds can only be walked by a 'for' statement"
            if isinstance(value, RuntimeRange) else "a string that holds tensors has no characters"
        )
    if isinstance(value, (list, tuple, dict, set, range, str, np.ndarray)):
        return list(value)
    refuse_iterators(vm, [value], frame)
    found = own_method(value, "__iter__")
    if found is not None and not isinstance(value, Iterator):
        return items(vm, vm.call(found, [value], {}, frame), frame)
    iterator: Iterator[Any] = iter(value)
    out: list[Any] = []
    for element in iterator:
        out.append(element)
        if len(out) > LIMIT:
            raise ValueError(f"the loop does not end: {type(value).__name__} gave {LIMIT} elements")
    return out
