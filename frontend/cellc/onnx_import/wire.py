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
MOST_PARTS = 200_000  # Functions, and tensors, graphs and texts in attributes
MOST_DEPTH = 24  # Graphs within graphs
MOST_RANK = 64
MOST_TEXT = 4096  # Bytes of a name, or of a place of external data
_SHOWN = 200  # Characters of a name in a message
WHAT = "ONNX model"


class OnnxError(ArtifactError):
    """An ONNX model that cannot be read or has no counterpart here."""


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
        called = repr(shown(self.name)) if self.name else f"number {self.number}"
        return f"node {called} ({shown(self.kind)})"


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
        self.nodes = self.parts = 0

    def model(self, view: memoryview) -> Model:
        """The model in these bytes.

        Raises:
            ArtifactError: they are damaged, too large, or no ONNX model.
        """
        message = Message(view, WHAT)
        graph: Body | None = None
        opsets: dict[str, int] = {}
        functions: dict[tuple[str, str], Body] = {}
        version = 0
        for number, content in message.fields():
            if number == 1:
                version = int_of(message, content)
            elif number == 7:
                if graph is not None:
                    raise OnnxError("it has two main graphs")
                graph = self.graph(message.inner(content), 0)
            elif number == 8:
                domain, opset = _opset(message.inner(content))
                if opsets.setdefault(domain, opset) != opset:
                    raise OnnxError(f"it needs two op sets of the domain {domain!r}")
            elif number == 20:
                raise OnnxError("it has training information (TrainingInfoProto), which is not "
                                "read: take it away; the network trains as any Cell does")
            elif number == 25:
                key, body = self.function(message.inner(content))
                if key in functions:
                    raise OnnxError(f"the function {key[1]!r} is there twice (overloads are not "
                                    "read)")
                functions[key] = body
        if graph is None or not version:
            raise message.bad("it has no graph" if version else "it has no version")
        return Model(graph, opsets, functions)

    def count(self) -> None:
        """Count a part, all of which together are bounded."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise OnnxError(f"it has more than {MOST_PARTS} functions, and tensors, graphs and "
                            "texts in attributes")

    def graph(self, m: Message, depth: int) -> Body:
        """A GraphProto."""
        if depth > MOST_DEPTH:
            raise OnnxError(f"its graphs are nested more than {MOST_DEPTH} deep")
        out = Body()
        for number, content in m.fields():
            if number == 1:
                out.nodes.append(self.node(m.inner(content), depth))
            elif number == 2:
                out.name = name_of(m, content)
            elif number == 5:
                tensor = _tensor(m.inner(content))
                if tensor.name in out.initializers or not tensor.name:
                    raise OnnxError(f"the initializer {tensor.name!r} is there twice"
                                    if tensor.name else "an initializer has no name")
                out.initializers[tensor.name] = tensor
            elif number == 11:
                out.inputs.append(_value(m.inner(content)))
            elif number == 12:
                out.outputs.append(_value(m.inner(content)))
            elif number == 15:
                raise OnnxError("it has sparse initializers, which are not read: store them dense")
        return out

    def function(self, m: Message) -> tuple[tuple[str, str], Body]:
        """A FunctionProto."""
        self.count()
        out, domain, opsets = Body(), "", {}
        for number, content in m.fields():
            if number == 1:
                out.name = name_of(m, content)
            elif number in (4, 5):
                (out.inputs if number == 4 else out.outputs).append(Input(name_of(m, content)))
            elif number == 7:
                out.nodes.append(self.node(m.inner(content), 0))
            elif number == 9:
                key, opset = _opset(m.inner(content))
                opsets[key] = opset
            elif number == 10:
                domain = name_of(m, content)
            elif number == 11:
                name, value = self.attribute(m.inner(content), 0)
                out.defaults[name] = value
        out.opsets = opsets
        return (_domain(domain), out.name), out

    def node(self, m: Message, depth: int) -> Node:
        """A NodeProto."""
        number = self.nodes = self.nodes + 1
        if number > MOST_NODES:
            raise OnnxError(f"it has more than {MOST_NODES} nodes")
        texts = {3: "", 4: "", 7: ""}
        inputs: list[str] = []
        outputs: list[str] = []
        attrs: dict[str, Any] = {}
        for key, content in m.fields():
            if key in (1, 2):
                (inputs if key == 1 else outputs).append(name_of(m, content))
            elif key in texts:
                texts[key] = name_of(m, content)
            elif key == 5:
                name, value = self.attribute(m.inner(content), depth)
                if not name or name in attrs:
                    raise OnnxError(f"node {number} ({texts[4]}) has the attribute {name!r} twice"
                                    if name else f"node {number} has an attribute without a name")
                attrs[name] = value
        if not texts[4]:
            raise OnnxError(f"node {number} {texts[3]!r} has no op_type")
        return Node(texts[4], _domain(texts[7]), texts[3], tuple(inputs), tuple(outputs), attrs,
                    number)

    def attribute(self, m: Message, depth: int) -> tuple[str, Any]:
        """An AttributeProto: its name and its value, a list for repeated ones."""
        name, kind, refer = "", 0, ""
        found: dict[int, list[Content]] = {}
        for number, content in m.fields():
            if number == 1:
                name = name_of(m, content)
            elif number == 20:
                kind = int_of(m, content)
            elif number == 21:
                refer = name_of(m, content)
            elif number < 7:
                found[number] = [content]
            elif number in _KIND_OF_FIELD and _holds(content, number, _LISTS):
                found.setdefault(number, []).append(content)
            if number in _PARTS:
                self.count()
        if refer:
            return name, Refer(refer)
        kind = kind or _KIND_OF_FIELD.get(next(iter(found), 0), 0)
        if kind not in _FIELD_OF_KIND:
            raise OnnxError(f"the attribute {name!r} is of the kind {kind}, which is not read "
                            "(sparse tensors and types are none)")
        return name, self._attribute(m, kind, found.get(_FIELD_OF_KIND[kind], []), depth)

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
_PARTS = (5, 6, 9, 10, 11)  # Fields of an attribute that hold tensors, graphs or a list of texts
_LISTS = (7, 8)  # Fields of an attribute that list numbers; those of a tensor:
_ELEMENTS = (4, 5, 7, 10, 11)


def _holds(content: Content, number: int, lists: tuple[int, ...]) -> bool:
    """Whether a field adds something: a packed list of no numbers does not."""
    return isinstance(content, int) or number not in lists or len(content) > 0


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def int_of(m: Message, content: Content) -> int:
    """A signed number."""
    if not isinstance(content, int):
        raise m.bad("a text where a number belongs")
    return content - (1 << 64) if content >> 63 else content


def floats_of(m: Message, parts: list[Content], kind: str = "<f4") -> np.ndarray[Any, Any]:
    """A repeated field of floats, packed or not."""
    data = b"".join(m.bytes(p) for p in parts)
    if len(data) % np.dtype(kind).itemsize:
        raise m.bad("a list of floats ends within one")
    return np.frombuffer(data, kind)


def text_of(m: Message, content: Content) -> str:
    """A text of bounded length."""
    if len(m.bytes(content)) > MOST_TEXT:
        raise OnnxError(f"it has a name of {len(m.bytes(content))} bytes; {MOST_TEXT} are the most "
                        "that is read")
    return m.text(content)


def shown(name: str) -> str:
    """The beginning of a name, for messages."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def name_of(m: Message, content: Content) -> str:
    name = text_of(m, content)
    if not name.isprintable():
        raise OnnxError(f"it has a name with control characters: {name[:80]!r}")
    return name


