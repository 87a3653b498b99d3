"""Work is split into enough equal tasks for more processors than the test machine has.

Nothing is timed. The cost model's cycles of each kernel, its number of tasks and the price of a
fork and join give the time on p processors; the ratio to one processor must come near p.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.compiled.traced import trace
from cellc_compiler.backends.cpu.host.main import PARALLEL_CYCLES
from cellc_compiler.driver import lower, optimize
from cellc_compiler.lower import instructions as ins
from cellc_runtime.target import AVX2, AVX512, Target

from ..samples.networks import load

FORK_JOIN = 2000.0
"""Cycles of a fork and join, as in `backends.cpu.host.main`."""


def weighted(part: list[ins.Instruction], times: int = 1) -> Iterator[tuple[ins.Call, int]]:
    """Every kernel call and how often it runs."""
    for i in part:
        if isinstance(i, ins.Call):
            yield i, times
        elif isinstance(i, ins.For):
            yield from weighted(i.body, times * i.length)
        elif isinstance(i, ins.If):
            yield from weighted(i.then, times)
        elif isinstance(i, ins.Loop):
            yield from weighted(i.body, times)


def speedup(net: Any, inputs: tuple[Any, ...], target: Target, processors: int) -> float:
    """Modelled time on one processor over that on several."""
    graph = trace(net, inputs, {}).graph
    serial = parallel = 0.0
    for call, times in weighted(lower(optimize(graph), target).instructions):
        cost, tasks = call.kernel.cost * times, call.kernel.ntasks
        serial += cost
        if tasks > 1 and call.kernel.cost > PARALLEL_CYCLES:
            cost = cost * -(-tasks // processors) / tasks + FORK_JOIN * times
        parallel += cost
    return serial / parallel


def training(net: Any) -> Any:
    """A training step."""
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def images(*shape: int) -> Any:
    return ms.Tensor(np.zeros(shape, np.float32))


def labels(count: int) -> Any:
    return ms.Tensor(np.zeros(count, np.int32))


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=lambda t: t.name)
@pytest.mark.parametrize(("processors", "least"), [(2, 1.8), (4, 3.2), (8, 5.0)])
def test_training_of_lenet(target: Target, processors: int, least: float) -> None:
    step = training(load("lenet").LeNet5())
    assert speedup(step, (images(64, 1, 32, 32), labels(64)), target, processors) > least


@pytest.mark.parametrize(("processors", "least"), [(2, 1.9), (4, 3.6), (8, 6.5)])
def test_inference_of_resnet(processors: int, least: float) -> None:
    net = load("resnet").ResNet18().set_train(False)
    assert speedup(net, (images(1, 3, 224, 224),), AVX512, processors) > least


@pytest.mark.parametrize(("processors", "least"), [(2, 1.9), (4, 3.7), (8, 7.0)])
def test_training_of_an_mlp(processors: int, least: float) -> None:
    step = training(load("mlp").MLP())
    inputs = (images(128, 784), labels(128))
    assert speedup(step, inputs, AVX512, processors) > least
