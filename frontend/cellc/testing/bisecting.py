"""`bisect`: which stage of the compiler goes wrong, at which node, and the smallest graph.

First the symptom: does the compiled graph fail, does it differ from its nodes run one by one, do
these differ from numpy, does `construct` do something else in PyNative, is the rule of a gradient
or of a batch wrong? Then the graph is reduced while it shows the same symptom, and what is left is
taken through the pipeline pass by pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.printing import print_graph
from cellc_runtime.errors import counted
from cellc_runtime.records import dataclass, field

from .. import context
from ..compiled.traced import Traced
from ..core.module_names import function_name
from ..verification import verify
from ..verification.report import place_of
from .cases import Case, in_pynative, load_case, traced_call, versions
from .judging import Array, Judge, NodeError, Symptom, alone_graph, refuse_unknown
from .probe import ChildJudge
from .reducing import reduce
from .rules import problems, wrong_rule
from .stages import Stage, find_stage

_OUT_OF_PROCESS = ("crash", "hang")
_PART_SECONDS = 10.0
"""A part of a graph may take in a process of its own: loops on other values may never end."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """The result of a bisection; print it.

    Attributes:
        network: the name of what was bisected.
        symptom: what is wrong: `"error"`, `"crash"`, `"hang"`, `"modes"` (compiled against
            PyNative), `"reference"` (against numpy), `"tracing"`, `"mode"`
            (`construct` depends on the mode), `"rule"`; "" if nothing is.
        what: it, in words.
        stage: where in cellc: `"pass expand"`, `"code generation"`, `"tracing"`,
            `"rules of matmul"`.
        op, scope, span: of the node at fault: its op, the path of its Cell, file:line:column.
        case: the smallest graph that shows it, with its inputs; None if there is none.
        tried: how many graphs were run.
        notes: what else was found.
    """

    network: str
    symptom: str = ""
    what: str = ""
    stage: str = ""
    op: str = ""
    scope: str = ""
    span: str = ""
    case: Case | None = None
    tried: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def found(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.symptom)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the smallest graph with its inputs: as text, or as a file `.cellcase`.

        Raises:
            ValueError: nothing was found.
            OSError: the file cannot be written.
        """
        if self.case is None:
            raise ValueError(f"{self.network}: there is no graph to write: nothing was found")
        self.case.save(path)

    def __str__(self) -> str:
        if not self.found:
            return (f"{self.network}: nothing is wrong: compiled, op by op and reference agree on "
                    "these inputs")
        node = place_of(self.op, self.scope, self.span) if self.op else "unknown"
        lines = [f"{self.network}: {_SYMPTOMS[self.symptom]}", f"  {self.what}",
                 f"stage: {self.stage}", f"node:  {node}", *(f"note:  {n}" for n in self.notes)]
        if self.case is not None and self.case.graph is not None:
            count = sum(not n.is_constant for n in self.case.graph.nodes)
            lines += [f"smallest graph: {counted(count, 'node')}, "
                      f"{counted(self.tried, 'graph')} tried",
                      *map(_shorten, self.case.text().splitlines())]
        return "\n".join(lines)


_WIDE = 400


def _shorten(line: str) -> str:
    """A line of a report; the elements of a large input are in what `save` writes."""
    return line if len(line) <= _WIDE else f"{line[:_WIDE]} ... ({len(line)} characters)"


_SYMPTOMS: Mapping[str, str] = {
    "error": "it does not compile or run", "crash": "it crashes", "hang": "it does not end",
    "modes": "compiled and op by op differ", "reference": "it differs from the numpy reference",
    "tracing": "the graph is not what construct does in PyNative",
    "rule": "an op's rule is wrong", "mode": "construct reads the mode, and the modes differ",
}


