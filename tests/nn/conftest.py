"""The oracle of the nn tests: MindSpore in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

import cellc as ms

from .programs import for_mindspore

ORACLE = os.environ.get("CELLC_ORACLE_PYTHON")


@pytest.fixture(scope="session")
def oracle() -> Any:
    """`oracle(program, cases)`: what `run(ms, nn, *case)` gives for each case under MindSpore."""
    if not ORACLE:
        pytest.skip("CELLC_ORACLE_PYTHON is not set")

    def ask(program: ModuleType, cases: Sequence[Sequence[Any]]) -> list[Any]:
        text = for_mindspore(program, cases)
        done = subprocess.run(
            [ORACLE, "-c", text], capture_output=True, text=True, timeout=900, check=True,
            env={**os.environ, "GLOG_v": "3"},
        )
        found: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found

    return ask


@pytest.fixture(autouse=True)
def _mode() -> Iterator[None]:
    """Each test leaves the mode as it was."""
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)
