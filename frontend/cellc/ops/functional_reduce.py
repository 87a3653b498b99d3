"""Reductions, running reductions and searches along axes.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, bool_, float16, float32, float64, int32, int64
from cellc_runtime.dtypes import bfloat16 as _bfloat16

from ..common._found import traced, true_positions, unraveled
from ..common._promotion import cast_to, common, constant, inexact
from ..common.tensor import Array, Tensor
from ..core.dispatch import apply
from ..core.native import native, native_body
from ..pynative.recorder import active_recordings
from . import functional_math as m
from ._args import axes_of, axis_of, choice, dtype_of, integer, need_known, number, tensor


def _reduce(op: str, x: Tensor, axis: Any, keepdims: bool, what: str = "") -> Tensor:
    axes = axes_of(axis, x.ndim, what or op)
    if not x.ndim:
        return x
    out: Tensor = apply(op, x, axes=axes, keepdims=bool(keepdims))
    return out


def _wide(x: Tensor) -> Tensor:
    """16-bit floats in float32: sums of squares and means are rounded once, at the end."""
    return cast_to(x, float32) if x.dtype in (float16, _bfloat16) else x


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over axes; ints and bools are summed in int64.

    Args:
        dim: an axis or several; None or () means all.
        keepdim: keep reduced axes as size 1.
        dtype: element type to convert to first.
    """
    return total("reduce_sum", input, dim, keepdim, dtype)


@native_body(by_op=True)
def total(op: str, input: Tensor, axis: Any, keepdims: bool, dtype: DType | None) -> Tensor:
    """A sum or product over axes, of ints and bools in int64 unless a type is given."""
    what = op.removeprefix("reduce_")
    x = tensor(input, what)
    to = dtype_of(dtype, what) if dtype is not None else \
        x.dtype if x.dtype.is_inexact else int64
    return _reduce(op, cast_to(x, to), axis, keepdims, what)


