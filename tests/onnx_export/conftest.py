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
    """Runs models; see `peer.py` for where."""
    if not _there():
        pytest.skip("no interpreter with onnxruntime: install it, or set CELLC_PEERS_PYTHON")
    found = Peer(tmp_path_factory.mktemp("onnx"))
    yield found
    found.close()
