"""Which clusters become epilogues of contractions.

A nest that has no reduction, stores values of the contraction's own type (one, but for matrix
products, of which those of 16-bit floats may store other floats too), and is the only reader of
its result goes into the contraction's tile stores.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

from cellc_runtime.records import dataclass
from cellc_runtime.target import Target

from ....fusion.clusters import Cluster, Schedule
from ....fusion.readers import lone_readers
from ....ir.dims import estimate
from ....ir.graph import Graph, Node, Value
from ....ir.op import lookup
from ....ir.types import prod
from ....loops.build import Domain, Incompatible, NestBuilder
from ....loops.expr import Expr
from ....loops.index import Index, ravel, unravel
from ....loops.nest import Nest, Phase, Store, walk
from ....lower.graph_block import GraphBlock, plan_key, resolve
from ....lower.lowered import ShownNest
from ....lower.machine import Match, Pattern
from ....lower.nest_cache import cluster_key
from ....lower.plan import epilogue_operand, operand, result
from ....lower.precompute import prepacks
from ..nests.epilogue import BlockFused, Fused, classify, classify_blocked
from ..rules.table import WITH_EPILOGUE

_AXES = {"matmul": (-1, True), "conv2d": (1, False), "winograd_output": (1, False)}
"""Op -> the axis whose position its kernels know, and whether lanes run along it."""
_MOST_RESULTS = 2
"""Results of a product's epilogue at most: a tile writes short runs, far apart, of each."""
_MOST_UPDATES = 4
"""The same of results that replace what is read: a weight with the moments of an optimizer."""
_SHORT = 256
"""Steps of a product up to which an update is worth making in its tile stores: in longer ones it
is a small part, and a pass of its own reads and writes longer runs."""
_BLOCKED_CONVOLUTIONS = ("conv2d_blocked", "small_conv2d_blocked")
_BLOCKED = (*_BLOCKED_CONVOLUTIONS, "max_pool2d_blocked", "avg_pool2d_blocked", "to_blocked",
            "regroup_blocked")


@dataclass(frozen=True, slots=True)
class Attached(Match):
    """An epilogue with the contraction it belongs to, the cluster it is, and the values that are
    computed."""

    contraction: Node
    reader: Cluster
    fused: Fused | BlockFused
    results: tuple[Value, ...]

    @property
    def result(self) -> Value:
        """The value that is stored where the contraction's would be."""
        return self.results[0]

    @property
    def nodes(self) -> list[Node]:
        return [*self.reader.nodes, self.contraction]

    @property
    def absorbed(self) -> tuple[Node, ...]:
        return (self.contraction,)


@dataclass(frozen=True, slots=True)
class InTiles:
    """The elementwise access of an epilogue, for the question whether it may work in place."""

    fused: Fused
    read: Collection[Value]  # values with buffers that the contraction itself reads

    def same_element(self, old: Value, new: Value) -> bool:
        """Whether the kernel reads `old` only at the element where it writes `new`."""
        return old not in self.read and self.fused.elementwise(old)


