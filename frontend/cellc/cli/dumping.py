"""`cellc dump`: the graph after each pass that changed it, its loop nests, and differences."""

from __future__ import annotations

import argparse
import copy
import difflib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cellc_compiler import backends, driver, open_sizes
from cellc_compiler.ir.dims import Undecided, deciding
from cellc_compiler.ir.dot import graph_dot
from cellc_compiler.ir.graph import Graph, Node, Value
from cellc_compiler.ir.names import Names
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.ir.text import ParseError, parse_graph
from cellc_compiler.loops.nest import print_nest
from cellc_compiler.lower.lowered import ShownNest
from cellc_compiler.passes.base import copy_graph
from cellc_runtime.errors import counted
from cellc_runtime.files import write_texts
from cellc_runtime.records import dataclass, field

from .. import cli, context
from ..calls.budget import least
from ..tools import budget_view
from ..viewer.ledger import Ledger
from ..viewer.stages import compare, summary
from .at_sizes import said
from .commands import budget_of, errors_told, gradient, numerics_of, traced_of
from .errors import UserError
from .loading import writing

NO_NETWORK = "a network is expected: FILE.py:NAME, NET.cellc, NET.mindir or NET.onnx"
_STAGE = re.compile(r"(?:grad_)?\d+_(.+)")
_PLACE = re.compile(r' loc\("(?:[^"\\]|\\.)*":\d+:\d+\)')
_COLORS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


@errors_told()
def dump(args: argparse.Namespace) -> int:
    """`cellc dump`."""
    if args.diff:
        return _show_diff(args)
    parts = _parts(args)
    files = {name: text for part in parts.values() for name, text in part.files.items()}
    for part in parts.values():
        print("".join(f"{line}\n" for line in part.lines), end="")
    out = Path(args.output)
    with writing(out, "no folder to write to"):
        out.mkdir(parents=True, exist_ok=True)
    with writing(out):
        write_texts(out, files)
    print(f"wrote {counted(len(files), 'file')} to {out}")
    return 0


def _parts(args: argparse.Namespace) -> dict[str, _Part]:
    """The graph of the command line and, if it is wanted, the gradient, by the beginning of their
    files' names."""
    if args.network is None:
        raise UserError(NO_NETWORK)
    context.set_context(numerics=numerics_of(args))
    traced, _, symbolic = traced_of(args)
    budget = least(budget_of(args), traced.budget)
    graded = args.grad or budget is not None
    note = []
    if symbolic is not None:
        try:
            symbolic.refuse_numbers()
            return {p: _open_part(g, p, symbolic.shapes) for p, g in
                    _graphs(symbolic.traced, graded, symbolic.shapes).items()}
        except Undecided as e:
            note = [f"the program for {said(symbolic.sizes)} alone: {e}"]
    parts = {p: _part(g, p, budget) for p, g in _graphs(traced, graded, Shapes()).items()}
    parts[""].lines[:0] = note
    return parts


def _graphs(traced: Any, graded: bool, shapes: Shapes) -> dict[str, Graph]:
    graphs = {"": traced.graph}
    if graded:
        with deciding(shapes):
            graphs["grad_"] = gradient(traced)
    return graphs


@dataclass(slots=True)
class _Part:
    """A graph and what passes make of it."""

    prefix: str
    # the text of each stage that changed something, by name
    stages: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # names and contents of what a dump writes
    lines: list[str] = field(default_factory=list)  # what is printed about it
    names: Names = field(default_factory=Names)
    # the graph after all passes, and `names` those of its values
    last: Graph = field(default_factory=lambda: Graph("none"))
    _ledger: Ledger = field(default_factory=Ledger)
    _shot: Any = None
    _count: int = 0

    def add(self, name: str, graph: Graph) -> None:
        """The next stage, which is kept if it is another than the one before."""
        shot, text = self._ledger.take(graph), self.names.text(graph)
        key = f"{self.prefix}{self._count:02d}_{name}"
        self._count += 1
        if self._shot is None or text != self._text:
            self.stages[key] = text
            self.files |= {f"{key}.txt": text, f"{key}.dot": graph_dot(graph)}
            if self._shot is not None:
                about = summary(self._ledger, compare(self._ledger, self._shot, shot))
                self.lines.append(f"{key}: {about}")
        self._shot, self.last = shot, graph

    @property
    def _text(self) -> str:
        return next(reversed(self.stages.values()), "")

    def write_nests(
        self, nests: Iterable[ShownNest], inlined: Mapping[Value, Node]
    ) -> None:
        """Write the loop nests into a file; `inlined`: as `Lowered.inlined`."""
        names = self.names.of
        self.files[f"{self.prefix}nests.txt"] = "\n".join(
            f"{nest.label}\n{''.join(_places(nest.nodes, names))}"
            f"{''.join(_places(_inlined_into(nest, inlined), names, 'inlined: '))}"
            f"{print_nest(nest.nest, _buffers(nest, names))}" for nest in nests)


