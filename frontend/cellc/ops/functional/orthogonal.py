"""Matrices turned by reflections and rotations: QR, singular values, triangular systems.

Each is one loop (a `scan`, so one op in both modes) over columns, rows or rounds of rotations.

Source: the same names in `mindspore.mint` and `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import float32, float64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, scan
from ...tensors.promotion import cast_to
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import boolean, choice, tensor
from . import arith, creation, grid, indexing, joining, linalg, reductions, shapes, sorting
from .linalg import as_batch, at, positions, substitute


def _matrices(x: Any, what: str, name: str, most: int | None = None) -> Tensor:
    """A batch of matrices of float32 or float64."""
    t = tensor(x, what, name)
    if t.dtype not in (float32, float64):
        raise misuse(what, f"'{name}' must be float32 or float64", t.dtype, TypeError)
    if t.ndim < 2 or (most is not None and t.ndim > most):
        limit = "2 axes or more" if most is None else f"2 to {most} axes"
        raise misuse(what, f"'{name}' must have {limit}, but has shape {t.shape}")
    return t


def _total(x: Tensor) -> Tensor:
    return apply_one("reduce_sum", x, axes=(1,), keepdims=True)


# --- QR -------------------------------------------------------------------------------------------


def _reflect(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Column i reflected onto the diagonal (Golub & Van Loan, 5.1).

    Carried: R so far (B, m, n) and Q so far (B, m, m). A column with nothing below the diagonal
    is left alone, as LAPACK does.
    """
    r, q = carried
    rows = captures[0]
    column = at(r, i, 2)
    head, below = at(column, i, 1), arith.gt(rows, i)
    tail = _total(arith.where(below, column * column, 0.0))
    active = tail != 0.0
    size = arith.sqrt(arith.where(active, tail + head * head, 1.0))
    first = head + arith.where(head < 0.0, -size, size)
    v = arith.where(below, column, arith.where(arith.eq(rows, i), first, 0.0))
    square = arith.where(active, tail + first * first, 1.0)
    scale = arith.where(active, 2.0 / square, 0.0)
    across = shapes.swapaxes(v, 1, 2)
    r = arith.sub(r, linalg.matmul(v, linalg.matmul(across, r) * scale))
    q = arith.sub(q, linalg.matmul(linalg.matmul(q, v) * scale, across))
    return [r, q], []