class EpiloguePattern(Pattern[Attached]):
    """Work on a contraction's result that is done in its tile stores."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def find(self, block: GraphBlock) -> dict[int, Attached]:
        return find_epilogues(block.graph, block.schedule)

    def emit(self, block: GraphBlock, match: Attached, cluster: Cluster) -> None:
        attached = match
        node = attached.contraction
        rule = WITH_EPILOGUE.find(node.op)
        assert rule is not None
        fused = signature(attached.fused)
        key = (*plan_key(node), attached.result.type, fused)
        plan = block.low.plans.get(key) if fused is not None else None
        if plan is None:
            plan = rule(node, self.target, attached.fused)
            if fused is not None:
                block.low.plans[key] = plan
        table = {operand(i): block.place(v) for i, v in enumerate(node.operands)}
        tiles = InTiles(attached.fused, block.reads(node)) \
            if isinstance(attached.fused, Fused) and attached.fused.replaces else None
        places = [block.new_place(v, cluster, tiles) for v in attached.results]
        table[result(0)] = places[0]
        extra = [*(block.place(v) for v in attached.fused.operands), *places[1:]]
        table.update((epilogue_operand(i), p) for i, p in enumerate(extra))
        label = "+".join([node.op, *(n.op for n in cluster.nodes)])
        stores = [Store(v, Index.of(0), e)
                  for v, e in zip(attached.results, attached.fused.roots, strict=True)]
        shown = Nest("row", (), [Phase((), stores)])
        nodes = (node, *cluster.nodes)
        block.low.nests.append(ShownNest(f"{label} (in the tile stores)", shown, nodes))
        block.run_plan(plan, table, label, nodes, node.operands)


def find_epilogues(graph: Graph, schedule: Schedule) -> dict[int, Attached]:
    """Cluster number -> epilogue; the contraction's own cluster is then not run by itself."""
    updated = {new for _, new in graph.updates}
    found: dict[int, Attached] = {}
    made: dict[Hashable, tuple[Fused | None, tuple[Value, ...]]] = {}
    for cluster, reader in lone_readers(
            graph, schedule, lambda n: n.op in _AXES or n.op in _BLOCKED):
        node = cluster.nodes[0]
        if node.op in _BLOCKED:
            attached = _attach_blocked(node, reader, schedule)
        else:
            attached = _attach(node, reader, schedule, updated, made)
        if attached is not None and reader.number not in found:
            found[reader.number] = attached
    return found


def _attach(
    node: Node, reader: Cluster, schedule: Schedule, updated: Collection[Value],
    made: dict[Hashable, tuple[Fused | None, tuple[Value, ...]]],
) -> Attached | None:
    """The cluster as an epilogue, or None; `made` keeps those of clusters alike, on the values of
    the first of them."""
    source = node.result
    stored = [r for n in reader.nodes for r in n.results if r in schedule.stored]
    replaces = node.op == "matmul" and any(v in updated for v in stored)
    usable = (
        reader.domain is not None and not reader.domain.accumulate
        and 1 <= len(stored) <= _most_results(node, replaces)
        and all(_storable(node, v) for v in stored) and source.dtype.is_float
        and source.type.size != 0
        and not any(lookup(n.op).reduction for n in reader.nodes)
        and (node.op != "matmul" or source.shape[-1] != 1)
    )
    if not usable:
        return None
    key, values = cluster_key(reader, schedule, set(stored))
    key = node.op, key, values.index(source), replaces
    if key not in made:
        made[key] = _fused(node, reader, stored, schedule, replaces), values
    fused, like = made[key]
    if fused is None:
        return None
    own = fused.on(dict(zip(like, values, strict=True)))
    return Attached(node, reader, own, tuple(stored))


def _fused(
    node: Node, reader: Cluster, stored: list[Value], schedule: Schedule, replaces: bool
) -> Fused | None:
    """Return a storing cluster's computation in the tile stores of a contraction."""
    source = node.result
    roots = _roots(reader, stored, schedule)
    if roots is None:
        return None
    assert reader.domain is not None
    full = _place(reader.domain, source)
    if full is None or any(_place(reader.domain, v) is None for v in stored):
        return None
    axis, along = _AXES[node.op]
    return classify(roots, source, full, axis % source.type.rank, along, replaces)


def _storable(node: Node, value: Value) -> bool:
    """Whether the tile stores of a contraction may store a value of this type."""
    source = node.result.dtype
    narrow = node.op == "matmul" and source.itemsize == 2
    return value.dtype is source or (narrow and value.dtype.is_float and value.dtype.itemsize <= 4)


def _most_results(node: Node, replaces: bool) -> int:
    """How many results an epilogue of the node may have."""
    if node.op != "matmul":
        return 1
    if not replaces:
        return _MOST_RESULTS
    x, transposed = node.operands[0].type, node.attrs["transpose_a"]
    return _MOST_UPDATES if estimate(x.dims[-2 if transposed else -1]) <= _SHORT else 0


def _place(domain: Domain, value: Value) -> tuple[Index, ...] | None:
    """The index of a value of as many elements as the domain, in the same order; else None."""
    builder = NestBuilder(domain, (), set())
    if value.type.size != prod(domain.shape):
        return None
    return builder.canonical(value.shape) or unravel(ravel(builder.full, domain.shape), value.shape)


