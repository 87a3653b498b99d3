"""Products by `mma.sync` (sm_80 and later): every warp a part of the block's tile, operands through
shared memory.

Tiles of k lie in a ring of stages that `cp.async` fills while those before are multiplied. Rows are
swizzled, so that neither the copies nor `ldmatrix` meet at a bank: bytes 16 c of row r lie at place
c ^ r % 8, or c ^ r / 2 % 4 where a row has 64 bytes. Which way an operand lies in memory is the way
it lies in shared memory; `ldmatrix.trans` turns it. Elements of 4 bytes it cannot turn: they are
loaded one by one, with bytes 16 c of row r at c ^ 2 (r % 4). What is outside of a matrix is filled
with zeros.
"""

from __future__ import annotations

import math

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...llvm.convert import memory_type, to_memory
from ...llvm.text import V
from ..code import WARP, KernelCode
from ..tensor_cores import I32, TensorCoreFunction, kind_of
from .tensor_core_tiles import UNITS, TensorCoreProduct, steps_of, tile_at, tiles_of

STEP_BYTES = 64
"""Of k in a stage; one instruction takes half of it."""
STAGES = 4


@dataclass(frozen=True, slots=True)
class MmaTile:
    """The tile of a block: rows and columns, and how many warps share them."""

    rows: int
    columns: int
    down: int
    across: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.down * self.across * WARP


LARGE = MmaTile(128, 128, 2, 4)
SMALL = MmaTile(64, 64, 2, 2)
FLAT = MmaTile(32, 128, 1, 4)
TALL = MmaTile(128, 32, 4, 1)


def tile_of(p: TensorCoreProduct) -> MmaTile:
    """The tile for a shape: the largest that leaves no unit of the device without one."""
    if p.m <= 32:
        return FLAT
    if p.n <= 32:
        return TALL
    return LARGE if tiles_of(p, LARGE.rows, LARGE.columns) >= UNITS else SMALL


@dataclass(frozen=True, slots=True)
class _Operand:
    """How an operand's tile lies: `lines` of `length` elements, memory running along a line.

    Attributes:
        number: of its buffer.
        along_k: whether lines run along k.
        lines, length: of a tile.
        outer, inner: of a matrix.
        base: where its tile of a stage begins, in bytes.
        size: bytes of an element.
    """

    number: int
    along_k: bool
    lines: int
    length: int
    outer: int
    inner: int
    base: int
    size: int

    @property
    def line_bytes(self) -> int:
        """Of a line of the tile."""
        return self.length * self.size

    @property
    def nbytes(self) -> int:
        """Of the tile."""
        return self.lines * self.line_bytes

    @property
    def chunk(self) -> int:
        """Elements that have a place in the swizzle: 16 bytes of them."""
        return 16 // self.size

    @property
    def width(self) -> int:
        """Elements that are copied at once: as many as rows are multiples of."""
        return math.gcd(self.inner, self.chunk)


def _operands(p: TensorCoreProduct, tile: MmaTile) -> tuple[_Operand, _Operand]:
    size = p.dtype.itemsize
    step = STEP_BYTES // size

    def operand(number: int, along_k: bool, extent: int, whole: int, base: int) -> _Operand:
        if along_k:
            return _Operand(number, True, extent, step, whole, p.k, base, size)
        return _Operand(number, False, step, extent, p.k, whole, base, size)

    a = operand(0, not p.trans_a, tile.rows, p.m, 0)
    return a, operand(1, p.trans_b, tile.columns, p.n, a.nbytes)


def mma_kernel(p: TensorCoreProduct, target: Target, whole: bool = True,
               tile: MmaTile | None = None) -> KernelCode:
    """The kernel of a product; with the sums of segments, if there are several.

    Args:
        p: what is computed.
        target: an architecture from sm_80 on, or its emulation.
        whole: whether pointers are multiples of 16, so that many elements are copied at once; the
            kernel for others stands behind it.
        tile: of a block, if not the table's.
    """
    return _MmaKernel(p, target, tile or tile_of(p), whole).kernel()


