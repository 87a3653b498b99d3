"""Whether a graph computes what it says, by three ways to run it.

*Compiled*: the whole graph, through the passes. *Alone*: each node compiled as a graph of its own,
which is what PyNative does. *Reference*: numpy. Compiled and alone must agree to the bit, and each
node with the reference in float64 within its op's tolerance. A violation is a `Symptom`.

Nothing here reads or writes the cache of programs: a compiler that is judged must do its work.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cellc_compiler
from cellc_compiler import backends, driver
from cellc_compiler.interpret import evaluate
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes.base import Pass, copy_graph
from cellc_compiler.passes.pipeline import run_pipeline
from cellc_runtime.records import dataclass

from ..calls.callbacks import executed
from ..tracing.exceptions import ERRORS
from ..verification.derivatives import rule_key
from ..verification.judge import judge
from ..verification.values import difference, error_in_ulps, is_inexact, same_bits

Array = np.ndarray[Any, Any]
Arrays = Sequence[Array]
Values = dict[Value, Array]

_COMPILER = Path(cellc_compiler.__file__).parent


@dataclass(frozen=True, slots=True)
class Symptom:
    """A fault of a graph."""

    # `"error"` (an exception), `"crash"`, `"hang"`, `"modes"` (compiled and alone differ),
    # `"reference"` (a node differs from numpy) or `"rule"` (a gradient or batching rule)
    kind: str
    text: str  # in words
    # the position among the graph's nodes of the first one that is wrong; -1: unknown
    node: int = -1

    def same(self, other: Symptom | None) -> bool:
        """Whether another graph shows the same fault: errors by their kind, the rest by theirs."""
        if other is None or other.kind != self.kind:
            return False
        return self.kind != "error" or other.text.split(":")[0] == self.text.split(":")[0]


class CannotJudge(ValueError):
    """A graph that cannot be judged: it calls Python functions without recorded results, or is only
    a part."""


class Judge:
    """Runs graphs in this process."""

    def __init__(self, numerics: str = "strict") -> None:
        self.numerics = numerics
        self._alone: dict[Any, Callable[[Sequence[Array]], list[Array]]] = {}

    def symptom(self, graph: Graph, arrays: Sequence[Array]) -> Symptom | None:
        """Return the fault of a graph on these inputs; None if there is none.

        Raises:
            CannotJudge: see there.
        """
        refuse_unknown(graph)
        try:
            whole = self.compiled(graph, arrays)
        except Exception as e:
            return Symptom("error", _told(e))
        try:
            values = self.alone(graph, arrays)
        except NodeError as e:
            return Symptom("error", _told(e.error), e.position)
        if self.numerics == "strict":
            for i, (v, a) in enumerate(zip(graph.results(), whole, strict=True)):
                if not same_bits(a, values[v]):
                    what = difference(values[v], a, ("PyNative's ops", "compiled"))
                    return Symptom("modes", f"output {i}: {what}",
                                   self._first_tapped(graph, arrays, values))
        for position, node in enumerate(graph.nodes):
            problem = against_reference(node, values)
            if problem:
                return Symptom("reference", problem, position)
        return None

    def compiled(
        self, graph: Graph, arrays: Sequence[Array], without: Pass | None = None
    ) -> list[Array]:
        """Outputs, then updated values, of the compiled graph; one pass may be left out."""
        return _loaded(graph, self.numerics, without)(arrays)

    def alone(self, graph: Graph, arrays: Sequence[Array]) -> Values:
        """The values of all nodes, each compiled and run as a graph of its own. Raises NodeError if
        one cannot be compiled or run."""
        values: Values = dict(zip(graph.inputs, map(np.asarray, arrays), strict=True))
        for position, node in enumerate(graph.nodes):
            try:
                results = self.node(node, [values[v] for v in node.operands])
            except Exception as e:
                raise NodeError(position, e) from e
            values.update(zip(node.results, results, strict=True))
        return values

    def node(self, node: Node, arrays: Sequence[Array]) -> list[Array]:
        """The results of one node, compiled alone."""
        if node.is_constant:
            return [node.attrs["value"].array]
        if not node.results:
            return []
        key = rule_key(node)
        run = self._alone.get(key)
        if run is None:
            run = self._alone[key] = _loaded(alone_graph(node), "strict")
        return run(arrays)

    def _first_tapped(self, graph: Graph, arrays: Sequence[Array], alone: Values) -> int:
        """The first node whose value in the compiled graph, all values being outputs, differs
        from its value alone; -1 where the outputs hide the fault."""
        probe = copy_graph(graph)
        probe.outputs, probe.updates = [r for n in probe.nodes for r in n.results], []
        try:
            found = iter(self.compiled(probe, arrays))
        except Exception:
            return -1
        for position, node in enumerate(graph.nodes):
            for r in node.results:
                if not same_bits(next(found), alone[r]):
                    return position
        return -1


class NodeError(Exception):
    """A node that cannot be compiled or run alone."""

    def __init__(self, position: int, error: Exception) -> None:
        super().__init__(position, error)
        self.position, self.error = position, error


def _told(error: BaseException) -> str:
    """An exception in a line, with the innermost place of the compiler."""
    first = (str(error).splitlines() or [""])[0]
    frames = [f for f in traceback.extract_tb(error.__traceback__)
              if _COMPILER in Path(f.filename).parents]
    where = ""
    if frames:
        last = frames[-1]
        where = f" (in {Path(last.filename).relative_to(_COMPILER).as_posix()}, {last.name})"
    return f"{type(error).__name__}: {first}{where}"


def refuse_unknown(graph: Graph) -> None:
    """Raise for a graph whose results follow from Python functions, or sizes from elements.

    Raises:
        CannotJudge: with the place.
    """
    for node in executed(graph):
        if node.op == "measure":
            raise CannotJudge(
                f"{node.span.file}:{node.span.line}: a size follows from elements, so the network "
                "is no single graph: use a form of fixed shape (where, masked_fill)")
        if node.op == "host_call" and node.results:
            raise CannotJudge(
                f"{node.span.file}:{node.span.line}: the network calls the Python function "
                f"{node.attrs['name']}(), whose results only it can give: take the call away, or "
                "make its result an input")


def _loaded(
    graph: Graph, numerics: str, without: Pass | None = None
) -> Callable[[Sequence[Array]], list[Array]]:
    """A graph, compiled past the cache, as a function of its inputs; it prints nothing and calls no
    Python. One pass may be left out."""
    target = backends.backend().target_of(graph, numerics)
    passes = [p for p in driver.passes(numerics, target) if p is not without]
    program = driver.compile_optimized(run_pipeline(copy_graph(graph), passes), target)
    silent = {driver.callback_name(n): _nothing for n in executed(graph)
              if n.op in ("host_call", "print")}
    return driver.loaded(program, graph, silent, ERRORS)


def _nothing(*arrays: Array) -> None:
    """A callback that does nothing."""


def alone_graph(node: Node) -> Graph:
    """A node as a graph of its own, its operands as inputs."""
    graph = Graph(node.op)
    operands = [graph.add_input(v.type, f"x{i}") for i, v in enumerate(node.operands)]
    copy = node.clone(operands, tuple(map(copy_graph, node.regions)))
    graph.nodes, graph.outputs = [copy], list(copy.results)
    return graph


def against_reference(node: Node, values: Mapping[Value, Array]) -> str:
    """How a node's results differ from the reference on its own operands; "" if they do not."""
    if not node.results or any(lookup(n.op).effect for n in _within(node)):
        return ""
    operands, results = ([values[v] for v in some] for some in (node.operands, node.results))
    if not node.regions:
        return judge(node, operands, results).problem
    for i, (got, ref) in enumerate(zip(results, evaluate(node, operands, precise=True),
                                       strict=True)):
        if is_inexact(got) and error_in_ulps(got, ref) > _LOOP_ULPS:
            return f"result {i} is {error_in_ulps(got, ref):.4g} ulps from the reference"
    return ""


_LOOP_ULPS = 2.0**12
"""The error that the nodes of a loop may gather; larger ones are searched for inside."""


def _within(node: Node) -> list[Node]:
    return [node, *(n for region in node.regions for n in executed(region))]
