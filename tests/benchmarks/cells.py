"""Networks of the benchmark that are no samples, as Cells; loaded like a sample (see peer_cell)."""

from __future__ import annotations

import math

import numpy as np

import cellc as ms
from cellc import nn, ops


class Chain(nn.Cell):
    """tanh(x) * sigmoid(x) + erf(x), and softmax of it over the last axis."""

    def __init__(self, softmax):
        super().__init__()
        self.softmax = softmax

    def construct(self, x):
        y = ops.tanh(x) * ops.sigmoid(x) + ops.erf(x)
        if self.softmax:
            y = ops.softmax(y, -1)
        return y


class ResidualNorm(nn.Cell):
    """layernorm(x + r)."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm((width,))

    def construct(self, x, r):
        return self.norm(x + r)


class Weighted(nn.Cell):
    """The sum of a network's output with weights: a loss whose gradient is a given array."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def construct(self, *inputs):
        return ops.sum(self.net(*inputs[:-1]) * inputs[-1])


class Product(nn.Cell):
    """A matrix product."""

    def construct(self, a, b):
        return ops.matmul(a, b)


class VGG(nn.Cell):
    """Convolutions with biases, pooling, two dense layers.

    Args:
        plan: channels of the layers of each stage.
        side: of the image.
    """

    def __init__(self, plan, side=112):
        super().__init__()
        layers, channels = [], 3
        for widths in plan:
            for width in widths:
                layers += [nn.Conv2d(channels, width, 3, 1, "pad", 1, has_bias=True), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
            side //= 2
        self.features = nn.SequentialCell(layers)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(channels * side * side, 1024)
        self.fc2 = nn.Dense(1024, 1000)

    def construct(self, x):
        return self.fc2(ops.relu(self.fc1(self.flatten(self.features(x)))))


class ConvNextBlock(nn.Cell):
    """A 7x7 depthwise convolution and a two-layer network per pixel, scaled, added to the input."""

    def __init__(self, width):
        super().__init__()
        self.scale = ms.Parameter(np.ones(width, np.float32), name="scale")
        self.depthwise = nn.Conv2d(width, width, 7, 1, "pad", 3, group=width, has_bias=True)
        self.norm = nn.LayerNorm((width,))
        self.wide = nn.Dense(width, 4 * width)
        self.narrow = nn.Dense(4 * width, width)

    def construct(self, x):
        y = self.norm(self.depthwise(x).transpose(0, 2, 3, 1))
        y = self.narrow(ops.gelu(self.wide(y), "tanh")) * self.scale
        return x + y.transpose(0, 3, 1, 2)


class Reduce(nn.Cell):
    """Layer normalisation over channels, then half the side."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm = nn.LayerNorm((inputs,))
        self.conv = nn.Conv2d(inputs, outputs, 2, 2, "valid", has_bias=True)

    def construct(self, x):
        return self.conv(self.norm(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2))


class ConvNext(nn.Cell):
    """As Liu et al., 2022, with other sizes."""

    def __init__(self, widths, depths):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 4, 4, "valid", has_bias=True)
        self.enter = nn.LayerNorm((widths[0],))
        layers = []
        for i, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            if i:
                layers.append(Reduce(widths[i - 1], width))
            layers += [ConvNextBlock(width) for _ in range(depth)]
        self.layers = nn.SequentialCell(layers)
        self.norm = nn.LayerNorm((widths[-1],))
        self.head = nn.Dense(widths[-1], 1000)

    def construct(self, x):
        x = self.enter(self.stem(x).transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        return self.head(self.norm(ops.mean(self.layers(x), (2, 3))))


class MixerBlock(nn.Cell):
    """Two layers across tokens, two across channels."""

    def __init__(self, count, tokens, width):
        super().__init__()
        self.norm1 = nn.LayerNorm((width,))
        self.across = nn.SequentialCell(
            nn.Dense(count, tokens), nn.GELU(), nn.Dense(tokens, count))
        self.norm2 = nn.LayerNorm((width,))
        self.along = nn.SequentialCell(
            nn.Dense(width, 4 * width), nn.GELU(), nn.Dense(4 * width, width))

    def construct(self, x):
        x = x + self.across(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + self.along(self.norm2(x))


class Mixer(nn.Cell):
    """As Tolstikhin et al., 2021, with other sizes."""

    def __init__(self, width, patch, depth, tokens, side=112):
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, patch, "valid", has_bias=True)
        count = (side // patch) ** 2
        self.blocks = nn.SequentialCell([MixerBlock(count, tokens, width) for _ in range(depth)])
        self.norm = nn.LayerNorm((width,))
        self.head = nn.Dense(width, 100)

    def construct(self, x):
        x = self.stem(x)
        n, width, rows, columns = x.shape
        x = self.blocks(x.reshape(n, width, rows * columns).swapaxes(1, 2))
        return self.head(ops.mean(self.norm(x), 1))


class GRUClassifier(nn.Cell):
    """Sequences (N, T, features) to logits (N, classes)."""

    def __init__(self, features, hidden, classes, layers):
        super().__init__()
        self.gru = nn.GRU(features, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Dense(hidden, classes)

    def construct(self, x):
        output, _ = self.gru(x)
        return self.head(output[:, -1])


class EncoderLayer(nn.Cell):
    """Attention and a two-layer network, each added to its input and normalised after."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.scale = 1.0 / math.sqrt(width // heads)
        self.query, self.key = nn.Dense(width, width), nn.Dense(width, width)
        self.value, self.out = nn.Dense(width, width), nn.Dense(width, width)
        self.norm1 = nn.LayerNorm((width,))
        self.wide, self.narrow = nn.Dense(width, 3 * width), nn.Dense(3 * width, width)
        self.norm2 = nn.LayerNorm((width,))

    def construct(self, x):
        n, t, width = x.shape
        shape = (n, t, self.heads, width // self.heads)
        q = self.query(x).reshape(shape).swapaxes(1, 2)
        k = self.key(x).reshape(shape).swapaxes(1, 2)
        v = self.value(x).reshape(shape).swapaxes(1, 2)
        weights = ops.softmax(ops.matmul(q, k.swapaxes(-1, -2)) * self.scale, -1)
        mixed = ops.matmul(weights, v).swapaxes(1, 2).reshape(n, t, width)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.narrow(ops.gelu(self.wide(x), "none")))


class Encoder(nn.Cell):
    """Tokens (N, T) to states (N, T, width)."""

    def __init__(self, vocabulary, context, width, depth, heads):
        super().__init__()
        self.positions = ms.Parameter(np.zeros((context, width), np.float32), name="positions")
        self.tokens = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm((width,))
        self.layers = nn.SequentialCell([EncoderLayer(width, heads) for _ in range(depth)])

    def construct(self, tokens):
        x = self.tokens(tokens) + self.positions[:tokens.shape[1]]
        return self.layers(self.norm(x))
