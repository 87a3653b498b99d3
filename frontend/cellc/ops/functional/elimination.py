"""Square matrices: elimination, and what follows from it.

One loop over columns (a `scan`, so one op in both modes) does Gaussian elimination with partial
pivoting (Golub & Van Loan, 3.4). Its gradient is that of the loop.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import bool_, int64

from ...core.declared import misuse
from ...core.dispatch import apply, scan
from ...core.native import native
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor
from ..arguments import boolean, tensor
from ..operands import operands_of
from . import arith, creation, grid, indexing, joining, reductions, shapes
from .linalg import as_batch, at, substitute


def _square(x: Any, what: str, name: str = "input") -> Tensor:
    """A batch of square matrices of floats."""
    (t,) = operands_of(what, f"{name} float (..., n, n)", x)
    if t.shape[-1] < 1:
        raise misuse(what, f"'{name}' must have at least one row, but has shape {t.shape}")
    return t


def swapped(x: Tensor, i: Tensor, pivot: Tensor, rows: Tensor) -> Tensor:
    """Rows i and pivot (B, 1) of (B, n, m) exchanged."""
    here, there = arith.eq(rows, i), arith.eq(rows, pivot)
    order = arith.where(here, pivot, arith.where(there, i, rows))
    index = shapes.broadcast_to(shapes.expand_dims(order, 2), x.shape)
    return indexing.gather_elements(x, 1, index)


def _eliminate(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """One column: swap the row of the largest element up and take it away from those below.

    Carried: the matrices with right sides beside them (B, n, m); whether rows were swapped an odd
    number of times (B). Output: the pivots (B).
    """
    x, odd = carried
    rows = captures[0]
    column = at(x, i, 2)
    size = arith.where(arith.ge(rows, i), arith.abs(shapes.squeeze(column, 2)), -1.0)
    pivot = shapes.expand_dims(reductions.argmax(size, 1), 1)
    x = swapped(x, i, pivot, rows)
    odd = arith.ne(odd, shapes.squeeze(pivot, 1) != i)
    top = at(x, i, 1)
    head = at(top, i, 2)
    factor = at(x, i, 2) / arith.where(head == 0.0, 1.0, head)
    below = shapes.expand_dims(arith.gt(rows, i), 2)
    x = arith.sub(x, arith.where(below, factor * top, 0.0))
    return [x, odd], [shapes.reshape(head, (head.shape[0],))]


def _reduced(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(B, n, m) with zeros below the diagonal; its pivots (n, B); the sign of the swaps (B)."""
    rows = apply("iota", shape=(1, x.shape[1]), axis=1, dtype=int64)
    odd = creation.zeros((x.shape[0],), bool_)
    (upper, odd), (pivots,) = scan(("eliminate",), [x, odd], [], [rows], x.shape[1], _eliminate)
    return upper, pivots, arith.where(odd, -1.0, 1.0)


def solved(a: Tensor, b: Tensor) -> Tensor:
    """x of a @ x = b for (B, n, n) and (B, n, m)."""
    n = a.shape[1]
    upper, _, _ = _reduced(joining.concat((a, b), 2))
    return substitute(joining.part(upper, 2, 0, n), joining.part(upper, 2, n, n + b.shape[2]))


def _empty(shape: Sequence[int]) -> bool:
    return 0 in shape


@native
def inverse(input: Tensor) -> Tensor:
    """The inverses of square matrices (..., n, n); infinities and NaNs where there is none."""
    x = _square(input, "inverse")
    if _empty(x.shape):
        return x
    n = x.shape[-1]
    eye = shapes.broadcast_to(creation.eye(n, None, x.dtype), as_batch(x).shape)
    return shapes.reshape(solved(as_batch(x), eye), x.shape)


@native
def matrix_solve(matrix: Tensor, rhs: Tensor, adjoint: bool = False) -> Tensor:
    """x of matrix @ x = rhs, for (..., n, n) and (..., n, k).

    Args:
        adjoint: solve with the transposed matrices.
    """
    what = "matrix_solve"
    a, b = _square(matrix, what, "matrix"), tensor(rhs, what, "rhs")
    if a.dtype != b.dtype:
        raise misuse(what, "'matrix' and 'rhs' must have one type", f"{a.dtype} and {b.dtype}",
                     TypeError)
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise misuse(what,
                     f"'rhs' must have shape (..., {a.shape[-1]}, k), but has shape {b.shape}")
    if boolean(adjoint, what, "adjoint"):
        a = shapes.swapaxes(a, -1, -2)
    lead = broadcast_all(a.shape[:-2], b.shape[:-2])
    a = shapes.broadcast_to(a, (*lead, *a.shape[-2:]))
    b = shapes.broadcast_to(b, (*lead, *b.shape[-2:]))
    if _empty(b.shape):
        return b
    return shapes.reshape(solved(as_batch(a), as_batch(b)), b.shape)