def bisect(
    target: Any, *inputs: Any, grad: bool = False, isolate: bool | None = None,
    setup: str | None = None, seconds: float = 60.0,
) -> Bisection:
    """Find what is wrong with a network: the stage of the compiler, the node, the smallest graph.

    Nothing of the network is changed. Graphs are compiled past the cache of programs; only the
    comparison with PyNative is a run as it always is.

    Args:
        target: a Cell, a function, or the path of a case that `record` wrote.
        inputs: its arguments, as in a call; none for a case.
        grad: also look at the gradient with respect to float parameters and inputs, and at the
            rules for gradients and batches of every op.
        isolate: run graphs in a process of its own, which may crash (default: if the first one
            crashes there).
        setup: a Python file that this process runs first, for kernels of the user's own.
        seconds: for the reduction, and for a graph that runs in a process of its own.

    Returns:
        Return the findings; `found` is False if nothing is wrong.

    Raises:
        CompileError: the network cannot be traced.
        ValueError: its results depend on Python functions that a graph calls.
        ArtifactError, OSError: the case cannot be read.

    Only in cellc.
    """
    work = _Work(isolate, setup, seconds)
    if isinstance(target, (str, os.PathLike)):
        return work.of_case(load_case(target), os.path.basename(os.fspath(target)))
    return work.of_call(target, inputs, grad)


