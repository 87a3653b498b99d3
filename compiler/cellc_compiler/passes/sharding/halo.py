"""Halos: what a part of a tensor needs of its neighbours, because windows reach beyond it.

An op that slides windows along an axis says which rows a part of its result needs (`Window`). They
are the rank's own, but for some at both ends (the halo), which other ranks have: mostly the next
ones, further ones where a window is longer than a part. One all-to-all of rows along the axes of
the mesh that cut the tensor brings them. With two axes that are cut the second one moves rows that
have the halo of the first, so corners come along. At the border of the whole tensor there is
nothing to bring; what pads it there is the op's own (its `part`), so each rank pads what one
process would.
Source: the NeighborExchange ops of MindSpore, made of one collective.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.graph import Builder, Value
from ...ir.sharding import Layout, Mesh, Window
from ...ir.types import TensorType
from .redistribution import LATENCY, TOUCHED


def widening(mesh: Mesh, ty: TensorType, layout: Layout, windows: Mapping[int, Window]) -> float:
    """Return the cost of fetching other ranks' rows, for the rank that needs most.

    Args:
        ty: of the whole tensor.
        windows: by its axes.
    """
    dims, cost = list(mesh.local(ty, layout).dims), 0.0
    for axis, window in sorted(windows.items()):
        parts = mesh.parts(layout[axis])
        rows = window.foreign(parts) if parts > 1 else 0
        if rows:
            moved = ty.with_shape((*dims[:axis], rows, *dims[axis + 1 :])).nbytes
            dims[axis] += rows
            cost += LATENCY + moved + TOUCHED * ty.with_shape(dims).nbytes
    return cost


def widened(
    b: Builder, x: Value, mesh: Mesh, rank: int, cut: Sequence[int], axis: int, window: Window
) -> Value:
    """The rows that a rank's part needs, of its own and of others.

    Args:
        x: its own rows.
        cut: the axes of the mesh that cut this axis.
    """
    needed, here = window.of_parts(mesh.parts(cut)), mesh.part(rank, cut)
    own = window.rows // len(needed)
    has = [(i * own, (i + 1) * own) for i in range(len(needed))]
    below, mine, above = _cut(needed[here], has[here])
    if not window.foreign(len(needed)):
        return _rows(b, x, axis, mine, here * own)
    sent = [(0, 0) if i == here else _common(wanted, has[here]) for i, wanted in enumerate(needed)]
    come = [(0, 0) if i == here else _common(needed[here], owns) for i, owns in enumerate(has)]
    pieces = [_front(b, _rows(b, x, axis, rows, here * own), axis) for rows in sent if _size(rows)]
    message = pieces[0] if len(pieces) == 1 else b.concat(*pieces, axis=0) if pieces else \
        _front(b, _rows(b, x, axis, (here * own,) * 2, here * own), axis)
    got = _back(b, b.all_to_all_v(
        message, send_sizes=tuple(map(_size, sent)), receive_sizes=tuple(map(_size, come)),
        ranks=mesh.group(rank, cut)), axis)
    around = (_rows(b, got, axis, below, below[0]), _rows(b, x, axis, mine, here * own),
              _rows(b, got, axis, above, above[0] - _size(below)))
    kept = [v for v, rows in zip(around, (below, mine, above), strict=True) if _size(rows)]
    out: Value = kept[0] if len(kept) == 1 else b.concat(*kept, axis=axis)
    return out


Rows = tuple[int, int]  # The first row, and the end of the rows


def _size(rows: Rows) -> int:
    return rows[1] - rows[0]


def _common(one: Rows, other: Rows) -> Rows:
    """The rows of both; none: an empty range."""
    begin, end = max(one[0], other[0]), min(one[1], other[1])
    return (begin, end) if begin < end else (0, 0)


def _cut(needed: Rows, own: Rows) -> tuple[Rows, Rows, Rows]:
    """Return the needed rows before one's own rows, among them, and after them."""
    (begin, end), (first, behind) = needed, own
    return ((min(begin, first), min(end, first)),
            (min(max(begin, first), behind), max(min(end, behind), first)),
            (max(begin, behind), max(end, behind)))


def _rows(b: Builder, x: Value, axis: int, rows: Rows, first: int) -> Value:
    """Some rows of a value that begins with the row `first`."""
    dims = list(x.type.dims)
    if (rows[0] - first, rows[1] - first) == (0, dims[axis]):
        return x
    start = [0] * len(dims)
    start[axis], dims[axis] = rows[0] - first, rows[1] - first
    return b.slice(x, start=tuple(start), stop=tuple(dims))


def _front(b: Builder, x: Value, axis: int) -> Value:
    """An axis moved to the front."""
    if axis == 0:
        return x
    return b.transpose(x, perm=(axis, *(a for a in range(x.type.rank) if a != axis)))


def _back(b: Builder, x: Value, axis: int) -> Value:
    """The first axis moved back."""
    if axis == 0:
        return x
    return b.transpose(x, perm=(*range(1, axis + 1), 0, *range(axis + 1, x.type.rank)))
