"""U-Net for segmentation (Ronneberger et al., 2015), with padding so that sizes are kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import cellc as ms
from cellc import nn, ops


class DoubleConv(nn.Cell):
    """Two 3x3 convolutions with batch norm and ReLU."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.layers = nn.SequentialCell(
            nn.Conv2d(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU())

    def construct(self, x):
        return self.layers(x)


class UNet(nn.Cell):
    """Images (N, channels, H, W) to logits per pixel (N, classes, H, W).

    Args:
        channels: of the images.
        classes: of a pixel.
        width: channels of the first level.
        depth: how often the image is halved; H and W are multiples of 2**depth.
    """

    def __init__(self, channels=1, classes=2, width=16, depth=3):
        super().__init__()
        widths = [width << i for i in range(depth + 1)]
        self.enter = DoubleConv(channels, widths[0])
        self.pool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.down = nn.CellList([DoubleConv(a, b) for a, b in pairwise(widths)])
        pairs = list(pairwise(widths[::-1]))
        self.up = nn.CellList([nn.Conv2dTranspose(a, b, 2, 2) for a, b in pairs])
        self.merge = nn.CellList([DoubleConv(a, b) for a, b in pairs])
        self.leave = nn.Conv2d(widths[0], classes, 1)

    def construct(self, x):
        x = self.enter(x)
        levels = [x]
        for down in self.down:
            x = down(self.pool(x))
            levels.append(x)
        for i, up in enumerate(self.up):
            x = self.merge[i](ops.concat((levels[-2 - i], up(x)), 1))
        return self.leave(x)


def train_step(net: nn.Cell) -> nn.Cell:
    """One step of training on (images, class of each pixel)."""
    optimizer = nn.Adam(net.trainable_params(), learning_rate=1e-3)
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), optimizer).set_train()


def make_input(n: int = 1, size: int = 128, seed: int = 0) -> tuple[ms.Tensor, ...]:
    """Random images."""
    x = np.random.default_rng(seed).standard_normal((n, 1, size, size))
    return (ms.Tensor(x.astype(np.float32)),)


def make_batch(
    n: int = 2, size: int = 64, classes: int = 2, seed: int = 0
) -> tuple[ms.Tensor, ...]:
    """Random images, with a random class for each pixel."""
    labels = np.random.default_rng(seed + 1).integers(0, classes, (n, size, size))
    return *make_input(n, size, seed), ms.Tensor(labels.astype(np.int32))


if __name__ == "__main__":
    from demo import show

    ms.set_seed(0)
    show(UNet(), make_input(), train_step, make_batch())
