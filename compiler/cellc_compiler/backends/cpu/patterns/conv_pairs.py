"""Which convolutions are computed with the depthwise one that reads them.

A convolution over blocked images whose result (after its epilogue, with its border) only a
depthwise convolution reads: the two run as one kernel where the second stands, and what lies
between them is never in memory. An estimate of cycles decides. See
`kernels/blocked/pair.py` for how, and for why the bits stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....fusion.clusters import Cluster, Schedule
from ....fusion.readers import readers_of
from ....ir.graph import Graph, Node, Value, attrs_key
from ....loops.index import Index
from ....loops.nest import Nest, Phase, Store
from ....lower.graph_block import GraphBlock
from ....lower.lowered import ShownNest
from ....lower.machine import Match, Pattern
from ....lower.plan import KernelPlan, Step, epilogue_operand, operand, packed, result
from ....lower.precompute import prepacks
from ..nests.epilogue import OPERANDS_AT, BlockFused
from ..rules.blocked import problem
from .epilogues import Attached, signature

if TYPE_CHECKING:
    from ..kernels.blocked.tile import BlockConv
with lazy_imports(__name__):  # loads where a network has blocked convolutions
    from ..kernels.blocked import conv, pack
    from ..kernels.blocked import pair as pairs


@dataclass(frozen=True, slots=True)
class Stage:
    """A convolution as its cluster runs it."""

    node: Node  # the convolution
    cluster: Cluster  # what runs it: its own cluster, or that of its epilogue
    fused: BlockFused | None  # the epilogue
    result: Value  # what is stored

    @property
    def nodes(self) -> list[Node]:
        """All nodes that run with it."""
        return self.cluster.nodes if self.fused is None else [self.node, *self.cluster.nodes]

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that the epilogue reads."""
        return self.fused.operands if self.fused is not None else ()

    @property
    def problem(self) -> BlockConv:
        """The kernel family's description."""
        border = self.fused.border if self.fused is not None else (0, 0, 0, 0)
        return problem(self.node, border)

    @property
    def key(self) -> tuple[Any, ...] | None:
        """Return the facts that its code follows from; None where they cannot be compared."""
        fused = signature(self.fused) if self.fused is not None else ()
        if fused is None:
            return None
        return (tuple((v.type, prepacks(v)) for v in self.node.operands),
                attrs_key(self.node.attrs), self.result.type, fused)


@dataclass(frozen=True, slots=True)
class ConvPair(Match):
    """Two convolutions that run as one kernel."""

    first: Stage
    second: Stage
    plan: KernelPlan

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values of `in0`, `in1` and `in2` of the plan."""
        return (*self.first.node.operands, self.second.node.operands[1])

    @property
    def nodes(self) -> list[Node]:
        return [*self.first.nodes, *self.second.nodes]

    @property
    def absorbed(self) -> tuple[Node, ...]:
        return (self.first.cluster.nodes[0],)

    @property
    def instead_of(self) -> tuple[int, ...]:
        return (self.first.cluster.number,)


class PairPattern(Pattern[ConvPair]):
    """A convolution and the depthwise one that reads it."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def find(self, block: GraphBlock) -> dict[int, ConvPair]:
        epilogues = {number: match for number, (_, match) in block.matches.items()
                     if isinstance(match, Attached)}
        return find_pairs(block.graph, block.schedule, epilogues, self.target, block.low.plans)

    def emit(self, block: GraphBlock, match: ConvPair, cluster: Cluster) -> None:
        pair = match
        table = {operand(i): block.place(v) for i, v in enumerate(pair.operands)}
        table[result(0)] = block.new_place(pair.second.result, cluster, None)
        for i, v in enumerate((*pair.first.operands, *pair.second.operands)):
            table[epilogue_operand(i)] = block.place(v)
        label = "+".join(n.op for n in pair.nodes)
        nodes = tuple(pair.nodes)
        for stage in (pair.first, pair.second):
            if stage.fused is not None:
                store = Store(stage.result, Index.of(0), stage.fused.root)
                shown = Nest("row", (), [Phase((), [store])])
                block.low.nests.append(ShownNest(f"{label} (in the tile stores)", shown, nodes))
        block.run_plan(pair.plan, table, label, nodes, pair.operands)


