"""Which products and row nests a back end may compute as one attention kernel.

A matmul whose result only a row nest reads (scale, mask, softmax), and a matmul that multiplies
what the nest stores: the three run as one kernel, a block of rows at a time, where the second
product stands. The scores are then never in memory, the weights only if something else reads
them (the gradient does). The kernels are the back end's (`AttentionPattern.kernels`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import Any

from cellc_runtime.records import dataclass

from ..fusion.clusters import Cluster, Schedule
from ..ir.graph import Node, Value
from ..ir.types import prod
from ..loops.expr import Expr
from ..loops.index import Index, Var
from ..loops.nest import Nest, walk
from ..lower.graph_block import GraphBlock, plan_key
from ..lower.lowered import ShownNest
from ..lower.machine import Match, Pattern
from ..lower.plan import KernelPlan, nest_operand, operand, result


@dataclass(frozen=True, slots=True)
class AttentionParts:
    """The source of a back end's kernels."""

    # scores, mix: the products
    scores: Node
    nest: Nest  # the row nest between them; it reads `source` and stores `weights`, row by row
    mix: Node
    source: Value  # the scores, as the nest's loads name them
    weights: Value  # the value the nest's store names, the left operand of `mix`
    local: bool  # whether nothing else reads the weights
    # the values of this attention, by the names that the nest has for them
    own: Mapping[Value, Value]

    def is_inside(self, buffer: Any) -> bool:
        """Whether a buffer of the nest need not be in memory."""
        return buffer is self.source or (self.local and buffer is self.weights)


Kernels = tuple[KernelPlan, list[Any]]
"""The kernels of an attention, and the values that the nest's operands are."""


@dataclass(frozen=True, slots=True)
class Attention(Match):
    """An attention kernel."""

    scores: Node  # the first product
    softmax: Cluster  # the cluster between the products
    mix: Node  # the second product
    nest: Nest  # the loops of `softmax`
    stored: tuple[Value, ...]  # values the kernel writes to memory besides the result of `mix`
    plan: KernelPlan  # its kernels; the roles `nest0`, ... stand for `operands`.
    operands: tuple[Any, ...]

    @property
    def nodes(self) -> list[Node]:
        return [self.mix, self.scores, *self.softmax.nodes]

    @property
    def absorbed(self) -> tuple[Node, ...]:
        return self.scores, self.softmax.nodes[0]


class AttentionPattern(Pattern[Attention]):
    """Two products and the rows between them as one kernel.

    Attributes:
        reads_itself: whether the nest may store a value that it also reads.
    """

    reads_itself = False

    @abstractmethod
    def kernels(self, parts: AttentionParts, memo: dict[Any, Any]) -> Kernels | None:
        """The kernels, or None if separate kernels are better. Their roles: 0 and 1 are the
        operands of the scores, 2 the values, then the operands of the nest and the result. `memo`
        keeps kernels."""

    def facts(self, parts: AttentionParts, memo: dict[Any, Any]) -> Hashable:
        """Return further facts that the kernels depend on, besides types and attributes."""
        return None

    def find(self, block: GraphBlock) -> dict[int, Attention]:
        return AttentionFinder(block, self).find()

    def emit(self, block: GraphBlock, match: Attention, cluster: Cluster) -> None:
        whole = match
        operands = (*whole.scores.operands, whole.mix.operands[1])
        table = {operand(i): block.place(v) for i, v in enumerate(operands)}
        for value in whole.stored:
            block.new_place(value, cluster, None)
        table[result(0)] = block.new_place(whole.mix.result, cluster, None)
        for i, v in enumerate(whole.operands):
            table[nest_operand(i)] = block.place(v)
        label = "+".join(["matmul", *(n.op for n in whole.softmax.nodes), "matmul"])
        nodes = (whole.scores, *whole.softmax.nodes, whole.mix)
        block.low.nests.append(ShownNest(f"{label} (by rows)", whole.nest, nodes))
        block.run_plan(whole.plan, table, label, nodes, operands)


def stored_by(schedule: Schedule, cluster: Cluster) -> list[Value]:
    """The values that a cluster writes to memory."""
    return [r for n in cluster.nodes for r in n.results if r in schedule.stored]


class ProductFinder:
    """Looks for products around row nests in the schedule of one graph.

    Args:
        block: the graph being lowered, and its schedule.
    """

    def __init__(self, block: GraphBlock) -> None:
        graph, schedule = block.graph, block.schedule
        self.schedule, self.busy = schedule, block.absorbed
        self.users = graph.users()
        self.results = set(graph.results())
        self.home = {n: c for c in schedule.clusters for n in c.nodes}
        self.position = {c.number: i for i, c in enumerate(schedule.clusters)}

    def stored(self, cluster: Cluster) -> list[Value]:
        """See `stored_by`."""
        return stored_by(self.schedule, cluster)

    def is_product(self, node: Node | None) -> bool:
        """Whether a node is a product of floats that nothing else runs with."""
        return (node is not None and node.op == "matmul" and node not in self.busy
                and node in self.home and node.result.dtype.is_float
                and not node.attrs["transpose_a"])

    def products(self, weights: Value) -> list[Node]:
        """Products whose left operand is `weights`, possibly reshaped."""
        return [n for v in self.same_memory(weights) for n in self.users.get(v, ())
                if self.is_product(n) and n.operands[0] is v
                and self.schedule.root(n.operands[1]) is not weights]

    def same_memory(self, value: Value) -> list[Value]:
        """The value and what shares its buffer."""
        found = [value]
        for v in found:
            found += [n.result for n in self.users.get(v, ())
                      if len(n.results) == 1 and n.result in self.schedule.alias]
        return found

    def readers(self, value: Value) -> set[int | None]:
        """Positions of the clusters that read a value's buffer; None for a result or region."""
        out: set[int | None] = set()
        stack = self.same_memory(value)
        out.update(None for v in stack if v in self.results)
        while stack:
            for node in self.users.get(stack.pop(), ()):
                if node.results and node.results[0] in self.schedule.inline:
                    stack.append(node.results[0])
                    out.update([None] if node.results[0] in self.results else [])
                elif node in self.home:
                    out.add(None if node.regions else self.position[self.home[node].number])
                elif node.results and node.results[0] not in self.schedule.alias:
                    out.add(None)
        return out

    def scores(self, softmax: Cluster, weights: Value) -> list[Node]:
        """The products that only this cluster reads, of as many rows and columns."""
        here = self.position[softmax.number]
        sources: dict[Value, None] = {}
        stack = [v for n in softmax.nodes for v in n.operands]
        while stack:
            v = self.schedule.root(stack.pop())
            if v in self.schedule.inline and v.node is not None:
                stack.extend(v.node.operands)
            else:
                sources.setdefault(v)
        return [v.node for v in sources
                if v.node is not None and self.is_product(v.node) and v.dtype == weights.dtype
                and v.type.size == weights.type.size > 0
                and v.shape[-1] == weights.shape[-1] and self.readers(v) == {here}]


