"""Tensors with some of their elements replaced or updated: by slice, diagonal, row or point.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cellc_runtime.dtypes import int64, uint8

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...tensors.index_plan import check_range
from ...tensors.indexing import setitem
from ...tensors.promotion import cast_to, constant
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import axis_of, integer, own_axis, ranked, size, tensor
from . import arith, indexing, joining, shapes, sorting


def argwhere(input: Tensor) -> Tensor:
    """The positions of all non-zero elements in row-major order, an int64 Tensor (count, rank): the
    shape follows from the elements."""
    out: Tensor = sorting.nonzero(tensor(input, "argwhere"))
    return out


# --- parts replaced by a tensor of their shape ----------------------------------------------------


def _replace(what: str, x: Tensor, src: Any, key: tuple[Any, ...], shape: tuple[int, ...]
             ) -> Tensor:
    new = tensor(src, what, "src")
    if new.shape != shape:
        raise misuse(what, f"'src' must have the shape {shape} of the part it replaces", new.shape)
    return setitem(x, key, new)


def select_scatter(input: Tensor, src: Tensor, axis: int, index: int) -> Tensor:
    """`input` with `input[..., index, ...]` along an axis replaced by `src`.

    Raises:
        IndexError: the index is out of range.
    """
    x = tensor(input, "select_scatter")
    a = axis_of(axis, x.ndim, "select_scatter")
    shape = (*x.shape[:a], *x.shape[a + 1 :])
    return _replace("select_scatter", x, src, (slice(None),) * a + (index,), shape)


def slice_scatter(
    input: Tensor, src: Tensor, axis: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of `input` with `input[start:end:step]` along `axis` replaced by `src`, which has the
    shape of that slice."""
    x = tensor(input, "slice_scatter")
    a = own_axis(axis, x.ndim, "slice_scatter")
    first, last = (None if v is None else integer(v, "slice_scatter", name)
                   for v, name in ((start, "start"), (end, "end")))
    part = slice(first, last, size(step, "slice_scatter", "step", 1))
    count = len(range(*part.indices(x.shape[a])))
    shape = (*x.shape[:a], count, *x.shape[a + 1 :])
    return _replace("slice_scatter", x, src, (slice(None),) * a + (part,), shape)


def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """`input` with its diagonal over two axes replaced by `src`.

    Args:
        src: of the shape of `ops.diagonal(input, offset, dim1, dim2)`.
        offset: the diagonal; above the main one if positive.
    """
    what = "diagonal_scatter"
    x, new = ranked(input, 2, None, what), tensor(src, what, "src")
    first, second = axis_of(dim1, x.ndim, what, "dim1"), axis_of(dim2, x.ndim, what, "dim2")
    if first == second:
        raise misuse(what, f"'dim1' and 'dim2' must differ, but both are {first}")
    numbers = np.arange(x.size).reshape(x.shape)
    apart = max(-x.shape[first], min(integer(offset, what, "offset"), x.shape[second]))
    places = np.ascontiguousarray(np.diagonal(numbers, apart, first, second))
    if new.shape != places.shape:
        raise misuse("diagonal_scatter",
                     f"'src' must have the shape {places.shape} of the diagonal", new.shape)
    flat = apply("scatter", shapes.ravel(x), tensor_of(places.reshape(-1)),
                 shapes.ravel(cast_to(new, x.dtype)), axis=0)
    return shapes.reshape(flat, x.shape)


# --- rows -----------------------------------------------------------------------------------------


def _rows(what: str, x: Any, v: Any, indices: Any, mode: str) -> Tensor:
    t, new = tensor(x, what, "x"), tensor(v, what, "v")
    given = (indices,) if isinstance(indices, int) else indices
    if not isinstance(given, (tuple, list)) or not all(isinstance(i, int) for i in given):
        raise misuse(what, "'indices' must be an int or a tuple of ints", repr(indices), TypeError)
    want = (len(given), *t.shape[1:])
    if new.shape != want:
        raise misuse(what, f"'v' must have the shape {want}", new.shape)
    rows = tensor_of(np.array(given, np.int64))
    indexing.check_index(rows, t.shape[0], what)
    return apply_one("scatter", t, rows, cast_to(new, t.dtype), axis=0, mode=mode)


