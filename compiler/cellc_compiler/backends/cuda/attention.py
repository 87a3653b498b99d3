"""Attention as one kernel of a GPU: which products and rows it takes.

See `lower/attention.py` for how they are found, and `kernels/attention.py` for the kernel. What it
does not take runs as separate kernels, to the same bits.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.target import Target

from ...ir.graph import Node
from ...ir.types import prod
from ...loops.order import product_segment
from ...lower.attention import AttentionParts, Kernels
from ...lower.attention import AttentionPattern as Shared
from ...lower.plan import KernelPlan, nest_operand, operand, result
from .code import aligned
from .kernels.attention import Attention, RowNest, attention_kernel, rows_of
from .kernels.operands import Digit, Operand, digits, fits
from .kernels.plans import step
from .nests import buffers_of
from .rules.contraction import batch_digits

_FEWEST_ROWS = 4
"""Queries of a matrix at least: a block does 16 or more at a time."""


class AttentionPattern(Shared):
    """Two products and the rows between them as one kernel.

    Args:
        target: of the kernels.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    def kernels(self, parts: AttentionParts, memo: dict[Any, Any]) -> Kernels | None:
        a = attention_of(parts)
        rows = rows_of(a, self.target) if a is not None else None
        if a is None or rows is None:
            return None
        code = aligned(attention_kernel(a, rows, self.target, True),
                       attention_kernel(a, rows, self.target, False))
        roles = (operand(0), operand(1), operand(2), result(0),
                 *map(nest_operand, range(len(a.rows.values))))
        return KernelPlan((step(code, roles),)), list(a.rows.values)


def attention_of(parts: AttentionParts) -> Attention | None:
    """The attention that is found, if the kernel computes such: of float32, with more than one
    column in each product, matrix by matrix."""
    scores, mix = parts.scores, parts.mix
    (m, n), (rows, c) = scores.result.shape[-2:], mix.result.shape[-2:]
    d, matrices = scores.operands[0].shape[-1], prod(scores.result.shape[:-2])
    kinds = {v.dtype for v in (scores.result, mix.result)}
    if kinds != {dtypes.float32} or rows != m or prod(mix.result.shape[:-2]) != matrices:
        return None
    sizes = [v.type.size for node in (scores, mix) for v in (*node.operands, node.result)]
    if m < _FEWEST_ROWS or min(n, c) < 2 or not d or not fits(sizes):
        return None
    values = tuple(b for b in buffers_of(parts.nest) if not parts.is_inside(b))
    return Attention(
        matrices, m, n, d, c, _left(scores), _right(scores), _right(mix),
        RowNest(parts.nest, parts.source, parts.weights, values),
        (product_segment(n, d, 4), product_segment(c, n, 4)), n)


def _left(node: Node) -> Operand:
    x, m, k = node.operands[0], *node.operands[0].shape[-2:]
    return Operand(x.dtype, batch_digits(x.shape[:-2], node.result.shape[:-2], m * k),
                   digits(Digit(m, k)), digits(Digit(k, 1)))


def _right(node: Node) -> Operand:
    y, turned, n = node.operands[1], node.attrs["transpose_b"], node.result.shape[-1]
    k = y.type.shape[-1 if turned else -2]
    return Operand(y.dtype, batch_digits(y.shape[:-2], node.result.shape[:-2], k * n),
                   digits(Digit(n, k if turned else 1)), digits(Digit(k, 1 if turned else n)))


__all__ = ["AttentionPattern", "attention_of"]
