"""Dimensions, shapes and tensor types.

A dimension is an int or a symbolic `Dim` (`ir/dims.py`), which behaves as an int. Inference rules
use plain arithmetic and comparison and so work on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from .dims import Dim

Shape = tuple[int | Dim, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a value: a shape and an element type."""

    shape: Shape
    dtype: DType

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, its symbolic dimensions taken for the ints they behave as."""
        return self.shape  # type: ignore[return-value]  # a Dim behaves as an int

    @property
    def is_static(self) -> bool:
        """Whether all dimensions are known."""
        return Dim not in map(type, self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)  # type: ignore[arg-type]  # a Dim behaves as an int

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self.size * self.dtype.itemsize

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with another element type."""
        return TensorType(self.shape, dtype)

    def with_shape(self, shape: Iterable[int | Dim]) -> TensorType:
        """The same element type with another shape."""
        return TensorType(tuple(shape), self.dtype)

    def __str__(self) -> str:
        name = "bool" if self.dtype.name == "bool_" else self.dtype.name
        return f"{name}[{','.join(map(str, self.shape))}]"


def prod(dims: Iterable[int]) -> int:
    """The product of ints (1 for none)."""
    return math.prod(dims)


def batch_strides(own: tuple[int, ...], out: tuple[int, ...]) -> tuple[int, ...]:
    """Matrices of an operand per step of each axis of the result's batch (0: broadcast)."""
    padded = (1,) * (len(out) - len(own)) + own
    return tuple(0 if d == 1 else prod(padded[i + 1:]) for i, d in enumerate(padded))


def broadcast_shapes(a: Shape, b: Shape, what: str = "operands") -> Shape:
    """The numpy broadcast of two shapes. Raises ValueError if two dimensions differ and neither is
    1."""
    rank = max(len(a), len(b))
    pa, pb = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    out: list[int | Dim] = []
    for axis, (x, y) in enumerate(zip(pa, pb, strict=True)):
        # A 1 known as such goes first: it fits any size, and asks nothing about a symbolic one.
        if type(y) is int and y == 1:
            out.append(x)
        elif type(x) is int and x == 1:
            out.append(y)
        elif x == y:
            out.append(y if type(x) is Dim else x)
        elif y == 1:
            out.append(x)
        elif x == 1:
            out.append(y)
        else:
            raise ValueError(
                f"{what} of shapes {show_shape(a)} and {show_shape(b)} cannot be broadcast: "
                f"axis {axis - rank} is {x} in one and {y} in the other"
            )
    return tuple(out)


def broadcast_all(*shapes: Shape) -> tuple[int, ...]:
    """The numpy broadcast of any number of shapes (symbolic sizes taken for ints). Raises
    ValueError if they do not fit."""
    out: Shape = ()
    for shape in shapes:
        out = broadcast_shapes(out, shape)
    return out  # type: ignore[return-value]  # a Dim behaves as an int


def show_shape(shape: Sequence[object]) -> str:
    """A shape as Python prints a tuple."""
    return "(" + ", ".join(str(d) for d in shape) + ("," if len(shape) == 1 else "") + ")"


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` in `0..rank-1`. Raises ValueError if it is out of range."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"{what} {axis} is out of range for a tensor of {rank} dimensions")
    return axis % max(rank, 1)


def own_axis(axis: int, rank: int, what: str) -> int:
    """`normalize_axis` of a tensor that has axes. Raises ValueError if it is out of range or there
    is no axis."""
    if not rank:
        raise ValueError(f"{what} needs a tensor of at least 1 dimension, got a scalar")
    return normalize_axis(axis, rank)


def normalize_axes(axes: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Sorted distinct axes; `None` or `()` means all. A scalar takes those of one dimension. Raises
    ValueError if an axis is out of range or occurs twice."""
    if axes is None or axes == ():
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    out = sorted(normalize_axis(a, rank or 1) for a in given)
    if len(set(out)) != len(out):
        raise ValueError(f"an axis appears twice in {given}")
    return tuple(out) if rank else ()


def differentiable(ty: TensorType) -> bool:
    """Whether values of this type carry gradients."""
    return ty.dtype.is_inexact


def seedable(ty: TensorType) -> bool:
    """Whether gradients may start from values of this type, or be requested: integers too."""
    return ty.dtype.is_inexact or ty.dtype.is_integer


# --- Bounds of numbers and tensors in graphs, for every op alike ----------------------------------
#
# Graphs also come from files. All numbers fit 64 bits, so that arithmetic on them is cheap, and a
# tensor has no more bytes than a process can address. Ranges of attributes: `ir/attributes.py`.

LEAST, MOST = -(1 << 63), (1 << 64) - 1  # The integers that some element type can represent
MOST_BYTES = 1 << 47  # The most memory that a process can address on existing machines
MOST_PARTS = 1 << 16
"""Into how many parts, or how often, a function or layer does what it does one by one."""
MOST_AXES = 64  # The rank up to which numpy, and so the reference interpreter, has arrays


def check_size(what: str, ty: TensorType) -> None:
    """A tensor that a process could address. Symbolic sizes are known later. Raises ValueError if
    it is larger, has too many axes, or a size is negative."""
    if len(ty.shape) > MOST_AXES:
        raise ValueError(f"{what} would have {len(ty.shape)} axes, which is more than {MOST_AXES}")
    nbytes = ty.dtype.itemsize
    for n in ty.shape:
        if type(n) is int:
            if n < 0:
                raise ValueError(f"{what} would have the negative size {n}")
            nbytes *= n or 1
            if nbytes > MOST_BYTES:
                raise ValueError(f"{what} would be a tensor {_shape(ty)}, which is more than "
                                 f"{MOST_BYTES >> 40} TiB")


def _shape(ty: TensorType) -> str:
    text = str(ty)
    return text if len(text) <= 100 else text[:97] + "..."
