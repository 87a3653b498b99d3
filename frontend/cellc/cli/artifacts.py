"""Artifacts as the command line makes and runs them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler import driver
from cellc_compiler.backends.base import Built
from cellc_compiler.interpret import run as interpret
from cellc_compiler.ir.graph import Builder, Graph, Node, Value
from cellc_compiler.ir.op import Op, lookup
from cellc_compiler.ir.text import print_graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.passes.base import rewrite
from cellc_runtime import artifact
from cellc_runtime.device import best_for
from cellc_runtime.dtypes import DType, bfloat16, float16, float32
from cellc_runtime.errors import counted
from cellc_runtime.executable import Executable
from cellc_runtime.program import Program
from cellc_runtime.records import dataclass, field, replace
from cellc_runtime.target import Target
from cellc_runtime.variants import ANY, OpenSizes

from .. import context
from ..calls.budget import least
from ..calls.callbacks import executed, host_callbacks
from ..compiled.traced import Traced
from ..core import progress
from ..core.later import open_sizes
from ..lang import CompileError
from ..nn.cell import Cell
from ..tensors.parameter import Parameter
from ..tensors.tensor import Tensor, cast_array, elements_now
from ..tools import budget_view
from ..tracing.exceptions import ERRORS
from ..train.weights_file import read
from . import found_sizes
from .errors import UserError, about
from .loading import writing
from .open_sizes import Plan
from .saved import graph_for, open_trusted

Array = np.ndarray[Any, Any]


def write(
    path: str, entries: Mapping[str, Plan], targets: Sequence[Target], budget: int | None = None,
    graphs: bool = True, donate: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Compile entries for targets and write one artifact; a report of lines.

    Args:
        budget: bytes for the temporaries of an entry that computes gradients.
        graphs: whether the file holds the graphs as text.
        donate: by entry, the inputs whose memory takes a result.
    """
    if path.endswith((".onnx", ".mindir", ".cir")):
        raise UserError(f"{path}: an artifact is written, whose name ends in .cellc; "
                        "cellc export writes ONNX, MindIR and .cir")
    made = make(entries, targets, budget, graphs, donate)
    with writing(path):
        artifact.save(path, made.entries, made.weights, {"numerics": context.numerics()})
    size = Path(path).stat().st_size
    weights = counted(len(made.weights), "weight")
    made.lines.append(f"wrote {path}: {size / 1024:.0f} KiB, {weights}")
    return "\n".join(made.lines)


@dataclass
class Compiled:
    """Entries as they are compiled.

    Attributes:
        entries: by name.
        weights: by name.
        lines: a report.
        built: for a library, the objects of each program of an entry, by its name.
    """

    entries: dict[str, artifact.Entry] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    built: dict[str, list[Built]] = field(default_factory=dict)


def make(
    entries: Mapping[str, Plan], targets: Sequence[Target], budget: int | None = None,
    graphs: bool = True, donate: Mapping[str, Sequence[str]] | None = None, objects: bool = False,
) -> Compiled:
    """Compile entries for targets; the arguments are those of `write`.

    Args:
        objects: whether the objects of the code are wanted.
    """
    weights, found = _Weights(_narrow([t for p in entries.values() for t in p.traces])), Compiled()
    for name, plan in entries.items():
        for traced in plan.traces:
            _refuse_python(traced)
            if objects:
                found_sizes.refuse(traced.graph, "a C library")
                _refuse_host(traced)
            elif not graphs:
                _refuse_prints(traced)
            weights.name(traced)
        least_budget = least(plan.traces[0].budget, budget)
        made = _Made(name, found.lines, _donated(name, plan, (donate or {}).get(name, ())),
                     [] if objects else None)
        texts = [print_graph(t.graph) for t in plan.traces] if graphs else []
        if plan.finds:
            found.entries[name] = _staged(name, plan, [*dict.fromkeys(targets)], texts, found.lines)
            continue
        for target in dict.fromkeys(targets):  # one that is asked for twice is one
            made.compile(plan, target, least_budget)
        opened = bool(plan.sizes.symbols)
        found.entries[name] = artifact.Entry(
            () if opened else made.variants[0][0], texts, plan.sizes,
            made.variants if opened else (), made.donated)
        found.built[name] = made.built or []
    found.weights = weights.arrays
    return found


