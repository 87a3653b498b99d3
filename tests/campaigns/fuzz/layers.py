"""Layers, losses and optimizers that random trainings are made of.

A layer takes rows of some size and gives rows: those that take images, volumes, sequences or
numbers get them from the rows and are averaged over what they add.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, experimental, nn, ops

Rng = np.random.Generator


class Shaped(nn.Cell):
    """A layer over [rows, channels, ...], or over sequences [rows, steps, features]."""

    def __init__(self, size: int, layer: nn.Cell, shape: tuple[int, ...], axis: int = 1) -> None:
        super().__init__()
        self.inner, self.layer = nn.Dense(size, math.prod(shape)), layer
        self.shape, self.axis = shape, axis

    def construct(self, x: Tensor) -> Tensor:
        y = self.layer(self.inner(x).reshape((x.shape[0], *self.shape)))
        if isinstance(y, tuple):
            y = y[0]
        if self.axis < 0:
            return y.mean(1)
        return y.reshape((y.shape[0], y.shape[1], -1)).mean(-1)


class Looked(nn.Cell):
    """Rows of a table, chosen by the signs and sizes of the features."""

    def __init__(self, layer: nn.Cell, count: int) -> None:
        super().__init__()
        self.layer, self.count = layer, count

    def construct(self, x: Tensor) -> Tensor:
        numbers = ops.cast(ops.abs(x) * 3, ms.int32) % self.count
        return self.layer(numbers).mean(1) + x.mean(-1, keep_dims=True)


class Fields(nn.Cell):
    """Fields of a table, weighted by the features."""

    def __init__(self, layer: nn.Cell, fields: int) -> None:
        super().__init__()
        self.layer, self.fields = layer, fields

    def construct(self, x: Tensor) -> Tensor:
        numbers = ops.cast(ops.abs(x) * 3, ms.int32) % 5
        return self.layer(numbers, x, numbers % self.fields).reshape((x.shape[0], -1))


class Twice(nn.Cell):
    """A layer of two arguments, or a cell of a recurrent layer, given the features twice."""

    def __init__(self, layer: nn.Cell, state: nn.Cell | None = None) -> None:
        super().__init__()
        self.layer, self.state = layer, state

    def construct(self, x: Tensor) -> Tensor:
        return self.layer(x, x if self.state is None else self.state(x))


class Step(nn.Cell):
    """One step of a recurrent layer with two states."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.layer, self.state = nn.LSTMCell(size, hidden), nn.Dense(size, hidden)

    def construct(self, x: Tensor) -> Tensor:
        state = ops.tanh(self.state(x))
        h, c = self.layer(x, (state, state * 0.5))
        return h + c


class Attended(nn.Cell):
    """Attention of a sequence to itself."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)

    def construct(self, x: Tensor) -> Tensor:
        return self.layer(x, x, x)[0]


class Windows(nn.Cell):
    """A convolution along the features."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.out = nn.Conv1d(1, channels, 3, pad_mode="same", has_bias=True)
        self.back = nn.Conv1d(channels, 1, 1, pad_mode="valid")

    def construct(self, x: Tensor) -> Tensor:
        return self.back(self.out(x.expand_dims(1))).squeeze(1)


class Recurrent(nn.Cell):
    """The features as steps of a sequence."""

    def __init__(self, kind: int, both: bool, layers: int, dropout: float) -> None:
        super().__init__()
        self.layer = (nn.LSTM, nn.GRU, nn.RNN)[kind](
            1, 3, layers, batch_first=True, bidirectional=both, dropout=dropout)

    def construct(self, x: Tensor) -> Tensor:
        out, _ = self.layer(x.expand_dims(-1))
        return out.mean(-1)


