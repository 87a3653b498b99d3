"""Reductions and running reductions along axes.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from cellc_runtime.dtypes import DType, bool_, float64, int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native, native_body
from ...tensors.promotion import cast_to, constant, fresh, inexact
from ...tensors.tensor import Tensor
from ..arguments import axes_of, axis_of, dtype_of, flag, integer, ranked, size, tensor
from . import arith, joining


def _reduce(
    op: str, x: Tensor, axis: Any, keepdims: bool, what: str = "", **attrs: Any
) -> Tensor:
    axes = axes_of(axis, x.ndim, what or op)
    if not x.ndim:
        return fresh(x)
    return apply_one(op, x, axes=axes, keepdims=flag(keepdims, what or op, "keepdims"), **attrs)


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
    to = dtype_of(dtype, what) if dtype is not None else x.dtype if x.dtype.is_inexact else int64
    return _reduce(op, cast_to(x, to), axis, keepdims, what)


@native
def mean(x: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """The arithmetic mean over axes, in the type of the input (ints are cut to whole numbers)."""
    t = tensor(x, "mean", "x")
    if t.dtype is bool_:
        raise TypeError("For 'mean', bool tensors are not supported; cast to a number type.")
    if t.dtype.is_inexact:
        return _reduce("reduce_mean", t, axis, keep_dims, "mean")
    return cast_to(_reduce("reduce_mean", cast_to(t, float64), axis, keep_dims, "mean"), t.dtype)


def prod(
    input: Tensor, axis: Any = None, keep_dims: bool = False, dtype: DType | None = None
) -> Tensor:
    """The product over `axis` (all axes if None), 1 of no elements; ints and bools are multiplied
    in int64."""
    return total("reduce_prod", input, axis, keep_dims, dtype)


def any(input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Whether at least one element over `axis` (all axes if None) is non-zero, as bools; False of
    no elements. NaN counts as non-zero."""
    return truth("reduce_any", input, axis, keep_dims)


def all(input: Tensor, axis: Any = None, keep_dims: bool = False) -> Tensor:
    """Whether all elements over `axis` (all axes if None) are non-zero, as bools; True of no
    elements. NaN counts as non-zero."""
    return truth("reduce_all", input, axis, keep_dims)


