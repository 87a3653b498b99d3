"""Printed forms of tensors, as MindSpore prints them.

`str` is numpy's. `repr` has rules of its own: fixed widths for floats, an ellipsis in a vector of
more than 1000 elements and in any longer axis than 6 otherwise, and vectors broken after 12
elements (24 where the width of elements varies).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, bfloat16, bool_, float16

Array = np.ndarray[Any, Any]

_EDGE = 3
_LONG_VECTOR = 1000
_LONG_AXIS = 2 * _EDGE


def tensor_str(array: Array, dtype: DType) -> str:
    """Return the text of `print(tensor)`."""
    if dtype is not bfloat16:
        return _number(array[()]) if array.ndim == 0 and dtype.is_float else str(array)
    wide = array.astype(np.float32)
    if wide.ndim == 0:
        return f"{float(wide):f}"
    return np.array2string(wide, formatter={"float": lambda x: f"{x:f}"}, threshold=1000)


def _number(x: Any) -> str:
    """A float by the shortest digits that name it (the same with every version of numpy)."""
    if not np.isfinite(x) or x == 0 or 1e-4 <= abs(float(x)) < 1e16:
        return np.format_float_positional(x, unique=True, trim="0")
    return np.format_float_scientific(x, unique=True, trim="-", exp_digits=2)


def tensor_repr(array: Array, dtype: DType) -> str:
    """Return the text of `repr(tensor)`."""
    return f"Tensor(shape={list(array.shape)}, dtype={dtype!s}, value={_value(array, dtype)})"


def _value(array: Array, dtype: DType) -> str:
    gap = "\n" if array.ndim > 1 else " "
    if array.size == 0:
        return gap
    if array.ndim == 0:
        return gap + _scalar(array[()], dtype)
    cells = _cells(_select_printed(array), dtype)
    if array.ndim == 1:
        broken = 12 if (dtype.is_float and dtype is not bfloat16) or dtype is bool_ else 24
        return gap + _vector(cells, array.shape[0], broken)
    return gap + _format_nested(cells, array.shape, 1)


def _select_printed(array: Array) -> Array:
    """The elements that are printed: the edges of long axes."""
    limit = _LONG_VECTOR if array.ndim == 1 else _LONG_AXIS
    for axis, d in enumerate(array.shape):
        if d > limit:
            keep = np.r_[0:_EDGE, d - _EDGE : d]
            array = np.take(array, keep, axis)
    return array


# --- elements -------------------------------------------------------------------------------------


def _complex(x: Any) -> str:
    return f"{x.real:g}{x.imag:+g}j"


def _scalar(x: Any, dtype: DType) -> str:
    if dtype.is_complex:
        return _complex(x)
    return f"{float(x):g}" if dtype.is_float else str(x.item())


def _cells(array: Array, dtype: DType) -> Array:
    """The elements as strings of one width (complex ones as long as they are)."""
    show: Callable[[Any], str]
    if dtype.is_complex:
        show, width = _complex, 0
    elif dtype is bool_:
        show, width = (lambda x: str(bool(x))), 5
    elif dtype is float16:
        show, width = (lambda x: f"{x:.4e}"), 11
    elif dtype is bfloat16:
        show, width = (lambda x: f"{float(x):g}"), -1
    elif dtype.is_float:
        show, width = (lambda x: f"{x:.8e}"), 15
    else:
        show, width = str, -1
    texts = [show(x) for x in array.ravel()]
    if width < 0:
        width = max(len(t) for t in texts)
    return np.array([t.rjust(width) for t in texts], dtype=object).reshape(array.shape)


# --- layout ---------------------------------------------------------------------------------------


def _row(cells: Array, length: int) -> str:
    if length <= len(cells):
        return ", ".join(cells)
    return ", ".join(cells[:_EDGE]) + " ... " + ", ".join(cells[_EDGE:])


def _vector(cells: Array, length: int, broken: int) -> str:
    if length > len(cells):
        return f"[{_row(cells, length)}]"
    lines = [", ".join(cells[i : i + broken]) for i in range(0, length, broken)]
    return "[" + ", \n ".join(lines) + ("\n " if length % broken == 0 else "") + "]"


def _format_nested(cells: Array, shape: tuple[int, ...], depth: int) -> str:
    if len(shape) == 1:
        return f"[{_row(cells, shape[0])}]"
    pad = "\n" + " " * depth
    parts = [_format_nested(c, shape[1:], depth + 1) for c in cells]
    if shape[0] > len(parts):
        head, tail = f",{pad}".join(parts[:_EDGE]), f",{pad}".join(parts[_EDGE:])
        return f"[{head},{pad}...{pad}{tail}]"
    return "[" + f",{pad}".join(parts) + "]"
