"""Batching: a graph of one example turned into a graph of many (`vmap`).

Every value of the new graph is either mapped, with the examples along a new first axis, or the
same for all examples. A node of unmapped operands stays as it is (so a random draw is the same
for all examples, as MindSpore has it). Other nodes follow the rule of their op (`Op.batch`); a
composition without a rule is expanded; what knows no rule runs in a loop over the examples.
Control flow that all examples share stays control flow; where they differ, both branches run and
each example selects, and a loop runs until the last example is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import has_effect, lookup
from ..ir.types import TensorType
from ..ops.batching import all_lifted, lifted

Values = Sequence[Value]
Flags = Sequence[bool]
Table = dict[Value, tuple[Value, bool]]


class BatchingError(TypeError):
    """An operation that cannot be batched, and its place."""

    def __init__(self, message: str, node: Node) -> None:
        super().__init__(message)
        self.node = node


def batch_graph(
    graph: Graph, mapped: Flags, n: int, whole: bool = False
) -> tuple[Graph, list[bool]]:
    """A graph of `n` examples.

    Args:
        graph: of one example; it is not changed.
        mapped: which inputs hold an example each.
        whole: repeat the outputs that all examples share, so that all are mapped.

    Returns:
        The graph, with the examples along the first axis of mapped inputs and outputs; which
        outputs are mapped.

    Raises:
        BatchingError: an op that cannot be batched, or a size found at run time.
    """
    return _region(graph, mapped, n, [True] * len(graph.outputs) if whole else None)


def example_type(ty: TensorType) -> TensorType:
    """The type of one example."""
    return ty.with_shape(ty.shape[1:])


def _many(ty: TensorType, n: int) -> TensorType:
    return ty.with_shape((n, *ty.shape))


def _region(
    graph: Graph, mapped: Flags, n: int, forced: Flags | None = None
) -> tuple[Graph, list[bool]]:
    """A batched graph; `forced` says which outputs must be mapped."""
    out = Graph(graph.name)
    b = Builder(out)
    inputs = [out.add_input(_many(v.type, n) if m else v.type, v.name, v.kind)
              for v, m in zip(graph.inputs, mapped, strict=True)]
    given = list(zip(inputs, mapped, strict=True))
    found = _nodes(b, graph, given, n)
    want = forced if forced is not None else [m for _, m in found]
    out.outputs = [lifted(b, v, m, n) if w else v for (v, m), w in zip(found, want, strict=True)]
    return out, [m or w for (_, m), w in zip(found, want, strict=True)]


def _nodes(
    b: Builder, graph: Graph, given: Sequence[tuple[Value, bool]], n: int
) -> list[tuple[Value, bool]]:
    """Append a graph's nodes on given inputs; its outputs."""
    table: Table = dict(zip(graph.inputs, given, strict=True))
    for node in graph.nodes:
        pairs = [table[v] for v in node.operands]
        with b.at(span=node.span, scope=node.scope or b.scope, origin=node.origin):
            results, mapped = _node(b, node, [v for v, _ in pairs], [m for _, m in pairs], n)
        table.update(zip(node.results, zip(results, mapped, strict=True), strict=True))
    return [table[v] for v in graph.outputs]


