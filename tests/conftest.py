"""Shared by all tests: a cache of the session's own, and contexts that do not leak."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import cellc as ms
from cellc_runtime import loader
from cellc_runtime.platform import usable_cpus


@pytest.fixture(scope="session", autouse=True)
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all processes of the session; the user's own is neither read nor written.

    What one worker of pytest-xdist has compiled, the others find: tests of one file go to all.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CELLC_CACHE_DIR", str(shared / "cellc_cache"))
        if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) >= usable_cpus()[0]:
            # Every processor has a worker of pytest's: processes that compile for a worker would
            # only add what it takes to start them, half of the time of a test of small networks.
            patch.setenv("CELLC_COMPILE_JOBS", "1")
        yield


@pytest.fixture(autouse=True)
def _same_context_after() -> Iterator[None]:
    """Each test leaves the mode, the numerics and the number of threads as they were."""
    before = {key: ms.get_context(key) for key in ("mode", "numerics")}
    threads = loader.num_threads()
    yield
    ms.set_context(**before)
    if loader.num_threads() != threads:
        loader.set_num_threads(threads)


@pytest.fixture(params=["graph", "pynative"])
def mode(request: pytest.FixtureRequest) -> int:
    """A test runs in graph mode and in PyNative mode; the mode's number."""
    value: int = ms.GRAPH_MODE if request.param == "graph" else ms.PYNATIVE_MODE
    ms.set_context(mode=value)
    return value


@pytest.fixture
def graph_mode() -> None:
    """A test runs in graph mode."""
    ms.set_context(mode=ms.GRAPH_MODE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test runs in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def threads() -> Callable[[int], AbstractContextManager[None]]:
    """`with threads(n):` runs compiled code on n threads."""

    @contextmanager
    def use(count: int) -> Iterator[None]:
        before = loader.num_threads()
        loader.set_num_threads(count)
        try:
            yield
        finally:
            loader.set_num_threads(before)

    return use
