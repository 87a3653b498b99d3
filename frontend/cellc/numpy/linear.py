"""Products of arrays, norms and polynomials. Source: the same names in `mindspore.numpy`."""

from __future__ import annotations

from typing import Any

from cellc_runtime.dtypes import bool_, int32

from ..core.declared import misuse
from ..core.dispatch import apply
from ..ops.arguments import axis_of, integer
from ..ops.functional import arith, grid, joining, linalg, reductions, shapes, special, statistics
from ..tensors.promotion import cast_to, inexact
from ..tensors.tensor import Tensor
from ._tensors import as_tensor, finished, from_array, many, rows, together


def _two(what: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, y = together([as_tensor(a, what, "a"), as_tensor(b, what, "b")])
    return (cast_to(x, int32), cast_to(y, int32)) if x.dtype is bool_ else (x, y)


def dot(a: Any, b: Any) -> Tensor:
    """The sum of products over the last axis of a and the last but one of b."""
    x, y = _two("dot", a, b)
    if not x.ndim or not y.ndim:
        return x * y
    inner_axis = y.ndim - 2 if y.ndim > 1 else 0
    if x.shape[-1] != y.shape[inner_axis]:
        raise misuse("numpy.dot", f"shapes {x.shape} and {y.shape} do not fit: axis {x.ndim - 1} "
                     f"and axis {inner_axis} are summed over")
    return linalg.tensordot(x, y, ((x.ndim - 1,), (inner_axis,)))


def outer(a: Any, b: Any) -> Tensor:
    """All products of an element of a and one of b."""
    x, y = _two("outer", a, b)
    return shapes.reshape(x, (-1, 1)) * shapes.reshape(y, (1, -1))


def matmul(x1: Any, x2: Any, dtype: Any = None) -> Tensor:
    """The matrix product."""
    return finished(linalg.matmul(*_two("matmul", x1, x2)), dtype, "matmul")


def multi_dot(arrays: Any) -> Tensor:
    """The product of matrices, in the cheapest order."""
    xs = together(many(arrays, "multi_dot", "arrays"))
    if len(xs) < 2:
        raise misuse("numpy.multi_dot", "at least two arrays are needed")
    first, last = xs[0].ndim == 1, xs[-1].ndim == 1
    xs[0] = shapes.reshape(xs[0], (1, -1)) if first else xs[0]
    xs[-1] = shapes.reshape(xs[-1], (-1, 1)) if last else xs[-1]
    out = _chain(xs, _cheapest([x.shape for x in xs]), 0, len(xs) - 1)
    shape = out.shape[1 if first else 0 : 1 if last else 2]
    return shapes.reshape(out, shape)


def _cheapest(shapes: list[Any]) -> dict[tuple[int, int], int]:
    """Where to cut each stretch of a chain of matrices (dynamic programming)."""
    n = len(shapes)
    cost: dict[tuple[int, int], float] = {(i, i): 0 for i in range(n)}
    cut: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            best = [cost[i, k] + cost[k + 1, j] + shapes[i][0] * shapes[k][1] * shapes[j][1]
                    for k in range(i, j)]
            cost[i, j] = min(best)
            cut[i, j] = i + best.index(cost[i, j])
    return cut


def _chain(xs: list[Tensor], cut: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return xs[i]
    k = cut[i, j]
    return linalg.matmul(_chain(xs, cut, i, k), _chain(xs, cut, k + 1, j))


def matrix_power(a: Any, n: int) -> Tensor:
    """A square matrix multiplied with itself n times, n not negative."""
    x = as_tensor(a, "matrix_power", "a")
    count = integer(n, "numpy.matrix_power", "n")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise misuse("numpy.matrix_power", "a square matrix is needed", x.shape)
    if count < 0:
        raise misuse("numpy.matrix_power", "'n' must not be negative", count)
    return linalg.power(x, count)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """The sum of a diagonal."""
    x = finished(as_tensor(a, "trace", "a"), dtype, "trace")
    parts = grid.diagonal(x, offset, axis1, axis2)
    return reductions.sum(parts, -1, dtype=x.dtype)


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Tensor:
    """The vector product of vectors of 2 or 3 elements."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _two("cross", a, b)
    x = shapes.moveaxis(x, axis_of(axisa, x.ndim, "numpy.cross"), -1)
    y = shapes.moveaxis(y, axis_of(axisb, y.ndim, "numpy.cross"), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise misuse("numpy.cross", "vectors must have 2 or 3 elements",
                     f"shapes {x.shape} and {y.shape}")
    xs, ys = ([apply("gather", v, as_tensor(i, "cross"), axis=v.ndim - 1)
               for i in range(v.shape[-1])] for v in (x, y))
    flat = arith.mul(xs[0], ys[1]) - arith.mul(xs[1], ys[0])
    if len(xs) == len(ys) == 2:
        return flat
    nothing = arith.mul(xs[0], 0)
    x2, y2 = xs[2] if len(xs) == 3 else nothing, ys[2] if len(ys) == 3 else nothing
    out = joining.stack([arith.mul(xs[1], y2) - arith.mul(x2, ys[1]),
                         arith.mul(x2, ys[0]) - arith.mul(xs[0], y2), flat], -1)
    return shapes.moveaxis(out, -1, axis_of(axisc, out.ndim, "numpy.cross"))


# --- polynomials: coefficients from the highest power down ----------------------------------------


def _coefficients(p: Any, what: str) -> Tensor:
    return shapes.ravel(as_tensor(p, what, "p"))


def _pad_left(p: Tensor, length: int) -> Tensor:
    missing = length - p.shape[0]
    if missing <= 0:
        return p
    return joining.concat([from_array([0] * missing, p.dtype), p], 0)


def polyadd(a1: Any, a2: Any) -> Tensor:
    """The sum of polynomials."""
    x, y = together([_coefficients(a1, "polyadd"), _coefficients(a2, "polyadd")])
    n = max(x.shape[0], y.shape[0])
    return _pad_left(x, n) + _pad_left(y, n)


def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference of polynomials."""
    x, y = together([_coefficients(a1, "polysub"), _coefficients(a2, "polysub")])
    n = max(x.shape[0], y.shape[0])
    return _pad_left(x, n) - _pad_left(y, n)


def polymul(a1: Any, a2: Any) -> Tensor:
    """The product of polynomials."""
    x, y = together([_coefficients(a1, "polymul"), _coefficients(a2, "polymul")])
    n, k = x.shape[0], y.shape[0]
    rows = [joining.concat(
        [from_array([0] * i, x.dtype)] * (i > 0) + [arith.mul(x, joining.part(y, 0, i, i + 1))]
        + [from_array([0] * (k - 1 - i), x.dtype)] * (i < k - 1), 0)
            for i in range(k)]
    assert rows[0].shape == (n + k - 1,)
    return special.addn(rows)


def polyder(p: Any, m: int = 1) -> Tensor:
    """The m-th derivative."""
    out = _coefficients(p, "polyder")
    if integer(m, "numpy.polyder", "m") < 0:
        raise misuse("numpy.polyder", "'m' must not be negative", m)
    for _ in range(m):
        n = out.shape[0]
        if n < 2:
            return joining.part(out, 0, 0, 0)
        powers = from_array(range(n - 1, 0, -1), out.dtype)
        out = joining.part(out, 0, 0, n - 1) * powers
    return out


def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The m-th integral with constants k (0 if None)."""
    out = inexact(_coefficients(p, "polyint"))
    if integer(m, "numpy.polyint", "m") < 0:
        raise misuse("numpy.polyint", "'m' must not be negative", m)
    constants = shapes.ravel(as_tensor(0.0 if k is None else k, "polyint", "k"))
    constants = cast_to(constants, out.dtype)
    if constants.shape[0] == 1:
        constants = shapes.broadcast_to(constants, (m,))
    if constants.shape[0] != m:
        raise misuse("numpy.polyint", f"'k' must hold {m} constants", constants.shape[0])
    for i in range(m):
        powers = from_array(range(out.shape[0], 0, -1), out.dtype)
        out = joining.concat([out / powers, joining.part(constants, 0, i, i + 1)], 0)
    return out


def polyval(p: Any, x: Any) -> Tensor:
    """A polynomial at x, by Horner's rule."""
    c, at = together([_coefficients(p, "polyval"), as_tensor(x, "polyval")])
    out = at * 0
    for i in range(c.shape[0]):
        out = out * at + shapes.reshape(joining.part(c, 0, i, i + 1), ())
    return out


ROWS = rows({
    "inner": ("The sum of products over the last axes.",
        lambda a, b: linalg.inner(*_two("inner", a, b))),
    "kron": ("The Kronecker product.", lambda a, b: linalg.kron(*_two("kron", a, b))),
    "norm": ("The norm of vectors or matrices.", lambda x, ord=None, axis=None, keepdims=False:
        statistics.norm(inexact(as_tensor(x, "norm")), ord, axis, keepdims)),
    "tensordot": ("The sum of products over given axes.",
        lambda a, b, axes=2: linalg.tensordot(*_two("tensordot", a, b), axes)),
})
"""Functions of one call, by name."""
globals().update(ROWS)

__all__ = [
    "cross", "dot", "matmul", "matrix_power", "multi_dot", "outer", "polyadd", "polyder", "polyint",
    "polymul", "polysub", "polyval", "trace",
]
__all__ += sorted(ROWS)
