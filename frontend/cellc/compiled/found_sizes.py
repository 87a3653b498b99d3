"""Sizes that follow from elements: the stages of a graph that finds them as it runs, programs for
these stages, and the graph for the sizes that it finds for certain inputs.

The graph is cut after the ops that find sizes (`measure`). Effects (prints, checks, calls of
Python) stay in the last stage unless a size depends on them, or an error after them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cellc_compiler.driver import compile_graph, compile_program
from cellc_compiler.ir.dims import Undecided, symbols_of
from cellc_compiler.ir.graph import Builder, Graph, Node, Value, clone_into
from cellc_compiler.ir.op import has_effect, lookup
from cellc_compiler.ir.shapes import Shapes
from cellc_runtime.program import Program, ProgramAtSizes
from cellc_runtime.records import dataclass, field, replace
from cellc_runtime.target import Target

from ..calls.callbacks import host_callbacks
from ..core.later import instantiate, open_sizes
from ..core.lru import LRU

if TYPE_CHECKING:
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
    used = Graph(graph.name)
    used.inputs, used.outputs, used.updates = graph.inputs, graph.outputs, graph.updates
    used.nodes = _used(graph)
    levels, last = _levels(used)
    return [_stage(used, levels, k, last) for k in range(last + 1)]


def _used(graph: Graph) -> list[Node]:
    """The nodes that results, sizes and effects depend on: what is found and only counted has
    elements that nobody needs."""
    wanted = {v.node for v in graph.results() if v.node is not None}
    for node in reversed(graph.nodes):
        if node in wanted or node.op == "measure" or has_effect(node):
            wanted.add(node)
            wanted.update(v.node for v in node.operands if v.node is not None)
    return [n for n in graph.nodes if n in wanted]


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
    return level, max(symbols.values(), default=0)


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


# --- programs -------------------------------------------------------------------------------------


def facts_of(shapes: Shapes, names: Set[str], sizes: Mapping[str, int]) -> Shapes:
    """Facts of a trace about symbols, for code whose costs are estimated for these sizes."""
    return Shapes(
        {s: info for s, info in shapes.symbols.items() if s in names},
        {s: sizes[s] for s in shapes.symbols if s in names},
        [g for g in shapes.guards if symbols_of(g.expr) <= names],
        answers={key: a for key, a in shapes.answers.items() if symbols_of(key[1]) <= names},
        equal={s: x for s, x in shapes.equal.items() if s in names and symbols_of(x) <= names})


def compile_stage(
    stage: Stage, shapes: Shapes, sizes: Mapping[str, int], target: Target | None, numerics: str
) -> Program:
    """A program for a stage: of these sizes those of less than 2 are known, the others open.

    Args:
        shapes: what the trace knows of its symbols.
        sizes: of the symbols that the stage needs; costs are estimated for them.

    Raises:
        Undecided: there is no program for all sizes.
    """
    facts = facts_of(shapes, stage.needs, sizes)
    known = {s: n for s, n in sizes.items() if s in stage.needs and n < open_sizes.LEAST}
    graph = instantiate.instantiate(stage.graph, known) if known else stage.graph
    if len(known) == len(stage.needs):
        return compile_program(graph, target, numerics=numerics)
    return open_sizes.compile_open(graph, facts.at(known) if known else facts, target, numerics)


MOST_REFUSALS = 3  # Sizes of a trace or stage that no program for all serves: more are not tried
MOST_PROGRAMS = 8  # Of one stage, for the same sizes of less than 2


class OpenStages:
    """The stages of a graph with symbols, and their programs for all sizes.

    Args:
        at_once: the first sizes of a stage are no reason for a program of their own.
    """

    def __init__(self, graph: Graph, shapes: Shapes, at_once: bool = False) -> None:
        self.stages = split(graph)
        self.shapes, self.at_once = shapes, at_once
        self._refusals: dict[int, int] = {}  # by stage, how many sizes had no program for all
        self._programs: dict[tuple[Any, ...], list[ProgramAtSizes]] = {}

    def program(self, number: int, sizes: Mapping[str, int], numerics: str) -> Program | None:
        """The program of a stage for these sizes of its symbols; None if it has none for all."""
        stage = self.stages[number]
        sizes = {s: sizes[s] for s in sorted(stage.needs)}
        refusals = self._refusals.get(number, 0)
        if refusals >= MOST_REFUSALS or max(sizes.values(), default=0) < open_sizes.LEAST:
            return None
        key = number, tuple((s, n) for s, n in sizes.items() if n < open_sizes.LEAST)
        known = self._programs.setdefault(key, [])
        found = next((p for p in known if p.serves(sizes)), None)
        if found is None and len(known) < MOST_PROGRAMS:
            try:
                found = ProgramAtSizes(compile_stage(stage, self.shapes, sizes, None, numerics))
            except Undecided:
                self._refusals[number] = refusals + 1
                return None
            known.append(found)
        return None if found is None else found.at(sizes)


# --- for certain inputs ---------------------------------------------------------------------------


class Condition(Protocol):
    """A condition on sizes."""

    @property
    def names(self) -> Collection[str]:
        """The sizes that it depends on."""

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for these sizes."""


