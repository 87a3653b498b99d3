"""Order and occurrence: sort, topk, median, nonzero, unique, bincount, searchsorted and kin.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic
from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import bool_, float32, float64, int32, int64

from ...core.declared import misuse
from ...core.dispatch import active_tracer, apply, apply_one
from ...core.native import native
from ...eager.recorder import active_recordings
from ...tensors.index_runtime import found_size, traced, true_positions, unraveled
from ...tensors.promotion import cast_to, constant
from ...tensors.tensor import Array, Tensor, tensor_of
from ..arguments import axis_of, choice, flag, integer, need_known, own_axis, ranked, size, tensor
from . import arith, joining, shapes
from .reductions import amax, sum


@native
def sort(input_x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """Elements in order along an axis (NaN last, stable), and their old positions (int32)."""
    x = tensor(input_x, "sort", "input_x")
    a = own_axis(axis, x.ndim, "sort")
    values, index = apply("sort", x, axis=a, descending=flag(descending, "sort", "descending"))
    return values, cast_to(index, int32)


@native
def argsort(input: Tensor, axis: int = -1, descending: bool = False) -> Tensor:
    """The positions (int32) of the elements in ascending order along `axis`, or with
    `descending=True`: x.gather_elements(axis, positions) is sorted. Equal elements keep their
    order."""
    return sort(tensor(input, "argsort"), axis, descending)[1]


@native
def msort(input: Tensor) -> Tensor:
    """The elements sorted in ascending order along the first axis, of the same shape; NaN sorts
    last."""
    return sort(input, 0)[0]


@native
def topk(
    input: Tensor, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis, in order, and positions (int32).

    Args:
        dim: the axis; None means the last.
        sorted: accepted for compatibility: the result is always in order.
    """
    x = tensor(input, "topk")
    count = integer(k, "topk", "k")
    a = own_axis(-1 if dim is None else dim, x.ndim, "topk", "dim")
    if not 0 <= count <= x.shape[a]:
        raise misuse("topk", f"'k' must be in [0, {x.shape[a]}]", count)
    if a != x.ndim - 1:
        values, index = topk(shapes.swapaxes(x, a, -1), count, -1, largest)
        return shapes.swapaxes(values, a, -1), shapes.swapaxes(index, a, -1)
    values, index = apply("topk", x, k=count, axis=a, largest=flag(largest, "topk", "largest"))
    return values, cast_to(index, int32)


