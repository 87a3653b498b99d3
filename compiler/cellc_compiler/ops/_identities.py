"""Exact identities of ops: views of views, views and casts that change nothing, x * 1, - -x.

A rule is a method `simplify(b, node)` of an op: an equal value that is simpler, or None. All keep
the bits: x + 0 is not x (for -0.0), so it stays.
"""

from __future__ import annotations

from typing import Any

from ..ir.graph import Builder, Node, Value


def same_view(self: Any, b: Builder, node: Node) -> Value | None:
    """reshape/broadcast_to to the same shape; reshape of reshape."""
    x = node.operands[0]
    if x.type == node.result.type:
        return x
    inner = x.node
    if inner is not None and inner.op == node.op:
        return b.emit(node.op, inner.operands[0], **node.attrs)
    return None


def merged_permutation(self: Any, b: Builder, node: Node) -> Value | None:
    x, perm = node.operands[0], node.attrs["perm"]
    if tuple(perm) == tuple(range(len(perm))):
        return x
    if x.node is not None and x.node.op == "transpose":
        inner = x.node.attrs["perm"]
        return b.transpose(x.node.operands[0], perm=tuple(inner[p] for p in perm))
    return None


def same_type(self: Any, b: Builder, node: Node) -> Value | None:
    x = node.operands[0]
    return x if x.type == node.result.type else None


def operand(self: Any, b: Builder, node: Node) -> Value | None:
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


def times_one(self: Any, b: Builder, node: Node) -> Value | None:
    x, y = node.operands
    if is_splat(y, 1) and x.type == node.result.type:
        return x
    if is_splat(x, 1) and y.type == node.result.type:
        return y
    return None


def twice_negated(self: Any, b: Builder, node: Node) -> Value | None:
    inner = node.operands[0].node
    return inner.operands[0] if inner is not None and inner.op == "neg" else None


def transposed_factors(self: Any, b: Builder, node: Node) -> Value | None:
    """A transposition of the last two axes becomes a flag of the product; not beside one column,
    for how the matrix lies in memory decides there in which order is summed."""
    if node.result.shape[-1] == 1:
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
            return b.emit("matmul", *operands, **{**node.attrs, flag: not node.attrs[flag]})
    return None
