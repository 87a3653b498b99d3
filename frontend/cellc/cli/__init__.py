"""The `cellc` command: compile, export, run, profile, dump, verify, check, cache, explain."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import commands
from .loading import UserError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def _network(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """A command that reads a network."""
    p = commands.add_parser(name, help=text, description=text)
    p.add_argument("network", metavar="FILE.py:NAME", help="a Cell class, Cell or function")
    p.add_argument(
        "--input", "-i", action="append", default=[], metavar="NAME=SPEC",
        help="an input by name: x=float32[1,1,32,32], or x=@file.npy; one for each of construct's",
    )
    return p


def _numerics(p: argparse.ArgumentParser) -> None:
    p.add_argument("--numerics", choices=("strict", "fast"), default="strict",
                   help="fast: rewrite arithmetic in ways that change the last digits")


def _budget(p: argparse.ArgumentParser) -> None:
    p.add_argument("--recompute-budget", metavar="BYTES", help="compute forward values again "
                   "for the gradient, so that temporaries take at most this: 256MiB, say")


def _checkpoint(p: argparse.ArgumentParser) -> None:
    p.add_argument("--checkpoint", metavar="FILE",
                   help="load parameters (.ckpt of MindSpore or safetensors) first")


def _run(sub: Commands) -> None:
    text = "run an artifact on inputs, or a MindSpore script with cellc"
    p = sub.add_parser("run", help=text, description=text + " in the place of MindSpore")
    p.add_argument("--watch", choices=("nan", "range"), help="of a script: stop at the first op "
                   "that makes NaN or infinity, or print the range of every tensor at the end")
    p.add_argument("program", metavar="NET.cellc|SCRIPT.py", help="what to run")
    p.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="of an artifact: --input "
                   "x=@x.npy and more (`cellc run NET.cellc --help`); of a script: its arguments")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cellc", description="Compile, inspect and check networks written as Cell classes."
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    sub = parser.add_subparsers(dest="command", metavar="COMMAND")
    p = _network(sub, "compile", "compile a network ahead of time into one artifact")
    p.add_argument("--output", "-o", required=True, metavar="NET.cellc", help="the file to write")
    p.add_argument("--train", metavar="NAME", help="also compile a training step: a function of "
                   "FILE.py that takes the network and returns the step as a Cell")
    p.add_argument("--train-input", action="append", default=[], metavar="NAME=SPEC",
                   help="an input of the training step, as --input; in its order")
    _budget(p)
    _checkpoint(p)
    p.add_argument("--target", action="append", default=[], help="x86_64-avx512, x86_64-avx2 or "
                   "aarch64-neon (repeatable; default: this machine)")
    _numerics(p)
    p = _network(sub, "export", "write a network for other runtimes (ONNX), or as a portable file")
    p.add_argument("--output", "-o", required=True, metavar="NET.onnx|NET.mindir",
                   help="the file to write; its ending says which kind")
    p.add_argument("--opset", type=int, help="ONNX's op set, 17 to 21 (default 20)")
    _checkpoint(p)
    _run(sub)
    p = _network(sub, "profile", "time every kernel of a network: by op, Cell and line")
    p.add_argument("--train", metavar="NAME", help="profile a training step: a function of "
                   "FILE.py that takes the network and returns the step as a Cell")
    p.add_argument("--by", choices=("call", "op", "cell", "line", "family"), default="call",
                   help="what shares a row (default call: one op at one place of one Cell)")
    p.add_argument("--runs", type=int, default=20, help="calls to measure (default 20)")
    p.add_argument("--limit", type=int, default=25, help="rows of the table (default 25)")
    p.add_argument("--trace", metavar="FILE.json", help="also write the timeline of a call, with "
                   "a row for each thread, for ui.perfetto.dev or chrome://tracing")
    _numerics(p)
    _budget(p)
    p = _network(sub, "dump", "write the graph after each pass as text and DOT, and the loop nests")
    p.add_argument("--output", "-o", default="cellc_dump", metavar="DIR",
                   help="the folder to write (default cellc_dump)")
    p.add_argument("--grad", action="store_true", help="dump the gradient with respect to the "
                   "parameters too")
    _budget(p)
    _checkpoint(p)
    _numerics(p)
    p = _network(sub, "verify", "compare graph, eager and reference, node by node")
    p.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")
    p.add_argument("--grad", action="store_true", help="verify the gradient graph too")
    _checkpoint(p)
    _network(sub, "check", "report every error of a network")
    text = "show or clear the cache of compiled code"
    p = sub.add_parser("cache", help=text, description=text)
    p.add_argument("action", choices=("show", "clear"), nargs="?", default="show",
                   help="show (the default): where it is, entries and size; clear: remove all")
    text = "what an error code means"
    p = sub.add_parser("explain", help=text, description=text + ", with an example and its mending")
    p.add_argument("code", nargs="?", help="CE203, say; without it, all codes")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status (0 good, 1 found something, 2 bad usage)."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.version:
        print(commands.version())
        return 0
    if args.command is None:
        parser.print_help()
        return 2
    try:
        return commands.COMMANDS[args.command](args)
    except UserError as e:
        print(f"cellc: {e}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        print("cellc: interrupted", file=sys.stderr)
        return 130
