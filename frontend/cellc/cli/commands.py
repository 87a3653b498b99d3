"""The commands of the command line, one function each."""

from __future__ import annotations

import argparse
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler import __version__, backends, driver
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.ir.dims import Shapes
from cellc_compiler.ir.dot import graph_dot
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import print_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.lower.budget import BudgetError
from cellc_runtime import cache
from cellc_runtime.errors import ArtifactError
from cellc_runtime.target import Target

from .. import context, shim
from ..calls.budget import least, parse
from ..compiled.entries import Traced, trace
from ..lang import CODES, CompileError, check_call, explanation
from ..tensors.tensor import OpenTensor
from ..tools import budget_view, profiling
from ..tracing.tracer import Tracer
from ..train import export_onnx
from ..train.export import export, named_weights
from . import artifacts, watch
from .loading import (
    UserError,
    load_network,
    open_types,
    ordered_inputs,
    sample_inputs,
    writing,
)
from .verification import verify_graph


def version() -> str:
    """The version line."""
    return f"cellc {__version__} for {backends.default_target().name}"


@contextmanager
def _errors_told(
    kinds: tuple[type[Exception], ...] = (CompileError, BudgetError)
) -> Iterator[None]:
    """Errors of the network and its budget are told like those of the command line."""
    try:
        yield
    except kinds as e:
        raise UserError(str(e)) from e


def _loaded(args: argparse.Namespace) -> tuple[Any, Any]:
    """The module and network of the command line, with the parameters of the checkpoint."""
    module, net = load_network(args.network)
    if args.checkpoint:
        artifacts.load_parameters(net, args.checkpoint)
    return module, net


def _traced(args: argparse.Namespace, seed: int = 0) -> tuple[Traced, list[Any]]:
    """The network of the command line as a graph, and its inputs' arrays."""
    _, net = _loaded(args)
    inputs = sample_inputs(ordered_inputs(net, args.input), seed)
    with _errors_told():
        traced = trace(net, inputs, {})
    return traced, traced.fed([t._data for t in inputs])


def _traced_open(net: Any, specs: Sequence[str]) -> tuple[Traced, Shapes]:
    """The network as a graph, with symbols for the sizes that are open (`float32[N,3]`)."""
    opened = open_types(specs)
    if opened is None:
        return trace(net, sample_inputs(specs), {}), Shapes()
    types, shapes = opened
    return trace(net, [OpenTensor.of(ty) for ty in types], {}, types, shapes), shapes


def _step(module: Any, net: Any, name: str) -> Any:
    """The training step of `--train`."""
    step = getattr(module, name, None)
    if not callable(step):
        raise UserError(f"the file has no function {name!r} for --train")
    return step(net)


@_errors_told()
def compile_(args: argparse.Namespace) -> int:
    """`cellc compile`."""
    context.set_context(numerics=args.numerics)
    module, net = _loaded(args)
    targets = [_target(name) for name in args.target] or [backends.default_target()]
    traced, shapes = _traced_open(net, ordered_inputs(net, args.input))
    if shapes.guards:
        asked = "; ".join(map(str, shapes.guards[:3]))
        raise UserError(
            f"the network asks about a size that is open, so its code would serve only where "
            f"{asked}; give that size, or take the question away"
        )
    entries = {"infer": traced}
    if args.train:
        inputs = sample_inputs(args.train_input or args.input)
        entries["train"] = trace(_step(module, net, args.train), inputs, {})
    print(artifacts.write(args.output, entries, targets, _budget(args)))
    return 0


def export_(args: argparse.Namespace) -> int:
    """`cellc export`: a network as an ONNX model or as cellc's portable file."""
    path = Path(args.output)
    if path.suffix not in (".onnx", ".mindir"):
        raise UserError(f"--output {path}: expected a name that ends in .onnx or .mindir")
    _, net = _loaded(args)
    specs = ordered_inputs(net, args.input)
    with _errors_told((CompileError, ImportError, TypeError, ValueError)), writing(path):
        if path.suffix == ".mindir":
            if args.opset is not None:
                raise UserError("--opset goes with a .onnx file")
            export(net, *sample_inputs(specs), file_name=str(path), file_format="MINDIR")
            note = ""
        else:
            note = _onnx(net, specs, path, args.opset)
    print(f"wrote {path}: {path.stat().st_size / 1024:.0f} KiB{note}")
    return 0


