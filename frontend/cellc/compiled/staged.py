"""Networks in which a size follows from elements: run in stages.

The graph is cut after the ops that find such sizes. A stage is compiled when the sizes that it
needs are known, once for each; the last one gives the results and writes the parameters. Effects
(prints, checks, calls of Python) stay in the last stage unless a size depends on them, or an error
after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import Met, symbols_of
from cellc_compiler.ir.graph import Builder, Graph, Node, Value, clone_into
from cellc_compiler.ir.op import has_effect, lookup
from cellc_runtime.records import dataclass, field, replace

from ..core.later import instantiate
from ..core.lru import LRU
from ..tensors.tensor import arrays_of
from ..tracing.pytree import Box, Leaf
from .entry import Entry

if TYPE_CHECKING:
    from cellc_compiler.ir.shapes import Guard

    from .program_entry import CompiledEntry
    from .traced import Traced

KEPT = 32
"""Compiled instances of a stage, and traces for particular sizes, that are kept for certain."""


@dataclass
class Stage:
    """A part of a graph.

    Attributes:
        graph: with sizes that earlier stages find.
        feeds: values of the whole graph that are its arguments, in order.
        gives: those that are its results.
        measured: symbol -> the value among `gives` that it is read from.
    """

    graph: Graph
    feeds: list[Value]
    gives: list[Value]
    measured: dict[str, Value]
    needs: frozenset[str] = frozenset()
    instances: LRU[tuple[int, ...], Any] = field(default_factory=lambda: LRU(KEPT))


def is_staged(graph: Graph) -> bool:
    """Whether a graph has sizes that it finds as it runs."""
    return any(n.op == "measure" for n in graph.nodes)


def split(graph: Graph) -> list[Stage]:
    """The stages of a graph."""
    levels, last = _levels(graph)
    return [_stage(graph, levels, k, last) for k in range(last + 1)]


def _levels(graph: Graph) -> tuple[dict[Node, int], int]:
    """Return the stage of each node, and the last: after all measurements.

    Constants belong to every stage and are not there.
    """
    early = _early_effects(graph)
    symbols: dict[str, int] = {}
    for final in (None, 0):
        level: dict[Node, int] = {}
        last, latest = max(symbols.values(), default=0), 0
        for node in graph.nodes:
            if node.op == "constant":
                continue
            at = max((level[v.node] for v in node.operands if v.node in level), default=0)
            at = max([at, *(symbols.get(s, 0) for s in _symbols(node))])
            if node.op == "measure":  # sizes are found in the order of the trace
                at = max(at, latest - 1)
            elif _waits(node):
                at = max(at, latest)
            if final is not None and has_effect(node) and node not in early:
                at = last
            level[node] = at
            if node.op == "measure":
                symbols[node.attrs["symbol"]] = latest = at + 1
    return level, max(symbols.values())


def _waits(node: Node) -> bool:
    """Whether a node runs only after all earlier measurements: it might not end, or be seen, where
    the trace was made for other answers."""
    return has_effect(node) or any(n.op == "while" for n in node.walk())


def _early_effects(graph: Graph) -> set[Node]:
    """Nodes that a size depends on, and checks before those of them that may fail: the first error
    is raised."""
    found: set[Node] = set()
    fails = False
    for node in reversed(graph.nodes):
        if fails and _only_fails(node):
            found.add(node)
        if node.op == "measure" or node in found:
            found.update(v.node for v in node.operands if v.node is not None)
        fails = fails or (node in found and _may_fail(node))
    return found


def _may_fail(node: Node) -> bool:
    """Whether the node, or one inside it, may end the call with an error."""
    return any(lookup(n.op).may_fail for n in node.walk())


def _only_fails(node: Node) -> bool:
    """Whether an error is all that can be seen of a node: what is printed must not come twice,
    where the sizes that are found ask for another trace."""
    return _may_fail(node) and all(lookup(n.op).may_fail for n in node.walk()
                                   if lookup(n.op).effect)


def _symbols(node: Node) -> set[str]:
    return {s for n in node.walk()
            for part in (*(r.type.shape for r in n.results), *n.attrs.values())
            for s in symbols_of(part)}


def _stage(graph: Graph, levels: Mapping[Node, int], k: int, last: int) -> Stage:
    nodes = [n for n in graph.nodes if levels.get(n) == k]
    measured = {n.attrs["symbol"]: n.result for n in nodes if n.op == "measure"} if k < last else {}
    gives, updates = list(graph.outputs), graph.updates
    if k < last:
        later = {v for n in graph.nodes if levels.get(n, -1) > k for v in n.operands}
        later |= set(graph.results())
        gives = [r for n in nodes for r in n.results if r in later or n.op == "measure"]
        updates = []
    made = {r for n in nodes for r in n.results}
    read = dict.fromkeys([*(v for n in nodes for v in n.operands),
                          *(v for pair in updates for v in pair), *gives])
    outside = [v for v in read if v not in made]
    constants = [v.node for v in outside if v.node is not None and v.node.op == "constant"]
    feeds = [v for v in outside if v.node is None or v.node.op != "constant"]
    feeds.sort(key=lambda v: v.node is None and v.kind != "input")
    part, out = Graph(graph.name), Graph(graph.name)
    part.inputs, part.nodes, part.outputs = feeds, [*constants, *nodes], gives
    inputs = [out.add_input(v.type, v.name, v.kind) if v.node is None else
              out.add_input(v.type, f"stage{i}") for i, v in enumerate(feeds)]
    out.outputs, table = clone_into(Builder(out), part, inputs)
    out.updates = [(table[old], table[new]) for old, new in updates]
    needs = {s for n in out.nodes for s in _symbols(n)}
    needs |= {s for v in inputs for s in symbols_of(v.type.shape)}
    return Stage(out, feeds, gives, measured, frozenset(needs))


class StagedEntry(Entry):
    """The compiled programs for one signature of a network that finds sizes as it runs.

    Args:
        traced: the call, its graph with symbols for what is found.
        guards: what the trace assumed about them.
        compiled: compiles a stage.
        again: traces the call anew, for sizes that were found, in the order of the trace and by
            where they are asked for, and the elements of its arguments.
        answered: what this was traced for; `trusted`: and went by.
    """

    several = True

    def __init__(
        self, traced: Traced, guards: Sequence[Guard], compiled: Callable[[Traced], CompiledEntry],
        again: Callable[[Sequence[int], Mapping[Met, int], bool, Sequence[Any]], StagedEntry],
        answered: Mapping[Met, int], trusted: bool,
    ) -> None:
        super().__init__(traced)
        self.guards = [(g, symbols_of(g.expr)) for g in guards]
        self.compiled = compiled
        self.again, self.answered, self.trusted = again, answered, trusted
        self.stages = split(traced.graph)
        self.symbols = [s for stage in self.stages for s in stage.measured]
        self.others: LRU[tuple[int, ...], StagedEntry] = LRU(KEPT)

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for arrays of the signature's types."""
        self.calls += 1
        inputs = self.traced.graph.inputs
        env: dict[Value, Any] = dict(zip(inputs, arrays, strict=False))
        sizes: dict[str, int] = {}
        for stage in self.stages:
            wrong = self._wrong(sizes)
            if wrong is not None:
                # It may read other state of Python objects.
                own = self.traced.of_arguments(arrays)
                other = self._other(wrong, own)
                return other.run(other.traced.fed(own))
            entry = self._instance(stage, sizes)
            out = entry.run([env[v] for v, i in zip(stage.feeds, stage.graph.inputs, strict=True)
                             if i.kind == "input"])
            if stage is self.stages[-1]:
                return out
            env.update(zip(stage.gives, arrays_of(out), strict=True))
            sizes |= {s: int(np.asarray(env[v])) for s, v in stage.measured.items()}
        raise AssertionError("a graph has a last stage")

    def _instance(self, stage: Stage, sizes: Mapping[str, int]) -> CompiledEntry:
        key = tuple(sizes[s] for s in sorted(stage.needs))
        found: CompiledEntry | None = stage.instances.get(key)
        if found is None or not found.fresh():
            found = stage.instances[key] = self.compiled(self._traced(stage, sizes))
            self.count(found)
        return found

    def _traced(self, stage: Stage, sizes: Mapping[str, int]) -> Traced:
        known = dict(zip(self.traced.graph.inputs[self.traced.arguments:], self.traced.parameters,
                         strict=True))
        out: Any = self.traced.out
        if stage is not self.stages[-1]:
            out = Box(tuple, (), tuple(Leaf(i) for i in range(len(stage.gives))))
        arguments = sum(v.kind == "input" for v in stage.graph.inputs)
        return replace(
            self.traced, graph=instantiate.instantiate(stage.graph, sizes), arguments=arguments,
            parameters=[known[v] for v in stage.feeds if v in known], out=out,
        )

    def _wrong(self, sizes: Mapping[str, int]) -> tuple[int, ...] | None:
        """The sizes up to the first that does not answer as the trace assumed; None if all do.

        Later measurements belong to a program that this call does not run.
        """
        order = {symbol: i for i, symbol in enumerate(sizes)}
        failed = [max((order[s] for s in needs), default=-1) for g, needs in self.guards
                  if needs <= order.keys() and not g.holds(sizes)]
        return tuple(sizes.values())[: min(failed) + 1] if failed else None

    def _other(self, sizes: tuple[int, ...], arrays: Sequence[Any]) -> StagedEntry:
        found = self.others.get(sizes)
        if found is None or not found.fresh():
            answered = {self.traced.asked[s]: n
                        for s, n in zip(self.symbols, sizes, strict=False)}
            # A foreseen size is right but for rounding, wherever the next trace asks; where it was
            # not, that trace uses the sizes found, at the places that asked.
            stuck = answered == self.answered
            if stuck and self.trusted:
                raise RuntimeError("sizes that a call has found do not fit the program that was "
                                   f"made for them: {answered}")
            found = self.others[sizes] = self.again(
                sizes, answered, stuck or self.trusted, arrays)
        return found
