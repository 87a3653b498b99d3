"""Which ops have what in ONNX: filled by the modules of this package, one per op family.

A rule gets the writer, the node and the names of its operands, and gives the names of the results,
or None: then the op is written as the composition that its definition gives (`expand`).
"""

from __future__ import annotations

from collections.abc import Callable

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


def same(**pairs: str) -> None:
    """Ops that one op of ONNX computes: `add="Add"`."""
    for op, kind in pairs.items():

        def rule(w: Writer, node: Node, *x: str, kind: str = kind) -> Names:
            return w.op(kind, *x)

        maps(op)(rule)


def refused(why: str, *ops: str) -> None:
    """Ops that ONNX has nothing for."""
    for op in ops:
        REFUSED[op] = why
