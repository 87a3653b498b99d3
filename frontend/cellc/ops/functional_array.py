"""Shapes: creation, views, joins and parts of tensors.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, bool_, uint8, uint16, uint32, uint64

from ..common._promotion import alike, common
from ..common.tensor import Tensor
from ..core.dispatch import apply
from ..core.native import native, native_body, native_of_types
from . import functional_math as m
from ._args import (
    Ints,
    axes_of,
    axis_of,
    choice,
    integer,
    ints,
    ints_or_int,
    is_int,
    shape_of,
    tensor,
    tensors,
)

_range = builtins.range
_slice = builtins.slice

# --- what a tensor is -----------------------------------------------------------------------------


def shape(input_x: Tensor) -> Ints:
    """The shape as a tuple of ints."""
    return tensor(input_x, "shape", "input_x").shape


def size(input_x: Tensor) -> int:
    """The number of elements."""
    return tensor(input_x, "size", "input_x").size


def numel(input: Tensor) -> int:
    """The number of elements."""
    return size(input)


def rank(input_x: Tensor) -> int:
    """The number of axes."""
    return tensor(input_x, "rank", "input_x").ndim


def dtype(x: Tensor) -> DType:
    """The element type."""
    return tensor(x, "dtype", "x").dtype


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floats."""
    return tensor(input, "is_floating_point").dtype.is_float


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex."""
    return tensor(input, "is_complex").dtype.is_complex


# --- views ----------------------------------------------------------------------------------------


def _to_shape(x: Tensor, dims: Ints) -> Tensor:
    if len(dims) == x.ndim and dims == x.shape:
        return x
    out: Tensor = apply("reshape", x, shape=dims)
    return out


def reshape(input: Tensor, shape: Any) -> Tensor:
    """The same elements in row-major order under another shape; one -1 is worked out.

    Raises:
        ValueError: the numbers of elements differ, or more than one -1.
    """
    return _reshape(input, shape)


@native_body()
def _reshape(input: Tensor, shape: Any) -> Tensor:
    x = tensor(input, "reshape")
    dims = ints(shape, "reshape", "shape")
    return _to_shape(x, _known_dims(x._data.size, dims) if x._eager else _worked_out(x.size, dims))


def _worked_out(size: int, given: Ints) -> Ints:
    """The shape of a tensor of so many elements, where -1 stands for what is left.

    Raises:
        ValueError: there is none.
    """
    dims = list(given)
    if dims.count(-1) > 1:
        raise ValueError("For 'reshape', only one dimension can be inferred.")
    if builtins.any(d < -1 for d in dims):
        raise ValueError(f"For 'reshape', dimensions must be -1 or more, but got {given}.")
    known = math.prod(d for d in dims if d != -1)
    if -1 in dims and known and size % known == 0:
        dims[dims.index(-1)] = size // known
    if -1 in dims or math.prod(dims) != size:
        raise ValueError(
            f"For 'reshape', the shape {given} is invalid for input of size {size}.")
    return tuple(dims)


_known_dims = lru_cache(maxsize=4096)(_worked_out)
"""Where sizes are ints."""


@native
def view(input: Tensor, *shape: Any) -> Tensor:
    """`reshape` with the dimensions as arguments; or, given an element type, the same bytes as it.

    Of a type of another size, the last axis has more or fewer elements (the lowest bytes first).

    Raises:
        TypeError: an element type of bools or complex numbers.
        ValueError: the last axis cannot be divided.
    """
    if len(shape) == 1 and isinstance(shape[0], DType):
        return _same_bytes(tensor(input, "view"), shape[0])
    dims = shape[0] if len(shape) == 1 and not is_int(shape[0]) else shape
    return reshape(input, dims)


@native_of_types
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of another tensor. Source: `mindspore.ops.view_as`."""
    return reshape(input, tensor(other, "view_as", "other").shape)


_UNSIGNED = {d.itemsize: d for d in (uint8, uint16, uint32, uint64)}


