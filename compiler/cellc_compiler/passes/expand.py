"""Compositions become core ops; graphs that only gradients look at are inlined."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.dims import is_symbolic
from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.op import lookup
from ..ops.shape import Number
from .base import Pass, rewrite


class Expand(Pass):
    """Replace each composition by what it is made of, until only core ops are left.

    Args:
        keep: ops whose nodes stay as they are.
    """

    name = "expand"

    def __init__(self, *keep: str) -> None:
        self.keep = keep

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, self._rule, again=True, asks=_expands)

    def _rule(self, b: Builder, node: Node) -> Sequence[Value] | None:
        if node.op in self.keep or (
                node.op == Number.name and is_symbolic(node.attrs["value"])):
            return None
        return _expand(b, node)


class Inline(Pass):
    """Put the nodes of graphs that only gradients look at in the place of these."""

    name = "inline"

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, _inline, again=True, asks=lambda name: lookup(name).inlined)


def _inline(b: Builder, node: Node) -> Sequence[Value]:
    with b.at(scope=""):
        outputs, _ = clone_into(b, node.regions[0], node.operands)
    return outputs


def _expands(name: str) -> bool:
    op = lookup(name)
    return op.inlined or op.expand is not None


def _expand(b: Builder, node: Node) -> Sequence[Value] | None:
    op = lookup(node.op)
    if op.inlined:
        return _inline(b, node)
    if op.expand is None:
        return None
    out = op.expand(b, *node.operands, **node.attrs)
    return list(out) if isinstance(out, tuple) else [out]
