"""Which clusters read a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.graph import Graph, Node, Value
from .clusters import Cluster, Schedule


def readers_of(
    users: dict[Value, list[Node]], schedule: Schedule, home: dict[Node, Cluster], value: Value
) -> set[Cluster | None]:
    """The clusters that read a value, through inlining; None if an alias or region reads it."""
    out: set[Cluster | None] = set()
    stack = [value]
    while stack:
        for node in users.get(stack.pop(), ()):
            if node.results and node.results[0] in schedule.inline:
                stack.append(node.results[0])
            elif node in home and not node.regions:
                out.add(home[node])
            else:
                out.add(None)
    return out


def lone_readers(
    graph: Graph, schedule: Schedule, takes: Callable[[Node], bool]
) -> Iterator[tuple[Cluster, Cluster]]:
    """Clusters of one node that does not fuse, that is taken, and whose result only one cluster
    reads; with that cluster."""
    home = {n: c for c in schedule.clusters for n in c.nodes}
    results, users = set(graph.results()), graph.users()
    for cluster in schedule.clusters:
        node = cluster.nodes[0]
        if cluster.domain is not None or not takes(node) or node.result in results:
            continue
        readers = readers_of(users, schedule, home, node.result)
        reader = next(iter(readers), None) if len(readers) == 1 else None
        if reader is not None:
            yield cluster, reader
