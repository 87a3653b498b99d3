"""Statistics of tensors: covariance, quantiles, histograms, distances, norms and kin.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from cellc_compiler.ir.types import MOST_PARTS
from cellc_runtime.dtypes import DType, float32, int32, int64
from cellc_runtime.lazy import lazy_imports

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native
from ...tensors.promotion import cast_to, common, inexact, is_scalar
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import (
    axes_of,
    axis_of,
    dtype_of,
    finite,
    flag,
    integer,
    number,
    numbers,
    ranked,
    size,
    tensor,
)
from ..operands import operands_of
from . import arith, creation, joining, linalg, reductions, shapes, sorting, special

with lazy_imports(__name__):
    from . import matrix_norms

_MOST_CHOSEN = 1 << 32  # How many positions `combinations` lists


def bucketize(input: Tensor, boundaries: Any, *, right: bool = False) -> Tensor:
    """The bucket (int32) of each element between ascending boundaries.

    Args:
        right: a boundary belongs to the bucket above it.
    """
    x = tensor(input, "bucketize")
    if not isinstance(boundaries, (list, tuple)):
        raise misuse("bucketize", "'boundaries' must be a list", repr(boundaries), TypeError)
    edges = Tensor(list(boundaries), float32 if not x.dtype.is_float else x.dtype)
    values = x if x.dtype.is_float else cast_to(x, float32)
    return sorting.searchsorted(edges, values, out_int32=True, right=bool(right))


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, in its order, as rows of r; `with_replacement=True`
    may take one twice."""
    x, n = ranked(input, 1, 1, "combinations"), size(r, "combinations", "r", 0, MOST_PARTS)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    count = math.comb(x.shape[0] + (n - 1 if with_replacement else 0), n) if n else 1
    if count * max(n, 1) > _MOST_CHOSEN:
        raise misuse("combinations", f"'r'={n} of {x.shape[0]} elements gives more than the "
                     f"{_MOST_CHOSEN} positions that this function lists")
    found = np.array(list(choose(range(x.shape[0]), n)), np.int64).reshape(count, n)
    return apply_one("gather", x, tensor_of(found), axis=0)


@native
def cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:
    """The covariance matrix of variables (rows of at most 2 axes).

    Args:
        correction: what is subtracted from the number of observations.
        fweights: how often each observation counts.
        aweights: the weight of each observation.
    """
    x = inexact(ranked(input, 0, 2, "cov"))
    x = shapes.reshape(x, (1, -1)) if x.ndim < 2 else x
    weights = [cast_to(tensor(w, "cov", "weights"), x.dtype)
               for w in (fweights, aweights) if w is not None]
    w = creation.ones((x.shape[1],), x.dtype) if not weights else \
        weights[0] if len(weights) == 1 else arith.mul(*weights)
    total = reductions.sum(w)
    apart = x - reductions.sum(arith.mul(x, w), 1, True) / total
    less: Any = float(number(correction, "cov", "correction"))
    if aweights is not None:
        less = arith.mul(reductions.sum(arith.mul(w, cast_to(aweights, x.dtype))), less) / total
    products = linalg.matmul(arith.mul(apart, w), shapes.transpose(arith.conj(apart), (1, 0)))
    return shapes.squeeze(products / arith.maximum(arith.sub(total, less), 0.0))


