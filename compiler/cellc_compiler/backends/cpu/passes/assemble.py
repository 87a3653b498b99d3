"""Joins whose parts are computed where they belong, so that nothing is copied.

Where the parts of a join lie one after the other in memory, and each is a result of its own, the
kernels that compute the parts can write into the joined tensor. This pass decides where: such a
join becomes a `join_copy`, which needs its operands in memory, and lowering gives them their
places (`lower/graph_block.py`). A join that is only read by elementwise work stays: it is
fused with its readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.graph import Builder, Graph, Node, Value
from ....ir.op import lookup
from ....ir.types import normalize_axis, prod
from ....passes.base import Pass, rewrite

LEAST_BYTES = 1 << 14
"""A smaller join is copied as fast as one more kernel is called."""
_ALIGNED = 64


class Assemble(Pass):
    """`join` as `join_copy` where its parts can be written in place."""

    name = "assemble"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        chosen = set(joins(graph, "join"))
        if not chosen:
            return False

        def rule(b: Builder, node: Node) -> Sequence[Value] | None:
            if node not in chosen:
                return None
            return [b.emit("join_copy", *node.operands, axis=node.attrs["axis"])]

        return rewrite(graph, rule)


def joins(graph: Graph, op: str) -> list[Node]:
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
        and not lookup(v.node.op).renames and v not in results and v not in taken and v.type.nbytes
        and v.type.nbytes % _ALIGNED == 0 for v in parts)

