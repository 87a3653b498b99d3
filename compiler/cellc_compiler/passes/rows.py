"""Which networks treat the rows of a batch each on their own, and which op prevents it.

A graph whose only open size is the first axis of its inputs is analysed at a batch of `PROBE`
rows, a prime that nothing else in it divides by. Each value gets a mark: the axis along which the
rows of the batch lie, or none if it does not depend on them. A rule per op says where the rows of
its result lie, as a batching rule does; an op without one ends the analysis. In a graph that
passes, row i of each output follows from row i of the inputs alone, so programs for a few batch
sizes serve all (`cellc_runtime/batched.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cellc_runtime.records import dataclass

from ..ir.dims import Dim
from ..ir.graph import Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import normalize_axis, prod
from .base import copy_graph
from .cleanup import Dce
from .complexes import ComplexSums
from .expand import Expand
from .instantiate import graph_symbols, instantiate
from .split import BLOCK

PROBE = 10007
OTHER = 37
"""A second size, as small as that of a program, to see what else follows from the size."""
SMALL = 8
"""Rows from which on a reduction is never cut into parallel parts (`passes/split.py`)."""
SIZES = (1, 2, 8, 32)


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of the batch lie: along `axis`, the whole batch `outer` times in a row.

    (An axis of T * N elements, row n of step t at t * N + n, has `outer` T.)
    """

    axis: int
    outer: int = 1

    def at(self, axis: int) -> Rows:
        """The same along another axis."""
        return Rows(axis, self.outer)


Mark = Rows | None
Rule = Callable[[Sequence[Mark], Node], Mark]
_APART = frozenset({
    "eye", "random_bernoulli", "random_bits", "random_exponential", "random_int", "random_normal",
    "random_truncated_normal", "random_uniform", "diag_embed", "diagonal", "dynamic_slice",
    "dynamic_update_slice", "bitcast", "measure",
})
"""Ops of one element at a time that are not one element of the operands at the same place."""


class NotByRows(ValueError):
    """A graph that does not treat rows each on their own: the op that prevents it, and where."""


def batch_sizes(graph: Graph) -> tuple[int, ...]:
    """The batch sizes to compile a graph with one open size for, so that they serve all.

    Raises:
        NotByRows: that cannot be, with the reason.
    """
    (symbol,) = _symbols(graph)
    open_inputs = _open_inputs(graph, symbol)
    static = _expanded(graph, symbol, PROBE)
    if static.updates:
        raise NotByRows(f"the network writes {static.updates[0][0].name}, which all rows share")
    marks: dict[Value, Mark] = {
        v: Rows(0) if i in open_inputs else None for i, v in enumerate(static.inputs)
    }
    analysis = _Analysis(marks)
    analysis.graph(static)
    _compare(static, _expanded(graph, symbol, OTHER))
    for i, v in enumerate(static.outputs):
        if marks[v] != Rows(0) or v.type.shape[0] != PROBE:
            raise NotByRows(
                f"output {i} is {graph.outputs[i].type}: its first axis is not the batch")
    # A long reduction over few rows is cut in parts: then a small batch keeps its own program.
    return tuple(range(1, SMALL + 1)) + SIZES[3:] if analysis.long else SIZES


def _expanded(graph: Graph, symbol: str, rows: int) -> Graph:
    out = copy_graph(instantiate(graph, {symbol: rows}))
    for p in (Dce(), Expand(), ComplexSums()):
        p.run(out)
    return out


def _compare(a: Graph, b: Graph) -> None:
    """Nothing but lengths along the batch may follow from its size: no element, no other length.

    Raises:
        NotByRows: something does.
    """
    if [n.op for n in a.nodes] != [n.op for n in b.nodes]:
        raise NotByRows("what the network computes depends on the size of the batch")
    for x, y in zip(a.nodes, b.nodes, strict=True):
        same = all(_scaled(p.type.dims, q.type.dims)
                   for p, q in zip(x.results, y.results, strict=True))
        if not same or not all(_scaled(v, y.attrs[k]) for k, v in x.attrs.items()):
            raise NotByRows(
                f"the op {x.op}{_place(x)} depends on the size of the batch other than by its rows")
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
        raise NotByRows(f"{len(found)} sizes are open ({', '.join(found)}); one can be, the batch")
    return tuple(found)


def _open_inputs(graph: Graph, symbol: str) -> set[int]:
    out: set[int] = set()
    for i, v in enumerate(graph.inputs):
        if v.type.is_static:
            continue
        if v.type.shape[0] != Dim.symbol(symbol) or any(type(d) is Dim for d in v.type.shape[1:]):
            raise NotByRows(f"the input {v.name} is {v.type}: only its first axis may be open")
        out.add(i)
    return out


