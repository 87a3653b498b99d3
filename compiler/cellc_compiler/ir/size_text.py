"""Sizes from their text: the inverse of `str` of a `Dim` or `Ratio`."""

from __future__ import annotations

import ast
from typing import Any

from cellc_runtime.open_sizes import FLOATS, FUNCTIONS

from .dims import MOST_BITS, OPS, TOO_LARGE, Dim, Ratio, applied, compute

MOST_TEXT = 1 << 14


def parse_size(text: str) -> Any:
    """A size (or number) from its text: integers, names, `+ - * // / **`, functions and
    parentheses. Raises ValueError if it is something else, or too large for a size."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"the text of a size must have at most {MOST_TEXT} characters, "
                         f"but got {len(text)}")
    try:
        return _parsed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, ArithmeticError, TypeError):
        raise ValueError(f"{text[:100]!r} is no size") from None


_SYNTAX: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Div: "/", ast.Pow: "**",
}


def _parsed(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Constant) and type(tree.value) in (int, float):
        if type(tree.value) is int and tree.value.bit_length() > MOST_BITS:
            raise ValueError(TOO_LARGE)
        return tree.value
    if isinstance(tree, ast.Name):
        return Dim.symbol(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -_parsed(tree.operand)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _SYNTAX:
        return OPS[_SYNTAX[type(tree.op)]](_parsed(tree.left), _parsed(tree.right))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        return _called(tree.func.id, [_parsed(a) for a in tree.args])
    raise ValueError(f"{ast.unparse(tree)!r} is no size")


def _called(name: str, args: list[Any]) -> Any:
    """A function of sizes or of floats; `min` and `max` are of floats where one of them is."""
    is_float = any(type(a) is float or type(a) is Ratio for a in args)
    if name in FLOATS and (is_float or name not in FUNCTIONS):
        return compute(name, *args)
    if name not in FUNCTIONS:
        raise ValueError(f"{name[:80]!r} is no function of sizes")
    return applied(name, *args)
