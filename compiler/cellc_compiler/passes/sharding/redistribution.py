"""From one layout to another: the cheapest steps, and the nodes that they are.

A step drops the mesh axes that cut an axis last (an all-gather), lets one more cut an axis (each
rank takes its slice), or lets one that cuts an axis last cut another one instead (an all-to-all).
The cost of a step is the number of bytes that a rank sends, with a constant for its latency;
Dijkstra's algorithm over layouts finds the cheapest way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cache

from cellc_runtime.records import dataclass

from ...ir.graph import Builder, Value
from ...ir.sharding import Layout, Mesh
from ...ir.types import TensorType

LATENCY = 4096.0  # The fixed cost of a collective besides its bytes, in bytes
TOUCHED = 0.05  # The cost of a byte that is copied on its rank


class Kind(Enum):
    """The operation on values between ranks."""

    GATHER = "all-gather"
    SLICE = "own-slice"
    EXCHANGE = "all-to-all"
    REDUCE = "all-reduce"
    SCATTER = "reduce-scatter"
    HALO = "halo-exchange"


@dataclass(frozen=True, slots=True)
class Step:
    """One redistribution."""

    kind: Kind  # all-gather, slice or all-to-all
    axis: int  # of the tensor, which is not cut by `cut` any more; for a slice, which is
    cut: tuple[int, ...]  # axes of the mesh
    to: int = -1  # the axis that is cut by it instead, for an all-to-all


@cache
def route(
    mesh: Mesh, ty: TensorType, source: Layout, target: Layout
) -> tuple[float, tuple[Step, ...]]:
    """The cheapest steps from one layout to another, and what they cost a rank."""
    done: set[Layout] = set()
    queue: list[tuple[float, int, Layout, tuple[Step, ...]]] = [(0.0, 0, source, ())]
    count = 0
    while queue:
        cost, _, layout, steps = heapq.heappop(queue)
        if layout == target:
            return cost, steps
        if layout in done:
            continue
        done.add(layout)
        for more, after, step in _steps(mesh, ty, layout, target):
            if after not in done:
                count += 1
                heapq.heappush(queue, (cost + more, count, after, (*steps, step)))
    raise ValueError(f"{ty} cannot lie on a mesh of {mesh.sizes} by {target}")


def _steps(
    mesh: Mesh, ty: TensorType, layout: Layout, target: Layout
) -> Iterator[tuple[float, Layout, Step]]:
    """Yield each step from a layout: its cost, the new layout and the step."""
    nbytes = float(mesh.local(ty, layout).nbytes)
    used = {m for cut in layout for m in cut}
    wanted = {m for cut in target for m in cut}
    for axis, cut in enumerate(layout):
        for first in range(len(cut)):
            parts = mesh.parts(cut[first:])
            yield (LATENCY + nbytes * (parts - 1), _with(layout, axis, cut[:first]),
                   Step(Kind.GATHER, axis, cut[first:]))
        for m in sorted(wanted - used):
            after = _with(layout, axis, (*cut, m))
            if mesh.fits(ty, after):
                yield 1 + TOUCHED * nbytes, after, Step(Kind.SLICE, axis, (m,))
        if cut:
            m = cut[-1]
            share = (mesh.sizes[m] - 1) / mesh.sizes[m]
            for to, other in enumerate(layout):
                after = _with(_with(layout, axis, cut[:-1]), to, (*other, m))
                if to != axis and mesh.fits(ty, after):
                    yield (LATENCY + nbytes * (share + TOUCHED), after,
                           Step(Kind.EXCHANGE, axis, (m,), to))


def _with(layout: Layout, axis: int, cut: tuple[int, ...]) -> Layout:
    return (*layout[:axis], cut, *layout[axis + 1 :])


def take(b: Builder, x: Value, mesh: Mesh, rank: int, step: Step) -> Value:
    """The nodes of a step, of this rank."""
    if step.kind is Kind.SLICE:
        return own_part(b, x, step.axis, mesh.parts(step.cut), mesh.part(rank, step.cut))
    ranks = mesh.group(rank, step.cut)
    if step.kind is Kind.EXCHANGE:
        return b.all_to_all(x, split_axis=step.to, concat_axis=step.axis, ranks=ranks)
    return _along(b, x, step.axis, lambda moved: b.all_gather(moved, ranks=ranks))


def own_part(b: Builder, x: Value, axis: int, parts: int, number: int) -> Value:
    """One of the equal parts along an axis."""
    dims = list(x.type.dims)
    size = dims[axis] // parts
    start = [0] * len(dims)
    start[axis], dims[axis] = number * size, (number + 1) * size
    return b.slice(x, start=tuple(start), stop=tuple(dims))


def reduced(
    b: Builder, x: Value, mesh: Mesh, rank: int, cut: Sequence[int], combine: str, axis: int = -1
) -> Value:
    """The result that the ranks along `cut` have parts of, added in their order; with an axis, the
    own part of it along that one."""
    ranks = mesh.group(rank, cut)
    if axis < 0:
        return b.all_reduce(x, reduction=combine, ranks=ranks)
    return _along(b, x, axis, lambda moved: b.reduce_scatter(moved, reduction=combine, ranks=ranks))


def _along(b: Builder, x: Value, axis: int, collective: Callable[[Value], Value]) -> Value:
    """A collective that works along the first axis, along another one."""
    if axis == 0:
        return collective(x)
    order = (axis, *(a for a in range(x.type.rank) if a != axis))
    return b.transpose(collective(b.transpose(x, perm=order)),
                       perm=tuple(order.index(a) for a in range(x.type.rank)))
