"""Which networks treat the rows of a batch each on their own, and which op prevents it.

A graph whose only open size is the first axis of its inputs is analysed at a batch of `PROBE`
rows, a prime that nothing else in it divides by. Each value gets a mark: the axis along which the
rows of the batch lie, or none if it does not depend on them. A rule per op says where the rows of
its result lie, as a batching rule does; an op without one ends the analysis. In a graph that
passes, row i of each output follows from row i of the inputs alone, so programs for a few batch
sizes serve all (`cellc_runtime/batched.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.batch_axis import PROBE, BatchAxis, Mark, NotBatchIndependent, batch_mixed, place_of
from ..ir.dims import Dim
from ..ir.graph import Graph, Node, Value
from ..ir.op import lookup
from .base import copy_graph
from .cleanup import Dce
from .complex_reductions import ComplexReductions
from .expand import Expand
from .instantiate import SizeError, graph_symbols, instantiate

OTHER = 37  # A second size, as small as that of a program, to see what else follows from the size
SIZES = (1, 2, 8, 32)


def batch_sizes(graph: Graph) -> tuple[int, ...]:
    """The batch sizes to compile a graph with one open size for, so that they serve all.

    Raises:
        NotBatchIndependent: that cannot be, with the reason.
    """
    (symbol,) = _symbols(graph)
    open_inputs = _open_inputs(graph, symbol)
    static = _expanded(graph, symbol, PROBE)
    if static.updates:
        raise NotBatchIndependent(
            f"the network writes {static.updates[0][0].name}, which all rows share")
    marks: dict[Value, Mark] = {
        v: BatchAxis(0) if i in open_inputs else None for i, v in enumerate(static.inputs)
    }
    _Analysis(marks).graph(static)
    _compare(static, _expanded(graph, symbol, OTHER))
    for i, v in enumerate(static.outputs):
        if marks[v] != BatchAxis(0) or v.type.shape[0] != PROBE:
            raise NotBatchIndependent(
                f"output {i} is {graph.outputs[i].type}: its first axis is not the batch")
    return SIZES


def _expanded(graph: Graph, symbol: str, rows: int) -> Graph:
    try:
        out = copy_graph(instantiate(graph, {symbol: rows}))
    except SizeError:  # of a size that nobody asked for
        raise NotBatchIndependent("its shapes fit some sizes of the batch only") from None
    for p in (Dce(), Expand(), ComplexReductions()):
        p.run(out)
    return out


def _compare(a: Graph, b: Graph) -> None:
    """Nothing but lengths along the batch may follow from its size: no element, no other length.

    Raises:
        NotBatchIndependent: something does.
    """
    if [n.op for n in a.nodes] != [n.op for n in b.nodes]:
        raise NotBatchIndependent("what the network computes depends on the size of the batch")
    for x, y in zip(a.nodes, b.nodes, strict=True):
        same = all(_scaled(p.type.dims, q.type.dims)
                   for p, q in zip(x.results, y.results, strict=True))
        if not same or not all(_scaled(v, y.attrs[k]) for k, v in x.attrs.items()):
            raise NotBatchIndependent(
                f"the op {x.op}{place_of(x)} depends on the size of the batch other than by its "
                "rows")
        for p, q in zip(x.regions, y.regions, strict=True):
            _compare(p, q)


def _scaled(a: object, b: object) -> bool:
    """Whether two attributes are equal but for the size of the batch as a factor."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_scaled, a, b))
    if type(a) is int and type(b) is int:
        return a == b or (a % PROBE == 0 and a // PROBE * OTHER == b)
    return type(a) is type(b) and a == b


def _symbols(graph: Graph) -> tuple[str, ...]:
    found = sorted(graph_symbols(graph))
    if len(found) != 1:
        raise NotBatchIndependent(
            f"{len(found)} sizes are open ({', '.join(found)}); one can be, the batch")
    return tuple(found)


def _open_inputs(graph: Graph, symbol: str) -> set[int]:
    out: set[int] = set()
    for i, v in enumerate(graph.inputs):
        if v.type.is_static:
            continue
        if v.type.shape[0] != Dim.symbol(symbol) or any(type(d) is Dim for d in v.type.shape[1:]):
            raise NotBatchIndependent(
                f"the input {v.name} is {v.type}: only its first axis may be open")
        out.add(i)
    return out


class _Analysis:
    """Marks the values of a graph and its loops."""

    def __init__(self, marks: dict[Value, Mark]) -> None:
        self.marks = marks

    def graph(self, graph: Graph) -> None:
        """Mark the results of all nodes.

        Raises:
            NotBatchIndependent: an op mixes rows, or has no rule.
        """
        for node in graph.nodes:
            if node.op == "scan":
                self.scan(node)
                continue
            mark = batch_axis_of(node, [self.marks[v] for v in node.operands])
            for r in node.results:
                self.set_mark(node, r, mark)

    def set_mark(self, node: Node, r: Value, mark: Mark) -> None:
        """Set the mark of a result; it must explain all of its length."""
        wide = [i for i, d in enumerate(r.type.dims) if d and d % PROBE == 0]
        if wide != ([] if mark is None else [mark.axis]):
            raise batch_mixed(node)
        self.marks[r] = mark

    def scan(self, node: Node) -> None:
        """A loop: what is carried keeps its mark from trip to trip."""
        n, k = node.attrs["carried"], node.attrs["sequences"]
        given = [self.marks[v] for v in node.operands]
        if any(m is not None and m.axis == 0 for m in given[n : n + k]) or node.attrs["limited"]:
            raise batch_mixed(node)
        body = node.regions[0]
        rows = [None if m is None else m.at(m.axis - 1) for m in given[n : n + k]]
        marks = [*given[:n], *rows, None, *given[n + k :]]
        inner = dict(zip(body.inputs, marks, strict=True))
        _Analysis(inner).graph(body)
        out = [inner[v] for v in body.outputs]
        if out[:n] != given[:n]:
            raise batch_mixed(node)
        stacked = [None if m is None else m.at(m.axis + 1) for m in out[n:]]
        for r, mark in zip(node.results, [*out[:n], *stacked], strict=True):
            self.set_mark(node, r, mark)


def batch_axis_of(node: Node, marks: Sequence[Mark]) -> Mark:
    """Where the rows of a node's results lie, from where those of its operands do.

    Raises:
        NotBatchIndependent: the op mixes rows.
    """
    rule = lookup(node.op).batch_axis
    if rule is None:
        raise batch_mixed(node)
    return rule(marks, node)
