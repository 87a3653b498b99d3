"""Faults planted in the compiler: verification finds each, and names the place."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from . import faults

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """The report of a process in which a fault is planted, made once."""
    return cache(lambda name: _report(name, tmp_path_factory.mktemp(name)))


def _report(name: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(Path(faults.__file__)), name], capture_output=True, text=True,
        timeout=300, env={**os.environ, "CELLC_CACHE_DIR": str(folder)})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def line_of(comment: str) -> int:
    """The line of the network with this comment (or text)."""
    lines, first = inspect.getsourcelines(faults.Net)
    return first + next(i for i, line in enumerate(lines) if comment in line)


def test_without_a_fault(reports: Callable[[str], dict[str, Any]]) -> None:
    found = reports("none")
    assert (found["status"], found["findings"], found["not_compared"]) == (0, [], {})
    assert found["compared"]["forward: nodes"] > 50


@pytest.mark.parametrize(("fault", "kind", "op", "line"), [
    ("wrong_rewrite", "node", "sub", "# sub"),
    ("forgotten_cast", "node", "cast", "# cast"),
    ("swapped_branches", "region", "cond", "if h.sum()"),
    ("one_trip_more", "region", "while", "# loop"),
    ("lost_update", "node", "add", "0.9 * self.mean"),
    ("wrong_kernel", "reference", "exp", "# draw"),
    ("wrong_rule", "rule", "tanh", "# tanh"),
    ("wrong_expansion", "reference", "softmax", "# softmax"),
    ("wrong_name", "trace", "mul", "# softmax"),
    ("wrong_draw", "trace", "random_normal", "# draw"),
])
def test_a_fault_is_found_at_its_line(
    fault: str, kind: str, op: str, line: str, reports: Callable[[str], dict[str, Any]]
) -> None:
    found = reports(fault)
    assert found["status"] == 1
    place = f"faults.py:{line_of(line)}:"
    spots = [(f["kind"], f["op"]) for f in found["findings"] if place in (f["span"] or "")]
    assert (kind, op) in spots, found["findings"]
    # and it is the first node that is named
    first = next(f for f in found["findings"] if f["op"] is not None)
    assert (first["kind"], first["op"]) == (kind, op)


@pytest.mark.parametrize(("fault", "kind", "where"), [
    ("wrong_draw", "random", "forward: the global generator"),
    ("lost_update", "parameter", "forward: net.mean afterwards"),
    ("lost_assignment", "parameter", "forward: net.mean afterwards"),
    ("lost_contribution", "rule", "gradient: of w"),
    ("wrong_rule", "rule", "gradient: of w"),
    ("wrong_name", "output", "forward: output"),
])
def test_a_fault_is_told_by_what_it_changes(
    fault: str, kind: str, where: str, reports: Callable[[str], dict[str, Any]]
) -> None:
    found = reports(fault)
    assert found["status"] == 1
    assert (kind, where) in [(f["kind"], f["where"]) for f in found["findings"]]


def test_every_fault_is_looked_for() -> None:
    marks = [*test_a_fault_is_found_at_its_line.pytestmark,
             *test_a_fault_is_told_by_what_it_changes.pytestmark]
    assert {case[0] for mark in marks for case in mark.args[1]} == set(faults.FAULTS)
