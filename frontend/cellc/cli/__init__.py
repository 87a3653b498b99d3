"""The `cellc` command: its parser, and which function runs each command.

A command's function is loaded when it is called. So `--help`, `--version`, completion and wrong
usage load neither numpy nor the compiler.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from cellc_runtime.lazy import imported, lazy_imports

from ..core.output import drop_output
from .errors import UserError
from .output import prepare_output

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]
with lazy_imports(__name__):
    from cellc_runtime import knobs

COMMANDS: Mapping[str, str] = {
    "compile": "commands:compile_", "export": "commands:export_", "run": "commands:run",
    "profile": "commands:profile", "dump": "dumping:dump", "verify": "verification:verify_",
    "check": "commands:check", "cache": "commands:cache_", "explain": "commands:explain",
    "completion": "completion:completion", "inspect": "inspecting:inspect_",
    "plan": "planning:plan_", "bisect": "reproducing:bisect", "replay": "reproducing:replay",
    "stages": "stages:stages",
}
"""For each command the function that runs it, as `module:function` of this package."""


class Parser(argparse.ArgumentParser):
    """A parser that says what it takes, for completion."""

    def __init__(self, **options: Any) -> None:
        self.actions: list[argparse.Action] = []  # its options and positional arguments, in order
        self.commands: Mapping[str, Parser] = {}  # the parsers of its commands by name
        super().__init__(**options)

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """As argparse has it."""
        action = super().add_argument(*names, **options)
        if action.nargs == argparse.REMAINDER:
            action.required = False  # an error of missing arguments does not name it
        if action.help != argparse.SUPPRESS:
            self.actions.append(action)
        return action

    def parse_command(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parse a command line. An unknown option is an error of the command that got it."""
        args, unknown = self.parse_known_args(argv)
        if unknown:
            parser = self.commands.get(args.command, self)
            options = [o for a in parser.actions for o in a.option_strings]
            parser.error(f"unrecognized arguments: {' '.join(unknown)}"
                         f"{_similar(unknown[0].partition('=')[0], options)}")
        return args

    def error(self, message: str) -> NoReturn:
        """As argparse has it, with the choice that is most like a wrong one."""
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong is not None:
            message += _similar(wrong[1], [c.strip(" '") for c in wrong[2].split(",")])
        super().error(message)


def _similar(word: str, known: Iterable[str]) -> str:
    """The question whether a known word was meant, or nothing."""
    like = get_close_matches(word, list(known), 1)
    return f"; did you mean {like[0]}?" if like else ""


def _command(commands: Commands, name: str, text: str, more: str = "") -> Parser:
    """A command with its line in the list of all, and what its own page says besides."""
    return commands.add_parser(name, help=text, description=text + more)


def _repeated(p: Parser, *names: str, metavar: str = "NAME=SPEC", help: str) -> None:
    """An option that can be given several times."""
    p.add_argument(*names, action="append", default=[], metavar=metavar, help=help)


def _train(p: Parser, what: str) -> None:
    p.add_argument("--train", metavar="NAME", help=f"{what} a training step: a function of FILE.py "
                   "that takes the network and returns the step as a Cell")


def _runs(p: Parser) -> None:
    p.add_argument("--runs", type=int, default=20, help="calls to measure (default 20)")


def _network(commands: Commands, name: str, text: str, optional: bool = False) -> Parser:
    """A command that reads a network, or may do without one."""
    p = _command(commands, name, text)
    p.add_argument("network", metavar="FILE.py:NAME|NET.cellc|NET.mindir|NET.onnx",
                   nargs="?" if optional else None,
                   help="a Cell class, Cell or function, or a call of a class or factory with "
                   "literals ('net.py:Net(layers=4)'); an artifact's entry (NET.cellc:train; "
                   "without a name, infer); a portable file that cellc wrote; or an ONNX model")
    _repeated(p, "--input", "-i", help="an input by name: x=float32[1,1,32,32], or x=@file.npy; "
              "one for each of construct's")
    return p


