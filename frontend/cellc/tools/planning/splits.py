"""The cuts of tensor parallelism in a step's graph, and the places where ranks must add up.

The cut is that of M. Shoeybi et al., Megatron-LM, 2019, for any graph: a product of a whole value
with weights has its columns cut, and what is computed of them is cut too; a product of a cut value
with weights has its rows cut, and gives partial sums. Partial sums that meet anything else than one
another are added over the ranks. The same rule gives the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from cellc_compiler.ir.graph import Node, Value
from cellc_compiler.passes.rematerialize import contraction_flops

_LINEAR = frozenset({"add", "sub"})
_MOVING = frozenset({"reshape", "transpose", "slice", "cast", "squeeze", "broadcast_to", "neg",
                     "pad", "concat"})
"""Ops that only move elements of what they are given, or keep sums of it."""


class Lies(Enum):
    """How a value lies on the ranks of a tensor-parallel group."""

    WHOLE = 0
    CUT = 1
    PARTIAL = 2


class Splits:
    """How the values that some nodes give lie on ranks."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.lies: dict[Value, Lies] = {}  # by value
        self.weights: set[Value] = set()  # the weights that are cut, as inputs of the graph
        # the partial sums that are added up, each once, with the node that asks for it first
        self.sums: dict[Value, Node] = {}
        self.order: list[Node] = []  # the nodes and all that they need, each after its operands
        self.backward: set[Node] = set()  # the nodes of the backward pass, and what follows it
        done: set[Node] = set()
        for wanted in nodes:
            for node in _in_order(wanted, done):
                self._place(node)

    def _place(self, node: Node) -> None:
        found = self._lie(node)
        self.lies.update((r, found) for r in node.results)
        self.order.append(node)
        if node.origin or any(v.node in self.backward for v in node.operands):
            self.backward.add(node)

    def _lie(self, node: Node) -> Lies:
        given = [self.lies.get(v, Lies.WHOLE) for v in node.operands]
        weight = self._weight(node)
        if weight is not None:
            self.weights.add(weight[1])
            data = given[1 - weight[0]]
            if data is Lies.PARTIAL:
                self._add_up(node)
            return Lies.PARTIAL if data is Lies.CUT else Lies.CUT
        if Lies.PARTIAL not in given:
            return Lies.CUT if Lies.CUT in given else Lies.WHOLE
        others = [g for g, v in zip(given, node.operands, strict=True)
                  if g is not Lies.PARTIAL and v.type.size > 1]
        if not others and (node.op in _MOVING or node.op in _LINEAR):
            return Lies.PARTIAL
        self._add_up(node)
        return Lies.CUT if Lies.CUT in given else Lies.WHOLE

    def _add_up(self, node: Node) -> None:
        """Add up the partial operands of a node; they are whole from then on."""
        for v in node.operands:
            if self.lies.get(v) is Lies.PARTIAL:
                self.sums[v] = node
                self.lies[v] = Lies.WHOLE

    def _weight(self, node: Node) -> tuple[int, Value] | None:
        """Which operand of a product is a weight, and the parameter that it comes from."""
        if len(node.operands) < 2 or not contraction_flops(node):
            return None
        found = [(i, w) for i in (0, 1) if (w := parameter_of(node.operands[i])) is not None]
        return found[0] if len(found) == 1 else None


def parameter_of(value: Value) -> Value | None:
    """The parameter that a value has the elements of; None if of none."""
    while value.node is not None:
        if value.node.op not in _MOVING or len(value.node.operands) != 1:
            return None
        value = value.node.operands[0]
    return value if value.kind == "param" else None


def _in_order(wanted: Node, done: set[Node]) -> Iterator[Node]:
    """Yield a node after all that it needs, each once."""
    stack = [(wanted, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack.extend((v.node, False) for v in reversed(node.operands)
                         if v.node is not None and v.node not in done)
