"""A multi-layer perceptron with dropout."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import cellc as ms
from cellc import nn


class MLP(nn.Cell):
    """Vectors (N, sizes[0]) to logits (N, sizes[-1]) through ReLU layers.

    Args:
        sizes: of the input, the hidden layers and the output.
        dropout: probability that a hidden element is zeroed while training.
    """

    def __init__(self, sizes=(784, 1024, 1024, 10), dropout=0.0):
        super().__init__()
        layers = []
        for inputs, outputs in pairwise(sizes[:-1]):
            layers.append(nn.Dense(inputs, outputs, activation="relu"))
            if dropout > 0:
                layers.append(nn.Dropout(p=dropout))
        layers.append(nn.Dense(sizes[-2], sizes[-1]))
        self.layers = nn.SequentialCell(layers)

    def construct(self, x):
        return self.layers(x)


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (x, label)."""
    loss = nn.CrossEntropyLoss()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.05, momentum=0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def make_input(n: int = 1, features: int = 784, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random vectors."""
    x = np.random.default_rng(seed).standard_normal((n, features))
    return (ms.Tensor(x.astype(np.float32)),)


def make_batch(
    n: int = 128, features: int = 784, classes: int = 10, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random vectors with random labels."""
    labels = np.random.default_rng(seed + 1).integers(0, classes, n)
    return *make_input(n, features, seed), ms.Tensor(labels.astype(np.int32))


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    show(MLP(dropout=0.1), make_input(), train_step, make_batch())