def _sizes(p: Parser, text: str = "the sizes to look at, where some are open (float32[N,3]): N=8"
           ) -> None:
    _repeated(p, "--sizes", metavar="NAME=VALUES", help=text)


def _numerics(p: argparse.ArgumentParser) -> None:
    p.add_argument("--numerics", choices=("strict", "fast"), default="strict",
                   help="fast: rewrite arithmetic in ways that change the last digits")


def _budget(p: argparse.ArgumentParser) -> None:
    p.add_argument("--recompute-budget", metavar="BYTES", help="compute forward values again "
                   "for the gradient, so that temporaries take at most this: 256MiB, say")


def _checkpoint(p: argparse.ArgumentParser) -> None:
    p.add_argument("--checkpoint", metavar="FILE",
                   help="load parameters (.ckpt of MindSpore or safetensors) first")


def _compile(sub: Commands) -> None:
    p = _network(sub, "compile", "compile a network ahead of time into one artifact, or into a "
                 "library with a C interface, which needs no Python")
    p.add_argument("--output", "-o", metavar="NET.cellc", help="the artifact to write")
    for kind, ending, what in (
            ("shared", "so", "a shared library"), ("static", "a", "an archive to link"),
            ("object", "o", "an object to link")):
        p.add_argument(f"--{kind}", metavar=f"NET.{ending}", help=f"write {what} with a C "
                       "interface, and beside it NET.h and cellc.hpp, in the place of an artifact")
    _repeated(p, "--weights", metavar="KIND|NET.safetensors", help="store weights of Dense and "
              "Embedding layers as bfloat16, float16, int8 or int4, with options after commas: "
              "group=64, asymmetric, skip=LAYER; or write those of a C library to a file of their "
              "own, which its sessions map (repeatable)")
    _train(p, "also compile")
    _repeated(p, "--train-input", help=_STEP_INPUT)
    _repeated(p, "--entry", metavar="NAME=FUNC", help="compile a method of the network, or a "
              "function of FILE.py, as this entry, in the place of infer (repeatable); its inputs "
              "are --input NAME.x=..., or x=... for all entries that have an x")
    _repeated(p, "--donate", metavar="[ENTRY.]NAME", help="the result of the type of this input is "
              "written over it, so that a cache that is passed in and out is not copied "
              "(repeatable)")
    _sizes(p, "the values of an open size to serve: S=16,32,64..128; one size may be left open")
    p.add_argument("--no-graph", action="store_true", help="leave the graphs out of the file: it "
                   "cannot be dumped, verified, or compiled for another machine")
    _budget(p)
    _checkpoint(p)
    p.add_argument("--target", action="append", default=[], help="x86_64-avx512, x86_64-avx2 or "
                   "aarch64-neon (of an artifact repeatable; default: this machine)")
    _numerics(p)


_STEP_INPUT = "an input of the training step, as --input; in its order"


def _run(sub: Commands) -> None:
    p = _command(sub, "run", "run an artifact on inputs, or a MindSpore script with cellc",
                 " in the place of MindSpore")
    p.add_argument("--watch", choices=("nan", "range"), help="of a script: stop at the first op "
                   "that makes NaN or infinity, or print the range of every tensor at the end")
    p.add_argument("--report", metavar="FILE.html", help="of a script: write a page about all of "
                   "its compilations: cause and line of each, graphs, passes and code")
    p.add_argument("program", metavar="NET.cellc|SCRIPT.py", help="what to run")
    p.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="of an artifact: --input "
                   "x=@x.npy and more (`cellc run NET.cellc --help`); of a script: its arguments")


