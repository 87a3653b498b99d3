"""Examples that follow from others: of another name of an object, a method, a Primitive class.

A call is text of Python. `ops.tile(x, (2,))` is the example of `mint.tile` with one name exchanged,
of `Tensor.tile` with the tensor in front, and of the class `ops.Tile` with its arguments divided
between the constructor and the call.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from cellc.ops.functional.sparse_elementwise import FUNCTIONS as SPARSE
from cellc.ops.primitive import Primitive
from cellc.ops.primitives import other_devices

FAMILIES = ("ops", "mint", "mint.nn.functional", "mint.special", "mint.linalg", "mint.distributed",
            "numpy", "Tensor")
"""Places whose functions of one name do the same."""
LAYERS = ("nn", "mint.nn")
SPARSE_VALUES = ("[1.0, -2.0]", "[0.1, 0.9]", "[1.0, 2.0]")
SPARSE_TENSORS = {
    "coo": "s = ms.COOTensor(ms.Tensor([[0, 1], [1, 0]]), ms.Tensor({}), (2, 2))",
    "csr": "s = ms.CSRTensor(ms.Tensor([0, 1, 2]), ms.Tensor([0, 1]), ms.Tensor({}), (2, 2))"}


def of_other_places(
    place: str, name: str, calls: Mapping[str, str], places: Mapping[str, str]
) -> Iterator[str]:
    """The calls of functions of the same name in other places, with this place's name."""
    for family in (FAMILIES, LAYERS):
        for other in family if place in family else ():
            row = calls.get(f"{other}.{name}", "")
            if other == place or not row:
                continue
            if "Tensor" in (other, place):
                if row[0] != "!":
                    yield from _as_function(row, name, f"{places[place]}.{name}") \
                        if other == "Tensor" else _as_method(row, f"{places[other]}.{name}", name)
            else:
                old, new = f"{places[other]}.{name}", f"{places[place]}.{name}"
                made = re.sub(rf"(?<![\w.]){re.escape(old)}\b", new, row)
                yield re.sub(r"\bops\.(ones|zeros|eye)\(", rf"{new.split('.')[0]}.\1(", made)


def of_primitive(name: str, cls: type, calls: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Calls of a Primitive class, each with the function's call that must give the same."""
    plain = re.sub(r"(V[23]|Ext)$", "", name).lower()
    for key, row in calls.items():
        function = key.removeprefix("ops.")
        if key == function or function == name or row[0] == "!":
            continue
        if function.replace("_", "").lower() == plain and f"ops.{function}(" in row:
            for made in _divided(row, f"ops.{function}", f"ops.{name}", cls):
                yield made, row


def of_sparse(name: str) -> Iterator[str]:
    """Elementwise functions of sparse tensors: the values of the result."""
    if name in SPARSE:
        for values in SPARSE_VALUES:
            yield f"{SPARSE_TENSORS[name[:3]].format(values)}; ops.{name}(s).values"


def of_absent(name: str, value: Any) -> Iterator[str]:
    """The call of a name without a function here, which raises an error."""
    doc = value.__doc__ or ""
    here = {**other_devices.FUNCTIONS, **other_devices.PRIMITIVES}
    if here.get(name) is value and "RuntimeError" in doc:
        yield f"!ops.{name}()" + "()" * isinstance(value, type)
    elif isinstance(value, Primitive) and "which cannot be called" in doc:
        yield f"!ops.{name}()"


def in_place(name: str, plain: str) -> Iterator[str]:
    """The call of a method that changes its tensor, by that of the method that does not."""
    *first, last = plain.split("; ")
    tree = ast.parse(last, mode="eval").body
    match tree:
        case ast.Call(func=ast.Attribute(value=receiver, attr=attr)) if f"{attr}_" == name:
            taken = ast.unparse(receiver)
            if re.fullmatch(r"\w+", taken):
                yield "; ".join([*first, f"_ = {last.replace(f'.{attr}(', f'.{name}(')}", taken])
            else:
                tree.func.value, tree.func.attr = ast.Name("x"), name
                yield "; ".join([*first, f"x = {taken}", f"_ = {ast.unparse(tree)}", "x"])


# --- calls rewritten ------------------------------------------------------------------------------


def _found(tree: ast.AST, function: str) -> ast.Call | None:
    """The call of a function in an expression."""
    return next((node for node in ast.walk(tree) if isinstance(node, ast.Call)
                 and ast.unparse(node.func) == function), None)


def _statement(row: str, function: str) -> tuple[list[str], int, ast.Module, ast.Call] | None:
    """The statement of a row that calls a function: all statements, its index, its tree, the
    call."""
    lines = row.split("; ")
    for index in reversed(range(len(lines))):
        tree = ast.parse(lines[index])
        node = _found(tree, function)
        if node is not None:
            return lines, index, tree, node
    return None


def _as_method(row: str, function: str, method: str) -> Iterator[str]:
    found = _statement(row, function)
    if found is None:
        return
    lines, index, tree, node = found
    if not node.args or isinstance(node.args[0], (ast.Starred, ast.Constant, ast.List, ast.Tuple)):
        return
    node.func = ast.Attribute(node.args.pop(0), method)
    lines[index] = ast.unparse(tree)
    yield "; ".join(lines)


def _as_function(row: str, method: str, function: str) -> Iterator[str]:
    lines = row.split("; ")
    for index in reversed(range(len(lines))):
        tree = ast.parse(lines[index])
        node = next((n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(
            n.func, ast.Attribute) and n.func.attr == method), None)
        if node is not None:
            node.args.insert(0, node.func.value)
            node.func = ast.parse(function, mode="eval").body
            lines[index] = ast.unparse(tree)
            yield "; ".join(lines)
            return


def _divided(row: str, function: str, made: str, cls: type) -> Iterator[str]:
    """A call with its last arguments given to the constructor: none, one, two, ..."""
    try:
        taken = list(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        taken = []
    found = _statement(row, function)
    if found is None:
        return
    lines, index, tree, node = found
    named = node.keywords
    for number in count():
        if number > min(len(node.args), len(taken)):
            return
        changed = deepcopy(node)
        cut = len(changed.args) - number
        inner = ast.Call(ast.parse(made, mode="eval").body, changed.args[cut:],
                         [k for k in named if k.arg in taken])
        outer = ast.Call(inner, changed.args[:cut], [k for k in named if k.arg not in taken])
        whole = _Exchange(ast.dump(node), outer).visit(deepcopy(tree))
        yield "; ".join([*lines[:index], ast.unparse(whole), *lines[index + 1:]])


class _Exchange(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: str, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return self.new if ast.dump(node) == self.old else self.generic_visit(node)
