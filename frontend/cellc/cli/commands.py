"""The commands of the command line, one function each."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler import backends
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.ir.batch_axis import PROBE
from cellc_compiler.ir.dims import Undecided
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.shapes import Guard, Shapes
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower.budget import BudgetError
from cellc_compiler.passes.instantiate import SizeError
from cellc_runtime import cache
from cellc_runtime.artifact import DEFAULT_ENTRY
from cellc_runtime.errors import ArtifactError, counted
from cellc_runtime.files import replacing
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.target import Target

from .. import context
from ..calls.budget import parse
from ..compiled.found_sizes import is_staged, settled
from ..compiled.traced import Traced, trace
from ..lang import CODES, CompileError, Hooks, Known, Pieces, check_call, explanation
from ..quantization.weights import KINDS
from ..tensors.tensor import OpenTensor, Tensor, host_arrays_of, ir_type
from ..tools import profiling_gpu
from ..tracing.tracer import Tracer
from ..train import export_onnx
from ..train.export import export, named_weights, write_mindir
from . import artifacts, small_weights, watch
from .at_sizes import (
    Opened,
    at_sizes,
    chosen,
    open_names,
    opened,
    refuse_unknown,
    said,
    symbolic_types,
)
from .entries import donated_inputs, entry_inputs, named_entries
from .errors import UserError, about
from .loading import (
    InputType,
    input_types,
    is_model,
    load_network,
    ordered_inputs,
    parse_input,
    sample_arrays,
    sample_inputs,
    training_step,
    writing,
)
from .open_sizes import Listed, Plan, listed_sizes, plan, plan_fixed
from .recompiling import left_out, plan_again
from .saved import SUFFIX, Saved, entries_of, input_specs, is_saved, load_saved
from .scripts import run_script

_IN_SCRIPT = re.compile(r"\.py:[^\W\d]\w*")  # FILE.py:NAME, which other commands take

with lazy_imports(__name__):  # the viewer and networkx, which no other command needs
    from . import c_libraries, run_report


@contextmanager
def errors_told(
    kinds: tuple[type[Exception], ...] = (CompileError, BudgetError, SizeError)
) -> Iterator[None]:
    """Raise errors of the network and its budget as those of the command line."""
    try:
        yield
    except kinds as e:
        raise UserError(str(e)) from e


def _loaded(args: argparse.Namespace, whole: bool = False) -> tuple[Any, Any, list[str]]:
    """The module and network of the command line, with the parameters of the checkpoint, and the
    `--input` options in the network's order.

    Args:
        whole: refuse open sizes of an artifact, which are looked at for one choice of them.
    """
    if is_saved(args.network):
        specs, _ = input_specs(args.network, args.input)
        if whole and open_names(specs):
            raise UserError(
                f"{args.network} takes {', '.join(specs)}: an artifact of open sizes is compiled "
                "again for one choice of them: give each --input with numbers, or compile "
                "FILE.py:NAME for all sizes")
        saved, specs = _saved(args)
        return None, saved.cell, specs
    module, net = load_network(args.network)
    if getattr(args, "checkpoint", None):
        artifacts.load_parameters(net, args.checkpoint)
    return module, net, ordered_inputs(net, args.input)


def subject_of(args: argparse.Namespace) -> tuple[Any, list[str]]:
    """The network of the command line, or the training step of `--train`, and its inputs."""
    if not getattr(args, "train", None):
        return _loaded(args)[1:]
    if is_saved(args.network):
        _saved(args)  # which refuses it
    module, net = load_network(args.network)
    if getattr(args, "checkpoint", None):
        artifacts.load_parameters(net, args.checkpoint)
    return training_step(module, net, args.train, args.input)


def _saved(args: argparse.Namespace, say: bool = False) -> tuple[Saved, list[str]]:
    """The entry of the artifact of the command line, and its `--input` options, with numbers for
    open sizes."""
    if getattr(args, "checkpoint", None) or getattr(args, "train", None):
        raise UserError(f"{args.network}: an artifact has its weights and its entries: take "
                        "--checkpoint and --train away; NET.cellc:train names an entry")
    specs, typical = input_specs(args.network, args.input)
    sizes = chosen(specs, getattr(args, "sizes", ()), typical)
    if sizes and say:
        print(f"for {said(sizes)}")
    specs = at_sizes(specs, sizes)
    return load_saved(args.network, sample_arrays(specs)), specs


def traced_of(args: argparse.Namespace) -> tuple[Traced, list[Any], Opened | None]:
    """The network of the command line (or the training step of `--train`) as a graph, its inputs'
    arrays, and the graph with open sizes if some are open."""
    if is_saved(args.network):
        saved, specs = _saved(args, say=True)
        return saved.traced, sample_arrays(specs), None
    net, specs = subject_of(args)
    sizes = chosen(specs, args.sizes)
    inputs = sample_inputs(at_sizes(specs, sizes))
    with errors_told():
        traced = named(traced_for(net, inputs), specs)
        symbolic = opened(net, specs, sizes) if sizes else None
    if symbolic is not None and is_staged(symbolic.traced.graph):
        print(f"for {said(sizes)}, and the sizes that the network finds for these inputs")
        symbolic = None
    if symbolic is not None:
        named(symbolic.traced, specs)
    return traced, traced.fed(host_arrays_of(inputs)), symbolic


def traced_for(net: Any, inputs: Sequence[Tensor]) -> Traced:
    """The network as a graph for these inputs, and for the sizes that it finds for them.

    Raises:
        CompileError: an error in the network.
    """
    found = settled(lambda shapes: trace(net, inputs, {}, None, shapes), lambda t: [
        *t.fed(host_arrays_of(inputs)), *host_arrays_of(t.parameters)])
    if found is None:
        raise UserError("the sizes that the network finds for these inputs could not be found out")
    return found


def named(traced: Traced, specs: Sequence[str]) -> Traced:
    """The graph, its inputs called as `--input` calls them: a training step takes `*inputs`."""
    inputs = [v for v in traced.graph.inputs if v.kind == "input"]
    names = [spec.partition("=")[0] for spec in specs]
    if len(inputs) == len(names) and {v.name for v in traced.graph.inputs}.isdisjoint(names):
        for value, name in zip(inputs, names, strict=True):
            value.name = name
    return traced


def _open_types(specs: Sequence[str]) -> tuple[list[TensorType], Shapes] | None:
    """Types with symbols for the sizes that are open; None if all are known."""
    given = input_types(specs)
    if given is None:
        return None
    sizes = {n: PROBE + 2 * i for i, n in enumerate(open_names(specs))}
    return symbolic_types(given, sizes, stand_in=True)


def _traced_open(net: Any, specs: Sequence[str]) -> tuple[Traced, list[Guard]]:
    """The network as a graph, with symbols for the sizes that are open (`float32[N,3]`), and the
    conditions on them without which it fails."""
    given = _open_types(specs)
    if given is None:
        return trace(net, sample_inputs(specs), {}), []
    types, shapes = given
    return export_onnx.trace_assuming(lambda shapes: trace(
        net, [OpenTensor.of(ty) for ty in types], {}, types, shapes), shapes)


def _plan(net: Any, specs: Sequence[str], listed: Listed, targets: Sequence[Target]) -> Plan:
    """An entry of an artifact: the network as graphs of known sizes."""
    given = input_types(specs)
    if given is None:
        inputs = sample_inputs(specs)
        traced = named(trace(net, inputs, {}), specs)
        if not is_staged(traced.graph):
            return plan_fixed(traced)
        given = [InputType(parse_input(s).name, t.shape, t.dtype)
                 for s, t in zip(specs, inputs, strict=True)]
    return plan(net, given, listed, targets)


def _plan_step(
    args: argparse.Namespace, module: Any, net: Any, listed: Listed, targets: Sequence[Target]
) -> Plan:
    """The training step of `--train` as an entry of an artifact."""
    option = "--train-input" if args.train_input else "--input"
    step, specs = training_step(module, net, args.train, args.train_input or args.input, option)
    try:
        return _plan(step, specs, listed, targets)
    except (CompileError, UserError) as e:
        hint = "" if args.train_input else \
            "\nhint: if the step takes other inputs than the network, give them by --train-input"
        types = ", ".join(s.partition("=")[2] for s in specs)
        raise UserError(f"--train {args.train}: its step, for ({types}): {e}{hint}") from e


@errors_told()
def compile_(args: argparse.Namespace) -> int:
    """`cellc compile`."""
    context.set_context(numerics=args.numerics)
    small, file = small_weights.weights_options(args.weights)
    output, again = _output(args, file), None
    if args.entry:
        if is_saved(args.network) or is_model(args.network):
            raise UserError(f"{args.network}: --entry goes with FILE.py:NAME")
        module, net = load_network(args.network)
        if args.checkpoint:
            artifacts.load_parameters(net, args.checkpoint)
        net, lines = small_weights.with_small_weights(net, small)
        made = named_entries(module, net, args.entry)
        inputs = entry_inputs(made, args.input)
    elif _is_whole(args):
        if args.checkpoint or args.train or small:
            raise UserError(f"{args.network}: an artifact has its weights and its entries: take "
                            "--checkpoint, --train and --weights away")
        again = plan_again(args.network)
        module, net, lines, made, inputs = None, None, [], {}, {}
    else:
        module, net, specs = _loaded(args, whole=True)
        net, lines = small_weights.with_small_weights(net, small)
        lines = left_out(args.network) + lines
        made, inputs = {DEFAULT_ENTRY: net}, {DEFAULT_ENTRY: specs}
    targets = [target_named(name) for name in args.target] or [backends.default_target()]
    listed = listed_sizes(args.sizes)
    named = [spec for specs in inputs.values() for spec in specs]
    refuse_unknown(listed, open_names([*named, *args.input, *args.train_input]))
    donate: dict[str, list[str]] = {}
    if again:
        entries, donate = again
    else:
        entries = {name: _plan(fn, inputs[name], listed, targets) for name, fn in made.items()}
    if args.train:
        if small:
            raise UserError(f"--train {args.train}: small weights are not trained; take --weights "
                            f"{small['weights']} away")
        if "train" in entries:
            raise UserError("--entry train: --train compiles the entry of this name")
        entries["train"] = _plan_step(args, module, net, listed, targets)
    for text in args.donate:
        entry, _, name = text.rpartition(".")
        donate.setdefault(entry or DEFAULT_ENTRY, []).append(name)
    donated = donated_inputs(entries, donate)
    if output.endswith(LIBRARIES):
        lines.append(c_libraries.write_library(
            output, entries, targets, budget_of(args), donated, file))
    else:
        lines.append(artifacts.write(
            output, entries, targets, budget_of(args), not args.no_graph, donated))
    print("\n".join(lines))
    return 0


def _is_whole(args: argparse.Namespace) -> bool:
    """Whether an artifact is compiled again with the sizes that it leaves open: one of open sizes,
    or of several entries."""
    if not is_saved(args.network) or args.sizes:
        return False
    if args.network.endswith(SUFFIX) and not args.input and \
            entries_of(args.network)[1] != [DEFAULT_ENTRY]:
        return True
    names = open_names(input_specs(args.network, ())[0])
    return bool(names) and (not args.input or open_names(
        input_specs(args.network, args.input)[0]) == names)


def _output(args: argparse.Namespace, weights: str | None) -> str:
    """The one file to write; `weights` is that of a library's weights."""
    given = {name: path for name in ("output", *LIBRARY_ENDINGS)
             if (path := getattr(args, name)) is not None}
    options = ", ".join(f"--{name}" for name in ("output", *LIBRARY_ENDINGS))
    if len(given) != 1:
        raise UserError(f"one of {options} is expected, but got "
                        f"{' and '.join(f'--{name}' for name in given) or 'none'}")
    (name, path), = given.items()
    ending = LIBRARY_ENDINGS.get(name)
    if ending is not None and not path.endswith(ending):
        raise UserError(f"--{name} {path}: expected a name that ends in {ending}")
    if weights is not None and not path.endswith(LIBRARIES):
        raise UserError(f"--weights {weights}: expected a kind of weights ({', '.join(KINDS)}); a "
                        "file of weights goes with --shared, --static or --object")
    return str(path)


