"""The pullback of `vjp` goes back through the run that gave the outputs: nothing happens twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

X = np.arange(1, 4, dtype=np.float32)
pytestmark = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])


class Counts(nn.Cell):
    """Counts its calls in Python and in a Parameter, prints, and multiplies by both."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.log: list[int] = []
        self.count = ms.Parameter(Tensor(0.0), name="count", requires_grad=False)
        self.w = ms.Parameter(Tensor(X), name="w")

    def construct(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.log.append(self.calls)
        self.count += 1
        print("runs")
        return x * x * self.w * self.count


class Pulls(nn.Cell):
    """The outputs and two pullbacks, within a construct."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net

    def construct(self, x: Tensor) -> Any:
        out, pull = ms.vjp(self.net, x)
        return out, pull(ops.ones_like(out))[0], pull(out)[0]


@pytest.mark.parametrize("inside", [False, True])
def test_effects_happen_once(mode: int, inside: bool, capfd: pytest.CaptureFixture[str]) -> None:
    ms.set_context(mode=mode)
    net, x = Counts(), Tensor(X)
    pulls = Pulls(net)
    for call in (1, 2, 3):
        if inside:
            out, first, second = pulls(x)
        else:
            out, pull = ms.vjp(net, x)
            first, second = pull(ops.ones_like(out))[0], pull(out)[0]
        assert np.array_equal(out.asnumpy(), X**3 * call)
        assert np.array_equal(first.asnumpy(), 2 * X**2 * call)
        assert np.array_equal(second.asnumpy(), 2 * X**2 * call * X**3 * call)
        assert net.calls == call and net.log == list(range(1, call + 1))
        assert net.count.asnumpy() == call
    assert capfd.readouterr().out == "runs\n" * 3


def test_the_values_are_those_of_the_call(mode: int) -> None:
    ms.set_context(mode=mode)
    net, x = Counts(), Tensor(X)
    out, pull = ms.vjp(net, x, weights=net.w)
    net.w.set_data(Tensor(X * 100))
    net.count.set_data(Tensor(7.0))
    x[0] = 50.0
    out += 1
    (by_x,), by_w = pull(ops.ones((3,)))
    assert np.array_equal(by_x.asnumpy(), 2 * X**2)
    assert np.array_equal(by_w.asnumpy(), X**2)


def test_draws_are_those_of_the_call(mode: int) -> None:
    ms.set_context(mode=mode)
    dropout, x = nn.Dropout(p=0.5).set_train(), ops.ones((64,))
    for _ in range(3):
        out, pull = ms.vjp(dropout, x)
        for _ in range(2):
            assert np.array_equal(pull(ops.ones((64,)))[0].asnumpy(), out.asnumpy())


def test_branches_and_loops(mode: int) -> None:
    ms.set_context(mode=mode)

    def f(x: Tensor) -> Tensor:
        y = x
        while y.sum() < 100:
            y = y * x + x
        return y * 2 if y.sum() > 150 else y * 3

    for x in (Tensor(X), Tensor(X[::-1].copy() + 1), Tensor(X * 20)):
        out, pull = ms.vjp(f, x)
        value, grad = ms.value_and_grad(lambda v: f(v).sum())(x)
        assert np.array_equal(out.sum().asnumpy(), value.asnumpy())
        assert np.allclose(pull(ops.ones((3,)))[0].asnumpy(), grad.asnumpy())


def test_more_sizes_and_second_derivatives(mode: int) -> None:
    """One program serves all sizes, but a pullback is one of its own; it has a gradient, too."""
    ms.set_context(mode=mode)

    def cube(x: Tensor) -> Tensor:
        return x * x * x

    for size in (3, 5, 4, 3):
        x = Tensor(np.arange(1, size + 1, dtype=np.float32))
        out, pull = ms.vjp(cube, x)
        assert out.shape == (size,)
        assert np.array_equal(pull(ops.ones((size,)))[0].asnumpy(), 3 * x.asnumpy() ** 2)

    def pulled(x: Tensor) -> Tensor:
        return ms.vjp(cube, x)[1](ops.ones_like(x))[0].sum()

    assert np.allclose(ms.grad(pulled)(Tensor(X)).asnumpy(), 6 * X)
    _, pull = ms.vjp(cube, Tensor(X))
    assert np.allclose(ms.grad(lambda v: (pull(v)[0] * v).sum())(Tensor(X)).asnumpy(), 6 * X**3)


def test_hooks_and_what_is_not_read(mode: int) -> None:
    ms.set_context(mode=mode)
    unread = ms.Parameter(Tensor(X), name="unread")
    net, x = Counts(), Tensor(X)
    hook = net.w.register_hook(lambda grad: grad * 10)
    (by_x,), (by_w, by_unread) = ms.vjp(net, x, weights=[net.w, unread])[1](ops.ones((3,)))
    hook.remove()
    assert np.array_equal(by_x.asnumpy(), 2 * X**2)
    assert np.array_equal(by_w.asnumpy(), 10 * X**2)
    assert np.array_equal(by_unread.asnumpy(), 0 * X)
