"""Results that are recomputed for gradients: backward nodes read copies computed just before."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.graph import Builder, Node, Value, clone_into


def recompute_results(
    b: Builder, start: int, nodes: Sequence[Node], seeds: Collection[Value]
) -> None:
    """Let backward nodes read the results of marked forward nodes from copies of these.

    A copy is made where a cotangent first meets what follows from it, and after that cotangent.

    Args:
        start: where the backward nodes begin in the graph of `b`.
        nodes: forward nodes; those marked are `recompute` with the attribute `results`.
        seeds: the cotangents that there were at the start.
    """
    marked = [n for n in nodes if n.op == "recompute" and n.attrs["results"]]
    late = set(seeds)  # what follows from a cotangent
    for node in b.graph.nodes[start:] if marked else ():
        if not late.isdisjoint(node.operands):
            late.update(node.results)
    for node in reversed(marked):  # a copy may read what another marked node gives
        nodes_, results = b.graph.nodes, set(node.results)
        readers = [n for n in nodes_[start:] if not results.isdisjoint(n.operands)]
        if not readers:
            continue
        early, at = _until_met(nodes_, nodes_.index(readers[0], start), results, late)
        others = [v for v in dict.fromkeys(nodes_[at].operands) if v in late] \
            if at < len(nodes_) else []
        end = len(nodes_)
        with b.at(span=node.span, scope=node.scope):
            operands = [b.after(v, *others) for v in node.operands]
        with b.at(scope=""):
            copies, _ = clone_into(b, node.regions[0], operands)
        fresh = nodes_[end:]
        moved = set(early)
        b.graph.nodes[:] = [*(n for n in nodes_[:at] if n not in moved), *fresh, *early,
                            *nodes_[at:end]]
        if others:
            late.update(r for n in fresh for r in n.results)
        table: dict[Value, Value] = dict(zip(node.results, copies, strict=True))
        for reader in readers:
            reader.operands = [table.get(v, v) for v in reader.operands]


def _until_met(
    nodes: Sequence[Node], first: int, results: set[Value], late: set[Value]
) -> tuple[list[Node], int]:
    """Return the nodes that follow from `results` alone before a cotangent meets them, and
    where."""
    follows = set(results)
    early: list[Node] = []
    for at in range(first, len(nodes)):
        node = nodes[at]
        if follows.isdisjoint(node.operands):
            continue
        if not late.isdisjoint(node.operands):
            return early, at
        early.append(node)
        follows.update(node.results)
    return early, len(nodes)
