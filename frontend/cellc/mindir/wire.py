"""A MindIR file as plain objects, read from its protobuf.

The file is untrusted: elements stay in the mapped file until their number is checked, and counts
and depths are bounded here. Source of the field numbers: `mind_ir.proto` of MindSpore, and files
that MindSpore 2.10 wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellc_runtime.errors import ArtifactError
from cellc_runtime.protobuf import Content, Message, signed_numbers
from cellc_runtime.records import dataclass, field

from ..onnx_import.wire import MOST_RANK, Node, RawTensor, floats_of, int_of, name_of

WHAT = "MindIR file"
MOST_NODES = 200_000  # Nodes of a file, those of all its graphs
MOST_PARTS = 100_000  # Graphs and parameters; the values of a tuple
MOST_DEPTH = 24  # Tuples within tuples
ENCRYPTED = (b"\xd8\x5e\x3a\x7f", b"\xd9\x5e\x3a\x7f", b"\xda\x5e\x3a\x7f")
"""How a file starts that is encrypted: MindSpore's numbers of AES-GCM, AES-CBC and SM4-CBC."""


class MindirError(ArtifactError):
    """A MindIR file that cannot be read or has no counterpart here."""


class Monad:
    """The value that orders effects: nodes run in the order of the file, so it carries nothing."""

    def __repr__(self) -> str:
        return "a monad"


MONAD = Monad()


@dataclass(slots=True)
class Unread:
    """A constant or type of a kind that nothing here can hold."""

    kind: str


@dataclass(slots=True)
class Kind:
    """The type of a scalar, by its name (`INT64`)."""

    name: str


@dataclass(slots=True)
class Primitive:
    """An op as nodes refer to it.

    Attributes:
        op: its name.
        positional: whether all its arguments are inputs of the node, in their order.
    """

    op: str
    attrs: dict[str, Any]
    positional: bool


@dataclass(slots=True)
class Argument:
    """An input or output of a graph; its type is a RawTensor without elements, a tuple or list of
    types, a Kind, or MONAD."""

    name: str
    type: Any


@dataclass(slots=True)
class Body:
    """A graph."""

    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Argument] = field(default_factory=list)
    outputs: list[Argument] = field(default_factory=list)
    parameters: list[tuple[str, RawTensor]] = field(default_factory=list)


@dataclass(slots=True)
class Model:
    """A whole file: the graph, those that it calls and its primitives, by name."""

    graph: Body
    functions: dict[str, Body]
    primitives: Mapping[str, Primitive]


_WHOLE = {2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 12: "UINT32",
          13: "UINT64"}
_REAL = {1: "FLOAT", 10: "FLOAT16", 11: "DOUBLE", 16: "BFLOAT16"}
_OTHERS = {0: "undefined", 14: "complex", 15: "complex", 18: "graph", 22: "dict",
           26: "primitive", 27: "function", 28: "function", 29: "function", 30: "CSR tensor",
           31: "COO tensor", 32: "row tensor", 33: "class", 34: "namespace", 35: "symbol",
           37: "map tensor", 38: "functor", 39: "scalar", 40: "graph of scalars"}


_LAST = frozenset((2, 3, 4, 5, 6, 11, 12))  # Fields of an attribute of which the last one counts
_LISTS = frozenset((8, 9, 10))  # Those that list numbers
_PARTS = 17  # Those that hold the values of a tuple


