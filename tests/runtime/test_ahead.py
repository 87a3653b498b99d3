"""With an empty cache the host side of programs is compiled while the network is traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc_compiler.backends.cpu import image
from cellc_runtime import knobs
from cellc_runtime.target import AVX2, AVX512


class Doubled(ms.nn.Cell):
    def construct(self, x):
        return x * 2


class Tripled(ms.nn.Cell):
    def construct(self, x):
        return x * 3


class Failing(ms.nn.Cell):
    def construct(self, x):
        return x.no_such_attribute


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to builds: `enter 0` and `exit 0` are of the first one."""
    builds: list[image.CpuBuild] = []
    noted: list[str] = []

    def noting(name: str) -> None:
        method = getattr(image.CpuBuild, name)

        def run(build: image.CpuBuild, *args: Any) -> Any:
            if build not in builds:
                builds.append(build)
            noted.append(f"{name.strip('_')} {builds.index(build)}")
            return method(build, *args)

        monkeypatch.setattr(image.CpuBuild, name, run)

    noting("__enter__")
    noting("__exit__")
    return noted


def _two() -> ms.Tensor:
    return ms.Tensor(np.ones(2, np.float32))


def test_the_first_trace_of_an_empty_cache_compiles_ahead(
    tmp_path: Path, events: list[str]
) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with knobs.override(cache_dir=tmp_path / "empty", compile_jobs=2):
        assert Doubled()(_two()).asnumpy().tolist() == [2, 2]
        assert events == ["enter 0", "enter 0", "exit 0"]  # ahead, then as a program's
        assert Tripled()(_two()).asnumpy().tolist() == [3, 3]
    assert events[3:] == ["enter 1", "exit 1"]


def test_a_trace_that_fails_ends_what_began(tmp_path: Path, events: list[str]) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with knobs.override(cache_dir=tmp_path / "empty", compile_jobs=2):
        with pytest.raises(AttributeError, match="no_such_attribute"):
            Failing()(_two())
        assert events == ["enter 0", "exit 0"] and image.begun(AVX2) is None
        assert Doubled()(_two()).asnumpy().tolist() == [2, 2]
    assert events[2:] == ["enter 1", "enter 1", "exit 1"]  # nothing was compiled before


def test_a_build_for_another_target_is_not_taken(tmp_path: Path) -> None:
    with knobs.override(cache_dir=tmp_path / "empty", compile_jobs=2), image.ahead(AVX2):
        assert image.begun(AVX512) is None
        build = image.begun(AVX2)
        assert build is not None and build.target is AVX2 and image.begun(AVX2) is None
        build.__exit__(None, None, None)


def test_one_process_compiles_nothing_ahead(tmp_path: Path, events: list[str]) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with knobs.override(cache_dir=tmp_path / "empty", compile_jobs=1):
        assert Doubled()(_two()).asnumpy().tolist() == [2, 2]
    assert events == ["enter 0", "exit 0"]
