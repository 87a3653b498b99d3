"""The layout pass: what is blocked, where reorders stand, and that no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.core.compiled import trace
from cellc_compiler.codegen.lowering import lower
from cellc_compiler.driver import optimize
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import copy_graph
from cellc_compiler.passes.layout import Layout
from cellc_runtime.target import AVX2, AVX512, NEON, Target

Array = np.ndarray[Any, Any]
TARGETS = pytest.mark.parametrize("target", [AVX512, AVX2, NEON], ids=lambda t: t.name)


class Block(nn.Cell):
    """A residual block behind a first layer, with pools, a concatenation and a plain end."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, 2, pad_mode="pad", padding=1)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1)
        self.conv1 = nn.Conv2d(width, width, 3, has_bias=True)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3)
        self.deep = nn.Conv2d(width, width, 3, group=width)
        self.last = nn.Conv2d(2 * width, width, 1)
        self.slope = ms.Parameter(np.linspace(0, 1, width).astype(np.float32), name="slope")

    def construct(self, x):
        x = self.pool(ops.relu(self.first(x)))
        y = ops.sigmoid(self.bn1(self.conv1(x)))
        y = ops.relu(self.conv2(y) + x)
        z = ops.leaky_relu(self.deep(y), 0.1) * ops.reshape(self.slope, (1, -1, 1, 1))
        y = self.last(ops.concat((y, z), 1))
        return ops.mean(y, (2, 3)), y


def network(width: int = 32) -> tuple[Any, Any]:
    ms.set_seed(1)
    net = Block(width).set_train(False)
    x = np.random.default_rng(0).standard_normal((1, 3, 67, 66)).astype(np.float32)
    return net, ms.Tensor(x)


def parameters(graph: Graph, net: Any, x: Any) -> list[Array]:
    table = {p.name: p.asnumpy() for p in net.get_parameters()}
    return [table.get(v.name, x.asnumpy()) for v in graph.inputs]


@TARGETS
@pytest.mark.parametrize("width", [32, 24])
def test_the_interpreter_gives_the_same_after_the_pass(target: Target, width: int) -> None:
    net, x = network(width)
    graph = trace(net, (x,), {}).graph
    before = optimize(graph)
    after = copy_graph(before)
    assert Layout(target).run(after)
    verify(after)
    assert not Layout(target).run(after), "a second run changes something"
    ops_after = [n.op for n in after.nodes]
    whole = width % target.lanes(4) == 0  # else channels are joined in NCHW
    assert ("conv2d" not in ops_after) == whole
    assert ops_after.count("conv2d_blocked") == 4 + whole
    assert "to_blocked" not in ops_after
    again = parse_graph(print_graph(after))
    verify(again)
    given = parameters(graph, net, x)
    for a, b in zip(run(before, given, precise=True), run(after, given, precise=True),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [32, 24, 20])
def test_both_modes_give_the_same_bits(width: int) -> None:
    net, x = network(width)
    got = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        with _mode(mode):
            got.append([t.asnumpy() for t in net(x)])
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


class _mode:
    """A mode for a block."""

    def __init__(self, mode: int):
        self.mode = mode

    def __enter__(self) -> None:
        self.saved = ms.get_context("mode")
        ms.set_context(mode=self.mode)

    def __exit__(self, *_: object) -> None:
        ms.set_context(mode=self.saved)


def test_borders_are_written_by_the_tile_stores() -> None:
    net, x = network()
    graph = optimize(trace(net, (x,), {}).graph, target=AVX512)
    assert sum(n.op == "pad" for n in graph.nodes) == 4  # the input, and what 3x3 windows read
    labels = [i.label for i in lower(graph, AVX512).instructions]  # type: ignore[union-attr]
    assert any("conv2d_blocked" in label and "pad" in label for label in labels)
    assert "sub" not in labels and "relu" not in labels


def test_a_convolution_alone_among_other_ops_stays() -> None:
    """Little work, and both sides want NCHW: reorders would cost more than they give."""
    text = """graph g(%x: float32[1,32,32,32] input, %w: float32[32,32,1,1] param) {
      %0: float32[1,32,32,32] = conv2d(%x, %w) {stride=(1, 1), pads=(0, 0, 0, 0), dilation=(1, 1), groups=1}
      %1: float32[32,32,32] = reduce_sum(%0) {axes=(0,), keepdims=False}
      return %1
    }"""  # noqa: E501
    graph = parse_graph(text)
    assert not Layout(AVX512).run(graph)


def test_training_keeps_nchw() -> None:
    net, x = network()
    weights = ms.ParameterTuple(net.trainable_params())
    graph = trace(ms.grad(lambda v: net(v)[0].sum(), None, weights), (x,), {}).graph
    assert not Layout(AVX512).run(optimize(graph))


def test_a_pool_writes_the_border_itself() -> None:
    net, x = network()
    labels = [i.label for i in lower(optimize(trace(net, (x,), {}).graph, target=AVX512),
                                     AVX512).instructions]  # type: ignore[union-attr]
    assert "max_pool2d_blocked+pad" in labels
