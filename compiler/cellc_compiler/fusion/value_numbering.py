"""Value numbering: equal computations have equal numbers, whatever buffers they read.

A network of many equal layers asks the same question of each of them: can this node be computed in
that nest? The answer follows from the structure, so it is found once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ..ir.graph import Literal, Node, Value, attrs_key
from ..ir.op import lookup


class ValueNumbers:
    """The value numbers of one graph.

    Args:
        inline: values expanded wherever they are read.
    """

    def __init__(self, inline: set[Value]) -> None:
        self.inline = inline
        self.numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable) -> int:
        """The number of a key."""
        return self.numbers.setdefault(key, len(self.numbers))

    def of(self, node: Node, members: Mapping[Node, int]) -> int:
        """The number of what a node computes as one of a nest's members, given their places."""
        operands = tuple([self._operand(v, members) for v in node.operands])
        types = tuple([r.type for r in node.results])
        return self.number((node.op, attrs_key(node.attrs), operands, types))

    def _operand(self, v: Value, members: Mapping[Node, int]) -> Hashable:
        node = v.node
        if node is None:
            return v.type
        at = members.get(node)
        if at is not None:
            return "member", at, v.index
        if v in self.inline:
            return "inline", self.of(node, members), v.index
        literal = node.attrs.get("value")
        if isinstance(literal, Literal) and literal.array.size == 1:
            return literal.digest, v.type
        named = v  # (a member may be read by another name: see `NestBuilder`)
        while node is not None and lookup(node.op).may_alias and node not in members \
                and named not in self.inline:
            named = node.operands[0]
            node = named.node
        at = members.get(node) if node is not None else None
        return v.type if at is None else (at, named.index, named.type, v.type)
