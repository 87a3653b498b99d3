"""Reverse mode, source to source.

One walk over the nodes in reverse order; each op's own rule turns cotangents of its results into
cotangents of its operands, and cotangents of one value are added in the order they arrive. That
order follows from the program alone, so the graph of compiled code and the recording of an eager
run give the same bits: contributions inside a branch or loop are added one by one to the
cotangent that came from after it. (A cotangent that has to exist before its first contribution
starts as -0.0, for x + -0.0 is x for every x.)

The method is that of Pearlmutter & Siskind (2008) without a tape: backward nodes are ordinary
nodes, so gradients of gradients need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir.graph import Builder, Graph, Node, Value, clone_into
from ..ir.op import lookup
from ..ir.types import differentiable, seedable
from ..passes.stages.micro_batches import backward_order
from .aliases import share_cotangents
from .conditional import Presence, differ, guard_contributions, present_results, zeros_if_absent
from .effects import (
    GradientError,
)
from .recompute import recompute_results

Values = Sequence[Value]
Cotangents = dict[Value, Value]
Flags = Sequence[Value | None]
"""Flags whether each of a node's cotangents is present (None: it is, or there is none)."""


RegionRule = Callable[
    [Builder, Node, list["Value | None"], Flags, Cotangents, "set[Value]"], Presence]
"""From the cotangents of a node's results, with their flags, to those of what it reads, of which
the second mapping is updated; it gives the flags of its contributions."""
REGION_RULES: dict[str, RegionRule] = {}  # The rules of ops with regions (`regions`, `loop_rules`)


def reverse(
    b: Builder, nodes: Sequence[Node], cotangents: Cotangents, wanted: Sequence[Value],
    presence: Presence | None = None,
) -> list[Value | None]:
    """Append to `b` the backward nodes of `nodes`; the cotangents of `wanted` (None: no path).

    Args:
        b: where backward nodes go; its graph holds (or may read) the forward values.
        nodes: forward nodes in order.
        cotangents: of the results to start from, and of values as gathered so far; updated.
        wanted: values whose cotangents are requested.
        presence: flags of conditional cotangents; updated. Without them, zeros are given where
            nothing contributed when it ran.

    Raises:
        GradientError: an op on the path has no gradient.
    """
    whole = presence is None
    presence = {} if presence is None else presence
    active = reached(nodes, wanted)
    start, seeds = len(b.graph.nodes), list(cotangents.values())
    for node in backward_order(nodes):
        dys = [cotangents.get(r) for r in node.results]
        if not any(dy is not None and r in active
                   for dy, r in zip(dys, node.results, strict=True)):
            continue
        with b.at(span=node.span, scope=node.scope, origin=node.op):
            _guarded_step(b, node, dys, cotangents, active, presence)
    recompute_results(b, start, nodes, seeds)
    found = [cotangents.get(v) for v in wanted]
    if not whole or not presence:
        return found
    return [zeros_if_absent(b, v, presence.get(w)) for v, w in zip(found, wanted, strict=True)]


def reached(nodes: Sequence[Node], wanted: Sequence[Value]) -> set[Value]:
    """Values with a differentiable path from `wanted`, integers only if some are among those."""
    carries = seedable if any(v.dtype.is_integer for v in wanted) else differentiable
    active = {v for v in wanted if carries(v.type)}
    for node in nodes:
        if node.op != "stop_gradient" and any(v in active for v in node.operands):
            active.update(r for r in node.results if carries(r.type))
    return active


def _guarded_step(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value],
    presence: Presence,
) -> None:
    """`_step`, with conditional contributions kept apart; see `conditional`."""
    special = REGION_RULES.get(node.op)
    if special is None and not presence:
        _step(b, node, dys, cotangents, active)
        return
    flags = [presence.get(r) for r in node.results]
    some = None
    # A rule of regions that an eager run has no node for, but the nodes in them, knows which of
    # the results have a cotangent.
    if not (lookup(node.op).unrolled(node) and differ(flags, dys)):
        dys, some = present_results(b, node, dys, presence)
        flags = [None] * len(dys)
    before = {v: cotangents.get(v) for v in node.operands}
    found: Mapping[Value, Value] = {}
    if special is None:
        _step(b, node, dys, cotangents, active)
    else:
        found = special(b, node, dys, flags, cotangents, active)
    guard_contributions(b, cotangents, before, some, found, presence)


