"""Exact clean-up: constant folding, algebraic identities, common subexpressions, dead code.

Every rewrite here keeps the bits. Folding evaluates only ops that IEEE 754 or integer
arithmetic defines exactly (numpy gives the same bits as the kernels); x + 0 is not x (for -0.0),
so it stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..interpret import evaluate
from ..ir.graph import Builder, Graph, Node, Value, attrs_key
from ..ir.op import has_effect, lookup
from .base import Pass, Rule, rewrite

_FOLD_ELEMENTS = 64


class FoldConstants(Pass):
    """Evaluate exact ops on small constants."""

    name = "fold-constants"

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, _fold, asks=lambda op: lookup(op).exact)


def _fold(b: Builder, node: Node) -> Sequence[Value] | None:
    arrays = []
    for v in node.operands:
        if v.node is None or not v.node.is_constant or v.type.size > _FOLD_ELEMENTS:
            return None
        arrays.append(v.node.attrs["value"].array)
    if any(not r.type.is_static or r.type.size > _FOLD_ELEMENTS for r in node.results):
        return None
    if any(r.dtype.is_float and r.dtype.itemsize == 2 for r in node.results):
        return None
    results = evaluate(node, arrays)
    return [b.literal(np.asarray(a), r.dtype) for a, r in zip(results, node.results, strict=True)]


class Simplify(Pass):
    """Exact identities: views of views, no-op views and casts, x * 1, double negation."""

    name = "simplify"

    def run(self, graph: Graph) -> bool:
        changed = False
        while rewrite(graph, _simplify, asks=lambda op: lookup(op).simplify is not None):
            changed = True
        return changed


def _simplify(b: Builder, node: Node) -> Sequence[Value] | None:
    rule = lookup(node.op).simplify
    value = rule(b, node) if rule is not None else None
    return None if value is None else [value]


class Cse(Pass):
    """Equal nodes on equal operands become one; the earlier keeps its span."""

    name = "cse"

    def run(self, graph: Graph) -> bool:
        seen: dict[tuple[object, ...], Node] = {}

        def rule(b: Builder, node: Node) -> Sequence[Value] | None:
            op = lookup(node.op)
            if node.regions or op.effect or op.unique:
                return None
            key = (node.op, tuple(node.operands), attrs_key(node.attrs))
            first = seen.setdefault(key, node)
            return None if first is node else first.results

        changed = False
        for region in (r for n in graph.nodes for r in n.regions):
            changed |= self.run(region)
        return _rewrite_flat(graph, rule) or changed


def _rewrite_flat(graph: Graph, rule: Rule) -> bool:
    """`rewrite` without descending into regions (their values are their own)."""
    regions = {n: n.regions for n in graph.nodes if n.regions}
    for n in regions:
        n.regions = ()
    try:
        return rewrite(graph, lambda b, n: None if n in regions else rule(b, n))
    finally:
        for n, r in regions.items():
            n.regions = r


class Dce(Pass):
    """Nodes without effect whose results nobody reads go away."""

    name = "dce"

    def run(self, graph: Graph) -> bool:
        changed = False
        for node in graph.nodes:
            for region in node.regions:
                changed |= self.run(region)
        live = set(graph.results())
        kept: list[Node] = []
        for node in reversed(graph.nodes):
            if not live.isdisjoint(node.results) or has_effect(node):
                kept.append(node)
                live.update(node.operands)
        kept.reverse()
        changed |= len(kept) != len(graph.nodes)
        graph.nodes = kept
        return changed
