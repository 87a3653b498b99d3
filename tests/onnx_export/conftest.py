"""ONNX Runtime for the tests here; without it (or the library onnx) they are skipped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .peer import PYTHON, Peer

pytest.importorskip("onnx")


def _there() -> bool:
    return bool(PYTHON) and Path(PYTHON).exists() and subprocess.run(
        [PYTHON, "-c", "import onnxruntime"], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Runs models in the interpreter that `CELLC_PEERS_PYTHON` names."""
    if not _there():
        pytest.skip("CELLC_PEERS_PYTHON names no interpreter with onnxruntime")
    found = Peer(tmp_path_factory.mktemp("onnx"))
    yield found
    found.close()
