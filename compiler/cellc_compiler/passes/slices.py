"""Sums over ranks as exchanges of slices and ops between them.

A library that moves bytes between the memories of devices need not add up: each rank gets one slice
of what all have (`all_to_all`), adds the slices in the order of the ranks, and all gather the sums.
Small tensors go to everyone whole. That is what `cellc_runtime.collectives` does on the host, in
the same order, so bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from cellc_runtime.collectives import SMALL

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ops.collective import AllGather, AllReduce, AllToAll, GatherTo, ReduceScatter, ReduceTo
from .base import Pass, rewrite

_ADDED: Mapping[str, Callable[[Builder, Value, Value], Value]] = {
    "sum": lambda b, one, other: b.add(one, other), "prod": lambda b, one, other: b.mul(one, other),
    "min": lambda b, one, other: b.minimum(one, other),
    "max": lambda b, one, other: b.maximum(one, other),
}
"""The ops that merge two parts, by reductions."""


class Slices(Pass):
    """Write `all_reduce`, `reduce_scatter` and `reduce_to` by exchanges and gathers of rows, and
    `all_to_all` along other axes by one of rows.

    Products of complex numbers stay, which kernels round otherwise than the host.

    Args:
        fast: sums and products may have any order: where the library adds up numbers of their type,
            it does.
    """

    name = "slices"

    def __init__(self, fast: bool = False) -> None:
        self.fast = fast

    def run(self, graph: Graph) -> bool:
        return rewrite(graph, self._rule, asks=_RULES.__contains__)

    def _rule(self, b: Builder, node: Node) -> Sequence[Value] | None:
        other = f"any_order_{node.op}" if self.fast and node.op in _ANY_ORDER else ""
        if other and node.attrs["reduction"] in ("sum", "prod") and \
                len(node.attrs["ranks"]) > 1 and node.operands[0].dtype in lookup(other).dtypes:
            return b.node(other, node.operands, node.attrs).results
        return _rule(b, node)


_ANY_ORDER = (AllReduce.name, ReduceScatter.name)  # The ops that a library may run in any order


def _rule(b: Builder, node: Node) -> Sequence[Value] | None:
    ranks = node.attrs["ranks"]
    if len(ranks) == 1 or node.operands[0].type.nbytes == 0:
        return None
    reduction, kind = node.attrs.get("reduction", "sum"), node.operands[0].dtype.kind
    if reduction not in _ADDED or (reduction == "prod" and kind == "complex"):
        return None
    return _RULES[node.op](b, node)


def _all_reduce(b: Builder, node: Node) -> Sequence[Value]:
    return _reduced(b, node, AllGather.name)


def _reduce_to(b: Builder, node: Node) -> Sequence[Value]:
    """The others gather zeros, of which sums, products and extremes are zeros."""
    return _reduced(b, node, GatherTo.name, root=node.attrs["root"])


def _reduced(b: Builder, node: Node, gather: str, **to: int) -> Sequence[Value]:
    """Each rank makes one slice of the result, and the slices are gathered; small tensors are
    gathered whole."""
    x, ranks = node.operands[0], node.attrs["ranks"]
    count, size = len(ranks), x.type.size
    flat = b.reshape(x, shape=(size,))
    if x.type.nbytes <= SMALL:
        rows = b.emit(gather, b.reshape(flat, shape=(1, size)), ranks=ranks, **to)
        return [b.reshape(_added(b, rows, node), shape=x.shape)]
    part = -(-size // count)
    if part * count != size:
        flat = b.pad(flat, low=(0,), high=(part * count - size,))
    rows = _exchanged(b, b.reshape(flat, shape=(count, part)), ranks)
    total = b.emit(gather, _added(b, rows, node), ranks=ranks, **to)
    flat = b.reshape(total, shape=(part * count,))
    if part * count != size:
        flat = b.slice(flat, start=(0,), stop=(size,))
    return [b.reshape(flat, shape=x.shape)]


def _reduce_scatter(b: Builder, node: Node) -> Sequence[Value]:
    x, ranks = node.operands[0], node.attrs["ranks"]
    rows = b.reshape(x, shape=(len(ranks), x.type.size // len(ranks)))
    total = _added(b, _exchanged(b, rows, ranks), node)
    return [b.reshape(total, shape=node.result.shape)]


def _all_to_all(b: Builder, node: Node) -> Sequence[Value] | None:
    """The parts that go to ranks become rows; those that come, parts along the other axis."""
    x, ranks = node.operands[0], node.attrs["ranks"]
    split, concat, count = node.attrs["split_axis"], node.attrs["concat_axis"], len(ranks)
    if split == 0 == concat:
        return None
    part = list(x.shape)
    part[split] //= count
    cut = b.reshape(x, shape=(*part[:split], count, *part[split:]))
    order = [split, *(i for i in range(len(part) + 1) if i != split)]
    sent = b.transpose(cut, perm=tuple(order))
    rows = _exchanged(b, b.reshape(sent, shape=(count, math.prod(part))), ranks)
    came = b.reshape(rows, shape=(count, *part))
    order = [*range(1, concat + 1), 0, *range(concat + 1, len(part) + 1)]
    return [b.reshape(b.transpose(came, perm=tuple(order)), shape=node.result.shape)]


_RULES = {AllReduce.name: _all_reduce, ReduceScatter.name: _reduce_scatter,
          ReduceTo.name: _reduce_to, AllToAll.name: _all_to_all}


def _exchanged(b: Builder, rows: Value, ranks: Sequence[int]) -> Value:
    """A row to each rank, and one of each."""
    came: Value = b.emit(AllToAll.name, rows, split_axis=0, concat_axis=0, ranks=tuple(ranks))
    return came


def _added(b: Builder, rows: Value, node: Node) -> Value:
    """The rows one after the other, as one row."""
    count, size = rows.shape
    parts = [b.slice(rows, start=(i, 0), stop=(i + 1, size)) for i in range(count)]
    total: Value = reduce(partial(_ADDED[node.attrs["reduction"]], b), parts)
    return total
