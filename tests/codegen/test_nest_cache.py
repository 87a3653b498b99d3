"""Repeated blocks are lowered once, and long chains of ops are cut into nests of bounded depth."""

from __future__ import annotations

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower import graph_block
from cellc_runtime.dtypes import float32


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm((8,)), nn.Dense(8, 16), nn.Dense(16, 8)

    def construct(self, x):
        return x + self.down(ops.gelu(self.up(self.norm(x))))


class Deep(nn.Cell):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.CellList([Block() for _ in range(count)])

    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Chain(nn.Cell):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def construct(self, x, y):
        for _ in range(self.count):
            x = ops.tanh(x * y) - x
        return x


def _nests_built(monkeypatch: pytest.MonkeyPatch, net: nn.Cell, *args: ms.Tensor) -> int:
    built = []
    real = graph_block.build_nest
    monkeypatch.setattr(graph_block, "build_nest", lambda *a: built.append(1) or real(*a))
    driver.compile_program(trace(net, args, {}).graph, use_cache=False)
    monkeypatch.undo()
    return len(built)


def test_equal_blocks_build_the_nests_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ms.Tensor(np.ones((4, 8), np.float32))
    few = _nests_built(monkeypatch, Deep(4), x)
    assert 0 < few == _nests_built(monkeypatch, Deep(24), x)


@pytest.mark.parametrize("size", [(3,), (256, 128)])
def test_equal_blocks_compute_their_own_values(size: tuple[int, ...]) -> None:
    """Each block reads its own weights, also where nests write in place (training)."""
    net = Deep(5)
    rng = np.random.default_rng(0)
    for p in net.get_parameters():
        p.set_data(ms.Tensor(rng.standard_normal(p.shape).astype(np.float32)))
    x = ms.Tensor(rng.standard_normal((*size, 8)).astype(np.float32))
    step = ms.value_and_grad(net, None, net.trainable_params())
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        out, grads = step(x)
        found.append([t.asnumpy() for t in (out, *grads)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", [(), (7,), (64, 600)])
def test_long_chains_compile(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x, y = (ms.Tensor(rng.standard_normal(shape).astype(np.float32)) for _ in range(2))
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        found.append(Chain(400)(x, y).asnumpy())
    np.testing.assert_array_equal(*found)


def test_attributes_that_differ_in_the_sign_of_zero_are_not_alike() -> None:
    graph = Graph("signs")
    b = Builder(graph)
    for name, zero in (("x", 0.0), ("y", -0.0)):
        x = graph.add_input(TensorType((4,), float32), name)
        graph.outputs.append(b.neg(b.pad(x, low=(1,), high=(0,), value=zero)))
    a, c = driver.compile_graph(graph)([np.ones(4, np.float32)] * 2)
    assert np.signbit(a[0]) and not np.signbit(c[0])
