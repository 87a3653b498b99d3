"""Networks in which a size follows from elements: run in stages.

The graph is cut after the ops that find such sizes. A stage is compiled when the sizes that it
needs are known, once for each; the last one gives the results and writes the parameters. What has
an effect (prints, checks, calls of Python) stays in the last stage unless a size depends on it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.ir.dims import Guard, symbols_of
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import has_effect
from cellc_runtime.lazy import lazy_module
from cellc_runtime.records import dataclass, field, replace

from ..tracing.pytree import Box, Leaf
from .entry import Entry

if TYPE_CHECKING:
    from cellc_compiler.passes import instantiate

    from .entries import CompiledEntry, Traced
else:  # networks of fixed sizes do not need it
    instantiate = lazy_module("cellc_compiler.passes.instantiate")

KEPT = 32
"""Compiled instances of a stage, and traces for particular sizes, that are kept."""


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
    instances: OrderedDict[tuple[int, ...], Any] = field(default_factory=OrderedDict)


def is_staged(graph: Graph) -> bool:
    """Whether a graph has sizes that it finds as it runs."""
    return any(n.op == "measure" for n in graph.nodes)


def split(graph: Graph) -> list[Stage]:
    """The stages of a graph."""
    levels = _levels(graph)
    last = max(levels.values())
    return [_stage(graph, levels, k, last) for k in range(last + 1)]


def _levels(graph: Graph) -> dict[Node, int]:
    """The stage of each node: constants belong to every one and are not there."""
    early = _early_effects(graph)
    symbols: dict[str, int] = {}
    for final in (None, 0):
        level: dict[Node, int] = {}
        last = max(symbols.values(), default=0)
        for node in graph.nodes:
            if _everywhere(node):
                continue
            at = max((level[v.node] for v in node.operands if v.node in level), default=0)
            at = max([at, *(symbols.get(s, 0) for s in _symbols(node))])
            if final is not None and has_effect(node) and node not in early:
                at = last
            level[node] = at
            if node.op == "measure":
                symbols[node.attrs["symbol"]] = at + 1
    return level


def _early_effects(graph: Graph) -> set[Node]:
    """Nodes that a size depends on."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "measure" or node in found:
            found.update(v.node for v in node.operands if v.node is not None)
    return found


def _everywhere(node: Node) -> bool:
    return node.op == "constant"


def _symbols(node: Node) -> set[str]:
    found = {s for r in node.results for s in symbols_of(r.type.shape)}
    for a in node.attrs.values():
        found |= symbols_of(a)
    for inner in (n for r in node.regions for n in r.walk()):
        found |= _symbols(inner)
    return found


class _Builder:
    """Builds one stage."""

    def __init__(self, whole: Graph) -> None:
        self.whole = whole
        self.graph = Graph(whole.name)
        self.table: dict[Value, Value] = {}
        self.feeds: list[Value] = []

    def value(self, v: Value) -> Value:
        """What stands for a value of the whole graph in this stage."""
        found = self.table.get(v)
        if found is None:
            if v.node is not None and _everywhere(v.node):
                self.node(v.node)
            else:
                kind = v.kind if v.node is None else "input"
                name = v.name if v.node is None else f"stage{len(self.feeds)}"
                self.table[v] = self.graph.add_input(v.type, name, kind)
                self.feeds.append(v)
            found = self.table[v]
        return found

    def node(self, node: Node) -> None:
        """Append a copy of a node."""
        operands = [self.value(v) for v in node.operands]
        copy = Node(node.op, operands, node.attrs, (), node.regions, span=node.span,
                    scope=node.scope)
        copy.results = tuple(Value(r.type, copy, r.index) for r in node.results)
        self.table.update(zip(node.results, copy.results, strict=True))
        self.graph.nodes.append(copy)


def _stage(graph: Graph, levels: Mapping[Node, int], k: int, last: int) -> Stage:
    build = _Builder(graph)
    for node in graph.nodes:
        if levels.get(node) == k:
            build.node(node)
    measured: dict[str, Value] = {}
    gives: list[Value] = []
    if k == last:
        gives = list(graph.outputs)
        build.graph.updates = [(build.value(old), build.value(new)) for old, new in graph.updates]
    else:
        later = {v for n in graph.nodes if levels.get(n, -1) > k for v in n.operands}
        later |= set(graph.results())
        for node in graph.nodes:
            if levels.get(node) == k:
                if node.op == "measure":
                    measured[node.attrs["symbol"]] = node.result
                gives += [r for r in node.results if r in later or node.op == "measure"]
    build.graph.outputs = [build.value(v) for v in gives]
    order = sorted(range(len(build.feeds)), key=lambda i: build.graph.inputs[i].kind != "input")
    build.graph.inputs = [build.graph.inputs[i] for i in order]
    needs = {s for n in build.graph.nodes for s in _symbols(n)}
    needs |= {s for v in build.graph.inputs for s in symbols_of(v.type.shape)}
    return Stage(build.graph, [build.feeds[i] for i in order], gives, measured, frozenset(needs))


class StagedEntry(Entry):
    """What was compiled for one signature of a network that finds sizes as it runs.

    Args:
        traced: the call, its graph with symbols for what is found.
        guards: what the trace assumed about them.
        compiled: compiles a stage.
        again: traces the call anew, for sizes that were found (in the order of the trace).
    """

    def __init__(
        self, traced: Traced, guards: Sequence[Guard],
        compiled: Callable[[Traced], CompiledEntry],
        again: Callable[[list[int]], StagedEntry],
    ) -> None:
        super().__init__(traced)
        self.guards = guards
        self.compiled = compiled
        self.again = again
        self.stages = split(traced.graph)
        self.others: OrderedDict[tuple[int, ...], StagedEntry] = OrderedDict()

    def run(self, arrays: Sequence[Any]) -> Any:
        """The result for arrays of the signature's types.

        Raises:
            RuntimeError: sizes that were found do not fit what was traced.
        """
        self.calls += 1
        inputs = self.traced.graph.inputs
        env: dict[Value, Any] = dict(zip(inputs, arrays, strict=False))
        sizes: dict[str, int] = {}
        for stage in self.stages:
            if any(not g.holds(sizes) for g in self.guards
                   if symbols_of(g.expr) <= set(sizes)):
                return self._other(tuple(sizes.values())).run(arrays)
            entry = self._instance(stage, sizes)
            out = entry.run([env[v] for v, i in zip(stage.feeds, stage.graph.inputs, strict=True)
                             if i.kind == "input"])
            if stage is self.stages[-1]:
                return out
            env.update(zip(stage.gives, (t._data for t in out), strict=True))
            sizes |= {s: int(np.asarray(env[v])) for s, v in stage.measured.items()}
        raise AssertionError("a graph has a last stage")

    def _instance(self, stage: Stage, sizes: Mapping[str, int]) -> CompiledEntry:
        key = tuple(sizes[s] for s in sorted(stage.needs))
        found: CompiledEntry | None = stage.instances.get(key)
        if found is None or not found.fresh():
            found = stage.instances[key] = self.compiled(self._traced(stage, sizes))
            self.report.kernels += found.report.kernels
            self.report.arena_bytes = max(self.report.arena_bytes, found.report.arena_bytes)
            while len(stage.instances) > KEPT:
                stage.instances.popitem(last=False)
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

    def _other(self, sizes: tuple[int, ...]) -> StagedEntry:
        found = self.others.get(sizes)
        if found is None:
            found = self.others[sizes] = self.again(list(sizes))
            while len(self.others) > KEPT:
                self.others.popitem(last=False)
        return found