LIBRARY_ENDINGS = {"shared": ".so", "static": ".a", "object": ".o"}
LIBRARIES = tuple(LIBRARY_ENDINGS.values())


def export_(args: argparse.Namespace) -> int:
    """`cellc export`: a network as a model of ONNX or MindSpore, or as cellc's portable file."""
    path = Path(args.output)
    if path.suffix not in (".onnx", ".mindir", ".cir"):
        raise UserError(f"--output {path}: expected a name that ends in .onnx, .mindir or .cir")
    _, net, specs = _loaded(args, whole=True)
    with errors_told((CompileError, ImportError, TypeError, ValueError)), writing(path):
        note = ""
        if path.suffix == ".onnx":
            note = _onnx(net, specs, path, args.opset)
        elif args.opset is not None:
            raise UserError("--opset goes with a .onnx file")
        elif path.suffix == ".mindir":
            traced, assumed = _traced_open(net, specs)
            write_mindir(str(path), traced)
            note = _assumed(assumed)
        else:
            export(net, *sample_inputs(specs), file_name=str(path), file_format="CIR")
    print(f"wrote {path}: {path.stat().st_size / 1024:.0f} KiB{note}")
    return 0


def _onnx(net: Any, specs: list[str], path: Path, opset: int | None) -> str:
    traced, assumed = _traced_open(net, specs)
    if traced.state is not None:
        traced.state.refuse()
    weights, _ = named_weights(traced)
    opset = export_onnx.OPSET if opset is None else opset
    model = export_onnx.onnx_model(traced, weights, opset, assumed)
    model.save(path)
    note = f", op set {opset}, {len(model.arrays)} weights and constants" + _assumed(assumed)
    if model.left_out:
        note += f"\n  left out, since ONNX has none: {', '.join(model.left_out)}"
    return note


