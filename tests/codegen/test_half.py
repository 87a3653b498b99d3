"""Networks of 16-bit floats: fused as float32's are, with the bits of op by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import driver
from cellc_compiler.backends.attention import AttentionFinder
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.lower.instructions import Call, walk
from cellc_runtime.target import AVX2, AVX512, host_targets

from ..modes.law import MODES, assert_same, mode
from .plans import run_calls, x86_targets
from .test_attention import SHAPES, arrays, attention, fused

HALVES = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
NUMPY: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
NEAR = {"float16": 4e-3, "bfloat16": 3e-2}


def labels(graph: Graph, target: Any = AVX512) -> list[str]:
    """What runs in each call of a graph."""
    lowered = driver.lower(driver.optimize(graph, target=target), target)
    return [i.label for i in walk(lowered.instructions) if isinstance(i, Call)]


def both_modes(make: Callable[[], Any], *inputs: Any) -> list[list[Any]]:
    """The results of a network in each mode, as arrays."""
    got = []
    for m in MODES:
        with mode(m):
            ms.set_seed(1)
            out = make()(*inputs)
            out = out if isinstance(out, (tuple, list)) else [out]
            got.append([np.array(t._data) for t in out])
    return got


def narrow(net: Any, dtype: str) -> Any:
    """The network with parameters of this type, for inference."""
    for p in net.get_parameters():
        p.set_dtype(getattr(ms, dtype))
    return net.set_train(False)


def near(got: Any, want: Any, dtype: str) -> None:
    """Within some roundings of what float64 gives, by the size of the whole."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert np.abs(got - want).max() <= NEAR[dtype] * np.abs(want).max()


class Images(nn.Cell):
    """Convolutions of all kinds that are blocked, with what stands between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, 2, pad_mode="pad", padding=1)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1)
        self.conv = nn.Conv2d(32, 32, 3, has_bias=True)
        self.norm = nn.BatchNorm2d(32)
        self.deep = nn.Conv2d(32, 32, 3, group=32)
        self.groups = nn.Conv2d(32, 32, 3, group=8)
        self.up = nn.Conv2dTranspose(64, 24, 2, 2, has_bias=True)
        self.last = nn.Conv2d(24, 40, 1)

    def construct(self, x: Any) -> Any:
        x = self.pool(ops.relu(self.first(x)))
        y = ops.relu(self.norm(self.conv(x)) + x)
        z = ops.sigmoid(self.deep(y)) * ops.relu(self.groups(y))
        y = self.last(ops.relu(self.up(ops.concat((y, z), 1))))
        return ops.mean(y, (2, 3)), y


def image(dtype: str) -> Any:
    x = np.random.default_rng(0).standard_normal((1, 3, 35, 38)).astype(np.float32)
    return ms.Tensor(x).astype(getattr(ms, dtype))


@HALVES
def test_images_are_blocked_and_keep_their_bits(dtype: str) -> None:
    x = image(dtype)
    one, two = both_modes(lambda: narrow(Images(), dtype), x)
    assert_same(two, one)
    ms.set_seed(1)
    net = narrow(Images(), dtype)
    graph = trace(net, (x,), {}).graph
    for target in (AVX512, AVX2):
        optimized = driver.optimize(graph, target=target)
        found = [n.op for n in optimized.nodes]
        assert found.count("conv2d_blocked") == 6 and "conv2d" not in found
    for label in labels(graph):  # what is elementwise is done where images are stored
        assert label.split("+")[0] not in ("relu", "sub", "add", "mul"), label
    table = {p.name: np.array(p._data) for p in net.get_parameters()}
    given = [table.get(v.name, np.array(x._data)) for v in graph.inputs]
    for a, b in zip(one, run(graph, given, precise=True), strict=True):
        near(a, b, dtype)


def test_mixed_precision_keeps_images_blocked() -> None:
    """Casts between a convolution and a normalisation that stays float32 are part of the stores."""
    x = image("float32")

    def make() -> Any:
        return ms.amp.auto_mixed_precision(Images(), "O2", ms.bfloat16).set_train(False)

    one, two = both_modes(make, x)
    assert_same(two, one)
    found = [n.op for n in driver.optimize(trace(make(), (x,), {}).graph, target=AVX512).nodes]
    assert "conv2d" not in found


class Layers(nn.Cell):
    """Dense layers with what belongs in their tile stores."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Dense(width, hidden), nn.Dense(hidden, width)

    def construct(self, x: Any) -> Any:
        y = x + self.narrow(ops.gelu(self.wide(x), "tanh"))
        return y, ops.relu(self.wide(y)).astype(ms.float32) * 2


@HALVES
@pytest.mark.parametrize("shape", [(1, 7, 5), (40, 48, 130), (130, 20, 600)],
                         ids=str)
