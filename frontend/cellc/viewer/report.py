"""The contents of a report, as JSON: the graphs of a subject stage by stage, their code and memory.

Numbers stand for strings that occur often (ops, Cells, files, types); the page's `model.js` reads
what is written here, and nothing else does.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler import __version__, backends, driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.op import lookup
from cellc_compiler.passes import pipeline
from cellc_compiler.passes.base import copy_graph
from cellc_compiler.passes.instantiate import graph_symbols
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target

from ..tools import budget_view
from ..tools.profiling import Profile
from .boxes import Item, boxes
from .code import Code
from .collectives import collectives
from .ledger import GRADIENT, UPDATE, Ledger, Row, Shot, Snapshot
from .sources import Sources
from .stages import Stage, compare, mark_new, mark_traced, owners, summary
from .values import statistics as value_statistics

Json = dict[str, Any]
Array = np.ndarray[Any, Any]

GRADIENT_BOX = "gradient"
"""The box around the gradient's nodes, which stand in boxes of the Cells they come from."""

UPDATE_BOX = "update"
"""The box around an optimizer's nodes of no Cell; each parameter has a box in it."""

DEEPEST = 60  # Boxes in boxes


@dataclass(slots=True)
class Subject:
    """A graph to show."""

    name: str  # as the page's menu has it
    graph: Graph  # as it was traced or read
    # further stages that were read from files, by name; else the pipeline is run
    stages: Sequence[tuple[str, Graph]] = ()
    # what the graph itself is called in that case; None: "traced", and stages follow from one
    # another, places included
    first: str | None = None
    # of all inputs of the graph, for values; None: they are not computed
    arrays: Sequence[Array] | None = None
    # what the graph calls of the host
    callbacks: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    profile: Profile | None = None  # times of the same graph's kernels
    budget: int | None = None  # bytes of temporaries that its gradient is planned in
    notes: list[str] = field(default_factory=list)  # lines for the page's front


def document(
    title: str, subjects: Sequence[Subject], sources: Sources, target: Target | None = None,
    numerics: str = "strict", say: Callable[[str], None] = lambda stage: None,
    facts: Sequence[tuple[str, str]] = (),
) -> tuple[Json, list[str]]:
    """The report's data, and the texts of kernels, which it names by number.

    Args:
        target: what code is shown for (default: this machine).
        facts: names and values for the page's front.

    Raises:
        NoRule, TooLarge: the target's back end cannot compute a graph.
    """
    target = target or backends.default_target()
    texts: list[str] = []
    graphs = []
    for subject in subjects:
        report = _Report(subject, sources, target, numerics, say)
        graphs.append(report.document(len(texts)))
        texts += report.texts
    return {
        "title": title, "version": f"cellc {__version__}", "target": target.name,
        "facts": [list(f) for f in facts], "graphs": graphs,
        "sources": dict(sources.texts),
    }, texts


