"""The part of a graph that depends on its parameters alone, taken out of every call.

An inference graph spends part of each call on values that depend on parameters it never writes:
the scale of a batch normalisation, a weight in another element type, a transposed table. This
module cuts such nodes out. They run once, when parameters are bound, and what the rest of the
graph reads of them, the *precomputed* values, stays in memory of the executable. (The packing of
weights is found later, among the steps of kernel plans: see `GraphBlock.run_plan`.)

Fusion merges loops and changes no rounding, so a precomputed value has the bits it would have
had inside a loop of the call.
"""

from __future__ import annotations

from cellc_runtime.records import dataclass, field

from ..fusion.clusters import fusable
from ..ir.graph import Graph, Node, Reuse, Value
from ..ir.op import lookup
from ..passes.cleanup import Dce

_SLACK_BYTES = 4096
"""A value may be this much larger than the parameters it comes from: memory is not free."""
_EXPENSIVE_FACTOR = 8
"""How much larger it may be if it is expensive to compute: Winograd's weights grow fourfold."""


@dataclass(slots=True)
class Split:
    """A graph in two."""

    # what runs on each call; its inputs are those of the graph, then the precomputed values
    main: Graph
    precompute: Graph  # what runs when parameters are bound; outputs are the precomputed values
    # inputs of `main` that hold the outputs of `precompute`, in order
    precomputed: list[Value] = field(default_factory=list)


def is_frozen(value: Value) -> bool:
    """Whether a value read by a kernel is the same on every call."""
    return value.reuse is Reuse.FROZEN or (value.node is not None and value.node.is_constant)


def prepacks(value: Value) -> bool:
    """Whether a matrix is worth packing by a step of its own, which may run fewer times than the
    product that reads it."""
    return value.reuse is Reuse.SHARED or is_frozen(value)


def split(graph: Graph) -> Split:
    """Cut a graph of core ops. The nodes are those of the graph, changed: it is used up."""
    main = Graph(graph.name, [*graph.inputs], [*graph.nodes], [*graph.outputs], [*graph.updates])
    params = main.frozen_parameters()
    for v in params:
        v.reuse = Reuse.FROZEN
    precompute = _computable(main, params)
    out = Split(main, Graph(f"{graph.name}_ahead", inputs=list(main.inputs)))
    if not precompute:
        return out
    roots = _roots(main, precompute)
    out.precompute.nodes = [n for n in main.nodes if n in precompute or n.is_constant]
    out.precompute.outputs = roots
    out.precomputed = _replace(main, precompute, roots)
    Dce().run(out.precompute)
    return out


def _computable(graph: Graph, params: list[Value]) -> set[Node]:
    """The nodes that depend on frozen parameters (and constants) alone."""
    source: dict[Value, frozenset[Value]] = {v: frozenset((v,)) for v in params}
    expensive: set[Value] = set()
    results = set(graph.results())
    found: set[Node] = set()
    for node in graph.nodes:
        if node.is_constant:
            source[node.result] = frozenset()
            continue
        if node.regions or lookup(node.op).effect or results.intersection(node.results):
            continue
        if not node.operands or not all(map(source.__contains__, node.operands)):
            continue
        origin = frozenset().union(*(source[v] for v in node.operands))
        heavy = lookup(node.op).cost == "heavy" or not expensive.isdisjoint(node.operands)
        factor = _EXPENSIVE_FACTOR if heavy else 1
        if not all(r.type.is_static for r in node.results):
            continue  # one block serves all sizes
        limit = sum(v.type.nbytes for v in origin) * factor + _SLACK_BYTES
        size = sum(r.type.nbytes for r in node.results)
        if not origin or (size > limit and not _is_view(node)):
            continue
        found.add(node)
        source.update(dict.fromkeys(node.results, origin))
        if heavy:
            expensive.update(node.results)
    return found


def _is_view(node: Node) -> bool:
    return lookup(node.op).cost == "free"


def _roots(graph: Graph, precompute: set[Node]) -> list[Value]:
    """The values to precompute: what the rest reads, views seen through where it reads by index."""
    roots: dict[Value, None] = {}
    seen: set[tuple[Value, bool]] = set()

    def need(v: Value, indexed: bool) -> None:
        if v.node not in precompute or (v, indexed) in seen:
            return
        seen.add((v, indexed))
        assert v.node is not None
        if _is_view(v.node) and (indexed or v.node.op == "reshape"):
            for o in v.node.operands:
                need(o, indexed)
        elif v.type.nbytes <= sum(o.type.nbytes for o in v.node.operands) + _SLACK_BYTES:
            roots[v] = None
        else:
            for o in v.node.operands:
                need(o, True)

    for node in graph.nodes:
        if node not in precompute:
            for v in node.operands:
                need(v, fusable(node))
    return list(roots)


def _replace(graph: Graph, precompute: set[Node], roots: list[Value]) -> list[Value]:
    """Read precomputed values in `graph`; of the nodes that give them, views that are read stay."""
    precomputed = {v: graph.add_input(v.type, f"kept{i}", "param") for i, v in enumerate(roots)}
    for v in precomputed.values():
        v.reuse = Reuse.FROZEN
    nodes: list[Node] = []
    table: dict[Value, Value] = dict(precomputed)
    for node in graph.nodes:
        copy = node
        if node in precompute:
            copy = node.clone(node.operands)
            for old, new in zip(node.results, copy.results, strict=True):
                table.setdefault(old, new)
        copy.operands = [table.get(v, v) for v in copy.operands]
        nodes.append(copy)
    graph.nodes = nodes
    Dce().run(graph)
    return list(precomputed.values())
