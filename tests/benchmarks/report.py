"""Results of the benchmark: their record, and what is written from it."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cases import CASES

OURS = "cellc graph"
EAGER = "cellc pynative"
BEGIN, END = "<!-- table: written by run.py --markdown -->", "<!-- end of table -->"
NEAR = {"float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
"""How far results of peers may be apart, by what is computed in."""
Record = dict[str, Any]


@dataclass(slots=True)
class Start:
    """A fresh process up to its first result: seconds, and its peak memory in MiB.

    Attributes:
        memory: of the process alone.
        together: with that of all it has started (compilers beside it), at one moment.
    """

    imported: float
    built: float
    first: float
    memory: float | None = None
    together: float | None = None

    @property
    def total(self) -> float:
        """Time to the first result, the making of weights not counted."""
        return self.imported + self.built + self.first

    @property
    def peak(self) -> float | None:
        """Peak memory in MiB; that of other processes is part of it where it was measured."""
        return max((m for m in (self.memory, self.together) if m), default=None)


@dataclass(slots=True)
class Result:
    """What was measured of one peer on one case.

    Attributes:
        cold: a start with empty caches on disk.
        warm: a start with caches filled.
        rounds: seconds per call.
        values: numbers that tell whether peers computed the same.
        note: why something is missing.
        stolen: the part of the processors' time that each round lost to the host.
        issued: instructions per nanosecond of a loop of additions before each round: what drops
            where another thread shares the cores (`issue.py`).
    """

    peer: str
    cold: Start | None = None
    warm: Start | None = None
    rounds: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    note: str = ""
    stolen: list[float] = field(default_factory=list)
    issued: list[float] = field(default_factory=list)

    @property
    def time(self) -> float:
        """Seconds per call; NaN if not measured."""
        return statistics.median(self.rounds) if self.rounds else math.nan

@dataclass(slots=True)
class Figures:
    """Everything measured: results by case, and the peaks of the machine by number of threads."""

    threads: int = 2
    machine: str = ""
    peaks: dict[str, dict[str, float]] = field(default_factory=dict)
    cases: dict[str, list[Result]] = field(default_factory=dict)

    @property
    def flops(self) -> float:
        """Peak operations a second, of all threads."""
        return self.peaks[str(self.threads)]["fma"] * 1e9

    @property
    def bandwidth(self) -> float:
        """Peak bytes a second, of all threads."""
        peak = self.peaks[str(self.threads)]
        return max(peak["read"], peak["copy"], peak["triad"]) * 1e9

    def see(self, peaks: dict[str, dict[str, float]]) -> None:
        """Keep the best of what was measured of the machine in this run."""
        for count, found in peaks.items():
            kept = self.peaks.setdefault(count, {})
            for name, value in found.items():
                kept[name] = max(value, kept.get(name, 0.0))

    def add(self, case: str, results: Iterable[Result]) -> None:
        """Put in new results, over older ones of the same peer field by field."""
        kept = {r.peer: r for r in self.cases.get(case, [])}
        for new in results:
            old = kept.setdefault(new.peer, new)
            for f in fields(Result):
                if value := getattr(new, f.name):
                    setattr(old, f.name, value)
            if new.rounds:
                old.note = new.note
        self.cases[case] = list(kept.values())

    def write(self, path: Path) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")


def read(path: Path) -> Figures:
    """What `Figures.write` wrote; nothing if there is no file."""
    if not path.exists():
        return Figures()
    found: Record = json.loads(path.read_text(encoding="utf-8"))
    cases = {name: [_result(r) for r in results] for name, results in found["cases"].items()}
    return Figures(found["threads"], found["machine"], found["peaks"], cases)


def _result(r: Record) -> Result:
    starts = {k: Start(**r[k]) if r[k] else None for k in ("cold", "warm")}
    return Result(r["peer"], **starts, rounds=r["rounds"], stolen=r.get("stolen", []),
                  issued=r.get("issued", []), values=r["values"], note=r["note"])


def span(seconds: float | None) -> str:
    """A time with a unit."""
    if seconds is None or math.isnan(seconds):
        return "-"
    scale, unit = next((s for s in ((1.0, "s"), (1e-3, "ms")) if seconds >= s[0]), (1e-6, "us"))
    value = seconds / scale
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def times(ratio: float) -> str:
    """A ratio with three digits."""
    return f"{ratio:.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"


def mebibytes(memory: float | None) -> str:
    """An amount of memory."""
    return "-" if memory is None else f"{memory:.0f} MiB"


def agrees(case: str, mine: list[float], base: list[float]) -> bool:
    """Whether a peer computed what the base did (Case.kind says what is compared)."""
    if not mine or not base:
        return True
    if len(mine) != len(base):
        return False
    pairs = zip(mine, base, strict=True)
    most = NEAR[CASES[case].dtype]
    if CASES[case].kind == "grad":
        return all(abs(a - b) <= most * abs(b) for a, b in pairs)
    # The first is the root mean square of the output, or the loss before training.
    near = [abs(a - b) <= most * abs(base[0]) for a, b in pairs]
    return all(near[: CASES[case].steps] if CASES[case].kind == "train" else near)


def roof(figures: Figures, case: str, seconds: float) -> tuple[str, float]:
    """The roof over a case, "FMA" or "mem", and what part of it a time per call reaches."""
    spec = CASES[case].spec()
    by = {"FMA": spec.work / figures.flops, "mem": spec.bytes / figures.bandwidth}
    name = max(by, key=lambda k: by[k])
    return name, by[name] / seconds


def find(results: list[Result], peer: str) -> Result | None:
    """The result of a peer, if it was measured."""
    return next((r for r in results if r.peer == peer and r.rounds), None)


def best(results: list[Result]) -> Result | None:
    """The fastest peer that is not ours."""
    others = [r for r in results if not r.peer.startswith("cellc") and r.rounds]
    return min(others, key=lambda r: r.time, default=None)


def ahead(results: list[Result]) -> float:
    """How many times as fast as the best peer we are; NaN if that was not measured."""
    ours, peer = find(results, OURS), best(results)
    return peer.time / ours.time if ours and peer else math.nan


def geomean(values: Iterable[float]) -> float:
    """Geometric mean of those that are numbers; NaN of none."""
    known = [v for v in values if not math.isnan(v)]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan


def table(figures: Figures, case: str) -> str:
    """The results of a case as lines."""
    results = figures.cases[case]
    base = find(results, OURS) or results[0]
    spec = CASES[case].spec()
    lines = [f"{case}: {CASES[case].title}  ({spec.work / 1e9:.3g} GFLOP, "
             f"{spec.bytes / 2**20:.3g} MiB compulsory)",
             f"  {'':19}{'time':>9}{'ratio':>8}{'of roof':>10}{'cold':>9}{'warm':>9}"
             f"{'import':>9}{'memory':>10}{'warm':>10}"]
    for r in results:
        if not r.rounds and not r.cold and not r.warm:
            lines.append(f"  {r.peer:19}{r.note}")
            continue
        name, part = roof(figures, case, r.time)
        share = "-" if math.isnan(part) else f"{name} {part:.0%}"
        start = r.cold or r.warm
        held = [mebibytes(s.peak if s else None) for s in (r.cold, r.warm)]
        wrong = "" if agrees(case, r.values, base.values) else "  RESULT DIFFERS"
        lines.append(
            f"  {r.peer:19}{span(r.time):>9}{r.time / base.time:8.2f}{share:>10}"
            f"{span(r.cold.total if r.cold else None):>9}"
            f"{span(r.warm.total if r.warm else None):>9}"
            f"{span(start.imported if start else None):>9}{held[0]:>10}{held[1]:>10}{wrong}"
            + (f"  {r.note}" if r.note else ""))
    lost = [part for r in results for part in r.stolen]
    if lost and max(lost) > 0:
        lines.append(f"  the host took {statistics.mean(lost):.1%} of the processors' time "
                     f"(at most {max(lost):.1%} in a round)")
    if rates := sorted(rate for r in results for rate in r.issued):
        typical, least = statistics.median(rates) / rates[-1], rates[0] / rates[-1]
        lines.append(f"  cores issued {typical:.0%} of the instructions of the best round (median; "
                     f"at least {least:.0%})")
    if (peer := best(results)) and not math.isnan(ahead(results)):
        lines.append(f"  best peer: {peer.peer}, cellc is {ahead(results):.2f}x as fast")
    return "\n".join(lines)


def summary(figures: Figures) -> str:
    """The peaks of the machine and the mean over the workloads."""
    lines = []
    for count, peak in figures.peaks.items():
        lines.append(f"{count} thread{'s' if count != '1' else ''}: {peak['fma']:.0f} GFLOP/s; "
                     f"GB/s: read {peak['read']:.1f}, copy {peak['copy']:.1f}, "
                     f"triad {peak['triad']:.1f}")
    for group in ("workload", "aside"):
        ratios = [ahead(r) for n, r in figures.cases.items() if CASES[n].group == group]
        if not math.isnan(mean := geomean(ratios)):
            lines.append(f"{group}s: {mean:.2f}x the best peer (geometric mean), at least "
                         f"{min(r for r in ratios if not math.isnan(r)):.2f}x")
    return "\n".join(lines)


def markdown(figures: Figures) -> str:
    """The tables of docs/benchmarks.md."""
    blocks = [_machine(figures)]
    for group, title in (("workload", "Workloads"), ("aside", "Networks nobody tunes for"),
                         ("micro", "Small parts"), ("half", "16-bit floats")):
        names = [n for n in CASES if n in figures.cases and CASES[n].group == group]
        if names:
            blocks += [f"### {title}", _speed(figures, names)]
            mean = geomean(ahead(figures.cases[n]) for n in names)
            if not math.isnan(mean):
                blocks.append(f"Geometric mean of best peer / cellc: **{mean:.2f}**."
                              + _behind(figures, names))
    names = [n for n in CASES if n in figures.cases and CASES[n].group == "workload"]
    blocks += ["### Time to the first result", _starts(figures, names),
               "### Peak memory", _memory(figures, names)]
    return "\n\n".join(blocks)


def _machine(figures: Figures) -> str:
    peak = figures.peaks[str(figures.threads)]
    return (f"{figures.machine}, {figures.threads} threads: {peak['fma']:.0f} GFLOP/s of FMA; "
            f"{peak['read']:.0f} GB/s read, {peak['copy']:.0f} copied, {peak['triad']:.0f} triad.")


def _grid(head: list[str], rows: list[list[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


SHORT = {"torch eager": "torch", "torch compile": "compile", "mindspore graph": "MS graph",
         "mindspore pynative": "MS PyNative", "jax": "JAX", "onnxruntime": "ORT",
         "openvino": "OpenVINO"}


def _speed(figures: Figures, names: list[str]) -> str:
    """Time of ours, the ratio of each peer to it."""
    rows = []
    for name in names:
        results = figures.cases[name]
        ours, eager = find(results, OURS), find(results, EAGER)
        if ours is None:
            continue
        roofs = roof(figures, name, ours.time)
        peer = best(results)
        row = [name, span(ours.time), f"{roofs[1]:.0%} {roofs[0]}",
               f"**{times(ahead(results))}** {SHORT.get(peer.peer, peer.peer)}" if peer else "-"]
        for key in SHORT:
            found = find(results, key)
            row.append(times(found.time / ours.time) if found else _missing(results, key))
        rows.append([*row, span(eager.time) if eager else "-", _eager(results)])
    head = ["", "cellc", "of roof", "best peer", *SHORT.values(), "cellc PyNative",
            "torch / PyNative"]
    return _grid(head, rows)


def _behind(figures: Figures, names: list[str]) -> str:
    """The cases in which a peer is ahead."""
    found = [(name, best(figures.cases[name])) for name in names if ahead(figures.cases[name]) < 1]
    named = [f"{name} ({times(ahead(figures.cases[name]))} of {SHORT.get(peer.peer, peer.peer)})"
             for name, peer in found if peer]
    return f" Behind: {', '.join(named)}." if named else ""


def _eager(results: list[Result]) -> str:
    """torch eager over our PyNative mode."""
    ours, peer = find(results, EAGER), find(results, "torch eager")
    return times(peer.time / ours.time) if ours and peer else "-"


def _missing(results: list[Result], peer: str) -> str:
    note = next((r.note for r in results if r.peer == peer), "")
    return "fails" if note.startswith("left out") else "-"


def _starts(figures: Figures, names: list[str]) -> str:
    """Cold / warm time to the first result."""
    def cell(result: Result | None) -> str:
        if result is None or not (result.cold or result.warm):
            return "-"
        return " / ".join(span(s.total) if s else "-" for s in (result.cold, result.warm))

    return _by_peer(figures, names, cell)


def _memory(figures: Figures, names: list[str]) -> str:
    """Peak memory of a process and all it starts, with cold / warm caches, in MiB."""
    def cell(result: Result | None) -> str:
        starts = (result.cold, result.warm) if result else ()
        if not any(s and s.peak for s in starts):
            return "-"
        return " / ".join(f"{s.peak:.0f}" if s and s.peak else "-" for s in starts)

    return _by_peer(figures, names, cell)


def _by_peer(figures: Figures, names: list[str], cell: Any) -> str:
    peers = [OURS, EAGER, *SHORT]
    rows = [[name, *(cell(next((r for r in figures.cases[name] if r.peer == p), None))
                     for p in peers)] for name in names]
    return _grid(["", "cellc", "PyNative", *SHORT.values()], rows)


def put_markdown(figures: Figures, path: Path) -> None:
    """Write the tables into a file, between two marks that it has."""
    text = path.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"{path} has no lines {BEGIN!r} and {END!r}")
    path.write_text(f"{before}{BEGIN}\n\n{markdown(figures)}\n\n{END}{after}", encoding="utf-8")
