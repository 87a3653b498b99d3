"""Decompositions of matrices, and what is worked out from them.

LU, Householder's reflections, least squares, eigenvalues, exponentials and logarithms.

Most are loops over columns (a `scan`, so one op in both modes) with gradients. Eigenvalues of
matrices that are not symmetric, and logarithms, come from LAPACK, through numpy: the same routine
in both modes, called when the network runs.

Source: the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.types import TensorType, broadcast_all
from cellc_runtime.dtypes import DType, complex64, complex128, float16, float32, float64, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, scan
from ...tensors.index_plan import check_range
from ...tensors.promotion import cast_to
from ...tensors.tensor import Array, Tensor, tensor_of
from ..arguments import boolean, ranked, tensor
from . import (
    arith,
    creation,
    elimination,
    grid,
    indexing,
    joining,
    linalg,
    matrix_norms,
    orthogonal,
    reductions,
    shapes,
    sorting,
)
from .host import call_python
from .linalg import as_batch, at, positions

_NUMBERS = (float32, float64, complex64, complex128)


def matrices(x: Any, what: str, name: str, types: tuple[DType, ...] = _NUMBERS) -> Tensor:
    """A batch of matrices."""
    t = tensor(x, what, name)
    if t.dtype not in types:
        raise misuse(what, f"'{name}' must be one of {', '.join(map(str, types))}", t.dtype,
                     TypeError)
    if t.ndim < 2:
        raise misuse(what, f"'{name}' must have 2 axes or more, but has shape {t.shape}")
    return t


def _square(x: Any, what: str, name: str, types: tuple[DType, ...] = _NUMBERS) -> Tensor:
    t = matrices(x, what, name, types)
    if t.shape[-1] != t.shape[-2]:
        raise misuse(what, f"'{name}' must have shape (..., n, n), but has shape {t.shape}")
    return t


def _same_type(what: str, **given: Tensor) -> None:
    if len({t.dtype for t in given.values()}) > 1:
        raise misuse(what, "the types must be the same",
                     ", ".join((f'{n}: {t.dtype}' for n, t in given.items())), TypeError)


# --- LU -------------------------------------------------------------------------------------------


def _column(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """One column: the row of the largest element up, factors below it, the rest less its part.

    Carried: L below the diagonal and U, so far (B, n, k). Output: where the row was (B).
    """
    x, (rows, columns) = carried[0], captures
    column = at(x, i, 2)
    size = arith.where(arith.ge(rows, i), arith.abs(shapes.squeeze(column, 2)), -1.0)
    pivot = shapes.expand_dims(reductions.argmax(size, 1), 1)
    x = elimination.swapped(x, i, pivot, rows)
    top = at(x, i, 1)
    head = at(top, i, 2)
    factor = at(x, i, 2) / arith.where(head == 0.0, 1.0, head)
    below = shapes.expand_dims(arith.gt(rows, i), 2)
    rest = arith.logical_and(below, arith.gt(columns, i))
    x = arith.sub(x, arith.where(rest, factor * top, 0.0))
    x = arith.where(arith.logical_and(below, arith.eq(columns, i)), factor, x)
    return [x], [shapes.squeeze(pivot, 1)]


def _row_numbers(n: int) -> Tensor:
    return apply_one("iota", shape=(1, n), axis=1, dtype=int64)


def lu_packed(x: Tensor) -> tuple[Tensor, Tensor]:
    """L and U of (B, n, k) in one matrix, and with which row each was exchanged, from 0: (B, k)."""
    rows, columns = x.shape[1:]
    steps = min(rows, columns)
    if not x.size:
        return x, creation.zeros((x.shape[0], steps), int64)
    (out,), (pivots,) = scan(
        ("lu",), [x], [],
        [_row_numbers(rows), apply_one("iota", shape=(1, 1, columns), axis=2, dtype=int64)],
        steps, _column)
    return out, shapes.transpose(pivots, (1, 0))


def _exchange(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Rows i and a pivot exchanged. Carried: (B, n, k); xs: the pivots (B)."""
    return [elimination.swapped(carried[0], i, shapes.expand_dims(xs[0], 1), captures[0])], []