class _Analysis:
    """Marks the values of a graph and its loops."""

    def __init__(self, marks: dict[Value, Mark]) -> None:
        self.marks = marks
        self.long = False

    def graph(self, graph: Graph) -> None:
        """Mark the results of all nodes.

        Raises:
            NotByRows: an op mixes rows, or has no rule.
        """
        for node in graph.nodes:
            if node.op == "scan":
                self.scan(node)
                continue
            if node.op == "check":
                continue
            mark = self.rule(node)([self.marks[v] for v in node.operands], node)
            for r in node.results:
                self.settle(node, r, mark)

    def settle(self, node: Node, r: Value, mark: Mark) -> None:
        """Set the mark of a result; it must explain all of its length."""
        wide = [i for i, d in enumerate(r.type.dims) if d and d % PROBE == 0]
        if wide != ([] if mark is None else [mark.axis]):
            raise _mixed(node)
        self.marks[r] = mark

    def rule(self, node: Node) -> Rule:
        """Where the rows of a node's results lie."""
        op = lookup(node.op)
        if op.reduction is not None and node.op not in _RULES:
            spec = op.reduction(node)
            inner = prod(spec.shape[i] for i in spec.axes)
            self.long |= inner * 16 >= 4 * BLOCK
        return row_rule(node)

    def scan(self, node: Node) -> None:
        """A loop: what is carried keeps its mark from trip to trip."""
        n, k = node.attrs["carried"], node.attrs["sequences"]
        given = [self.marks[v] for v in node.operands]
        if any(m is not None and m.axis == 0 for m in given[n : n + k]) or node.attrs["limited"]:
            raise _mixed(node)
        body = node.regions[0]
        rows = [None if m is None else m.at(m.axis - 1) for m in given[n : n + k]]
        marks = [*given[:n], *rows, None, *given[n + k :]]
        inner = dict(zip(body.inputs, marks, strict=True))
        loop = _Analysis(inner)
        loop.graph(body)
        self.long |= loop.long
        out = [inner[v] for v in body.outputs]
        if out[:n] != given[:n]:
            raise _mixed(node)
        stacked = [None if m is None else m.at(m.axis + 1) for m in out[n:]]
        for r, mark in zip(node.results, [*out[:n], *stacked], strict=True):
            self.settle(node, r, mark)


def row_rule(node: Node) -> Rule:
    """The rule that says where the rows of a node's results lie.

    Raises:
        NotByRows: there is none (or, when it is asked: the op mixes rows).
    """
    op = lookup(node.op)
    found = _RULES.get(node.op)
    if found is not None:
        return found
    if op.reduction is not None:
        return _reduced
    if op.value is not None and node.op not in _APART and not op.effect:
        return _elementwise
    raise _mixed(node)


def _place(node: Node) -> str:
    return f" at {node.span.file}:{node.span.line}" if node.span.line else ""


def _mixed(node: Node) -> NotByRows:
    return NotByRows(
        f"the op {node.op}{_place(node)} does not treat the rows of the batch one by one")


def _one(marks: Sequence[Mark], node: Node) -> Mark:
    """The mark that all marks that are there agree on."""
    found = {m for m in marks if m is not None}
    if len(found) > 1:
        raise _mixed(node)
    return found.pop() if found else None


def _elementwise(marks: Sequence[Mark], node: Node) -> Mark:
    rank = node.results[0].type.rank
    return _one([None if m is None else m.at(m.axis + rank - v.type.rank)
                 for m, v in zip(marks, node.operands, strict=True)], node)


def _reduced(marks: Sequence[Mark], node: Node) -> Mark:
    (mark,) = marks
    rank = node.operands[0].type.rank
    axes = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
    gone = {normalize_axis(a, rank) for a in axes}
    if mark is None:
        return None
    if mark.axis in gone:
        raise _mixed(node)
    keep = node.attrs.get("keepdims")
    return mark if keep else mark.at(mark.axis - sum(a < mark.axis for a in gone))


def _broadcast(marks: Sequence[Mark], node: Node) -> Mark:
    mark = _elementwise(marks, node)
    if mark is not None:
        return mark
    wide = [i for i, d in enumerate(node.result.type.dims) if d and d % PROBE == 0]
    return Rows(wide[0]) if len(wide) == 1 else None  # the same for every row


def _iota(marks: Sequence[Mark], node: Node) -> Mark:
    mark = _broadcast(marks, node)
    if mark is not None and mark.axis == normalize_axis(
        node.attrs["axis"], node.result.type.rank
    ):
        raise _mixed(node)
    return mark


def _reshape(marks: Sequence[Mark], node: Node) -> Mark:
    (mark,) = marks
    if mark is None:
        return None
    ahead = prod(node.operands[0].type.dims[: mark.axis]) * mark.outer
    after = node.result.type.dims
    for i, d in enumerate(after):
        if d % PROBE == 0:
            outer, rest = divmod(ahead, prod(after[:i]))
            if not rest and d % (outer * PROBE) == 0:
                return Rows(i, outer)
    raise _mixed(node)


def _transpose(marks: Sequence[Mark], node: Node) -> Mark:
    (mark,) = marks
    return None if mark is None else mark.at(node.attrs["perm"].index(mark.axis))


