"""Compositions become core ops; graphs that only gradients look at are inlined."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.op import lookup
from .base import Pass, rewrite


class Expand(Pass):
    """Replace each composition by what it is made of, until only core ops are left.

    Args:
        turns: leave `cotangent` nodes as they are.
    """

    name = "expand"

    def __init__(self, turns: bool = False) -> None:
        self.turns = turns

    def run(self, graph: Graph) -> bool:
        """See the class."""
        return rewrite(graph, _expand_but_turns if self.turns else _expand, again=True,
                       asks=_expands)


_BODIES = ("custom_grad", "recompute")
"""Ops whose first region takes their place."""


def _expands(op: str) -> bool:
    return op in _BODIES or lookup(op).expand is not None


def _expand_but_turns(b: Builder, node: Node) -> Sequence[Value] | None:
    return None if node.op == "cotangent" else _expand(b, node)


def _expand(b: Builder, node: Node) -> Sequence[Value] | None:
    if node.op in _BODIES:
        with b.at(scope=""):
            outputs, _ = clone_into(b, node.regions[0], node.operands)
        return outputs
    op = lookup(node.op)
    if op.expand is None:
        return None
    out = op.expand(b, *node.operands, **node.attrs)
    return list(out) if isinstance(out, tuple) else [out]