def test_epilogues_of_products(dtype: str, shape: tuple[int, int, int]) -> None:
    rows, width, hidden = shape
    x = np.random.default_rng(2).standard_normal((rows, width)).astype(np.float32)
    x = ms.Tensor(x).astype(getattr(ms, dtype))
    one, two = both_modes(lambda: narrow(Layers(width, hidden), dtype), x)
    assert_same(two, one)
    graph = trace(narrow(Layers(width, hidden), dtype), (x,), {}).graph
    assert all(label.startswith("matmul+") for label in labels(graph)), labels(graph)


@HALVES
def test_training_steps(dtype: str) -> None:
    """Mixed precision: gradients, updates of float32 weights."""
    rng = np.random.default_rng(4)
    x = ms.Tensor(rng.standard_normal((24, 20)).astype(np.float32))
    t = ms.Tensor(rng.standard_normal((24, 20)).astype(np.float32))

    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = ms.amp.auto_mixed_precision(
                nn.SequentialCell([nn.Dense(20, 70), nn.ReLU(), nn.Dense(70, 20)]), "O2",
                getattr(ms, dtype))

        def construct(self, x: Any, t: Any) -> Any:
            return ops.mean((self.net(x) - t) ** 2)

    results = []
    for m in MODES:
        with mode(m):
            ms.set_seed(3)
            net = Loss()
            step = nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9))
            losses = [np.array(step(x, t)._data) for _ in range(4)]
            results.append([*losses, *(np.array(p._data) for p in net.trainable_params())])
    assert_same(results[1], results[0])
    assert results[0][3] < results[0][0]


@HALVES
@pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[3]], ids=str)
def test_attention_by_rows(shape: tuple[int, ...], target: Any, dtype: str,
                           monkeypatch: pytest.MonkeyPatch) -> None:
    graph, inputs = attention(shape, dtype), arrays(shape, NUMPY[dtype])
    inputs[0][0, 0, 0], inputs[2][0, 1, 0] = np.inf, np.nan
    assert fused(graph, target)
    optimized = driver.optimize(graph)
    one = run_calls(optimized, target, inputs)
    monkeypatch.setattr(AttentionFinder, "find", lambda self: {})
    assert not fused(graph, target)
    assert_same(one, run_calls(optimized, target, inputs))


def test_a_product_may_store_another_type() -> None:
    text = """graph g(%x: bfloat16[9,40] input, %w: bfloat16[40,21] param, %b: float32[21] param) {
      %0: bfloat16[9,21] = matmul(%x, %w) {transpose_a=False, transpose_b=False}
      %1: float32[9,21] = cast(%0) {dtype=dtype.float32}
      %2: float32[9,21] = add(%1, %b) {}
      return RETURNED
    }"""
    fused_graph = parse_graph(text.replace("RETURNED", "%2"))
    apart = parse_graph(text.replace("RETURNED", "%2, %0"))
    assert len(labels(fused_graph)) == 1 < len(labels(apart))
    rng = np.random.default_rng(6)
    given = [rng.standard_normal(v.shape).astype(v.dtype.numpy) for v in fused_graph.inputs]
    target = host_targets()[0]
    (got,) = driver.compile_graph(fused_graph, target)(given)
    want = driver.compile_graph(apart, target)(given)[0]
    assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize("target", x86_targets(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint16"])
def test_small_elements_are_gathered_by_words(dtype: str, target: Any) -> None:
    """Columns that become rows of a larger matrix: no element is read by itself, nothing outside
    (23 * 37 elements are no whole number of words)."""
    graph = parse_graph("""graph g(%x: T[23,37] input, %y: T[40,30] input) {
      %0: T[37,23] = transpose(%x) {perm=(1, 0)}
      %1: T[40,30] = pad(%0) {low=(1, 3), high=(2, 4), interior=None, value=0}
      %2: T[40,30] = add(%1, %y) {}
      return %2
    }""".replace("T[", f"{dtype}["))
    optimized = driver.optimize(graph)
    (kernel,) = [i.kernel for i in walk(driver.lower(optimized, target).instructions)
                 if isinstance(i, Call)]
    assert "masked.gather.v" in kernel.code and "x i16> @llvm.masked.gather" not in kernel.code
    rng = np.random.default_rng(7)
    number: Any = graph.inputs[0].dtype.numpy
    for odd in (0, 1):  # the first element may lie in the middle of a word
        x = rng.integers(0, 60, 23 * 37 + odd).astype(number)[odd:].reshape(23, 37)
        y = rng.integers(0, 60, (40, 30)).astype(number)
        want = y + np.pad(x.T, ((1, 2), (3, 4)))
        if dtype.endswith("float16"):  # up to unreadable pages
            assert np.array_equal(run_calls(optimized, target, [x, y])[0], want)
        assert np.array_equal(driver.compile_graph(graph, target)([x, y])[0], want)
