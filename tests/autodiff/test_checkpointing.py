"""Gradients of loops whose number of trips only the run knows: bits, cost and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.compiled.traced import trace
from cellc_compiler import interpret
from cellc_compiler.autodiff import checkpointing
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.ir.graph import Graph, Node

from ..modes.law import mode


def plain(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    i = ops.zeros((), ms.int32)
    while i < n:
        x = ops.sin(x * w) + x * 0.9
        i = i + 1
    return (x * x).sum()


def shared(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    """What enters the loop is read inside it and after it, more than once."""
    y, z, i = x, w, ops.zeros((), ms.int32)
    while i < n:
        y, z = z * x + y * w - y * z, ops.tanh(y) + z * 0.3
        i = i + 1
    return (y * x + z).sum() + (x * w * w).sum()


def fibonacci(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    a, b, i = x, w, ops.zeros((), ms.int32)
    while i < n:
        a, b = b, a * 0.3 + ops.sin(b)
        i = i + 1
    return (a * b).sum()


def nested(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    i = ops.zeros((), ms.int32)
    while i < n:
        j = ops.zeros((), ms.int32)
        while j < i:
            x = ops.sin(x * w) + x * 0.2
            j = j + 1
        i = i + 1
        if x.sum() > 1:
            x = x * 0.5
    return x.sum()


def leaves(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    i = ops.zeros((), ms.int32)
    while i < n:
        x = x * w + 0.25
        if x.sum() > 4:
            return x.sum() * 2
        i = i + 1
    return (x * w).sum()


def ranged(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    for i in range(n):
        x = ops.sin(x * w) + i
    return x.mean()


def idle(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
    """A carried value that does not reach the result, and one that no step changes."""
    y, z, i = x * 2, w * 3, ops.zeros((), ms.int32)
    while i < n:
        y = y + x
        x = x * z + w
        i = i + 1
    return x.sum()


PROGRAMS = {f.__name__: f for f in (plain, shared, fibonacci, nested, leaves, ranged, idle)}


def arrays(count: int = 3) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(5)
    return tuple(Tensor((rng.random(count) + 0.2).astype(np.float32)) for _ in range(2))


def bits(found: Any) -> list[bytes]:
    """Values and gradients; a gradient that is zero because nothing was run may be -0.0."""
    value, grads = found
    return [(t.asnumpy() + 0).tobytes() for t in (value, *grads)]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches of three steps, so that few trips reach every level."""
    monkeypatch.setattr(checkpointing, "MAX_SEGMENT", 3)
    monkeypatch.setattr(checkpointing, "MIN_SEGMENT", 3)


@pytest.mark.parametrize("fn", PROGRAMS.values(), ids=PROGRAMS)
def test_the_bits_of_the_unrolled_loop(fn: Callable[..., Tensor], short: None) -> None:
    x, w = arrays()
    step = ms.value_and_grad(fn, (0, 1))
    compiled = ms.jit(step)
    for n in (0, 1, 2, 3, 4, 8, 9, 10, 11, 20, 29):
        with mode(ms.PYNATIVE_MODE):
            want = bits(step(x, w, Tensor(n, ms.int32)))
        with mode(ms.GRAPH_MODE):
            got = bits(compiled(x, w, Tensor(n, ms.int32)))
        assert got == want, n


def test_second_derivatives(short: None) -> None:
    x, w = arrays()

    def once(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
        return ms.grad(plain, (0, 1))(x, w, n)[1].sum()

    twice = ms.grad(once, (0, 1))
    compiled = ms.jit(twice)
    for n in (1, 4, 11):
        found = []
        for m, fn in ((ms.PYNATIVE_MODE, twice), (ms.GRAPH_MODE, compiled)):
            with mode(m):
                found.append([t.asnumpy() for t in fn(x, w, Tensor(n, ms.int32))])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5)


class Recurrent(nn.Cell):
    """Weights read in each step, and one that is assigned in it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Dense(4, 4)
        self.count = Parameter(np.zeros((), np.float32), name="count", requires_grad=False)

    def construct(self, x: Tensor, n: Tensor) -> Tensor:
        i = ops.zeros((), ms.int32)
        while i < n:
            x = ops.tanh(self.layer(x)) + x * 0.1
            self.count += 1
            i = i + 1
        return (x * x).sum() * self.count


def test_weights_and_assigned_parameters() -> None:
    x = Tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    net = Recurrent()
    step = ms.value_and_grad(net, 0, net.trainable_params())
    found = []
    for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(m):
            net.count.set_data(Tensor(0.0))
            value, (dx, dws) = step(x, Tensor(7, ms.int32))
            assert net.count.asnumpy() == 7
            found.append(bits((value, (dx, *dws))))
    assert found[0] == found[1]


def gradient_of_plain() -> Graph:
    x, w = arrays()
    traced = trace(plain, (x, w, Tensor(3, ms.int32)), {})
    return gradient_graph(traced.graph, [0, 1])


@pytest.mark.parametrize("k", [3, 128])
def test_cost_grows_linearly(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps run: twice to run and count, twice for checkpoints, once again when walked back."""
    monkeypatch.setattr(checkpointing, "MAX_SEGMENT", k)
    monkeypatch.setattr(checkpointing, "MIN_SEGMENT", k)
    graph = gradient_of_plain()
    runs: list[str] = []
    real = interpret.evaluate

    def counted(node: Node, *args: Any, **kwargs: Any) -> Any:
        runs.append(node.op)
        return real(node, *args, **kwargs)

    monkeypatch.setattr(interpret, "evaluate", counted)
    x, w = (t.asnumpy() for t in arrays())
    for n in (5, 9, 18) if k == 3 else (5, 40, 200):
        runs.clear()
        interpret.run(graph, [x, w, np.asarray(n, np.int32)])
        replays = sum(range(0, n, k * k))
        assert runs.count("sin") <= 5 * n + replays


def test_memory_does_not_grow_with_the_trips() -> None:
    x, w = arrays(1000)
    compiled = ms.jit(ms.value_and_grad(plain, (0, 1)))
    with mode(ms.GRAPH_MODE):
        compiled(x, w, Tensor(2, ms.int32))
        value, grads = compiled(x, w, Tensor(3000, ms.int32))
    assert np.isfinite(value.asnumpy())
    assert all(np.isfinite(g.asnumpy()).all() for g in grads)


def test_prints_of_a_loop_are_not_repeated(capfd: pytest.CaptureFixture[str]) -> None:
    def fn(x: Tensor, n: Tensor) -> Tensor:
        i = ops.zeros((), ms.int32)
        while i < n:
            print("step", i)
            x = x * x
            i = i + 1
        return x.sum()

    x = Tensor(np.ones(2, np.float32))
    with mode(ms.GRAPH_MODE):
        ms.jit(ms.grad(fn))(x, Tensor(3, ms.int32))
    assert capfd.readouterr().out.split("\n")[:-1] == ["step 0", "step 1", "step 2"]
