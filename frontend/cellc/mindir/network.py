"""A checked MindIR file as a network: its nodes are walked, and ops of cellc are applied.

The walk serves both modes, like library code: in a graph the ops are traced, in PyNative they run.
Nodes run in the order of the file, which keeps the order that monads ask for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass

from ..core.dispatch import active_tracer
from ..onnx_import.arrays import Array, Files, array_of, element_type
from ..onnx_import.network import at_node
from ..onnx_import.wire import Input, Node, RawTensor
from ..tensors.promotion import fresh
from ..tensors.tensor import Tensor, copy_of, tensor_of
from ..tracing.pytree import Box, Leaf, Structure, put_together
from .checks import check
from .control import Choice, Closure, Flow, Jump
from .table import apply_primitive
from .wire import MONAD, Body, MindirError, Model, Monad, Unread

MOST_STEPS = 500_000  # Nodes that one walk visits; those of unrolled loops count each time


class Network:
    """A file that can run.

    Attributes:
        path: of the file, for messages.
        inputs: the tensors of a call, in order; `arguments` how they are nested.
        weights: the parameters by name; `frozen` those that are not trained.
    """

    def __init__(self, path: str, model: Model) -> None:
        self.path, self.model = path, model
        self.files = Files(os.path.dirname(os.path.abspath(path)))
        self.written, still = check(model)
        self.inputs: list[Input] = []
        structure = tuple(self._nested(i.type, i.name.rpartition(":")[2] or "x")
                          for i in model.graph.inputs)
        self.arguments: Structure = Box(tuple, (), structure)
        self.weights: dict[str, Array] = {}
        for name, raw in model.graph.parameters:
            if name in self.weights:
                raise MindirError(f"two parameters have the name {name!r}")
            self.weights[name] = array_of(raw, self.files)
        self.frozen = frozenset(
            name for name, raw in model.graph.parameters
            if raw.name in still or element_type(raw.code, f"the parameter {name!r}").kind
            != "float")
        self.flow = Flow(model)
        self._tensors: dict[int, Tensor] = {}

    def _nested(self, kind: Any, name: str) -> Structure:
        """How the tensors of an argument are nested; they are added to `inputs`."""
        if isinstance(kind, (tuple, list)):
            parts = tuple(self._nested(k, f"{name}_{i}") for i, k in enumerate(kind))
            return Box(type(kind), (), parts)
        if not isinstance(kind, RawTensor):
            what = kind.kind if isinstance(kind, Unread) else getattr(kind, "name", kind)
            raise MindirError(f"the input {name!r} is a {what}; only tensors are taken")
        dims = tuple(None if d < 0 else d for d in kind.dims)
        self.inputs.append(Input(name, "tensor", kind.code, None if -2 in kind.dims else dims))
        return Leaf(len(self.inputs) - 1)

    def constant(self, value: Any) -> Any:
        """The value of a constant node; tensors are made once."""
        if isinstance(value, (tuple, list)):
            return type(value)(self.constant(v) for v in value)
        if not isinstance(value, RawTensor):
            return value
        found = self._tensors.get(id(value))
        if found is None:
            array = array_of(value, self.files)
            found = self._tensors[id(value)] = tensor_of(
                array if array.flags.writeable else array.copy())
        return found

    def __call__(self, inputs: Sequence[Tensor], weights: Mapping[str, Tensor]) -> Any:
        """The results for these inputs, in the mode of the caller. Raises ValueError or TypeError
        if a node cannot be translated; the message names it."""
        run = Run(self, weights)
        graph = self.model.graph
        with at_node(self.path):
            values = put_together(self.arguments, list(inputs))
            return self._result(run.walk(graph, [
                *values, *(weights[name] for name, _ in graph.parameters)]))

    def _result(self, value: Any) -> Any:
        """A result; the caller may change it, and constants and Parameters stay as they are."""
        if isinstance(value, (tuple, list)):
            return type(value)(self._result(v) for v in value if not isinstance(v, Monad))
        if isinstance(value, (bool, int, float)):
            return value
        if not isinstance(value, Tensor):
            what = f"the graph {value.body.name!r}" if isinstance(value, Closure) else repr(value)
            raise MindirError(f"its result is {what}, which is no tensor")
        own = any(value is t for t in self._tensors.values())
        return copy_of(value) if own and active_tracer() is None else value


@dataclass(slots=True)
class Frame:
    """The values of one call of a graph, by name, and the node that comes next."""

    body: Body
    values: dict[str, Any]
    after: int = 0


class Run:
    """One walk over a file."""

    def __init__(self, network: Network, weights: Mapping[str, Tensor]) -> None:
        self.network, self.weights = network, weights
        self.steps = 0
        self.flow = network.flow.start(self)

    def frame(self, body: Body, args: Sequence[Any]) -> Frame:
        """A call of a graph that has not begun. A parameter of the file goes with the arguments of
        its main graph."""
        names = [i.name for i in body.inputs] + [raw.name for _, raw in body.parameters]
        if len(args) != len(names):
            raise MindirError(f"the graph {body.name!r} takes {counted(len(names), 'value')}, but "
                              f"is called with {len(args)}")
        return Frame(body, dict(zip(names, args, strict=True)))

    def walk(self, body: Body, args: Sequence[Any]) -> Any:
        """The result of a graph for these arguments."""
        return self.rest(self.frame(body, args))

    def rest(self, frame: Frame) -> Any:
        """The result of a call of which some nodes have run."""
        nodes = frame.body.nodes
        while frame.after < len(nodes):
            self.step(frame)
        found = [self._find(frame, o.name) for o in frame.body.outputs]
        return found[0] if len(found) == 1 else tuple(found)

    def step(self, frame: Frame) -> None:
        """Run the next node."""
        node = frame.body.nodes[frame.after]
        frame.after += 1
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise MindirError(f"more than {MOST_STEPS} nodes would have to be run: a loop is too "
                              "long to be unrolled, or graphs call each other too often")
        with at_node(self.network.path, node):
            value = self._value(node, frame)
            for name in node.outputs[:1]:
                frame.values[name] = value

    def _value(self, node: Node, frame: Frame) -> Any:
        if node.op == "Constant":
            return self.network.constant(node.attrs.get("value"))
        inputs = self.inputs(node, frame)
        primitive = self.network.model.primitives.get(node.op)
        if primitive is None:
            return self.flow.call(self.target(node, frame), inputs)
        special = SPECIAL.get(primitive.op)
        if special is not None:
            return special(self, inputs)
        if any(isinstance(v, Jump) for v in inputs):
            raise MindirError("it uses the result of a graph that calls itself; such graphs are "
                              "read where they are loops: the call comes last")
        return apply_primitive(primitive, [v for v in inputs if v is not MONAD])

    def inputs(self, node: Node, frame: Frame) -> list[Any]:
        """The values of a node's inputs."""
        return [self._find(frame, n) for n in node.inputs]

    def target(self, node: Node, frame: Frame) -> Any:
        """The graph, or the value of the frame, that a node calls which is no primitive."""
        body = self.network.model.functions.get(node.op)
        return Closure(body, ()) if body is not None else self._find(frame, node.op)

    def _find(self, frame: Frame, name: str) -> Any:
        if name in frame.values:
            return frame.values[name]
        body = self.network.model.functions.get(name)
        if body is not None:
            return Closure(body, ())
        constant = self.network.flow.constants.get(name)
        if constant is None:
            raise MindirError(f"it reads {name!r}, which no node before it gives")
        return self.network.constant(constant.attrs.get("value"))

    def load(self, inputs: Sequence[Any]) -> Any:
        """The value that a parameter has now: a copy where a node of the file changes it."""
        value = inputs[0]
        changes = self.network.written and isinstance(value, Tensor)
        return fresh(value) if changes else value


