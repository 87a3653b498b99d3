"""Tests never touch the user's own cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    old = os.environ.get("CELLC_CACHE_DIR")
    os.environ["CELLC_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if old is None:
        del os.environ["CELLC_CACHE_DIR"]
    else:
        os.environ["CELLC_CACHE_DIR"] = old


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    """A cache directory of this test's own."""
    return tmp_path / "cache"
