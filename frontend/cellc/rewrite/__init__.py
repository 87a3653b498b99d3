"""Changes a network's `construct` as source: statements are nodes to insert, replace and erase.

`SymbolTree.create(net)` parses it, `get_code()` writes it, `get_network()` makes a new network of
what it has become. Source: `mindspore.rewrite`.
"""

from cellc_runtime.lazy import public_names

from .node import Node, NodeType
from .patterns import PatternEngine, PatternNode, Replacement, VarNode
from .symbol_tree import SymbolTree
from .values import ScopedValue, ValueType

__all__ = [
    "Node", "NodeType", "PatternEngine", "PatternNode", "Replacement", "ScopedValue", "SymbolTree",
    "ValueType", "VarNode",
]
__dir__ = public_names(__name__)
