"""Real ranks: scripts that `mpirun` starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Launch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def mpirun(tmp_path: Path) -> Launch:
    """`mpirun(n, script, *args)`: run a script's text on n ranks of one thread each."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    command = Path(sys.executable).parent / "mpirun"
    if not command.exists():
        pytest.skip("no mpirun beside this Python")

    def launch(
        count: int, script: str, *args: str, seconds: float = 120, **env: str
    ) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "script.py"
        file.write_text(script)
        return subprocess.run(
            [command, "-n", str(count), "--oversubscribe", sys.executable, file, *args],
            cwd=tmp_path, capture_output=True, text=True, timeout=seconds,
            env={**os.environ, "CELLC_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                 **env})

    return launch