def exchanged(x: Tensor, pivots: Tensor) -> Tensor:
    """Rows of (B, n, k) exchanged as pivots (B, steps), from 0, say."""
    if not x.size or not pivots.size:
        return x
    (out,), _ = scan(("exchange",), [x], [shapes.transpose(pivots, (1, 0))],
                     [_row_numbers(x.shape[1])], pivots.shape[1], _exchange)
    return out


def permutation(pivots: Tensor, rows: int, dtype: DType) -> Tensor:
    """The matrices P (B, n, n) with A = P @ L @ U, of pivots (B, steps) from 0."""
    order = shapes.broadcast_to(
        shapes.expand_dims(_row_numbers(rows), 2), (pivots.shape[0], rows, 1))
    order = exchanged(order, pivots)
    return cast_to(shapes.swapaxes(order, 1, 2) == positions(rows), dtype)


def _pivots(x: Any, rows: int, steps: int, lead: tuple[int, ...], what: str) -> Tensor:
    """Pivots (B, steps) from 0 of those that MindSpore has, which count from 1."""
    t = tensor(x, what, "LU_pivots")
    if t.dtype.is_float or t.shape != (*lead, steps):
        raise misuse(what, f"'LU_pivots' must be ints of shape {(*lead, steps)}",
                     f"{t.dtype} of shape {t.shape}")
    flat = shapes.reshape(cast_to(t, int64), (math.prod(lead), steps))
    check_range(flat, 1, rows + 1, f"For '{what}', 'LU_pivots' must be in range [1, {rows}], but "
                "got ", 0, ".")
    return flat - 1


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """y of A @ y = b, for the LU decomposition of A.

    Args:
        b: (..., n, k), float16, float32 or float64.
        LU_data: L below the diagonal and U, (..., n, n), of the same type.
        LU_pivots: with which row each was exchanged, from 1, int32 (..., n). Leading axes of `b`
            may be more than those of `LU_data`.

    Raises:
        IndexError: a pivot out of range.
    """
    what, types = "lu_solve", (float16, float32, float64)
    y, data = matrices(b, what, "b", types), _square(LU_data, what, "LU_data", types)
    _same_type(what, b=y, LU_data=data)
    n, kind = data.shape[-1], y.dtype
    if y.shape[-2] != n:
        raise misuse(what, f"'b' must have shape (..., {n}, k), but has {y.shape}")
    pivots = _pivots(LU_pivots, n, n, data.shape[:-2], what)
    lead = broadcast_all(y.shape[:-2], data.shape[:-2])
    y, data = arith.wide(y), arith.wide(data)
    pivots = as_batch(
        shapes.broadcast_to(shapes.reshape(pivots, (*data.shape[:-2], 1, n)), (*lead, 1, n)))
    flat = as_batch(shapes.broadcast_to(y, (*lead, *y.shape[-2:])))
    moved = shapes.reshape(exchanged(flat, shapes.squeeze(pivots, 1)), (*lead, *y.shape[-2:]))
    lower, _ = orthogonal.triangular_solve(moved, data, upper=False, unitriangular=True)
    return cast_to(orthogonal.triangular_solve(lower, data)[0], kind)


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """P, L and U with P @ L @ U = A, of an LU decomposition in one matrix.

    Args:
        LU_data: L below the diagonal and U, (..., m, n).
        LU_pivots: with which row each was exchanged, from 1, ints (..., k), k the smaller of m, n.
        unpack_data: whether L and U are requested, else None.
        unpack_pivots: whether P is, else None.

    Raises:
        IndexError: a pivot out of range.
    """
    what = "lu_unpack"
    data = ranked(LU_data, 2, None, what, "LU_data")
    lead, (rows, columns) = data.shape[:-2], data.shape[-2:]
    steps = min(rows, columns)
    pivots = _pivots(LU_pivots, rows, steps, lead, what)
    made: tuple[Tensor | None, Tensor | None] = (None, None)
    if boolean(unpack_data, what, "unpack_data"):
        made = lu_parts(data)
    if not boolean(unpack_pivots, what, "unpack_pivots"):
        return None, *made
    return shapes.reshape(permutation(pivots, rows, data.dtype), (*lead, rows, rows)), *made