class _Report:
    """One graph of a report."""

    def __init__(
        self, subject: Subject, sources: Sources, target: Target, numerics: str,
        say: Callable[[str], None],
    ) -> None:
        self.subject, self.sources, self.say = subject, sources, say
        self.target = backends.under(target, numerics)
        self.numerics = numerics
        self.ledger = Ledger()
        self.texts: list[str] = []
        self.tables: dict[str, dict[str, int]] = {
            name: {} for name in ("ops", "scopes", "files", "types", "attrs")}
        self.plan: list[str] = []
        self.ranks: list[list[Any]] = []

    def document(self, first_text: int) -> Json:
        """The graph as JSON; its kernels' texts are numbered from `first_text` on."""
        if graph_symbols(self.subject.graph):
            stages, values, lowered = self._open()
        else:
            stages, last = self._stages()
            values = self._values(stages[0].snapshot, last)
            self.ranks = collectives(last, self.ledger.number)
            lowered = self._code(last, first_text)
        nodes = [self._row(row) for row in self.ledger.rows]
        profile = self.subject.profile
        return {
            "name": self.subject.name, "notes": self.subject.notes, "code": lowered,
            "nodes": nodes, "values": [list(v) for v in self.ledger.values],
            "stages": [self._stage(s, stages[i - 1] if i else None)
                       for i, s in enumerate(stages)],
            "stats": values, "plan": self.plan, "ranks": self.ranks,
            "call": statistics.median(profile.seconds) if profile is not None else None,
            **{name: list(table) for name, table in self.tables.items()},
            "kinds": [kind_of(op) for op in self.tables["ops"]],
        }

    def _open(self) -> tuple[list[Stage], Json, Json]:
        """The stages of a graph with sizes that are known at run time only: one stage, without
        code."""
        self.subject.notes.append(
            "Sizes follow from elements, so passes run and code is made when they are known: only "
            "the traced graph is shown.")
        stages = [Stage("traced", self.ledger.take(self.subject.graph))]
        mark_traced(self.ledger, stages[0].snapshot)
        return stages, {}, {"target": self.target.name, "calls": [], "arena": 0, "packed": [],
                            "buffers": []}

    def _code(self, last: Graph, first_text: int) -> Json:
        """Return the lowered form of the optimized graph, which is used up."""
        self.say("code generation")
        code = Code(last, self.target, self.ledger, self.say)
        lowered = code.document(self._seconds(code))
        for call in lowered["calls"]:
            if "kernel" in call:
                call["kernel"] += first_text
        self.texts = code.texts
        return lowered

    # --- stages ---------------------------------------------------------------------------------

    def _stages(self) -> tuple[list[Stage], Graph]:
        """The stages, and the graph after the last of them."""
        whole, first = copy_graph(self.subject.graph), self.subject.first
        stages = [Stage(first or "traced", self.ledger.take(whole))]
        mark_traced(self.ledger, stages[0].snapshot)

        def observe(name: str, graph: Graph) -> None:
            self.say(f"pass {name}")
            self._add(stages, name, self.ledger.take(graph))

        last = whole
        if self.subject.stages:
            for name, graph in self.subject.stages:
                last = copy_graph(graph)
                self._add(stages, name, self.ledger.adopt(
                    last, stages[-1].snapshot, first is None))
        elif self.subject.budget is not None and driver.has_gradient(whole):
            backend = backends.backend_of(self.target)
            pipeline.run_pipeline(
                whole, pipeline.keeping_cotangents(self.numerics, backend.fast_passes()), observe)
            last, plan = driver.optimize_within(
                self.subject.graph, self.target, self.numerics, self.subject.budget)
            self.plan = budget_view.text(plan) if plan is not None else []
            self._add(stages, "recompute", self.ledger.adopt(last, stages[-1].snapshot))
        else:
            driver.optimize(whole, observe, self.numerics, self.target, in_place=True)
        return stages, last

    def _add(self, stages: list[Stage], name: str, shot: Snapshot) -> None:
        change = compare(self.ledger, stages[-1].snapshot, shot)
        mark_new(self.ledger, shot, change)
        stages.append(Stage(name, shot, change, summary(self.ledger, change)))

    def _stage(self, stage: Stage, before: Stage | None) -> Json:
        """A stage; of one that changed nothing, its name alone."""
        shot, change = stage.snapshot, stage.change
        if before is not None and not change:
            return {"name": stage.name, "summary": stage.summary, "count": len(shot.operands)}
        old = before.snapshot.operands if before is not None else {}
        return {
            "name": stage.name, "summary": stage.summary, "count": len(shot.operands),
            "graph": self._graph(shot.graph, shot),
            "regions": {u: [self._graph(r, shot, f"r{u}.{i}") for i, r in enumerate(regions)]
                        for u, regions in shot.regions.items()},
            "alias": [[a, b] for a, b in shot.alias.items()],
            "operands": {u: o for u, o in shot.operands.items() if old.get(u) != o},
            "change": {
                "rewritten": [[r.gone, r.new] for r in change.rewritten],
                "gone": change.gone, "new": change.new, "rewired": change.rewired,
            },
        }

    def _graph(self, graph: Shot, shot: Snapshot, key: str = "") -> Json:
        return {
            "name": graph.name, "inputs": graph.inputs, "outputs": graph.outputs,
            "updates": [list(u) for u in graph.updates], "nodes": graph.nodes,
            "box": boxes(self._items(graph, shot, key), key),
        }

    def _items(self, graph: Shot, shot: Snapshot, key: str) -> list[Item]:
        """Return the drawn items of a graph: nodes but constants, inputs but weights, outputs."""
        rows, values = self.ledger.rows, self.ledger.values
        makes: dict[int, int | str] = {}
        out: list[Item] = []
        updated = owners(self.ledger, shot) if not key else {}
        read = {v for u in graph.nodes for v in shot.operands[u]} | set(graph.outputs)
        for v in graph.inputs:
            shown = v in read or not key  # a region has inputs that only others of its node read
            if shown and values[v][2] == "input" and not self._is_weight(v, shot):
                makes[v] = f"i{v}"
                out.append(Item(f"i{v}", (), ()))
        for uid in graph.nodes:
            row = rows[uid]
            if row.op == "constant":
                continue
            for i in range(len(row.types)):
                makes[row.first + i] = uid
            reads = dict.fromkeys(makes[v] for v in shot.operands[uid] if v in makes)
            out.append(Item(uid, _path(row, updated.get(uid)), tuple(reads)))
        for i, v in enumerate(graph.outputs):
            if v in makes:
                out.append(Item(f"o{i}{key}", (), (makes[v],)))
        return out

    def _is_weight(self, v: int, shot: Snapshot) -> bool:
        """Whether an input of a region stands for a parameter."""
        while v in shot.alias:
            v = shot.alias[v]
        return self.ledger.values[v][2] not in ("input", "value")

    # --- tables ---------------------------------------------------------------------------------

    def _row(self, row: Row) -> list[Any]:
        file, *where = row.span
        attrs = {k: self.sources.hide(v) for k, v in row.attrs.items()}
        text = "\n".join(f"{k}={v}" for k, v in attrs.items())
        return [self._number("ops", row.op), self._number("scopes", row.scope),
                self._number("files", self.sources.name(file)), *where,
                [self._number("types", t) for t in row.types], self._number("attrs", text),
                row.first, row.part]

    def _number(self, table: str, text: str) -> int:
        known = self.tables[table]
        return known.setdefault(text, len(known))

    # --- what the run gives ---------------------------------------------------------------------

    def _values(self, traced: Snapshot, last: Graph) -> Json:
        """Statistics of values by number, of the traced graph and of the optimized one."""
        subject = self.subject
        if subject.arrays is None:
            return {}
        self.say("values")
        graph = subject.graph
        found = value_statistics(graph, subject.arrays, subject.callbacks)
        numbers = dict(zip(graph.inputs, traced.graph.inputs, strict=True))
        for node, uid in zip(graph.nodes, traced.graph.nodes, strict=True):
            first = self.ledger.rows[uid].first
            numbers.update((r, first + i) for i, r in enumerate(node.results))
        out = {str(numbers[v]): about for v, about in found.items()}
        found = value_statistics(last, subject.arrays, subject.callbacks)
        out.update((str(self.ledger.value(v)), about) for v, about in found.items())
        return out

    def _seconds(self, code: Code) -> list[float] | None:
        """Return the time of each instruction, if the profile is of the same ones."""
        profile = self.subject.profile
        if profile is None:
            return None
        if [s.label for s in profile.sites] != code.labels():
            self.subject.notes.append("The profiled program has other kernels: no times are shown.")
            return None
        return profile.site_seconds()


def kind_of(op: str) -> str:
    """The kind of an op, by which the page colours it."""
    known = lookup(op)
    if op in ("cond", "while", "scan", "custom_grad", "recompute") or known.effect:
        return "control"
    if known.cost == "heavy":
        return "heavy"
    if known.reduction is not None:
        return "reduce"
    if known.expand is not None:
        return "composite"
    return "map" if known.elementwise else "move"


def _path(row: Row, updated: str | None = None) -> tuple[str, ...]:
    """The boxes around a node; what lies deeper than `DEEPEST` is in one. `updated`: the parameter
    whose new value the node is for."""
    cells = tuple(part for part in row.scope.split(".", DEEPEST) if part)
    if row.part == UPDATE:
        return (*(cells or (UPDATE_BOX,)), *((updated,) if updated else ()))
    return (GRADIENT_BOX, *cells) if row.part == GRADIENT else cells
