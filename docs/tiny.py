"""The network that docs/architecture.md follows from its source to a native call."""

import numpy as np

import cellc as ms
from cellc import nn, ops


class Tiny(nn.Cell):
    """softmax(relu(x @ w + b)) over the last axis."""

    def __init__(self):
        super().__init__()
        self.w = ms.Parameter(np.ones((4, 3), np.float32), name="w")
        self.b = ms.Parameter(np.zeros(3, np.float32), name="b")

    def construct(self, x):
        h = ops.relu(ops.matmul(x, self.w) + self.b)
        return ops.softmax(h, axis=-1)
