"""A stretch of a recording as one op: a `recompute` node, whose gradient computes it again.

Equal stretches are one graph, whatever recording they come from, so the backward programs of equal
blocks are equal too. A gradient is compiled with the stretches in it, as in graph mode; where it
has to run op by op, each of them is a program of its own (`gradients`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_compiler.ir.graph import Graph, Value
from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass

from ..core import device as devices
from ..core.later import driver, region_rules
from ..core.lru import LRU
from ..tensors.parameter import Parameter
from ..tensors.tensor import Grads, Tensor, Tensors, arrays_of, result_of
from .recorder import Applied, Mark, Recording, Step, applied, tensor_hooks

_SMALL = 1 << 16
"""Bytes of tensors made in a stretch, beside those computed from what is followed, that may be
kept whatever it drops."""
_KEPT = 256  # Stretches of certain types, and gradients of them, that are kept for certain


@dataclass(frozen=True, slots=True)
class Folded:
    """A stretch as an op."""

    info: Applied  # the op
    reads: list[int]  # numbers of the values it reads, in the order of its operands


_graphs: LRU[Any, Applied] = LRU(_KEPT)


def folded(r: Recording, mark: Mark, ends: Sequence[int]) -> Folded | None:
    """Return the recording since a mark as one op.

    Args:
        ends: numbers of the values that are read after it.

    Returns:
        None where only running the Python code again gives it: it holds gradients of the user's
        or hooks, or would keep much (random numbers that follow from nothing followed).
    """
    steps = r.steps[mark.steps:]
    if any(s.applied is None for s in steps):
        return None
    places: dict[int, int] = {}  # of computed values, counted up; of read ones, down from -1
    reads: list[int] = []
    count = dropped = 0
    rows: list[Any] = []
    for s in steps:
        for n in s.operands:
            if n not in places:
                reads.append(n)
                places[n] = -len(reads)
        for n in s.results:
            places[n] = count
            count += 1
            dropped += r.tensors[n]._type.nbytes
        assert s.applied is not None
        rows.append((s.applied.number, tuple([places[n] for n in s.operands])))
    if _keeps_much(r, mark, reads, dropped) or (
        tensor_hooks and any(r.tensors[n]._hooks for s in steps for n in s.results)
    ):
        return None
    types = [(a.shape, a.dtype) for a in arrays_of(map(r.tensors.__getitem__, reads))]
    key = tuple(rows), tuple(types), tuple([places[n] for n in ends])
    info = _graphs.get(key)
    if info is None:
        info = _graphs.setdefault(key, applied("recompute", {}, (_graph(r, steps, reads, ends),)))
    return Folded(info, reads)


def _keeps_much(r: Recording, mark: Mark, reads: Sequence[int], dropped: int) -> bool:
    made = sum(r.tensors[n]._type.nbytes for n in reads
               if n >= mark.tensors and not isinstance(r.tensors[n], Parameter))
    return made > max(_SMALL, dropped // 8)


def _graph(r: Recording, steps: Sequence[Step], reads: Sequence[int], ends: Sequence[int]) -> Graph:
    graph = Graph("recomputed")
    table: dict[int, Value] = {
        n: graph.add_input(r.tensors[n]._type, f"x{i}") for i, n in enumerate(reads)}
    for s in steps:
        table.update((n, Value(r.tensors[n]._type)) for n in s.results)
        graph.nodes.append(s.node(table))
    graph.outputs = [table[n] for n in ends]
    return graph


# --- gradients of one stretch --------------------------------------------------------------------

_plans: LRU[Any, tuple[Executable, tuple[int, ...]]] = LRU(_KEPT)


def gradients(
    region: Graph, operands: Tensors, dys: Grads, so_far: Grads, wanted: Sequence[bool]
) -> list[Tensor | None]:
    """The stretch computed again and differentiated, in one program; see `Sums`."""
    slots = tuple(i for i, w in enumerate(wanted) if w)
    results = tuple(i for i, dy in enumerate(dys) if dy is not None)
    before = tuple(i for i in slots if so_far[i] is not None)
    key = region, slots, results, before, devices.current()
    plan = _plans.get(key)
    if plan is None:
        graph, reached, _ = region_rules.recomputed(region, slots, results, before, (), (),
                                             range(len(operands)))
        plan = _plans[key] = Executable(driver.compile_program(graph)), tuple(reached)
    executable, reached_by = plan
    if not reached_by:
        return [None] * len(operands)
    given = [*operands, *(dys[i] for i in results), *(so_far[i] for i in before)]
    out = executable.call(arrays_of(t for t in given if t is not None))
    new = dict(zip(reached_by, map(result_of, out), strict=True))
    return [new.get(i) for i in range(len(operands))]
