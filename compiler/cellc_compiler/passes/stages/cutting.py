"""The graph of one stage: its nodes in the order of the schedule, and what crosses sent.

Every stage numbers the values that cross in the same way, so a message is known by its tag alone. A
value is sent right after the node that computes it, and received right before its first reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property

from cellc_runtime.records import dataclass

from ...ir.graph import Builder, Graph, Node, Value
from ...ir.op import has_effect
from ...ops.collective import SendTo
from ...ops.slice import MicroBatch
from .ordering import first_read
from .placing import Placement

Due = tuple[float, int, int]
"""A place in the order: time, number of the graph's nodes before it, and before (0), at (1) or
after (2) the node itself."""
_START: Due = (-1.0, -1, 2)
_END: Due = (float("inf"), 0, 0)


@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that one stage gives to another."""

    tag: int  # its number among all; `source` and `target` are stages
    value: Value
    source: int
    target: int


class Cutter:
    """Cuts a graph whose nodes are placed and due.

    Args:
        due: see `ordering.times`.
        broadcast: the stage that has a result sends it to all others.
    """

    def __init__(
        self, graph: Graph, placement: Placement, due: Mapping[Node, float], stages: int,
        broadcast: bool = False,
    ) -> None:
        self.graph, self.placement, self.due = graph, placement, due
        self.stages, self.broadcast = stages, broadcast
        self.number = {node: i for i, node in enumerate(graph.nodes)}
        self.users = graph.users()

    @cached_property
    def crossings(self) -> list[Crossing]:
        """All values that cross, parameters first, then in the order of the graph."""
        made = [*self.graph.inputs, *(r for n in self.graph.nodes for r in n.results)]
        wanted: dict[Value, set[int]] = {}
        for old, new in self.graph.updates:
            home = self.placement.home.get(old)
            if home is not None:
                wanted.setdefault(new, set()).add(home)
        if self.broadcast:
            for v in self.graph.outputs:
                wanted.setdefault(v, set()).update(range(self.stages))
        out: list[Crossing] = []
        for v in made:
            source = self.placement.of(v)
            if source is None:
                continue
            read = {self.placement.stage[u] for u in self.users.get(v, ())}
            for target in sorted({*(s for s in read if s is not None), *wanted.get(v, ())}):
                if target != source:
                    out.append(Crossing(len(out), v, source, target))
        return out

    def cut(self, stage: int, peer: Callable[[int], int]) -> Graph:
        """The graph of a stage.

        Args:
            peer: the rank that works together with this one in another stage.

        Returns:
            A graph with all arguments, and the parameters that this stage holds or reads. Results
            that another stage has are zeros, unless they are broadcast.
        """
        return _Part(self, stage, peer).build()


class _Part:
    """Makes the graph of one stage."""

    def __init__(self, whole: Cutter, stage: int, peer: Callable[[int], int]) -> None:
        self.whole, self.stage, self.peer = whole, stage, peer
        self.placement, self.users = whole.placement, whole.users
        self.received = {c.value: c for c in whole.crossings if c.target == stage}
        self.updates = [(old, new) for old, new in whole.graph.updates
                        if self.placement.home.get(old, stage) in (stage, None)]
        self.outputs = [v for v in whole.graph.outputs if self._here(v)]
        self.due: dict[Node, float] = {
            n: t for n, t in whole.due.items() if self.placement.stage[n] == stage}
        self._add_shared()

    def _here(self, value: Value) -> bool:
        return self.placement.of(value) in (self.stage, None) or value in self.received

    def _add_shared(self) -> None:
        """Add the nodes that every stage computes for itself, as far as this one needs them."""
        ends = {*self.outputs, *(new for _, new in self.updates)}
        for node in reversed(self.whole.graph.nodes):
            if self.placement.stage[node] is None and (
                has_effect(node) or not ends.isdisjoint(node.results)
                or any(u in self.due for r in node.results for u in self.users.get(r, ()))
            ):
                self.due[node] = first_read(node, self.due, self.users)

    def build(self) -> Graph:
        graph = self.whole.graph
        out = Graph(graph.name)
        read = {v for n in self.due for v in n.operands}
        read |= {*self.outputs, *(v for pair in self.updates for v in pair)}
        read |= {c.value for c in self.whole.crossings if c.source == self.stage}
        table: dict[Value, Value] = {}
        for v in graph.inputs:
            if v.kind == "input" or (v in read and v not in self.received):
                table[v] = out.add_input(v.type, v.name, v.kind)
        writer = _Writer(Builder(out), table, self.peer, self.placement.backward)
        for _, item in sorted(self._items(), key=lambda found: found[0]):
            writer.write(item, item.source == self.stage if isinstance(item, Crossing) else False)
        out.outputs = [table[v] if v in table else writer.zeros(v) for v in graph.outputs]
        out.updates = [(table[old], table[new]) for old, new in self.updates]
        return out

    def _items(self) -> Iterator[tuple[tuple[Due, int], Node | Crossing]]:
        """Nodes, sends and receives with their places in the order."""
        for node in self.due:
            yield (self._place(node, 1), 0), node
        for c in self.whole.crossings:
            if c.source == self.stage:
                maker = c.value.node
                yield (_START if maker is None else self._place(maker, 2), c.tag), c
            elif c.target == self.stage:
                readers = [self._place(u, 0) for u in self.users.get(c.value, ()) if u in self.due]
                yield (min(readers, default=_END), c.tag), c

    def _place(self, node: Node, side: int) -> Due:
        return self.due[node], self.whole.number[node], side


class _Writer:
    """Appends the nodes of a stage to its graph."""

    def __init__(
        self, b: Builder, table: dict[Value, Value], peer: Callable[[int], int],
        backward: Collection[Node],
    ) -> None:
        self.b, self.table, self.peer, self.backward = b, table, peer, backward
        self.last: Value | None = None
        """The last value sent or received."""

    def write(self, item: Node | Crossing, sends: bool) -> None:
        """Append a node, a send or a receive."""
        if isinstance(item, Node):
            self._node(item)
            return
        v = item.value
        span, scope = (v.node.span, v.node.scope) if v.node is not None else (None, None)
        with self.b.at(span=span, scope=scope):
            if sends:
                self.last = self.table[v]
                self.b.emit(SendTo.name, self.last, rank=self.peer(item.target), tag=item.tag)
            else:
                self.last = self.b.receive_from(
                    rank=self.peer(item.source), tag=item.tag, dtype=v.dtype, shape=v.shape)
                # (What a budget may compute again ends where the backward part begins.)
                self.table[v] = self.b.cotangent(self.last) \
                    if v.node in self.backward else self.last

    def _node(self, node: Node) -> None:
        operands = [self.table[v] for v in node.operands]
        if node.op == MicroBatch.name and self.last is not None:
            # A node that reads a micro-batch alone would be computed as early, and with as many
            # others, as it can be: it waits for the unit of work before it.
            operands[0] = self.b.after(operands[0], self.last)
        copy = node.clone(operands)
        self.b.graph.nodes.append(copy)
        self.table.update(zip(node.results, copy.results, strict=True))

    def zeros(self, value: Value) -> Value:
        """Return the stand-in for a result that another stage has."""
        return self.b.zeros_like(value)