class _Made:
    """The programs of an entry as they are compiled; what they are goes to `lines`."""

    def __init__(
        self, name: str, lines: list[str], donated: Sequence[tuple[int, int]] = (),
        built: list[Built] | None = None,
    ) -> None:
        self.built = built  # the code of each program, with its objects; None: not wanted
        self.name = name
        self.lines = lines
        self.donated = donated
        # for each variant, by batch size, a program for each target
        self.variants: list[dict[int, list[Program]]] = []

    def compile(self, plan: Plan, target: Target, budget: int | None) -> None:
        """Compile all programs for a target."""
        sizes = plan.sizes
        reports: list[driver.Report] = []
        programs: list[Program] = []
        for number, variant in enumerate(sizes.variants):
            if number == len(self.variants):
                self.variants.append({})
            at = [f"{s} = {d}" for s, d in zip(sizes.symbols, variant.at, strict=True) if d != ANY]
            if variant.opened:
                graph, shapes = plan.opened(number)
                program = self._kept(open_sizes.compile_open, open_sizes.compile_open_objects)(
                    _written_over(graph, self.donated), shapes, target, context.numerics())
                self.variants[number].setdefault(0, []).append(program)
                programs.append(program)
                continue
            for size, graph in plan.graphs(number).items():
                report = driver.Report()
                rows = [f"batch {size}"] if variant.sizes else []
                which = ", ".join([f"{self.name} for {target.name}", *rows, *at])
                with progress.stage(which) as say:
                    program = self._kept(driver.compile_program, driver.compile_objects)(
                        _written_over(graph, self.donated), target, report=report, progress=say,
                        numerics=context.numerics(), budget=budget)
                self.variants[number].setdefault(size, []).append(program)
                reports.append(report)
                programs.append(program)
        head = f"{self.name}: {target.name}"
        if sizes.symbols:
            self.lines += _many(head, sizes, programs, reports)
            self.lines += [f"  {note}" for note in plan.notes]
        else:
            self.lines += _one(head, programs[0], reports[0])

    def _kept(
        self, alone: Callable[..., Program], both: Callable[..., tuple[Program, Built]]
    ) -> Callable[..., Program]:
        """A compilation to a program; where objects are wanted, one that keeps them, too."""
        def compiled(*args: Any, **options: Any) -> Program:
            assert self.built is not None
            program, code = both(*args, **options)
            self.built.append(code)
            return program

        return alone if self.built is None else compiled


def _staged(
    name: str, plan: Plan, targets: Sequence[Target], texts: Sequence[str], lines: list[str]
) -> artifact.Entry:
    """An entry that finds sizes as it runs; what its programs are goes to `lines`."""
    made = found_sizes.Made()
    for number in range(len(plan.sizes.variants)):
        with progress.stage(f"{name}, which finds sizes"):
            found_sizes.compile_variant(made, number, plan.ways_of(number), targets)
    programs = [p for of in made.programs.values() for p in of]
    code = sum(p.image.size + len(p.constants) for p in programs)
    served = f"serves {plan.sizes} and " if plan.sizes.symbols else ""
    lines += [f"{name}: {', '.join(t.name for t in targets)}: {served}finds sizes as it runs",
              f"  {counted(len(programs), 'program')}, {code / 1024:.0f} KiB of code and constants",
              *(f"  {note}" for note in plan.notes)]
    graphs = [g for number in range(len(plan.sizes.variants)) for _, g, _ in plan.ways_of(number)]
    return artifact.Entry(graphs=texts, sizes=plan.sizes, staged=found_sizes.staged_programs(
        made, graphs, plan.sizes))


def _donated(entry: str, plan: Plan, names: Sequence[str]) -> list[tuple[int, int]]:
    """For each input that is donated, the first result of its type that is left: `(output, input)`.
    """
    graph = plan.traces[0].graph
    inputs = [v for v in graph.inputs if v.kind == "input"]
    there = [v.name for v in inputs]
    found: dict[int, int] = {}
    for name in dict.fromkeys(names):
        if name not in there:
            raise UserError(f"the entry {entry!r} has no input {name!r} to donate; it has "
                            f"{', '.join(there)}")
        if plan.finds:
            raise UserError(f"the entry {entry!r} finds sizes as it runs, in several programs, and "
                            f"cannot write over {name!r}")
        if plan.sizes.batch is not None:
            raise UserError(f"the entry {entry!r} serves any batch, so it computes some rows twice "
                            f"and cannot write over {name!r}: list the sizes")
        value = inputs[there.index(name)]
        fits = (k for k, v in enumerate(graph.outputs) if k not in found and v.type == value.type)
        k = next(fits, None)
        if k is None:
            raise UserError(f"the entry {entry!r} has no result of the type {value.type} that "
                            f"could be written over {name!r}")
        found[k] = there.index(name)
    return sorted(found.items())


