"""Artifacts with open sizes that are compiled as they are, for other targets: `cellc compile
NET.cellc --target NAME`; all entries of an artifact, where none is named.

The graphs and the sizes that are served are those of the file. Conditions that its programs put on
sizes are conditions of the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cellc_compiler.ir.dims import SymbolInfo, deciding
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_runtime.artifact import DEFAULT_ENTRY, Artifact
from cellc_runtime.open_sizes import Number, Open
from cellc_runtime.records import dataclass
from cellc_runtime.variants import ANY

from ..compiled.traced import Traced
from ..core.later import open_sizes
from ..tensors.parameter import Parameter
from ..tensors.seed import state_named
from ..tensors.tensor import Tensor
from .errors import UserError
from .open_sizes import Plan
from .saved import SUFFIX, entries_of, graph_of, opened_file, results_of, served_sizes

Condition = tuple[str, Number, str]


def plan_again(text: str) -> tuple[dict[str, Plan], dict[str, list[str]]]:
    """The entries of the artifact of the command line by name, with the sizes that they serve, and
    the inputs that each writes over. An entry that the text names is the one, as `infer`.

    Raises:
        ArtifactError: it holds no graphs, or is damaged.
    """
    path, names = entries_of(text)
    loaded, _ = opened_file(f"{path}:{names[0]}")
    plans: dict[str, Plan] = {}
    donated: dict[str, list[str]] = {}
    tensors: dict[str, Tensor] = {}
    for name in names:
        if not loaded.has_graph(name):
            raise UserError(f"{text}: it was compiled with --no-graph: compile it from its source")
        to = DEFAULT_ENTRY if path != text else name
        plans[to] = _Again(loaded, name, tensors).plan()
        inputs = loaded.signature(name).inputs
        if pairs := loaded.donated(name):
            donated[to] = [inputs[i][0] for _, i in pairs]
    return plans, donated


def left_out(text: str) -> list[str]:
    """A line about the entries of an artifact that are not compiled: sizes are chosen for one."""
    path, names = entries_of(text) if text.endswith(SUFFIX) else (text, [])
    others = [n for n in names if n != DEFAULT_ENTRY]
    return [f"{path}: only {DEFAULT_ENTRY!r} is compiled for these inputs, not {', '.join(others)}"
            ] if others else []


@dataclass
class _Again:
    """An entry of a file that is compiled again."""

    loaded: Artifact
    entry: str
    tensors: dict[str, Tensor]  # by name, those of all entries

    def plan(self) -> Plan:
        sizes = self.loaded.sizes(self.entry)
        opened = self._opened()
        made: dict[int, tuple[Traced, Shapes]] = {}
        ways = []
        for v, variant in enumerate(sizes.variants):
            of = self.loaded.ways(self.entry, v)
            ways.append([way.graph for way in of])
            for w, number in enumerate(ways[-1] or [variant.graph]):
                if number not in made:
                    found = {f.name: f.origin for s in of[w].stages for f in s.found} if of else {}
                    guards = [(g.relation, g.number, g.where) for g in of[w].guards] if of else \
                        [(r, x, "") for r, x in (opened[v].guards if v in opened else ())]
                    made[number] = self._traced(v, w), self._facts(
                        v, opened[v].symbols if v in opened else {}, found, guards)
        numbers = sorted(made)
        return Plan([made[k][0] for k in numbers], sizes, [], [made[k][1] for k in numbers],
                    ways if any(ways) else [])

    def _opened(self) -> dict[int, Open]:
        """By variant, how its program follows from sizes, if they are open."""
        programs = iter(self.loaded.programs(self.entry))
        found = {}
        for v, variant in enumerate(self.loaded.sizes(self.entry).variants):
            if self.loaded.ways(self.entry, v):
                return {}
            for program in [next(programs) for _ in variant.sizes or (0,)]:
                if program.open is not None:
                    found[v] = program.open
        return found

    def _traced(self, variant: int, way: int) -> Traced:
        graph = graph_of(self.loaded, self.entry, variant, way=way)
        count = sum(v.kind == "input" for v in graph.inputs)
        outside = [self._tensor(v.name, v.kind) for v in graph.inputs if v.kind != "input"]
        return Traced(graph, count, outside, results_of(graph), [], [])

    def _tensor(self, name: str, kind: str) -> Tensor:
        """A weight of the file, the same one for all graphs."""
        if name not in self.tensors:
            there = name in self.loaded.weights
            if not there and kind != "state":
                raise UserError(f"the graph of the entry {self.entry!r} reads {name!r}, which is "
                                "no weight of the file")
            self.tensors[name] = Parameter(
                Tensor(self.loaded.weights[name].copy()), name=name, requires_grad=kind == "param",
            ) if there else state_named(name)
        return self.tensors[name]

    def _facts(
        self, variant: int, bounds: Mapping[str, tuple[int, int]], found: Mapping[str, str],
        conditions: Sequence[Condition],
    ) -> Shapes:
        """The facts that are known of the symbols of a graph."""
        sizes = self.loaded.sizes(self.entry)
        usual = served_sizes(self.loaded.signature(self.entry).inputs, sizes, variant)
        shapes = Shapes()
        for name, at in zip(sizes.symbols, sizes.variants[variant].at, strict=True):
            if at == ANY:
                low, high = bounds.get(name, (1, -1))
                hint = max(low, usual[name] if high < 0 else min(high, usual[name]))
                shapes.new(name, hint, SymbolInfo(low, None if high < 0 else high))
        for name, origin in found.items():
            shapes.new(name, open_sizes.LEAST, SymbolInfo(0, None, origin))
        with deciding(shapes):
            shapes.assume([Guard(relation, open_sizes.size_of(number), where)
                           for relation, number, where in conditions])
        return shapes