def _reproducing(sub: Commands) -> None:
    """`bisect` and `replay`."""
    p = _network(sub, "bisect", "find what is wrong with a network: the pass, the node, and the "
                 "smallest graph that shows it; takes a file of `record` too")
    p.add_argument("--grad", action="store_true", help="look at the gradient, and at the rules for "
                   "gradients and batches, too")
    p.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")
    p.add_argument("--seconds", type=float, default=60.0,
                   help="for making the graph smaller (default 60)")
    _sizes(p)
    p.add_argument("--output", "-o", metavar="FILE", help="write the smallest graph with its "
                   "inputs: as text, or compact if it ends in .cellcase")
    _checkpoint(p)
    p = _command(sub, "replay", "run a recorded call, or the smallest graph of a bisection",
                 ": compiled, op by op and by the reference, and against what was recorded")
    p.add_argument("case", metavar="FILE", help="what `record` or `bisect -o` wrote")


def _inspect(sub: Commands) -> None:
    p = _command(sub, "inspect", "write one page to look at: graph, passes, code, memory, times "
                 "and values")
    p.add_argument("network", metavar="FILE.py:NAME|NET.cellc|NET.mindir|NET.onnx|DIR", nargs="?",
                   help="a network, an artifact or an entry of one (NET.cellc:train), a portable "
                   "file, an ONNX model, or a folder of `cellc dump`")
    p.add_argument("--output", "-o", default="report.html", metavar="FILE.html|FILE.json",
                   help="the page (default report.html), or JSON for Model Explorer")
    p.add_argument("--diff", nargs=2, metavar=("A", "B"), help="show two graphs after all passes "
                   "and what differs: networks, files of a dump, or options (numerics=strict "
                   "numerics=fast)")
    _repeated(p, "--input", "-i", help="an input by name: x=float32[1,1,32,32], or x=@file.npy")
    p.add_argument("--grad", action="store_true", help="show the gradient by the "
                   "parameters (by the inputs, if there are none) too")
    _train(p, "show")
    p.add_argument("--profile", action="store_true", help="time every kernel, and show that")
    _runs(p)
    p.add_argument("--values", action="store_true", help="show range, mean, NaN count and "
                   "histogram of every value on these inputs")
    p.add_argument("--target", help="show the code for this target, not for this machine")
    _sizes(p)
    p.add_argument("--ranks", type=int, metavar="N", help="show what the first of N ranks does and "
                   "keeps in data-parallel training; nothing is run")
    _checkpoint(p)
    _numerics(p)
    _budget(p)


def _plan(sub: Commands) -> None:
    p = _command(sub, "plan", "predict what a training step takes on many ranks: time, bubbles, "
                 "bytes and memory", ". The step is compiled and timed here; what ranks send "
                 "follows from the links.")
    p.add_argument("network", metavar="FILE.py:NAME", nargs="?", help="a training step, or a "
                   "network with --train")
    _repeated(p, "--input", "-i", help="an input of the step, for one micro-batch: "
              "x=float32[8,128]")
    _sizes(p)
    p.add_argument("--train", metavar="NAME", help="a function of FILE.py that takes the network "
                   "and returns the training step as a Cell")
    p.add_argument("--mesh", metavar="dp=N,tp=N,pp=N", help="ranks along each axis: data, tensor "
                   "and pipeline parallel")
    p.add_argument("--search", type=int, metavar="N", help="try all meshes of N ranks")
    _repeated(p, "--link", metavar="intra=TIME:RATE,inter=TIME:RATE", help="latency and bandwidth "
              "of a rank, within and between machines: intra=5us:300GB/s,inter=10us:25GB/s; a "
              "third number: how fast it adds")
    p.add_argument("--measure-link", type=int, nargs="?", const=2, metavar="RANKS",
                   help="measure the link of this machine with this number of ranks (default 2), "
                   "by mpirun")
    p.add_argument("--node", type=int, metavar="N", help="ranks on a machine (default: all)")
    p.add_argument("--batch", type=int, metavar="ROWS", help="rows of all ranks in a step")
    p.add_argument("--micro-batches", type=int, metavar="N", help="micro-batches of a step "
                   "(default: 1, or 4 for each stage of a pipeline)")
    p.add_argument("--interleaved", type=int, default=1, metavar="N",
                   help="chunks of layers that each stage has (default 1)")
    p.add_argument("--overlap", type=float, default=0.0, metavar="PART", help="the part of the "
                   "gradients' communication that is hidden (default 0: cellc waits for it)")
    p.add_argument("--speed", type=float, default=1.0, metavar="FACTOR", help="how many times as "
                   "fast as here a rank computes: of another device, or 0.5 where two ranks share "
                   "each processor (default 1)")
    p.add_argument("--memory", metavar="BYTES", help="what a rank has, as 80GiB: leave out meshes "
                   "that need more")
    _runs(p)
    p.add_argument("--limit", type=int, default=10, help="rows of the table (default 10)")
    p.add_argument("--output", "-o", metavar="FILE.svg", help="write the schedule of the best plan "
                   "as a picture")


