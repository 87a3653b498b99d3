"""Sums of results that may be sums over ranks: what is added on each rank first.

Micro-batches give a weight one gradient each, and ranks that work on data have parts of them all.
Each rank adds its parts, so that what goes between ranks is one sum, not one for each micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Graph, Node, Value
from ...ir.sharding import Factors
from ...ops.collective import LayOut
from ...ops.elementwise import Add
from ...ops.shape import Reshape, Transpose

_MOVES = frozenset((Reshape.name, Transpose.name, LayOut.name))
"""Ops that only move elements on their rank: sums before them are sums behind them."""
Summands = dict[Node, tuple[Sequence[Node], Sequence[Node]]]
"""By additions: for each operand the nodes between, from the addition on, and what makes it."""


def summands(graph: Graph, factors: Mapping[Node, Factors]) -> Summands:
    """The additions both operands of which are sums, or sums of such, that nothing else reads."""
    users, ends = graph.users(), set(graph.results())
    found: Summands = {}

    def way(v: Value) -> list[Node]:
        """From a value to what makes it; none: something else reads it, or that is no sum."""
        out: list[Node] = []
        while v.node is not None and len(users.get(v, ())) == 1 and v not in ends:
            out.append(v.node)
            splits = factors[v.node]
            if v.node in found or (splits.summed and splits.combine == "sum"):
                return out
            if v.node.op not in _MOVES:
                return []
            v = v.node.operands[0]
        return []

    for node in graph.nodes:
        if node.op == Add.name and all(v.type == node.result.type for v in node.operands):
            first, second = map(way, node.operands)
            if first and second:
                found[node] = first, second
    return found