def _inlined_into(nest: ShownNest, inlined: Mapping[Value, Node]) -> list[Node]:
    """The nodes that a nest computes where it reads their results, in the order of the graph."""
    found: dict[Node, None] = {}

    def add(values: Iterable[Value]) -> None:
        for v in values:
            node = inlined.get(v)
            if node is not None and node not in found:
                add(node.operands)
                found[node] = None

    for node in nest.nodes:
        add(node.operands)
    return list(found)


def _places(
    nodes: Iterable[Node], names: Mapping[Value, str], head: str = ""
) -> Iterator[str]:
    """A line for each place in the source: `head`, where, in which Cell, and its nodes."""
    found: dict[str, list[str]] = {}
    for n in nodes:
        if n.is_constant:
            continue
        cell = f"in {n.scope}" if n.scope else ""
        of = " ".join(names[r] for r in n.results if r in names)
        where = " ".join(filter(None, (n.span.short, cell)))
        found.setdefault(where, []).append(f"{of} {n.op}".strip())
    for where, ops in found.items():
        yield f"  {head}{where}: {', '.join(ops)}\n" if where else f"  {head}{', '.join(ops)}\n"


def _buffers(nest: ShownNest, names: Mapping[Value, str]) -> Callable[[Any], str]:
    """Buffers by the value that they hold, as the stages have it; a parameter by its own name."""
    def name(buffer: Any) -> str:
        value = nest.own.get(buffer, buffer)
        if not isinstance(value, Value):
            return ""
        return names.get(value, value.name)

    return name


def _open_part(graph: Graph, prefix: str, shapes: Shapes) -> _Part:
    """A graph with open sizes.

    Raises:
        Undecided: there is no program for all sizes.
    """
    part, report = _Part(prefix), driver.Report(keep_nests=True)
    part.add("traced", graph)
    program = open_sizes.compile_open_observed(graph, shapes, part.add, report, context.numerics())
    assert program.open is not None
    part.write_nests(report.nests, report.inlined)
    part.files[f"{prefix}sizes.txt"] = "".join(f"{c}\n" for c in program.open.conditions())
    return part


def _part(graph: Graph, prefix: str, budget: int | None) -> _Part:
    """A graph of known sizes."""
    part, numerics = _Part(prefix), context.numerics()
    target, whole = backends.target_of(graph, numerics), copy_graph(graph)
    part.add("traced", whole)
    last = driver.optimize(whole, part.add, numerics, target, in_place=True)
    if budget is not None and driver.has_gradient(graph):
        kept = last
        last, plan = driver.optimize_within(graph, target, numerics, budget)
        part.names.adopt(last, kept)
        part.last = last
        if plan is not None:
            part.lines += budget_view.text(plan)
            part.files |= {
                f"{prefix}recomputed.txt": "\n".join(budget_view.text(plan, full=True)) + "\n",
                f"{prefix}recomputed.svg": budget_view.svg(plan, graph.name)}
    part.last = copy_graph(last)
    part.names.adopt(part.last, last)
    lowered = driver.lower(last, target)
    part.write_nests(lowered.nests, lowered.inlined)
    return part


# --- differences ----------------------------------------------------------------------------------