class Reader:
    """Reads one file; counts what it has read."""

    def __init__(self) -> None:
        self.nodes = self.parts = 0

    def model(self, view: memoryview) -> Model:
        """The network in these bytes. Raises ArtifactError if they are damaged, encrypted, too
        large, or no MindIR."""
        if bytes(view[:4]) in ENCRYPTED:
            raise MindirError("it is encrypted (MindSpore's enc_key), which is not read: export it "
                              "without a key")
        message = Message(view, WHAT)
        graph: Body | None = None
        functions: dict[str, Body] = {}
        primitives: dict[str, Primitive] = {}
        for number, content in message.fields():
            if number == 7:
                if graph is not None:
                    raise MindirError("it has two main graphs")
                graph = self.graph(message.inner(content))
            elif number == 8:
                body = self.graph(message.inner(content))
                if body.name in functions:
                    raise MindirError(f"two graphs have the name {body.name!r}")
                functions[body.name] = body
            elif number == 10:
                if not int_of(message, content):
                    raise MindirError("its elements are in big-endian order")
            elif number == 12:
                name, primitive = _primitive(message.inner(content))
                if name in primitives:
                    raise MindirError(f"two primitives have the name {name!r}")
                primitives[name] = primitive
        if graph is None or graph.name in functions:
            raise message.bad("it has no graph" if graph is None else "two graphs have one name")
        return Model(graph, functions, primitives)

    def count(self) -> None:
        """Count a part, all of which together are bounded."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise MindirError(f"it has more than {MOST_PARTS} graphs and parameters")

    def graph(self, m: Message) -> Body:
        """A GraphProto."""
        self.count()
        out = Body()
        for number, content in m.fields():
            if number == 1:
                out.nodes.append(self.node(m.inner(content)))
            elif number == 2:
                out.name = name_of(m, content)
            elif number == 3:
                self.count()
                out.parameters.append(parameter(m.inner(content)))
            elif number == 5:
                out.inputs.append(_argument(m.inner(content)))
            elif number == 6:
                out.outputs.append(_argument(m.inner(content)))
            elif number == 10:
                raise MindirError("it has a MapParameter, which is not read")
        return out

    def node(self, m: Message) -> Node:
        """A NodeProto; the value of a constant is the attribute `value`."""
        number = self.nodes = self.nodes + 1
        if number > MOST_NODES:
            raise MindirError(f"it has more than {MOST_NODES} nodes")
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
                name, value = attribute(m.inner(content))
                attrs[name] = value
        scope = texts[7] if "/" in texts[7] else texts[3]
        return Node(texts[4].removeprefix("REF::"), "", scope, tuple(inputs), tuple(outputs),
                    attrs, number)


def _primitive(m: Message) -> tuple[str, Primitive]:
    name = op = ""
    kind = 1
    attrs: dict[str, Any] = {}
    for number, content in m.fields():
        if number == 1:
            name = name_of(m, content)
        elif number == 2:
            op = name_of(m, content)
        elif number == 3:
            key, value = attribute(m.inner(content))
            attrs[key] = value
        elif number == 5:
            kind = int_of(m, content)
    return name, Primitive(op, attrs, kind == 2)


def attribute(m: Message, depth: int = 0) -> tuple[str, Any]:
    """An AttributeProto: its name and what it holds. A scalar without a number is its `Kind`."""
    if depth > MOST_DEPTH:
        raise MindirError(f"it has values nested more than {MOST_DEPTH} deep")
    name, kind = "", 0
    found: dict[int, list[Content]] = {}
    for number, content in m.fields():
        if number == 1:
            name = name_of(m, content)
        elif number == 16:
            kind = int_of(m, content)
        elif number in _LAST:
            found[number] = [content]
        elif number == _PARTS or (number in _LISTS and (isinstance(content, int) or len(content))):
            found.setdefault(number, []).append(content)
            if len(found[number]) > MOST_PARTS and number == _PARTS:
                raise MindirError(f"it has a tuple of more than {MOST_PARTS} values")
    return name, _value(m, kind, found, depth)


def _value(m: Message, kind: int, found: Mapping[int, list[Content]], depth: int) -> Any:
    if kind in _WHOLE or kind == 9:
        numbers = signed_numbers(m, [*found.get(3, ()), *found.get(10, ())])
        if not numbers:
            return Kind(_WHOLE.get(kind, "BOOL"))
        return bool(numbers[-1]) if kind == 9 else numbers[-1]
    if kind in _REAL:
        wide = [*found.get(4, ()), *found.get(9, ())]
        reals = floats_of(m, wide, "<f8") if wide else \
            floats_of(m, [*found.get(2, ()), *found.get(8, ())])
        return float(reals[-1]) if len(reals) else Kind(_REAL[kind])
    if kind == 8:
        texts = [*found.get(5, ()), *found.get(11, ())]
        return str(m.bytes(texts[-1]), "utf-8", "backslashreplace") if texts else Kind("STRING")
    if kind in (17, 19):
        tensors = [tensor(m.inner(c)) for c in (*found.get(6, ()), *found.get(12, ()))]
        return tensors[-1] if tensors else Unread("tensor without elements")
    if kind in (20, 21):
        values = [attribute(m.inner(c), depth + 1)[1] for c in found.get(17, ())]
        return values if kind == 21 else tuple(values)
    if kind in (23, 24):
        return MONAD
    return None if kind in (25, 36) else Unread(_OTHERS.get(kind, str(kind)))


def _argument(m: Message) -> Argument:
    out = Argument("", Unread("undefined"))
    for number, content in m.fields():
        if number == 1:
            out.name = name_of(m, content)
        elif number == 2:
            out.type = tensor(m.inner(content))
        elif number == 5:
            out.type = attribute(m.inner(content))[1]
    return out


def parameter(m: Message) -> tuple[str, RawTensor]:
    """A parameter: the name that a checkpoint has for it, and its tensor."""
    out = tensor(m)
    key = next((m.text(c) for n, c in m.fields() if n == 13), "")
    return key if key and key.isprintable() else out.name.rpartition(":")[2], out


def tensor(m: Message) -> RawTensor:
    """A TensorProto, in the form of ONNX's. Sizes of a type may be -1: open."""
    out = RawTensor()
    dims: list[Content] = []
    for number, content in m.fields():
        if number == 1:
            dims.append(content)
        elif number == 2:
            out.code = int_of(m, content)
        elif number == 7:
            out.name = name_of(m, content)
        elif number == 9:
            out.raw = m.bytes(content)
        elif number == 12:
            out.external = _external(m.inner(content))
        elif number == 16 and int_of(m, content):
            raise MindirError(f"the tensor {out.name!r} is compressed, which is not read")
        elif number in (3, 4, 5, 6, 10, 11):
            raise MindirError(f"the tensor {out.name!r} lists its elements one by one, which no "
                              "writer of MindIR does")
    out.dims = tuple(signed_numbers(m, dims))
    out.code = 11 if out.code == 17 else out.code  # (both are float64)
    if len(out.dims) > MOST_RANK or min(out.dims, default=0) < -2:
        raise MindirError(f"the tensor {out.name!r} has the impossible shape {out.dims[:8]}")
    return out


def _external(m: Message) -> dict[str, str]:
    out: dict[str, str] = {}
    for number, content in m.fields():
        if number == 1:
            out["location"] = m.text(content)
        elif number in (2, 3):
            out["offset" if number == 2 else "length"] = str(int_of(m, content))
    return out