def qr(input: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Q with orthonormal columns and upper triangular R with Q @ R = input.

    Args:
        input: (..., m, n), float32 or float64.
        mode: `"reduced"`: Q (..., m, k), R (..., k, n), k the smaller of m and n; `"complete"`:
            Q (..., m, m), R (..., m, n); `"r"`: an empty Q, and R as reduced.
    """
    x = _matrices(input, "qr", "input")
    how = choice(mode, ("reduced", "complete", "r"), "qr", "mode")
    lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
    flat, k = as_batch(x), min(rows, columns)
    q = shapes.broadcast_to(creation.eye(rows, None, x.dtype), (flat.shape[0], rows, rows))
    r = flat
    if flat.size:
        (r, q), _ = scan(("reflect",), [flat, q], [], [positions(rows)], k, _reflect)
    r = grid.triu(r)
    if how == "complete":
        return shapes.reshape(q, (*lead, rows, rows)), shapes.reshape(r, (*lead, rows, columns))
    upper = shapes.reshape(joining.part(r, 1, 0, k), (*lead, k, columns))
    if how == "r":
        return creation.zeros((0,), x.dtype), upper
    return shapes.reshape(joining.part(q, 2, 0, k), (*lead, rows, k)), upper


# --- triangular systems ---------------------------------------------------------------------------


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Tensor, Tensor]:
    """X with A @ X = b for a triangular A, and A.

    Args:
        b: (..., n, k), float32 or float64.
        A: (..., n, n), of 6 axes at most; only one triangle is read. The leading axes of both
            broadcast.
        upper: the upper triangle, else the lower one.
        transpose: solve with A transposed.
        unitriangular: take the diagonal for ones.
    """
    what = "triangular_solve"
    y, a = _matrices(b, what, "b", 6), _matrices(A, what, "A", 6)
    for flag, name in ((upper, "upper"), (transpose, "transpose"),
                       (unitriangular, "unitriangular")):
        boolean(flag, what, name)
    n = a.shape[-1]
    if a.shape[-2] != n or y.shape[-2] != n or a.dtype is not y.dtype:
        raise misuse(what, "'b' (..., n, k) and 'A' (..., n, n) of one type are needed",
                     f"{y.dtype} {y.shape} and {a.dtype} {a.shape}")
    lead = broadcast_all(y.shape[:-2], a.shape[:-2])
    y = shapes.broadcast_to(y, (*lead, *y.shape[-2:]))
    if not y.size:
        return y, a
    matrix = shapes.swapaxes(a, -1, -2) if transpose else a
    first = upper != transpose
    x = as_batch(shapes.broadcast_to(matrix, (*lead, n, n)))
    if unitriangular:
        x = arith.where(creation.eye(n, None, x.dtype) == 1.0, 1.0, x)
    right = as_batch(y)
    if not first:  # a lower triangle is an upper one from the other end
        x, right = shapes.flip(x, (1, 2)), shapes.flip(right, (1,))
    out = substitute(x, right)
    return shapes.reshape(out if first else shapes.flip(out, (1,)), y.shape), a


# --- singular values ------------------------------------------------------------------------------


def _round(n: int) -> np.ndarray[Any, Any]:
    """Where the columns of the next round come from, so that in n - 1 rounds all pairs meet.

    Column j of the first half meets column j of the second; the first one stays, the others go
    round in a circle.
    """
    half = n // 2
    place = [k if k < half else half + n - 1 - k for k in range(n)]
    later = [0, n - 1, *range(1, n - 1)]
    order = [place[later[j]] for j in range(half)]
    return np.array(order + [place[later[n - 1 - j]] for j in range(half)], np.int64)


def _rotate(
    carried: list[Tensor], xs: list[Tensor], i: Tensor, captures: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Pairs of columns turned until they are at right angles (Hestenes, 1958; de Rijk, 1989).

    Carried: the columns (B, m, n), and below them those of V; captured: m ones above n zeros, and
    the order of the next round.
    """
    z, (above, order) = carried[0], captures
    half = z.shape[2] // 2
    left, right = joining.part(z, 2, 0, half), joining.part(z, 2, half, 2 * half)
    a, b = (_total(arith.mul(arith.mul(v, v), above)) for v in (left, right))
    both = _total(arith.mul(left * right, above))
    apart = both == 0.0
    zeta = (b - a) / (arith.where(apart, 1.0, both) * 2.0)
    size = arith.abs(zeta)
    t = 1.0 / (size + arith.sqrt(size * size + 1.0))
    t = arith.where(apart, 0.0, arith.where(zeta < 0.0, -t, t))
    c = 1.0 / arith.sqrt(t * t + 1.0)
    s = c * t
    turned = joining.concat((left * c - right * s, left * s + right * c), 2)
    return [apply("gather", turned, order, axis=2)], []


_SWEEPS = {float32: 10, float64: 14}


def singular_values(input: Tensor) -> Tensor:
    """The singular values of matrices (..., m, n), in no order: (..., k), k the smaller of m and n.

    By one-sided Jacobi rotations, all pairs of columns once in a sweep. The gradient is that of
    first order, u v^T for each; a gradient of the gradient takes u and v for constants.
    """
    x = tensor(input, "singular_values")
    kind = x.dtype
    x = _matrices(arith.wide(x), "singular_values", "input")
    if x.shape[-1] > x.shape[-2]:
        x = shapes.swapaxes(x, -1, -2)
    flat = as_batch(x)
    n = flat.shape[2]
    if not flat.size:
        return cast_to(creation.zeros((*x.shape[:-2], n), x.dtype), kind)
    turned = linalg.matmul(flat, rotation(flat))
    length = arith.sqrt(_total(turned * turned))
    u = apply("stop_gradient", turned / arith.where(length == 0.0, 1.0, length))
    return cast_to(shapes.reshape(reductions.sum(arith.mul(u, turned), 1), (*x.shape[:-2], n)),
                   kind)


def rotation(flat: Tensor) -> Tensor:
    """The rotation (B, n, n) that brings the columns of (B, m, n), m >= n, to right angles.

    A constant to gradients.
    """
    batch, rows, n = flat.shape
    v = shapes.broadcast_to(creation.eye(n, None, flat.dtype), (batch, n, n))
    fixed: Tensor = apply("stop_gradient", flat)
    z = joining.concat((fixed, v), 1)
    even = n + n % 2
    if even != n:
        z = shapes.pad(z, (0, 1))
    above = tensor_of((np.arange(rows + n) < rows).astype(flat.dtype.numpy).reshape(1, rows + n, 1))
    trips = (even - 1) * _SWEEPS[flat.dtype] if n > 1 else 0
    if trips:
        (z,), _ = scan(("rotate", rows), [z], [], [above, tensor_of(_round(even))], trips, _rotate)
    return apply_one("stop_gradient", joining.part(joining.part(z, 2, 0, n), 1, rows, rows + n))


def svd(input: Tensor, full_matrices: bool = False, compute_uv: bool = True) -> Any:
    """The singular value decomposition u diag(s) v^T of matrices (..., m, n).

    Args:
        input: float32 or float64.
        full_matrices: u (..., m, m) and v (..., n, n), else u (..., m, k) and v (..., n, k), k the
            smaller of m and n.
        compute_uv: whether u and v are requested.

    Returns:
        s (..., k), the largest first, u and v; s alone without `compute_uv`. Columns of u and v
        may have either sign. Gradients are those of first order.
    """
    x = _matrices(input, "svd", "input")
    boolean(full_matrices, "svd", "full_matrices")
    if not boolean(compute_uv, "svd", "compute_uv"):
        return sorting.sort(singular_values(x), -1, True)[0]
    lead, (rows, columns) = x.shape[:-2], x.shape[-2:]
    wide = columns > rows
    flat = as_batch(shapes.swapaxes(x, -1, -2) if wide else x)
    s, u, v = _decompose(flat, full_matrices)
    u, v = (v, u) if wide else (u, v)
    return (shapes.reshape(s, (*lead, *s.shape[1:])), shapes.reshape(u, (*lead, *u.shape[1:])),
            shapes.reshape(v, (*lead, *v.shape[1:])))


def _decompose(flat: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """s (B, n), u (B, m, n or m) and v (B, n, n) of (B, m, n), m >= n."""
    n = flat.shape[2]
    if not flat.size:
        batch, rows = flat.shape[:2]
        ones = creation.eye(rows, rows if full else n, flat.dtype)
        return (creation.zeros((batch, n), flat.dtype),
                shapes.broadcast_to(ones, (batch, *ones.shape)),
                shapes.broadcast_to(creation.eye(n, None, flat.dtype), (batch, n, n)))
    fixed: Tensor = apply("stop_gradient", flat)
    v = rotation(flat)
    turned = linalg.matmul(fixed, v)
    _, order = sorting.sort(arith.sqrt(reductions.sum(turned * turned, 1)), -1, True)
    pick = shapes.expand_dims(order, 1)
    v = indexing.gather_elements(v, 2, shapes.broadcast_to(pick, v.shape))
    # Q of columns at right angles is those of length one, and others where a column is zero.
    q, r = qr(linalg.matmul(fixed, v), "complete" if full else "reduced")
    size = grid.diagonal(r, 0, 1, 2)
    sign = arith.where(size < 0.0, -1.0, creation.ones_like(size))
    q, s, v = (apply("stop_gradient", t) for t in (q, arith.abs(size), v))
    flip = shapes.expand_dims(sign, 1)
    u = joining.part(q, 2, 0, n) * flip
    s, u_moved, v = _first_order(flat - fixed, s, u, v)
    return s, joining.concat(
        (u_moved, joining.part(q, 2, n, q.shape[2])), 2) if full else u_moved, v


def _first_order(change: Tensor, s: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The decomposition with what a small change of the matrix, which is zero, does to it.

    So gradients are those of u, s and v (Townsend, 2016); of equal singular values the vectors
    have none.
    """
    across = shapes.swapaxes(u, 1, 2)
    p = linalg.matmul(linalg.matmul(across, change), v)
    row, column = shapes.expand_dims(s, 1), shapes.expand_dims(s, 2)
    gap = row * row - column * column
    apart = gap != 0.0
    f = arith.where(apart, 1.0 / arith.where(apart, gap, 1.0), 0.0)
    back = shapes.swapaxes(p, 1, 2)
    of_u = linalg.matmul(u, f * (p * row + column * back))
    of_v = linalg.matmul(v, f * (column * p + back * row))
    if u.shape[1] > u.shape[2]:
        inverse = arith.where(row > 0.0, 1.0 / arith.where(row > 0.0, row, 1.0), 0.0)
        reached = linalg.matmul(change, v) * inverse
        of_u = of_u + (reached - linalg.matmul(u, linalg.matmul(across, reached)))
    return s + grid.diagonal(p, 0, 1, 2), u + of_u, v + of_v


def pinv(x: Tensor, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Tensor:
    """The pseudo-inverses (Moore, Penrose) of matrices (..., m, n): (..., n, m).

    Args:
        x: float32 or float64.
        atol, rtol: a singular value of at most max(atol, rtol * the largest one) counts as zero.
            By default atol is 0, and rtol the larger of m and n times the machine's precision,
            or 0 where atol is given and above 0.
        hermitian: whether the matrices are symmetric (which changes nothing here).
    """
    t = _matrices(x, "pinv", "x")
    boolean(hermitian, "pinv", "hermitian")
    if rtol is None:
        precise = float(np.finfo(t.dtype.numpy).eps)
        default = max(t.shape[-2:]) * precise
        rtol = default if atol is None else arith.where(arith.gt(atol, 0.0), 0.0, default) \
            if isinstance(atol, Tensor) else 0.0 if atol > 0 else default
    s, u, v = svd(t)
    if not t.size:
        return shapes.swapaxes(t, -1, -2)
    largest = reductions.amax(s, -1, True)
    limit = arith.maximum(arith.mul(largest, _column(rtol)), 0.0 if atol is None else _column(atol))
    kept = arith.gt(s, limit)
    inverse = arith.where(kept, 1.0 / arith.where(kept, s, 1.0), 0.0)
    return linalg.matmul(arith.mul(v, shapes.expand_dims(inverse, -2)), shapes.swapaxes(u, -1, -2))


def _column(limit: Any) -> Any:
    """A limit per matrix beside singular values; a number as it is."""
    return shapes.expand_dims(limit, -1) if isinstance(limit, Tensor) and limit.ndim else limit
