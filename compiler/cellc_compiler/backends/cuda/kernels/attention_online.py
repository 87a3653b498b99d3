"""Online attention by `mma.sync`: blocks of queries meet tile after tile of keys and values.

    scores[b, i, j] = sum over k of q[b, i, k] * k[b, k, j]
    out[b, i, c] = sum over j of weights[b, i, j] * v[b, j, c]

where weights are a softmax along j (`attention_formulas.py` says of what). Nothing of a row is kept
but its largest score so far, the sum of exponentials below it, and the sums of `out`, which are
rescaled where the largest changes. So memory is linear in queries and keys, and rows are as long as
they like. Sums are in float32; scores are not rounded, weights are rounded to the type of the
operands (float32: TF32) where they are multiplied.

A warp does 16 rows. Queries lie in shared memory, keys and values pass through a ring of tiles.
Rows there are 16 bytes longer than a multiple of 32 bytes, so that eight adjacent ones meet every
bank once. Of a tile of scores the lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1 of
each eight: that is what it needs as left operand of the next product (for TF32 with k in the order
0, 2, 4, 6, 1, 3, 5, 7).

Tiles that a constant mask hides are left out, with the values that it hides: an infinity or a NaN
there does not reach the result. Source: Dao, "FlashAttention-2", 2023, algorithm 1.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....loops.expr import Expr
from ....loops.nest import Nest, Phase, Reduce
from ...llvm.convert import memory_type, to_memory
from ...llvm.expressions import Scope
from ...llvm.math import functions
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..architecture import UNITS, most_shared
from ..attention_formulas import SCORE, WEIGHT, Formulas
from ..code import WARP, KernelCode
from ..nests.kernel import NestWriter
from ..tensor_cores import I32, TensorCoreFunction, kind_of
from .operands import Digits, number, spot

MATRIX_ROWS = 16  # Of a warp
STEP_BYTES = 32  # Of k that one instruction takes
ROWS = (64, 32, 16)  # Rows that a block may do
REGISTERS = 1 << 16  # Of a multiprocessor
_OTHERS = 104  # Registers of a lane besides its sums
_LOG2_E = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class Plane:
    """An operand in memory: a matrix for each number of a batch."""

    dtype: DType  # of its elements
    batch: Digits  # digits of the number
    # rows, columns: of a matrix; a row is a query or a key
    rows: int
    columns: int
    # row_stride, column_stride: elements from one to the next; one of them is 1
    row_stride: int
    column_stride: int

    @property
    def width(self) -> int:
        """Elements that are copied at once."""
        if self.column_stride != 1:
            return 1
        strides = (d.stride for d in self.batch)
        return math.gcd(self.columns, self.row_stride, 16 // self.dtype.itemsize, *strides)


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of a plane in shared memory, filled up with zeros to whole instructions."""

    rows: int
    columns: int
    size: int

    @property
    def padded(self) -> int:
        """Elements of a row that are multiplied."""
        return padded(self.columns)

    @property
    def pitch(self) -> int:
        """Bytes from one row to the next."""
        return self.padded * self.size + 16

    @property
    def nbytes(self) -> int:
        """Of the tile."""
        return self.rows * self.pitch