def _verify(sub: Commands) -> None:
    p = _network(sub, "verify", "compare compiled, PyNative and a float64 reference, end to end "
                 "and node by node")
    p.add_argument("--seed", type=int, help="seed of the random inputs, weights and draws "
                   "(default 0)")
    p.add_argument("--seeds", metavar="N|A,B,...", help="verify for each of several seeds: the "
                   "first N, or those listed")
    p.add_argument("--grad", action="store_true", help="verify the gradients of inputs and "
                   "parameters too")
    p.add_argument("--train", metavar="NAME", help="also verify a step of training: a function of "
                   "FILE.py that takes the network and returns the step as a Cell")
    _repeated(p, "--train-input", help=_STEP_INPUT)
    _sizes(p, "the sizes to verify for, where some are open (float32[N,3]): N=2,7,64; default: "
           "two choices of them")
    p.add_argument("--no-reference", action="store_true", help="leave out the float64 reference "
                   "and difference quotients")
    p.add_argument("--json", nargs="?", const="-", metavar="FILE", help="write everything as JSON "
                   "(without FILE: to standard output, in place of the text)")
    p.add_argument("--junit", metavar="FILE", help="write everything as JUnit's XML")
    p.epilog = ("exit status: 0 all agrees, 1 something differs or is not finite, 2 not all could "
                "be compared (or the usage is wrong)")
    _checkpoint(p)


def _stages(sub: Commands) -> None:
    p = _network(sub, "stages", "show how a training step is cut into stages of a pipeline: "
                 "memory, what is sent, idle time, and the schedule")
    p.add_argument("--train", metavar="NAME", required=True, help="the step: a function of FILE.py "
                   "that takes the network and returns the step as a Cell")
    _sizes(p)
    p.add_argument("--stages", type=int, required=True, metavar="N", help="how many stages")
    p.add_argument("--schedule", choices=("1f1b", "gpipe"), default="1f1b",
                   help="how they take turns (default 1f1b)")
    p.add_argument("--interleave", action="store_true",
                   help="the network may come to a stage more than once")
    p.add_argument("--output", "-o", metavar="FILE.svg", help="draw the schedule")


