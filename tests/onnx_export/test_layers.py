"""Layers and functions exported to ONNX, with their sizes fixed and with an open batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

from .peer import Peer


def normal(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def ints(*numbers: int) -> Tensor:
    return Tensor(np.array(numbers, np.int32))


class Function(nn.Cell):
    """A function as a Cell."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, *x: Any) -> Any:
        return self.function(*x)


def recomputed() -> nn.Cell:
    net = nn.SequentialCell(nn.Dense(4, 4), nn.ReLU())
    net.recompute()
    return net


def parts(x: Any) -> Any:
    return x[:, 1:3], x[..., None, 0], x[:, [0, 2, 1]], x[-1]


def orders(x: Any) -> Any:
    return x.argmax(1), x.argmin(0), *ops.sort(x, 1), *x.topk(2)


CASES: dict[str, tuple[Callable[[], nn.Cell], tuple[Any, ...]]] = {
    "transposed": (lambda: nn.Conv2dTranspose(3, 4, 3, stride=2, pad_mode="same"),
                   (normal(2, 3, 5, 5),)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3), (normal(2, 3, 9),)),
    "max_pool": (lambda: nn.MaxPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True),
                 (normal(2, 3, 8, 8),)),
    "avg_pool": (lambda: nn.AvgPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True),
                 (normal(2, 3, 8, 8),)),
    "avg_pool_inside": (lambda: nn.AvgPool2d(3, 2, pad_mode="pad", padding=1, ceil_mode=True,
                                             count_include_pad=False), (normal(2, 3, 8, 8),)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (normal(2, 3, 8, 7),)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (normal(2, 4, 5, 5),)),
    "instance_norm": (lambda: nn.InstanceNorm2d(4), (normal(2, 4, 5, 5),)),
    "gru": (lambda: nn.GRU(5, 6, 2, bidirectional=True, batch_first=True), (normal(2, 7, 5),)),
    "lstm": (lambda: nn.LSTM(5, 6, 2, bidirectional=True), (normal(7, 2, 5),)),
    "attention": (lambda: nn.MultiheadAttention(8, 2), (normal(4, 2, 8),) * 3),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16), (normal(4, 2, 8),)),
    "prelu": (lambda: nn.PReLU(3), (normal(2, 3, 4),)),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), (normal(2, 8, 3, 3),)),
    "recompute": (recomputed, (normal(3, 4),)),
    "embedding": (lambda: nn.Embedding(10, 4), (ints(1, 9, 0),)),
    "bilinear": (lambda: Function(lambda x: ops.interpolate(x, size=(8, 8), mode="bilinear")),
                 (normal(2, 3, 4, 4),)),
    "parts": (lambda: Function(parts), (normal(3, 4, 5),)),
    "orders": (lambda: Function(orders), (normal(3, 4),)),
    "one_hot": (lambda: Function(lambda x: ops.one_hot(x, 5)), (ints(1, 2, 7, -1),)),
    "nonzero": (lambda: Function(lambda x: ops.nonzero(x > 0)), (normal(3, 4),)),
    "mask": (lambda: Function(lambda x: x[x > 0]), (normal(3, 4),)),
    "half": (lambda: nn.Dense(4, 5).to_float(ms.float16), (normal(3, 4),)),
}


def flat(x: Any) -> list[Any]:
    return [z for y in x for z in flat(y)] if isinstance(x, (tuple, list)) else [x]


def compare(peer: Peer, path: Path, net: nn.Cell, inputs: tuple[Any, ...]) -> None:
    got = peer.run(path, [x.asnumpy() for x in inputs])
    for a, b in zip(got, flat(net(*inputs)), strict=True):
        want = b.asnumpy()
        assert (a.shape, a.dtype) == (want.shape, want.dtype)
        near = 1e-2 if want.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(a, want, near, near)


@pytest.mark.parametrize("name", CASES)
def test_layer(name: str, peer: Peer, tmp_path: Path) -> None:
    make, inputs = CASES[name]
    net = make()
    net.set_train(False)
    ms.export(net, *inputs, file_name=str(tmp_path / "a"), file_format="ONNX")
    compare(peer, tmp_path / "a.onnx", net, inputs)
    opened = [Tensor(shape=[None, *x.shape[1:]], dtype=x.dtype) for x in inputs]
    ms.export(net, *opened, file_name=str(tmp_path / "b"), file_format="ONNX")
    for times in (1, 2):
        more = tuple(Tensor(np.concatenate([x.asnumpy()] * times)) for x in inputs)
        compare(peer, tmp_path / "b.onnx", net, more)
