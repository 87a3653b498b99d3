"""An ONNX model as plain objects, read from its protobuf without the library `onnx`.

The file is untrusted. Nothing is allocated for what it only claims: elements stay where they are in
the mapped file until `arrays` has checked their number, and counts and depths are bounded here.
Source of the field numbers: `onnx/onnx.proto` of ONNX 1.17 to 1.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from cellc_runtime.errors import ArtifactError
from cellc_runtime.protobuf import Content, Message, signed_numbers
from cellc_runtime.records import dataclass, field

MOST_NODES = 100_000  # Nodes of a model, those of its branches, loops and functions included
MOST_DEPTH = 24  # Graphs within graphs
MOST_RANK = 64
WHAT = "ONNX model"


class OnnxError(ArtifactError):
    """An ONNX model that cannot be read or has no counterpart here."""


class Fields:
    """The fields of a message by their numbers. Of a field that holds one value and is there
    several times the last counts; a number that is not there is 0, a text or name is empty."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self._found: dict[int, list[Content]] = {}
        for number, content in message.fields():
            self._found.setdefault(number, []).append(content)

    def __iter__(self) -> Iterator[int]:
        """The numbers of the fields that are there."""
        return iter(self._found)

    def __contains__(self, number: int) -> bool:
        return number in self._found

    def contents(self, *numbers: int) -> list[Content]:
        """The contents of repeated fields."""
        return [content for number in numbers for content in self._found.get(number, ())]

    def integer(self, number: int) -> int:
        """A number with a sign."""
        content = self._found.get(number, [0])[-1]
        if not isinstance(content, int):
            raise self.message.bad("a text where a number belongs")
        return signed_numbers(self.message, [content])[0]

    def integers(self, *numbers: int) -> list[int]:
        """The numbers of repeated fields, packed or not."""
        return signed_numbers(self.message, self.contents(*numbers))

    def text(self, number: int) -> str:
        """A text."""
        return self.message.text(self._found.get(number, [memoryview(b"")])[-1])

    def raw(self, number: int) -> memoryview | None:
        """The bytes of a field, if it is there."""
        found = self._found.get(number)
        return None if found is None else self.message.bytes(found[-1])

    def messages(self, number: int) -> list[Message]:
        """The messages of a repeated field."""
        return list(map(self.message.inner, self.contents(number)))

    def name(self, number: int) -> str:
        """A name: a text without control characters."""
        return next(iter(self.names(number)[-1:]), "")

    def names(self, number: int) -> list[str]:
        """The names of a repeated field."""
        found = [self.message.text(content) for content in self.contents(number)]
        for name in found:
            if not name.isprintable():
                raise OnnxError(f"it has a name with control characters: {name[:80]!r}")
        return found


@dataclass(slots=True)
class RawTensor:
    """A TensorProto: its type, and its elements as the file has them.

    Attributes:
        code: ONNX's number of the element type.
        raw: the bytes of `raw_data`; None if the elements are in `fields` or `external`.
        fields: by field number, the pieces of `float_data`, `int32_data` and so on.
        external: `location`, `offset` and `length`, if the elements are in another file.
        depth: whether the pieces of `fields` are single numbers.
    """

    name: str = ""
    code: int = 0
    dims: tuple[int, ...] = ()
    raw: memoryview | None = None
    fields: dict[int, list[Content]] = field(default_factory=dict)
    external: dict[str, str] | None = None


@dataclass(slots=True)
class Input:
    """An input or output: a name and its type as declared.

    Attributes:
        code: of the element type; 0 if it is none of a tensor (`kind` says what it is).
        dims: sizes, names of open sizes, None where nothing is said; None: unknown rank.
    """

    name: str
    kind: str = "tensor"
    code: int = 0
    dims: tuple[int | str | None, ...] | None = None


