"""Networks of the viewer's tests: small, with all that a page can show."""

from __future__ import annotations

import numpy as np

import cellc as ms
from cellc import nn, ops

HOSTILE = "</script><img src=x onerror=\"window.pwned=1\">\u2028&'`${1}"


class Block(nn.Cell):
    """A Cell that is called twice."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(16, 16)
        self.norm = nn.LayerNorm((16,))

    def construct(self, x):
        return x + ops.relu(self.dense(self.norm(x)))


class Net(nn.Cell):
    """Cells in Cells, a loop and a branch."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.SequentialCell(Block(), Block())
        self.gate = nn.Dense(16, 1)
        self.head = nn.Dense(16, 4)

    def construct(self, x, n):
        x = self.blocks(x)
        i = ms.Tensor(0)
        while i < n:
            if self.gate(x).sum() > 0:
                x = ops.tanh(x) * 2.0
            else:
                x = ops.sigmoid(x)
            i = i + 1
        return ops.softmax(self.head(x))


class Classifier(nn.Cell):
    """Trained by `train_step`."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.SequentialCell(Block(), Block())
        self.head = nn.Dense(16, 4)

    def construct(self, x):
        return self.head(self.blocks(x))


def train_step(net):
    """One step on (x, labels)."""
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    return nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer).set_train()


class Nan(nn.Cell):
    """Half of its values are no numbers."""

    def construct(self, x):
        return ops.log(x) * 2.0


class Mixed(nn.Cell):
    """Products in half precision."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(16, 16).to_float(ms.float16)

    def construct(self, x):
        return ops.softmax(self.dense(x))


class Hostile(nn.Cell):
    """Names that would be markup if a page took them for it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.SequentialCell()
        self.inner.insert_child_to_cell("b<i>old", nn.Dense(4, 4))
        self.inner.cell_list = self.inner.cells()
        self.weight = ms.Parameter(np.ones((4, 4), np.float32), name=HOSTILE)

    def construct(self, x):
        for cell in self.inner.cells():
            x = cell(x)
        print(HOSTILE, x.sum())
        return ops.matmul(x, self.weight)
