"""Why a gradient and difference quotients disagree: the causes that `check_grads` names.

All of them are looked for in float64, in the graph that the differences are taken of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.types import seedable
from cellc_runtime.records import dataclass

from ..verification.derivatives import Forward, Unknown, values_in
from ..verification.gradients import check_rules
from ..verification.report import Report, place_of
from ..verification.values import bracketed, finite_all, first_of, kinds_of, table_of

Array = np.ndarray[Any, Any]

_BENT = 1e-2
"""How far the differences before and after a point are apart at a kink, as a share of both.
Curvature makes them differ by about the step, which is a thousandth of that."""
_NOISE = 1e-13  # Of a value: a change that may be float64's rounding


@dataclass(frozen=True, slots=True)
class GraphAt:
    """A function as a graph."""

    graph: Graph  # its inputs are tensors, state and parameters
    # for each of them its place in a point, or the elements that it keeps
    sources: Sequence[int | Array]

    def arrays(self, point: Sequence[Array]) -> list[Array]:
        """The elements of all inputs."""
        return [point[s] if isinstance(s, int) else s for s in self.sources]

    def outputs(self, point: Sequence[Array]) -> list[Array]:
        """The float outputs, in float64."""
        out = run(self.graph, self.arrays(point), precise=True)
        return [np.asarray(a, np.float64)
                for a, v in zip(out, self.graph.outputs, strict=False) if v.dtype.is_float]

    def floats(self) -> set[str]:
        """The float types of its values."""
        values = [*self.graph.inputs, *(r for node in self.graph.walk() for r in node.results)]
        return {v.dtype.name for v in values if v.dtype.is_float}

    def gradient(self) -> Graph:
        """The graph of its gradient; the cotangents of the outputs are its last inputs."""
        moved = [i for i, s in enumerate(self.sources) if isinstance(s, int)]
        seeded = [i for i, v in enumerate(self.graph.outputs) if seedable(v.type)]
        return gradient_graph(self.graph, moved, seeded=seeded, sens=True)


def not_finite(
    at: GraphAt, point: Sequence[Array], names: Sequence[str], cotangents: Sequence[Array]
) -> str:
    """The first value that is not finite: of a point, whose tensors have these names, of the
    function, or else of its gradient; "" if all are."""
    for name, a in zip(names, point, strict=True):
        if not finite_all(a):
            return f"{name} holds {kinds_of([a])}"
    arrays = at.arrays(point)
    for precise in (True, False):
        for graph, given in ((at.graph, arrays), (at.gradient(), [*arrays, *cotangents])):
            values = values_in(graph, given, precise)
            for v, a in values.items():
                if finite_all(a):
                    continue
                if v.node is None:
                    return f"{v.name or 'an input'} holds {kinds_of([a])}"
                of = " of the gradient" * (graph is not at.graph)
                beyond = "" if precise else f", beyond the range of {v.dtype.name}"
                return (f"the first value{of} that is not finite: {_place(v.node)} makes "
                        f"{kinds_of([a])}{beyond}")
    return ""


def wrong_rule(at: GraphAt, point: Sequence[Array], bprops: bool = False) -> str:
    """The first op or `bprop` whose rule is wrong by itself, near this point; "" if none is.
    `bprops`: only a `bprop` counts."""
    report = Report()
    if bprops and not any(node.op == "custom_grad" for node in at.graph.walk()):
        return ""
    try:
        check_rules(Forward(at.graph), at.arrays(point), report)
    except Unknown:
        return ""
    found = (str(f).removeprefix("gradient: ") for f in report.findings)
    return next((f for f in found if not bprops or f.startswith("bprop of ")), "")


def kink(at: GraphAt, points: Sequence[Sequence[Array]]) -> str:
    """The first op that has a kink or jump at the middle one of three points; "" if none has."""
    before, here, after = (values_in(at.graph, at.arrays(p), True) for p in points)
    for v, a in here.items():
        if v.node is not None and v.dtype.is_inexact and _bends(before[v], a, after[v]):
            return _place(v.node)
    return ""


def no_derivative(at: GraphAt) -> str:
    """Return the op that makes the gradient no derivative by design; "" if there is none.
    Moving averages and the like, on which no result depends, are none."""
    for node in _read_by_results(at.graph):
        if node.op == "stop_gradient":
            return f"{_place(node)} stops gradients, which differences do not see"
        if node.op == "custom_grad" and node.attrs["differs"]:
            return f"the bprop of {node.attrs['rule']} differs, as its bprop_differs declares"
    return ""


def _read_by_results(graph: Graph) -> Iterator[Node]:
    """The nodes on which the outputs of a graph depend, with those of their regions."""
    wanted = set(graph.outputs)
    for node in reversed(graph.nodes):
        if wanted.isdisjoint(node.results):
            continue
        wanted.update(node.operands)
        yield node
        for region in node.regions:
            wanted.update(v for inner in region.walk() for v in inner.operands)
            yield from region.walk()


def unsteady(call: Callable[[], Any]) -> str:
    """How two calls from one state differ; "" if they do not."""
    first, second = (table_of(call(), "", aliases=False) for _ in range(2))
    for path, a in first.items():
        b = second.get(path)
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape:
            unlike = (a != b) & ~((a != a) & (b != b))
            if unlike.any():
                where, _ = first_of(unlike)
                return f"output{path}{bracketed(where)} is {a[where]}, then {b[where]}"
    return ""


def _bends(before: Array, here: Array, after: Array) -> bool:
    """Whether differences on both sides of a value are apart by more than curvature explains."""
    with np.errstate(all="ignore"):
        left, right = here - before, after - here
        size = np.abs(left) + np.abs(right)
        noise = _NOISE * (np.abs(here) + 1e-6)
        return bool(np.any((np.abs(right - left) > _BENT * size) & (size > 1e3 * noise)))


def _place(node: Node) -> str:
    rule = f"bprop of {node.attrs['rule']}" if node.op == "custom_grad" else node.op
    return place_of(rule, node.scope, str(node.span))
