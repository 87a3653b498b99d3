"""Graphs as MindIR: what `export(..., file_format="MINDIR")` writes.

The file has what MindSpore 2.10 reads and no more: nodes, constants, parameters, primitives, and a
graph for each branch and loop. Each node of the graph is written by its op's rule (`spelling`), or
as the composition that its definition gives.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler.ir.dims import Applied, Dim, is_symbolic
from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes
from cellc_runtime.protobuf import field_of, number_of, varint
from cellc_runtime.records import dataclass

from ..onnx_import.arrays import TYPES, Array
from ..tracing.pytree import Box, Known, Leaf, Structure
from .spelling import ATTRIBUTED, DRAWS, REFUSED, RULES, OpenSize
from .wire import MONAD, Monad

CODES = {dtype: code for code, dtype in TYPES.items()}
_ALIGNED = 64


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of a graph that is written, by its name."""

    name: str


class ExportError(ValueError):
    """A network that MindIR has no form for."""


def refuse(node: Node, why: str) -> ExportError:
    """An error about a node."""
    place = f"{node.span.file}, line {node.span.line}"
    return ExportError(f"For 'export', {node.op!r} ({place}) cannot be written as MindIR: {why}; "
                       "file_format='CIR' holds any network.")


# --- pieces of the file ---------------------------------------------------------------------------


def _text(number: int, value: str) -> bytes:
    return field_of(number, value.encode())


