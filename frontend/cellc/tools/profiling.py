"""Profiles of compiled networks: where the time of a call goes, by kernel, op, Cell and line.

The network is compiled once more, with the same kernels, into a program that notes the
processor's clock around each of them; see `cellc_compiler.backends.cpu.host.profiling`.
"""

from __future__ import annotations

import csv
import io
import json
import linecache
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cellc_compiler.backends.base import RECORD_BYTES
from cellc_compiler.driver import Profiled, compile_profiled
from cellc_compiler.ir.graph import NOWHERE, Node, Span
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.lower import costs
from cellc_compiler.lower.instructions import Call, Copy
from cellc_runtime.executable import Executable
from cellc_runtime.files import write_text
from cellc_runtime.lazy import lazy_imports
from cellc_runtime.records import dataclass, field

from ..calls.budget import least
from ..calls.callbacks import host_callbacks
from ..compiled.traced import Traced
from ..core.device import current
from ..core.later import open_sizes
from ..storage.memory import aligned_copy
from ..tensors.tensor import elements_now
from ..tracing.exceptions import ERRORS
from . import consoles

if TYPE_CHECKING:
    from rich.console import Console
with lazy_imports(__name__):
    from . import profile_html

_APART = 1 << 16  # Stack addresses of one thread are closer than this, those of two are not
_CALIBRATE = 0.05  # Seconds over which the processor's clock is compared with the system's

_APART_IN_TRACE = 10.0
"""Microseconds between two calls of a trace; what lies between them is not known."""

