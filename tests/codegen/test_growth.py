"""Compiling costs in proportion to the network: calls are counted, nothing is timed.

A step that looks at all of the network for each of its parts costs the square of it. In a network
of a few layers that is lost among the rest; what the layers of a deep one cost more than those of
a shallow one shows it.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.backends import backend_of
from cellc_compiler.backends.cpu.patterns import attention, epilogues
from cellc_compiler.fusion import clusters
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_compiler.lower import lowering
from cellc_runtime.dtypes import float32
from cellc_runtime.target import AVX2


class Layer(nn.Cell):
    """Attention with one head and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm((16,)), nn.Dense(16, 48), nn.Dense(16, 16)

    def construct(self, x):
        q, k, v = ops.split(self.qkv(self.norm(x)), 16, -1)
        weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * 0.25, -1)
        return x + ops.gelu(self.out(ops.matmul(weights, v)))


class Deep(nn.Cell):
    """Equal layers one behind the other; the loss is a number."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer() for _ in range(depth)])

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.mean()


def _step(depth: int) -> nn.Cell:
    net = Deep(depth)
    return nn.TrainOneStepCell(net, nn.Adam(net.trainable_params(), 1e-3)).set_train()


X = ms.Tensor(np.ones((2, 8, 16), np.float32))


def _lowered(depth: int) -> Graph:
    graph = trace(_step(depth), (X,), {}).graph
    lowering.lower(driver.optimize(graph, target=AVX2), backend_of(AVX2).machine(AVX2))
    return graph


def _calls(work: Callable[[], object]) -> int:
    """How many functions, methods and steps of generators are called, built in or not."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


def _there_and_back(depth: int) -> Graph:
    """Products and functions whose results are read again in reverse, and parameters updated."""
    graph = Graph("there_and_back")
    b = Builder(graph)
    x = graph.add_input(TensorType((4, 8), float32), "x")
    weights = [graph.add_input(TensorType((8, 8), float32), f"w{i}", "param")
               for i in range(depth)]
    seen = []
    for w in weights:
        seen.append(x)
        x = b.tanh(b.matmul(x, w))
    for y, w in zip(reversed(seen), reversed(weights), strict=True):
        graph.updates.append((w, b.sub(w, b.matmul(y, x, transpose_a=True))))
        x = b.mul(b.exp(b.matmul(x, w, transpose_b=True)), y)
    graph.outputs.append(x)
    return graph


def test_a_layer_costs_the_same_in_a_deep_network() -> None:
    def work(depth: int) -> int:
        graph = _there_and_back(depth)
        return _calls(lambda: driver.compile_program(graph, AVX2, use_cache=False))

    work(1)  # modules are loaded, caches filled
    few, some, many = work(10), work(40), work(160)
    assert (many - some) / 120 < 1.15 * (some - few) / 30


def test_tracing_a_layer_costs_the_same_in_a_deep_network() -> None:
    def work(depth: int) -> int:
        step = _step(depth)
        return _calls(lambda: trace(step, (X,), {}))

    work(1)
    few, some, many = work(2), work(6), work(22)
    assert (many - some) / 16 < 1.15 * (some - few) / 4


@pytest.mark.parametrize(("where", "name"), [
    (clusters, "NestBuilder"), (epilogues, "classify"), (attention, "attention_kernels"),
])
def test_equal_layers_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    count = 0
    real = getattr(where, name)

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return real(*args)

    monkeypatch.setattr(where, name, counted)
    found = []
    for depth in (4, 12):
        count = 0
        _lowered(depth)
        found.append(count)
    assert 0 < found[0] == found[1]
