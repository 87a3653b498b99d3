"""Freezing: parameters that are not trained, in both modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

BOTH = pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph", "pynative"])
X = Tensor(np.linspace(-1, 1, 12).astype(np.float32).reshape(4, 3))
Y = Tensor(np.ones((4, 2), np.float32))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Dense(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Dense(3, 2)

    def construct(self, x: Any) -> Any:
        return self.head(self.norm(self.body(x)))


def _made() -> Net:
    ms.set_seed(1)
    return Net()


def _trained(net: Net, steps: int = 2) -> dict[str, Any]:
    before = {k: v.asnumpy().copy() for k, v in net.parameters_dict().items()}
    step = nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9)
    )
    step.set_train()
    for _ in range(steps):
        step(X, Y)
    return {k: not np.array_equal(before[k], v.asnumpy())
            for k, v in net.parameters_dict().items()}


@BOTH
def test_frozen_parameters_keep_their_bits(mode: int) -> None:
    ms.set_context(mode=mode)
    net = _made()
    for p in net.body.get_parameters():
        p.requires_grad = False
    assert [p.name for p in net.untrainable_params()] == [
        "body.weight", "body.bias", "norm.moving_mean", "norm.moving_variance"]
    changed = _trained(net)
    assert [k for k, v in changed.items() if not v] == ["body.weight", "body.bias"]


@BOTH
def test_a_thawed_parameter_is_trained_again(mode: int) -> None:
    ms.set_context(mode=mode)
    net = _made()
    net.body.weight.requires_grad = False
    assert not _trained(net)["body.weight"]
    net.body.weight.requires_grad = True
    assert _trained(net)["body.weight"]


def test_both_modes_train_to_the_same_bits() -> None:
    found = []
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        net = _made()
        net.body.weight.requires_grad = False
        _trained(net)
        found.append([p.asnumpy().copy() for p in net.get_parameters()])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


@BOTH
def test_gradients_go_through_what_is_frozen(mode: int) -> None:
    """A frozen layer passes gradients on to those before it; stop_gradient does not."""
    ms.set_context(mode=mode)
    net = _made()
    net.head.weight.requires_grad = False
    weights = ms.ParameterTuple(net.trainable_params())
    grads = ms.grad(lambda x: net(x).sum(), None, weights)(X)
    by_name = dict(zip([p.name for p in weights], grads, strict=True))
    assert "head.weight" not in by_name and np.abs(by_name["norm.beta"].asnumpy()).sum() > 0

    def cut(x: Any) -> Any:
        return (net.head(ops.stop_gradient(net.norm(net.body(x)))) ** 2).sum()

    grads = ms.grad(cut, None, weights)(X)
    by_name = dict(zip([p.name for p in weights], grads, strict=True))
    assert not np.any(by_name["body.weight"].asnumpy())
    assert np.any(by_name["head.bias"].asnumpy())


@BOTH
def test_a_frozen_batch_norm_keeps_its_averages(mode: int) -> None:
    ms.set_context(mode=mode)
    net = _made().set_train()
    net.norm.set_train(False)
    before = net.norm.moving_mean.asnumpy().copy()
    net(X)
    np.testing.assert_array_equal(net.norm.moving_mean.asnumpy(), before)
    net.norm.set_train()
    net(X)
    assert not np.array_equal(net.norm.moving_mean.asnumpy(), before)
