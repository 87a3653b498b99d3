"""Norms of matrices."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import DType

from ...core.declared import misuse
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import axis_of, is_int, tensor
from . import elimination, orthogonal, reductions, shapes, statistics

_INF = float("inf")
_ORDERS = (2, -2, 1, -1, _INF, -_INF, "fro", "nuc")


def matrix_norm(
    A: Tensor, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:
    """The norms of matrices.

    Args:
        A: (..., m, n).
        ord: `"fro"` the root of the sum of squares, `"nuc"` the sum of singular values, 2 and -2
            the largest and smallest of them, inf and -inf the largest and smallest sum of a row's
            sizes, 1 and -1 of a column's.
        axis: the axes of rows and columns.
        keepdims: keep them as size 1.
        dtype: element type to convert to first.
    """
    return matrix_norms(A, ord, axis, keepdims, dtype, "axis")


def matrix_norms(
    A: Tensor, ord: Any, axis: Any, keepdims: bool, dtype: DType | None, name: str
) -> Tensor:
    """`matrix_norm`; a TypeError or ValueError about its axes calls them `name`."""
    what = "matrix_norm"
    if not isinstance(axis, (tuple, list)) or not all(is_int(d) for d in axis):
        raise misuse(what, f"'{name}' must be a tuple of 2 ints", repr(axis), TypeError)
    if len(axis) != 2:
        raise misuse(what, f"'{name}' must hold 2 axes", axis)
    if isinstance(ord, bool) or ord not in _ORDERS:
        raise misuse(what, f"'ord' must be one of {_ORDERS}", repr(ord))
    x = tensor(A, what, "A")
    x = x if dtype is None else cast_to(x, dtype)
    rows, columns = (axis_of(d, x.ndim, what, name) for d in axis)
    if rows == columns:
        raise misuse(what, f"'{name}' must hold different axes", axis)
    moved = shapes.moveaxis(x, (rows, columns), (-2, -1))
    out = _of_singular_values(moved, ord) if ord in (2, -2, "nuc") else \
        statistics.norm(moved, ord, (-2, -1))
    if not keepdims:
        return out
    return shapes.moveaxis(shapes.reshape(out, (*out.shape, 1, 1)), (-2, -1), (rows, columns))


def condition_number(A: Tensor, p: Any = None) -> Tensor:
    """How much a matrix can enlarge relative errors. Source: `mindspore.ops.cond`.

    Args:
        A: (..., n, n); for `p` None, 2 and -2 (..., m, n).
        p: an order of `matrix_norm`: the norm of A times that of its inverse. None is 2, the
            largest singular value over the smallest.
    """
    x = tensor(A, "cond", "A")
    if p in (None, 2, -2):
        order = 2 if p is None else p
        return matrix_norm(x, order) / matrix_norm(x, -order)
    return matrix_norm(x, p) * matrix_norm(elimination.inverse(x), p)


def _of_singular_values(x: Tensor, ord: Any) -> Tensor:
    values = orthogonal.singular_values(x)
    if ord == "nuc":
        return reductions.sum(values, -1)
    return reductions.amax(values, -1) if ord == 2 else reductions.amin(values, -1)
