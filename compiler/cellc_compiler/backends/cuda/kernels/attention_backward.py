"""The gradients of online attention: scores and weights are computed again, tile by tile.

    weights[i, j] = softmax of what follows from scores[i, j], by what is kept of row i
    dot[i, j] = sum over c of g[i, c] * v[j, c]
    row[i] = sum over c of g[i, c] * out[i, c]
    scores'[i, j] follows from weights[i, j], dot[i, j] and row[i]
    q'[i] = sum over j of scores'[i, j] * k[j]
    k'[j] = sum over i of scores'[i, j] * q[i],  v'[j] = sum over i of weights[i, j] * g[i]

where g is the gradient of the result. `row` is a nest of its own. A block of the first kernel keeps
queries, and keys pass by; a block of the second keeps keys, and queries pass by: every element is
the sum of one warp, in order. Where sums of `k'` and `v'` together do not fit into registers, a
kernel computes each. Source: Dao, "FlashAttention-2", 2023, algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.dtypes import DType, float32
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....loops.expr import Expr, cast, load
from ....loops.index import Index, Var
from ....loops.nest import Nest, Phase, Reduce, Store
from ...llvm.math.lanes import X
from ...llvm.text import V
from ..attention_formulas import DOT, ROW, SCORE, WEIGHT
from ..code import KernelCode
from ..nests import emit
from .attention_online import Blocks, Online, OnlineKernel, Plane, blocks_of, padded
from .operands import number

_MOST_SUMS = 256  # Columns of sums of a warp
_TILES = (32, 16)


@dataclass(frozen=True, slots=True)
class Gradient:
    """The parameters of an attention's gradients."""

    forward: Online  # the attention
    g: Plane  # the gradient of its result
    wanted: tuple[bool, bool, bool]  # of the queries, keys and values
    turned: tuple[bool, bool]  # whether those of the keys and values lie the other way in memory


def row_sums(rows: int, columns: int, dtype: DType, target: Target) -> KernelCode:
    """The kernel of `row`; its buffers are the gradient of the result, the result and `row`."""
    row, column = Var("row", rows), Var("column", columns)
    at = Index.of(row) * columns + Index.of(column)
    a, b = (cast(load(name, at, dtype), float32) for name in ("g", "out"))
    total = Expr("ref", (), float32)
    nest = Nest("row", (row,), [Phase((column,), [], [Reduce("sum", a * b, total)]),
                                Phase((), [Store("row", Index.of(row), total)])])
    return emit(nest, target)[0]


class BackwardKernel(OnlineKernel):
    """The common part of both kernels; buffers are `q`, `k`, `v`, `g`, the kept values of each row,
    `row`, and the results."""

    def __init__(self, a: Gradient, blocks: Blocks, lines: int, target: Target, vectors: bool,
                 results: int) -> None:
        super().__init__(a.forward, blocks, lines, target, vectors, 6 + results)
        self.g = a

    def stats(self, query: X) -> tuple[X, X, X]:
        """The largest score of a row, one over its sum, and `row`."""
        f = self.f
        at = self.matrix * self.a.q.rows + self.clamped(query, self.a.q.rows)
        two = f.load("<2 x float>", f.gep(f.pointer(4), (at * 2).v, "float"), 8)
        row = f.load("float", f.gep(f.pointer(5), at.v, "float"))
        return X(f, f.extract(two, 0)), X(f, f.extract(two, 1)), X(f, row)

    def weight(self, query: X, key: X, score: V, stats: Sequence[X]) -> X:
        """A weight, computed again; formulas are at its place from here on."""
        a = self.a
        self.elements.at(self.matrix, self.clamped(query, a.q.rows), self.clamped(key, a.k.rows))
        x = self.elements.value(a.formulas.softmax_of, {SCORE: X(self.f, score)})
        return self.exponential(x - stats[0]) * stats[1]

    def gradient(self, weight: X, dot: V, row: X) -> X:
        """The gradient of a score."""
        assert self.a.formulas.gradient is not None
        return self.elements.value(self.a.formulas.gradient, {
            WEIGHT: weight, DOT: X(self.f, dot), ROW: row})


