"""A checked ONNX model as a network: its nodes are walked, and the rules apply ops of cellc.

The walk serves both modes, like library code: in a graph the ops are traced, in PyNative they run.
Shape subgraphs (Shape, Gather, Concat, ...) are worked out in numpy on the way, with symbols where
sizes are open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from cellc_compiler.ir.graph import Span
from cellc_compiler.ir.types import TensorType
from cellc_runtime.dtypes import DType
from cellc_runtime.errors import ArtifactError, counted
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass, field

from ..core.dispatch import active_tracer, tracing
from ..tensors.tensor import Tensor, copy_of, tensor_of
from ..tracing.tracer import ElementsUnknown, SizeInside, Tracer
from .arrays import TYPES, Array, Files, array_of, element_type
from .checks import check
from .folding import folded
from .table import RULES, Call, Known, Value, Weight, elements
from .wire import Body, Input, Model, Node, OnnxError, RawTensor, Refer

with lazy_imports(__name__):
    from .. import lang

MOST_STEPS = 200_000
"""Nodes that one walk visits: those of functions and unrolled loops count each time, and each once
more for every input beyond `_FEW`."""
_FEW = 16
_PLAIN = (ValueError, TypeError, IndexError, KeyError, OverflowError, RuntimeError,
          ZeroDivisionError, AssertionError, AttributeError, MemoryError)


@dataclass(slots=True)
class Scope:
    """The values of one graph by name, and where those of the graphs around it are."""

    values: dict[str, Value]
    opsets: Mapping[str, int]  # the version of each domain
    outer: Scope | None = None
    # the attributes of the call, in the body of a function
    given: Mapping[str, Any] = field(default_factory=dict)

    def find(self, name: str) -> Value:
        """The value of this name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise OnnxError(f"it reads {name!r}, which no node before it gives")


class Network:
    """A model that can run.

    Attributes:
        path: of the file, for messages.
        model: what the file holds.
        inputs: the arguments, without those that are initializers.
        weights: the initializers that become Parameters, by name.
        frozen: those that are not trained.
        facts: what rules have worked out of the attributes or arrays of nodes, by the node's `id`.
    """

    def __init__(self, path: str, model: Model, files: Files) -> None:
        self.path, self.model, self.files = path, model, files
        self._arrays: dict[int, Array] = {}
        self.facts: dict[Any, Any] = {}
        trained, frozen = check(model)
        self._roots: dict[int, dict[str, Known]] = {}
        own = model.graph.initializers
        self.inputs = [i for i in model.graph.inputs if i.name not in own]
        other = [i for i in self.inputs if i.kind != "tensor"]
        if other:
            raise OnnxError("; ".join(f"the input {i.name!r} is a{'n' * (i.kind[0] in 'o')} "
                                      f"{i.kind}" for i in other) + "; only tensors are taken")
        for i in self.inputs:
            element_type(i.code, f"the input {i.name!r}")
        self.weights: dict[str, Array] = {}
        for value in model.graph.inputs:
            if value.name in own:
                _check_default(value, own[value.name])
        for name, raw in own.items():
            learned = name in trained or name in frozen
            array = self.array(raw, aligned=not learned)
            if learned and array.size:
                self.weights[name] = array
        self.frozen = frozenset(n for n in self.weights if n not in trained)
        if all(isinstance(d, int) for i in self.inputs for d in i.dims or (None,)):
            self._check_shapes()

    def _check_shapes(self) -> None:
        """Walk a model whose inputs have fixed sizes once, so that nodes that do not fit are found
        when it is loaded.

        Raises:
            OnnxError: a node takes no such inputs, or an output is not what the file declares.
        """
        tracer, open_forms = Tracer("onnx"), list[str]()
        tracer.asked = lambda tensor, what: open_forms.append(what)
        inputs = [tracer.input(TensorType(tuple(d for d in dims if isinstance(d, int)), dtype), "x")
                  for dtype, dims in map(declared, self.inputs)]
        try:
            with tracing(tracer):
                found = self(inputs, {name: tensor_of(w) for name, w in self.weights.items()})
        except (*_PLAIN, lang.CompileError) as e:
            if open_forms or isinstance(e, (SizeInside, ElementsUnknown)):
                return  # the form of a result follows from elements: only a call can judge
            text = str(e).removeprefix(f"{os.path.basename(self.path)}, ")
            raise OnnxError(text.removesuffix(".")) from e
        for output, tensor in zip(self.model.graph.outputs, found, strict=True):
            if not _agrees(output, tensor):
                wanted = ",".join(map(str, output.dims or ()))
                raise OnnxError(f"it declares the output {output.name!r} as "
                                f"{TYPES[output.code].name}[{wanted}], but its nodes give "
                                f"{TensorType(tensor.shape, tensor.dtype)}")

    def array(self, raw: RawTensor, aligned: bool = True) -> Array:
        """The elements of a tensor of the file, decoded once; see `array_of`."""
        found = self._arrays.get(id(raw))
        if found is None:
            found = self._arrays[id(raw)] = array_of(raw, self.files, aligned)
        return found

    def constants(self, body: Body) -> dict[str, Known]:
        """The initializers of a graph, decoded once."""
        found = self._roots.get(id(body))
        if found is None:
            weights = self.weights if body is self.model.graph else ()
            found = self._roots[id(body)] = {
                name: Weight(self.array(raw), name) if name in weights else Known(self.array(raw))
                for name, raw in body.initializers.items()}
        return found

    def __call__(self, inputs: Sequence[Tensor], weights: Mapping[str, Tensor]) -> list[Tensor]:
        """The outputs for these inputs, in the mode of the caller.

        Args:
            weights: the Parameters by the names of the initializers.

        Raises:
            ValueError, TypeError: a node cannot be translated; the message names it.
        """
        run = Run(self, weights)
        values: dict[str, Value] = dict(zip((i.name for i in self.inputs), inputs, strict=True))
        with at_node(self.path):
            return [run.result(v)
                    for v in run.body(self.model.graph, values, None, self.model.opsets)]