def inplace_add(x: Tensor, v: Tensor, indices: Any) -> Tensor:
    """A copy of `x` with x[indices[i]] + v[i] as its rows at the positions `indices`; `x` itself
    keeps its value."""
    return _rows("inplace_add", x, v, indices, "add")


def inplace_sub(x: Tensor, v: Tensor, indices: Any) -> Tensor:
    """`x` with the rows of `v` subtracted from its rows at positions; `x` keeps its value."""
    return _rows("inplace_sub", x, v, indices, "sub")


def inplace_index_add(var: Any, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Slices of `updates` added to those of `var` along an axis; a Parameter is updated."""
    return indexing.index_add(var, indices, updates, axis)


# --- points ---------------------------------------------------------------------------------------


scatter_nd_sub = indexing.at_points_of_a_parameter(
    "scatter_nd_sub", "Updates subtracted from slices of a parameter at points.", "sub")
scatter_nd_mul = indexing.at_points_of_a_parameter(
    "scatter_nd_mul", "Slices of a parameter multiplied by updates at points.", "mul")
scatter_nd_div = indexing.at_points_of_a_parameter(
    "scatter_nd_div", "Slices of a parameter divided by updates at points.", "div")
scatter_nd_max = indexing.at_points_of_a_parameter(
    "scatter_nd_max", "The larger of slices of a parameter and updates at points.", "max")
scatter_nd_min = indexing.at_points_of_a_parameter(
    "scatter_nd_min", "The smaller of slices of a parameter and updates at points.", "min")


# --- others ---------------------------------------------------------------------------------------


def reverse_sequence(x: Tensor, seq_lengths: Tensor, seq_dim: int, batch_dim: int = 0) -> Tensor:
    """The first seq_lengths[b] elements along `seq_dim` reversed, for each b along `batch_dim`.

    Raises:
        IndexError: a length below 0 or beyond the axis.
    """
    what = "reverse_sequence"
    t, lengths = tensor(x, what, "x"), tensor(seq_lengths, what, "seq_lengths")
    s = own_axis(seq_dim, t.ndim, what, "seq_dim")
    b = own_axis(batch_dim, t.ndim, what, "batch_dim")
    if s == b or lengths.shape != (t.shape[b],):
        raise misuse(what, "'seq_dim' and 'batch_dim' must differ and 'seq_lengths' must have the "
                     f"shape ({t.shape[b]},)",
                     f"axes {seq_dim}, {batch_dim} and shape {lengths.shape}")
    n = t.shape[s]
    check_range(lengths, 0, n + 1, f"For '{what}', 'seq_lengths' must be in [0, {n}], but got ",
                0, ".")
    along = [1] * t.ndim
    along[b] = t.shape[b]
    size = shapes.reshape(cast_to(lengths, int64), tuple(along))
    along[b], along[s] = 1, n
    at = tensor_of(np.arange(n).reshape(along))
    mirrored = size - at - 1
    index = shapes.broadcast_to(arith.where(at < size, mirrored, at), t.shape)
    return apply_one("gather_elements", t, index, dim=s)


def population_count(input_x: Tensor) -> Tensor:
    """How many bits of each element of an int16 or uint16 Tensor are 1, as uint8 of the same shape.
    Other types raise a TypeError."""
    x = tensor(input_x, "population_count", "input_x")
    if x.dtype.name not in ("int16", "uint16"):
        raise misuse("population_count", "'input_x' must be of int16 or uint16", x.dtype, TypeError)
    v = arith.bitwise_and(cast_to(x, int64), 0xFFFF)
    for shift, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
        high = apply("shift_right", v, constant(shift, int64))
        v = arith.bitwise_and(v, mask) + arith.bitwise_and(high, mask)
    return cast_to(v, uint8)


def tensor_slice(x: Tensor, begin: Any, size: Any) -> Tensor:
    """The part of x that starts at `begin` and has the sizes `size`, one int for each axis:
    `ops.slice` under its older name."""
    return joining.slice(x, begin, size)
