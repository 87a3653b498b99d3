"""Norms of matrices under the names of `ops`; they are those of `mint.linalg`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType

from ..common.tensor import Tensor
from ..mint import linalg


def matrix_norm(
    A: Tensor, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:
    """The norms of matrices; see `mint.linalg.matrix_norm`, which has the same errors.

    Args:
        A: (..., m, n).
        ord: `"fro"`, `"nuc"`, 2, -2, 1, -1, inf or -inf.
        axis: the axes of rows and columns.
        keepdims: keep them as size 1.
        dtype: element type to convert to first.

    Source: `mindspore.ops.matrix_norm`.
    """
    out: Tensor = linalg.matrix_norm(A, ord, axis, keepdims, dtype=dtype)
    return out
