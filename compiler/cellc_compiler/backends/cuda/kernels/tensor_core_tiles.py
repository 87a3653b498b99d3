"""Matrix products with tensor cores: what is computed, and in which pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ....ir.types import prod
from ...llvm.math.lanes import X
from ...llvm.text import V, vector
from ..code import VECTOR_BYTES, KernelCode
from ..writer import GpuFunction
from .product import Epilogue, stored

_TILES = 128  # Tiles, times segments, that are wanted
SEGMENT = 1024  # Steps of k that a segment has at least
MOST_SEGMENTS = 16
_TILE = 128
GROUP = 8  # Rows of tiles that are done side by side, so that what they share stays in the cache


@dataclass(frozen=True, slots=True)
class TensorCoreProduct:
    """A product of matrices of 16-bit floats, or of float32 rounded to TF32, summed in float32 and
    rounded once."""

    # m, n, k: of a matrix of the result, and of a row of the sum
    m: int
    n: int
    k: int
    batch: tuple[int, ...]  # axes of the result before the last two
    # a_strides, b_strides: matrices of an operand per step of each (0: broadcast)
    a_strides: tuple[int, ...]
    b_strides: tuple[int, ...]
    trans_a: bool  # A is stored `(k, m)`
    trans_b: bool  # B is stored `(n, k)`
    dtype: DType  # of both operands and the result

    @property
    def count(self) -> int:
        """Matrices of the result."""
        return prod(self.batch)

    @property
    def elements(self) -> int:
        """Of the result."""
        return self.count * self.m * self.n

    @property
    def segment(self) -> int:
        """Steps of k in a segment: those of a long k lie side by side where tiles are few. By
        columns and steps alone, for all kernels and devices: bits follow from it, and the number
        of rows must not decide (matrices that are summed over a long k are about square)."""
        tiles = (-(-self.n // _TILE)) ** 2
        wanted = min(_TILES // tiles, self.k // SEGMENT, MOST_SEGMENTS)
        return -(-self.k // (64 * max(wanted, 1))) * 64

    @property
    def segments(self) -> int:
        """How many there are."""
        return -(-self.k // self.segment)

    @property
    def stored(self) -> DType:
        """Return the type that the kernel of products writes: sums of segments are added later."""
        return float32 if self.segments > 1 else self.dtype

    def matrices(self, strides: Sequence[int]) -> int:
        """Matrices of an operand."""
        return 1 + sum(s * (n - 1) for s, n in zip(strides, self.batch, strict=True))


@dataclass(frozen=True, slots=True)
class Tile:
    """Where a block works."""

    # row, column: of the result, where the tile begins (i32)
    row: V
    column: V
    first: V  # step of k that its segment begins with (i32)
    # a, b: matrices of the operands (i32)
    a: V
    b: V
    out: V  # the matrix that is written, counted over segments (i32)


def tiles_of(p: TensorCoreProduct, rows: int, columns: int) -> int:
    """Return the number of tiles of a size, in all segments."""
    return p.segments * p.count * -(-p.m // rows) * -(-p.n // columns)


def in_groups(f: GpuFunction, number: V, matrices: int, down: int, across: int) -> tuple[V, V, V]:
    """The matrix, and the row and column of tiles, of a number: `GROUP` rows of tiles after the
    other, column by column."""
    high = V("i32", str(GROUP))
    matrix, within = f.split(number, [matrices, down * across])
    group, inside = f.split(within, [-(-down // GROUP), GROUP * across])
    start = group * high
    left = V("i32", str(down)) - start
    high = f.select(f.cmp("ult", left, high), left, high)
    return matrix, start + inside % high, inside // high


def tile_at(f: GpuFunction, p: TensorCoreProduct, number: V, rows: int, columns: int) -> Tile:
    """Where the tile of a number is; see `in_groups`."""
    def i32(value: int) -> V:
        return V("i32", str(value), f)

    matrix, row, column = in_groups(f, number, p.segments * p.count, -(-p.m // rows),
                                    -(-p.n // columns))
    segment, *at = f.split(matrix, [p.segments, *p.batch])

    def operand(strides: Sequence[int]) -> V:
        total = i32(0)
        for i, s in zip(at, strides, strict=True):
            total = total + i * i32(s) if s else total
        return total

    return Tile(row * i32(rows), column * i32(columns),
                segment * i32(p.segment), operand(p.a_strides), operand(p.b_strides), matrix)


class CutInSegments(Protocol):
    """A product whose k is cut."""

    @property
    def k(self) -> int: ...

    @property
    def segment(self) -> int: ...


def steps_of(f: GpuFunction, p: CutInSegments, first: V, step: int) -> V:
    """How many steps of so much k a segment takes (an i64): the last one may be shorter."""
    left = V("i32", str(p.k)) - first
    whole = V("i32", str(p.segment or p.k))
    own = f.select(f.cmp("ult", left, whole), left, whole)
    up = own + (step - 1)
    return f.cast("zext", up // step, "i64")


def added_segments(
    p: TensorCoreProduct, target: Target, epilogue: Epilogue | None = None, most: int = 4
) -> KernelCode:
    """The kernel that adds the sums of segments in order, and rounds: given these, and the result
    or the buffers of an epilogue. A thread does up to `most` elements."""
    lanes = next(n for n in (4, 2, 1) if n <= most and p.elements % n == 0)
    f = GpuFunction(target, 1 + (1 if epilogue is None else epilogue.buffers))
    put = stored(f, p.dtype, f.pointer(1)) if epilogue is None else epilogue.begin(f, 1)
    total = p.elements // lanes
    number = f.global_thread()

    def add() -> None:
        at = X(f, f.cast("zext", number, "i64")) * lanes
        held = vector("float", lanes)
        start = f.gep(f.pointer(0), at.v, "float")
        value = f.load(held, start, 4 * lanes)
        for s in range(1, p.segments):
            value = value + f.load(held, f.gep(start, s * p.elements, "float"), 4 * lanes)
        put(value, at if epilogue is None else X(f, f.cast("trunc", at.v, "i32")))

    f.when(f.cmp("ult", number, total), add)
    code = f.finished_for(total)
    if lanes == 1:
        return code
    return replace(code, align=VECTOR_BYTES, otherwise=added_segments(p, target, epilogue, 1))