class QueriesKernel(BackwardKernel):
    """Writes the kernel of the queries' gradient."""

    def write(self) -> int:
        f, a = self.f, self.a
        for i, (plane, pointer) in enumerate(((a.q, 0), (self.g.g, 3))):
            self.fetch(plane, pointer, self.blocks.kept[i], self.first, self.kept[i])
        self.own = [self.stats(self.row(half)) for half in (0, 1)]
        zeros = [f.const("float", 0.0)] * (padded(a.q.columns) // 2)
        total = self.passing([(a.k, 1), (a.v, 2)], number(f, 0), self.last_tile(), zeros, self.tile)
        self.store(total, (6, False), a.q.columns)
        return len(total)

    def tile(self, start: X, places: list[V], total: list[V]) -> list[V]:
        """Take in a tile of keys."""
        keys, values = self.blocks.passing
        scores, dots = self.scores(0, places[0], keys), self.scores(1, places[1], values)
        gradients = [X(self.f, v) for v in scores]
        for i, half, column in self.each(start):
            weight = self.weight(self.row(half), column, scores[i], self.own[half])
            made = self.gradient(weight, dots[i], self.own[half][2])
            gradients[i] = self.inside(column, self.a.k.rows, made)
        return self.add_products(total, gradients, places[0], keys)


class KeysKernel(BackwardKernel):
    """Writes the kernel of the keys' gradient, of the values', or of both.

    Args:
        wanted: which of the two.
    """

    def __init__(self, a: Gradient, blocks: Blocks, target: Target, vectors: bool,
                 wanted: tuple[bool, bool]) -> None:
        super().__init__(a, blocks, a.forward.k.rows, target, vectors, sum(wanted))
        self.wanted = wanted

    def write(self) -> int:
        f, a = self.f, self.a
        kept = [(a.k, 1), (a.v, 2)][:1 + self.wanted[0]]
        for i, (plane, pointer) in enumerate(kept):
            self.fetch(plane, pointer, self.blocks.kept[i], self.first, self.kept[i])
        columns = [a.k.columns * self.wanted[0], a.v.columns * self.wanted[1]]
        self.cut = padded(columns[0]) // 2
        zeros = [f.const("float", 0.0)] * (self.cut + padded(columns[1]) // 2)
        first = number(f, 0)
        if a.masked:  # queries before do not look at any of the keys
            query = self.first - (a.formulas.seen - 1)
            first = X(f, f.intrinsic("smax", "i32", query.v, number(f, 0).v)).op(
                "udiv", self.blocks.tile)
        last = number(f, -(-a.q.rows // self.blocks.tile))
        total = self.passing([(a.q, 0), (self.g.g, 3)], first, last, zeros, self.tile)
        parts = [total[:self.cut], total[self.cut:]]
        results = [i for i in (0, 1) if self.wanted[i]]
        for pointer, i in enumerate(results):
            self.store(parts[i], (6 + pointer, self.g.turned[i]), columns[i])
        return len(total)

    def tile(self, start: X, places: list[V], total: list[V]) -> list[V]:
        """Take in a tile of queries."""
        f, a = self.f, self.a
        queries, outputs = self.blocks.passing
        scores = self.scores(0, places[0], queries)
        dots = self.scores(1, places[1], outputs) if self.wanted[0] else scores
        weights, gradients = ([X(f, v) for v in scores] for _ in (0, 1))
        for i, half, column in self.each(start):
            if half == 0:
                own = self.stats(column)
            weight = self.weight(column, self.row(half), scores[i], own)
            if self.wanted[0]:
                made = self.gradient(weight, dots[i], own[2])
                gradients[i] = self.inside(column, a.q.rows, made)
            made = self.elements.value(a.formulas.weigh, {WEIGHT: weight})
            weights[i] = self.inside(column, a.q.rows, made)
        first, second = total[:self.cut], total[self.cut:]
        if self.wanted[0]:
            first = self.add_products(first, gradients, places[0], queries)
        if self.wanted[1]:
            second = self.add_products(second, weights, places[1], outputs)
        return [*first, *second]


def queries_kernel(a: Gradient, target: Target, vectors: bool) -> KernelCode:
    """The kernel of the queries' gradient; see `QueriesKernel`."""
    o = a.forward
    columns = o.q.columns, o.v.columns
    blocks = blocks_of(columns, columns, o.matrices * o.q.rows, o.dtype.itemsize, _TILES, target)
    return QueriesKernel(a, blocks, o.q.rows, target, vectors, 1).code()


def keys_kernels(a: Gradient) -> list[tuple[bool, bool]]:
    """Which of the gradients of keys and values each kernel computes."""
    both = a.wanted[1:]
    columns = padded(a.forward.k.columns) + padded(a.forward.v.columns)
    if all(both) and columns > _MOST_SUMS:
        return [(True, False), (False, True)]
    return [both] if any(both) else []


def keys_kernel(a: Gradient, wanted: tuple[bool, bool], target: Target, vectors: bool
                ) -> KernelCode:
    """One of `keys_kernels`; see `KeysKernel`."""
    o = a.forward
    columns = o.k.columns, o.v.columns
    blocks = blocks_of(columns[:1 + wanted[0]], columns, o.matrices * o.k.rows, o.dtype.itemsize,
                       _TILES, target)
    return KeysKernel(a, blocks, target, vectors, wanted).code()