def _written_over(graph: Graph, donated: Sequence[tuple[int, int]]) -> Graph:
    """The graph whose donated outputs are updates of inputs."""
    inputs = [v for v in graph.inputs if v.kind == "input"]
    updates = [(inputs[i], graph.outputs[k]) for k, i in donated]
    left = [v for k, v in enumerate(graph.outputs) if k not in dict(donated)]
    return replace(graph, outputs=left, updates=[*graph.updates, *updates]) if donated else graph


def _one(head: str, program: Program, report: driver.Report) -> list[str]:
    """Return the printed lines about a program."""
    source = "from the cache" if report.cached else counted(report.kernels, 'kernel')
    memory = program.memory()
    parts = ", ".join(f"{what} {n / 1024:.0f}" for what, n in memory.items() if n)
    lines = [f"{head}: {source}, {report.arena_bytes / 1024:.0f} KiB of temporaries"]
    if report.recomputed is not None:
        lines += [f"  {line}".rstrip() for line in budget_view.text(report.recomputed)]
    spare = program.released_bytes
    less = f"; a Cell frees {spare / 1024:.0f} KiB of weights after packing" if spare else ""
    return [*lines,
            f"  memory of a call: {sum(memory.values()) / 1024:.0f} KiB ({parts}){less}"]


def _many(
    head: str, sizes: OpenSizes, programs: Sequence[Program], reports: Sequence[driver.Report]
) -> list[str]:
    """Return the printed lines about the programs of an entry with open sizes."""
    cached = sum(r.cached for r in reports)
    known = [p for p in programs if p.open is None]
    code = sum(p.image.size + len(p.constants) for p in programs)
    source = f", {cached} of them from the cache" if cached else ""
    return [f"{head}: serves {sizes}",
            f"  {counted(len(programs), 'program')}{source}, {code / 1024:.0f} KiB of code and "
            "constants",
            *_largest(known if len(known) == len(programs) else []),
            *_conditions([p for p in programs if p.open is not None])]


_SHOWN = 12  # Conditions on sizes that are printed


def _conditions(programs: Sequence[Program]) -> list[str]:
    """The conditions on sizes that all programs with the most open sizes put."""
    most = max((len(p.open.symbols) for p in programs if p.open is not None), default=0)
    each = [p.open.conditions() for p in programs
            if p.open is not None and len(p.open.symbols) == most]
    found = [c for c in each[0] if all(c in other for other in each)] if each else []
    more = f" and {len(found) - _SHOWN} more conditions" if len(found) > _SHOWN else ""
    shown = ", ".join(found[:_SHOWN]) + more
    return [f"  where {shown}; sizes of 1 have programs of their own"] if found else []


def _largest(programs: Sequence[Program]) -> list[str]:
    """The memory of the program that needs most; nothing where sizes are open."""
    if not programs:
        return []
    largest = max(programs, key=lambda p: sum(p.memory().values()))
    return [f"  memory of a call: at most {sum(largest.memory().values()) / 1024:.0f} KiB, "
            f"{largest.arena_bytes / 1024:.0f} of them temporaries"]


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


def _refuse_prints(traced: Traced) -> None:
    """Text that a network prints around its tensors is in its graph alone."""
    for node in executed(traced.graph):
        if node.op == "print":
            raise UserError(f"--no-graph: the network prints at {node.span.file}:"
                            f"{node.span.line}, and the text is in its graph; take one away")


def _refuse_host(traced: Traced) -> None:
    """A C library computes without a host that prints or speaks with other processes."""
    for node in executed(traced.graph):
        if type(lookup(node.op)).callback_name is not Op.callback_name:
            raise UserError(f"{node.span.file}:{node.span.line}: the network calls {node.op!r}, "
                            "which Python does when it runs; a C library cannot: take it away")


def _narrow(traces: Sequence[Traced]) -> dict[Tensor, DType]:
    """The parameters that every graph reads in one 16-bit type alone (`to_float`). Their inputs get
    that type, and their casts go, so that nobody stores 32 bits and casts them again."""
    given = [dict(zip((v for v in t.graph.inputs if v.kind != "input"), t.parameters, strict=True))
             for t in traces]
    kinds: dict[Tensor, set[Any]] = {p: set() for inputs in given for p in inputs.values()}
    for t, inputs in zip(traces, given, strict=True):
        for node in t.graph.walk():
            for v in set(node.operands) & inputs.keys():
                kinds[inputs[v]].add(node.attrs["dtype"] if node.op == "cast" else None)
        for v in {*t.graph.outputs, *(u for pair in t.graph.updates for u in pair)} & inputs.keys():
            kinds[inputs[v]].add(None)
    found = {p: next(iter(kinds[p])) for inputs in given for v, p in inputs.items()
             if kinds[p] in ({float16}, {bfloat16}) and v.type.dtype is float32}
    for t, inputs in zip(traces, given, strict=True):
        narrow = {v for v, p in inputs.items() if p in found}
        for v in narrow:
            v.type = TensorType(v.type.shape, found[inputs[v]])
        if narrow:
            rewrite(t.graph, partial(_read, narrow), asks="cast".__eq__)
    return found


