"""Shared by all tests: a cache of the session's own, and contexts that do not leak."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from cellc_runtime import loader


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's own cache is neither read nor written, by subprocesses of tests either."""
    old = os.environ.get("CELLC_CACHE_DIR")
    os.environ["CELLC_CACHE_DIR"] = str(tmp_path_factory.mktemp("cellc_cache"))
    yield
    if old is None:
        os.environ.pop("CELLC_CACHE_DIR", None)
    else:
        os.environ["CELLC_CACHE_DIR"] = old


@pytest.fixture(autouse=True)
def _same_context_after() -> Iterator[None]:
    """A test that sets the mode leaves it as it was."""
    from cellc import context  # the tests of the compiler alone need not import the frontend first

    mode = context.get_context("mode")
    yield
    context.set_context(mode=mode)


@pytest.fixture
def threads() -> Iterator[Callable[[int], AbstractContextManager[None]]]:
    """`with threads(n):` runs compiled code on n threads."""
    before = loader.num_threads()

    @contextmanager
    def use(count: int) -> Iterator[None]:
        loader.set_num_threads(count)
        try:
            yield
        finally:
            loader.set_num_threads(before)

    yield use
    loader.set_num_threads(before)
