"""Sums over rows that lie far apart: wide strips, fetched ahead, each column one chain."""

from __future__ import annotations

import numpy as np
import pytest

from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import AVX512, Target, host_targets

from .plans import guarded

TARGETS = list(host_targets())


def sums(rows: int, columns: int, dtype: str = "float32") -> Graph:
    """The sums over rows of x and of x * y."""
    t, out = f"{dtype}[{rows},{columns}]", f"{dtype}[{columns}]"
    return parse_graph(f"""
graph g(%x: {t} input, %y: {t} input) {{
  %0: {t} = mul(%x, %y) {{}}
  %1: {out} = reduce_sum(%0) {{axes=(0,), keepdims=False}}
  %2: {out} = reduce_sum(%x) {{axes=(0,), keepdims=False}}
  return %1, %2
}}
""")


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [511, 512, 1024, 1029, 2100])
def test_each_column_is_one_chain(target: Target, dtype: str, columns: int) -> None:
    rng = np.random.default_rng(0)
    rows = 1301  # a prime number: else it would be a sum of sums of blocks
    x, y = (guarded(rng.standard_normal((rows, columns)).astype(dtype)) for _ in range(2))
    got = driver.compile_graph(sums(rows, columns, dtype), target)([x, y])
    wanted = np.zeros((2, columns), dtype)
    for a, b in zip(x, y, strict=True):
        wanted += np.stack([a * b, a])
    np.testing.assert_array_equal(np.stack(got), wanted)


def text(rows: int, columns: int) -> tuple[str, int]:
    graph = driver.optimize(sums(rows, columns), target=AVX512)
    (call,) = (i for i in walk(driver.lower(graph, AVX512).instructions) if isinstance(i, Call))
    return call.kernel.code, call.kernel.ntasks


def test_what_the_caches_hold_is_not_fetched_ahead() -> None:
    body, tasks = text(8191, 1024)
    assert body.count("call void @llvm.prefetch") == 2 * 8  # a line of 16 elements each
    assert tasks == 8
    body, tasks = text(128, 1024)
    assert "prefetch" not in body
    assert tasks <= 16
