"""MobileNetV2 (Sandler et al., 2018): depthwise convolutions between narrow layers."""

from __future__ import annotations

import numpy as np

import cellc as ms
from cellc import nn, ops


def _conv(inputs, outputs, size=1, stride=1, groups=1):
    return nn.SequentialCell(
        nn.Conv2d(inputs, outputs, size, stride, "pad", size // 2, group=groups),
        nn.BatchNorm2d(outputs), nn.ReLU6())


class InvertedResidual(nn.Cell):
    """Widen, filter each channel, narrow; added to the input where the shape is the same."""

    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        wide = inputs * expansion
        self.residual = stride == 1 and inputs == outputs
        layers = [_conv(inputs, wide)] if expansion != 1 else []
        layers += [_conv(wide, wide, 3, stride, wide), nn.Conv2d(wide, outputs, 1),
                   nn.BatchNorm2d(outputs)]
        self.layers = nn.SequentialCell(layers)

    def construct(self, x):
        if self.residual:
            return x + self.layers(x)
        return self.layers(x)


class MobileNetV2(nn.Cell):
    """Images (N, 3, H, W) to logits (N, classes).

    Args:
        classes: how many.
        plan: (expansion, channels, blocks, stride) of each stage.
        dropout: probability that a feature is zeroed while training.
    """

    PLAN = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, classes=1000, plan=PLAN, last=1280, dropout=0.2):
        super().__init__()
        layers = [_conv(3, 32, 3, 2)]
        channels = 32
        for expansion, width, blocks, stride in plan:
            for i in range(blocks):
                layers.append(
                    InvertedResidual(channels, width, stride if i == 0 else 1, expansion))
                channels = width
        layers.append(_conv(channels, last))
        self.features = nn.SequentialCell(layers)
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Dense(last, classes)

    def construct(self, x):
        x = ops.mean(self.features(x), (2, 3))
        return self.fc(self.dropout(x))


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (x, label)."""
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.02, momentum=0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


def make_input(n: int = 1, size: int = 224, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random images."""
    x = np.random.default_rng(seed).standard_normal((n, 3, size, size))
    return (ms.Tensor(x.astype(np.float32)),)


def make_batch(
    n: int = 4, size: int = 64, classes: int = 1000, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random images with random labels."""
    labels = np.random.default_rng(seed + 1).integers(0, classes, n)
    return *make_input(n, size, seed), ms.Tensor(labels.astype(np.int32))


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    show(MobileNetV2(), make_input(), train_step, make_batch())
