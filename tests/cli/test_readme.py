"""README.md: its network runs, and its commands print what it shows (by the rule in `shown`).

The commands run in order, in one folder. `test_pages` runs the pages of the documentation.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cellc as ms
from cellc_runtime.target import AVX512, host_target

from .shown import commands, difference

ROOT = Path(__file__).resolve().parents[2]


def test_the_network_of_the_readme(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"),
                       re.M | re.S)[0]
    (folder / "script.py").write_text(block, encoding="utf-8")
    runpy.run_path(str(folder / "script.py"))
    printed = capsys.readouterr().out.split()
    shown = re.search(r"^prints `(.*?)`", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    assert shown is not None
    want = shown.group(1).split()
    np.testing.assert_allclose(float(printed[0]), float(want[0]), rtol=0.05)
    np.testing.assert_allclose(float(printed[1]), float(want[1]), atol=0.01)
    if host_target() is AVX512:
        assert printed == want
    assert ms.get_context("mode") == ms.GRAPH_MODE


# --- commands ------------------------------------------------------------------------------------

STATUS = {"check": 1}


@pytest.mark.skipif(host_target() is not AVX512, reason="figures are those of such a machine")
def test_commands_print_what_the_page_shows(folder: Path) -> None:
    (folder / "samples").symlink_to(ROOT / "samples")
    (folder / "out").mkdir()
    env = {**os.environ, "CELLC_CACHE_DIR": str(folder / "cache"), "COLUMNS": "120"}
    ran = 0
    for command in commands(ROOT / "README.md"):
        program, *args = shlex.split(command.line, comments=True)
        start = {"cellc": ["-m", "cellc"], "python": []}[Path(program).name]
        done = subprocess.run([sys.executable, *start, *args], cwd=folder, env=env,
                              capture_output=True, text=True, timeout=600)
        refused = command.shown[:1] and command.shown[0].startswith("cellc: ")
        assert done.returncode == (2 if refused else STATUS.get(args[0], 0)), done.stderr
        printed = (done.stdout + done.stderr).rstrip().splitlines()
        if command.shown:
            assert difference(command.shown, printed) == "", "\n".join(printed)
        ran += 1
    assert ran > 4


@pytest.mark.parametrize(("shown", "printed", "same"), [
    ("wrote a.cellc: 279 KiB, 8 weights", "wrote a.cellc: 277 KiB, 8 weights", True),
    ("wrote a.cellc: 279 KiB, 8 weights", "wrote a.cellc: 250 KiB, 8 weights", False),
    ("wrote a.cellc: 279 KiB, 8 weights", "wrote a.cellc: 279 KiB, 9 weights", False),
    ("3.1 MiB of temporaries", "2.8 MiB of temporaries", False),
    ("wrote 23 files", "wrote 25 files", False),
    ("1.72 ms a call", "9.4 ms a call", True),
    ("1.72 ms a call", "9.4 us a call", True),
    ("1.72 ms a call", "9.4 KiB a call", False),
    ("30 us in 8 calls", "31 us in 9 calls", False),
    ("[[0.0162300 0.046]]", "[[ 0.0162301  0.046]]", False),
    ("[[0.0162300 0.046]]", "[[0.0162301  0.046]]", True),
    ("[[0.0162300 0.046]]", "[[0.0163301  0.046]]", False),
    ("  File \".../a.py\", line 3", "  File \"/x/y/a.py\", line 3", True),
    ("  File \".../a.py\", line 3", "  File \"/x/y/a.py\", line 4", False),
    ("within 3.2 ulps", "within 7.1 ulps", True),
    ("a\n...\nb 2", "a\nx\ny\nb 2", True),
    ("a\n...\nb 2", "a\nx\ny\nb 3", False),
    ("a\n...", "a", True),
    ("a", "a\nb", False),
    ("a\nb", "a", False),
    (" 1.2 us 20 matmul", "0.3 ms 11 add", True),
    ("▁▂▃", "█▁", True),
    ("▁▂▃", "x", False),
])
def test_the_rule(shown: str, printed: str, same: bool) -> None:
    assert (difference(shown.split("\n"), printed.split("\n")) == "") is same