def _show_diff(args: argparse.Namespace) -> int:
    """`cellc dump --diff A B`."""
    first, second = args.diff
    pairs = [*_pairs(args, first, second)]
    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    lines = [line for a, b, before, after in pairs for line in difflib.unified_diff(
        a.splitlines(), b.splitlines(), before, after, lineterm="")]
    for line in lines:
        code = _COLORS.get(line[:1], "") if color else ""
        print(f"{code}{line}\x1b[0m" if code else line)
    if not lines:
        print(f"{first} and {second}: no difference")
    return 0


def _pairs(
    args: argparse.Namespace, first: str, second: str
) -> Iterator[tuple[str, str, str, str]]:
    """Texts to compare, and what they are."""
    if _is_stage(first) and _is_stage(second):
        parts = _parts(args)
        names, texts = zip(*(_staged(parts, name) for name in (first, second)), strict=True)
        yield texts[0], texts[1], names[0], names[1]
        return
    if Path(first).is_dir() and Path(second).is_dir():
        graphs = [_ends(Path(folder)) for folder in (first, second)]
    else:
        graphs = [graphs_of(args, what) for what in (first, second)]
    for name in sorted({*graphs[0], *graphs[1]}):
        a, b = _alike(graphs[0].get(name), graphs[1].get(name))
        yield a, b, f"{first} {name}".rstrip(" _"), f"{second} {name}".rstrip(" _")


def _ends(folder: Path) -> dict[str, Graph]:
    """The first and the last stage of a dump's graphs."""
    found = sorted(p for p in folder.glob("*.txt") if _STAGE.fullmatch(p.stem))
    if not found:
        raise UserError(f"{folder}: no stages of a graph: expected 00_traced.txt and so on, as "
                        "`cellc dump` writes them")
    out: dict[str, Graph] = {}
    for prefix in ("", "grad_"):
        stages = [p for p in found if p.stem.startswith("grad_") == bool(prefix)]
        if stages:
            out |= {f"{prefix}traced": _read(stages[0]), f"{prefix}optimized": _read(stages[-1])}
    return out


def _is_stage(what: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]+", what) is not None and not Path(what).exists()


def _staged(parts: Mapping[str, _Part], name: str) -> tuple[str, str]:
    """The stage of this name, or of this name and number, and its text."""
    stages = {key: text for part in parts.values() for key, text in part.stages.items()}
    fits = [key for key in stages if name in (key, key.partition("_")[2])]
    if len(fits) != 1:
        found = ", ".join(fits or stages)
        raise UserError(f"--diff {name}: " + (f"several stages are called so: {found}" if fits else
                        f"no stage of this name changed something; there are {found}"))
    return fits[0], _PLACE.sub("", stages[fits[0]])


def graphs_of(args: argparse.Namespace, what: str) -> dict[str, Graph]:
    """The graph in a file, or those after all passes of another network or with other options."""
    given = copy.copy(args)
    if Path(what).is_file() and what.endswith(".txt"):
        return {"": _read(Path(what))}
    if "=" in what and ".py:" not in what:
        options = shlex.split(what)
        parsed = cli.parser().parse_args(["dump", *(f"--{option}" for option in options)])
        for option in options:
            name = option.partition("=")[0].replace("-", "_")
            if not hasattr(parsed, name):
                raise UserError(f"--diff {what}: `cellc dump` has no option --{name}")
            setattr(given, name, getattr(parsed, name))
    else:
        given.network = what
    return {prefix: part.last for prefix, part in _parts(given).items()}


def _read(path: Path) -> Graph:
    try:
        return parse_graph(path.read_text(encoding="utf-8"))
    except (OSError, ParseError, UnicodeDecodeError) as e:
        raise UserError(f"{path}: {getattr(e, 'strerror', None) or e}") from e


def _alike(first: Graph | None, second: Graph | None) -> tuple[str, str]:
    """The texts of two graphs, in which nodes that are alike have one name, without places."""
    names = Names()
    a = names.text(first, spans=False) if first is not None else ""
    if second is not None and first is not None:
        names.adopt(second, first)
    b = names.text(second, spans=False) if second is not None else ""
    return a, b
