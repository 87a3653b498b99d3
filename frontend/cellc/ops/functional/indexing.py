"""Gathers, scatters and updates of parameters.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import int32, int64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one, stays
from ...core.native import native, native_body
from ...tensors.index_plan import check_range, known_elements
from ...tensors.indexing import become
from ...tensors.parameter import Parameter
from ...tensors.promotion import cast_to, constant, fresh, is_scalar
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import (
    axis_of,
    choice,
    int_tensor,
    integer,
    ints_or_int,
    named,
    own_axis,
    ranked,
    shape_of,
    tensor,
)
from . import arith, creation, joining, shapes
from .sorting import largest


def check_index(index: Tensor, d: int, what: str) -> None:
    """An IndexError for positions outside of [-d, d), now or when the graph runs."""
    check_range(index, -d, d, f"For '{what}', indices must be in [{-d}, {d}), but got ", 0, ".")


def _check_points(index: Tensor, dims: tuple[int, ...], what: str) -> None:
    """An IndexError for rows of `index` that address no element, now or when the graph runs."""
    known = None if stays(index) else known_elements(index)
    for axis, d in enumerate(dims[: index.shape[-1]] if index.ndim else ()):
        column = joining.part(index, index.ndim - 1, axis, axis + 1) if known is None else \
            tensor_of(np.ascontiguousarray(known[..., axis]))
        check_range(column, -d, d, f"For '{what}', indices along axis {axis} must be in "
                    f"[{-d}, {d}), but got ", 0, ".")


# --- gathers --------------------------------------------------------------------------------------


@native
def gather(input_params: Tensor, input_indices: Tensor, axis: int, batch_dims: int = 0) -> Tensor:
    """Slices along an axis at positions (negative ones count from the end).

    Args:
        batch_dims: leading axes that params and indices share.

    Raises:
        IndexError: a position out of range, where it is known.
    """
    x = tensor(input_params, "gather", "input_params")
    index = int_tensor(input_indices, "gather", "input_indices")
    a = own_axis(axis, x.ndim, "gather")
    batch = integer(batch_dims, "gather", "batch_dims")
    shared = batch + index.ndim if batch < 0 else batch
    check_index(index, x.shape[a], "gather")
    return apply_one("gather", x, index, axis=a, batch_dims=shared)


@native
def gather_elements(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i, j] = input[i, index[i, j]] for dim 1, and so on.

    Raises:
        IndexError: a position out of range, where it is known.
    """
    x, i = tensor(input, "gather_elements"), int_tensor(index, "gather_elements", "index")
    a = axis_of(dim, x.ndim, "gather_elements", "dim")
    if i.ndim != x.ndim:
        raise misuse("gather_elements", f"'index' must have {x.ndim} axes, not {i.ndim}")
    if x.ndim:
        check_index(i, x.shape[a], "gather_elements")
    return apply_one("gather_elements", x, i, dim=a)


