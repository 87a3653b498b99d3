"""Linear algebra as `scipy.linalg` has it.

Ints count as float64. `overwrite_a`, `overwrite_b` and `check_finite` change nothing: Tensors are
never overwritten here, and what is not finite gives what arithmetic gives.

Source: `mindspore.scipy.linalg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import DType, complex64, complex128, float32, float64, int32, int64
from cellc_runtime.lazy import public_names

from .. import ops
from ..core.declared import misuse
from ..ops.arguments import boolean, tensor
from ..ops.functional import decompositions, orthogonal
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor

_TYPES = (int32, int64, float32, float64)


def _flags(what: str, **flags: Any) -> None:
    for name, flag in flags.items():
        boolean(flag, what, name)


def _numbers(x: Any, what: str, name: str, more: tuple[DType, ...] = ()) -> Tensor:
    """A Tensor of floats; ints as float64."""
    t = tensor(x, what, name)
    if t.dtype not in (*_TYPES, *more):
        raise misuse(what, f"the data type of '{name}' should be one of "
                     f"{', '.join(map(str, (*_TYPES, *more)))}", t.dtype, TypeError)
    return cast_to(t, float64) if t.dtype in (int32, int64) else t


def _matrix(
    x: Any, what: str, name: str = "a", square: bool = True, more: tuple[DType, ...] = ()
) -> Tensor:
    """A matrix of floats, square if requested."""
    t = _numbers(x, what, name, more)
    if t.ndim != 2:
        raise misuse(what, f"the dimension of '{name}' should be 2", t.ndim)
    if square and t.shape[0] != t.shape[1]:
        raise misuse(what, f"the matrix '{name}' should be a square matrix like (N, N)", t.shape)
    return t


def block_diag(*arrs: Tensor) -> Tensor:
    """The matrices along the diagonal of one that is zero elsewhere.

    Args:
        arrs: Tensors of 2 axes at most; a vector is a row.
    """
    if not arrs:
        return ops.zeros((1, 0), float32)
    rows = []
    for i, x in enumerate(arrs):
        t = tensor(x, "block_diag", f"arrs[{i}]")
        if t.ndim > 2:
            raise misuse("block_diag",
                         f"Tensors of at most 2 axes are needed, but arrs[{i}] has shape {t.shape}")
        rows.append(ops.reshape(cast_to(t, arrs[0].dtype), (1,) * (2 - t.ndim) + t.shape))
    return ops.block_diag(*rows)


def inv(a: Tensor, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The inverse of a square matrix; not finite where there is none.

    Args:
        a: float32, float64, or ints.
        overwrite_a, check_finite: accepted, see the module.
    """
    _flags("inv", overwrite_a=overwrite_a, check_finite=check_finite)
    return ops.inverse(_matrix(a, "inv"))


