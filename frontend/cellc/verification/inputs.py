"""Which integers a network can be given: those it looks something up with."""

from __future__ import annotations

from cellc_compiler.ir.graph import Graph, Value
from cellc_compiler.ir.op import lookup


def index_ranges(graph: Graph, count: int) -> dict[int, tuple[int, int]]:
    """The integers that the first `count` inputs of a graph may hold, by their number, both ends
    included: for those that a check of positions or class labels follows from."""
    number = {v: i for i, v in enumerate(graph.inputs[:count])}
    found: dict[int, tuple[int, int]] = {}
    for node in graph.nodes:
        if node.op != "check" or not node.operands or node.operands[0].dtype.kind == "bool":
            continue
        source = _source(node.operands[0])
        if source not in number:
            continue
        low, high = int(node.attrs["low"]), int(node.attrs["high"]) - 1
        before = found.get(number[source], (low, high))
        both = max(low, before[0]), min(high, before[1])
        if both[0] <= both[1]:
            found[number[source]] = both
    return found


def _source(v: Value) -> Value:
    """Return the value that this one is another view or type of."""
    while v.node is not None and len(v.node.operands) == 1 and (
            v.node.op == "cast" or lookup(v.node.op).cost == "free"):
        v = v.node.operands[0]
    return v
