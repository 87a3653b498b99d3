"""Long static loops become one `scan`: the same bits and gradients as unrolled and as PyNative.

`ROLLED` programs must be rolled, `UNROLLED` ones must not (their trips differ in more than
numbers and rows); all of them must agree in the three ways of running them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.compiled.traced import trace
from cellc.lang import per_trip, rolling

from ..modes.law import mode

TRIPS = 12


def numbers(x, w):
    for i in range(TRIPS):
        x = x * 0.5 + i - w / (i + 1)
    return x.sum() * i


def reflected(x, w):
    for i in range(3, TRIPS + 3):
        x = 1.0 / (i * 0.25) - x * w + (i // 2 - 2**i % 7)
    return (x * w).sum()


def augmented(x, w):
    for i in range(TRIPS):
        x += i * w
        x *= 0.75
    return x.sum()


def unused(x, w):
    total = 0
    for _ in range(TRIPS):
        x = ops.tanh(x * w) + x * x * 0.1
        total = total + x.sum()
    return total


def rows(x, w):
    h = w[0]
    for row in x:
        h = ops.tanh(h * row + row) * 0.9 + h
    return h.sum() + (x * x).mean() + row.sum()


def indexed(x, w):
    h = w[0]
    for i in range(len(x)):
        h = ops.sin(h * x[i]) + x[i] * i
    return h.sum() + (x * x).sum()


def backwards(x, w):
    h = w[0]
    for i in range(len(x)):
        h = h * 0.5 + x[len(x) - 1 - i]
    return (h * h).sum()


def enumerated(x, w):
    for i, k in enumerate([0.5 * j for j in range(TRIPS)]):
        x = x * k + w * i
    return x.sum()


def several(x, w):
    a, b = x, w
    state = {"s": x * 0, "t": (w, [x + w])}
    for i in range(TRIPS):
        a, b = b, a * 0.3 + ops.sin(b) * i
        state = {"s": state["s"] + a, "t": (state["t"][0] * 0.5, [b])}
    return (a * b + state["s"] * state["t"][0] + state["t"][1][0]).sum()


def branches(x, w):
    for i in range(TRIPS):
        if x.sum() > 1:
            x = x * 0.5 + i
        else:
            x = x * w - i
    return x.sum()


def run_time_inside(x, w):
    for _ in range(TRIPS):
        n = ops.zeros((), ms.int32)
        while x.sum() + n < 4:
            n = n + 1
        x = x * w + n * 0.01
    return x.sum()


def nested(x, w):
    for i in range(TRIPS):
        for j in range(TRIPS):
            x = x * 0.9 + j * w
        x = x - i
    return x.sum()


def helper(x, w, i):
    return x * (i + 1) * 0.1 + w


def called(x, w):
    step = lambda v, k: ops.sin(v) - k  # noqa: E731
    for i in range(TRIPS):
        x = step(helper(x, w, i), i * 0.5)
    return x.sum()


def derived(x, w):
    for i in range(TRIPS):
        k = i * 2 - 1
        x = x * 0.9 + k * w
    return x.sum() + k


def whole_row(x, w):
    """Each row is read three times, and the tensor after the loop."""
    h = w[0] * 0
    for row in x:
        h = (h + row * row) * row * 0.5
    return h.sum() + (x * x * x).sum()


def integers(x, w):
    n = ops.ones((3,), ms.int32)
    for i in range(TRIPS):
        n = n * 3 + i
    return (x.sum() + n.sum()) * w.sum()


def after(x, w):
    """The loop is one of two readers, its variable and a closure live on."""
    y = x
    for i in range(TRIPS):
        y = y * w + i
    def use(k):
        return y * k
    return use(i).sum() + (x * w).sum()


def dead_row(x, w):
    """The row is not read after the loop, but a condition follows that could carry it."""
    h = w[0]
    for row in x:
        h = h * 0.5 + row
        row = h * 2
    if h.sum() > 0:
        row = h
        h = row * 2
    return h.sum()


def replaced_row(x, w):
    for row in x:
        row = row * w[0]
    return row.sum() + x.sum()


def written_row(x, w):
    for row in x:
        row += w[0]
    return row.sum()


ROLLED = [dead_row, replaced_row, written_row, numbers, reflected, augmented, unused,
          rows, indexed, backwards, enumerated, several,
          branches, run_time_inside, nested, called, derived, whole_row, integers, after]


def compares(x, w):
    for i in range(TRIPS):
        x = x * w if i % 2 == 0 else x + i
    return x.sum()


def leaves(x, w):
    for i in range(TRIPS):
        x = x * w + i
        if x.sum() > 40:
            break
    return x.sum()


def grows(x, w):
    found = []
    for i in range(TRIPS):
        x = x * w
        found.append(x * i)
    return sum(f.sum() for f in found)


def counts(x, w):
    n = 0
    for i in range(TRIPS):
        x = x * w + n
        n = n + i
    return x.sum() * n


def text(x, w):
    names = {"0": 2.0}
    for i in range(TRIPS):
        x = x * w + names.get(f"{i % 2}", 1.0)
    return x.sum()


def shapes(x, w):
    for i in range(TRIPS):
        x = x * w + ops.ones((i + 1, 3), ms.float32).sum()
    return x.sum()


def passed(x, w):
    for i in range(TRIPS):
        x = ops.pow(x * x + 1, i) * 1e-3 + ops.add(w, i)
    return x.sum()


def powers(x, w):
    for i in range(TRIPS):
        x = (x * 0.5) ** i + w
    return x.sum()


def neighbours(x, w):
    h = w[0]
    for i in range(len(x)):
        h = h * x[i] + x[i - 1]
    return h.sum() + (x * x).sum()


def whole(x, w):
    h = w[0]
    for row in x:
        h = h * row + x.mean()
    return h.sum()


def previous(x, w):
    last = 0
    for i in range(TRIPS):
        x = x * w + last
        last = i
    return x.sum()


def grown(x, w):
    y = w
    for _ in range(5):
        y = ops.concat((y, w))
    return y.sum() * x.sum()


UNROLLED = [compares, leaves, grows, counts, text, shapes, passed, powers, neighbours, whole,
            previous, grown]


def arrays() -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(2)
    return (Tensor(rng.uniform(-1, 1, (TRIPS, 3)).astype(np.float32)),
            Tensor(rng.uniform(0.2, 0.9, (2, 3)).astype(np.float32)))


def inputs(fn: Callable[..., Any]) -> tuple[Tensor, Tensor]:
    x, w = arrays()
    by_row = fn in (dead_row, replaced_row, written_row, rows,
                    indexed, backwards, whole_row, neighbours, whole)
    return (x, w) if by_row else (x[:2].copy(), w)


def bits(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [bits(v) for v in value]
    return (value.asnumpy() + 0).tobytes() if isinstance(value, Tensor) else value


@pytest.fixture(autouse=True)
def eager_to_roll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "SHORTEST", 4)
    monkeypatch.setattr(rolling, "LEAST_NODES", 1)


def loops_of(fn: Callable[..., Any]) -> list[str]:
    return [n.op for n in trace(fn, inputs(fn), {}).graph.nodes if n.op == "scan"]


@pytest.mark.parametrize("fn", ROLLED, ids=lambda f: f.__name__)
def test_rolled(fn: Callable[..., Any]) -> None:
    assert loops_of(fn) == ["scan"] * (2 if fn is nested else 1)  # (its first trip is one)


@pytest.mark.parametrize("fn", UNROLLED, ids=lambda f: f.__name__)
def test_unrolled(fn: Callable[..., Any]) -> None:
    assert loops_of(fn) == []


@pytest.mark.parametrize("fn", [*ROLLED, *UNROLLED], ids=lambda f: f.__name__)
def test_bits(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = inputs(fn)
    step = ms.value_and_grad(fn, (0, 1))
    with mode(ms.GRAPH_MODE):
        rolled = bits((ms.jit(fn)(x, w), ms.jit(step)(x, w)))
    with mode(ms.PYNATIVE_MODE):
        eager = bits((fn(x, w), step(x, w)))
    monkeypatch.setattr(rolling, "SHORTEST", 10**9)
    with mode(ms.GRAPH_MODE):
        unrolled = bits((ms.jit(lambda x, w: fn(x, w))(x, w), ms.jit(
            lambda x, w: ms.value_and_grad(fn, (0, 1))(x, w))(x, w)))
    assert rolled == eager
    assert unrolled == eager


class Shared(nn.Cell):
    """Weights of its own, a moving value that each trip assigns, and random draws."""

    def __init__(self, trips: int, dropout: bool = False) -> None:
        super().__init__()
        self.trips = trips
        self.layer = nn.Dense(4, 4, activation="tanh")
        self.mean = Parameter(np.zeros(4, np.float32), name="mean", requires_grad=False)
        self.drop = nn.Dropout(p=0.3) if dropout else None

    def construct(self, x):
        for i in range(self.trips):
            x = self.layer(x) + x * 0.1
            if self.drop is not None:
                x = self.drop(x)
            self.mean = self.mean * 0.9 + x.mean(axis=0) * i
        return (x * self.mean).sum()


@pytest.mark.parametrize("dropout", [False, True])
def test_weights_and_state(dropout: bool) -> None:
    net = Shared(9, dropout)
    net.set_train()
    x = Tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))
    step = ms.value_and_grad(net, 0, net.trainable_params())
    found = []
    for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        with mode(m):
            ms.set_seed(3)
            net.mean.set_data(Tensor(np.zeros(4, np.float32)))
            value, (dx, dws) = step(x)
            found.append([bits(value), bits(dx), bits(list(dws)), bits(net.mean)])
    assert found[0] == found[1]
    with mode(ms.GRAPH_MODE):
        assert [n.op for n in trace(net, (x,), {}).graph.nodes].count("scan") == 1


def test_the_graph_does_not_grow_with_the_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the graph and the number of statements interpreted stay the same."""
    monkeypatch.undo()
    x = Tensor(np.ones((2, 4), np.float32))
    sizes = []
    for trips in (100, 1000, 10000):
        net = Shared(trips)
        sizes.append(sum(1 for _ in trace(net, (x,), {}).graph.walk()))
    assert sizes[0] == sizes[1] == sizes[2] < 100


