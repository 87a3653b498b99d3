"""Forward mode and Jacobians, made of the reverse rules.

The cotangents u -> J^T u that reverse mode gives are linear in u, so transposing that map once
more, v -> J v, is forward mode, and no op needs a second rule. What the first transposition
computes for its own sake depends on u alone and is dropped as dead code. The construction is that
of "A new trick for calculating Jacobian vector products" (Townsend 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Value, clone_into
from ..ir.types import TensorType
from .reverse import Cotangents, accumulate, reverse

Values = Sequence[Value]


class _Linearised:
    """A graph copied into another, with the linear maps of its derivative.

    Args:
        graph: it is not changed.
        wanted: positions of the inputs to differentiate with respect to.
        seeded: positions of the outputs that are differentiated.
        name: of the new graph.
    """

    def __init__(self, graph: Graph, wanted: Sequence[int], seeded: Sequence[int],
                 name: str) -> None:
        self.graph = Graph(name)
        self.b = Builder(self.graph)
        args = [self.graph.add_input(v.type, v.name, v.kind) for v in graph.inputs]
        self.outputs, table = clone_into(self.b, graph, args)
        self.graph.updates = [(table[old], table[new]) for old, new in graph.updates]
        self.forward = list(self.graph.nodes)
        self.inputs = [args[i] for i in wanted]
        self.seeded = [self.outputs[i] for i in seeded]

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
        start = len(self.graph.nodes)
        pulled = self.pull(self.b, us)
        linear = self.graph.nodes[start:]

        def push(b: Builder, tangents: Sequence[Value | None]) -> list[Value | None]:
            gathered: Cotangents = {}
            for grad, v in zip(pulled, tangents, strict=True):
                if grad is not None and v is not None:
                    accumulate(b, gathered, grad, v)
            return reverse(b, linear, gathered, us)

        return push


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
    map_ = _Linearised(graph, wanted, seeded, graph.name + "_jvp")
    tangents = [map_.graph.add_input(v.type, f"tangent{i}") for i, v in enumerate(map_.inputs)]
    found = map_.transpose()(map_.b, tangents)
    map_.graph.outputs = [*map_.outputs, *_or_zeros(map_.b, found, map_.seeded)]
    return map_.graph


def jacobian_graph(
    graph: Graph, wanted: Sequence[int], seeded: Sequence[int], forward: bool
) -> Graph:
    """A graph that gives the outputs of `graph` and Jacobians.

    One pass for each element of an output (of an input, in forward mode); the passes are the
    trips of a loop, so the size of the graph does not depend on shapes.

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
    map_ = _Linearised(graph, wanted, seeded, graph.name + "_jacobian")
    found = _columns(map_) if forward else _rows(map_)
    map_.graph.outputs = [*map_.outputs, *found]
    return map_.graph


def _rows(map_: _Linearised) -> list[Value]:
    b, out = map_.b, []
    for number, output in enumerate(map_.seeded):

        def row(inner: Builder, i: Value, number: int = number) -> list[Value]:
            us = [unit(inner, v.type, i) if j == number else None
                  for j, v in enumerate(map_.seeded)]
            return _or_zeros(inner, map_.pull(inner, us), map_.inputs)

        stacked = stack(b, output.type, row, [v.type for v in map_.inputs])
        out += [b.reshape(s, shape=(*output.shape, *v.shape))
                for s, v in zip(stacked, map_.inputs, strict=True)]
    return out


def _columns(map_: _Linearised) -> list[Value]:
    b, push = map_.b, map_.transpose()
    by_input: list[list[Value]] = []
    for number, source in enumerate(map_.inputs):

        def column(inner: Builder, i: Value, number: int = number) -> list[Value]:
            vs = [unit(inner, v.type, i) if j == number else None
                  for j, v in enumerate(map_.inputs)]
            return _or_zeros(inner, push(inner, vs), map_.seeded)

        stacked = stack(b, source.type, column, [v.type for v in map_.seeded])
        by_input.append([_last(b, s, source.type, o.type)
                         for s, o in zip(stacked, map_.seeded, strict=True)])
    return [row[i] for i in range(len(map_.seeded)) for row in by_input]


def _last(b: Builder, stacked: Value, source: TensorType, output: TensorType) -> Value:
    """Tangents of one output, stacked, with the axes of the input behind those of the output."""
    rank = output.rank
    turned: Value = b.transpose(stacked, perm=(*range(1, rank + 1), 0))
    whole: Value = b.reshape(turned, shape=(*output.dims, *source.dims))
    return whole


def unit(b: Builder, ty: TensorType, position: Value) -> Value:
    """Zeros but for a one at a flat position (an int64[])."""
    hot = b.eq(b.iota(shape=(size(ty),)), position)
    out: Value = b.reshape(b.cast(hot, dtype=ty.dtype), shape=ty.dims)
    return out


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

    A loop; what `build` reads of the graph of `b` becomes its captures.
    """
    count = size(over)
    if count == 0:
        return [b.full(t.with_shape((0, *t.shape)), 0) for t in types]
    body = Graph("pass")
    i = body.add_input(TensorType((), dtypes.int64), "i")
    body.outputs = build(Builder(body, span=b.span, scope=b.scope), i)
    captures = close(body)
    attrs = {"carried": 0, "sequences": 0, "length": count, "stepwise": True}
    return list(b.node("scan", captures, attrs, [body]).results)


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