@native
def median(input: Tensor, axis: int = -1, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The median along `axis`, of an even number of elements the lower one, and its position
    (int64)."""
    x = tensor(input, "median")
    a = axis_of(axis, x.ndim, "median")
    values, index = sort(x, a)
    k = (x.shape[a] - 1) // 2
    out = joining.part(values, a, k, k + 1), cast_to(joining.part(index, a, k, k + 1), int64)
    return out if keepdims else (shapes.squeeze(out[0], a), shapes.squeeze(out[1], a))


@native
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along an axis (k from 1), and its position (int64)."""
    x = tensor(input, "kthvalue")
    a = axis_of(dim, x.ndim, "kthvalue", "dim")
    if not 1 <= integer(k, "kthvalue", "k") <= x.shape[a]:
        raise misuse("kthvalue", f"'k' must be in [1, {x.shape[a]}]", k)
    values, index = sort(x, a)
    out = joining.part(values, a, k - 1, k), cast_to(joining.part(index, a, k - 1, k), int64)
    return out if keepdim else (shapes.squeeze(out[0], a), shapes.squeeze(out[1], a))


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the non-zero elements, int64 (n, rank), in row-major order.

    Args:
        as_tuple: return a tuple of one 1-D tensor for each axis instead.

    Raises:
        TypeError: in a run-time branch or loop of a graph.
    """
    x = tensor(input, "nonzero")
    if traced(x):
        mask = x if x.dtype is bool_ else apply("ne", x, constant(0, x.dtype))
        flat, _ = true_positions(mask, "nonzero")
        axes = unraveled(flat, x.shape)
        if as_tuple:
            return tuple(axes)
        made: Tensor = apply("stack", *axes, axis=1) if axes else \
            joining.part(apply("reshape", flat, shape=(*flat.shape, 1)), 1, 0, 0)
        return made
    values = need_known(x, "nonzero")
    if not x.ndim:  # a scalar has no axis to say a position along
        rows = np.zeros((int(values != 0), 0), np.int64)
        return () if as_tuple else tensor_of(rows)
    found = np.nonzero(values)
    if as_tuple:
        return tuple(tensor_of(np.ascontiguousarray(a, np.int64)) for a in found)
    return tensor_of(np.ascontiguousarray(np.stack(found, -1), np.int64))


def unique(input: Tensor) -> tuple[Tensor, Tensor]:
    """Distinct elements by first occurrence, and for each element its position.

    Raises:
        TypeError: complex numbers, which have no order; in a run-time branch or loop of a graph.
    """
    given = tensor(input, "unique")
    if given.dtype.is_complex:
        raise misuse("unique", "'input' must be real numbers or bool", given.dtype, TypeError)
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
    return values, tensor_of(np.ascontiguousarray(positions).reshape(x.shape))


def picked(x: Tensor, found: Array, places: Array, axis: int | None) -> Tensor:
    """The elements (or rows along `axis`) of `x` at some places, which `found` holds already.

    Where a gradient may be taken they are gathered, as in a graph, so that it reaches `x`.
    """
    if not [r for r in active_recordings() if r.value_of(x) is not None]:
        return tensor_of(np.ascontiguousarray(found))
    rows = apply("reshape", x, shape=(x.size,)) if axis is None else x
    return apply_one("gather", rows, tensor_of(places.astype(np.int64)),
                     axis=0 if axis is None else axis)


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
    return apply_one("concat", apply("slice", one, start=(0,), stop=(1,)), differ, axis=0)


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
    if dim is not None:
        dim = own_axis(dim, x.ndim, "unique_consecutive", "dim")
    flat = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    rows = flat.reshape(flat.shape[0], math.prod(flat.shape[1:]))
    new = np.ones(flat.shape[0], bool)
    if flat.shape[0]:
        new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    kept = flat[starts] if dim is None else np.moveaxis(flat[starts], 0, dim)
    out: list[Array] = []
    if return_inverse:
        run = np.cumsum(new, dtype=np.int64) - 1
        out.append(run.reshape(x.shape) if dim is None else run)
    if return_counts:
        out.append(np.diff(np.append(starts, flat.shape[0])).astype(np.int64))
    made = (picked(given, kept, starts, dim), *map(tensor_of, out))
    return made if len(made) > 1 else made[0]


def _traced_runs(x: Tensor, inverse: bool, counts: bool, dim: int | None) -> Any:
    axis = 0 if dim is None else own_axis(dim, x.ndim, "unique_consecutive", "dim")
    rows: Tensor = apply("reshape", x, shape=(x.size,)) if dim is None else x
    n = rows.shape[axis]
    fresh: Tensor = apply("broadcast_to", constant(True, bool_), shape=(n,))
    if is_symbolic(n) or n > 1:
        others = tuple(a for a in range(rows.ndim) if a != axis)
        differ = apply("ne", joining.part(rows, axis, 1, n), joining.part(rows, axis, 0, n - 1))
        differ = apply("reduce_any", differ, axes=others, keepdims=False) if others else differ
        fresh = apply("concat", apply("slice", fresh, start=(0,), stop=(1,)), differ, axis=0)
    starts, found = true_positions(fresh, "unique_consecutive")
    out: list[Tensor] = [apply("gather", rows, starts, axis=axis)]
    if inverse:
        run = apply("sub", apply("cumsum", cast_to(fresh, int64), axis=0), constant(1, int64))
        out.append(apply("reshape", run, shape=x.shape) if dim is None else run)
    if counts and type(n) is int and not n:
        out.append(starts)
    elif counts:
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
        raise misuse("masked_select", "'mask' must be a bool tensor", keep.dtype, TypeError)
    shape = broadcast_all(x.shape, keep.shape)
    flat: Tensor = apply("reshape", apply("broadcast_to", x, shape=shape),
                         shape=(math.prod(shape),))
    if traced(keep):
        where_, _ = true_positions(apply("broadcast_to", keep, shape=shape), "masked_select")
    else:
        found = np.flatnonzero(np.broadcast_to(need_known(keep, "masked_select"), shape))
        where_ = tensor_of(found.astype(np.int64))
    return apply_one("gather", flat, where_, axis=0)


def largest(x: Tensor, least: int, what: str) -> int:
    """The largest of ints, not less than `least`: a size, which a run of a graph finds."""
    if not traced(x):
        known = need_known(x, what)
        return max(int(known.max()), least) if known.size else least
    if x.size == 0:
        return least
    return found_size(arith.maximum(cast_to(amax(x), int64), constant(least, int64)), what)


def bins(x: Tensor, least: int, what: str) -> int:
    """One more than the largest of ints that are counted; not less than `least`."""
    text = f"For '{what}', 'input' must not hold negative numbers."
    if not traced(x):
        known = need_known(x, what)
        if known.size and known.min() < 0:
            raise ValueError(text)
    elif x.size:
        tracer = active_tracer()
        assert tracer is not None
        tracer.check(x, "ValueError", (text,), low=0, high=1 << 62)
    return largest(x, least - 1, what) + 1


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs (or the sum of its weights): float32.

    Raises:
        TypeError: no vector of ints; or in a run-time branch or loop of a graph.
    """
    def filled(number: float, shape: tuple[int, ...]) -> Tensor:
        return apply_one("broadcast_to", constant(number, float64), shape=shape)

    x = cast_to(ranked(input, 1, 1, "bincount"), int64)
    each = filled(1.0, x.shape) if weights is None else tensor(weights, "bincount", "weights")
    if each.shape != x.shape:
        raise misuse("bincount",
                     f"'weights' must have the shape of 'input', {x.shape}, but has {each.shape}")
    room = filled(0.0, (bins(x, size(minlength, "bincount", "minlength"), "bincount"),))
    return cast_to(apply_one("scatter", room, x, cast_to(each, float64), axis=0,
                             mode="add"), float32)


def precedes(edge: Tensor, x: Tensor, equal: bool) -> Tensor:
    """Whether `edge` is before `x`, or, if `equal`, is `x`, in the order of `sort`: NaN is last."""
    before = arith.le(edge, x) if equal else arith.lt(edge, x)
    if not x.dtype.is_float:
        return before
    last = x != x
    return arith.logical_or(
        before, last if equal else arith.logical_and(last, arith.eq(edge, edge)))


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
        right: after equal elements instead of before; `side` says the same by name. NaN comes
            after all numbers.
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
    before = precedes(rows, cell, right)
    return sum(cast_to(before, int32 if out_int32 else int64), -1,
               dtype=int32 if out_int32 else int64)
