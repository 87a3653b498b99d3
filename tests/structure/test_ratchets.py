"""What the code should have less of gets less, file by file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ratchets import RATCHETS, stored, worse


@pytest.mark.parametrize("name", RATCHETS)
def test_counts_only_shrink(name: str) -> None:
    allowed = stored()[name]
    now = RATCHETS[name]()
    assert not worse(name, now, allowed)
    assert now == allowed, "fewer: python tests/structure/ratchets.py --update"


def test_more_is_found() -> None:
    assert worse("x", {"a": 2, "b": 1}, {"a": 1, "b": 1}) == ["a: 2 (x), 1 allowed"]
