"""The oracle of the nn tests: MindSpore in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .programs import for_mindspore

ORACLE = os.environ.get("CELLC_ORACLE_PYTHON")


def ask_mindspore(program: ModuleType, cases: Sequence[Sequence[Any]]) -> list[Any]:
    """What `run(ms, nn, *case)` of a program gives for each case under MindSpore."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"  # it reads the source of the Cells it compiles
        file.write_text(for_mindspore(program, cases), encoding="utf-8")
        done = subprocess.run(
            [os.environ["CELLC_ORACLE_PYTHON"], str(file)], capture_output=True, text=True,
            timeout=900, check=True, cwd=folder, env={**os.environ, "GLOG_v": "3"},
        )
    found: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.fixture(scope="session")
def oracle() -> Any:
    """`oracle(program, cases)`: see `ask_mindspore`; skips without MindSpore."""
    if not ORACLE:
        pytest.skip("CELLC_ORACLE_PYTHON is not set")
    return ask_mindspore
