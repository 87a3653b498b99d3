"""Which nodes belong to which micro-batch, and in which order gradients of them are added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.graph import Node, Value
from ...ops.control import MicroResult
from ...ops.slice import MicroBatch

_SHARED = 1 << 30


def last_of(nodes: Sequence[Node]) -> dict[Node, int]:
    """The last micro-batch that each node depends on; nodes that depend on none are not there.

    A micro-batch of a micro-batch belongs to the outer one.
    """
    found: dict[Node, int] = {}
    for node in nodes:
        known = [found[v.node] for v in node.operands if v.node in found]
        if known:
            found[node] = max(known)
        elif node.op == MicroBatch.name:
            found[node] = node.attrs["index"]
    return found


def backward_order(nodes: Sequence[Node]) -> Iterator[Node]:
    """Return the nodes of a forward part in the order in which a backward pass reaches them.

    That is the reverse one, but micro-batches come in their own order: gradients of the first one
    are there first and are added first, as a pipeline does it. Nodes that no micro-batch reads
    (they join their results) come before all of them, nodes that several read after.
    """
    order = nodes[::-1]
    if not any(node.op == MicroResult.name for node in nodes):
        yield from order
        return
    read: dict[Value, set[int]] = {}
    turn: dict[Node, int] = {}
    for node in order:
        own = {i for r in node.results for i in read.get(r, ())}
        if node.op == MicroResult.name and not own:
            own = {node.attrs["index"]}
        if own:
            for v in node.operands:
                read.setdefault(v, set()).update(own)
        turn[node] = _SHARED if len(own) > 1 else min(own, default=-1)
    yield from sorted(order, key=turn.__getitem__)