def det(a: Tensor, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The determinant of a square matrix; arguments as of `inv`."""
    _flags("det", overwrite_a=overwrite_a, check_finite=check_finite)
    return ops.det(_matrix(a, "det"))


def cholesky(
    a: Tensor, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Tensor:
    """The Cholesky factor of a symmetric positive definite matrix: U with U^T U = a, or L.

    Args:
        a: float32, float64, or ints; NaN results where it is not positive definite.
        lower: give L with L L^T = a.
        overwrite_a, check_finite: accepted, see the module.
    """
    _flags("cholesky", lower=lower, overwrite_a=overwrite_a, check_finite=check_finite)
    return ops.cholesky(_matrix(a, "cholesky"), upper=not lower)


def cho_factor(
    a: Tensor, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """The Cholesky factor of a matrix, and whether it is a lower one, for `cho_solve`.

    Arguments and errors are those of `cholesky`.
    """
    return cholesky(a, lower, overwrite_a, check_finite), lower


def cho_solve(
    c_and_lower: tuple[Tensor, bool], b: Tensor, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """x with a @ x = b, for the Cholesky factor of a.

    Args:
        c_and_lower: what `cho_factor` gives.
        b: (n) or (n, k).
        overwrite_b, check_finite: accepted, see the module.
    """
    what = "cho_solve"
    factor, lower = c_and_lower
    _flags(what, lower=lower, overwrite_b=overwrite_b, check_finite=check_finite)
    c, y = _matrix(factor, what, "c"), _numbers(b, what, "b")
    first = solve_triangular(c, y, trans="N" if lower else "T", lower=lower)
    return solve_triangular(c, first, trans="T" if lower else "N", lower=lower)


_TRANS: dict[Any, str] = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def solve_triangular(
    a: Tensor, b: Tensor, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False,
    overwrite_b: bool = False, debug: Any = None, check_finite: bool = True,
) -> Tensor:
    """x with a @ x = b for a triangular a.

    Args:
        a: (..., n, n), float32, float64 or ints, of which one triangle is read.
        b: (..., n) or (..., n, k), of the same type.
        trans: 0 or "N": a; 1 or "T": a transposed; 2 or "C": and conjugated.
        lower: the lower triangle, else the upper one.
        unit_diagonal: take the diagonal for ones.
        overwrite_b, debug, check_finite: accepted and not used.
    """
    what = "solve_triangular"
    _flags(what, lower=lower, unit_diagonal=unit_diagonal)
    x, y = tensor(a, what, "a"), tensor(b, what, "b")
    if x.dtype != y.dtype:
        raise misuse(what, "the types of 'a' and 'b' must be the same", f"{x.dtype} and {y.dtype}",
                     TypeError)
    if isinstance(trans, bool) or trans not in _TRANS:
        raise misuse(what, "'trans' must be in [0, 1, 2, 'N', 'T', 'C']", repr(trans))
    kind = float32 if x.dtype in (int32, int64) else x.dtype
    x, y = cast_to(x, kind), cast_to(y, kind)
    vector = y.ndim == x.ndim - 1
    right = ops.expand_dims(y, -1) if vector else y
    out, _ = orthogonal.triangular_solve(right, x, not lower, _TRANS[trans] != "N", unit_diagonal)
    return ops.squeeze(out, -1) if vector else out


def lu_factor(
    a: Tensor, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, Tensor]:
    """The LU decomposition of a square matrix, with pivoting.

    Args:
        a: float32, float64, or ints.
        overwrite_a, check_finite: accepted, see the module.

    Returns:
        L below the diagonal and U in one matrix, and with which row each was exchanged, int32,
        from 0.
    """
    _flags("lu_factor", overwrite_a=overwrite_a, check_finite=check_finite)
    x = _matrix(a, "lu_factor")
    packed, pivots = decompositions.lu_packed(ops.expand_dims(x, 0))
    return ops.squeeze(packed, 0), cast_to(ops.squeeze(pivots, 0), int32)


def lu(
    a: Tensor, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, ...]:
    """The LU decomposition P, L and U of a matrix, with P @ L @ U = a.

    Args:
        a: (m, n), float32, float64, or ints.
        permute_l: give P @ L and U.
        overwrite_a, check_finite: accepted, see the module.

    Returns:
        P (m, m), int32, L (m, k) and U (k, n), k the smaller of m and n; or P @ L (m, k) and U.
    """
    _flags("lu", permute_l=permute_l, overwrite_a=overwrite_a, check_finite=check_finite)
    x = _matrix(a, "lu", square=False)
    packed, pivots = decompositions.lu_packed(ops.expand_dims(x, 0))
    lower, upper = decompositions.lu_parts(ops.squeeze(packed, 0))
    order = decompositions.permutation(pivots, x.shape[0], x.dtype if permute_l else int32)
    matrix = ops.squeeze(order, 0)
    return (ops.matmul(matrix, lower), upper) if permute_l else (matrix, lower, upper)


def eigh(
    a: Tensor, b: Tensor | None = None, lower: bool = True, eigvals_only: bool = False,
    overwrite_a: bool = False, overwrite_b: bool = False, turbo: bool = True,
    eigvals: Any = None, type: int = 1, check_finite: bool = True,
) -> Any:
    """Eigenvalues, ascending, and eigenvectors of a symmetric or Hermitian matrix.

    Args:
        a: (n, n), float32, float64, ints, or complex (then through LAPACK, without gradients).
        b: None: the generalized problem is not there in MindSpore either.
        lower: read the lower triangle, else the upper one.
        eigvals_only: the eigenvalues alone.
        overwrite_a, overwrite_b, turbo, check_finite: accepted, see the module.
        eigvals: None: all of them.
        type: of the generalized problem; not used.

    Returns:
        (n), and eigenvectors of length 1 as columns (n, n), of either sign.
    """
    _flags("eigh", lower=lower, eigvals_only=eigvals_only, overwrite_a=overwrite_a,
           overwrite_b=overwrite_b, turbo=turbo, check_finite=check_finite)
    for name, value in (("b", b), ("eigvals", eigvals)):
        if value is not None:
            raise misuse("eigh", f"currently only case {name}=None of 'eigh' is implemented",
                         repr(value))
    x = _matrix(a, "eigh", more=(complex64, complex128))
    values, vectors = decompositions.eigh(x, lower)
    return values if eigvals_only else (values, vectors)


_DRIVERS = (None, "gels", "gelsy", "gelss", "gelsd")


def lstsq(
    A: Tensor, B: Tensor, rcond: Any = None, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The least squares solution of A @ x = B; of many, the smallest.

    Args:
        A: (..., m, n), float32 or float64.
        B: (..., m, k), of the same type; or (m) for a matrix.
        rcond: accepted and not used: singular values below the machine's precision times the larger
            of m and n times the largest count as zero.
        driver: which results there are: "gels" for matrices of full rank, "gelsy" (as None),
            "gelss" or "gelsd".

    Returns:
        The solution (..., n, k); the squares of the residuals (..., k), for m > n and other than
        "gelsy"; the rank (...), but for "gels"; the singular values, largest first, for "gelss" and
        "gelsd". A missing result is an empty Tensor.
    """
    what = "lstsq"
    x = decompositions.matrices(A, what, "A", (float32, float64))
    b = tensor(B, what, "B")
    if b.dtype != x.dtype:
        raise misuse(what, "the types of 'A' and 'B' must be the same", f"{x.dtype} and {b.dtype}",
                     TypeError)
    if driver not in _DRIVERS:
        raise misuse(what, f"'driver' must be one of {_DRIVERS}", repr(driver))
    vector = b.ndim == x.ndim - 1
    right = ops.expand_dims(b, -1) if vector else b
    if right.ndim < 2 or right.shape[-2] != x.shape[-2]:
        raise misuse(what, "'A' (..., m, n) and 'B' (..., m, k) are needed",
                     f"{x.shape} and {b.shape}")
    return _least(x, right, vector, driver or "gelsy")


def _least(
    x: Tensor, b: Tensor, vector: bool, driver: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    kind, (rows, columns) = x.dtype, x.shape[-2:]
    nothing, no_rank = ops.zeros((0,), kind), ops.zeros((0,), int64)
    rank, singular = no_rank, nothing
    if driver == "gels":
        solution = decompositions.least_squares(x, b)
    else:
        s, u, v = orthogonal.svd(x)
        limit = ops.amax(s, -1, True) * (max(rows, columns) * float(np.finfo(kind.numpy).eps))
        kept = s > limit
        weights = ops.where(kept, 1.0 / ops.where(kept, s, 1.0), 0.0)
        across, scale = ops.swapaxes(u, -1, -2), ops.expand_dims(weights, -1)
        solution = ops.matmul(v, scale * ops.matmul(across, b))
        error = b - ops.matmul(x, solution)
        solution = solution + ops.matmul(v, scale * ops.matmul(across, error))
        rank = ops.sum(cast_to(kept, int64), -1)
        singular = s if driver in ("gelss", "gelsd") else nothing
    residual = nothing
    if driver != "gelsy" and rows > columns:
        rest = ops.matmul(x, solution) - b
        residual = ops.sum(rest * rest, -2)
    return ops.squeeze(solution, -1) if vector else solution, residual, rank, singular


__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eigh", "inv", "lstsq", "lu",
    "lu_factor", "solve_triangular",
]
__dir__ = public_names(__name__)
