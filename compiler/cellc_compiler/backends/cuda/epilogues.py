"""Elementwise work on the result of a product, done where its tiles are stored.

The loop nest that is the only reader of a product (a bias, an activation, a residual) is computed
on the sums in registers: its index is found from the place of an element, its other operands are
read as they would be, and what it stores is stored. The product itself is never in memory. Sums are
rounded to its type before, so the bits are those of the separate nest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ...fusion.clusters import Cluster
from ...fusion.readers import lone_readers
from ...ir.graph import Node, Value
from ...ir.types import prod
from ...loops.expr import Expr
from ...loops.index import Index, ravel
from ...loops.nest import Nest, walk
from ...lower.graph_block import GraphBlock, plan_key
from ...lower.machine import Match, Pattern
from ...lower.nest_cache import ClusterNest, InPlaceRule
from ...lower.plan import epilogue_operand, operand
from ..llvm import scalar
from ..llvm.convert import round_to
from ..llvm.expressions import Scope
from ..llvm.math.lanes import X
from ..llvm.text import V, lanes_of
from .kernels.product import Finish
from .nests import buffers_of
from .nests.elements import is_flat, space_of
from .nests.kernel import NestWriter
from .rules.table import TILES, Fusable
from .writer import GpuFunction

_MOST_CYCLES = 96.0
"""Estimated cycles of an element at most: the code is there for each vector of sums of a thread."""


@dataclass(frozen=True, slots=True)
class NestEpilogue:
    """A nest over the elements of a product."""

    nest: Nest  # what is done
    source: Value  # the value in it that is the product
    target: Target

    @property
    def values(self) -> list[Any]:
        """Return the values that it reads and stores."""
        return [b for b in buffers_of(self.nest) if b is not self.source]

    @property
    def buffers(self) -> int:
        """See `Epilogue`."""
        return len(self.values)

    def begin(self, f: GpuFunction, first: int) -> Finish:
        """See `Epilogue`."""
        return _OnSums(f, self, first).put


class _OnSums(NestWriter):
    """Writes elements of a nest for sums."""

    def __init__(self, f: GpuFunction, epilogue: NestEpilogue, first: int) -> None:
        super().__init__(f, epilogue.nest, epilogue.target, epilogue.values, first)
        self.source = epilogue.source
        self.sums = V("", "")

    def put(self, value: V, at: X) -> None:
        """One sum, or those of a vector; vectors stay if the last axis is made of such."""
        space, lanes = space_of(self.nest), lanes_of(value.ty)
        whole = lanes == 1 or (bool(space) and space[-1].extent % lanes == 0)
        for lane in range(1 if whole else lanes):
            self.sums = round_to(self.f, value if whole else self.f.extract(value, lane),
                                 self.source.dtype)
            self.place(space, (at + lane).v)
            last = space[-1] if whole and lanes > 1 else None
            self.elements(Scope(lanes if whole else 1, last, None, None))

    def _load(self, e: Expr, scope: Scope) -> V:
        return self.sums if e.payload.buffer is self.source else super()._load(e, scope)


@dataclass(frozen=True, slots=True)
class Attached(Match):
    """A cluster that is computed on the sums of a product; see `Match`."""

    product: Node
    reader: Cluster
    tiled: Fusable
    nest: ClusterNest
    stored: tuple[Value, ...]

    @property
    def nodes(self) -> list[Node]:
        return [*self.reader.nodes, self.product]

    @property
    def absorbed(self) -> tuple[Node, ...]:
        return (self.product,)


@dataclass(frozen=True, slots=True)
class _InTiles:
    """The in-place test: a value that the product itself reads may not be overwritten."""

    nest: ClusterNest
    read: Collection[Value]

    def same_element(self, old: Value, new: Value) -> bool:
        """See `InPlaceRule`."""
        return old not in self.read and self.nest.same_element(old, new)


class EpiloguePattern(Pattern[Attached]):
    """Nests that are computed where the only thing that they wait for is stored."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def find(self, block: GraphBlock) -> dict[int, Attached]:
        found: dict[int, Attached] = {}

        def taken(cluster: Cluster) -> bool:
            return cluster.number in block.matches or cluster.nodes[0] in block.absorbed

        for cluster, reader in lone_readers(
                block.graph, block.schedule, lambda n: TILES.find(n.op) is not None):
            node, rule = cluster.nodes[0], TILES.find(cluster.nodes[0].op)
            if rule is None or reader.number in found or reader.domain is None or taken(
                    cluster) or taken(reader):
                continue
            tiled = rule(node, self.target)
            attached = _attach(block, node, reader, tiled) if tiled is not None else None
            if attached is not None:
                found[reader.number] = attached
        return found

    def emit(self, block: GraphBlock, match: Attached, cluster: Cluster) -> None:
        node, nest = match.product, match.nest
        own = dict(zip(nest.cached.values, nest.values, strict=True))
        source = next(v for v, mine in own.items() if mine is node.result)
        epilogue = NestEpilogue(nest.cached.nest, source, self.target)
        roles = [epilogue_operand(i) for i in range(epilogue.buffers)]
        # A nest of the cache is the same for all clusters like this one.
        key = (*plan_key(node), "epilogue", id(nest.cached), nest.cached.values.index(source))
        plan = block.low.plans.get(key)
        if plan is None:
            plan = block.low.plans[key] = match.tiled.plan(self.target, roles, epilogue)
        rule: InPlaceRule = _InTiles(nest, block.reads(node))
        for value in match.stored:
            block.new_place(value, cluster, rule)
        table = {operand(i): block.place(v) for i, v in enumerate(node.operands)}
        table.update(zip(roles, (block.place(own[v]) for v in epilogue.values), strict=True))
        label = "+".join([node.op, *(n.op for n in cluster.nodes)])
        block.low.nests.append(nest.shown(f"{label} (in the tile stores)", match.nodes))
        block.run_plan(plan, table, label, (node, *cluster.nodes), node.operands)


def _attach(block: GraphBlock, node: Node, reader: Cluster, tiled: Fusable) -> Attached | None:
    """The cluster as an epilogue, if it is one."""
    stored = [r for n in reader.nodes for r in n.results if r in block.schedule.stored]
    if not stored or not node.result.type.size:
        return None
    nest = block.cluster_nest(reader, set(stored))
    numbers = dict(zip(nest.values, nest.cached.values, strict=True))
    source = numbers.get(node.result)
    if source is None or not _on_elements(nest.cached.nest, source):
        return None
    return Attached(node, reader, tiled, nest, tuple(stored))


def _on_elements(nest: Nest, source: Value) -> bool:
    """Whether a nest computes each of its elements from that of a value at the same place."""
    if not is_flat(nest):
        return False
    space = space_of(nest)
    shape = [v.extent for v in space]
    own = ravel(tuple(Index.of(v) for v in space), tuple(shape))
    if prod(shape) != source.type.size:
        return False
    work = [e for e in walk(list(nest.roots())) if e.op != "load"]
    loads = [e for e in walk(list(nest.roots())) if e.op == "load" and e.payload.buffer is source]
    return bool(loads) and sum(map(scalar.cycles, work)) <= _MOST_CYCLES and all(
        not e.args and e.payload.part is None and e.payload.offset == own for e in loads
    ) and not any(s.adds or s.buffer is source for p in nest.phases for s in p.stores)
