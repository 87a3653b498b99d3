"""A graph in a notebook: a small one as a picture, a large one as its text, folded.

Layers by longest paths, and in a layer the order of the graph: enough for what fits on a screen.
`cellc inspect` draws graphs of any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .graph import Graph, Node, Value
from .printing import print_graph

_MOST = 60  # Nodes of a picture
_WIDE, _HIGH, _GAP_X, _GAP_Y = 150, 34, 14, 26
_CHARACTERS = 22

Point = tuple[float, float]


def graph_html(graph: Graph) -> str:
    """HTML of a graph; every name in it is escaped."""
    shown = [n for n in graph.nodes if not n.is_constant]
    counts = {"input": len(graph.inputs), "node": sum(1 for _ in graph.walk()),
              "output": len(graph.outputs)}
    head = f"<b>{escape(graph.name)}</b>: " + ", ".join(
        f"{n} {what}{'s' * (n != 1)}" for what, n in counts.items())
    text = f"<pre>{escape(print_graph(graph, spans=False))}</pre>"
    if len(shown) > _MOST:
        return f"<div>{head}</div><details><summary>text</summary>{text}</details>"
    return f"<div>{head}</div>{_svg(graph, shown)}<details><summary>text</summary>{text}</details>"


def _svg(graph: Graph, shown: list[Node]) -> str:
    layer: dict[Node, int] = {}
    for node in shown:
        above = [layer[v.node] for v in node.operands if v.node in layer]
        layer[node] = max(above, default=0) + 1
    rows: dict[int, list[Node | Value]] = {0: [v for v in graph.inputs if v.kind == "input"]}
    for node, at in layer.items():
        rows.setdefault(at, []).append(node)
    most = max(len(row) for row in rows.values())
    width = most * (_WIDE + _GAP_X)
    at_: dict[Node | Value, Point] = {}
    for y, row in rows.items():
        left = (width - len(row) * (_WIDE + _GAP_X)) / 2
        at_.update((n, (left + i * (_WIDE + _GAP_X), y * (_HIGH + _GAP_Y) + 4.0))
                   for i, n in enumerate(row))
    height = len(rows) * (_HIGH + _GAP_Y)
    parts = [*_edges(shown, at_), *(_box(n, p) for n, p in at_.items())]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="11">{"".join(parts)}</svg>')


def _edges(shown: list[Node], at: dict[Node | Value, Point]) -> Iterator[str]:
    for node in shown:
        x2, y2 = at[node]
        for v in dict.fromkeys(node.operands):
            source: Node | Value | None = v if v in at else v.node
            if source is None or source not in at:
                continue
            x1, y1 = at[source]
            a, b = x1 + _WIDE / 2, x2 + _WIDE / 2
            middle = (y1 + _HIGH + y2) / 2
            yield (f'<path d="M{a} {y1 + _HIGH} C{a} {middle} {b} {middle} {b} {y2}" '
                   'fill="none" stroke="#98a3b3"/>')


def _box(what: Node | Value, place: Point) -> str:
    x, y = place
    if isinstance(what, Node):
        name, kind = what.op, ", ".join(str(r.type) for r in what.results)
        fill = "#ffffff"
    else:
        name, kind, fill = what.name, str(what.type), "#dbe7ff"
    lines = "".join(
        f'<text x="{x + _WIDE / 2}" y="{y + dy}" text-anchor="middle" fill="{color}">'
        f"{escape(_cut(text))}</text>"
        for text, dy, color in ((name, 14, "#1c2430"), (kind, 28, "#647082")))
    return (f'<g><title>{escape(name)} {escape(kind)}</title><rect x="{x}" y="{y}" '
            f'width="{_WIDE}" height="{_HIGH}" rx="5" fill="{fill}" stroke="#c3cad4"/>{lines}</g>')


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS - 1]}…"
