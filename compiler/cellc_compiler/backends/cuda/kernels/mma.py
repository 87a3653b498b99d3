"""Products by `mma.sync` (sm_80 and later): every warp a part of the block's tile, operands through
shared memory.

Tiles of k lie in a ring of stages that `cp.async` fills while those before are multiplied. Rows are
swizzled, so that neither the copies nor `ldmatrix` meet at a bank: bytes 16 c of row r lie at place
c ^ r % 8, or c ^ r / 2 % 4 where a row has 64 bytes. Which way an operand lies in memory is the way
it lies in shared memory; `ldmatrix.trans` turns it. Elements of 4 bytes it cannot turn: they are
loaded one by one, with bytes 16 c of row r at c ^ 2 (r % 4). Elements outside of a matrix are
filled with zeros.

The tile of the result goes through the same memory: there it is rounded, and adjacent threads store
adjacent elements. The epilogue (`epilogues.py`) works there, on the rounded elements.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...llvm.convert import from_memory, memory_type, to_memory
from ...llvm.math.lanes import X
from ...llvm.text import V, vector
from ..architecture import UNITS
from ..code import VECTOR_BYTES, WARP, KernelCode
from ..tensor_cores import I32, TensorCoreFunction, kind_of
from .product import Epilogue, Finish
from .tensor_core_tiles import TensorCoreProduct, steps_of, tile_at, tiles_of

STEP_BYTES = 64  # Of k in a stage; one instruction takes half of it
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


def tile_of(m: int, n: int, matrices: int, target: Target) -> MmaTile:
    """The tile for a shape: the largest that leaves no unit of the device without one."""
    if m <= 32:
        return FLAT
    if n <= 32:
        return TALL
    tiles = matrices * -(-m // LARGE.rows) * -(-n // LARGE.columns)
    return LARGE if tiles >= UNITS[target.cpu] else SMALL


@dataclass(frozen=True, slots=True)
class TileOperand:
    """How an operand's tile lies in shared memory: `lines` of `length` elements."""

    number: int  # of its buffer
    along_k: bool  # whether lines run along k
    # lines, length: of a tile
    lines: int
    length: int
    width: int  # elements that are copied at once
    base: int  # where its tile of a stage begins, in bytes
    size: int  # bytes of an element

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


def tile_operands(
    tile: MmaTile, size: int, along_k: tuple[bool, bool], width: tuple[int, int],
    step_bytes: int = STEP_BYTES,
) -> tuple[TileOperand, TileOperand]:
    """Both operands of a tile.

    Args:
        size: bytes of an element.
        along_k, width: see `TileOperand`.
        step_bytes: of k in a stage.
    """
    step = step_bytes // size

    def operand(number: int, extent: int, base: int) -> TileOperand:
        lines, length = (extent, step) if along_k[number] else (step, extent)
        return TileOperand(number, along_k[number], lines, length, width[number], base, size)

    a = operand(0, tile.rows, 0)
    return a, operand(1, tile.columns, a.nbytes)


def mma_kernel(p: TensorCoreProduct, target: Target, whole: bool = True,
               tile: MmaTile | None = None, epilogue: Epilogue | None = None) -> KernelCode:
    """The kernel of a product; with the sums of segments, if there are several.

    Args:
        p: what is computed.
        target: an architecture from sm_80 on, or its emulation.
        whole: whether pointers are multiples of 16, so that several elements are copied at once;
            the kernel for others follows it.
        tile: of a block, if not the table's.
        epilogue: runs instead of storing the product; its buffers follow the operands.
    """
    own = tile or tile_of(p.m, p.n, p.segments * p.count, target)
    return _MmaKernel(p, target, own, whole, epilogue).kernel()


