"""What the code should have less of gets less, file by file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ratchets import RATCHETS, dialect_of, private_uses_of, stored, worse


@pytest.mark.parametrize("name", RATCHETS)
def test_counts_only_shrink(name: str) -> None:
    allowed = stored()[name]
    now = RATCHETS[name]()
    assert not worse(name, now, allowed)
    assert now == allowed, "fewer: python tests/structure/ratchets.py --update"


def test_more_is_found() -> None:
    assert worse("x", {"a": 2, "b": 1}, {"a": 1, "b": 1}) == ["a: 2 (x), 1 allowed"]


@pytest.mark.parametrize(("text", "count"), [
    ("x._a", 1), ("x._a = y._b.c", 2), ("self._a; cls._b; super()._c; x.__class__", 0),
    ("os._exit(1)", 0), ("x._exit(1); y.os._exit", 2),
    ("class A:\n    def _a(self): return other._a", 0), ("self._a = 1; other._a", 0),
])
def test_private_uses(text: str, count: int) -> None:
    assert private_uses_of(text) == count


@pytest.mark.parametrize(("text", "count"), [
    ('"""What it is."""', 1), ('"""A sum. Who reads it\n\n    What: waits."""', 2),
    ("x = 1  # Of which one is told", 2), ("# Bytes: so\n# many are made anew", 2),
    ('"""What is made again behind it."""', 3), ('raise E("a b; Whoever waits")', 1),
    ('"""Return what it is, and who reads it. Whole: whatever."""', 0),
    ('told = behind["What"]  # the key "What"', 0), ("def _told(): return 'behind'", 0),
])
def test_dialect(text: str, count: int) -> None:
    assert dialect_of(text) == count
