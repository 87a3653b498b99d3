"""Concatenations with parts that are computed in place, so that nothing is copied.

Where the parts of a join lie one after the other in memory, and each is a result of its own, the
kernels that compute the parts can write into the joined tensor. This pass decides where: such a
join becomes a `join_copy`, which needs its operands in memory, and lowering gives them their
places (`lower/inplace_concat.py`). A join that is only read by elementwise work stays: it is
fused with its readers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.graph import Builder, Graph, Node, Value
from ....ir.op import lookup
from ....lower.inplace_concat import in_place_concats
from ....passes.base import Pass, rewrite


class InPlaceConcat(Pass):
    """`join` as `join_copy` where its parts can be written in place."""

    name = "in-place-concat"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        chosen = in_place_concats(graph, "join", source)
        if not chosen:
            return False

        def rule(b: Builder, node: Node) -> Sequence[Value] | None:
            if node not in chosen:
                return None
            return [b.emit("join_copy", *node.operands, axis=node.attrs["axis"])]

        return rewrite(graph, rule)


def source(value: Value) -> Value:
    """Return the value that this one is most likely a view of: fusion decides."""
    while value.node is not None and lookup(value.node.op).may_alias:
        value = value.node.operands[0]
    return value
