"""The definition of a pass, and helpers to rewrite graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

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
    return _Rewrite(graph, rule, again, asks or (lambda op: True)).run()


class _Asked(dict[str, bool]):
    """Whether a rule is asked about an op."""

    def __init__(self, asks: Callable[[str], bool]) -> None:
        super().__init__()
        self.asks = asks

    def __missing__(self, op: str) -> bool:
        found = self[op] = self.asks(op)
        return found


class _Rewrite:
    """See `rewrite`."""

    def __init__(self, graph: Graph, rule: Rule, again: bool, asks: Callable[[str], bool]) -> None:
        self.graph, self.rule, self.again = graph, rule, again
        self.table: dict[Value, Value] = {}
        self.builder = Builder(Graph(graph.name))
        self.asked = _Asked(asks)
        self.changed = False

    def run(self) -> bool:
        """Rewrite; whether anything changed."""
        graph, table, nodes = self.graph, self.table, self.builder.graph.nodes
        self.append(graph.nodes)
        _forget(table, nodes)
        graph.nodes = nodes
        graph.outputs = [table.get(v, v) for v in graph.outputs]
        graph.updates = [(old, table.get(new, new)) for old, new in graph.updates]
        return self.changed

    def append(self, given: Sequence[Node]) -> None:
        """Append nodes or what replaces them."""
        table, asked, nodes = self.table, self.asked, self.builder.graph.nodes
        replaced = table.keys()
        for node in given:
            if table and not replaced.isdisjoint(node.operands):
                node.operands = [table.get(v, v) for v in node.operands]
            for region in node.regions:
                self.changed |= rewrite(region, self.rule, self.again, asked.asks)
            if asked[node.op]:
                self.ask(node)
            else:
                nodes.append(node)

    def ask(self, node: Node) -> None:
        """Append a node for which the rule may have an answer, or what that is."""
        b = self.builder
        nodes, start = b.graph.nodes, len(b.graph.nodes)
        b.span, b.scope = node.span, node.scope
        values = self.rule(b, node)
        if values is None:
            del nodes[start:]
            nodes.append(node)
            return
        if self.again:
            made = nodes[start:]
            del nodes[start:]
            self.append(made)
        _stands_for(node, values, self.table)
        self.changed = True


def _forget(replaced: Iterable[Value], nodes: Sequence[Node]) -> None:
    """Values of nodes that are gone forget them: no cycles are left to look for."""
    stay = set(nodes)
    for value in replaced:
        if value.node not in stay:
            value.node = None


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
        copy = node.clone([table[v] for v in node.operands], tuple(map(copy_graph, node.regions)))
        table.update(zip(node.results, copy.results, strict=True))
        out.nodes.append(copy)
    out.outputs = [table[v] for v in graph.outputs]
    out.updates = [(table[old], table[new]) for old, new in graph.updates]
    return out