class Residual(nn.Cell):
    """A layer, and what it was given."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = nn.SequentialCell(nn.Dense(size, size), nn.ReLU())

    def construct(self, x: Tensor) -> Tensor:
        return x + self.layer(x)


def _some(rng: Rng, low: int, high: int) -> int:
    return int(rng.integers(low, high))


def _convolution(rng: Rng, size: int, rank: int) -> tuple[nn.Cell, int]:
    group = _some(rng, 1, 3)
    before, after = group * _some(rng, 1, 4), group * _some(rng, 1, 4)
    pad = ("same", "valid", "pad")[_some(rng, 0, 3)]
    layer = getattr(nn, f"Conv{rank}d")(
        before, after, _some(rng, 1, 4), stride=_some(rng, 1, 3), pad_mode=pad,
        padding=1 if pad == "pad" else 0, dilation=_some(rng, 1, 3) if rank < 3 else 1,
        group=group, has_bias=bool(rng.integers(2)))
    return Shaped(size, layer, (before, *[_some(rng, 5, 8) for _ in range(rank)])), after


def _transposed(rng: Rng, size: int, rank: int) -> tuple[nn.Cell, int]:
    before, after = _some(rng, 1, 4), _some(rng, 1, 4)
    layer = getattr(nn, f"Conv{rank}dTranspose")(
        before, after, _some(rng, 1, 4), stride=_some(rng, 1, 3),
        pad_mode=("same", "valid")[_some(rng, 0, 2)], has_bias=bool(rng.integers(2)))
    return Shaped(size, layer, (before, *[_some(rng, 2, 5) for _ in range(rank)])), after


def _per_channel(rng: Rng, size: int, make: Callable[[int], nn.Cell], rank: int) \
        -> tuple[nn.Cell, int]:
    """A layer that keeps the channels, over so many more axes."""
    channels = 2 * _some(rng, 1, 4)
    shape = (channels, *[_some(rng, 2, 6) for _ in range(rank)])
    return Shaped(size, make(channels), shape), channels


def _sequence(rng: Rng, size: int, make: Callable[[int], nn.Cell]) -> tuple[nn.Cell, int]:
    """A layer over sequences of an even width."""
    width = 2 * _some(rng, 1, 4)
    return Shaped(size, make(width), (_some(rng, 1, 6), width), axis=-1), width


def _to(rng: Rng, make: Callable[[int], nn.Cell], most: int = 20) -> tuple[nn.Cell, int]:
    """A layer that gives some features."""
    after = _some(rng, 1, most)
    return make(after), after


def _dropout(rng: Rng) -> float:
    return float(rng.uniform(0.1, 0.9))


Layer = Callable[[Rng, int], tuple[nn.Cell, int]]
LAYERS: dict[str, Layer] = {
    "Dense": lambda r, n: _to(r, lambda m: nn.Dense(n, m)),
    "Linear": lambda r, n: _to(r, lambda m: nn.Linear(n, m)),
    "BiDense": lambda r, n: _to(r, lambda m: Twice(nn.BiDense(n, n, m)), 6),
    "DenseBnAct": lambda r, n: _to(r, lambda m: nn.DenseBnAct(n, m, has_bn=True,
                                                              activation="relu")),
    "LayerNorm": lambda r, n: (nn.LayerNorm((n,)), n),
    "LayerNormExt": lambda r, n: (nn.LayerNormExt(n), n),
    "BatchNorm1d": lambda r, n: (nn.BatchNorm1d(n, momentum=float(r.uniform(0, 1))), n),
    "SyncBatchNorm": lambda r, n: (nn.SyncBatchNorm(n), n),
    "Dropout": lambda r, n: (nn.Dropout(p=_dropout(r)), n),
    "DropoutExt": lambda r, n: (nn.DropoutExt(_dropout(r)), n),
    "PReLU": lambda r, n: (nn.PReLU(), n),
    "PReLUExt": lambda r, n: (nn.PReLUExt(), n),
    "RReLU": lambda r, n: (nn.RReLU(), n),
    "Windows": lambda r, n: (Windows(_some(r, 1, 5), n), n),
    "Recurrent": lambda r, n: (
        Recurrent(_some(r, 0, 3), bool(r.integers(2)), k := _some(r, 1, 3),
                  _dropout(r) if k > 1 else 0.0), n),
    "RNNCell": lambda r, n: _to(r, lambda m: Twice(nn.RNNCell(n, m), nn.Dense(n, m)), 8),
    "GRUCell": lambda r, n: _to(r, lambda m: Twice(nn.GRUCell(n, m), nn.Dense(n, m)), 8),
    "LSTMCell": lambda r, n: _to(r, lambda m: Step(n, m), 8),
    "Residual": lambda r, n: (Residual(n), n),
    "Embedding": lambda r, n: _to(r, lambda m: Looked(
        nn.Embedding(5, m, use_one_hot=bool(r.integers(2)), padding_idx=(None, 0)[m % 2]), 5)),
    "EmbeddingLookup": lambda r, n: _to(r, lambda m: Looked(nn.EmbeddingLookup(7, m), 7)),
    "EmbeddingExt": lambda r, n: _to(r, lambda m: Looked(nn.EmbeddingExt(6, m, padding_idx=1), 6)),
    "MultiFieldEmbeddingLookup": lambda r, n: (
        Fields(nn.MultiFieldEmbeddingLookup(5, 3, k := _some(r, 1, 4)), k), 3 * k),
    **{f"Conv{k}d": partial(_convolution, rank=k) for k in (1, 2, 3)},
    **{f"Conv{k}dTranspose": partial(_transposed, rank=k) for k in (1, 2, 3)},
    "Conv2dBnAct": lambda r, n: _per_channel(
        r, n, lambda c: nn.Conv2dBnAct(c, c, 3, has_bn=True, activation="relu6"), 2),
    **{f"BatchNorm{k}d": partial(_per_channel, make=getattr(nn, f"BatchNorm{k}d"), rank=k)
       for k in (2, 3)},
    **{f"InstanceNorm{k}d": partial(_per_channel, make=getattr(nn, f"InstanceNorm{k}d"), rank=k)
       for k in (1, 2, 3)},
    "GroupNorm": partial(_per_channel, make=lambda c: nn.GroupNorm(2, c), rank=2),
    **{f"Dropout{k}d": partial(_per_channel, make=lambda c, k=k: getattr(nn, f"Dropout{k}d")(0.4),
                               rank=k) for k in (1, 2, 3)},
    **{f"{name}Pool{k}d": partial(
        _per_channel, make=lambda c, name=name, k=k: getattr(nn, f"{name}Pool{k}d")(2, 1),
        rank=k) for name in ("Max", "Avg") for k in (1, 2, 3)},
    **{f"LPPool{k}d": partial(_per_channel, make=lambda c, k=k: getattr(nn, f"LPPool{k}d")(2, 2),
                              rank=k) for k in (1, 2)},
    **{f"Adaptive{name}Pool2d": partial(
        _per_channel, make=lambda c, name=name: getattr(nn, f"Adaptive{name}Pool2d")(2), rank=2)
       for name in ("Max", "Avg")},
    "FractionalMaxPool2d": partial(
        _per_channel, make=lambda c: nn.FractionalMaxPool2d(1, output_size=(2, 2)), rank=2),
    "ReflectionPad2d": partial(_per_channel, make=lambda c: nn.ReflectionPad2d(1), rank=2),
    "Upsample": partial(_per_channel, make=lambda c: nn.Upsample(
        scale_factor=2.0, mode="nearest", recompute_scale_factor=True), rank=2),
    "MultiheadAttention": partial(_sequence, make=lambda w: Attended(w, 2, 0.2)),
    "TransformerEncoderLayer": partial(_sequence, make=lambda w: nn.TransformerEncoderLayer(
        w, 2, 5, batch_first=True)),
    "TransformerDecoderLayer": partial(_sequence, make=lambda w: Twice(nn.TransformerDecoderLayer(
        w, 2, 5, batch_first=True, norm_first=True))),
    "Transformer": partial(_sequence, make=lambda w: Twice(nn.Transformer(
        w, 2, 1, 1, 5, batch_first=True))),
    "TimeDistributed": partial(_sequence, make=lambda w: nn.TimeDistributed(
        nn.Dense(w, w), 1, reshape_with_axis=0)),
}
ALL = [*LAYERS]
TOGETHER = ("BatchNorm", "SyncBatchNorm", "BnAct", "InstanceNorm")
"""Layers that ask for more than one row."""
ACTIVATIONS = ("ReLU", "GELU", "Tanh", "Sigmoid", "ELU", "HSwish", "Mish", "SiLU", "LeakyReLU",
               "CELU", "LogSigmoid", "Softsign", "ReLU6", "SeLU", "HSigmoid", "FastGelu", "HShrink",
               "SoftShrink", "Tanhshrink", "Softmax", "LogSoftmax", "Softmin", "Hardtanh")
LOSSES = ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "CosineEmbedding", "CrossEntropyLoss",
          "RMSELoss", "MAELoss", "BCEWithLogitsLoss", "KLDivLoss", "SoftMarginLoss",
          "PoissonNLLLoss", "MultiLabelSoftMarginLoss")


class CosineLoss(nn.Cell):
    """`CosineEmbeddingLoss` of a result and its target."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.CosineEmbeddingLoss()

    def construct(self, out: Tensor, target: Tensor) -> Tensor:
        return self.loss(out, target, ops.ones((out.shape[0],), ms.int32))


