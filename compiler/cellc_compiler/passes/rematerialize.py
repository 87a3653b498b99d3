"""Which values of a forward part are saved for the backward part, and which are recomputed.

The backward part of a graph is what follows from its `cotangent` nodes. Its reads of the forward
part are *saved*, alive from one to the other, and that is most of a training step's memory. Here
the forward part is cut into segments at places where few bytes cross, and in each segment a minimum
cut between what must not be computed again and what the backward part reads chooses what is saved,
at the price of its bytes; the rest is copied to where a cotangent first meets it. After Chen et
al., "Training Deep Nets with Sublinear Memory Cost" (2016), for the segments, and the partitioner
of PyTorch's AOTAutograd for the cut.

How much may be computed again is a number per segment, see `Level`. Copies do the same operations
on the same bits, so no result changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache

from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass, field

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import has_effect, lookup
from ..ops.control import After, Cotangent

with lazy_imports(__name__):  # loads with the first budget
    import networkx


class Level(IntEnum):
    """The work that may be recomputed: views and arithmetic; all elementwise work, draws included;
    also reductions and other kernels; also products and convolutions."""

    NOTHING = 0
    CHEAP = 1
    ELEMENTWISE = 2
    REDUCTIONS = 3
    ALL = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """How to recompute: the levels of segments of about equal size, in order."""

    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A forward value that the backward part needs."""

    value: Value
    nbytes: int  # of it; `flops` what computing it again costs (0 if it is kept)
    flops: int
    segment: int  # where it is computed


@dataclass(slots=True)
class Outcome:
    """The saved and the recomputed values."""

    # values that live from the forward to the backward part
    saved: list[Item] = field(default_factory=list)
    # values computed again; `estimate` guesses the peak of all
    recomputed: list[Item] = field(default_factory=list)
    estimate: int = 0

    @property
    def flops(self) -> int:
        """Of what is computed again."""
        return sum(item.flops for item in self.recomputed)


# --- what nodes cost ------------------------------------------------------------------------------

_EXPENSIVE = 16  # Operations of an element of exp, tanh or a draw


def contraction_flops(node: Node) -> int:
    """Operations of a product or convolution (a multiplication and an addition are two); else 0."""
    rule = lookup(node.op).flops
    return rule(node) if rule is not None else 0


def node_flops(node: Node) -> int:
    """About how many operations a node is."""
    exact = contraction_flops(node)
    if exact or _is_view(node):
        return exact
    size = sum(r.type.size for r in node.results)
    if lookup(node.op).value is not None:
        return size * (1 if lookup(node.op).cost == "cheap" else _EXPENSIVE)
    return max([size, *(v.type.size for v in node.operands)]) * 4


def node_level(node: Node) -> Level | None:
    """From which level on a node may be computed again (None: never)."""
    op = lookup(node.op)
    if node.regions or has_effect(node) or (
            op.value is None and op.reduction is None and not op.opaque):
        return None
    if op.value is not None:
        return Level.CHEAP if op.cost in ("free", "cheap") else Level.ELEMENTWISE
    return Level.ALL if op.cost == "heavy" else Level.REDUCTIONS


def _is_view(node: Node) -> bool:
    return lookup(node.op).cost == "free"


# --- forward and backward -------------------------------------------------------------------------


def backward_starts(graph: Graph) -> list[list[Node]]:
    """The groups of `cotangent` nodes that begin a gradient together, in order."""
    out: list[list[Node]] = []
    after: set[Value] = set()
    open_ = False
    for node in graph.nodes:
        if node.op == Cotangent.name:
            if not open_:
                out.append([])
                after.clear()
            open_ = True
            out[-1].append(node)
            after.update(node.results)
        elif open_ and not after.isdisjoint(node.operands):
            open_ = False
    return out


def graphs_with_gradients(graph: Graph) -> Iterator[Graph]:
    """The graph and those nested in it that compute gradients."""
    for node in graph.nodes:
        for region in node.regions:
            yield from graphs_with_gradients(region)
    if any(n.op == Cotangent.name for n in graph.nodes):
        yield graph


