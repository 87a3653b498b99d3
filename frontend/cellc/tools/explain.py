"""`cellc.explain`: what has been compiled for a network, and why again.

Only in cellc.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from cellc_runtime.errors import counted
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass

from ..compiled.causes import Compilation
from ..compiled.entries import EntryTable
from ..compiled.entry import Entry
from ..core.module_names import function_name

if TYPE_CHECKING:
    from cellc_compiler.lower.budget import Plan
with lazy_imports(__name__):
    from . import budget_view


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """One compiled signature."""

    signature: str  # in words
    seconds: float  # its compilation took, tracing included
    # that went through Python (a call site answers repeated calls of a Cell natively, uncounted)
    calls: int
    fresh: bool  # whether what it was compiled from still holds; else the next call compiles again
    nodes: int  # of the graph
    kernels: int  # of the program
    cached: bool  # whether the program came from the disk cache
    arena_bytes: int  # memory for temporaries
    depends: tuple[str, ...]  # what it was compiled from and compares before each call, in words
    # what is computed from the parameters once (packed weights, say); of the parameters themselves
    # `released_bytes` are given up for it
    precomputed_bytes: int = 0
    released_bytes: int = 0
    recomputed: Plan | None = None  # what was chosen for a budget of `recompute`; None without one
    python: tuple[str, ...] = ()  # what Python does in each call, and where


@dataclass(frozen=True, slots=True)
class Explanation:
    """The findings of `explain`; print it."""

    name: str  # of the Cell or function
    entries: tuple[EntryFacts, ...]  # the compiled signatures
    history: tuple[Compilation, ...]  # every compilation, in order, with its cause

    def __str__(self) -> str:
        if not self.history:
            return f"{self.name}: nothing has been compiled"
        total = sum(c.seconds for c in self.history)
        made = [c for c in self.history if not c.instance]
        served = len(self.history) - len(made)
        lines = [f"{self.name}: {counted(len(self.entries), 'signature')}, "
                 f"{counted(len(made), 'compilation')}"
                 + (f" and {counted(served, 'instance')} of open sizes" if served else "")
                 + f" in {total:.2f} s"]
        for i, e in enumerate(self.entries, 1):
            source = ", program from the disk cache" if e.cached else ""
            stale = "" if e.fresh else " (out of date: the next call compiles again)"
            lines.append(f"  {i}. {e.signature}{stale}")
            lines.append(f"     {e.seconds:.3f} s{source}; {counted(e.nodes, 'node')}, "
                         f"{counted(e.kernels, 'kernel')}, {e.arena_bytes / 1024:.0f} KiB of "
                         f"temporaries; {counted(e.calls, 'call')}, native ones not counted")
            if e.precomputed_bytes:
                lines.append(f"     {_size(e.precomputed_bytes)} computed once from the parameters"
                             + (f"; {_size(e.released_bytes)} of original weights are freed"
                                if e.released_bytes else ""))
            lines += [f"     run by Python in each call: {p}" for p in e.python]
            lines += [f"     compared before each call: {d}" for d in e.depends]
            if e.recomputed is not None:
                lines += [f"     {line}".rstrip() for line in budget_view.text(e.recomputed)]
        again = [c for c in self.history if c.cause and not c.instance]
        if again:
            lines.append("  compiled again:")
        lines += [f"     {c.cause}" for c in again]
        remedies = list(dict.fromkeys(c.remedy for c in again if c.remedy))
        if remedies:
            lines.append("  what helps:")
        lines += [f"     {remedy}" for remedy in remedies]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the compilations for notebooks, as a table with cause and remedy of each."""
        head = escape(str(self).partition("\n")[0])
        facts = {(e.signature, e.seconds): e for e in self.entries}
        rows = "".join(_row(i, c, facts.get((c.signature, c.seconds)))
                       for i, c in enumerate(self.history, 1))
        titles = "".join(f"<th style='{_CELL}'>{t}</th>" for t in _TITLES)
        return f"<div><b>{head}</b></div><table><tr>{titles}</tr>{rows}</table>"


_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"
_TITLES = ("", "Signature", "Time", "Cause", "Remedy", "Program")


def _row(number: int, made: Compilation, facts: EntryFacts | None) -> str:
    """A compilation as a row of a table; `facts`: of what it made, if that is still there."""
    why = made.cause or "the first of this network"
    program = "replaced" if facts is None else (
        f"{counted(facts.nodes, 'node')}, {counted(facts.kernels, 'kernel')}, "
        f"{_size(facts.arena_bytes)} of temporaries" + ("" if facts.fresh else ", out of date"))
    cells = (str(number), made.signature, f"{made.seconds:.3f}\N{NO-BREAK SPACE}s",
             f"served by a graph with open sizes: {why}" if made.instance else why,
             made.remedy, program)
    inner = "".join(f"<td style='{_CELL}'>{escape(c)}</td>" for c in cells)
    return f"<tr>{inner}</tr>"


def _size(n: int) -> str:
    return f"{n / 1024:.0f} KiB" if n >= 1024 else counted(n, "byte")


def explain(target: Any) -> Explanation:
    """Return the compiled programs of a Cell, a jitted function or method, or a gradient function.

    The report says for each signature how long its compilation took and what it compares before
    each call, and for each compilation after the first why it was needed: which attribute,
    variable, argument or size differed, what it was and is, where the source reads it or asks for
    it, and what helps.

    Args:
        target: a Cell; what `jit`, `grad` or `value_and_grad` gave.
    """
    table = _table(target)
    if table is None:
        raise TypeError(
            "explain takes a Cell, a jitted function or a gradient function, but got "
            f"{type(target).__name__}"
        )
    last = {c.key: c for c in table.history}
    entries = tuple(_facts(e, last[key]) for key, e in table.entries.items() if key in last)
    name = function_name(target)
    return Explanation(name, entries, tuple(table.history))


def _table(target: Any) -> EntryTable | None:
    for name in ("_entries", "table", "__compiled__"):
        found = getattr(target, name, None)
        if isinstance(found, EntryTable):
            return found
    return None


def _facts(entry: Entry, made: Compilation) -> EntryFacts:
    report = entry.report
    return EntryFacts(
        made.signature, made.seconds, entry.calls, entry.fresh(), len(entry.traced.graph.nodes),
        report.kernels, bool(report.cached), report.arena_bytes,
        tuple(f"{r.label}, {r.before}" + (f", read at {r.where}" if r.where else "")
              for r in entry.traced.reads if r.compared and not r.finds_nothing),
        report.precomputed_bytes, report.released_bytes, report.recomputed,
        tuple(f"{what}, {where}" for what, where in entry.traced.pieces),
    )
