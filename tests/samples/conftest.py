"""Shared by the tests of the samples: compiled code is kept in a folder of the test run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import cellc as ms


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`CELLC_CACHE_DIR` for this session, for the scripts that tests start too."""
    old = os.environ.get("CELLC_CACHE_DIR")
    os.environ["CELLC_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if old is None:
        del os.environ["CELLC_CACHE_DIR"]
    else:
        os.environ["CELLC_CACHE_DIR"] = old


@pytest.fixture(autouse=True)
def mode() -> Iterator[None]:
    """Tests set the mode; it is put back."""
    old = ms.get_context("mode")
    yield
    ms.set_context(mode=old)
