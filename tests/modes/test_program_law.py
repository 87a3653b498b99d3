"""The law of two modes for programs: control flow, assigned parameters, dropout, training steps.

PyNative mode lets Python run the control flow; graph mode compiles it to `cond`, `while` and
`scan`. Results, parameters and the generator's state must agree to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, ops
from cellc.nn.cell import Cell

from .law import assert_same, in_both_modes, law, parameter, tensor

PROGRAMS: list[Callable[..., Any]] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one float32[4,5] tensor, with float results."""
    PROGRAMS.append(fn)
    return fn


@program
def branch(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = ops.tanh(x) * 2
    else:
        y = ops.exp(x)
    return y + x


@program
def nested_branches(x: Tensor) -> Tensor:
    y = x
    if x.mean() > 0:
        if x[0, 0] > 1:
            y = y * 3
        else:
            y = ops.sigmoid(y)
        y = y - x
    elif x.sum() < -3:
        return ops.abs(x)
    return y * x


@program
def while_loop(x: Tensor) -> Tensor:
    while ops.abs(x).sum() > 4.0:
        x = x * 0.7 - 0.01
    return x


@program
def while_with_index(x: Tensor) -> Tensor:
    i = Tensor(0, ms.int32)
    total = ops.zeros_like(x)
    while i < 5:
        total = total + ops.sin(x * i)
        i = i + 1
    return total / i


@program
def for_over_range(x: Tensor) -> Tensor:
    for i in range(4):
        x = ops.tanh(x) + i * 0.1
    return x


@program
def for_over_rows(x: Tensor) -> Tensor:
    carry = ops.zeros_like(x[0])
    for row in x:
        carry = ops.tanh(carry * 0.5 + row)
    return carry


@program
def break_and_continue(x: Tensor) -> Tensor:
    total = x.sum()
    for i in range(8):
        if total > 20:
            break
        if i % 3 == 1:
            continue
        total = total * 1.5 + ops.abs(x).max()
    return total


@program
def branch_inside_loop(x: Tensor) -> Tensor:
    s = x
    for i in range(5):
        if s.mean() > 0:
            s = s - ops.square(x) * 0.1
        else:
            s = s + ops.exp(-ops.abs(x)) * i
    return s


@program
def several_results(x: Tensor) -> Any:
    if x.sum() > 0:
        a, b = ops.softmax(x, axis=-1), x.max()
    else:
        a, b = ops.log_softmax(x, axis=-1), x.min()
    return {"a": a, "b": [b, a.sum(axis=0)]}


@program
def views_and_writes(x: Tensor) -> Tensor:
    y = x.reshape(2, 10).transpose((1, 0))
    y = ops.concat([y[:5], y[5:] * 2], axis=1)
    y[1:3] = y[0] + 1
    return (y @ y.T).mean(axis=1)


POSITIVE = tensor(4, 5, seed=1, low=-0.5, high=2.0)
NEGATIVE = tensor(4, 5, seed=2, low=-2.0, high=0.5)
MIXED = tensor(4, 5, seed=3)
INPUTS = [pytest.param(x, id=i) for i, x in
          (("positive", POSITIVE), ("negative", NEGATIVE), ("mixed", MIXED))]


@pytest.mark.parametrize("x", INPUTS)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_forward(fn: Callable[..., Any], x: Tensor) -> None:
    law(lambda: ms.jit(fn) if ms.get_context("mode") == ms.GRAPH_MODE else fn, x)


@pytest.mark.parametrize("x", INPUTS)
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_gradient(fn: Callable[..., Any], x: Tensor) -> None:
    law(lambda: ms.value_and_grad(fn), x)


# --- Cells ---------------------------------------------------------------------------------------


class Dense(Cell):
    def __init__(self, n_in: int, n_out: int, seed: int) -> None:
        super().__init__()
        self.weight = parameter(n_in, n_out, name="weight", seed=seed)
        self.bias = parameter(n_out, name="bias", seed=seed + 1)

    def construct(self, x: Tensor) -> Tensor:
        return ops.matmul(x, self.weight) + self.bias


class Net(Cell):
    """Two layers with dropout, a running mean, and a branch on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Dense(5, 16, 10)
        self.second = Dense(16, 3, 20)
        self.mean = Parameter(Tensor(np.zeros(16, np.float32)), name="mean", requires_grad=False)
        self.steps = Parameter(Tensor(0, ms.int32), name="steps", requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        h = ops.gelu(self.first(x))
        self.mean = self.mean * 0.9 + h.mean(axis=0) * 0.1
        self.steps += 1
        if self.steps % 2 == 0:
            h = h - self.mean
        h = ops.dropout(h, p=0.3, training=True)
        return self.second(h)


class Train(Cell):
    """One step of gradient descent with momentum."""

    def __init__(self, net: Cell) -> None:
        super().__init__()
        self.net = net
        self.weights = ms.ParameterTuple(net.trainable_params())
        self.moments = ms.ParameterTuple(
            [Parameter(Tensor(np.zeros(p.shape, np.float32)), name=f"moment.{p.name}",
                       requires_grad=False) for p in self.weights])
        self.gradient = ms.value_and_grad(self.loss, None, self.weights)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.cross_entropy(self.net(x), y)

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        loss, grads = self.gradient(x, y)
        for w, m, g in zip(self.weights, self.moments, grads, strict=True):
            ops.assign(m, m * 0.9 + g)
            ops.assign(w, w - 0.1 * m)
        return loss


X = tensor(8, 5, seed=30)
Y = Tensor(np.arange(8) % 3, ms.int32)


def test_parameters_assigned_in_construct() -> None:
    results = law(Net, X, calls=3)
    # In the order of registration: the net's own mean and steps, then its layers'.
    assert [int(r) for r in results if r.dtype == np.int32] == [3]


def test_three_training_steps() -> None:
    def make() -> Cell:
        return Train(Net())

    results = law(make, X, Y, calls=3)
    assert not np.array_equal(results[0], results[2])


def test_training_lowers_the_loss() -> None:
    with_graph = in_both_modes(lambda: Train(Net()), X, Y, calls=40)[1]
    assert with_graph[39] < 0.6 * with_graph[0]


def test_a_branch_assigns_a_parameter() -> None:
    class Gate(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.best = parameter(3, name="best")
            self.count = Parameter(Tensor(0.0, ms.float32), name="count", requires_grad=False)

        def construct(self, x: Tensor) -> Tensor:
            if x.sum() > self.best.sum():
                self.best = x * 1.0
                self.count += 1.0
            for _ in range(3):
                self.count = self.count * 1.5 + x[0]
            return self.best + self.count

    for seed in range(4):
        law(Gate, tensor(3, seed=40 + seed), calls=2)


def test_gradients_see_the_elements_from_before_an_assignment() -> None:
    class Halved(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = parameter(3, name="w", seed=7)

        def construct(self, x: Tensor) -> Tensor:
            y = self.w * x
            self.w = self.w * 0.5 + x
            return y + self.w * x

    w, x = parameter(3, name="w", seed=7).asnumpy(), tensor(3, seed=8)
    results = law(lambda: ms.grad(Halved()), x)
    np.testing.assert_allclose(results[0], 1.5 * w + 2 * x.asnumpy(), rtol=1e-6)


def test_an_assigned_parameter_is_read_anew() -> None:
    class Twice(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = parameter(4, name="w")

        def construct(self, x: Tensor) -> Any:
            before = self.w * 1
            ops.assign(self.w, self.w + x)
            middle = self.w * x
            ops.assign_add(self.w, middle)
            return before, middle, self.w * 1

    law(Twice, tensor(4, seed=50), calls=2)


def test_a_child_assigns_its_parameter_in_a_loop_on_tensors() -> None:
    class Counter(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.n = Parameter(Tensor(0.0, ms.float32), name="n")

        def construct(self, x: Tensor) -> Tensor:
            self.n += x.max()
            return x * 0.5

    class Loop(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.counter = Counter()

        def construct(self, x: Tensor) -> Any:
            while x.sum() > 0.1:
                x = self.counter(x)
            return x, self.counter.n * 1

    law(Loop, tensor(6, seed=60, low=0.5, high=3), calls=2)


# --- random draws --------------------------------------------------------------------------------


def test_dropout_and_draws_follow_the_seed() -> None:
    def make() -> Callable[..., Any]:
        def draws(x: Tensor) -> Any:
            kept = ops.dropout(x, p=0.5, training=True)
            return (kept, ops.dropout(kept, p=0.1, training=True), ops.standard_normal((3, 4)),
                    ops.rand(5), ops.randint(0, 10, (6,)), ops.bernoulli(ops.sigmoid(x)))

        return ms.jit(draws) if ms.get_context("mode") == ms.GRAPH_MODE else draws

    results = law(make, tensor(40, 30, seed=70), calls=2)
    kept, again = results[0], results[6]
    assert (kept == 0).mean() == pytest.approx(0.5, abs=0.06) and not np.array_equal(kept, again)
    other = in_both_modes(make, tensor(40, 30, seed=70), seed=4)
    assert not np.array_equal(other[0][0], kept)


def test_draws_in_a_branch_and_a_loop() -> None:
    def make() -> Callable[..., Any]:
        def draws(x: Tensor) -> Tensor:
            if x.sum() > 0:
                x = ops.dropout(x, p=0.5, training=True)
            for i in range(3):
                x = x + ops.standard_normal((3, 4)) * i
            while ops.abs(x).sum() > 5:
                x = x * ops.rand(3, 4)
            return x

        return ms.jit(draws) if ms.get_context("mode") == ms.GRAPH_MODE else draws

    law(make, tensor(3, 4, seed=80, low=0, high=9), calls=2)
    law(make, tensor(3, 4, seed=80, low=-9, high=0), calls=2)


def test_gradient_through_dropout() -> None:
    def make() -> Callable[..., Any]:
        def fn(x: Tensor) -> Tensor:
            return (ops.dropout(ops.exp(x), p=0.4, training=True) * x).sum()

        return ms.value_and_grad(fn)

    law(make, tensor(6, 7, seed=90), calls=2)


# --- threads -------------------------------------------------------------------------------------


def wide(x: Tensor, w: Tensor, k: Tensor) -> Any:
    """Work enough for several threads of every kernel family."""
    h = ops.matmul(x, w)
    image = ops.conv2d(h.reshape(4, 8, 32, 32), k, padding=1, pad_mode="pad")
    s = ops.softmax(h, axis=-1)
    return (ops.exp(ops.tanh(h) * 0.5), s.sum(), s.max(axis=0), h.sum(axis=0), image,
            ops.max_pool2d(image, 2, 2), ops.cumsum(h, 1), ops.sort(h)[0], h.T.mean())


def test_the_number_of_threads_changes_no_bit(threads: Callable[[int], Any]) -> None:
    args = tensor(128, 200, seed=1), tensor(200, 256, seed=2), tensor(16, 8, 3, 3, seed=3)
    compiled = ms.jit(wide)
    results = []
    for n in (1, 2, 3):
        with threads(n):
            results.append([np.array(t._data) for t in compiled(*args)])
            assert_same([t._data for t in wide(*args)], results[-1], f"eager, {n} threads")
    assert_same(results[1], results[0], "2 threads")
    assert_same(results[2], results[0], "3 threads")


def test_training_on_any_number_of_threads(threads: Callable[[int], Any]) -> None:
    x, y = tensor(512, 5, seed=31), Tensor(np.arange(512) % 3, ms.int32)
    results = []
    for n in (1, 2, 3):
        with threads(n):
            results.append(in_both_modes(lambda: Train(Net()), x, y, calls=2))
    for r in results:
        assert_same(r[1], r[0], "modes")
        assert_same(r[0], results[0][0], "threads")