def _node(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    if not any(mapped):
        return b.node(node.op, xs, node.attrs, node.regions).results, [False] * len(node.results)
    special = _REGION_RULES.get(node.op)
    if special is not None:
        return special(b, node, xs, mapped, n)
    op = lookup(node.op)
    if node.op == "measure":
        raise BatchingError(
            "the shape of a result depends on elements that differ from example to example; that "
            "cannot be in a function given to 'vmap'", node,
        )
    results = op.batch(b, node, xs, mapped, n) if op.batch is not None else None
    if results is None and op.expand is not None:
        return _expanded(b, node, xs, mapped, n)
    if results is None:
        return _one_by_one(b, node, xs, mapped, n)
    return results, [True] * len(results)


def _expanded(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    op = lookup(node.op)
    assert op.expand is not None
    inner = Graph(node.op)
    args = [inner.add_input(v.type, f"x{i}") for i, v in enumerate(node.operands)]
    out = op.expand(Builder(inner), *args, **node.attrs)
    inner.outputs = list(out) if isinstance(out, tuple) else [out]
    found = _nodes(b, inner, list(zip(xs, mapped, strict=True)), n)
    return [v for v, _ in found], [m for _, m in found]


def _one_by_one(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    """A loop over the examples."""
    body = Graph(node.op)
    inner = Builder(body, span=b.span, scope=b.scope)
    rows = [body.add_input(v.type, f"row{i}") if m else None
            for i, (v, m) in enumerate(zip(node.operands, mapped, strict=True))]
    body.add_input(TensorType((), dtypes.int64), "i")
    args = [r if r is not None else body.add_input(v.type, f"capture{i}")
            for i, (v, r) in enumerate(zip(node.operands, rows, strict=True))]
    body.outputs = list(inner.node(node.op, args, node.attrs, node.regions).results)
    operands = [x for x, m in zip(xs, mapped, strict=True) if m]
    count = len(operands)
    operands += [x for x, m in zip(xs, mapped, strict=True) if not m]
    attrs = {"carried": 0, "sequences": count, "length": n, "stepwise": True}
    results = b.node("scan", operands, attrs, [body]).results
    return results, [True] * len(results)


# --- control flow --------------------------------------------------------------------------------


def _select(b: Builder, pred: Value, yes: Value, no: Value) -> Value:
    """For each example, one of two values."""
    gap = (1,) * (yes.type.rank - 1)
    return b.where(b.reshape(pred, shape=(*pred.shape, *gap)), yes, no)


def _cond(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    if mapped[0] and has_effect(node):
        return _one_by_one(b, node, xs, mapped, n)
    if mapped[0]:
        given = list(zip(xs[1:], mapped[1:], strict=True))
        yes, no = ([lifted(b, v, m, n) for v, m in _nodes(b, r, given, n)] for r in node.regions)
        out = [_select(b, xs[0], t, e) for t, e in zip(yes, no, strict=True)]
        return out, [True] * len(out)
    flags = [_region(r, mapped[1:], n)[1] for r in node.regions]
    either = [a or c for a, c in zip(*flags, strict=True)]
    regions = [_region(r, mapped[1:], n, either)[0] for r in node.regions]
    return b.node("cond", xs, {}, regions).results, either


def _carried(body: Graph, mapped: Flags, count: int, n: int) -> list[bool]:
    """Which carried values are mapped once the loop runs, given what enters it."""
    flags = list(mapped)
    while True:
        after = _region(body, flags, n)[1]
        more = [a or c for a, c in zip(flags[:count], after, strict=False)]
        if more == flags[:count]:
            return more
        flags[:count] = more


def _while(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    test, body = node.regions
    count = node.attrs["carried"]
    carried = _carried(body, mapped, count, n)
    outer = list(mapped[count:])
    if not _region(test, [*carried, *outer], n)[1][0]:
        flags = [*carried, *outer]
        regions = [_region(test, flags, n)[0], _region(body, flags, n, carried)[0]]
    elif has_effect(node):
        return _one_by_one(b, node, xs, mapped, n)
    else:
        carried = [True] * count
        flags = [*carried, *outer]
        regions = [_any(_region(test, flags, n)[0]), _masked(test, body, flags, count, n)]
    operands = [lifted(b, x, m, n) if f else x for x, m, f in zip(xs, mapped, flags, strict=True)]
    return b.node("while", operands, node.attrs, regions).results, carried


def _any(test: Graph) -> Graph:
    """The test of a loop that runs while any example does."""
    b = Builder(test)
    test.outputs = [b.reduce_any(test.outputs[0], axes=(0,), keepdims=False)]
    return test


def _masked(test: Graph, body: Graph, flags: Flags, count: int, n: int) -> Graph:
    """The body of a loop in which examples that are done keep their values."""
    out = Graph(body.name)
    b = Builder(out)
    inputs = [out.add_input(_many(v.type, n) if m else v.type, v.name)
              for v, m in zip(body.inputs, flags, strict=True)]
    given = list(zip(inputs, flags, strict=True))
    (pred, _), = _nodes(b, test, given, n)
    after = [lifted(b, v, m, n) for v, m in _nodes(b, body, given, n)]
    out.outputs = [_select(b, pred, new, old)
                   for new, old in zip(after, inputs[:count], strict=True)]
    return out


def _scan(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    (body,) = node.regions
    count, k = node.attrs["carried"], node.attrs["sequences"]
    limits = int(node.attrs["limited"])
    if any(mapped[count + k : count + k + limits]):
        raise BatchingError("the number of trips of a loop differs from example to example; that "
                            "cannot be in a function given to 'vmap'", node)
    into = [*mapped[: count + k], False, *mapped[count + k + limits :]]
    carried = _carried(body, into, count, n)
    flags = [*carried, *into[count:]]
    after = _region(body, flags, n)[1]
    region, found = _region(body, flags, n, [*carried, *after[count:]])
    operands = [lifted(b, x, m, n) if f else x
                for x, m, f in zip(xs[:count], mapped, carried, strict=False)]
    operands += [_swapped(b, x) if m else x
                 for x, m in zip(xs[count : count + k], mapped[count:], strict=False)]
    operands += xs[count + k :]
    results = b.node("scan", operands, node.attrs, [region]).results
    shown = [*results[:count], *(_swapped(b, r) if m else r for r, m in
                                 zip(results[count:], found[count:], strict=True))]
    return shown, found


def _swapped(b: Builder, x: Value) -> Value:
    """The first two axes exchanged."""
    return b.transpose(x, perm=(1, 0, *range(2, x.type.rank)))


def _custom(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    regions = [_region(r, [True] * len(r.inputs), n, [True] * len(r.outputs))[0]
               for r in node.regions]
    results = b.node("custom_grad", all_lifted(b, xs, mapped, n), node.attrs, regions).results
    return results, [True] * len(results)


def _recompute(b: Builder, node: Node, xs: Values, mapped: Flags, n: int) -> tuple[Values, Flags]:
    region, found = _region(node.regions[0], mapped, n)
    return b.node("recompute", xs, node.attrs, [region]).results, found


_REGION_RULES: Mapping[str, Callable[[Builder, Node, Values, Flags, int], tuple[Values, Flags]]] = {
    "cond": _cond, "while": _while, "scan": _scan, "custom_grad": _custom,
    "recompute": _recompute,
}
