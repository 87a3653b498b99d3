"""Pictures of graphs: Graphviz DOT text, nodes grouped by Cell, with types and source lines."""

from __future__ import annotations

from collections.abc import Iterator

from .graph import Graph, Node, Value
from .op import lookup


def graph_dot(graph: Graph) -> str:
    """DOT text of a graph; render it with `dot -Tsvg`."""
    lines = [
        f"digraph {_quote(graph.name)} {{",
        '  node [shape=box, style="rounded,filled", fillcolor="#ffffff", fontname="Helvetica", '
        "fontsize=10];",
        '  edge [fontname="Helvetica", fontsize=8, color="#555555"];',
    ]
    lines += [f"  {line}" for line in _Writer().graph(graph)]
    return "\n".join([*lines, "}"]) + "\n"


def _color(node: Node) -> str:
    if node.is_constant:
        return "#eeeeee"
    if node.regions:
        return "#fff2cc"
    return "#f4cccc" if lookup(node.op).cost == "heavy" else "#ffffff"


class _Writer:
    def __init__(self) -> None:
        self.ids: dict[Value, str] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def graph(self, graph: Graph) -> Iterator[str]:
        for v in graph.inputs:
            name = self.ids[v] = self.fresh()
            color = "#cfe2f3" if v.kind == "input" else "#d9ead3"
            label = f"{v.name}\\n{v.type}"
            yield f'{name} [label={_quote(label)}, shape=ellipse, fillcolor="{color}"];'
        yield from self.nodes(graph.nodes)
        for i, v in enumerate(graph.outputs):
            name = self.fresh()
            yield f'{name} [label="output {i}", shape=ellipse, fillcolor="#cfe2f3"];'
            yield f"{self.ids[v]} -> {name};"
        for old, new in graph.updates:
            edge = '[style=dashed, label="update", constraint=false]'
            yield f"{self.ids[new]} -> {self.ids[old]} {edge};"

    def nodes(self, nodes: list[Node]) -> Iterator[str]:
        """Nodes with their edges; a run of one scope is drawn in a box of its own."""
        scope: str | None = None
        for node in nodes:
            if node.scope != scope:
                if scope:
                    yield "}"
                scope = node.scope
                if scope:
                    yield f"subgraph cluster_{self.fresh()} {{ label={_quote(scope)}; color=gray;"
            yield from self.node(node)
        if scope:
            yield "}"

    def node(self, node: Node) -> Iterator[str]:
        name = self.fresh()
        for r in node.results:
            self.ids[r] = name
        types = ", ".join(str(r.type) for r in node.results)
        label = "\\n".join(x for x in (node.op, types, node.span.short) if x)
        color = _color(node)
        yield f'{name} [label={_quote(label)}, fillcolor="{color}"];'
        for v in node.operands:
            if v in self.ids:
                yield f"{self.ids[v]} -> {name};"
        for region in node.regions:
            inner = _Writer()
            inner.count = self.count * 1000
            box = f"cluster_{self.fresh()}"
            yield f"subgraph {box} {{ label={_quote(region.name)}; style=dashed;"
            yield from inner.graph(region)
            yield "}"


def _quote(text: str) -> str:
    return '"' + text.replace('"', '\\"').replace("\n", "\\n") + '"'
