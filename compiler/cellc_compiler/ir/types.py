"""Dimensions, shapes and tensor types.

A dimension is an int or a symbolic `Dim`. `Dim` is a polynomial over named symbols (and floor
divisions of polynomials), kept in canonical form so that equality is structural. Inference
rules use plain arithmetic operators and so work on both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Union

from cellc_runtime.dtypes import DType

# An atom is a symbol name or a floor division (numerator, divisor); a monomial a sorted tuple of
# atoms; a polynomial maps monomials to integer coefficients.
Atom = Union[str, tuple["Dim", int]]
Monomial = tuple[Atom, ...]


def _order(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"({atom[0]})//{atom[1]}"


@dataclass(frozen=True, slots=True)
class Dim:
    """A symbolic dimension. Build one with `Dim.symbol`; combine with `+ - * //`."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def symbol(name: str) -> Dim:
        """The dimension called `name`."""
        return Dim((((name,), 1),))

    @staticmethod
    def _of(x: Dim | int) -> dict[Monomial, int]:
        return dict(x.terms) if isinstance(x, Dim) else ({(): x} if x else {})

    @staticmethod
    def _make(poly: dict[Monomial, int]) -> Dim | int:
        kept = {m: c for m, c in poly.items() if c}
        if not kept:
            return 0
        if set(kept) == {()}:
            return kept[()]
        ordered = sorted(kept.items(), key=lambda t: (len(t[0]), [_order(a) for a in t[0]]))
        return Dim(tuple(ordered))

    def __add__(self, other: Dim | int) -> Dim | int:
        poly = self._of(self)
        for m, c in self._of(other).items():
            poly[m] = poly.get(m, 0) + c
        return self._make(poly)

    __radd__ = __add__

    def __neg__(self) -> Dim | int:
        return self._make({m: -c for m, c in self.terms})

    def __sub__(self, other: Dim | int) -> Dim | int:
        return self + (-other)

    def __rsub__(self, other: Dim | int) -> Dim | int:
        return -self + other

    def __mul__(self, other: Dim | int) -> Dim | int:
        poly: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in self._of(other).items():
                m = tuple(sorted(m1 + m2, key=_order))
                poly[m] = poly.get(m, 0) + c1 * c2
        return self._make(poly)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Dim | int:
        if all(c % divisor == 0 for _, c in self.terms):
            return self._make({m: c // divisor for m, c in self.terms})
        return Dim(((((self, divisor),), 1),))

    def __str__(self) -> str:
        parts = []
        for m, c in self.terms:
            names = "*".join(_order(a) for a in m)
            parts.append(names if c == 1 and m else f"{c}*{names}" if m else str(c))
        return "+".join(parts)

    __repr__ = __str__


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
        """The shape as ints.

        Raises:
            ValueError: a dimension is symbolic.
        """
        for d in self.shape:
            if not isinstance(d, int):
                raise ValueError(f"the dimension {d} of {self} is not known at compile time")
        return self.shape  # type: ignore[return-value]

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.dims)

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
        return f"{name}[{','.join(str(d) for d in self.shape)}]"


def prod(dims: Iterable[int]) -> int:
    """The product of ints (1 for none)."""
    return reduce(mul, dims, 1)


def broadcast_shapes(a: Shape, b: Shape, what: str = "operands") -> Shape:
    """The numpy broadcast of two shapes.

    Raises:
        ValueError: two dimensions differ and neither is 1.
    """
    rank = max(len(a), len(b))
    pa, pb = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    out: list[int | Dim] = []
    for axis, (x, y) in enumerate(zip(pa, pb, strict=True)):
        if x == y or y == 1:
            out.append(x)
        elif x == 1:
            out.append(y)
        else:
            raise ValueError(
                f"{what} of shapes {show_shape(a)} and {show_shape(b)} cannot be broadcast: "
                f"axis {axis - rank} is {x} in one and {y} in the other"
            )
    return tuple(out)


def show_shape(shape: Shape) -> str:
    """A shape as Python prints a tuple."""
    return "(" + ", ".join(str(d) for d in shape) + ("," if len(shape) == 1 else "") + ")"


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` in `0..rank-1`.

    Raises:
        ValueError: out of range.
    """
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"{what} {axis} is out of range for a tensor of {rank} dimensions")
    return axis % max(rank, 1)


def normalize_axes(axes: int | tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """Sorted distinct axes; `None` or `()` means all.

    Raises:
        ValueError: out of range, or one axis twice.
    """
    if axes is None or axes == ():
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    out = sorted(normalize_axis(a, rank) for a in given) if rank else []
    if len(set(out)) != len(out):
        raise ValueError(f"an axis appears twice in {given}")
    return tuple(out)
