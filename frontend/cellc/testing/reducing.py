"""The smallest part of a graph that still shows a fault.

Nodes first: any set of nodes is a graph, where what it reads from the others is an input with the
value it had (delta debugging; Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing
Input", 2002). A loop or branch that is left alone is opened. Then sizes, then the elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from cellc_compiler.interpret import CONTROL, evaluate
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Builder, Graph, Literal, Node, Value
from cellc_compiler.ir.types import TensorType
from cellc_compiler.ir.verify import VerifyError, verify
from cellc_compiler.passes.base import copy_graph
from cellc_compiler.passes.cleanup import Dce
from cellc_runtime.records import dataclass

Array = np.ndarray[Any, Any]
Test = Callable[[Graph, Sequence[Array]], bool]
"""Whether a graph on these inputs still shows the fault."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A graph and its inputs."""

    graph: Graph
    arrays: list[Array]


class _Tries:
    """Counts the tests, and stops them when the time is over."""

    def __init__(self, test: Test, seconds: float) -> None:
        self.test, self.count = test, 0
        self.end = time.monotonic() + seconds

    def __call__(self, sample: Sample | None) -> bool:
        if sample is None or not sample.graph.nodes or time.monotonic() > self.end:
            return False
        self.count += 1
        return self.test(sample.graph, sample.arrays)


def reduce(
    graph: Graph, arrays: Sequence[Array], test: Test, suspect: int = -1, seconds: float = 60.0
) -> tuple[Graph, list[Array], int]:
    """The smallest graph found that still passes `test`, its inputs, and how many were tried.

    Args:
        graph, arrays: which pass it.
        suspect: a node that is probably at fault.
        seconds: after which the smallest so far is taken.
    """
    tries = _Tries(test, seconds)
    sample = Sample(copy_graph(graph), [np.asarray(a) for a in arrays])
    while True:
        sample = _fewer_nodes(sample, tries, suspect)
        opened = _opened(sample, tries)
        if opened is None:
            break
        sample, suspect = opened, -1
    sample = _smaller(sample, tries)
    sample = _plainer(sample, tries)
    return sample.graph, sample.arrays, tries.count


# --- nodes ---------------------------------------------------------------------------------------


def _fewer_nodes(sample: Sample, tries: _Tries, suspect: int) -> Sample:
    values = _values(sample)
    best = sample
    known: dict[tuple[int, ...], bool] = {}

    def test(kept: Sequence[int]) -> bool:
        nonlocal best
        key = tuple(kept)
        if key not in known:
            parts = (cut(sample.graph, values, kept, few) for few in (True, False))
            found = next((p for p in parts if tries(p)), None)
            known[key] = found is not None
            best = found or best
        return known[key]

    kept = list(range(len(sample.graph.nodes)))
    if suspect >= 0:
        kept = next((w for w in _windows(sample.graph, suspect)
                     if len(w) < len(kept) and test(w)), kept)
    _ddmin(kept, test)
    return _bypassed(_fewer_outputs(best, tries), tries)


def _fewer_outputs(sample: Sample, tries: _Tries) -> Sample:
    """Results that the fault does not need are given up."""
    for v in list(sample.graph.results()) if len(sample.graph.results()) > 1 else []:
        graph = copy_graph(sample.graph)
        graph.outputs = [new for old, new in
                         zip(sample.graph.results(), graph.results(), strict=True) if old is not v]
        graph.updates = []
        smaller = Sample(graph, sample.arrays)
        if tries(smaller):
            return _fewer_outputs(smaller, tries)
    return sample


def _bypassed(sample: Sample, tries: _Tries) -> Sample:
    """Nodes whose result can as well be one of their operands are left out."""
    position = len(sample.graph.nodes) - 1
    while position >= 0:
        if position < len(sample.graph.nodes):
            node = sample.graph.nodes[position]
            for k, v in enumerate(node.operands if len(node.results) == 1 else ()):
                if v.type == node.result.type and tries(shorter := _bypass(sample, position, k)):
                    sample = shorter
                    break
        position -= 1
    return sample


def _bypass(sample: Sample, position: int, operand: int) -> Sample:
    graph = copy_graph(sample.graph)
    node = graph.nodes.pop(position)
    table = {node.result: node.operands[operand]}
    for n in graph.nodes:
        n.operands = [table.get(v, v) for v in n.operands]
    graph.outputs = [table.get(v, v) for v in graph.outputs]
    graph.updates = [(old, table.get(new, new)) for old, new in graph.updates]
    Dce().run(graph)
    read = {v for n in graph.nodes for v in n.operands} | set(graph.results())
    kept = [i for i, v in enumerate(graph.inputs) if v in read]
    graph.inputs = [graph.inputs[i] for i in kept]
    return Sample(graph, [sample.arrays[i] for i in kept])


