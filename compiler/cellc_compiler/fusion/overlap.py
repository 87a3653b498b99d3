"""The order of clusters around collectives: started early, their results read late.

All work that follows from the result of a collective, and from nothing later, is a level. All of a
level runs before the next one, so everything that does not need a result is there to be computed
while the ranks exchange. Within a level each collective is started as soon as its operand can be:
first what it needs, then the collective, then the rest. Collectives keep the order of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..ir.graph import Node, Value
from ..ir.op import lookup

if TYPE_CHECKING:
    from .clusters import Cluster, Fuser


def exchanges(node: Node) -> bool:
    """Whether a node is a collective whose result may come later."""
    return lookup(node.op).collective and bool(node.operands) and bool(node.results)


def spread_out(fuser: Fuser, clusters: Sequence[Cluster]) -> list[Cluster]:
    """Clusters, given in an order that respects dependencies, in one that leaves time between
    collectives and what reads their results; as they are if there are none."""
    collectives = [c for c in clusters if exchanges(c.nodes[0])]
    if not collectives:
        return list(clusters)
    results = {r for c in collectives for r in c.nodes[0].results}
    level = _levels(fuser, clusters, results)
    place = {c.number: i for i, c in enumerate(clusters)}
    out: dict[int, Cluster] = {}
    for now in sorted(set(level.values())):
        for c in collectives:
            if level[c.number] == now:
                for needed in sorted(_missing(c, out), key=place.__getitem__):
                    out[needed] = clusters[place[needed]]
        out.update((c.number, c) for c in clusters if level[c.number] == now)
    return list(out.values())


def _levels(fuser: Fuser, clusters: Sequence[Cluster], results: set[Value]) -> dict[int, int]:
    """By cluster, on how many collectives after one another it depends."""
    level: dict[int, int] = {}
    for c in clusters:
        read = {v.node for n in c.nodes for v in fuser.sources(n) if v in results}
        level[c.number] = max(
            (level[p.number] + (not read.isdisjoint(p.nodes)) for p in c.before.values()),
            default=0)
    return level


def _missing(cluster: Cluster, done: dict[int, Cluster]) -> set[int]:
    """The cluster, and what must run before it and has not."""
    found: set[int] = set()
    stack = [cluster]
    while stack:
        c = stack.pop()
        if c.number not in done and c.number not in found:
            found.add(c.number)
            stack.extend(c.before.values())
    return found
