"""Profiles of compiled networks: where the time of a call goes, by kernel, op, Cell and line.

The network is compiled once more, with the same kernels, into a program that notes the
processor's clock around each of them; see `cellc_compiler.backends.cpu.host.profiling`.
"""

from __future__ import annotations

import json
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellc_compiler.backends.base import RECORD_BYTES
from cellc_compiler.driver import Profiled, compile_profiled
from cellc_compiler.ir.graph import NOWHERE, Span
from cellc_compiler.lower import costs
from cellc_compiler.lower.instructions import Call, Copy
from cellc_runtime.executable import Executable
from cellc_runtime.records import dataclass, field

from ..calls.budget import least
from ..calls.callbacks import host_callbacks
from ..compiled.entries import Traced
from ..storage.memory import aligned_copy
from ..tracing.exceptions import ERRORS
from . import profile_view

_APART = 1 << 16
"""Stack addresses of one thread are closer than this, those of two are not."""
_CALIBRATE = 0.05
"""Seconds over which the processor's clock is compared with the system's."""


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
        """What took the time, most first.

        Args:
            by: `"call"` (op, Cell and line), `"op"`, `"cell"`, `"line"` or `"family"`.

        Raises:
            ValueError: `by` is something else.
        """
        if by not in KEYS:
            raise ValueError(f"profiles are by {', '.join(KEYS)}, not {by!r}")
        rows: dict[tuple[str, ...], Row] = {}
        index = []
        for site in self.sites:
            key = KEYS[by](site)
            row = rows.setdefault(key, Row(key))
            row.sites.append(site)
            index.append(key)
        for key, row in rows.items():
            mine = {i for i, k in enumerate(index) if k == key}
            self._measure(row, mine)
        return sorted((r for r in rows.values() if r.count), key=lambda r: -r.seconds)

    def _measure(self, row: Row, sites: set[int]) -> None:
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

    def _share(self, e: Event) -> float:
        """What an execution takes of the call: less if others run beside it."""
        return (e.end - e.start) / (self.threads if self.sites[e.site].apart else 1)

    def typical(self) -> list[Event]:
        """The events of the call of median time."""
        order = sorted(range(len(self.seconds)), key=self.seconds.__getitem__)
        return self.calls[order[len(order) // 2]]

    def trace_events(self) -> list[dict[str, Any]]:
        """The typical call in the Trace Event Format (chrome://tracing, ui.perfetto.dev)."""
        return list(_trace_events(self))

    def save_trace(self, path: str | Path) -> None:
        """Write `trace_events` as JSON."""
        document = {"traceEvents": self.trace_events(), "displayTimeUnit": "ms"}
        Path(path).write_text(json.dumps(document), encoding="utf-8")

    def __repr__(self) -> str:
        return profile_view.text(self)  # the last value of a notebook's cell is shown by it

    def show(self, by: str = "call", limit: int = 25) -> None:
        """Print the table, coloured on a terminal."""
        profile_view.show(self, by, limit)


KEYS: Mapping[str, Callable[[Site], tuple[str, ...]]] = {
    "call": lambda s: (s.label, s.family, s.scope, place(s.span)),
    "op": lambda s: (s.label,),
    "cell": lambda s: (s.scope or "(top)",),
    "line": lambda s: (place(s.span),),
    "family": lambda s: (s.family,),
}
"""What the rows of a table may stand for."""


def place(span: Span) -> str:
    """A span for people: file name and line."""
    return "" if span.line <= 0 else f"{Path(span.file).name}:{span.line}"


def profile_traced(
    traced: Traced, arrays: Sequence[Any], runs: int, numerics: str = "strict",
    budget: int | None = None,
) -> Profile:
    """`profile` of a call that is traced already, with the arrays of its tensors."""
    recorded = compile_profiled(traced.graph, numerics, least(traced.budget, budget))
    callbacks = host_callbacks(traced.graph, traced.functions)
    executable = Executable(recorded.program, callbacks, ERRORS)
    executable.bind([aligned_copy(p._data) for p in traced.parameters])
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
        # What the call took before its first kernel is not known: half of the rest, say.
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
    alive = sorted((b for b in recorded.buffers if b.first <= clock <= b.last),
                   key=lambda b: -b.nbytes)
    return Profile(
        name, sites, events, [(b - a) * 1e-9 for a, b in times],
        len(set(threads.values())), recorded.start,
        [(b.name or "scratch", b.nbytes) for b in alive[:5]], lost,
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
        live = sum(b.size for b in recorded.buffers if b.first <= call.clock <= b.last)
    return Site(
        costs.label(call), costs.family(call), node.scope if node else "",
        node.span if node else NOWHERE, costs.flops(call),
        costs.nbytes(call, recorded.program.slots),
        call.kernel.ntasks if isinstance(call, Call) else 1, live,
        isinstance(call, (Call, Copy)) and call.in_task,
    )


def _trace_events(p: Profile) -> Iterator[dict[str, Any]]:
    base = {"pid": 1, "cat": "kernel"}
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"cellc {p.name}"}}
    names = ["calls", *(f"thread {i}" for i in range(p.threads))]
    for number, name in enumerate(names):
        yield {"ph": "M", "pid": 1, "tid": number, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": 1, "tid": number, "name": "thread_sort_index",
               "args": {"sort_index": number}}
    for e in sorted(p.typical(), key=lambda e: e.start):
        site = p.sites[e.site]
        at = {"ts": e.start / 1e3, "dur": (e.end - e.start) / 1e3}
        if e.task >= 0:
            yield {**base, **at, "ph": "X", "tid": e.thread + 1, "name": site.label,
                   "args": {"task": e.task}}
            continue
        about = {"cell": site.scope, "line": place(site.span), "family": site.family,
                 "tasks": site.tasks, "bytes": site.nbytes, "flops": site.flops}
        lane = e.thread + 1 if site.apart else 0
        yield {**base, **at, "ph": "X", "tid": lane, "name": site.label, "args": about}
        yield {"ph": "C", "pid": 1, "ts": at["ts"], "name": "temporaries",
               "args": {"bytes": site.live}}


__all__ = ["Event", "Profile", "Row", "Site", "profile_traced"]