_SOURCE = 8
"""Nodes up to which what follows from inputs alone, element by element, is computed anywhere."""


_BEFORE = 16
"""Forward nodes before the first one that is read from which something may be computed again."""


class Part:
    """One graph seen from one start of a backward part: what is forward, what backward reads, and
    the segments."""

    def __init__(self, graph: Graph, start: Sequence[Node]) -> None:
        self.graph = graph
        # values that follow from the start; `readers`: backward nodes that read others, `read`
        self.backward = {r for n in start for r in n.results}
        for node in graph.nodes:
            if not self.backward.isdisjoint(node.operands):
                self.backward.update(node.results)
        self.stored = set(graph.results())
        first = graph.nodes.index(start[0])
        self.readers = [n for n in graph.nodes if self.is_backward(n)
                        and any(self._early(v) for v in n.operands)]
        self.read = {v for n in self.readers for v in n.operands if self._early(v)}
        # nodes that backward values follow from and that are not backward themselves
        self.feeding = self._feeding()
        self.forward = self._window([n for n in graph.nodes[:first] if n in self.feeding])
        self.others = [n for n in graph.nodes[first:] if n in self.feeding]
        self.sources = self._sources()
        self._where: dict[int, tuple[dict[Node, int], set[Value]]] = {}
        self._cuts: dict[tuple[int, int, Level], set[Value]] = {}

    def is_backward(self, node: Node) -> bool:
        """Whether a node is of the backward part."""
        return node.op != Cotangent.name and any(r in self.backward for r in node.results)

    def _early(self, v: Value) -> bool:
        return v not in self.backward and not self.given(v)

    def given(self, v: Value) -> bool:
        """Whether a value is there anyway: an input or a constant."""
        return v.node is None or v.node.is_constant

    def _feeding(self) -> set[Node]:
        found: set[Node] = set()
        stack = [v.node for v in self.read]
        while stack:
            node = stack.pop()
            if node is None or node in found or node.is_constant:
                continue
            found.add(node)
            stack.extend(v.node for v in node.operands)
        return found

    def _window(self, nodes: list[Node]) -> list[Node]:
        """The nodes from a little before the first one that is read: what is far before them,
        as another gradient, is as if it were given."""
        start = next((i for i, n in enumerate(nodes) if not self.read.isdisjoint(n.results)), 0)
        return nodes[max(start - _BEFORE, 0):]

    def _sources(self) -> dict[Value, int]:
        """Values that few elementwise nodes make of inputs alone, with their number."""
        out: dict[Value, int] = {}
        for node in (*self.forward, *self.others):
            level = node_level(node)
            if level is None or level > Level.ELEMENTWISE:
                continue
            if all(self.given(v) or v in out for v in node.operands):
                count = 1 + sum(out.get(v, 0) for v in node.operands)
                if count <= _SOURCE:
                    out.update((r, count) for r in node.results)
        return out

    # --- segments -------------------------------------------------------------------------------

    def segments(self, count: int) -> dict[Node, int]:
        """Forward nodes cut into about `count` runs where few bytes cross."""
        nodes = self.forward
        weights = [sum(r.type.nbytes for r in n.results) if not _is_view(n) else 0 for n in nodes]
        crossing = self._crossing(nodes)
        share = max(sum(weights) / max(count, 1), 1.0)
        where: dict[Node, int] = {}
        number, start = 0, 0
        while start < len(nodes):
            end = self._end(weights, crossing, start, share) if number < count - 1 else len(nodes)
            where.update((n, number) for n in nodes[start:end])
            start, number = end, number + 1
        for node in self.others:
            where[node] = max((where.get(v.node, 0) for v in node.operands
                               if v.node is not None), default=0)
        return where

    @staticmethod
    def _end(weights: Sequence[int], crossing: Sequence[int], start: int, share: float) -> int:
        """Where a segment ends: the narrowest place between half and one and a half shares."""
        total, best, score = 0, len(weights), math.inf
        for i in range(start, len(weights)):
            total += weights[i]
            if total > 1.5 * share and best < len(weights):
                break
            if total >= 0.5 * share and i + 1 < len(weights):
                found = crossing[i + 1] * (1 + 0.1 * abs(total - share) / share)
                if found < score:
                    best, score = i + 1, found
        return best

    def _crossing(self, nodes: Sequence[Node]) -> list[int]:
        """For each place before a node, the bytes made before it and read from there on."""
        position = {n: i for i, n in enumerate(nodes)}
        last: dict[Value, int] = {}
        for i, node in enumerate(nodes):
            for v in node.operands:
                last[v] = i
        steps = [0] * (len(nodes) + 2)
        for v, end in last.items():
            if v.node in position and v not in self.sources and not _is_view(v.node):
                steps[position[v.node] + 1] += v.type.nbytes
                steps[end + 1] -= v.type.nbytes
        for node in nodes:  # a view is what it shows
            if _is_view(node) and node.result in last and node.result not in self.sources:
                steps[position[node] + 1] += node.result.type.nbytes
                steps[last[node.result] + 1] -= node.result.type.nbytes
        out, running = [], 0
        for step in steps[: len(nodes) + 1]:
            running += step
            out.append(running)
        return out

    # --- the cut --------------------------------------------------------------------------------

    def _placed(self, count: int) -> tuple[dict[Node, int], set[Value]]:
        """The segments, and values that a later one reads: not computed again, but for sources."""
        found = self._where.get(count)
        if found is None:
            where = self.segments(count)
            crossing = {v for node, number in where.items() for v in node.operands
                        if v.node in where and where[v.node] < number and v not in self.sources}
            found = self._where[count] = where, crossing
        return found

    def keep(self, choice: Choice) -> tuple[dict[Node, int], set[Value]]:
        """The segments, and the values to keep."""
        count = len(choice.levels)
        where, crossing = self._placed(count)
        members: dict[int, list[Node]] = {}
        for node, number in where.items():
            members.setdefault(number, []).append(node)
        saved: set[Value] = set()
        for number, nodes in members.items():
            key = count, number, choice.levels[number]
            if key not in self._cuts:
                self._cuts[key] = self._cut(nodes, choice.levels[number], crossing)
            saved |= self._cuts[key]
        return where, saved

    def _cut(self, nodes: Sequence[Node], level: Level, crossing: set[Value]) -> set[Value]:
        """The values to keep so that all the backward part reads of these nodes can be had."""
        own = {r for n in nodes for r in n.results}
        number: dict[Value, int] = {}
        edges: list[_Edge] = []

        def value(v: Value, banned: bool) -> None:
            at = 2 * number.setdefault(v, len(number) + 1)
            nbytes: int | None = 0 if v in self.stored else v.type.nbytes
            if v.node is not None and v.node.operands and not banned and _is_view(v.node) \
                    and v.type.nbytes >= v.node.operands[0].type.nbytes and nbytes:
                nbytes = None  # what it shows is kept, or nothing
            edges.append((at, at + 1, nbytes))
            if banned:
                edges.append((_SOURCE_END, at, None))

        for node in nodes:
            least = node_level(node)
            fixed = least is None or least > level
            for r in node.results:
                value(r, fixed or r in crossing)
                if r in self.read:
                    edges.append((2 * number[r] + 1, _SINK_END, None))
            for o in () if fixed else node.operands:
                if self.given(o) or (o not in own and o in self.sources):
                    continue
                if o not in number:
                    value(o, True)
                edges.extend((2 * number[o] + 1, 2 * number[r], None) for r in node.results)
        chosen = _minimum_cut(tuple(edges))
        return {v for v, i in number.items() if i in chosen}

    # --- the copies -----------------------------------------------------------------------------

    def rewrite(self, choice: Choice) -> Outcome:
        """Let the backward part read copies of what is not kept."""
        copier = _Copier(self, *self.keep(choice))
        for node in self.graph.nodes:
            node.operands = copier.take(node)
        self.graph.nodes[:] = copier.graph.nodes
        return copier.outcome(choice)

    def predict(self, choice: Choice) -> Outcome:
        """Return the outcome of `rewrite` without running it."""
        copier = _Copier(self, *self.keep(choice))
        for node in self.readers:
            copier.take(node)
        return copier.outcome(choice)


