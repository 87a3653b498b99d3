"""A classifier of sequences: a two-layer LSTM with dropout between its layers."""

from __future__ import annotations

import numpy as np

import cellc as ms
from cellc import nn


class LSTMClassifier(nn.Cell):
    """Sequences (N, T, features) to logits (N, classes).

    Args:
        features: of an element of the sequence.
        hidden: size of the state.
        classes: how many.
        layers: LSTM layers.
        dropout: probability that an element between two layers is zeroed while training.
    """

    def __init__(self, features=32, hidden=128, classes=10, layers=2, dropout=0.1):
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, num_layers=layers, batch_first=True,
                            dropout=dropout)
        self.head = nn.Dense(hidden, classes)

    def construct(self, x):
        output, _ = self.lstm(x)
        return self.head(output[:, -1])


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (x, label)."""
    loss = nn.CrossEntropyLoss()
    optimizer = nn.Adam(net.trainable_params(), learning_rate=2e-3)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def make_input(
    n: int = 1, steps: int = 64, features: int = 32, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random sequences."""
    x = np.random.default_rng(seed).standard_normal((n, steps, features))
    return (ms.Tensor(x.astype(np.float32)),)


def make_batch(
    n: int = 32, steps: int = 64, features: int = 32, classes: int = 10, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random sequences with random labels."""
    labels = np.random.default_rng(seed + 1).integers(0, classes, n)
    return *make_input(n, steps, features, seed), ms.Tensor(labels.astype(np.int32))


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    show(LSTMClassifier(), make_input(), train_step, make_batch())
