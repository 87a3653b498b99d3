"""Where values that are not finite come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cellc_compiler.interpret import evaluate
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_runtime.records import dataclass

from .place import Place
from .report import Report
from .values import finite, finite_all, kinds_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """A node that makes values which are not finite of values that are."""

    node: Node
    place: Place
    operands: list[Array]
    results: list[Array]

    def told(self) -> str:
        """Return the op's result in words, and whether the reference gives the same."""
        text = f"makes {kinds_of(self.results)} of finite operands"
        if self.node.regions:
            return text
        want = evaluate(self.node, self.operands, precise=True)
        bad = [~finite(a) for a in self.results]
        in_wide = any(np.any(~np.isfinite(w) & b) for w, b in zip(want, bad, strict=True))
        with np.errstate(all="ignore"):
            in_own = any(np.any(~finite(w.astype(a.dtype)) & b)
                         for w, a, b in zip(want, self.results, bad, strict=True))
        if in_wide:
            return f"{text}; the float64 reference does too"
        if in_own:
            return (f"{text}; the float64 reference is finite, but beyond the range of "
                    f"{self.results[0].dtype}")
        return f"{text}; the float64 reference is finite there"


class Origins:
    """Nodes of a run that made values which are not finite of finite ones, in its order."""

    def __init__(self) -> None:
        self.found: list[Origin] = []
        self.first: dict[Node, Origin] = {}
        """Of a node: itself, or the first one inside its regions."""

    def note(
        self, node: Node, place: Place, operands: Sequence[Array], results: Sequence[Array],
        before: int,
    ) -> None:
        """A node has run; `before`: how many had been found when it began."""
        if node in self.first or all(map(finite_all, results)) or \
                not all(map(finite_all, operands)):
            return
        inside = self.found[before:]
        origin = inside[0] if inside else Origin(node, place, list(operands), list(results))
        self.first[node] = origin
        if not inside:
            self.found.append(origin)

    def report(self, graph: Graph, values: dict[Value, Array], report: Report, stage: str) -> None:
        """Say where results that are not finite come from: the first such place."""
        ends = [v for v in graph.results() if not finite_all(values[v])]
        sources = self._sources(ends, values)
        if not sources:
            return
        order = {n: i for i, n in enumerate(graph.nodes)}
        first = min(sources, key=lambda v: order.get(v.node, -1) if v.node else -1)
        where = f"{stage}: the first value that is not finite"
        if first.node is None:
            what = "the parameter" if first.kind == "param" else "the input"
            told = kinds_of([values[first]])
            report.find("nonfinite", where, f"{what} {first.name} holds {told}")
        elif first.node.is_constant:
            report.find("nonfinite", where, f"a constant holds {kinds_of([values[first]])}",
                        first.node)
        else:
            origin = self.first[first.node]
            spot = origin.node.op, origin.node.span
            if spot in report.origins:
                return  # said of an earlier stage
            report.origins.add(spot)
            at = f" in {origin.place.trail}" if origin.place.trail else ""
            report.find("nonfinite", where + at, origin.told(), origin.node,
                        scope=origin.place.scope)

    def _sources(self, ends: Sequence[Value], values: dict[Value, Array]) -> list[Value]:
        """The values that others which are not finite follow from."""
        found: list[Value] = []
        seen: set[Value] = set()
        stack = list(ends)
        while stack:
            v = stack.pop()
            if v in seen:
                continue
            seen.add(v)
            node = v.node
            before = [] if node is None else [
                x for x in node.operands if not finite_all(values[x])]
            if before and node not in self.first:
                stack += before
            elif node is None or node.is_constant or node in self.first:
                found.append(v)
        return found
