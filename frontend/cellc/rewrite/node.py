"""One statement of a network's `construct`, as a caller of `rewrite` sees it.

Source: `mindspore.rewrite`.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import TYPE_CHECKING, Any

from cellc_runtime.errors import counted

from ..core.declared import Flag, checks_arguments, instance
from ..nn.cell import Cell
from ..ops.primitive import Primitive
from .values import ScopedValue, expression, scoped

if TYPE_CHECKING:
    from .symbol_tree import SymbolTree

Place = tuple[Any, Any]
"""Where an operand stands in the syntax tree: a list and a position, or a node and a field."""


class NodeType(enum.Enum):
    """The kind of a statement."""

    Unknown = 0
    CallCell = 1
    CallPrimitive = 2
    CallModule = 3
    CallFunction = 4
    CallMethod = 5
    Python = 6
    Input = 7
    Output = 8
    Tree = 9
    CellContainer = 10
    MathOps = 11
    ControlFlow = 12


def _read(place: Place) -> ast.expr:
    owner, key = place
    found: ast.expr = owner[key] if isinstance(owner, list) else getattr(owner, key)
    return found


def _write(place: Place, value: ast.expr) -> None:
    owner, key = place
    if isinstance(owner, list):
        owner[key] = value
    else:
        setattr(owner, key, value)


def _of_value(owner: ast.stmt, value: ast.expr) -> list[Place]:
    """Where the operands of an operation stand; of anything else, where it stands itself."""
    many = {ast.Call: "args", ast.Tuple: "elts", ast.List: "elts", ast.BoolOp: "values",
            ast.Dict: "values"}
    if type(value) in many:
        items = getattr(value, many[type(value)])
        return [(items, i) for i in range(len(items))]
    if isinstance(value, ast.BinOp):
        return [(value, "left"), (value, "right")]
    if isinstance(value, ast.UnaryOp):
        return [(value, "operand")]
    if isinstance(value, ast.Compare):
        return [(value, "left"), *((value.comparators, i) for i in range(len(value.comparators)))]
    return [(owner, "value")]


def _operands(stmt: ast.stmt) -> list[Place]:
    if isinstance(stmt, ast.Assign):
        return _of_value(stmt, stmt.value)
    if isinstance(stmt, ast.Return):
        return [] if stmt.value is None else [(stmt, "value")]
    for kind, field in ((ast.If, "test"), (ast.While, "test"), (ast.For, "iter")):
        if isinstance(stmt, kind):
            return [(stmt, field)]
    return []


class Node:
    """A statement `targets = called(*args, **kwargs)`, an operation, an input or the output.

    Nodes are made by `SymbolTree.create`, `create_call_cell` and `create_call_function`.
    """

    def __init__(
        self, stmt: ast.stmt | None, kind: NodeType, name: str, instance: Any = None
    ) -> None:
        self.stmt = stmt
        self.kind = kind
        self.name = name
        self.instance = instance
        self.tree: SymbolTree | None = None
        self.block: list[Node] = []
        """The statements that it stands among."""
        self.branch = ""
        """Of control flow, the field of the statement that the statements inside stand in."""
        self.inner: list[Node] = []
        """Of control flow, the statements inside; of a container, its Cells."""
        self.sub_tree: SymbolTree | None = None
        self._attributes: dict[str, Any] = {}

    # --- new ones ---------------------------------------------------------------------------------

    @staticmethod
    @checks_arguments
    def create_call_cell(
        cell: Cell | Primitive, targets: Sequence[ScopedValue | str],
        args: Sequence[ScopedValue] | None = None, kwargs: Mapping[str, ScopedValue] | None = None,
        name: str = "", is_sub_net: Flag = False,
    ) -> Node:
        """A node that calls a Cell: `targets = self.name(*args, **kwargs)`.

        Args:
            cell: becomes an attribute of the new network.
            targets: names of what it gives.
            args, kwargs: what it takes.
            name: of the attribute; the class's name if empty. A number follows if it is taken.
            is_sub_net: whether the Cell is parsed in turn, as `get_sub_tree`.
        """
        name = name or type(cell).__name__
        func = ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load())
        kind = NodeType.CallPrimitive if isinstance(cell, Primitive) else NodeType.CallCell
        return Node(_call(func, targets, args, kwargs, "Node"),
                    NodeType.Tree if is_sub_net else kind, name, cell)

    @staticmethod
    @checks_arguments
    def create_call_function(
        function: FunctionType | BuiltinFunctionType | type, targets: Sequence[ScopedValue | str],
        args: Sequence[ScopedValue] | None = None, kwargs: Mapping[str, ScopedValue] | None = None,
    ) -> Node:
        """A node that calls a function, whose body is not parsed.

        Args:
            function: what is called.
            targets, args, kwargs: as for `create_call_cell`.
        """
        name = function.__name__
        return Node(_call(ast.Name(name, ast.Load()), targets, args, kwargs,
                          "create_call_function"),
                    NodeType.CallFunction, name, function)

    def rename(self, name: str) -> None:
        """Give the node, and what its statement calls, another name."""
        self.name = name
        call = self.stmt.value if isinstance(self.stmt, ast.Assign) else None
        if isinstance(call, ast.Call):
            if isinstance(call.func, ast.Attribute):
                call.func.attr = name
            elif isinstance(call.func, ast.Name):
                call.func.id = name

    # --- what it is -------------------------------------------------------------------------------

    def get_handler(self) -> Node:
        """Itself."""
        return self

    def get_name(self) -> str:
        """Its name, which no other node of its tree has."""
        return self.name

    def get_node_type(self) -> NodeType:
        """Return the kind of the statement."""
        return self.kind

    def get_instance(self) -> Any:
        """The Cell, Primitive or function that is called; None if none is known."""
        return self.instance

    def get_instance_type(self) -> Any:
        """The class of the Cell or Primitive that is called, or the function; else NoneType."""
        if isinstance(self.instance, (FunctionType, BuiltinFunctionType, type)):
            return self.instance
        return NoneType if self.instance is None else type(self.instance)

    def get_symbol_tree(self) -> SymbolTree | None:
        """The tree that it belongs to, if any."""
        return self.tree

    def get_sub_tree(self) -> SymbolTree:
        """The tree of the network that is called.

        Raises:
            TypeError: it is no node of the type `NodeType.Tree`.
            AttributeError: the node is in no tree yet.
        """
        if self.kind is not NodeType.Tree:
            raise TypeError("For get_sub_tree, the type of node should be 'NodeType.Tree', but got "
                            f"{self.kind}")
        if self.sub_tree is None:
            raise AttributeError("For get_sub_tree, no symbol tree is stored in node "
                                 f"{self.name}: insert it first.")
        return self.sub_tree

    def set_attribute(self, key: str, value: Any) -> None:
        """Note something beside the node."""
        self._attributes[key] = value

    def get_attribute(self, key: str) -> Any:
        """Return the note under a name; None if there is none."""
        return self._attributes.get(key)

    def get_attributes(self) -> dict[str, Any]:
        """Return all notes."""
        return self._attributes

    # --- operands and targets ---------------------------------------------------------------------

    def _places(self) -> list[Place]:
        known = self.stmt is not None and self.kind is not NodeType.Python
        return _operands(self.stmt) if known and self.stmt is not None else []

    def get_args(self) -> list[ScopedValue]:
        """Return its operands, in order."""
        return [scoped(_read(place)) for place in self._places()]

    def get_kwargs(self) -> dict[str, ScopedValue]:
        """Return its operands by name."""
        call = self.stmt.value if isinstance(self.stmt, ast.Assign) else None
        if not isinstance(call, ast.Call):
            return {}
        return {k.arg: scoped(k.value) for k in call.keywords if k.arg is not None}

    def get_targets(self) -> list[ScopedValue]:
        """Return its targets."""
        if self.kind is NodeType.Input:
            return [ScopedValue.create_naming_value(self.name.removeprefix("input_"))]
        if not isinstance(self.stmt, ast.Assign) or self.kind is NodeType.Python:
            return []
        (target,) = self.stmt.targets
        many = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        return [scoped(t) for t in many]

    @checks_arguments
    def set_arg(self, index: int, arg: ScopedValue | str) -> None:
        """Let it take another value.

        Args:
            index: which of `get_args`.
            arg: the value; a str is the name of a variable.

        Raises:
            TypeError: an argument of another type, or an object that no source can name.
        """
        places = self._places()
        if not 0 <= index < len(places):
            raise ValueError(f"The 'index' must be in range of [0, {len(places)}), but got {index} "
                             "with type 'int'.")
        _write(places[index], expression(arg))

    @checks_arguments
    def set_arg_by_node(self, arg_idx: int, src_node: Node, out_idx: int | None = None) -> None:
        """Let it take what another node gives.

        Args:
            arg_idx: which of `get_args`.
            src_node: the other node.
            out_idx: which of its targets; None: the only one.

        Raises:
            ValueError: a number out of range, or no `out_idx` for a node of several targets.
        """
        targets = src_node.get_targets()
        if out_idx is None and len(targets) != 1:
            raise ValueError(f"For 'set_arg_by_node', 'out_idx' is needed: node {src_node.name} "
                             f"has {counted(len(targets), 'output')}.")
        place = out_idx or 0
        if not 0 <= place < len(targets):
            raise ValueError(f"For 'set_arg_by_node', 'out_idx' must be below {len(targets)}, but "
                             f"got {place}.")
        self.set_arg(arg_idx, targets[place])

    # --- neighbours -------------------------------------------------------------------------------

    def get_arg_providers(self) -> dict[int, tuple[Node, int]]:
        """By the position of an operand, the node of this block that gives it, and which target."""
        found = {}
        before = self.block[:self.block.index(self)] if self in self.block else []
        for i, arg in enumerate([*self.get_args(), *self.get_kwargs().values()]):
            for node in reversed(before):
                targets = node.get_targets()
                if arg in targets:
                    found[i] = node, targets.index(arg)
                    break
        return found

    def get_target_users(self, index: int = -1) -> Any:
        """The nodes of this block that take a target, with the operand's position.

        Args:
            index: which target; -1: a dict of all.
        """
        found: dict[int, list[tuple[Node, int]]] = {i: [] for i in range(len(self.get_targets()))}
        for node in self.block[self.block.index(self) + 1:] if self in self.block else []:
            for place, (giver, target) in node.get_arg_providers().items():
                if giver is self:
                    found[target].append((node, place))
        return found if index == -1 else found[index]

    def get_inputs(self) -> list[Node]:
        """The nodes that give what it takes, in the order of its operands."""
        return [node for node, _ in self.get_arg_providers().values()]

    def get_users(self) -> list[Node]:
        """The nodes that take what it gives, each once."""
        users = [node for many in self.get_target_users().values() for node, _ in many]
        return list(dict.fromkeys(users))

    def code(self) -> str:
        """Its source: of control flow the first line."""
        return "" if self.stmt is None else ast.unparse(
            ast.fix_missing_locations(self.stmt)).partition("\n")[0]

    def __str__(self) -> str:
        return f"Node({self.kind.name}, {self.name!r}, {self.code()!r})"


def _call(
    func: ast.expr, targets: Sequence[ScopedValue | str], args: Sequence[ScopedValue] | None,
    kwargs: Mapping[str, ScopedValue] | None, what: str,
) -> ast.Assign:
    """The statement of a call."""
    instance(list, tuple)(targets, what, "targets")
    for key, values, kinds in (("targets", targets, (ScopedValue, str)),
                               ("args", args or (), (ScopedValue,)),
                               ("kwargs", (kwargs or {}).values(), (ScopedValue,))):
        for value in values:
            instance(*kinds)(value, what, f"each of {key}")
    given = [expression(t) for t in targets]
    target = given[0] if len(given) == 1 else ast.Tuple(given, ast.Store())
    return ast.Assign([target], ast.Call(
        func, [expression(a) for a in args or ()],
        [ast.keyword(k, expression(v)) for k, v in (kwargs or {}).items()]))