def gather_d(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """`gather_elements` under its older name: for dim 1, out[i, j] = x[i, index[i, j]], of the
    shape of index."""
    return gather_elements(x, dim, index)


def take_along_dim(input: Tensor, index: Tensor, dim: int) -> Tensor:
    """`gather_elements` with the axes other than `dim` broadcast."""
    a = axis_of(dim, input.ndim, "take_along_dim", "dim")
    x, at = beside(input, index, a)
    return gather_elements(x, a, at)


def beside(x: Tensor, index: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Two tensors with all axes but one broadcast."""
    rest = broadcast_all(*((*t.shape[:axis], 1, *t.shape[axis + 1 :]) for t in (x, index)))
    first, second = (shapes.broadcast_to(t, (*rest[:axis], t.shape[axis], *rest[axis + 1 :]))
                     for t in (x, index))
    return first, second


@native
def gather_nd(input_x: Tensor, indices: Tensor) -> Tensor:
    """Slices at points: indices (..., k) address the first k axes of the input, so the result is
    (..., *shape[k:]). An index out of range is an IndexError."""
    x, i = tensor(input_x, "gather_nd", "input_x"), int_tensor(indices, "gather_nd", "indices")
    _check_depth(x, i, "gather_nd")
    _check_points(i, x.shape, "gather_nd")
    return apply_one("gather_nd", x, i)


def _check_depth(x: Tensor, points: Tensor, what: str) -> None:
    if not points.ndim or points.shape[-1] > x.ndim:
        raise misuse(what, f"the last axis of 'indices' must hold at most {x.ndim} positions, one "
                     f"for each axis of the input, but the shape of 'indices' is {points.shape}")


@native
def index_select(input: Tensor, axis: int, index: Tensor) -> Tensor:
    """Slices along `axis` at the positions of a vector of ints: with axis 1, (n, m) and an index
    (k,) give (n, k). A position out of range is an IndexError."""
    i = ranked(int_tensor(index, "index_select", "index"), 0, 1, "index_select", "index")
    return gather(input, shapes.ravel(i), axis)


def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements at positions of all elements in row-major order, of the shape of `index`. A position
    out of range is an IndexError."""
    return gather(shapes.ravel(tensor(input, "take")), int_tensor(index, "take", "index"), 0)


@native
def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False,
) -> Tensor:
    """Rows of `weight` (V, E) at indices.

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: rows that are read are first scaled to at most this norm (a parameter is
            changed in place), of order `norm_type`.
        scale_grad_by_freq: divide a row's gradient by how often it is read.
    """
    index = int_tensor(input, "embedding", "input")
    table = ranked(weight, 2, 2, "embedding", "weight")
    check_index(index, table.shape[0], "embedding")
    if max_norm is not None:
        table = _renormalize(table, index, float(max_norm), float(norm_type))
    pad = None if padding_idx is None else axis_of(
        padding_idx, table.shape[0], "embedding", "padding_idx")
    out: Tensor = apply("embedding", table, index, padding_idx=pad)
    if not scale_grad_by_freq:
        return out
    read = apply("scatter", creation.zeros((table.shape[0],), table.dtype), shapes.ravel(index),
                 creation.ones((index.size,), table.dtype), axis=0, mode="add")
    share = out / shapes.expand_dims(apply("gather", read, index, axis=0), -1)
    # The difference is zero; its gradient is that of the share.
    return apply_one("stop_gradient", out) + (share - apply_one("stop_gradient", share))


def _renormalize(table: Tensor, index: Tensor, limit: float, p: float) -> Tensor:
    """The table with every row that is read scaled to at most `limit`."""
    size = apply("norm", table, axes=(1,), keepdims=True, p=float(p))
    scale = arith.where(arith.gt(size, limit), limit / arith.add(size, 1e-7), 1.0)
    zeros = creation.zeros((table.shape[0],), int32)
    seen = apply("scatter", zeros, shapes.ravel(index), creation.ones((index.size,), int32), axis=0)
    rows = shapes.reshape(arith.ne(seen, 0), (table.shape[0], 1))
    new = arith.where(rows, table * scale, table)
    if isinstance(table, Parameter):
        become(table, new)
        return table
    return new


def sequence_mask(lengths: Tensor, maxlen: int | None = None) -> Tensor:
    """mask[..., j] = j < lengths[...]; `maxlen` positions (the longest length if None)."""
    n = tensor(lengths, "sequence_mask", "lengths")
    width = largest(n, 0, "sequence_mask") if maxlen is None else \
        integer(maxlen, "sequence_mask", "maxlen")
    grid = apply("iota", shape=(width,), axis=0, dtype=n.dtype)
    return arith.lt(grid, shapes.reshape(n, (*n.shape, 1)))


# --- scatters -------------------------------------------------------------------------------------


@native_body(by_op=True)
def _scatter_nd(input_x: Any, indices: Any, updates: Any, mode: str, what: str) -> Tensor:
    """A tensor with updates put in at points."""
    x, i = tensor(input_x, what, "input_x"), int_tensor(indices, what, "indices")
    new = tensor(updates, what, "updates")
    _check_depth(x, i, what)
    depth = i.shape[-1]
    want = i.shape[:-1] + x.shape[depth:]
    if new.shape != want:
        raise misuse(what, f"'updates' must have the shape {want}", new.shape)
    _check_points(i, x.shape, what)
    return apply_one("scatter_nd", x, i, cast_to(new, x.dtype), mode=mode)


class _Scatter(Protocol):
    def __call__(self, input_x: Tensor, indices: Tensor, updates: Tensor) -> Tensor: ...


_POINTS = "indices (..., k) address the first k axes; one out of range is an IndexError."


def _at_points(name: str, doc: str, mode: str, rule: Callable[..., Tensor] = _scatter_nd
               ) -> _Scatter:
    def function(input_x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        return rule(input_x, indices, updates, mode, name)

    return named(function, name, doc)


tensor_scatter_update = _at_points(
    "tensor_scatter_update",
    f"A copy of input_x with slices at points replaced by updates: {_POINTS}", "update")
tensor_scatter_add = _at_points(
    "tensor_scatter_add",
    f"A copy of input_x with updates added at points, in order: {_POINTS}", "add")
tensor_scatter_sub = _at_points(
    "tensor_scatter_sub",
    f"A copy of input_x with updates subtracted at points, in order: {_POINTS}", "sub")
tensor_scatter_mul = _at_points(
    "tensor_scatter_mul",
    f"A copy of input_x multiplied by updates at points, in order: {_POINTS}", "mul")
tensor_scatter_div = _at_points(
    "tensor_scatter_div",
    f"A copy of input_x divided by updates at points, in order: {_POINTS}", "div")
tensor_scatter_max = _at_points(
    "tensor_scatter_max",
    f"A copy of input_x with the larger of it and updates at points: {_POINTS}", "max")
tensor_scatter_min = _at_points(
    "tensor_scatter_min",
    f"A copy of input_x with the smaller of it and updates at points: {_POINTS}", "min")


def _scatter_elements(x: Tensor, axis: Any, index: Any, src: Any, mode: str, what: str) -> Tensor:
    x, i = tensor(x, what), int_tensor(index, what, "indices")
    new = constant(src, x.dtype) if is_scalar(src) else tensor(src, what, "updates")
    a = axis_of(axis, x.ndim, what)
    if new.shape != i.shape:
        new = shapes.broadcast_to(new, i.shape)
    if x.ndim:
        check_index(i, x.shape[a], what)
    return apply_one("scatter_elements", x, i, cast_to(new, x.dtype), axis=a, mode=mode)


@native
def tensor_scatter_elements(
    input_x: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """out[i, indices[i, j]] = updates[i, j] for axis 1 (or added, with reduction `"add"`)."""
    mode = choice(reduction, ("none", "add", "sub", "mul", "div", "max", "min"),
                  "tensor_scatter_elements", "reduction")
    return _scatter_elements(input_x, axis, indices, updates,
                             "update" if mode == "none" else mode, "tensor_scatter_elements")


@native
def scatter(input: Tensor, axis: int, index: Tensor, src: Any) -> Tensor:
    """A copy of the input with src written along an axis: out[i, index[i, j]] = src[i, j] for axis
    1. An index out of range is an IndexError."""
    return _scatter_elements(input, axis, index, src, "update", "scatter")


def scatter_add_ext(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """out[i, index[i, j]] += src[i, j] for dim 1 (the Tensor method `scatter_add`)."""
    return _scatter_elements(input, dim, index, src, "add", "scatter_add")


@native
def scatter_nd(indices: Tensor, updates: Tensor, shape: Any) -> Tensor:
    """Zeros of `shape` with updates added at points: indices (..., k) address the first k axes,
    equal ones add up. An index out of range is an IndexError."""
    new = tensor(updates, "scatter_nd", "updates")
    return _scatter_nd(
        creation.zeros(shape_of(shape, "scatter_nd"), new.dtype), indices, new, "add",
        "scatter_nd")


@native
def index_add(
    x: Tensor, indices: Tensor, y: Tensor, axis: int, use_lock: bool = True,
    check_index_bound: bool = True,
) -> Tensor:
    """The slices of y added to those of x along an axis at positions; a Parameter is updated."""
    t, i = tensor(x, "index_add", "x"), int_tensor(indices, "index_add", "indices")
    a = axis_of(axis, t.ndim, "index_add")
    check_index(i, t.shape[a], "index_add")
    new: Tensor = apply("scatter", t, i, cast_to(y, t.dtype), axis=a, mode="add")
    return _write(t, new)


@native
def index_fill(x: Tensor, axis: int, index: Any, value: Any) -> Tensor:
    """The slices of x along an axis at positions filled with one value.

    Raises:
        IndexError: a position out of range, where it is known.
    """
    t = tensor(x, "index_fill", "x")
    a = axis_of(axis, t.ndim, "index_fill")
    i = shapes.ravel(index if isinstance(index, Tensor) else
                     Tensor(ints_or_int(index, "index_fill", "index"), int64))
    if isinstance(value, Tensor) and value.size != 1:
        raise misuse("index_fill", f"'value' must be one number, but has shape {value.shape}")
    cell = cast_to(value, t.dtype) if isinstance(value, Tensor) else constant(value, t.dtype)
    shape = (*t.shape[:a], i.size, *t.shape[a + 1 :])
    check_index(i, t.shape[a], "index_fill")
    return apply_one("scatter", t, i, shapes.broadcast_to(shapes.reshape(cell, ()), shape), axis=a)


def unsorted_segment_sum(input_x: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """Sums of the slices with one segment id, (num_segments, ...); negative ids are left out."""
    return _segments("add", input_x, segment_ids, num_segments)


def unsorted_segment_max(x: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """The largest of the slices with one segment id (the type's smallest number for none)."""
    return _segments("max", x, segment_ids, num_segments)


def unsorted_segment_min(x: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """The smallest of the slices with one segment id (the type's largest number for none)."""
    return _segments("min", x, segment_ids, num_segments)


def unsorted_segment_prod(x: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    """The product of the slices with one segment id: out[s] of all x[i] with segment_ids[i] = s; 1
    where there is none."""
    return _segments("mul", x, segment_ids, num_segments)


def _segments(mode: str, x: Tensor, segment_ids: Tensor, num_segments: int) -> Tensor:
    what = "unsorted_segment"
    t, ids = tensor(x, what, "x"), int_tensor(segment_ids, what, "segment_ids")
    n = integer(num_segments, what, "num_segments")
    rest = t.shape[ids.ndim :]
    rows = shapes.reshape(t, (ids.size, *rest))
    flat = cast_to(shapes.ravel(ids), int64)
    check_range(flat, -(1 << 63), n, f"For '{what}', segment ids must be below {n}, but got ", 0,
                ".")
    # A spare row takes the slices with a negative id; it is cut off at the end.
    flat = arith.where(flat < 0, n, flat)
    start = creation.full((n + 1, *rest), _neutral(mode, t), dtype=t.dtype)
    out: Tensor = apply("scatter", start, flat, rows, axis=0, mode=mode)
    return joining.part(out, 0, 0, n)


def _neutral(mode: str, x: Tensor) -> Any:
    if mode in ("add", "mul"):
        return 0 if mode == "add" else 1
    if x.dtype.is_float:
        top = float(arith.largest(x.dtype))
        return -top if mode == "max" else top
    info = np.iinfo(x.dtype.numpy)
    return int(info.min if mode == "max" else info.max)


# --- updates of parameters ------------------------------------------------------------------------


def _write(x: Tensor, new: Tensor) -> Tensor:
    """The new value, which a Parameter is given too."""
    if isinstance(x, Parameter):
        become(x, new)
    return new


def _variable(x: Any, what: str) -> Tensor:
    if not isinstance(x, Tensor):
        raise misuse(what, "'variable' must be a Parameter or Tensor", type(x).__name__, TypeError)
    return x


def assign(variable: Parameter | Tensor, value: Any) -> Tensor:
    """Give a parameter, or a tensor in place, a value (broadcast to its shape, in its type); that
    value."""
    p = _variable(variable, "assign")
    v = cast_to(value, p.dtype) if isinstance(value, Tensor) else constant(value, p.dtype)
    if v.shape != p.shape:
        v = shapes.broadcast_to(shapes.reshape(v, p.shape) if v.size == p.size else v, p.shape)
    become(p, v)
    # A later change of the result leaves what was given as it is. (A value of a graph never
    # changes, and optimizers, which use no result, get no op for it.)
    return copy(v) if hasattr(type(v), "ir_value") else fresh(v)


def assign_add(variable: Parameter | Tensor, value: Any) -> Tensor:
    """variable += value, which broadcasts to its shape: changes a Parameter or tensor in place, and
    returns its new value."""
    p = _variable(variable, "assign_add")
    return assign(p, arith.add(p, value))


def assign_sub(variable: Parameter | Tensor, value: Any) -> Tensor:
    """variable -= value, which broadcasts to its shape: changes a Parameter or tensor in place, and
    returns its new value."""
    p = _variable(variable, "assign_sub")
    return assign(p, arith.sub(p, value))


def _scatter_rows(input_x: Any, indices: Any, updates: Any, mode: str, what: str) -> Tensor:
    x, i = tensor(input_x, what, "input_x"), int_tensor(indices, what, "indices")
    new = cast_to(tensor(updates, what, "updates"), x.dtype)
    want = i.shape + x.shape[1:]
    if new.shape != want:
        new = shapes.broadcast_to(new, want)
    check_index(i, x.shape[0], what)
    return _write(
        x, apply("scatter", x, shapes.ravel(i), shapes.reshape(new, (i.size, *x.shape[1:])),
                 axis=0, mode=mode))


def _at_rows(name: str, doc: str, mode: str) -> _Scatter:
    doc += " Returns the new value; an index out of range is an IndexError."
    function: Any = _at_points(name, doc, mode, _scatter_rows)
    function.__annotations__["input_x"] = "Parameter"
    made: _Scatter = function
    return made


scatter_update = _at_rows(
    "scatter_update", "input_x[indices[i]] = updates[i] in a Parameter, in order.", "update")
scatter_add = _at_rows(
    "scatter_add", "input_x[indices[i]] += updates[i] in a Parameter, in order.", "add")
scatter_sub = _at_rows(
    "scatter_sub", "input_x[indices[i]] -= updates[i] in a Parameter, in order.", "sub")
scatter_mul = _at_rows(
    "scatter_mul", "input_x[indices[i]] *= updates[i] in a Parameter, in order.", "mul")
scatter_div = _at_rows(
    "scatter_div", "input_x[indices[i]] /= updates[i] in a Parameter, in order.", "div")
scatter_max = _at_rows(
    "scatter_max", "The larger of input_x[indices[i]] and updates[i], in a Parameter.", "max")
scatter_min = _at_rows(
    "scatter_min", "The smaller of input_x[indices[i]] and updates[i], in a Parameter.", "min")


def scatter_nd_update(input_x: Parameter, indices: Tensor, updates: Tensor) -> Tensor:
    """Replace slices of a Parameter: indices (..., k) address its first k axes; the last of equal
    ones stays. Returns the new value."""
    return _write(input_x, tensor_scatter_update(input_x, indices, updates))


class _ScatterAt(Protocol):
    def __call__(
        self, input_x: Parameter, indices: Tensor, updates: Tensor, use_locking: bool = False
    ) -> Tensor: ...


def at_points_of_a_parameter(name: str, doc: str, mode: str) -> _ScatterAt:
    """A function that changes a parameter, or a copy of a tensor, at points."""
    def function(
        input_x: Parameter, indices: Tensor, updates: Tensor, use_locking: bool = False
    ) -> Tensor:
        what = f"tensor_scatter_{mode}"
        return _write(input_x, _scatter_nd(input_x, indices, updates, mode, what))

    return named(function, name, f"{doc} Returns the new value; {_POINTS}")


scatter_nd_add = at_points_of_a_parameter(
    "scatter_nd_add", "Updates added to slices of a parameter at points.", "add")


def _places(indices: Any, n: int) -> Any:
    """Positions that are known, one or several, of which an array of ints can be made."""
    given = ints_or_int(indices, "inplace_update", "indices")
    for place in (given,) if isinstance(given, int) else given:
        if place.bit_length() > 63:
            raise IndexError(
                f"For 'inplace_update', indices must be in [{-n}, {n}), but got {place}.")
    return given


def inplace_update(x: Tensor, v: Tensor, indices: Any) -> Tensor:
    """x with rows replaced by those of v, at positions of its first axis.

    Raises:
        IndexError: a position that x does not have.
    """
    t, rows = ranked(x, 1, None, "inplace_update", "x"), tensor(v, "inplace_update", "v")
    i = int_tensor(indices, "inplace_update", "indices") if isinstance(indices, Tensor) else \
        tensor_of(np.array(_places(indices, t.shape[0]), np.int64))
    want = (*i.shape, *t.shape[1:])
    if rows.shape != want:
        raise misuse("inplace_update", f"'v' must have shape {want}, as 'indices' of shape "
                     f"{i.shape} and 'x' of shape {t.shape} say, but has shape {rows.shape}")
    check_index(i, t.shape[0], "inplace_update")
    return apply_one("scatter", t, i, cast_to(rows, t.dtype), axis=0)


@native
def stop_gradient(value: Any) -> Any:
    """The value itself, through which no gradient flows (through a number none does anyway)."""
    if isinstance(value, (tuple, list)):
        return type(value)(stop_gradient(v) for v in value)
    return apply("stop_gradient", value) if isinstance(value, Tensor) else value


def depend(value: Any, expr: Any) -> Any:
    """`value` itself, after the effects of `expr`: effects keep the order of the program in both
    modes, so no call is needed for that."""
    return value
