"""Results of branches that are values from outside of them, and share their cotangents.

In `z = x if c else y` an eager run knows no value z, but x or y: what reads z contributes to the
cotangent of that one, in the order of everything that reads it. In the graph z is a result of a
`cond`, with a cotangent of its own, which would be added to that of x as one sum: other bits, where
both are read afterwards. So before a graph is differentiated each use of such a z reads an `alias`
of it instead, whose gradient goes to x if the run took the branch that gives x. Where the order
cannot matter (fewer than three contributions) nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import seedable
from ..ops.control import Alias, Cond, Recompute, Scan, While
from ..passes.base import copy_graph
from .conditional import IsPresent, as_flag

Alternatives = list[tuple[Value, Value]]
"""What a value may be at run time: (flag, other value) each; itself if no flag holds."""
_SEVERAL = 2
"""What a region counts for that reads a value: it may contribute more than once."""


def share_cotangents(graph: Graph) -> None:
    """Let the uses of values that may be others contribute to the cotangents of those.

    The graph is changed, the regions of its nodes are replaced by copies.
    """
    if _passes_through(graph):
        _Uses(graph, {}, set()).run()


def _passes_through(graph: Graph) -> bool:
    """Whether a `cond` in a graph may give a value that it reads, or one value twice."""
    return any(_passes_through(region) for node in graph.nodes for region in node.regions) or any(
        _candidates(node) for node in graph.nodes if node.op == Cond.name)


def _candidates(node: Node) -> list[Value]:
    """The results of a `cond` that may be what it reads, or one another."""
    return [r for r in node.results if seedable(r.type) and any(
        _is_name(region, region.outputs[r.index]) for region in node.regions)]


def _is_name(region: Graph, value: Value) -> bool:
    """Whether an output of a region may be something that has another name too."""
    return value.node is None or value.node.op in (Alias.name, Cond.name) \
        or region.outputs.count(value) > 1


def _captures(node: Node) -> int:
    """How many operands, the last ones, the regions of a node take as their last inputs."""
    return len(node.operands) if node.op == Recompute.name else lookup(node.op).captures(node)


class _Uses:
    """The uses of a graph's values, each with an alias of its own where that is called for.

    Args:
        graph: changed.
        known: inputs that may be others.
        before: inputs whose cotangents hold something before this graph contributes to them.
    """

    def __init__(
        self, graph: Graph, known: dict[Value, Alternatives], before: set[Value]
    ) -> None:
        self.graph, self.known, self.before = graph, known, before
        self.b = Builder(Graph(graph.name))
        self.flags: dict[tuple[Value, Value], IsPresent] = {}
        self.read: dict[Value, list[tuple[int, int]]] = {}
        for place, node in enumerate(graph.nodes):
            inner = _captures(node) if lookup(node.op).unrolled(node) else 0
            if all(r.dtype is dtypes.bool_ for r in node.results):
                continue
            for i, v in enumerate(node.operands):
                weight = _SEVERAL if i >= len(node.operands) - inner else 1
                self.read.setdefault(v, []).append((place, weight))
        for v in graph.outputs:
            self.read.setdefault(v, []).append((len(graph.nodes), 1))

    def run(self) -> None:
        """Rewrite the graph."""
        for place, node in enumerate(self.graph.nodes):
            self.b.span, self.b.scope = node.span, node.scope
            inner = 0
            if lookup(node.op).unrolled(node):
                inner = self.enter(node, place)
            own = len(node.operands) - inner
            shared = not inner and not lookup(node.op).has_gradient()
            node.operands[:own] = self.renamed(node.operands[:own], shared)
            self.b.graph.nodes.append(node)
            if node.op == Cond.name:
                self.learn(node, place)
        self.graph.outputs = self.renamed(self.graph.outputs)
        self.graph.nodes = self.b.graph.nodes

    # --- uses -----------------------------------------------------------------------------------

    def renamed(self, values: Sequence[Value], shared: bool = False) -> list[Value]:
        """Values as one node reads them: each gets its contribution in the order of operands.

        Args:
            shared: one that is read twice gets the sum.
        """
        related = {v for v in values if v in self.known}
        related |= {v for z in related for v in self.others(z)}
        if not related:
            return list(values)
        found: dict[Value, Value] = {}
        out = list(values)
        # A backward pass comes to the last node first.
        for i in reversed(range(len(out))):
            v = out[i]
            if v not in related:
                continue
            if not shared or v not in found:
                found[v] = self.alias(v) if v in self.known else self.b.after(v)
            out[i] = found[v]
        return out

    def alias(self, value: Value) -> Value:
        """A new name of a value that may be others."""
        pairs: list[Value] = []
        for flag, other in self.known[value]:
            pairs += [flag, self.alias(other) if other in self.known else other]
        out: Value = self.b.alias(value, *pairs)
        return out

    def others(self, value: Value) -> Iterator[Value]:
        """All values that one may be."""
        for _, other in self.known.get(value, ()):
            yield other
            yield from self.others(other)

    # --- regions --------------------------------------------------------------------------------

    def enter(self, node: Node, place: int) -> int:
        """Rewrite the regions of a node; how many of its operands they capture."""
        count = _captures(node)
        first = len(node.operands) - count
        captured = list(dict.fromkeys(v for v in node.operands[first:] if v in self.known))
        if not captured and not any(map(_passes_through, node.regions)):
            return count
        node.regions = tuple(map(copy_graph, node.regions))
        for v in [x for z in captured for x in (*self.others(z), *self.all_flags(z))]:
            if v not in node.operands[first:]:
                node.operands.append(v)
                for region in node.regions:
                    region.add_input(v.type, f"capture{len(region.inputs)}")
        outer = node.operands[first:]
        loop = node.op in (Scan.name, While.name)
        for region in node.regions[1:] if node.op == While.name else node.regions:
            pairs = list(zip(outer, region.inputs[len(region.inputs) - len(outer):], strict=True))
            inner = dict(reversed(pairs))  # (one that is captured twice is its first input)
            known = {v: [(inner[flag], inner[x]) for flag, x in self.known[z]]
                     for z, v in pairs if z in self.known}
            before = {v for z, v in pairs if loop or self.contributed(z, place)}
            _Uses(region, known, before).run()
        return len(outer)

    def all_flags(self, value: Value) -> Iterator[Value]:
        """The flags of a value and of those that it may be."""
        for flag, other in self.known.get(value, ()):
            yield flag
            yield from self.all_flags(other)

    def contributed(self, value: Value, place: int) -> bool:
        """Whether a backward pass finds a cotangent of a value when it comes to a node."""
        return value in self.before or value in self.known \
            or any(value in self.others(z) for z in self.known) \
            or any(at > place for at, _ in self.read.get(value, ()))

    # --- what results are -----------------------------------------------------------------------

    def learn(self, node: Node, place: int) -> None:
        """Note what the results of a `cond` may be: results before them, or operands."""
        for r in _candidates(node):
            pairs: Alternatives = []
            found: IsPresent = False
            for v in dict.fromkeys((*node.results[:r.index], *node.operands[1:])):
                if v.type != r.type or not self.matters(r, v, place):
                    continue
                flag = self.result_is(self.b, node, r.index, v)
                if flag is False or found is True:
                    continue
                flag = as_flag(self.b, flag)
                pairs.append((flag if found is False else _but(self.b, flag, found), v))
                found = _any_of(self.b, found, flag)
            if pairs:
                self.known[r] = pairs

    def matters(self, result: Value, other: Value, place: int) -> bool:
        """Whether both get contributions, and so many that their order shows."""
        mine = sum(weight for _, weight in self.read.get(result, ()))
        theirs = sum(weight for at, weight in self.read.get(other, ()) if at > place)
        theirs += other in self.before or other in self.known
        return mine > 0 and theirs > 0 and mine + theirs > 2

    def result_is(self, b: Builder, node: Node, index: int, other: Value) -> IsPresent:
        """Whether a result of a `cond` is an operand or another result of it, by a value behind
        it."""
        key = (node.results[index], other)
        if key not in self.flags:
            self.flags[key] = self.either(b, node, [
                self.output_is(node, region, index, other) for region in node.regions])
        return self.flags[key]

    def output_is(self, node: Node, region: Graph, index: int, other: Value) -> IsPresent:
        """As `result_is` in one of the branches, by a value at the end of that."""
        b = Builder(region)
        if other.node is node:
            return self.same(b, region.outputs[index], region.outputs[other.index])
        found: IsPresent = False
        for v, inside in zip(node.operands[1:], region.inputs, strict=True):
            if v is other:
                found = _any_of(b, found, self.same(b, region.outputs[index], inside))
        return found

    def either(self, b: Builder, node: Node, answers: Sequence[IsPresent]) -> IsPresent:
        """The answer of the branch that was taken."""
        yes, no = answers
        if isinstance(yes, bool) and isinstance(no, bool):
            if yes is no:
                return yes
            return node.operands[0] if yes else b.logical_not(node.operands[0])
        for region, answer in zip(node.regions, answers, strict=True):
            region.outputs.append(as_flag(Builder(region), answer))
        flag = Value(node.operands[0].type, node, len(node.results))
        node.results += (flag,)
        return flag

    def same(self, b: Builder, x: Value, y: Value) -> IsPresent:
        """Whether two values of a region are one, by a value at the region's end."""
        if x is y:
            return True
        if _place(b.graph, x) < _place(b.graph, y):
            x, y = y, x
        node = x.node
        if node is None:
            return False
        if node.op == Alias.name:
            return self.same(b, node.operands[0], y)
        if node.op != Cond.name:
            return False
        if y.node is node:
            return self.result_is(b, node, x.index, y)
        found: IsPresent = False
        for v in dict.fromkeys(node.operands[1:]):
            inside = self.same(b, v, y) if v.type == x.type else False
            if inside is not False:
                taken = self.result_is(b, node, x.index, v)
                found = _any_of(b, found, _all_of(b, inside, taken))
        return found


def _place(graph: Graph, value: Value) -> int:
    """Where a value of a graph is made; -1 for an input."""
    return -1 if value.node is None else graph.nodes.index(value.node)


def _but(b: Builder, x: Value, y: IsPresent) -> Value:
    """Whether the first holds and the second does not."""
    out: Value = b.logical_and(x, b.logical_not(as_flag(b, y)))
    return out


def _all_of(b: Builder, x: IsPresent, y: IsPresent) -> IsPresent:
    if x is False or y is False:
        return False
    if x is True or y is True:
        return y if x is True else x
    out: Value = b.logical_and(x, y)
    return out


def _any_of(b: Builder, x: IsPresent, y: IsPresent) -> IsPresent:
    if x is True or y is True:
        return True
    if x is False or y is False:
        return y if x is False else x
    out: Value = b.logical_or(x, y)
    return out
