"""The operands of a product as kernels read them: an offset follows from the digits of an index.

A matrix is two digits, a weight some more. An operand that is an image is never unfolded: its
digits (channel, tap, image, pixel) also give the row and the column of the pixel that is read, and
what lies outside of the image is 0. So products, convolutions and their gradients differ in digits
alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass

from ....ir.types import prod
from ...llvm.convert import memory_type
from ...llvm.math.lanes import X
from ...llvm.text import V, element, sizeof
from ..writer import GpuFunction


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of an index."""

    extent: int  # values it takes
    stride: int  # elements that a step of it goes on
    # y, x: rows and columns of an image that a step goes on
    y: int = 0
    x: int = 0


Digits = tuple[Digit, ...]


def digits(*given: Digit) -> Digits:
    """Digits, the last one the fastest; those that go on in one another become one."""
    out: list[Digit] = []
    for d in given:
        if d.extent == 1:
            continue
        o = out[-1] if out else None
        if o is not None and (o.stride, o.y, o.x) == (
                d.extent * d.stride, d.extent * d.y, d.extent * d.x):
            out[-1] = Digit(o.extent * d.extent, d.stride, d.y, d.x)
        else:
            out.append(d)
    return tuple(out)


def extent(of: Digits) -> int:
    """Values of a whole index."""
    return prod(d.extent for d in of)


@dataclass(frozen=True, slots=True)
class Window:
    """The readable part of an image: rows and columns, and the place of the first tap of the first
    pixel (below 0 in the border)."""

    height: int
    width: int
    top: int
    left: int


@dataclass(frozen=True, slots=True)
class Spot:
    """Where something lies: an offset in elements, and a row and a column of an image."""

    offset: X
    y: X | None = None
    x: X | None = None

    def __add__(self, other: Spot) -> Spot:
        return Spot(self.offset + other.offset, _sum(self.y, other.y), _sum(self.x, other.x))


def _sum(a: X | None, b: X | None) -> X | None:
    return a if b is None else b if a is None else a + b


def number(f: GpuFunction, value: int) -> X:
    """An index constant."""
    return X(f, V("i32", str(value), f))


def spot(f: GpuFunction, index: X, of: Digits) -> Spot:
    """Where an index (an i32) lies."""
    out = Spot(number(f, 0))
    for d, v in zip(of, f.split(index.v, [d.extent for d in of]), strict=True):
        i = X(f, v)
        out += Spot(i * d.stride, i * d.y if d.y else None, i * d.x if d.x else None)
    return out


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix for each number of a batch."""

    dtype: DType  # of its elements
    # batch, free, steps: digits of the batch, of what the product keeps, and of k
    batch: Digits
    free: Digits
    steps: Digits
    start: int = 0  # offset of the first element
    window: Window | None = None  # of an image

    def begin(self, f: GpuFunction, batch: X, free: X) -> Spot:
        """Where a row of it begins."""
        at = spot(f, batch, self.batch) + spot(f, free, self.free) + Spot(number(f, self.start))
        if self.window is None:
            return at
        return at + Spot(number(f, 0), number(f, self.window.top), number(f, self.window.left))

    def inside(self, at: Spot) -> X | None:
        """Whether an element is in the image; None where all are."""
        if self.window is None:
            return None
        assert at.y is not None and at.x is not None
        return at.y.cmp("ult", self.window.height) & at.x.cmp("ult", self.window.width)

    def runs(self, axis: str, lanes: int) -> bool:
        """Whether elements are adjacent along `"free"` or `"steps"`, as whole vectors."""
        along, other = (self.free, self.steps) if axis == "free" else (self.steps, self.free)
        if self.window is not None or not along or along[-1].stride != 1:
            return False
        rest = [d.stride for d in (*along[:-1], *other, *self.batch)]
        return not any(n % lanes for n in (*rest, along[-1].extent, self.start))

    def shifts(self) -> list[tuple[int, int, int]]:
        """Return the offset of each step of k: elements, rows and columns."""
        out = [(0, 0, 0)]
        for d in self.steps:
            out = [(o + i * d.stride, y + i * d.y, x + i * d.x)
                   for o, y, x in out for i in range(d.extent)]
        return out

    @property
    def nearest(self) -> str:
        """The axis along which elements are nearer to one another."""
        def step(of: Digits) -> int:
            return abs(of[-1].stride) if of else 1 << 31

        return "free" if step(self.free) <= step(self.steps) else "steps"


@dataclass(frozen=True, slots=True)
class Output:
    """Where a product is stored: digits of the batch, the rows and the columns."""

    dtype: DType
    batch: Digits
    rows: Digits
    columns: Digits
    start: int = 0

    def vectors(self, lanes: int) -> bool:
        """Whether vectors of columns may be stored."""
        if not self.columns or self.columns[-1].stride != 1:
            return False
        rest = [d.stride for d in (*self.columns[:-1], *self.rows, *self.batch)]
        return not any(n % lanes for n in (*rest, self.columns[-1].extent, self.start))


def fits(operands: Iterable[int]) -> bool:
    """Whether offsets into buffers of these sizes fit an i32, with room to go on."""
    return all(n < 1 << 30 for n in operands)


def widened(f: GpuFunction, v: V) -> V:
    """Integers of less than four bytes as such of four; which sign they have changes nothing of the
    low bits of a sum of products."""
    return f.cast("sext", v, "i32") if sizeof(element(v.ty)) < sizeof("i32") else v


def low_bits(f: GpuFunction, v: V, dtype: DType) -> V:
    """Sums of integers as those of a result, modulo 2^bits; sums of floats as they are."""
    narrow = not dtype.is_float and dtype.itemsize < sizeof(element(v.ty))
    return f.cast("trunc", v, memory_type(dtype)) if narrow else v
