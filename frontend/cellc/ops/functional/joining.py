"""Joining, cutting, repeating and rolling tensors: concat, stack, split, tile, roll and kin.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import is_symbolic, surely_equal
from cellc_compiler.ir.types import MOST_PARTS
from cellc_runtime.dtypes import DType, uint8, uint16, uint32, uint64

from ...core.declared import misuse
from ...core.dispatch import apply, apply_one
from ...core.native import native
from ...tensors.promotion import common, fresh, same_type
from ...tensors.tensor import Tensor, tensor_of
from ..arguments import (
    axis_of,
    integer,
    ints,
    ints_or_int,
    is_int,
    own_axis,
    shape_of,
    size,
    tensor,
    tensors,
)
from . import arith, shapes

_slice = builtins.slice


@native
def view(input: Tensor, *shape: Any, dtype: DType | None = None) -> Tensor:
    """`reshape` with the dimensions as arguments; or, given an element type, the same bytes as it.

    Of a type of another size, the last axis has more or fewer elements (the lowest bytes first).
    """
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], DType)):
        return _same_bytes(tensor(input, "view"), shape[0] if dtype is None else dtype)
    dims = shape[0] if len(shape) == 1 and not is_int(shape[0]) else shape
    return shapes.reshape(input, dims)


_UNSIGNED = {d.itemsize: d for d in (uint8, uint16, uint32, uint64)}


def _same_bytes(x: Tensor, dtype: DType) -> Tensor:
    if not all(d.is_integer or d.is_float for d in (x.dtype, dtype)):
        raise misuse("view", "integers or floats are needed", f"{x.dtype} and {dtype}", TypeError)
    old, new = x.dtype.itemsize, dtype.itemsize
    bits: Tensor = apply("bitcast", x, dtype=_UNSIGNED[old])
    if old == new:
        return x if dtype is x.dtype else apply("bitcast", bits, dtype=dtype)
    last = x.shape[-1] if x.ndim else 0
    if not x.ndim or last * old % new:
        raise misuse("view", f"the last axis of {x.shape} {x.dtype} cannot be divided into "
                     f"elements of {dtype}")
    narrow = min(old, new)
    shifts = [8 * narrow * k for k in range(max(old, new) // narrow)]
    if new < old:
        parts = [arith.cast(arith.bitwise_right_shift(bits, Tensor(k, bits.dtype)), _UNSIGNED[new])
                 for k in shifts]
        bits = shapes.to_shape(stack(parts, -1), (*x.shape[:-1], last * old // new))
    else:
        rows = arith.cast(shapes.to_shape(bits, (*x.shape[:-1], last * old // new, len(shifts))),
                          _UNSIGNED[new])
        total = Tensor(0, rows.dtype)
        for i, k in enumerate(shifts):
            one = shapes.squeeze(part(rows, rows.ndim - 1, i, i + 1), -1)
            total = arith.bitwise_or(arith.bitwise_left_shift(one, Tensor(k, rows.dtype)), total)
        bits = total
    return bits if dtype is bits.dtype else apply_one("bitcast", bits, dtype=dtype)


@native
def tile(input: Tensor, dims: Any) -> Tensor:
    """The tensor repeated dims[i] times along axis i, aligned at the last axis: (2, 3) by (2, 1, 2)
    gives (2, 2, 6)."""
    x = tensor(input, "tile")
    reps = shape_of(dims, "tile", "dims")
    if len(reps) < x.ndim:
        reps = (1,) * (x.ndim - len(reps)) + reps
    x = shapes.to_shape(x, (1,) * (len(reps) - x.ndim) + x.shape)
    if builtins.all(surely_equal(r, 1) for r in reps):
        return fresh(x)
    return apply_one("tile", x, reps=reps)


@native
def repeat_interleave(input: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element repeated, along an axis or of all elements in one.

    Args:
        repeats: how often, one int or one for each position along the axis.
    """
    x = tensor(input, "repeat_interleave")
    if axis is None:
        x, axis = shapes.ravel(x), 0
    a = own_axis(axis, x.ndim, "repeat_interleave")
    counts = shape_of(repeats, "repeat_interleave", "repeats")
    if len(counts) == 1:
        return apply_one("repeat", x, repeats=counts[0], axis=a)
    if len(counts) != x.shape[a]:
        raise misuse("repeat_interleave", f"'repeats' must hold 1 or {x.shape[a]} counts",
                     len(counts))
    index = np.repeat(np.arange(x.shape[a], dtype=np.int64), counts)
    return apply_one("gather", x, tensor_of(index), axis=a)


def repeat_elements(x: Tensor, rep: int, axis: int = 0) -> Tensor:
    """Each slice along `axis` repeated `rep` times, one after the other: [1, 2] becomes [1, 1, 2,
    2]."""
    return repeat_interleave(x, integer(rep, "repeat_elements", "rep"), axis)


