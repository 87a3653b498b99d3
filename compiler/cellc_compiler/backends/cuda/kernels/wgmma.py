"""Products by TMA and `wgmma` (sm_90a): one warp copies, two warpgroups multiply.

A block does tile after tile. Its first warpgroup is the producer, of which one thread keeps a ring
of stages full: it waits until a stage is empty and asks for the boxes of both operands. Each of the
two consumers multiplies its 64 rows by all columns as stages become full, one group of products
ahead of the one it waits for, and gives a stage back when the products that read it are done. At
the end of a tile it rounds, and stores by way of shared memory, which the next tile's products do
not wait for.

A tile of an operand is rows of 128 bytes, swizzled: along k (64 of it a row), or, where memory runs
along the operand's rows, 64 of these for each step of k. Operands of TF32 lie along k (32 of it a
row); what lies otherwise is turned before (`rules/tensor_cores.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...llvm.convert import from_memory, memory_type, to_memory
from ...llvm.math.lanes import X
from ...llvm.text import V, vector
from ..architecture import UNITS
from ..code import WARP, KernelCode, TensorMap
from ..tensor_cores import ATOM, SWIZZLE, Pipeline, TensorCoreFunction, kind_of
from .mma import mma_kernel
from .product import Epilogue
from .tensor_core_tiles import TensorCoreProduct, Tile, steps_of, tile_at, tiles_of

ARCHITECTURE = "sm_90a"
K_STEP = 64
CONSUMERS = 2
GROUP_THREADS = 4 * WARP
THREADS = (1 + CONSUMERS) * GROUP_THREADS
ROWS = 64 * CONSUMERS
PRODUCER_REGISTERS, CONSUMER_REGISTERS = 40, 232
"""Together no more than a block of that number of threads begins with."""
SHARED_BYTES = 227 * 1024
STORE_BYTES = 64 * SWIZZLE  # Of what a consumer stores at once
MOST_STAGES = 6
_BARRIERS = 2 * MOST_STAGES * 8
ALIGN = 16


@dataclass(frozen=True, slots=True)
class WgmmaTile:
    """The columns of a block's tile, and the stages that shared memory has room for."""

    columns: int

    @property
    def stage_bytes(self) -> int:
        """Of both operands."""
        return (ROWS + self.columns) * SWIZZLE

    @property
    def stages(self) -> int:
        """See the class."""
        room = SHARED_BYTES - 2 * CONSUMERS * STORE_BYTES - _BARRIERS
        return min(MOST_STAGES, room // self.stage_bytes)


TILES = tuple(map(WgmmaTile, (256, 128, 64)))


def tile_of(p: TensorCoreProduct) -> WgmmaTile:
    """The widest tile that no more than a quarter is left of, and that leaves no unit without."""
    for tile in TILES:
        wide = p.n > tile.columns * 3 // 4
        if wide and tiles_of(p, ROWS, tile.columns) >= UNITS[ARCHITECTURE]:
            return tile
    return TILES[-1] if p.n <= 64 else TILES[-2]


def wgmma_kernel(
    p: TensorCoreProduct, target: Target, tile: WgmmaTile | None = None,
    epilogue: Epilogue | None = None,
) -> KernelCode | None:
    """The kernel of a product, with the sums of segments if there are several; None where the
    architecture has no `wgmma`, rows are no multiples of 16 bytes, or operands of float32 do not
    lie along k.

    Args:
        p: what is computed.
        target: an architecture, or its emulation.
        tile: of a block, if not the table's.
        epilogue: runs instead of storing the product; its buffers follow the operands.
    """
    rows = (p.m if p.trans_a else p.k, p.k if p.trans_b else p.n, p.n)
    wide = p.dtype.itemsize == 4
    if target.cpu != ARCHITECTURE or any(r * p.dtype.itemsize % ALIGN for r in rows):
        return None
    if wide and (p.trans_a or not p.trans_b):
        return None
    return _WgmmaKernel(p, target, tile or tile_of(p), epilogue).kernel()


def _maps(p: TensorCoreProduct, tile: WgmmaTile) -> tuple[TensorMap, TensorMap, TensorMap]:
    size = p.dtype.itemsize

    def operand(number: int, along_k: bool, extent: int, matrices: int, box: int) -> TensorMap:
        inner, outer = (p.k, extent) if along_k else (extent, p.k)
        shape = (SWIZZLE // size, box if along_k else K_STEP)
        return TensorMap(number, p.dtype, (inner, outer, matrices),
                         (inner * size, inner * outer * size), shape)

    wide = p.stored.itemsize
    out = TensorMap(2, p.stored, (p.n, p.m, p.count * p.segments), (p.n * wide, p.n * p.m * wide),
                    (SWIZZLE // wide, 64))
    return (operand(0, not p.trans_a, p.m, p.matrices(p.a_strides), ROWS),
            operand(1, p.trans_b, p.n, p.matrices(p.b_strides), tile.columns), out)


class _WgmmaKernel:
    """Writes it."""

    def __init__(self, p: TensorCoreProduct, target: Target, tile: WgmmaTile,
                 epilogue: Epilogue | None) -> None:
        self.p, self.target, self.tile, self.epilogue = p, target, tile, epilogue
        self.k_step = SWIZZLE // p.dtype.itemsize
        a, b, out = _maps(p, tile)
        maps = (a, b, out) if epilogue is None else (a, b)
        buffers = 2 + (1 if epilogue is None else epilogue.buffers)
        self.f = f = TensorCoreFunction(target, buffers, THREADS, maps)
        self.stages, self.a_bytes = tile.stages, ROWS * SWIZZLE
        stores = 2 * CONSUMERS * STORE_BYTES
        start = self.stages * tile.stage_bytes
        self.shared = f.shared_place(start + stores + _BARRIERS)
        self.staging, self.barriers = f.at(self.shared, start), f.at(self.shared, start + stores)
        self.number, self.block = f.thread(), f.block()
        self.tiles = tiles_of(p, ROWS, tile.columns)
        self.blocks = min(self.tiles, UNITS[ARCHITECTURE])

    def kernel(self) -> KernelCode:
        """The code, with that for pointers that are no multiples of 16."""
        f = self.f
        f.when(f.cmp("eq", self.number, 0), self.set_up)
        f.barrier()
        f.when(f.cmp("ult", self.number, GROUP_THREADS), self.producer, self.consumer)
        plain = mma_kernel(self.p, self.target, False, epilogue=self.epilogue)
        return f.finished(self.blocks, ALIGN, plain)

    def set_up(self) -> None:
        """The mbarriers: one arrival and the bytes of a stage fill it, all consumers' warps empty
        it."""
        f = self.f
        for s in range(self.stages):
            f.mbarrier_init(self.full(f.i32(s)), 1)
            f.mbarrier_init(self.empty(f.i32(s)), 4 * CONSUMERS)
        f.fence_mbarriers()

    def full(self, stage: V) -> V:
        """The mbarrier that a stage's copies complete."""
        return self.f.at(self.barriers, stage * 8)

    def empty(self, stage: V) -> V:
        """The one that its readers do."""
        return self.f.at(self.full(stage), 8 * MOST_STAGES)

    def each_tile(self, state: list[V], body: Callable[[Tile, list[V]], list[V]]) -> list[V]:
        """The block's tiles, one after the other."""
        f = self.f

        def step(number: V, carried: list[V]) -> list[V]:
            at = tile_at(f, self.p, f.cast("trunc", number, "i32"), ROWS, self.tile.columns)
            return body(at, carried)

        first = f.cast("zext", self.block, "i64")
        return f.loop(first, self.tiles, self.blocks, state, step)

    def set_registers(self, count: int, more: bool) -> None:
        """Only the widest tile needs more registers than all threads begin with."""
        if self.tile.columns == 256:
            self.f.set_registers(count, more)

    # --- the producer ---------------------------------------------------------------------------

    def producer(self) -> None:
        """One thread of it asks for boxes."""
        f = self.f
        self.set_registers(PRODUCER_REGISTERS, False)
        f.when(f.cmp("eq", self.number, 0), self.produce)

    def produce(self) -> None:
        """Fill stage after stage, for all tiles."""
        f = self.f

        def tile(at: Tile, carried: list[V]) -> list[V]:
            def step(i: V, carried: list[V]) -> list[V]:
                now = Pipeline(*carried)
                k = at.first + f.cast("trunc", i, "i32") * self.k_step
                f.mbarrier_wait(self.empty(now.stage), now.parity ^ 1)
                self.fill(at, k, now.stage)
                after = f.next_stage(now, self.stages)
                return [after.stage, after.parity]

            return f.loop(0, steps_of(f, self.p, at.first, self.k_step), 1, carried, step)

        self.each_tile([f.i32(0), f.i32(0)], tile)

    def fill(self, at: Tile, k: V, stage: V) -> None:
        """Ask for the boxes of a stage."""
        f, full = self.f, self.full(stage)
        f.mbarrier_arrive(full, self.tile.stage_bytes)
        start = f.at(self.shared, stage * self.tile.stage_bytes)
        sides = ((0, not self.p.trans_a, at.row, at.a, ROWS, start),
                 (1, self.p.trans_b, at.column, at.b, self.tile.columns,
                  f.at(start, self.a_bytes)))
        for number, along_k, edge, matrix, extent, place in sides:
            if along_k:
                f.tensor_load(place, number, (k, edge, matrix), full)
                continue
            for part in range(extent // 64):
                to = f.at(place, part * K_STEP * SWIZZLE)
                f.tensor_load(to, number, (edge + 64 * part, k, matrix), full)

    # --- the consumers --------------------------------------------------------------------------

    def consumer(self) -> None:
        """Multiply and store, tile after tile."""
        f = self.f
        self.set_registers(CONSUMER_REGISTERS, True)
        own = self.number - GROUP_THREADS
        self.own = own & GROUP_THREADS - 1
        self.group = own >> 7
        self.lane = own & WARP - 1
        self.warp = self.own >> 5

        def tile(at: Tile, carried: list[V]) -> list[V]:
            now, total = self.products(at, Pipeline(*carried))
            self.store(at, total)
            return [now.stage, now.parity]

        self.each_tile([f.i32(0), f.i32(0)], tile)
        if self.epilogue is None:
            f.when(f.cmp("eq", self.own, 0), lambda: f.wait_stores(0))

    def products(self, at: Tile, now: Pipeline) -> tuple[Pipeline, list[V]]:
        """Return the sums of a tile, and the next stage."""
        f = self.f
        zeros = [f.const("float", 0.0)] * (self.tile.columns // 2)

        def step(i: V, carried: list[V]) -> list[V]:
            stage, parity, last, *total = carried
            f.mbarrier_wait(self.full(stage), parity)
            total = self.multiplied(stage, total)
            f.wait_products(1)
            self.release(last, f.cmp("ne", i, 0))
            after = f.next_stage(Pipeline(stage, parity), self.stages)
            return [after.stage, after.parity, stage, *total]

        steps = steps_of(f, self.p, at.first, self.k_step)
        stage, parity, last, *total = f.loop(
            0, steps, 1, [now.stage, now.parity, f.i32(0), *zeros], step, runs=True)
        f.wait_products(0)
        total = f.held(total)
        self.release(last, V("i1", "true"))
        return Pipeline(stage, parity), total

    def release(self, stage: V, test: V) -> None:
        """A lane of each warp says that it has read a stage."""
        f = self.f
        f.when(f.cmp("eq", self.lane, 0) & test, lambda: f.mbarrier_arrive(self.empty(stage)))

    def multiplied(self, stage: V, total: list[V]) -> list[V]:
        """Begin the products of a stage: one group."""
        f, p = self.f, self.p
        start = f.at(self.shared, stage * self.tile.stage_bytes)
        own = f.at(start, self.group * (64 * SWIZZLE))
        transposed = (p.trans_a, not p.trans_b)
        # The leading distance counts only where memory runs along the rows.
        leading = [K_STEP * SWIZZLE if t else 16 for t in transposed]
        a = f.descriptor(own, leading[0], ATOM)
        b = f.descriptor(f.at(start, self.a_bytes), leading[1], ATOM)
        f.fence_products()
        for k in range(0, SWIZZLE, 32):
            # A descriptor counts in units of 16 bytes: these are the units further along k.
            a_on, b_on = (k // 2 * SWIZZLE // 16 if t else k // 16 for t in transposed)
            total = f.wgmma(kind_of(p.dtype), a + a_on, b + b_on, total, transposed)
        f.commit_products()
        return total

    # --- the result -----------------------------------------------------------------------------

    def store(self, at: Tile, total: list[V]) -> None:
        """128 bytes of each row at once, in two buffers by turns."""
        f, per = self.f, SWIZZLE // self.p.stored.itemsize
        leads = f.cmp("eq", self.own, 0)
        row = at.row + self.group * 64
        mine = f.at(self.staging, self.group * (2 * STORE_BYTES))
        pieces = self.tile.columns // per
        buffers = min(pieces, 2)  # where the next tile's first piece finds the first one free
        for c in range(pieces):
            place = f.at(mine, c % buffers * STORE_BYTES)
            if self.epilogue is None:
                f.when(leads, lambda: f.wait_stores(buffers - 1))
            self.meet()
            self.stage_columns(total[c * per // 2:(c + 1) * per // 2], place)
            if self.epilogue is None:
                f.fence_async()
            self.meet()
            column = at.column + c * per
            if self.epilogue is not None:
                self.finish(at.out, row, column, place)
                continue

            def send(place: V = place, column: V = column) -> None:
                f.tensor_store(2, (column, row, at.out), place)
                f.commit_stores()

            f.when(leads, send)

    def finish(self, matrix: V, row: V, column: V, place: V) -> None:
        """The epilogue on what is staged: 16 bytes of a row at once, a row by eight lanes."""
        f, p, per_line = self.f, self.p, SWIZZLE // 16
        lanes = 16 // p.stored.itemsize
        assert self.epilogue is not None
        put = self.epilogue.begin(f, 2)

        def step(i: V, _: list[V]) -> None:
            r, c = f.split(self.own + f.cast("trunc", i, "i32") * GROUP_THREADS, [64, per_line])
            i_row, j = row + r, column + c * lanes
            inside = f.cmp("ult", i_row, p.m) & f.cmp("ult", j, p.n)

            def put_one() -> None:
                far = c ^ r & 7
                to = f.at(f.at(place, r * SWIZZLE), far * 16)
                raw = f.load(vector(memory_type(p.stored), lanes), f.pointer_at(to), 16)
                offset = (matrix * p.m + i_row) * p.n + j
                put(from_memory(f, raw, p.stored), X(f, offset))

            f.when(inside, put_one)

        f.loop(0, 64 * per_line // GROUP_THREADS, 1, [], step)

    def meet(self) -> None:
        """The threads of a consumer wait for one another; each has a barrier."""
        self.f.named_barrier(self.group + 1, GROUP_THREADS)

    def stage_columns(self, values: list[V], place: V) -> None:
        """Accumulators, rounded, to rows of 128 bytes: of each 8 columns two rows of two."""
        f, p = self.f, self.p
        size = p.stored.itemsize
        r = self.warp * 16 + (self.lane >> 2)
        two = (self.lane & 3) * (2 * size)
        flip = (r & 7) * 16
        here = f.at(place, r * SWIZZLE)
        for i in range(0, len(values), 2):
            column, half = i // 4 * 8, i // 2 % 2
            far = two + column * size ^ flip
            pair = f.pair(*(to_memory(f, v, p.stored) for v in values[i:i + 2]))
            to = f.at(f.at(here, far), 8 * SWIZZLE * half)
            f.store(pair, f.pointer_at(to), 2 * size)
