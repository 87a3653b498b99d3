"""Node by node: a traced graph compiled, by the eager engine and in float64.

The graph is compiled with every node's result as an output (fusion changes no bit, so these are
the values that the plain compilation computes). The eager engine runs each node on the same
operands, and the reference in float64. Regions are gone into: the branch that was taken, each trip
of a loop, on the operands that it had; what they give must be what the node around them gave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from cellc_compiler import driver
from cellc_compiler.interpret import CONTROL, expand_node, trips_of
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.ir.verify import verify as check_graph
from cellc_compiler.passes.base import copy_graph

from ..calls.callbacks import host_callbacks
from ..compiled.traced import Traced
from ..core.dispatch import apply
from ..tensors.tensor import host_arrays_of, tensor_of
from .judge import Verdict, judge, judge_expansion
from .origins import Origins
from .place import Place
from .report import Report
from .values import difference, digest, telling

Array = np.ndarray[Any, Any]
Values = dict[Value, Array]
Callbacks = Mapping[str, Callable[..., None]]


_MOST_RUNS = 1_000_000  # Runs of a node's regions after which a loop is taken not to end


class _Endless(Exception):
    """A loop that does not end on the operands it was given."""


class Tape:
    """The calls of a Python function in one run, for other runs to have the same results."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function
        self.calls: list[list[Array]] = []

    def record(self, *arrays: Array) -> None:
        """Call the function, which writes its results into the last arrays."""
        self.function(*arrays)
        self.calls.append([np.array(a) for a in arrays])

    def player(self) -> Callable[..., None]:
        """Return the function that writes the results of the recorded calls, in order."""
        calls = iter(self.calls)

        def replay(*arrays: Array) -> None:
            for place, array in zip(arrays, next(calls), strict=True):
                if place.flags.writeable:
                    place[...] = array

        return replay


def link(graph: Graph) -> None:
    """Let all values know their nodes: those of regions that a gradient's trace shares with what
    it was made from have forgotten them."""
    for node in graph.walk():
        for value in node.results:
            value.node = node


class _Probe:
    """A graph compiled so that the values of all its nodes are results."""

    def __init__(self, graph: Graph, callbacks: Callbacks) -> None:
        work = copy_graph(graph)
        work.outputs = [r for n in work.nodes for r in n.results]
        work.updates = []
        self.inputs = graph.inputs
        self.made = [r for n in graph.nodes for r in n.results]
        self.run = driver.compile_graph(work, callbacks=callbacks) if self.made else None

    def __call__(self, arrays: Sequence[Array]) -> Values:
        """The values of inputs and nodes."""
        values = dict(zip(self.inputs, arrays, strict=True))
        if self.run is not None:
            values.update(zip(self.made, self.run(arrays), strict=True))
        return values


