"""Small networks whose sizes are left open, with inputs for given sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn, ops


class Mlp(nn.Cell):
    """Dense, relu, dense, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Dense(20, 24)
        self.b = nn.Dense(24, 10)

    def construct(self, x: Tensor) -> Tensor:
        return ops.softmax(self.b(ops.relu(self.a(x))), -1)


class Cnn(nn.Cell):
    """Convolution, normalisations, pool, dense; any batch and any image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, has_bias=True)
        self.bn = nn.BatchNorm2d(8)
        self.gn = nn.GroupNorm(2, 8)
        self.pool = nn.MaxPool2d(2, 2)
        self.fc = nn.Dense(8, 10)

    def construct(self, x: Tensor) -> Tensor:
        h = self.pool(self.gn(ops.relu(self.bn(self.conv(x)))))
        return self.fc(ops.mean(h, (2, 3)))


class Lstm(nn.Cell):
    """A recurrent layer over sequences of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(6, 8, batch_first=True)

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, (h, _) = self.layer(x)
        return y, h


class Block(nn.Cell):
    """Embedding, position, causal attention, dense: a GPT block over any batch and length."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(50, 16)
        self.place = ms.Parameter(np.linspace(-1, 1, 40 * 16, dtype=np.float32).reshape(40, 16),
                                  name="place")
        self.norm = nn.LayerNorm((16,))
        self.qkv = nn.Dense(16, 48)
        self.out = nn.Dense(16, 16)

    def heads(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        return x.reshape(b, t, 2, 8).transpose(0, 2, 1, 3)

    def construct(self, ids: Tensor) -> Tensor:
        b, t = ids.shape
        x = self.token(ids) + self.place[:t]
        q, k, v = (self.heads(z) for z in ops.split(self.qkv(self.norm(x)), 16, -1))
        scores = ops.matmul(q, k.swapaxes(-1, -2)) * (1.0 / 8**0.5)
        mask = ops.tril(ops.ones((t, t), ms.float32))
        weights = ops.softmax(ops.masked_fill(scores, mask == 0, -1e9), -1)
        mixed = ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(b, t, 16)
        return x + self.out(mixed)


def floats(*shape: int) -> Tensor:
    """Random elements that depend on the shape alone."""
    return Tensor(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32))


def numbers(*shape: int) -> Tensor:
    """Random token numbers."""
    return Tensor(np.random.default_rng(sum(shape)).integers(0, 50, shape).astype(np.int32))


def open_tensor(*axes: Any, dtype: Any = ms.float32) -> Tensor:
    """A Tensor that only says a type."""
    return Tensor(shape=list(axes), dtype=dtype)


@dataclass(frozen=True)
class Case:
    """A network, what is open, and sizes to call it with (the first 0 or 1, the rest any)."""

    make: Callable[[], nn.Cell]
    spec: Tensor
    inputs: Callable[..., Tensor]
    sizes: tuple[tuple[int, ...], ...]


CASES = {
    "mlp": Case(Mlp, open_tensor(None, 20), lambda n: floats(n, 20),
                ((1,), (2,), (3,), (16,), (37,), (128,))),
    "cnn": Case(Cnn, open_tensor(None, 3, None, None), lambda n, h, w: floats(n, 3, h, w),
                ((1, 8, 8), (2, 9, 13), (5, 16, 7), (1, 17, 17))),
    "lstm": Case(Lstm, open_tensor(None, None, 6), lambda n, t: floats(n, t, 6),
                 ((1, 1), (2, 5), (3, 11), (1, 17))),
    "block": Case(Block, open_tensor(None, None, dtype=ms.int32), numbers,
                  ((1, 1), (2, 5), (3, 7), (1, 40), (4, 13))),
}
