"""Reductions of complex values run as those of their parts."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Builder, Graph, Node, Value
from .base import Pass, rewrite


class ComplexSums(Pass):
    """A complex sum is the sum of the real and that of the imaginary parts."""

    name = "complex-sums"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        return rewrite(graph, _split)


def _split(b: Builder, node: Node) -> Sequence[Value] | None:
    if node.op != "reduce_sum" or not node.operands[0].dtype.is_complex:
        return None
    x = node.operands[0]
    parts = [b.emit("reduce_sum", part, **node.attrs) for part in (b.real(x), b.imag(x))]
    return [b.make_complex(*parts)]
