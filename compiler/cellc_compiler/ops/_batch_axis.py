"""Row rules that ops share: where the rows of a batch lie in an op's results (`ir/batch_axis.py`).

A rule is a method `rows(marks, node)` of an op. It gives the mark that all results have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.batch_axis import PROBE, BatchAxis, Mark, batch_mixed
from ..ir.graph import Node
from ..ir.types import normalize_axis, prod
from ..loops.order import product_segment

Rule = Callable[[Any, Sequence[Mark], Node], Mark]


def none(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """A value that depends on no operand."""
    return None


def first(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """As in the first operand."""
    return marks[0]


def _one(marks: Sequence[Mark], node: Node) -> Mark:
    """The mark that all marks that are there agree on."""
    found = {m for m in marks if m is not None}
    if len(found) > 1:
        raise batch_mixed(node)
    return found.pop() if found else None


def aligned(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Each element follows from those at its place."""
    rank = node.results[0].type.rank
    return _one([None if m is None else m.at(m.axis + rank - v.type.rank)
                 for m, v in zip(marks, node.operands, strict=True)], node)


def reduced(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """All axes but those that are reduced."""
    (mark,) = marks
    rank = node.operands[0].type.rank
    axes = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
    axes = range(rank) if axes is None else axes
    gone = {normalize_axis(a, rank) for a in axes}
    if mark is None:
        return None
    if mark.axis in gone:
        raise batch_mixed(node)
    keep = node.attrs.get("keepdims")
    return mark if keep else mark.at(mark.axis - sum(a < mark.axis for a in gone))


def broadcast(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """As the operand, or along an axis that is as long as the batch."""
    mark = aligned(self, marks, node)
    if mark is not None:
        return mark
    wide = [i for i, d in enumerate(node.result.type.dims) if d and d % PROBE == 0]
    return BatchAxis(wide[0]) if len(wide) == 1 else None  # the same for every row


def counted(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Not along the axis that is counted."""
    mark = broadcast(self, marks, node)
    if mark is not None and mark.axis == normalize_axis(
        node.attrs["axis"], node.result.type.rank
    ):
        raise batch_mixed(node)
    return mark


def reshaped(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along the axis that as many elements come before."""
    (mark,) = marks
    if mark is None:
        return None
    ahead = prod(node.operands[0].type.dims[: mark.axis]) * mark.outer
    after = node.result.type.dims
    for i, d in enumerate(after):
        if d % PROBE == 0:
            outer, rest = divmod(ahead, prod(after[:i]))
            if not rest and d % (outer * PROBE) == 0:
                return BatchAxis(i, outer)
    raise batch_mixed(node)


def permuted(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along the axis that it becomes."""
    (mark,) = marks
    return None if mark is None else mark.at(node.attrs["perm"].index(mark.axis))


def whole_along(*names: str) -> Rule:
    """Elementwise along all axes but those the attributes name."""

    def rule(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
        mark = _one(marks, node)
        rank = node.operands[0].type.rank
        for name in names:
            value = node.attrs[name]
            axes = value if isinstance(value, tuple) else (value,)
            if mark is not None and mark.axis in {normalize_axis(a, rank) for a in axes}:
                raise batch_mixed(node)
        return mark

    return rule


def whole_last(count: int) -> Rule:
    """Along all axes but the last ones, all operands alike."""

    def rule(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
        mark = _one(marks, node)
        if mark is not None and mark.axis >= node.operands[0].type.rank - count:
            raise batch_mixed(node)
        return mark

    return rule


def sliced(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along axes that are taken whole."""
    (mark,) = marks
    if mark is not None:
        step = node.attrs["step"]
        whole = (node.attrs["start"][mark.axis], node.attrs["stop"][mark.axis],
                 1 if step is None else step[mark.axis])
        if whole != (0, node.operands[0].type.dims[mark.axis], 1):
            raise batch_mixed(node)
    return mark


def padded(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along axes to which nothing is added."""
    (mark,) = marks
    inside = node.attrs.get("interior")
    if mark is not None and (node.attrs["low"][mark.axis] or node.attrs["high"][mark.axis]
                             or (inside and inside[mark.axis])):
        raise batch_mixed(node)
    return mark


def updated(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along axes that are written whole."""
    mark = _one(marks, node)
    if mark is not None and (None in marks or node.attrs["start"][mark.axis]):
        raise batch_mixed(node)
    return mark


def hot(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along the axis of the indices."""
    mark = marks[0]
    if mark is None:
        return None
    axis = normalize_axis(node.attrs.get("axis", -1), node.result.type.rank)
    return mark.at(mark.axis + (mark.axis >= axis))


def gathered(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """By indices of the rows, or along axes that no index walks."""
    x, index = marks
    rank, shared = node.operands[0].type.rank, node.attrs["batch_dims"]
    axis = normalize_axis(node.attrs["axis"], rank)
    if x is None and index is None:
        return None
    if x is None and index is not None and index.axis >= shared:
        return index.at(axis + index.axis - shared)
    if x is not None and x == index and x.axis < shared:
        return x
    if x is not None and index is None and x.axis != axis and not shared:
        return x if x.axis < axis else x.at(x.axis + node.operands[1].type.rank - 1)
    raise batch_mixed(node)


def pointed(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """By indices of the rows into what all share."""
    x, index = marks
    if x is not None or (index is not None and index.axis == node.operands[1].type.rank - 1):
        raise batch_mixed(node)
    return index


def multiplied(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Along a batch axis, or one that is not summed. Along columns only where their number does not
    decide in which order is summed."""
    rank = node.result.type.rank
    places: list[Mark] = []
    for which, (mark, v) in enumerate(zip(marks, node.operands, strict=True)):
        own = v.type.rank
        if mark is None:
            places.append(None)
        elif mark.axis < own - 2:
            places.append(mark.at(mark.axis + rank - own))
        else:
            flipped = node.attrs["transpose_b" if which else "transpose_a"]
            row = (mark.axis == own - 2) != flipped  # the first of the two axes as it is multiplied
            if row == bool(which):
                raise batch_mixed(node)  # the axis that is summed
            places.append(mark.at(rank - 1 if which else rank - 2))
    mark = _one(places, node)
    if None not in marks and mark is not None and mark.axis >= rank - 2:
        raise batch_mixed(node)
    if mark is not None and mark.axis == rank - 1 and _by_columns(node):
        raise batch_mixed(node)
    return mark


def _by_columns(node: Node) -> bool:
    """Whether the number of columns of a product decides how it is cut along k."""
    x = node.operands[0]
    k, size = x.shape[-2 if node.attrs["transpose_a"] else -1], max(x.dtype.itemsize, 4)
    return product_segment(2, k, size) != product_segment(PROBE, k, size)


def image(self: Any, marks: Sequence[Mark], node: Node) -> Mark:
    """Batches of images by weights that all share."""
    if marks[0] is None and not any(m is not None for m in marks):
        return None
    if marks[0] != BatchAxis(0) or any(m is not None for m in marks[1:]):
        raise batch_mixed(node)
    return BatchAxis(0)
