"""Attention of 16-bit floats by blocks of rows: products by `mma.sync`, scores in shared memory.

As `attention.py`, with the order of tensor-core multiplications (`mma.py`): steps of 16 of k in
order, sums in float32 and rounded once, zeros after the last step. Scores and weights are 16-bit
floats, as separate products store them. Where a long k is cut into segments, these are added in
order.

Keys and values pass through a ring of three tiles of 32 steps that `cp.async` fills. So that
neither the copies nor `ldmatrix` meet at a bank, rows of shared memory are 16 bytes longer than a
multiple of 64 bytes; those of a tile along k have 64 bytes, and 16 bytes c of row r lie at place
c ^ r / 2 % 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...llvm.convert import to_memory
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..code import WARP, KernelCode
from ..tensor_cores import TensorCoreFunction, kind_of
from ..writer import THREADS
from .attention import WARPS, Attention, RowsKernel, scratch_bytes
from .operands import Operand, number

STEP = 32  # Of k in a tile; one instruction takes half of it
STAGES = 3
ROWS = (128, 64, 32, 16)  # Rows that a block may do
_CHUNK = 8  # Elements of 16 bytes
_WIDEST = 128


def line_pitch(elements: int) -> int:
    """Elements from one row of shared memory to the next."""
    return -(-elements // STEP) * STEP + _CHUNK


def columns_of(rows: int, columns: int) -> int:
    """Of a tile: 16 at least for each warp of a row of warps."""
    least = 16 * (WARPS * 16 // rows)
    return max(least, min(_WIDEST, -(-columns // 32) * 32 // least * least))


def _stage(along_k: bool, columns: int) -> int:
    """Elements of a tile in the ring."""
    return columns * STEP if along_k else STEP * line_pitch(columns)


def _stages(a: Attention, rows: int) -> int:
    """Elements of the ring."""
    return STAGES * max(_stage(_along_k(x), columns_of(rows, n))
                        for x, n in ((a.k, a.n), (a.v, a.c)))


def _along_k(x: Operand) -> bool:
    """Whether lines of memory run along k."""
    return x.nearest == "steps"


def shared_bytes(a: Attention, rows: int) -> int:
    """Return the shared memory of a block: scores, queries and the ring."""
    return 2 * (rows * (line_pitch(a.n) + line_pitch(a.d)) + _stages(a, rows)) \
        + scratch_bytes(a.rows)


def attention_mma_kernel(a: Attention, rows: int, target: Target, vectors: bool) -> KernelCode:
    """The kernel; see `attention_kernel`."""
    return AttentionMmaKernel(a, rows, target, vectors).code()


class AttentionMmaKernel(RowsKernel[TensorCoreFunction]):
    """Writes it."""

    def __init__(self, a: Attention, rows: int, target: Target, vectors: bool) -> None:
        f = TensorCoreFunction(target, 4 + len(a.rows.values), THREADS)
        super().__init__(f, a, rows, target, vectors, line_pitch(a.n), STEP)
        self.queries = f.shared_memory(2 * rows * line_pitch(a.d))
        self.ring = f.shared_memory(2 * _stages(a, rows))

    def behind(self) -> V:
        return self.f.const(self.memory, 0.0)

    def load_queries(self) -> None:
        self.copy_queries(self.queries, line_pitch(self.a.d))

    def score(self) -> None:
        f, a = self.f, self.a
        product = _MmaProduct(self, self.queries, line_pitch(a.d), a.k, 1, (a.d, a.n),
                              a.segments[0])

        def put(i: X, j: X, two: V) -> None:
            with f.given(j.cmp("slt", a.n)):
                f.store(two, f.gep(self.scores, (i * self.score_pitch + j).v, self.memory), 4)

        product.run(self.last_key(), put)

    def mix(self) -> None:
        f, a = self.f, self.a
        product = _MmaProduct(self, self.scores, self.score_pitch, a.v, 2, (a.n, a.c),
                              a.segments[1])
        whole = self.vectors and a.c % 2 == 0

        def put(i: X, j: X, two: V) -> None:
            row = self.first + i
            place = f.gep(f.pointer(3), ((self.matrix * a.m + row) * a.c + j).v, self.memory)
            with f.given(row.cmp("slt", a.m)):
                for lane in range(1 if whole else 2):
                    with f.given((j + lane).cmp("slt", a.c)):
                        one = two if whole else f.extract(two, lane)
                        f.store(one, f.gep(place, lane, self.memory), 4 if whole else 2)

        product.run(number(f, a.c), put)


@dataclass(frozen=True, slots=True)
class _Where:
    """Of a step of the ring: the first column, and the first step of k."""

    column: X
    k: X


class _MmaProduct:
    """Tiles of a product whose left operand lies by rows in shared memory.

    Args:
        left, left_pitch: where, and elements of a row there.
        right: the other operand, and the number of its pointer.
        sizes: steps of k, and columns.
        segment: steps of k that are summed before they are added; 0 for all.
    """

    def __init__(self, kernel: AttentionMmaKernel, left: V, left_pitch: int, right: Operand,
                 pointer: int, sizes: tuple[int, int], segment: int) -> None:
        f = self.f = kernel.f
        self.kernel, self.right, self.segment = kernel, right, segment
        self.k, self.n = sizes
        self.source = f.pointer(pointer)
        self.columns = columns_of(kernel.rows, self.n)
        self.along_k = _along_k(right)
        self.stage = _stage(self.along_k, self.columns)
        self.pitch = STEP if self.along_k else line_pitch(self.columns)
        self.steps = -(-self.k // STEP)
        down = kernel.rows // 16
        self.wide = self.columns // (WARPS // down)
        self.lane, warp = kernel.thread & (WARP - 1), kernel.thread >> 5
        self.top = warp.op("urem", down) * 16
        self.side = warp.op("udiv", down) * self.wide
        low, second, third = self.lane & 7, (self.lane >> 3) & 1, self.lane >> 4
        self.left = self._place(left, (self.top + low + second * 8) * left_pitch + third * 8)
        inner = self.side + third * 8
        self.ring = self._place(kernel.ring, None)
        if self.along_k:
            row, swizzle = (inner + low) * STEP, self._swizzle(low)
            self.reads = [row + ((second + 2 * half) ^ swizzle) * _CHUNK for half in (0, 1)]
        else:
            row = (low + second * 8) * self.pitch + inner
            self.reads = [row, row + 16 * self.pitch]
        matrix = right.begin(f, kernel.matrix, number(f, 0)).offset
        self.source = f.gep(self.source, matrix.v, kernel.memory)

    def _place(self, base: V, elements: X | None) -> V:
        """A place of shared memory, as instructions of tensor cores take it."""
        f = self.f
        if not f.emulated:
            own = f.emit("ptr addrspace(3)", f"addrspacecast {base} to ptr addrspace(3)")
            base = f.emit("i32", f"ptrtoint {own} to i32")
        return base if elements is None else f.at(base, (elements * 2).v)

    @staticmethod
    def _swizzle(line: X) -> X:
        return (line >> 1) & 3

    def run(self, end: X, put: Callable[[X, X, V], None]) -> None:
        """All columns below `end`: `put` takes a row, a column, and the pair that begins there."""
        f = self.f
        tiles = (end + (self.columns - 1)).op("udiv", self.columns)
        last = tiles * self.steps
        for s in range(STAGES - 1):
            self.fetch(self.where(number(f, s)), number(f, s))
        zeros = [f.const("float", 0.0)] * (self.wide // 2)
        # -0 and the first segment are that segment.
        nothing = [f.const("float", -0.0)] * len(zeros) if self.segment else []

        def body(carried: list[V]) -> list[V]:
            step, total, sums = X(f, carried[0]), carried[1:1 + len(zeros)], carried[
                1 + len(zeros):]
            f.wait_copies(STAGES - 2)
            f.barrier()
            following = step + (STAGES - 1)
            self.fetch(self.where(following), following.op("urem", STAGES))
            at = self.where(step)
            total = self.multiplied(step.op("urem", STAGES), at.k, total)
            total, sums = self.added(at, total, sums)
            done = (at.k + STEP).cmp("sge", self.k)

            def finish() -> list[V]:
                self.put(at.column, sums or total, put)
                return [*zeros, *nothing]

            return [(step + 1).v, *f.when(done.v, finish, lambda: [*total, *sums])]

        f.while_([number(f, 0).v, *zeros, *nothing], lambda c: X(f, c[0]).cmp("slt", last).v, body)
        f.wait_copies(0)
        f.barrier()

    def added(self, at: _Where, total: list[V], sums: list[V]) -> tuple[list[V], list[V]]:
        """Sums of segments, where one is complete."""
        f = self.f
        if not self.segment:
            return total, sums
        after = at.k + STEP
        full = after.op("urem", self.segment).cmp("eq", 0) | after.cmp("sge", self.k)

        def add() -> list[V]:
            zero = f.const("float", 0.0)
            return [*[zero] * len(total), *(a + b for a, b in zip(sums, total, strict=True))]

        both = f.when(full.v, add, lambda: [*total, *sums])
        return both[:len(total)], both[len(total):]

    def where(self, step: X) -> _Where:
        """Where a step of the ring is."""
        return _Where(step.op("udiv", self.steps) * self.columns,
                      step.op("urem", self.steps) * STEP)

    # --- the ring -------------------------------------------------------------------------------

    def fetch(self, at: _Where, stage: X) -> None:
        """Begin to copy a tile to a stage; zeros outside of the matrix."""
        f = self.f
        lines, length = (self.columns, STEP) if self.along_k else (STEP, self.columns)
        inner = self.k if self.along_k else self.n
        width = math.gcd(inner, _CHUNK) if self.kernel.vectors else 1
        each, base = length // width, stage * self.stage
        for i in range(-(-lines * each // THREADS)):
            mine = self.kernel.thread + i * THREADS
            line, start = mine.op("udiv", each), mine.op("urem", each) * width
            chunk, within = start.op("udiv", _CHUNK), start.op("urem", _CHUNK)
            if self.along_k:
                chunk = chunk ^ self._swizzle(line)
            to = base + line * self.pitch + chunk * _CHUNK + within
            if lines * each % THREADS:
                with f.given(mine.cmp("slt", lines * each)):
                    self.copy(at, line, start, to, width)
            else:
                self.copy(at, line, start, to, width)
        f.commit_copies()

    def copy(self, at: _Where, line: X, start: X, to: X, width: int) -> None:
        """Elements of a line."""
        f, memory = self.f, self.kernel.memory
        outer, inner = (self.n, self.k) if self.along_k else (self.k, self.n)
        first, second = (at.column, at.k) if self.along_k else (at.k, at.column)
        row, place = first + line, second + start
        inside = row.cmp("ult", outer) & place.cmp("ult", inner)
        offset = inside.where(row * inner + place, 0)
        source = f.gep(self.source, offset.v, memory)
        if width > 1:
            nbytes = number(f, 2 * width)
            f.copy_async(f.at(self.ring, (to * 2).v), source, 2 * width, inside.where(nbytes, 0).v)
            return
        value = f.select(inside.v, f.load(memory, source), f.const(memory, 0.0))
        f.store(value, f.gep(self.kernel.ring, to.v, memory))

    # --- products -------------------------------------------------------------------------------

    def multiplied(self, stage: X, k: X, total: list[V]) -> list[V]:
        """The products of a stage, added."""
        f, kind, total = self.f, kind_of(self.right.dtype), list(total)
        left = f.at(self.left, (k * 2).v)
        far = 32 * self.pitch if self.along_k else 32
        for half in (0, 1):
            a = f.ldmatrix(f.at(left, half * 32))
            right = f.at(self.ring, ((stage * self.stage + self.reads[half]) * 2).v)
            for i in range(self.wide // 16):
                b = f.ldmatrix(f.at(right, far * i), not self.along_k)
                for j in (0, 1):
                    at = 8 * i + 4 * j
                    total[at:at + 4] = f.mma(kind, a, b[2 * j:2 * j + 2], total[at:at + 4])
        return total

    def put(self, column: X, sums: list[V], put: Callable[[X, X, V], None]) -> None:
        """Pairs of sums, rounded."""
        f, dtype = self.f, self.right.dtype
        row, two = self.top + (self.lane >> 2), column + self.side + (self.lane & 3) * 2
        for i in range(self.wide // 8):
            for half in (0, 1):
                at = 4 * i + 2 * half
                pair = f.pair(*(to_memory(f, v, dtype) for v in sums[at:at + 2]))
                put(row + 8 * half, two + 8 * i, pair)
