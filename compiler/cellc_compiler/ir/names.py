"""Names of results that stay the same while passes rewrite a graph, and over graphs that are alike.

A pass keeps the nodes that it does not replace, so what they make keeps its name. Where readers of
a result that is gone read a new one in its place, the new one has its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from .graph import Graph, Node, Value
from .printing import print_graph


class Names:
    """The names of a graph's results, from stage to stage."""

    def __init__(self) -> None:
        self.of: dict[Value, str] = {}  # the name of each result that a stage has had
        self._reads: dict[Any, list[Value]] = {}
        self._counts: dict[Graph, int] = {}

    def text(self, graph: Graph, spans: bool = True) -> str:
        """The graph's text at the next stage."""
        self.follow(graph)
        return print_graph(graph, spans=spans, called=self.of)

    def follow(self, graph: Graph) -> None:
        """Name what the next stage of the graph has made."""
        made = {r for node in graph.walk() for r in node.results}
        reads = dict(_readers(graph))
        for reader, values in reads.items():
            for old, new in zip(self._reads.get(reader, ()), values, strict=False):
                if old in self.of and old not in made and new in made and new not in self.of:
                    self.of[new] = self.of.pop(old)
        self._reads = reads
        self._number(graph)

    def adopt(self, graph: Graph, like: Graph) -> None:
        """Give results of another graph the names of those that are alike in one named before, or
        that like nodes read in the same place."""
        pairs = [*_pairs(graph, like)]
        for new, old in pairs:
            if isinstance(new, Node):
                self.of.update(zip(new.results, map(self.of.__getitem__, old.results), strict=True))
        kept = {self.of[r] for new, _ in pairs if isinstance(new, Node) for r in new.results}
        made = {r for node in graph.walk() for r in node.results}
        for new, old in pairs:
            for a, b in zip(_reads(new), _reads(old), strict=False):
                if a in made and a not in self.of and b in self.of and self.of[b] not in kept:
                    self.of[a] = self.of[b]
                    kept.add(self.of[b])
        self._number(graph)

    def _number(self, graph: Graph) -> None:
        """Number what has no name, in each graph from where its numbers end."""
        results = [r for node in graph.nodes for r in node.results]
        numbers = [int(self.of[r][1:]) for r in results if r in self.of]
        count = max([self._counts.get(graph, 0), *(n + 1 for n in numbers)])
        seen: set[str] = set()
        for r in results:
            if r not in self.of or self.of[r] in seen:  # (it may come from another graph)
                self.of[r] = f"%{count}"
                count += 1
            seen.add(self.of[r])
        self._counts[graph] = count
        for node in graph.nodes:
            for region in node.regions:
                self._number(region)


def _reads(reader: Any) -> list[Value]:
    """The operands of a node, or the outputs and new values of a graph."""
    if isinstance(reader, Node):
        return list(reader.operands)
    return [*reader.outputs, *(new for _, new in reader.updates)]


def _readers(graph: Graph) -> Iterator[tuple[Any, list[Value]]]:
    yield graph, _reads(graph)
    for node in graph.nodes:
        yield node, _reads(node)
        for region in node.regions:
            yield from _readers(region)


def _pairs(graph: Graph, like: Graph) -> Iterator[tuple[Any, Any]]:
    """Graphs and nodes of two graphs that are alike, in order."""
    yield graph, like
    match = SequenceMatcher(None, [*map(_key, like.nodes)], [*map(_key, graph.nodes)], False)
    for block in match.get_matching_blocks():
        for i in range(block.size):
            old, new = like.nodes[block.a + i], graph.nodes[block.b + i]
            yield new, old
            for a, b in zip(new.regions, old.regions, strict=True):
                yield from _pairs(a, b)


def _key(node: Node) -> tuple[str, str, int, int]:
    """Equal for nodes that are alike: operands, attributes, types and places may differ."""
    return node.op, node.scope, len(node.results), len(node.regions)
