"""Sums over many rows: sums of blocks, which a nest that goes over the rows makes on its way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import nn, ops
from cellc_compiler import driver
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import AVX512, Target, host_targets

from .plans import guarded

TARGETS = list(host_targets())


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = cellc_runtime.num_threads()
    yield
    cellc_runtime.set_num_threads(before)


def norm(rows: str, columns: int, dtype: str = "float32") -> Graph:
    """Rows made from sums along them, and two sums over all rows, as in the gradient of a layer
    normalisation."""
    t, one = f"{dtype}[{rows},{columns}]", f"{dtype}[{rows},1]"
    n = len(rows.split(","))
    lead = f"({', '.join(map(str, range(n)))},)"
    return parse_graph(f"""
graph g(%x: {t} input, %dy: {t} input, %w: {dtype}[{columns}] input) {{
  %b: {dtype}[{columns}] = reduce_sum(%dy) {{axes={lead}, keepdims=False}}
  %m: {one} = reduce_max(%x) {{axes=({n},), keepdims=True}}
  %c: {t} = sub(%x, %m) {{}}
  %p: {t} = mul(%dy, %c) {{}}
  %g: {dtype}[{columns}] = reduce_sum(%p) {{axes={lead}, keepdims=False}}
  %d: {t} = mul(%dy, %w) {{}}
  %dc: {t} = mul(%d, %c) {{}}
  %s: {one} = reduce_max(%dc) {{axes=({n},), keepdims=True}}
  %dx: {t} = mul(%c, %s) {{}}
  return %dx, %g, %b
}}
""")


def blocked(a: np.ndarray, block: int) -> np.ndarray:
    """The sum over rows as it is defined: of each block one chain, of the blocks one chain."""
    rows = a.reshape(-1, block, a.shape[-1])
    parts = np.zeros((len(rows), a.shape[-1]), a.dtype)
    for i in range(block):
        parts += rows[:, i]
    total = np.zeros(a.shape[-1], a.dtype)
    for part in parts:
        total += part
    return total


def large_calls(graph: Graph, elements: int) -> list[Call]:
    """Calls with a buffer of that many elements."""
    lowered = driver.lower(driver.optimize(graph, target=AVX512), AVX512)
    large = {i for i, v in enumerate([*graph.inputs, *graph.outputs])
             if v.type.size == elements}
    return [i for i in walk(lowered.instructions) if isinstance(i, Call)
            and any(p.base in large for p in i.places)]


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("rows", "columns", "dtype", "block"), [
    ("1024", 256, "float32", 64), ("8,128", 259, "float32", 64), ("4,330", 1029, "float32", 60),
    ("5000", 77, "float64", 50), ("1024", 300, "int32", 64)])
def test_rows_and_sums_over_them_in_one_pass(
    target: Target, rows: str, columns: int, dtype: str, block: int
) -> None:
    graph = norm(rows, columns, dtype)
    shape = graph.inputs[0].shape
    assert len(large_calls(graph, int(np.prod(shape)))) == 1
    rng = np.random.default_rng(0)
    x, dy, w = ((3 * rng.standard_normal(s)).astype(dtype) for s in (shape, shape, (columns,)))
    c = x - x.max(-1, keepdims=True)
    wanted = [c * (dy * w * c).max(-1, keepdims=True), blocked(dy * c, block), blocked(dy, block)]
    compiled = driver.compile_graph(graph, target)
    for threads in (1, 3):
        cellc_runtime.set_num_threads(threads)
        for got, want in zip(compiled([guarded(x), guarded(dy), w]), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("shape", "block"), [
    ((1024, 256), 64), ((16, 64, 256), 64), ((4, 300, 1030), 60), ((1030, 20, 15), 0),
    ((1031, 300), 1031), ((20480, 130), 64), ((2, 640, 500), 64)])
def test_alone_the_sum_is_the_same(
    target: Target, shape: tuple[int, ...], block: int
) -> None:
    """Whatever the sum is fused with; what has no blocks (a prime number of rows) is one chain."""
    text = ",".join(map(str, shape))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    if shape == (2, 640, 500):  # a sum for each of two matrices
        graph = parse_graph(f"graph g(%x: float32[{text}] input) {{\n  %s: float32[2,500] = "
                            "reduce_sum(%x) {axes=(1,), keepdims=False}\n  return %s\n}\n")
        wanted = np.stack([blocked(part, block) for part in x])
    else:
        n = 1 if shape == (1030, 20, 15) else len(shape) - 1
        axes, behind = tuple(range(n)), ",".join(map(str, shape[n:]))
        graph = parse_graph(f"graph g(%x: float32[{text}] input) {{\n  %s: float32[{behind}] = "
                            f"reduce_sum(%x) {{axes={axes}, keepdims=False}}\n  return %s\n}}\n")
        block = block or 1030  # 1030 is 2 * 5 * 103
        wanted = blocked(x.reshape(-1, int(np.prod(shape[n:]))), block).reshape(shape[n:])
        if shape == (20480, 130):  # 320 blocks are not many rows of 130 columns
            assert 320 * 130 < 1 << 18
    (got,) = driver.compile_graph(graph, target)([guarded(x)])
    np.testing.assert_array_equal(got, wanted)


def test_the_sum_of_many_blocks_is_one_of_blocks() -> None:
    x = np.random.default_rng(1).standard_normal((65536, 256)).astype(np.float32)
    graph = parse_graph("graph g(%x: float32[65536,256] input) {\n  %s: float32[256] = "
                        "reduce_sum(%x) {axes=(0,), keepdims=False}\n  return %s\n}\n")
    parts = np.stack([blocked(part, 64) for part in x.reshape(1024, 64, 256)])
    (got,) = driver.compile_graph(graph, TARGETS[0])([x])
    np.testing.assert_array_equal(got, blocked(parts, 64))


def test_elementwise_work_and_the_sum_of_it_in_one_pass() -> None:
    t = "float32[8,128,256]"
    graph = parse_graph(f"""
graph g(%x: {t} input, %y: {t} input) {{
  %z: {t} = mul(%x, %y) {{}}
  %s: float32[256] = reduce_sum(%z) {{axes=(0, 1), keepdims=False}}
  return %z, %s
}}
""")
    assert len(large_calls(graph, 8 * 128 * 256)) == 1
    x, y = np.random.default_rng(1).standard_normal((2, 8, 128, 256)).astype(np.float32)
    z, s = driver.compile_graph(graph, TARGETS[0])([x, y])
    np.testing.assert_array_equal(z, x * y)
    np.testing.assert_array_equal(s, blocked(x * y, 64))


class Normed(nn.Cell):
    """What a block of a transformer does over rows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense = nn.LayerNorm((256,)), nn.Dense(256, 256)

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        return ops.mean(x + ops.gelu(self.dense(self.norm(x))))


def test_gradients_in_both_modes() -> None:
    ms.set_seed(3)
    net = Normed()
    x = ms.Tensor(np.random.default_rng(1).standard_normal((8, 128, 256)).astype(np.float32))
    found = []
    before = ms.get_context("mode")
    try:
        for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
            ms.set_context(mode=mode)
            dx, dw = ms.grad(net, 0, net.trainable_params())(x)
            found.append([g.asnumpy() for g in (dx, *dw)])
    finally:
        ms.set_context(mode=before)
    assert len(found[0]) == 5
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()
