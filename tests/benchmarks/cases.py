"""What is measured: the same inputs and weights for every peer, and how long the answer may differ.

Weights are listed in the order in which Cells and torch modules register their parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

GPT_SIZES = {"vocabulary": 512, "context": 64, "width": 128, "depth": 2, "heads": 4}
LSTM_SIZES = {"features": 32, "hidden": 128, "classes": 10, "layers": 2}
RESNET_DEPTHS = (2, 2, 2, 2)


@dataclass(frozen=True, slots=True)
class Data:
    """Inputs and weights of a case, as arrays."""

    inputs: tuple[Array, ...]
    weights: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure.

    Attributes:
        title: for the table.
        make: gives inputs and weights.
        train: a call is a training step (and returns the loss), else it returns an array.
        extra: only measured with `--all`.
    """

    title: str
    make: Callable[[np.random.Generator], Data]
    train: bool = False
    extra: bool = False


def data(name: str) -> Data:
    """The arrays of a case, the same in every process."""
    return CASES[name].make(np.random.default_rng(7))


def _floats(rng: np.random.Generator, *shape: int) -> Array:
    return np.asarray(rng.standard_normal(shape), np.float32)


def _weights(rng: np.random.Generator, shapes: Iterator[Shape]) -> tuple[Array, ...]:
    """Random matrices and filters of unit gain; vectors are the scales and biases of layers."""
    return tuple(_weight(rng, shape) for shape in shapes)


def _weight(rng: np.random.Generator, shape: Shape) -> Array:
    if len(shape) == 1:
        return np.asarray(0.1 * rng.standard_normal(shape), np.float32)
    return np.asarray(rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])), np.float32)


def _dense(*sizes: int) -> Iterator[Shape]:
    for inputs, outputs in pairwise(sizes):
        yield outputs, inputs
        yield (outputs,)


def _lenet(rng: np.random.Generator) -> Data:
    def shapes() -> Iterator[Shape]:
        yield 6, 1, 5, 5
        yield 16, 6, 5, 5
        yield from _dense(400, 120, 84, 10)

    labels = rng.integers(0, 10, 64).astype(np.int32)
    return Data((_floats(rng, 64, 1, 32, 32), labels), _weights(rng, shapes()))


def _mlp(rng: np.random.Generator) -> Data:
    labels = rng.integers(0, 10, 128).astype(np.int32)
    return Data((_floats(rng, 128, 784), labels), _weights(rng, _dense(784, 1024, 1024, 10)))


def _chain(rng: np.random.Generator) -> Data:
    return Data((_floats(rng, 4096, 1024),))


def _gemm(rng: np.random.Generator) -> Data:
    return Data((_floats(rng, 512, 512), _floats(rng, 512, 512)))


def _conv(rng: np.random.Generator) -> Data:
    return Data((_floats(rng, 1, 64, 56, 56),), (_weight(rng, (64, 64, 3, 3)),))


def _tiny(rng: np.random.Generator) -> Data:
    return Data((_floats(rng, 1, 8),), _weights(rng, _dense(8, 8)))


def _resnet(rng: np.random.Generator) -> Data:
    def conv_bn(inputs: int, outputs: int, size: int) -> Iterator[Shape]:
        yield outputs, inputs, size, size
        yield (outputs,)
        yield (outputs,)

    def shapes() -> Iterator[Shape]:
        yield from conv_bn(3, 64, 7)
        inputs = 64
        for stage, depth in enumerate(RESNET_DEPTHS):
            for block in range(depth):
                width = 64 << stage
                yield from conv_bn(inputs, width, 3)
                yield from conv_bn(width, width, 3)
                if block == 0 and stage > 0:
                    yield from conv_bn(inputs, width, 1)
                inputs = width
        yield from _dense(512, 1000)

    return Data((_floats(rng, 1, 3, 224, 224),), _weights(rng, shapes()))


def _gpt(rng: np.random.Generator) -> Data:
    v, t, w = (GPT_SIZES[k] for k in ("vocabulary", "context", "width"))

    def shapes() -> Iterator[Shape]:
        yield t, w
        yield v, w
        for _ in range(GPT_SIZES["depth"]):
            yield from ((w,), (w,), (3 * w, w), (3 * w,), (w, w), (w,), (w,), (w,))
            yield from _dense(w, 4 * w, w)
        yield from ((w,), (w,), (v, w))

    tokens = rng.integers(0, v, (4, t + 1)).astype(np.int32)
    inputs = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
    return Data(inputs, _weights(rng, shapes()))


def _lstm(rng: np.random.Generator) -> Data:
    h, n = LSTM_SIZES["hidden"], LSTM_SIZES["layers"]

    def shapes() -> Iterator[Shape]:
        for layer in range(n):
            yield 4 * h, LSTM_SIZES["features"] if layer == 0 else h
            yield from ((4 * h, h), (4 * h,), (4 * h,))
        yield from _dense(h, LSTM_SIZES["classes"])

    labels = rng.integers(0, LSTM_SIZES["classes"], 32).astype(np.int32)
    return Data((_floats(rng, 32, 32, LSTM_SIZES["features"]), labels), _weights(rng, shapes()))


CASES: dict[str, Case] = {
    "lenet": Case("LeNet-5 training step, batch 64", _lenet, train=True),
    "mlp": Case("MLP 784-1024-1024-10 training step, batch 128", _mlp, train=True),
    "chain": Case("tanh(x) * sigmoid(x) + erf(x), 4096 x 1024", _chain),
    "gemm": Case("SGEMM 512", _gemm),
    "conv": Case("conv 3x3, 64 channels, 56 x 56", _conv),
    "tiny": Case("call of a tiny net (relu of a dense layer of 8)", _tiny),
    "resnet": Case("ResNet-18 inference, batch 1, 224 x 224", _resnet, extra=True),
    "gpt": Case("GPT training step, 4 x 64 tokens, width 128, 2 blocks", _gpt, True, True),
    "lstm": Case("LSTM training step, 32 x 32 steps, 2 x 128", _lstm, True, True),
}