def _same_bytes(x: Tensor, dtype: DType) -> Tensor:
    if not all(d.is_integer or d.is_float for d in (x.dtype, dtype)):
        raise TypeError(
            f"For 'view', integers or floats are needed, but got {x.dtype} and {dtype}.")
    old, new = x.dtype.itemsize, dtype.itemsize
    bits: Tensor = apply("bitcast", x, dtype=_UNSIGNED[old])
    if old == new:
        return x if dtype is x.dtype else apply("bitcast", bits, dtype=dtype)
    last = x.shape[-1] if x.ndim else 0
    if not x.ndim or last * old % new:
        raise ValueError(f"For 'view', the last axis of {x.shape} {x.dtype} cannot be divided into "
                         f"elements of {dtype}.")
    narrow = min(old, new)
    shifts = [8 * narrow * k for k in _range(max(old, new) // narrow)]
    if new < old:
        parts = [m.cast(m.bitwise_right_shift(bits, Tensor(k, bits.dtype)), _UNSIGNED[new])
                 for k in shifts]
        bits = _to_shape(stack(parts, -1), (*x.shape[:-1], last * old // new))
    else:
        rows = m.cast(_to_shape(bits, (*x.shape[:-1], last * old // new, len(shifts))),
                      _UNSIGNED[new])
        total = Tensor(0, rows.dtype)
        for i, k in enumerate(shifts):
            one = squeeze(part(rows, rows.ndim - 1, i, i + 1), -1)
            total = m.bitwise_or(m.bitwise_left_shift(one, Tensor(k, rows.dtype)), total)
        bits = total
    out: Tensor = bits if dtype is bits.dtype else apply("bitcast", bits, dtype=dtype)
    return out


def flatten(
    input: Tensor, order: str = "C", *, start_dim: int = 1, end_dim: int = -1
) -> Tensor:
    """Axes start_dim to end_dim merged into one.

    Args:
        order: `"C"` row-major or `"F"` column-major over the whole tensor.

    Raises:
        ValueError: `start_dim` comes after `end_dim`.
    """
    return _flatten(input, order, start_dim, end_dim)


@native_body()
def _flatten(input: Tensor, order: str, start_dim: int, end_dim: int) -> Tensor:
    x = tensor(input, "flatten")
    if x._eager and type(order) is str and order == "C" and type(start_dim) is type(end_dim) is int:
        return _to_shape(x, _flat(x._data.shape, start_dim, end_dim))
    if choice(order, ("C", "F"), "flatten", "order") == "F":
        x = transpose(x, tuple(reversed(_range(x.ndim))))
    return _to_shape(x, _flattened(x.shape, start_dim, end_dim))


def _flattened(shape: Ints, start_dim: Any, end_dim: Any) -> Ints:
    """A shape with the axes from `start_dim` to `end_dim` merged.

    Raises:
        ValueError: `start_dim` comes after `end_dim`.
    """
    ndim = len(shape)
    if ndim == 0:
        return (1,)
    first = axis_of(start_dim, ndim, "flatten", "start_dim") if ndim > 1 else 0
    last = axis_of(end_dim, ndim, "flatten", "end_dim")
    if first > last:
        raise ValueError(f"For 'flatten', start_dim {start_dim} comes after end_dim {end_dim}.")
    return *shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]


_flat = lru_cache(maxsize=4096)(_flattened)
"""Where all are ints."""


@native
def ravel(input: Tensor) -> Tensor:
    """All elements in one axis."""
    x = tensor(input, "ravel")
    return _to_shape(x, (x.size,))


def squeeze(input: Tensor, axis: Any = None) -> Tensor:
    """Without axes of length 1 (only the given ones, which stay if they are longer)."""
    return _squeeze(input, axis)


@native_body()
def _squeeze(input: Tensor, axis: Any) -> Tensor:
    x = tensor(input, "squeeze")
    axes = axes_of(axis, x.ndim, "squeeze")
    return _to_shape(x, tuple(d for i, d in enumerate(x.shape) if i not in axes or d != 1))


def expand_dims(input_x: Tensor, axis: int) -> Tensor:
    """A new axis of length 1 at `axis`."""
    return _expand_dims(input_x, axis)


@native_body()
def _expand_dims(input_x: Tensor, axis: int) -> Tensor:
    x = tensor(input_x, "expand_dims", "input_x")
    a = axis_of(axis, x.ndim + 1, "expand_dims")
    return _to_shape(x, (*x.shape[:a], 1, *x.shape[a:]))


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """`expand_dims` under its other name."""
    return _expand_dims(input, dim)


def transpose(input: Tensor, dims: Any) -> Tensor:
    """Axes permuted: axis i of the result is axis dims[i] of the input.

    Raises:
        ValueError: `dims` is no permutation of the axes.
    """
    return _transpose(input, dims)


@native_body()
def _transpose(input: Tensor, dims: Any) -> Tensor:
    x = tensor(input, "transpose")
    return _permuted(x, _permutation(ints(dims, "transpose", "dims"), x.ndim))


@lru_cache(maxsize=1024)
def _permutation(given: Ints, rank: int) -> Ints | None:
    """Where the axes come from; None if they stay.

    Raises:
        ValueError: it is no permutation.
    """
    if len(given) != rank:
        raise ValueError(
            f"For 'transpose', 'dims' must name all {rank} axes of the input, but got {given}."
        )
    perm = tuple(axis_of(a, rank, "transpose", "dims") for a in given)
    if len(set(perm)) != len(perm):
        raise ValueError(f"For 'transpose', 'dims' must be distinct, but got {given}.")
    return None if perm == tuple(_range(rank)) else perm


@lru_cache(maxsize=1024)
def _exchange(a: int, b: int, rank: int) -> Ints | None:
    """The permutation that exchanges two axes; None if they stay."""
    perm = list(_range(rank))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return None if a == b or not perm else tuple(perm)


def _permuted(x: Tensor, perm: Ints | None) -> Tensor:
    if perm is None:
        return x
    out: Tensor = apply("transpose", x, perm=perm)
    return out


def permute(input: Tensor, axis: Any) -> Tensor:
    """`transpose` under its other name."""
    return transpose(input, axis)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged."""
    return _swapaxes(input, axis0, axis1)


@native_body()
def _swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    x = tensor(input, "swapaxes")
    rank = x.ndim
    return _permuted(x, _exchange(axis_of(axis0, rank, "swapaxes"),
                                  axis_of(axis1, rank, "swapaxes"), rank))


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`swapaxes` under its other name."""
    return _swapaxes(input, dim0, dim1)


@native
def moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    """Axes moved to other places; the rest keep their order.

    Raises:
        ValueError: there are more sources than destinations, or fewer.
    """
    t = tensor(x, "moveaxis", "x")
    src = [axis_of(a, t.ndim, "moveaxis") for a in ints_or_int(source, "moveaxis", "source")]
    dst = [axis_of(a, t.ndim, "moveaxis")
           for a in ints_or_int(destination, "moveaxis", "destination")]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise ValueError(f"For 'moveaxis', {source} and {destination} must be equally many axes.")
    perm = [a for a in _range(t.ndim) if a not in src]
    for place, a in sorted(zip(dst, src, strict=True)):
        perm.insert(place, a)
    return transpose(t, tuple(perm))


movedim = moveaxis


@native
def t(input: Tensor) -> Tensor:
    """A matrix transposed; a vector or scalar as it is.

    Raises:
        ValueError: the input has more than 2 axes.
    """
    x = tensor(input, "t")
    if x.ndim > 2:
        raise ValueError(f"For 't', the input must have at most 2 axes, but got {x.ndim}.")
    return transpose(x, (1, 0)) if x.ndim == 2 else x


@native
def matrix_transpose(input: Tensor, what: str = "mT") -> Tensor:
    """The last two axes exchanged.

    Raises:
        ValueError: the input has fewer than 2 axes.
    """
    x = tensor(input, what)
    if x.ndim < 2:
        raise ValueError(f"For '{what}', a tensor of at least 2 axes is needed, but got {x.ndim}.")
    return swapaxes(x, -1, -2)


def broadcast_to(input: Tensor, shape: Any) -> Tensor:
    """Repeated along axes of length 1 and new leading axes; -1 keeps a length.

    Raises:
        ValueError: the shapes do not fit.
    """
    return _broadcast_to(input, shape)


@native_body()
def _broadcast_to(input: Tensor, shape: Any) -> Tensor:
    x = tensor(input, "broadcast_to")
    dims = list(ints(shape, "broadcast_to", "shape"))
    lead = len(dims) - x.ndim
    for i, d in enumerate(dims):
        if d == -1:
            if i < lead:
                raise ValueError(f"For 'broadcast_to', -1 at the new axis {i} has no length.")
            dims[i] = x.shape[i - lead]
    if lead < 0 or builtins.any(
        x.shape[i] not in (1, dims[i + lead]) for i in _range(x.ndim)
    ):
        raise ValueError(
            f"For 'broadcast_to', shape {x.shape} cannot be broadcast to {tuple(dims)}."
        )
    if tuple(dims) == x.shape:
        return x
    out: Tensor = apply("broadcast_to", x, shape=tuple(dims))
    return out


@native_of_types
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` broadcast to the shape of `other`."""
    return broadcast_to(input, tensor(other, "expand_as", "other").shape)


@native
def broadcast_tensors(*inputs: Tensor) -> tuple[Tensor, ...]:
    """Tensors broadcast to their common shape."""
    common_shape = broadcast_all(*(tensor(x, "broadcast_tensors").shape for x in inputs))
    return tuple(broadcast_to(x, common_shape) for x in inputs)


def atleast_1d(inputs: Any) -> Any:
    """A scalar as a vector of one."""
    return _at_least(inputs, 1, lambda x: (1,))


def atleast_2d(inputs: Any) -> Any:
    """At least two axes, new ones in front."""
    return _at_least(inputs, 2, lambda x: (1,) * (2 - x.ndim) + x.shape)


def atleast_3d(inputs: Any) -> Any:
    """At least three axes: a vector (n) becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1)."""
    return _at_least(inputs, 3, lambda x: {
        0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])


def _at_least(inputs: Any, least: int, shape: Any) -> Any:
    if isinstance(inputs, (list, tuple)):
        return tuple(_at_least(x, least, shape) for x in inputs)
    x = tensor(inputs, f"atleast_{least}d", "inputs")
    return x if x.ndim >= least else _to_shape(x, shape(x))


# --- repeats, order -------------------------------------------------------------------------------


@native
def tile(input: Tensor, dims: Any) -> Tensor:
    """The tensor repeated dims[i] times along axis i (aligned at the last axis).

    Raises:
        ValueError: a negative count.
    """
    x = tensor(input, "tile")
    reps = shape_of(dims, "tile", "dims")
    if len(reps) < x.ndim:
        reps = (1,) * (x.ndim - len(reps)) + reps
    x = _to_shape(x, (1,) * (len(reps) - x.ndim) + x.shape)
    if builtins.all(r == 1 for r in reps):
        return x
    out: Tensor = apply("tile", x, reps=reps)
    return out


@native
def repeat_interleave(input: Tensor, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element repeated, along an axis or of all elements in one.

    Args:
        repeats: how often, one int or one for each position along the axis.

    Raises:
        ValueError: the number of counts is neither 1 nor the length of the axis.
    """
    x = tensor(input, "repeat_interleave")
    if axis is None:
        x, axis = ravel(x), 0
    a = axis_of(axis, x.ndim, "repeat_interleave")
    counts = shape_of(repeats, "repeat_interleave", "repeats")
    if len(counts) == 1:
        out: Tensor = apply("repeat", x, repeats=counts[0], axis=a)
        return out
    if len(counts) != x.shape[a]:
        raise ValueError(
            f"For 'repeat_interleave', 'repeats' must hold 1 or {x.shape[a]} counts, "
            f"but got {len(counts)}."
        )
    index = np.repeat(np.arange(x.shape[a], dtype=np.int64), counts)
    taken: Tensor = apply("gather", x, Tensor._from_array(index), axis=a)
    return taken


def repeat_elements(x: Tensor, rep: int, axis: int = 0) -> Tensor:
    """Each slice along an axis repeated `rep` times."""
    return repeat_interleave(x, integer(rep, "repeat_elements", "rep"), axis)


def flip(input: Tensor, dims: Any) -> Tensor:
    """The order of elements reversed along axes."""
    return _flip(input, dims)


@native_body()
def _flip(input: Tensor, dims: Any) -> Tensor:
    x = tensor(input, "flip")
    given = ints_or_int(dims, "flip", "dims")
    if not given or not x.ndim:
        return x
    out: Tensor = apply("flip", x, axes=axes_of(given, x.ndim, "flip", "dims"))
    return out


def reverse(x: Tensor, axis: Any) -> Tensor:
    """`flip` under its older name."""
    return flip(x, axis)


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order."""
    return flip(input, 0)


@native
def rot90(input: Tensor, k: int, dims: Any) -> Tensor:
    """Rotated k times by 90 degrees from the first of two axes to the second."""
    x = tensor(input, "rot90")
    a, b = (axis_of(d, x.ndim, "rot90", "dims") for d in ints(dims, "rot90", "dims"))
    turns = integer(k, "rot90", "k") % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (a, b))
    return swapaxes(flip(x, b), a, b) if turns == 1 else flip(swapaxes(x, a, b), b)


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements shifted along axes, those that leave at the end coming back at the start.

    Raises:
        ValueError: shifts and axes are not equally many.
    """
    return _roll(input, shifts, dims)


@native_body()
def _roll(input: Tensor, shifts: Any, dims: Any) -> Tensor:
    x = tensor(input, "roll")
    by = ints_or_int(shifts, "roll", "shifts")
    if dims is None:
        if len(by) != 1:
            raise ValueError("For 'roll', 'shifts' must be one int if 'dims' is not given.")
        return _to_shape(apply("roll", ravel(x), shifts=by, axes=(0,)), x.shape)
    axes = tuple(axis_of(a, x.ndim, "roll", "dims") for a in ints_or_int(dims, "roll", "dims"))
    if len(axes) != len(by):
        raise ValueError(f"For 'roll', 'shifts' {shifts} and 'dims' {dims} must be equally many.")
    out: Tensor = apply("roll", x, shifts=by, axes=axes)
    return out


# --- joins and parts ------------------------------------------------------------------------------


def concat(tensors: Any, axis: int = 0) -> Tensor:
    """Tensors joined along an axis; they are promoted to one type.

    Raises:
        ValueError: none, or shapes that differ on another axis.
    """
    return _concat(tensors, axis)


@native_body()
def _concat(tensors: Any, axis: int) -> Tensor:
    parts = _parts(tensors, "concat")
    if len(parts) == 1:
        return parts[0]
    a = axis_of(axis, parts[0].ndim, "concat")
    out: Tensor = apply("concat", *parts, axis=a)
    return out


def _parts(xs: Any, what: str) -> Sequence[Tensor]:
    """The tensors of a list or tuple, in one element type."""
    if type(xs) in (list, tuple) and alike(xs):
        same: Sequence[Tensor] = xs
        return same
    parts = tensors(xs, what)
    return parts if len(parts) == 1 else common(what, *parts)


cat = concat


def stack(tensors: Any, axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    Raises:
        ValueError: none, or shapes that differ.
    """
    return _stack(tensors, axis)


@native_body()
def _stack(tensors: Any, axis: int) -> Tensor:
    parts = _parts(tensors, "stack")
    a = axis_of(axis, parts[0].ndim + 1, "stack")
    out: Tensor = apply("stack", *parts, axis=a)
    return out


@native
def hstack(tensors: Any) -> Tensor:
    """Joined along the second axis (the first of vectors)."""
    parts = [atleast_1d(x) for x in _parts(tensors, "hstack")]
    return concat(parts, 0 if parts[0].ndim == 1 else 1)


@native
def vstack(inputs: Any) -> Tensor:
    """Joined along the first axis, vectors as rows."""
    return concat([atleast_2d(x) for x in _parts(inputs, "vstack")], 0)


@native
def dstack(tensors: Any) -> Tensor:
    """Joined along the third axis."""
    return concat([atleast_3d(x) for x in _parts(tensors, "dstack")], 2)


@native
def column_stack(tensors: Any) -> Tensor:
    """Joined along the second axis, vectors as columns."""
    parts = [_to_shape(x, (x.size, 1)) if x.ndim < 2 else x
             for x in _parts(tensors, "column_stack")]
    return concat(parts, 1)


def part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    """Positions start to stop of one axis."""
    if start == 0 and stop == x.shape[axis]:
        return x
    lo = tuple(start if i == axis else 0 for i in _range(x.ndim))
    hi = tuple(stop if i == axis else d for i, d in enumerate(x.shape))
    out: Tensor = apply("slice", x, start=lo, stop=hi)
    return out


def _split_at(x: Tensor, sizes: Any, axis: int) -> tuple[Tensor, ...]:
    parts = apply("split", x, sizes=tuple(sizes), axis=axis)
    return parts if isinstance(parts, tuple) else (parts,)


def split(
    tensor: Tensor, split_size_or_sections: Any, axis: int = 0
) -> tuple[Tensor, ...]:
    """Parts along an axis: of a given length (the last may be shorter), or of given lengths.

    Raises:
        ValueError: a length that is not positive, or lengths that do not add up.
    """
    return _split(tensor, split_size_or_sections, axis)


@native_body()
def _split(tensor: Tensor, split_size_or_sections: Any, axis: int) -> tuple[Tensor, ...]:
    x = _tensor(tensor, "split", "tensor")
    a = axis_of(axis, x.ndim, "split")
    d = x.shape[a]
    if is_int(split_size_or_sections):
        n = int(split_size_or_sections)
        if n <= 0:
            raise ValueError(f"For 'split', the size of a part must be positive, but got {n}.")
        sizes: Any = [min(n, d - i) for i in _range(0, d, n)] or [0]
    else:
        sizes = ints(split_size_or_sections, "split", "split_size_or_sections")
        if builtins.sum(sizes) != d or builtins.any(n < 0 for n in sizes):
            raise ValueError(
                f"For 'split', the sections {sizes} must add up to {d}, the length of axis {a}."
            )
    return _split_at(x, sizes, a)


_tensor = tensor


def chunk(input: Tensor, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of one length along an axis (the last may be shorter).

    Raises:
        ValueError: `chunks` is not positive.
    """
    return _chunk(input, chunks, axis)


@native_body()
def _chunk(input: Tensor, chunks: int, axis: int) -> tuple[Tensor, ...]:
    x = tensor(input, "chunk")
    n = integer(chunks, "chunk", "chunks")
    if n <= 0:
        raise ValueError(f"For 'chunk', 'chunks' must be positive, but got {n}.")
    a = axis_of(axis, x.ndim, "chunk")
    return split(x, max(1, -(-x.shape[a] // n)), a)


@native
def tensor_split(
    input: Tensor, indices_or_sections: Any, axis: int = 0
) -> tuple[Tensor, ...]:
    """A given number of parts, the first ones longer by one where needed, or parts at positions.

    Raises:
        ValueError: the number of parts is not positive.
    """
    x = tensor(input, "tensor_split")
    a = axis_of(axis, x.ndim, "tensor_split")
    d = x.shape[a]
    if is_int(indices_or_sections):
        n = int(indices_or_sections)
        if n <= 0:
            raise ValueError(f"For 'tensor_split', the number of parts must be positive, got {n}.")
        return _split_at(x, [d // n + (i < d % n) for i in _range(n)], a)
    cuts = ints(indices_or_sections, "tensor_split", "indices_or_sections")
    spans = zip((None, *cuts), (*cuts, None), strict=True)
    bounds = [_slice(i, j).indices(d) for i, j in spans]
    return tuple(part(x, a, i, max(i, j)) for i, j, _ in bounds)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the second axis (the first of a vector)."""
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the first axis."""
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """`tensor_split` along the third axis."""
    return tensor_split(input, indices_or_sections, 2)


def unstack(input_x: Tensor, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without it."""
    return _unstack(input_x, axis)


@native_body()
def _unstack(input_x: Tensor, axis: int) -> tuple[Tensor, ...]:
    x = tensor(input_x, "unstack", "input_x")
    a = axis_of(axis, x.ndim, "unstack")
    rest = x.shape[:a] + x.shape[a + 1 :]
    return tuple(_to_shape(part(x, a, i, i + 1), rest) for i in _range(x.shape[a]))


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """`unstack` under its other name."""
    return _unstack(input, dim)


@native
def narrow(input: Tensor, axis: int, start: int, length: int) -> Tensor:
    """`length` positions along an axis from `start`.

    Raises:
        ValueError: they leave the axis.
    """
    x = tensor(input, "narrow")
    a = axis_of(axis, x.ndim, "narrow")
    first, n = integer(start, "narrow", "start"), integer(length, "narrow", "length")
    first += x.shape[a] if first < 0 else 0
    if n < 0 or first < 0 or first + n > x.shape[a]:
        raise ValueError(
            f"For 'narrow', {n} positions from {start} leave axis {a} of length {x.shape[a]}."
        )
    return part(x, a, first, first + n)


@native
def slice(input_x: Tensor, begin: Any, size: Any) -> Tensor:
    """size[i] positions from begin[i] on every axis; a size of -1 means up to the end.

    Raises:
        ValueError: there is not one `begin` and `size` for each axis, or they leave it.
    """
    x = tensor(input_x, "slice", "input_x")
    start = ints(begin, "slice", "begin")
    count = ints(size, "slice", "size")
    if not len(start) == len(count) == x.ndim:
        raise ValueError(f"For 'slice', 'begin' and 'size' must have {x.ndim} entries each.")
    stop = tuple(d if n == -1 else b + n for b, n, d in zip(start, count, x.shape, strict=True))
    for b, e, d in zip(start, stop, x.shape, strict=True):
        if not 0 <= b <= e <= d:
            raise ValueError(f"For 'slice', positions {b} to {e} leave an axis of length {d}.")
    out: Tensor = apply("slice", x, start=start, stop=stop)
    return out


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

    Raises:
        ValueError: `begin`, `end` and `strides` are not equally long.
    """
    x = tensor(input_x, "strided_slice", "input_x")
    lo, hi, step = (ints(v, "strided_slice", n)
                    for v, n in ((begin, "begin"), (end, "end"), (strides, "strides")))
    if not len(lo) == len(hi) == len(step):
        raise ValueError("For 'strided_slice', begin, end and strides must be equally long.")
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


# --- padding --------------------------------------------------------------------------------------

_BORDERS = {"reflect": "reflect", "replicate": "replicate", "circular": "circular"}


def pad(input_x: Tensor, padding: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """Elements added (or, if negative, removed) around the last axes.

    Args:
        padding: pairs (before, after) from the last axis backwards.
        mode: `"constant"` (`value`, 0 by default), `"reflect"`, `"replicate"` or `"circular"`.

    Raises:
        ValueError: an odd number of counts, or more than two per axis.
    """
    return _pad(input_x, padding, mode, value)


@native_body()
def _pad(input_x: Tensor, padding: Any, mode: str, value: Any) -> Tensor:
    x = tensor(input_x, "pad", "input_x")
    counts = ints(padding, "pad", "padding")
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        raise ValueError(
            f"For 'pad', 'padding' must hold up to {x.ndim} pairs for a tensor of {x.ndim} axes, "
            f"but got {counts}."
        )
    low, high = [0] * x.ndim, [0] * x.ndim
    for i in _range(len(counts) // 2):
        low[-1 - i], high[-1 - i] = counts[2 * i], counts[2 * i + 1]
    if choice(mode, ("constant", *_BORDERS), "pad", "mode") == "constant":
        out: Tensor = apply("pad", x, low=tuple(low), high=tuple(high), value=_fill_of(value, x))
        return out
    bordered: Tensor = apply(
        "pad_border", x, low=tuple(low), high=tuple(high), mode=_BORDERS[mode])
    return bordered


def _fill_of(value: Any, x: Tensor) -> Any:
    if value is None:
        return 0
    v = value.item() if isinstance(value, Tensor) else value
    return bool(v) if x.dtype is bool_ else int(v) if x.dtype.is_integer else float(v)


# --- the tensor itself ----------------------------------------------------------------------------


def identity(x: Tensor) -> Tensor:
    """The tensor itself, not a copy."""
    return tensor(x, "identity", "x")


def deepcopy(input_x: Tensor) -> Tensor:
    """A copy of a tensor, with memory of its own."""
    copied: Tensor = tensor(input_x, "deepcopy", "input_x").copy()
    return copied


__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "cat", "chunk", "column_stack",
    "concat", "deepcopy", "dsplit", "dstack", "dtype", "expand_as", "expand_dims", "flatten",
    "flip", "fliplr", "flipud", "hsplit", "hstack", "identity", "is_complex", "is_floating_point",
    "is_tensor", "moveaxis", "movedim", "narrow", "numel", "pad", "permute", "rank", "ravel",
    "repeat_elements", "repeat_interleave", "reshape", "reverse", "roll", "rot90", "shape", "size",
    "slice", "split", "squeeze", "stack", "strided_slice", "swapaxes", "swapdims", "t",
    "tensor_split", "tile", "transpose", "unbind", "unsqueeze", "unstack", "view_as", "vsplit",
    "vstack",
]
