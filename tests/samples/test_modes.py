"""The law of two modes on the samples: graph and PyNative give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

from .networks import NETWORKS, Array, Sample

MODES = (ms.GRAPH_MODE, ms.PYNATIVE_MODE)


class Loss(nn.Cell):
    """A number to differentiate: outputs weighted unevenly, so that no gradient is zero."""

    def __init__(self, net):
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, *inputs):
        out = self.net(*inputs)
        return ops.mean(out * ops.cos(out + 1.0))


@pytest.fixture(params=NETWORKS)
def sample(request: pytest.FixtureRequest) -> Sample:
    """Every sample network."""
    return NETWORKS[request.param]


def forward(sample: Sample, mode: int, training: bool) -> list[Array]:
    """Outputs, and the parameters afterwards: moving averages change while training."""
    ms.set_context(mode=mode)
    net = sample.make().set_train(training)
    out = net(*sample.input())
    return [out.asnumpy(), *(p.asnumpy().copy() for p in net.get_parameters())]


def gradients(sample: Sample, mode: int) -> list[Array]:
    """Value and gradients of float inputs and parameters, in training mode."""
    ms.set_context(mode=mode)
    net = sample.make().set_train()
    inputs = sample.input()
    floats = tuple(i for i, x in enumerate(inputs) if x.asnumpy().dtype.kind == "f") or None
    value, grads = ms.value_and_grad(Loss(net), floats, net.trainable_params())(*inputs)
    return [value.asnumpy(), *(g.asnumpy() for g in _flat(grads))]


def _flat(grads: Any) -> list[ms.Tensor]:
    if isinstance(grads, tuple):
        return [t for g in grads for t in _flat(g)]
    return [grads]


def trained(sample: Sample, mode: int) -> tuple[list[Array], list[Array]]:
    """Losses of three steps, then all parameters: weights, averages, state of the optimizer."""
    ms.set_context(mode=mode)
    net = sample.make()
    step = sample.train_step(net)
    losses = [step(*sample.batch()).asnumpy().copy() for _ in range(3)]
    return losses, [p.asnumpy().copy() for p in step.get_parameters()]


def assert_same_bits(a: list[Array], b: list[Array]) -> None:
    """Both lists hold the same bytes, and none is all zero or not finite."""
    assert len(a) == len(b)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert x.tobytes() == y.tobytes(), f"array {i} {x.shape} differs: {np.sum(x != y)} places"
        assert np.isfinite(x).all()


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_forward(sample: Sample, training: bool) -> None:
    graph, eager = (forward(sample, mode, training) for mode in MODES)
    assert_same_bits(graph, eager)
    assert graph[0].any()


@pytest.mark.parametrize("name", ["mlp", "lenet", "lstm", "gpt", "unet", "resnet18"])
def test_gradient(name: str) -> None:
    """Those of inputs too; the others' blocks are in these, and their training steps below."""
    sample = NETWORKS[name]
    graph, eager = (gradients(sample, mode) for mode in MODES)
    assert_same_bits(graph, eager)
    assert sum(bool(g.any()) for g in graph) > 0.8 * len(graph)


def test_three_training_steps(sample: Sample) -> None:
    (losses, graph), (eager_losses, eager) = (trained(sample, mode) for mode in MODES)
    assert_same_bits(losses, eager_losses)
    assert_same_bits(graph, eager)
    assert len({x.tobytes() for x in losses}) == 3, "the weights did not change"


@pytest.mark.parametrize("name", ["mlp", "gpt", "lstm", "mobilenet"])
def test_dropout_draws_anew(name: str) -> None:
    """Two calls in training mode differ, so the dropout that the modes agree on is on."""
    ms.set_context(mode=ms.GRAPH_MODE)
    net = NETWORKS[name].make().set_train()
    first, second = (net(*NETWORKS[name].input()).asnumpy() for _ in range(2))
    assert not np.array_equal(first, second)
