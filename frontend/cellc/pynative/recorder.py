"""Recording of an eager run, so that the one autodiff pass can differentiate it.

A recording is a graph that grows with every eager op on a tracked tensor, plus the tensors that
were computed. Its gradient is the same reverse-mode pass that compiled graphs use; the backward
nodes are run eagerly, op by op, where recordings further out see them (so gradients nest).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_compiler.autodiff.reverse import Cotangents, accumulate, differentiable, reverse
from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import lookup

from ..common.tensor import Tensor
from ..core.dispatch import apply, run_scan

CustomRule = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Any]]
"""(operands, results, cotangents) -> one cotangent (or None) for each operand."""


class _Active(threading.local):
    def __init__(self) -> None:
        self.stack: list[Recording] = []


_active = _Active()


class Recording:
    """The ops applied to tracked tensors while it is active."""

    def __init__(self) -> None:
        self.graph = Graph("recording")
        self.tensors: dict[Value, Tensor] = {}
        self.values: dict[int, tuple[Tensor, Value]] = {}
        self.custom: dict[Node, CustomRule] = {}

    def track(self, tensor: Tensor) -> Value:
        """Start to follow a tensor as an input of the recording."""
        value = self.graph.add_input(tensor._type, f"x{len(self.graph.inputs)}")
        self._bind(tensor, value)
        return value

    def _bind(self, tensor: Tensor, value: Value) -> None:
        self.values[id(tensor)] = (tensor, value)
        self.tensors[value] = tensor

    def value_of(self, tensor: Tensor) -> Value | None:
        """The value that stands for a tensor, if it is followed."""
        found = self.values.get(id(tensor))
        return found[1] if found is not None else None

    def _operand(self, tensor: Tensor) -> Value:
        found = self.value_of(tensor)
        return found if found is not None else self.track(tensor)

    def note(
        self, op: str, operands: Sequence[Tensor], attrs: Mapping[str, Any],
        results: Sequence[Tensor], regions: tuple[Graph, ...] = (),
    ) -> Node | None:
        """Record an op if it reads a followed tensor."""
        if not any(id(t) in self.values for t in operands):
            return None
        node = Node(op, [self._operand(t) for t in operands], lookup(op).complete(attrs),
                    regions=regions)
        node.results = tuple(Value(t._type, node, i) for i, t in enumerate(results))
        self.graph.nodes.append(node)
        for tensor, value in zip(results, node.results, strict=True):
            self._bind(tensor, value)
        return node

    def note_custom(
        self, operands: Sequence[Tensor], results: Sequence[Tensor], rule: CustomRule
    ) -> None:
        """Record a computation with a gradient rule of its own."""
        node = Node("custom_grad", [self._operand(t) for t in operands], {})
        node.results = tuple(Value(t._type, node, i) for i, t in enumerate(results))
        self.graph.nodes.append(node)
        self.custom[node] = rule
        for tensor, value in zip(results, node.results, strict=True):
            self._bind(tensor, value)

    def before_overwrite(self, tensor: Tensor) -> None:
        """Keep the elements of a followed tensor whose buffer is about to change."""
        found = self.values.pop(id(tensor), None)
        if found is not None:
            self.tensors[found[1]] = Tensor._from_array(tensor._data.copy())

    def rebind(self, tensor: Tensor, source: Tensor) -> None:
        """`tensor` now stands for what `source` was computed as."""
        found = self.value_of(source)
        if found is None:
            self.values.pop(id(tensor), None)
        else:
            self.values[id(tensor)] = (tensor, found)

    # --- gradients ------------------------------------------------------------------------------

    def gradients(
        self, outputs: Sequence[tuple[Tensor, Tensor]], wanted: Sequence[Value]
    ) -> list[Tensor | None]:
        """Cotangents of `wanted` from pairs of (output, its cotangent)."""
        walk = _BackwardWalk(self)
        for out, sens in outputs:
            value = self.value_of(out)
            if value is not None and differentiable(value.type):
                accumulate(walk.builder, walk.cotangents, value, walk.constant(sens))
        return walk.run(wanted)


class _BackwardWalk:
    """Builds backward nodes and runs them eagerly, a stretch between custom rules at a time."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.graph = Graph("backward")
        self.builder = Builder(self.graph)
        self.cotangents: Cotangents = {}
        self.env: dict[Value, Tensor] = dict(recording.tensors)
        self.done = 0

    def constant(self, tensor: Tensor) -> Value:
        """A tensor as a value of the backward graph."""
        value = self.graph.add_input(tensor._type, f"c{len(self.graph.inputs)}")
        self.env[value] = tensor
        return value

    def run(self, wanted: Sequence[Value]) -> list[Tensor | None]:
        """Walk the recording backwards."""
        nodes = self.recording.graph.nodes
        stretch: list[Node] = []
        active = self._active(nodes, wanted)
        for node in reversed(nodes):
            if node in self.recording.custom:
                self._stretch(stretch, wanted, active)
                stretch = []
                self._custom(node, active)
            else:
                stretch.append(node)
        self._stretch(stretch, wanted, active)
        self._execute()
        return [self._tensor(self.cotangents.get(v)) for v in wanted]

    @staticmethod
    def _active(nodes: Sequence[Node], wanted: Sequence[Value]) -> set[Value]:
        active = {v for v in wanted if differentiable(v.type)}
        for node in nodes:
            if node.op != "stop_gradient" and any(v in active for v in node.operands):
                active.update(r for r in node.results if differentiable(r.type))
        return active

    def _stretch(
        self, backwards: Sequence[Node], wanted: Sequence[Value], active: set[Value]
    ) -> None:
        if backwards:
            nodes = list(reversed(backwards))
            reverse(self.builder, nodes, self.cotangents, list(active))

    def _custom(self, node: Node, active: set[Value]) -> None:
        dys = [self.cotangents.get(r) for r in node.results]
        if all(dy is None for dy in dys) or not any(v in active for v in node.operands):
            return
        self._execute()
        given = [
            self.env[dy] if dy is not None else self._zeros(r)
            for dy, r in zip(dys, node.results, strict=True)
        ]
        operands = [self.env[v] for v in node.operands]
        results = [self.env[r] for r in node.results]
        grads = self.recording.custom[node](operands, results, given)
        for operand, grad in zip(node.operands, grads, strict=True):
            if operand in active and grad is not None:
                accumulate(self.builder, self.cotangents, operand, self.constant(grad))

    def _zeros(self, value: Value) -> Tensor:
        zeros = self.builder.zeros_like(value)
        self._execute()
        return self.env[zeros]

    def _tensor(self, value: Value | None) -> Tensor | None:
        return self.env[value] if value is not None else None

    def _execute(self) -> None:
        """Run the backward nodes built so far."""
        for node in self.graph.nodes[self.done :]:
            if node.op == "constant":
                self.env[node.result] = Tensor._from_array(node.attrs["value"].array.copy())
                continue
            operands = [self.env[v] for v in node.operands]
            if node.op == "scan":
                results = run_scan(operands, node.attrs, node.regions[0])
                self.env.update(zip(node.results, results, strict=True))
                continue
            out = apply(node.op, *operands, **node.attrs)
            for r, t in zip(node.results, out if isinstance(out, tuple) else (out,), strict=True):
                self.env[r] = t
        self.done = len(self.graph.nodes)


def active_recordings() -> list[Recording]:
    """The recordings of this thread, outermost first."""
    return _active.stack


@contextmanager
def recording() -> Iterator[Recording]:
    """Record eager ops within the block."""
    r = Recording()
    _active.stack.append(r)
    try:
        yield r
    finally:
        _active.stack.remove(r)


@contextmanager
def paused() -> Iterator[None]:
    """Within the block nothing is recorded (the body of a custom gradient)."""
    saved = _active.stack
    _active.stack = []
    try:
        yield
    finally:
        _active.stack = saved
