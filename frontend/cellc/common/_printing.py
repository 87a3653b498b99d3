"""Printed forms of tensors, as MindSpore prints them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType


def tensor_str(array: np.ndarray[Any, Any], dtype: DType) -> str:
    """What `print(tensor)` shows."""
    return str(array)


def tensor_repr(array: np.ndarray[Any, Any], dtype: DType) -> str:
    """What `repr(tensor)` shows."""
    return f"Tensor(shape={list(array.shape)}, dtype={dtype!s}, value= {array})"
