"""Products by tiles: `out[b][i][j] = sum over k of a[b][i][k] * b[b][k][j]`, in the order that
`loops/order.py` says.

A block computes a tile. It takes k in steps of eight: two tiles of each operand lie in shared
memory, of which one is multiplied while the other is filled, so that there is one barrier for each.
A sum is one chain of fused multiply-adds in a register. Where the order cuts k into segments, a
thread puts by what a segment gave in memory of its own (whole vectors, which no other thread looks
at; shared memory, where that leaves room for two blocks) and adds the next; or segments are blocks
of their own, and `parts.py` adds what they gave.

In float32 with the largest tile a step of k is 64 multiply-adds for 4 reads of 16 bytes; the loop
over eight steps is 512 multiply-adds of about 570 instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...llvm.convert import memory_type, to_memory
from ...llvm.math.lanes import X
from ...llvm.text import V, sizeof, vector
from ..architecture import has_room_for_two
from ..code import VECTOR_BYTES, WARP, KernelCode
from ..writer import THREADS, GpuFunction
from .loaders import Loader, mapping
from .operands import Digit, Operand, Output, low_bits, number, spot
from .tiles import DEPTH, LANE_COLUMNS, LANE_ROWS, Tile, pitch

Finish = Callable[[V, X], None]
"""Stores what follows from sums (one or a vector), the first of which is the element of the product
at an offset."""


class Epilogue(Protocol):
    """The operation on a product's sums instead of storing them.

    Attributes:
        buffers: pointers that it needs.
    """

    @property
    def buffers(self) -> int: ...

    def begin(self, f: GpuFunction, first: int) -> Finish:
        """In a kernel, on its pointers from `first` on."""

_ROWS_TOGETHER = 8
"""Rows of tiles that adjacent blocks go down together, so that both operands stay in the
second-level cache."""


@dataclass(frozen=True, slots=True)
class Product:
    """The parameters of a product."""

    # m, n, k, batch: sizes
    m: int
    n: int
    k: int
    batch: int
    # a, b: operands; the free index of `b` is the column
    a: Operand
    b: Operand
    out: Output  # where it is stored
    sums: DType  # what sums are computed in, float32 or float64; of integers int32 or int64
    segment: int = 0  # steps of k of a chain; 0 for all
    zero: bool = True  # whether segments are added to 0 at first, or to the first of them

    @property
    def segments(self) -> int:
        """Chains of an element."""
        return -(-self.k // self.segment) if self.segment else 1

    @property
    def lanes(self) -> int:
        """Sums of 16 bytes."""
        return VECTOR_BYTES // self.sums.itemsize

    def partial(self, parts: int) -> Output:
        """Where sums of parts lie: by part, batch, row and column."""
        return _dense(self.sums, parts * self.batch, self.m, self.n)


def _dense(dtype: DType, batch: int, m: int, n: int) -> Output:
    return Output(dtype, (Digit(batch, m * n),), (Digit(m, n),), (Digit(n, 1),))


class StoresSums:
    """Stores sums of a product.

    Args:
        out: where.
        put: stores one or a vector, or does what an epilogue does.
        vectors: whether vectors may be stored.
    """

    def __init__(
        self, f: GpuFunction, product: Product, out: Output, put: Finish, vectors: bool
    ) -> None:
        self.f, self.product, self.out, self._put = f, product, out, put
        self.whole = vectors and out.vectors(product.lanes)

    def row(self, batch: X, i: X) -> X:
        """Where a row begins."""
        f, out = self.f, self.out
        return spot(f, batch, out.batch).offset + spot(f, i, out.rows).offset + out.start

    def column(self, j: X) -> list[X]:
        """Where the columns of a vector from `j` on lie in a row: one number if adjacent."""
        lanes = 1 if self.whole else self.product.lanes
        return [spot(self.f, j + lane, self.out.columns).offset for lane in range(lanes)]

    def put(self, value: V, row: X, columns: Sequence[X], j: X) -> None:
        """A vector of sums; those past the last column are left out."""
        f, n = self.f, self.product.n
        for lane, column in enumerate(columns):
            one = value if self.whole else f.extract(value, lane)
            with f.given((j + lane).cmp("slt", n)):
                self._put(low_bits(f, one, self.out.dtype), row + column)


def stored(f: GpuFunction, dtype: DType, pointer: V) -> Finish:
    """Sums are rounded and stored."""
    def put(value: V, at: X) -> None:
        raw = to_memory(f, value, dtype)
        f.store(raw, f.gep(pointer, at.v, memory_type(dtype)), sizeof(raw.ty))

    return put


class Loads(Protocol):
    """Reads tiles of an operand; see `Loader`."""

    def begin(self, thread: X, batch: X, first: X) -> None:
        """Find the rows."""

    def load(self, step: X, end: X) -> list[V]:
        """A thread's elements of a tile."""

    def store(self, values: Sequence[V], shared: V) -> None:
        """Elements in a tile of shared memory."""


