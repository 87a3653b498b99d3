"""Values of the call at hand while a graph is compiled for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler import interpret
from cellc_compiler.ir.dims import Dim, symbols_of
from cellc_compiler.ir.graph import Builder, Graph, Node, Value, clone_into
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.shapes import active_shapes

from ..core.later import instantiate
from ..tensors.tensor import Tensor, elements_of
from ..tracing.tracer import GraphTensor, Tracer


class Foresight:
    """Values of a graph under construction for the call at hand, by the reference interpreter.

    Args:
        elements: gives the elements of the graph's first inputs, in order; None: nobody knows.
    """

    def __init__(self, tracer: Tracer, elements: Callable[[], Sequence[Any]] | None) -> None:
        self.tracer, self.elements = tracer, elements
        self.known: dict[Value, Any] = {}
        self.measured: dict[str, Value] = {}
        self.begun = False

    def of(self, number: Tensor) -> Any:
        """The element of a number of the graph; None where that cannot be said: what Python gives
        when the network runs."""
        if self.elements is None:
            return None
        if not self.begun:
            self.begun = True
            given = map(np.asarray, self.elements())
            self.known.update(zip(self.tracer.graph.inputs, given, strict=False))
        value = self.tracer.lift(number)
        return None if not self._work_out(value) else self.known[value].item()

    def _work_out(self, value: Value) -> bool:
        """Work out a value and what it is made of; whether that was possible."""
        stack = [value]
        while stack:
            v = stack[-1]
            if v in self.known:
                stack.pop()
                continue
            needs = [self._outer(v)] if v.node is None else [
                *v.node.operands, *self._measures(v.node)]
            missing = [o for o in needs if o is not None and o not in self.known]
            if missing:
                stack += missing
            elif not self._step(v):
                return False
        return True

    def _measures(self, node: Node) -> list[Value]:
        """Return the values that a node's sizes were measured from: hints may be stand-ins."""
        symbols = {s for r in node.results for s in symbols_of(r.type.shape)}
        symbols |= {s for a in node.attrs.values() for s in symbols_of(a)}
        if symbols - self.measured.keys():
            self.measured.update((n.attrs["symbol"], n.result) for r in self.tracer.regions
                                 for n in r.graph.nodes if n.op == "measure")
        return [self.measured[s] for s in symbols if s in self.measured]

    def _outer(self, value: Value) -> Value | None:
        """Return the outer value of a nested graph's input."""
        found = self.tracer.stands.get(value)
        return found if found is not None else next(
            (o for r in self.tracer.regions for o, i in r.captures.items() if i is value), None)

    def _step(self, value: Value) -> bool:
        if value.node is None:
            outer = self._outer(value)
            found = self.known[outer] if outer is not None else self._parameter(value)
            if found is not None:
                self.known[value] = found
            return found is not None
        node = value.node
        if node.op == "measure":
            self.known[node.result] = self.known[node.operands[0]]
            return True
        if any(n.op == "host_call" for n in node.walk()):
            return False
        try:
            self.known.update(zip(node.results, self._evaluated(node), strict=True))
        except Exception:
            self._raise_earlier(node)
            raise
        return True

    def _evaluated(self, node: Node) -> Sequence[Any]:
        return interpret.evaluate(
            for_sizes(node, self._sizes()), [self.known[v] for v in node.operands])

    def _raise_earlier(self, failed: Node) -> None:
        """Raise the first error that the call meets before it gets to a node that fails."""
        for region in self.tracer.regions:
            for node in region.graph.nodes:
                if node is failed:
                    return
                if any(lookup(n.op).may_fail for n in node.walk()) and all(
                        map(self._work_out, node.operands)):
                    self._evaluated(node)

    def _sizes(self) -> Mapping[str, int]:
        """The sizes of the call at hand, where types have symbols."""
        shapes = active_shapes()
        hints = {} if shapes is None else dict(shapes.hints)
        for value in self.tracer.graph.inputs if hints else ():
            if value in self.known:  # (a hint may be a stand-in for 0 or 1)
                pairs = zip(value.type.shape, self.known[value].shape, strict=True)
                hints |= {str(d): n for d, n in pairs if type(d) is Dim}
        found = {s: self.known[v] for s, v in self.measured.items() if v in self.known}
        return hints | {s: int(n) for s, n in found.items()}

    def _parameter(self, value: Value) -> Any:
        found = (p for p, v in self.tracer.parameters.items() if v is value)
        return next((np.asarray(elements_of(p)) for p in found), None)


def foresee(
    tracer: Tracer, elements: Callable[[], Sequence[Any]] | None, symbols: Iterable[str]
) -> list[int]:
    """The sizes of the call at hand that follow from elements, up to the first one that cannot be
    said, for a trace that has failed."""
    found: list[int] = []
    tracer.regions = tracer.failed or tracer.regions
    foresight = Foresight(tracer, elements)
    values = {n.attrs["symbol"]: n.result for r in tracer.regions for n in r.graph.nodes
              if n.op == "measure"}
    for symbol in symbols:
        try:
            number = foresight.of(GraphTensor(values[symbol]))
        except Exception:  # what fails is an error of the trace, which is known already
            return found
        if number is None:
            return found
        found.append(int(number))
    return found


def for_sizes(node: Node, sizes: Mapping[str, int]) -> Node:
    """A node for these sizes."""
    if not sizes:
        return node
    alone, out = Graph("step"), Graph("step")
    alone.inputs, alone.nodes, alone.outputs = list(dict.fromkeys(node.operands)), [node], [
        *node.results]
    inputs = [out.add_input(v.type, f"in{i}") for i, v in enumerate(alone.inputs)]
    out.outputs, _ = clone_into(Builder(out), alone, inputs)
    return instantiate.instantiate(out, sizes).nodes[-1]
