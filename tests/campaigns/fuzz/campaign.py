"""A campaign: trials of several kinds until the time is over, findings, and the ledger."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .finding import CORPUS, Finding

KINDS = ("networks", "alone", "graphs", "ranks", "states", "effects", "edits", "attributes",
         "training", "spread", "programs", "arguments", "files", "models", "concurrency",
         "processes", "jobs")
ROOT = Path(__file__).parents[3]
LEDGER = Path(__file__).with_name("ledger.jsonl")
PATIENCE = 180.0
"""Seconds after which a trial hangs, the making small of what it found included."""
_SLOW = {"processes": 5.0, "jobs": 5.0}
"""Kinds whose trials start processes of their own may take so many times as long."""
MEMORY = Path("/dev/shm")
"""Where caches are, if it is there: a trial writes a hundred files."""
_CACHE = 512 << 20
"""Bytes of a cache."""
_AT_ONCE = 400
"""Trials of a process: then a new one, so that memory stays small."""


@dataclass
class Campaign:
    """What was tried so far.

    Attributes:
        tell: is given a line for each finding.
        counts: by kind, what was tried.
        findings: all, one for each different text.
        seconds: by kind, of processes together.
    """

    tell: Callable[[str], None] = print
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, counts: dict[str, int], found: Finding | None) -> None:
        """A trial is over."""
        self.counts.setdefault(kind, Counter()).update(counts)
        self.counts[kind]["trials"] += 1
        if found is not None and all(found.what != f.what for f in self.findings):
            self.findings.append(found)
            self.tell(f"{kind}, seed {found.seed}: {found.what}")


def run(
    kinds: Sequence[str], minutes: float, seed: int, workers: int, corpus: Path = CORPUS,
    tell: Callable[[str], None] = print, cache: str = "",
) -> Campaign:
    """Make trials of some kinds for so long, each kind for its share; findings go to the corpus.

    Args:
        kinds, minutes, seed, workers: what to try, how long altogether, from which seed on, by how
            many processes at once.
        corpus: where findings are written.
        tell: is given a line for each finding and each kind.
        cache: a folder of compiled code that outlives the campaign; "" for one of each worker.
    """
    campaign = Campaign(tell)
    share = 60.0 * minutes / len(kinds)
    for kind in kinds:
        end = time.monotonic() + share
        threads = [threading.Thread(target=_keep_going, daemon=True,
                                    args=(campaign, kind, seed + i, workers, end, cache))
                   for i in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tell(summary(kind, campaign))
    for found in campaign.findings:
        tell(f"written: {os.path.relpath(found.save(corpus))}")
    return campaign


def summary(kind: str, campaign: Campaign) -> str:
    """A line about a kind."""
    counts = campaign.counts.get(kind, Counter())
    found = sum(f.kind == kind for f in campaign.findings)
    parts = [f"{counts[name]} {name}" for name in ("ops", "programs", "files", "calls", "processes")
             if counts[name]]
    ops = sum(name.startswith("op ") for name in counts)
    parts += [f"{ops} different ops"] if ops else []
    return (f"{kind}: {counts['trials']} trials{', ' if parts else ''}{', '.join(parts)} in "
            f"{campaign.seconds[kind] / 60:.1f} process minutes, {found} findings")


def _keep_going(
    campaign: Campaign, kind: str, first: int, step: int, end: float, cache: str
) -> None:
    """Processes of one worker, one after the other, which share a cache."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as own:
        while time.monotonic() < end:
            first = _one_process(campaign, kind, first, step, end, cache or own)


def _one_process(
    campaign: Campaign, kind: str, first: int, step: int, end: float, cache: str
) -> int:
    """Trials in a process until it ends, crashes, hangs or the time is over; the next seed."""
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.campaigns.fuzz.worker",
         kind, str(first), str(step), str(_AT_ONCE)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "CELLC_CACHE_DIR": cache, "CELLC_COMPILE_JOBS": "1",
             "CELLC_CACHE_SIZE": str(_CACHE)})
    lines = _lines(process)
    current, next_seed = None, first
    patience = PATIENCE * _SLOW.get(kind, 1.0)
    line: str | None = ""
    while True:
        try:
            line = lines.get(timeout=max(0.1, min(patience, end - time.monotonic() + 20)))
        except queue.Empty:
            if current is not None and time.monotonic() < end:
                campaign.note(kind, {}, Finding(kind, current, f"seed {current} does not end"))
            break
        if line is None:
            if current is not None:
                campaign.note(kind, {}, Finding(
                    kind, current, f"seed {current} ends the process with {process.wait()}"))
            break
        told = json.loads(line)
        if "begin" in told:
            current, next_seed = told["begin"], told["begin"] + step
            continue
        current = None
        campaign.note(kind, told["counts"], _found(kind, told))
        if time.monotonic() > end:
            break
    process.kill()
    process.wait()
    while line is not None:  # until the pipe is closed
        line = lines.get()
    campaign.seconds[kind] += time.monotonic() - start
    return next_seed


def _found(kind: str, told: dict[str, Any]) -> Finding | None:
    return Finding(kind, told["end"], *told["found"]) if told["found"] else None


def _lines(process: subprocess.Popen[str]) -> queue.Queue[str | None]:
    """The lines a process prints, as they come; None when it has ended."""
    found: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found.put(line)
        process.stdout.close()
        found.put(None)

    threading.Thread(target=read, daemon=True).start()
    return found


# --- the ledger -----------------------------------------------------------------------------------


def commit() -> str:
    """The commit of this copy, with a plus if files differ from it; "" outside a repository."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True,
                              check=False).stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def enter(campaign: Campaign, seed: int, path: Path = LEDGER) -> None:
    """Add what was tried to the ledger, a line for each kind."""
    with path.open("a") as ledger:
        for kind, counts in campaign.counts.items():
            kept = {k: n for k, n in sorted(counts.items()) if " " not in k}
            ledger.write(json.dumps({
                "commit": commit(), "kind": kind, "seed": seed,
                "minutes": round(campaign.seconds[kind] / 60, 1), **kept,
                "findings": sum(f.kind == kind for f in campaign.findings)}) + "\n")


def totals(path: Path = LEDGER) -> dict[str, Counter[str]]:
    """By kind, what all campaigns tried together."""
    found: dict[str, Counter[str]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        numbers = {k: n for k, n in entry.items() if k != "seed" and isinstance(n, (int, float))}
        found.setdefault(entry["kind"], Counter()).update(numbers)  # type: ignore[arg-type]
    return found