def _agrees(output: Input, found: Tensor) -> bool:
    """Whether a result is as an output is declared, where sizes and types are declared."""
    return output.code not in TYPES or (
        found.dtype is TYPES[output.code] and _has_sizes(output, found.shape))


def _has_sizes(declared: Input, shape: Sequence[int]) -> bool:
    dims = declared.dims
    return dims is None or (len(dims) == len(shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(dims, shape, strict=True)))


def _check_default(value: Input, raw: RawTensor) -> None:
    """An initializer that stands for an input is as the input is declared."""
    if value.code not in (0, raw.code) or not _has_sizes(value, raw.dims):
        raise OnnxError(f"the initializer {raw.name!r} of shape {list(raw.dims)} and type "
                        f"{raw.code} is declared as an input of another shape or type")


class Run:
    """One walk over a model."""

    def __init__(self, network: Network, weights: Mapping[str, Tensor]) -> None:
        self.network, self.weights = network, weights
        self.steps = 0
        self.depth = 0

    def array(self, raw: RawTensor) -> Array:
        """The elements of a tensor in an attribute."""
        return self.network.array(raw)

    def lift(self, value: Value) -> Tensor:
        """A value as a Tensor."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, Weight):
            return self.weights[value.name]
        if value is None:
            raise OnnxError("it reads an output that was left out")
        return value.tensor()

    def body(
        self, body: Body, values: dict[str, Value], outer: Scope | None,
        opsets: Mapping[str, int], given: Mapping[str, Any] | None = None,
    ) -> list[Value]:
        """The outputs of a graph or function whose inputs have these values."""
        scope = Scope({**self.network.constants(body), **values}, opsets, outer, given or {})
        for node in body.nodes:
            with at_node(self.network.path, node):
                self._node(node, scope)
        return [self._output(o.name, scope) for o in body.outputs]

    def _output(self, name: str, scope: Scope) -> Value:
        try:
            return scope.find(name) if name else None
        except OnnxError:
            raise OnnxError(f"the output {name!r} is given by no node") from None

    def _node(self, node: Node, scope: Scope) -> None:
        self.steps += 1 + max(0, len(node.inputs) - _FEW)
        if self.steps > MOST_STEPS:
            raise OnnxError(f"more than {MOST_STEPS} nodes would have to be run: a loop is too "
                            "long to be unrolled, or functions call each other too often")
        inputs = [scope.find(n) if n else None for n in node.inputs]
        attrs = {k: scope.given.get(v.name) if isinstance(v, Refer) else v
                 for k, v in node.attrs.items()}
        attrs = {k: v for k, v in attrs.items() if v is not None}
        function = self.network.model.functions.get((node.domain, node.op))
        if function is not None and node.kind not in RULES:
            outputs = self._function(function, inputs, attrs, scope)
        else:
            call = Call(self, node, scope.opsets.get(node.domain, 1), attrs)
            outputs = self._apply(call, inputs, scope)
        if len(outputs) < len(node.outputs) and any(node.outputs[len(outputs):]):
            raise OnnxError(f"it has {counted(len(node.outputs), 'output')}, but its op gives "
                            f"{len(outputs)}")
        for name, value in zip(node.outputs, outputs, strict=False):
            if name:
                scope.values[name] = value

    def _function(
        self, body: Body, inputs: list[Value], attrs: dict[str, Any], scope: Scope
    ) -> list[Value]:
        """The call of a local function."""
        if len(inputs) > len(body.inputs):
            raise OnnxError(f"it has {counted(len(inputs), 'input')}, but its function takes "
                            f"{len(body.inputs)}")
        values: dict[str, Value] = dict.fromkeys(i.name for i in body.inputs)
        values.update(zip((i.name for i in body.inputs), inputs, strict=False))
        return self.body(body, values, None, {**scope.opsets, **body.opsets},
                         {**body.defaults, **attrs})

    def _apply(self, call: Call, inputs: list[Value], scope: Scope) -> list[Value]:
        rule = RULES[call.node.kind]
        known = folded(call, inputs)
        if known is not None:
            return known
        while inputs and inputs[-1] is None:
            inputs.pop()
        call.given = inputs
        if not rule.least <= len(inputs) <= rule.most:
            most = "" if rule.most == rule.least else f" to {rule.most}"
            raise OnnxError(f"it has {counted(len(inputs), 'input')}, but its op takes "
                            f"{rule.least}{most}")
        if rule.raw:
            given: list[Any] = [scope, *inputs] if call.node.op in SCOPED else inputs
        else:
            given = [None if v is None else self._elements(v, call) if rule.is_known(i)
                     else self.lift(v) for i, v in enumerate(inputs)]
        out = rule.fn(call, *given)
        return list(out) if isinstance(out, (tuple, list)) else [out]


    def _elements(self, value: Known | Tensor, call: Call) -> Array:
        """The elements of an input that must be known; those of a Parameter are of now."""
        return elements(self.lift(value) if isinstance(value, Weight) else value, call.node.op)

    def result(self, value: Value) -> Tensor:
        """An output; the caller may change it, and constants and Parameters stay as they are."""
        out = self.lift(value)
        return copy_of(out) if isinstance(value, Known) and active_tracer() is None else out


SCOPED = frozenset(("If", "Loop", "Scan"))  # Operators whose graphs read values around them


@contextmanager
def at_node(path: str, node: Node | None = None) -> Iterator[None]:
    """Name a file and a node in errors, in the graph that is traced, and in what is shown of it."""
    tracer = active_tracer()
    span = None if tracer is None else tracer.span
    if tracer is not None and node is not None:
        tracer.span = Span(file=path, line=node.number, column=0)
        tracer.scope, scope = node.name or node.op, tracer.scope
    try:
        yield
    except _PLAIN as e:
        file, text = os.path.basename(path), str(e)
        nameless = isinstance(e, lang.CompileError) and file not in text  # of a damaged region
        if not (type(e) in _PLAIN or isinstance(e, (ArtifactError, MemoryError)) or nameless) \
                or getattr(e, "names_place", None):
            raise
        kind = next((k for k in (TypeError, IndexError, MemoryError) if isinstance(e, k)),
                    ValueError)
        place = file + (f", {node}" if node is not None else "")
        error = kind(f"{place}: {text.partition(chr(10))[0] if nameless else text}")
        error.names_place = True  # type: ignore[union-attr]  # the innermost node is the one to name
        raise error from e
    finally:
        if tracer is not None and node is not None and span is not None:
            tracer.span, tracer.scope = span, scope


def declared(value: Input) -> tuple[DType, tuple[int | str | None, ...]]:
    """The type of an input; None for sizes that nothing is said about.

    Raises:
        OnnxError: its number of axes is open.
    """
    if value.dims is None:
        raise OnnxError(f"the input {value.name!r} has no shape: the number of its axes must be "
                        "known")
    return element_type(value.code, f"the input {value.name!r}"), value.dims