def _about_cellc(sub: Commands) -> None:
    """The commands that read no network."""
    p = _command(sub, "cache", "show or clear the cache of compiled code")
    p.add_argument("action", choices=("show", "clear"), nargs="?", default="show",
                   help="show (the default): where it is, entries and size; clear: remove all")
    p = _command(sub, "explain", "what an error code means", ", with an example and its mending")
    p.add_argument("code", nargs="?", help="CE203, say; without it, all codes")
    p = _command(sub, "completion", "print a script that completes commands, options, choices and "
                 "files in a shell", "; for bash: source <(cellc completion bash)")
    p.add_argument("shell", choices=("bash", "zsh", "fish"), help="which shell")
    p.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def parser() -> Parser:
    """The parser of the command line."""
    parser = Parser(
        prog="cellc", description="Compile, inspect and check networks written as Cell classes."
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.add_argument("--verbose", action="store_true",
                        help="with --version: what a report of a fault needs")
    sub = parser.add_subparsers(dest="command", metavar="COMMAND")
    parser.commands = sub.choices
    _compile(sub)
    p = _network(sub, "export",
                 "write a network for other runtimes (ONNX, MindIR), or as a portable file")
    p.add_argument("--output", "-o", required=True, metavar="NET.onnx|NET.mindir|NET.cir",
                   help="the file to write; its ending says which kind")
    p.add_argument("--opset", type=int, help="ONNX's op set, 17 to 21 (default 20)")
    _checkpoint(p)
    _run(sub)
    p = _network(sub, "profile", "time every kernel of a network: by op, Cell and line")
    _train(p, "profile")
    p.add_argument("--by", choices=("call", "op", "cell", "line", "family"), default="call",
                   help="what shares a row (default call: one op at one place of one Cell)")
    _runs(p)
    p.add_argument("--limit", type=int, default=25, help="rows of the table (default 25)")
    p.add_argument("--trace", metavar="FILE.json", help="also write the timeline of all calls, "
                   "with a row for each thread, for ui.perfetto.dev or chrome://tracing")
    p.add_argument("--csv", metavar="FILE.csv", help="also write the whole table as CSV")
    p.add_argument("--json", metavar="FILE.json", help="also write the whole table as JSON")
    _sizes(p)
    _numerics(p)
    _budget(p)
    p = _network(sub, "dump", "write the graph after each pass that changed it as text and DOT, "
                 "and the loop nests; or show differences", optional=True)
    p.add_argument("--output", "-o", default="cellc_dump", metavar="DIR",
                   help="the folder to write (default cellc_dump)")
    p.add_argument("--diff", nargs=2, metavar=("A", "B"), help="print what differs, and write "
                   "nothing: two stages (traced cse), folders of dumps, files of graphs, networks, "
                   "or options (numerics=strict numerics=fast)")
    _train(p, "dump")
    p.add_argument("--grad", action="store_true", help="dump the gradient by the "
                   "parameters (by the inputs, if there are none) too")
    _sizes(p)
    _budget(p)
    _checkpoint(p)
    _numerics(p)
    _inspect(sub)
    _plan(sub)
    _verify(sub)
    _stages(sub)
    _reproducing(sub)
    p = _network(sub, "check", "report every error of a network")
    _train(p, "check")
    _sizes(p)
    p.add_argument("--weights", metavar="KIND", help="instead, print for each layer what its "
                   "weights in few bits change: errors, bytes, times; as for compile")
    _about_cellc(sub)
    return parser


def _run_command(args: argparse.Namespace) -> int:
    if args.version:
        return _loaded("version:version")(args)
    if args.command is None:
        parser().print_help()
        return 2
    return function(args.command)(args)


def function(command: str) -> Callable[[argparse.Namespace], int]:
    """The function of a command."""
    return _loaded(COMMANDS[command])


def _loaded(place: str) -> Callable[[argparse.Namespace], int]:
    module, _, name = place.partition(":")
    found: Callable[[argparse.Namespace], int] = getattr(
        imported(f"{__name__}.{module}"), name)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status (0 good, 1 found something, 2 bad usage)."""
    prepare_output()
    args = parser().parse_command(argv)
    try:
        status = _run_command(args)
        if sys.stdout is not None:  # closed, as by `>&-`
            sys.stdout.flush()
        return status
    except (UserError, knobs.KnobError) as e:
        print(f"cellc: {e}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        drop_output()
        return 0
    except OSError as e:
        if args.command == "run" and args.program.endswith(".py"):
            raise  # of the script
        drop_output()
        where = "standard output" if e.filename is None else os.fspath(e.filename)
        print(f"cellc: {where}: {e.strerror or e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("cellc: interrupted", file=sys.stderr)
        return 130
