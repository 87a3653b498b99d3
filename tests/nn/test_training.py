"""Training steps: both modes to the bit, with state, dropout and scaled losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn

OPTIMIZERS = [
    "nn.SGD(ps, 0.1, 0.9)", "nn.Momentum(ps, [0.1, 0.05], 0.9, weight_decay=0.01)",
    "nn.Adam(ps, 0.01)", "nn.AdamWeightDecay(ps, 0.01, weight_decay=0.1)", "nn.AdaMax(ps, 0.01)",
    "nn.Lamb(ps, 0.01)", "nn.RMSProp(ps, 0.01)", "nn.Adagrad(ps)", "nn.Adadelta(ps)",
    "nn.FTRL(ps)", "nn.Rprop(ps)", "nn.ASGD(ps)", "nn.ProximalAdagrad(ps)",
]


def _network() -> nn.Cell:
    return nn.SequentialCell(
        nn.Conv2d(1, 3, 3, has_bias=True), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Dropout(p=0.3), nn.Dense(12, 4),
    )


def _train(mode: int, optimizer: str, **options: Any) -> list[bytes]:
    """All parameters and losses of three steps, as bytes."""
    ms.set_context(mode=mode)
    ms.set_seed(5)
    random = np.random.RandomState(0)
    x = ms.Tensor(random.randn(5, 1, 4, 4).astype(np.float32))
    y = ms.Tensor(np.array([0, 1, 2, 3, 1], np.int32))
    net = _network()
    opt = eval(optimizer, {"nn": nn, "ps": net.trainable_params()})
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), opt, **options)
    step.set_train()
    losses = [step(x, y).asnumpy().tobytes() for _ in range(3)]
    return losses + [p.asnumpy().tobytes() for p in [*net.get_parameters(), *opt.get_parameters()]]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_three_steps_are_the_same_to_the_bit(optimizer: str) -> None:
    assert _train(ms.PYNATIVE_MODE, optimizer) == _train(ms.GRAPH_MODE, optimizer)


def test_a_scaled_loss_changes_nothing_when_the_scale_is_a_power_of_two() -> None:
    plain = _train(ms.GRAPH_MODE, "nn.SGD(ps, 0.1)")
    scaled = _train(ms.GRAPH_MODE, "nn.SGD(ps, 0.1, loss_scale=8.0)", sens=8.0)
    assert plain == scaled


def test_training_reduces_the_loss() -> None:
    ms.set_seed(1)
    random = np.random.RandomState(0)
    x = random.randn(64, 3).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3
    net = nn.Dense(3, 1)
    step = nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.05))
    for _ in range(300):
        loss = step(ms.Tensor(x), ms.Tensor(y))
    assert float(loss.asnumpy()) < 1e-4
    np.testing.assert_allclose(net.weight.asnumpy(), [[1.0, -2.0, 0.5]], atol=1e-2)


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_return_grad_gives_gradients_by_name(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dense(3, 1, weight_init="ones", bias_init="zeros")
    step = nn.TrainOneStepCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1), return_grad=True)
    x, y = ms.Tensor(np.ones((2, 3), np.float32)), ms.Tensor(np.ones((2, 1), np.float32))
    loss, grads = step(x, y)
    assert float(loss.asnumpy()) == 4.0
    assert list(grads) == ["weight", "bias"]
    np.testing.assert_allclose(grads["weight"].asnumpy(), [[4.0, 4.0, 4.0]])


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_forward_value_and_grad(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")
    x = ms.Tensor(np.array([[1.0, 2.0]], np.float32))
    value, grads = nn.ForwardValueAndGrad(net, get_by_list=True)(x)
    assert value.asnumpy().tolist() == [[3.0]]
    assert [g.asnumpy().tolist() for g in grads] == [[[1.0, 2.0]], [1.0]]
    value, grad = nn.ForwardValueAndGrad(net)(x)
    assert grad.asnumpy().tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_with_eval_cell(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dense(2, 1, weight_init="ones", bias_init="zeros")
    x, y = ms.Tensor(np.ones((1, 2), np.float32)), ms.Tensor(np.zeros((1, 1), np.float32))
    loss, out, label = nn.WithEvalCell(net, nn.MSELoss())(x, y)
    assert [float(loss.asnumpy()), out.asnumpy().tolist(), label.asnumpy().tolist()] == \
        [4.0, [[2.0]], [[0.0]]]
