"""A network's statements as nodes, changed by name, and the network that they make.

Source: `mindspore.rewrite`.
"""

from __future__ import annotations

import ast
import copy
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cellc_runtime.files import write_text
from cellc_runtime.records import dataclass

from ..core.declared import Flag, Listed, checks_arguments, instance
from ..core.native import names_itself
from ..nn.cell import Cell
from .names import Names
from .node import Node, NodeType
from .parsing import Parser, cells_inside

FOLDER = "rewritten_network"
"""Where the sources of new networks are written, below the current folder."""
_BETWEEN = "\n\n"


@dataclass(slots=True, eq=False)
class Position:
    """Where to insert: before or after a node."""

    node: Node
    before: bool


@names_itself
class SymbolTree:
    """The statements of a Cell's `construct`, each a node; see `create`."""

    def __init__(self, handler: Cell) -> None:
        self._network: Cell = instance(Cell)(handler, "SymbolTree", "network")
        self._parser = Parser(handler)
        self._new: dict[str, Any] = {}
        """Cells and Primitives that were inserted, by attribute."""
        self._trees: dict[str, SymbolTree] = {}
        self._count = 0
        self._nodes = self._parser.inputs() + self._parser.block(self._parser.definition.body)
        self._adopt(self._nodes)

    @classmethod
    def create(cls, network: Cell) -> SymbolTree:
        """The tree of a network.

        Each statement becomes a node. Operands that are calls or operations become statements of
        their own before it. A Cell of a class of the user's has a tree in turn (`get_sub_tree`).

        Raises:
            CompileRuntimeError: the source of its `construct` is not available.
        """
        return cls(network)

    def get_handler(self) -> SymbolTree:
        """Itself."""
        return self

    def get_origin_network(self) -> Cell:
        """The network that it was made of."""
        return self._network

    def _adopt(self, nodes: list[Node]) -> None:
        """Let nodes that stand one after the other know this tree, and what they contain."""
        for node in nodes:
            node.tree, node.block = self, nodes
            if node.kind is NodeType.CellContainer:
                node.inner = cells_inside(node.instance, self._parser.names)
            elif node.kind is NodeType.Tree:
                if node.name not in self._trees or self._trees[node.name]._network is not (
                        node.instance):
                    self._trees[node.name] = SymbolTree(node.instance)
                node.sub_tree = self._trees[node.name]
            self._adopt(node.inner)

    # --- nodes ------------------------------------------------------------------------------------

    @checks_arguments
    def nodes(self, all_nodes: Flag = False) -> Iterator[Node]:
        """The nodes in the order of the source.

        Args:
            all_nodes: those within control flow, containers and trees, too.
        """
        yield from (self._inside(self._nodes, trees=True) if all_nodes else list(self._nodes))

    def _inside(self, nodes: list[Node], trees: bool) -> Iterator[Node]:
        for node in list(nodes):
            yield node
            yield from self._inside(node.inner, trees)
            if trees and node.sub_tree is not None:
                yield from node.sub_tree.nodes(all_nodes=True)

    @checks_arguments
    def get_node(self, node_name: str) -> Node | None:
        """The node of a name; None if there is none."""
        return next((n for n in self._inside(self._nodes, trees=False) if n.name == node_name),
                    None)

    def get_inputs(self) -> list[Node]:
        """The nodes of the parameters."""
        return [n for n in self._nodes if n.kind is NodeType.Input]

    @checks_arguments
    def unique_name(self, name: str = "output") -> str:
        """A name that no variable has: `name`, or with a number."""
        return self._parser.variables.unique(name)

    @checks_arguments
    def _own(self, node: Node | str) -> Node:
        found = self.get_node(node) if isinstance(node, str) else node
        if found is None or found.tree is not self or found not in found.block:
            raise RuntimeError(f"Node is not belong to current SymbolTree: {node!r}. Its nodes "
                               f"are {[n.name for n in self._nodes]}.")
        return found

    # --- changes ----------------------------------------------------------------------------------

    def before(self, node: Node | str) -> Position:
        """The place before a node, for `insert`.

        Raises:
            RuntimeError: the node is not in this tree.
        """
        return Position(self._own(node), True)

    def after(self, node: Node | str) -> Position:
        """The place after a node, for `insert`.

        Raises:
            RuntimeError: the node is not in this tree.
        """
        return Position(self._own(node), False)

    @checks_arguments
    def insert(self, position: Position, node: Node) -> Node:
        """Put a new node at a place; the node, whose name is made unique.

        Raises:
            ValueError: the node is in a tree already; the place is before a parameter or in a
                container, where no statement can stand.
            RuntimeError: the position is one of another tree.
        """
        place = self._own(position.node)
        if node.tree is not None:
            raise ValueError("Node in the SymbolTree cannot be inserted into SymbolTree again: "
                             f"{node.name}")
        index = place.block.index(place) + (not position.before)
        if place.stmt is None and (place.kind is not NodeType.Input or (
                index < len(self.get_inputs()))):
            raise ValueError(f"For 'insert', no statement can stand {place.name!r}: only after "
                             "the parameters, and outside of containers.")
        self._bind(node)
        place.block.insert(index, node)
        self._adopt(place.block)
        return node

    def _bind(self, node: Node) -> None:
        """Give a new node a name of its own, under which the network has what it calls."""
        if node.kind is NodeType.CallFunction:
            if self._parser.namespace.get(node.name) is not node.instance:
                node.rename(self._parser.variables.unique(node.name))
                self._parser.namespace[node.name] = node.instance
            node.name = self._parser.names.unique(node.name)
            return
        base = node.name
        name = self._parser.names.unique(base)
        while hasattr(self._network, name):
            name = self._parser.names.unique(base)
        node.rename(name)
        self._new[name] = node.instance

    def erase(self, node: Node | str) -> Node:
        """Take a node away; the node. Its targets then have their earlier values.

        Raises:
            RuntimeError: the node is not in this tree.
        """
        found = self._own(node)
        found.block.remove(found)
        self._new.pop(found.name, None)
        found.tree = None
        return found

    @checks_arguments
    def replace(self, old_node: Node, new_nodes: Listed) -> Node:
        """Put new nodes, one after the other, in the place of one; the last of them.

        Raises:
            RuntimeError: the old node is not in this tree.
            ValueError: there is no new node, or one is in a tree already.
        """
        if not new_nodes:
            raise ValueError("For 'replace', 'new_nodes' must have a node; erase() takes one away.")
        place = self.after(old_node)
        for node in new_nodes:
            place = self.after(self.insert(place, node))
        self.erase(old_node)
        last: Node = new_nodes[-1]
        return last

    # --- what it makes ----------------------------------------------------------------------------

    def print_node_tabulate(self, all_nodes: bool = False) -> None:
        """Print the nodes: type, name, source, where operands come from, who takes targets."""
        rows = [("node type", "name", "codes", "arg providers", "target users")]
        for n in self.nodes(all_nodes):
            providers = {i: (p.name, t) for i, (p, t) in n.get_arg_providers().items()}
            users = {t: [(u.name, i) for u, i in many] for t, many in n.get_target_users().items()}
            rows.append((str(n.kind), n.name, n.code(), str(providers), str(users)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip())

    def get_code(self) -> str:
        """Return the source of the new network's class, after those of networks it calls."""
        return _BETWEEN.join(text for _, text, _ in self._classes(Names()))

    def _classes(self, names: Names) -> list[tuple[SymbolTree, str, str]]:
        """Each tree with the text and the name of its class; the last is this one's."""
        found = [c for tree in self._trees.values() for c in tree._classes(names)]
        network = type(self._network)
        name = names.unique(f"{network.__name__}Opt")
        local = network.__module__ == "__main__" or "." in network.__qualname__
        head = "" if local else f"from {network.__module__} import {network.__name__}\n\n\n"
        definition = copy.deepcopy(self._parser.definition)
        definition.body = _statements(self._nodes) or [ast.Pass()]
        body = textwrap.indent(ast.unparse(ast.fix_missing_locations(definition)), "    ")
        return [*found, (self, f"{head}class {name}({network.__name__}):\n\n{body}\n", name)]

    def get_network(self) -> Cell:
        """A new network of the statements as they are now.

        It has the Parameters and Cells of the network that this tree was made of, which should not
        be used any longer. Its source is written to a file in the folder `rewritten_network`.

        Raises:
            OSError: the file cannot be written.
        """
        self._count += 1
        classes = self._classes(Names())
        folder = Path.cwd() / FOLDER
        folder.mkdir(exist_ok=True)
        file = folder / f"{classes[-1][2]}_{id(self._network)}_{self._count}.py"
        write_text(file, self.get_code())
        made: dict[SymbolTree, Cell] = {}
        line = 0
        for tree, text, name in classes:
            made[tree] = tree._instance(text, name, str(file), line, made)
            line += (text + _BETWEEN).count("\n")
        self._name_new("")
        return made[self]

    def _name_new(self, path: str) -> None:
        """Name the Parameters of inserted Cells by their path; all others have their names."""
        for key, value in self._new.items():
            if isinstance(value, Cell):
                value.update_parameters_name(f"{path}{key}.")
        for key, tree in self._trees.items():
            tree._name_new(f"{path}{key}.")

    def _instance(
        self, text: str, name: str, file: str, line: int, made: dict[SymbolTree, Cell]
    ) -> Cell:
        """Return the network of a text that begins after some lines of a file."""
        base = type(self._network)
        space = {**self._parser.namespace, base.__name__: base}
        exec(compile("\n" * line + text, file, "exec"), space)
        network: Cell = space[name].__new__(space[name])
        state = self._state()
        for key, tree in self._trees.items():
            state["_cells"][key] = made[tree]
        network.__setstate__(state)
        for key, value in self._new.items():
            setattr(network, key, value)
        return network

    def _state(self) -> dict[str, Any]:
        """The original's state, in tables of its own."""
        tables = {k: copy.copy(v) for k, v in self._network.__getstate__().items()
                  if isinstance(v, dict) and k.startswith("_")}
        state = self._network.__getstate__() | tables
        state.pop("_prepared", None)
        return state


def _statements(nodes: list[Node]) -> list[ast.stmt]:
    """The statements of nodes, with those inside of control flow."""
    found: list[ast.stmt] = []
    for node in nodes:
        stmt = node.stmt
        if stmt is None:
            continue
        if not any(stmt is s for s in found):
            found.append(stmt)
            if isinstance(stmt, (ast.If, ast.For, ast.While)):
                stmt.body, stmt.orelse = [ast.Pass()], []
        if node.branch:
            setattr(stmt, node.branch, _statements(node.inner) or [ast.Pass()])
    return found
