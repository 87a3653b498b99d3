"""Shapes, joins, parts, order and selection of arrays.

Source: the same names in `mindspore.numpy`.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import bool_, float32, int32, int64

from ..core.declared import misuse
from ..core.dispatch import apply, apply_one
from ..ops.arguments import axis_of, choice, integer, ints, is_int
from ..ops.functional import arith, grid, indexing, joining, reductions, shapes, sorting
from ..tensors.promotion import cast_to
from ..tensors.tensor import Tensor
from ._tensors import as_tensor, many, repeated, rows, together

_all, _any, _max, _range = builtins.all, builtins.any, builtins.max, builtins.range


def size(a: Any, axis: Any = None) -> int:
    """The number of elements, in all or along axes."""
    x = as_tensor(a, "size", "a")
    if axis is None:
        return x.size
    axes = (axis,) if is_int(axis) else tuple(axis)
    return math.prod(x.shape[axis_of(v, x.ndim, "numpy.size")] for v in axes)


def isscalar(element: Any) -> bool:
    """Whether it is a number or a string."""
    return isinstance(element, (int, float, complex, str)) and not isinstance(element, Tensor)


# --- shapes ---------------------------------------------------------------------------------------


def ravel(x: Any) -> Tensor:
    """All elements in one axis."""
    return shapes.ravel(as_tensor(x, "ravel"))


def expand_dims(a: Any, axis: Any) -> Tensor:
    """New axes of length 1 at places of the result."""
    x = as_tensor(a, "expand_dims", "a")
    given = (axis,) if is_int(axis) else tuple(ints(axis, "numpy.expand_dims", "axis"))
    rank = x.ndim + len(given)
    places = {axis_of(v, rank, "numpy.expand_dims") for v in given}
    if len(places) != len(given):
        raise misuse("numpy.expand_dims", f"'axis' names a place twice: {axis}")
    dims = iter(x.shape)
    return shapes.reshape(x, tuple(1 if i in places else next(dims) for i in _range(rank)))


def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Without axes of length 1."""
    x = as_tensor(a, "squeeze", "a")
    if axis is not None:
        for v in (axis,) if is_int(axis) else axis:
            if x.shape[axis_of(v, x.ndim, "numpy.squeeze")] != 1:
                raise misuse("numpy.squeeze", f"axis {v} of {x.shape} is not of length 1")
    return shapes.squeeze(x, axis)


def transpose(a: Any, axes: Any = None) -> Tensor:
    """Axes permuted, or all reversed."""
    x = as_tensor(a, "transpose", "a")
    return shapes.transpose(x, tuple(reversed(_range(x.ndim))) if axes is None else axes)


def rollaxis(x: Any, axis: int, start: int = 0) -> Tensor:
    """One axis moved before another."""
    t = as_tensor(x, "rollaxis")
    a = axis_of(axis, t.ndim, "numpy.rollaxis")
    at = integer(start, "numpy.rollaxis", "start")
    if not -t.ndim <= at <= t.ndim:
        raise misuse("numpy.rollaxis", f"'start' must be in [{-t.ndim}, {t.ndim}]", at)
    at = at + t.ndim if at < 0 else at
    return shapes.moveaxis(t, a, at - 1 if a < at else at)


def _each(function: Any, arys: tuple[Any, ...], what: str) -> Any:
    out = [function(as_tensor(a, what, "arys")) for a in arys]
    return out[0] if len(out) == 1 else out


def broadcast_arrays(*args: Any) -> list[Tensor]:
    """Arrays broadcast to their common shape."""
    xs = [as_tensor(a, "broadcast_arrays", "args") for a in args]
    return [repeated(x, out.shape) for x,
            out in zip(xs, shapes.broadcast_tensors(*xs), strict=True)]


# --- joins ----------------------------------------------------------------------------------------


def concatenate(arrays: Any, axis: int | None = 0) -> Tensor:
    """Arrays joined along an axis; with None, all their elements."""
    xs = together(many(arrays, "concatenate", "arrays"))
    if axis is None:
        return joining.concat([shapes.ravel(x) for x in xs], 0)
    return joining.concat(xs, axis)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """Values added at the end of an axis."""
    return concatenate([as_tensor(arr, "append", "arr"), as_tensor(values, "append", "values")],
                       axis)


