"""Sums and products of complex values, whole or running, by ops whose kernels know these."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from .base import Pass, rewrite


class ComplexReductions(Pass):
    """Replaces each op on complex operands by its own rule (`Op.of_complex`)."""

    name = "complex-reductions"

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, _rewritten, asks=lambda op: lookup(op).of_complex is not None)


def _rewritten(b: Builder, node: Node) -> Sequence[Value] | None:
    rule = lookup(node.op).of_complex
    if rule is None or not node.operands[0].dtype.is_complex:
        return None
    out = rule(b, node)
    return None if out is None else [out]
