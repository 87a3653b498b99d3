"""Taps: calls out of a graph that show each floating-point result, with what it was made of.

A tapped graph is an ordinary graph: each node is followed by a `host_call` that takes the node's
results and operands and gives nothing. It is made from a traced graph, before any other pass, so
ops are those of the source, and since no rewrite and no fusion changes bits, a tapped graph gives
those of the graph it was made from. Taps see the same nodes as PyNative: forward nodes that nobody
reads too, backward ones only where somebody does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cellc_runtime.records import dataclass

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ops.control import HostCall
from .base import copy_graph
from .expand import Inline


@dataclass(frozen=True, slots=True)
class Tap:
    """The values that a tap shows."""

    node: Node  # the node as it was traced
    # for each operand shown, its place among the node's operands and the input of the whole graph
    # that it is, or None
    inputs: tuple[tuple[int, Value | None], ...]
    results: int  # how many results are shown, before the operands


def tapped(graph: Graph, number: Callable[[Tap], int], begin: int) -> Graph:
    """A copy of a graph with taps.

    Args:
        graph: is not changed. Its sizes are numbers.
        number: gives the number of the function that a tap calls.
        begin: the number of a function that is called first, without arguments.
    """
    names = dict(enumerate(graph.inputs))
    copy = copy_graph(graph)
    outer = {v: names[i] for i, v in enumerate(copy.inputs)}
    walk = _Walk(number)
    walk.graph(copy, outer)
    first = Builder(Graph(graph.name))
    first.emit(HostCall.name, number=begin, name="begin", results=())
    copy.nodes[:0] = first.graph.nodes
    return copy


class _Walk:
    """Puts taps into graphs in place."""

    def __init__(self, number: Callable[[Tap], int]) -> None:
        self.number = number

    def graph(self, graph: Graph, outer: Mapping[Value, Value], backward: bool = False) -> None:
        """Tap a graph.

        Args:
            outer: the inputs of the whole graph that its inputs stand for.
            backward: it belongs to a gradient: forward nodes in it compute again what was shown.
        """
        Inline().run(graph)
        needed = set(graph.results())
        taken: list[tuple[Node, list[Node]]] = []
        for node in reversed(graph.nodes):
            wanted = not needed.isdisjoint(node.results) or lookup(node.op).effect
            if wanted or not node.origin:
                needed.update(node.operands)
                taken.append((node, self._taps(node, outer, backward)))
            else:
                taken.append((node, []))
        graph.nodes = [n for node, taps in reversed(taken) for n in (node, *taps)]

    def _taps(self, node: Node, outer: Mapping[Value, Value], backward: bool) -> list[Node]:
        if node.regions:
            for region in node.regions:  # what each run of it captures are the last of both
                count = lookup(node.op).captures(node)
                pairs = zip(region.inputs[::-1], node.operands[::-1][:count], strict=False)
                known = {v: outer[o] for v, o in pairs if o in outer}
                self.graph(region, known, backward or bool(node.origin))
            return []
        results = [v for v in node.results if _shown(v)]
        if node.is_constant or not results or (backward and not node.origin):
            return []
        places = [i for i, v in enumerate(node.operands) if _shown(v)]
        tap = Tap(node, tuple((i, outer.get(node.operands[i])) for i in places), len(results))
        own = Builder(Graph(""), span=node.span, scope=node.scope, origin=node.origin)
        own.emit(HostCall.name, *results, *(node.operands[i] for i in places),
                 number=self.number(tap), name=f"tap {node.op}", results=())
        return own.graph.nodes


def _shown(value: Value) -> bool:
    return value.dtype.is_float or value.dtype.is_complex
