"""Graph, Node, Value: the data of the graph IR, and the builder that appends nodes.

A node's result types are inferred when it is built. Graphs are pure: what a network changes
(parameters, moving averages, generator state) leaves as `updates`, pairs of an input and the
value that replaces it. Only nodes whose op has `effect` set are kept for their own sake.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, cast

import numpy as np

from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.errors import short_name
from cellc_runtime.lazy import hashlib, lazy_imports
from cellc_runtime.records import dataclass, field

from .dims import is_symbolic
from .registry import lookup
from .types import TensorType

with lazy_imports(__name__):
    from . import picture

CONSTANT = "constant"  # The op of literals


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A place in source text. Lines count from 1, columns from 0 as in `ast`."""

    file: str
    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def short(self) -> str:
        """For people: file without folders, and line; "" for no place."""
        return "" if self.line <= 0 else f"{short_name(self.file)}:{self.line}"


NOWHERE = Span(file="<cellc>", line=0, column=0)


@dataclass(frozen=True, slots=True)
class Literal:
    """An immutable array attribute with value equality (to the bit)."""

    array: np.ndarray[Any, Any]
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        array = np.array(self.array, order="C", copy=True)
        array.flags.writeable = False
        object.__setattr__(self, "array", array)
        head = f"{array.dtype.name}{array.shape}".encode()
        object.__setattr__(self, "digest", hashlib.sha256(head + array.tobytes()).digest())

    @property
    def type(self) -> TensorType:
        """The tensor type of the array."""
        return TensorType(self.array.shape, dtypes.from_numpy(self.array.dtype))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


Attr = Any  # int, float, bool, str, None, DType, Literal, or a tuple of these: frozen and hashable


def attrs_key(attrs: Mapping[str, Attr]) -> tuple[Hashable, ...]:
    """Attributes as a key: equal where they are the same to the bit."""
    if not attrs:
        return ()
    # 1 == 1.0 == True and 0.0 == -0.0 as keys, so the type and the text count too.
    return tuple([(k, type(v), repr(v) if isinstance(v, float | complex | tuple) else v)
                  for k, v in attrs.items()])


class Reuse(Enum):
    """Whether what a kernel makes of a value first (a packed matrix) serves others: no, further
    kernels of a run (`SHARED`), or every call or trip of a loop (`FROZEN`)."""

    NONE = 0
    SHARED = 1
    FROZEN = 2


@dataclass(slots=True, eq=False)
class Value:
    """A tensor: a graph input, or a result of a node."""

    type: TensorType
    node: Node | None = None
    index: int = 0
    name: str = ""
    kind: str = "value"  # `"input"`, `"param"` or `"state"` for graph inputs; `"value"` for results
    reuse: Reuse = Reuse.NONE  # Noted by lowering; `NONE` before

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.type.shape  # type: ignore[return-value]  # a Dim behaves as an int

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<Value {self.name or '?'}: {self.type}>"


