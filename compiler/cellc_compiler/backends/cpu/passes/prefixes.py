"""Products with the filled part of a cache: `matmul(x, cache[..., :n, :])` without a copy.

The first n rows of a matrix lie together, so the product can read them where they are; only the
distance between matrices is another (`matmul_prefix`). That pays where the product reads them once,
as a decoder does that makes one token after the other. Products of many rows stay: others may fuse
with them, and the copy is little beside them. A cache of 16-bit floats that the network widens to
float32 is widened where the product reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dims import estimate, surely_equal
from ....ir.graph import Builder, Graph, Node, Value
from ....ir.types import prod
from ....ops.contraction import widens
from ....passes.base import Pass, rewrite
from .inplace_concat import source

_MOST_ROWS = 8
"""Rows of the other operand, over the batch of a matrix, from which on nothing is gained."""


class Prefixes(Pass):
    """`matmul` as `matmul_prefix` where an operand is the beginning of what a call writes."""

    name = "matmul-prefixes"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        written = {source(new) for _, new in graph.updates}
        if not any(n.op == "slice" and source(n.operands[0]) in written for n in graph.nodes):
            return False

        def rule(b: Builder, node: Node) -> Sequence[Value] | None:
            found = _prefix(_stored(node))
            if found is None or source(found.operands[0]) not in written:
                return None
            x, y = node.operands
            rows = prod(node.result.shape[:-1])
            if estimate(rows) > _MOST_ROWS * estimate(prod(y.shape[:-2])):
                return None
            return [b.emit("matmul_prefix", x, found.operands[0], **node.attrs, rows=y.shape[-2],
                           batch=y.shape[:-2])]

        return rewrite(graph, rule, asks=lambda op: op == "matmul")


def _stored(node: Node) -> Value:
    """The right operand of a product, as it is stored: before it is widened.

    Where the result has one column the operands change places; such a product keeps what it has.
    """
    value = node.operands[1]
    if 1 in (node.result.shape[-1], *value.shape[-2:]):
        return value
    axes = value
    if axes.node is not None and axes.node.op == "reshape" and _ends_alike(axes.node):
        axes = axes.node.operands[0]
    if axes.node is None or axes.node.op != "cast" \
            or not widens(axes.node.operands[0].dtype, axes.dtype):
        return value
    return axes.node.operands[0]


def _prefix(value: Value) -> Node | None:
    """The slice that a value is, but for axes of one: of the first rows of each matrix."""
    node = value.node
    if node is not None and node.op == "reshape" and _ends_alike(node):
        node = node.operands[0].node
    if node is None or node.op != "slice" or node.result.type.rank < 2:
        return None
    whole, axis = node.operands[0].shape, node.result.type.rank - 2
    full = all(i == axis or surely_equal(a, b)
               for i, (a, b) in enumerate(zip(whole, node.result.shape, strict=True)))
    steps = node.attrs.get("step") or ()
    return node if full and not any(node.attrs["start"]) and all(s == 1 for s in steps) else None


def _ends_alike(node: Node) -> bool:
    """Whether a reshape only adds or drops axes of one before the last two."""
    before, after = node.operands[0].shape, node.result.shape
    return (len(before) > 1 and len(after) > 1
            and all(map(surely_equal, before[-2:], after[-2:]))
            and [d for d in before[:-2] if d != 1] == [d for d in after[:-2] if d != 1])
