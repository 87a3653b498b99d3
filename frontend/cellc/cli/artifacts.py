"""Artifacts as the command line makes and runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler import driver
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.batch_axis import NotBatchIndependent
from cellc_compiler.ir.dims import is_symbolic
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.passes.batch_axis import batch_sizes
from cellc_compiler.passes.instantiate import graph_symbols, instantiate
from cellc_runtime import artifact
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program
from cellc_runtime.target import Target, best_of

from .. import context
from ..calls.budget import least
from ..calls.callbacks import executed, host_callbacks
from ..compiled.entries import Traced
from ..core import progress
from ..lang import CompileError
from ..nn.cell import Cell
from ..tensors.tensor import Tensor
from ..tools import budget_view
from ..tracing.exceptions import ERRORS
from ..train.weights_file import read
from .errors import UserError
from .loading import writing

Array = np.ndarray[Any, Any]


def write(
    path: str, entries: Mapping[str, Traced], targets: Sequence[Target], budget: int | None = None
) -> str:
    """Compile entries for targets and write one artifact; a report of lines.

    Args:
        budget: bytes for the temporaries of an entry that computes gradients.

    Raises:
        UserError: the file cannot be written.
    """
    weights: dict[str, Array] = {}
    built: dict[str, artifact.Entry] = {}
    lines: list[str] = []
    for name, traced in entries.items():
        _refuse_python(traced)
        rename_parameters(traced, weights)
        graphs, opened = _instances(traced.graph)
        programs = [p for target in dict.fromkeys(targets)  # one that is asked for twice is one
                    for p in _programs(name, graphs, target, lines,
                                       least(traced.budget, budget))]
        built[name] = artifact.Entry(programs, print_graph(traced.graph), opened)
    with writing(path):
        artifact.save(path, built, weights)
    size = Path(path).stat().st_size
    return "\n".join([*lines, f"wrote {path}: {size / 1024:.0f} KiB, {len(weights)} weights"])


def _programs(
    name: str, graphs: Mapping[int, Graph], target: Target, lines: list[str], budget: int | None
) -> list[Program]:
    """The programs of an entry for one target; what they are goes to `lines`."""
    out: list[Program] = []
    for size, graph in graphs.items():
        report = driver.Report()
        batch = f", batch {size}" if len(graphs) > 1 else ""
        with progress.stage(f"{name} for {target.name}{batch}") as say:
            out.append(driver.compile_program(graph, target, report=report, progress=say,
                                              numerics=context.numerics(), budget=budget))
        source = "from the cache" if report.cached else f"{report.kernels} kernels"
        memory = out[-1].memory()
        parts = ", ".join(f"{what} {n / 1024:.0f}" for what, n in memory.items() if n)
        lines.append(f"{name}: {target.name}{batch}: {source}, "
                     f"{report.arena_bytes / 1024:.0f} KiB of temporaries")
        if report.recomputed is not None:
            lines += [f"  {line}".rstrip() for line in budget_view.text(report.recomputed)]
        spare = out[-1].released_bytes
        less = f"; a Cell gives up {spare / 1024:.0f} of parameters when packed" if spare else ""
        lines.append(f"  memory of a call: {sum(memory.values()) / 1024:.0f} KiB ({parts}){less}")
    return out


def _instances(graph: Graph) -> tuple[dict[int, Graph], tuple[int, ...]]:
    """The graphs to compile: one, or for an open batch one for each of a few sizes.

    Raises:
        UserError: no set of sizes serves all.
    """
    symbols = sorted(graph_symbols(graph))
    measured = next((n for n in graph.walk() if n.op == "measure"), None)
    if measured is not None:
        raise UserError(
            f"{measured.span.file}:{measured.span.line}: a size follows from elements; an "
            "artifact cannot find it out: use a form of fixed shape (where, masked_fill)"
        )
    if not symbols:
        return {0: graph}, ()
    try:
        sizes = batch_sizes(graph)
    except NotBatchIndependent as e:
        raise UserError(f"an artifact cannot serve all sizes of {', '.join(symbols)}: {e}") from e
    opened = tuple(i for i, v in enumerate(graph.inputs) if not v.type.is_static)
    return {n: instantiate(graph, {symbols[0]: n}) for n in sizes}, opened


def _of_inputs(graph: Graph, inputs: Sequence[Array]) -> Graph:
    """The graph for the sizes of these inputs."""
    sizes = {
        str(d): np.shape(a)[axis]
        for v, a in zip(graph.inputs, inputs, strict=False)
        for axis, d in enumerate(v.type.shape) if is_symbolic(d)
    }
    return instantiate(graph, sizes) if sizes else graph


def _refuse_python(traced: Traced) -> None:
    """An artifact runs without the program it was made from."""
    if traced.state is not None:
        try:
            traced.state.refuse()
        except CompileError as e:
            raise UserError(str(e)) from e
    for node in executed(traced.graph):
        if node.op == "host_call":
            raise UserError(
                f"{node.span.file}:{node.span.line}: the network calls the Python function "
                f"{node.attrs['name']}() when it runs (py_func, a hook or print_); an artifact "
                "cannot: take it away, or write it with functions of cellc.ops"
            )


def rename_parameters(traced: Traced, weights: dict[str, Array]) -> None:
    """Collect the parameters of an entry as weights of the artifact.

    Entries share a weight when they share the parameter; a graph's input takes its name.
    """
    inputs = [v for v in traced.graph.inputs if v.kind != "input"]
    for value, parameter in zip(inputs, traced.parameters, strict=True):
        known = weights.get(value.name)
        if known is not None and known is not parameter._data:
            raise UserError(f"two different parameters are called {value.name!r}")
        weights[value.name] = parameter._data


def call(path: str, entry: str, inputs: Sequence[Array]) -> list[Array]:
    """Run an entry: its native code, or a compilation of its graph if it has none for here."""
    loaded = artifact.load(path)
    graph = parse_graph(loaded.graph_text(entry))
    callbacks = host_callbacks(graph)
    if best_of(loaded.targets(entry)) is None:
        program = driver.compile_program(_of_inputs(graph, inputs))
        executable = Executable(program, callbacks, ERRORS)
        executable.bind([np.array(loaded.weights[s.name]) for s in program.of_kind("param")])
        return executable.call(inputs)
    out = artifact.load(path, trust_native_code=True, callbacks=callbacks).call(entry, *inputs)
    return list(out) if isinstance(out, tuple) else [out]


def reference(path: str, entry: str, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of an entry by the numpy interpreter: no native code of the file is run."""
    loaded = artifact.load(path)
    graph = _of_inputs(parse_graph(loaded.graph_text(entry)), inputs)
    params = [loaded.weights[v.name] for v in graph.inputs if v.kind != "input"]
    return interpret(graph, [*inputs, *params])[: len(graph.outputs)]


def load_parameters(net: Any, path: str) -> None:
    """Set a network's parameters from a file: MindSpore's format if its suffix is `.ckpt`, else
    safetensors.

    Raises:
        UserError: the file cannot be read, or lacks a parameter, or a shape differs.
    """
    if not isinstance(net, Cell):
        raise UserError("--checkpoint needs a Cell")
    try:
        entries = read(path, "ckpt" if path.endswith(".ckpt") else "safetensors")
    except (OSError, ValueError) as e:
        raise UserError(f"{path}: {e}") from e
    arrays = {name: a for name, a in entries.items() if isinstance(a, np.ndarray)}
    for name, parameter in net.parameters_dict().items():
        if name not in arrays:
            raise UserError(f"{path} has no parameter {name!r}")
        if arrays[name].shape != parameter.shape:
            raise UserError(f"{path}: {name!r} has shape {arrays[name].shape}, the network "
                            f"{parameter.shape}")
        parameter.set_data(Tensor(np.array(arrays[name])))