class _MmaKernel:
    """Writes it."""

    def __init__(self, p: TensorCoreProduct, target: Target, tile: MmaTile, whole: bool) -> None:
        self.p, self.target, self.tile, self.whole = p, target, tile, whole
        self.k_step = STEP_BYTES // p.dtype.itemsize
        self.f = f = TensorCoreFunction(target, 3, tile.threads)
        self.operands = _operands(p, tile)
        self.stage_bytes = sum(o.nbytes for o in self.operands)
        self.shared = f.shared_place(STAGES * self.stage_bytes)
        self.number = f.thread()
        self.lane = f.binary("and", self.number, f.i32(WARP - 1))
        warp = f.binary("lshr", self.number, f.i32(5))
        self.height, self.width = tile.rows // tile.down, tile.columns // tile.across
        down, across = f.split(warp, [tile.down, tile.across])
        self.top, self.left = f.mul(down, f.i32(self.height)), f.mul(across, f.i32(self.width))
        self.at = tile_at(f, p, f.block(), tile.rows, tile.columns)
        self.steps = steps_of(f, p, self.at.first, self.k_step)
        last = f.mul(f.cast("trunc", self.steps, I32), f.i32(self.k_step))
        self.end = f.add(self.at.first, last)

    def kernel(self) -> KernelCode:
        f, p, tile = self.f, self.p, self.tile
        self.store(self.products())
        plain = mma_kernel(p, self.target, False, tile) if self.whole else None
        return f.finished(tiles_of(p, tile.rows, tile.columns), 16 if self.whole else 1, plain)

    # --- the ring of stages ---------------------------------------------------------------------

    def products(self) -> list[V]:
        """Accumulators of the warp: of each 16 x 8 elements four, row by row."""
        f = self.f
        for s in range(STAGES - 1):
            self.fetch(f.add(self.at.first, f.i32(s * self.k_step)), f.i32(s * self.stage_bytes))
        count = self.height // 16 * (self.width // 8) * 4
        zeros = [f.const("float", 0.0)] * count
        ahead = f.i32((STAGES - 1) * self.stage_bytes)

        def body(i: V, carried: list[V]) -> list[V]:
            now, free, total = carried[0], carried[1], carried[2:]
            f.wait_copies(STAGES - 2)
            f.barrier()
            k = f.add(f.cast("trunc", i, I32), f.i32(STAGES - 1))
            self.fetch(f.add(self.at.first, f.mul(k, f.i32(self.k_step))), free)
            total = self.multiplied(now, total)
            return [self.next(now), self.next(free), *total]

        out = f.loop(0, self.steps, 1, [f.i32(0), ahead, *zeros], body, runs=True)[2:]
        f.wait_copies(0)
        return out

    def next(self, stage: V) -> V:
        """The stage behind, in bytes."""
        f = self.f
        after = f.add(stage, f.i32(self.stage_bytes))
        wraps = f.cmp("eq", after, f.i32(STAGES * self.stage_bytes))
        return f.select(wraps, f.i32(0), after)

    def fetch(self, k: V, stage: V) -> None:
        """Begin to copy both tiles from a step of k on to a stage: one group."""
        for o in self.operands:
            self._fetch(o, k, stage)
        self.f.commit_copies()

    def _fetch(self, o: _Operand, k: V, stage: V) -> None:
        f, tile = self.f, self.at
        edge = tile.row if o.number == 0 else tile.column
        line, start = (edge, k) if o.along_k else (k, edge)
        matrix = f.cast("zext", tile.a if o.number == 0 else tile.b, "i64")
        origin = f.mul(matrix, f.i64(o.outer * o.inner))
        width = o.width if self.whole else 1
        per_line, threads = o.length // width, self.tile.threads
        for i in range(-(-o.lines * per_line // threads)):
            number = f.add(self.number, f.i32(i * threads))
            r, c = f.split(number, [o.lines, per_line])
            self._copy(o, origin, (f.add(line, r), f.add(start, f.mul(c, f.i32(width)))),
                       self._place(o, stage, r, f.mul(c, f.i32(width))), width)

    def _copy(self, o: _Operand, origin: V, at: tuple[V, V], place: V, width: int) -> None:
        """Elements of a line; zeros outside of the matrix, whose first element stands for them."""
        f, (line, start) = self.f, at
        inside = f.binary("and", f.cmp("ult", line, f.i32(o.outer)),
                          f.cmp("ult", start, f.i32(o.inner)))
        inside = f.binary("and", inside, f.cmp("ult", start if o.along_k else line, self.end))
        flat = f.add(f.mul(f.cast("zext", line, "i64"), f.i64(o.inner)),
                     f.cast("zext", start, "i64"))
        offset = f.select(inside, f.add(origin, flat), f.i64(0))
        source = f.gep(f.pointer(o.number), offset, f"i{8 * o.size}")
        nbytes = o.size * width
        if nbytes > 2:
            f.copy_async(place, source, nbytes, f.select(inside, f.i32(nbytes), f.i32(0)))
            return
        value = f.load("i16", source)
        f.store(f.select(inside, value, V("i16", "0")), f.pointer_at(place))

    def _place(self, o: _Operand, stage: V, line: V, element: V) -> V:
        """Where an element of a tile lies."""
        f = self.f
        chunk = f.binary("udiv", element, f.i32(o.chunk))
        within = f.mul(f.binary("urem", element, f.i32(o.chunk)), f.i32(o.size))
        chunk = f.binary("xor", chunk, self._swizzle(o, line))
        far = f.add(f.add(f.mul(line, f.i32(o.line_bytes)), f.mul(chunk, f.i32(16))), within)
        return f.at(self.shared, f.add(f.add(stage, f.i32(o.base)), far))

    def _swizzle(self, o: _Operand, line: V) -> V:
        f = self.f
        if o.line_bytes == 64:
            return f.binary("and", f.binary("lshr", line, f.i32(1)), f.i32(3))
        if o.size == 4:
            return f.mul(f.binary("and", line, f.i32(3)), f.i32(2))
        return f.binary("and", line, f.i32(7))

    # --- products -------------------------------------------------------------------------------

    def multiplied(self, stage: V, total: list[V]) -> list[V]:
        """The products of a stage, added."""
        f, kind = self.f, kind_of(self.p.dtype)
        total = list(total)
        for step in (0, 1):
            a = self._registers(self.operands[0], self.top, self.height, step, stage)
            b: list[list[V]] = []
            for four in self._registers(self.operands[1], self.left, self.width, step, stage):
                b += [four[:2], four[2:]]
            for i, rows in enumerate(a):
                for j, columns in enumerate(b):
                    at = 4 * (i * len(b) + j)
                    total[at:at + 4] = f.mma(kind, rows, columns, total[at:at + 4])
        return total

    def _registers(self, o: _Operand, edge: V, extent: int, step: int, stage: V) -> list[list[V]]:
        """The four registers of each 16 rows of A, or columns of B, for one instruction's k."""
        f = self.f
        if o.size == 2 or o.along_k:
            places = self._fragments(o, edge, extent, step, stage)
            out = [f.ldmatrix(place, not o.along_k) for place in places]
        else:
            out = self._words(o, edge, extent, step, stage)
        return [[f.tf32(v) for v in four] for four in out] if o.size == 4 else out

    def _words(self, o: _Operand, edge: V, extent: int, step: int, stage: V) -> list[list[V]]:
        """The same of elements of 4 bytes in lines across k, one load each."""
        f, lane = self.f, self.lane
        g, t = f.binary("lshr", lane, f.i32(2)), f.binary("and", lane, f.i32(3))
        chunk = f.binary("lshr", f.add(edge, g), f.i32(2))
        chunk = f.binary("xor", chunk, self._swizzle(o, t))
        within = f.mul(f.binary("and", g, f.i32(3)), f.i32(4))
        here = f.at(self.shared, f.add(f.add(stage, f.i32(o.base)), f.add(
            f.mul(t, f.i32(o.line_bytes)), within)))

        def word(number: int, half: int) -> V:
            far = f.mul(f.binary("xor", chunk, f.i32(2 * number)), f.i32(16))
            place = f.at(f.at(here, far), (8 * step + 4 * half) * o.line_bytes)
            return f.load(I32, f.pointer_at(place))

        halves = [(r, k) for k in (0, 1) for r in (0, 1)] if o.number == 0 else [
            (r, k) for r in (0, 1) for k in (0, 1)]
        return [[word(2 * i + r, k) for r, k in halves] for i in range(extent // 16)]

    def _fragments(self, o: _Operand, edge: V, extent: int, step: int, stage: V) -> list[V]:
        """The address that each lane gives `ldmatrix`, for each 16 rows of A or columns of B.

        The four matrices are, in the order of a fragment's registers: of A the halves of the rows,
        then those of k; of B the halves of k, then those of the columns.
        """
        f, lane = self.f, self.lane
        low = f.binary("and", lane, f.i32(7))
        second = f.binary("and", f.binary("lshr", lane, f.i32(3)), f.i32(1))
        third = f.binary("lshr", lane, f.i32(4))
        inner, k = (second, third) if o.number == 0 else (third, second)
        line_half, chunk_half = (inner, k) if o.along_k else (k, inner)
        line = f.add(low, f.mul(line_half, f.i32(8)))
        start = f.i32(0) if o.along_k else f.binary("udiv", edge, f.i32(o.chunk))
        chunk = f.binary("xor", f.add(start, chunk_half), self._swizzle(o, line))
        if o.along_k:
            line = f.add(line, edge)
        row_bytes = o.line_bytes
        here = f.at(self.shared, f.add(f.add(stage, f.i32(o.base)), f.mul(line, f.i32(row_bytes))))
        out = []
        for i in range(extent // 16):
            lines, chunks = (16 * i, 2 * step) if o.along_k else (16 * step, 2 * i)
            far = f.mul(f.binary("xor", chunk, f.i32(chunks)), f.i32(16))
            out.append(f.at(f.at(here, far), lines * row_bytes))
        return out

    # --- the result -----------------------------------------------------------------------------

    def store(self, total: list[V]) -> None:
        """What is inside of the matrix, rounded: two columns at once where rows allow it."""
        f, p, lane = self.f, self.p, self.lane
        row = f.add(f.add(self.at.row, self.top), f.binary("lshr", lane, f.i32(2)))
        two = f.mul(f.binary("and", lane, f.i32(3)), f.i32(2))
        column = f.add(f.add(self.at.column, self.left), two)
        matrix = f.mul(f.cast("zext", self.at.out, "i64"), f.i64(p.m * p.n))
        across = self.width // 8
        for i in range(self.height // 16):
            for half in (0, 1):
                r = f.add(row, f.i32(16 * i + 8 * half))
                line = f.add(matrix, f.mul(f.cast("zext", r, "i64"), f.i64(p.n)))

                def store_line(i: int = i, half: int = half, line: V = line) -> None:
                    for j in range(across):
                        at = 4 * (i * across + j) + 2 * half
                        self._pair(total[at:at + 2], line, f.add(column, f.i32(8 * j)))

                f.when(f.cmp("ult", r, f.i32(p.m)), store_line)

    def _pair(self, values: list[V], line: V, column: V) -> None:
        f, p = self.f, self.p
        narrow = [to_memory(f, v, p.stored) for v in values]
        ty = memory_type(p.stored)
        place = f.gep(f.pointer(2), f.add(line, f.cast("zext", column, "i64")), ty)
        size = p.stored.itemsize
        if p.n % 2 == 0 and self.whole:
            f.when(f.cmp("ult", column, f.i32(p.n)),
                   lambda: f.store(f.pair(*narrow), place, 2 * size))
            return
        for e in (0, 1):
            def store_one(e: int = e) -> None:
                f.store(narrow[e], f.gep(place, e, ty))

            f.when(f.cmp("ult", f.add(column, f.i32(e)), f.i32(p.n)), store_one)
