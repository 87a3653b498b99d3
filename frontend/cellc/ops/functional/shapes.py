"""Shapes: creation, views, joins and parts of tensors.

Source: the functions of the same names in `mindspore.ops`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from cellc_compiler.ir.dims import surely_equal
from cellc_compiler.ir.types import broadcast_all
from cellc_runtime.dtypes import DType, bool_

from ...core.declared import misuse
from ...core.dispatch import apply_one
from ...core.native import native, native_of_types
from ...tensors.promotion import fresh
from ...tensors.tensor import Tensor
from ..arguments import Ints, axes_of, axis_of, choice, ints, ints_or_int, ranked, tensor

# --- what a tensor is -----------------------------------------------------------------------------


def shape(input_x: Tensor) -> Ints:
    """The shape as a tuple of ints: () of a scalar, (2, 3) of a matrix of 2 rows and 3 columns."""
    return tensor(input_x, "shape", "input_x").shape


def size(input_x: Tensor) -> int:
    """The number of elements, a Python int: all sizes of the shape multiplied, 1 for a scalar, 0 if
    one is 0."""
    return tensor(input_x, "size", "input_x").size


def numel(input: Tensor) -> int:
    """The number of elements, a Python int: all sizes of the shape multiplied, 1 for a scalar, 0 if
    one is 0."""
    return size(input)


def rank(input_x: Tensor) -> int:
    """The number of axes of a Tensor, a Python int: 0 for a scalar, 1 for a vector, 2 for a
    matrix."""
    return tensor(input_x, "rank", "input_x").ndim


def dtype(x: Any) -> DType:
    """The element type of a tensor, sparse ones too: what `x.dtype` gives, ms.float32 say."""
    found: DType = x.dtype if hasattr(type(x), "to_dense") else tensor(x, "dtype", "x").dtype
    return found


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a Tensor or a Parameter, as a Python bool: not for numpy arrays, numbers and
    lists."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floats (float16, bfloat16, float32 or float64), as a Python
    bool."""
    return tensor(input, "is_floating_point").dtype.is_float


def is_complex(input: Tensor) -> bool:
    """Whether the elements of a Tensor are complex numbers (complex64 or complex128), as a Python
    bool."""
    return tensor(input, "is_complex").dtype.is_complex


# --- views ----------------------------------------------------------------------------------------


def to_shape(x: Tensor, dims: Ints) -> Tensor:
    """`reshape` to a shape that is known to fit."""
    if len(dims) == x.ndim and dims == x.shape:
        return x
    return apply_one("reshape", x, shape=dims)


@native
def reshape(input: Tensor, shape: Any) -> Tensor:
    """The same elements in row-major order under another shape, where one -1 is worked out. Another
    number of elements is a ValueError."""
    x = tensor(input, "reshape")
    dims = ints(shape, "reshape", "shape")
    return to_shape(x, _known_dims(x._layout.size, dims) if x._eager else _worked_out(x.size, dims))


def _worked_out(size: int, given: Ints) -> Ints:
    """Return the shape of a tensor of `size` elements, where -1 stands for the rest."""
    dims = list(given)
    if dims.count(-1) > 1:
        raise misuse("reshape", "only one dimension can be inferred")
    if any(d < -1 for d in dims):
        raise misuse("reshape", "dimensions must be -1 or more", given)
    known = math.prod(d for d in dims if d != -1)
    if -1 in dims and known and size % known == 0:
        dims[dims.index(-1)] = size // known
    if -1 in dims or math.prod(dims) != size:
        raise misuse("reshape", f"the shape {given} is invalid for input of size {size}")
    return tuple(dims)


_known_dims = lru_cache(maxsize=4096)(_worked_out)  # Where sizes are ints