def _roots(reader: Cluster, stored: list[Value], schedule: Schedule) -> tuple[Expr, ...] | None:
    """Return the stores of a nest as expressions; None if the nest has another form."""
    assert reader.domain is not None
    builder = NestBuilder(reader.domain, reader.nodes, schedule.inline)
    roots: list[Expr] = []
    try:
        for n in reader.nodes:
            builder.member(n)
        for v in stored:
            root = builder.member(v.node)[v.index] if v.node else None
            if not isinstance(root, Expr):
                return None
            roots.append(root)
    except Incompatible:
        return None
    resolve(roots, schedule)
    return tuple(roots)


def _attach_blocked(node: Node, reader: Cluster, schedule: Schedule) -> Attached | None:
    """As `_attach`, for an op on blocked images; a `pad` of rows and columns at the end becomes
    the border that its kernel writes."""
    source = node.result
    stored = [r for n in reader.nodes for r in n.results if r in schedule.stored]
    if reader.domain is None or reader.domain.accumulate or len(stored) != 1:
        return None
    if node.op == "to_blocked" and not node.attrs["last"]:
        return None  # rows of the result follow each other there
    (result,) = stored
    last = result.node
    border = _border(last) if last is not None and result.type != source.type else (0, 0, 0, 0)
    value = result if border == (0, 0, 0, 0) else last.operands[0] if border and last else None
    if value is None or border is None or value.type != source.type or source.type.size == 0:
        return None
    if any(lookup(n.op).reduction for n in reader.nodes):
        return None
    members = [n for n in reader.nodes if n is not last or value is result]
    builder = NestBuilder(Domain(source.shape), members, schedule.inline)
    try:
        root = builder.read(value, builder.full, None)
    except Incompatible:
        return None
    if not isinstance(root, Expr):
        return None
    resolve([root], schedule)
    fused = classify_blocked(root, source, builder.full, border)
    if fused is None or (node.op not in _BLOCKED_CONVOLUTIONS and not fused.bare):
        return None  # a pool writes a border, and computes nothing more
    return Attached(node, reader, fused, (result,))


def _border(node: Node) -> tuple[int, int, int, int] | None:
    """The zeros a node pads around the rows and columns of a blocked image."""
    if node.op != "pad" or node.attrs["interior"] is not None or node.attrs["value"] != 0:
        return None
    low, high = node.attrs["low"], node.attrs["high"]
    if len(low) != 5 or min(*low, *high) < 0 or any(low[i] or high[i] for i in (0, 1, 4)):
        return None
    return low[2], high[2], low[3], high[3]


def signature(fused: Fused | BlockFused) -> tuple[Any, ...] | None:
    """Return the computation of an epilogue and its addressing: equal ones have equal code.

    None where that cannot be compared: for a load at a position known at run time, say.
    """
    number: dict[int, int] = {}
    rows: list[tuple[Any, ...]] = []
    for e in walk(fused.roots):
        number[id(e)] = len(rows)
        about: Any = e.payload
        if e.op == "load":
            here = e.payload.buffer is fused.source
            about = (-1 if here else fused.operands.index(e.payload.buffer), e.payload.offset,
                     e.payload.part, _addressed(fused, e))
        elif isinstance(about, float):
            about = about.hex()  # tells -0.0 from 0.0
        rows.append((e.op, e.dtype.name, tuple(number[id(a)] for a in e.args), type(e.payload),
                     about))
    operands = tuple((v.type, prepacks(v)) for v in fused.operands)
    shape = ((fused.border,) if isinstance(fused, BlockFused)
             else (fused.axis, fused.lanes_along_axis, fused.replaces))
    stored = tuple(number[id(e)] for e in fused.roots)
    found = (type(fused), tuple(rows), stored, fused.source.type, operands, shape)
    try:
        hash(found)
    except TypeError:
        return None
    return found


def _addressed(fused: Fused | BlockFused, e: Expr) -> object:
    return fused.loads.get(id(e)) if isinstance(fused, BlockFused) else fused.kinds.get(id(e))