@native_body(by_op=True)
def truth(op: str, input: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Whether one element over the axes is non-zero, or all are."""
    what = op.removeprefix("reduce_")
    return _reduce(op, cast_to(tensor(input, what), bool_), axis, keepdims, what)


@native_body(by_op=True)
def extreme(
    op: str, input: Tensor, axis: Any, keepdims: bool, initial: Any, where: Any,
    first: bool = False,
) -> Tensor:
    """The largest or smallest element over axes; its gradient is shared among equal ones, or, of
    one axis, goes to the first."""
    x = tensor(input, op)
    if x.dtype is bool_:
        return any(x, axis, keepdims) if op == "reduce_max" else all(x, axis, keepdims)
    fill = initial
    if where is not None:
        if initial is None:
            raise ValueError("'initial' must be given when 'where' is")
        x = arith.where(where, x, constant(initial, x.dtype))
    out = _reduce(op, x, axis, keepdims, "amax" if op == "reduce_max" else "amin", first=first)
    if fill is None:
        return out
    return arith.maximum(out, fill) if op == "reduce_max" else arith.minimum(out, fill)


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
    return apply_one(op, x, axis=axis, keepdims=keepdims)


@native_body(by_op=True)
def with_index(
    op: str, input: Tensor, axis: Any, keepdims: bool, initial: Any, where: Any
) -> tuple[Tensor, Tensor]:
    """The largest or smallest elements along an axis, and their positions.

    The elements are read at the positions, so that among equal ones the gradient reaches the one
    that is named.
    """
    x = tensor(input, op)
    name, arg = ("reduce_max", "argmax") if op == "max" else ("reduce_min", "argmin")
    if axis is None:
        return extreme(name, x, None, False, initial, where), constant(0, int64)
    a = axis_of(axis, x.ndim, op)
    values = extreme(name, x, a, keepdims, initial, where, True)
    if initial is not None:  # the elements that `initial` beats are equal to it
        bound = constant(initial, x.dtype)
        x = arith.maximum(x, bound) if op == "max" else arith.minimum(x, bound)
        x = x if where is None else arith.where(where, x, bound)
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
    """The smallest and the largest element along an axis, of those that are not NaN.

    Where all are, so are the results.
    """
    x = tensor(input, "aminmax")
    if not x.dtype.is_float:
        return _extreme("min", x, axis, keepdims), _extreme("max", x, axis, keepdims)
    empty = arith.isnan(x)
    low, high = (_extreme(op, arith.where(empty, end, x), axis, keepdims)
                 for op, end in (("min", math.inf), ("max", -math.inf)))
    none = all(empty, axis, keepdims)
    return arith.where(none, math.nan, low), arith.where(none, math.nan, high)


def _extreme(op: str, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    """The largest or smallest elements, of all elements if the axis is None."""
    if axis is None:
        return amin(x, axis, keepdims) if op == "min" else amax(x, axis, keepdims)
    return with_index(op, x, axis, keepdims, None, None)[0]


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
    """The variance or standard deviation over axes; of complex elements the variances of the real
    and of the imaginary parts are added."""
    x = tensor(input, op)
    if x.dtype.is_complex:
        both = arith.add(
            *(var(part, axis, ddof, keepdims) for part in (arith.real(x), arith.imag(x))))
        return arith.sqrt(both) if op == "std" else both
    if not x.dtype.is_float:
        raise misuse(op, "'input' must be a tensor of floats", x.dtype, TypeError)
    less = int(ddof) if isinstance(ddof, bool) else integer(ddof, op, "ddof")
    return apply_one(f"reduce_{op}", x, axes=axes_of(axis, x.ndim, op),
                     keepdims=flag(keepdims, op, "keepdims"), correction=less)


def var(input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Tensor:
    """The variance over `axis` (all axes if None): the sum of squared deviations from the mean,
    divided by n - ddof. Floats only."""
    return spread("var", input, axis, ddof, keepdims)


def std(input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation over `axis` (all axes if None): the square root of `var`, with n -
    ddof in the denominator. Floats only."""
    return spread("std", input, axis, ddof, keepdims)


@native
def var_mean(
    input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The pair of variance and mean over `axis` (all axes if None), with the arguments of `var`.
    Floats only."""
    return var(input, axis, ddof, keepdims), mean(input, axis, keepdims)


@native
def std_mean(
    input: Tensor, axis: Any = None, ddof: Any = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """The pair of standard deviation and mean over `axis` (all axes if None), with the arguments of
    `std`. Floats only."""
    return std(input, axis, ddof, keepdims), mean(input, axis, keepdims)


@native
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over the axes `axis`, computed without overflow: max + log(sum(exp(x -
    max))). Floats only."""
    return _reduce("logsumexp", inexact(tensor(input, "logsumexp")), dim, keepdim)


@native
def nansum(
    input: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The sum over the axes `axis` (all if None), where NaN counts as 0; ints and bools are added
    in int64."""
    x = tensor(input, "nansum")
    x = arith.where(arith.isnan(x), 0, x) if x.dtype.is_float else x
    return sum(x, axis, keepdims, dtype=dtype)


@native
def nanmean(
    input: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """The mean over the axes `axis` (all if None) of the elements that are not NaN; NaN where all
    are. Floats only."""
    x = inexact(tensor(input, "nanmean"))
    known = cast_to(arith.logical_not(arith.isnan(x)), x.dtype)
    return nansum(x, axis, keepdims, dtype=dtype) / sum(known, axis, keepdims, dtype=dtype)


@native
def count_nonzero(
    x: Tensor, axis: Any = (), keep_dims: bool = False, dtype: DType = int32
) -> Tensor:
    """The number (int32) of elements that are not 0 over `axis` (all axes if None). NaN counts as
    non-zero."""
    return sum(cast_to(tensor(x, "count_nonzero", "x") != 0, dtype), axis, keep_dims, dtype=dtype)


# --- running reductions ---------------------------------------------------------------------------


@native
def cumsum(x: Tensor, axis: int, dtype: DType | None = None) -> Tensor:
    """The sum of each element and those before it along `axis`, of the shape of the input, in its
    type or in `dtype`."""
    t = tensor(x, "cumsum", "x")
    t = t if dtype is None else cast_to(t, dtype_of(dtype, "cumsum"))
    if t.dtype is bool_:
        raise TypeError("For 'cumsum', bool tensors are not supported; cast to a number type.")
    return _running("cumsum", t, axis)


@native
def cumprod(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """The product of each element and those before it along `dim`, of the shape of the input; ints
    and bools are multiplied in int64."""
    t = tensor(input, "cumprod")
    to = dtype_of(dtype, "cumprod") if dtype is not None else \
        t.dtype if t.dtype.is_inexact else int64
    return _running("cumprod", cast_to(t, to), dim)


def _running(op: str, x: Tensor, axis: int) -> Tensor:
    a = axis_of(axis, x.ndim, op)
    return apply_one(op, x, axis=a) if x.ndim else fresh(x)


def cummax(input: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The largest element so far along `axis`, and its position (int64), both of the shape of the
    input; of equal elements the last position. NaN stays."""
    return _running_extreme("cummax", input, axis)


def cummin(input: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The smallest element so far along `axis`, and its position (int64), both of the shape of the
    input; of equal elements the last position. NaN stays."""
    return _running_extreme("cummin", input, axis)


@native_body(by_op=True)
def _running_extreme(op: str, input: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    x = tensor(input, op)
    values, index = apply(op, x, axis=axis_of(axis, x.ndim, op))
    return values, cast_to(index, int64)


@native
def logcumsumexp(input: Tensor, axis: int) -> Tensor:
    """The logarithm of the sum of exponentials of each element and those before it along `axis`,
    computed without overflow."""
    x = tensor(input, "logcumsumexp")
    return cast_to(_running("logcumsumexp", inexact(x), axis), x.dtype)


@native
def diff(
    x: Tensor, n: int = 1, axis: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The n-th difference of neighbours along `axis`: x[i + 1] - x[i], n times, so the axis gets
    shorter by n. `prepend` and `append` are joined before."""
    t = ranked(x, 1, None, "diff", "x")
    a = axis_of(axis, t.ndim, "diff")
    parts = [p for p in (prepend, t, append) if p is not None]
    if len(parts) > 1:
        t = apply("concat", *(cast_to(p, t.dtype) for p in parts), axis=a)
    for _ in range(builtins.min(size(n, "diff", "n"), t.shape[a])):  # then nothing is left
        t = joining.part(t, a, 1, t.shape[a]) - joining.part(t, a, 0, t.shape[a] - 1)
    return t


@native
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoid rule, at the places x, or `dx` apart: sum of
    (y[i] + y[i + 1]) / 2 * dx."""
    t = inexact(tensor(y, "trapz", "y"))
    a = axis_of(dim, t.ndim, "trapz", "dim")
    left, right = joining.part(t, a, 0, t.shape[a] - 1), joining.part(t, a, 1, t.shape[a])
    pair = (left + right) / 2.0
    if x is None:
        return sum(pair * float(dx), a)
    x = tensor(x, "trapz", "x")
    width = diff(x, 1, -1 if x.ndim == 1 else a)
    if x.ndim == 1:
        shape = tuple(width.size if i == a else 1 for i in range(t.ndim))
        width = apply("reshape", width, shape=shape)
    return sum(arith.mul(pair, width), a)
