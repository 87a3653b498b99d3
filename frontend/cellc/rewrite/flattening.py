"""Statements as simple ones: operands that are calls or operations get variables of their own.

`x = self.relu(self.fc1(x))` becomes `fc1_var = self.fc1(x)` and `x = self.relu(fc1_var)`. Operands
are worked out in Python's order. Expressions that Python may leave out (after `and`, in a
conditional expression) or repeat (in a comprehension, the test of a `while`) are not taken apart.
"""

from __future__ import annotations

import ast

from .names import Names

_SIMPLE = (ast.Name, ast.Constant, ast.Starred, ast.Lambda, ast.Slice)
_WHOLE = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
"""Expressions that keep a statement as it is: they bind a name, or hand control away."""
_OPERATIONS = {ast.BinOp: "{op}", ast.UnaryOp: "{op}", ast.Compare: "compare",
               ast.BoolOp: "{op}", ast.Tuple: "tuple", ast.List: "list", ast.Dict: "dict",
               ast.Subscript: "subscript", ast.Attribute: "attribute"}


def operator_name(node: ast.expr) -> str:
    """Return the name of an operation: `add`, `not`, `gt`; empty if it is none."""
    if isinstance(node, ast.Compare):
        return type(node.ops[0]).__name__.lower()
    op = getattr(node, "op", None)
    return "" if op is None else type(op).__name__.lower()


def called_name(func: ast.expr) -> str:
    """The last part of the name of what is called; "function" if it has none."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else "function"


def _variable(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return f"{called_name(node.func)}_var"
    name = _OPERATIONS.get(type(node), type(node).__name__.lower())
    return name.format(op=operator_name(node)) + "_var"


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and called_name(node.func) == "super"


class Flattener:
    """Makes statements simple.

    Args:
        names: of variables, which new ones must differ from.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self._before: list[ast.stmt] = []

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """The simple statements that do the same; nested ones of `if` and loops stay as they are.
        """
        self._before = []
        own = node.test if isinstance(node, ast.If) else node
        if any(isinstance(part, _WHOLE) for part in ast.walk(own)):
            return [node]
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            node.value = self._parts(node.value)
        elif isinstance(node, ast.Return) and node.value is not None:
            node.value = self._simple(node.value)
        elif isinstance(node, ast.If):
            node.test = self._test(node.test)
        return [*self._before, node]

    def _test(self, node: ast.expr) -> ast.expr:
        return node if isinstance(node, ast.Name) else self._put(self._parts(node))

    def _simple(self, node: ast.expr) -> ast.expr:
        """A name, a constant or an attribute of one: the operand itself or its new variable."""
        if isinstance(node, ast.Attribute):
            node.value = self._simple(node.value)
            return node
        negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
        if negative or isinstance(node, _SIMPLE) or _is_super(node):
            return node
        return self._put(self._parts(node))

    def _put(self, value: ast.expr) -> ast.Name:
        name = self.names.unique(_variable(value))
        self._before.append(ast.Assign([ast.Name(name, ast.Store())], value))
        return ast.Name(name, ast.Load())

    def _parts(self, node: ast.expr) -> ast.expr:
        """The expression with simple operands."""
        if isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.BinOp):
            node.left = self._simple(node.left)
            node.right = self._simple(node.right)
        elif isinstance(node, ast.UnaryOp):
            node.operand = self._simple(node.operand)
        elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
            node.left = self._simple(node.left)
            node.comparators = [self._simple(node.comparators[0])]
        elif isinstance(node, (ast.Tuple, ast.List)):
            node.elts = [self._simple(e) for e in node.elts]
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node.value = self._simple(node.value)
        return node

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            node.func.value = self._simple(node.func.value)
        elif not isinstance(node.func, ast.Name):
            node.func = self._put(self._parts(node.func))
        node.args = [self._simple(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self._simple(keyword.value)