def _opset(m: Message) -> tuple[str, int]:
    domain, version = "", 0
    for number, content in m.fields():
        if number == 1:
            domain = name_of(m, content)
        elif number == 2:
            version = int_of(m, content)
    return _domain(domain), version


def _tensor(m: Message) -> RawTensor:
    out = RawTensor()
    dims: list[Content] = []
    external: list[tuple[str, str]] = []
    location = 0
    for number, content in m.fields():
        if number == 1:
            dims.append(content)
        elif number == 2:
            out.code = int_of(m, content)
        elif number == 3:
            raise OnnxError("a tensor comes in segments, which no writer of ONNX uses")
        elif number == 8:
            out.name = name_of(m, content)
        elif number == 9:
            out.raw = m.bytes(content)
        elif number == 13:
            external.append(_entry(m.inner(content)))
        elif number == 14:
            location = int_of(m, content)
        elif number in (*_ELEMENTS, 6) and _holds(content, number, _ELEMENTS):
            out.fields.setdefault(number, []).append(content)
    out.dims = tuple(signed_numbers(m, dims))
    if len(out.dims) > MOST_RANK or min(out.dims, default=0) < 0:
        raise OnnxError(f"the tensor {out.name!r} has the impossible shape {out.dims[:8]}")
    if location == 1:
        out.external = dict(external)
    return out


def _entry(m: Message) -> tuple[str, str]:
    found = {number: text_of(m, content) for number, content in m.fields() if number in (1, 2)}
    return found.get(1, ""), found.get(2, "")


_OTHER = {4: "sequence", 5: "map", 7: "opaque", 8: "sparse tensor", 9: "optional"}


def _value(m: Message) -> Input:
    out = Input("")
    for number, content in m.fields():
        if number == 1:
            out.name = name_of(m, content)
        elif number == 2:
            inner = m.inner(content)
            for kind, what in inner.fields():
                if kind == 1:
                    _tensor_type(inner.inner(what), out)
                elif kind in _OTHER:
                    out.kind = _OTHER[kind]
    return out


def _tensor_type(m: Message, out: Input) -> None:
    for number, content in m.fields():
        if number == 1:
            out.code = int_of(m, content)
        elif number == 2:
            shape = m.inner(content)
            out.dims = tuple(_dim(shape.inner(d)) for n, d in shape.fields() if n == 1)
            if len(out.dims) > MOST_RANK:
                raise OnnxError(f"{out.name!r} has {len(out.dims)} axes")


def _dim(m: Message) -> int | str | None:
    """A size, the name of an open one, or None."""
    out: int | str | None = None
    for number, content in m.fields():
        if number == 1:
            out = int_of(m, content)
        elif number == 2:
            out = name_of(m, content) or None
    return None if isinstance(out, int) and out < 0 else out


def nested(node: Node) -> Iterator[Body]:
    """The graphs in the attributes of a node."""
    for value in node.attrs.values():
        if isinstance(value, Body):
            yield value
        elif isinstance(value, list):
            yield from (v for v in value if isinstance(v, Body))
