"""Forward mode and Jacobians, made of the reverse rules.

The cotangents u -> J^T u that reverse mode gives are linear in u, so transposing that map once
more, v -> J v, is forward mode, and no op needs a second rule. Values that only the first
transposition needs depend on u alone and are dropped as dead code. The construction is that of "A
new trick for calculating Jacobian vector products" (Townsend 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.op import has_effect
from ..ir.types import TensorType
from .aliases import share_cotangents
from .batching import batch_graph
from .reverse import Cotangents, accumulate, reverse

Values = Sequence[Value]

_TOGETHER = 16 << 20
"""Bytes that the values of the passes of one batch may have, were all of them in memory."""


class Derivative:
    """The linear maps of the derivative of some nodes.

    Args:
        b: builds after the nodes, which stand in its graph or give values that it may read.
        forward: the nodes, in order.
        inputs: what they are differentiated with respect to.
        seeded: their results that are differentiated.
    """

    def __init__(self, b: Builder, forward: Sequence[Node], inputs: Values, seeded: Values) -> None:
        self.b, self.forward = b, forward
        self.inputs, self.seeded = inputs, seeded

    def pull(self, b: Builder, cotangents: Sequence[Value | None]) -> list[Value | None]:
        """Cotangents of the inputs from those of the outputs; new nodes go to `b`."""
        gathered: Cotangents = {}
        for output, u in zip(self.seeded, cotangents, strict=True):
            if u is not None:
                accumulate(b, gathered, output, u)
        return reverse(b, self.forward, gathered, self.inputs)

    def transpose(self) -> Callable[[Builder, Sequence[Value | None]], list[Value | None]]:
        """The map from tangents of the inputs to those of the outputs (None: zeros)."""
        us = [self.b.zeros_like(v) for v in self.seeded]
        start = len(self.b.graph.nodes)
        pulled = self.pull(self.b, us)
        linear = self.b.graph.nodes[start:]

        def push(b: Builder, tangents: Sequence[Value | None]) -> list[Value | None]:
            gathered: Cotangents = {}
            for grad, v in zip(pulled, tangents, strict=True):
                if grad is not None and v is not None:
                    accumulate(b, gathered, grad, v)
            return reverse(b, linear, gathered, us)

        return push

    def tangents(self, given: Values) -> list[Value]:
        """Tangents of the outputs from those of the inputs."""
        return _or_zeros(self.b, self.transpose()(self.b, given), self.seeded)

    def jacobians(self, forward: bool) -> list[Value]:
        """The Jacobian of each output, for each input; see `jacobian_graph`."""
        return _columns(self) if forward else _rows(self)


class _Copied:
    """A copied graph, followed by its derivative."""

    def __init__(self, graph: Graph, wanted: Sequence[int], seeded: Sequence[int],
                 name: str) -> None:
        self.graph = Graph(name)
        b = Builder(self.graph)
        args = [self.graph.add_input(v.type, v.name, v.kind) for v in graph.inputs]
        self.outputs, table = clone_into(b, graph, args)
        self.graph.outputs = self.outputs
        share_cotangents(self.graph)
        starts = [self.graph.outputs[i] for i in seeded]
        self.graph.updates = [(table[old], table[new]) for old, new in graph.updates]
        self.derivative = Derivative(b, list(self.graph.nodes), [args[i] for i in wanted], starts)


def _or_zeros(b: Builder, values: Sequence[Value | None], like: Values) -> list[Value]:
    return [v if v is not None else b.zeros_like(o) for v, o in zip(values, like, strict=True)]


def tangent_graph(graph: Graph, wanted: Sequence[int], seeded: Sequence[int]) -> Graph:
    """A graph that gives the outputs of `graph` and their derivatives along a direction.

    Args:
        graph: the forward graph; it is not changed.
        wanted: positions of the inputs that move.
        seeded: positions of the outputs that are differentiated.

    Returns:
        A graph of the same inputs and one tangent for each of `wanted`, with outputs
        `[*outputs, *tangents of seeded]` (zeros where there is no path) and the updates of
        `graph`.

    Raises:
        GradientError: an op on the path has no gradient.
    """
    copy = _Copied(graph, wanted, seeded, graph.name + "_jvp")
    given = [copy.graph.add_input(v.type, f"tangent{i}")
             for i, v in enumerate(copy.derivative.inputs)]
    copy.graph.outputs = [*copy.outputs, *copy.derivative.tangents(given)]
    return copy.graph


def jacobian_graph(
    graph: Graph, wanted: Sequence[int], seeded: Sequence[int], forward: bool
) -> Graph:
    """A graph that gives the outputs of `graph` and Jacobians.

    One pass for each element of an output (of an input, in forward mode). Passes run side by
    side, as examples of one batch, as many as memory allows; then more of them in a loop, so the
    size of the graph does not depend on shapes.

    Args:
        graph: the forward graph; it is not changed.
        wanted: positions of the inputs to differentiate with respect to.
        seeded: positions of the outputs that are differentiated.
        forward: in forward mode.

    Returns:
        A graph of the same inputs with outputs `[*outputs, *Jacobians]` and the updates of
        `graph`. The Jacobians are in the order of `seeded`, for each in the order of `wanted`;
        their shapes are `(*shape of the output, *shape of the input)`.

    Raises:
        GradientError: an op on the path has no gradient.
    """
    copy = _Copied(graph, wanted, seeded, graph.name + "_jacobian")
    copy.graph.outputs = [*copy.outputs, *copy.derivative.jacobians(forward)]
    return copy.graph


def _passes(
    map_: Derivative, over: Values, results: Values,
    linear: Callable[[Builder, Sequence[Value | None]], list[Value | None]],
) -> Iterator[list[Value]]:
    """For each value of `over` what a linear map gives for each of its units, stacked."""
    for number, value in enumerate(over):

        def one(inner: Builder, i: Value, number: int = number) -> list[Value]:
            given = [unit(inner, v.type, i) if j == number else None for j, v in enumerate(over)]
            return _or_zeros(inner, linear(inner, given), results)

        yield stack(map_.b, value.type, one, [v.type for v in results])


def _rows(map_: Derivative) -> list[Value]:
    stacked = _passes(map_, map_.seeded, map_.inputs, map_.pull)
    return [map_.b.reshape(s, shape=(*output.shape, *v.shape))
            for output, row in zip(map_.seeded, stacked, strict=True)
            for s, v in zip(row, map_.inputs, strict=True)]


def _columns(map_: Derivative) -> list[Value]:
    stacked = _passes(map_, map_.inputs, map_.seeded, map_.transpose())
    by_input = [[_last(map_.b, s, source.type, o.type)
                 for s, o in zip(column, map_.seeded, strict=True)]
                for source, column in zip(map_.inputs, stacked, strict=True)]
    return [row[i] for i in range(len(map_.seeded)) for row in by_input]


def _last(b: Builder, stacked: Value, source: TensorType, output: TensorType) -> Value:
    """Stack the tangents of one output, with the axes of the input after those of the output."""
    rank = output.rank
    turned: Value = b.transpose(stacked, perm=(*range(1, rank + 1), 0))
    return b.reshape(turned, shape=(*output.dims, *source.dims))


def unit(b: Builder, ty: TensorType, position: Value) -> Value:
    """Zeros but for a one at a flat position (an int64[])."""
    hot = b.eq(b.iota(shape=(size(ty),)), position)
    return b.reshape(b.cast(hot, dtype=ty.dtype), shape=ty.dims)


def size(ty: TensorType) -> int:
    """The number of elements."""
    n = 1
    for d in ty.dims:
        n *= d
    return n


def stack(
    b: Builder, over: TensorType, build: Callable[[Builder, Value], list[Value]],
    types: Sequence[TensorType],
) -> list[Value]:
    """`build(builder, i)` for each element i of a tensor type, stacked along a new first axis.

    Values of `b`'s graph that `build` reads become captures of a loop, or of a batch.
    """
    count = size(over)
    if count == 0:
        return [b.full(t.with_shape((0, *t.shape)), 0) for t in types]
    body = Graph("pass")
    i = body.add_input(TensorType((), dtypes.int64), "i")
    body.outputs = build(Builder(body, span=b.span, scope=b.scope), i)
    _drop_unread(body)
    captures = close(body)
    many = _at_once(body, count)
    if many == 1:
        attrs = {"carried": 0, "sequences": 0, "length": count, "stepwise": True}
        return list(b.node("scan", captures, attrs, [body]).results)
    whole = batch_graph(body, [True, *(False for _ in captures)], many, whole=True)[0]
    if many == count:
        return clone_into(b, whole, [b.iota(shape=(count,)), *captures])[0]
    return _in_batches(b, whole, captures, count, many)


def _drop_unread(graph: Graph) -> None:
    needed = set(graph.outputs)
    for node in reversed(graph.nodes):
        if has_effect(node) or any(r in needed for r in node.results):
            needed.update(node.operands)
    graph.nodes = [n for n in graph.nodes if has_effect(n) or any(r in needed for r in n.results)]


def _at_once(body: Graph, count: int) -> int:
    """How many passes make one batch: equal parts of `count` of a bounded number of bytes."""
    if any(has_effect(n) for n in body.nodes):
        return 1  # what they call is called once for each
    if not all(isinstance(d, int) for n in body.nodes for r in n.results for d in r.shape):
        return 1
    each = sum(r.type.nbytes for n in body.nodes for r in n.results)
    most = max(1, min(count, _TOGETHER // max(each, 1)))
    return -(-count // -(-count // most))


def _in_batches(b: Builder, whole: Graph, captures: Values, count: int, many: int) -> list[Value]:
    """A loop of batches of `many` passes; the last ones are repeated to fill the last batch."""
    trips = -(-count // many)
    body = Graph("batch")
    inner = Builder(body, span=b.span, scope=b.scope)
    trip = body.add_input(TensorType((), dtypes.int64), "i")
    outer = [body.add_input(v.type, f"capture{i}") for i, v in enumerate(captures)]
    first = inner.mul(trip, inner.literal(many, dtypes.int64))
    places = inner.minimum(inner.add(inner.iota(shape=(many,)), first),
                           inner.literal(count - 1, dtypes.int64))
    body.outputs = clone_into(inner, whole, [places, *outer])[0]
    attrs = {"carried": 0, "sequences": 0, "length": trips, "stepwise": True}
    out = []
    for v in b.node("scan", captures, attrs, [body]).results:
        rest = v.shape[2:]
        flat = b.reshape(v, shape=(trips * many, *rest))
        out.append(flat if trips * many == count else b.slice(
            flat, start=(0,) * (1 + len(rest)), stop=(count, *rest), step=None))
    return out


def close(graph: Graph) -> list[Value]:
    """Make inputs of what a graph reads from outside; the outer values, in order."""
    own = set(graph.inputs)
    outer: dict[Value, Value] = {}

    def local(v: Value) -> Value:
        if v in own:
            return v
        if v not in outer:
            outer[v] = graph.add_input(v.type, f"capture{len(outer)}")
        return outer[v]

    for node in graph.nodes:
        node.operands = [local(v) for v in node.operands]
        own.update(node.results)
    graph.outputs = [local(v) for v in graph.outputs]
    return list(outer)
