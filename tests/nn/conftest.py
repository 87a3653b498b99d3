"""The oracle of the nn tests: MindSpore in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ..others import NO_ORACLE, ORACLE, mindspore
from .programs import for_mindspore


def ask_mindspore(program: ModuleType, cases: Sequence[Sequence[Any]]) -> list[Any]:
    """What `run(ms, nn, *case)` of a program gives for each case under MindSpore."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"  # it reads the source of the Cells it compiles
        file.write_text(for_mindspore(program, cases), encoding="utf-8")
        found: list[Any] = mindspore(file, folder=Path(folder))
    return found


@pytest.fixture(scope="session")
def oracle() -> Any:
    """`oracle(program, cases)`: see `ask_mindspore`; skips without MindSpore."""
    if not ORACLE:
        pytest.skip(NO_ORACLE)
    return ask_mindspore
