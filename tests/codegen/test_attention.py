"""Attention by rows: found where it stands, equal to separate kernels to the bit, in bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cellc_compiler import driver
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.backends.attention import AttentionFinder
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call
from cellc_runtime.target import AVX2, Target, host_targets

from .plans import run_calls, x86_targets

Array = np.ndarray[Any, Any]

TEXT = """
graph Attention(%q: {T}[{B},{M},{D}] input, %k: {T}[{B},{N},{D}] input,
                %v: {T}[{B},{N},{C}] input, %mask: bool[{M},{N}] input) {{
  %0: {T}[{B},{M},{N}] = matmul(%q, %k) {{transpose_a=False, transpose_b=True}}
  %1: {T}[] = constant() {{value=lit<{T}[]>[1.25e-01]}}
  %2: {T}[{B},{M},{N}] = mul(%0, %1) {{}}
  %3: {T}[] = constant() {{value=lit<{T}[]>[-inf]}}
  %4: {T}[{B},{M},{N}] = where(%mask, %3, %2) {{}}
  %5: {T}[{B},{M},{N}] = softmax(%4) {{axis=2}}
  %6: {T}[{B},{M},{C}] = matmul(%5, %v) {{transpose_a=False, transpose_b=False}}
  return %6
}}
"""
SHAPES = [(1, 5, 7, 3, 4), (6, 17, 17, 16, 16), (3, 128, 128, 64, 64), (2, 100, 333, 33, 20),
          (1, 40, 1100, 64, 64), (3, 2, 50, 8, 130), (2, 130, 64, 96, 1000)]


def attention(shape: tuple[int, ...], dtype: str = "float32") -> Graph:
    """The graph of a size: batch, queries, keys, features, values."""
    return parse_graph(TEXT.format(T=dtype, **dict(zip("BMNDC", shape, strict=True))))


def arrays(shape: tuple[int, ...], dtype: Any = np.float32) -> list[Array]:
    """Inputs: an almost causal mask with one row of nothing else."""
    b, m, n, d, c = shape
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in ((b, m, d), (b, n, d), (b, n, c)))
    mask = np.triu(np.ones((m, n), np.bool_), 1)
    mask[m // 2] = True
    return [q, k, v, mask]


def fused(graph: Graph, target: Target) -> list[str]:
    """Labels of attention kernels in a graph."""
    calls = driver.lower(driver.optimize(graph), target).instructions
    return [c.label for c in calls if isinstance(c, Call) and c.label.count("matmul") == 2
            and "reduce" in c.label]


def run(graph: Graph, target: Target, inputs: list[Array]) -> list[Array]:
    """The kernels' results; see `run_calls`."""
    return run_calls(driver.optimize(graph), target, inputs)


