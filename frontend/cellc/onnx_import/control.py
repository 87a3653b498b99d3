"""If, Loop and Scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_runtime import dtypes

from ..core.dispatch import active_tracer, apply_one
from ..ops.functional import control, shapes
from ..tensors.index_plan import known_elements
from ..tensors.tensor import Tensor, tensor_of
from .arrays import element_type
from .network import Scope
from .shaping import sliced
from .table import Call, Known, Value, axis_of, elements, rule, sizes, to
from .wire import Body

A = apply_one
_UNROLLED = 256
"""Trips of a loop that are written out one by one, where the loop cannot be one node."""


def _graph(c: Call, name: str) -> Body:
    found = c.need(name)
    if not isinstance(found, Body):
        raise c.refuse(f"its attribute {name!r} is no graph")
    return found


def _decided(value: Value) -> bool | None:
    """A condition that is known now; None where only the run knows it."""
    if isinstance(value, Known):
        return bool(value.array.reshape(-1)[0])
    if value is None:
        return True
    found = known_elements(value)
    return None if found is None else bool(found.reshape(-1)[0])


@rule("If", raw=True)
def _if(c: Call, scope: Scope, condition: Value) -> list[Value]:
    bodies = _graph(c, "then_branch"), _graph(c, "else_branch")

    if len(bodies[0].outputs) != len(bodies[1].outputs):
        raise c.refuse("its branches differ in the number of their outputs")

    def run(body: Body) -> list[Value]:
        return c.run.body(body, {}, scope, scope.opsets, scope.given)

    known = _decided(condition)
    if known is None:
        try:
            return list(control.cond(shapes.reshape(c.run.lift(condition), ()),
                                     lambda: tuple(c.run.lift(v) for v in run(bodies[0])),
                                     lambda: tuple(c.run.lift(v) for v in run(bodies[1]))))
        except (ValueError, TypeError) as e:
            # The branches do not fit together, or one does not fit the inputs: the run chooses.
            try:
                known = _asked(c, condition)
            except TypeError:
                if type(e) in (ValueError, TypeError):
                    raise e from None
                line = str(e).partition("\n")[0]
                raise c.refuse(f"its branches do not fit together: {line}") from e
    return run(bodies[0 if known else 1])


def _asked(c: Call, condition: Value) -> bool:
    """A condition that the run is asked for, since the form of a result follows from it."""
    flag, tracer = to(c.run.lift(condition), dtypes.int64), active_tracer()
    try:
        return bool(elements(flag, c.node.op).reshape(-1)[0])
    except TypeError:  # nothing is known of the call: both answers are tried
        if tracer is None:
            raise
        return bool(tracer.measure(shapes.reshape(flag, ()), c.node.op, 1)[0] != 0)


def _always(body: Body, condition: str) -> bool:
    """Whether a loop's condition stays what it was, or true, by the look of its graph."""
    made = {n: node for node in body.nodes for n in node.outputs}
    for _ in range(len(body.nodes) + 1):
        if condition == body.inputs[1].name:
            return True
        node = made.get(condition)
        if node is None or node.op not in ("Identity", "Cast"):
            break
        condition = node.inputs[0]
    return False


@rule("Loop", raw=True)
def _loop(c: Call, scope: Scope, trips: Value = None, condition: Value = None, *init: Value
          ) -> list[Value]:
    body = _graph(c, "body")
    count = len(init)
    if len(body.inputs) != count + 2 or len(body.outputs) < count + 1:
        raise c.refuse(f"its body takes {len(body.inputs)} values for {count} that are carried")
    names = [i.name for i in body.inputs]

    def step(i: Value, go: Value, carried: Sequence[Value]) -> list[Value]:
        values = dict(zip(names, [i, go, *carried], strict=True))
        return c.run.body(body, values, scope, scope.opsets, scope.given)

    most = _trips(trips)
    if most is None and trips is not None and len(body.outputs) > count + 1:
        most = sizes(elements(trips, "Loop"))[0]  # what is collected is of this length
    state: list[Value] = list(init)
    rows: list[list[Tensor]] = [[] for _ in body.outputs[count + 1 :]]
    tracer = active_tracer()
    if tracer is not None and most is not None and most > _UNROLLED and \
            _decided(condition) and _always(body, body.outputs[0].name):
        carried, stacked = tracer.scan(
            [c.run.lift(v) for v in state], [], most, lambda carried, _, i: _halves(
                [c.run.lift(v) for v in step(i, Known(np.array(True)), carried)[1:]], count))
        return [*carried, *stacked]
    go: Value = Known(np.array(True)) if condition is None else condition
    trip = 0
    while most is not None or trips is None:
        known = trip != most and _decided(go)
        if known is None and rows:  # the run is asked: what is collected follows from it
            known = _asked(c, go)
        if known is None:
            break
        if not known:
            return [*state, *_stacked(body, rows, count)]
        if trip >= _UNROLLED and tracer is not None:
            raise c.refuse(f"more than {_UNROLLED} trips would be written out one by one")
        go, *rest = step(Known(np.array(trip, np.int64)), go, state)
        state = rest[:count]
        for row, v in zip(rows, rest[count:], strict=True):
            row.append(c.run.lift(v))
        trip += 1
    if rows:
        raise c.refuse("the run decides how often the loop goes, so the size of what it collects "
                       "is not known")
    return list(_while(c, step, trips, go, state, trip))


def _trips(trips: Value) -> int | None:
    """How often a loop goes at most, if that is known."""
    if trips is None:
        return None
    found = known_elements(trips) if isinstance(trips, Tensor) else trips.array
    return None if found is None else sizes(found)[0]


