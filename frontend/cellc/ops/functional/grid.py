"""Diagonals, triangles, grids and one-hot rows.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime.dtypes import bool_, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native
from ...tensors.promotion import common, default_dtype
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import Ints, axis_of, choice, int_tensor, integer, ranked, size, tensor, tensors
from . import arith, joining, shapes


@native
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and below the diagonal number `diagonal` of matrices (..., n, m), zeros above
    it. 0 is the main diagonal, 1 the one above."""
    return apply_one("tril", tensor(input, "tril"), diagonal=integer(diagonal, "tril", "diagonal"))


@native
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The elements on and above the diagonal number `diagonal` of matrices (..., n, m), zeros below
    it. 0 is the main diagonal, 1 the one above."""
    return apply_one("triu", tensor(input, "triu"), diagonal=integer(diagonal, "triu", "diagonal"))


@native
def diag(input: Tensor) -> Tensor:
    """A tensor of twice the axes with `input` on its diagonal, zeros elsewhere: (n,) gives (n, n),
    (n, m) gives (n, m, n, m)."""
    x = tensor(input, "diag")
    square: Tensor = apply("diag_embed", shapes.ravel(x))
    return shapes.to_shape(square, x.shape * 2)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A square matrix with all elements of `input` on the diagonal number `offset` (0 is the main
    one), zeros elsewhere."""
    return apply_one("diag_embed", shapes.ravel(input),
                     offset=integer(offset, "diagflat", "offset"))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last axis laid out as the diagonal number `offset` of two new axes dim1 and dim2: (...,
    n) gives (..., n, n); all else is 0."""
    x = tensor(input, "diag_embed")
    out: Tensor = apply("diag_embed", x, offset=integer(offset, "diag_embed", "offset"))
    return shapes.moveaxis(out, (-2, -1), (dim1, dim2))


@native
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal number `offset` of the axes dim1 and dim2, as the last axis of the result: (n,
    n) gives (n,)."""
    x = ranked(input, 2, None, "diagonal")
    a, b = axis_of(dim1, x.ndim, "diagonal", "dim1"), axis_of(dim2, x.ndim, "diagonal", "dim2")
    if a == b:
        raise misuse("diagonal", f"dim1 and dim2 must differ, but both are {a}")
    return apply_one("diagonal", shapes.moveaxis(x, (a, b), (-2, -1)),
                     offset=integer(offset, "diagonal", "offset"))


def trace(input: Tensor) -> Tensor:
    """The sum of the main diagonal of a matrix, a scalar of its type: of x[i, i] over all i."""
    x = diagonal(input)
    return apply_one("reduce_sum", x, axes=(x.ndim - 1,), keepdims=False)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """The Vandermonde matrix (len(x), N) of a vector: column j is x ** (N - 1 - j), so the last
    column is 1. N is len(x) by default."""
    vector = ranked(x, 1, 1, "vander", "x")
    n = vector.shape[0] if N is None else size(N, "vander", "N")
    powers = tensor_of(np.arange(n - 1, -1, -1).astype(vector.dtype.numpy))
    return shapes.to_shape(vector, (vector.size, 1)) ** powers


def meshgrid(*inputs: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """One grid for each of k vectors, of the shape of their lengths: the element of that vector at
    each place. `"xy"` (default) swaps the first two axes, `"ij"` does not."""
    given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else inputs
    xs = [shapes.ravel(x) for x in tensors(list(given), "meshgrid", "inputs")]
    choice(indexing, ("xy", "ij"), "meshgrid", "indexing")
    lines, dims = grid_lines(xs, indexing)
    return tuple(shapes.broadcast_to(x, dims) for x in lines)


def grid_lines(xs: Sequence[Tensor], indexing: str) -> tuple[tuple[Tensor, ...], Ints]:
    """Each vector along an axis of its own, and the shape of the grid."""
    axes = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        axes[0], axes[1] = 1, 0
    dims = tuple(xs[a].size for a in axes)
    return tuple(shapes.to_shape(x, tuple(x.size if i == a else 1 for i in range(len(xs))))
                 for x, a in zip(xs, axes, strict=True)), dims


def cartesian_prod(*inputs: Tensor) -> Tensor:
    """All combinations of one element of each of k vectors, as rows (n1 n2 ... nk, k); the last
    vector varies fastest."""
    if len(inputs) == 1:
        return inputs[0]
    return joining.stack([shapes.ravel(g) for g in meshgrid(*inputs, indexing="ij")], -1)


@native
def one_hot(
    indices: Tensor, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1
) -> Tensor:
    """`on_value` at the position an index names along a new axis of length `depth`.

    Args:
        on_value, off_value: numbers or one-element tensors; their type is the result's
            (int64 for ints).
    """
    x = int_tensor(indices, "one_hot", "indices")
    n = integer(depth, "one_hot", "depth")
    if n < 0:
        raise misuse("one_hot", "'depth' must be non-negative", n)
    a = axis_of(axis, x.ndim + 1, "one_hot")
    if isinstance(on_value, Tensor) or isinstance(off_value, Tensor):
        on, off = common("one_hot", on_value, off_value)
        hot: Tensor = apply("one_hot", x, depth=n, axis=a, dtype=bool_, on=True, off=False)
        return arith.where(hot, on, off)
    dtypes = [default_dtype(v) for v in (on_value, off_value)]
    to = dtypes[0] if dtypes[0].is_float else dtypes[1] if dtypes[1].is_float else int64
    return apply_one("one_hot", x, depth=n, axis=a, dtype=to, on=on_value, off=off_value)


@native
def block_diag(*inputs: Tensor) -> Tensor:
    """Matrices along the diagonal of a larger one, zeros elsewhere: (a, b) and (c, d) give (a + c,
    b + d). Vectors are rows, scalars 1 by 1."""
    given = [ranked(x, 0, 2, "block_diag", f"inputs[{i}]")
             for i, x in enumerate(tensors(inputs, "block_diag", "inputs"))]
    blocks = common("block_diag", *map(shapes.atleast_2d, given))
    width = sum(b.shape[1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        rows.append(apply("pad", b, low=(0, before), high=(0, width - before - b.shape[1])))
        before += b.shape[1]
    return joining.concat(rows, 0)