@dataclass(slots=True)
class Node:
    """A node; `where` is its place in the file, for messages."""

    op: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    number: int

    @property
    def kind(self) -> str:
        """The op with its domain."""
        return f"{self.domain}::{self.op}" if self.domain else self.op

    def __str__(self) -> str:
        called = repr(self.name) if self.name else f"number {self.number}"
        return f"node {called} ({self.kind})"


@dataclass(slots=True)
class Refer:
    """An attribute of a node in a function that takes its value from the call."""

    name: str


@dataclass(slots=True)
class Body:
    """A graph, or the body of a function."""

    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Input] = field(default_factory=list)
    initializers: dict[str, RawTensor] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Model:
    """A whole model; functions by domain and name."""

    graph: Body
    opsets: dict[str, int]
    functions: dict[tuple[str, str], Body]


class Reader:
    """Reads one model; counts what it has read."""

    def __init__(self) -> None:
        self.nodes = 0

    def model(self, view: memoryview) -> Model:
        """The model in these bytes.

        Raises:
            ArtifactError: they are damaged, too large, or no ONNX model.
        """
        f = Fields(Message(view, WHAT))
        if 20 in f:
            raise OnnxError("it has training information (TrainingInfoProto), which is not "
                            "read: take it away; the network trains as any Cell does")
        version, graphs = f.integer(1), [self.graph(m, 0) for m in f.messages(7)]
        if not graphs or not version:
            raise f.message.bad("it has no graph" if version else "it has no version")
        return Model(graphs[-1], dict(map(_opset, f.messages(8))),
                     dict(map(self.function, f.messages(25))))

    def graph(self, m: Message, depth: int) -> Body:
        """A GraphProto."""
        if depth > MOST_DEPTH:
            raise OnnxError(f"its graphs are nested more than {MOST_DEPTH} deep")
        f = Fields(m)
        if 15 in f:
            raise OnnxError("it has sparse initializers, which are not read: store them dense")
        out = Body(f.name(2), [self.node(node, depth) for node in f.messages(1)],
                   list(map(_value, f.messages(11))), list(map(_value, f.messages(12))))
        for tensor in map(_tensor, f.messages(5)):
            if tensor.name in out.initializers or not tensor.name:
                raise OnnxError(f"the initializer {tensor.name!r} is there twice"
                                if tensor.name else "an initializer has no name")
            out.initializers[tensor.name] = tensor
        return out

    def function(self, m: Message) -> tuple[tuple[str, str], Body]:
        """A FunctionProto."""
        f = Fields(m)
        out = Body(f.name(1), [self.node(node, 0) for node in f.messages(7)],
                   list(map(Input, f.names(4))), list(map(Input, f.names(5))),
                   opsets=dict(map(_opset, f.messages(9))),
                   defaults=dict(self.attribute(a, 0) for a in f.messages(11)))
        return (_domain(f.name(10)), out.name), out

    def node(self, m: Message, depth: int) -> Node:
        """A NodeProto."""
        number = self.nodes = self.nodes + 1
        if number > MOST_NODES:
            raise OnnxError(f"it has more than {MOST_NODES} nodes")
        f = Fields(m)
        op, called = f.name(4), f.name(3)
        attrs: dict[str, Any] = {}
        for message in f.messages(5):
            name, value = self.attribute(message, depth)
            if not name or name in attrs:
                raise OnnxError(f"node {number} ({op}) has the attribute {name!r} twice"
                                if name else f"node {number} has an attribute without a name")
            attrs[name] = value
        if not op:
            raise OnnxError(f"node {number} {called!r} has no op_type")
        return Node(op, _domain(f.name(7)), called, tuple(f.names(1)), tuple(f.names(2)), attrs,
                    number)

    def attribute(self, m: Message, depth: int) -> tuple[str, Any]:
        """An AttributeProto: its name and its value, a list for repeated ones."""
        f = Fields(m)
        name, refer = f.name(1), f.name(21)
        if refer:
            return name, Refer(refer)
        kind = f.integer(20) or next((_KIND_OF_FIELD[n] for n in f if n in _KIND_OF_FIELD), 0)
        if kind not in _FIELD_OF_KIND:
            raise OnnxError(f"the attribute {name!r} is of the kind {kind}, which is not read "
                            "(sparse tensors and types are none)")
        return name, self._attribute(m, kind, f.contents(_FIELD_OF_KIND[kind]), depth)

    def _attribute(self, m: Message, kind: int, parts: list[Content], depth: int) -> Any:
        if kind in (1, 6):
            floats = floats_of(m, parts).tolist()
            return floats if kind == 6 else floats[-1] if floats else 0.0
        if kind in (2, 7):
            ints = signed_numbers(m, parts)
            return ints if kind == 7 else ints[-1] if ints else 0
        if kind in (3, 8):
            texts = [str(m.bytes(p), "utf-8", "backslashreplace") for p in parts]
            return texts if kind == 8 else texts[-1] if texts else ""
        if kind in (4, 9):
            tensors = [_tensor(m.inner(p)) for p in parts]
            if not tensors and kind == 4:
                raise m.bad("an attribute has no tensor")
            return tensors if kind == 9 else tensors[-1]
        graphs = [self.graph(m.inner(p), depth + 1) for p in parts]
        if not graphs and kind == 5:
            raise m.bad("an attribute has no graph")
        return graphs if kind == 10 else graphs[-1]


