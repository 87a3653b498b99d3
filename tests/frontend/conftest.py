"""Shared by the frontend tests: an engine, and the oracle (MindSpore in a process of its own)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import cellc.ops
from cellc.core import dispatch

from .reference_engine import ReferenceEngine

ORACLE = os.environ.get("CELLC_ORACLE_PYTHON")


@pytest.fixture(autouse=True, params=["reference", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test runs on the op references and on compiled kernels."""
    installed = list(dispatch._engine)
    if request.param == "reference":
        dispatch._engine[:] = [ReferenceEngine()]
    elif not installed:
        pytest.skip("the eager engine is not installed")
    yield request.param
    dispatch._engine[:] = installed


@pytest.fixture(scope="session")
def oracle() -> Any:
    """`oracle(program)`: what a program of MindSpore prints as its last line, as JSON."""
    if not ORACLE:
        pytest.skip("CELLC_ORACLE_PYTHON is not set")

    def run(program: str) -> Any:
        done = subprocess.run(
            [ORACLE, "-c", program], capture_output=True, text=True, timeout=300, check=True
        )
        return json.loads(done.stdout.strip().splitlines()[-1])

    return run


assert cellc.ops