def _assumed(conditions: Sequence[Guard]) -> str:
    """The line on sizes that a file serves; empty if it serves all."""
    text = "; ".join(map(str, conditions))
    return f"\n  it serves sizes where {text}" if text else ""


def numerics_of(args: argparse.Namespace) -> str:
    """How arithmetic is compiled: as the options say, or as the artifact was."""
    return _saved(args)[0].numerics if is_saved(args.network) else str(args.numerics)


def budget_of(args: argparse.Namespace) -> int | None:
    """The bytes of `--recompute-budget`."""
    try:
        return None if args.recompute_budget is None else parse(args.recompute_budget)
    except ValueError as e:
        raise UserError(str(e).replace("For 'recompute', 'budget'", "--recompute-budget")) from e


@errors_told((backends.UnknownTarget,))
def target_named(name: str) -> Target:
    return backends.target_named(name)


def run(args: argparse.Namespace) -> int:
    """`cellc run`."""
    if args.program.endswith(".py"):
        with run_report.reporting(args.report, args.program), watch.watching(args.watch):
            run_script(args.program, args.rest)
        return 0
    for option in ("watch", "report"):
        if getattr(args, option):
            raise UserError(f"{args.program}: --{option} goes with a script, not an artifact")
    parser = argparse.ArgumentParser(
        prog=f"cellc run {args.program}", description="run an artifact, which is trusted: its code "
        "can do whatever you can")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="NAME=SPEC",
                        help="an input by name: x=@file.npy, or x=float32[1,1,32,32] for random "
                        "numbers")
    parser.add_argument("--entry", default="infer", help="what to call: infer (the default) or, if "
                        "the artifact has one, train")
    parser.add_argument("--output", "-o", metavar="FILE.npz", help="write outputs there instead of "
                        "printing them")
    parser.add_argument("--save", metavar="NET.cellc", help="write the artifact with what the call "
                        "has updated: weights, the optimizer's state, the state of random numbers")
    options = parser.parse_args(args.rest)
    if _IN_SCRIPT.search(args.program):
        raise UserError(f"{args.program}: run takes an artifact or a script; write the network to "
                        "an artifact by cellc compile, and run that")
    try:
        return _run_artifact(args.program, options)
    except KeyError as e:  # whose text would be quoted
        raise UserError(str(e.args[0])) from e
    except (OSError, ArtifactError, TypeError, ValueError) as e:
        if isinstance(e, OSError) and e.filename is None:
            raise  # of standard output
        raise about(args.program, e) from e