@native
def rot90(input: Tensor, k: int, dims: Any) -> Tensor:
    """The tensor rotated k times by 90 degrees from the first of the axes `dims` to the second;
    backwards for k < 0."""
    x = tensor(input, "rot90")
    a, b = (axis_of(d, x.ndim, "rot90", "dims") for d in ints(dims, "rot90", "dims"))
    turns = integer(k, "rot90", "k") % 4
    if turns == 0:
        return x
    if turns == 2:
        return shapes.flip(x, (a, b))
    return shapes.swapaxes(shapes.flip(x, b), a, b) if turns == 1 else shapes.flip(
        shapes.swapaxes(x, a, b), b)


@native
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements shifted along axes, those that leave at the end coming back at the start."""
    x = tensor(input, "roll")
    by = ints_or_int(shifts, "roll", "shifts")
    if dims is None:
        if len(by) != 1:
            raise misuse("roll", "'shifts' must be one int if 'dims' is not given")
        return shapes.to_shape(apply("roll", shapes.ravel(x), shifts=by, axes=(0,)), x.shape)
    axes = tuple(own_axis(a, x.ndim, "roll", "dims") for a in ints_or_int(dims, "roll", "dims"))
    if len(axes) != len(by):
        raise misuse("roll", f"'shifts' {shifts} and 'dims' {dims} must be equally many")
    return apply_one("roll", x, shifts=by, axes=axes)


@native
def concat(tensors: Any, axis: int = 0) -> Tensor:
    """Tensors joined along `axis`: the lengths of it add up, all others must agree, else
    ValueError. They are promoted to one type."""
    parts = _parts(tensors, "concat")
    if len(parts) == 1:
        return fresh(parts[0])
    a = axis_of(axis, parts[0].ndim, "concat")
    return apply_one("concat", *parts, axis=a)


def _parts(xs: Any, what: str) -> Sequence[Tensor]:
    """The tensors of a list or tuple, in one element type."""
    if type(xs) in (list, tuple) and same_type(xs):
        same: Sequence[Tensor] = xs
        return same
    parts = tensors(xs, what)
    return parts if len(parts) == 1 else common(what, *parts)


cat = concat


@native
def stack(tensors: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis at `axis`: k of (2, 3) give (k, 2, 3) for axis
    0. Other shapes are a ValueError."""
    parts = _parts(tensors, "stack")
    a = axis_of(axis, parts[0].ndim + 1, "stack")
    return apply_one("stack", *parts, axis=a)


@native
def hstack(tensors: Any) -> Tensor:
    """Tensors joined along the second axis (vectors along their only one). All other lengths must
    agree."""
    parts = [shapes.atleast_1d(x) for x in _parts(tensors, "hstack")]
    return concat(parts, 0 if parts[0].ndim == 1 else 1)


@native
def vstack(inputs: Any) -> Tensor:
    """Tensors joined along the first axis; a vector (n,) is a row (1, n). All other lengths must
    agree."""
    return concat([shapes.atleast_2d(x) for x in _parts(inputs, "vstack")], 0)


@native
def dstack(tensors: Any) -> Tensor:
    """Tensors joined along the third axis: (n,) counts as (1, n, 1), (m, n) as (m, n, 1). All other
    lengths must agree."""
    return concat([shapes.atleast_3d(x) for x in _parts(tensors, "dstack")], 2)


@native
def column_stack(tensors: Any) -> Tensor:
    """Tensors joined along the second axis; a vector (n,) is a column (n, 1). The numbers of rows
    must agree."""
    parts = [shapes.to_shape(x, (x.size, 1)) if x.ndim < 2 else x
             for x in _parts(tensors, "column_stack")]
    return concat(parts, 1)


def part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Positions start to stop of one axis."""
    if start == 0 and stop == x.shape[axis]:
        return x
    lo = tuple(start if i == axis else 0 for i in range(x.ndim))
    hi = tuple(stop if i == axis else d for i, d in enumerate(x.shape))
    return apply_one("slice", x, start=lo, stop=hi)


def _split_at(x: Tensor, sizes: Any, axis: int) -> tuple[Tensor, ...]:
    parts = apply("split", x, sizes=tuple(sizes), axis=axis)
    return parts if isinstance(parts, tuple) else (parts,)


def _lengths(n: int, d: int) -> list[int]:
    """The lengths of the parts of `n` elements that make up `d`; the last may be shorter."""
    sizes, left = list[int](), d
    while left > 0:  # (`range` would need an open size as a number)
        sizes.append(n if left >= n else left)
        left = left - n
    return sizes or [0]


@native
def split(tensor: Tensor, split_size_or_sections: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts along an axis: of a given length (the last may be shorter), or of given lengths."""
    x = _tensor(tensor, "split", "tensor")
    a = own_axis(axis, x.ndim, "split")
    d = x.shape[a]
    if is_int(split_size_or_sections):
        n = split_size_or_sections if is_symbolic(split_size_or_sections) \
            else int(split_size_or_sections)
        if n <= 0:
            raise misuse("split", "the size of a part must be positive", n)
        sizes: Any = _lengths(n, d)
    else:
        sizes = ints(split_size_or_sections, "split", "split_size_or_sections")
        if builtins.sum(sizes) != d or builtins.any(n < 0 for n in sizes):
            raise misuse("split",
                         f"the sections {sizes} must add up to {d}, the length of axis {a}")
    return _split_at(x, sizes, a)