def settled(
    make: Callable[[Shapes], Traced], arrays: Callable[[Traced], Sequence[Any]]
) -> Traced | None:
    """A call as a graph for the sizes that it finds; None if they cannot be found out.

    Args:
        make: traces the call, for sizes that were found before.
        arrays: what the graph of a trace is given, in the order of its inputs.
    """
    tried: list[tuple[int, ...]] = []
    measured: tuple[int, ...] = ()
    while measured not in tried:
        tried.append(measured)
        traced = make(Shapes(measured=list(measured)))
        if not is_staged(traced.graph):
            return traced
        sizes, wrong = found_in(
            traced.graph, arrays(traced), traced.guards, traced.functions)
        if not wrong:
            return replace(traced, graph=at_found(traced.graph, sizes))
        measured = tuple(sizes.values())
    return None


def at_found(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph for sizes that it finds, which it finds no more."""
    made = instantiate.instantiate(graph, sizes)
    table = {n.result: n.operands[0] for n in made.nodes if n.op == "measure"}
    made.nodes = [n for n in made.nodes if n.op != "measure"]
    for node in made.nodes:
        node.operands = [table.get(v, v) for v in node.operands]
    made.outputs = [table.get(v, v) for v in made.outputs]
    made.updates = [(old, table.get(new, new)) for old, new in made.updates]
    return made


def found_in(
    graph: Graph, arrays: Sequence[Any], guards: Sequence[Condition],
    functions: Sequence[Callable[..., Any]] = (),
) -> tuple[dict[str, int], bool]:
    """The sizes that a graph finds for these inputs, by symbol, up to those for which a condition
    does not hold; and whether there are such. It is run as far as that needs."""
    sizes: dict[str, int] = {}
    for stage in split(graph)[:-1] if is_staged(graph) else ():
        for symbol, value in stage.measured.items():
            part = _ancestors(graph, value)
            callbacks = host_callbacks(part, functions)
            run = compile_graph(instantiate.instantiate(part, sizes), callbacks=callbacks)
            sizes[symbol] = int(np.asarray(run(arrays)[0]))
            if not all(g.holds(sizes) for g in guards if sizes.keys() >= {*g.names}):
                return sizes, True
    return sizes, False


def _ancestors(graph: Graph, value: Value) -> Graph:
    """The part of a graph that a value follows from."""
    assert value.node is not None
    wanted = {value.node}
    for node in reversed(graph.nodes):
        if node in wanted:
            wanted.update(v.node for v in node.operands if v.node is not None)
    part = Graph(graph.name)
    part.inputs, part.outputs = graph.inputs, [value]
    part.nodes = [n for n in graph.nodes if n in wanted]
    return part
