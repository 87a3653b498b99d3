"""Which ops have what in ONNX: filled by the modules of this package, one per op family.

A rule gets the writer, the node and the names of its operands, and gives the names of the results,
or None: then the op is written as the composition that its definition gives (`expand`,
`composition`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from .writer import Names, Writer, refuse

Rule = Callable[..., "Names | None"]

RULES: dict[str, Rule] = {}
REFUSED: dict[str, str] = {}  # Ops that ONNX has nothing for, and why


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
    their type: `add="Add"`, `erfc="Sub(1, Erf(a))"`. Other names are attributes of the op, keywords
    are float attributes of ONNX's: `elu="Elu(a, alpha=alpha)"`."""
    for op, text in texts.items():
        tree = ast.parse(text if "(" in text else f"{text}(*operands)", mode="eval").body

        def rule(w: Writer, node: Node, *x: str, tree: ast.expr = tree) -> Names:
            return _value(w, node, tree, x)

        maps(op)(rule)


def _value(w: Writer, node: Node, tree: ast.expr, x: Sequence[str]) -> str:
    """The name of what a formula gives."""
    if isinstance(tree, ast.Name) and tree.id in "ab":
        return x["ab".index(tree.id)]
    if not isinstance(tree, ast.Call):
        return w.like(_number(node, tree), x[0])
    attrs = {str(k.arg): float(_number(node, k.value)) for k in tree.keywords}
    whole = isinstance(tree.args[0], ast.Starred)
    given = x if whole else [_value(w, node, t, x) for t in tree.args]
    return w.op(ast.unparse(tree.func), *given, **attrs)


def _number(node: Node, tree: ast.expr) -> Any:
    """A number of a formula, or an attribute."""
    return node.attrs[tree.id] if isinstance(tree, ast.Name) else ast.literal_eval(tree)


def refused(why: str, *ops: str) -> None:
    """Ops that ONNX has nothing for."""
    for op in ops:
        REFUSED[op] = why


# --- graphs and nodes: each node by its op's rule, or as the composition of its definition --------


def write_graph(w: Writer, graph: Graph, inputs: Sequence[str]) -> list[str]:
    """Write a graph's nodes where the writer is; the names of its outputs."""
    w.values.update(zip(graph.inputs, inputs, strict=True))
    live = _live(graph)
    w.used |= live
    for node in graph.nodes:
        if any(r in live for r in node.results) or lookup(node.op).effect:
            write_node(w, node)
    return [w.of(v) for v in graph.outputs]


def _live(graph: Graph) -> set[Value]:
    """The values of a graph that something needs."""
    live = set(graph.results())
    for node in reversed(graph.nodes):
        if lookup(node.op).effect or any(r in live for r in node.results):
            live.update(node.operands)
    return live


def write_node(w: Writer, node: Node) -> None:
    """Write one node. Raises ExportError if ONNX has no counterpart."""
    if node.op in REFUSED:
        raise refuse(node, REFUSED[node.op])
    with w.at(node):
        rule = RULES.get(node.op)
        names = rule(w, node, *(w.of(v) for v in node.operands)) if rule is not None else None
        if names is None:
            names = _expanded(w, node)
        names = (names,) if isinstance(names, str) else names
        for value, name in zip(node.results, names, strict=True):
            if name:
                w.values[value] = w.cast(name, value.dtype)


def _expanded(w: Writer, node: Node) -> tuple[str, ...]:
    op = lookup(node.op)
    composition = op.expand or op.composition
    if composition is None:
        raise refuse(node, "it has no counterpart there")
    inner = Graph(node.op)
    b = Builder(inner, span=node.span, scope=node.scope)
    out = composition(b, *node.operands, **node.attrs)
    inner.outputs = list(out) if isinstance(out, tuple) else [out]
    # Nodes that only an unused result needs are not written.
    inner.outputs = [v for v, r in zip(inner.outputs, node.results, strict=True) if r in w.used]
    written = iter(write_graph(w, inner, []))
    return tuple(next(written) if r in w.used else "" for r in node.results)
