"""Checks of what the functions given to loops return."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.declared import misuse
from ...tensors.tensor import Tensor

_NUMBERS = (bool, int, float, complex, np.generic)


def pair(value: Any) -> Any:
    """Return the result of a `scan`'s step, which must be a tuple of two."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise misuse("Scan", "'loop_func' must return a tuple of two, what is carried and the "
                     f"result of the step, but returned {_describe(value)}")
    return value


def steady(what: str, before: Any, after: Any) -> Any:
    """`after`, which a loop carries in the place of `before`."""
    _compare(what, before, after, "")
    return after


def _compare(what: str, before: Any, after: Any, path: str) -> None:
    if isinstance(before, Tensor):
        if not isinstance(after, Tensor):
            fine = before.shape == () and isinstance(after, _NUMBERS)
        else:
            fine = before.shape == after.shape and before.dtype == after.dtype
    elif isinstance(before, _NUMBERS):
        fine = isinstance(after, _NUMBERS) or (isinstance(after, Tensor) and after.shape == ())
    elif isinstance(before, (tuple, list)):
        fine = type(after) is type(before) and len(after) == len(before)
        if fine:
            for i, (a, b) in enumerate(zip(before, after, strict=True)):
                _compare(what, a, b, f"{path}[{i}]")
    elif isinstance(before, dict):
        fine = isinstance(after, dict) and list(before) == list(after)
        if fine:
            for key, value in before.items():
                _compare(what, value, after[key], f"{path}[{key!r}]")
    else:
        fine = type(after) is type(before)
    if not fine:
        place = f" in the place {path}" if path else ""
        raise misuse(what, "'loop_func' must return what it is given in structure, shape and "
                     f"dtype, but{place} it is given {_describe(before)} and returns "
                     f"{_describe(after)}")


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a Tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    return f"a {type(value).__name__}"
