"""The benchmark command runs and its table says what it should; no time is judged here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).with_name("run.py")


def test_both_modes_are_measured_and_agree(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, str(RUN), "lenet", "tiny", "--rounds", "2", "--json", str(out),
         "--peers", "cellc graph", "cellc pynative"],
        capture_output=True, text=True, check=False, timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^  cellc (?:graph|pynative) ", done.stdout, re.MULTILINE)) == 4
    assert "DIFFERS" not in done.stdout and "left out" not in done.stdout
    figures = json.loads(out.read_text(encoding="utf-8"))
    for results in figures.values():
        assert [r["peer"] for r in results] == ["cellc graph", "cellc pynative"]
        assert results[0]["value"] == results[1]["value"]
        for r in results:
            assert len(r["rounds"]) == 2 and min(r["rounds"]) > 0
            assert min(r["cold"], r["warm"], r["imported"]) > 0


def test_an_unknown_case_is_refused() -> None:
    done = subprocess.run([sys.executable, str(RUN), "lenet6"], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2
    assert "unknown case 'lenet6'" in done.stderr