def _run_artifact(path: str, options: argparse.Namespace) -> int:
    names = [parse_input(text).name for text in options.input]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"--input {twice}: it is given twice")
    named = dict(zip(names, sample_arrays(options.input), strict=True))
    outputs = artifacts.call(path, options.entry, named, options.save)
    if options.save:
        print(f"wrote {options.save}")
    if options.output:
        out = options.output if options.output.endswith(".npz") else options.output + ".npz"
        with writing(out), replacing(out) as file:
            np.savez(file, *outputs)
        print(f"wrote {counted(len(outputs), 'output')} to {out}")
        return 0
    for i, a in enumerate(outputs):
        print(f"output {i}: {a.dtype}{list(a.shape)}")
        print(a)
    return 0


@errors_told()
def profile(args: argparse.Namespace) -> int:
    """`cellc profile`."""
    if args.runs < 1 or args.limit < 1:
        raise UserError("--runs and --limit must be positive")
    for path in (args.trace, args.csv, args.json):
        if path and not Path(path).absolute().parent.is_dir():  # before the measurement
            raise UserError(f"{path}: cannot be written (its folder does not exist, create it "
                            "first)")
    traced, arrays, symbolic = traced_of(args)
    found = _profiled(args, traced, arrays, symbolic)
    found.show(args.by, args.limit)
    saved = {"trace": (found.save_trace, "the timeline of the calls"),
             "csv": (lambda path: found.save_csv(path, args.by), "the table"),
             "json": (lambda path: found.save_json(path, args.by), "the table and its head")}
    for option, (save, what) in saved.items():
        path = getattr(args, option)
        if path:
            with writing(path):
                save(path)
            print(f"wrote {what} to {path}")
    return 0