def mean(x: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The arithmetic mean over axes, in the type of the input (ints are cut to whole numbers).

    Raises:
        TypeError: a tensor of bools.
    """
    return _mean(x, axis, keep_dims)


@native_body()
def _mean(x: Tensor, axis: Any, keep_dims: bool) -> Tensor:
    t = tensor(x, "mean", "x")
    if t.dtype is bool_:
        raise TypeError("For 'mean', bool tensors are not supported; cast to a number type.")
    if t.dtype.is_inexact:
        return _reduce("reduce_mean", t, axis, keep_dims, "mean")
    return cast_to(_reduce("reduce_mean", cast_to(t, float64), axis, keep_dims, "mean"), t.dtype)


def prod(
    input: Tensor, axis: Any = None, keep_dims: bool = False, dtype: DType | None = None
) -> Tensor:
    """The product over axes; ints and bools are multiplied in int64."""
    return total("reduce_prod", input, axis, keep_dims, dtype)


def any(input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Whether one element over the axes is non-zero."""
    return truth("reduce_any", input, axis, keep_dims)


def all(input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Whether all elements over the axes are non-zero."""
    return truth("reduce_all", input, axis, keep_dims)


@native_body(by_op=True)
def truth(op: str, input: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Whether one element over the axes is non-zero, or all are."""
    what = op.removeprefix("reduce_")
    return _reduce(op, cast_to(tensor(input, what), bool_), axis, keepdims, what)


@native_body(by_op=True)
def extreme(
    op: str, input: Tensor, axis: Any, keepdims: bool, initial: Any, where: Any
) -> Tensor:
    """The largest or smallest element over axes.

    Raises:
        ValueError: `where` is given without `initial`.
    """
    x = tensor(input, op)
    if x.dtype is bool_:
        return any(x, axis, keepdims) if op == "reduce_max" else all(x, axis, keepdims)
    fill = initial
    if where is not None:
        if initial is None:
            raise ValueError("'initial' must be given when 'where' is")
        x = m.where(where, x, constant(initial, x.dtype))
    out = _reduce(op, x, axis, keepdims, "amax" if op == "reduce_max" else "amin")
    if fill is None:
        return out
    return m.maximum(out, fill) if op == "reduce_max" else m.minimum(out, fill)


def amax(
    input: Tensor, axis: Any = None, keepdims: bool = False, *, initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The largest element over the axes (NaN if one is NaN).

    Args:
        initial: the result is at least this.
        where: only elements where it holds count (needs `initial`).
    """
    return extreme("reduce_max", input, axis, keepdims, initial, where)


def amin(
    input: Tensor, axis: Any = None, keepdims: bool = False, *, initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The smallest element over the axes (NaN if one is NaN).

    Args:
        initial: the result is at most this.
        where: only elements where it holds count (needs `initial`).
    """
    return extreme("reduce_min", input, axis, keepdims, initial, where)


def _arg(op: str, x: Tensor, axis: int, keepdims: bool) -> Tensor:
    x = cast_to(x, int32) if x.dtype is bool_ else x
    if not x.ndim:
        return constant(0, int64)
    out: Tensor = apply(op, x, axis=axis, keepdims=keepdims)
    return out


@native_body(by_op=True)
def with_index(
    op: str, input: Tensor, axis: Any, keepdims: bool, initial: Any, where: Any
) -> tuple[Tensor, Tensor]:
    """The largest or smallest elements along an axis, and their positions."""
    x = tensor(input, op)
    name, arg = ("reduce_max", "argmax") if op == "max" else ("reduce_min", "argmin")
    if axis is None:
        return extreme(name, x, None, False, initial, where), constant(0, int64)
    a = axis_of(axis, x.ndim, op)
    values = extreme(name, x, a, keepdims, initial, where)
    return values, cast_to(_arg(arg, x, a, keepdims), int64)


def max(
    input: Tensor, axis: int | None = None, keepdims: bool = False, *, initial: Any = None,
    where: Any = None,
) -> tuple[Tensor, Tensor]:
    """The largest elements along an axis and the positions of their first occurrences.

    With axis None: the largest of all, and 0.
    """
    return with_index("max", input, axis, keepdims, initial, where)


def min(
    input: Tensor, axis: int | None = None, keepdims: bool = False, *, initial: Any = None,
    where: Any = None,
) -> tuple[Tensor, Tensor]:
    """The smallest elements along an axis and the positions of their first occurrences.

    With axis None: the smallest of all, and 0.
    """
    return with_index("min", input, axis, keepdims, initial, where)


@native
def aminmax(
    input: Tensor, *, axis: int | None = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element along an axis."""
    return amin(input, axis, keepdims), amax(input, axis, keepdims)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position (int64) of the first largest element along an axis; of all if dim is None."""
    return position("argmax", input, dim, keepdim)


def argmin(input: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position (int32) of the first smallest element along an axis; of all if axis is None."""
    return position("argmin", input, axis, keepdims)


@native_body(by_op=True)
def position(op: str, input: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    """The position of the first largest or smallest element along an axis, of all if None."""
    x = tensor(input, op)
    if axis is None:
        found = _arg(op, apply("reshape", x, shape=(x.size,)), 0, False)
    else:
        found = _arg(op, x, axis_of(axis, x.ndim, op), keepdims)
    return found if op == "argmax" else cast_to(found, int32)


@native_body(by_op=True)
def spread(op: str, input: Tensor, axis: Any, ddof: Any, keepdims: bool) -> Tensor:
    """The variance or standard deviation over axes.

    Raises:
        TypeError: the elements are no floats.
    """
    x = tensor(input, op)
    if not x.dtype.is_float:
        raise TypeError(f"For '{op}', 'input' must be a tensor of floats, but got {x.dtype}.")
    less = int(ddof) if isinstance(ddof, bool) else integer(ddof, op, "ddof")
    out: Tensor = apply(f"reduce_{op}", x, axes=axes_of(axis, x.ndim, op),
                        keepdims=bool(keepdims), correction=less)
    return out


def var(input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Tensor:
    """The variance over axes: the sum of squared deviations over (n - ddof)."""
    return spread("var", input, axis, ddof, keepdims)


def std(input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation over axes: the square root of `var`."""
    return spread("std", input, axis, ddof, keepdims)


@native
def var_mean(
    input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Variance and mean over axes."""
    return var(input, axis, ddof, keepdims), mean(input, axis, keepdims)


@native
def std_mean(
    input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over axes."""
    return std(input, axis, ddof, keepdims), mean(input, axis, keepdims)


def _drop(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    shape = tuple(d for i, d in enumerate(x.shape) if i not in axes)
    out: Tensor = apply("reshape", x, shape=shape)
    return out


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log of the sum of exponentials over axes, without overflow."""
    return _logsumexp(input, dim, keepdim)


@native_body()
def _logsumexp(input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return _reduce("logsumexp", inexact(tensor(input, "logsumexp")), dim, keepdim)


@native
def nansum(
    input: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over axes, NaN counting as 0."""
    x = tensor(input, "nansum")
    x = m.where(m.isnan(x), 0, x) if x.dtype.is_float else x
    return sum(x, axis, keepdims, dtype=dtype)


@native
def nanmean(
    input: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean over axes of the elements that are not NaN."""
    x = inexact(tensor(input, "nanmean"))
    known = cast_to(m.logical_not(m.isnan(x)), x.dtype)
    return m.div(nansum(x, axis, keepdims, dtype=dtype), sum(known, axis, keepdims, dtype=dtype))


@native
def count_nonzero(
    x: Tensor, axis: Any = (), keep_dims: bool = False, dtype: DType = int32
) -> Tensor:
    """The number of non-zero elements over axes."""
    return sum(cast_to(m.ne(tensor(x, "count_nonzero", "x"), 0), dtype), axis, keep_dims,
               dtype=dtype)


# --- norms ----------------------------------------------------------------------------------------


def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Tensor:
    """The norm of vectors or matrices.

    Args:
        ord: a number, inf, -inf: of vectors (`dim` an int, or A flat) the p-norm, of matrices
            (`dim` two axes) 1, -1, inf, -inf; `"fro"`; None means the 2-norm of all elements of
            `dim`.
        dim: an axis, two axes, or None.
        keepdim: keep reduced axes as size 1.
        dtype: element type to convert to first.

    Raises:
        ValueError: an order that is not supported for matrices (2, -2, "nuc": they need singular
            values), or more than two axes.
    """
    return _norm(A, ord, dim, keepdim, dtype)


@native_body()
def _norm(A: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: DType | None) -> Tensor:
    x = inexact(tensor(A, "norm", "A"))
    x = x if dtype is None else cast_to(x, dtype_of(dtype, "norm"))
    if ord is None or ord == "fro":
        return _vector_norm(x, 2.0, dim, keepdim)
    axes = axes_of(dim, x.ndim, "norm", "dim")
    if len(axes) > 2:
        raise ValueError(f"For 'norm', 'dim' must be one or two axes, but got {dim}.")
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdim)
    return _vector_norm(x, number(ord, "norm", "ord"), axes, keepdim)


def _vector_norm(x: Tensor, p: float, dim: Any, keepdim: bool) -> Tensor:
    sizes = m.abs(x) if x.dtype.is_complex else x
    out: Tensor = apply("norm", sizes, axes=axes_of(dim, x.ndim, "norm"), keepdims=bool(keepdim),
                        p=float(p))
    return out


def _matrix_norm(x: Tensor, ord: Any, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(
            f"For 'norm', the order {ord!r} of a matrix needs its singular values and is not "
            "supported; use 'fro', 1, -1, inf or -inf."
        )
    first, second = (axes[0], axes[1]) if ord in (1, -1) else (axes[1], axes[0])
    sums = sum(m.abs(x), first, True)
    out = amax(sums, second, True) if ord in (1, math.inf) else amin(sums, second, True)
    return out if keepdim else _drop(out, axes)


@native
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other over all elements."""
    return _vector_norm(inexact(m.sub(input, other)), number(p, "dist", "p"), None, False)


@native
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances between the rows of x1 (..., P, M) and x2 (..., R, M): (..., P, R)."""
    a, b = (inexact(x) for x in common("cdist", x1, x2))
    left: Tensor = apply("reshape", a, shape=(*a.shape[:-1], 1, a.shape[-1]))
    right: Tensor = apply("reshape", b, shape=(*b.shape[:-2], 1, *b.shape[-2:]))
    return _vector_norm(m.sub(left, right), float(number(p, "cdist", "p")), -1, False)


# --- running reductions ---------------------------------------------------------------------------


def cumsum(x: Tensor, axis: int, dtype: DType | None = None) -> Tensor:
    """The sum of each element and those before it along an axis.

    Raises:
        TypeError: a tensor of bools.
    """
    return _cumsum(x, axis, dtype)


@native_body()
def _cumsum(x: Tensor, axis: int, dtype: DType | None) -> Tensor:
    t = tensor(x, "cumsum", "x")
    t = t if dtype is None else cast_to(t, dtype_of(dtype, "cumsum"))
    if t.dtype is bool_:
        raise TypeError("For 'cumsum', bool tensors are not supported; cast to a number type.")
    return _running("cumsum", t, axis)


@native
def cumprod(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """The product of each element and those before it along an axis; ints in int64."""
    t = tensor(input, "cumprod")
    to = dtype_of(dtype, "cumprod") if dtype is not None else \
        t.dtype if t.dtype.is_inexact else int64
    return _running("cumprod", cast_to(t, to), dim)


def _running(op: str, x: Tensor, axis: int) -> Tensor:
    a = axis_of(axis, x.ndim, op)
    out: Tensor = apply(op, x, axis=a) if x.ndim else x
    return out


def cummax(input: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The largest element so far along an axis, and its position (int64)."""
    return _running_extreme("cummax", input, axis)


def cummin(input: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The smallest element so far along an axis, and its position (int64)."""
    return _running_extreme("cummin", input, axis)


@native_body(by_op=True)
def _running_extreme(op: str, input: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    x = tensor(input, op)
    values, index = apply(op, x, axis=axis_of(axis, x.ndim, op))
    return values, cast_to(index, int64)


@native
def logcumsumexp(input: Tensor, axis: int) -> Tensor:
    """log of the running sum of exponentials along an axis, without overflow."""
    x = tensor(input, "logcumsumexp")
    return cast_to(_running("logcumsumexp", inexact(x), axis), x.dtype)


@native
def diff(
    x: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th difference of neighbours along an axis."""
    t = tensor(x, "diff", "x")
    a = axis_of(axis, t.ndim, "diff")
    parts = [p for p in (prepend, t, append) if p is not None]
    if len(parts) > 1:
        t = apply("concat", *(cast_to(p, t.dtype) for p in parts), axis=a)
    for _ in range(integer(n, "diff", "n")):
        t = m.sub(_from(t, a, 1, t.shape[a]), _from(t, a, 0, t.shape[a] - 1))
    return t


def _from(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """x[..., start:stop, ...] on one axis."""
    lo = tuple(start if i == axis else 0 for i in range(x.ndim))
    hi = tuple(stop if i == axis else d for i, d in enumerate(x.shape))
    out: Tensor = apply("slice", x, start=lo, stop=hi)
    return out


@native
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral along an axis by the trapezoid rule."""
    t = inexact(tensor(y, "trapz", "y"))
    a = axis_of(dim, t.ndim, "trapz", "dim")
    left, right = _from(t, a, 0, t.shape[a] - 1), _from(t, a, 1, t.shape[a])
    pair = m.div(m.add(left, right), 2.0)
    if x is None:
        return sum(m.mul(pair, float(dx)), a)
    width = diff(x, 1, -1 if x.ndim == 1 else a)
    if x.ndim == 1:
        shape = tuple(width.size if i == a else 1 for i in range(t.ndim))
        width = apply("reshape", width, shape=shape)
    return sum(m.mul(pair, width), a)


# --- order ----------------------------------------------------------------------------------------


def sort(input_x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Elements in order along an axis (NaN last, stable), and their old positions (int32)."""
    return _sort(input_x, axis, descending)


@native_body()
def _sort(input_x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    x = tensor(input_x, "sort", "input_x")
    a = axis_of(axis, x.ndim, "sort")
    values, index = apply("sort", x, axis=a, descending=bool(descending))
    return values, cast_to(index, int32)


@native
def argsort(input: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """The positions (int32) of the elements in order along an axis."""
    return sort(tensor(input, "argsort"), axis, descending)[1]


@native
def msort(input: Tensor) -> Tensor:
    """Elements in ascending order along the first axis."""
    return sort(input, 0)[0]


def topk(
    input: Tensor, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis, in order, and positions (int32).

    Args:
        dim: the axis; None means the last.
        sorted: accepted for compatibility: the result is always in order.

    Raises:
        ValueError: k is negative or exceeds the length of the axis.
    """
    return _topk(input, k, dim, largest, sorted)


@native_body()
def _topk(
    input: Tensor, k: int, dim: int | None, largest: bool, sorted: bool
) -> tuple[Tensor, Tensor]:
    x = tensor(input, "topk")
    count = integer(k, "topk", "k")
    a = axis_of(-1 if dim is None else dim, x.ndim, "topk", "dim")
    if not 0 <= count <= x.shape[a]:
        raise ValueError(f"For 'topk', 'k' must be in [0, {x.shape[a]}], but got {count}.")
    if a != x.ndim - 1:
        values, index = topk(apply("transpose", x, perm=_swapped(x.ndim, a)), count, -1, largest)
        perm = _swapped(x.ndim, a)
        return apply("transpose", values, perm=perm), apply("transpose", index, perm=perm)
    values, index = apply("topk", x, k=count, axis=a, largest=bool(largest))
    return values, cast_to(index, int32)


def _swapped(rank: int, axis: int) -> tuple[int, ...]:
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return tuple(perm)


@native
def median(input: Tensor, axis: int = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median along an axis, and its position (int64)."""
    x = tensor(input, "median")
    a = axis_of(axis, x.ndim, "median")
    values, index = sort(x, a)
    k = (x.shape[a] - 1) // 2
    out = _from(values, a, k, k + 1), cast_to(_from(index, a, k, k + 1), int64)
    return out if keepdims else (_drop(out[0], (a,)), _drop(out[1], (a,)))


@native
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along an axis (k from 1), and its position (int64).

    Raises:
        ValueError: there is no k-th element.
    """
    x = tensor(input, "kthvalue")
    a = axis_of(dim, x.ndim, "kthvalue", "dim")
    if not 1 <= integer(k, "kthvalue", "k") <= x.shape[a]:
        raise ValueError(f"For 'kthvalue', 'k' must be in [1, {x.shape[a]}], but got {k}.")
    values, index = sort(x, a)
    out = _from(values, a, k - 1, k), cast_to(_from(index, a, k - 1, k), int64)
    return out if keepdim else (_drop(out[0], (a,)), _drop(out[1], (a,)))


# --- results whose number depends on elements -----------------------------------------------------


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the non-zero elements, int64 (n, rank), in row-major order.

    Args:
        as_tuple: return a tuple of one 1-D tensor for each axis instead.

    Raises:
        TypeError: in a run-time branch or loop of a graph.
    """
    x = tensor(input, "nonzero")
    if traced(x):
        flat, _ = true_positions(_nonzero_mask(x), "nonzero")
        axes = unraveled(flat, x.shape)
        if as_tuple:
            return tuple(axes)
        made: Tensor = apply("stack", *axes, axis=1) if axes else \
            apply("reshape", flat, shape=(*flat.shape, 0))
        return made
    found = np.nonzero(need_known(x, "nonzero"))
    if as_tuple:
        return tuple(Tensor._from_array(np.ascontiguousarray(a, np.int64)) for a in found)
    return Tensor._from_array(np.ascontiguousarray(np.stack(found, -1), np.int64))


def _nonzero_mask(x: Tensor) -> Tensor:
    mask: Tensor = x if x.dtype is bool_ else apply("ne", x, constant(0, x.dtype))
    return mask


def unique(input: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct elements by first occurrence, and for each element its position.

    Raises:
        TypeError: in a run-time branch or loop of a graph.
    """
    given = tensor(input, "unique")
    if traced(given):
        return _traced_unique(given)
    x = need_known(given, "unique")
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    index = np.int64 if x.dtype == np.int64 else np.int32
    values = picked(given, x.reshape(-1)[first[order]], first[order], None)
    positions = rank[inverse.reshape(x.shape)].astype(index)
    return values, Tensor._from_array(np.ascontiguousarray(positions))


def picked(x: Tensor, found: Array, places: Array, axis: int | None) -> Tensor:
    """The elements (or rows along `axis`) of `x` at some places, which `found` holds already.

    Where a gradient may be taken they are gathered, as in a graph, so that it reaches `x`.
    """
    if not [r for r in active_recordings() if r.value_of(x) is not None]:
        return Tensor._from_array(np.ascontiguousarray(found))
    rows = apply("reshape", x, shape=(x.size,)) if axis is None else x
    out: Tensor = apply("gather", rows, Tensor._from_array(places.astype(np.int64)),
                        axis=0 if axis is None else axis)
    return out


def _traced_unique(x: Tensor) -> tuple[Tensor, Tensor]:
    """`unique` by sorting: equal elements stand together, the first of them first."""
    flat: Tensor = apply("reshape", x, shape=(x.size,))
    ordered, perm = apply("sort", flat, axis=0, descending=False)
    perm = cast_to(perm, int64)
    fresh = _starts_run(ordered)
    starts, found = true_positions(fresh, "unique")
    first = apply("gather", perm, starts, axis=0)
    _, order = apply("sort", first, axis=0, descending=False)
    order = cast_to(order, int64)
    values: Tensor = apply("gather", flat, apply("gather", first, order, axis=0), axis=0)
    blank = apply("broadcast_to", constant(0, int64), shape=(found,))
    rank = apply("scatter", blank, order, apply("iota", shape=(found,), axis=0, dtype=int64),
                 axis=0)
    run = apply("sub", apply("cumsum", cast_to(fresh, int64), axis=0), constant(1, int64))
    room = apply("broadcast_to", constant(0, int64), shape=flat.shape)
    positions = apply("scatter", room, perm, apply("gather", rank, run, axis=0), axis=0)
    index = int64 if x.dtype is int64 else int32
    return values, cast_to(apply("reshape", positions, shape=x.shape), index)


def _starts_run(x: Tensor) -> Tensor:
    """Which elements of a vector differ from the one before; NaNs are equal to each other."""
    n = x.shape[0]
    one: Tensor = apply("broadcast_to", constant(True, bool_), shape=(n,))
    if isinstance(n, int) and not is_symbolic(n) and n < 2:
        return one
    after = apply("slice", x, start=(1,), stop=(n,))
    before = apply("slice", x, start=(0,), stop=(n - 1,))
    differ = apply("ne", after, before)
    if x.dtype.is_float:
        both = apply("logical_and", apply("ne", after, after), apply("ne", before, before))
        differ = apply("logical_and", differ, apply("logical_not", both))
    out: Tensor = apply("concat", apply("slice", one, start=(0,), stop=(1,)), differ, axis=0)
    return out


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Elements that differ from the one before (of all, or slices along `dim`).

    Args:
        return_inverse: also the position of each element's run.
        return_counts: also the length of each run.

    Raises:
        TypeError: in a run-time branch or loop of a graph.
    """
    given = tensor(input, "unique_consecutive")
    if traced(given):
        return _traced_runs(given, return_inverse, return_counts, dim)
    x = need_known(given, "unique_consecutive")
    flat = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    rows = flat.reshape(flat.shape[0], -1)
    new = np.ones(flat.shape[0], bool)
    if flat.shape[0]:
        new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    kept = flat[starts] if dim is None else np.moveaxis(flat[starts], 0, dim)
    out: list[Array] = []
    if return_inverse:
        run = np.cumsum(new) - 1
        out.append((run.reshape(x.shape) if dim is None else run).astype(np.int64))
    if return_counts:
        out.append(np.diff(np.append(starts, flat.shape[0])).astype(np.int64))
    along = None if dim is None else dim % given.ndim
    made = (picked(given, kept, starts, along),
            *(Tensor._from_array(np.ascontiguousarray(a)) for a in out))
    return made if len(made) > 1 else made[0]


def _traced_runs(x: Tensor, inverse: bool, counts: bool, dim: int | None) -> Any:
    axis = 0 if dim is None else axis_of(dim, x.ndim, "unique_consecutive", "dim")
    rows: Tensor = apply("reshape", x, shape=(x.size,)) if dim is None else x
    n = rows.shape[axis]
    fresh: Tensor = apply("broadcast_to", constant(True, bool_), shape=(n,))
    if is_symbolic(n) or n > 1:
        others = tuple(a for a in range(rows.ndim) if a != axis)
        differ = apply("ne", _from(rows, axis, 1, n), _from(rows, axis, 0, n - 1))
        differ = apply("reduce_any", differ, axes=others, keepdims=False) if others else differ
        fresh = apply("concat", apply("slice", fresh, start=(0,), stop=(1,)), differ, axis=0)
    starts, found = true_positions(fresh, "unique_consecutive")
    out: list[Tensor] = [apply("gather", rows, starts, axis=axis)]
    if inverse:
        run = apply("sub", apply("cumsum", cast_to(fresh, int64), axis=0), constant(1, int64))
        out.append(apply("reshape", run, shape=x.shape) if dim is None else run)
    if counts:
        end = apply("broadcast_to", constant(n, int64), shape=(1,))
        ends = apply("concat", apply("slice", starts, start=(1,), stop=(found,)), end, axis=0)
        out.append(apply("sub", ends, starts))
    return tuple(out) if len(out) > 1 else out[0]


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, in a 1-D tensor (both broadcast).

    Raises:
        TypeError: in a run-time branch or loop of a graph.
    """
    x, keep = tensor(input, "masked_select"), tensor(mask, "masked_select", "mask")
    if keep.dtype is not bool_:
        raise TypeError(f"For 'masked_select', 'mask' must be a bool tensor, got {keep.dtype}.")
    shape = broadcast_all(x.shape, keep.shape)
    flat: Tensor = apply("reshape", apply("broadcast_to", x, shape=shape),
                         shape=(math.prod(shape),))
    if traced(keep):
        where_, _ = true_positions(apply("broadcast_to", keep, shape=shape), "masked_select")
    else:
        found = np.flatnonzero(np.broadcast_to(need_known(keep, "masked_select"), shape))
        where_ = Tensor._from_array(found.astype(np.int64))
    out: Tensor = apply("gather", flat, where_, axis=0)
    return out


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs (or the sum of its weights): float32.

    Eager only.
    """
    x = need_known(tensor(input, "bincount"), "bincount")
    w = None if weights is None else need_known(weights, "bincount")
    return Tensor._from_array(np.bincount(x, w, minlength).astype(np.float32))


@native
def searchsorted(
    sorted_sequence: Tensor, values: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> Tensor:
    """Where values belong in ordered rows: the number of elements before (or up to) each.

    Args:
        sorted_sequence: (..., n), ascending along the last axis.
        values: (..., k), or any shape (or a number) for a 1-D sequence.
        out_int32: int32 positions, not int64.
        right: after equal elements instead of before; `side` says the same by name.
        sorter: positions that put an unordered sequence in order.
    """
    seq = tensor(sorted_sequence, "searchsorted", "sorted_sequence")
    if side is not None:
        right = choice(side, ("left", "right"), "searchsorted", "side") == "right"
    if sorter is not None:
        seq = apply("gather_elements", seq, sorter, dim=seq.ndim - 1)
    v = values if isinstance(values, Tensor) else constant(values, seq.dtype)
    rows: Tensor = apply("reshape", seq, shape=(*seq.shape[:-1], 1, seq.shape[-1])) \
        if seq.ndim > 1 else seq
    cell: Tensor = apply("reshape", v, shape=(*v.shape, 1))
    before = m.le(rows, cell) if right else m.lt(rows, cell)
    return sum(cast_to(before, int32 if out_int32 else int64), -1,
               dtype=int32 if out_int32 else int64)


__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "argsort", "bincount", "cdist",
    "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "diff", "dist", "logcumsumexp",
    "logsumexp", "masked_select", "max", "mean", "median", "min", "msort", "nanmean", "nansum",
    "nonzero", "norm", "prod", "searchsorted", "sort", "std", "std_mean", "sum", "topk",
    "trapz", "unique", "unique_consecutive", "var", "var_mean",
]