def test_short_loops_stay_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert loops_of(numbers) == []
    assert rolling.SHORTEST > 16


def test_second_derivatives() -> None:
    x, w = inputs(numbers)

    def fn(x, w):
        for i in range(TRIPS):
            x = ops.sin(x * w) + x * 0.1 * i
        return x.sum()

    twice = ms.grad(lambda x, w: (ms.grad(fn, (0, 1))(x, w)[1] * x).sum(), (0, 1))
    with mode(ms.PYNATIVE_MODE):
        eager = twice(x, w)
    with mode(ms.GRAPH_MODE):
        rolled = ms.jit(twice)(x, w)
    for a, b in zip(eager, rolled, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-4)


def test_prints_keep_their_order(capfd: pytest.CaptureFixture[str]) -> None:
    def fn(x):
        for _ in range(5):
            x = x + 1
            print("x is", x)
        return x

    with mode(ms.GRAPH_MODE):
        ms.jit(fn)(Tensor(np.float32(0)))
    assert capfd.readouterr().out.split("\n")[:-1] == [f"x is {k}.0" for k in range(1, 6)]


def test_an_error_in_a_later_trip_is_that_of_the_unrolled_loop() -> None:
    def fn(x):
        for i in range(TRIPS):
            x = x + [1.0, 2.0, 3.0][i]
        return x

    with mode(ms.GRAPH_MODE), pytest.raises(IndexError, match="list index out of range"):
        ms.jit(fn)(Tensor(np.float32(0)))


@pytest.mark.parametrize("error", [KeyError, AssertionError, RuntimeError])
def test_a_fault_of_the_tracer_is_not_hidden(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise error("broken")

    monkeypatch.setattr(rolling.regions, "close_scan", broken)
    with mode(ms.GRAPH_MODE), pytest.raises(error, match="broken"):
        ms.jit(numbers)(*inputs(numbers))


def test_a_broken_invariant_in_the_body_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {"__name__": "cellc.lang.per_trip"}  # (whose assertion it seems to be)
    exec("def applied(*_): raise AssertionError('broken')", scope)
    monkeypatch.setattr(per_trip, "applied", scope["applied"])
    with mode(ms.GRAPH_MODE), pytest.raises(AssertionError, match="broken"):
        ms.jit(numbers)(*inputs(numbers))