def separate(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no attention is found."""
    monkeypatch.setattr(AttentionFinder, "find", lambda self: {})


@pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_and_bounds(shape: tuple[int, ...], target: Target,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    graph, inputs = attention(shape), arrays(shape)
    inputs[0][0, 0, 0], inputs[2][0, 1, 0] = np.inf, np.nan
    assert fused(graph, target)
    one = run(graph, target, inputs)
    separate(monkeypatch)
    assert not fused(graph, target)
    two = run(graph, target, inputs)
    np.testing.assert_array_equal(one[0], two[0])
    assert np.isnan(one[0]).any() and not np.isnan(one[0]).all()


def test_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    target = host_targets()[0]
    graph, inputs = attention((2, 50, 70, 16, 24), "float64"), arrays((2, 50, 70, 16, 24), float)
    assert fused(graph, target)
    one = run(graph, target, inputs)
    separate(monkeypatch)
    np.testing.assert_array_equal(one[0], run(graph, target, inputs)[0])


def test_weights_that_are_read_elsewhere_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace("return %6", "return %6, %5")
    shape = (3, 60, 61, 16, 32)
    graph = parse_graph(text.format(T="float32", **dict(zip("BMNDC", shape, strict=True))))
    target, inputs = host_targets()[0], arrays(shape)
    assert fused(graph, target)
    one = run(graph, target, inputs)
    separate(monkeypatch)
    for a, b in zip(one, run(graph, target, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_scores_that_are_read_elsewhere_are_not_fused() -> None:
    text = TEXT.replace("return %6", "return %6, %0")
    graph = parse_graph(text.format(T="float32", B=3, M=60, N=61, D=16, C=32))
    assert not fused(graph, AVX2)


def test_softmax_over_another_axis_is_not_fused() -> None:
    text = TEXT.replace("axis=2", "axis=1")
    graph = parse_graph(text.format(T="float32", B=3, M=61, N=61, D=16, C=32))
    assert not fused(graph, AVX2)


CHAIN = """
graph chain(%x: float32[8,8] input, %y: float32[8,8] input, %z: float32[8,8] input) {
  %0: float32[8,8] = matmul(%x, %y) {transpose_a=False, transpose_b=True}
  %1: float32[8,1] = reduce_sum(%0) {axes=(1,), keepdims=True}
  %2: float32[8,8] = mul(%z, %1) {}
  %3: float32[8,8] = matmul(%2, %y) {transpose_a=False, transpose_b=False}
  %4: float32[8,1] = reduce_mean(%3) {axes=(1,), keepdims=True}
  %5: float32[8,8] = sub(%3, %4) {}
  %6: float32[8,8] = matmul(%5, %x) {transpose_a=False, transpose_b=False}
  return %6
}
"""
"""What `bisect` left of a second derivative that did not compile."""


def test_the_product_between_two_attentions_belongs_to_one(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, target = parse_graph(CHAIN), host_targets()[0]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((8, 8)).astype(np.float32) for _ in range(3)]
    assert set(fused(graph, target)) == {"matmul+reduce_sum+mul+matmul"}
    one = run(graph, target, inputs)
    separate(monkeypatch)
    np.testing.assert_array_equal(one[0], run(graph, target, inputs)[0])


def test_gradients_are_those_of_separate_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (4, 65, 65, 16, 32)
    text = TEXT.replace("return %6", "%7: {T}[{B},{M},{C}] = mul(%6, %6) {{}}\n  return %7")
    graph = parse_graph(text.format(T="float32", **dict(zip("BMNDC", shape, strict=True))))
    inputs = arrays(shape)
    inputs[3][shape[1] // 2] = False
    step = gradient_graph(graph, [0, 1, 2])
    assert fused(step, host_targets()[0])
    one = driver.compile_graph(step)(inputs)
    separate(monkeypatch)
    monkeypatch.setattr(driver, "source_stamp", lambda: "separate")
    for a, b in zip(one, driver.compile_graph(step)(inputs), strict=True):
        np.testing.assert_array_equal(a, b)


NORM = """
graph norm(%x: float32[{M},{K}] input, %y: float32[{N},{K}] input, %r: float32[{M},{N}] input,
           %z: float32[{C},{N}] input) {{
  %0: float32[{M},{N}] = matmul(%x, %y) {{transpose_a=False, transpose_b=True}}
  %1: float32[{M},{N}] = add(%r, %0) {{}}
  %2: float32[{M},1] = reduce_mean(%1) {{axes=(1,), keepdims=True}}
  %3: float32[{M},{N}] = sub(%1, %2) {{}}
  %4: float32[{M},{C}] = matmul(%3, %z) {{transpose_a=False, transpose_b=True}}
  return %4
}}
"""
"""Two dense layers with a normalisation between them."""


def norm(m: int, k: int, n: int, c: int) -> Graph:
    """The graph of a size: rows, and features after each layer."""
    return parse_graph(NORM.format(M=m, K=k, N=n, C=c))


@pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
def test_weights_that_are_not_near_are_not_read_for_every_block(target: Target) -> None:
    """1 MiB of weights may be read again for each block of rows, more may not: the products then
    run by themselves."""
    assert fused(norm(768, 256, 256, 768), target)
    assert not fused(norm(768, 272, 256, 768), target)
    assert not fused(norm(64, 2304, 768, 768), target)


def test_scores_larger_than_all_else_are_never_in_memory() -> None:
    """Keys and values of 4096 positions are 2 MiB, the scores 64."""
    assert fused(attention((1, 4096, 4096, 64, 64)), host_targets()[0])
    assert not fused(attention((1, 48, 4096, 64, 64)), host_targets()[0])


def test_two_layers_and_the_rows_between_them_have_the_bits_of_separate_kernels(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last block has fewer rows than the others, the last tile fewer columns."""
    shape = (133, 70, 130, 90)
    m, k, n, c = shape
    rng = np.random.default_rng(8)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in ((m, k), (n, k), (m, n), (c, n))]
    graph, target = norm(*shape), host_targets()[0]
    assert fused(graph, target)
    one = run(graph, target, inputs)
    separate(monkeypatch)
    np.testing.assert_array_equal(one[0], run(graph, target, inputs)[0])
