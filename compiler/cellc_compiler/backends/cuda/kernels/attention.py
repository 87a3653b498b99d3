"""Attention by blocks of rows, to the bits of separate products and nests.

    scores[b, i, j] = sum over k of q[b, i, k] * k[b, k, j]
    weights[b, i, :] = what a row nest makes of scores[b, i, :] (scale, mask, softmax)
    out[b, i, c] = sum over j of weights[b, i, j] * v[b, j, c]

A block of threads does 16, 32 or 64 rows of one matrix. All their scores lie in shared memory,
where the nest makes weights of them: nothing of them is in global memory, but weights that
something else reads (a gradient) are written there, too. Tiles of keys that a constant mask hides
from all rows of a block are left out of the scores (not of the sums over values: 0 times infinity
is not 0). The order is that of `loops/order.py`: an element of a product is a chain of fused
multiply-adds for each segment of k, a row of the nest is a warp's.

Rows of shared memory are 4 elements longer than a multiple of 32, so that a vector of each of four
adjacent rows meets every bank once. A step of k reads the left operand along its rows, a vector for
four steps, and the right one from tiles of 8 steps, of which one is multiplied while the other is
filled (`loaders.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....loops.expr import Expr
from ....loops.index import Var
from ....loops.nest import Nest, Phase, Scratch, Store, walk
from ...llvm import scalar
from ...llvm.convert import memory_type
from ...llvm.expressions import Scope
from ...llvm.math.lanes import X
from ...llvm.text import V, sizeof, vector
from ..architecture import UNITS, has_room_for_two, most_shared
from ..code import VECTOR_BYTES, WARP, KernelCode
from ..nests.kernel import NestWriter
from ..nests.rows import Warps, bytes_kept, is_resident
from ..writer import THREADS, GpuFunction
from .loaders import Loader, mapping
from .operands import Operand, number
from .tiles import DEPTH, LANE_COLUMNS, LANE_ROWS, pitch

LANES = 4  # Floats of a vector
WARPS = THREADS // WARP
_WARP_COLUMNS = LANE_COLUMNS * LANES
ROWS = (64, 32, 16)
"""Rows that a block may do. Fewer would read keys and values from memory more often than separate
kernels read and write scores."""


@dataclass(frozen=True, slots=True)
class RowNest:
    """The nest between two products."""

    nest: Nest  # row r of it reads row r of `source` and stores row r of `weights`
    source: Any
    weights: Any
    values: tuple[Any, ...]  # with buffers in memory, in the order of the kernel's pointers


@dataclass(frozen=True, slots=True)
class Attention:
    """The parameters of an attention."""

    matrices: int  # of the batch
    # m, n, d, c: queries, keys, and the sizes of a query and of a value
    m: int
    n: int
    d: int
    c: int
    # q, k, v: operands; the free index of `k` and `v` is the column
    q: Operand
    k: Operand
    v: Operand
    rows: RowNest
    segments: tuple[int, int]  # steps of k of a chain of each product; 0 for all
    seen: int  # keys that a query at position i may look at are those below i + `seen`


@dataclass(frozen=True, slots=True)
class Share:
    """How warps share a tile of a product: a lane has `tall` vectors, four rows apart."""

    rows: int  # of the tile
    across: int  # adjacent warps

    @property
    def columns(self) -> int:
        """Of the tile."""
        return self.across * _WARP_COLUMNS

    @property
    def down(self) -> int:
        """Warps below one another."""
        return WARPS // self.across

    @property
    def tall(self) -> int:
        """Rows of a lane."""
        return self.rows // (LANE_ROWS * self.down)


def share_of(rows: int, columns: int) -> Share:
    """Return the share of fewest instructions for the columns; 8 rows for a lane at most."""
    def instructions(share: Share) -> float:
        return -(-columns // share.columns) * ((LANES + 1 / LANES) * share.tall + 3)

    options = [Share(rows, across) for across in (1, 2, 4, 8)]
    return min((s for s in options if 1 <= s.tall <= 8), key=instructions)


def row_pitch(columns: int) -> int:
    """Elements from one row of shared memory to the next."""
    return -(-columns // WARP) * WARP + LANES


def tile_elements(a: Attention, rows: int) -> int:
    """Of a tile of keys or values."""
    wide = max(share_of(rows, a.n).columns, share_of(rows, a.c).columns)
    return DEPTH * pitch(wide, LANES)


def shared_bytes(a: Attention, rows: int) -> int:
    """Return the shared memory of a block: scores, queries and two tiles of keys or values."""
    return 4 * (rows * (row_pitch(a.n) + row_pitch(a.d)) + 2 * tile_elements(a, rows)) \
        + scratch_bytes(a.rows)


def scratch_bytes(rows: RowNest) -> int:
    """Return the bytes of a row that the nest keeps outside of registers and the row itself."""
    if is_resident(rows.nest):
        return 0
    kept = {s.buffer for p in rows.nest.phases for s in p.stores
            if isinstance(s.buffer, Scratch) and not _in_place(rows, s)}
    return WARPS * sum(map(bytes_kept, kept))


def rows_of(a: Attention, target: Target, nbytes: Callable[[Attention, int], int] = shared_bytes,
            options: Sequence[int] = ROWS) -> int | None:
    """Rows of a block; None if those of the fewest do not fit into shared memory.

    Several blocks of a multiprocessor hide each other's waiting; more rows share what is read.
    """
    units = UNITS[target.cpu]

    def time(rows: int) -> float:
        each = 2 if has_room_for_two(nbytes(a, rows), target) else 1
        blocks = -(-a.m // rows) * a.matrices
        waves = -(-blocks // (units * each)) * each if blocks > units else 1
        return waves * (rows + 12) * (1.0 if each == 2 else 1.25)

    fitting = [r for r in options if nbytes(a, r) <= most_shared(target)]
    return min(fitting, key=time) if fitting else None


def attention_kernel(a: Attention, rows: int, target: Target, vectors: bool) -> KernelCode:
    """The kernel; its buffers are the operands `q`, `k` and `v`, the result, and the nest's.

    Args:
        rows: of a block.
        vectors: whether pointers are multiples of 16.
    """
    return AttentionKernel(a, rows, target, vectors).code()


F = TypeVar("F", bound=GpuFunction)


class RowsKernel(ABC, Generic[F]):
    """The common part of kernels of attention: a block's rows, and the nest on them.

    Args:
        f: the kernel.
        rows: of a block.
        vectors: whether pointers are multiples of 16.
        score_pitch: elements from one row of scores to the next.
        depth: a row of weights is filled up to a multiple of this number of elements.
    """

    def __init__(self, f: F, a: Attention, rows: int, target: Target, vectors: bool,
                 score_pitch: int, depth: int) -> None:
        self.f, self.a, self.rows, self.vectors = f, a, rows, vectors
        self.score_pitch, self.depth = score_pitch, depth
        self.memory = memory_type(a.q.dtype)
        self.thread = X(f, f.thread())
        self.down = -(-a.m // rows)
        block = X(f, f.block())
        self.matrix, self.first = block.op("udiv", self.down), block.op("urem", self.down) * rows
        self.scores = f.shared_memory(a.q.dtype.itemsize * rows * score_pitch)
        self.nest = _BlockRows(f, a.rows, target, self.scores)

    def code(self) -> KernelCode:
        """The kernel, written."""
        self.load_queries()
        self.score()
        self.f.barrier()
        self.weigh()
        self.f.barrier()
        self.mix()
        if not self.f.emulated:  # unasked, ptxas aims at more blocks than there is room for
            several = 2 if has_room_for_two(self.f.shared, self.f.target) else 1
            self.f.attributes += f' "nvvm.minctasm"="{several}"'
        return self.f.finished(self.a.matrices * self.down)

    @abstractmethod
    def load_queries(self) -> None:
        """The block's rows of `q`, in shared memory; those past the last are the last again."""

    @abstractmethod
    def score(self) -> None:
        """Scores, in shared memory."""

    @abstractmethod
    def mix(self) -> None:
        """Weights times values, stored."""

    @abstractmethod
    def behind(self) -> V:
        """Return the value after the last element of a row of a product's left operand."""

    def strided(self, count: int, body: Callable[[X], None]) -> None:
        """Do something for each number, by all threads."""
        self.f.steps(self.thread, count, THREADS, lambda at, _: body(at))

    def copy_queries(self, to: V, row_pitch: int) -> None:
        """See `load_queries`."""
        f, a = self.f, self.a
        most = VECTOR_BYTES // a.q.dtype.itemsize
        lanes = most if self.vectors and a.q.runs("steps", most) else 1
        ty = vector(self.memory, lanes)

        def load(at: X) -> None:
            i, k = at.op("udiv", a.d // lanes), at.op("urem", a.d // lanes) * lanes
            row = X(f, f.intrinsic("umin", "i32", (self.first + i).v, number(f, a.m - 1).v))
            source = a.q.begin(f, self.matrix, row).offset + k
            value = f.load(ty, f.gep(f.pointer(0), source.v, self.memory), sizeof(ty))
            f.store(value, f.gep(to, (i * row_pitch + k).v, self.memory), sizeof(ty))

        self.strided(self.rows * (a.d // lanes), load)
        more = -a.d % self.depth
        if more:
            self.strided(self.rows * more, lambda at: f.store(self.behind(), f.gep(to, (
                at.op("udiv", more) * row_pitch + at.op("urem", more) + a.d).v, self.memory)))

    def last_key(self) -> X:
        """Return the end of the keys that the block's rows look at: of later scores the nest reads
        no more than that they are there."""
        f, a = self.f, self.a
        if a.seen >= a.n:
            return number(f, a.n)
        last = self.first + (self.rows - 1 + a.seen)
        return X(f, f.intrinsic("smin", "i32", last.v, number(f, a.n).v))

    def weigh(self) -> None:
        """The nest on each row, by a warp."""
        f, a = self.f, self.a
        lane, warp = self.thread & (WARP - 1), self.thread >> 5
        self.nest.lane = lane.v
        more = -a.n % self.depth

        def row(i: X, _: list[V]) -> None:
            at = f.gep(self.scores, (i * self.score_pitch).v, self.memory)
            with f.given((self.first + i).cmp("slt", a.m)):
                self.nest.on_row(at, (self.matrix * a.m + self.first + i).v)
                if more:
                    with f.given(lane.cmp("slt", more)):
                        f.store(self.behind(), f.gep(at, (lane + a.n).v, self.memory))

        f.steps(warp, self.rows, WARPS, row)


class AttentionKernel(RowsKernel[GpuFunction]):
    """Writes it; see `attention_kernel`."""

    def __init__(self, a: Attention, rows: int, target: Target, vectors: bool) -> None:
        f = GpuFunction(target, 4 + len(a.rows.values), THREADS)
        super().__init__(f, a, rows, target, vectors, row_pitch(a.n), DEPTH)
        self.query_pitch = row_pitch(a.d)
        self.queries = f.shared_memory(4 * rows * self.query_pitch)
        self.tiles = f.shared_memory(8 * tile_elements(a, rows))

    def behind(self) -> V:
        """-0, which with 0 of a key is -0 and changes no sum."""
        return self.f.const("float", -0.0)

    def load_queries(self) -> None:
        self.copy_queries(self.queries, self.query_pitch)

    def score(self) -> None:
        """A tile of keys after the other."""
        f, a = self.f, self.a
        share = share_of(self.rows, a.n)
        product = _Product(self, share, self.queries, self.query_pitch, a.k, 1, a.d, a.segments[0])
        end = self.last_key()

        def tile(j: X, _: list[V]) -> None:
            sums = product.sums(self.matrix, j)
            column = j + product.column
            with f.given(column.cmp("slt", a.n)):
                at = f.gep(self.scores, (product.row * self.score_pitch + column).v, "float")
                for t, value in enumerate(sums):
                    f.store(value, f.gep(at, t * LANE_ROWS * self.score_pitch, "float"),
                            VECTOR_BYTES)

        f.steps(number(f, 0), end, share.columns, tile)

    def mix(self) -> None:
        f, a = self.f, self.a
        share = share_of(self.rows, a.c)
        product = _Product(self, share, self.scores, self.score_pitch, a.v, 2, a.n, a.segments[1])
        f.steps(number(f, 0), a.c, share.columns, lambda j, _: self.store(
            product, j + product.column, product.sums(self.matrix, j)))

    def store(self, product: _Product, column: X, sums: Sequence[V]) -> None:
        """A lane's part of the result."""
        f, a = self.f, self.a
        whole = self.vectors and a.c % LANES == 0
        for t, value in enumerate(sums):
            i = self.first + product.row + t * LANE_ROWS
            with f.given(i.cmp("slt", a.m)):
                at = (self.matrix * a.m + i) * a.c + column
                place = f.gep(f.pointer(3), at.v, "float")
                for lane in range(1 if whole else LANES):
                    with f.given((column + lane).cmp("slt", a.c)):
                        one = value if whole else f.extract(value, lane)
                        f.store(one, f.gep(place, lane, "float"), VECTOR_BYTES if whole else 4)


class _Product:
    """Tiles of a product whose left operand lies by rows in shared memory.

    Args:
        left, left_pitch: where, and elements of a row there.
        right: the other operand, and the number of its pointer.
        k, segment: steps, and those of a chain; 0 for all.
    """

    def __init__(self, kernel: AttentionKernel, share: Share, left: V, left_pitch: int,
                 right: Operand, pointer: int, k: int, segment: int) -> None:
        f = self.f = kernel.f
        self.share, self.pitch, self.k, self.segment = share, left_pitch, k, segment
        self.right, self.source, self.vectors = right, f.pointer(pointer), kernel.vectors
        self.thread, self.tiles = kernel.thread, kernel.tiles
        lane, warp = self.thread & (WARP - 1), self.thread >> 5
        down, across = warp.op("urem", share.down), warp.op("udiv", share.down)
        self.row = down * (LANE_ROWS * share.tall) + lane.op("udiv", LANE_COLUMNS)
        self.column = across * _WARP_COLUMNS + lane.op("urem", LANE_COLUMNS) * LANES
        self.step = pitch(share.columns, LANES)
        self.left = f.gep(left, (self.row * left_pitch).v, "float")
        self.read = f.gep(self.tiles, self.column.v, "float")
        self.zeros = [f.const("<4 x float>", 0.0)] * share.tall

    def sums(self, matrix: X, first: X) -> list[V]:
        """The lane's vectors of the tile whose first column is given."""
        f, lanes = self.f, LANES if self.vectors else 1
        how = mapping(self.right, self.share.columns, THREADS, lanes)
        tail = self.k % DEPTH > 0
        loader = Loader(f, self.right, self.source, how, "float", 0.0 if tail else None)
        loader.begin(self.thread, matrix, first)
        if not self.segment:
            return self._chain(loader, number(f, 0), number(f, self.k))

        def segment(start: X, carried: list[V]) -> list[V]:
            end = X(f, f.intrinsic("umin", "i32", (start + self.segment).v, number(f, self.k).v))
            sums = self._chain(loader, start, end)
            return [a + b for a, b in zip(carried, sums, strict=True)]

        return f.steps(number(f, 0), self.k, self.segment, segment, self.zeros)

    def _chain(self, loader: Loader, first: X, end: X) -> list[V]:
        """Sums over the steps from `first` up to `end`."""
        f, half = self.f, DEPTH * self.step
        loader.store(loader.load(first, end), self.tiles)
        f.barrier()

        def body(carried: list[V]) -> list[V]:
            step, stage, sums = X(f, carried[0]), X(f, carried[1]), carried[2:]
            following, other = step + DEPTH, number(f, half) - stage
            # Behind the last tile it is read again, for nothing.
            read = following if loader.neutral is not None else \
                following.cmp("slt", end).where(following, step)
            ahead = loader.load(read, end)
            sums = self._multiply(step, stage, sums)
            loader.store(ahead, f.gep(self.tiles, other.v, "float"))
            f.barrier()
            return [following.v, other.v, *sums]

        start = [first.v, number(f, 0).v, *self.zeros]
        return f.while_(start, lambda c: X(f, c[0]).cmp("slt", end).v, body)[2:]

    def _multiply(self, step: X, stage: X, sums: list[V]) -> list[V]:
        """Take in a tile."""
        f, sums = self.f, list(sums)
        left = f.gep(self.left, step.v, "float")
        right = f.gep(self.read, stage.v, "float")
        for group in range(0, DEPTH, LANES):
            rows = [f.load("<4 x float>", f.gep(left, t * LANE_ROWS * self.pitch + group, "float"),
                           VECTOR_BYTES) for t in range(self.share.tall)]
            for k in range(LANES):
                place = f.gep(right, (group + k) * self.step, "float")
                columns = f.load("<4 x float>", place, VECTOR_BYTES)
                for t, row in enumerate(rows):
                    x = f.splat(f.extract(row, k), LANES)
                    sums[t] = f.fma(x, columns, sums[t])
        return sums


def _in_place(rows: RowNest, s: Store) -> bool:
    """Whether what a nest keeps of a row may lie where its scores are: elements of their size, each
    in the place of its own, and scores are not read in a later phase."""
    at = next(i for i, p in enumerate(rows.nest.phases) if s in p.stores)
    phase = rows.nest.phases[at]
    later = [e for p in rows.nest.phases[at + 1:] for e in walk(p.roots()) if e.op == "load"]
    return (s.value.dtype.itemsize == rows.source.dtype.itemsize and len(phase.loops) == 1
            and s.offset.coefficient(phase.loops[0]) == 1 and len(s.offset.terms) == 1
            and not s.offset.const and s.part is None
            and not any(e.payload.buffer is rows.source for e in later))


class _BlockRows(Warps):
    """The nest on rows in shared memory, one after the other."""

    threads = THREADS

    def __init__(self, f: GpuFunction, rows: RowNest, target: Target, scores: V) -> None:
        NestWriter.__init__(self, f, rows.nest, target, rows.values, 4)
        self.lanes, self.rows = 1, rows
        self.arrange()
        self.column: Var | None = None
        kept = [s for p in rows.nest.phases for s in p.stores if isinstance(s.buffer, Scratch)]
        self.beside = {s.buffer for s in kept if _in_place(rows, s)}
        for b in dict.fromkeys(s.buffer for s in kept if not self.resident):
            if b not in self.beside:
                self.pointers[b] = self.scratch_of(b)
        self.at = scores

    def on_row(self, at: V, flat: V) -> None:
        """A row, by its number, whose scores are at a place."""
        self.at = at
        self.pointers.update((b, at) for b in self.beside)
        self.begin(flat)

    def phase(self, phase: Phase, row: Scope) -> None:
        self.column = phase.loops[0] if phase.loops else None
        if self.resident and phase.stores:
            self.f.warp_barrier()  # lanes without an element of their own have read the first
        super().phase(phase, row)

    def _place(self) -> V:
        """Where the element of the row is that is computed."""
        assert self.column is not None
        return self.f.gep(self.at, self.vars[self.column], memory_type(self.rows.source.dtype))

    def _load(self, e: Expr, scope: Scope) -> V:
        if e.payload.buffer is not self.rows.source:
            return super()._load(e, scope)
        raw = self.f.load(memory_type(e.dtype), self._place())
        return scalar.from_memory(self.f, raw, e.dtype)

    def addresses(self, s: Store, scope: Scope) -> list[V]:
        """See `NestWriter`; of weights the place in the block, and the one in memory."""
        if s.buffer is not self.rows.weights:
            return super().addresses(s, scope)
        stored = super().addresses(s, scope) if s.buffer in self.rows.values else []
        return [self._place(), *stored]

    def store(self, s: Store, value: V, to: Sequence[V]) -> None:
        """See `NestWriter`."""
        for at in to:
            super().store(s, value, [at])