class ProductKernel:
    """The kernel of a product.

    Its buffers are `a` and `b`; the output, or the partial sums; `sums` of threads, where one block
    does several segments. Those of an epilogue come in the output's place, last.

    Args:
        product: what is computed.
        tile: of a block.
        parts: of k that are blocks of their own; then the output is partial sums.
        vectors: whether pointers are multiples of 16.
        epilogue: what is done with the sums.
    """

    planes = 1  # Numbers that an element is: two, if it is complex

    def __init__(
        self, product: Product, tile: Tile, parts: int, target: Target, vectors: bool,
        epilogue: Epilogue | None = None,
    ) -> None:
        self.p, self.tile, self.parts = product, tile, parts
        self.kept = parts == 1 and product.segments > 1
        self.in_memory = self.kept and keeps_in_memory(product, tile, target, self.planes)
        behind = 2 + self.in_memory
        count = behind + (1 if epilogue is None else epilogue.buffers)
        f = self.f = GpuFunction(target, count, tile.threads)
        if tile.threads == THREADS:
            f.attributes += ' "nvvm.minctasm"="2"'
        elif tile.threads == THREADS // 2 and product.sums.itemsize <= 4:
            # ptxas would aim at 64 registers, and spill.
            f.attributes += ' "nvvm.minctasm"="5"'
        self.lanes = product.lanes
        self.ty = memory_type(product.sums)
        self.vec = vector(self.ty, self.lanes)
        self.thread = X(f, f.thread())
        out = product.partial(parts) if parts > 1 else product.out
        put = stored(f, out.dtype, f.pointer(behind)) if epilogue is None \
            else epilogue.begin(f, behind)
        self.store = StoresSums(f, product, out, put, vectors)
        self.tail = product.k % DEPTH > 0 or product.segment % DEPTH > 0
        self.a_size = DEPTH * pitch(tile.rows, self.lanes)
        self.half = _tiles_bytes(tile, product) // (2 * product.sums.itemsize)
        lanes = self.lanes if vectors else 1
        self.a, self.b = self._loaders(lanes)
        self.shared = f.shared_memory(self.planes * _tiles_bytes(tile, product))
        own = self.kept and not self.in_memory
        self.slots = f.shared_memory(self.planes * _block_bytes(tile, product)) if own \
            else f.pointer(2)

    def _loaders(self, lanes: int) -> tuple[Loads, Loads]:
        """Return loaders of the operands, in vectors of `lanes` elements where contiguous."""
        p, tile = self.p, self.tile
        return (self._loader(p.a, 0, tile.rows, lanes, -0.0),
                self._loader(p.b, 1, tile.columns, lanes, 0.0))

    def _loader(
        self, operand: Operand, buffer: int, width: int, lanes: int, neutral: float
    ) -> Loader:
        how = mapping(operand, width, self.tile.threads, lanes)
        return Loader(self.f, operand, self.f.pointer(buffer), how, self.ty,
                      neutral if self.tail else None)

    @property
    def down(self) -> int:
        """Tiles of a column."""
        return -(-self.p.m // self.tile.rows)

    @property
    def across(self) -> int:
        """Tiles of a row."""
        return -(-self.p.n // self.tile.columns)

    @property
    def blocks(self) -> int:
        """Of the launch."""
        return self.down * self.across * self.p.batch * self.parts

    def code(self) -> KernelCode:
        """The kernel, written."""
        batch, i, j = self._coordinates()
        part, own = batch.op("udiv", self.p.batch), batch.op("urem", self.p.batch)
        first, end = self._range(part)
        self._begin(own, i, j)
        sums = self._sums(first, end)
        self._end(batch if self.parts > 1 else own, i, j, sums)
        return self.f.finished(self.blocks)

    # --- where ----------------------------------------------------------------------------------

    def _coordinates(self) -> tuple[X, X, X]:
        """The block's number of the batch (with parts), its first row and first column."""
        f, tiles = self.f, self.down * self.across
        block = X(f, f.block())
        batch, number_ = block.op("udiv", tiles), block.op("urem", tiles)
        together = min(_ROWS_TOGETHER, self.down)
        band = number_.op("udiv", together * self.across)
        rest = number_.op("urem", together * self.across)
        first = band * together
        if self.down % together:
            left = number(f, self.down) - first
            height = X(f, f.intrinsic("umin", "i32", left.v, number(f, together).v))
            down, across = rest.op("urem", height), rest.op("udiv", height)
        else:
            down, across = rest.op("urem", together), rest.op("udiv", together)
        return batch, (first + down) * self.tile.rows, across * self.tile.columns

    def _range(self, part: X) -> tuple[X, X]:
        """The steps of k of the block."""
        f, end = self.f, number(self.f, self.p.k)
        if self.parts == 1:
            return number(f, 0), end
        first = part * self.p.segment
        last = f.intrinsic("umin", "i32", (first + self.p.segment).v, end.v)
        return first, X(f, last)

    def _begin(self, batch: X, i: X, j: X) -> None:
        f, tile, lanes = self.f, self.tile, self.lanes
        self.a.begin(self.thread, batch, i)
        self.b.begin(self.thread, batch, j)
        lane, warp = self.thread & (WARP - 1), self.thread >> 5
        down, across = warp.op("urem", tile.wm), warp.op("udiv", tile.wm)
        self.row = down * (LANE_ROWS * tile.tm) + lane.op("udiv", LANE_COLUMNS) * lanes
        self.column = across * (LANE_COLUMNS * tile.tn) + lane.op("urem", LANE_COLUMNS) * lanes
        self.read_a = f.gep(self.shared, self.row.v, self.ty)
        self.read_b = f.gep(f.gep(self.shared, self.a_size, self.ty), self.column.v, self.ty)

    # --- sums -----------------------------------------------------------------------------------

    def _sums(self, first: X, end: X) -> list[V]:
        """The thread's sums: for each row its vectors of columns."""
        f, tile = self.f, self.tile
        zeros = [f.const(self.vec, 0.0)] * (self.planes * tile.tm * tile.tn // self.lanes)
        if not self.p.k:
            return zeros
        for at, zero in zip(self._slots() if self.kept else (), zeros, strict=False):
            f.store(zero, at, VECTOR_BYTES)
        self._fill(self.a.load(first, end), self.b.load(first, end), number(f, 0))
        f.barrier()

        def body(carried: list[V]) -> list[V]:
            step, stage, sums = X(f, carried[0]), X(f, carried[1]), list(carried[2:])
            following, other = step + DEPTH, number(f, self.half) - stage
            # Behind the last tile it is read again, for nothing.
            read = following if self.tail else following.cmp("slt", end).where(following, step)
            a, b = self.a.load(read, end), self.b.load(read, end)
            sums = self._multiply(sums, stage, step, end)
            self._fill(a, b, other)
            f.barrier()
            if self.kept:
                sums = self._keep(following, end, sums)
            return [following.v, other.v, *sums]

        start = [first.v, number(f, 0).v, *zeros]
        _, _, *sums = f.while_(start, lambda c: X(f, c[0]).cmp("slt", end).v, body)
        if not self.kept:
            return sums
        return [f.load(self.vec, at, VECTOR_BYTES) + v
                for at, v in zip(self._slots(), sums, strict=True)]

    def _fill(self, a: Sequence[V], b: Sequence[V], stage: X) -> None:
        at = self.f.gep(self.shared, stage.v, self.ty)
        self.a.store(a, at)
        self.b.store(b, self.f.gep(at, self.a_size, self.ty))

    def _multiply(self, sums: list[V], stage: X, step: X, end: X) -> list[V]:
        """Take in a tile, which begins with a step of k; elements after the last are neutral."""
        f, tile, lanes = self.f, self.tile, self.lanes
        a_at, b_at = (f.gep(p, stage.v, self.ty) for p in (self.read_a, self.read_b))
        across = tile.tn // lanes
        for k in range(DEPTH):
            a = self._vectors(a_at, k * pitch(tile.rows, lanes), tile.tm // lanes, LANE_ROWS)
            b = self._vectors(b_at, k * pitch(tile.columns, lanes), across, LANE_COLUMNS)
            for i in range(tile.tm):
                x = f.splat(f.extract(a[i // lanes], i % lanes), lanes)
                for j in range(across):
                    at = i * across + j
                    sums[at] = f.multiply_add(x, b[j], sums[at])
        return sums

    def _vectors(self, base: V, first: int, count: int, apart: int) -> list[V]:
        """A lane's vectors of a step of k."""
        f, lanes = self.f, self.lanes
        return [f.load(self.vec, f.gep(base, first + r * apart * lanes, self.ty), VECTOR_BYTES)
                for r in range(count)]

    # --- segments of one block ------------------------------------------------------------------

    def _slots(self) -> list[V]:
        """The thread's memory for sums, a vector for each."""
        f, tile = self.f, self.tile
        count = self.planes * tile.tm * tile.tn // self.lanes
        first = self.thread
        if self.in_memory:
            first = X(f, f.block()) * (count * tile.threads) + first
        base = f.gep(self.slots, first.v, self.vec)
        return [f.gep(base, s * tile.threads, self.vec) for s in range(count)]

    def _keep(self, following: X, end: X, sums: list[V]) -> list[V]:
        """At the end of a segment that is not the last: its sums are added to those before."""
        f, segment = self.f, self.p.segment
        done = following.op("urem", segment).cmp("eq", 0) & following.cmp("slt", end)
        zero = f.const(self.vec, 0.0)

        def put() -> list[V]:
            for at, v in zip(self._slots(), sums, strict=True):
                f.store(f.load(self.vec, at, VECTOR_BYTES) + v, at, VECTOR_BYTES)
            return [zero] * len(sums)

        return f.when(done.v, put, lambda: sums)

    # --- results --------------------------------------------------------------------------------

    def _end(self, batch: X, i: X, j: X, sums: list[V], first: int = 0) -> None:
        """Store the tile, `first` elements after the output's begin."""
        tile, lanes = self.tile, self.lanes
        across = tile.tn // lanes
        columns = [j + self.column + c * LANE_COLUMNS * lanes for c in range(across)]
        places = [self.store.column(c) for c in columns]
        for r in range(tile.tm):
            row = i + self.row + (r // lanes * LANE_ROWS * lanes + r % lanes)
            with self.f.given(row.cmp("slt", self.p.m)):
                start = self.store.row(batch, row)
                start = start + first if first else start
                for c in range(across):
                    self.store.put(sums[r * across + c], start, places[c], columns[c])


def _tiles_bytes(tile: Tile, product: Product) -> int:
    """Bytes of two tiles of each operand."""
    width = pitch(tile.rows, product.lanes) + pitch(tile.columns, product.lanes)
    return 2 * DEPTH * width * product.sums.itemsize


def _block_bytes(tile: Tile, product: Product) -> int:
    """Bytes of the sums of a block."""
    return tile.rows * tile.columns * product.sums.itemsize


def keeps_in_memory(product: Product, tile: Tile, target: Target, planes: int = 1) -> bool:
    """Whether what threads put by between segments is in the device's memory: shared memory has no
    room for it."""
    nbytes = _tiles_bytes(tile, product) + _block_bytes(tile, product)
    return not has_room_for_two(planes * nbytes, target)


def kept_bytes(product: Product, tile: Tile) -> int:
    """Bytes of the sums that threads put by between segments in the device's memory."""
    blocks = -(-product.m // tile.rows) * -(-product.n // tile.columns) * product.batch
    return blocks * _block_bytes(tile, product)