def _onnx(net: Any, specs: list[str], path: Path, opset: int | None) -> str:
    traced, shapes = _traced_open(net, specs)
    assumed = export_onnx.assumed_sizes(shapes)
    if traced.state is not None:
        traced.state.refuse()
    weights, _ = named_weights(traced)
    opset = export_onnx.OPSET if opset is None else opset
    model = export_onnx.onnx_model(traced, weights, opset, assumed)
    model.save(path)
    lines = [f", op set {opset}, {len(model.arrays)} weights and constants"]
    if assumed:
        lines.append(f"  it serves sizes where {'; '.join(map(str, assumed))}")
    if model.left_out:
        lines.append(f"  left out, since ONNX has none: {', '.join(model.left_out)}")
    return "\n".join(lines)


def _budget(args: argparse.Namespace) -> int | None:
    """The bytes of `--recompute-budget`."""
    try:
        return None if args.recompute_budget is None else parse(args.recompute_budget)
    except ValueError as e:
        raise UserError(str(e).replace("For 'recompute', 'budget'", "--recompute-budget")) from e


@_errors_told((backends.UnknownTarget,))
def _target(name: str) -> Target:
    return backends.target_named(name)


def run(args: argparse.Namespace) -> int:
    """`cellc run`."""
    if args.program.endswith(".py"):
        if not Path(args.program).is_file():
            raise UserError(f"{args.program}: no such file")
        shim.install()
        sys.argv = [args.program, *args.rest]
        sys.path.insert(0, str(Path(args.program).resolve().parent))
        with watch.watching(args.watch):
            runpy.run_path(args.program, run_name="__main__")
        return 0
    if args.watch:
        raise UserError(f"{args.program}: an artifact is not watched; --watch goes with a script")
    parser = argparse.ArgumentParser(
        prog=f"cellc run {args.program}", description="run an artifact, which is trusted: its code "
        "can do whatever you can")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="NAME=SPEC",
                        help="an input: @file.npy, or float32[1,1,32,32] for random numbers; in "
                        "the order of the entry's arguments")
    parser.add_argument("--entry", default="infer", help="what to call: infer (the default) or, if "
                        "the artifact has one, train")
    parser.add_argument("--output", "-o", metavar="FILE.npz", help="write outputs there instead of "
                        "printing them")
    options = parser.parse_args(args.rest)
    try:
        return _run_artifact(args.program, options)
    except KeyError as e:  # whose text would be quoted
        raise UserError(str(e.args[0])) from e
    except OSError as e:
        raise UserError(f"{args.program}: {e.strerror or e}") from e
    except (ArtifactError, TypeError, ValueError) as e:
        raise UserError(f"{args.program}: {e}") from e


def _run_artifact(path: str, options: argparse.Namespace) -> int:
    inputs = [t._data for t in sample_inputs(options.input)]
    outputs = artifacts.call(path, options.entry, inputs)
    if options.output:
        np.savez(options.output, *outputs)
        print(f"wrote {len(outputs)} outputs to {options.output}")
        return 0
    for i, a in enumerate(outputs):
        print(f"output {i}: {a.dtype}{list(a.shape)}")
        print(a)
    return 0


@_errors_told()
def profile(args: argparse.Namespace) -> int:
    """`cellc profile`."""
    module, net = load_network(args.network)
    if args.runs < 1 or args.limit < 1:
        raise UserError("--runs and --limit must be positive")
    if args.train:
        net, inputs = _step(module, net, args.train), sample_inputs(args.input)
    else:
        inputs = sample_inputs(ordered_inputs(net, args.input))
    traced = trace(net, inputs, {})
    arrays = traced.fed([t._data for t in inputs])
    found = profiling.profile_traced(traced, arrays, args.runs, args.numerics, _budget(args))
    found.show(args.by, args.limit)
    if args.trace:
        with writing(args.trace):
            found.save_trace(args.trace)
        print(f"wrote the timeline of a call to {args.trace}")
    return 0


@_errors_told()
def dump(args: argparse.Namespace) -> int:
    """`cellc dump`."""
    context.set_context(numerics=args.numerics)
    traced, _ = _traced(args)
    graphs = {"": traced.graph}
    budget = least(_budget(args), traced.budget)
    if args.grad or budget is not None:
        graphs["grad_"] = _gradient(traced)
    files: dict[str, str] = {}
    lines: list[str] = []
    for prefix, graph in graphs.items():
        files.update(_dumped(graph, prefix, budget, lines))
    print("".join(f"{line}\n" for line in lines), end="")
    out = Path(args.output)
    _write_all(out, files)
    print(f"wrote {len(files)} files to {out}")
    return 0