def histc(input: Tensor, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Tensor:
    """How many elements each of equal bins holds, in the type of the input.

    Args:
        min: the lowest edge; with min == max the smallest and largest element are the edges.
        max: the highest edge, which belongs to the last bin.
    """
    x = shapes.ravel(tensor(input, "histc"))
    n = size(bins, "histc", "bins", 1)
    least, most = (float(finite(v, "histc", name)) for v, name in ((min, "min"), (max, "max")))
    if least > most:
        raise misuse("histc", "'min' must not exceed 'max'", f"{min} and {max}")
    t = inexact(x)
    low: Any = reductions.amin(t) if least == most else least
    high: Any = reductions.amax(t) if least == most else most
    width = arith.sub(high, low)
    flat = width == 0 if isinstance(width, Tensor) else None
    if flat is not None:
        low, width = arith.where(flat, arith.sub(low, 1.0), low), arith.where(flat, 2.0, width)
    place = arith.floor(arith.sub(t, low) * float(n) / width)
    inside = arith.logical_and(arith.ge(t, low), t <= arith.add(low, width))
    index = arith.where(inside, arith.minimum(place, float(n - 1)), -1.0)
    cells: Tensor = apply("iota", shape=(n, 1), axis=0, dtype=int32)
    return reductions.sum(cells == cast_to(index, int32), 1, dtype=x.dtype)


def _quantile(what: str, input: Any, q: Any, axis: Any, keepdims: bool, skip: bool) -> Tensor:
    (x,) = operands_of(what, "input float", input)
    points = numbers([q] if is_scalar(q) else q, what, "q")
    if any(not 0 <= p <= 1 for p in points):
        raise misuse(what, "'q' must be in [0, 1]", points)
    whole = axis is None
    t, a = (shapes.ravel(x), 0) if whole else (x, axis_of(axis, x.ndim, what))
    ordered, _ = sorting.sort(t, a)  # NaN last
    bad = arith.isnan(t)
    n = t.shape[a]
    count = float(n) - reductions.sum(cast_to(bad, t.dtype), a, True) if skip else None
    parts = []
    for p in points:
        place = arith.mul(arith.sub(count, 1.0), p) if count is not None else \
            creation.full((1,) * t.ndim, p * (n - 1), dtype=t.dtype)
        low = arith.clamp(arith.floor(place), 0.0, float(n - 1))
        high = arith.clamp(arith.ceil(place), 0.0, float(n - 1))
        shape = tuple(1 if i == a else d for i, d in enumerate(t.shape))
        first, second = (apply("gather_elements", ordered,
                               shapes.broadcast_to(cast_to(v, int64), shape), dim=a)
                         for v in (low, high))
        parts.append(special.lerp(first, second, place - low))
    none = reductions.all(bad, a, True) if skip else reductions.any(bad, a, True)
    parts = [arith.where(none, math.nan, v) for v in parts]
    if not keepdims:
        parts = [shapes.squeeze(v, a) for v in parts]
    elif whole:
        parts = [shapes.reshape(v, (1,) * x.ndim) for v in parts]
    one = is_scalar(q) or (isinstance(q, Tensor) and not q.ndim)
    return parts[0] if one else joining.stack(parts)


def quantile(input: Tensor, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The q-th quantiles, linear between elements; NaN where one is. Source: `ops.quantile`.

    Args:
        q: a number or vector in [0, 1], known when a graph is compiled; several give a first axis.
    """
    return _quantile("quantile", input, q, axis, keepdims, False)


def nanquantile(input: Tensor, q: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The quantiles `q` (in [0, 1]) along `axis` of the elements that are not NaN, linear between
    two elements."""
    return _quantile("nanquantile", input, q, axis, keepdims, True)


@native
def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of vectors or matrices.

    Args:
        ord: a number, inf, -inf: of vectors (`dim` an int, or A flat) the p-norm, of matrices
            (`dim` two axes) those of `ops.matrix_norm`; `"fro"`; None means the 2-norm of all
            elements of `dim`.
        dim: an axis, two axes, or None.
        keepdim: keep reduced axes as size 1.
        dtype: element type to convert to first.
    """
    x = inexact(tensor(A, "norm", "A"))
    x = x if dtype is None else cast_to(x, dtype_of(dtype, "norm"))
    if ord is None or ord == "fro":
        return vector_norms(x, 2.0, dim, keepdim)
    axes = axes_of(dim, x.ndim, "norm", "dim")
    if len(axes) > 2:
        raise misuse("norm", "'dim' must be one or two axes", dim)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdim)
    return vector_norms(x, number(ord, "norm", "ord"), axes, keepdim)


def vector_norms(x: Tensor, p: float, dim: Any, keepdim: bool) -> Tensor:
    """The p-norms over axes of the absolute values; all axes for None."""
    sizes = arith.abs(x) if x.dtype.is_complex else x
    return apply_one("norm", sizes, axes=axes_of(dim, x.ndim, "norm"),
                     keepdims=flag(keepdim, "norm", "keepdim"), p=float(p))


def _matrix_norm(x: Tensor, ord: Any, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    if ord not in (1, -1, math.inf, -math.inf):  # by singular values
        return matrix_norms.matrix_norms(x, ord, axes, keepdim, None, "dim")
    first, second = (axes[0], axes[1]) if ord in (1, -1) else (axes[1], axes[0])
    sums = reductions.sum(arith.abs(x), first, True)
    extreme = reductions.amax if ord in (1, math.inf) else reductions.amin
    out = extreme(sums, second, True)
    return out if keepdim else shapes.squeeze(out, axes)


@native
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """(sum of |input - other|**p) ** (1/p) over all elements, a scalar; p may be 0 or infinite. The
    operands broadcast."""
    return vector_norms(inexact(arith.sub(input, other)), number(p, "dist", "p"), None, False)


@native
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances between the rows of x1 (..., P, M) and x2 (..., R, M): (..., P, R)."""
    given = [ranked(x, 2, None, "cdist", name) for x, name in ((x1, "x1"), (x2, "x2"))]
    a, b = (inexact(x) for x in common("cdist", *given))
    if a.shape[-1] != b.shape[-1]:
        raise misuse("cdist", "'x1' and 'x2' must have rows of one length, but have the shapes "
                     f"{a.shape} and {b.shape}")
    left: Tensor = apply("reshape", a, shape=(*a.shape[:-1], 1, a.shape[-1]))
    right: Tensor = apply("reshape", b, shape=(*b.shape[:-2], 1, *b.shape[-2:]))
    return vector_norms(left - right, float(number(p, "cdist", "p")), -1, False)


@native
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distance (sum of |a - b|**p) ** (1/p) of every pair of the n rows of (..., n, m), in the
    order 01, 02, ..., 12, ...: (..., n (n - 1) / 2)."""
    x = ranked(input, 2, None, "pdist")
    first, second = (tensor_of(np.ascontiguousarray(i)) for i in np.triu_indices(x.shape[-2], 1))
    gap = apply("gather", x, first, axis=x.ndim - 2) - apply("gather", x, second, axis=x.ndim - 2)
    return norm(gap, float(p), -1)


@native
def renorm(input: Tensor, p: float, axis: int, maxnorm: float) -> Tensor:
    """Each slice along `axis` whose p-norm is above `maxnorm`, scaled down to it; the others as
    they are."""
    x = tensor(input, "renorm")
    a = axis_of(axis, x.ndim, "renorm")
    rest = tuple(i for i in range(x.ndim) if i != a)
    size = vector_norms(x, float(p), rest, True)
    scale = arith.where(arith.gt(size, maxnorm), float(maxnorm) / (size + 1e-7), 1.0)
    return x * scale


@native
def vecdot(x: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """The dot products of vectors along an axis, sum(conj(x) * y): x and y broadcast, and the axis
    is gone from the result."""
    products = arith.conj(tensor(x, "vecdot", "x")) * tensor(y, "vecdot", "y")
    return reductions.sum(products, axis)


@native
def vector_norm(x: Tensor, ord: Any = 2, axis: Any = None, keepdims: bool = False, *,
                dtype: DType | None = None) -> Tensor:
    """The norm of order `ord` (2 by default) over the axes `axis` of the absolute values: max for
    inf, the count of non-zeros for 0."""
    t = inexact(tensor(x, "vector_norm", "x"))
    t = t if dtype is None else cast_to(t, dtype_of(dtype, "vector_norm"))
    return vector_norms(t, number(ord, "vector_norm", "ord"), axis, keepdims)


@native
def top_k(input_x: Tensor, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest elements along the last axis in descending order, and their positions (int32):
    (..., n) gives two of (..., k)."""
    return sorting.topk(input_x, k, -1, True, sorted)


def intopk(x1: Tensor, x2: Tensor, k: int) -> Tensor:
    """Whether the score of each row's label is among its k largest.

    Source: `ops.intopk`.
    """
    scores, labels = operands_of("intopk", "x1 (n, c), x2 (n)", x1, x2)
    own: Tensor = apply("gather_elements", scores, shapes.reshape(cast_to(labels, int64), (-1, 1)),
                        dim=1)
    return arith.lt(reductions.sum(scores > own, 1), integer(k, "intopk", "k"))
