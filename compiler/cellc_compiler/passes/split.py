"""Large reductions are cut into parts.

Those to few results, so that the parts run in parallel; sums over many rows, so that a nest that
goes over the rows anyway can make the sums of its rows on the way (`loops/nest.py`).

The cut follows from the shape alone (`loops/order.py`; so both modes make it, and the number of
threads does not matter): partial results of equal blocks, then a reduction of those. Where there
are rows enough for all threads, a nest cuts long rows as it goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime.dtypes import DType
from cellc_runtime.open_sizes import MOST_DIVISOR

from ..ir.dims import choose, estimate, exactly, is_symbolic, smallest
from ..ir.divisors import divisor, is_divided, is_divisor
from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import prod
from ..loops.build import BLOCKED_ELEMENTS, LEAST_BLOCK, MOST_BLOCK
from ..loops.expr import Reduction
from ..loops.order import (
    LONG_ROW,
    LONGEST_OPEN_ROW,
    MOST_PARTS,
    OPEN_ROW,
    PART,
    open_row_parts,
    row_parts,
)
from .base import Pass, rewrite

FEW_ROWS = 8
MANY_ROWS = 256  # Rows from which on a sum over them is cut into blocks
_KINDS = frozenset({"sum", "prod", "max", "min", "any", "all"})
_ORDERED = frozenset({"sum", "prod"})


class SplitReductions(Pass):
    """Two-stage reductions where one stage would run on one core."""

    name = "split-reductions"

    def run(self, graph: Graph) -> bool:
        with exactly():  # the order of additions follows from what sizes are divisible by
            return rewrite(graph, split_sum, asks=lambda op: lookup(op).reduction is not None)


def split_sum(b: Builder, node: Node) -> Sequence[Value] | None:
    rule = lookup(node.op).reduction
    dtype = node.operands[0].dtype
    if rule is None or dtype.is_complex or (dtype.itemsize < 4 and not dtype.is_float):
        return None
    spec = rule(node)
    if spec.kind not in _KINDS or not (spec.accumulate is dtype or dtype.itemsize < 4):
        return None
    if 0 in spec.shape or any(map(is_divisor, spec.shape)):  # (or it is split)
        return None
    live = [i for i, d in enumerate(spec.shape) if is_divided(d) or d != 1]
    axes = [i for i in live if i in spec.axes]
    if not axes:
        return None
    whole = spec.accumulate is dtype  # sums of columns of 16-bit floats are one chain each
    if node.op == "reduce_sum" and whole and (found := _by_blocks(b, node, live, axes)):
        return found
    if live[-len(axes) :] == axes:
        return _trailing(b, node, spec, axes[0])
    return _inner(b, node, spec, axes)


def _trailing(b: Builder, node: Node, spec: Reduction, first: int) -> Sequence[Value] | None:
    """A reduction of whole rows, each along all axes from `first` on."""
    rows, inner = prod(spec.shape[:first]), prod(spec.shape[first:])
    few = not is_symbolic(rows) and rows < FEW_ROWS
    long = is_symbolic(inner) and estimate(inner) >= LONG_ROW  # (no nest has open parts)
    if (few or long) and _is_open(inner):
        parts = open_row_parts(inner)
    else:
        parts = row_parts(inner)
        # (Few questions about sizes: each is a guard of a program for all sizes.)
        if parts < 2 or (rows >= FEW_ROWS and (spec.kind not in _ORDERED or parts <= MOST_PARTS)):
            return None
    shape = (*spec.shape[:first], parts, inner // parts)
    cut = b.reshape(_operand(b, node), shape=shape)
    partial = b.emit(node.op, cut, axes=(first + 1,), keepdims=False)
    total = b.emit(node.op, partial, axes=(first,), keepdims=False)
    return [_result(b, node, total)]


def _is_open(inner: int) -> bool:
    """Whether the number of parts of a row is worked out when the code runs: those of a row that
    is sure to be short cost a step more."""
    return is_symbolic(inner) and estimate(inner) >= OPEN_ROW and inner < LONGEST_OPEN_ROW


_MOST_INNER = 256
"""Parts of an axis that others follow, at most."""


def _inner(b: Builder, node: Node, spec: Reduction, axes: list[int]) -> Sequence[Value] | None:
    """Split a reduction with other axes after or between its own, along the first of them. Axes
    before that one do not matter: those are rows, and may be the rows of a batch."""
    axis = axes[0]
    beside = prod(d for i, d in enumerate(spec.shape) if i > axis and i not in spec.axes)
    inner, lanes = prod(spec.shape[i] for i in axes), spec.shape[-1]
    if len(spec.shape) - 1 not in spec.axes:
        beside = beside // lanes * -(-lanes // 16)  # a strip of lanes is one row of work
        inner *= smallest(lanes, 16)
    if spec.kind not in _ORDERED:
        beside *= prod(spec.shape[:axis])
    # (Known sizes first: what they decide is no guard of a program for all sizes.)
    # (A part of one element along the axis is a row of the axes after it, which may be long.)
    after = prod(spec.shape[i] for i in axes[1:])
    is_open = not is_symbolic(beside) and beside < FEW_ROWS and _is_open(inner) \
        and after < LONG_ROW
    if not is_open and any(n >= most for n, most in sorted(
            ((beside, FEW_ROWS), (LONG_ROW - 1 - inner, 0)), key=lambda p: is_symbolic(p[0]))):
        return None
    if is_open:
        most = choose(inner, LONG_ROW, smallest(inner // PART, _MOST_INNER), 1)
        parts = divisor(spec.shape[axis], most)
    else:
        parts = _parts(spec.shape[axis], inner)
        if parts < 2:
            return None
    shape = (*spec.shape[:axis], parts, spec.shape[axis] // parts, *spec.shape[axis + 1 :])
    cut = b.reshape(_operand(b, node), shape=shape)
    first = tuple(i if i < axis else i + 1 for i in spec.axes)
    partial = b.emit(node.op, cut, axes=first, keepdims=False)
    where = axis - sum(1 for i in spec.axes if i < axis)
    total = b.emit(node.op, partial, axes=(where,), keepdims=False)
    return [_result(b, node, total)]


def _operand(b: Builder, node: Node) -> Value:
    """Return the operand in the type of its sums: those of 16-bit floats are rounded at the end."""
    (x,), rule = node.operands, lookup(node.op).reduction
    assert rule is not None
    wide: DType = rule(node).accumulate
    if x.dtype is wide:
        return x
    return b.cast(x, dtype=wide)


def _result(b: Builder, node: Node, total: Value) -> Value:
    """The result of a node, from that of its parts."""
    if total.dtype is not node.result.dtype:
        total = b.cast(total, dtype=node.result.dtype)
    return b.reshape(total, shape=node.result.type.shape)


def _by_blocks(b: Builder, node: Node, live: list[int], axes: list[int]) -> Sequence[Value] | None:
    """Split a sum over many rows that columns follow into sums of blocks."""
    (x,) = node.operands
    first, last = axes[0], axes[-1]
    if live[-1] in axes or any(first <= i <= last and i not in axes for i in live):
        return None
    dims = x.type.dims
    before, behind = dims[:first], dims[last + 1 :]
    rows, columns = prod(dims[i] for i in axes), prod(behind)
    block = _block(rows, columns, dims[first], dims[-1])
    if not block:
        return None
    cut = b.reshape(x, shape=(*before, rows // block, block, *behind))
    partial = b.reduce_sum(cut, axes=(first + 1,), keepdims=False)
    total = b.reduce_sum(partial, axes=(first,), keepdims=False)
    assert total.node is not None
    again = split_sum(b, total.node)  # there may be many blocks, too
    return [b.reshape(again[0] if again else total, shape=node.result.type.shape)]


def _block(rows: int, columns: int, extent: int, lanes: int) -> int:
    """Rows of a block of a sum over rows; 0 if it is not cut into blocks.

    Args:
        extent: of the first axis of the rows.
        lanes: of the last axis of the columns.
    """
    is_open = is_symbolic(rows) and not is_divided(rows) and columns >= MOST_BLOCK \
        and estimate(rows * columns) >= BLOCKED_ELEMENTS // 16 and rows <= MOST_DIVISOR
    if is_open:
        # (One that is not cut is of one block, or of as many as `_inner` makes parts: chains, too.)
        inner, whole = rows * smallest(lanes, 16), rows
        if columns // lanes * -(-lanes // 16) < FEW_ROWS:
            whole = rows // divisor(
                extent, choose(inner, LONG_ROW, smallest(inner // PART, _MOST_INNER), 1))
        most = choose(divisor(rows, MOST_BLOCK), LEAST_BLOCK, MOST_BLOCK, whole)
        most = choose(rows, MANY_ROWS, most, whole)
        found: int = divisor(rows, choose(rows * columns, BLOCKED_ELEMENTS, most, whole))
        return found
    least = ((columns, MOST_BLOCK), (rows, MANY_ROWS), (rows * columns, BLOCKED_ELEMENTS))
    if any(n < most for n, most in sorted(least, key=lambda pair: is_symbolic(pair[0]))):
        return 0
    return next((n for n in range(MOST_BLOCK, LEAST_BLOCK - 1, -1) if rows % n == 0), 0)


def _parts(extent: int, inner: int) -> int:
    """The largest divisor of the axis that leaves each part at least a block of work."""
    most = min(extent, max(inner // PART, 1), _MOST_INNER)
    return next((p for p in range(most, 1, -1) if extent % p == 0), 1)
