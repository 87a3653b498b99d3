"""Which clusters read a value."""

from __future__ import annotations

from ..ir.graph import Node, Value
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
