"""The law of two modes for recurrent layers: outputs, states, gradients, training steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

from .law import in_both_modes, law, tensor

LAYERS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class Summed(nn.Cell):
    """A scalar of everything a layer gives."""

    def __init__(self, kind: str, inputs: int, hidden: int, layers: int, both: bool) -> None:
        super().__init__()
        self.layer = LAYERS[kind](inputs, hidden, layers, bidirectional=both)
        self.pair = kind == "lstm"

    def construct(self, x: Tensor, states: Any, lengths: Any = None) -> Any:
        out, last = self.layer(x, states, lengths)
        total = ops.tanh(out).sum()
        if states is not None:
            total = total + ((last[0] * last[1]).sum() if self.pair else (last * last).sum())
        return total, out


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    ("inputs", "hidden", "steps", "batch", "layers", "both", "cut", "given"),
    [(5, 7, 4, 3, 2, True, True, True), (32, 32, 9, 16, 1, False, False, False),
     (3, 4, 1, 1, 1, False, False, True), (6, 33, 6, 2, 2, False, True, False)])
def test_gradients(
    kind: str, inputs: int, hidden: int, steps: int, batch: int, layers: int, both: bool,
    cut: bool, given: bool,
) -> None:
    x = tensor(steps, batch, inputs)
    first = tensor(layers * (1 + both), batch, hidden, seed=1)
    lengths = Tensor(np.arange(batch) % steps + 1, ms.int32) if cut else None

    def make() -> Any:
        net = Summed(kind, inputs, hidden, layers, both)
        weights = list(net.trainable_params())
        if not given:
            return ms.value_and_grad(lambda x: net(x, None, lengths), 0, weights, has_aux=True)
        return ms.value_and_grad(
            lambda x, h: net(x, (h, h * 0.5) if kind == "lstm" else h, lengths),
            (0, 1), weights, has_aux=True)

    args = (x, first) if given else (x,)
    law(make, *args, calls=2)


def test_training_steps() -> None:
    """Three steps of Adam; the loss goes down alike."""
    class Classifier(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(6, 16, 2)
            self.head = nn.Dense(16, 3)

        def construct(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0][-1])

    def make() -> nn.Cell:
        net = nn.WithLossCell(Classifier(), nn.CrossEntropyLoss())
        return nn.TrainOneStepCell(net, nn.Adam(net.trainable_params(), 1e-2)).set_train()

    x, y = tensor(5, 8, 6), Tensor(np.arange(8) % 3, ms.int32)
    eager, graph = in_both_modes(make, x, y, calls=3)
    assert [a.tobytes() for a in eager] == [a.tobytes() for a in graph]
    assert graph[2] < graph[0]


def test_second_derivatives() -> None:
    net = nn.GRU(3, 5)
    x = tensor(4, 2, 3)

    def slope(x: Tensor) -> Tensor:
        return ops.square(ms.grad(lambda x: ops.sin(net(x)[0]).sum())(x)).sum()

    law(lambda: ms.grad(slope), x)
