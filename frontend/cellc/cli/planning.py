"""`cellc plan`: what a training step takes on many ranks."""

from __future__ import annotations

import argparse
import re
import subprocess
from typing import TYPE_CHECKING, Any

from cellc_compiler.build.workers import ISOLATED_PYTHON
from cellc_runtime.files import write_text

from .. import context
from ..calls.budget import parse
from ..compiled.traced import trace
from ..lang import CompileError
from ..nn.grad_reducer import BUCKET_BYTES
from ..tensors.tensor import arrays_of
from ..tools import consoles
from ..tools.planning import links, meshes, view, workload
from ..tools.profiling import profile_traced, seconds, size
from .at_sizes import at_chosen
from .errors import UserError
from .launching import mpi_command, mpi_environment
from .loading import load_network, ordered_inputs, sample_inputs, training_step, writing

if TYPE_CHECKING:
    pass

_AXIS = re.compile(r"(dp|tp|pp)=(\d+)")


def plan_(args: argparse.Namespace) -> int:
    """`cellc plan`."""
    if args.measure_link is not None:
        print(measured_link(args.measure_link))
        if args.network is None:
            return 0
    if args.network is None:
        raise UserError("expected FILE.py:NAME of a training step, or --measure-link")
    if (args.mesh is None) == (args.search is None):
        raise UserError("expected --mesh dp=64,tp=8,pp=4, or --search N for the best mesh of N "
                        "ranks")
    try:
        return _planned(args)
    except (CompileError, ValueError) as e:
        raise UserError(str(e)) from e


def _planned(args: argparse.Namespace) -> int:
    options = _options(args)
    if args.link:
        connected = links.parsed(args.link, args.node)
    elif args.measure_link is not None:
        connected = links.parsed([measured_link(args.measure_link)], args.node)
    else:
        raise UserError("expected --link intra=LATENCY:BANDWIDTH,inter=..., or --measure-link to "
                        "measure this machine's")
    mesh = mesh_of(args.mesh) if args.mesh is not None else None
    work = step_workload(args)
    if mesh is not None:
        plans = [meshes.predict(work, mesh, connected, options)]
    else:
        plans = meshes.search(work, args.search, connected, options)[: args.limit]
    _show(work, plans, connected)
    if args.output:
        with writing(args.output):
            write_text(args.output, view.svg(plans[0], work.name))
        print(f"wrote the schedule of {plans[0].mesh} to {args.output}")
    return 0


def _show(work: workload.Workload, plans: list[meshes.Plan], connected: links.Links) -> None:
    console = consoles.output(190)
    title = (f"{work.name}: {work.samples} rows in {seconds(work.seconds)} on one rank, "
             f"{len(work.blocks)} layers, {size(work.weights)} of parameters; intra "
             f"{connected.intra}, inter {connected.inter}")
    view.show(plans, console, title)
    for line in view.about(plans[0]):
        print(line)


def _options(args: argparse.Namespace) -> meshes.Options:
    for name in ("micro_batches", "batch", "interleaved", "search", "node", "runs", "limit"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be positive, but got {value}")
    if args.batch is not None and args.micro_batches is not None:
        raise UserError("--batch says how many micro-batches there are: take --micro-batches away")
    if not 0 <= args.overlap <= 1:
        raise UserError(f"--overlap must be in [0, 1], but got {args.overlap}")
    if not 0 < args.speed < float("inf"):
        raise UserError(f"--speed must be positive, but got {args.speed}")
    memory = None if args.memory is None else parse(args.memory)
    return meshes.Options(args.micro_batches, args.batch, args.overlap, args.interleaved, memory,
                          args.speed)


def mesh_of(text: str) -> meshes.Mesh:
    """The mesh of `dp=64,tp=8,pp=4`; what is left out is 1."""
    found = [_AXIS.fullmatch(part.strip()) for part in text.split(",")]
    axes = {m[1]: int(m[2]) for m in found if m is not None}
    if None in found or len(axes) != len(found) or min(axes.values()) < 1:
        raise UserError(f"--mesh {text!r}: expected ranks along dp, tp and pp, as in "
                        "dp=64,tp=8,pp=4")
    return meshes.Mesh(**axes)


def step_workload(args: argparse.Namespace) -> workload.Workload:
    """The training step of the command line, compiled and timed on this machine.

    Raises:
        UserError, CompileError, ValueError: there is none.
    """
    module, net = load_network(args.network)
    if args.train:
        net, specs = training_step(module, net, args.train, args.input)
    else:
        specs = ordered_inputs(net, args.input)
    inputs = sample_inputs(at_chosen(specs, args.sizes))
    traced = trace(net, inputs, {})
    profile = profile_traced(traced, traced.fed(arrays_of(inputs)), args.runs,
                             context.numerics())
    rows = next((t.shape[0] for t in inputs if t.ndim), 1)
    return workload.from_profile(profile, traced, rows, BUCKET_BYTES)


def measured_link(count: int) -> str:
    """Return the link of `count` ranks of this machine, as `--link` takes it."""
    if count < 2:
        raise UserError(f"--measure-link {count}: a link is between 2 ranks or more")
    done: Any = subprocess.run(
        [*mpi_command(count), *ISOLATED_PYTHON, "-m", "cellc.tools.planning.measuring"],
        capture_output=True, text=True, env=mpi_environment(count), check=False)
    found = next((line for line in done.stdout.splitlines() if line.startswith("intra=")), None)
    if done.returncode or found is None:
        raise UserError(f"--measure-link {count}: mpirun failed:\n{done.stderr[-2000:]}")
    return str(found)
