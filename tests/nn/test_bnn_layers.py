"""Layers whose weights are distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.nn.probability import bnn_layers as bnn

X = Tensor(np.full((2, 3), 0.5, np.float32))
IMAGE = Tensor(np.ones((1, 3, 4, 4), np.float32))


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize(("make", "x", "shape"), [
    (lambda: bnn.DenseReparam(3, 4, activation="sigmoid"), X, (2, 4)),
    (lambda: bnn.DenseLocalReparam(3, 4, has_bias=False), X, (2, 4)),
    (lambda: bnn.ConvReparam(3, 2, 2, has_bias=True), IMAGE, (1, 2, 4, 4)),
])
def test_layers_draw_their_weights(mode: int, make: Any, x: Tensor, shape: Any) -> None:
    ms.set_context(mode=mode)
    layer = make()
    first, second = layer(x).asnumpy(), layer(x).asnumpy()
    assert first.shape == shape and not np.array_equal(first, second)
    mean = layer.weight_posterior.mean
    layer.weight_posterior.untransformed_std.set_data(Tensor(np.full(mean.shape, -30, np.float32)))
    if layer.has_bias:
        layer.bias_posterior.untransformed_std.set_data(
            Tensor(np.full(mean.shape[:1], -30, np.float32)))
    np.testing.assert_allclose(layer(x).asnumpy(), layer(x).asnumpy(), atol=1e-5)
    assert {p.name for p in layer.trainable_params()} >= {
        "weight_posterior.mean", "weight_posterior.untransformed_std"}


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_the_loss_counts_distances(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.SequentialCell(bnn.DenseReparam(3, 1))
    loss = bnn.WithBNNLossCell(net, nn.MSELoss(), 0, 0.5)
    expected = 0.0
    for p in (net[0].weight_posterior, net[0].bias_posterior):
        mean, sd = p.mean.asnumpy(), np.log1p(np.exp(p.untransformed_std.asnumpy()))
        expected += np.sum(np.log(sd / 0.1) + (0.01 + mean**2) / (2 * sd**2) - 0.5) / 2
    y = Tensor(np.ones((2, 1), np.float32))
    found, gradients = ms.value_and_grad(loss, None, loss.trainable_params())(X, y)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4)
    first = net[0].weight_posterior
    sd = np.log1p(np.exp(first.untransformed_std.asnumpy()))
    np.testing.assert_allclose(gradients[0].asnumpy(), first.mean.asnumpy() / sd**2 / 2, rtol=1e-4)
    assert loss.backbone_network is net


def test_parameters_are_numpys_draws() -> None:
    np.random.seed(0)
    found = bnn.NormalPosterior("n", [2, 3]).mean.asnumpy()
    np.random.seed(0)
    assert np.array_equal(found, np.random.normal(0, 0.1, (2, 3)).astype(np.float32))


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: bnn.DenseReparam(0, 1), ValueError, "in_channels"),
    (lambda: bnn.DenseReparam(2, 1, weight_prior_fn=nn.ReLU), TypeError, "must be `normal`"),
    (lambda: bnn.DenseReparam(2, 1, bias_posterior_fn=bnn.NormalPrior), TypeError,
     "`bias_posterior_fn` must be `NormalPosterior`"),
    (lambda: bnn.DenseReparam(2, 1, activation=3), ValueError, "activation"),
    (lambda: bnn.WithBNNLossCell(nn.ReLU(), nn.MSELoss(), bnn_factor=-1), ValueError, "bnn_factor"),
])
def test_mistakes(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
