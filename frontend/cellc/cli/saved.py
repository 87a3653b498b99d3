"""Files in the place of networks: `NET.cellc`, `NET.cellc:ENTRY` or cellc's own `NET.cir` where
`FILE.py:NAME` may be.

An entry's graph is read from the file and run as a Cell, in either mode; nothing of the file's own
code is run. `code_fault` runs that, and holds it against the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.verify import untrusted_graph
from cellc_compiler.passes.instantiate import instantiate
from cellc_runtime import artifact
from cellc_runtime.artifact import Artifact
from cellc_runtime.device import best_for
from cellc_runtime.dtypes import float32
from cellc_runtime.errors import ArtifactError, counted
from cellc_runtime.found_sizes import Way
from cellc_runtime.records import dataclass
from cellc_runtime.variants import ANY, OpenSizes

from ..calls.callbacks import host_callbacks
from ..compiled.found_sizes import at_found, found_in
from ..compiled.traced import Traced
from ..nn.graph_cell import GraphCell, LoadedGraph
from ..tensors.seed import state_named
from ..tracing.exceptions import ERRORS
from ..tracing.pytree import Box, Leaf
from ..train.export import load
from ..verification.values import same_bits
from .errors import UserError, about
from .loading import InputType, input_types, is_model
from .open_sizes import typical_sizes

Array = np.ndarray[Any, Any]
_TRIED, _MOST_TRIED = (10, 1, 0, 2, 10_000), 1000
"""Sizes for which ops look at operands, where a call finds them."""
SUFFIX = ".cellc"
PORTABLE = (".cir", ".mindir")


def is_saved(text: str) -> bool:
    """Whether the text of the command line names an artifact or a portable file."""
    return _parts(text)[0].endswith((SUFFIX, *PORTABLE)) and not is_model(text)


def _parts(text: str) -> tuple[str, str]:
    """The file and the entry."""
    path, sep, entry = text.rpartition(":")
    return (path, entry) if sep and path.endswith(SUFFIX) else (text, artifact.DEFAULT_ENTRY)


def _firsts(loaded: Artifact, entry: str) -> list[int]:
    """For each graph of an entry the first variant that it is of."""
    numbers = [v.graph for v in loaded.sizes(entry).variants]
    return [numbers.index(k) for k in sorted(set(numbers))]


def graph_of(
    loaded: Artifact, entry: str, variant: int = 0, sizes: Mapping[str, int] | None = None,
    way: int = 0,
) -> Graph:
    """A graph of an artifact, which may be hostile.

    Args:
        sizes: some that the variant serves (default: typical ones).
        way: which of an entry that finds sizes as it runs.

    Raises:
        ArtifactError: there is none, or it is malformed.
    """
    if sizes is None:
        sizes = served_sizes(loaded.signature(entry).inputs, loaded.sizes(entry), variant)
    text = loaded.graph_text(entry, variant, way)
    what, ways = f"the graph of entry {entry!r}", loaded.ways(entry, variant)
    if not ways:
        return untrusted_graph(text, what, sizes)
    refused: ArtifactError | None = None
    for found in _some_found(ways[way], sizes):
        try:
            return untrusted_graph(text, what, {**sizes, **found})
        except ArtifactError as e:
            refused = refused or e
    raise refused or ArtifactError(f"{what} is malformed: nothing that it finds fits it")


def _some_found(way: Way, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield a few sizes that a way may find."""
    names = [f.name for stage in way.stages for f in stage.found]
    points = itertools.islice(itertools.product(_TRIED, repeat=len(names)), _MOST_TRIED)
    found = (dict(zip(names, point, strict=True)) for point in points)
    yield from itertools.islice(
        (f for f in found if way.broken({**sizes, **f}) is None), len(_TRIED))


