"""LeNet-5, and its training step.

    cellc compile samples/lenet.py:LeNet5 --input x=float32[1,1,32,32] -o out/lenet.cellc \
        --train train_step --train-input x=float32[64,1,32,32] --train-input label=int32[64]
"""

from __future__ import annotations

import numpy as np

import cellc as ms
from cellc import nn


class LeNet5(nn.Cell):
    """Images (N, 1, 32, 32) to logits (N, classes). LeCun et al., 1998, with ReLU and max pooling.

    Args:
        classes: how many.
        channels: of the images.
    """

    def __init__(self, classes=10, channels=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(16 * 5 * 5, 120)
        self.fc2 = nn.Dense(120, 84)
        self.fc3 = nn.Dense(84, classes)

    def construct(self, x):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.pool(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        return self.fc3(x)


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (x, label): forward, backward and update, as one Cell."""
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.02, momentum=0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def make_input(n: int = 1, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random images."""
    x = np.random.default_rng(seed).standard_normal((n, 1, 32, 32))
    return (ms.Tensor(x.astype(np.float32)),)


def make_batch(n: int = 64, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random images with random labels."""
    labels = np.random.default_rng(seed + 1).integers(0, 10, n)
    return *make_input(n, seed), ms.Tensor(labels.astype(np.int32))


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    show(LeNet5(), make_input(), train_step, make_batch())
