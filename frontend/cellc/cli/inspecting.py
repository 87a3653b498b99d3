"""The inputs of `cellc inspect` (a network, an artifact, a portable file, a folder of a dump), and
the page or JSON that it writes."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler import backends, driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import ParseError
from cellc_compiler.ir.verify import untrusted_graph
from cellc_compiler.lower import memory
from cellc_compiler.lower.budget import BudgetError
from cellc_compiler.lower.instructions import Call, walk
from cellc_compiler.lower.machine import NoRule
from cellc_compiler.passes.base import copy_graph
from cellc_compiler.passes.instantiate import graph_symbols, instantiate
from cellc_runtime import artifact, portable
from cellc_runtime.device import best_for
from cellc_runtime.errors import ArtifactError, counted
from cellc_runtime.files import write_text
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass, field
from cellc_runtime.target import Target
from cellc_runtime.world import Planned, playing

from .. import context
from ..calls.budget import least
from ..calls.callbacks import host_callbacks
from ..compiled.traced import Traced
from ..core import progress
from ..lang import CompileError
from ..ranks import settings
from ..tensors.tensor import arrays_of, host_arrays_of
from ..tools.profiling import profile_traced, size
from ..viewer.model_explorer import collection
from ..viewer.page import page
from ..viewer.report import Subject, document
from ..viewer.sources import Sources
from . import dumping
from .at_sizes import at_sizes, chosen, said
from .commands import budget_of, errors_told, gradient, named, subject_of, target_named, traced_for
from .errors import UserError, about
from .loading import known_shape, sample_inputs, writing
from .open_sizes import listed_sizes
from .saved import SUFFIX, graph_of, input_specs, is_saved

Array = np.ndarray[Any, Any]
_DIMS, _NAME = re.compile(r"\[([^\]]*)\]"), re.compile(r"[A-Za-z_]\w*")
_USUAL = 32  # An open size of a graph in a folder of `cellc dump`, where no option gives another
_STAGE = re.compile(r"(grad_)?(\d+)_(.+)\.txt")


@dataclass(slots=True)
class Inspected:
    """The subjects of a page."""

    title: str  # of the page
    subjects: list[Subject]  # the graphs
    sources: Sources  # the files that may be shown
    # names and values for the page's front
    facts: list[tuple[str, str]] = field(default_factory=list)
    target: Target | None = None  # what its code is for, if that is not this machine


@errors_told((CompileError, BudgetError, backends.UnknownTarget))
def inspect_(args: argparse.Namespace) -> int:
    """`cellc inspect`."""
    context.set_context(numerics=args.numerics)
    if args.runs < 1:
        raise UserError("--runs must be positive")
    target = target_named(args.target) if args.target else None
    if args.diff:
        print(_write(args, _of_pair(args, target or backends.default_target()), target))
        return 0
    if args.network is None:
        raise UserError(dumping.NO_NETWORK)
    if _is_file(args.network):
        print(_write(args, _of_file(args), target))
        return 0
    with _ranks(args):
        return _inspect_network(args, target)


def _inspect_network(args: argparse.Namespace, target: Target | None) -> int:
    """`cellc inspect` of a network in Python."""
    net, specs = subject_of(args)
    sizes = chosen(specs, args.sizes)
    inputs = sample_inputs(at_sizes(specs, sizes))
    traced = named(traced_for(net, inputs), specs)
    graphs = {"training step" if args.train else "forward": traced.graph}
    if args.grad:
        graphs["gradient"] = gradient(traced)
    arrays = traced.fed(arrays_of(inputs))
    shown = _of_network(args, traced, graphs, arrays, budget_of(args), sizes)
    print(_write(args, shown, target))
    return 0


def _is_file(what: str) -> bool:
    """Whether a graph is read from files, and no Python."""
    return Path(what).is_dir() or is_saved(what)


def _write(args: argparse.Namespace, shown: Inspected, target: Target | None) -> str:
    """Write the page, or the JSON of Model Explorer; a line about it."""
    out = Path(args.output)
    if out.suffix not in (".html", ".json"):
        raise UserError(f"--output {out}: expected a name that ends in .html, for the page, or in "
                        ".json, for Model Explorer")
    if out.suffix == ".json":
        text = json.dumps(collection(shown.title, shown.subjects, shown.sources))
    else:
        with progress.stage(shown.title) as say:
            try:
                data, texts = document(shown.title, shown.subjects, shown.sources,
                                       target or shown.target, context.numerics(), say, shown.facts)
            except NoRule as e:
                raise UserError(str(e)) from e
            text = page(data, texts)
    with writing(out):
        write_text(out, text)
    nodes = sum(sum(1 for _ in s.graph.walk()) for s in shown.subjects)
    return f"wrote {out}: {out.stat().st_size / 1024:.0f} KiB, {counted(nodes, 'node')}"


def _of_network(
    args: argparse.Namespace, traced: Traced, graphs: Mapping[str, Graph], inputs: list[Array],
    budget: int | None, sizes: Mapping[str, int],
) -> Inspected:
    """A network in Python.

    Args:
        sizes: those shown of sizes that are open.
        graphs: what is shown, by name: first that of `traced`, then others of its inputs.
        inputs: the arrays of the graph's inputs that are no parameters.
    """
    file, _, name = args.network.rpartition(":")
    limit = least(budget, traced.budget)
    notes = [_open_note(sizes)] if sizes else []
    subjects = [Subject(n, g, budget=limit, notes=notes) for n, g in graphs.items()]
    weights = host_arrays_of(traced.parameters)
    arrays = [*inputs, *map(np.array, weights)]
    for subject in subjects:
        subject.callbacks = host_callbacks(subject.graph, traced.functions)
        if args.values:
            subject.arrays = arrays
    if args.profile:
        subjects[0].profile = profile_traced(
            traced, inputs, args.runs, context.numerics(), budget)
    shown = f"{Path(file).name}:{name}" if file else Path(name).name
    facts = [("network", shown), *_weights(
        {str(i): a for i, a in enumerate(weights)})]
    if args.ranks is not None:
        facts[-1] = f"weights and state of one of {args.ranks} ranks", facts[-1][1]
        print(": ".join(facts[-1]))
    return Inspected(name, subjects, Sources([Path(file).parent, Path.cwd()]), facts)


def _of_pair(args: argparse.Namespace, target: Target) -> Inspected:
    """Two graphs after all passes, the second as a stage that follows from the first."""
    first, second = (what.rpartition("/")[2] for what in args.diff)
    facts = []
    subjects = []
    graphs = [dumping.graphs_of(args, what) for what in args.diff]
    for prefix in graphs[0]:
        if prefix not in graphs[1]:
            raise UserError(f"--diff: {second} has no gradient, but {first} has one")
        a, b = graphs[0][prefix], graphs[1][prefix]
        name = "gradient" if prefix else "forward"
        subjects.append(Subject(name, a, [(second, b)], first=first, notes=[
            f"Both are shown after all passes; code, memory and kernels are those of {second}."]))
        for what, graph in ((first, a), (second, b)):
            lowered = driver.lower(copy_graph(graph), target)
            calls = sum(isinstance(i, Call) for i in walk(lowered.instructions))
            arena = memory.plan(x for x in lowered.buffers if x.first >= 0)
            label = what if len(graphs[0]) == 1 else f"{name}, {what}"
            facts.append((label, f"{counted(calls, 'kernel')}, {size(arena)}"))
    return Inspected(f"{first} and {second}", subjects, Sources([Path.cwd()]), facts)


@contextmanager
def _ranks(args: argparse.Namespace) -> Iterator[None]:
    """Open the world of `--ranks`: this process is the first of that number that train by data."""
    if args.ranks is None:
        yield
        return
    if args.ranks < 1:
        raise UserError(f"--ranks must be positive, but got {args.ranks}")
    if args.profile or args.values:
        raise UserError("--profile and --values need all ranks: leave one of the options out")
    mode = settings.get_auto_parallel_context("parallel_mode")
    settings.set_auto_parallel_context(parallel_mode=settings.ParallelMode.DATA_PARALLEL)
    try:
        with playing(Planned(args.ranks)):
            yield
    finally:
        settings.set_auto_parallel_context(parallel_mode=mode)


def _of_file(args: argparse.Namespace) -> Inspected:
    """Return the contents of files: an artifact, a portable network, or a folder of `cellc dump`.
    """
    for option in ("profile", "train", "grad", "checkpoint", "recompute_budget", "ranks"):
        if getattr(args, option):
            raise UserError(f"--{option.replace('_', '-')} needs the network in Python: "
                            "give FILE.py:NAME")
    path = Path(args.network)
    try:
        if path.is_dir():
            return _folder(path, args)
        file, _, entry = args.network.rpartition(":")
        if file.endswith(SUFFIX):
            return _artifact(Path(file), args, entry)
        if path.suffix == SUFFIX:
            return _artifact(path, args)
        return _portable(path, args)
    except (OSError, ArtifactError, ParseError) as e:
        raise about(str(path), e) from e


def _folder(path: Path, args: argparse.Namespace) -> Inspected:
    if args.values or args.input:
        raise UserError("a folder of `cellc dump` holds no weights: give FILE.py:NAME for --values")
    found: dict[str, list[tuple[int, str, Path]]] = {}
    for file in path.iterdir():
        name = _STAGE.fullmatch(file.name)
        if name is not None:
            found.setdefault(name[1] or "", []).append((int(name[2]), name[3], file))
    if not found:
        raise UserError(f"{path}: no stages of a graph: expected 00_traced.txt and so on, as "
                        "`cellc dump` writes them")
    given = {n: values[0] for n, values in listed_sizes(args.sizes).items()}
    subjects = []
    for prefix, files in sorted(found.items()):
        notes: list[str] = []
        first, *rest = [(name, _stage(f, given, notes)) for _, name, f in sorted(files)]
        subjects.append(Subject("gradient" if prefix else "forward", first[1], rest,
                                notes=notes[:1]))
    return Inspected(path.resolve().name, subjects, Sources(), [("folder", path.name)])


def _stage(path: Path, given: Mapping[str, int], notes: list[str]) -> Graph:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise UserError(f"{path}: not text in UTF-8 ({e})") from None
    names = {n for dims in _DIMS.findall(text.partition("{")[0]) for n in _NAME.findall(dims)}
    sizes = {n: given.get(n, _USUAL) for n in sorted(names)}
    return _closed(untrusted_graph(text, str(path), sizes), sizes, notes)


def _closed(graph: Graph, sizes: Mapping[str, int], notes: list[str]) -> Graph:
    """The graph for these sizes where it leaves some open."""
    symbols = graph_symbols(graph)
    sizes = {n: d for n, d in sizes.items() if n in symbols}
    if sizes:
        notes.append(_open_note(sizes))
    return instantiate(graph, sizes) if sizes else graph


def _open_note(sizes: Mapping[str, int]) -> str:
    return (f"Sizes are open; the graph and its code are shown for {said(sizes)}. "
            "--sizes NAME=N shows another size.")


def _artifact(path: Path, args: argparse.Namespace, only: str | None = None) -> Inspected:
    """All entries of an artifact, or one."""
    loaded = artifact.load(path)
    if only is not None and only not in loaded.entries:
        raise UserError(f"{path} has entries {', '.join(loaded.entries)}; not {only!r}")
    subjects: list[Subject] = []
    given: list[Sequence[str]] = []
    targets: dict[str, None] = {}
    facts = [("artifact", path.name), *_weights(loaded.weights)]
    for entry in loaded.entries if only is None else [only]:
        notes = ["The graph is the artifact's; its stages and code are made from it by this cellc, "
                 "not read from the file's native code."]
        specs, sizes = _sizes(loaded, f"{path}:{entry}", entry, args)
        given.append(specs)
        variant = loaded.sizes(entry).find([*sizes.values()])
        graph = _closed(graph_of(loaded, entry, variant, sizes), sizes, notes)
        programs = loaded.programs(entry)
        targets.update((p.target, None) for p in programs)
        facts += [(entry, line) for line in map(_about, programs)]
        subject = Subject(entry, graph, notes=notes, callbacks=host_callbacks(graph))
        subjects.append(subject)
    _give_arrays(subjects, loaded.weights, args, given)
    facts += list(loaded.metadata.items())
    return Inspected(path.stem, subjects, Sources(), facts, _target_of(list(targets)))


def _sizes(
    loaded: artifact.Artifact, text: str, entry: str, args: argparse.Namespace
) -> tuple[list[str], Mapping[str, int]]:
    """The inputs given for an entry, in its order, and the sizes that its graph is shown for: those
    of the inputs of `--values`, of `--sizes`, or typical ones.

    Raises:
        UserError: a size that the artifact does not serve, or inputs that do not fit the entry.
    """
    given = args.input if args.values else ()
    specs, typical = input_specs(text, given)
    sizes = chosen(specs, args.sizes, typical)
    if not given:
        return [], sizes
    specs = at_sizes(specs, sizes)
    served = loaded.sizes(entry)
    try:
        values = served.bind(loaded.signature(entry).inputs, [known_shape(s) for s in specs])
        served.find(values)
    except (TypeError, ValueError) as e:
        raise about(text, e) from e
    return specs, dict(zip(served.symbols, values, strict=True))


def _about(program: Program) -> str:
    """Return the needs of a program, in a line."""
    parts = [f"{what} {n / 1024:.0f}" for what, n in program.memory().items() if n]
    return f"{program.target}: {', '.join(parts)} KiB"


def _target_of(names: Sequence[str]) -> Target | None:
    """The target that code is shown for: this machine's best one of an artifact's, or its first."""
    best = best_for(names)
    return best or (backends.target_named(names[0]) if names else None)


def _portable(path: Path, args: argparse.Namespace) -> Inspected:
    network = portable.load(path)
    notes: list[str] = []
    graph = _closed(untrusted_graph(network.graph, str(path)), {}, notes)
    subject = Subject("forward", graph, notes=notes, callbacks=host_callbacks(graph))
    _give_arrays([subject], network.weights, args, [args.input])
    return Inspected(path.stem, [subject], Sources(),
                     [("file", path.name), *_weights(network.weights)])


def _give_arrays(
    subjects: Sequence[Subject], weights: Mapping[str, Array], args: argparse.Namespace,
    inputs: Sequence[Sequence[str]],
) -> None:
    """Give each subject the arrays of `--values`: its inputs as in `inputs`, or random ones, and
    the file's weights."""
    if not args.values:
        if args.input:
            raise UserError("--input goes with --values where a file is inspected")
        return
    for subject, specs in zip(subjects, inputs, strict=True):
        taken = [v for v in subject.graph.inputs if v.kind == "input"]
        given = host_arrays_of(sample_inputs(specs or [
            f"{v.name}={v.dtype.name}[{','.join(map(str, v.shape))}]" for v in taken]))
        wanted = [(v.shape, v.dtype.numpy) for v in taken]
        if [(a.shape, a.dtype) for a in given] != wanted:
            takes = ", ".join(f"{v.name} {v.type}" for v in taken)
            raise UserError(f"{subject.name} takes {takes}: give --input for each, in this order")
        missing = [v.name for v in subject.graph.inputs
                   if v.kind not in ("input", "state") and v.name not in weights]
        if missing:
            raise UserError(f"the file has no weight {missing[0]!r}, so there are no --values")
        own = iter(given)
        subject.arrays = [
            next(own) if v.kind == "input" else np.array(weights[v.name]) if v.name in weights
            else np.zeros(v.shape, v.dtype.numpy) for v in subject.graph.inputs]


def _weights(weights: Mapping[str, Array]) -> list[tuple[str, str]]:
    nbytes = sum(a.nbytes for a in weights.values())
    return [("weights", f"{len(weights)}, {nbytes / 2**20:.2f} MiB")]
