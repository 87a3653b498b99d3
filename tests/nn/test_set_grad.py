"""`Cell.set_grad`: in PyNative mode a gradient goes on from the run before it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops


class Net(nn.Cell):
    """Counts its runs by a side effect of Python."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[int] = []
        self.w = ms.Parameter(Tensor([1.5, -2.0, 0.5]), name="w")
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(p=0.5)
        self.scale = 1.0

    def construct(self, x: Tensor, *, flip: bool = False) -> tuple[Tensor, Tensor]:
        self.runs.append(1)
        h = self.drop(self.norm(ops.tanh(x * self.w) * self.scale))
        return (-h if flip else h), h.sum()


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    ms.set_seed(3)
    yield


def _x() -> Tensor:
    return Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))


def _flat(value: Any) -> list[Tensor]:
    return [t for v in value for t in _flat(v)] if isinstance(value, tuple) else [value]


def _step(net: Net, x: Tensor, **kwargs: Any) -> list[bytes]:
    out = ms.value_and_grad(net, 0, net.trainable_params())(x, **kwargs)
    return [t.asnumpy().tobytes() for t in _flat(out)]


def test_the_bits_are_those_of_a_run_of_its_own() -> None:
    ms.set_seed(3)
    plain = Net().set_train()
    want = _step(plain, _x(), flip=True)
    moving = plain.norm.moving_mean.asnumpy().tobytes()
    ms.set_seed(3)
    net, x = Net().set_train().set_grad(), _x()
    shown = net(x, flip=True)
    assert _step(net, x, flip=True) == want
    assert len(net.runs) == 1
    assert [t.asnumpy().tobytes() for t in shown] == want[:2]
    assert net.norm.moving_mean.asnumpy().tobytes() == moving  # moved once


def _set_data(net: Net, x: Tensor) -> None:
    net.w.set_data(Tensor([1.0, 1.0, 1.0]))


def _write_memory(net: Net, x: Tensor) -> None:
    net.w.asnumpy()[0] = 7.0


def _set_attribute(net: Net, x: Tensor) -> None:
    net.scale = 2.0


def _eval(net: Net, x: Tensor) -> None:
    net.set_train(False)


def _in_place(net: Net, x: Tensor) -> None:
    x[0, 0] = 9.0


def _through_numpy(net: Net, x: Tensor) -> None:
    x.asnumpy()[0, 0] = 9.0


@pytest.mark.parametrize("change", [
    _set_data, _write_memory, _set_attribute, _eval, _in_place, _through_numpy])
def test_what_has_changed_is_run_again(change: Callable[[Net, Tensor], None]) -> None:
    net, x = Net().set_train().set_grad(), _x()
    net(x)
    change(net, x)
    found = _step(net, x)
    assert len(net.runs) == 2
    other, y = Net(), _x()
    other.set_train()
    ms.set_seed(3)
    other(y)
    change(other, y)
    assert _step(other, y) == found


def test_other_arguments_and_keywords_run_again() -> None:
    net, x = Net().set_grad(), _x()
    net(x)
    _step(net, _x())
    assert len(net.runs) == 2
    net(x)
    _step(net, x, flip=True)
    assert len(net.runs) == 4


def test_a_run_serves_once() -> None:
    net, x = Net().set_grad(), _x()
    net(x)
    _step(net, x)
    _step(net, x)
    assert len(net.runs) == 2


def test_runs_that_nothing_follows_are_not_recorded_for_ever() -> None:
    net, x = Net().set_grad(), _x()
    for _ in range(4):
        net(x)
    assert net._remembered.run is None
    _step(net, x)
    net(x)
    assert net._remembered.run is not None
    before = len(net.runs)
    _step(net, x)
    assert len(net.runs) == before


def test_without_set_grad_it_runs_again() -> None:
    net, x = Net(), _x()
    net(x)
    _step(net, x)
    assert len(net.runs) == 2
    net.set_grad()
    net.set_grad(False)
    net(x)
    _step(net, x)
    assert len(net.runs) == 4


def test_copies_remember_nothing() -> None:
    net, x = Net().set_grad(), _x()
    net(x)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        before = len(other.runs)
        _step(other, x)
        assert len(other.runs) == before + 1


def test_second_derivatives_run_as_usual() -> None:
    class Cube(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x * x * x

    net, x = Cube().set_grad(), Tensor([2.0])
    net(x)
    assert ms.grad(ms.grad(net))(x).asnumpy().tolist() == [12.0]


def test_a_training_step_is_not_disturbed() -> None:
    losses = []
    for told in (False, True):
        ms.set_seed(5)
        net = nn.WithLossCell(nn.Dense(3, 1, weight_init="ones"), nn.MSELoss())
        step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1))
        net.set_grad(told)
        y = Tensor(np.ones((4, 1), np.float32))
        losses.append([float(f(_x(), y)) for _ in range(3) for f in (step, net)])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("which", range(3))
def test_each_argument_is_looked_at(which: int) -> None:
    """One of several that has other elements by now, in place: the run is done again."""
    class Several(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.runs = 0

        def construct(self, *xs: Tensor) -> Tensor:
            self.runs += 1
            return (xs[0] * xs[1] * xs[2]).sum()

    net = Several().set_grad()
    xs = [Tensor(np.float32([i + 1, 2])) for i in range(3)]
    net(*xs)
    xs[which][1] = 7
    slopes = ms.grad(net, (0, 1, 2))(*xs)
    assert net.runs == 2
    arrays = [x.asnumpy() for x in xs]
    for i, slope in enumerate(slopes):
        want = np.prod([a for j, a in enumerate(arrays) if j != i], 0)
        np.testing.assert_array_equal(slope.asnumpy(), want)
