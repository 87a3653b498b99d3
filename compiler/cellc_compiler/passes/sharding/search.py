"""Layouts of weights, searched: each is cut in the way that makes the whole plan the cheapest.

Weights are looked at in the order of their bytes, largest first; each in turn is left whole or cut
along one axis by one axis of the mesh, whichever plan costs least with the others as they are
(coordinate descent). The cost of a plan is that of a run (`plan.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ir.graph import Graph, Value
from ...ir.sharding import Layout, Mesh, whole
from .plan import LAY_OUT, Planner, splitting
from .rewrite import meshed

_MOST = 64  # Weights that are looked at


def searched(graph: Graph, mesh: Mesh, given: Mapping[int, Layout]) -> dict[int, Layout]:
    """Layouts for inputs: those given, and the best ones found for weights of two axes or more."""
    out = dict(given)
    fixed = {n.result: meshed(mesh, n) for n in graph.nodes if n.op == LAY_OUT}
    factors = {node: splitting(node) for node in graph.nodes}

    def cost(layouts: Mapping[int, Layout]) -> float:
        wanted = fixed | {graph.inputs[i]: layout for i, layout in layouts.items()}
        return Planner(graph, mesh, wanted, factors).plan().cost

    weights = [i for i, v in enumerate(graph.inputs)
               if v.kind == "param" and i not in out and v.type.rank > 1]
    weights.sort(key=lambda i: -graph.inputs[i].type.nbytes)
    least = cost(out)
    for i in weights[:_MOST]:
        for layout in _layouts(mesh, graph.inputs[i]):
            found = cost({**out, i: layout})
            if found < least:
                least, out[i] = found, layout
    return out


def _layouts(mesh: Mesh, v: Value) -> list[Layout]:
    """The ways to cut a value along one axis by one axis of the mesh."""
    rows = whole(v.type.rank)
    found = [(*rows[:a], (m,), *rows[a + 1 :])
             for a in range(v.type.rank) for m in range(len(mesh.sizes))]
    return [layout for layout in found if mesh.fits(v.type, layout)]
