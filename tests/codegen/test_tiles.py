"""Products of bfloat16 in AMX's tile registers: near float64's, in bounds, an explicit choice."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.build.emit import assembly
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime import device
from cellc_runtime import target as targets
from cellc_runtime.executable import Executable
from cellc_runtime.target import (
    AMX,
    AVX2,
    AVX512,
    TARGETS,
    best_of,
    host_targets,
    tiles_usable,
)

from .plans import run_calls

Array = np.ndarray[Any, Any]
NEEDED = pytest.mark.skipif(not tiles_usable(), reason="no tile registers here")
SHAPES = ((2, 2, 2), (3, 40, 33), (16, 16, 32), (33, 70, 784), (48, 5, 100), (70, 33, 65),
          (200, 100, 9), (100, 40, 5900))
"""(m, n, k): whole and partial tiles along each, more rows than a task has."""


def product(m: int, n: int, k: int, flipped: tuple[bool, bool] = (False, True), batch: str = "",
            other: str = "") -> Graph:
    """x w, where each may be stored transposed."""
    x = f"{k},{m}" if flipped[0] else f"{m},{k}"
    w = f"{n},{k}" if flipped[1] else f"{k},{n}"
    attrs = f"{{transpose_a={flipped[0]}, transpose_b={flipped[1]}}}"
    return parse_graph(f"""
graph g(%x: bfloat16[{batch}{x}] input, %w: bfloat16[{other}{w}] input) {{
  %0: bfloat16[{batch}{m},{n}] = matmul(%x, %w) {attrs}
  return %0
}}""")


def inputs(graph: Graph) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(v.shape).astype(v.dtype.numpy) for v in graph.inputs]


def expected(x: Array, w: Array, flipped: tuple[bool, bool] = (False, True)) -> Array:
    x, w = (np.swapaxes(a, -1, -2) if t else a
            for a, t in zip((x.astype(np.float64), w.astype(np.float64)), flipped, strict=True))
    return np.asarray(x @ w)


def near(got: Array, want: Array, k: int) -> None:
    """Within the rounding to bfloat16 and of a sum of k products."""
    scale = np.sqrt(k)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=2**-8, atol=1e-5 * scale)


@NEEDED
@pytest.mark.parametrize("flipped", [(False, True), (False, False), (True, False)], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_and_bounds(shape: tuple[int, int, int], flipped: tuple[bool, bool]) -> None:
    graph = product(*shape, flipped)
    arrays = inputs(graph)
    (got,) = run_calls(driver.optimize(graph), AMX, arrays)
    near(got, expected(*arrays, flipped), shape[2])


@NEEDED
@pytest.mark.parametrize(("batch", "other"), [("3,", "3,"), ("3,", ""), ("2,3,", "2,1,")])
def test_batches(batch: str, other: str) -> None:
    graph = product(37, 20, 45, (False, False), batch, other)
    arrays = inputs(graph)
    (got,) = run_calls(driver.optimize(graph), AMX, arrays)
    near(got, expected(*arrays, (False, False)), 45)


@NEEDED
def test_infinities_and_nans_stay_in_their_rows_and_columns() -> None:
    graph = product(40, 50, 45)
    x, w = inputs(graph)
    x[3, 44], w[7, 2] = np.nan, np.inf
    (got,) = run_calls(driver.optimize(graph), AMX, [x, w])
    want = expected(x, w)
    assert np.array_equal(np.isfinite(got.astype(np.float64)), np.isfinite(want))


class Layers(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Dense(70, 130), nn.Dense(130, 70)

    def construct(self, x: Any) -> Any:
        return x + self.narrow(ops.gelu(self.wide(x), "tanh"))


def layers() -> tuple[Any, Any]:
    ms.set_seed(1)
    net = Layers().set_train(False)
    for p in net.get_parameters():
        p.set_dtype(ms.bfloat16)
    x = np.random.default_rng(2).standard_normal((37, 70)).astype(ml_dtypes.bfloat16)
    return net, ms.Tensor(x)


@NEEDED
def test_fast_chooses_tiles_and_strict_does_not() -> None:
    net, x = layers()
    graph = trace(net, (x,), {}).graph
    assert driver.compile_program(graph, numerics="fast").target == AMX.name
    assert driver.compile_program(graph).target == host_targets()[0].name
    single = parse_graph("""graph g(%x: float32[40,40] input) {
      %0: float32[40,40] = matmul(%x, %x) {transpose_a=False, transpose_b=False}
      return %0
    }""")
    assert driver.compile_program(single, numerics="fast").target == host_targets()[0].name
    strict = np.array(net(x)._data).astype(np.float64)
    try:
        ms.set_context(numerics="fast")
        fast = np.array(net(x)._data).astype(np.float64)
    finally:
        ms.set_context(numerics="strict")
    assert np.abs(fast - strict).max() <= 0.03 * np.abs(strict).max()


def test_epilogues_are_part_of_the_tile_stores() -> None:
    """Nothing runs here: the code is generated on every machine."""
    net, x = layers()
    lowered = driver.lower(driver.optimize(trace(net, (x,), {}).graph, target=AMX), AMX)
    calls = [i for i in walk(lowered.instructions) if isinstance(i, Call)]
    texts = [assembly(c.kernel.code, AMX) for c in calls]
    assert ["tdpbf16ps" in t for t in texts] == [False, True] * 2  # (the others pack x)
    assert all(("tdpbf16ps" in t) == ("tilerelease" in t) for t in texts)
    assert all(c.label.startswith("matmul+") for c in calls)


def test_other_types_have_the_code_of_their_level() -> None:
    graph = parse_graph("""graph g(%x: float32[40,40] input) {
      %0: float32[40,40] = matmul(%x, %x) {transpose_a=False, transpose_b=False}
      return %0
    }""")
    bodies = [[i.kernel.code for i in walk(driver.lower(driver.optimize(graph), t).instructions)
               if isinstance(i, Call)] for t in (AMX, AVX512)]
    assert bodies[0] == bodies[1]


@NEEDED
def test_a_process_that_is_not_granted_tiles_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    program = driver.compile_program(product(32, 32, 32), TARGETS["x86_64-amx"])
    monkeypatch.setattr(device, "tiles_usable", lambda: False)
    with pytest.raises(ValueError, match="does not grant"):
        Executable(program)


@pytest.mark.parametrize("granted", [True, False])
def test_an_artifact_runs_what_was_chosen_for_it_where_it_can(
    granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "runnable_targets", lambda: (AVX512, AVX2, AMX))
    monkeypatch.setattr(targets, "tiles_usable", lambda: granted)
    assert best_of([AVX2.name, AMX.name]) is (AMX if granted else AVX2)
    assert best_of([AMX.name]) is (AMX if granted else None)
    assert best_of([AVX2.name, AVX512.name]) is AVX512
    assert best_of(["aarch64-neon"]) is None
