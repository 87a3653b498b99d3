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
from .base import Pass, rewrite

_EXACT = frozenset({
    "add", "sub", "mul", "neg", "abs", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
    "logical_and", "logical_or", "logical_not", "logical_xor", "bitwise_and", "bitwise_or",
    "bitwise_xor", "where", "reshape", "transpose", "broadcast_to", "slice", "concat", "join",
    "stack", "split", "iota", "pad", "flip", "one_hot", "cast",
})
_FOLD_ELEMENTS = 64


class FoldConstants(Pass):
    """Evaluate exact ops on small constants."""

    name = "fold-constants"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        return rewrite(graph, _fold)


def _fold(b: Builder, node: Node) -> Sequence[Value] | None:
    if node.op not in _EXACT or any(r.type.size > _FOLD_ELEMENTS for r in node.results):
        return None
    if any(r.dtype.is_float and r.dtype.itemsize == 2 for r in node.results):
        return None
    arrays = []
    for v in node.operands:
        if v.node is None or v.node.op != "constant" or v.type.size > _FOLD_ELEMENTS:
            return None
        arrays.append(v.node.attrs["value"].array)
    results = evaluate(node, arrays)
    return [b.literal(np.asarray(a), r.dtype) for a, r in zip(results, node.results, strict=True)]


class Simplify(Pass):
    """Exact identities: views of views, no-op views and casts, x * 1, double negation."""

    name = "simplify"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        changed = False
        while rewrite(graph, _simplify):
            changed = True
        return changed


def _simplify(b: Builder, node: Node) -> Sequence[Value] | None:
    rule = _RULES.get(node.op)
    value = rule(b, node) if rule is not None else None
    return None if value is None else [value]


def _view(b: Builder, node: Node) -> Value | None:
    """reshape/broadcast_to to the same shape; reshape of reshape."""
    x = node.operands[0]
    if x.type == node.result.type:
        return x
    inner = x.node
    if inner is not None and inner.op == node.op:
        out: Value = b.emit(node.op, inner.operands[0], **node.attrs)
        return out
    return None


def _transpose(b: Builder, node: Node) -> Value | None:
    x, perm = node.operands[0], node.attrs["perm"]
    if tuple(perm) == tuple(range(len(perm))):
        return x
    if x.node is not None and x.node.op == "transpose":
        inner = x.node.attrs["perm"]
        out: Value = b.transpose(x.node.operands[0], perm=tuple(inner[p] for p in perm))
        return out
    return None


def _cast(b: Builder, node: Node) -> Value | None:
    x = node.operands[0]
    return x if x.type == node.result.type else None


def _stop(b: Builder, node: Node) -> Value | None:
    return node.operands[0]


def is_splat(v: Value, x: float) -> bool:
    """Whether a value is a constant equal to `x` everywhere (through a broadcast)."""
    node = v.node
    if node is not None and node.op == "broadcast_to":
        return is_splat(node.operands[0], x)
    if node is None or node.op != "constant":
        return False
    array = node.attrs["value"].array
    return array.size == 1 and bool(array.reshape(()) == x)


def _mul(b: Builder, node: Node) -> Value | None:
    x, y = node.operands
    if is_splat(y, 1) and x.type == node.result.type:
        return x
    if is_splat(x, 1) and y.type == node.result.type:
        return y
    return None


def _neg(b: Builder, node: Node) -> Value | None:
    inner = node.operands[0].node
    return inner.operands[0] if inner is not None and inner.op == "neg" else None


def _matmul(b: Builder, node: Node) -> Value | None:
    """A transposition of the last two axes becomes a flag of the product; not beside a vector, for
    how the matrix lies in memory decides there in which order is summed."""
    if 1 in node.result.shape[-2:]:
        return None
    for side, flag in enumerate(("transpose_a", "transpose_b")):
        inner = node.operands[side].node
        if flag not in node.attrs or inner is None or inner.op != "transpose":
            continue
        perm = tuple(inner.attrs["perm"])
        n = len(perm)
        if n >= 2 and perm == (*range(n - 2), n - 1, n - 2):
            operands = list(node.operands)
            operands[side] = inner.operands[0]
            out: Value = b.emit("matmul", *operands, **{**node.attrs, flag: not node.attrs[flag]})
            return out
    return None


_RULES = {
    "reshape": _view, "broadcast_to": _view, "transpose": _transpose, "cast": _cast,
    "stop_gradient": _stop, "mul": _mul, "neg": _neg, "matmul": _matmul,
}


class Cse(Pass):
    """Equal nodes on equal operands become one; the earlier keeps its span."""

    name = "cse"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        seen: dict[tuple[object, ...], Node] = {}

        def rule(b: Builder, node: Node) -> Sequence[Value] | None:
            if node.regions or lookup(node.op).effect or node.op == "cotangent":
                return None  # (each gradient begins with one of its own)
            key = (node.op, tuple(node.operands), attrs_key(node.attrs))
            first = seen.setdefault(key, node)
            return None if first is node else first.results

        changed = False
        for region in (r for n in graph.nodes for r in n.regions):
            changed |= self.run(region)
        return _rewrite_flat(graph, rule) or changed


def _rewrite_flat(graph: Graph, rule: object) -> bool:
    """`rewrite` without descending into regions (their values are their own)."""
    regions = {n: n.regions for n in graph.nodes if n.regions}
    for n in regions:
        n.regions = ()
    try:
        return rewrite(graph, lambda b, n: None if n in regions else rule(b, n))  # type: ignore[operator]
    finally:
        for n, r in regions.items():
            n.regions = r


class Dce(Pass):
    """Nodes without effect whose results nobody reads go away."""

    name = "dce"

    def run(self, graph: Graph) -> bool:
        """See the class."""
        changed = False
        for node in graph.nodes:
            for region in node.regions:
                changed |= self.run(region)
        live = set(graph.results())
        kept: list[Node] = []
        for node in reversed(graph.nodes):
            if has_effect(node) or any(r in live for r in node.results):
                kept.append(node)
                live.update(node.operands)
        kept.reverse()
        changed |= len(kept) != len(graph.nodes)
        graph.nodes = kept
        return changed