class NodeJudge:
    """Compares the nodes of one stage; what differs goes to the report.

    Args:
        stage: the name of what is verified.
        reference: whether nodes are held against the float64 reference.
        keep: whether to keep digests of all results, in `steps`.
    """

    def __init__(
        self, report: Report, stage: str, reference: bool = True, keep: bool = False
    ) -> None:
        self.report, self.stage, self.reference = report, stage, reference
        self.origins = Origins()
        self.tapes: dict[str, Tape] = {}
        self.players: list[Callbacks] = []
        self.probes: dict[tuple[int, int], _Probe] = {}
        self.expansions: dict[int, tuple[Node, Graph]] = {}
        self.found: set[int] = set()
        self.keep = keep
        self.steps: list[tuple[Node, list[bytes]]] = []
        """Nodes with digests of their results, in the order of the run."""

    def whole(self, traced: Traced, arrays: Sequence[Array]) -> None:
        """Compare a traced call on arrays for all inputs of its graph, in their order."""
        graph = traced.graph
        check_graph(graph)
        callbacks = host_callbacks(graph, traced.functions)
        self.tapes = {name: Tape(f) for name, f in callbacks.items()}
        compiled = driver.compile_graph(
            graph, callbacks={n: t.record for n, t in self.tapes.items()})(arrays)
        values = self.graph(graph, arrays, Place())
        for v, whole in zip(graph.results(), compiled, strict=True):
            told = difference(values[v], whole, ("its own nodes", "in the whole network"))
            if told and v.node is not None:
                self.find("node", Place(), v.node, told)
        self.origins.report(graph, values, self.report, self.stage)

    def graph(self, graph: Graph, arrays: Sequence[Array], place: Place) -> Values:
        """Compare the nodes of a graph or region on its inputs; all values in it."""
        key = id(graph), place.depth
        if key not in self.probes:
            self.probes[key] = _Probe(graph, self.callbacks(place.depth))
        values = self.probes[key](arrays)
        for node in graph.nodes:
            before = len(self.origins.found)
            operands = [values[v] for v in node.operands]
            results = [values[r] for r in node.results]
            self.node(node, operands, results, place)
            if self.keep:
                self.steps.append((node, [digest(a) for a in results if telling(a)]))
            self.origins.note(node, place, operands, results, before)
        return values

    def callbacks(self, depth: int) -> Callbacks:
        """Python functions, for the programs of regions so deep: each replays all calls."""
        while len(self.players) <= depth:
            self.players.append({n: t.player() for n, t in self.tapes.items()})
        return self.players[depth]

    def find(
        self, kind: str, place: Place, node: Node, message: str, verdict: Verdict | None = None
    ) -> None:
        """A finding at a node: the first one there is reported."""
        if id(node) in self.found:
            return
        self.found.add(id(node))
        at = f" in {place.trail}" if place.trail else ""
        self.report.find(
            kind, f"{self.stage}: node{at}", message, node, scope=place.scope,
            ulps=verdict.ulps if verdict else None, limit=verdict.limit if verdict else None)

    def skip(self, what: str) -> None:
        """Something that cannot be compared."""
        self.report.not_compared[f"{self.stage}: {what}"] += 1

    def node(
        self, node: Node, operands: list[Array], results: list[Array], place: Place
    ) -> None:
        """Compare one node. Effects without results (prints, changes of Python objects, checks)
        are compared end to end."""
        if lookup(node.op).effect:
            if results:
                self.skip(f"what the Python function {node.attrs.get('name', node.op)} gives")
        elif node.regions:
            self.regions(node, operands, results, place)
        else:
            self.plain(node, operands, results, place)

    def plain(
        self, node: Node, operands: list[Array], results: list[Array], place: Place
    ) -> None:
        """A node without regions: eager, then the reference."""
        self.report.compared[f"{self.stage}: nodes"] += 1
        for i, (a, b) in enumerate(zip(_eager(node, operands), results, strict=True)):
            told = difference(a, b, ("the eager engine", "compiled"))
            if told:
                self.find("node", place, node, f"result {i}: {told}")
                return
        if not self.reference or node.is_constant:
            return
        verdict = judge(node, operands, results)
        self.report.compared[f"{self.stage}: nodes against the reference"] += 1
        if verdict.cancels:
            self.expansion(node, operands, results, place)
            return
        if verdict.limit is not None:
            self.report.judged(node, place.scope, verdict.ulps, verdict.share)
        if verdict.problem:
            self.find("reference", place, node, verdict.problem, verdict)

    def expansion(
        self, node: Node, operands: list[Array], results: list[Array], place: Place
    ) -> None:
        """A composition in which terms cancel: its expansion, and the nodes of that."""
        made = self.expansions.setdefault(id(node), (node, expand_node(node)))[1]
        told = judge_expansion(node, made, operands)
        if told:
            self.find("reference", place, node, told)
            return
        values = self.graph(made, operands, place.inside(node, f"what {node.op} is made of"))
        for i, (v, whole) in enumerate(zip(made.outputs, results, strict=True)):
            told = difference(values[v], whole, ("its expansion", "compiled as a whole"))
            if told:
                self.find("region", place, node, f"result {i}: {told}")

    def regions(
        self, node: Node, operands: list[Array], results: list[Array], place: Place
    ) -> None:
        """A node with regions: what they compute from its operands, and that it gives that."""
        runs = count()

        def run(region: Graph, arrays: Sequence[Array], what: str) -> list[Array]:
            if next(runs) == _MOST_RUNS:
                raise _Endless
            values = self.graph(region, arrays, place.inside(node, what.format(node.span)))
            return [values[v] for v in region.outputs]

        try:
            inner = CONTROL[node.op](node, operands, run)
        except _Endless:
            self.find("region", place, node, "the loop ends, but its regions alone do not end it")
            return
        except StopIteration:
            self.skip(f"the regions of {node.op}, which call Python in another order on their own")
            return
        self.report.compared[f"{self.stage}: regions"] += 1
        scan = node.op == "scan"
        carried, rows = (node.attrs["carried"], trips_of(node, operands)) if scan else (0, 0)
        for i, (a, b) in enumerate(zip(inner, results, strict=True)):
            if scan and i >= carried:
                a, b = a[:rows], b[:rows]  # what is in those of other trips is not defined
            told = difference(a, b, ("its regions", "compiled as a whole"))
            if told:
                self.find("region", place, node, f"result {i}: {told}")
                return


def _eager(node: Node, operands: Sequence[Array]) -> list[Array]:
    if node.is_constant:
        return [node.attrs["value"].array]
    given = [tensor_of(np.ascontiguousarray(a).reshape(v.shape))
             for a, v in zip(operands, node.operands, strict=True)]
    out = apply(node.op, *given, **node.attrs)
    return host_arrays_of(out if isinstance(out, tuple) else (out,))