def _halves(values: list[Tensor], count: int) -> tuple[list[Tensor], list[Tensor]]:
    return values[:count], values[count:]


def _while(c: Call, step: Any, trips: Value, go: Value, state: Sequence[Value], trip: int
           ) -> tuple[Tensor, ...]:
    """A loop whose end the run decides."""
    limit = None if trips is None else to(shapes.reshape(c.run.lift(trips), ()), dtypes.int64)
    start = tensor_of(np.array(trip, np.int64))
    first = shapes.reshape(c.run.lift(go), ())

    def test(carried: Any) -> Any:
        i, again = carried[:2]
        return again if limit is None else A("logical_and", again, A("lt", i, limit))

    def body(carried: Any) -> Any:
        i, again, *values = carried
        then, *new = (c.run.lift(v) for v in step(i, again, values))
        return (A("add", i, tensor_of(np.array(1, np.int64))), shapes.reshape(then, ()), *new)

    out: Any = control.while_loop(test, body, (start, first, *map(c.run.lift, state)))
    return tuple(out[2:])


def _stacked(body: Body, rows: list[list[Tensor]], count: int) -> list[Value]:
    """The values that the trips have collected, along a new first axis."""
    out: list[Value] = []
    for row, declared in zip(rows, body.outputs[count + 1 :], strict=True):
        if not row:
            dims = [d if isinstance(d, int) else 0 for d in declared.dims or ()]
            dtype = element_type(declared.code, f"the output {declared.name!r}")
            out.append(Known(np.zeros((0, *dims), dtype.numpy)))
            continue
        parts = [shapes.expand_dims(t, 0) for t in row]
        out.append(parts[0] if len(parts) == 1 else A("concat", *parts, axis=0))
    return out


@rule("Scan", raw=True)
def _scan(c: Call, scope: Scope, *inputs: Value) -> list[Value]:
    body, many = _graph(c, "body"), c.count("num_scan_inputs")
    if c.opset < 9:
        return _old_scan(c, scope, body, many, inputs)
    xs = [c.run.lift(v) for v in inputs[len(inputs) - many :]]
    state: list[Value] = list(inputs[: len(inputs) - many])
    axes = c.ints("scan_input_axes", (0,) * many) or (0,) * many
    backwards = c.ints("scan_input_directions", (0,) * many) or (0,) * many
    outs = len(body.outputs) - len(state)
    out_axes = c.ints("scan_output_axes", (0,) * outs) or (0,) * outs
    turned = c.ints("scan_output_directions", (0,) * outs) or (0,) * outs
    where = [axis_of(a, x.ndim) for a, x in zip(axes, xs, strict=True)]
    rows: list[list[Tensor]] = [[] for _ in range(outs)]
    names = [i.name for i in body.inputs]
    length = xs[0].shape[where[0]]
    if any(x.shape[a] != length for x, a in zip(xs, where, strict=True)):
        raise c.refuse("the inputs that it walks over differ in length")
    if length > _UNROLLED and active_tracer() is not None:
        raise c.refuse(f"more than {_UNROLLED} trips would be written out one by one")
    for t in range(length):
        now = [shapes.squeeze(sliced(x, a, n, n + 1), a) for x, a, back in
               zip(xs, where, backwards, strict=True) for n in [length - 1 - t if back else t]]
        found = c.run.body(body, dict(zip(names, [*state, *now], strict=True)), scope,
                           scope.opsets, scope.given)
        state, ys = found[: len(state)], found[len(state) :]
        for row, v in zip(rows, ys, strict=True):
            row.append(c.run.lift(v))
    stacked: list[Value] = []
    for row, axis, back in zip(rows, out_axes, turned, strict=True):
        a = axis_of(axis, row[0].ndim + 1) if row else 0
        ordered = row[::-1] if back else row
        parts = [shapes.expand_dims(y, a) for y in ordered]
        stacked.append(A("concat", *parts, axis=a) if len(parts) > 1 else parts[0])
    return [*state, *stacked]


def _old_scan(c: Call, scope: Scope, body: Body, many: int, inputs: Sequence[Value]
              ) -> list[Value]:
    """Version 8: each sample of the batch by itself, of one length."""
    if inputs[0] is not None:
        raise c.refuse("lengths of the samples of a batch are not read")
    given = [c.run.lift(v) for v in inputs[1:]]
    names = [i.name for i in body.inputs]
    results: list[list[Tensor]] = []
    kept = len(given) - many
    for b in range(given[0].shape[0]):
        own = [shapes.squeeze(sliced(x, 0, b, b + 1), 0) for x in given]
        state: list[Value] = list(own[:kept])
        rows: list[list[Tensor]] = [[] for _ in body.outputs[kept:]]
        for t in range(own[kept].shape[0]):
            now = [shapes.squeeze(sliced(x, 0, t, t + 1), 0) for x in own[kept:]]
            found = c.run.body(body, dict(zip(names, [*state, *now], strict=True)), scope,
                               scope.opsets, scope.given)
            state = found[:kept]
            for row, v in zip(rows, found[kept:], strict=True):
                row.append(c.run.lift(v))
        results.append([*(c.run.lift(v) for v in state),
                        *(A("concat", *(shapes.expand_dims(y, 0) for y in row), axis=0)
                          for row in rows)])
    return [A("concat", *(shapes.expand_dims(r, 0) for r in each), axis=0)
            for each in zip(*results, strict=True)]
