"""From a graph with symbolic sizes to one for given sizes.

Types and attributes are worked out node by node; nothing is traced or differentiated again. A
symbol of a `number` becomes a literal, so the graph is the one that tracing with these sizes would
have given. Each op still checks its operands: what no size contradicts in general may be
contradicted by these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellc_runtime.open_sizes import scalar

from ..ir.dims import Dim, Ratio, Size, is_symbolic, substitute, substitute_number, symbols_of
from ..ir.graph import CONSTANT, Graph, Literal, Node, Value
from ..ir.op import lookup
from ..ir.types import TensorType

Sizes = Mapping[str, Size]


class SizeError(ValueError):
    """Sizes that do not fit each other, with the place in the source where they meet."""


def graph_symbols(graph: Graph) -> set[str]:
    """The symbols in the types and attributes of a graph and its regions."""
    found = {s for v in graph.inputs for s in symbols_of(v.type.shape)}
    for node in graph.walk():
        for r in node.results:
            found |= symbols_of(r.type.shape)
        for a in node.attrs.values():
            found |= symbols_of(a)
        for region in node.regions:
            found |= {s for v in region.inputs for s in symbols_of(v.type.shape)}
    return found


def instantiate(graph: Graph, sizes: Sizes) -> Graph:
    """A copy of the graph for these values of its symbols; those without one stay.

    Raises:
        SizeError: a dimension comes out negative, or sizes do not fit an op.
    """
    return _Instance(sizes).graph(graph)


class Instance(Graph):
    """`instantiate(source, sizes)`, worked out when it is first looked at.

    A call that a program for all sizes serves needs no graph of its own: a graph of a thousand
    nodes would take longer than the call.
    """

    __slots__ = ("_sizes", "_source")

    def __init__(self, source: Graph, sizes: Sizes) -> None:
        self._source, self._sizes = source, sizes

    @property
    def template(self) -> Graph:
        return self._source

    def __getattr__(self, name: str) -> Any:
        if name not in Graph.__slots__:
            raise AttributeError(name)
        made = instantiate(self._source, self._sizes)
        for slot in Graph.__slots__:
            setattr(self, slot, getattr(made, slot))
        return getattr(self, name)


def _open(node: Node) -> bool:
    """Whether sizes are still symbolic in a node."""
    values = (*node.operands, *node.results)
    return not all(v.type.is_static for v in values) or any(
        symbols_of(a) for a in node.attrs.values())


class _Instance:
    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.types: dict[TensorType, TensorType] = {}

    def type(self, ty: TensorType) -> TensorType:
        if ty.is_static:
            return ty
        found = self.types.get(ty)
        if found is None:
            found = self.types[ty] = ty.with_shape(
                d if type(d) is int else substitute(d, self.sizes) for d in ty.shape)
            if any(type(d) is int and d < 0 for d in found.dims):
                raise SizeError(f"{ty} has a negative dimension for the sizes {self.named()}")
        return found

    def named(self) -> str:
        return ", ".join(f"{k} = {v}" for k, v in self.sizes.items())

    def attr(self, value: Any) -> Any:
        if type(value) is tuple:
            return tuple(self.attr(v) for v in value)
        if type(value) is Dim or type(value) is Ratio:
            try:
                return substitute_number(value, self.sizes)
            except (ArithmeticError, ValueError) as error:
                raise SizeError(f"{value} has no value for the sizes {self.named()}: {error}"
                                ) from None
        return value

    def graph(self, graph: Graph) -> Graph:
        out = Graph(graph.name)
        table: dict[Value, Value] = {}
        for v in graph.inputs:
            table[v] = out.add_input(self.type(v.type), v.name, v.kind)
        for node in graph.nodes:
            copy = self.node(node, [table[v] for v in node.operands])
            table.update(zip(node.results, copy.results, strict=True))
            out.nodes.append(copy)
        out.outputs = [table[v] for v in graph.outputs]
        out.updates = [(table[old], table[new]) for old, new in graph.updates]
        return out

    def node(self, node: Node, operands: list[Value]) -> Node:
        op, attrs = node.op, {k: self.attr(v) for k, v in node.attrs.items()}
        if op == "size_number" and not is_symbolic(attrs["value"]):
            op = CONSTANT
            attrs = {"value": Literal(scalar(attrs["value"], attrs["dtype"]))}
        copy = Node(op, operands, attrs, (), tuple(self.graph(r) for r in node.regions),
                    span=node.span, scope=node.scope, origin=node.origin)
        copy.results = tuple(Value(self.type(r.type), copy, r.index) for r in node.results)
        if not copy.is_constant and not _open(copy):
            self.check(copy, node)
        return copy

    def check(self, copy: Node, node: Node) -> None:
        """Have the op look at its operands as they are now."""
        try:
            types = lookup(copy.op).result_types(copy)
            same = types == tuple(r.type for r in copy.results)
            problem = "" if same else f"it gives {', '.join(map(str, types))}"
        except (TypeError, ValueError) as e:
            problem = str(e)
        if problem:
            shown = ", ".join(
                f"{old.type} is {new.type}"
                for old, new in zip(node.operands, copy.operands, strict=True)
                if not old.type.is_static)
            raise SizeError(f"{copy.op} at {node.span}: {problem}. The sizes of this call are "
                            f"{self.named()}{': ' + shown if shown else ''}")