_FIELD_OF_KIND = {1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10, 10: 11}
_KIND_OF_FIELD = {field: kind for kind, field in _FIELD_OF_KIND.items()}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def floats_of(m: Message, parts: list[Content], kind: str = "<f4") -> np.ndarray[Any, Any]:
    """A repeated field of floats, packed or not."""
    data = b"".join(m.bytes(p) for p in parts)
    if len(data) % np.dtype(kind).itemsize:
        raise m.bad("a list of floats ends within one")
    return np.frombuffer(data, kind)


def _opset(m: Message) -> tuple[str, int]:
    f = Fields(m)
    return _domain(f.name(1)), f.integer(2)


def _tensor(m: Message) -> RawTensor:
    f = Fields(m)
    if 3 in f:
        raise OnnxError("a tensor comes in segments, which no writer of ONNX uses")
    out = RawTensor(f.name(8), f.integer(2), tuple(f.integers(1)), f.raw(9),
                    {n: f.contents(n) for n in (4, 5, 6, 7, 10, 11) if n in f})
    if len(out.dims) > MOST_RANK or min(out.dims, default=0) < 0:
        raise OnnxError(f"the tensor {out.name!r} has the impossible shape {out.dims[:8]}")
    if f.integer(14) == 1:
        out.external = dict(map(_entry, f.messages(13)))
    return out


def _entry(m: Message) -> tuple[str, str]:
    f = Fields(m)
    return f.text(1), f.text(2)


_OTHER = {4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}


def _value(m: Message) -> Input:
    f = Fields(m)
    out = Input(f.name(1))
    for inner in f.messages(2):
        for kind, what in inner.fields():
            if kind == 1:
                _tensor_type(Fields(inner.inner(what)), out)
            elif kind in _OTHER:
                out.kind = _OTHER[kind]
    return out


def _tensor_type(f: Fields, out: Input) -> None:
    out.code = f.integer(1)
    for shape in map(Fields, f.messages(2)):
        out.dims = tuple(map(_dim, map(Fields, shape.messages(1))))
        if len(out.dims) > MOST_RANK:
            raise OnnxError(f"{out.name!r} has {len(out.dims)} axes")


def _dim(f: Fields) -> int | str | None:
    """A size, the name of an open one, or None."""
    if 1 not in f:
        return f.name(2) or None
    return f.integer(1) if f.integer(1) >= 0 else None


def nested(node: Node) -> Iterator[Body]:
    """The graphs in the attributes of a node."""
    for value in node.attrs.values():
        if isinstance(value, Body):
            yield value
        elif isinstance(value, list):
            yield from (v for v in value if isinstance(v, Body))