# --- parts ----------------------------------------------------------------------------------------


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Equal parts, or cut at places."""
    t = as_tensor(x, "split")
    a = axis_of(axis, t.ndim, "numpy.split")
    if is_int(indices_or_sections) and (
            indices_or_sections < 1 or t.shape[a] % indices_or_sections):
        raise misuse("numpy.split", f"axis {axis} of {t.shape} does not divide into "
                     f"{indices_or_sections} equal parts")
    return tuple(joining.tensor_split(t, indices_or_sections, a))


def hsplit(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts along the second axis."""
    t = as_tensor(x, "hsplit")
    return split(t, indices_or_sections, 1 if t.ndim > 1 else 0)


# --- order and repeats ----------------------------------------------------------------------------


def flip(m: Any, axis: Any = None) -> Tensor:
    """Elements in reverse order along axes."""
    x = as_tensor(m, "flip", "m")
    return shapes.flip(x, tuple(_range(x.ndim)) if axis is None else axis)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """Elements shifted around."""
    x = as_tensor(a, "roll", "a")
    if axis is None:
        return joining.roll(x, shift)
    axes = (axis,) if is_int(axis) else tuple(axis)
    by = (shift,) if is_int(shift) else tuple(shift)
    count = _max(len(axes), len(by))
    by, axes = by * count if len(by) == 1 else by, axes * count if len(axes) == 1 else axes
    for s, ax in zip(by, axes, strict=True):
        x = joining.roll(x, s, ax)
    return x


def tile(a: Any, reps: Any) -> Tensor:
    """Repeated along axes."""
    x = as_tensor(a, "tile", "a")
    counts = (reps,) if is_int(reps) else tuple(reps)
    return joining.tile(x, (1,) * (x.ndim - len(counts)) + counts)


# --- triangles and diagonals ----------------------------------------------------------------------


def diag(v: Any, k: int = 0) -> Tensor:
    """A matrix with a given diagonal, or the diagonal of a matrix."""
    x = as_tensor(v, "diag", "v")
    if x.ndim == 1:
        return grid.diagflat(x, k)
    if x.ndim != 2:
        raise misuse("numpy.diag", "'v' must have 1 or 2 axes", f"shape {x.shape}")
    return grid.diagonal(x, k)


# --- selection ------------------------------------------------------------------------------------


def _inside(index: Tensor, n: int, mode: str, what: str) -> Tensor:
    """Positions of an axis of length n, brought inside."""
    choice(mode, ("raise", "wrap", "clip"), f"numpy.{what}", "mode")
    if mode == "wrap":
        return index % n
    if mode == "clip":
        return arith.clamp(index, 0, n - 1)
    return index


def take(a: Any, indices: Any, axis: int | None = None, mode: str = "clip") -> Tensor:
    """Elements (or slices along an axis) at positions.

    Args:
        mode: positions outside: "clip" to the nearest end, "wrap" around, or "raise".
    """
    x, index = as_tensor(a, "take", "a"), as_tensor(indices, "take", "indices")
    x, at = (shapes.ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim, "numpy.take"))
    return apply_one("gather", x, _inside(index, x.shape[at], mode, "take"), axis=at)


def take_along_axis(arr: Any, indices: Any, axis: int | None) -> Tensor:
    """Elements at positions along an axis."""
    x, index = (as_tensor(v, "take_along_axis") for v in (arr, indices))
    if axis is None:
        x, axis = shapes.ravel(x), 0
    if x.ndim != index.ndim:
        raise misuse("numpy.take_along_axis", f"shapes {x.shape} and {index.shape} differ in rank")
    a = axis_of(axis, x.ndim, "numpy.take_along_axis")
    x, index = indexing.beside(x, index, a)
    return apply_one("gather_elements", x, index, dim=a)


def choose(a: Any, choices: Any, mode: str = "clip") -> Tensor:
    """From each place the element of the choice that `a` names."""
    xs = together(many(choices, "choose", "choices"))
    index = _inside(cast_to(as_tensor(a, "choose", "a"), int32), len(xs), mode, "choose")
    shape = broadcast_all(index.shape, *(x.shape for x in xs))
    out = shapes.broadcast_to(xs[0], shape)
    for i, x in enumerate(xs[1:], 1):
        out = arith.where(arith.eq(index, i), x, out)
    return out


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """At each place the choice of the first condition that holds."""
    conditions = many(condlist, "select", "condlist")
    choices = together(many(choicelist, "select", "choicelist"))
    if len(conditions) != len(choices):
        raise misuse("numpy.select",
                     f"{len(conditions)} conditions do not fit {len(choices)} choices")
    shape = broadcast_all(*(t.shape for t in (*conditions, *choices)))
    out = shapes.broadcast_to(
        cast_to(as_tensor(default, "select", "default"), choices[0].dtype), shape)
    for c, x in zip(reversed(conditions), reversed(choices), strict=True):
        out = arith.where(cast_to(c, bool_), x, out)
    return out


