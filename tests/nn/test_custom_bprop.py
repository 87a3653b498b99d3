"""A Cell's own `bprop`: what it is given and may return, and what is refused, in both modes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, ParameterTuple, Tensor, nn, ops

MODES = pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["eager", "graph"])
X = Tensor([1.0, -2.0, 3.0], ms.float32)


@pytest.fixture(autouse=True)
def _back() -> Iterator[None]:
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Straight(nn.Cell):
    """Rounding whose gradient is that of the identity, times a factor (straight-through)."""

    def __init__(self, factor: float = 1.0):
        super().__init__()
        self.factor = factor

    def construct(self, x: Tensor) -> Tensor:
        return ops.round(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout * self.factor,)


class Two(nn.Cell):
    """Two arguments and two results; one gradient is None."""

    def construct(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * y, x + y

    def bprop(self, x: Tensor, y: Tensor, out: Any, dout: Any) -> tuple[Tensor, None]:
        return dout[0] * y * 10.0 + out[1] * dout[1], None


class Scaled(nn.Cell):
    """A Parameter that the Cell's own rule treats like an outside number."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor([2.0], ms.float32), name="w")
        self.inner = Straight(3.0)

    def construct(self, x: Tensor) -> Tensor:
        return self.inner(x * self.w) * x


@MODES
@pytest.mark.parametrize("factor", [1.0, -0.5])
def test_the_rule_replaces_the_gradient(mode: int, factor: float) -> None:
    ms.set_context(mode=mode)
    net = Straight(factor)
    np.testing.assert_array_equal(ms.grad(net)(X).asnumpy(), np.full(3, factor, np.float32))
    value, dx = ms.value_and_grad(lambda x: (net(x * 0.4) * x).sum())(X)
    rounded = np.round(X.asnumpy() * np.float32(0.4))
    np.testing.assert_allclose(float(value), float((rounded * X.asnumpy()).sum()), rtol=1e-6)
    np.testing.assert_allclose(
        dx.asnumpy(), rounded + X.asnumpy() * np.float32(factor) * np.float32(0.4), rtol=1e-6)


@MODES
def test_several_arguments_results_and_none(mode: int) -> None:
    ms.set_context(mode=mode)
    net, y = Two(), Tensor([4.0, 5.0, 6.0], ms.float32)
    weight = Tensor([1.0, 2.0, 3.0], ms.float32)

    def loss(x: Tensor, y: Tensor) -> Tensor:
        a, b = net(x, y)
        return (a * weight).sum() + (b * 0.5).sum()

    dx, dy = ms.grad(loss, (0, 1))(X, y)
    want = weight.asnumpy() * y.asnumpy() * 10 + (X.asnumpy() + y.asnumpy()) * np.float32(0.5)
    np.testing.assert_allclose(dx.asnumpy(), want, rtol=1e-6)
    np.testing.assert_array_equal(dy.asnumpy(), np.zeros(3, np.float32))


@MODES
def test_weights_around_it(mode: int) -> None:
    ms.set_context(mode=mode)
    net = Scaled()
    dx, dw = ms.grad(net, 0, ParameterTuple([net.w]))(X)
    x = X.asnumpy()
    np.testing.assert_allclose(dw[0].asnumpy(), [(3.0 * x * x).sum()], rtol=1e-6)
    np.testing.assert_allclose(dx.asnumpy(), np.round(x * 2) + 3.0 * 2.0 * x, rtol=1e-6)


@MODES
def test_second_order_differentiates_the_rule(mode: int) -> None:
    """The rule of the cube is exact, so its gradient is that of the second derivative."""

    class Cube(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x * x * x

        def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
            return (3.0 * x * x * dout,)

    ms.set_context(mode=mode)
    net = Cube()
    second = ms.grad(lambda x: ms.grad(net)(x).sum())
    np.testing.assert_allclose(second(X).asnumpy(), 6 * X.asnumpy(), rtol=1e-6)


@MODES
def test_in_a_training_step(mode: int) -> None:
    """A network with it learns: the gradient passes the rounding."""
    ms.set_context(mode=mode)
    ms.set_seed(3)
    net = nn.SequentialCell([nn.Dense(3, 4), Straight(), nn.Dense(4, 1)])
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Momentum(net.trainable_params(), 0.05, 0.9))
    step.set_train()
    before = net[0].weight.asnumpy().copy()
    x, y = Tensor(np.eye(3, dtype=np.float32) * 3), Tensor(np.ones((3, 1), np.float32))
    losses = [float(step(x, y)) for _ in range(20)]
    assert losses[-1] < losses[0]
    assert not np.array_equal(before, net[0].weight.asnumpy())


def takes_one(self: Any, out: Tensor) -> Any:
    return out, out


def takes_no_dout(self: Any, x: Tensor, y: Tensor, out: Tensor) -> Any:
    return out, out


def takes_more(self: Any, x: Tensor, y: Tensor, z: Tensor, out: Tensor, dout: Tensor) -> Any:
    return dout, dout


def takes_any(self: Any, *args: Tensor) -> Any:
    return args[-1], args[0]


def takes_a_default(self: Any, x: Tensor, y: Tensor, out: Tensor, dout: Tensor, k: int = 2) -> Any:
    return dout * k, y


@MODES
@pytest.mark.parametrize(("rule", "expected"), [
    (takes_one, "requires at least 2 params 'out' and 'dout', but got only 1: the bprop of "
                "Summed takes 1 argument, and gets 4"),
    (takes_no_dout, "requires the forward inputs as well as the 'out' and 'dout'. Here the bprop "
                    "of Summed takes 3 arguments, and gets 4"),
    (takes_more, "Here the bprop of Summed takes 5 arguments, and gets 4"),
    (takes_any, [1.0, 3.0]), (takes_a_default, [2.0, 4.0]),
])
def test_what_it_takes(mode: int, rule: Any, expected: Any) -> None:
    class Summed(nn.Cell):
        bprop = rule

        def construct(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    class Differentiated(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = Summed()

        def construct(self, x: Tensor, y: Tensor) -> Any:
            return ops.GradOperation(get_all=True)(self.net)(x, y)

    ms.set_context(mode=mode)
    x, y = Tensor([3.0]), Tensor([4.0])
    if isinstance(expected, str):
        with pytest.raises(TypeError, match=re.escape(expected)):
            Differentiated()(x, y)
    else:
        assert [g.item() for g in Differentiated()(x, y)] == expected


@MODES
@pytest.mark.parametrize("returned", [
    lambda x: (x, x), lambda x: (ops.ones((2, 2)),), lambda x: (1.5 + x.sum(), x, x),
], ids=["too many", "another shape", "three"])
def test_what_it_may_not_return(mode: int, returned: Any) -> None:
    class Bad(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x * 2

        def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> Any:
            return returned(dout)

    ms.set_context(mode=mode)
    with pytest.raises((TypeError, ValueError), match="bprop"):
        ms.grad(Bad())(X)
