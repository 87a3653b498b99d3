"""Graphs and nodes: each node by its op's rule, or as the composition of its definition."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from .table import REFUSED, RULES
from .writer import Writer, refuse


def write_graph(w: Writer, graph: Graph, inputs: Sequence[str]) -> list[str]:
    """Write a graph's nodes where the writer is; the names of its outputs."""
    w.values.update(zip(graph.inputs, inputs, strict=True))
    live = _live(graph)
    w.used |= live
    for node in graph.nodes:
        if any(r in live for r in node.results) or lookup(node.op).effect:
            write_node(w, node)
    return [w.of(v) for v in graph.outputs]


def _live(graph: Graph) -> set[Value]:
    """The values of a graph that something needs."""
    live = set(graph.results())
    for node in reversed(graph.nodes):
        if lookup(node.op).effect or any(r in live for r in node.results):
            live.update(node.operands)
    return live


def write_node(w: Writer, node: Node) -> None:
    """Write one node.

    Raises:
        ExportError: ONNX has nothing for it.
    """
    if node.op in REFUSED:
        raise refuse(node, REFUSED[node.op])
    with w.at(node):
        rule = RULES.get(node.op)
        names = rule(w, node, *(w.of(v) for v in node.operands)) if rule is not None else None
        if names is None:
            names = _expanded(w, node)
        names = (names,) if isinstance(names, str) else names
        for value, name in zip(node.results, names, strict=True):
            if name:
                w.values[value] = w.cast(name, value.dtype)


def _expanded(w: Writer, node: Node) -> tuple[str, ...]:
    op = lookup(node.op)
    if op.expand is None:
        raise refuse(node, "it has no counterpart there")
    inner = Graph(node.op)
    out = op.expand(
        Builder(inner, span=node.span, scope=node.scope), *node.operands, **node.attrs)
    inner.outputs = list(out) if isinstance(out, tuple) else [out]
    # What only an unused result needs is not written.
    inner.outputs = [v for v, r in zip(inner.outputs, node.results, strict=True) if r in w.used]
    written = iter(write_graph(w, inner, []))
    return tuple(next(written) if r in w.used else "" for r in node.results)