def argwhere(a: Any) -> Tensor:
    """Positions of the non-zero elements, (n, rank)."""
    out: Tensor = sorting.nonzero(as_tensor(a, "argwhere", "a"))
    return out


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """Flat positions as positions along axes."""
    index = as_tensor(indices, "unravel_index", "indices")
    dims = (shape,) if is_int(shape) else tuple(shape)
    choice(order, ("C", "F"), "numpy.unravel_index", "order")
    total = math.prod(dims)
    index = arith.where(index < 0, index + total, index)
    index = arith.clamp(index, 0, total - 1)
    out: list[Tensor] = []
    for d in reversed(dims) if order == "C" else dims:
        out.append(arith.remainder(index, d))
        index = arith.floor_divide(index, d)
    return tuple(reversed(out)) if order == "C" else tuple(out)


def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "clip", order: str = "C") -> Tensor:
    """Positions along axes as flat positions, in float32 as MindSpore's are."""
    parts = many(multi_index, "ravel_multi_index", "multi_index")
    choice(order, ("C", "F"), "numpy.ravel_multi_index", "order")
    if len(parts) != len(dims):
        raise misuse("numpy.ravel_multi_index", f"{len(parts)} indices do not fit {dims}")
    total: Tensor | None = None
    pairs = list(zip(parts, dims, strict=True))
    for index, d in pairs if order == "C" else reversed(pairs):
        here = _inside(index, d, mode, "ravel_multi_index")
        total = here if total is None else arith.mul(total, d) + here
    assert total is not None
    return cast_to(total, float32)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    """Where values belong in an ordered vector, int32."""
    seq, values = together([as_tensor(a, "searchsorted", "a"), as_tensor(v, "searchsorted", "v")])
    order = None if sorter is None else as_tensor(sorter, "searchsorted", "sorter")
    return sorting.searchsorted(seq, values, out_int32=True, side=side, sorter=order)


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """The bin of each element, bins rising or falling, int32."""
    values, edges = together([as_tensor(x, "digitize"), as_tensor(bins, "digitize", "bins")])
    cells = shapes.expand_dims(values, -1)
    up = sorting.precedes(edges, cells, not right)
    down = edges >= cells if right else edges > cells
    n = edges.shape[0]
    rises = sorting.precedes(joining.part(edges, 0, 0, 1), joining.part(edges, 0, n - 1, n), True)
    return reductions.sum(cast_to(arith.where(rises, up, down), int32), -1, dtype=int32)


# --- sets -----------------------------------------------------------------------------------------


def unique(x: Any, return_inverse: bool = False) -> Any:
    """Distinct elements in order.

    Args:
        return_inverse: also the position of each element among them, int32.
    """
    t = as_tensor(x, "unique")
    flat = shapes.ravel(t)
    ordered, perm = sorting.sort(flat)
    if not return_inverse:
        return sorting.unique_consecutive(ordered)
    values, runs = sorting.unique_consecutive(ordered, return_inverse=True)
    room: Tensor = apply("mul", runs, as_tensor(np.int64(0), "unique"))
    back: Tensor = apply("scatter", room, cast_to(perm, int64), runs, axis=0)
    return values, shapes.reshape(cast_to(back, int32), t.shape)


def isin(element: Any, test_elements: Any, invert: bool = False) -> Tensor:
    """Whether elements are among others."""
    x, among = together([as_tensor(element, "isin", "element"),
                         as_tensor(test_elements, "isin", "test_elements")])
    found = reductions.any(shapes.expand_dims(x, -1) == shapes.ravel(among), -1)
    return arith.logical_not(found) if invert else found


def in1d(ar1: Any, ar2: Any, invert: bool = False) -> Tensor:
    """`isin` of all elements in one axis."""
    return isin(ravel(ar1), ar2, invert)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """Elements of the first that are not in the second."""
    x = ravel(ar1) if assume_unique else unique(ar1)
    return sorting.masked_select(x, in1d(x, ar2, invert=True))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False
                ) -> Any:
    """Elements of both, in order.

    Args:
        assume_unique: no element occurs twice in either.
        return_indices: also where each first occurs in both.
    """
    x, y = together([ravel(ar1), ravel(ar2)])
    if assume_unique:
        both = sorting.sort(sorting.masked_select(x, isin(x, y)))[0]
    else:
        values = unique(x)
        both = sorting.masked_select(values, isin(values, y))
    if not return_indices:
        return both
    cells = shapes.expand_dims(both, -1)
    first, second = (
        cast_to(reductions.argmax(cast_to(arith.eq(cells, t), int32), -1), int32) for t in (x, y))
    return both, first, second


