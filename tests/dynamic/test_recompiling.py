"""Artifacts with open sizes that are compiled again for another target: the same sizes and bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cellc.cli import main
from cellc_compiler import open_sizes
from cellc_compiler.ir.dims import SymbolInfo, choose, deciding, largest
from cellc_compiler.ir.divisors import divisor
from cellc_compiler.ir.shapes import Shapes
from cellc_runtime import artifact

from . import test_artifact_sizes as sized
from . import test_found_artifacts as found
from .test_artifact_sizes import same


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("again") / "networks_compiled_again.py"
    file.write_text(sized.NETWORKS + found.NETWORKS)
    return file


def again(source: Path, name: str, spec: str, *options: str) -> artifact.Artifact:
    """The artifact of a network, compiled again for processors without AVX-512."""
    sized.compiled(source, name, spec)
    first, out = source.parent / f"{name}.cellc", source.parent / f"{name}_again.cellc"
    assert main(["compile", str(first), "--target", "x86_64-avx2", "-o", str(out), *options]) == 0
    loaded = artifact.load(out, trust_native_code=True)
    assert loaded.targets() == ("x86_64-avx2",)
    assert loaded.sizes() == artifact.load(first).sizes()
    assert {*loaded.weights} == {*artifact.load(first).weights}
    return loaded


@pytest.mark.parametrize("options", [(), ("-i", "x=float32[N,S,8]")])
def test_batch_and_length(options: tuple[str, ...], source: Path) -> None:
    """Its code asks whether a length is even."""
    loaded = again(source, "Tile", "float32[N,S,8]", *options)
    same(source, "Tile", loaded, [(1, 1, 8), (3, 9, 8), (2, 1, 8), (1, 40, 8)])


def test_ranges(source: Path) -> None:
    loaded = again(source, "Raises", "float32[N,5,8]")
    same(source, "Raises", loaded, [(n, 5, 8) for n in (1, 2, 6)])
    with pytest.raises(ValueError, match=r"no program serves these sizes: N = 7 must be from 2 to "
                                         r"6\.$"):
        loaded(np.zeros((7, 5, 8), np.float32))


def test_sizes_that_are_found(source: Path) -> None:
    same(source, "Rows", again(source, "Rows", "float32[N,4]"), [(n, 4) for n in (1, 3, 50)])


def test_sizes_are_read_as_they_were_written() -> None:
    shapes = Shapes()
    with deciding(shapes):
        n, m = (shapes.new(s, 40, SymbolInfo(2)) for s in "nm")
        for size in (n, 3 * n * m - 7, (n + 5) // 3, largest(n, m) + 2 * (n // (2 * m)),
                     divisor(n, choose(n, 65, n // 4, 1)), n / 3 + 0.5):
            assert str(open_sizes.size_of(open_sizes.number(size))) == str(size)
