"""Shared by the tests of the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    """A cache directory of this test's own."""
    return tmp_path / "cache"
