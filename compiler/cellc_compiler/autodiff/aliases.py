"""Results of branches that are values from outside of them, and share their cotangents.

In `z = x if c else y` an eager run knows no value z, but x or y: what reads z contributes to the
cotangent of that one, in the order of everything that reads it. In the graph z is a result of a
`cond`, with a cotangent of its own, which would be added to that of x as one sum: other bits, where
both are read afterwards. So before a graph is differentiated each use of such a z reads an `alias`
of it instead, whose gradient goes to x if the run took the branch that gives x. Where the order
cannot matter (fewer than three contributions) nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from cellc_runtime import dtypes

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import lookup
from ..ir.types import seedable
from ..ops.control import Recompute, While
from ..passes.base import copy_graph
from .conditional import IsPresent, as_flag
from .identity import Identities, Loop, any_of, but, is_loop, may_be_others

Alternatives = list[tuple[Value, Value]]
"""The alternatives of a value at run time: (flag, other value) each; itself if no flag holds."""
_SEVERAL = 2  # The weight of a region that reads a value: it may contribute more than once


def share_cotangents(graph: Graph) -> None:
    """Let the uses of values that may be others contribute to the cotangents of those.

    The graph is changed, the regions of its nodes are replaced by copies.
    """
    if _passes_through(graph):
        for node in graph.nodes:
            node.regions = tuple(map(copy_graph, node.regions))
        _Uses(graph, {}, set(), Identities()).run()


def _passes_through(graph: Graph) -> bool:
    """Whether something in a graph may give a value that it reads, or one value twice."""
    return any(may_be_others(node) or any(map(_passes_through, node.regions))
               for node in graph.nodes if node.regions)


def _captures(node: Node) -> int:
    """How many operands, the last ones, the regions of a node take as their last inputs."""
    return len(node.operands) if node.op == Recompute.name else lookup(node.op).captures(node)


def _walked(node: Node) -> int:
    """How many operands, the last ones, get the contributions of regions one by one: what those
    capture, and what enters a `while`, the first step of which is walked by itself."""
    if not lookup(node.op).unrolled(node):
        return 0
    return len(node.operands) if node.op == While.name else _captures(node)


class _Uses:
    """The uses of a graph's values, each with an alias of its own where that is called for.

    Args:
        graph: changed.
        known: inputs that may be others.
        before: inputs whose cotangents hold something before this graph contributes to them.
        identities: which values are one.
    """

    def __init__(
        self, graph: Graph, known: dict[Value, Alternatives], before: set[Value],
        identities: Identities,
    ) -> None:
        self.graph, self.known, self.before = graph, known, before
        self.identities = identities
        self.b = Builder(graph)
        self.read: dict[Value, list[tuple[int, int]]] = {}
        for place, node in enumerate(graph.nodes):
            inner = _walked(node)
            if all(r.dtype is dtypes.bool_ for r in node.results):
                continue
            for i, v in enumerate(node.operands):
                weight = _SEVERAL if i >= len(node.operands) - inner else 1
                self.read.setdefault(v, []).append((place, weight))
        for v in graph.outputs:
            self.read.setdefault(v, []).append((len(graph.nodes), 1))

    def run(self, loop: Loop | None = None) -> None:
        """Rewrite the graph, which may be the body of a loop."""
        nodes, self.graph.nodes = self.graph.nodes, []
        if loop is not None:
            self.learn_carried(loop)
        for place, node in enumerate(nodes):
            self.b.span, self.b.scope = node.span, node.scope
            if lookup(node.op).unrolled(node):
                self.enter(node, place)
            inner = _walked(node)
            own = len(node.operands) - inner
            shared = not inner and not lookup(node.op).has_gradient()
            node.operands[:own] = self.renamed(node.operands[:own], shared)
            self.graph.nodes.append(node)
            self.learn(node, place)
        self.graph.outputs = self.renamed(self.graph.outputs)

    # --- uses -----------------------------------------------------------------------------------

    def renamed(self, values: Sequence[Value], shared: bool = False) -> list[Value]:
        """Values as one node reads them: each gets its contribution in the order of operands.
        `shared`: one that is read twice gets the sum."""
        related = {v for v in values if v in self.known}
        related |= {v for z in related for v in self.others(z)}
        if not related:
            return list(values)
        found: dict[Value, Value] = {}
        out = list(values)
        # A backward pass reaches the last node first.
        for i in reversed(range(len(out))):
            v = out[i]
            if v not in related:
                continue
            if not shared or v not in found:
                found[v] = self.alias(v) if v in self.known else self.b.after(v)
            out[i] = found[v]
        return out

    def alias(self, value: Value) -> Value:
        """A new name of a value that may be others, which get new names, too."""
        made: dict[Value, Value] = {}

        def named(v: Value) -> Value:
            if v in self.known and v not in made:
                pairs = [x for flag, other in self.known[v] for x in (flag, named(other))]
                made[v] = self.b.alias(v, *pairs)
            return made.get(v, v)

        return named(value)

    def reached(self, value: Value) -> list[Value]:
        """Return a value and its possible aliases, each once: nested branches may lead to one value
        in very many ways."""
        found = {value: None}
        todo = [value]
        for v in todo:
            new = [x for _, x in self.known.get(v, ()) if x not in found]
            found.update(dict.fromkeys(new))
            todo += dict.fromkeys(new)
        return todo

    def others(self, value: Value) -> list[Value]:
        """All values that one may be."""
        return self.reached(value)[1:]

    # --- regions --------------------------------------------------------------------------------

    def enter(self, node: Node, place: int) -> None:
        """Rewrite the regions of a node."""
        first = len(node.operands) - _captures(node)
        walked = dict.fromkeys(node.operands if node.op == While.name else node.operands[first:])
        more = [x for z in walked for x in (*self.others(z), *self.all_flags(z))]
        if not more and not is_loop(node) and not any(map(_passes_through, node.regions)):
            return
        for v in more:
            if v not in node.operands[first:]:
                node.operands.append(v)
                for region in node.regions:
                    region.add_input(v.type, f"capture{len(region.inputs)}")
        loop = self.identities.loop(self.graph, node) if is_loop(node) else None
        if loop and more:
            loop.look()
        outer = node.operands[first:]
        for region in node.regions[1:] if node.op == While.name else node.regions:
            pairs = list(zip(outer, region.inputs[len(region.inputs) - len(outer):], strict=True))
            inner = dict(reversed(pairs))  # (one that is captured twice is its first input)
            known = {v: [(inner[flag], inner[x]) for flag, x in self.known[z]]
                     for z, v in pairs if z in self.known}
            for v, others in known.items():
                for flag, x in others:
                    self.identities.flags[v, x] = self.identities.flags[x, v] = flag
            before = {v for z, v in pairs if loop or self.contributed(z, place)}
            _Uses(region, known, before, self.identities).run(loop)
        if loop:
            loop.finish()

    def all_flags(self, value: Value) -> list[Value]:
        """The flags of a value and of those that it may be."""
        return [flag for v in self.reached(value) for flag, _ in self.known.get(v, ())]

    def contributed(self, value: Value, place: int) -> bool:
        """Whether a backward pass finds a cotangent of a value when it reaches a node."""
        return value in self.before or value in self.known \
            or value in (x for pairs in self.known.values() for _, x in pairs) \
            or any(at > place for at, _ in self.read.get(value, ()))

    # --- what results are -----------------------------------------------------------------------

    def learn(self, node: Node, place: int) -> None:
        """Note what the results of a node may be: results before them, or what it reads."""
        of = self.identities
        for r in may_be_others(node):
            others = (*node.results[: r.index], *of.sources(self.graph, node, r.index))
            self.note(r, others, place, partial(of.result_is, self.b, node, r.index))

    def learn_carried(self, loop: Loop) -> None:
        """Note what a loop's carried values may be before a step: others, or captured ones."""
        for i, v in enumerate(loop.inputs):
            if seedable(v.type):
                others = (*loop.inputs[:i], *loop.captured.values())
                self.note(v, others, -1, partial(self.identities.same_inputs, v))

    def note(
        self, value: Value, others: Sequence[Value], place: int,
        is_other: Callable[[Value], IsPresent],
    ) -> None:
        """Note what a value may be, by what says whether it is one of `others`."""
        pairs: Alternatives = []
        found: IsPresent = False
        for v in dict.fromkeys(others):
            if v.type != value.type or found is True or not self.matters(value, v, place):
                continue
            flag = but(self.b, is_other(v), found)
            if flag is not False:
                pairs.append((as_flag(self.b, flag), v))
                found = any_of(self.b, found, flag)
        if pairs:
            self.known.setdefault(value, []).extend(pairs)

    def matters(self, result: Value, other: Value, place: int) -> bool:
        """Whether both get contributions, and enough of them that their order shows."""
        mine = sum(weight for _, weight in self.read.get(result, ()))
        theirs = sum(weight for at, weight in self.read.get(other, ()) if at > place)
        theirs += other in self.before or other in self.known
        return mine > 0 and theirs > 0 and mine + theirs > 2
