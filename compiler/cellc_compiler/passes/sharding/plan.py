"""How the values of a graph lie on a mesh: what is not given follows from what is, by cost.

Wishes go first, forward from inputs and backward from results, through the factors that ops split
along (`ir/sharding.py`). Then each node, in order, is cut in the way that costs the least: to bring
its operands there, to add up partial results, to bring its results to what is wished, and to
compute its part. Last, sums of sums that are split are split as a whole (`sums.py`).
Source: Xu et al., GSPMD (2021); Zheng et al., Alpa (2022), for the costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise

from cellc_runtime.records import dataclass, field

from ...ir.graph import Builder, Graph, Node, Value
from ...ir.op import lookup
from ...ir.sharding import (
    Axes,
    Cuts,
    Factors,
    Layout,
    Mesh,
    Window,
    cuts_of,
    factors_of,
    layout_of,
    whole,
)
from ...ir.types import TensorType
from ...ops.collective import LayOut
from ..split import split_sum
from .halo import widening
from .redistribution import LATENCY, route
from .sums import summands

LAY_OUT = LayOut.name  # The op that says how a value is to lie
_WORK = 1 / 64  # The cost of an operation, in bytes that are sent


@dataclass(slots=True)
class Choice:
    """How a node is cut."""

    factors: Factors
    cuts: Cuts
    operands: tuple[Layout, ...]  # how its operands lie for it
    results: tuple[Layout, ...]  # how its results lie
    # the mesh axes along which ranks have parts of the sum that a result is
    partial: tuple[int, ...] = ()
    scattered: int = -1  # the axis of the result that these cut afterwards; -1: all get all of it

    @property
    def computed(self) -> tuple[Layout, ...]:
        """How results lie before a sum of parts is cut."""
        if self.scattered < 0:
            return self.results
        layout = list(self.results[0])
        layout[self.scattered] = layout[self.scattered][: -len(self.partial)]
        return (tuple(layout),)


@dataclass(slots=True)
class Plan:
    """How all values of a graph lie."""

    mesh: Mesh
    # of inputs and of the nodes' results
    layouts: dict[Value, Layout] = field(default_factory=dict)
    choices: dict[Node, Choice] = field(default_factory=dict)  # of the nodes
    cost: float = 0.0  # of a run, for one rank, in bytes that are sent


def splitting(node: Node) -> Factors:
    """Along what a node splits with the bits of the whole: a reduction only where the length of the
    other axes does not decide how it is cut into parts."""
    found = factors_of(node)
    if lookup(node.op).reduction is None:
        return found
    ty, axes = node.operands[0].type, found.operands[0]

    @cache
    def order(parts: frozenset[tuple[int, int]]) -> list[tuple[object, ...]]:
        return _order(node, ty.with_shape(found.local(axes, ty.dims, dict(parts))))

    def allowed(parts: Mapping[int, int]) -> bool:
        split = frozenset((f, n) for f, n in parts.items() if f in found.summed)
        return order(frozenset(parts.items())) == order(split)

    return Factors(found.sizes, found.operands, found.results, found.summed, found.combine, allowed,
                   found.windows)


def _order(node: Node, ty: TensorType) -> list[tuple[object, ...]]:
    """In which stages a reduction of such an operand is made, by their lengths."""
    b = Builder(Graph("order"))
    copy = b.node(node.op, [b.graph.add_input(ty, "x")], node.attrs)
    split_sum(b, copy)
    return [(n.op, tuple(n.operands[0].type.dims[a] for a in n.attrs["axes"]))
            for n in b.graph.nodes[1:] if n.op == node.op]


class Planner:
    """Makes plans of one graph.

    Args:
        graph: of core ops.
        given: how inputs, and what `lay_out` nodes give, are to lie.
        factors: along what the nodes split, where that is known.
    """

    def __init__(
        self, graph: Graph, mesh: Mesh, given: Mapping[Value, Layout],
        factors: dict[Node, Factors] | None = None,
    ) -> None:
        self.graph, self.mesh = graph, mesh
        self.factors = factors or {node: splitting(node) for node in graph.nodes}
        self.wishes: dict[Value, Layout] = dict(given)
        self.given = given
        self.summands = summands(graph, self.factors)
        # (Whether what is added is cut between ranks is seen when these sums are known.)
        self.added = dict.fromkeys(way[-1] for both in self.summands.values() for way in both)

    def plan(self) -> Plan:
        """Wishes, then choices."""
        for _ in range(2):
            self.forward()
            for old, new in self.graph.updates:
                self._wish(new, self.wishes.get(old))
            for node in reversed(self.graph.nodes):
                self._backward(node)
            for old, new in self.graph.updates:
                self._wish(old, self.wishes.get(new))
        out = Plan(self.mesh)
        for v in self.graph.inputs:
            out.layouts[v] = self.wishes.get(v, whole(v.type.rank))
        there = {v: [layout] for v, layout in out.layouts.items()}
        for node in self.graph.nodes:
            self._choose(out, node, there)
        self._add_parts_first(out)
        return out

    def forward(self) -> None:
        """Wishes for results from those for operands."""
        for node in self.graph.nodes:
            self._forward(node)

    def _wish(self, value: Value, layout: Layout | None) -> None:
        if layout is not None and value not in self.wishes and any(layout):
            self.wishes[value] = layout

    def _forward(self, node: Node) -> None:
        factors = self.factors[node]
        cuts: dict[int, tuple[int, ...]] = {}
        around = zip(node.operands, factors.operands, strict=True)
        for v, axes in sorted(around, key=lambda pair: -pair[0].type.nbytes):  # least to be moved
            cuts = self._merged(factors, cuts, axes, self.wishes.get(v))
        for r, axes in zip(node.results, factors.results, strict=True):
            self._wish(r, layout_of(self.mesh, factors, axes, cuts))

    def _backward(self, node: Node) -> None:
        factors = self.factors[node]
        cuts: dict[int, tuple[int, ...]] = {}
        for r, axes in zip(node.results, factors.results, strict=True):
            cuts = self._merged(factors, cuts, axes, self.wishes.get(r))
        for v, axes in zip(node.operands, factors.operands, strict=True):
            self._wish(v, layout_of(self.mesh, factors, axes, cuts))

    def _merged(
        self, factors: Factors, cuts: dict[int, tuple[int, ...]], axes: Axes, layout: Layout | None
    ) -> dict[int, tuple[int, ...]]:
        """Cuts, and those that follow from how one more value lies, where they are no others."""
        if layout is None:
            return cuts
        out, used = dict(cuts), {m for cut in cuts.values() for m in cut}
        for f, cut in cuts_of(self.mesh, factors, axes, layout).items():
            mine = out.get(f, ())
            more = cut[len(mine):]
            if cut[: len(mine)] == mine and more and used.isdisjoint(more):
                out[f] = cut
                used.update(more)
        return out

    # --- choices --------------------------------------------------------------------------------

    def _choose(self, out: Plan, node: Node, there: dict[Value, list[Layout]]) -> None:
        """Cut a node in the cheapest way."""
        if node.op == LAY_OUT:
            layout = self.given[node.result]
            best: tuple[float, Choice] | None = (
                self._brought(node, (layout,), there),
                Choice(self.factors[node], {}, (layout,), (layout,)))
        else:
            best = None
            for cuts in self._candidates(node, out):
                priced = self._priced(node, cuts, there)
                if priced is not None and (best is None or priced[0] < best[0]):
                    best = priced
        assert best is not None
        cost, choice = best
        out.cost += cost
        out.choices[node] = choice
        for v, layout in zip(node.operands, choice.operands, strict=True):
            if layout not in there[v]:
                there[v].append(layout)
        for r, layout in zip(node.results, choice.results, strict=True):
            out.layouts[r] = layout
            there[r] = [layout]

    def _candidates(self, node: Node, out: Plan) -> list[dict[int, tuple[int, ...]]]:
        """Cuts to look at: those of each value around, each completed by those of the others, and
        none."""
        factors = self.factors[node]
        around = [(axes, out.layouts[v])
                  for v, axes in zip(node.operands, factors.operands, strict=True)]
        around += [(axes, self.wishes[v])
                   for v, axes in zip(node.results, factors.results, strict=True)
                   if v in self.wishes]
        found: list[dict[int, tuple[int, ...]]] = [{}]
        for i in range(len(around)):
            cuts: dict[int, tuple[int, ...]] = {}
            for axes, layout in (*around[i:], *around[:i]):
                cuts = self._merged(factors, cuts, axes, layout)
                if cuts not in found:
                    found.append(cuts)
            cuts = {}
            for axes, layout in (around[i], *reversed(around)):
                cuts = self._merged(factors, cuts, axes, layout)
                if cuts not in found:
                    found.append(cuts)
        return found

    def _brought(
        self, node: Node, layouts: Sequence[Layout], there: Mapping[Value, list[Layout]]
    ) -> float:
        """Return the cost of bringing the operands to layouts."""
        return sum(min(route(self.mesh, v.type, has, wanted)[0] for has in there[v])
                   for v, wanted in zip(node.operands, layouts, strict=True))

    def _priced(
        self, node: Node, cuts: Cuts, there: Mapping[Value, list[Layout]]
    ) -> tuple[float, Choice] | None:
        """A way to cut a node, and what it costs; None: parts of a value are not in one piece, or
        bits would change."""
        factors, mesh = self.factors[node], self.mesh
        if not factors.may_cut_all(mesh, cuts):
            return None
        operands = self._layouts(factors, factors.operands, cuts)
        results = self._layouts(factors, factors.results, cuts)
        if operands is None or results is None:
            return None
        partial = tuple(sorted(m for f in factors.summed for m in cuts.get(f, ())))
        cost = self._brought(node, operands, there)
        cost += _widening(mesh, node, factors, operands)
        scattered = -1
        if partial:
            scattered = -1 if node in self.added else self._scattered(node, results[0], partial)
            cost += _summing(mesh, node, results[0], partial, scattered)
            if scattered >= 0:
                results = (self.wishes[node.result],)
        for r, layout in zip(node.results, results, strict=True):
            wished = self.wishes.get(r, layout)
            cost += route(mesh, r.type, layout, wished)[0]
        cost += _work(node) / mesh.parts(m for cut in cuts.values() for m in cut)
        return cost, Choice(factors, cuts, operands, results, partial, scattered)

    def _layouts(
        self, factors: Factors, values: Iterable[Axes], cuts: Cuts
    ) -> tuple[Layout, ...] | None:
        found = [layout_of(self.mesh, factors, axes, cuts) for axes in values]
        return None if None in found else tuple(f for f in found if f is not None)

    def _scattered(self, node: Node, layout: Layout, partial: tuple[int, ...]) -> int:
        """The axis that the ranks which have partial sums are wished to cut; -1: none."""
        wished = self.wishes.get(node.result)
        if wished is None or self.factors[node].combine != "sum":
            return -1
        differ = [a for a, (x, y) in enumerate(zip(layout, wished, strict=True)) if x != y]
        if len(differ) == 1 and wished[differ[0]] == (*layout[differ[0]], *partial):
            return differ[0]
        return -1

    # --- sums of sums ---------------------------------------------------------------------------

    def _add_parts_first(self, out: Plan) -> None:
        """Where the same ranks have parts of both operands of an addition, they add these, and what
        they give is added up once, in the order of the ranks."""
        for node, ways in self.summands.items():
            one, other = (out.choices[way[-1]] for way in ways)
            parts = one.partial
            first, second = (self._moved(out, way) for way in ways)
            if first is None or second is None or first[0] != second[0] or \
                    not parts or parts != other.partial:
                continue
            layout, factors = first[0], self.factors[node]
            out.choices.update((n, c) for _, moves in (first, second) for n, c in moves.items())
            out.choices[node] = Choice(
                factors, cuts_of(self.mesh, factors, factors.results[0], layout),
                (layout, layout), (layout,), parts)
            one.partial = other.partial = ()
            out.cost += _summing(self.mesh, node, layout, parts, -1) - sum(
                _summing(self.mesh, way[-1], out.choices[way[-1]].results[0], parts, -1)
                for way in ways)
        users, ends = self.graph.users(), set(self.graph.results())
        for node in dict.fromkeys((*self.summands, *self.added)):
            if out.choices[node].partial and node.result not in ends:
                self._scatter(out, node, users[node.result])
        for node, (one_way, other_way) in self.summands.items():
            for changed in (node, *one_way, *other_way):
                out.layouts[changed.result] = out.choices[changed].results[0]

    def _moved(self, out: Plan, way: Sequence[Node]) -> tuple[Layout, dict[Node, Choice]] | None:
        """How what the node at the end of a way makes lies at its beginning if it stays where it
        is, and how the nodes between are cut then; None: it cannot stay there."""
        layout, moves = out.choices[way[-1]].results[0], {}
        for made, node in pairwise(reversed(way)):
            factors, place = self.factors[node], node.operands.index(made.result)
            cuts = cuts_of(self.mesh, factors, factors.operands[place], layout)
            operands = self._layouts(factors, factors.operands, cuts)
            if node.op == LAY_OUT:
                after: Layout | None = self.given[node.result]
            else:
                after = layout_of(self.mesh, factors, factors.results[0], cuts)
            if operands is None or operands[place] != layout or after is None or \
                    (node.op == LAY_OUT and after != layout):
                return None
            moves[node] = Choice(factors, cuts, operands, (after,))
            layout = after
        return layout, moves

    def _scatter(self, out: Plan, node: Node, users: Sequence[Node]) -> None:
        """Cut the sum of parts where all that read it take what it is wished to be cut to."""
        own, v = out.choices[node], node.result
        axis = self._scattered(node, own.results[0], own.partial)
        read = {layout for u in users
                for w, layout in zip(u.operands, out.choices[u].operands, strict=True) if w is v}
        if axis >= 0 and read == {self.wishes[v]}:
            costs = [_summing(self.mesh, node, own.results[0], own.partial, n) for n in (-1, axis)]
            out.cost -= costs[0] - costs[1]
            own.results, own.scattered = (self.wishes[v],), axis


def _work(node: Node) -> float:
    """Return the cost of a node for one process."""
    op = lookup(node.op)
    moved = sum(v.type.nbytes for v in (*node.operands, *node.results))
    flops = op.flops(node) if op.flops is not None else 0
    return (moved + flops) * _WORK


def _widening(mesh: Mesh, node: Node, factors: Factors, operands: Sequence[Layout]) -> float:
    """Return the cost of fetching the rows that a part needs of other parts."""
    by_operand: dict[int, dict[int, Window]] = {}
    for (i, axis), window in factors.windows.items():
        by_operand.setdefault(i, {})[axis] = window
    return sum(widening(mesh, node.operands[i].type, operands[i], windows)
               for i, windows in by_operand.items())


def _summing(
    mesh: Mesh, node: Node, layout: Layout, partial: tuple[int, ...], scattered: int
) -> float:
    """Return the cost of adding up partial results with this layout."""
    parts, shares = mesh.parts(partial), 1 if scattered >= 0 else 2
    return LATENCY + shares * mesh.local(node.result.type, layout).nbytes * (parts - 1) / parts
