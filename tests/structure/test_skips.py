"""Skipped tests are counted by what they lack, and a run may require that nothing lacks it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import skip_group
from ..others import NO_ORACLE

TESTS = '''
import pytest

def test_runs():
    pass

@pytest.mark.skipif(True, reason="CELLC_ORACLE_PYTHON is not set")
def test_oracle():
    pass

def test_peer():
    pytest.skip("no interpreter with onnxruntime")
'''


ROOT = Path(__file__).parents[2]


def session(folder: Path, *options: str) -> tuple[int, str]:
    """A run of three tests, two of them skipped: its status and what it says."""
    (folder / "test_some.py").write_text(TESTS)
    (folder / "conftest.py").write_text("from tests.conftest import *\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
         "--rootdir", str(folder), *options, str(folder)],
        capture_output=True, text=True, check=False, timeout=120, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])})
    return done.returncode, done.stdout + done.stderr


def test_skips_are_counted(tmp_path: Path) -> None:
    status, said = session(tmp_path)
    assert status == 0, said
    assert "skipped: 2 (1 for want of MindSpore, 1 for want of ONNX Runtime)" in said


@pytest.mark.parametrize("group", ["MindSpore", "ONNX Runtime"])
def test_what_is_required_may_not_be_skipped_for(group: str, tmp_path: Path) -> None:
    status, said = session(tmp_path, "--required", group)
    assert status == 1 and f"required, but skipped: {group}" in said
    assert session(tmp_path, "--required", "onnx")[0] == 0


def test_groups() -> None:
    assert skip_group(NO_ORACLE) == "MindSpore"
    assert skip_group("could not import 'onnx': No module named 'onnx'") == "onnx"
    assert skip_group("float16") == "other reasons"