def _write_all(out: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder, made if need be; they move there once all are written."""
    with writing(out, "no folder to write to"):
        out.mkdir(parents=True, exist_ok=True)
    with writing(out), tempfile.TemporaryDirectory(dir=out, prefix=".new_") as new:
        for name, text in files.items():
            (Path(new) / name).write_text(text, encoding="utf-8")
        for name in files:
            (Path(new) / name).replace(out / name)


def _dumped(graph: Graph, prefix: str, budget: int | None, lines: list[str]) -> dict[str, str]:
    """Names and contents of the files about a graph; what is to be printed goes to `lines`."""
    steps: list[tuple[str, str, str]] = [("traced", print_graph(graph), graph_dot(graph))]

    def observe(name: str, g: Graph) -> None:
        steps.append((name, print_graph(g), graph_dot(g)))

    driver.optimize(graph, observe, context.numerics(), backends.default_target())
    files: dict[str, str] = {}
    for i, (name, text, dot) in enumerate(steps):
        files[f"{prefix}{i:02d}_{name}.txt"] = text
        files[f"{prefix}{i:02d}_{name}.dot"] = dot
    report = driver.Report(keep_nests=True)
    driver.compile_program(
        graph, report=report, use_cache=False, numerics=context.numerics(), budget=budget
    )
    if report.recomputed is not None:
        lines += budget_view.text(report.recomputed)
        files[f"{prefix}recomputed.txt"] = \
            "\n".join(budget_view.text(report.recomputed, full=True)) + "\n"
        files[f"{prefix}recomputed.svg"] = budget_view.svg(report.recomputed, graph.name)
    files[f"{prefix}nests.txt"] = "\n".join(report.nests)
    return files


def _gradient(traced: Traced) -> Graph:
    params = [i for i, v in enumerate(traced.graph.inputs)
              if v.kind == "param" and v.dtype.is_float]
    first = [i for i, v in enumerate(traced.graph.outputs) if v.dtype.is_float]
    if not params or not first:
        raise UserError("there is no gradient: the network has no float parameters or outputs")
    return gradient_graph(traced.graph, params, seeded=first)


def verify_(args: argparse.Namespace) -> int:
    """`cellc verify`."""
    traced, arrays = _traced(args, args.seed)
    arrays = [*arrays, *(np.array(p._data) for p in traced.parameters)]
    graphs = {"forward": traced.graph}
    if args.grad:
        graphs["gradient"] = _gradient(traced)
    bad = 0
    for name, graph in graphs.items():
        verify(graph)
        verdict = verify_graph(graph, arrays, traced.functions)
        if verdict.fault is not None:
            node, problem = verdict.fault
            print(f"{name}: {node.op} ({node.scope or 'top'}) at {node.span}: {problem}")
            bad = 1
        else:
            where = verdict.worst_node
            at = f" ({where.op} at {where.span})" if where is not None else ""
            print(f"{name}: {verdict.nodes} nodes agree: graph and eager to the bit, "
                  f"reference within {verdict.worst:.2f} ulps{at}")
    return bad


def check(args: argparse.Namespace) -> int:
    """`cellc check`."""
    _, net = load_network(args.network)
    inputs = sample_inputs(ordered_inputs(net, args.input))
    tracer = Tracer("check")
    given = [tracer.input(t._type, f"x{i}") for i, t in enumerate(inputs)]
    errors = check_call(tracer, net, given)
    for e in errors:
        print(e, end="\n\n")
    print(f"{len(errors)} error{'s' if len(errors) != 1 else ''}" if errors else "no errors")
    return 1 if errors else 0


def cache_(args: argparse.Namespace) -> int:
    """`cellc cache`."""
    store = cache.default()
    if args.action == "clear":
        print(f"removed {store.clear()} entries")
        return 0
    entries = store.entries()
    print(f"{store.directory}: {len(entries)} entries, {store.size() / 2**20:.1f} MiB of at most "
          f"{store.limit / 2**20:.0f} MiB")
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


Command = Callable[[argparse.Namespace], int]
COMMANDS: Mapping[str, Command] = {
    "compile": compile_, "run": run, "profile": profile, "dump": dump, "verify": verify_,
    "check": check, "cache": cache_, "explain": explain, "export": export_,
}
__all__: Sequence[str] = ("COMMANDS", "version")
