"""`cellc bisect` and `cellc replay`: faults made small, recorded calls made here."""

from __future__ import annotations

import argparse

from cellc_runtime.errors import ArtifactError

from .. import testing
from ..lang import CompileError
from . import artifacts
from .at_sizes import at_sizes, chosen
from .errors import UserError, about
from .loading import load_network, ordered_inputs, sample_inputs, writing


def bisect(args: argparse.Namespace) -> int:
    """`cellc bisect`: 0 if nothing is wrong, 1 if something was found."""
    try:
        found = _bisection(args)
    except (ArtifactError, CompileError, ValueError) as e:
        raise UserError(str(e)) from e
    except OSError as e:
        raise about(args.network, e) from e
    print(found)
    if args.output and found.case is not None:
        with writing(args.output):
            found.save(args.output)
        print(f"wrote {args.output}")
    return int(found.found)


def _bisection(args: argparse.Namespace) -> testing.Bisection:
    path, sep, _ = args.network.rpartition(":")
    if not (sep and path.endswith(".py")):
        if args.input or args.checkpoint:
            raise UserError(f"{args.network}: a recorded case has its inputs; --input and "
                            "--checkpoint go with FILE.py:NAME")
        return testing.bisect(args.network, seconds=args.seconds)
    _, net = load_network(args.network)
    if args.checkpoint:
        artifacts.load_parameters(net, args.checkpoint)
    specs = ordered_inputs(net, args.input)
    inputs = sample_inputs(at_sizes(specs, chosen(specs, args.sizes)), args.seed)
    return testing.bisect(net, *inputs, grad=args.grad, setup=path, seconds=args.seconds)


def replay(args: argparse.Namespace) -> int:
    """`cellc replay`: 0 if nothing is wrong here and all is as there; see `Replay.status`."""
    try:
        found = testing.replay(args.case)
    except (OSError, ArtifactError, ValueError) as e:
        raise about(args.case, e) from e
    print(found)
    return found.status