def lu_parts(data: Tensor) -> tuple[Tensor, Tensor]:
    """L (..., m, k) and U (..., k, n) of both in one matrix (..., m, n)."""
    rows, columns = data.shape[-2:]
    steps = min(rows, columns)
    low = joining.part(data, data.ndim - 1, 0, steps)
    lower = grid.tril(low, -1) + creation.eye(rows, steps, data.dtype)
    return lower, grid.triu(joining.part(data, data.ndim - 2, 0, steps))


# --- reflections ----------------------------------------------------------------------------------


def _reflect(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Column i reflected onto the diagonal, as LAPACK's `geqrf` does it (Golub & Van Loan, 5.1).

    Carried: R and below it the vectors of the reflections (B, m, n). Output: tau (B).
    """
    x, (rows, columns) = carried[0], captures
    column = at(x, i, 2)
    head, below, here = at(column, i, 1), arith.gt(rows, i), arith.eq(rows, i)
    rest = arith.where(below, column, 0.0)
    tail = apply_one("reduce_sum", rest * rest, axes=(1,), keepdims=True)
    active = tail != 0.0
    size = arith.sqrt(arith.where(active, tail + head * head, 1.0))
    beta = arith.where(active, arith.where(head < 0.0, size, -size), head)
    tau = arith.where(active, (beta - head) / arith.where(active, beta, 1.0), 0.0)
    v = arith.where(below, column / arith.where(active, head - beta, 1.0),
                    arith.where(here, 1.0, 0.0))
    moved = arith.sub(x, linalg.matmul(v, linalg.matmul(shapes.swapaxes(v, 1, 2), x) * tau))
    own = arith.where(below, v, arith.where(here, beta, column))
    x = arith.where(arith.gt(columns, i), moved, arith.where(arith.eq(columns, i), own, x))
    return [x], [shapes.reshape(tau, (tau.shape[0],))]


def geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    """The QR decomposition of matrices as R and reflections, as LAPACK has it.

    Args:
        input: (..., m, n), float32 or float64.

    Returns:
        R on and above the diagonal and below it the vectors of the reflections (..., m, n), and
        their factors tau (..., k), k the smaller of m and n.
    """
    x = matrices(input, "geqrf", "input", (float32, float64))
    lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
    steps, flat = min(rows, columns), as_batch(x)
    if not flat.size:
        return x, creation.zeros((*lead, steps), x.dtype)
    (out,), (tau,) = scan(
        ("geqrf",), [flat], [],
        [positions(rows), apply_one("iota", shape=(1, 1, columns), axis=2, dtype=int64)],
        steps, _reflect)
    return shapes.reshape(out, x.shape), shapes.reshape(
        shapes.transpose(tau, (1, 0)), (*lead, steps))


def _apply_reflection(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """x less tau v (v^H x). Carried: x (B, m, k); xs: v (B, m, 1) and tau (B, 1, 1)."""
    x, (v, tau) = carried[0], xs
    across = arith.conj(shapes.swapaxes(v, 1, 2))
    return [arith.sub(x, linalg.matmul(v, arith.mul(linalg.matmul(across, x), tau)))], []


def _reflected(vectors: Tensor, tau: Tensor, x: Tensor, adjoint: bool) -> Tensor:
    """Q @ x, or Q^H @ x, for Q = H_1 .. H_k of vectors (B, m, n) and tau (B, k); x is (B, m, p)."""
    rows, count = vectors.shape[1], tau.shape[1]
    if not x.size or not count:
        return x
    low = joining.part(vectors, 2, 0, count)
    v = grid.tril(low, -1) + creation.eye(rows, count, low.dtype)
    v = shapes.expand_dims(shapes.transpose(v, (2, 0, 1)), 3)
    factors = shapes.reshape(shapes.transpose(arith.conj(tau) if adjoint else tau, (1, 0)),
                             (count, tau.shape[0], 1, 1))
    if not adjoint:  # the last reflection is the first that x meets
        v, factors = shapes.flip(v, (0,)), shapes.flip(factors, (0,))
    (out,), _ = scan(("reflections",), [x], [v, factors], [], count, _apply_reflection)
    return out


def _reflections(x: Any, tau: Any, what: str) -> tuple[Tensor, Tensor]:
    v, t = matrices(x, what, "input"), tensor(tau, what, "tau")
    _same_type(what, input=v, tau=t)
    if t.ndim != v.ndim - 1 or t.shape[:-1] != v.shape[:-2] or t.shape[-1] > min(v.shape[-2:]):
        raise misuse(what, f"'tau' must have shape {(*v.shape[:-2], 'k')} with k at most "
                     f"{min(v.shape[-2:])}, but has shape {t.shape}")
    return v, t


def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """The first columns of Q, of reflections as `geqrf` gives them.

    Args:
        input: the vectors, (..., m, n), float32, float64 or complex.
        input2: their factors (..., k), k at most n.

    Returns:
        (..., m, n).
    """
    v, tau = _reflections(input, input2, "orgqr")
    rows, columns = v.shape[-2:]
    if columns > rows:
        raise misuse("orgqr",
                     f"'input' must not have more columns than rows, but has shape {v.shape}")
    batch = math.prod(v.shape[:-2])
    start = shapes.broadcast_to(creation.eye(rows, columns, v.dtype), (batch, rows, columns))
    out = _reflected(as_batch(v), shapes.reshape(tau, (batch, tau.shape[-1])), start, False)
    return shapes.reshape(out, v.shape)


def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """The product of Q, of reflections as `geqrf` gives them, with matrices.

    Args:
        input: the vectors (..., r, k).
        tau: their factors.
        other: (..., m, n); r is m, or n if Q stands on the right.
        left: Q @ other, else other @ Q.
        transpose: take Q transposed (and conjugated).
    """
    what = "ormqr"
    v, t = _reflections(input, tau, what)
    x = matrices(other, what, "other")
    _same_type(what, input=v, other=x)
    first, turned = boolean(left, what, "left"), boolean(transpose, what, "transpose")
    if x.shape[:-2] != v.shape[:-2] or x.shape[-2 if first else -1] != v.shape[-2]:
        raise misuse(what, f"'other' must have {v.shape[-2]} {'rows' if first else 'columns'} and "
                     f"the leading axes of 'input', but the shapes are {v.shape} and {x.shape}")
    factors = shapes.reshape(t, (math.prod(v.shape[:-2]), t.shape[-1]))
    flat = as_batch(x if first else linalg.adjoint(x))  # C Q is the adjoint of Q^H C^H
    out = shapes.reshape(_reflected(as_batch(v), factors, flat, turned == first),
                         (x if first else linalg.adjoint(x)).shape)
    return out if first else linalg.adjoint(out)


# --- least squares --------------------------------------------------------------------------------


def lstsq(input: Tensor, A: Tensor) -> Tensor:
    """y with the smallest |input @ y - A|; of many that fit, the smallest y.

    Args:
        input: (m, n), of full rank; float16, float32 or float64.
        A: (m, k) or (m), of the same type.

    Returns:
        (n, k), k = 1 for a vector.
    """
    what, types = "lstsq", (float16, float32, float64)
    x, b = matrices(input, what, "input", types), tensor(A, what, "A")
    _same_type(what, input=x, A=b)
    if x.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != x.shape[0]:
        raise misuse(what, "'input' (m, n) and 'A' (m, k) or (m) are needed",
                     f"{x.shape} and {b.shape}")
    right = shapes.expand_dims(b, 1) if b.ndim == 1 else b
    return cast_to(least_squares(arith.wide(x), arith.wide(right)), x.dtype)


def least_squares(x: Tensor, b: Tensor) -> Tensor:
    """The solutions (..., n, k) for matrices (..., m, n) of full rank and (..., m, k)."""
    if x.shape[-2] < x.shape[-1]:
        q, r = orthogonal.qr(shapes.swapaxes(x, -1, -2))
        y, _ = orthogonal.triangular_solve(b, r, transpose=True)
        return linalg.matmul(q, y)
    q, r = orthogonal.qr(x)
    y, _ = orthogonal.triangular_solve(linalg.matmul(shapes.swapaxes(q, -1, -2), b), r)
    return y


def lstsq_fast(
    x: Tensor, a: Tensor, fast: bool = True, l2_regularizer: float = 0.0
) -> Tensor:
    """`lstsq`; its options are those that MindSpore takes: `fast` and no regularizer."""
    if fast is not True or l2_regularizer != 0.0:
        raise misuse("Lstsq", "'fast' should be True and 'l2_regularizer' 0.0",
                     f"{fast!r} and {l2_regularizer!r}", TypeError)
    return lstsq(x, a)


def matrix_solve_ls(
    matrix: Tensor, rhs: Tensor, l2_regularizer: Tensor, fast: bool = True
) -> Tensor:
    """Least squares with a penalty l2_regularizer * |y|^2, by the normal equations.

    Args:
        matrix: (..., m, n), float32, float64 or complex.
        rhs: (..., m, k), of the same type.
        l2_regularizer: a float64 scalar; without `fast` it counts as 0.
        fast: by the normal equations, else by a QR decomposition, which takes floats only.
    """
    what = "MatrixSolveLs"
    x, b = matrices(matrix, what, "matrix"), matrices(rhs, what, "rhs")
    penalty = tensor(l2_regularizer, what, "l2_regularizer")
    _same_type(what, matrix=x, rhs=b)
    if penalty.dtype is not float64 or penalty.ndim:
        raise misuse(what, "'l2_regularizer' must be a float64 scalar",
                     f"{penalty.dtype} of shape {penalty.shape}", TypeError)
    if x.shape[:-1] != b.shape[:-1]:
        raise misuse(what, "'matrix' (..., m, n) and 'rhs' (..., m, k) are needed",
                     f"{x.shape} and {b.shape}")
    if not boolean(fast, what, "fast"):
        return least_squares(x, b)
    across, wide = linalg.adjoint(x), x.shape[-2] < x.shape[-1]
    square = linalg.matmul(x, across) if wide else linalg.matmul(across, x)
    ridge = creation.eye(square.shape[-1], None, x.dtype) * cast_to(penalty, x.dtype)
    square = square + ridge
    right = b if wide else linalg.matmul(across, b)
    y = shapes.reshape(elimination.solved(as_batch(square), as_batch(right)),
                       (*x.shape[:-2], square.shape[-1], b.shape[-1]))
    return linalg.matmul(across, y) if wide else y


def nuclear_norm(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sums of singular values of matrices.

    Args:
        x: float32 or float64, 2 axes or more.
        dim: the axes of rows and columns; may be None for a matrix.
        keepdim: keep them as size 1.
    """
    t = matrices(x, "NuclearNorm", "x", (float32, float64))
    if dim is None and t.ndim != 2:
        raise misuse("NuclearNorm",
                     f"'dim' is needed for other than 2 axes, but 'x' has shape {t.shape}")
    axes = (0, 1) if dim is None else dim
    keep = boolean(keepdim, "NuclearNorm", "keepdim")
    return matrix_norms.matrix_norms(t, "nuc", axes, keep, None, "dim")


# --- eigenvalues ----------------------------------------------------------------------------------


def _by_lapack(
    what: str, function: Callable[[Array], Any], x: Tensor, types: Sequence[TensorType]
) -> tuple[Tensor, ...]:
    """Return the result of a numpy function, called when the network runs; without a gradient."""
    function.__name__ = what  # as messages call it
    made: tuple[Tensor, ...] = call_python(what, function, (x,), False, types)
    return made


def _complex(dtype: DType) -> DType:
    return complex64 if dtype in (float32, complex64) else complex128


def _eigen(x: Any, what: str, vectors: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors; empty ones unless `vectors`."""
    t = _square(x, what, "A")
    kind = _complex(t.dtype)

    def eigen(a: Array) -> tuple[Array, Array]:
        if not vectors:
            return np.linalg.eigvals(a).astype(kind.numpy), np.zeros((), kind.numpy)
        w, v = np.linalg.eig(a)
        return w.astype(kind.numpy), v.astype(kind.numpy)

    types = [TensorType(t.shape[:-1], kind), TensorType(t.shape if vectors else (), kind)]
    w, v = _by_lapack(what, eigen, t, types)
    return w, v


def eig(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices, by LAPACK.

    Args:
        A: (..., n, n), float32, float64, complex64 or complex128.

    Returns:
        The eigenvalues (..., n), complex, in no order, and eigenvectors of length 1 as columns
        (..., n, n). They have no gradient.
    """
    return _eigen(A, "eig", True)


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of square matrices, by LAPACK, complex and in no order; see `eig`."""
    return _eigen(A, "eigvals", False)[0]


def eig_primitive(x: Tensor, compute_v: bool = False) -> tuple[Tensor, Tensor]:
    """`eig`; without `compute_v`, a scalar 0 in place of eigenvectors."""
    return _eigen(x, "Eig", boolean(compute_v, "Eig", "compute_v"))


def eigh(x: Tensor, lower: bool = True) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and orthonormal eigenvectors of symmetric matrices (..., n, n).

    By rotations (one-sided Jacobi) of the matrix and as much of the identity as makes it positive.
    Gradients are those of first order. Complex matrices go to LAPACK and have no gradient.

    Args:
        lower: which triangle is read.
    """
    if x.dtype.is_complex:
        return _hermitian(x, lower)
    half = grid.tril(x) if lower else grid.triu(x)
    other = shapes.swapaxes(grid.tril(x, -1) if lower else grid.triu(x, 1), -1, -2)
    flat = as_batch(half + other)
    n = flat.shape[-1]
    if not flat.size:
        return creation.zeros(x.shape[:-1], x.dtype), x
    fixed: Tensor = apply("stop_gradient", flat)
    bound = reductions.amax(reductions.sum(arith.abs(fixed), 2), 1)
    eye = creation.eye(n, None, x.dtype)
    shifted = fixed + eye * shapes.reshape(bound, (bound.shape[0], 1, 1))
    v = orthogonal.rotation(shifted)
    w = reductions.sum(arith.mul(v, linalg.matmul(fixed, v)), 1)
    w, order = sorting.sort(w, -1)
    v = indexing.gather_elements(v, 2, shapes.broadcast_to(shapes.expand_dims(order, 1), v.shape))
    w, v = (apply("stop_gradient", t) for t in (w, v))
    change = linalg.matmul(linalg.matmul(shapes.swapaxes(v, 1, 2), flat - fixed), v)
    gap = shapes.expand_dims(w, 1) - shapes.expand_dims(w, 2)
    apart = gap != 0.0
    turn = arith.where(apart, change / arith.where(apart, gap, 1.0), 0.0)
    w, v = arith.add(w, grid.diagonal(change, 0, 1, 2)), arith.add(v, linalg.matmul(v, turn))
    return shapes.reshape(w, x.shape[:-1]), shapes.reshape(v, x.shape)


def _hermitian(x: Tensor, lower: bool) -> tuple[Tensor, Tensor]:
    def hermitian(a: Array) -> tuple[Array, Array]:
        w, v = np.linalg.eigh(a, "L" if lower else "U")
        return w.astype(a.dtype), v

    types = [TensorType(x.shape[:-1], x.dtype), TensorType(x.shape, x.dtype)]
    w, v = _by_lapack("eigh", hermitian, x, types)
    return w, v


# --- exponentials and logarithms ------------------------------------------------------------------

_SQUARINGS = 40
_PADE: dict[DType, tuple[int, float]] = {
    float32: (7, 3.925724783138660), float64: (13, 5.371920351148152)}
"""The order of the approximation, and the norm up to which it is exact (Higham, 2005)."""


def _square_again(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Carried: (B, n, n), squared where the count (B, 1, 1) says so."""
    x = carried[0]
    due = arith.lt(i, captures[0])
    base = arith.where(
        due, x, creation.zeros_like(x))  # what is not squared may overflow, and its gradient
    return [arith.where(due, linalg.matmul(base, base), x)], []


def matrix_exp(input: Tensor) -> Tensor:
    """The exponentials of square matrices, by Pade's approximation and squaring.

    Args:
        input: (..., n, n), float16, float32, float64, complex64 or complex128.
    """
    given = _square(input, "matrix_exp", "input", (float16, *_NUMBERS))
    x = as_batch(arith.wide(given) if given.dtype is float16 else given)
    if not x.size:
        return given
    order, limit = _PADE[float32 if x.dtype in (float32, complex64) else float64]
    size: Tensor = apply("stop_gradient", arith.abs(x))
    norm = reductions.amax(reductions.sum(size, 1, True), 2, True)
    limits = tensor_of((limit * 2.0 ** np.arange(_SQUARINGS)).astype(size.dtype.numpy))
    over = norm > shapes.reshape(limits, (1, 1, _SQUARINGS))
    scale = reductions.prod(arith.where(over, 0.5, creation.ones(over.shape, size.dtype)), 2, True)
    count = reductions.sum(cast_to(over, int64), 2, True, dtype=int64)
    out = _pade(x * cast_to(scale, x.dtype), order)
    (out,), _ = scan(("squarings",), [out], [], [count], _SQUARINGS, _square_again)
    return shapes.reshape(cast_to(out, given.dtype), given.shape)


def _pade(x: Tensor, order: int) -> Tensor:
    """Pade's approximation of exp, of order [p / p], of matrices (B, n, n)."""
    eye = shapes.broadcast_to(creation.eye(x.shape[-1], None, x.dtype), x.shape)
    square, even, odd = linalg.matmul(x, x), None, None
    c = [1.0]
    for k in range(1, order + 1):
        c.append(c[-1] * (order - k + 1) / (k * (2 * order - k + 1)))
    power = eye
    for k in range(0, order + 1, 2):
        term = arith.mul(power, c[k])
        even = term if even is None else arith.add(even, term)
        if k < order:
            term = arith.mul(power, c[k + 1])
            odd = term if odd is None else arith.add(odd, term)
        power = linalg.matmul(power, square) if k + 2 <= order else power
    assert even is not None and odd is not None
    odd = linalg.matmul(x, odd)
    return elimination.solved(arith.sub(even, odd), arith.add(even, odd))


def matrix_logarithm(x: Tensor) -> Tensor:
    """The principal logarithms of square matrices, by LAPACK.

    By square roots until a matrix is near the identity (Denman and Beavers), and there by
    quadrature of the integral of (I + t E)^-1 E. There is no gradient.

    Args:
        x: (..., n, n), complex64 or complex128.
    """
    t = _square(x, "MatrixLogarithm", "x", (complex64, complex128))

    def logarithm(a: Array) -> Array:
        flat = a.astype(np.complex128).reshape(-1, *a.shape[-2:])
        return np.array([_logarithm(one) for one in flat], a.dtype).reshape(a.shape)

    return _by_lapack("MatrixLogarithm", logarithm, t, [TensorType(t.shape, t.dtype)])[0]


def _logarithm(a: Array) -> Array:
    eye, roots = np.eye(len(a)), 0
    while np.abs(a - eye).sum(0).max() > 0.25 and roots < 60:
        y, z = a, eye
        for _ in range(60):
            y, z, before = (y + np.linalg.inv(z)) / 2, (z + np.linalg.inv(y)) / 2, y
            if np.abs(y - before).max() <= 1e-15 * np.abs(y).max():
                break
        a, roots = y, roots + 1
    nodes, weights = np.polynomial.legendre.leggauss(10)
    change = a - eye
    parts = [w / 2 * np.linalg.solve(eye + (t + 1) / 2 * change, change)
             for t, w in zip(nodes, weights, strict=True)]
    return np.asarray(2.0 ** roots * sum(parts))