def graph_for(loaded: Artifact, entry: str, arrays: Sequence[Array]) -> Graph:
    """The graph of an entry for these inputs, and for the sizes that it finds for them.

    Raises:
        ArtifactError: the artifact holds no graphs.
        ValueError: sizes that it does not serve.
    """
    sizes = loaded.sizes(entry)
    values = sizes.bind(loaded.signature(entry).inputs, [np.shape(a) for a in arrays])
    named = dict(zip(sizes.symbols, values, strict=True))
    variant = sizes.find(values)
    refused = ""
    for w, way in enumerate(loaded.ways(entry, variant) or (None,)):
        graph = graph_of(loaded, entry, variant, named, w)
        if way is None:
            return instantiate(graph, named) if named else graph
        graph = instantiate(graph, named)
        weights = [loaded.weights[v.name] for v in graph.inputs if v.kind != "input"]
        found, wrong = found_in(graph, [*arrays, *weights], [
            g for g in way.guards if {*g.names} - named.keys()])
        broken = way.broken({**named, **found})
        if not wrong and broken is None:
            return at_found(graph, found)
        refused = f"{broken} is needed, but the call finds {found}"
    raise ValueError(refused)


@dataclass
class Saved:
    """An entry of an artifact, for inputs of known types."""

    # path, entry: where it is from
    path: str
    entry: str
    inputs: list[str]  # the names of its inputs
    graph: Graph  # for the sizes of the inputs
    cell: GraphCell  # runs the graph
    numerics: str  # what it was compiled with

    @property
    def traced(self) -> Traced:
        """The graph as if it had been traced."""
        own = self.cell.parameters_dict()
        outside = [own[v.name] if v.name in own else state_named(v.name)
                   for v in self.graph.inputs if v.kind != "input"]
        return Traced(self.graph, len(self.inputs), [*outside], results_of(self.graph), [], [])


def input_specs(text: str, given: Sequence[str]) -> tuple[list[str], Mapping[str, int]]:
    """`--input` options in the order of the entry's inputs (where none is given, its types, with
    names for open sizes), and sizes that the entry serves."""
    if text.endswith(PORTABLE):
        inputs = [(v.name, v.dtype.name, v.shape) for v in _portable(text).graph.inputs
                  if v.kind == "input"]
        sizes = OpenSizes()
    else:
        loaded, entry = opened_file(text)
        inputs, sizes = [*loaded.signature(entry).inputs], loaded.sizes(entry)
    types = {name: f"{name}={dtype}[{','.join(map(str, sizes.shown(i, shape)))}]"
             for i, (name, dtype, shape) in enumerate(inputs)}
    if not given:
        return [*types.values()], served_sizes(inputs, sizes)
    by_name = {spec.partition("=")[0]: spec for spec in given}
    open_ = {d for t in input_types(given) or () for d in t.shape if isinstance(d, str)}
    if sorted(by_name) != sorted(types) or len(given) != len(types) or open_ - {*sizes.symbols}:
        served = f" (served: {sizes})" if sizes.symbols else ""
        raise UserError(f"{text} takes {', '.join(types.values())}: give each with --input{served}")
    return [by_name[name] for name in types], served_sizes(inputs, sizes)


def served_sizes(
    inputs: Sequence[tuple[str, str, Sequence[int]]], sizes: OpenSizes, number: int = 0
) -> dict[str, int]:
    """Sizes that a variant of an entry serves, typical ones where it can."""
    variant = sizes.variants[number]
    shapes = [InputType(name, sizes.shown(i, shape), float32)
              for i, (name, _, shape) in enumerate(inputs)]
    named = typical_sizes(shapes)
    usual = [named[n] if d == ANY else d for n, d in zip(sizes.symbols, variant.at, strict=True)]
    for low, high in variant.ranges[:1]:
        usual = [max(low, u if high == ANY else min(u, high)) if d == ANY else d
                 for u, d in zip(usual, variant.at, strict=True)]
    return dict(zip(sizes.symbols, usual, strict=True))


def _portable(path: str) -> LoadedGraph:
    try:
        return load(path)
    except (RuntimeError, ValueError) as e:
        raise UserError(str(e)) from e


