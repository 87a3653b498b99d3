"""Effects under a gradient: each happens once, in the forward run.

The gradient of a branch or of a run-time loop computes forward values again. Prints and checks are
left out of that. Results of Python functions cannot be computed again, so a branch returns them as
further results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cellc_runtime.records import dataclass

from ..ir.graph import Builder, Graph, Node, Value
from ..ir.op import has_effect, lookup, run_regions
from ..passes.base import copy_graph


class GradientError(TypeError):
    """A value that cannot be differentiated; `node` is the node at fault."""

    def __init__(self, message: str, node: Node) -> None:
        super().__init__(message)
        self.node = node


@dataclass(frozen=True, slots=True)
class SavedResult:
    """A value of a branch that is not computed again."""

    branch: int  # which one
    value: Value  # in it
    result: int  # the number of the cond's result that holds it (zeros from the other branch)


def calls(node: Node) -> bool:
    """Whether the host computes something in the node."""
    if lookup(node.op).effect:
        return bool(node.results)
    return any(calls(n) for r in run_regions(node) for n in r.nodes)


def save_host_results(node: Node) -> list[SavedResult]:
    """Let the branches of a cond (or what is recomputed) give, too, what the host computes in them.
    Raises GradientError if that happens in a loop in a branch."""
    if not calls(node):
        return []
    regions = [copy_graph(r) for r in node.regions]
    saved: list[SavedResult] = []
    fresh: list[SavedResult] = []
    for i, region in enumerate(regions):
        for inner in region.nodes:
            if inner.op in ("scan", "while") and calls(inner):
                raise GradientError(
                    "the gradient of a loop in a branch cannot call Python functions again", inner
                )
            if inner.op in ("cond", "recompute"):
                save_host_results(inner)
            if not calls(inner):
                continue
            for v in inner.results:
                if v in region.outputs:
                    saved.append(SavedResult(i, v, region.outputs.index(v)))
                else:
                    fresh.append(SavedResult(i, v, len(node.results) + len(fresh)))
    for i, region in enumerate(regions):
        b = Builder(region)
        region.outputs += [k.value if k.branch == i else b.zeros_like(k.value) for k in fresh]
    node.regions = tuple(regions)
    node.results += tuple(Value(k.value.type, node, k.result) for k in fresh)
    return saved + fresh


def use_saved(
    graph: Graph, saved: Sequence[SavedResult], branch: int, table: Mapping[Value, Value]
) -> None:
    """Make what a branch kept further inputs of a graph that holds a copy of it.

    Args:
        graph: gets an input for each of `saved`, those of other branches too.
        table: the copies of the branch's values.
    """
    for k in saved:
        if k.branch != branch:
            graph.add_input(k.value.type, f"kept{k.result}")
            continue
        value = table[k.value]
        if value.node in graph.nodes:
            graph.nodes.remove(value.node)
        value.node, value.kind, value.name = None, "input", f"kept{k.result}"
        graph.inputs.append(value)


def silent(graph: Graph) -> Graph:
    """A graph for computing again what has been computed: see `without_effects`."""
    if not any(has_effect(n) for n in graph.nodes):
        return graph
    quiet = copy_graph(graph)
    without_effects(quiet)
    return quiet


def without_effects(graph: Graph) -> None:
    """Take out what has an effect and no result: it has happened already. Raises GradientError if
    results of the host would be computed again."""
    nodes: list[Node] = []
    for node in graph.nodes:
        if has_effect(node):
            if lookup(node.op).effect:
                if node.results:
                    raise GradientError(
                        "the gradient of a loop whose number of steps is known only at run time "
                        "cannot call Python functions again", node,
                    )
                continue
            copies = [copy_graph(r) for r in node.regions]
            for region in copies[: len(run_regions(node))]:
                without_effects(region)
            node.regions = tuple(copies)
        nodes.append(node)
    graph.nodes = nodes