@native_of_types
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`reshape` to the shape of another tensor, which must have as many elements: only its shape
    matters."""
    return reshape(input, tensor(other, "view_as", "other").shape)


@native
def flatten(input: Tensor, order: str = "C", *, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    """Axes start_dim to end_dim merged into one.

    Args:
        order: `"C"` row-major or `"F"` column-major over the whole tensor.
    """
    x = tensor(input, "flatten")
    if x._eager and type(order) is str and order == "C" and type(start_dim) is type(end_dim) is int:
        return apply_one("reshape", x, shape=_flat(x._layout.shape, start_dim, end_dim))
    if choice(order, ("C", "F"), "flatten", "order") == "F":
        x = transpose(x, tuple(reversed(range(x.ndim))))
    return apply_one("reshape", x, shape=_flattened(x.shape, start_dim, end_dim))


def _flattened(shape: Ints, start_dim: Any, end_dim: Any) -> Ints:
    """A shape with the axes from `start_dim` to `end_dim` merged."""
    ndim = len(shape)
    if ndim == 0:
        return (1,)
    first = axis_of(start_dim, ndim, "flatten", "start_dim") if ndim > 1 else 0
    last = axis_of(end_dim, ndim, "flatten", "end_dim")
    if first > last:
        raise misuse("flatten", f"start_dim {start_dim} comes after end_dim {end_dim}")
    return *shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]


_flat = lru_cache(maxsize=4096)(_flattened)  # Where all are ints


@native
def ravel(input: Tensor) -> Tensor:
    """All elements of a Tensor in one axis, in row-major order: the shape (2, 3) becomes (6,), that
    of a scalar (1,)."""
    x = tensor(input, "ravel")
    return to_shape(x, (x.size,))


@native
def squeeze(input: Tensor, axis: Any = None) -> Tensor:
    """The tensor without its axes of length 1, or without those of `axis`, which stay if they are
    longer: (1, 3, 1) becomes (3,)."""
    x = tensor(input, "squeeze")
    axes = axes_of(axis, x.ndim, "squeeze")
    return to_shape(x, tuple(d for i, d in enumerate(x.shape) if i not in axes or d != 1))


@native
def expand_dims(input_x: Tensor, axis: int) -> Tensor:
    """A new axis of length 1 at `axis`, which may count from the end: (2, 3) with axis -1 gives (2,
    3, 1)."""
    x = tensor(input_x, "expand_dims", "input_x")
    a = axis_of(axis, x.ndim + 1, "expand_dims")
    return to_shape(x, (*x.shape[:a], 1, *x.shape[a:]))


@native
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """`expand_dims` under its other name: a new axis of length 1 at `dim`, (2, 3) with dim 0 gives
    (1, 2, 3)."""
    return expand_dims(input, dim)


@native
def transpose(input: Tensor, dims: Any) -> Tensor:
    """The axes in another order: axis i of the result is axis dims[i] of the input, so (2, 3, 4) by
    (2, 0, 1) is (4, 2, 3)."""
    x = tensor(input, "transpose")
    return _permuted(x, _permutation(ints(dims, "transpose", "dims"), x.ndim))


@lru_cache(maxsize=1024)
def _permutation(given: Ints, rank: int) -> Ints | None:
    """Where the axes come from; None if they stay."""
    if len(given) != rank:
        raise misuse("transpose", f"'dims' must name all {rank} axes of the input", given)
    perm = tuple(axis_of(a, rank, "transpose", "dims") for a in given)
    if len(set(perm)) != len(perm):
        raise misuse("transpose", "'dims' must be distinct", given)
    return None if perm == tuple(range(rank)) else perm


@lru_cache(maxsize=1024)
def _exchange(a: int, b: int, rank: int) -> Ints | None:
    """The permutation that exchanges two axes; None if they stay."""
    perm = list(range(rank))
    if perm:
        perm[a], perm[b] = perm[b], perm[a]
    return None if a == b or not perm else tuple(perm)


def _permuted(x: Tensor, perm: Ints | None) -> Tensor:
    if perm is None:
        return x
    return apply_one("transpose", x, perm=perm)


def permute(input: Tensor, axis: Any) -> Tensor:
    """`transpose` under its other name: axis i of the result is axis axis[i] of the input, (2, 3,
    4) by (2, 0, 1) is (4, 2, 3)."""
    return transpose(input, axis)


@native
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """The axes `axis0` and `axis1` exchanged, which may count from the end: (2, 3, 4) by 0 and 2 is
    (4, 3, 2)."""
    x = tensor(input, "swapaxes")
    rank = x.ndim
    return _permuted(x, _exchange(axis_of(axis0, rank, "swapaxes"),
                                  axis_of(axis1, rank, "swapaxes"), rank))


@native
def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`swapaxes` under its other name: two axes exchanged, (2, 3, 4) by 0 and 2 is (4, 3, 2)."""
    return swapaxes(input, dim0, dim1)


@native
def moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes `source` moved to the places `destination`, which may count from the end; the rest
    keep their order."""
    t = tensor(x, "moveaxis", "x")
    src = [axis_of(a, t.ndim, "moveaxis") for a in ints_or_int(source, "moveaxis", "source")]
    dst = [axis_of(a, t.ndim, "moveaxis")
           for a in ints_or_int(destination, "moveaxis", "destination")]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise misuse("moveaxis", f"{source} and {destination} must be equally many axes")
    perm = [a for a in range(t.ndim) if a not in src]
    for place, a in sorted(zip(dst, src, strict=True)):
        perm.insert(place, a)
    return transpose(t, tuple(perm))


movedim = moveaxis


@native
def t(input: Tensor) -> Tensor:
    """A matrix (n, m) transposed to (m, n); a vector or scalar as it is. More axes are a
    ValueError."""
    x = ranked(input, 0, 2, "t")
    return transpose(x, (1, 0)) if x.ndim == 2 else x


@native
def matrix_transpose(input: Tensor, what: str = "mT") -> Tensor:
    """The last two axes exchanged."""
    x = ranked(input, 2, None, what)
    return swapaxes(x, -1, -2)


@native
def broadcast_to(input: Tensor, shape: Any) -> Tensor:
    """The tensor repeated along axes of length 1 and new leading axes until it has `shape`, where
    -1 keeps a length. A length other than 1 that differs is a ValueError."""
    x = tensor(input, "broadcast_to")
    dims = list(ints(shape, "broadcast_to", "shape"))
    lead = len(dims) - x.ndim
    for i, d in enumerate(dims):
        if d == -1:
            if i < lead:
                raise misuse("broadcast_to", f"-1 at the new axis {i} has no length")
            dims[i] = x.shape[i - lead]
    if lead < 0 or any(
        x.shape[i] not in (1, dims[i + lead]) for i in range(x.ndim)
    ):
        raise misuse("broadcast_to", f"shape {x.shape} cannot be broadcast to {tuple(dims)}")
    if len(dims) == x.ndim and all(map(surely_equal, dims, x.shape)):
        return x
    return apply_one("broadcast_to", x, shape=tuple(dims))


@native_of_types
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` broadcast to the shape of `other`: axes of length 1 and new leading axes are
    repeated; other lengths that differ are a ValueError."""
    return broadcast_to(input, tensor(other, "expand_as", "other").shape)


