"""`cellc verify`: what `cellc.verification` finds, from the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..compiled.entries import trace
from ..lang import CompileError
from ..tensors.seed import set_seed
from ..tensors.tensor import Tensor
from ..verification import Report, verify
from ..verification.inputs import index_ranges
from ..verification.snapshot import Snapshot
from . import artifacts
from .loading import (
    UserError,
    load_network,
    ordered_inputs,
    parse_input,
    sample_inputs,
    writing,
)

DIGITS = 0, 9
"""The range of random integers that nothing is looked up with."""


def arguments(p: argparse.ArgumentParser) -> None:
    """The options of the command."""
    p.add_argument("--seed", type=int, help="seed of the random inputs, weights and draws "
                   "(default 0)")
    p.add_argument("--seeds", metavar="N|A,B,...", help="verify for each of several seeds: the "
                   "first N, or those listed")
    p.add_argument("--grad", action="store_true", help="verify the gradients of inputs and "
                   "parameters too")
    p.add_argument("--train", metavar="NAME", help="also verify a step of training: a function of "
                   "FILE.py that takes the network and returns the step as a Cell")
    p.add_argument("--train-input", action="append", default=[], metavar="NAME=SPEC",
                   help="an input of the training step, as --input; in its order")
    p.add_argument("--no-reference", action="store_true", help="leave out the float64 reference "
                   "and difference quotients")
    p.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write everything as JSON "
                   "(without FILE: to standard output, in place of the text)")
    p.add_argument("--junit", metavar="FILE", help="write everything as JUnit's XML")
    p.epilog = ("exit status: 0 all agrees, 1 something differs or is not finite, 2 not all could "
                "be compared (or the usage is wrong)")


def verify_(args: argparse.Namespace) -> int:
    """`cellc verify`."""
    seeds = _seeds(args)
    set_seed(seeds[0])  # so that the weights are the same every time
    module, net = load_network(args.network)
    if args.checkpoint:
        artifacts.load_parameters(net, args.checkpoint)
    train = None
    if args.train:
        train = getattr(module, args.train, None)
        if not callable(train):
            raise UserError(f"the file has no function {args.train!r} for --train")
    specs = ordered_inputs(net, args.input)
    report = Report(network=args.network)
    for seed in seeds:
        try:
            found = _verified(net, specs, train, args, seed)
        except CompileError as e:
            raise UserError(str(e)) from e
        report.add(found, f"seed {seed}" if len(seeds) > 1 else "")
    _write(report, args)
    return report.status


def _verified(
    net: Any, specs: Sequence[str], train: Any, args: argparse.Namespace, seed: int
) -> Report:
    """The report for one seed."""
    inputs = _inputs(net, specs, seed)
    step_inputs = None
    if train is not None:
        saved = Snapshot({"net": net})
        try:
            step = train(net)
            if not callable(step):
                raise UserError(f"--train {args.train}: expected a function that takes the network "
                                f"and returns a Cell, but it gave {type(step).__name__}")
            step_inputs = _inputs(step, args.train_input or specs, seed)
        finally:
            saved.restore()
    return verify(net, *inputs, grad=args.grad, train_step=train, train_inputs=step_inputs,
                  seeds=(seed,), reference=not args.no_reference)


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
                Path(file).write_text(text + "\n", encoding="utf-8")