def loss_of(name: str) -> nn.Cell:
    """A loss by its name."""
    made: nn.Cell = CosineLoss() if name == "CosineEmbedding" else getattr(nn, name)()
    return made


def _grouped(params: Any) -> Any:
    """Two groups of parameters, each with a rate and a decay of its own."""
    half = len(params) // 2
    if not half:
        return params
    return [{"params": params[:half], "lr": 0.02, "weight_decay": 0.01},
            {"params": params[half:], "grad_centralization": False},
            {"order_params": params}]


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    **{name: partial(getattr(nn, name), learning_rate=0.01)
       for name in ("ASGD", "AdaMax", "Adadelta", "Adagrad", "Adam", "AdamWeightDecay", "FTRL",
                    "Lamb", "LazyAdam", "ProximalAdagrad", "RMSProp", "Rprop", "SGD",
                    "AdamOffload")},
    "AdaFactor": nn.AdaFactor,
    "Momentum": partial(nn.Momentum, learning_rate=0.1, momentum=0.9),
    "Nesterov": partial(nn.Momentum, learning_rate=0.1, momentum=0.9, use_nesterov=True),
    "SGD momentum": partial(nn.SGD, learning_rate=0.1, momentum=0.9, weight_decay=1e-3),
    "Adam amsgrad": partial(nn.Adam, learning_rate=0.01, use_amsgrad=True),
    "Adam decayed": lambda params: nn.Adam(  # (a schedule of its own)
        params, nn.ExponentialDecayLR(0.1, 0.9, 2), weight_decay=0.01),
    "Adam groups": lambda params: nn.Adam(_grouped(params), 0.01),
    "LARS": lambda params: nn.LARS(nn.Momentum(params, 0.1, 0.9)),
    "RMSProp centered": partial(nn.RMSProp, learning_rate=0.01, centered=True),
    **{f"experimental {name}": partial(getattr(experimental.optim, name), lr=0.01)
       for name in ("ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam",
                    "RMSprop", "Rprop", "SGD")},
}
"""All optimizers of one process, each in some of its ways."""
