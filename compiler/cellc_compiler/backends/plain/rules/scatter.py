"""Elements put in places: by positions, and end to end."""

from __future__ import annotations

from collections.abc import Sequence

from cellc_runtime import dtypes

from ....ir.graph import Node
from ....ir.types import normalize_axis, prod
from ...along_axis import updated
from ...llvm.convert import convert
from ...llvm.math.lanes import X
from ..writer import Buffer, PlainFunction
from .table import Rule, lowers


def _scatter(per_element: bool) -> Rule:
    """A copy, then updates. Those that may meet in one place are in the order of their positions;
    axes along which they cannot are independent."""
    def rule(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
        (x, indices, updates), (out,), mode = ins, outs, str(node.attrs["mode"])
        axis = normalize_axis(node.attrs["axis"], len(x.shape))
        shared = 0 if per_element else node.attrs["batch_dims"]
        count = 1 if per_element else len(indices.shape) - shared
        with f.items(prod(x.shape)) as (i,):
            for p in x.parts:
                out.set(i, x.get(i, p), p)
        before, along = updates.shape[:axis], updates.shape[axis : axis + count]
        behind = updates.shape[axis + count :]
        with f.items(*before, *behind) as rest, f.each(*along) as met:
            at = [*rest[: len(before)], *met, *rest[len(before) :]]
            picked = at if per_element else [*at[:shared], *met]
            given = X(f, convert(f, indices.get(picked).v, indices.dtype, dtypes.int64))
            index = given.cmp("slt", 0).where(given + x.shape[axis], given)
            with f.given(index.cmp("ult", x.shape[axis])):
                place = [*at[:axis], index, *at[axis + count:]]
                for p in x.parts:
                    new = updates.get(at, p)
                    out.set(place, new if mode == "update" else X(f, updated(
                        f, mode, x.part, out.get(place, p).v, new.v)), p)

    return rule


lowers("scatter")(_scatter(False))
lowers("scatter_lines")(_scatter(True))


@lowers("join_copy")
def join_copy(f: PlainFunction, node: Node, ins: Sequence[Buffer], outs: Sequence[Buffer]) -> None:
    (out,), axis, start = outs, normalize_axis(node.attrs["axis"], len(outs[0].shape)), 0
    for x in ins:
        with f.items(*x.shape) as at:
            for p in x.parts:
                out.set([*at[:axis], at[axis] + start, *at[axis + 1:]], x.get(at, p), p)
        start += x.shape[axis]