@native
def broadcast_tensors(*inputs: Tensor) -> tuple[Tensor, ...]:
    """Tensors broadcast to their common shape."""
    common_shape = broadcast_all(*(tensor(x, "broadcast_tensors").shape for x in inputs))
    return tuple(broadcast_to(x, common_shape) for x in inputs)


def atleast_1d(inputs: Any) -> Any:
    """A scalar as a vector of one element, other tensors as they are; of a list or tuple, each of
    them."""
    return _at_least(inputs, 1, lambda x: (1,))


def atleast_2d(inputs: Any) -> Any:
    """A tensor with at least two axes: a scalar as (1, 1), (n,) as (1, n); of a list or tuple, each
    of them."""
    return _at_least(inputs, 2, lambda x: (1,) * (2 - x.ndim) + x.shape)


def atleast_3d(inputs: Any) -> Any:
    """At least three axes: a vector (n) becomes (1, n, 1), a matrix (m, n) becomes (m, n, 1)."""
    return _at_least(inputs, 3, lambda x: {
        0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim])


def _at_least(inputs: Any, least: int, shape: Any) -> Any:
    if isinstance(inputs, (list, tuple)):
        return tuple(_at_least(x, least, shape) for x in inputs)
    x = tensor(inputs, f"atleast_{least}d", "inputs")
    return x if x.ndim >= least else to_shape(x, shape(x))


# --- repeats, order -------------------------------------------------------------------------------


@native
def flip(input: Tensor, dims: Any) -> Tensor:
    """The elements in reverse order along the axes `dims`, of the same shape: [1, 2, 3] becomes [3,
    2, 1]."""
    x = tensor(input, "flip")
    given = ints_or_int(dims, "flip", "dims")
    if not given or not x.ndim:
        return fresh(x)
    return apply_one("flip", x, axes=axes_of(given, x.ndim, "flip", "dims"))


def reverse(x: Tensor, axis: Any) -> Tensor:
    """`flip` under its older name: the elements in reverse order along the axes `axis`."""
    return flip(x, axis)


def fliplr(input: Tensor) -> Tensor:
    """The second axis in reverse order (left becomes right): for tensors of at least two axes."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """The first axis in reverse order (up becomes down): for tensors of at least one axis."""
    return flip(input, 0)


# --- padding --------------------------------------------------------------------------------------

_BORDERS = ("reflect", "replicate", "circular")


@native
def pad(input_x: Tensor, padding: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """Elements added (or, if negative, removed) around the last axes.

    Args:
        padding: pairs (before, after) from the last axis backwards.
        mode: `"constant"` (`value`, 0 by default), `"reflect"`, `"replicate"` or `"circular"`.
    """
    x = tensor(input_x, "pad", "input_x")
    counts = ints(padding, "pad", "padding")
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        raise misuse("pad",
                     f"'padding' must hold up to {x.ndim} pairs for a tensor of {x.ndim} axes",
                     counts)
    low, high = [0] * x.ndim, [0] * x.ndim
    for i in range(len(counts) // 2):
        low[-1 - i], high[-1 - i] = counts[2 * i], counts[2 * i + 1]
    if choice(mode, ("constant", *_BORDERS), "pad", "mode") == "constant":
        return apply_one("pad", x, low=tuple(low), high=tuple(high), value=_fill_of(value, x))
    return apply_one("pad_border", x, low=tuple(low), high=tuple(high), mode=mode)


def _fill_of(value: Any, x: Tensor) -> Any:
    if value is None:
        return 0
    v = value.item() if isinstance(value, Tensor) else value
    return bool(v) if x.dtype is bool_ else int(v) if x.dtype.is_integer else float(v)


# --- the tensor itself ----------------------------------------------------------------------------


def identity(x: Any) -> Any:
    """The argument itself, of any type, not a copy. (`ops.Identity()` copies a tensor.)"""
    return x


def deepcopy(input_x: Tensor) -> Tensor:
    """A copy of a tensor with memory of its own: later changes in place of one do not show in the
    other."""
    copied: Tensor = tensor(input_x, "deepcopy", "input_x").copy()
    return copied
