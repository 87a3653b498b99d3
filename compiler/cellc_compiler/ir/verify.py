"""The verifier of the graph IR. A failure shows the IR around the fault."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from cellc_runtime.errors import ArtifactError

from .dims import SymbolInfo, deciding
from .graph import Graph, Node, Value
from .op import lookup
from .shapes import Shapes
from .text import parse_graph, print_graph
from .types import check_size


class VerifyError(Exception):
    """A graph that breaks a rule of the IR (a bug of cellc or of hand-written graph text)."""


def verify(graph: Graph) -> None:
    """Check SSA order, ownership, op existence, attributes, types, regions and updates. Raises
    VerifyError if a rule is broken; the error shows the graph's text around it."""
    seen: set[Value] = set()
    names: set[str] = set()
    for v in graph.inputs:
        if v.node is not None or v in seen or v.name in names:
            _fail(graph, f"input {v.name!r} is defined twice or by a node")
        try:
            check_size(f"the input {v.name!r}", v.type)
        except ValueError as e:
            _fail(graph, str(e))
        seen.add(v)
        names.add(v.name)
    for position, node in enumerate(graph.nodes):
        _check_node(graph, node, position, seen)
        seen.update(node.results)
    for v in graph.results():
        if v not in seen:
            _fail(graph, f"an output or update of type {v.type} is not defined in the graph")
    _check_updates(graph)


def _check_node(graph: Graph, node: Node, position: int, seen: set[Value]) -> None:
    for k, v in enumerate(node.operands):
        if v not in seen:
            _fail(graph, f"operand {k} of {node.op} is used before its definition", position)
    for i, r in enumerate(node.results):
        if r.node is not node or r.index != i or r in seen:
            _fail(graph, f"result {i} of {node.op} is not its own", position)
    for region in node.regions:
        verify(region)
    try:
        definition = lookup(node.op)
        if definition.complete(node.attrs) != node.attrs:
            _fail(graph, f"{node.op} lacks attributes", position)
        types = definition.result_types(node)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
        # Inference is written for attributes of the right kind: those of a file may be of any.
        _fail(graph, f"{node.op}: {e}", position)
    if types != tuple(r.type for r in node.results):
        want = ", ".join(str(t) for t in types)
        got = ", ".join(str(r.type) for r in node.results)
        _fail(graph, f"{node.op} gives ({want}), the graph says ({got})", position)


def _check_updates(graph: Graph) -> None:
    replaced: set[Value] = set()
    for old, new in graph.updates:
        if old not in graph.inputs or old in replaced:
            _fail(graph, "an update replaces what is no input, or one input twice")
        if old.type != new.type:
            _fail(graph, f"the update of {old.name} changes its type: {old.type} to {new.type}")
        replaced.add(old)


def _fail(graph: Graph, message: str, position: int | None = None) -> None:
    try:
        lines = print_graph(graph).splitlines()
    except KeyError:  # a use before its definition has no name to print
        ops = [f"  {n.op}" for n in graph.nodes]
        lines = [f"graph {graph.name}", *ops]
    at = 0 if position is None else position + 1
    around = "\n".join(lines[max(0, at - 4) : at + 4])
    raise VerifyError(f"in graph {graph.name}: {message}\n{around}")


def untrusted_graph(text: str, what: str, sizes: Mapping[str, int] | None = None) -> Graph:
    """The verified graph of a text from a file, which may be hostile.

    Args:
        what: what it should be, for messages.
        sizes: of a graph with open sizes: values that it serves, for which ops look at operands.

    Raises:
        ArtifactError: it is none; `what` says what should be one.
    """
    try:
        graph = parse_graph(text)
        symbols = {name: SymbolInfo(min(size, 1)) for name, size in (sizes or {}).items()}
        with deciding(Shapes(symbols, dict(sizes or {}))) if symbols else nullcontext():
            verify(graph)
    except Exception as e:  # whatever a parser meets in a file made to break it
        raise ArtifactError(f"{what} is malformed: {str(e)[:300]}") from e
    return graph