def _depend(run: Run, inputs: Sequence[Any]) -> Any:
    return inputs[0]


def _partial(run: Run, inputs: Sequence[Any]) -> Any:
    function = inputs[0]
    if not isinstance(function, Closure):
        raise MindirError("it binds arguments of something that is no graph")
    return Closure(function.body, (*function.bound, *inputs[1:]))


def _switch(run: Run, inputs: Sequence[Any]) -> Any:
    condition, on, off = inputs
    if isinstance(on, Closure) and isinstance(off, Closure):
        return Choice(condition, on, off)
    return run.flow.merged(condition, lambda: on, lambda: off)


def _made(run: Run, inputs: Sequence[Any]) -> Any:
    return tuple(inputs)


def _item(run: Run, inputs: Sequence[Any]) -> Any:
    values, index = inputs
    if not isinstance(values, (tuple, list)) or not isinstance(index, int) or \
            not -len(values) <= index < len(values):
        raise MindirError(f"it takes the element {index!r} of {type(values).__name__}")
    return values[index]


SPECIAL: dict[str, Any] = {
    "Depend": _depend, "UpdateState": lambda run, inputs: MONAD, "Load": Run.load,
    "Partial": _partial, "Switch": _switch, "MakeTuple": _made, "make_list": _made,
    "MakeList": _made, "TupleGetItem": _item, "list_getitem": _item,
}
"""Primitives of the graph itself."""