def find_pairs(
    graph: Graph, schedule: Schedule, epilogues: dict[int, Attached], target: Target,
    plans: dict[Any, Any],
) -> dict[int, ConvPair]:
    """Number of the cluster that runs the second convolution -> the pair.

    Args:
        epilogues: those of the graph, by the number of the cluster that runs them.
        plans: kernels by their parts, kept by the caller.
    """
    stages = _stages(schedule, epilogues)
    if not any(_depthwise(n) for n in stages):
        return {}
    users, results = graph.users(), set(graph.results())
    home = {n: c for c in schedule.clusters for n in c.nodes}
    made = {s.result: s for s in stages.values()}
    found: dict[int, ConvPair] = {}
    for second in stages.values():
        first = made.get(second.node.operands[0])
        if first is None or not _depthwise(second.node) or first.result in results \
                or first.result in (second.node.operands[1], *second.operands) \
                or readers_of(users, schedule, home, first.result) != {home[second.node]}:
            continue
        plan = _plan(first, second, target, plans)
        if plan is not None:
            found[second.cluster.number] = ConvPair(first, second, plan)
    return found


def _depthwise(node: Node) -> bool:
    return 1 < int(node.attrs["groups"]) == node.operands[1].shape[0]


def _stages(schedule: Schedule, epilogues: dict[int, Attached]) -> dict[Node, Stage]:
    """The blocked convolutions of a graph."""
    stages: dict[Node, Stage] = {}
    clusters = {c.number: c for c in schedule.clusters}
    for number, attached in epilogues.items():
        if isinstance(attached.fused, BlockFused):
            stages[attached.contraction] = Stage(
                attached.contraction, clusters[number], attached.fused, attached.result)
    for cluster in schedule.clusters:
        node = cluster.nodes[0]
        if node.op == "conv2d_blocked" and node not in stages:
            stages[node] = Stage(node, cluster, None, node.result)
    return {n: s for n, s in stages.items() if n.op == "conv2d_blocked" and n.result.type.size}


def _plan(first: Stage, second: Stage, target: Target, plans: dict[Any, Any]) -> KernelPlan | None:
    """The kernels of a pair, if it is one and pays."""
    a, b = first.key, second.key
    key = ("pair", a, b)
    if a is not None and b is not None and key in plans:
        known: KernelPlan | None = plans[key]
        return known
    plan = None
    p, q = first.problem, second.problem
    if not p.opened and pairs.fits(p, q):
        pair = pairs.choose_pair(p, q, target)
        if pairs.pays(pair, target):
            plan = _kernels(pair, first, second, target)
    if a is not None and b is not None:
        plans[key] = plan
    return plan


def _kernels(pair: pairs.Pair, first: Stage, second: Stage, target: Target) -> KernelPlan:
    """Packing of both weights, and the kernel."""
    at = OPERANDS_AT + 1
    epilogues = (first.fused.emitter(target, at) if first.fused else None,
                 second.fused.emitter(target, at + len(first.operands)) if second.fused else None)
    extra = [*first.operands, *second.operands]
    kernel = pairs.pair_kernel(pair, target, epilogues, len(extra))
    steps, scratch, packing = [], {}, {}
    for i, (p, tile, stage) in enumerate(((pair.first, pair.tile, first),
                                          (pair.second, pair.row, second)), 1):
        role, given = packed(f"w{i}"), stage.node.operands[1].dtype
        steps.append(Step(pack.pack_kernel(p, tile.ov, given, target), (operand(i), role)))
        scratch[role] = conv.packed_bytes(p)
        packing.update(conv.packing(p, tile.ov, given, role))
    roles = (operand(0), packed("w1"), packed("w2"), result(0))
    steps.append(Step(kernel, (*roles, *map(epilogue_operand, range(len(extra))))))
    return KernelPlan(tuple(steps), scratch, packing)