@dataclass(slots=True, eq=False)
class Node:
    """An operation with its operands, attributes, nested graphs and results."""

    op: str
    operands: list[Value]
    attrs: dict[str, Attr]
    results: tuple[Value, ...] = ()
    regions: tuple[Graph, ...] = ()
    span: Span = field(default=NOWHERE, kw_only=True)
    scope: str = field(default="", kw_only=True)
    origin: str = field(default="", kw_only=True)
    """Of a node that belongs to the gradient of another: the op of that one."""

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def clone(
        self, operands: list[Value], regions: tuple[Graph, ...] | None = None,
        scope: str | None = None,
    ) -> Node:
        """The same operation on other operands, with results of its own, in no graph yet.

        Args:
            regions: instead of the node's own, which are shared: they are closed, and passes that
                change one replace it.
            scope: instead of the node's own.
        """
        copy = Node(
            self.op, operands, self.attrs, (), self.regions if regions is None else regions,
            span=self.span, scope=self.scope if scope is None else scope, origin=self.origin)
        copy.results = tuple([Value(r.type, copy, r.index) for r in self.results])
        return copy

    def walk(self) -> Iterator[Node]:
        """The node, then those of its nested graphs, in order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    @property
    def is_constant(self) -> bool:
        """Whether it is a literal, which has no operands and needs no code."""
        return self.op == CONSTANT

    def __repr__(self) -> str:
        return f"<Node {self.op} at {self.span}>"


@dataclass(slots=True, eq=False)
class Graph:
    """Inputs, nodes in topological order, outputs and updates.

    A nested graph (region) is closed: it refers to outer values only through its inputs.
    """

    name: str
    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    updates: list[tuple[Value, Value]] = field(default_factory=list)

    @property
    def template(self) -> Graph:
        """The graph with symbols that this one was made from, or itself: it has the same ops."""
        return self

    def add_input(self, ty: TensorType, name: str, kind: str = "input") -> Value:
        """Append a graph input; names must be unique within the graph."""
        value = Value(ty, name=name, kind=kind)
        self.inputs.append(value)
        return value

    def results(self) -> list[Value]:
        """Everything that must be computed: outputs, then updated values."""
        return self.outputs + [new for _, new in self.updates]

    def frozen_parameters(self) -> list[Value]:
        """The parameters that the graph does not update: the same from call to call."""
        written = {old for old, _ in self.updates}
        return [v for v in self.inputs if v.kind == "param" and v not in written]

    def walk(self) -> Iterator[Node]:
        """All nodes, nested graphs included, in order."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()

    def dissolve(self) -> None:
        """Let values forget their nodes; the graph cannot be used any more.

        A node and its results hold one another: left to the search for cyclic garbage, the graphs
        of a compilation would take it longer than most stages.
        """
        for node in self.walk():
            for value in node.results:
                value.node = None

    def _repr_html_(self) -> str:
        """Return a picture of a small graph for notebooks, the text of a large one."""
        return picture.graph_html(self)

    def users(self) -> dict[Value, list[Node]]:
        """The nodes of this graph (not of nested ones) that read each value."""
        table: dict[Value, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for operand in node.operands:
                table[operand].append(node)
        return dict(table)


def clone_into(
    builder: Builder, graph: Graph, arguments: Sequence[Value]
) -> tuple[list[Value], dict[Value, Value]]:
    """Append copies of `graph`'s nodes, its inputs replaced; returns outputs and the value map."""
    table: dict[Value, Value] = dict(zip(graph.inputs, arguments, strict=True))
    for node in graph.nodes:
        copy = node.clone([table[v] for v in node.operands],
                          scope=join_scope(builder.scope, node.scope))
        builder.graph.nodes.append(copy)
        table.update(zip(node.results, copy.results, strict=True))
    return [table[v] for v in graph.outputs], table


def join_scope(outer: str, inner: str) -> str:
    """Two scope paths joined by a dot, either of which may be empty."""
    return f"{outer}.{inner}" if outer and inner else outer or inner


class Builder:
    """Appends nodes to a graph. `b.add(x, y)` is `b.emit("add", x, y)` for any op of one result.

    Args:
        span, scope, origin: given to each node; change them with `at`.
    """

    def __init__(
        self, graph: Graph, *, span: Span = NOWHERE, scope: str = "", origin: str = ""
    ) -> None:
        self.graph = graph
        self.span = span
        self.scope = scope
        self.origin = origin

    @contextmanager
    def at(
        self, *, span: Span | None = None, scope: str | None = None, origin: str | None = None
    ) -> Iterator[None]:
        """Within the block, nodes carry this span, scope and origin."""
        saved = self.span, self.scope, self.origin
        self.span = span or self.span
        self.scope = self.scope if scope is None else scope
        self.origin = self.origin if origin is None else origin
        try:
            yield
        finally:
            self.span, self.scope, self.origin = saved

    def node(
        self,
        op: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Attr] | None = None,
        regions: Sequence[Graph] = (),
    ) -> Node:
        """Append a node, its result types inferred, and return it."""
        definition = lookup(op)
        full = definition.complete(attrs or {})
        node = Node(
            op, list(operands), full, (), tuple(regions), span=self.span, scope=self.scope,
            origin=self.origin,
        )
        types = definition.result_types(node)
        node.results = tuple([Value(t, node, i) for i, t in enumerate(types)])
        self.graph.nodes.append(node)
        return node

    def emit(self, op: str, *operands: Value, **attrs: Attr) -> Any:
        """Append a node; its result, or a tuple of results if the op has several."""
        node = self.node(op, operands, attrs)
        return node.results[0] if len(node.results) == 1 else node.results

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op.startswith("__"):
            raise AttributeError(op)
        return lambda *operands, **attrs: self.node(op, operands, attrs).result

    def literal(self, array: Any, dtype: DType | None = None) -> Value:
        """A constant from anything numpy understands, or from a symbolic number."""
        if is_symbolic(array):
            return cast(Value, self.emit("size_number", value=array, dtype=dtype or dtypes.int64))
        np_dtype = dtype.numpy if dtype is not None else None
        return cast(Value, self.emit(CONSTANT, value=Literal(np.asarray(array, dtype=np_dtype))))

    def scalar(self, x: float | int | bool | complex, like: Value) -> Value:
        """A rank-0 constant of the element type of `like` (operands broadcast); it may follow from
        open sizes."""
        if is_symbolic(x):
            return self.size_number(value=x, dtype=like.dtype)
        return self.literal(x, like.dtype)

    def full(self, ty: TensorType, x: float | int | bool) -> Value:
        """A constant of a whole type, kept as one element and a broadcast."""
        return self.broadcast_to(self.literal(x, ty.dtype), shape=ty.shape)

    def zeros_like(self, v: Value) -> Value:
        """Zeros of the type of `v`."""
        return self.full(v.type, 0)