_Edge = tuple[int, int, int | None]
_SOURCE_END, _SINK_END = 0, 1


@lru_cache(maxsize=1024)
def _minimum_cut(edges: tuple[_Edge, ...]) -> frozenset[int]:
    """The values i whose edge from 2i to 2i + 1 is cut. (Equal layers ask for equal cuts.)

    Args:
        edges: from, to, and the price of cutting it; None if it must not be.
    """
    net = networkx.DiGraph()
    net.add_nodes_from((_SOURCE_END, _SINK_END))
    for a, b, price in edges:
        if price is None:
            net.add_edge(a, b)
        else:
            net.add_edge(a, b, capacity=price)
    _, (reached, _) = networkx.minimum_cut(
        net, _SOURCE_END, _SINK_END, flow_func=networkx.algorithms.flow.boykov_kolmogorov)
    return frozenset(a // 2 for a, b, _ in edges if a % 2 == 0 and b == a + 1
                     and a in reached and b not in reached)


class _Copier:
    """Walks the nodes of a graph and puts copies before the backward nodes that need them."""

    def __init__(self, part: Part, where: Mapping[Node, int], saved: set[Value]) -> None:
        self.part = part
        self.where = where
        self.saved = saved
        self.graph = Graph("again")
        self.b = Builder(self.graph)
        self.copies: dict[tuple[int, Value], Value] = {}
        self.used: dict[Value, None] = {}
        self.recomputed: dict[Node, None] = {}

    def take(self, node: Node) -> list[Value]:
        """Append the next node after the copies it needs; its operands among these."""
        part, operands = self.part, node.operands
        if part.is_backward(node):
            early = [v for v in node.operands if v not in part.backward and not part.given(v)]
            missing = [v for v in early if v not in self.saved]
            self.used.update((v, None) for v in early if v in self.saved)
            others = [v for v in dict.fromkeys(node.operands) if v in part.backward]
            segment = max((self._segment(v) for v in missing), default=0)
            made = {v: self._recompute(v, segment, others) for v in missing}
            operands = [made.get(v, v) for v in operands]
        self.graph.nodes.append(node)
        return operands

    def _segment(self, v: Value) -> int:
        return self.where.get(v.node, 0) if v.node is not None else 0

    def _recompute(self, value: Value, segment: int, others: Sequence[Value]) -> Value:
        """A value, computed again once `others` are known."""
        stack = [value]
        while stack:  # (chains may be long)
            v = stack[-1]
            if (segment, v) in self.copies:
                stack.pop()
                continue
            if v in self.saved or self.part.given(v):
                self.used[v] = None
                self.copies[segment, v] = v if v.type.size <= 1 else self.b.after(v, *others)
                stack.pop()
                continue
            assert v.node is not None
            missing = [o for o in v.node.operands if not self.part.given(o)
                       and (segment, o) not in self.copies]
            if v.node.op == After.name:
                missing = missing[:1]
            if missing:
                stack.extend(missing)
                continue
            self._copy(v.node, segment, others)
            stack.pop()
        return self.copies[segment, value]

    def _copy(self, node: Node, segment: int, others: Sequence[Value]) -> None:
        """A node on copies of its operands, at least one of which is a copy."""
        if node.op == After.name:
            self.copies[segment, node.result] = self.copies.get(
                (segment, node.operands[0]), node.operands[0])
            return
        operands = [self.copies.get((segment, v), v) for v in node.operands]
        self.recomputed[node] = None
        with self.b.at(span=node.span, scope=node.scope):
            if operands and all(map(self.part.given, operands)):
                operands[0] = self.b.after(operands[0], *others)
        copy = node.clone(operands)
        self.graph.nodes.append(copy)
        for old, new in zip(node.results, copy.results, strict=True):
            self.copies[segment, old] = new

    def outcome(self, choice: Choice) -> Outcome:
        """Return the outcome, with an estimate of its memory."""
        part, out = self.part, Outcome()
        for v in self.used:
            if not part.given(v):
                nbytes = 0 if v in part.stored else v.type.nbytes
                out.saved.append(Item(v, nbytes, 0, self._segment(v)))
        for node in self.recomputed:
            flops = node_flops(node)
            out.recomputed.extend(Item(r, r.type.nbytes, flops if r.index == 0 else 0,
                                  self.where.get(node, 0)) for r in node.results)
        held = [0] * (len(choice.levels) + 1)
        for item in out.saved:
            held[item.segment] += item.nbytes
        live = [0] * len(held)
        for item in out.recomputed:
            if item.value in part.read or item.flops >= item.nbytes * _EXPENSIVE:
                live[item.segment] += item.nbytes
        total = 0
        for h, some in zip(held, live, strict=True):
            total += h
            out.estimate = max(out.estimate, total + some)
        return out