class AttentionFinder(ProductFinder):
    """Looks for attention in the schedule of one graph.

    Args:
        block: the graph being lowered, and its schedule.
        pattern: what makes kernels.
    """

    def __init__(self, block: GraphBlock, pattern: AttentionPattern) -> None:
        super().__init__(block)
        self.nest_of, self.pattern, self.memo = block.cluster_nest, pattern, block.low.memo

    def find(self) -> dict[int, Attention]:
        """Number of the second product's cluster -> attention. Of a chain of three products and
        the rows between them, the product in the middle belongs to the first attention."""
        found: dict[int, Attention] = {}
        taken: set[Node] = set()
        for cluster in self.schedule.clusters:
            if cluster.domain is not None and cluster.domain.axes:
                attention = self._around(cluster)
                if attention is not None and taken.isdisjoint((attention.scores, attention.mix)):
                    found[self.home[attention.mix].number] = attention
                    taken.update((attention.scores, attention.mix))
        return found

    def _around(self, softmax: Cluster) -> Attention | None:
        """The attention whose softmax is this cluster."""
        stored = self.stored(softmax)
        for weights in stored:
            for mix in self.products(weights):
                scores = self.scores(softmax, weights)
                if scores and self._in_order(softmax, stored, mix):
                    return self._fused(scores[0], softmax, mix, weights, stored)
        return None

    def _in_order(self, softmax: Cluster, stored: list[Value], mix: Node) -> bool:
        """Whether others read what the nest stores only after the second product begins."""
        at = self.position[self.home[mix].number]
        own = self.position[softmax.number] if self.pattern.reads_itself else at
        return all(p is None or p == own or p >= at for v in stored for p in self.readers(v))

    def _fused(
        self, scores: Node, softmax: Cluster, mix: Node, weights: Value, stored: list[Value]
    ) -> Attention | None:
        nest = self.nest_of(softmax, set(stored))
        at = self.position[self.home[mix].number]
        readers = self.readers(weights)
        local = readers == {at} and mix.operands.count(mix.operands[0]) == 1
        like = dict(zip(nest.values, nest.cached.values, strict=True))
        own = dict(zip(nest.cached.values, nest.values, strict=True))
        parts = AttentionParts(scores, nest.cached.nest, mix, like[scores.result], like[weights],
                               local, own)
        key = "attention", nest.cached, plan_key(scores), plan_key(mix), parts.source, \
            parts.weights, local, self.pattern.facts(
                parts, self.memo)
        if key not in self.memo:
            row_wise = _is_row_wise(parts.nest, parts.source, parts.weights, local)
            self.memo[key] = self.pattern.kernels(parts, self.memo) if row_wise else None
        made: Kernels | None = self.memo[key]
        if made is None:
            return None
        kept = tuple(v for v in stored if not (local and v is weights))
        return Attention(scores, softmax, mix, parts.nest, kept, made[0],
                         tuple([own[v] for v in made[1]]))


def _is_row_wise(nest: Nest, source: Value, weights: Value, local: bool) -> bool:
    """Whether row r of the nest reads row r of the scores and writes row r of the weights, each
    element where it is read, so that both may share one block of memory."""
    columns = weights.shape[-1]
    if nest.mode != "row" or nest.block \
            or prod(v.extent for v in nest.rows) * columns != weights.type.size:
        return False
    row, step = Index.of(0), columns
    for v in reversed(nest.rows):
        row, step = row + Index.of(v) * step, step * v.extent
    last = nest.phases[-1]
    for phase in nest.phases:
        loads = [e for e in walk([*(s.value for s in phase.stores),
                                  *(r.value for r in phase.reduces)])
                 if e.op == "load" and e.payload.buffer is source]
        stores = [s for s in phase.stores if s.buffer is weights]
        if not loads and not stores:
            continue
        if len(phase.loops) != 1 or phase.loops[0].extent != columns:
            return False
        at = row + Index.of(phase.loops[0])
        if not all(_plain(e, at) for e in loads):
            return False
        if not all(_same(s.offset, at) and s.part is None for s in stores):
            return False
        if local and stores and phase is not last:
            return False
    return True


def _plain(e: Expr, at: Index) -> bool:
    return not e.args and e.payload.part is None and _same(e.payload.offset, at)


def _same(a: Index, b: Index) -> bool:
    return a.const == b.const and dict(a.terms) == dict(b.terms) \
        and all(isinstance(atom, Var) for atom, _ in a.terms)
