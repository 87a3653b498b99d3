"""One order of all nodes of a pipeline, of which each stage does its part.

It is that of the timetable: a node stands in the unit of work of its micro-batch, a node that joins
several of them right after the last one, a node of none of them (a weight in another type) before
its first reader. It is a topological order of the whole graph, so stages that follow it, send
values as soon as they are there and receive them right before they are read cannot wait for each
other in a circle.
"""

from __future__ import annotations

from ...ir.graph import Graph, Node, Value
from .placing import Placement
from .schedule import Timetable, Unit


def times(graph: Graph, placement: Placement, table: Timetable) -> dict[Node, float]:
    """When each node that belongs to one stage is due; never before an operand.

    Nodes sorted by this, and by their places in the graph where it is equal, are in order.
    """
    due: dict[Node, float] = {}
    for node in graph.nodes:
        stage, micro = placement.stage[node], placement.micro.get(node)
        if stage is None:
            continue
        known = [due[v.node] for v in node.operands if v.node in due]
        if micro is not None:
            part = placement.part.get(node, 0)
            backward = table.shape.trains and node in placement.backward
            known.append(table.start[Unit(stage, part, micro, backward)])
        if known:
            due[node] = max(known)
    users = graph.users()
    for node in reversed(graph.nodes):
        if placement.stage[node] is not None and node not in due:
            due[node] = first_read(node, due, users)
    return due


def first_read(node: Node, due: dict[Node, float], users: dict[Value, list[Node]]) -> float:
    """When a node's results are read first; 0 if nobody does."""
    return min((due[u] for r in node.results for u in users.get(r, ()) if u in due), default=0.0)