def rematerialize(graph: Graph, choice: Choice) -> Outcome:
    """Recompute as chosen, in a graph after the passes that still has its cotangents (in place)."""
    whole = Outcome()
    for one in graphs_with_gradients(graph):
        for number in range(len(backward_starts(one))):
            found = Part(one, backward_starts(one)[number]).rewrite(choice)
            whole.saved += found.saved
            whole.recomputed += found.recomputed
            whole.estimate = max(whole.estimate, found.estimate)
    return whole


def as_it_is(graph: Graph) -> Outcome:
    """Return the reads of the backward part if nothing is recomputed."""
    out = Outcome()
    for one in graphs_with_gradients(graph):
        for start in backward_starts(one):
            part = Part(one, start)
            out.saved += [Item(v, 0 if v in part.stored else v.type.nbytes, 0, 0)
                         for v in dict.fromkeys(v for n in part.readers for v in n.operands)
                         if v in part.read]
    return out


def choices(parts: Sequence[Part]) -> list[Choice]:
    """Ways to recompute that are worth a look, for the size of what is forward."""
    size = max((len(p.forward) for p in parts), default=0)
    if not size:
        return []
    plain = max(1, size // _PIECE)
    out: dict[Choice, None] = {}
    for level in (Level.CHEAP, Level.ELEMENTWISE, Level.REDUCTIONS):
        out[Choice((level,) * plain)] = None
    for count in _SEGMENTS:
        if count * 4 > size:
            break
        for share in (0.25, 0.5, 0.75, 1.0):
            full = max(1, round(share * (count - 1)))
            out[Choice((Level.ALL,) * full + (Level.ELEMENTWISE,) * (count - full))] = None
    return list(out)


_PIECE = 200
"""Forward nodes of a segment where only light work is done again: a cut is found quickly."""
_SEGMENTS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)


def worth_trying(graph: Graph, most: int) -> list[tuple[Choice, Outcome]]:
    """The choices that no other one beats in both estimated memory and work, least work first."""
    parts = [Part(g, t) for g in graphs_with_gradients(graph) for t in backward_starts(g)]
    found: list[tuple[Choice, Outcome]] = []
    for choice in choices(parts):
        outcomes = [part.predict(choice) for part in parts]
        found.append((choice, Outcome(
            [i for o in outcomes for i in o.saved], [i for o in outcomes for i in o.recomputed],
            max(o.estimate for o in outcomes))))
    found.sort(key=lambda f: (f[1].flops, f[1].estimate))
    front: list[tuple[Choice, Outcome]] = []
    for choice, outcome in found:
        if not front or outcome.estimate < 0.95 * front[-1][1].estimate:
            front.append((choice, outcome))
    if len(front) > most:
        step = (len(front) - 1) / (most - 1)
        front = [front[round(i * step)] for i in range(most)]
    return front
