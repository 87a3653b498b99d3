"""The layout pass: what is blocked, where reorders stand, and that no bit changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler.backends.cpu.passes.layout import Layout
from cellc_compiler.driver import lower, optimize
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.base import copy_graph
from cellc_runtime.target import AVX2, AVX512, NEON, Target

from ..modes.law import MODES, mode

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
    whole = width % target.lanes(4) == 0  # else channels move to other places in their blocks
    assert "conv2d" not in ops_after and ops_after.count("conv2d_blocked") == 5
    assert ("regroup_blocked" in ops_after) == (not whole)
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
    for m in MODES:
        with mode(m):
            got.append([t.asnumpy() for t in net(x)])
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


class Chain(nn.Cell):
    """What stands between convolutions: a chain on one pixel, splits, averages, long
    concatenations."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.first = nn.Conv2d(3, width, 3, has_bias=True)
        self.down = nn.Conv2d(width, 8, 1, has_bias=True)
        self.up = nn.Conv2d(8, width, 1, has_bias=True)
        self.small = nn.Conv2d(width // 4, width // 4, 3, group=width // 4)
        self.large = nn.Conv2d(width - width // 4, width - width // 4, 5, group=width - width // 4)
        self.pool = nn.AvgPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1)
        self.last = nn.Conv2d(5 * width, 16, 3)

    def construct(self, x):
        y = ops.silu(self.first(x))
        y = y * ops.sigmoid(self.up(ops.relu(self.down(ops.mean(y, (2, 3), True)))))
        a, b = y[:, : self.width // 4], y[:, self.width // 4:]
        y = ops.concat((self.small(a), self.large(b)), 1)
        y = self.pool(y)
        return self.last(ops.concat((y, y + 1, y, ops.relu(y), y), 1))


@pytest.mark.parametrize("width", [64, 60, 40])
def test_images_stay_blocked_between_convolutions(width: int) -> None:
    ms.set_seed(2)
    net = Chain(width).set_train(False)
    x = ms.Tensor(np.random.default_rng(3).standard_normal((2, 3, 23, 26)).astype(np.float32))
    graph = trace(net, (x,), {}).graph
    before, after = optimize(graph), optimize(graph, target=AVX512)
    verify(after)
    names = [n.op for n in after.nodes]
    assert names.count("from_blocked") == 1 and "to_blocked" not in names
    assert {"pixel_sum_blocked", "avg_pool2d_blocked", "regroup_blocked"} <= set(names)
    given = parameters(graph, net, x)
    for a, b in zip(run(before, given, precise=True), run(after, given, precise=True),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)
    got = []
    for m in MODES:
        with mode(m):
            got.append(net(x).asnumpy())
    np.testing.assert_array_equal(*(y.view(np.uint32) for y in got))


class Tokens(nn.Cell):
    """Convolutions on tokens, whose channels are the last axis."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.conv = nn.Conv2d(width, width, 3, group=width)
        self.norm = nn.LayerNorm((width,))
        self.dense = nn.Dense(width, width)

    def construct(self, x):
        y = ops.reshape(ops.transpose(x, (0, 2, 1)), (2, self.width, 9, 11))
        y = ops.transpose(self.conv(y), (0, 2, 3, 1))
        return self.dense(self.norm(y))


@pytest.mark.parametrize("width", [64, 72])
def test_tokens_are_blocked_without_a_transposition(width: int) -> None:
    ms.set_seed(4)
    net = Tokens(width).set_train(False)
    x = ms.Tensor(np.random.default_rng(5).standard_normal((2, 99, width)).astype(np.float32))
    after = optimize(trace(net, (x,), {}).graph, target=AVX512)
    names = [n.op for n in after.nodes]
    assert "to_blocked" in names and "from_blocked" in names
    assert all(n.attrs["last"] for n in after.nodes if n.op in ("to_blocked", "from_blocked"))
    assert not any(n.op == "transpose" and n.operands[0].type.size == x.size for n in after.nodes)
    got = []
    for m in MODES:
        with mode(m):
            got.append(net(x).asnumpy())
    np.testing.assert_array_equal(*(y.view(np.uint32) for y in got))


def test_silu_before_a_border_is_computed_by_the_tile_stores() -> None:
    """x is read twice, by the logistic function and by the product, and stored nowhere."""
    ms.set_seed(6)
    net = nn.SequentialCell(nn.Conv2d(32, 32, 1), nn.SiLU(), nn.Conv2d(32, 32, 3)).set_train(False)
    x = ms.Tensor(np.ones((1, 32, 28, 28), np.float32))
    graph = optimize(trace(net, (x,), {}).graph, target=AVX512)
    labels = [i.label for i in lower(graph, AVX512).instructions]  # type: ignore[union-attr]
    assert any(label.startswith("conv2d_blocked+") and "pad" in label for label in labels)
    assert not any(label.startswith(("pad", "sigmoid", "mul")) for label in labels)


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


@TARGETS
def test_a_border_of_other_sides_is_left_out_where_nchw_is_read(target: Target) -> None:
    attrs = "{stride=(1, 1), pads=(0, 2, 2, 0), dilation=(1, 1), groups=1}"
    before = parse_graph(f"""graph g(%x: float32[1,32,9,11] input, %w: float32[32,32,3,3] param) {{
      %0: float32[1,32,9,11] = conv2d(%x, %w) {attrs}
      %1: float32[1,32,9,11] = relu(%0) {{}}
      %2: float32[1,32,9,11] = conv2d(%1, %w) {attrs}
      return %1, %2
    }}""")
    after = copy_graph(before)
    assert Layout(target).run(after)
    assert [n.op for n in after.nodes].count("conv2d_blocked") == 2
    rng = np.random.default_rng(5)
    given = [rng.standard_normal(v.shape).astype(np.float32) for v in before.inputs]
    for a, b in zip(run(before, given, precise=True), run(after, given, precise=True),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


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


class Decoder(nn.Cell):
    """A level of a U-Net: a transposed convolution whose windows tile, joined with what is before
    the pool. Both meet a 3 x 3 convolution."""

    def __init__(self, low: int = 64, up: int = 32, skip: int = 32, window: Any = 2,
                 has_bias: bool = True):
        super().__init__()
        self.enter = nn.Conv2d(3, skip, 3, has_bias=True)
        self.pool = nn.MaxPool2d(kernel_size=window, stride=window)
        self.down = nn.Conv2d(skip, low, 3)
        self.up = nn.Conv2dTranspose(low, up, window, window, has_bias=has_bias,
                                     bias_init="normal")
        self.merge = nn.Conv2d(skip + up, skip, 3)

    def construct(self, x):
        x = ops.relu(self.enter(x))
        low = ops.relu(self.down(self.pool(x)))
        return self.merge(ops.concat((x, ops.relu(self.up(low))), 1))


DECODERS: dict[str, dict[str, Any]] = {
    "2": {}, "no bias": {"has_bias": False}, "3": {"window": 3}, "2 by 1": {"window": (2, 1)},
    "channels that fill no block": {"low": 24, "up": 20, "skip": 16},
    "wide": {"low": 48, "up": 128, "skip": 16},
}


def decoder(name: str, n: int = 2) -> tuple[Any, Any]:
    ms.set_seed(2)
    net = Decoder(**DECODERS[name]).set_train(False)
    x = np.random.default_rng(1).standard_normal((n, 3, 18, 24)).astype(np.float32)
    return net, ms.Tensor(x)


@TARGETS
@pytest.mark.parametrize("name", DECODERS)
def test_transposed_convolutions_write_blocked_images(name: str, target: Target) -> None:
    net, x = decoder(name)
    graph = trace(net, (x,), {}).graph
    before = optimize(graph)
    after = copy_graph(before)
    assert Layout(target).run(after)
    verify(after)
    spread = [n.attrs["spread"] for n in after.nodes if n.op == "conv2d_blocked"]
    if "no block" not in name:  # else it may cost more than it gives
        assert len(spread) == 4 and sum(s != (1, 1) for s in spread) == 1
        assert "conv2d_backward_data" not in {n.op for n in after.nodes}
    verify(parse_graph(print_graph(after)))
    given = parameters(graph, net, x)
    for a, b in zip(run(before, given, precise=True), run(after, given, precise=True),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("n", [1, 3])
def test_transposed_convolutions_keep_their_bits(name: str, n: int) -> None:
    net, x = decoder(name, n)
    got = []
    for m in MODES:
        with mode(m):
            got.append(net(x).asnumpy())
    np.testing.assert_array_equal(got[0].view(np.uint32), got[1].view(np.uint32))


def test_what_is_joined_has_the_border_of_the_whole() -> None:
    """The 3 x 3 convolution behind the join needs a border: no copy of the join adds it."""
    net, x = decoder("2")
    graph = optimize(trace(net, (x,), {}).graph, target=AVX512)
    joined = next(n for n in graph.nodes if n.op == "join")
    assert joined.result.shape[2:4] == (20, 26)
    assert not any(n.op == "pad" and joined.result in n.operands for n in graph.nodes)


def test_overlapping_windows_stay_nchw() -> None:
    net = nn.SequentialCell([nn.Conv2d(3, 32, 3), nn.Conv2dTranspose(32, 32, 4, 2)])
    x = ms.Tensor(np.ones((1, 3, 12, 12), np.float32))
    graph = optimize(trace(net.set_train(False), (x,), {}).graph)
    Layout(AVX512).run(graph)
    assert "conv2d_backward_data" in {n.op for n in graph.nodes}


class Grouped(nn.Cell):
    """Groups that fill blocks, and groups of which blocks hold several (or that do neither)."""

    def __init__(self, groups: tuple[int, int], channels: int = 32):
        super().__init__()
        self.first = nn.Conv2d(8, channels, 1)
        self.middle = nn.Conv2d(channels, channels, 3, group=groups[0])
        self.wide = nn.Conv2d(channels, 2 * channels, 3, 2, group=groups[1])
        self.last = nn.Conv2d(2 * channels, channels, 1)

    def construct(self, x):
        x = ops.relu(self.first(x))
        return self.last(ops.relu(self.wide(ops.relu(self.middle(x)) + x)))


def grouped_image() -> Any:
    x = np.random.default_rng(4).standard_normal((1, 8, 28, 31)).astype(np.float32)
    return ms.Tensor(x)


@TARGETS
def test_grouped_convolutions_are_blocked(target: Target) -> None:
    x = grouped_image()
    net = Grouped((8, 2)).set_train(False)
    graph = trace(net, (x,), {}).graph
    before, after = optimize(graph), optimize(graph, target=target)
    found = [n.op for n in after.nodes]
    assert found.count("conv2d_blocked") == 4 and "conv2d" not in found
    verify(parse_graph(print_graph(after)))
    given = parameters(graph, net, x)
    for a, b in zip(run(before, given, precise=True), run(after, given, precise=True),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    odd = trace(Grouped((4, 1), 24).set_train(False), (x,), {}).graph  # six channels of a group
    assert [n.op for n in optimize(odd, target=target).nodes].count("conv2d") == 1


def test_grouped_convolutions_have_the_same_bits_in_both_modes() -> None:
    x = grouped_image()
    for groups in ((8, 2), (2, 1)):
        net, got = Grouped(groups).set_train(False), []
        for m in MODES:
            with mode(m):
                got.append(net(x).asnumpy())
        np.testing.assert_array_equal(got[0].view(np.uint32), got[1].view(np.uint32))


class Branching(nn.Cell):
    """Convolutions in a branch that the run chooses, and in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.SequentialCell(nn.Conv2d(32, 48, 3), nn.ReLU(), nn.Conv2d(48, 32, 3))
        self.other = nn.Conv2d(32, 32, 3)

    def construct(self, x):
        if x.sum() > 0:
            x = self.body(x) + x
        else:
            x = self.other(x)
        while x.sum() < 50:
            x = ops.abs(self.other(x)) + 0.1
        return x


def test_branches_and_loops_are_blocked_too() -> None:
    ms.set_seed(2)
    net = Branching().set_train(False)
    images = np.random.default_rng(1).standard_normal((3, 1, 32, 9, 11)).astype(np.float32)
    given = [ms.Tensor(images[0] + 1), ms.Tensor(images[1] - 1), ms.Tensor(images[2] * 1e-3)]
    graph = optimize(trace(net, (given[0],), {}).graph)
    assert Layout(AVX512).run(graph)
    verify(graph)
    found = [n.op for n in graph.walk()]
    assert "conv2d" not in found and found.count("conv2d_blocked") == 4
    results = []
    for each in MODES:
        with mode(each):
            results.append([net(x).asnumpy().tobytes() for x in given])
    assert results[0] == results[1]
