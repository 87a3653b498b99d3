"""MindSpore's documentation examples print the same under cellc.

`known_differences.txt` lists the examples that do not, each with its reason. The list may only
shrink: an example that comes to agree must leave it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..others import ORACLE, needs_oracle
from .doc_examples import alike, collect, compare

LEFT_OUT = ("mindspore.profiler.", "mindspore.hal.", "mindspore.communication.",
            "mindspore.mint.distributed.")
"""What is about devices and processes."""
LONG = {"mindspore.nn.Conv2d", "mindspore.nn.Conv2dBnAct"}
"""Examples of several hundred thousand million operations: they may not end in time."""
KNOWN = Path(__file__).with_name("known_differences.txt")


def known() -> set[str]:
    """The names in the list."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


@needs_oracle
def test_examples_print_the_same() -> None:
    assert ORACLE
    chosen = {n: t for n, t in collect(ORACLE).items()
              if not n.startswith(LEFT_OUT) and n not in LONG}
    report = compare(ORACLE, chosen)
    different = {n: c.found.error or c.found.out for n, c in report.items() if c.verdict != "same"}
    assert len(report) > 1000
    assert {n: why for n, why in different.items() if n not in known()} == {}
    assert known() - set(different) == set(), "these agree now: take them off the list"


@pytest.mark.parametrize(("expected", "found", "drawn", "same"), [
    ("[1. 2.]", "[1.00001 2.]", False, True),
    ("[1. 2.]", "[1.01 2.]", False, False),
    ("[1. 2.]", "[7. -3.]", True, True),
    ("[1. 2.]", "[1 2]", True, False),
    ("[1. 2.]", "[1. 2. 3.]", True, False),
    ("nan", "nan", False, True),
    ("nan", "1.0", False, False),
    ("Float32", "Float64", False, False),
])
def test_outputs_are_compared(expected: str, found: str, drawn: bool, same: bool) -> None:
    assert alike(expected, found, drawn) is same
