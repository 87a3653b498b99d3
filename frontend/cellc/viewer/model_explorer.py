"""Graphs in the JSON that Google's Model Explorer opens.

The form is that of its `graph_builder.py`: nodes in namespaces (here the path of the Cell),
incoming edges, attributes, and the types of outputs. A branch or loop names its regions as
subgraphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cellc_compiler.ir.graph import NOWHERE, Graph, Node, Value
from cellc_compiler.ir.text import print_attr

from .ledger import LONG
from .report import Subject
from .sources import Sources

Json = dict[str, Any]


def collection(title: str, subjects: Sequence[Subject], sources: Sources) -> Json:
    """A graph collection: each subject as it was traced, and the regions of its nodes."""
    graphs = [g for s in subjects for g in _Writer(sources).graphs(s.graph, s.name)]
    return {"label": title, "graphs": graphs}


class _Writer:
    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.made: dict[Value, tuple[str, str]] = {}
        self.count = 0

    def graphs(self, graph: Graph, name: str) -> Iterator[Json]:
        """A graph, then those of regions, which are named after it."""
        inner: list[tuple[Graph, str]] = []
        nodes = [self._input(v) for v in graph.inputs]
        nodes += [self._node(n, name, inner) for n in graph.nodes]
        nodes += [self._output(f"output {i}", v) for i, v in enumerate(graph.outputs)]
        nodes += [self._output(f"new {old.name}", v) for old, v in graph.updates]
        yield {"id": name, "nodes": nodes}
        for region, own in inner:
            yield from self.graphs(region, own)

    def _fresh(self) -> str:
        self.count += 1
        return str(self.count)

    def _input(self, value: Value) -> Json:
        number = self._fresh()
        self.made[value] = number, "0"
        space = {"input": "inputs", "value": "inputs"}.get(value.kind, "weights")
        return {"id": number, "label": value.name or "input", "namespace": space,
                "attrs": [_pair("kind", value.kind)], "outputsMetadata": [_output_type(0, value)]}

    def _node(self, node: Node, name: str, inner: list[tuple[Graph, str]]) -> Json:
        number = self._fresh()
        self.made.update((r, (number, str(i))) for i, r in enumerate(node.results))
        attrs = [_pair(k, self.sources.hide(print_attr(v))[:LONG]) for k, v in node.attrs.items()]
        if node.span is not NOWHERE:
            attrs.append(_pair("source", f"{self.sources.name(node.span.file)}:{node.span.line}"))
        regions = [(r, f"{name}/{node.op} {number} {i}") for i, r in enumerate(node.regions)]
        inner += regions
        return {
            "id": number, "label": node.op, "namespace": node.scope.replace(".", "/"),
            "attrs": attrs, "incomingEdges": self._edges(node.operands),
            "outputsMetadata": [_output_type(i, r) for i, r in enumerate(node.results)],
            **({"subgraphIds": [own for _, own in regions]} if regions else {}),
        }

    def _output(self, label: str, value: Value) -> Json:
        return {"id": self._fresh(), "label": label, "namespace": "outputs",
                "incomingEdges": self._edges([value])}

    def _edges(self, operands: Sequence[Value]) -> list[Json]:
        out = []
        for i, value in enumerate(operands):
            source, result = self.made[value]
            out.append({"sourceNodeId": source, "sourceNodeOutputId": result,
                        "targetNodeInputId": str(i)})
        return out


def _pair(key: str, value: str) -> Json:
    return {"key": key, "value": value}


def _output_type(number: int, value: Value) -> Json:
    """The type of an output, in the key that Model Explorer shows on edges."""
    return {"id": str(number), "attrs": [_pair("tensor_shape", str(value.type))]}
