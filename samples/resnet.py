"""ResNet-18 and ResNet-50 (He et al., 2015)."""

from __future__ import annotations

import numpy as np

import cellc as ms
from cellc import nn, ops


def _conv(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, pad_mode="pad", padding=size // 2)


class BasicBlock(nn.Cell):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = _conv(inputs, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.shortcut = None
        if stride != 1 or inputs != width:
            self.shortcut = nn.SequentialCell(
                _conv(inputs, width, 1, stride), nn.BatchNorm2d(width))

    def construct(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return self.relu(out + x)


class Bottleneck(nn.Cell):
    """1x1, 3x3 and 1x1 convolutions and a shortcut."""

    expansion = 4

    def __init__(self, inputs, width, stride=1):
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = _conv(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, outputs, 1)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.SequentialCell(
                _conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def construct(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return self.relu(out + x)


class ResNet(nn.Cell):
    """Images (N, 3, H, W) to logits (N, classes).

    Args:
        block: BasicBlock or Bottleneck.
        depths: blocks of each of the four stages.
        classes: how many.
        width: channels of the first stage.
    """

    def __init__(self, block, depths, classes=1000, width=64):
        super().__init__()
        self.conv1 = _conv(3, width, 7, 2)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1)
        stages = []
        channels = width
        for i, depth in enumerate(depths):
            blocks = []
            for j in range(depth):
                stride = 2 if i > 0 and j == 0 else 1
                blocks.append(block(channels, width << i, stride))
                channels = (width << i) * block.expansion
            stages.append(nn.SequentialCell(blocks))
        self.stages = nn.CellList(stages)
        self.fc = nn.Dense(channels, classes)

    def construct(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = stage(x)
        x = ops.mean(x, (2, 3))
        return self.fc(x)


class ResNet18(ResNet):
    """ResNet-18."""

    def __init__(self, classes=1000, width=64):
        super().__init__(BasicBlock, (2, 2, 2, 2), classes, width)


class ResNet50(ResNet):
    """ResNet-50."""

    def __init__(self, classes=1000, width=64):
        super().__init__(Bottleneck, (3, 4, 6, 3), classes, width)


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (x, label)."""
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(
        net.trainable_params(), learning_rate=0.05, momentum=0.9, weight_decay=1e-4)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def make_input(n: int = 1, size: int = 224, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random images."""
    x = np.random.default_rng(seed).standard_normal((n, 3, size, size))
    return (ms.Tensor(x.astype(np.float32)),)


def make_batch(
    n: int = 8, size: int = 64, classes: int = 1000, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random images with random labels."""
    labels = np.random.default_rng(seed + 1).integers(0, classes, n)
    return *make_input(n, size, seed), ms.Tensor(labels.astype(np.int32))


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    for network in (ResNet18, ResNet50):
        show(network(), make_input(), train_step, make_batch())
