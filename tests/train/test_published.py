"""A script as it is published for MindSpore, run unchanged through `cellc run`, in both modes."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "finetune_script.py"


def _run(mode, folder):
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "cellc", "run", str(SCRIPT), str(mode)], capture_output=True,
        text=True, cwd=folder, timeout=600, check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rank 0 of 1" in done.stderr
    return [x for x in done.stdout.splitlines() if x.startswith(("LOSS", "SAVED"))]


def test_fine_tuning(tmp_path):
    graph = _run(0, tmp_path / "graph")
    assert graph == _run(1, tmp_path / "pynative")
    assert graph[-1] == "SAVED ['net-4_5.ckpt']"
    rows = [line.split() for line in graph[:-1]]
    losses = [struct.unpack("<f", bytes.fromhex(row[1]))[0] for row in rows]
    assert len(losses) == 4
    assert losses[-1] < 0.9 * losses[0]
    assert {tuple(row[2:]) for row in rows} == {("False", "4096.0")}
