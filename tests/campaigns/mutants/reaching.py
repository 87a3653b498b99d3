"""The tests that run each line of the product: `python -m tests.campaigns.mutants --record`.

A fault is then shown to the tests that run its line, the quickest first, instead of to whole
folders of tests. Lines are recorded by coverage.py, which only this command needs.
"""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .rooms import ROOT

PRODUCT = ("frontend", "compiler", "runtime")
_A_FEW = 3
"""Tests of one function that a fault is shown before those of others."""
_KEPT = 40
"""Tests of a file that are kept for a line, the quickest of each function first."""


@dataclass
class Reach:
    """What was recorded.

    Attributes:
        seconds: by test, how long it took, recording included.
        lines: by file and line, the tests that run it.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)

    def tests(self, file: str, line: int) -> list[str] | None:
        """Tests that run the statement of a line, quick ones and those of different functions
        first; None if nothing is known: the file was not recorded, or its line runs at import."""
        known = self.lines.get(file)
        places = statement(file, line)
        if not known or places is None:
            return None
        return in_order({t for n in places for t in known.get(n, ())}, self.seconds)


def in_order(tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """A few tests of each function, the quickest first, then a few more of each."""
    turn: Counter[str] = Counter()
    order = []
    for test in sorted(tests, key=lambda t: seconds[t]):
        function = test.partition("[")[0]
        order.append((turn[function] // _A_FEW, seconds[test], test))
        turn[function] += 1
    return [test for *_, test in sorted(order)]


@cache
def _functions(file: str) -> list[ast.AST]:
    tree = ast.parse((ROOT / file).read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]


def statement(file: str, line: int) -> range | None:
    """The lines of the smallest statement in a function that has a line; None outside of all."""
    best: range | None = None
    for function in _functions(file):
        for node in ast.walk(function):
            if not isinstance(node, ast.stmt | ast.Lambda) or node is function:
                continue
            end = node.end_lineno or node.lineno
            bodies = [s.lineno for s in getattr(node, "body", ()) if isinstance(s, ast.stmt)] \
                if isinstance(node, ast.stmt) else []
            span = range(node.lineno, (min(bodies) if bodies else end + 1))
            if line in span and (best is None or len(span) < len(best)):
                best = span
    return best


class _Recorder:
    """A plugin of pytest's: each test is a context, until the time is over."""

    def __init__(self, coverage: Any, end: float) -> None:
        self.coverage, self.end = coverage, end
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = time.monotonic()
        self.coverage.switch_context(item.nodeid)
        done = yield
        self.coverage.switch_context("")
        self.seconds[item.nodeid] = round(time.monotonic() - start, 3)
        if start > self.end:
            item.session.shouldstop = "the time is over"
        return done

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Where time does not suffice for all, it is for some of each kind."""
        random.Random(1).shuffle(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def _record_here(out: Path, seconds: float, arguments: Sequence[str]) -> None:
    """Run tests in this process, and write what each runs."""
    import coverage  # only for this command

    recorded = coverage.Coverage(data_file=None, source=[str(ROOT / p) for p in PRODUCT])
    recorded.start()
    plugin = _Recorder(recorded, time.monotonic() + seconds)
    pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no", *arguments], [plugin])
    recorded.stop()
    data = recorded.get_data()
    kept = {t: s for t, s in plugin.seconds.items() if t not in plugin.failed}
    number = {test: i for i, test in enumerate(kept)}
    lines = {}
    for file in data.measured_files():
        by_line = {n: in_order((t for t in tests if t in kept), kept)[:_KEPT]
                   for n, tests in data.contexts_by_lineno(file).items()}
        lines[Path(file).relative_to(ROOT).as_posix()] = {
            n: [number[t] for t in some] for n, some in by_line.items() if some}
    with out.open("a") as stream:
        stream.write(json.dumps([list(kept.items()), lines]) + "\n")


def record(out: Path, tests: Sequence[str], seconds: float) -> None:
    """Record files of tests, each in a process of its own, for so long at most."""
    for test in tests:
        subprocess.run([sys.executable, "-m", f"{__package__}.reaching", str(out), str(seconds),
                        test], cwd=ROOT, check=False, timeout=10 * seconds + 600)


def load(path: Path) -> Reach:
    """What was recorded, of all processes together."""
    reach = Reach()
    for text in path.read_text().splitlines():
        seconds, lines = json.loads(text)
        reach.seconds.update(seconds)
        names = [test for test, _ in seconds]
        for file, by_line in lines.items():
            kept = reach.lines.setdefault(file, {})
            for number, tests in by_line.items():
                kept.setdefault(int(number), []).extend(names[i] for i in tests)
    return reach


if __name__ == "__main__":
    _record_here(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
