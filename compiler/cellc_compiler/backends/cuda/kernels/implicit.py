"""Convolutions and their gradients by tensor cores: operands are copied from where they lie.

The tiles are those of `mma.py`; an element's place follows from the digits of its row and its step
of k (`operands.py`), so nothing is unfolded. Copies are whole vectors: the innermost digit of an
operand must lie densely, and an image's border is never inside of a vector. Operands without this
layout are repacked before (`repack.py`). Copies from outside of an image are zeros.
"""

from __future__ import annotations

from cellc_runtime.records import dataclass, replace
from cellc_runtime.target import Target

from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import VECTOR_BYTES, KernelCode
from ..tensor_cores import TensorCoreFunction
from .mma import MmaTile, MmaTiles, TileOperand, tile_operands
from .operands import Digits, Operand, Spot, extent, number, spot
from .product import Epilogue, Product
from .tensor_core_tiles import in_groups, steps_of

ALIGN = VECTOR_BYTES


@dataclass(frozen=True, slots=True)
class Copies:
    """The copy of an operand: along k or along its rows, `lanes` elements at once."""

    along_k: bool
    lanes: int


def copies(operand: Operand) -> Copies:
    """The way that copies most elements at once."""
    best = Copies(True, 1)
    for along_k in (True, False):
        along, other = (operand.steps, operand.free) if along_k else (operand.free, operand.steps)
        most = VECTOR_BYTES // operand.dtype.itemsize
        lanes = next(n for n in (most, most // 2, most // 4 or 1, 1)
                     if n == 1 or _whole(operand, along, other, n))
        if lanes > best.lanes:
            best = Copies(along_k, lanes)
    return best


def _whole(operand: Operand, along: Digits, other: Digits, lanes: int) -> bool:
    """Whether elements are contiguous in runs of `lanes`, from each multiple of it on."""
    if not along or along[-1].stride != 1 or along[-1].y or along[-1].x:
        return False
    rest = [d.stride for d in (*along[:-1], *other, *operand.batch)]
    return not any(n % lanes for n in (*rest, along[-1].extent, operand.start))


class ImplicitKernel(MmaTiles):
    """Writes the kernel of a product; with the sums of segments, if there are several.

    Its buffers are the operands, and the result, or the sums (by segment, batch, row and column),
    or those of the epilogue.

    Args:
        p: what is computed; a segment is a multiple of 64.
        target: an architecture, or its emulation.
        tile: of a block.
        whole: whether pointers are multiples of 16.
        epilogue: what is done instead of storing the product.
    """

    def __init__(self, p: Product, target: Target, tile: MmaTile, whole: bool,
                 epilogue: Epilogue | None) -> None:
        self.p, self.target, self.whole = p, target, whole
        how = [copies(o) if whole else replace(copies(o), lanes=1) for o in (p.a, p.b)]
        buffers = 2 + (1 if epilogue is None else epilogue.buffers)
        f = TensorCoreFunction(target, buffers, tile.threads)
        operands = tile_operands(tile, p.a.dtype.itemsize, (how[0].along_k, how[1].along_k),
                                 (how[0].lanes, how[1].lanes), self.step_bytes)
        self.out = p.partial(p.segments) if p.segments > 1 else p.out
        super().__init__(f, tile, operands, p.a.dtype, self.out.dtype, epilogue)
        self.down, self.across = -(-p.m // tile.rows), -(-p.n // tile.columns)
        matrix, row, column = in_groups(f, f.block(), p.segments * p.batch, self.down, self.across)
        self.matrix = X(f, matrix)
        self.row, self.column = X(f, row) * tile.rows, X(f, column) * tile.columns
        segment, batch = (X(f, v) for v in f.split(matrix, [p.segments, p.batch]))
        first = (segment * (p.segment or p.k)).v
        self.take(first, steps_of(f, p, first, self.k_step))
        self.bound = X(f, f.intrinsic("umin", "i32", self.end, number(f, p.k).v))
        self.rows = [self._rows(o, batch) for o in operands]

    def kernel(self, otherwise: KernelCode | None = None) -> KernelCode:
        """The code, with that for pointers that are no multiples of 16."""
        self.store(self.products())
        blocks = self.down * self.across * self.p.segments * self.p.batch
        return self.f.finished(blocks, ALIGN if self.whole else 1, otherwise)

    # --- copies ---------------------------------------------------------------------------------

    def _each(self, o: TileOperand) -> list[tuple[V, V]]:
        """Line and element of each of a thread's copies of a tile."""
        f, per_line, out = self.f, o.length // o.width, []
        for i in range(-(-o.lines * per_line // self.tile.threads)):
            line, c = f.split(self.number + i * self.tile.threads, [o.lines, per_line])
            out.append((line, c * o.width))
        return out

    def _rows(self, o: TileOperand, batch: X) -> list[tuple[Spot, X, V, V]]:
        """Of each copy: where its row begins, its own step of k, and its place in the tile. A row
        past the last is the last again."""
        f, of = self.f, (self.p.a, self.p.b)[o.number]
        edge, out = (self.row, self.column)[o.number], []
        last = extent(of.free) - (1 if o.along_k else o.width)
        for line, element in self._each(o):
            row, step = (line, element) if o.along_k else (element, line)
            at = f.intrinsic("umin", "i32", (edge + X(f, row)).v, number(f, last).v)
            out.append((of.begin(f, batch, X(f, at)), X(f, step), line, element))
        return out

    def copy(self, o: TileOperand, k: V, stage: V) -> None:
        f, of = self.f, (self.p.a, self.p.b)[o.number]
        for row, step, line, element in self.rows[o.number]:
            at = X(f, k) + step
            where = row + spot(f, at, of.steps)
            valid, inside = at.cmp("ult", self.bound), of.inside(where)
            valid = valid if inside is None else valid & inside
            offset = valid.where(where.offset, 0)
            source = f.gep(f.pointer(o.number), offset.v, f"i{8 * o.size}")
            f.copy_inside(valid.v, source, self._place(o, stage, line, element), o.size * o.width)

    # --- the result -----------------------------------------------------------------------------

    def out_lanes(self) -> int:
        most = VECTOR_BYTES // self.stored.itemsize
        return next(n for n in (most, most // 2, most // 4 or 1, 1)
                    if n == 1 or (self.whole and self.out.vectors(n)))

    def out_place(self, row: V, column: V) -> tuple[V, V]:
        f, p, out = self.f, self.p, self.out
        r, c = self.row + X(f, row), self.column + X(f, column)
        inside = r.cmp("ult", p.m) & c.cmp("ult", p.n)
        at = spot(f, self.matrix, out.batch) + spot(f, r, out.rows) + spot(f, c, out.columns)
        return inside.v, (at.offset + out.start).v
