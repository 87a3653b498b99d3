"""The `construct` of a Cell as nodes: what each statement calls, and what the names in it are."""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Iterator
from types import FunctionType
from typing import Any, cast

from ..lang.source import function_source
from ..nn.cell import Cell
from ..nn.layer.container import CellDict, CellList, SequentialCell
from ..ops.primitive import Primitive
from .flattening import Flattener, called_name, operator_name
from .names import Names
from .node import Node, NodeType

_OWN = f"{__name__.partition('.')[0]}."
_OPERATIONS = {ast.BinOp: "binop", ast.UnaryOp: "unaryop", ast.Compare: "compare",
               ast.BoolOp: "boolop"}
_PLAIN = {ast.Tuple: "tuple", ast.List: "list", ast.Dict: "dict", ast.Name: "name_assign",
          ast.Attribute: "attribute_assign", ast.Constant: "constant_assign",
          ast.Subscript: "subscript_var"}
_CONTAINERS = (SequentialCell, CellList, CellDict)


class _OwnNames(ast.NodeTransformer):
    """Writes out what Python completes by the class that a method stands in."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._mangled = owner.lstrip("_")

    def _name(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and self._mangled
        return f"_{self._mangled}{name}" if private else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._name(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._name(node.attr)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if called_name(node.func) == "super" and not node.args:
            node.args = [ast.Name(self._owner, ast.Load()), ast.Name("self", ast.Load())]
        return self.generic_visit(node)


class Parser:
    """Parses `construct`."""

    def __init__(self, network: Cell) -> None:
        self.network = network
        construct = cast(FunctionType, type(network).construct)
        owner = next(c for c in type(network).__mro__ if "construct" in vars(c))
        source = copy.deepcopy(function_source(construct).node)
        assert isinstance(source, ast.FunctionDef)
        # the function, without its body
        self.definition: ast.FunctionDef = _OwnNames(owner.__name__).visit(source)
        for given in ast.walk(self.definition.args):
            if isinstance(given, ast.arg):
                given.annotation = None  # the class is made where what it names may not be
        self.definition.returns = None
        cells = zip(construct.__code__.co_freevars, construct.__closure__ or (), strict=True)
        # what the names that are not its own stand for
        self.namespace = {**construct.__globals__, owner.__name__: owner,
                          **{n: c.cell_contents for n, c in cells if n != "__class__"}}
        # names of the function's variables
        self.variables = Names(_identifiers(self.definition) | {*construct.__globals__})
        self.names = Names()  # names of nodes
        self._flattener = Flattener(self.variables)

    def inputs(self) -> list[Node]:
        """A node for each parameter of the function."""
        given = self.definition.args
        return [Node(None, NodeType.Input, self.names.unique(f"input_{a.arg}"))
                for a in (*given.posonlyargs, *given.args[1:], *given.kwonlyargs)]

    def block(self, statements: list[ast.stmt]) -> list[Node]:
        """The nodes of statements that stand one after the other."""
        nodes: list[Node] = []
        for stmt in statements:
            documents = isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
            for simple in [] if documents else self._flattener.statement(stmt):
                nodes += self._nodes(simple)
        return nodes

    def _nodes(self, stmt: ast.stmt) -> Iterator[Node]:
        if isinstance(stmt, (ast.If, ast.For, ast.While)):
            yield self._flow(stmt, type(stmt).__name__.lower(), "body", stmt.body)
            if stmt.orelse:
                yield self._flow(stmt, "else", "orelse", stmt.orelse)
            return
        kind, name, instance = self._kind(stmt)
        yield Node(stmt, kind, self.names.unique(name), instance)

    def _flow(self, stmt: ast.stmt, name: str, branch: str, body: list[ast.stmt]) -> Node:
        node = Node(stmt, NodeType.ControlFlow, self.names.unique(f"{name}_node"))
        node.branch, node.inner = branch, self.block(body)
        return node

    def _kind(self, stmt: ast.stmt) -> tuple[NodeType, str, Any]:
        if isinstance(stmt, ast.Return):
            return NodeType.Output, "return", None
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
            return NodeType.Python, type(stmt).__name__, None
        value = stmt.value
        if isinstance(value, ast.Call):
            found = self.value_of(value.func)
            return kind_of(found), called_name(value.func), found
        if type(value) in _OPERATIONS:
            return NodeType.MathOps, f"{_OPERATIONS[type(value)]}_{operator_name(value)}", None
        if type(value) in _PLAIN:
            return NodeType.CallMethod, _PLAIN[type(value)], None
        return NodeType.Python, type(stmt).__name__, None

    def value_of(self, expr: ast.expr) -> Any:
        """Return the value of a name or an attribute; None if only a call knows."""
        if isinstance(expr, ast.Name):
            if expr.id == "self":
                return self.network
            return self.namespace.get(expr.id, getattr(builtins, expr.id, None))
        if isinstance(expr, ast.Attribute):
            owner = self.value_of(expr.value)
            return None if owner is None else getattr(owner, expr.attr, None)
        return None


def kind_of(called: Any) -> NodeType:
    """Return the kind of a call, by the called object."""
    if isinstance(called, _CONTAINERS):
        return NodeType.CellContainer
    if isinstance(called, Cell):
        own = type(called).__module__.startswith(_OWN)
        return NodeType.CallCell if own else NodeType.Tree
    return NodeType.CallPrimitive if isinstance(called, Primitive) else NodeType.CallFunction


def cells_inside(container: Any, names: Names) -> list[Node]:
    """The Cells of a container as nodes; they have no statements."""
    return [Node(None, NodeType.CallCell, names.unique(type(cell).__name__), cell)
            for cell in container.name_cells().values()]


def _identifiers(node: ast.AST) -> set[str]:
    return {getattr(n, field) for n in ast.walk(node) for kind, field in (
        (ast.Name, "id"), (ast.arg, "arg")) if isinstance(n, kind)}