def padded(columns: int) -> int:
    """Columns, filled up to whole instructions."""
    return -(-columns // 16) * 16


@dataclass(frozen=True, slots=True)
class Online:
    """The parameters of an online attention."""

    dtype: DType  # of the operands of products
    matrices: int  # of the batch
    # q, k, v: operands; a row of `k` is a key, one of `v` its value
    q: Plane
    k: Plane
    v: Plane
    formulas: Formulas  # between the products
    keeps: bool  # whether the largest score of a row and one over its sum are stored

    @property
    def masked(self) -> bool:
        """Whether tiles are left out."""
        return self.formulas.seen < self.k.rows


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a kernel is cut."""

    left: tuple[int, ...]  # columns of what a block keeps; `right`: of what passes by
    right: tuple[int, ...]
    rows: int  # that a block keeps; `tile`: that pass by at a time
    tile: int
    stages: int  # of the ring
    size: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows // MATRIX_ROWS * WARP

    @property
    def kept(self) -> list[Tile]:
        """Return the tiles that a block keeps."""
        return [Tile(self.rows, c, self.size) for c in self.left]

    @property
    def passing(self) -> list[Tile]:
        """Return the tiles that pass by."""
        return [Tile(self.tile, c, self.size) for c in self.right]

    @property
    def nbytes(self) -> int:
        """Of shared memory."""
        return sum(t.nbytes for t in self.kept) + self.stages * sum(t.nbytes for t in self.passing)


def blocks_of(left: tuple[int, ...], right: tuple[int, ...], lines: int, size: int,
              tiles: Sequence[int], target: Target) -> Blocks:
    """Return the cut for a number of lines in all: most rows that leave no unit of the device
    without a block and fit into shared memory; of these with two stages, before longer tiles."""
    rows = [r for r in ROWS if r == ROWS[-1] or lines >= r * UNITS[target.cpu]]
    options = [Blocks(left, right, r, tile, stages, size)
               for r in rows for stages in (2, 1) for tile in tiles]
    least = Blocks(left, right, ROWS[-1], tiles[-1], 1, size)
    return next((b for b in options if b.nbytes <= most_shared(target)), least)


class Elements(NestWriter):
    """Writes formulas at places of a tile."""

    def __init__(
        self, f: TensorCoreFunction, formulas: Formulas, target: Target, first: int
    ) -> None:
        roots = [e for e in (formulas.softmax_of, formulas.weigh, formulas.gradient) if e]
        nest = Nest("row", formulas.place[:2], [Phase(formulas.place[2:], [], [
            Reduce("sum", e, e) for e in roots])])
        super().__init__(f, nest, target, formulas.externals, first)
        self.variables = formulas.place
        self.scope = Scope(1, None, None, None)

    def at(self, matrix: X, query: X, key: X) -> None:
        """The element whose formulas are written next."""
        for variable, x in zip(self.variables, (matrix, query, key), strict=True):
            self.vars[variable] = self.widened(x.v)
        self.scope = Scope(1, None, None, None)

    def value(self, formula: Expr, leaves: Mapping[Expr, X]) -> X:
        """A formula there, by what its leaves are."""
        self.scope.memo.update((id(leaf), x.v) for leaf, x in leaves.items())
        return X(self.f, self._value(formula, self.scope))


class OnlineKernel(ABC):
    """The common part of kernels of online attention: tiles, products and places.

    Args:
        a: what is computed.
        blocks: how it is cut.
        lines: rows of a matrix that blocks keep.
        buffers: pointers before those of formulas.
        vectors: whether pointers are multiples of 16.
    """

    def __init__(self, a: Online, blocks: Blocks, lines: int, target: Target, vectors: bool,
                 buffers: int) -> None:
        f = self.f = TensorCoreFunction(target, buffers + len(a.formulas.externals), blocks.threads)
        self.a, self.blocks, self.lines, self.vectors = a, blocks, lines, vectors
        self.memory, self.size = memory_type(a.dtype), a.dtype.itemsize
        self.thread = X(f, f.thread())
        self.lane = self.thread & (WARP - 1)
        self.group, self.two = self.lane >> 2, (self.lane & 3) * 2
        self.top = (self.thread >> 5) * MATRIX_ROWS
        self.down = -(-lines // blocks.rows)
        block = X(f, f.block())
        self.matrix = block.op("udiv", self.down)
        self.first = block.op("urem", self.down) * blocks.rows
        self.kept = [f.shared_place(t.nbytes) for t in blocks.kept]
        self.stage_bytes = sum(t.nbytes for t in blocks.passing)
        self.ring = f.shared_place(blocks.stages * self.stage_bytes)
        self.elements = Elements(f, a.formulas, target, buffers)

    def code(self) -> KernelCode:
        """The kernel, written."""
        sums = self.write()
        if not self.f.emulated:  # unasked, ptxas aims at more blocks than there is room for
            most = REGISTERS // (self.blocks.threads * (sums + _OTHERS))
            several = max(1, min(most, most_shared(self.f.target) // self.f.shared))
            self.f.attributes += f' "nvvm.minctasm"="{several}"'
        return self.f.finished(self.a.matrices * self.down)

    @abstractmethod
    def write(self) -> int:
        """Write a block's work; return the number of a lane's sums."""

    # --- copies ---------------------------------------------------------------------------------

    def fetch(self, plane: Plane, pointer: int, tile: Tile, first: X, to: V) -> None:
        """Begin to copy rows from `first` on; zeros after the last."""
        f = self.f
        along = plane.column_stride == 1
        width = plane.width if self.vectors else 1
        each = tile.padded // width
        base = f.gep(f.pointer(pointer), spot(f, self.matrix, plane.batch).offset.v, self.memory)

        def one(at: X) -> None:
            line, start = (at.op("udiv", each), at.op("urem", each) * width) if along else (
                at.op("urem", tile.rows), at.op("udiv", tile.rows))
            row = first + line
            inside = row.cmp("ult", plane.rows) & start.cmp("ult", plane.columns)
            offset = row * plane.row_stride + start * plane.column_stride
            source = f.gep(base, inside.where(offset, 0).v, self.memory)
            f.copy_inside(inside.v, source, f.at(to, (line * tile.pitch + start * self.size).v),
                          width * self.size)

        self.strided(tile.rows * each, one)

    def strided(self, count: int, body: Callable[[X], None]) -> None:
        """Do something for each number, by all threads."""
        f, threads = self.f, self.blocks.threads
        if count % threads == 0 and count <= 8 * threads:
            for i in range(count // threads):
                body(self.thread + i * threads)
            return
        f.steps(self.thread, count, threads, lambda at, _: body(at))

    def passing(
        self, planes: Sequence[tuple[Plane, int]], first: X, end: X, carried: Sequence[V],
        body: Callable[[X, list[V], list[V]], list[V]],
    ) -> list[V]:
        """Let tiles pass by, from number `first` up to `end`.

        Args:
            planes: with the number of each's pointer.
            carried: by the loop.
            body: what is done with the first row of tiles, their places, and what is carried.
        """
        f, blocks = self.f, self.blocks
        places = [sum(t.nbytes for t in blocks.passing[:i]) for i in range(len(planes))]

        def fetch(step: X, stage: X) -> None:
            for (plane, pointer), tile, offset in zip(planes, blocks.passing, places, strict=True):
                self.fetch(plane, pointer, tile, step * blocks.tile,
                           f.at(self.ring, (stage + offset).v))
            f.commit_copies()

        def turn(step: X, held: list[V]) -> list[V]:
            stage = X(f, held[0])
            f.wait_copies(0)
            f.barrier()
            other = number(f, self.stage_bytes) - stage if blocks.stages > 1 else stage
            if blocks.stages > 1:
                fetch(step + 1, other)
            out = body(step * blocks.tile, [f.at(self.ring, (stage + offset).v)
                                            for offset in places], held[1:])
            if blocks.stages == 1:
                f.barrier()
                fetch(step + 1, other)
            return [other.v, *out]

        fetch(first, number(f, 0))
        out = f.steps(first, end, 1, turn, [number(f, 0).v, *carried])[1:]
        f.wait_copies(0)
        return out

    # --- products -------------------------------------------------------------------------------

    def scores(self, left: int, right: V, tile: Tile) -> list[V]:
        """Sums along the rows of a tile that is kept and one that passes by: of the warp's 16
        rows, of each eight columns four."""
        f, kept = self.f, self.blocks.kept[left]
        low, second, third = self.lane & 7, (self.lane >> 3) & 1, self.lane >> 4
        a_at = f.at(self.kept[left], ((self.top + low + second * 8) * kept.pitch + third * 16).v)
        b_at = f.at(right, ((low + third * 8) * tile.pitch + second * 16).v)
        total = [f.const("float", 0.0)] * (tile.rows // 2)
        for step in range(0, tile.padded * self.size, STEP_BYTES):
            a = self.rounded(f.ldmatrix(f.at(a_at, step)))
            for i in range(tile.rows // 16):
                b = self.rounded(f.ldmatrix(f.at(b_at, i * 16 * tile.pitch + step)))
                for j in (0, 1):
                    at = 8 * i + 4 * j
                    total[at:at + 4] = f.mma(kind_of(self.a.dtype), a, b[2 * j:2 * j + 2],
                                             total[at:at + 4])
        return total

    def rounded(self, words: Sequence[V]) -> list[V]:
        """Operands of an instruction; float32 as TF32."""
        return [self.f.tf32(w) for w in words] if self.size == 4 else list(words)

    def add_products(self, total: list[V], weights: Sequence[X], right: V, tile: Tile) -> list[V]:
        """Add the products of elements as `scores` gives them and the rows of a tile."""
        f, kind, total = self.f, kind_of(self.a.dtype), list(total)
        for step in range(len(weights) * self.size // 16):
            a, fragments = self._left(weights, step), self._right(step, right, tile)
            for i, b in enumerate(fragments):
                total[4 * i:4 * i + 4] = f.mma(kind, a, b, total[4 * i:4 * i + 4])
        return total

    def _left(self, weights: Sequence[X], step: int) -> list[V]:
        """The left operand of one instruction."""
        f = self.f
        if self.size == 4:
            words = [f.cast("bitcast", weights[4 * step + i].v, I32) for i in (0, 2, 1, 3)]
            return self.rounded(words)
        own = [to_memory(f, w.v, self.a.dtype) for w in weights[8 * step:8 * step + 8]]
        return [f.emit(I32, f"bitcast {f.pair(*own[i:i + 2])} to i32") for i in range(0, 8, 2)]

    def _right(self, step: int, right: V, tile: Tile) -> list[list[V]]:
        """The right operands of one instruction's rows, for each eight columns."""
        f = self.f
        if self.size == 4:
            at = f.at(right, ((self.two + 8 * step) * tile.pitch + self.group * 4).v)
            return [self.rounded([f.load(I32, f.pointer_at(f.at(at, 32 * i + half)))
                                  for half in (0, tile.pitch)]) for i in range(tile.padded // 8)]
        low, second, third = self.lane & 7, (self.lane >> 3) & 1, self.lane >> 4
        at = f.at(right, ((low + second * 8 + 16 * step) * tile.pitch + third * 16).v)
        found: list[list[V]] = []
        for i in range(tile.padded // 16):
            four = f.ldmatrix(f.at(at, 32 * i), True)
            found += [four[:2], four[2:]]
        return found

    # --- elements -------------------------------------------------------------------------------

    def row(self, half: int) -> X:
        """One of the lane's two rows of a matrix."""
        return self.first + self.top + self.group + 8 * half

    def each(self, start: X) -> Iterator[tuple[int, int, X]]:
        """The lane's elements of a tile as `scores` gives them: number, which of its rows, and
        column. Both of a column follow one another."""
        for i in range(self.blocks.tile // 4):
            column = start + self.two + (8 * (i // 2) + i % 2)
            for half in (0, 1):
                yield 4 * (i // 2) + 2 * half + i % 2, half, column

    def last_tile(self) -> X:
        """Behind the last tile of keys that one of the block's queries looks at."""
        f, a = self.f, self.a
        end = number(f, a.k.rows)
        if a.masked:
            last = self.first + (self.blocks.rows - 1 + a.formulas.seen)
            end = X(f, f.intrinsic("smin", "i32", last.v, end.v))
        return (end + (self.blocks.tile - 1)).op("udiv", self.blocks.tile)

    def clamped(self, index: X, count: int) -> X:
        """An index that is one of a matrix."""
        f = self.f
        return X(f, f.intrinsic("umin", "i32", index.v, number(f, count - 1).v))

    def inside(self, index: X, count: int, value: X, other: float = 0.0) -> X:
        """Return a value; after the last line that passes by, another one."""
        return index.cmp("slt", count).where(value, other) if count % self.blocks.tile else value

    def exponential(self, x: X) -> X:
        """e to the power of x: on a GPU by its approximation (2 units in the last place)."""
        f = self.f
        if f.emulated:
            return X(f, functions.emit(f, "exp", x.v))
        return X(f, f.asm("ex2.approx.ftz.f32 $0, $1;", "=f,f", (x * _LOG2_E).v, ret="float",
                          effect=False))

    def over_row(self, value: X, combine: Callable[[X, X], X]) -> X:
        """A value of four lanes that share rows, combined."""
        f = self.f
        for apart in (1, 2):
            value = combine(value, X(f, f.exchange(value.v, (self.lane ^ apart).v)))
        return value

    def store(self, total: Sequence[V], to: tuple[int, bool], columns: int,
              scale: Sequence[X] | None = None) -> None:
        """The warp's rows of a result.

        Args:
            total: sums, as `add_products` leaves them.
            to: the number of its pointer, and whether it lies the other way in memory.
            columns: of the result.
            scale: of both rows.
        """
        f, (pointer, turned) = self.f, to
        whole = self.vectors and columns % 2 == 0 and not turned
        base = f.gep(f.pointer(pointer), (self.matrix * (self.lines * columns)).v, self.memory)
        for half in (0, 1):
            row = self.row(half)
            with f.given(row.cmp("slt", self.lines)):
                for i in range(len(total) // 4):
                    own = [X(f, total[4 * i + 2 * half + j]) for j in (0, 1)]
                    own = [x * scale[half] for x in own] if scale else own
                    out = [to_memory(f, x.v, self.a.dtype) for x in own]
                    column = self.two + 8 * i
                    for j in range(1 if whole else 2):
                        at = (column + j) * self.lines + row if turned else (
                            row * columns + column + j)
                        with f.given((column + j).cmp("slt", columns)):
                            f.store(f.pair(*out) if whole else out[j],
                                    f.gep(base, at.v, self.memory),
                                    2 * self.size if whole else self.size)


class ForwardKernel(OnlineKernel):
    """Writes the forward kernel; its buffers are `q`, `k`, `v`, the result, and what is kept of
    each row (its largest score and one over its sum) if anything is."""

    def __init__(self, a: Online, blocks: Blocks, target: Target, vectors: bool) -> None:
        super().__init__(a, blocks, a.q.rows, target, vectors, 4 + a.keeps)

    def write(self) -> int:
        f, a = self.f, self.a
        self.fetch(a.q, 0, self.blocks.kept[0], self.first, self.kept[0])
        nothing, zero = f.const("float", -math.inf), f.const("float", 0.0)
        start = [nothing, nothing, zero, zero, *[zero] * (padded(a.v.columns) // 2)]
        out = self.passing([(a.k, 1), (a.v, 2)], number(f, 0), self.last_tile(), start, self.tile)
        largest, total = ([X(f, v) for v in out[i:i + 2]] for i in (0, 2))
        total = [self.over_row(t, lambda p, q: p + q) for t in total]
        scale = [t.const(1.0) / t for t in total]
        if a.keeps:
            self.keep(largest, scale)
        if a.formulas.drops:  # a row without keys that all are left out of has zeros
            scale = [t.cmp("oeq", 0.0).where(0.0, s) for t, s in zip(total, scale, strict=True)]
        self.store(out[4:], (3, False), a.v.columns, scale)
        return len(out) - 4

    def tile(self, start: X, places: list[V], carried: list[V]) -> list[V]:
        """Take in a tile of keys."""
        f = self.f
        keys, values = self.blocks.passing
        scores = self.softmax_of(start, self.scores(0, places[0], keys))
        largest, total = ([X(f, v) for v in carried[i:i + 2]] for i in (0, 2))
        weights: list[X] = [scores[0]] * len(scores)
        out = list(carried)
        for half in (0, 1):
            mine = [i for i in range(len(scores)) if i // 2 % 2 == half]
            now = self.largest(largest[half], [scores[i] for i in mine])
            # A row of nothing but -inf so far has no largest to measure by.
            base = now.cmp("oeq", -math.inf).where(0.0, now)
            factor = self.rescale(largest[half], base)
            for i in mine:
                weights[i] = self.exponential(scores[i] - base)
            added = total[half] * factor + _folded([weights[i] for i in mine], operator.add)
            out[half], out[2 + half] = now.v, added.v
            for i in range(4 + 2 * half, len(out), 4):
                out[i:i + 2] = [(X(f, v) * factor).v for v in out[i:i + 2]]
        return [*out[:4], *self.add_products(out[4:], self.weighed(start, weights), places[1],
                                             values)]

    def rescale(self, before: X, base: X) -> X:
        """The factor of what was summed up to now."""
        return self.exponential(before - base)

    def largest(self, before: X, scores: Sequence[X]) -> X:
        """The largest score of a row up to now."""
        def larger(p: X, q: X) -> X:
            return p.call("maxnum", q)

        return self.over_row(larger(before, _folded(scores, larger)), larger)

    def softmax_of(self, start: X, sums: Sequence[V]) -> list[X]:
        """Return the operand of the softmax; -inf after the last key."""
        f, a = self.f, self.a
        out = [X(f, v) for v in sums]
        for i, half, column in self.each(start):
            self.elements.at(self.matrix, self.clamped(self.row(half), a.q.rows),
                             self.clamped(column, a.k.rows))
            out[i] = self.elements.value(a.formulas.softmax_of, {SCORE: out[i]})
            out[i] = self.inside(column, a.k.rows, out[i], -math.inf)
        return out

    def weighed(self, start: X, weights: Sequence[X]) -> list[X]:
        """Return the weights that values are multiplied by."""
        a, out = self.a, list(weights)
        if a.formulas.weigh is not WEIGHT:
            for i, half, column in self.each(start):
                self.elements.at(self.matrix, self.clamped(self.row(half), a.q.rows),
                                 self.clamped(column, a.k.rows))
                out[i] = self.elements.value(a.formulas.weigh, {WEIGHT: out[i]})
        return out

    def keep(self, largest: Sequence[X], scale: Sequence[X]) -> None:
        """Store what the gradient needs of each row."""
        f = self.f
        for half in (0, 1):
            row = self.row(half)
            at = (self.matrix * self.lines + row) * 2
            with f.given(row.cmp("slt", self.lines) & self.two.cmp("eq", 0)):
                f.store(f.pair(largest[half].v, scale[half].v),
                        f.gep(f.pointer(4), at.v, "float"), 8)


def _folded(values: Sequence[X], combine: Callable[[X, X], X]) -> X:
    """Values combined by halves, so that few wait for one another."""
    held = list(values)
    while len(held) > 1:
        half = len(held) // 2
        held = [*map(combine, held[:half], held[half:2 * half]), *held[2 * half:]]
    return held[0]


def forward_kernel(a: Online, target: Target, vectors: bool) -> KernelCode:
    """The kernel of the result; see `ForwardKernel`.

    Args:
        vectors: whether pointers are multiples of 16.
    """
    columns = a.k.columns, a.v.columns
    tiles = (64, 32, 16) if padded(a.v.columns) <= 128 else (32, 16)
    blocks = blocks_of(columns[:1], columns, a.matrices * a.q.rows, a.dtype.itemsize, tiles, target)
    return ForwardKernel(a, blocks, target, vectors).code()
