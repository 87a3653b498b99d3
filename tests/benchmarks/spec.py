"""A network counted layer by layer: its weights, its arithmetic, the bytes it must move.

`Spec` is filled by the same list of layers that a network has, in the order in which Cells and
torch modules register their parameters. From it come the weights that all peers share, the number
of floating point operations (a multiply-add is two) and the compulsory bytes, which a roofline
needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Kind = Literal["infer", "train", "grad"]
SEED = 7
ITEM = 4  # bytes of a float32 and of an int32


@dataclass(slots=True)
class Given:
    """An input: float32, or int32 below `high`, or float32 of magnitude (`sign` false)."""

    shape: Shape
    high: int = 0
    signed: bool = True


@dataclass(slots=True)
class Spec:
    """What a network is made of.

    Attributes:
        kind: "infer"; "train" (a step with an optimizer); "grad" (loss and gradients).
        moments: arrays per weight that the optimizer keeps.
        item: bytes of an element of inputs, weights and outputs.
        flops: forward.
        backward: further ones of the gradients.
    """

    kind: Kind = "infer"
    moments: int = 0
    item: int = ITEM
    inputs: list[Given] = field(default_factory=list)
    weights: list[tuple[str, Shape]] = field(default_factory=list)
    outputs: int = 0
    flops: float = 0.0
    backward: float = 0.0

    def image(self, *shape: int) -> None:
        """A float input."""
        self.inputs.append(Given(shape))

    def magnitudes(self, *shape: int) -> None:
        """A float input that is nowhere negative."""
        self.inputs.append(Given(shape, signed=False))

    def integers(self, high: int, *shape: int) -> None:
        """An input of labels or tokens."""
        self.inputs.append(Given(shape, high))

    def weight(self, kind: str, *shape: int) -> None:
        """A parameter: a matrix, a `gain` or a `bias`."""
        self.weights.append((kind, shape))

    def product(self, multiply_adds: float, first: bool = False) -> None:
        """A contraction; that of the `first` layer needs no gradient of its input."""
        self.flops += 2.0 * multiply_adds
        self.backward += 2.0 * multiply_adds * (1 if first else 2)

    def each(self, elements: float, forward: float, backward: float | None = None) -> None:
        """Elementwise work: operations per element."""
        self.flops += elements * forward
        self.backward += elements * (forward if backward is None else backward)

    def conv(self, inputs: int, outputs: int, size: int, pixels: int, *, groups: int = 1,
             bias: bool = False, first: bool = False) -> None:
        """A convolution to `pixels` positions (of all images)."""
        self.weight("matrix", outputs, inputs // groups, size, size)
        if bias:
            self.weight("bias", outputs)
        self.product(pixels * outputs * (inputs // groups) * size * size, first)

    def norm(self, channels: int) -> None:
        """Scale and shift of a normalisation."""
        self.weight("gain", channels)
        self.weight("bias", channels)

    def dense(self, *sizes: int, rows: int, bias: bool = True, first: bool = False) -> None:
        """Dense layers one after the other."""
        for i, (inputs, outputs) in enumerate(pairwise(sizes)):
            self.weight("matrix", outputs, inputs)
            if bias:
                self.weight("bias", outputs)
            self.product(rows * inputs * outputs, first and i == 0)

    def recurrent(self, inputs: int, hidden: int, layers: int, rows: int, gates: int) -> None:
        """LSTM (4 gates) or GRU (3) over `rows` steps of all sequences."""
        for layer in range(layers):
            width = inputs if layer == 0 else hidden
            self.weight("matrix", gates * hidden, width)
            self.weight("matrix", gates * hidden, hidden)
            self.weight("bias", gates * hidden)
            self.weight("bias", gates * hidden)
            self.product(rows * width * gates * hidden, layer == 0)
            self.product(rows * hidden * gates * hidden)

    @property
    def work(self) -> float:
        """Floating point operations of a call."""
        return self.flops + (0.0 if self.kind == "infer" else self.backward)

    @property
    def bytes(self) -> float:
        """Compulsory traffic: inputs, weights and outputs once; what a step updates twice."""
        weights = sum(float(np.prod(shape)) for _, shape in self.weights)
        inputs = sum(float(np.prod(g.shape)) for g in self.inputs)
        times = {"infer": 1.0, "grad": 2.0, "train": 2.0 + 2.0 * self.moments}[self.kind]
        return self.item * (inputs + weights * times + self.outputs)


class Weights:
    """The weights of a case, made while they are read; so they are in memory one at a time.

    Attributes:
        seconds: spent in making them, which is no peer's fault.
    """

    def __init__(self, shapes: list[tuple[str, Shape]]) -> None:
        self._shapes = shapes
        self.seconds = 0.0

    def __iter__(self) -> Iterator[Array]:
        for i, (kind, shape) in enumerate(self._shapes):
            start = time.perf_counter()
            array = _array(np.random.default_rng((SEED, i)), kind, shape)
            self.seconds += time.perf_counter() - start
            yield array

    def __len__(self) -> int:
        return len(self._shapes)


def _array(rng: np.random.Generator, kind: str, shape: Shape) -> Array:
    """Matrices and filters of unit gain, scales about 1, small biases."""
    array = rng.standard_normal(shape, np.float32)
    array *= np.float32(0.1 if kind in ("gain", "bias") else 1 / np.sqrt(np.prod(shape[1:])))
    if kind == "gain":
        array += 1
    return array


@dataclass(slots=True)
class Data:
    """Inputs and weights of a case."""

    inputs: tuple[Array, ...]
    weights: Weights


def data(spec: Spec) -> Data:
    """The arrays of a case, the same in every process."""
    rng = np.random.default_rng(SEED)

    def make(given: Given) -> Array:
        if given.high:
            return rng.integers(0, given.high, given.shape, np.int32)
        array = rng.standard_normal(given.shape, np.float32)
        return array if given.signed else np.abs(array)

    return Data(tuple(make(g) for g in spec.inputs), Weights(spec.weights))


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure.

    Attributes:
        title: for the table.
        fill: tells a Spec what the network is made of.
        kind: of a call.
        group: "workload", "aside" (networks nobody tunes for), "micro" or "half".
        optimizer: of a training step: "momentum" or "adam".
        sizes: arguments of the network, the same for all peers.
        dtype: what a call computes in. Of inference inputs, weights and outputs have this type; a
            training step has float32 parameters and automatic mixed precision.
        network: the case whose network it is, if not its own.
        steps: of training whose losses are compared. Where few values decide on which side of a
            kink many activations are, rounding shows after a few.
    """

    title: str
    fill: Callable[[Spec, dict[str, Any]], None]
    kind: Kind = "infer"
    group: str = "workload"
    optimizer: str = "momentum"
    sizes: dict[str, Any] = field(default_factory=dict)
    dtype: str = "float32"
    network: str = ""
    steps: int = 3

    def spec(self) -> Spec:
        """Its layers, counted."""
        narrow = self.dtype != "float32" and self.kind != "train"
        spec = Spec(self.kind, 2 if self.optimizer == "adam" else 1, 2 if narrow else ITEM)
        self.fill(spec, self.sizes)
        return spec