def _keeps(*names: str) -> Rule:
    """Elementwise along all axes but those the attributes name."""

    def rule(marks: Sequence[Mark], node: Node) -> Mark:
        mark = _one(marks, node)
        rank = node.operands[0].type.rank
        for name in names:
            value = node.attrs[name]
            axes = value if isinstance(value, tuple) else (value,)
            if mark is not None and mark.axis in {normalize_axis(a, rank) for a in axes}:
                raise _mixed(node)
        return mark

    return rule


def _not_last(count: int) -> Rule:
    """Along all axes but the last ones, all operands alike."""

    def rule(marks: Sequence[Mark], node: Node) -> Mark:
        mark = _one(marks, node)
        if mark is not None and mark.axis >= node.operands[0].type.rank - count:
            raise _mixed(node)
        return mark

    return rule


def _slice(marks: Sequence[Mark], node: Node) -> Mark:
    (mark,) = marks
    if mark is not None:
        step = node.attrs["step"]
        whole = (node.attrs["start"][mark.axis], node.attrs["stop"][mark.axis],
                 1 if step is None else step[mark.axis])
        if whole != (0, node.operands[0].type.dims[mark.axis], 1):
            raise _mixed(node)
    return mark


def _pad(marks: Sequence[Mark], node: Node) -> Mark:
    (mark,) = marks
    inside = node.attrs.get("interior")
    if mark is not None and (node.attrs["low"][mark.axis] or node.attrs["high"][mark.axis]
                             or (inside and inside[mark.axis])):
        raise _mixed(node)
    return mark


def _update_slice(marks: Sequence[Mark], node: Node) -> Mark:
    mark = _one(marks, node)
    if mark is not None and (None in marks or node.attrs["start"][mark.axis]):
        raise _mixed(node)
    return mark


def _one_hot(marks: Sequence[Mark], node: Node) -> Mark:
    mark = marks[0]
    if mark is None:
        return None
    axis = normalize_axis(node.attrs.get("axis", -1), node.result.type.rank)
    return mark.at(mark.axis + (mark.axis >= axis))


def _gather(marks: Sequence[Mark], node: Node) -> Mark:
    x, index = marks
    rank, shared = node.operands[0].type.rank, node.attrs["batch_dims"]
    axis = normalize_axis(node.attrs["axis"], rank)
    if x is None and index is None:
        return None
    if x is None and index is not None and index.axis >= shared:
        return index.at(axis + index.axis - shared)
    if x is not None and x == index and x.axis < shared:
        return x
    if x is not None and index is None and x.axis != axis and not shared:
        return x if x.axis < axis else x.at(x.axis + node.operands[1].type.rank - 1)
    raise _mixed(node)


def _gather_nd(marks: Sequence[Mark], node: Node) -> Mark:
    x, index = marks
    if x is not None or (index is not None and index.axis == node.operands[1].type.rank - 1):
        raise _mixed(node)
    return index


def _matmul(marks: Sequence[Mark], node: Node) -> Mark:
    rank = node.result.type.rank
    places: list[Mark] = []
    for which, (mark, v) in enumerate(zip(marks, node.operands, strict=True)):
        own = v.type.rank
        if mark is None:
            places.append(None)
        elif mark.axis < own - 2:
            places.append(mark.at(mark.axis + rank - own))
        else:
            flipped = node.attrs["transpose_b" if which else "transpose_a"]
            row = (mark.axis == own - 2) != flipped  # the first of the two axes as it is multiplied
            if row == bool(which):
                raise _mixed(node)  # the axis that is summed
            places.append(mark.at(rank - 1 if which else rank - 2))
    mark = _one(places, node)
    if None not in marks and mark is not None and mark.axis >= rank - 2:
        raise _mixed(node)
    return mark


def _image(marks: Sequence[Mark], node: Node) -> Mark:
    """Batches of images by weights that all share."""
    if marks[0] is None and not any(m is not None for m in marks):
        return None
    if marks[0] != Rows(0) or any(m is not None for m in marks[1:]):
        raise _mixed(node)
    return Rows(0)


_RULES: Mapping[str, Rule] = {
    "constant": lambda marks, node: None,
    "broadcast_to": _broadcast,
    "iota": _iota,
    "after": lambda marks, node: marks[0], "reshape": _reshape,
    "transpose": _transpose,
    "flip": _keeps("axes"),
    "join": _keeps("axis"),
    "join_copy": _keeps("axis"),
    "concat": _keeps("axis"),
    "cumsum": _keeps("axis"),
    "cumprod": _keeps("axis"),
    "logcumsumexp": _keeps("axis"),
    "cummax": _keeps("axis"),
    "cummin": _keeps("axis"),
    "gather_elements": _keeps("axis"),
    "sort_lines": _not_last(1),
    "tril": _not_last(2),
    "triu": _not_last(2),
    "slice": _slice,
    "pad": _pad,
    "update_slice": _update_slice,
    "one_hot": _one_hot,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "matmul": _matmul,
    "conv2d": _image,
    "max_pool2d": _image,
    "avg_pool2d": _image,
    "adaptive_avg_pool2d": _image,
    "adaptive_max_pool2d": _image,
}
