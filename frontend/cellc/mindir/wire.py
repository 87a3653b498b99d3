"""A MindIR file as plain objects, read from its protobuf.

The file is untrusted: elements stay in the mapped file until their number is checked, and counts
and depths are bounded here. Source of the field numbers: `mind_ir.proto` of MindSpore, and files
that MindSpore 2.10 wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellc_runtime.errors import ArtifactError
from cellc_runtime.protobuf import Message
from cellc_runtime.records import dataclass, field

from ..onnx_import.wire import MOST_RANK, Fields, Node, RawTensor, floats_of

WHAT = "MindIR file"
MOST_NODES = 200_000  # Nodes of a file, those of all its graphs
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


class Reader:
    """Reads one file; counts what it has read."""

    def __init__(self) -> None:
        self.nodes = 0

    def model(self, view: memoryview) -> Model:
        """The network in these bytes.

        Raises:
            ArtifactError: they are damaged, encrypted, too large, or no MindIR.
        """
        if bytes(view[:4]) in ENCRYPTED:
            raise MindirError("it is encrypted (MindSpore's enc_key), which is not read: export it "
                              "without a key")
        f = Fields(Message(view, WHAT))
        if 10 in f and not f.integer(10):
            raise MindirError("its elements are in big-endian order")
        graphs = list(map(self.graph, f.messages(7)))
        functions: dict[str, Body] = {}
        for body in map(self.graph, f.messages(8)):
            if body.name in functions:
                raise MindirError(f"two graphs have the name {body.name!r}")
            functions[body.name] = body
        if not graphs or graphs[-1].name in functions:
            raise f.message.bad("two graphs have one name" if graphs else "it has no graph")
        return Model(graphs[-1], functions, dict(map(_primitive, f.messages(12))))

    def graph(self, m: Message) -> Body:
        """A GraphProto."""
        f = Fields(m)
        if 10 in f:
            raise MindirError("it has a MapParameter, which is not read")
        return Body(f.name(2), list(map(self.node, f.messages(1))),
                    list(map(_argument, f.messages(5))), list(map(_argument, f.messages(6))),
                    list(map(parameter, f.messages(3))))

    def node(self, m: Message) -> Node:
        """A NodeProto; the value of a constant is the attribute `value`."""
        number = self.nodes = self.nodes + 1
        if number > MOST_NODES:
            raise MindirError(f"it has more than {MOST_NODES} nodes")
        f = Fields(m)
        scope = f.name(7) if "/" in f.name(7) else f.name(3)
        return Node(f.name(4).removeprefix("REF::"), "", scope, tuple(f.names(1)),
                    tuple(f.names(2)), dict(map(attribute, f.messages(5))), number)


def _primitive(m: Message) -> tuple[str, Primitive]:
    f = Fields(m)
    return f.name(1), Primitive(f.name(2), dict(map(attribute, f.messages(3))), f.integer(5) == 2)


def attribute(m: Message, depth: int = 0) -> tuple[str, Any]:
    """An AttributeProto: its name and what it holds. A scalar without a number is its `Kind`."""
    if depth > MOST_DEPTH:
        raise MindirError(f"it has values nested more than {MOST_DEPTH} deep")
    f = Fields(m)
    return f.name(1), _value(f, f.integer(16), depth)


def _value(f: Fields, kind: int, depth: int) -> Any:
    if kind in _WHOLE or kind == 9:
        numbers = f.integers(3, 10)
        if not numbers:
            return Kind(_WHOLE.get(kind, "BOOL"))
        return bool(numbers[-1]) if kind == 9 else numbers[-1]
    if kind in _REAL:
        wide = f.contents(4, 9)
        reals = floats_of(f.message, wide, "<f8") if wide else \
            floats_of(f.message, f.contents(2, 8))
        return float(reals[-1]) if len(reals) else Kind(_REAL[kind])
    if kind == 8:
        texts = f.contents(5, 11)
        return str(f.message.bytes(texts[-1]), "utf-8", "backslashreplace") if texts else \
            Kind("STRING")
    if kind in (17, 19):
        tensors = list(map(tensor, (*f.messages(6), *f.messages(12))))
        return tensors[-1] if tensors else Unread("tensor without elements")
    if kind in (20, 21):
        values = [attribute(m, depth + 1)[1] for m in f.messages(17)]
        return values if kind == 21 else tuple(values)
    if kind in (23, 24):
        return MONAD
    return None if kind in (25, 36) else Unread(_OTHERS.get(kind, str(kind)))


def _argument(m: Message) -> Argument:
    f = Fields(m)
    types = [*map(tensor, f.messages(2)), *(attribute(a)[1] for a in f.messages(5))]
    return Argument(f.name(1), types[-1] if types else Unread("undefined"))


def parameter(m: Message) -> tuple[str, RawTensor]:
    """A parameter: the name that a checkpoint has for it, and its tensor."""
    out, key = tensor(m), Fields(m).text(13)
    return key if key and key.isprintable() else out.name.rpartition(":")[2], out


def tensor(m: Message) -> RawTensor:
    """A TensorProto, in the form of ONNX's. Sizes of a type may be -1: open."""
    f = Fields(m)
    code = f.integer(2)
    out = RawTensor(f.name(7), 11 if code == 17 else code, tuple(f.integers(1)), f.raw(9))
    if f.integer(16):
        raise MindirError(f"the tensor {out.name!r} is compressed, which is not read")
    if f.contents(3, 4, 5, 6, 10, 11):
        raise MindirError(f"the tensor {out.name!r} lists its elements one by one, which no "
                          "writer of MindIR does")
    for external in f.messages(12):
        out.external = _external(Fields(external))
    if len(out.dims) > MOST_RANK or min(out.dims, default=0) < -2:
        raise MindirError(f"the tensor {out.name!r} has the impossible shape {out.dims[:8]}")
    return out


def _external(f: Fields) -> dict[str, str]:
    out = {name: str(f.integer(number)) for number, name in ((2, "offset"), (3, "length"))
           if number in f}
    return {**out, "location": f.text(1)} if 1 in f else out
