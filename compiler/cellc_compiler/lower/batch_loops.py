"""Loops whose rows are independent: each task runs all trips for some of the rows.

A recurrent layer carries a state of N rows, and no row of it depends on another. Run trip by
trip, its kernels would be shared out, and waited for, several times a trip. Cut by rows, the tasks
never meet before the end, and what a task carries from trip to trip stays in its core's caches.

The rule per op is that of `passes/batch_axis.py`; what is carried, walked or written has its rows
along the first axis. Every element is computed by the same chain of operations as before, because
no kernel but that of a single row chooses its order of summation by the number of rows, and a task
has two at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellc_runtime.records import dataclass

from ..ir.batch_axis import BatchAxis, NotBatchIndependent
from ..ir.graph import Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import TensorType
from ..passes.batch_axis import batch_axis_of
from .instructions import Place

LEAST_CYCLES = 60_000.0  # A loop of less work is not worth waking threads for
MOST_CYCLES = 2_000_000.0
"""Of a trip: longer ones are shared out kernel by kernel, at no cost that counts."""
SHARED_BYTES = 5 << 18
"""The data that each task reads again in every trip must fit the second-level cache of its core."""
_KERNELS = frozenset({"matmul", "join_copy"})
"""Ops with kernels of their own whose cost is known here."""
_MOST_TASKS = 16
_EXPENSIVE_CYCLES, _CHEAP_CYCLES, _FLOPS = 2.5, 0.2, 64.0


@dataclass(frozen=True, slots=True)
class BatchLoop:
    """A scan cut by rows."""

    tasks: int  # how many; each has the same number of rows
    body: Graph  # the body for the rows of one task
    # for each input of the body, whether its first axis is that of the rows
    batched: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Trips:
    """The places of a scan."""

    number: int  # of its counter
    node: Node
    carried: Sequence[Place]
    # xs, ys: rows of what it walks and of what it writes, for a trip
    xs: Sequence[Place]
    captures: Sequence[Place]
    ys: Sequence[Place]
    limit: Place | None

    def places(self) -> list[Place]:
        """All of them."""
        return [*self.carried, *self.xs, *self.captures, *self.ys,
                *([self.limit] if self.limit is not None else [])]

    def cut(self, number: int, parts: BatchLoop) -> Trips:
        """The same for one task of a loop cut by rows; `number` is the counter of tasks."""
        inputs, n, k = parts.body.inputs, len(self.carried), len(self.xs)

        def part(places: Sequence[Place], values: Sequence[Value],
                 batched: Sequence[bool]) -> list[Place]:
            return [Place(p.base, p.offset, (*p.steps, (number, v.type.nbytes))) if own else p
                    for p, v, own in zip(places, values, batched, strict=True)]

        first = n + k + 1
        return Trips(
            self.number, self.node, part(self.carried, inputs[:n], parts.batched[:n]),
            part(self.xs, inputs[n : n + k], parts.batched[n : n + k]),
            part(self.captures, inputs[first:], parts.batched[first:]),
            part(self.ys, parts.body.outputs[n:], [True] * len(self.ys)), self.limit)


def split_batch(node: Node) -> BatchLoop | None:
    """A scan cut by rows; None if its rows depend on one another, or if it is not worth it."""
    body, n = node.regions[0], node.attrs["carried"]
    if not n or any(inner.regions for inner in body.nodes):
        return None
    rows = body.inputs[0].shape[0] if body.inputs[0].type.rank else 0
    tasks = task_count(rows)
    per_trip = sum(map(_cycles, body.nodes))
    if tasks < 2 or per_trip * node.attrs["length"] < LEAST_CYCLES or per_trip > MOST_CYCLES:
        return None
    first = n + node.attrs["sequences"] + 1
    tall = [_tall(v, rows) for v in body.inputs]
    if not all(tall[:n]):
        return None
    # A captured value with this number of rows may be one that all rows read: a square matrix, say.
    for captured in ([False] * len(tall[first:]), tall[first:]):
        batched = (*tall[: first - 1], False, *captured)
        shared = sum(v.type.nbytes for v, own in zip(body.inputs, batched, strict=True) if not own)
        small = None if shared > SHARED_BYTES else _body(body, batched, rows, rows // tasks)
        if small is not None:
            return BatchLoop(tasks, small, batched)
    return None


def task_count(rows: int) -> int:
    """Return the number of tasks for these rows, by shape alone: enough for four threads if each
    keeps four rows (the fewest that make a product wait for its arithmetic, not for its
    weights)."""
    found = [t for t in range(2, _MOST_TASKS + 1, 2) if rows % t == 0 and rows // t >= 4]
    tall = [t for t in found if t >= 4 and rows // t >= 8]
    return max(tall) if tall else min((t for t in found if t >= 4), default=max(found, default=0))


def _tall(v: Value, rows: int) -> bool:
    return v.type.rank > 0 and v.shape[0] == rows


def _cycles(node: Node) -> float:
    op = lookup(node.op)
    if op.flops is not None:
        return op.flops(node) / _FLOPS
    cost = op.cost
    each = 0.0 if cost == "free" else _CHEAP_CYCLES if cost == "cheap" else _EXPENSIVE_CYCLES
    return each * sum(r.type.size for r in node.results)


def _body(body: Graph, batched: Sequence[bool], rows: int, part: int) -> Graph | None:
    """The body for `part` of its rows; None if a row of a result needs more than its own."""
    out = Graph(body.name)
    table: dict[Value, Value] = {}
    marks: dict[Value, bool] = {}
    for v, own in zip(body.inputs, batched, strict=True):
        table[v] = out.add_input(_part_of(v.type, part) if own else v.type, v.name, v.kind)
        marks[v] = own
    for node in body.nodes:
        try:
            own = _is_batched(node, [marks[v] for v in node.operands], rows)
        except NotBatchIndependent:
            return None
        copy = Node(node.op, [table[v] for v in node.operands],
                    _attrs(node, part) if own else node.attrs, span=node.span, scope=node.scope)
        types = [_part_of(r.type, part) if own else r.type for r in node.results]
        copy.results = tuple(Value(t, copy, r.index)
                             for t, r in zip(types, node.results, strict=True))
        if not node.is_constant and not _agrees(copy):
            return None
        out.nodes.append(copy)
        table.update(zip(node.results, copy.results, strict=True))
        marks.update(dict.fromkeys(node.results, own))
    out.outputs = [table[v] for v in body.outputs]
    return out if all(marks[v] for v in body.outputs) else None


def _part_of(ty: TensorType, part: int) -> TensorType:
    return ty.with_shape((part, *ty.dims[1:]))


def _is_batched(node: Node, marks: Sequence[bool], rows: int) -> bool:
    """Whether the rows of a node's results are those of the loop. Raises NotBatchIndependent if
    they are, and others, or no rule says so."""
    if lookup(node.op).opaque and node.op not in _KERNELS:
        raise NotBatchIndependent(node.op)
    if node.op in ("reshape", "broadcast_to", "iota"):
        # A value that is the same for every row has that number of rows by its type alone.
        tall = _tall(node.result, rows)
        if any(marks) and not (tall and _tall(node.operands[0], rows)
                               and node.result.type.rank >= node.operands[0].type.rank):
            raise NotBatchIndependent(node.op)
        if any(marks) and node.op == "broadcast_to":
            return _same(node, node.operands[0].type.rank)
        return any(marks) or (tall and node.op == "broadcast_to" and _flat(node))
    mark = batch_axis_of(node, [BatchAxis(0) if m else None for m in marks])
    if mark is None:
        return False
    if mark != BatchAxis(0) or not all(_tall(r, rows) for r in node.results):
        raise NotBatchIndependent(node.op)
    return True


def _same(node: Node, rank: int) -> bool:
    if rank != node.result.type.rank:
        raise NotBatchIndependent(node.op)
    return True


def _flat(node: Node) -> bool:
    """Whether all rows of a broadcast value are equal."""
    source = node.operands[0].type
    return source.rank < node.result.type.rank or source.dims[0] == 1


def _attrs(node: Node, part: int) -> dict[str, Any]:
    """The attributes that speak of the number of rows, for fewer."""
    attrs = dict(node.attrs)
    key = lookup(node.op).leading_size
    if key:
        attrs[key] = (part, *attrs[key][1:])
    return attrs


def _agrees(node: Node) -> bool:
    """Whether the op gives the types that its rows ask for."""
    try:
        return lookup(node.op).result_types(node) == tuple(r.type for r in node.results)
    except (TypeError, ValueError):
        return False