ROWS = rows({
    "array_split": ("Parts of nearly equal length, or cut at places.",
        lambda x, indices_or_sections, axis=0:
        tuple(joining.tensor_split(as_tensor(x, "array_split"), indices_or_sections, axis))),
    "array_str": ("The text of an array.", lambda a: str(as_tensor(a, "array_str", "a").asnumpy())),
    "atleast_1d": ("A scalar as a vector.",
        lambda *arys: _each(shapes.atleast_1d, arys, "atleast_1d")),
    "atleast_2d": ("At least two axes.",
        lambda *arys: _each(shapes.atleast_2d, arys, "atleast_2d")),
    "atleast_3d": ("At least three axes.",
        lambda *arys: _each(shapes.atleast_3d, arys, "atleast_3d")),
    "broadcast_to": ("Repeated along axes of length 1 and new axes.", lambda array, shape:
        repeated(as_tensor(array, "broadcast_to", "array"), (shape,) if is_int(shape) else shape)),
    "column_stack": ("Joined along the second axis, vectors as columns.",
        lambda tup: joining.column_stack(together(many(tup, "column_stack", "tup")))),
    "diagflat": ("A matrix with all elements on a diagonal.",
        lambda v, k=0: grid.diagflat(as_tensor(v, "diagflat", "v"), k)),
    "diagonal": ("A diagonal of two axes.", lambda a, offset=0, axis1=0, axis2=1:
        grid.diagonal(as_tensor(a, "diagonal", "a"), offset, axis1, axis2)),
    "dsplit": ("Parts along the third axis.",
        lambda x, indices_or_sections: split(x, indices_or_sections, 2)),
    "dstack": ("Joined along the third axis.",
        lambda tup: joining.dstack(together(many(tup, "dstack", "tup")))),
    "fliplr": ("Columns in reverse order.", lambda m: shapes.flip(as_tensor(m, "fliplr", "m"), 1)),
    "flipud": ("Rows in reverse order.", lambda m: shapes.flip(as_tensor(m, "flipud", "m"), 0)),
    "hstack": ("Joined along the second axis (the first of vectors).",
        lambda tup: joining.hstack(together(many(tup, "hstack", "tup")))),
    "moveaxis": ("Axes moved to other places.", lambda a, source, destination:
        shapes.moveaxis(as_tensor(a, "moveaxis", "a"), source, destination)),
    "repeat": ("Each element repeated.", lambda a, repeats, axis=None:
        joining.repeat_interleave(as_tensor(a, "repeat", "a"), repeats, axis)),
    "reshape": ("The same elements under another shape.", lambda x, new_shape:
        shapes.reshape(as_tensor(x, "reshape"), (new_shape,) if is_int(new_shape) else new_shape)),
    "rot90": ("Rotated k times by 90 degrees.",
        lambda a, k=1, axes=(0, 1): joining.rot90(as_tensor(a, "rot90", "a"), k, axes)),
    "stack": ("Arrays of one shape joined along a new axis.",
        lambda arrays, axis=0: joining.stack(together(many(arrays, "stack", "arrays")), axis)),
    "swapaxes": ("Two axes exchanged.",
        lambda x, axis1, axis2: shapes.swapaxes(as_tensor(x, "swapaxes"), axis1, axis2)),
    "tril": ("Zeros above the k-th diagonal.",
        lambda m, k=0: grid.tril(as_tensor(m, "tril", "m"), k)),
    "triu": ("Zeros below the k-th diagonal.",
        lambda m, k=0: grid.triu(as_tensor(m, "triu", "m"), k)),
    "vsplit": ("Parts along the first axis.",
        lambda x, indices_or_sections: split(x, indices_or_sections, 0)),
    "vstack": ("Joined along the first axis, vectors as rows.",
        lambda tup: joining.vstack(together(many(tup, "vstack", "tup")))),
})
"""Functions of one call, by name."""
globals().update(ROWS)

__all__ = [
    "append", "argwhere", "broadcast_arrays", "choose", "concatenate", "diag", "digitize",
    "expand_dims", "flip", "hsplit", "in1d", "intersect1d", "isin", "isscalar", "ravel",
    "ravel_multi_index", "roll", "rollaxis", "searchsorted", "select", "setdiff1d", "size", "split",
    "squeeze", "take", "take_along_axis", "tile", "transpose", "unique", "unravel_index",
]
__all__ += sorted(ROWS)