def _float(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def _tensor(shape: Sequence[Any], dtype: dtypes.DType, name: str = "", data: bytes | None = None,
            key: str = "") -> bytes:
    dims = b"".join(number_of(1, -1 if is_symbolic(d) else int(d)) for d in shape)
    out = dims + number_of(2, CODES[dtype])
    if name:
        out += _text(7, name)
    if data is not None:
        out += field_of(9, data)
    return out + (_text(13, key) if key else b"")


def _attribute(name: str, value: Any, within: bool = False) -> bytes:
    """An AttributeProto; elements of tuples are in the repeated fields."""
    out = _text(1, name) if name else b""
    if isinstance(value, Monad):
        return out + number_of(16, 23)
    if value is None:
        return out + number_of(16, 25)
    if isinstance(value, (bool, int, np.integer)):
        kind = 9 if isinstance(value, bool) else 7
        return out + number_of(10 if within else 3, int(value)) + number_of(16, kind)
    if isinstance(value, float):
        return out + _float(8 if within else 2, value) + number_of(16, 1)
    if isinstance(value, str):
        return out + _text(11 if within else 5, value) + number_of(16, 8)
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        held = _tensor(value.shape, dtypes.from_numpy(value.dtype), "value0", data.tobytes())
        return out + field_of(12, held) + number_of(16, 19)
    parts = b"".join(field_of(17, _attribute("", v, within=True)) for v in value)
    return out + parts + number_of(16, 20)


def _typed(number: int, name: str, type_: Any) -> bytes:
    """An input or output of a graph: a tensor's type, or nested ones; None: it is a tuple or monad,
    whose type the nodes give."""
    if isinstance(type_, TensorType):
        kind = field_of(2, _tensor(type_.dims, type_.dtype))
    elif type_ is None:
        kind = field_of(5, number_of(16, 23))
    else:
        kind = _text(4, "Tuple") + field_of(5, _nested_type(type_))
    return field_of(number, _text(1, name) + kind)


def _nested_type(type_: Any) -> bytes:
    if isinstance(type_, TensorType):
        return field_of(12, _tensor(type_.dims, type_.dtype)) + number_of(16, 19)
    return b"".join(field_of(17, _nested_type(t)) for t in type_) + number_of(16, 20)


# --- the writer -----------------------------------------------------------------------------------


class Writer:
    """Writes the nodes of one graph; those of branches and loops share `shared`."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name, self.shared = name, shared
        self.nodes: list[bytes] = []
        self.values: dict[Value, Ref] = {}
        self.types: dict[str, TensorType] = {}
        self.used: set[Value] = set()
        self.constants: dict[Any, Ref] = {}
        self.drawn: dict[Any, Ref] = {}
        self.axes: dict[Ref | tuple[Ref, int], Ref] = {}

    def ref(self, type_: TensorType | None = None, what: str = "CNode") -> Ref:
        """A new name."""
        self.shared.count += 1
        out = Ref(f"{self.name}:{what}_{self.shared.count}")
        if type_ is not None:
            self.types[out.name] = type_
        return out

    def of(self, value: Value) -> Ref:
        """The name of a value of the graph."""
        return self.values[value]

    def const(self, value: Any) -> Ref:
        """A constant: a number, a text, None, a tuple of these, or an array."""
        key = (type(value), value.tobytes(), value.shape, value.dtype.str) \
            if isinstance(value, np.ndarray) else (repr(value),)
        if key not in self.constants:
            out = self.constants[key] = self.ref(what="Value")
            self._node("Constant", (), out, field_of(5, _attribute("value", value)))
        return self.constants[key]

    def op(self, primitive: str, *args: Any, **attrs: Any) -> Ref:
        """A node of a primitive. Arguments are values of the graph, tuples of these, or constants;
        attributes are those of the primitive."""
        out = self.ref()
        called = self.shared.primitive(primitive, attrs)
        self._node(f"REF::{called}", [self._given(a) for a in args], out)
        return out

    def call(self, graph: str, args: Sequence[Any]) -> Ref:
        """A node that calls a graph or a value of this one."""
        out = self.ref()
        self._node(f"REF::{graph}", [self._given(a) for a in args], out)
        return out

    def named(self, graph: str) -> Ref:
        """A graph as a value."""
        return Ref(graph)

    def items(self, value: Ref, count: int) -> list[Ref]:
        """The elements of a tuple."""
        return [self.op("TupleGetItem", value, i) for i in range(count)]

    def sizes(self, dims: Sequence[Any]) -> tuple[Any, ...]:
        """Sizes as an argument of a primitive: a number for each, or the node that gives it."""
        return tuple(self._size(d) if is_symbolic(d) else int(d) for d in dims)

    def _size(self, dim: Any) -> Ref:
        """An open size, worked out from the shapes of tensors at hand."""
        if type(dim) is not Dim:
            raise OpenSize(f"it needs {dim}, a number that follows from open sizes")
        total: Any = None
        for monomial, count in dim.terms:
            factors = [self._atom(atom) for atom in monomial]
            part: Any = factors.pop(0) if factors else count
            for factor in (*factors, *([count] if monomial and count != 1 else [])):
                part = self.op("ScalarMul", part, factor)
            total = part if total is None else self.op("ScalarAdd", total, part)
        assert isinstance(total, Ref)
        return total

    def _atom(self, atom: Any) -> Ref:
        if isinstance(atom, str):
            return self._axis(atom)
        if isinstance(atom, Applied):
            raise OpenSize(f"it needs {atom}, which follows from open sizes")
        a, b = self.sizes((atom.numerator, atom.divisor))
        return self.op("ScalarFloorDiv", a, b)

    def _axis(self, symbol: str) -> Ref:
        """The size that has this name: that of the first tensor at hand with such an axis."""
        for value, ref in self.values.items():
            for axis, d in enumerate(value.type.shape):
                if type(d) is Dim and d.is_symbol and str(d) == symbol:
                    if ref not in self.axes:
                        self.axes[ref] = self.op("Shape", ref)
                    if (ref, axis) not in self.axes:
                        self.axes[ref, axis] = self.op("TupleGetItem", self.axes[ref], axis)
                    return self.axes[ref, axis]
        raise OpenSize(f"no tensor at hand has the open size {symbol}")

    def _given(self, value: Any) -> Ref:
        if isinstance(value, Ref):
            return value
        if isinstance(value, tuple) and any(isinstance(v, Ref) for v in value):
            return self.op("MakeTuple", *value)
        return self.const(value)

    def _node(self, op: str, inputs: Sequence[Ref], out: Ref, more: bytes = b"") -> None:
        self.nodes.append(b"".join(_text(1, i.name) for i in inputs) + _text(2, out.name)
                          + _text(3, out.name) + _text(4, op) + more)

    def graph(self, graph: Graph, inputs: Sequence[Ref]) -> list[Ref]:
        """Write the nodes of a graph here, with these values for its inputs; its results."""
        self.values.update(zip(graph.inputs, inputs, strict=True))
        live = set(graph.results())
        for node in reversed(graph.nodes):
            if any(r in live for r in node.results):
                live.update(_read(node))
        self.used |= live
        for node in graph.nodes:
            if any(r in live for r in node.results):
                self.node(node)
        return [self.of(v) for v in graph.outputs]

    def node(self, node: Node) -> None:
        """Write one node. Raises ExportError if MindIR has no counterpart."""
        if node.op in REFUSED:
            raise refuse(node, REFUSED[node.op])
        rule = RULES.get(node.op)
        try:
            found = rule(self, node, *(self.of(v) for v in _read(node))) if rule else None
            results = self._expanded(node) if found is None else found
        except OpenSize as e:
            raise refuse(node, f"{e}; give the sizes") from None
        results = (results,) if isinstance(results, Ref) else results
        for value, ref in zip(node.results, results, strict=True):
            if ref is not None:
                self.values[value] = ref

    def _expanded(self, node: Node) -> Sequence[Ref | None]:
        op = lookup(node.op)
        if node.regions and op.inlined:
            return self.graph(node.regions[0], [self.of(v) for v in node.operands])
        if op.expand is None:
            raise refuse(node, "MindSpore has no primitive for it")
        inner = Graph(node.op)
        out = op.expand(Builder(inner, span=node.span, scope=node.scope), *node.operands,
                        **node.attrs)
        inner.outputs = list(out) if isinstance(out, tuple) else [out]
        inner.outputs = [v for v, r in zip(inner.outputs, node.results, strict=True)
                         if r in self.used]
        written = iter(self.graph(inner, []))
        return [next(written) if r in self.used else None for r in node.results]

    def inner(self, what: str) -> Writer:
        """A writer for another graph of the file."""
        self.shared.count += 1
        return Writer(f"{what}_{self.shared.count}", self.shared)

    def finish(self, number: int, inputs: bytes, out: Ref, type_: Any, parameters: bytes = b""
               ) -> None:
        """Add the graph to the file."""
        body = b"".join(field_of(1, n) for n in self.nodes)
        self.shared.graphs.append(field_of(number, body + _text(2, self.name) + parameters + inputs
                                           + _typed(6, out.name, type_)))

    def takes(self, inputs: Sequence[Value]) -> list[Ref]:
        """Names for the inputs of a graph that is called, of the types of these values."""
        return [self.ref(v.type, "in") for v in inputs]

    def declared(self, refs: Sequence[Ref]) -> bytes:
        """Inputs of a graph."""
        return b"".join(_typed(5, r.name, self.types.get(r.name)) for r in refs)


def _read(node: Node) -> Sequence[Value]:
    """The operands that a node is written with: MindSpore's draws take no key, which is last."""
    return node.operands[:-1] if node.op in DRAWS else node.operands


class Shared:
    """The graphs and primitives of one file."""

    def __init__(self) -> None:
        self.count = 0
        self.graphs: list[bytes] = []
        self.primitives: dict[str, tuple[str, bytes]] = {}

    def primitive(self, op: str, attrs: Mapping[str, Any]) -> str:
        """The name of a primitive with these attributes."""
        key = f"{op}{sorted(attrs.items())}"
        if key not in self.primitives:
            self.count += 1
            name = f"{op}:{self.count}"
            kind = 1 if attrs or op in ATTRIBUTED else 2
            held = b"".join(field_of(3, _attribute(k, v)) for k, v in attrs.items())
            self.primitives[key] = name, field_of(12, _text(1, name) + _text(2, op) + held
                                                  + _text(4, "") + number_of(5, kind))
        return self.primitives[key][0]


def mindir_bytes(
    graph: Graph, weights: Mapping[str, Array], results: Structure,
    arguments: Structure | None = None,
) -> bytes:
    """A traced graph as the bytes of a MindIR file.

    Args:
        weights: the values of its inputs that are no arguments, by name.
        results: how its outputs are nested.
        arguments: how its inputs are nested (default: not at all).

    Raises:
        ExportError: MindIR has nothing for a node.
    """
    # The states of generators go: MindSpore's draws have their own.
    graph = Graph(graph.name, [v for v in graph.inputs if v.kind != "state"], graph.nodes,
                  graph.outputs, [(v, new) for v, new in graph.updates if v.kind != "state"])
    for node in graph.nodes:
        if node.op not in DRAWS and not lookup(node.op).inlined:
            drawn = next((n for n in node.walk() if n.op in DRAWS), None)
            if drawn is not None:
                raise refuse(drawn, "it draws in a branch or loop")
    shared = Shared()
    w = Writer("main", shared)
    inputs, refs = _taken(w, [v for v in graph.inputs if v.kind == "input"], arguments)
    parameters = b""
    monad = w.const(MONAD)
    held: dict[Value, Ref] = {}
    for value in graph.inputs[len(refs):]:
        ref = held[value] = Ref(f"main:{value.name}")
        array = np.ascontiguousarray(weights[value.name])
        parameters += field_of(3, _tensor(array.shape, value.type.dtype, ref.name,
                                          array.tobytes(), value.name))
        refs.append(w.op("Load", ref, monad))
    outputs = w.graph(graph, refs)
    changed = [(held[old], w.of(new)) for old, new in graph.updates]
    if changed:
        loads = [r for v, r in zip(graph.inputs, refs, strict=True) if v.kind != "input"]
        outputs = [w.op("TensorMove", r) if r in loads else r for r in outputs]
        out = _assigned(w, monad, _nested(w, results, outputs), changed, loads)
    else:
        out = _nested(w, results, outputs)
    types = [v.type for v in graph.outputs]
    flat = isinstance(results, Box)
    w.finish(7, inputs, out, types if flat else types[0], parameters)
    head = _text(1, "1.1") + _text(2, "MindSpore") + _text(5, "2.10.0")
    return b"".join((head, *shared.graphs[::-1], number_of(10, 1),
                     *(p for _, p in shared.primitives.values()), number_of(13, 3)))


def _taken(w: Writer, values: Sequence[Value], arguments: Structure | None
           ) -> tuple[bytes, list[Ref]]:
    """The declared inputs of the main graph, and its tensors."""
    parts = arguments.parts if isinstance(arguments, Box) else \
        tuple(Leaf(i) for i in range(len(values)))
    declared, refs = b"", dict[int, Ref]()

    def take(part: Structure, ref: Ref) -> Any:
        if isinstance(part, Leaf):
            refs[part.number] = ref
            return values[part.number].type
        if not isinstance(part, Box) or part.kind not in (tuple, list):
            raise ExportError("For 'export', the inputs of a MindIR file are tensors in tuples and "
                              f"lists, but one is {part}: use file_format='CIR'.")
        return [take(inner, w.op("TupleGetItem", ref, i)) for i, inner in enumerate(part.parts)]

    for part in parts:
        if isinstance(part, Known):  # it is fixed, and no input
            continue
        first = _first(part)
        name = values[first].name if first is not None else "empty"
        ref = Ref(f"main:{name if isinstance(part, Leaf) else name.partition('.')[0]}")
        declared += _typed(5, ref.name, take(part, ref))
    return declared, [refs[i] for i in range(len(values))]


def _first(part: Structure) -> int | None:
    """The number of the first tensor in a structure."""
    if isinstance(part, Leaf):
        return part.number
    inner = map(_first, part.parts if isinstance(part, Box) else ())
    return next((n for n in inner if n is not None), None)


def _assigned(w: Writer, monad: Ref, out: Ref, changed: Sequence[tuple[Ref, Ref]],
              loads: Sequence[Ref]) -> Ref:
    """The result after parameters were changed: all that reads them comes first."""
    new = [(target, w.op("TensorMove", value) if value in loads else value)
           for target, value in changed]
    state = w.op("UpdateState", monad, w.op("MakeTuple", out, *(v for _, v in new), *loads))
    for target, value in new:
        state = w.op("UpdateState", state, w.op("Assign", target, value, state))
    return w.op("Depend", out, state)


def _nested(w: Writer, structure: Structure, outputs: Sequence[Ref]) -> Ref:
    """The results as tuples; MindSpore writes lists and dicts as such too."""
    if isinstance(structure, Leaf):
        return outputs[structure.number]
    if not isinstance(structure, Box) or structure.kind not in (tuple, list, dict):
        raise ExportError("For 'export', the results must be tensors in tuples, lists and dicts, "
                          f"but they are {structure}.")
    return w.op("MakeTuple", *(_nested(w, p, outputs) for p in structure.parts))
