"""`cellc verify`: what `cellc.verification` finds, from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from cellc_runtime.files import write_text

from ..compiled.traced import trace
from ..lang import CompileError
from ..tensors.seed import set_seed
from ..tensors.tensor import Tensor
from ..verification import Finding, Report, verify
from ..verification.inputs import index_ranges
from ..verification.snapshot import Snapshot
from . import artifacts
from .errors import UserError
from .loading import (
    known_shape,
    load_network,
    ordered_inputs,
    parse_input,
    sample_inputs,
    training_step,
    writing,
)
from .saved import PORTABLE, code_fault, input_specs, is_saved, load_saved

DIGITS = 0, 9
"""The range of random integers that nothing is looked up with."""


def verify_(args: argparse.Namespace) -> int:
    """`cellc verify`."""
    seeds = _seeds(args)
    set_seed(seeds[0])  # so that the weights are the same every time
    if is_saved(args.network):
        return _verify_saved(args, seeds)
    module, net = load_network(args.network)
    if args.checkpoint:
        artifacts.load_parameters(net, args.checkpoint)
    specs = ordered_inputs(net, args.input)
    step = None
    if args.train:
        option = "--train-input" if args.train_input else "--input"
        saved = Snapshot({"net": net})
        try:
            given = args.train_input or args.input
            step = getattr(module, args.train, None), training_step(
                module, net, args.train, given, option)[1]
        finally:
            saved.restore()
    report = Report(network=args.network)
    for seed in seeds:
        try:
            found = _verified(net, specs, step, args, seed)
        except CompileError as e:
            raise UserError(str(e)) from e
        report.add(found, f"seed {seed}" if len(seeds) > 1 else "")
    _write(report, args)
    return report.status


def _verified(
    net: Any, specs: Sequence[str], step: tuple[Any, list[str]] | None, args: argparse.Namespace,
    seed: int,
) -> Report:
    """The report for one seed; `step` is what makes the training step, and its inputs."""
    inputs = _inputs(net, specs, seed)
    make, step_inputs = None, None
    if step is not None:
        make, step_specs = step
        saved = Snapshot({"net": net})
        try:
            step_inputs = _inputs(make(net), step_specs, seed)
        finally:
            saved.restore()
    return verify(net, *inputs, grad=args.grad, train_step=make, train_inputs=step_inputs,
                  seeds=(seed,), reference=not args.no_reference)


def _verify_saved(args: argparse.Namespace, seeds: Sequence[int]) -> int:
    """An entry of an artifact: its graph as a network, and its code against its graph."""
    if args.checkpoint or args.train:
        raise UserError(f"{args.network}: an artifact has its weights and its entries: take "
                        "--checkpoint and --train away; NET.cellc:train names an entry")
    specs = input_specs(args.network, args.input)
    saved = load_saved(args.network, [known_shape(s) for s in specs])
    report = Report(network=args.network)
    for seed in seeds:
        label = f"seed {seed}" if len(seeds) > 1 else ""
        report.add(_verified(saved.cell, specs, None, args, seed), label)
        if saved.path.endswith(PORTABLE):  # it holds no code
            continue
        arrays = [t.asnumpy() for t in _inputs(saved.cell, specs, seed)]
        what, fault = code_fault(saved, arrays)
        if fault:
            report.findings.append(Finding("output", "code", fault))
        elif what:
            report.notes.append(f"code: {what} are those of the graph, to the bit")
        else:
            report.not_compared["code: the file has none for this machine"] += 1
    _write(report, args)
    return report.status


def _seeds(args: argparse.Namespace) -> list[int]:
    """The seeds of `--seed` and `--seeds`."""
    if args.seeds is None:
        return [args.seed or 0]
    if args.seed is not None:
        raise UserError("--seed and --seeds exclude each other")
    try:
        given = [int(s) for s in args.seeds.split(",")]
    except ValueError:
        given = []
    if len(given) == 1 and "," not in args.seeds:
        given = list(range(given[0]))
    if not given or min(given) < 0:
        raise UserError(f"--seeds {args.seeds}: expected how many, or a list such as 0,1,2")
    return given


def _inputs(fn: Any, specs: Sequence[str], seed: int) -> list[Tensor]:
    """Tensors for options: random integers are such as the network can look something up with.

    Raises:
        UserError: what is given is not.
    """
    inputs = sample_inputs(specs, seed)
    found = index_ranges(trace(fn, inputs, {}).graph, len(inputs))
    ranges = dict.fromkeys(range(len(inputs)), DIGITS)
    ranges.update({i: (max(0, low), high) for i, (low, high) in found.items()})
    inputs = sample_inputs(specs, seed, ranges)
    for i, (low, high) in found.items():
        held = inputs[i].asnumpy()
        if held.size and not low <= held.min() <= held.max() <= high:
            name, bad = parse_input(specs[i])[0], held.max() if held.max() > high else held.min()
            kind = f"{held.dtype}{list(held.shape)}".replace(" ", "")
            raise UserError(
                f"--input {name}: the network looks something up with it, so elements must be in "
                f"[{low}, {high}], but it holds {bad}; give a range, as in --input "
                f"{name}={kind}:{max(0, low)}..{high}")
    return inputs


def _write(report: Report, args: argparse.Namespace) -> None:
    """The report, where the options want it."""
    if args.json != "-":
        print(report)
    for text, file in ((report.to_json(), args.json), (report.to_junit(), args.junit)):
        if file == "-":
            print(text)
        elif file:
            with writing(file):
                write_text(file, text + "\n")