def _values(sample: Sample) -> dict[Value, Array]:
    """Return the reference's values of every node; none for one it cannot run, and its readers."""
    values: dict[Value, Array] = dict(zip(sample.graph.inputs, sample.arrays, strict=True))
    for node in sample.graph.nodes:
        if all(v in values for v in node.operands):
            with suppress(Exception):  # a fault of the reference's own
                results = evaluate(node, [values[v] for v in node.operands])
                values.update(zip(node.results, results, strict=True))
    return values


def _windows(graph: Graph, suspect: int) -> Iterator[list[int]]:
    """Growing sets of nodes around one: with its inputs' nodes, and theirs; with its users."""
    place = {v: i for i, node in enumerate(graph.nodes) for v in node.results}
    found = {suspect}
    for _ in range(6):
        yield sorted(found)
        users = {i for i, n in enumerate(graph.nodes)
                 if any(place.get(v) in found for v in n.operands)}
        yield sorted(found | users)
        found |= {place[v] for i in found for v in graph.nodes[i].operands if v in place}


def _ddmin(items: list[int], test: Callable[[list[int]], bool]) -> list[int]:
    """A subset that passes the test and from which no single item can be taken away."""
    parts = 2
    while len(items) > 1:
        size = -(-len(items) // parts)
        chunks = [items[i : i + size] for i in range(0, len(items), size)]
        smaller = next((c for c in chunks if len(c) < len(items) and test(c)), None)
        if smaller is not None:
            items, parts = smaller, 2
            continue
        rest = [[x for x in items if x not in set(c)] for c in chunks]
        smaller = next((r for r in rest if r and test(r)), None) if parts > 2 else None
        if smaller is not None:
            items, parts = smaller, max(parts - 1, 2)
        elif size == 1:
            break
        else:
            parts = min(2 * parts, len(items))
    return items


def cut(
    graph: Graph, values: dict[Value, Array], kept: Sequence[int], few: bool = False
) -> Sample | None:
    """The graph of some nodes: what they read of others are inputs, what others read of them, or
    nobody, are outputs. None if a value that they read is not known. `few`: the graph's own outputs
    alone, if it has any of them."""
    out = Graph(graph.name)
    table: dict[Value, Value] = {}
    arrays: list[Array] = []
    chosen = [graph.nodes[i] for i in kept]
    made = {r for n in chosen for r in n.results}
    if any(v not in made and v not in values for n in chosen for v in n.operands):
        return None
    names = {v.name for v in graph.inputs}

    def operand(v: Value) -> Value:
        if v not in table:
            if v.node is not None and v.node.is_constant and v not in made:
                table[v] = Builder(out).literal(v.node.attrs["value"].array)
                return table[v]
            name = v.name if v.node is None else _free(f"v{len(arrays)}", names)
            names.add(name)
            table[v] = out.add_input(v.type, name, v.kind if v.node is None else "input")
            arrays.append(np.array(values[v]).astype(v.dtype.numpy).reshape(v.shape))
        return table[v]

    for node in chosen:
        copy = node.clone([operand(v) for v in node.operands], tuple(map(copy_graph, node.regions)))
        table.update(zip(node.results, copy.results, strict=True))
        out.nodes.append(copy)
    read = {v for n in chosen for v in n.operands}
    results = set(graph.results())
    own = [table[r] for n in chosen for r in n.results if r in results]
    ends = [table[r] for n in chosen for r in n.results if r in results or r not in read]
    out.outputs = own if few and own else ends
    return Sample(out, arrays)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


# --- loops and branches --------------------------------------------------------------------------


def _opened(sample: Sample, tries: _Tries) -> Sample | None:
    """Return the inside of a loop or branch that is the only node, if that fails as well."""
    nodes = [n for n in sample.graph.nodes if not n.is_constant]
    if len(nodes) != 1 or not nodes[0].regions:
        return None
    values, node = _values(sample), nodes[0]
    if any(v not in values for v in node.operands):
        return None
    for region, arrays in _first_runs(node, [values[v] for v in node.operands]):
        graph = copy_graph(region)
        for i, v in enumerate(graph.inputs):
            v.kind, v.name = "input", f"x{i}"
        inner = Sample(graph, [np.asarray(a, v.dtype.numpy).reshape(v.shape)
                               for v, a in zip(graph.inputs, arrays, strict=True)])
        if tries(inner):
            return inner
    return None


_RUNS = 8  # Runs of regions of a node that are tried


def _first_runs(node: Node, arrays: list[Array]) -> list[tuple[Graph, list[Array]]]:
    """The regions of a node with what they are given the first times."""
    runs: list[tuple[Graph, list[Array]]] = []

    def run(region: Graph, given: Sequence[Array], _: str) -> list[Array]:
        if len(runs) == _RUNS:
            raise StopIteration
        runs.append((region, list(given)))
        return interpret(region, given)

    with suppress(Exception):  # a fault of the reference's own, or enough
        CONTROL[node.op](node, arrays, run)
    return runs


# --- sizes ---------------------------------------------------------------------------------------


def _smaller(sample: Sample, tries: _Tries) -> Sample:
    """Make each size as small as it can be, the largest first."""
    done: set[int] = set()
    while True:
        values = [*sample.graph.inputs, *(r for n in sample.graph.nodes for r in n.results)]
        sizes = {d for v in values for d in v.shape if d > 1} - done
        if not sizes:
            return sample
        size = max(sizes)
        done.add(size)
        for new in _candidates(size):
            smaller = next((s for attrs in (True, False)
                            if tries(s := resized(sample, size, new, attrs))), None)
            if smaller is not None:
                sample = smaller
                done.add(new)
                break


def _candidates(size: int) -> list[int]:
    found, d = [1, 2, 3], 4
    while d < size:
        found += [d, d + 1]
        d *= 2
    return [d for d in found if d < size]


def resized(sample: Sample, old: int, new: int, attrs: bool) -> Sample | None:
    """The sample with every size `old` made `new`; None if that is no graph. `attrs`: whether
    numbers in attributes are sizes too."""
    try:
        graph = _resized_graph(sample.graph, old, new, attrs)
        verify(graph)
    except (VerifyError, TypeError, ValueError, IndexError, KeyError, AssertionError):
        return None
    arrays = [_part(a, old, new).reshape(v.shape)
              for a, v in zip(sample.arrays, graph.inputs, strict=True)]
    return Sample(graph, arrays)


def _part(a: Array, old: int, new: int) -> Array:
    return np.ascontiguousarray(a[tuple(slice(0, new) if d == old else slice(None)
                                        for d in a.shape)]) if a.ndim else a


def _resized_type(ty: TensorType, old: int, new: int) -> TensorType:
    return ty.with_shape(tuple(new if d == old else d for d in ty.dims))


def _resized_graph(graph: Graph, old: int, new: int, attrs: bool) -> Graph:
    out = Graph(graph.name)
    b = Builder(out)
    table: dict[Value, Value] = {}
    for v in graph.inputs:
        table[v] = out.add_input(_resized_type(v.type, old, new), v.name, v.kind)
    for node in graph.nodes:
        regions = tuple(_resized_graph(r, old, new, attrs) for r in node.regions)
        own = {k: _resized_attr(x, old, new, attrs) for k, x in node.attrs.items()}
        with b.at(span=node.span, scope=node.scope):
            made = b.node(node.op, [table[v] for v in node.operands], own, regions)
        table.update(zip(node.results, made.results, strict=True))
    out.outputs = [table[v] for v in graph.outputs]
    out.updates = [(table[a], table[z]) for a, z in graph.updates]
    return out


def _resized_attr(x: Any, old: int, new: int, attrs: bool) -> Any:
    if isinstance(x, Literal):
        return Literal(_part(x.array, old, new))
    if not attrs:
        return x
    if isinstance(x, tuple):
        return tuple(_resized_attr(y, old, new, attrs) for y in x)
    return new if type(x) is int and x == old else x


# --- elements ------------------------------------------------------------------------------------


def _plainer(sample: Sample, tries: _Tries) -> Sample:
    """Replace the elements of each input by plainer ones, where the fault stays."""
    for i, array in enumerate(sample.arrays):
        for plain in _plain_elements(array):
            arrays = [plain if k == i else a for k, a in enumerate(sample.arrays)]
            if tries(Sample(sample.graph, arrays)):
                sample = Sample(sample.graph, arrays)
                break
    return sample


def _plain_elements(a: Array) -> Iterable[Array]:
    if a.size == 0 or a.dtype.kind in "bc":
        return
    counted = (np.arange(a.size) % 5 + 1).reshape(a.shape)
    if a.dtype.kind not in "iu":
        yield np.ones(a.shape, a.dtype)
        yield counted.astype(a.dtype)
        wide = a.astype(np.float64)
        if np.all(np.isfinite(wide)):
            yield np.round(wide, 1).astype(a.dtype)
            yield np.round(wide, 3).astype(a.dtype)
    else:
        yield np.zeros(a.shape, a.dtype)
