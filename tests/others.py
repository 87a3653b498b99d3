"""Programs run by another interpreter: MindSpore (`CELLC_ORACLE_PYTHON`) and the peers.

They run in an empty folder (MindSpore writes where it stands) and do not see this tree's packages.
What they print before their answer, and on standard error, is shown when they fail.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ORACLE = os.environ.get("CELLC_ORACLE_PYTHON", "")
"""The Python that has MindSpore; empty where there is none."""
PEERS = os.environ.get("CELLC_PEERS_PYTHON", "")
"""The Python that has torch, JAX and ONNX Runtime; empty where there is none."""
NO_ORACLE = "CELLC_ORACLE_PYTHON is not set"
needs_oracle = pytest.mark.skipif(not ORACLE, reason=NO_ORACLE)
"""Skips a test where there is no MindSpore."""


def run(
    python: str, program: str | Path, arguments: Sequence[str | Path] = (), given: Any = None,
    folder: Path | None = None, timeout: float = 900,
) -> str:
    """What a program prints.

    Args:
        program: a file, or text.
        given: what it reads from standard input, as JSON.
        folder: where it runs; an empty one of its own if None.

    Raises:
        AssertionError: it failed; with the end of what it wrote.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as empty:
            return run(python, program, arguments, given, Path(empty), timeout)
    start = [program] if isinstance(program, Path) else ["-c", program]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [python, *start, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        input=None if given is None else json.dumps(given), timeout=timeout,
        env={**environment, "GLOG_v": "3"},
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def answer(printed: str) -> Any:
    """The last line printed, which is JSON."""
    return json.loads(printed.strip().splitlines()[-1])


def mindspore(
    program: str | Path, arguments: Sequence[str | Path] = (), given: Any = None,
    folder: Path | None = None,
) -> Any:
    """What a program of MindSpore answers (see `run`); skips the test where there is none."""
    if not ORACLE:
        pytest.skip(NO_ORACLE)
    return answer(run(ORACLE, program, arguments, given, folder))
