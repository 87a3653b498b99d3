"""Concatenations (`join`) whose parts can be written where they belong: which, and which parts."""

from __future__ import annotations

from ..ir.graph import Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import normalize_axis, prod

LEAST_BYTES = 1 << 14
"""A smaller join is copied as fast as one more kernel is called."""
_ALIGNED = 64


def in_place_concats(graph: Graph, op: str) -> list[Node]:
    """The joins of a graph (of its own nodes) whose parts can be written in place."""
    found = [n for n in graph.nodes if n.op == op]
    if not found:
        return []
    own = set(graph.nodes)
    results = set(graph.results())
    users = graph.users()
    taken: set[Value] = set()
    out = []
    for node in found:
        if _in_place(node, own, results, taken) and any(
                lookup(u.op).value is None for u in users.get(node.result, ())):
            taken.update(node.operands)
            out.append(node)
    return out


def _in_place(node: Node, own: set[Node], results: set[Value], taken: set[Value]) -> bool:
    """Whether the parts of a join are results of the graph's nodes, each a whole number of cache
    lines behind the other, and of no other join."""
    kind, parts = node.result.type, node.operands
    axis = normalize_axis(node.attrs["axis"], kind.rank)
    if node.result in results or kind.nbytes < LEAST_BYTES or prod(kind.dims[:axis]) != 1:
        return False
    return len(set(parts)) == len(parts) and all(
        v.node in own and not v.node.is_constant and not v.node.regions
        and not lookup(v.node.op).may_alias and v not in results and v not in taken
        and v.type.nbytes and v.type.nbytes % _ALIGNED == 0 for v in parts)


def parts_of(graph: Graph) -> dict[Value, tuple[Value, int]]:
    """The parts of joins that are computed in place: of which value, and how many bytes from its
    beginning."""
    out: dict[Value, tuple[Value, int]] = {}
    for node in in_place_concats(graph, "join_copy"):
        at = 0
        for v in node.operands:
            out[v] = (node.result, at)
            at += v.type.nbytes
    return out
