"""`cellc run --report`: a page about the compilations of a script, with the cause of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cellc_compiler.ir.graph import Graph
from cellc_compiler.lower.machine import NoRule
from cellc_compiler.passes.base import copy_graph
from cellc_runtime.errors import counted
from cellc_runtime.files import write_text
from cellc_runtime.records import dataclass

from .. import context
from ..calls.callbacks import host_callbacks
from ..compiled.causes import Compilation, called_at
from ..compiled.entry import Entry
from ..core import progress
from ..core.observers import watching_compilations
from ..viewer.page import page
from ..viewer.report import Subject, document
from ..viewer.sources import Sources
from .errors import UserError
from .loading import writing

MOST_GRAPHS = 24
"""Compilations whose graphs are shown: the first ones; of the others the table has the facts."""


@dataclass(slots=True)
class _Made:
    """A compilation, its graph as it was traced, and the line that called."""

    name: str
    compilation: Compilation
    entry: Entry
    place: str
    graph: Graph | None

    def row(self, number: int | None) -> dict[str, Any]:
        """The row of the page's table; `number`: of its graph, if that is shown."""
        c, report = self.compilation, self.entry.report
        return {"name": self.name, "signature": c.signature, "seconds": c.seconds, "cause": c.cause,
                "remedy": c.remedy, "place": self.place, "cached": bool(report.cached),
                "kernels": report.kernels, "arena": report.arena_bytes, "instance": c.instance,
                "calls": self.entry.calls, "graph": number}


@contextmanager
def reporting(path: str | None, script: str) -> Iterator[None]:
    """Within the block, collect compilations; write the page at its end, come what may."""
    if path is None:
        yield
        return
    if not path.endswith(".html"):
        raise UserError(f"--report {path}: expected a name that ends in .html")
    found: list[_Made] = []

    def watch(name: str, made: Compilation, entry: Entry) -> None:
        shown = not made.instance and sum(m.graph is not None for m in found) < MOST_GRAPHS
        place = called_at().removeprefix(" (called at ").removesuffix(")")
        found.append(_Made(name, made, entry, place,
                           copy_graph(entry.traced.graph) if shown else None))

    try:
        with watching_compilations(watch):
            yield
    finally:
        print(_write(Path(path), Path(script), found))


def _write(out: Path, script: Path, found: list[_Made]) -> str:
    if not found:
        return "no network was compiled, so there is no report"
    subjects: list[Subject] = []
    rows, last = [], {}
    for number, made in enumerate(found, 1):
        if made.graph is not None:
            last[made.name] = len(subjects)
            functions = made.entry.traced.functions
            subjects.append(Subject(
                f"{number}. {made.name}{made.compilation.signature}", made.graph,
                callbacks=host_callbacks(made.graph, functions)))
        own = made.graph is not None or made.compilation.instance
        rows.append(made.row(last.get(made.name) if own else None))
    seconds = sum(m.compilation.seconds for m in found)
    again = sum(bool(m.compilation.cause) and not m.compilation.instance for m in found)
    facts = [("script", script.name), ("compilations", f"{len(found)} in {seconds:.2f} s"),
             ("compiled again", str(again))]
    sources = Sources([script.resolve().parent, Path.cwd()])
    with progress.stage(out.name, "writing") as say:
        try:
            data, texts = document(script.name, subjects, sources, None, context.numerics(), say,
                                   facts)
        except NoRule as e:
            raise UserError(str(e)) from e
    with writing(out):
        write_text(out, page({**data, "compilations": rows}, texts))
    return (f"wrote {out}: {out.stat().st_size / 1024:.0f} KiB, "
            f"{counted(len(found), 'compilation')}, {again} of them again")
