"""What a pass is, and helpers to rewrite graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.graph import Builder, Graph, Node, Value


class Pass:
    """A rewrite of a graph in place.

    `run` returns whether anything changed; a pass that says no must have left the graph as it
    was (checked in tests). Regions are rewritten too.
    """

    name: str = ""

    def run(self, graph: Graph) -> bool:
        """Rewrite `graph`; whether anything changed."""
        raise TypeError(f"the pass {self.name} does nothing")


Rule = Callable[[Builder, Node], Sequence[Value] | None]
"""Given a node (operands already replaced), the values that replace its results, or None."""


def rewrite(
    graph: Graph, rule: Rule, again: bool = False, asks: Callable[[str], bool] | None = None
) -> bool:
    """Rebuild a graph node by node, replacing those for which `rule` gives values.

    Args:
        again: ask `rule` about the nodes that replace others too, until it leaves all as they are.
        asks: whether the rule may have an answer for an op (default: for all); the nodes of others
            only get their operands.
    """
    changed = False
    table: dict[Value, Value] = {}
    fresh = Graph(graph.name)
    nodes = fresh.nodes
    b = Builder(fresh)
    asked: dict[str, bool] = {}

    def replaced(node: Node) -> bool:
        """Append a node or what replaces it; whether it is replaced."""
        nonlocal changed
        if table and not table.keys().isdisjoint(node.operands):
            node.operands = [table.get(v, v) for v in node.operands]
        for region in node.regions:
            if rewrite(region, rule, again, asks):
                changed = True
        known = asked.get(node.op)
        if known is None:
            known = asked[node.op] = asks is None or asks(node.op)
        if not known:
            nodes.append(node)
            return False
        start = len(nodes)
        b.span, b.scope = node.span, node.scope
        values = rule(b, node)
        if values is None:
            del nodes[start:]
            nodes.append(node)
            return False
        if again:
            made = nodes[start:]
            del nodes[start:]
            for n in made:
                replaced(n)
        _stands_for(node, values, table)
        return True

    for node in graph.nodes:
        if replaced(node):
            changed = True
    graph.nodes = nodes
    graph.outputs = [table.get(v, v) for v in graph.outputs]
    graph.updates = [(old, table.get(new, new)) for old, new in graph.updates]
    return changed


def _stands_for(node: Node, values: Sequence[Value], table: dict[Value, Value]) -> None:
    """Note in a table the values that replace a node's results."""
    for old, new in zip(node.results, values, strict=True):
        if old.type != new.type:
            raise TypeError(f"a rewrite of {node.op} changes {old.type} to {new.type}")
        table[old] = table.get(new, new)


def copy_graph(graph: Graph) -> Graph:
    """A deep copy: passes change graphs in place."""
    out = Graph(graph.name)
    table: dict[Value, Value] = {}
    for v in graph.inputs:
        table[v] = out.add_input(v.type, v.name, v.kind)
    for node in graph.nodes:
        copy = Node(
            node.op, [table[v] for v in node.operands], node.attrs, (),
            tuple(map(copy_graph, node.regions)), span=node.span, scope=node.scope,
        )
        copy.results = tuple([Value(r.type, copy, r.index) for r in node.results])
        for r, made in zip(node.results, copy.results, strict=True):
            table[r] = made
        out.nodes.append(copy)
    out.outputs = [table[v] for v in graph.outputs]
    out.updates = [(table[old], table[new]) for old, new in graph.updates]
    return out
