"""docs/support.md names what exists: attributes of cellc, and test modules."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import cellc as ms

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "support.md"
KEYS_OF_GROUPS = {"lr", "weight_decay", "grad_centralization", "order_params", "loss_scale"}


def _rows():
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| Names"):
            cells = [c.strip() for c in line.strip("|").split("|")]
            yield cells


ROWS = list(_rows())
NAMES = sorted({n for row in ROWS for n in re.findall(r"`([^`]+)`", row[0])} - KEYS_OF_GROUPS)


def _find(path):
    owner, parts = ms, path.split(".")
    for i, part in enumerate(parts):
        if not hasattr(owner, part):
            owner = importlib.import_module("cellc." + ".".join(parts[: i + 1]))
        else:
            owner = getattr(owner, part)
    return owner


def test_rows_are_complete():
    assert len(ROWS) > 30
    for row in ROWS:
        assert len(row) == 5, row
        assert row[0], row
        assert re.search(r"`tests/\S+\.py`", row[3]), row


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_there(name):
    assert _find(name) is not None


def test_each_test_module_is_there():
    modules = {m for row in ROWS for m in re.findall(r"`(tests/[^`]+)`", row[3])}
    missing = [m for m in sorted(modules) if not (ROOT / m).is_file()]
    assert missing == []


def test_each_name_is_tested_where_the_page_says():
    """At least one name of a row occurs in each test module it lists (or in its facts)."""
    for row in ROWS:
        last = {n.rsplit(".", 1)[-1] for n in re.findall(r"`([^`]+)`", row[0])}
        for module in re.findall(r"`(tests/[^`]+)`", row[3]):
            file = ROOT / module
            text = file.read_text(encoding="utf-8")
            around = [*file.parent.glob("*.py"), *file.parent.glob("facts/*.py")]
            if not any(n in text for n in last):
                text = "".join(f.read_text(encoding="utf-8") for f in around)
            assert any(n in text for n in last), (module, sorted(last))
