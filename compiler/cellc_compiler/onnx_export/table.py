"""Which ops have what in ONNX: filled by the modules of this package, one per op family.

A rule gets the writer, the node and the names of its operands, and gives the names of the results,
or None: then the op is written as the composition that its definition gives (`expand`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..ir.graph import Node
from .writer import Names, Writer

Rule = Callable[..., "Names | None"]

RULES: dict[str, Rule] = {}
REFUSED: dict[str, str] = {}
"""Ops that ONNX has nothing for, and why."""


def maps(*ops: str) -> Callable[[Rule], Rule]:
    """Decorator: the rule of these ops."""

    def add(rule: Rule) -> Rule:
        for op in ops:
            assert op not in RULES, op
            RULES[op] = rule
        return rule

    return add


def formulas(**texts: str) -> None:
    """Ops that are an op of ONNX's, or a formula of them over operands `a` and `b` and numbers of
    their type: `add="Add"`, `erfc="Sub(1, Erf(a))"`."""
    for op, text in texts.items():
        tree = ast.parse(text if "(" in text else f"{text}(*operands)", mode="eval").body

        def rule(w: Writer, node: Node, *x: str, tree: ast.expr = tree) -> Names:
            return _value(w, tree, x)

        maps(op)(rule)


def _value(w: Writer, tree: ast.expr, x: Sequence[str]) -> str:
    """The name of what a formula gives."""
    if isinstance(tree, ast.Name):
        return x["ab".index(tree.id)]
    if not isinstance(tree, ast.Call):
        return w.like(ast.literal_eval(tree), x[0])
    whole = isinstance(tree.args[0], ast.Starred)
    return w.op(ast.unparse(tree.func), *(x if whole else [_value(w, t, x) for t in tree.args]))


def refused(why: str, *ops: str) -> None:
    """Ops that ONNX has nothing for."""
    for op in ops:
        REFUSED[op] = why
