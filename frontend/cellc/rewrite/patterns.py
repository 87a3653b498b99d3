"""Replaces what fits a pattern of Cells in a network's statements. Source: `mindspore.rewrite`."""

from __future__ import annotations

import abc
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ..core.declared import Listed, checks_arguments, instance
from ..core.native import names_itself
from ..nn.cell import Cell
from ..ops.primitive import Primitive
from .node import Node, NodeType
from .symbol_tree import SymbolTree

Matched = OrderedDict[str, Node]


@names_itself
class PatternNode:
    """The conditions on one node of a pattern: a class of Cells, and its operands.

    Args:
        pattern_node_name: under which `Replacement.build` finds the node that fits.
        match_type: the class of the Cell or Primitive that is called.
        inputs: what the nodes must be that it takes its operands from; none: any.

    Raises:
        TypeError: a name that is no str, or inputs that are no PatternNodes.
    """

    @checks_arguments
    def __init__(
        self, pattern_node_name: str, match_type: Any = type[None],
        inputs: Sequence[PatternNode] | None = None,
    ) -> None:
        self._name: str = pattern_node_name
        self._type = match_type
        self._inputs: list[PatternNode] = []
        self.set_inputs(inputs or ())

    @staticmethod
    def from_node(node: Node) -> PatternNode:
        """A pattern of what a node calls."""
        name = str(node.get_targets()[0])
        calls = node.get_node_type() is NodeType.CallCell
        return PatternNode(name, node.get_instance_type() if calls else type[None])

    @staticmethod
    def create_pattern_from_node(node: Node) -> PatternNode:
        """A pattern of what a node calls, and of all that it takes."""
        found = PatternNode.from_node(node)
        found.set_inputs([PatternNode.create_pattern_from_node(n) for n in node.get_inputs()])
        return found

    @staticmethod
    @checks_arguments
    def create_pattern_from_list(type_list: Listed) -> PatternNode:
        """A pattern of Cells of which each takes what the one before it gives; its last one."""
        last: PatternNode | None = None
        for i, kind in enumerate(type_list):
            last = PatternNode(f"{i}-{kind}", kind, [] if last is None else [last])
        if last is None:
            raise ValueError("For 'PatternNode', 'type_list' must name a class of Cells.")
        return last

    @checks_arguments
    def add_input(self, node: PatternNode) -> None:
        """Let it take a further operand."""
        self._inputs.append(node)

    def set_inputs(self, inputs: Sequence[PatternNode]) -> None:
        """Let it take these operands."""
        self._inputs = [instance(PatternNode)(n, "PatternNode", "inputs") for n in inputs]

    def match(self, node: Node) -> bool:
        """Whether a node calls what this one stands for."""
        return bool(self._type == node.get_instance_type())

    def get_inputs(self) -> list[PatternNode]:
        """Return the conditions on its operands."""
        return self._inputs

    def name(self) -> str:
        """Its name."""
        return self._name

    def type(self) -> Any:
        """The class that it stands for."""
        return self._type


class VarNode(PatternNode):
    """A place in a pattern that every node fits."""

    def __init__(self) -> None:
        super().__init__("placeholder", Cell)

    def match(self, node: Node) -> bool:
        """True."""
        return True


class Replacement(abc.ABC):
    """Makes what stands in the place of a pattern."""

    @abc.abstractmethod
    def build(self, pattern: PatternNode, is_chain_pattern: bool, matched: Matched) -> list[Node]:
        """The new nodes, of which the last gives what the pattern gave; none: nothing changes.

        Args:
            pattern: the pattern's last node.
            is_chain_pattern: whether it was given as a list of classes.
            matched: by the names of the pattern, the nodes that fit.
        """

    def __call__(self, pattern: PatternNode, is_chain_pattern: bool, matched: Matched
                 ) -> list[Node]:
        return self.build(pattern, is_chain_pattern, matched)


@names_itself
class PatternEngine:
    """Replaces each place of a tree that fits a pattern.

    Args:
        pattern: its last node; or classes of Cells, of which each takes what the one before gives.
        replacement: makes what stands there instead.
    """

    @checks_arguments
    def __init__(
        self, pattern: PatternNode | list[type], replacement: Replacement | None = None
    ) -> None:
        self._is_chain = isinstance(pattern, list)
        if isinstance(pattern, list):
            for kind in pattern:
                if not (isinstance(kind, type) and issubclass(kind, (Cell, Primitive))):
                    raise TypeError("The type of 'pattern' should be one of [Cell, Primitive], but "
                                    f"got {kind!r}.")
            pattern = PatternNode.create_pattern_from_list(pattern)
        self._pattern: PatternNode = instance(PatternNode)(pattern, "PatternEngine", "pattern")
        self._replacement = replacement

    def pattern(self) -> PatternNode:
        """The pattern's last node."""
        return self._pattern

    @checks_arguments
    def apply(self, stree: SymbolTree) -> bool:
        """Replace all that fits, in the networks that are called, too; whether anything did."""
        changed = False
        for node in list(stree.nodes()):
            if node.get_node_type() is NodeType.Tree:
                changed |= self.apply(node.get_sub_tree())
            elif node.tree is stree:  # nothing has replaced it meanwhile
                changed |= self._replace(stree, node)
        return changed

    def _replace(self, stree: SymbolTree, node: Node) -> bool:
        matched = self._match(self._pattern, node)
        if matched is None or self._replacement is None or self._leaks(matched, node):
            return False
        new = self._replacement(self._pattern, self._is_chain, matched)
        if not new:
            return False
        stree.replace(node, new)
        for other in matched.values():
            if other is not node:
                stree.erase(other)
        return True

    def _match(self, pattern: PatternNode, node: Node) -> Matched | None:
        """The nodes that fit, by name; None if they do not."""
        kinds = (NodeType.CallCell, NodeType.CallPrimitive, NodeType.Input)
        if node.get_node_type() not in kinds or not pattern.match(node):
            return None
        found: Matched = OrderedDict()
        if isinstance(pattern, VarNode):
            return found
        wanted, given = pattern.get_inputs(), node.get_inputs()
        if wanted and len(wanted) != len(given):
            return None
        for inner, provider in zip(wanted, given, strict=False):
            matched = self._match(inner, provider)
            if matched is None:
                return None
            found |= matched
        found[pattern.name()] = node
        return found

    @staticmethod
    def _leaks(matched: Matched, last: Node) -> bool:
        """Whether somebody else takes what a node within the pattern gives."""
        inside = list(matched.values())
        return any(user not in inside for n in inside if n is not last for user in n.get_users())