class MmaTiles(ABC):
    """Writes the tile of a block, whatever its operands and its result are.

    Args:
        f: the kernel.
        operands: tiles in shared memory.
        dtype: of the operands.
        stored: of the result; sums of segments are float32.
        epilogue: what is done instead of storing.
    """

    step_bytes, stages = STEP_BYTES, STAGES

    def __init__(
        self, f: TensorCoreFunction, tile: MmaTile, operands: tuple[TileOperand, TileOperand],
        dtype: DType, stored: DType, epilogue: Epilogue | None,
    ) -> None:
        self.f, self.tile, self.operands, self.dtype = f, tile, operands, dtype
        self.stored, self.epilogue = stored, epilogue
        self.k_step = self.step_bytes // dtype.itemsize
        self.stage_bytes = sum(o.nbytes for o in self.operands)
        result = tile.rows * tile.columns * stored.itemsize
        self.shared = f.shared_place(max(self.stages * self.stage_bytes, result))
        self.number = f.thread()
        self.lane = self.number & WARP - 1
        warp = self.number >> 5
        self.height, self.width = tile.rows // tile.down, tile.columns // tile.across
        across, down = f.split(warp, [tile.across, tile.down])
        self.top, self.left = down * self.height, across * self.width
        self.first, self.steps = f.i32(0), f.i64(0)

    def take(self, first: V, steps: V) -> None:
        """Assign the block a number of steps (an i64) from one of k (an i32) on."""
        f = self.f
        self.first, self.steps = first, steps
        self.end = first + f.cast("trunc", steps, I32) * self.k_step

    @abstractmethod
    def copy(self, o: TileOperand, k: V, stage: V) -> None:
        """Begin to copy an operand's tile from a step of k on to a stage."""

    @abstractmethod
    def out_lanes(self) -> int:
        """Elements of a row of the result that are stored at once."""

    @abstractmethod
    def out_place(self, row: V, column: V) -> tuple[V, V]:
        """Whether an element of the tile is one of the result, and where it lies."""

    # --- the ring of stages ---------------------------------------------------------------------

    def products(self) -> list[V]:
        """Accumulators of the warp: of each 16 x 8 elements four, row by row."""
        f = self.f
        for s in range(self.stages - 1):
            self.fetch(self.first + s * self.k_step, f.i32(s * self.stage_bytes))
        count = self.height // 16 * (self.width // 8) * 4
        zeros = [f.const("float", 0.0)] * count
        ahead = f.i32((self.stages - 1) * self.stage_bytes)

        def body(i: V, carried: list[V]) -> list[V]:
            now, free, total = carried[0], carried[1], carried[2:]
            f.wait_copies(self.stages - 2)
            self.meet()
            k = f.cast("trunc", i, I32) + (self.stages - 1)
            total = self.step(self.first + k * self.k_step, now, free, total)
            return [self.next(now), self.next(free), *total]

        out = f.loop(0, self.steps, 1, [f.i32(0), ahead, *zeros], body, runs=True)[2:]
        f.wait_copies(0)
        return out

    def meet(self) -> None:
        """All threads see what all have copied."""
        self.f.barrier()

    def step(self, k: V, now: V, free: V, total: list[V]) -> list[V]:
        """Fill the stage that is free from a step of k on, and multiply the present one."""
        self.fetch(k, free)
        return self.multiplied(now, total)

    def next(self, stage: V) -> V:
        """Return the next stage, in bytes."""
        f = self.f
        after = stage + self.stage_bytes
        wraps = f.cmp("eq", after, self.stages * self.stage_bytes)
        return f.select(wraps, f.i32(0), after)

    def fetch(self, k: V, stage: V) -> None:
        """Begin to copy both tiles from a step of k on to a stage: one group."""
        for o in self.operands:
            self.copy(o, k, stage)
        self.f.commit_copies()

    def _place(self, o: TileOperand, stage: V, line: V, element: V) -> V:
        """Where an element of a tile lies."""
        f = self.f
        chunk = element // o.chunk
        within = element % o.chunk * o.size
        chunk = chunk ^ self._swizzle(o, line)
        far = line * o.line_bytes + chunk * 16 + within
        return f.at(self.shared, stage + o.base + far)

    def _swizzle(self, o: TileOperand, line: V) -> V:
        if o.line_bytes == 64:
            return line >> 1 & 3
        if o.size == 4:
            return (line & 3) * 2
        return line & 7

    # --- products -------------------------------------------------------------------------------

    def multiplied(self, stage: V, total: list[V]) -> list[V]:
        """The products of a stage, added."""
        f, kind = self.f, kind_of(self.dtype)
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

    def _registers(
        self, o: TileOperand, edge: V, extent: int, step: int, stage: V
    ) -> list[list[V]]:
        """The four registers of each 16 rows of A, or columns of B, for one instruction's k."""
        f = self.f
        if o.size == 2 or o.along_k:
            places = self._fragments(o, edge, extent, step, stage)
            out = [f.ldmatrix(place, not o.along_k) for place in places]
        else:
            out = self._words(o, edge, extent, step, stage)
        return [[f.tf32(v) for v in four] for four in out] if o.size == 4 else out

    def _words(self, o: TileOperand, edge: V, extent: int, step: int, stage: V) -> list[list[V]]:
        """The same of elements of 4 bytes in lines across k, one load each."""
        f, lane = self.f, self.lane
        g, t = lane >> 2, lane & 3
        chunk = edge + g >> 2 ^ self._swizzle(o, t)
        within = (g & 3) * 4
        here = f.at(self.shared, stage + o.base + (t * o.line_bytes + within))

        def word(number: int, half: int) -> V:
            far = (chunk ^ 2 * number) * 16
            place = f.at(f.at(here, far), (8 * step + 4 * half) * o.line_bytes)
            return f.load(I32, f.pointer_at(place))

        halves = [(r, k) for k in (0, 1) for r in (0, 1)] if o.number == 0 else [
            (r, k) for r in (0, 1) for k in (0, 1)]
        return [[word(2 * i + r, k) for r, k in halves] for i in range(extent // 16)]

    def _fragments(self, o: TileOperand, edge: V, extent: int, step: int, stage: V) -> list[V]:
        """The address that each lane gives `ldmatrix`, for each 16 rows of A or columns of B.

        The four matrices are, in the order of a fragment's registers: of A the halves of the rows,
        then those of k; of B the halves of k, then those of the columns.
        """
        f, lane = self.f, self.lane
        low = lane & 7
        second = lane >> 3 & 1
        third = lane >> 4
        inner, k = (second, third) if o.number == 0 else (third, second)
        line_half, chunk_half = (inner, k) if o.along_k else (k, inner)
        line = low + line_half * 8
        start = f.i32(0) if o.along_k else edge // o.chunk
        chunk = start + chunk_half ^ self._swizzle(o, line)
        if o.along_k:
            line = line + edge
        row_bytes = o.line_bytes
        here = f.at(self.shared, stage + o.base + line * row_bytes)
        out = []
        for i in range(extent // 16):
            lines, chunks = (16 * i, 2 * step) if o.along_k else (16 * step, 2 * i)
            out.append(f.at(f.at(here, (chunk ^ chunks) * 16), lines * row_bytes))
        return out

    # --- the result -----------------------------------------------------------------------------

    def store(self, total: list[V]) -> None:
        """The tile, rounded, by way of shared memory."""
        f, size = self.f, self.stored.itemsize
        out = TileOperand(2, True, self.tile.rows, self.tile.columns, self.out_lanes(), 0, size)
        f.barrier()
        self._stage(out, total)
        f.barrier()
        put = self._finish()
        per_line = out.length // out.width
        wide = vector(memory_type(self.stored), out.width)

        def step(i: V, _: list[V]) -> None:
            number = self.number + f.cast("trunc", i, I32) * self.tile.threads
            row, c = f.split(number, [out.lines, per_line])
            column = c * out.width
            inside, at = self.out_place(row, column)

            def put_one() -> None:
                place = self._place(out, f.i32(0), row, column)
                raw = f.load(wide, f.pointer_at(place), out.width * size)
                put(raw, X(f, at))

            f.when(inside, put_one)

        f.loop(0, out.lines * per_line // self.tile.threads, 1, [], step)

    def _finish(self) -> Finish:
        """Return the function that takes elements, as they are in memory, of an offset."""
        f, stored = self.f, self.stored
        if self.epilogue is None:
            return lambda raw, at: f.store(
                raw, f.gep(f.pointer(2), at.v, memory_type(stored)), self.out_lanes()
                * stored.itemsize)
        put = self.epilogue.begin(f, 2)
        return lambda raw, at: put(from_memory(f, raw, stored), at)

    def _stage(self, out: TileOperand, total: list[V]) -> None:
        """Accumulators to rows of the tile, two columns at once."""
        f, lane, across = self.f, self.lane, self.width // 8
        line = self.top + (lane >> 2)
        column = self.left + (lane & 3) * 2
        # Rows 8 apart have one swizzle, and columns 8 apart are chunks of other bits.
        chunk = column // out.chunk ^ self._swizzle(out, line)
        within = column % out.chunk * out.size
        here = f.at(self.shared, line * out.line_bytes + within)
        for j in range(across):
            place = f.at(here, (chunk ^ 8 * j // out.chunk) * 16)
            for i in range(self.height // 16):
                for half in (0, 1):
                    two = total[4 * (i * across + j) + 2 * half:][:2]
                    pair = f.pair(*(to_memory(f, v, self.stored) for v in two))
                    to = f.at(place, (16 * i + 8 * half) * out.line_bytes)
                    f.store(pair, f.pointer_at(to), 2 * out.size)


class _MmaKernel(MmaTiles):
    """Writes the kernel of a product of matrices."""

    def __init__(self, p: TensorCoreProduct, target: Target, tile: MmaTile, whole: bool,
                 epilogue: Epilogue | None) -> None:
        self.p, self.target, self.whole = p, target, whole
        along_k = not p.trans_a, p.trans_b
        self.shapes = tuple((rows, p.k) if along else (p.k, rows)
                            for along, rows in zip(along_k, (p.m, p.n), strict=True))
        chunk = VECTOR_BYTES // p.dtype.itemsize
        widths = [math.gcd(inner, chunk) if whole else 1 for _, inner in self.shapes]
        buffers = 2 + (1 if epilogue is None else epilogue.buffers)
        f = TensorCoreFunction(target, buffers, tile.threads)
        operands = tile_operands(tile, p.dtype.itemsize, along_k, (widths[0], widths[1]))
        super().__init__(f, tile, operands, p.dtype, p.stored, epilogue)
        self.at = tile_at(f, p, f.block(), tile.rows, tile.columns)
        self.take(self.at.first, steps_of(f, p, self.at.first, self.k_step))

    def kernel(self) -> KernelCode:
        """The code, with that for pointers that are no multiples of 16."""
        p, tile = self.p, self.tile
        self.store(self.products())
        plain = mma_kernel(p, self.target, False, tile, self.epilogue) if self.whole else None
        return self.f.finished(tiles_of(p, tile.rows, tile.columns), 16 if self.whole else 1, plain)

    def copy(self, o: TileOperand, k: V, stage: V) -> None:
        f, tile = self.f, self.at
        outer, inner = self.shapes[o.number]
        edge = tile.row if o.number == 0 else tile.column
        line, start = (edge, k) if o.along_k else (k, edge)
        matrix = f.cast("zext", tile.a if o.number == 0 else tile.b, "i64")
        origin = matrix * (outer * inner)
        per_line, threads = o.length // o.width, self.tile.threads
        for i in range(-(-o.lines * per_line // threads)):
            r, c = f.split(self.number + i * threads, [o.lines, per_line])
            self._copy(o, origin, (line + r, start + c * o.width),
                       self._place(o, stage, r, c * o.width))

    def _copy(self, o: TileOperand, origin: V, at: tuple[V, V], place: V) -> None:
        """Elements of a line; zeros outside of the matrix, whose first element stands for them."""
        f, (line, start), (outer, inner) = self.f, at, self.shapes[o.number]
        inside = f.cmp("ult", line, outer) & f.cmp("ult", start, inner)
        inside = inside & f.cmp("ult", start if o.along_k else line, self.end)
        flat = f.cast("zext", line, "i64") * inner + f.cast("zext", start, "i64")
        offset = f.select(inside, origin + flat, f.i64(0))
        source = f.gep(f.pointer(o.number), offset, f"i{8 * o.size}")
        self.f.copy_inside(inside, source, place, o.size * o.width)

    def out_lanes(self) -> int:
        return math.gcd(self.p.n, VECTOR_BYTES // self.stored.itemsize) if self.whole else 1

    def out_place(self, row: V, column: V) -> tuple[V, V]:
        f, p = self.f, self.p
        r, c = self.at.row + row, self.at.column + column
        inside = f.cmp("ult", r, p.m) & f.cmp("ult", c, p.n)
        line = f.cast("zext", self.at.out, "i64") * p.m + f.cast("zext", r, "i64")
        at = line * p.n + f.cast("zext", c, "i64")
        return inside, at if self.epilogue is None else f.cast("trunc", at, I32)
