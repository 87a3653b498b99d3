"""Numbers for nodes and values that stay the same from stage to stage of a pipeline.

Passes rewrite a graph in place and keep the nodes that they do not replace, so a node is the same
in two stages if it is the same object. Graphs that were read from text, or copied, are taken up by
what their nodes say (op, attributes, types, Cell and place): equal ones match in order.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

from cellc_compiler.ir.graph import NOWHERE, Graph, Literal, Node, Value
from cellc_compiler.ir.text import print_attr
from cellc_runtime.records import dataclass, field

FORWARD, GRADIENT, UPDATE = 0, 1, 2
"""The part of a node: before the gradient, the gradient, and what is done with it."""
LONG = 400  # Characters of an attribute that are shown

Place = tuple[str, str, int, int]
"""Cell, file, line and column: what a pass hands on to the nodes it makes."""


@dataclass(slots=True)
class Row:
    """The facts about a node; they do not change while its operands may.

    Attributes:
        first: the number of its first result; those of the others follow.
        part: `FORWARD`, `GRADIENT` or `UPDATE`.
    """

    op: str
    scope: str
    span: tuple[str, int, int, int, int]
    types: list[str]
    attrs: dict[str, str]
    first: int
    part: int = FORWARD

    @property
    def place(self) -> Place:
        """Where it comes from."""
        return (self.scope, *self.span[:3])

    def key(self, placed: bool) -> tuple[Any, ...]:
        """Return the key that equal nodes of two graphs share, with their place or without."""
        return (self.op, self.scope, self.span if placed else None, tuple(self.types),
                tuple(self.attrs.items()))


@dataclass(slots=True)
class Shot:
    """A graph as it was at a stage, in numbers."""

    name: str
    # inputs, outputs: values; `updates` pairs of values, the old and the new
    inputs: list[int]
    nodes: list[int]  # in order
    outputs: list[int]
    updates: list[tuple[int, int]]


@dataclass(slots=True)
class Snapshot:
    """A whole stage: the graph, and what its nodes read and hold."""

    graph: Shot
    # of each node, nested ones included
    operands: dict[int, list[int]] = field(default_factory=dict)
    regions: dict[int, list[Shot]] = field(default_factory=dict)  # of each node that has some
    # inputs of regions and the outer values that they stand for
    alias: dict[int, int] = field(default_factory=dict)


class Ledger:
    """Numbers for the nodes and values of a graph's stages."""

    def __init__(self) -> None:
        self.rows: list[Row] = []  # by the number of the node
        # by number: the type of a value, and name and kind of a graph's input
        self.values: list[tuple[str, str, str]] = []
        self._nodes: dict[Node, int] = {}
        self._numbers: dict[Value, int] = {}

    def number(self, node: Node) -> int | None:
        """The number of a node that was taken up."""
        return self._nodes.get(node)

    def value(self, value: Value) -> int | None:
        """The number of a value that was taken up."""
        return self._numbers.get(value)

    def take(self, graph: Graph) -> Snapshot:
        """A stage of the graph whose earlier stages were taken."""
        shot = Snapshot(self._shot(graph))
        self._fill(graph, shot)
        return shot

    def adopt(self, graph: Graph, before: Snapshot, placed: bool = True) -> Snapshot:
        """A stage that is another graph: its nodes are those of `before` where they are alike.
        `placed`: nodes of other places in the source are others."""
        known: dict[Any, deque[int]] = defaultdict(deque)
        for uid in before.operands:
            known[self.rows[uid].key(placed)].append(uid)
        names = {self.values[v][1]: v for v in before.graph.inputs
                 if placed or self.values[v][0] in {str(x.type) for x in graph.inputs
                                                    if x.name == self.values[v][1]}}
        self._match(graph, known, before, [names.get(v.name) for v in graph.inputs], placed)
        return self.take(graph)

    def _match(
        self, graph: Graph, known: dict[Any, deque[int]], before: Snapshot,
        inputs: Iterable[int | None], placed: bool,
    ) -> None:
        for value, number in zip(graph.inputs, inputs, strict=False):
            if number is not None:
                self._numbers[value] = number
        for node in graph.nodes:
            alike = known.get(_row(node, 0).key(placed))
            if not alike:
                continue
            uid = self._nodes[node] = alike.popleft()
            first = self.rows[uid].first
            self._numbers.update((r, first + i) for i, r in enumerate(node.results))
            for region, old in zip(node.regions, before.regions.get(uid, ()), strict=False):
                self._match(region, known, before, old.inputs, placed)

    # --- numbers --------------------------------------------------------------------------------

    def _value(self, value: Value) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append((str(value.type), value.name, value.kind))
        return number

    def _node(self, node: Node) -> int:
        uid = self._nodes.get(node)
        if uid is None:
            uid = self._nodes[node] = len(self.rows)
            self.rows.append(_row(node, len(self.values)))
            for r in node.results:
                self._value(r)
        return uid

    def _shot(self, graph: Graph) -> Shot:
        inputs = [self._value(v) for v in graph.inputs]
        nodes = [self._node(n) for n in graph.nodes]
        return Shot(graph.name, inputs, nodes, [self._value(v) for v in graph.outputs],
                    [(self._value(old), self._value(new)) for old, new in graph.updates])

    def _fill(self, graph: Graph, shot: Snapshot) -> None:
        for node in graph.nodes:
            uid = self._nodes[node]
            shot.operands[uid] = [self._value(v) for v in node.operands]
            if not node.regions:
                continue
            shot.regions[uid] = [self._shot(r) for r in node.regions]
            for region in node.regions:
                shot.alias.update((self._value(inner), self._value(outer))
                                  for inner, outer in _bindings(node, region))
                self._fill(region, shot)


def _row(node: Node, first: int) -> Row:
    s = node.span
    span = ("", 0, 0, 0, 0) if s is NOWHERE or s.line <= 0 else (
        s.file, s.line, s.column, s.end_line or s.line, s.end_column or s.column)
    return Row(node.op, node.scope, span, [str(r.type) for r in node.results],
               {k: _show(v) for k, v in node.attrs.items()}, first)


def _show(value: Any) -> str:
    """An attribute for people; a large literal by its type."""
    if isinstance(value, Literal) and value.array.size > 16:
        return f"{value.type}, {value.array.size} elements, {value.digest.hex()[:12]}"
    text = print_attr(value)
    return text if len(text) <= LONG else f"{text[:LONG]}…"


def _bindings(node: Node, region: Graph) -> Iterator[tuple[Value, Value]]:
    """The inputs of a region that stand for an outer value, and that value.

    Carried values of a loop stand for their values before the first trip.
    """
    operands = node.operands
    if node.op == "cond":
        operands = operands[1:]
    elif node.op == "scan":
        n, k = node.attrs["carried"], node.attrs["sequences"]
        captures = operands[n + k + bool(node.attrs["limited"]):]
        yield from zip(region.inputs[:n + k], operands[:n + k], strict=False)
        yield from zip(region.inputs[n + k + 1:], captures, strict=False)
        return
    yield from zip(region.inputs, operands, strict=False)