def load_saved(text: str, arrays: Sequence[Array]) -> Saved:
    """An entry of an artifact, for these inputs: for their sizes, and those that it finds."""
    if text.endswith(PORTABLE):
        network = _portable(text)
        return _saved(text, artifact.DEFAULT_ENTRY, network.graph, network.weights, network.frozen,
                      "strict")
    loaded, entry = opened_file(text)
    try:
        graph = graph_for(loaded, entry, arrays)
    except (ArtifactError, TypeError, ValueError) as e:
        raise about(text, e) from e
    outside = [v for v in graph.inputs if v.kind != "input"]
    missing = [v.name for v in outside if v.name not in loaded.weights]
    if missing:
        raise UserError(f"{text}: the graph reads {missing[0]!r}, which is no weight of the file")
    frozen = frozenset(v.name for v in outside if v.kind != "param")
    weights = {v.name: np.array(loaded.weights[v.name]) for v in outside}
    return _saved(_parts(text)[0], entry, graph, weights, frozen,
                  loaded.metadata.get("numerics", "strict"))


def _saved(
    path: str, entry: str, graph: Graph, weights: Mapping[str, Array], frozen: frozenset[str],
    numerics: str,
) -> Saved:
    """A graph as a network that takes its inputs one by one."""
    inputs = [v.name for v in graph.inputs if v.kind == "input"]
    positional = Box(tuple, (), tuple(Leaf(i) for i in range(len(inputs))))
    arguments = Box(tuple, (), (positional, Box(dict, (), ())))
    cell = GraphCell(LoadedGraph(graph, weights, frozen, arguments, results_of(graph)))
    return Saved(path, entry, inputs, graph, cell, numerics)


def results_of(graph: Graph) -> Any:
    """The structure of what an entry returns."""
    count = len(graph.outputs)
    return Leaf(0) if count == 1 else Box(tuple, (), tuple(Leaf(i) for i in range(count)))


def entries_of(text: str) -> tuple[str, list[str]]:
    """The file of the command line, and its entries; the one that the text names, if it does."""
    path, entry = _parts(text)
    if path != text:
        return path, [entry]
    try:
        return path, [*artifact.load(path).entries]
    except (OSError, ArtifactError) as e:
        raise about(path, e) from e


def opened_file(text: str) -> tuple[Artifact, str]:
    """The artifact of the command line, whose code is not run, and the entry."""
    path, entry = _parts(text)
    try:
        loaded = artifact.load(path)
        loaded.signature(entry)
    except KeyError as e:
        raise UserError(str(e.args[0])) from e
    except (OSError, ArtifactError) as e:
        raise about(path, e) from e
    return loaded, entry


def open_trusted(path: str) -> Artifact:
    """An artifact that may run, with the functions that print."""
    loaded = artifact.load(path)
    callbacks = {name: f for entry in loaded.entries if loaded.has_graph(entry)
                 for variant in _firsts(loaded, entry)
                 for way in range(len(loaded.ways(entry, variant)) or 1)
                 for name, f in host_callbacks(
                     graph_of(loaded, entry, variant, way=way)).items()}
    return artifact.load(path, trust_native_code=True, callbacks=callbacks)


def code_fault(saved: Saved, arrays: Sequence[Array]) -> tuple[str, str]:
    """The code of the file is run, which trusts it, and its results and updated weights are held
    against those of its graph, compiled now for the same target.

    Returns:
        Return the name of the comparison, and the first difference or "".
    """
    trusted = open_trusted(saved.path)
    target = best_for(trusted.targets(saved.entry))
    if target is None:
        return "", ""
    graph = saved.graph
    program = driver.compile_program(graph, target, numerics=saved.numerics)
    own = iter(arrays)
    given = [next(own) if v.kind == "input" else trusted.weights[v.name] for v in graph.inputs]
    want = driver.loaded(program, graph, host_callbacks(graph), ERRORS)(given)
    got = trusted.call(saved.entry, *arrays)
    outputs = list(got) if isinstance(got, tuple) else [got]
    updated = [old.name for old, _ in graph.updates]
    names = [*(f"output {i}" for i in range(len(outputs))), *(f"weight {n}" for n in updated)]
    made = [*outputs, *(trusted.weights[n] for n in updated)]
    what = (f"{counted(len(outputs), 'output')} and {len(updated)} updated "
            f"weight{'s' * (len(updated) != 1)} on {target.name}")
    for name, a, b in zip(names, made, want, strict=True):
        if not same_bits(a, b):
            return what, f"{name} of the code in the file differs from that of its graph"
    return what, ""