@native
def det(input: Tensor) -> Tensor:
    """The determinant of each square matrix of (..., n, n), of shape (...); by LU decomposition.
    Floats only."""
    x = _square(input, "det")
    if _empty(x.shape):
        return creation.zeros(x.shape[:-2], x.dtype)
    _, pivots, sign = _reduced(as_batch(x))
    return shapes.reshape(cast_to(reductions.prod(pivots, 0) * sign, x.dtype), x.shape[:-2])


@native
def slogdet(input: Tensor) -> tuple[Tensor, Tensor]:
    """The signs of determinants and the logarithms of their sizes; 0 and -inf if singular."""
    x = _square(input, "slogdet")
    lead = x.shape[:-2]
    if _empty(x.shape):
        return creation.zeros(lead, x.dtype), creation.zeros(lead, x.dtype)
    _, pivots, sign = _reduced(as_batch(x))
    total = reductions.prod(arith.sign(pivots), 0) * sign
    size = reductions.sum(apply("log", arith.abs(pivots)), 0)
    return (shapes.reshape(cast_to(total, x.dtype), lead),
            shapes.reshape(cast_to(size, x.dtype), lead))


@native
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant of each square matrix of (..., n, n): -infinity for 0, NaN
    where it is negative."""
    sign, size = slogdet(input)
    return arith.where(sign < 0.0, math.nan, size)


def matrix_determinant(input: Tensor) -> Tensor:
    """`det` under its older name: the determinant of each square matrix of (..., n, n), of shape
    (...)."""
    return det(input)


@native
def log_matrix_determinant(input: Tensor) -> tuple[Tensor, Tensor]:
    """`slogdet` under its older name: the sign and the logarithm of the size of the determinants of
    (..., n, n)."""
    return slogdet(input)


# --- positive definite matrices -------------------------------------------------------------------


def _factor(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """One column of a Cholesky factor. Carried: what is left of the matrices (B, n, n)."""
    x = carried[0]
    rows = captures[0]
    column = at(x, i, 2)
    head = arith.sqrt(at(column, i, 1))
    below = shapes.expand_dims(arith.ge(rows, i), 2)
    line = arith.where(below, column / head, 0.0)
    return [arith.sub(x, line * shapes.swapaxes(line, 1, 2))], [shapes.squeeze(line, 2)]


@native
def cholesky(input_x: Tensor, upper: bool = False) -> Tensor:
    """The lower triangles L of symmetric positive definite matrices: L @ L.T is the matrix.

    A matrix that is not positive definite gives NaNs.

    Args:
        upper: give L.T.
    """
    what = "cholesky"
    x = _square(input_x, what, "input_x")
    transposed = boolean(upper, what, "upper")
    if _empty(x.shape):
        return x
    n = x.shape[-1]
    rows = apply("iota", shape=(1, n), axis=1, dtype=int64)
    _, (columns,) = scan(("cholesky",), [as_batch(x)], [], [rows], n, _factor)
    out = shapes.transpose(columns, (1, 0, 2) if transposed else (1, 2, 0))
    return shapes.reshape(out, x.shape)


@native
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """x of A @ x = input, for the Cholesky factor `input2` of A.

    Args:
        input: (..., n, k).
        input2: (..., n, n), a lower triangle, or an upper one with `upper`.
    """
    factor = _square(input2, "cholesky_solve", "input2")
    low = shapes.swapaxes(grid.triu(factor), -1, -2) if boolean(upper, "cholesky_solve", "upper") \
        else grid.tril(factor)
    return matrix_solve(low, matrix_solve(low, input), True)


@native
def cholesky_inverse(input_x: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L L^T, (n, n), for its Cholesky factor L, which is lower triangular; with
    `upper=True` that of U^T U for an upper one."""
    factor = _square(input_x, "cholesky_inverse", "input_x")
    if factor.ndim != 2:
        raise misuse("cholesky_inverse",
                     f"'input_x' must be a matrix, but has shape {factor.shape}")
    eye = creation.eye(factor.shape[-1], None, factor.dtype)
    return cholesky_solve(eye, factor, upper)