_tensor = tensor


@native
def chunk(input: Tensor, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """A tuple of at most `chunks` parts along `axis`, each of ceil(length / chunks) elements but
    the last, which may be shorter."""
    x = tensor(input, "chunk")
    n = integer(chunks, "chunk", "chunks")
    if n <= 0:
        raise misuse("chunk", "'chunks' must be positive", n)
    a = own_axis(axis, x.ndim, "chunk")
    d = x.shape[a]
    length = -(-d // n)
    if not is_symbolic(d):
        return split(x, max(1, length), a)
    count = next((k for k in range(n, 1, -1) if (k - 1) * length < d), 1)
    return _split_at(x, [*[length] * (count - 1), d - (count - 1) * length], a)


@native
def tensor_split(input: Tensor, indices_or_sections: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """A given number of parts, the first ones longer by one where needed, or parts at positions."""
    x = tensor(input, "tensor_split")
    a = own_axis(axis, x.ndim, "tensor_split")
    d = x.shape[a]
    if is_int(indices_or_sections):
        n = size(indices_or_sections, "tensor_split", "indices_or_sections", 1, max(MOST_PARTS, d))
        return _split_at(x, [-((i - d) // n) for i in range(n)], a)
    cuts = ints(indices_or_sections, "tensor_split", "indices_or_sections")
    spans = zip((None, *cuts), (*cuts, None), strict=True)
    bounds = [_slice(i, j).indices(d) for i, j in spans]
    return tuple(part(x, a, i, max(i, j)) for i, j, _ in bounds)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the second axis (the first of a vector): a number of parts, or the
    positions where parts begin."""
    x = _tensor(input, "hsplit")
    return tensor_split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the first axis: a number of parts, or the positions where parts
    begin."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the third axis: a number of parts, or the positions where parts begin.
    The input has at least three axes."""
    return tensor_split(input, indices_or_sections, 2)


@native
def unstack(input_x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """A tuple of the slices along `axis`, without that axis: (3, 2) gives three tensors of (2,) for
    axis 0."""
    x = tensor(input_x, "unstack", "input_x")
    a = own_axis(axis, x.ndim, "unstack")
    rest = x.shape[:a] + x.shape[a + 1 :]
    return tuple(shapes.to_shape(part(x, a, i, i + 1), rest) for i in range(x.shape[a]))


@native
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """`unstack` under its other name: a tuple of the slices along `dim`, without that axis."""
    return unstack(input, dim)


@native
def narrow(input: Tensor, axis: int, start: int, length: int) -> Tensor:
    """x[start : start + length] along `axis`, as a view; a range that does not fit is a
    ValueError."""
    x = tensor(input, "narrow")
    a = own_axis(axis, x.ndim, "narrow")
    first, n = integer(start, "narrow", "start"), integer(length, "narrow", "length")
    first += x.shape[a] if first < 0 else 0
    if n < 0 or first < 0 or first + n > x.shape[a]:
        raise misuse("narrow", f"{n} positions from {start} leave axis {a} of length {x.shape[a]}")
    return part(x, a, first, first + n)


@native
def slice(input_x: Tensor, begin: Any, size: Any) -> Tensor:
    """size[i] positions from begin[i] on every axis; a size of -1 means up to the end."""
    x = tensor(input_x, "slice", "input_x")
    start = ints(begin, "slice", "begin")
    count = ints(size, "slice", "size")
    if not len(start) == len(count) == x.ndim:
        raise misuse("slice", f"'begin' and 'size' must have {x.ndim} entries each")
    stop = tuple(d if n == -1 else b + n for b, n, d in zip(start, count, x.shape, strict=True))
    for b, e, d in zip(start, stop, x.shape, strict=True):
        if not 0 <= b <= e <= d:
            raise misuse("slice", f"positions {b} to {e} leave an axis of length {d}")
    return apply_one("slice", x, start=start, stop=stop)


def strided_slice(
    input_x: Tensor, begin: Any, end: Any, strides: Any, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Tensor:
    """input_x[begin:end:strides] per axis.

    Args:
        begin_mask, end_mask: bit i: the bound i is left out.
        ellipsis_mask: bit i: entry i stands for all axes not named.
        new_axis_mask: bit i: entry i adds an axis of length 1.
        shrink_axis_mask: bit i: entry i takes the one position begin[i] and drops the axis.
    """
    x = tensor(input_x, "strided_slice", "input_x")
    lo, hi, step = (ints(v, "strided_slice", n)
                    for v, n in ((begin, "begin"), (end, "end"), (strides, "strides")))
    if not len(lo) == len(hi) == len(step):
        raise misuse("strided_slice", "begin, end and strides must be equally long")
    key: list[Any] = []
    for i, (a, z, s) in enumerate(zip(lo, hi, step, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(a)
        else:
            key.append(_slice(None if begin_mask & bit else a, None if end_mask & bit else z, s))
    return x[tuple(key)]


def row_stack(tensors: Any) -> Tensor:
    """Join Tensors along axis 0, where one of shape (n,) counts as (1, n): `vstack` under its other
    name."""
    return vstack(tensors)
