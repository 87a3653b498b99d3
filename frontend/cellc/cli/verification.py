"""`cellc verify`: what `cellc.verification` finds, from the command line."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

from cellc_compiler.ir.dims import Undecided
from cellc_runtime.files import write_text
from cellc_runtime.program import Program

from ..calls.callbacks import host_callbacks
from ..compiled.found_sizes import is_staged
from ..compiled.traced import trace
from ..core.later import driver, open_sizes
from ..lang import CompileError
from ..tensors.seed import set_seed
from ..tensors.tensor import Tensor, arrays_of, host_arrays_of
from ..tracing.exceptions import ERRORS
from ..verification import Finding, Report, verify
from ..verification.inputs import index_ranges
from ..verification.snapshot import Snapshot
from ..verification.values import same_bits
from . import artifacts, onnx_reference
from .at_sizes import Sizes, at_sizes, compared, open_names, opened, said
from .errors import UserError
from .loading import (
    load_network,
    ordered_inputs,
    parse_input,
    sample_arrays,
    sample_inputs,
    training_step,
    writing,
)
from .saved import PORTABLE, code_fault, input_specs, is_saved, load_saved

DIGITS = 0, 9  # The range of random integers that nothing is looked up with


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
        with Snapshot({"net": net}):
            given = args.train_input or args.input
            step = getattr(module, args.train, None), training_step(
                module, net, args.train, given, option)[1]
    report = Report(network=args.network)
    choices = compared([*specs, *(step[1] if step else ())], args.sizes)
    for sizes, seed in itertools.product(choices, seeds):
        at = at_sizes(specs, sizes), step and (step[0], at_sizes(step[1], sizes))
        try:
            found = _verified(net, *at, args, seed)
            if args.network.endswith(".onnx") and not args.no_reference:
                onnx_reference.compare(args.network, net, _inputs(net, at[0], seed), found)
        except CompileError as e:
            raise UserError(f"for {said(sizes)}: {e}" if sizes else str(e)) from e
        report.add(found, _label(sizes, seed, seeds))
    # (Programs of their own serve sizes of 0 and 1.)
    served = [s for s in choices if s and min(s.values()) >= open_sizes.LEAST]
    if served and open_names(specs):
        _verify_opened(net, specs, served, report)
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
        with Snapshot({"net": net}):
            step_inputs = _inputs(make(net), step_specs, seed)
    return verify(net, *inputs, grad=args.grad, train_step=make, train_inputs=step_inputs,
                  seeds=(seed,), reference=not args.no_reference)


def _verify_saved(args: argparse.Namespace, seeds: Sequence[int]) -> int:
    """An entry of an artifact: its graph as a network, and its code against its graph."""
    if args.checkpoint or args.train:
        raise UserError(f"{args.network}: an artifact has its weights and its entries: take "
                        "--checkpoint and --train away; NET.cellc:train names an entry")
    given, typical = input_specs(args.network, args.input)
    report = Report(network=args.network)
    for sizes, seed in itertools.product(compared(given, args.sizes, typical), seeds):
        specs = at_sizes(given, sizes)
        saved = load_saved(args.network, sample_arrays(specs, seed))
        if not saved.path.endswith(PORTABLE):  # with positions that can be looked up
            saved = load_saved(args.network, arrays_of(_inputs(saved.cell, specs, seed)))
        report.add(_verified(saved.cell, specs, None, args, seed), _label(sizes, seed, seeds))
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


def _label(sizes: Sizes, seed: int, seeds: Sequence[int]) -> str:
    """The sizes and the seed of a run, where there are others."""
    return ", ".join(filter(None, (said(sizes), f"seed {seed}" if len(seeds) > 1 else "")))


def _verify_opened(
    net: Any, specs: Sequence[str], choices: Sequence[Sizes], report: Report
) -> None:
    """Compare the bits of the program for all sizes with those of the programs for these sizes."""
    made = opened(net, specs, choices[0])
    if is_staged(made.traced.graph):
        report.not_compared["program for all sizes: sizes follow from elements, so there are "
                            "several: cellc compile makes them"] += 1
        return
    try:
        made.refuse_numbers()
        program = open_sizes.compile_open(made.traced.graph, made.shapes)
    except Undecided as e:
        report.not_compared[f"program for all sizes: {e}"] += 1
        return
    assert program.open is not None
    for sizes in choices:
        label = f"program for all sizes, {said(sizes)}"
        refusal = program.open.refusal(sizes)
        if refusal:
            report.not_compared[f"{label}: {refusal}"] += 1
        else:
            _verify_program(net, at_sizes(specs, sizes), program.at(sizes), label, report)


def _verify_program(
    net: Any, specs: Sequence[str], program: Program, label: str, report: Report
) -> None:
    """Compare the bits of a program with those of the network compiled for these inputs."""
    inputs = _inputs(net, specs, 0)
    known = trace(net, inputs, {})
    arrays = [*known.fed(arrays_of(inputs)), *host_arrays_of(known.parameters)]
    callbacks = host_callbacks(known.graph, known.functions)
    ours, want = (driver.loaded(p, known.graph, callbacks, ERRORS)(arrays) for p in (
        program, driver.compile_program(known.graph)))
    differ = [i for i, (a, b) in enumerate(zip(ours, want, strict=True)) if not same_bits(a, b)]
    if differ:
        report.findings.append(Finding(
            "output", label, f"output {differ[0]} is not that of the program for these sizes"))
    else:
        report.notes.append(f"{label}: its outputs are those of the program for these sizes, to "
                            "the bit")


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
    """Tensors for options: random integers are such as the network can look something up with."""
    inputs = sample_inputs(specs, seed)
    found = index_ranges(trace(fn, inputs, {}).graph, len(inputs))
    ranges = dict.fromkeys(range(len(inputs)), DIGITS)
    ranges.update({i: (max(0, low), high) for i, (low, high) in found.items()})
    inputs = sample_inputs(specs, seed, ranges)
    for i, (low, high) in found.items():
        held = inputs[i].asnumpy()
        if held.size and not low <= held.min() <= held.max() <= high:
            name, bad = parse_input(specs[i]).name, held.max() if held.max() > high else held.min()
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
