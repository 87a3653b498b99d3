"""Attention as one kernel of a GPU: which products and rows it takes.

See `backends/attention.py` for how they are found, and `kernels/attention.py` for the kernel.
Attentions that it does not take run as separate kernels, to the same bits.
"""

from __future__ import annotations

from typing import Any

from cellc_runtime import dtypes
from cellc_runtime.target import Target

from ...ir.graph import Node
from ...ir.types import prod
from ...loops.order import product_segment
from ...lower.plan import KernelPlan, nest_operand, operand, result
from ..attention import AttentionParts, Kernels
from ..attention import AttentionPattern as Shared
from ..masks import keys_seen
from .code import aligned
from .kernels import attention_mma
from .kernels.attention import Attention, RowNest, attention_kernel, rows_of
from .kernels.attention_mma import attention_mma_kernel
from .kernels.operands import Digit, Operand, digits, fits
from .kernels.plans import step
from .nests import buffers_of
from .rules.contraction import batch_digits
from .rules.tensor_cores import product_of as tensor_core_product

_TYPES = (dtypes.float32, dtypes.float16, dtypes.bfloat16)
_WIDEST = 256
"""Size of a query or a value at most: of larger ones, products take longer than scores' memory."""
_FEWEST_ROWS = 4  # Queries of a matrix at least: a block does 16 or more at a time


class AttentionPattern(Shared):
    """Two products and the rows between them as one kernel."""

    reads_itself = True

    def __init__(self, target: Target) -> None:
        self.target = target

    def facts(self, parts: AttentionParts, memo: dict[Any, Any]) -> int:
        """Which keys queries look at, if a constant mask says so."""
        return _seen(parts, memo)

    def kernels(self, parts: AttentionParts, memo: dict[Any, Any]) -> Kernels | None:
        a = attention_of(parts, memo)
        if a is None:
            return None
        if a.q.dtype is dtypes.float32:
            write, rows = attention_kernel, rows_of(a, self.target)
        else:
            write = attention_mma_kernel
            rows = rows_of(a, self.target, attention_mma.shared_bytes, attention_mma.ROWS)
        if rows is None:
            return None
        code = aligned(write(a, rows, self.target, True), write(a, rows, self.target, False))
        roles = (operand(0), operand(1), operand(2), result(0),
                 *map(nest_operand, range(len(a.rows.values))))
        return KernelPlan((step(code, roles),)), list(a.rows.values)


def attention_of(parts: AttentionParts, memo: dict[Any, Any]) -> Attention | None:
    """The attention that is found, if a kernel computes such: of float32 or 16-bit floats, with
    more than one column in each product, matrix by matrix."""
    scores, mix = parts.scores, parts.mix
    (m, n), (rows, c) = scores.result.shape[-2:], mix.result.shape[-2:]
    d, matrices = scores.operands[0].shape[-1], prod(scores.result.shape[:-2])
    dtype = mix.result.dtype
    if dtype not in _TYPES or scores.result.dtype is not dtype or rows != m \
            or prod(mix.result.shape[:-2]) != matrices:
        return None
    sizes = [v.type.size for v in (*scores.operands, mix.operands[1], mix.result)]
    if m < _FEWEST_ROWS or min(n, c) < 2 or not d or not fits(sizes):
        return None
    if max(d, c) > _WIDEST or is_dense(scores, mix, matrices):
        return None
    segments = _segments(scores), _segments(mix)
    if dtype is not dtypes.float32 and segments[0]:
        return None
    values = tuple(b for b in buffers_of(parts.nest) if not parts.is_inside(b))
    return Attention(
        matrices, m, n, d, c, _left(scores), _right(scores), _right(mix),
        RowNest(parts.nest, parts.source, parts.weights, values),
        segments, _seen(parts, memo))


def _seen(parts: AttentionParts, memo: dict[Any, Any]) -> int:
    m, n = parts.scores.result.shape[-2:]
    return keys_seen(parts.nest, parts.source, parts.own, m, n, memo)


def is_dense(scores: Node, mix: Node, matrices: int) -> bool:
    """Whether all rows of a batch meet the same two matrices: products of larger tiles are better
    than a block of rows."""
    return matrices > 1 and all(prod(p.operands[1].shape[:-2]) == 1 for p in (scores, mix))


def _segments(product: Node) -> int:
    """Steps of k that are summed by themselves; 0 for all."""
    cores = tensor_core_product(product)
    if cores is not None:
        return cores.segment if cores.segments > 1 else 0
    return product_segment(product.result.shape[-1], product.operands[0].shape[-1], 4)


def _left(node: Node) -> Operand:
    x, m, k = node.operands[0], *node.operands[0].shape[-2:]
    return Operand(x.dtype, batch_digits(x.shape[:-2], node.result.shape[:-2], m * k),
                   digits(Digit(m, k)), digits(Digit(k, 1)))


def _right(node: Node) -> Operand:
    y, turned, n = node.operands[1], node.attrs["transpose_b"], node.result.shape[-1]
    k = y.shape[-1 if turned else -2]
    return Operand(y.dtype, batch_digits(y.shape[:-2], node.result.shape[:-2], k * n),
                   digits(Digit(n, k if turned else 1)), digits(Digit(k, 1 if turned else n)))
