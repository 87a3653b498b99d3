"""A finished graph run as calls of ops: appended to a graph being traced, or eagerly.

Eagerly each node is an op call like any other, so recordings see it and gradients pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import has_effect

from ..core.dispatch import active_tracer, apply, assign, run_scan
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, Tensors, tensor_of
from .bprop import with_gradient
from .callbacks import print_parts


def run_graph(graph: Graph, inputs: Tensors) -> list[Tensor]:
    """The outputs of a graph for these inputs, in the mode of the caller.

    Inputs that the graph updates must be Parameters; they are assigned.
    """
    tracer = active_tracer()
    if tracer is not None:
        complete = graph.outputs + [new for _, new in graph.updates]
        whole = Graph(graph.name)
        whole.inputs, whole.nodes, whole.outputs = graph.inputs, graph.nodes, complete
        results: list[Tensor] = list(tracer.inline(whole, [tracer.lift(t) for t in inputs]))
    else:
        results = replay(graph, inputs, [new for _, new in graph.updates])
    place = {v: i for i, v in enumerate(graph.inputs)}
    count = len(graph.outputs)
    for (old, _), value in zip(graph.updates, results[count:], strict=True):
        target = inputs[place[old]]
        assert isinstance(target, Parameter)
        assign(target, value)
    return results[:count]


Effect = Callable[[Node, list[Tensor]], Tensors]
"""Runs a node that calls Python (`print`, `host_call`): its results for operands."""


def replay(
    graph: Graph, inputs: Tensors, more: Sequence[Value] = (), effect: Effect | None = None
) -> list[Tensor]:
    """Run a graph's nodes eagerly, in order: its outputs, then the values of `more`.

    Args:
        effect: runs what calls Python; without it, values are printed and other calls refused.
    """
    values: dict[Value, Tensor] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        results = run_node(node, [values[v] for v in node.operands], effect)
        values.update(zip(node.results, results, strict=True))
    return [values[v] for v in [*graph.outputs, *more]]


def run_node(node: Node, operands: list[Tensor], effect: Effect | None = None) -> Tensors:
    """The results of a node, eagerly; see `replay`."""
    if node.op == "cond":
        taken = node.regions[0] if bool(operands[0]) else node.regions[1]
        return replay(taken, operands[1:], (), effect)
    if node.op == "while":
        test, body = node.regions
        carried = node.attrs["carried"]
        while bool(replay(test, operands, (), effect)[0]):
            operands = [*replay(body, operands, (), effect), *operands[carried:]]
        return operands[:carried]
    if node.op == "scan":
        if effect is not None and has_effect(node):
            raise TypeError("a loop of known length that calls Python cannot be run ahead")
        return run_scan(operands, node.attrs, node.regions[0])
    if node.op == "recompute":
        return replay(node.regions[0], operands, (), effect)
    if node.op == "custom_grad":
        return _custom(node, operands, effect)
    if effect is not None and node.op in ("print", "host_call"):
        return effect(node, operands)
    if node.op == "print":
        print_parts(node.attrs["parts"], operands)
        return []
    if node.op == "constant":
        return [tensor_of(node.attrs["value"].array)]
    out = apply(node.op, *operands, **node.attrs)
    return out if isinstance(out, tuple) else [out]


def _custom(node: Node, operands: list[Tensor], effect: Effect | None) -> list[Tensor]:
    forward, backward = node.regions

    def rule(inputs: Tensors, results: Tensors, dys: Tensors) -> list[Tensor | None]:
        found = replay(backward, [*inputs, *results, *dys])
        return [None if i in node.attrs["none"] else g for i, g in enumerate(found)]

    def run(given: list[Tensor]) -> list[Tensor]:
        return replay(forward, given, (), effect)

    tracer = active_tracer()
    if tracer is not None:
        return tracer.custom_gradient(operands, run, rule, **{
            k: node.attrs[k] for k in ("rule", "differs")})
    return with_gradient(operands, run, rule)