def _read(narrow: Set[Value], b: Builder, node: Node) -> Sequence[Value] | None:
    """The operand in the place of a cast of some values."""
    return node.operands[:1] if node.op == "cast" and node.operands[0] in narrow else None


class _Weights:
    """The parameters of all entries as weights of the artifact.

    Entries share a weight where they share the parameter, whatever it is called by then: a Cell
    that wraps a network renames its parameters. The name is that of the first entry.

    Args:
        narrow: the 16-bit types of those that are stored in one.
    """

    def __init__(self, narrow: Mapping[Tensor, DType]) -> None:
        self.arrays: dict[str, Array] = {}  # by name
        self._narrow = narrow
        self._names: dict[Tensor, str] = {}
        self._constants: set[str] = set()

    def name(self, traced: Traced) -> None:
        """Collect the parameters of a graph; its inputs take their names."""
        inputs = [v for v in traced.graph.inputs if v.kind != "input"]
        updated = {old for old, _ in traced.graph.updates}
        for value, parameter in zip(inputs, traced.parameters, strict=True):
            if parameter not in self._names:
                constant = value not in updated and not isinstance(parameter, Parameter)
                array = cast_array(elements_now(parameter), self._narrow.get(parameter))
                name = self._names[parameter] = self._same(value.name, array) \
                    if constant and value.name in self._constants else self._free(value.name)
                self.arrays[name] = array
                self._constants |= {name} if constant else set()
            value.name = self._names[parameter]

    def _same(self, name: str, array: Array) -> str:
        """The name of a constant: each trace of an entry has tensors of its own for them."""
        held = self.arrays[name]
        equal = held.dtype == array.dtype and held.shape == array.shape \
            and held.tobytes() == array.tobytes()
        return name if equal else self._free(name)

    def _free(self, name: str) -> str:
        """A name that is not taken."""
        numbered = (f"{name}_{k}" for k in itertools.count(2))
        return next(n for n in itertools.chain([name], numbered) if n not in self.arrays)


def call(
    path: str, entry: str, named: Mapping[str, Array], save: str | None = None
) -> list[Array]:
    """Run an entry: its native code, or a compilation of its graph if it has none for here.

    Args:
        named: the inputs by name.
        save: a file to write the artifact to afterwards, with what the call has updated.
    """
    loaded = artifact.load(path)
    inputs = loaded.inputs(entry).bind((), named)
    if best_for(loaded.targets(entry)) is None and loaded.has_graph(entry):
        if save is not None:
            raise UserError(f"--save: {path} has no code for this machine")
        graph = graph_for(loaded, entry, inputs)
        executable = Executable(driver.compile_program(graph), host_callbacks(graph), ERRORS)
        params = [v.name for v in graph.inputs if v.kind != "input"]
        executable.bind([np.array(loaded.weights[n]) for n in params])
        return executable.call(inputs)
    trusted = open_trusted(path)
    out = trusted.call(entry, *inputs)
    if save is not None:
        with writing(save):
            trusted.save(save)
    return list(out) if isinstance(out, tuple) else [out]


def reference(path: str, entry: str, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of an entry by the numpy interpreter: no native code of the file is run."""
    loaded = artifact.load(path)
    graph = graph_for(loaded, entry, inputs)
    params = [loaded.weights[v.name] for v in graph.inputs if v.kind != "input"]
    return interpret(graph, [*inputs, *params])[: len(graph.outputs)]


def load_parameters(net: Any, path: str) -> None:
    """Set a network's parameters from a file: MindSpore's format if its suffix is `.ckpt`, else
    safetensors."""
    if not isinstance(net, Cell):
        raise UserError("--checkpoint needs a Cell")
    try:
        entries = read(path, "ckpt" if path.endswith(".ckpt") else "safetensors")
    except (OSError, ValueError) as e:
        raise about(path, e) from e
    arrays = {name: a for name, a in entries.items() if isinstance(a, np.ndarray)}
    for name, parameter in net.parameters_dict().items():
        if name not in arrays:
            raise UserError(f"{path} has no parameter {name!r}")
        if arrays[name].shape != parameter.shape:
            raise UserError(f"{path}: {name!r} has shape {arrays[name].shape}, the network "
                            f"{parameter.shape}")
        parameter.set_data(Tensor(np.array(arrays[name])))