class _Work:
    """One bisection."""

    def __init__(self, isolate: bool | None, setup: str | None, seconds: float) -> None:
        self.isolate, self.setup, self.seconds = isolate, setup, seconds
        self.judge = Judge(context.numerics())

    def of_case(self, case: Case, name: str) -> Bisection:
        """Of a recorded call."""
        if case.graph is None:
            raise ValueError(f"{name} has no graph: the call failed before there was one "
                             f"({case.message})")
        self.judge = Judge(case.numerics)
        found = self.of_graph(name, case.graph, case.arrays)
        if found is None and case.options.get("check") == "rules":
            found = self.of_rules(name, case.graph, case.arrays)
        return found or Bisection(name)

    def of_call(self, function: Any, args: Sequence[Any], grad: bool) -> Bisection:
        """Of a call: the graph, against PyNative, then the gradient and the rules."""
        name = function_name(function)
        traced, arrays = traced_call(function, args)
        found = self.of_graph(name, traced.graph, arrays)
        found = found or self.of_trace(name, function, args, traced, arrays)
        if found is None and grad:
            found = self.of_rules(name, traced.graph, arrays)
            backward = _gradient(traced.graph)
            if found is None and backward is not None:
                found = self.of_graph(f"gradient of {name}", backward, arrays)
        return found or Bisection(name)

    def of_graph(self, name: str, graph: Graph, arrays: Sequence[Array]) -> Bisection | None:
        """Of a graph: None if nothing is wrong with it."""
        with ChildJudge(self.judge.numerics, self.setup, self.seconds) as child:
            refuse_unknown(graph)
            symptom = None
            if self.isolate is not False:
                symptom = child.symptom(graph, arrays)
                child.seconds = min(self.seconds, _PART_SECONDS)
            apart = self.isolate or (symptom is not None and (
                symptom.kind in _OUT_OF_PROCESS or any(n.op == "while" for n in graph.walk())))
            judge: Callable[..., Symptom | None] = child.symptom if apart else self.judge.symptom
            if not apart:
                symptom = judge(graph, arrays)
            if symptom is None:
                return None
            shown = symptom
            graph, few, tried = reduce(
                graph, arrays, lambda g, a: shown.same(_judged(judge, g, a)), symptom.node,
                self.seconds)
            symptom = judge(graph, few) or symptom
        stage = self.stage(graph, few, symptom)
        return self.result(name, symptom, stage, graph, few, tried)

    def stage(self, graph: Graph, arrays: Sequence[Array], symptom: Symptom) -> Stage:
        """Where in the compiler the smallest graph goes wrong."""
        if symptom.kind in _OUT_OF_PROCESS:
            nodes = [n for n in graph.nodes if not n.is_constant]
            ops = ", ".join(dict.fromkeys(n.op for n in nodes))
            return Stage("code generation", f"the code of {ops} does not come to its end")
        return find_stage(self.judge, graph, arrays, symptom)

    def of_trace(
        self, name: str, function: Any, args: Sequence[Any], traced: Traced,
        arrays: Sequence[Array],
    ) -> Bisection | None:
        """Of a call whose graph is right: end to end against PyNative."""
        report = verify(function, *args, grad=False, reference=False)
        findings = [f for f in report.findings if f.kind != "nonfinite"]
        if not findings:
            return None
        at = next((f for f in findings if f.kind == "trace"), findings[0])
        notes = tuple(str(f) for f in findings[1:4])
        case = self.case(traced.graph, arrays, str(findings[0]), "pynative",
                         in_pynative(function, args, traced))
        found = Bisection(name, "tracing", str(findings[0]), "tracing", at.op or "",
                          at.scope or "", at.span or "", case, 1, notes)
        lines = print_graph(traced.graph).splitlines()
        other = print_graph(traced_call(function, args, mode=context.PYNATIVE_MODE)[0].graph)
        if other.splitlines() == lines:
            return found
        # The first node that construct has in graph mode alone.
        node = next((n for n in traced.graph.nodes if not n.is_constant and
                     not any(f" {n.op}(" in line for line in other.splitlines())), None)
        where = (node.op, node.scope, str(node.span)) if node else (found.op, found.scope,
                                                                    found.span)
        return Bisection(name, "mode", found.what, "the network", *where, case, 1, notes)

    def of_rules(self, name: str, graph: Graph, arrays: Sequence[Array]) -> Bisection | None:
        """Of a graph: the rules of its ops."""
        try:
            values = self.judge.alone(graph, arrays)
        except NodeError:
            return None
        symptom = wrong_rule(graph, values)
        if symptom is None:
            return None
        node = graph.nodes[symptom.node]
        small, few, tried = alone_graph(node), [values[v] for v in node.operands], 1
        if not node.regions:  # of a `bprop` nothing is left when its nodes are inlined
            small, few, tried = reduce(
                small, few, lambda g, a: next(problems(g.nodes[0], a), None) is not None, 0,
                self.seconds)
        text = next(problems(small.nodes[0], few), symptom.text)
        whose = f"bprop of {node.attrs['rule']}" if node.regions else f"rules of {node.op}"
        return self.result(name, Symptom("rule", text, 0), Stage(whose, text),
                           small, few, tried, check="rules")

    def result(
        self, name: str, symptom: Symptom, stage: Stage, graph: Graph, arrays: list[Array],
        tried: int, check: str = "",
    ) -> Bisection:
        """Return the findings, at a node of the smallest graph."""
        nodes = [n for n in graph.nodes if not n.is_constant]
        node: Node | None = graph.nodes[symptom.node] if symptom.node >= 0 else None
        if node is None and nodes:
            node = nodes[-1]
        notes = [] if stage.text in symptom.text else [stage.text]
        if stage.without:
            notes.append(f"it goes away without the pass {stage.without}")
        case = self.case(graph, arrays, symptom.text, check)
        return Bisection(
            name, symptom.kind, symptom.text, stage.name, node.op if node else "",
            node.scope if node else "", str(node.span) if node else "", case, tried, tuple(notes))

    def case(
        self, graph: Graph, arrays: Sequence[Array], message: str, check: str = "",
        outputs: Sequence[Array] = (),
    ) -> Case:
        """Return the case that reproduces it."""
        options = {"numerics": self.judge.numerics, **({"check": check} if check else {})}
        return Case(graph, arrays, outputs, message, versions(), options)


def _judged(
    judge: Callable[..., Symptom | None], graph: Graph, arrays: Sequence[Array]
) -> Symptom | None:
    try:
        return judge(graph, arrays)
    except Exception:  # a part that cannot be judged does not show the fault
        return None


def _gradient(graph: Graph) -> Graph | None:
    """The gradient graph of float inputs and parameters; None if there is none."""
    wanted = [i for i, v in enumerate(graph.inputs) if v.dtype.is_float]
    seeded = [i for i, v in enumerate(graph.outputs) if v.dtype.is_float]
    return gradient_graph(graph, wanted, seeded=seeded) if wanted and seeded else None