def _profiled(
    args: argparse.Namespace, traced: Traced, arrays: list[Any], symbolic: Opened | None
) -> Any:
    """The profile of the program for all sizes, where there is one; else of that for these."""
    rest = arrays, args.runs, numerics_of(args), budget_of(args)
    if symbolic is not None:
        at, opened_at = said(symbolic.sizes), (symbolic.shapes, symbolic.sizes)
        try:
            symbolic.refuse_numbers()
            found = profiling_gpu.profile_here(symbolic.traced, *rest, opened_at)
            print(f"the program for all sizes, for {at}")
            return found
        except Undecided as e:
            print(f"the program for {at} alone: {e}")
    return profiling_gpu.profile_here(traced, *rest)


def gradient(traced: Traced) -> Graph:
    """The gradient by the parameters; by the inputs, if there are none."""
    floats = [i for i, v in enumerate(traced.graph.inputs) if v.dtype.is_float]
    wanted = [i for i in floats if traced.graph.inputs[i].kind == "param"] or floats
    first = [i for i, v in enumerate(traced.graph.outputs) if v.dtype.is_float]
    if not wanted or not first:
        raise UserError("there is no gradient: the network has no floats for inputs and "
                        "parameters, or none for outputs")
    return gradient_graph(traced.graph, wanted, seeded=first)


def check(args: argparse.Namespace) -> int:
    """`cellc check`."""
    net, specs = subject_of(args)
    if args.weights is not None:
        print(small_weights.compared(net, sample_inputs(specs), args.weights))
        return 0
    sizes = chosen(specs, args.sizes)
    types, shapes = symbolic_types(input_types(specs) or (), sizes) if sizes else (
        [ir_type(t) for t in sample_inputs(specs)], Shapes())
    tracer = Tracer("check")
    given = [tracer.input(ty, f"x{i}") for i, ty in enumerate(types)]
    python = Pieces(None, Known())
    errors = check_call(tracer, net, given, hooks=Hooks(pieces=python), shapes=shapes)
    for e in errors:
        print(e, end="\n\n")
    for what, where in python.found:
        print(f"{where}: {what} is run by Python in each call (some tens of microseconds, and "
              "what it does)")
    if sizes:
        asked = "".join(dict.fromkeys(f"\n  {shapes.shown(g)}" for g in shapes.guards))
        print(f"sizes are open; this holds where{asked}" if asked else
              "sizes are open; this holds for all of them")
    print(f"{len(errors)} error{'s' if len(errors) != 1 else ''}" if errors else "no errors")
    return 1 if errors else 0


def cache_(args: argparse.Namespace) -> int:
    """`cellc cache`."""
    store = cache.default()
    if args.action == "clear":
        print(f"removed {counted(store.clear(), 'entry')}")
        return 0
    entries = store.entries()
    print(f"{store.directory}: {counted(len(entries), 'entry')}, {store.size() / 2**20:.1f} MiB "
          f"of at most {store.limit / 2**20:.0f} MiB")
    return 0


def explain(args: argparse.Namespace) -> int:
    """`cellc explain`."""
    if args.code is None:
        for code, text in CODES.items():
            print(f"{code}  {text}")
        return 0
    code = args.code.upper()
    if code not in CODES:
        raise UserError(f"unknown code {args.code!r}; `cellc explain` lists them")
    print(explanation(code))
    return 0
