"""The backward walk over a loop whose number of trips only the run knows.

A step of the backward loop needs what the forward loop carried into that step. Checkpoints are
kept at two levels (Griewank, "Achieving logarithmic growth of temporal and spatial complexity in
reverse automatic differentiation", 1992): the loop is cut into stretches of K steps, and what is
carried is saved at the start of each of K stretches, then, for one stretch after the other from
the last, at each of its steps. So every step runs forward twice more and backward once: n trips
cost O(n). The memory is that of 2 K steps whatever n is, planned at compile time and touched only
as far as there are trips. Beyond K * K trips the loop is replayed from its start once for every
K * K of them.

All of this is made of ordinary nodes, so it can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime import dtypes
from cellc_runtime.records import dataclass

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.types import TensorType
from .effects import silent

Values = Sequence[Value]

MAX_SEGMENT, MIN_SEGMENT = 128, 16  # Steps of a stretch, by the room there is for what they carry
CHECKPOINT_BYTES = 64 << 20  # Bytes of the checkpoints of one level


@dataclass(frozen=True, slots=True)
class CheckpointedLoop:
    """A loop to be walked backwards."""

    body: Graph  # from what is carried and captured to what is carried next; without effects
    # from what is carried and captured, and cotangents, to cotangents one step earlier
    back: Callable[[Builder, Values, Values, Values], list[Value]]

    @property
    def segment(self) -> int:
        """K, the steps of a stretch."""
        nbytes = sum(v.type.nbytes for v in self.body.outputs)
        return max(MIN_SEGMENT, min(MAX_SEGMENT, CHECKPOINT_BYTES // max(nbytes, 1)))

    def step(self, b: Builder, state: Values, captures: Values) -> list[Value]:
        """Return the carried values one step later."""
        return clone_into(b, self.body, [*state, *captures])[0]

    # --- forward --------------------------------------------------------------------------------

    def advance(self, b: Builder, state: Values, captures: Values, steps: Value) -> list[Value]:
        """Return the carried values a number of steps later."""
        n = len(state)
        operands = [b.literal(0, dtypes.int64), *state, *captures, steps]
        test = _region("advance_test", operands, lambda bb, v: [bb.lt(v[0], v[-1])])
        body = _region("advance_body", operands, lambda bb, v: [
            bb.add(v[0], bb.literal(1, dtypes.int64)),
            *self.step(bb, v[1 : n + 1], v[n + 1 : -1]),
        ])
        return list(b.node("while", operands, {"carried": n + 1}, [test, body]).results[1:])

    def _checkpoints(
        self, b: Builder, state: Values, captures: Values, limit: Value, length: int,
        next_: Callable[[Builder, Values, Values], list[Value]],
    ) -> list[Value]:
        """The rows of what is carried at the start of each of `limit` stretches (or steps)."""
        def body(bb: Builder, carried: Values, _: Values, i: Value, outer: Values) -> list[Value]:
            more = bb.lt(bb.add(i, bb.literal(1, dtypes.int64)), outer[0])
            operands = [*carried, *outer[1:]]
            n = len(carried)
            go = _region("go_on", operands, lambda b2, v: next_(b2, v[:n], v[n:]))
            stay = _region("stay", operands, lambda b2, v: list(v[:n]))
            moved = bb.node("cond", [more, *operands], {}, [go, stay]).results
            return [*moved, *carried]

        out = _limited_scan(b, state, [], limit, [limit, *captures], length, False, body)
        return out[len(state) :]

    # --- backward -------------------------------------------------------------------------------

    def run(
        self, b: Builder, trips: Value, init: Values, captures: Values, grads: Values
    ) -> list[Value]:
        """The cotangents before the first of `trips` steps, from those after the last. `grads`: of
        the carried values, then of captured ones as gathered so far."""
        k, n, m = self.segment, len(init), len(grads)
        large = k * k
        operands = [_ceil_div(b, trips, large), *grads, trips, *init, *captures]

        def body(bb: Builder, v: Values) -> list[Value]:
            left = bb.sub(v[0], bb.literal(1, dtypes.int64))
            total, start = v[m + 1], bb.mul(left, bb.literal(large, dtypes.int64))
            first, outer = v[m + 2 : m + 2 + n], v[m + 2 + n :]
            state = self.advance(bb, first, outer, start)
            count = bb.minimum(bb.sub(total, start), bb.literal(large, dtypes.int64))
            return [left, *self._segments(bb, state, outer, count, v[1 : m + 1])]

        test = _region("sweep_test", operands,
                       lambda bb, v: [bb.gt(v[0], bb.literal(0, dtypes.int64))])
        regions = [test, _region("sweep_body", operands, body)]
        return list(b.node("while", operands, {"carried": m + 1}, regions).results[1:])

    def _segments(
        self, b: Builder, state: Values, captures: Values, count: Value, grads: Values
    ) -> list[Value]:
        """As `run` for at most K * K steps."""
        k, n = self.segment, len(state)
        whole = b.literal(k, dtypes.int64)
        limit = _ceil_div(b, count, k)
        starts = self._checkpoints(b, state, captures, limit, k, lambda bb, s, c: self.advance(
            bb, s, c, bb.literal(k, dtypes.int64)))

        def body(bb: Builder, carried: Values, row: Values, i: Value, outer: Values) -> list[Value]:
            done = bb.mul(i, outer[1])
            steps = bb.minimum(bb.sub(outer[0], done), outer[1])
            return self._steps(bb, row, outer[2:], steps, carried)

        outer = [count, whole, *captures]
        return _limited_scan(b, grads, starts[:n], limit, outer, k, True, body)

    def _steps(
        self, b: Builder, state: Values, captures: Values, count: Value, grads: Values
    ) -> list[Value]:
        """As `run` for at most K steps."""
        k = self.segment
        states = self._checkpoints(b, state, captures, count, k, self.step)

        def body(bb: Builder, carried: Values, row: Values, i: Value, outer: Values) -> list[Value]:
            return self.back(bb, row, outer, carried)

        return _limited_scan(b, grads, states, count, captures, k, True, body)


def _ceil_div(b: Builder, x: Value, by: int) -> Value:
    return b.floor_div(b.add(x, b.literal(by - 1, dtypes.int64)), b.literal(by, dtypes.int64))


def _region(
    name: str, operands: Values, fn: Callable[[Builder, list[Value]], Sequence[Value]]
) -> Graph:
    """A closed graph over values of the types of `operands`."""
    graph = Graph(name)
    inputs = [graph.add_input(v.type, f"arg{i}") for i, v in enumerate(operands)]
    graph.outputs = list(fn(Builder(graph), inputs))
    return graph


def _limited_scan(
    b: Builder, carried: Values, rows: Values, limit: Value, captures: Values, length: int,
    reverse: bool, fn: Callable[[Builder, Values, Values, Value, Values], list[Value]],
) -> list[Value]:
    """The results of a `scan` of `limit` trips, at most `length`."""
    n, k = len(carried), len(rows)
    graph = Graph("stretch")
    types = [v.type for v in carried]
    types += [v.type.with_shape(v.shape[1:]) for v in rows]
    types += [TensorType((), dtypes.int64), *(v.type for v in captures)]
    inputs = [graph.add_input(t, f"arg{i}") for i, t in enumerate(types)]
    graph.outputs = fn(Builder(graph), inputs[:n], inputs[n : n + k], inputs[n + k],
                       inputs[n + k + 1 :])
    attrs = {"carried": n, "sequences": k, "length": length, "reverse": reverse, "limited": True}
    return list(b.node("scan", [*carried, *rows, limit, *captures], attrs, [graph]).results)


def _with_counter(region: Graph, count: bool) -> Graph:
    """A loop region with a leading int64 counter; the body increments it."""
    graph = Graph(region.name)
    b = Builder(graph)
    i = graph.add_input(TensorType((), dtypes.int64), "trips")
    args = [graph.add_input(v.type, f"arg{j}") for j, v in enumerate(region.inputs)]
    outputs, _ = clone_into(b, region, args)
    graph.outputs = [b.add(i, b.literal(1, dtypes.int64)), *outputs] if count else outputs
    return graph


def count_trips(b: Builder, node: Node, n: int) -> Value:
    """The number of trips of a `while` that carries `n` values."""
    test, body = (_with_counter(silent(r), c)
                  for r, c in zip(node.regions, (False, True), strict=True))
    zero = b.literal(0, dtypes.int64)
    counted = b.node("while", [zero, *node.operands], {"carried": n + 1}, [test, body])
    return counted.results[0]


def first_inputs(body: Graph, n: int) -> Graph:
    """A graph of the inputs of `body` that gives the first of them."""
    graph = Graph("stay")
    inputs = [graph.add_input(v.type, f"arg{i}") for i, v in enumerate(body.inputs)]
    graph.outputs = inputs[:n]
    return graph