_BLOCKS = " ▁▂▃▄▅▆▇█"
_TITLES = {
    "call": ("Op", "Kernel", "Cell", "Line"), "op": ("Op",), "cell": ("Cell",), "line": ("Line",),
    "family": ("Kernel",),
}
_WIDTH = 190  # Columns where there is no terminal
_SOURCE_FROM = 120  # Columns from which on there is room for the user's line
_NUMBERS = (("Time", 9), ("%", 4), ("", 8), ("Calls", 5), ("GFLOP/s", 7), ("GB/s", 5), ("Busy", 4))
_WIDEST = {"Op": 34, "Kernel": 10, "Cell": 22, "Line": 18}
_NARROWEST = {"Op": 20, "Kernel": 6, "Cell": 22, "Line": 13}


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the program that calls a kernel.

    Attributes:
        label: the ops, for people; `family` the kind of kernel.
        scope: the path of the Cell; `span` the user's line.
        flops: of contractions; `nbytes` of its buffers, each once; both of one execution.
        tasks: independent tasks.
        live: bytes of temporaries that are needed while it runs.
        apart: whether several threads run it side by side, each for rows of its own.
        nodes: of the optimized graph, that it computes.
    """

    label: str
    family: str
    scope: str
    span: Span
    flops: int
    nbytes: int
    tasks: int
    live: int
    apart: bool
    nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """One execution of a site (`task` is -1) or of one of its tasks; nanoseconds of a call."""

    site: int
    task: int
    start: float
    end: float
    thread: int


@dataclass(slots=True)
class Row:
    """A line of the table: sites that are one thing to the reader, in one call.

    Attributes:
        key: what they have in common.
        seconds: median over the calls profiled; `count` executions.
        busy: the part of the threads' time in which they ran tasks; None for serial kernels.
    """

    key: tuple[str, ...]
    sites: list[Site] = field(default_factory=list)
    seconds: float = 0.0
    count: int = 0
    flops: int = 0
    nbytes: int = 0
    busy: float | None = None


@dataclass(slots=True)
class Profile:
    """Where the time of a network's calls went.

    Attributes:
        name: of the network.
        sites: by number, as in events.
        calls: the events of each call profiled.
        seconds: wall time of each of them.
        threads: that ran tasks.
        arena_bytes: temporaries; `largest` those alive at their peak, as (op, bytes).
        lost: records that did not fit.
    """

    name: str
    sites: list[Site]
    calls: list[list[Event]]
    seconds: list[float]
    threads: int
    arena_bytes: int
    largest: list[tuple[str, int]]
    lost: int = 0

    def rows(self, by: str = "call") -> list[Row]:
        """Return the time by row, most first.

        Args:
            by: `"call"` (op, Cell and line), `"op"`, `"cell"`, `"line"` or `"family"`.
        """
        if by not in KEYS:
            raise ValueError(f"profiles are by {', '.join(KEYS)}, not {by!r}")
        numbers: dict[tuple[str, ...], list[int]] = {}
        for i, site in enumerate(self.sites):
            numbers.setdefault(KEYS[by](site), []).append(i)
        rows = [self._measured(key, set(mine)) for key, mine in numbers.items()]
        return sorted((r for r in rows if r.count), key=lambda r: -r.seconds)

    def _measured(self, key: tuple[str, ...], sites: set[int]) -> Row:
        row = Row(key, [self.sites[i] for i in sorted(sites)])
        spans = [[e for e in call if e.site in sites] for call in self.calls]
        whole = [[e for e in events if e.task < 0] for events in spans]
        row.seconds = statistics.median(sum(map(self._share, w)) for w in whole) * 1e-9
        row.count = len(whole[-1])
        row.flops = sum(self.sites[e.site].flops for e in whole[-1])
        row.nbytes = sum(self.sites[e.site].nbytes for e in whole[-1])
        parallel = {e.site for events in spans for e in events if e.task >= 0}
        if parallel:
            work = sum(e.end - e.start for events in spans for e in events if e.task >= 0)
            room = sum(e.end - e.start for events in whole for e in events if e.site in parallel)
            row.busy = work / max(room * self.threads, 1e-9)
        return row

    def site_seconds(self) -> list[float]:
        """The median seconds that each site took in a call."""
        spent = np.zeros((len(self.calls), len(self.sites)))
        for row, events in zip(spent, self.calls, strict=True):
            for e in events:
                if e.task < 0:
                    row[e.site] += self._share(e)
        return [float(t) * 1e-9 for t in np.median(spent, axis=0)] if len(spent) else []

    def _share(self, e: Event) -> float:
        """Return an execution's share of the call: less if others run in parallel."""
        return (e.end - e.start) / (self.threads if self.sites[e.site].apart else 1)

    def typical(self) -> list[Event]:
        """The events of the call of median time."""
        order = sorted(range(len(self.seconds)), key=self.seconds.__getitem__)
        return self.calls[order[len(order) // 2]]

    def outside(self) -> tuple[float, float]:
        """The seconds of a call without a kernel: before the first and after the last of them, and
        between them (medians)."""
        ends, gaps = [], []
        for events, total in zip(self.calls, self.seconds, strict=True):
            spans = sorted((e.start, e.end) for e in events if e.task < 0)
            reached, idle = (spans[0][0], 0.0) if spans else (0.0, 0.0)
            for start, end in spans:
                idle += max(start - reached, 0.0)
                reached = max(reached, end)
            inside = (reached - spans[0][0]) * 1e-9 if spans else 0.0
            ends.append(max(total - inside, 0.0))
            gaps.append(idle * 1e-9)
        return statistics.median(ends), statistics.median(gaps)

    def records(self, by: str = "call") -> list[dict[str, Any]]:
        """`rows` as plain values, for tables of other tools."""
        names = [title.lower() for title in _TITLES[by]] if by in KEYS else []
        return [{**dict(zip(names, row.key, strict=True)), "seconds": row.seconds,
                 "calls": row.count, "flops": row.flops, "bytes": row.nbytes, "busy": row.busy}
                for row in self.rows(by)]

    def save_csv(self, path: str | Path, by: str = "call") -> None:
        """Write `records` as CSV."""
        write_text(path, csv_text(self.records(by)))

    def save_json(self, path: str | Path, by: str = "call") -> None:
        """Write the profile as JSON: what the head of the table says, and `records`."""
        ends, gaps = self.outside()
        write_text(path, json.dumps({
            "name": self.name, "seconds": statistics.median(self.seconds), "calls": self.seconds,
            "threads": self.threads, "arena_bytes": self.arena_bytes, "entering_seconds": ends,
            "between_kernels_seconds": gaps, "by": by, "rows": self.records(by)}, indent=1))

    def trace_events(self) -> list[dict[str, Any]]:
        """The calls one after the other in the Trace Event Format (chrome://tracing,
        ui.perfetto.dev): each call, kernel and task, and the temporaries."""
        return list(_trace_events(self))

    def save_trace(self, path: str | Path) -> None:
        """Write `trace_events` as JSON."""
        document = {"traceEvents": self.trace_events(), "displayTimeUnit": "ms"}
        write_text(path, json.dumps(document))

    def __repr__(self) -> str:  # the last value of a notebook's cell is shown by it
        console, out = consoles.in_text(_WIDTH)
        _print(self, "call", 25, console)
        return out.getvalue()

    def _repr_html_(self) -> str:
        """Return the table for notebooks, with bars."""
        return profile_html.table(self)

    def show(self, by: str = "call", limit: int = 25) -> None:
        """Print the table, coloured on a terminal."""
        _print(self, by, limit, consoles.output(_WIDTH))


KEYS: Mapping[str, Callable[[Site], tuple[str, ...]]] = {
    "call": lambda s: (s.label, s.family, s.scope, s.span.short),
    "op": lambda s: (s.label,),
    "cell": lambda s: (s.scope or "(top)",),
    "line": lambda s: (s.span.short,),
    "family": lambda s: (s.family,),
}
"""The groupings of a table's rows."""


def profile_traced(
    traced: Traced, arrays: Sequence[Any], runs: int, numerics: str = "strict",
    budget: int | None = None, opened: tuple[Shapes, Mapping[str, int]] | None = None,
) -> Profile:
    """`profile` of a call that is traced already, with the arrays of its tensors, on the CPU.

    Args:
        opened: of a graph with open sizes: its symbols, and the sizes of the arrays.
    """
    if current() is not None:
        raise RuntimeError("these times are the CPU's, but the device in use is a GPU; use "
                           "set_context(device_target='CPU'), or `cellc profile` for the GPU's")
    if opened is None:
        recorded = compile_profiled(traced.graph, numerics, least(traced.budget, budget))
    else:
        recorded = open_sizes.compile_open_profiled(traced.graph, *opened, numerics)
    callbacks = host_callbacks(traced.graph, traced.functions)
    executable = Executable(recorded.program, callbacks, ERRORS)
    executable.bind([aligned_copy(elements_now(p)) for p in traced.parameters])
    for _ in range(2):
        executable.call(arrays)
    before = time.perf_counter_ns()
    times: list[tuple[int, int]] = []
    calls: list[Any] = []
    lost = 0
    while len(times) < runs or time.perf_counter_ns() - before < _CALIBRATE * 1e9:
        start = time.perf_counter_ns()
        executable.call(arrays)
        times.append((start, time.perf_counter_ns()))
        records, dropped = _records(executable, recorded)
        lost += dropped
        calls.append(records)
        if len(calls) > runs:  # of the extra calls that calibration takes, the last ones stay
            del calls[1]
            del times[1]
    return _analyse(traced.graph.name, recorded, times, calls, lost)


def _records(executable: Executable, recorded: Profiled) -> tuple[Any, int]:
    """The records of the last call, one a row, and how many more there were."""
    count = struct.unpack("<q", executable.arena(recorded.start, 8))[0]
    kept = min(count, recorded.capacity)
    raw = executable.arena(recorded.start + RECORD_BYTES, kept * RECORD_BYTES)
    return np.frombuffer(raw, np.int64).reshape(kept, RECORD_BYTES // 8), count - kept


def _analyse(
    name: str, recorded: Profiled, times: list[tuple[int, int]], calls: list[Any], lost: int
) -> Profile:
    every = np.concatenate(calls) if calls else np.zeros((0, RECORD_BYTES // 8), np.int64)
    if not len(every):
        return Profile(name, [], [[] for _ in calls], [(b - a) * 1e-9 for a, b in times], 1,
                       recorded.start, [], lost)
    threads = _threads(every[:, 4])
    rate = _nanoseconds_per_tick(times, calls)
    events = []
    for (start, end), records in zip(times, calls, strict=True):
        first = int(records[:, 2].min())
        # The time of the call before its first kernel is not known: half of the rest, say.
        inside = (int(records[:, 3].max()) - first) * rate
        offset = max((end - start - inside) / 2, 0.0)
        events.append([
            Event(int(site), int(task), (int(a) - first) * rate + offset,
                  (int(b) - first) * rate + offset, threads[int(mark)])
            for site, task, a, b, mark in records
        ])  # fmt: skip
    sites = [_site(c, recorded) for c in recorded.calls]
    peak = max(sites, key=lambda s: s.live)
    clock = next((c.clock for c, s in zip(recorded.calls, sites, strict=True)
                  if s is peak and isinstance(c, Call)), 0)
    alive = sorted(((b.name or "scratch", recorded.known(b.nbytes)) for b in recorded.buffers
                    if b.first <= clock <= b.last), key=lambda b: -b[1])
    return Profile(
        name, sites, events, [(b - a) * 1e-9 for a, b in times],
        len(set(threads.values())), recorded.start,
        alive[:5], lost,
    )


def _threads(marks: Any) -> dict[int, int]:
    """Stack addresses to thread numbers, the busiest thread first."""
    distinct, counts = np.unique(marks, return_counts=True)
    group = np.concatenate([[0], np.cumsum(np.diff(distinct) > _APART)])
    weight = np.bincount(group, counts)
    rank = {int(g): i for i, g in enumerate(np.argsort(-weight, kind="stable"))}
    return {int(m): rank[int(g)] for m, g in zip(distinct, group, strict=True)}


def _nanoseconds_per_tick(times: list[tuple[int, int]], calls: list[Any]) -> float:
    """From the ends of the first and the last call, each seen by both clocks."""
    ticks = int(calls[-1][:, 3].max()) - int(calls[0][:, 3].max())
    wall = times[-1][1] - times[0][1]
    if len(calls) < 2 or ticks <= 0:
        records, (start, end) = calls[0], times[0]
        return (end - start) / max(int(records[:, 3].max()) - int(records[:, 2].min()), 1)
    return wall / ticks


def _site(call: costs.Timed, recorded: Profiled) -> Site:
    nodes = call.nodes if isinstance(call, Call) else ()
    # The nodes of a fused kernel may come from several Cells: the one that has most of the work
    # is the contraction, which is first, else the last, which gives the result.
    node = next((n for n in nodes if n.span.line > 0), None)
    live = 0
    if isinstance(call, Call):
        live = recorded.known(sum(
            b.size for b in recorded.buffers if b.first <= call.clock <= b.last))
    return Site(
        costs.label(call), costs.family(call), node.scope if node else "",
        node.span if node else NOWHERE, recorded.known(costs.flops(call)),
        recorded.known(costs.nbytes(call, recorded.program.slots)),
        recorded.known(call.kernel.ntasks) if isinstance(call, Call) else 1, live,
        isinstance(call, (Call, Copy)) and call.in_task, tuple(nodes),
    )


def csv_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Records as CSV, with their names in the first line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def _trace_events(p: Profile) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"cellc {p.name}"}}
    names = ["calls", "kernels", *(f"thread {i}" for i in range(p.threads))]
    for number, name in enumerate(names):
        yield {"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": 1, "tid": number, "name": "thread_sort_index",
               "args": {"sort_index": number}}
    start = 0.0
    for number, (events, total) in enumerate(zip(p.calls, p.seconds, strict=True)):
        yield {"pid": 1, "cat": "call", "ph": "X", "tid": 0, "ts": start, "dur": total * 1e6,
               "name": f"{p.name}, call {number}", "args": {}}
        yield from _call_events(p, events, start)
        start += total * 1e6 + _APART_IN_TRACE


def _call_events(p: Profile, events: list[Event], start: float) -> Iterator[dict[str, Any]]:
    """Kernels and tasks of a call that begins at `start` microseconds."""
    base = {"pid": 1, "cat": "kernel"}
    for e in sorted(events, key=lambda e: e.start):
        site = p.sites[e.site]
        at = {"ts": start + e.start / 1e3, "dur": (e.end - e.start) / 1e3}
        if e.task >= 0:
            yield {**base, **at, "ph": "X", "tid": e.thread + 2, "name": site.label,
                   "args": {"task": e.task}}
            continue
        about = {"cell": site.scope, "line": site.span.short, "family": site.family,
                 "tasks": site.tasks, "bytes": site.nbytes, "flops": site.flops}
        lane = e.thread + 2 if site.apart else 1
        yield {**base, **at, "ph": "X", "tid": lane, "name": site.label, "args": about}
        yield {"ph": "C", "pid": 1, "ts": at["ts"], "name": "temporaries",
               "args": {"bytes": site.live}}


# --- as text --------------------------------------------------------------------------------------


def _print(profile: Profile, by: str, limit: int, console: Console) -> None:
    from rich.table import Table  # as above
    from rich.text import Text

    rows = profile.rows(by)
    inside = sum(r.seconds for r in rows)
    call = sorted(profile.seconds)[len(profile.seconds) // 2]
    console.print(
        f"[bold]{profile.name}[/bold]: {seconds(call)} a call "
        f"(median of {len(profile.seconds)}), {seconds(inside)} in "
        f"{sum(r.count for r in rows)} kernel calls, {profile.threads} "
        f"thread{'s' if profile.threads > 1 else ''}", highlight=False,
    )
    console.print(outside_text(profile), highlight=False)
    source = by in ("call", "line") and console.width >= _SOURCE_FROM
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name, width in _NUMBERS:
        table.add_column(name, justify="right" if name else "left", no_wrap=True, min_width=width)
    for name in _TITLES[by]:
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=_WIDEST.get(name),
                         min_width=_NARROWEST.get(name))
    if source:
        table.add_column("Source", overflow="ellipsis", no_wrap=True, max_width=36, style="dim")
    prefix = _common([s.scope for s in profile.sites])
    for row in rows[:limit]:
        share = row.seconds / inside if inside else 0.0
        table.add_row(
            seconds(row.seconds), f"{100 * share:.1f}", Text(_bar(share), style=_heat(share)),
            str(row.count), _rate(row.flops, row.seconds), _rate(row.nbytes, row.seconds),
            "" if row.busy is None else f"{100 * row.busy:.0f}%",
            *(Text(_shown(name, k.removeprefix(prefix)))
              for name, k in zip(_TITLES[by], row.key, strict=True)),
            *([Text(_source(row))] if source else []),
        )
    console.print(table, highlight=False)
    if len(rows) > limit:
        rest = sum(r.seconds for r in rows[limit:])
        console.print(f"and {len(rows) - limit} more: {seconds(rest)}", highlight=False)
    _print_memory(profile, console)
    if profile.lost:
        console.print(f"{profile.lost} records did not fit: loops are shown in part")


def outside_text(profile: Profile) -> str:
    """Where the rest of a call's time goes, in a line."""
    ends, gaps = profile.outside()
    return (f"outside of kernels: {seconds(ends)} to enter and to leave (arguments, results, the "
            f"call itself), {seconds(gaps)} between kernels (threads that meet, notes of times)")


def _print_memory(profile: Profile, console: Console) -> None:
    line = memory_line(profile)
    if not line:
        return
    console.print(
        f"\n[bold]Temporaries[/bold] over a call, at most {size(profile.arena_bytes)}",
        highlight=False,
    )
    console.print(f"[cyan]{line}[/cyan]", highlight=False)
    if profile.largest:
        largest = ", ".join(f"{name} {size(n)}" for name, n in profile.largest)
        console.print(f"largest at the peak: {largest}", highlight=False)


def memory_line(profile: Profile, columns: int = 96) -> str:
    """The bytes of live temporaries over the time of a call, as blocks; "" if there are none."""
    events = [e for e in profile.typical() if e.task < 0] if profile.calls else []
    peak = max((profile.sites[e.site].live for e in events), default=0)
    if not peak:
        return ""
    first, last = min(e.start for e in events), max(e.end for e in events)
    heights = [0] * columns
    for e in events:
        lo = int((e.start - first) / (last - first) * columns)
        hi = int((e.end - first) / (last - first) * columns)
        for column in range(lo, min(hi, columns - 1) + 1):
            heights[column] = max(heights[column], profile.sites[e.site].live)
    steps = len(_BLOCKS) - 1
    return "".join(_BLOCKS[-(-h * steps // peak)] for h in heights)


def seconds(value: float) -> str:
    """A time with three digits and a unit."""
    scale, unit = next((s for s in ((1.0, "s"), (1e-3, "ms")) if value >= s[0]), (1e-6, "us"))
    return f"{value / scale:.3g} {unit}" if value < 1000 else f"{value:.0f} s"


def size(nbytes: int) -> str:
    """Bytes with a unit."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes} B"


def _rate(amount: int, time: float) -> str:
    if not amount or not time:
        return ""
    value = amount / time / 1e9
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _shown(title: str, key: str) -> str:
    """A key as it fits its column; the end of a Cell's path says more than its beginning."""
    width = _WIDEST[title]
    return "…" + key[1 - width :] if title == "Cell" and len(key) > width else key


def _bar(share: float, width: int = 8) -> str:
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]


def _common(scopes: list[str]) -> str:
    """The path that nested Cells begin with (in a training step, say): the table leaves it out."""
    inner = [s.split(".")[:-1] for s in scopes if "." in s]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*inner, strict=False))
    return "".join(f"{parts[0]}." for parts in shared)


def _heat(share: float) -> str:
    return "red" if share >= 0.2 else "yellow" if share >= 0.05 else "green"


def _source(row: Row) -> str:
    """The user's line, if the row has one."""
    span = row.sites[0].span
    if span.line <= 0 or not Path(span.file).is_file():
        return ""
    return linecache.getline(span.file, span.line).strip()


__all__ = ["Event", "Profile", "Row", "Site", "profile_traced"]