def _step(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> None:
    op = lookup(node.op)
    if not op.has_gradient():
        if op.expand is None or not op.differentiable:
            if not any(differentiable(v.type) for v in node.operands if v in active):
                return  # a function of integers that jumps
            raise GradientError(
                op.why_no_gradient(node)
                or f"{node.op} is not differentiable", node)
        _through_expansion(b, node, dys, cotangents, active)
        return
    try:
        grads = op.gradient(b, node, dys)
    except TypeError:
        if all(r.dtype.is_inexact for r in node.results):
            raise
        raise GradientError(f"the gradient of {node.op} is not known for integers", node) from None
    for operand, grad in zip(node.operands, grads, strict=True):
        if grad is not None and operand in active:
            accumulate(b, cotangents, operand, grad)
        elif operand in active and op.why_no_gradient(node):
            raise GradientError(op.why_no_gradient(node), node)


def accumulate(b: Builder, cotangents: Cotangents, value: Value, grad: Value) -> None:
    """Add a contribution to the cotangent of a value."""
    if grad.type != value.type:
        raise TypeError(f"a gradient of type {grad.type} for a value of type {value.type}")
    had = cotangents.get(value)
    cotangents[value] = grad if had is None else b.add(had, grad)


def _through_expansion(
    b: Builder, node: Node, dys: list[Value | None], cotangents: Cotangents, active: set[Value]
) -> None:
    """A composition without a rule of its own: build it again and differentiate that.

    Common subexpressions merge the second copy of the forward part with the first.
    """
    op = lookup(node.op)
    assert op.expand is not None
    start = len(b.graph.nodes)
    out = op.expand(b, *node.operands, **node.attrs)
    results = list(out) if isinstance(out, tuple) else [out]
    inner = b.graph.nodes[start:]
    seeds = {r: dy for r, dy in zip(results, dys, strict=True) if dy is not None}
    operands = [v for v in dict.fromkeys(node.operands) if v in active]
    for operand, grad in zip(operands, reverse(b, inner, seeds, operands), strict=True):
        if grad is not None:
            accumulate(b, cotangents, operand, grad)


def start_cotangent(b: Builder, cotangents: Cotangents, value: Value) -> Value:
    """The cotangent gathered so far, or the neutral element of addition (-0.0)."""
    had = cotangents.get(value)
    if had is not None:
        return had
    return b.broadcast_to(b.literal(-0.0, value.dtype), shape=value.type.shape)


def zero_cotangent(b: Builder, dy: Value | None, result: Value) -> Value:
    """The cotangent of a result, zeros if nothing depends on it."""
    return dy if dy is not None else b.zeros_like(result)


# --- whole graphs --------------------------------------------------------------------------------


def gradient_graph(
    graph: Graph, wanted: Sequence[int], *, seeded: Sequence[int] | None = None,
    sens: bool = False,
) -> Graph:
    """A graph of the same inputs that gives the outputs of `graph`, then gradients.

    Args:
        graph: the forward graph; it is not changed.
        wanted: positions of the inputs to differentiate with respect to.
        seeded: positions of the outputs to start from (default: all).
        sens: add one input per seeded output, its cotangent; else cotangents are ones.

    Returns:
        A graph with outputs `[*outputs, *gradients]` (zeros where there is no path) and the
        updates of `graph`.

    Raises:
        GradientError: an op on the path has no gradient.
    """
    out = Graph(graph.name + "_grad")
    b = Builder(out)
    args = [out.add_input(v.type, v.name, v.kind) for v in graph.inputs]
    outputs, table = clone_into(b, graph, args)
    out.outputs = outputs
    share_cotangents(out)
    starts, forward = out.outputs, list(out.nodes)
    cotangents: Cotangents = {}
    for i in range(len(outputs)) if seeded is None else seeded:
        v = starts[i]
        if sens:
            seed = out.add_input(v.type, f"sens{i}")
        elif seedable(v.type):
            seed = b.full(v.type, 1)
        else:
            continue
        accumulate(b, cotangents, v, b.cotangent(seed))
    out.updates = [(table[old], table[new]) for old, new in graph.updates]
    values = [args[i] for i in wanted]
    grads = reverse(b, forward, cotangents, values)
    zeros = [g if g is not None else b.zeros_like(v) for g, v in zip(grads, values, strict=True)]
    out.outputs = [*outputs, *zeros]
    return out


def halves(graph: Graph, kept: int, given: int) -> tuple[Graph, Graph]:
    """Split a gradient graph before the first node that reads a cotangent.

    The nodes keep their order, by which a further derivative adds up what it gathers.

    Args:
        graph: as `gradient_graph` gives it with `sens`; it becomes the first part.
        kept: how many of its outputs the first part gives.
        given: how many of its inputs, the last ones, are cotangents.

    Returns:
        The part that needs no cotangent, which gives `kept` outputs, then what the other part
        reads; and that part, which takes these and the cotangents and gives the gradients.
    """
    count = len(graph.inputs) - given
    cotangents, gradients = graph.inputs[count:], graph.outputs[kept:]
    at = next((i for i, node in enumerate(graph.nodes)
               if not set(cotangents).isdisjoint(node.operands)), len(graph.nodes))
    first, last = graph.nodes[:at], graph.nodes[at:]
    made = {*cotangents, *(v for node in last for v in node.results)}
    read = dict.fromkeys(v for v in [*(v for node in last for v in node.operands), *gradients]
                         if v not in made)
    again = [n for n in first if not n.operands and not n.regions
             and any(v in read for v in n.results)]  # constants: each part has its own
    held = [v for v in read if v.node not in again]
    rest = Graph(graph.name, [*held, *cotangents], again + last, gradients)
    second = Graph(graph.name + "_back")
    inputs = [second.add_input(v.type, f"value{i}") for i, v in enumerate(rest.inputs)]
    second.outputs, _ = clone_into(Builder(second), rest, inputs)
    graph.inputs, graph.nodes = graph.inputs[:count], first
    graph.outputs = [*graph.outputs[:kept], *held]
    return graph, second
