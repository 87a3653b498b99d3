"""Concatenations (`join`) whose parts can be written where they belong: which, and which parts."""

from __future__ import annotations

from collections.abc import Callable, Container

from ..ir.dims import estimate
from ..ir.graph import Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import normalize_axis, prod

LEAST_BYTES = 1 << 14  # A smaller join is copied as fast as one more kernel is called
_COPIED = 8  # A join copies at most one in this number of its parts
_ALIGNED = 64
Root = Callable[[Value], Value]
Parts = dict[Value, int]
"""Values that are computed in place, and how many bytes from the beginning of the join."""


def in_place_concats(graph: Graph, op: str, root: Root) -> dict[Node, Parts]:
    """The joins of a graph (of its own nodes) whose parts can be written in place, and these.

    Args:
        graph: whose joins.
        op: `join`, or `join_copy`.
        root: the value whose memory a value shares; itself if it has its own.
    """
    found = [n for n in graph.nodes if n.op == op]
    if not found:
        return {}
    own = set(graph.nodes)
    taken = {root(v) for v in graph.results()}
    users = graph.users()
    out: dict[Node, Parts] = {}
    for node in found:
        parts = _in_place(node, own, taken, root)
        if parts and any(lookup(u.op).value is None for u in users.get(node.result, ())):
            taken.update(parts)
            out[node] = parts
    return out


def _in_place(node: Node, own: Container[Node], taken: Container[Value], root: Root) -> Parts:
    """Return the parts of a join that are results of the graph's nodes, each a whole number of
    cache lines after the other, and of no other join; none if much would be left to copy."""
    kind = node.result.type
    axis = normalize_axis(node.attrs["axis"], kind.rank)
    if root(node.result) in taken or estimate(kind.nbytes) < LEAST_BYTES \
            or prod(kind.dims[:axis]) != 1:
        return {}
    out: Parts = {}
    at = left = 0
    for part in node.operands:
        v, nbytes = root(part), part.type.nbytes
        maker = v.node
        if maker in own and maker is not None and not maker.is_constant and not maker.regions \
                and v not in taken and v not in out and v.type.nbytes == nbytes \
                and not nbytes % _ALIGNED and not at % _ALIGNED:
            out[v] = at
        else:
            left += nbytes
        at += nbytes
    return out if _COPIED * estimate(left) <= estimate(at) else {}


def parts_of(graph: Graph, root: Root) -> dict[Value, tuple[Value, int]]:
    """The parts of joins that are computed in place: of which value, and how many bytes from its
    beginning."""
    return {v: (node.result, at)
            for node, parts in in_place_concats(graph, "join_copy", root).items()
            for v, at in parts.items()}
