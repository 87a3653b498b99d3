"""Trials of random networks of layers, trained: a few steps with each optimizer, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor, nn

from ..modes.law import Array, arrays_of, mode
from .finding import Finding, Trial
from .network import Different, same

SUFFIX = ".seed"
STEPS = 3
LAYERS: dict[str, Callable[[np.random.Generator, int], tuple[nn.Cell, int]]] = {
    "Dense": lambda r, n: (lambda m: (nn.Dense(n, m), m))(int(r.integers(1, 20))),
    "LayerNorm": lambda r, n: (nn.LayerNorm((n,)), n),
    "BatchNorm1d": lambda r, n: (nn.BatchNorm1d(n), n),
    "Dropout": lambda r, n: (nn.Dropout(p=float(r.uniform(0.1, 0.9))), n),
    "PReLU": lambda r, n: (nn.PReLU(), n),
    "Windows": lambda r, n: (Windows(int(r.integers(1, 5)), n), n),
    "Recurrent": lambda r, n: (Recurrent(int(r.integers(3)), n, bool(r.integers(2))), n),
    "Residual": lambda r, n: (Residual(n), n),
}
ACTIVATIONS = ("ReLU", "GELU", "Tanh", "Sigmoid", "ELU", "HSwish", "Mish", "SiLU", "LeakyReLU",
               "CELU", "LogSigmoid", "Softsign", "ReLU6", "SeLU", "HSigmoid")
LOSSES = ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "CosineEmbedding", "CrossEntropyLoss")


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

    def __init__(self, kind: int, size: int, both: bool) -> None:
        super().__init__()
        self.layer = (nn.LSTM, nn.GRU, nn.RNN)[kind](1, 3, batch_first=True, bidirectional=both)

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


def optimizers() -> dict[str, Callable[[Any], Any]]:
    """All optimizers, each in some of its ways."""
    made: dict[str, Callable[[Any], Any]] = {
        name: partial(getattr(nn, name), learning_rate=0.01)
        for name in ("ASGD", "AdaMax", "Adadelta", "Adagrad", "Adam", "AdamWeightDecay", "FTRL",
                     "Lamb", "LazyAdam", "ProximalAdagrad", "RMSProp", "Rprop", "SGD",
                     "AdamOffload")}
    made["AdaFactor"] = nn.AdaFactor
    made["Momentum"] = partial(nn.Momentum, learning_rate=0.1, momentum=0.9)
    made["Nesterov"] = partial(nn.Momentum, learning_rate=0.1, momentum=0.9, use_nesterov=True)
    made["SGD momentum"] = partial(nn.SGD, learning_rate=0.1, momentum=0.9, weight_decay=1e-3)
    made["Adam amsgrad"] = partial(nn.Adam, learning_rate=0.01, use_amsgrad=True)
    made["Adam decayed"] = partial(nn.Adam, learning_rate=nn.ExponentialDecayLR(0.1, 0.9, 2),
                                   weight_decay=0.01)
    made["LARS"] = lambda params: nn.LARS(nn.Momentum(params, 0.1, 0.9))
    made["RMSProp centered"] = partial(nn.RMSProp, learning_rate=0.01, centered=True)
    return made


OPTIMIZERS = optimizers()


def network(rng: np.random.Generator, size: int) -> tuple[nn.Cell, int, list[str]]:
    """Two to six layers with activations; the size that comes out and their names."""
    cells: list[nn.Cell] = []
    names = []
    for _ in range(int(rng.integers(2, 7))):
        name = list(LAYERS)[int(rng.integers(len(LAYERS)))]
        cell, size = LAYERS[name](rng, size)
        cells.append(cell)
        names.append(name)
        if rng.random() < 0.6:
            name = ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))]
            cells.append(getattr(nn, name)())
            names.append(name)
    if "Dense" not in names:
        cells.append(nn.Dense(size, size))
    return nn.SequentialCell(cells), size, names


class CosineLoss(nn.Cell):
    """`CosineEmbeddingLoss` of a result and its target."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.CosineEmbeddingLoss()

    def construct(self, out: Tensor, target: Tensor) -> Tensor:
        return self.loss(out, target, ms.ops.ones((out.shape[0],), ms.int32))


def steps(seed: int, in_mode: int) -> tuple[list[Array], list[str]]:
    """Losses, parameters and state of a few steps, and what took part."""
    rng = np.random.default_rng([seed, 7])
    rows, size = int(rng.choice((1, 2, 3, 5, 8, 17))), int(rng.integers(1, 12))
    with mode(in_mode):
        ms.set_seed(seed)
        net, out, names = network(rng, size)
        if "BatchNorm1d" in names:
            rows = max(rows, 2)
        loss_name = LOSSES[int(rng.integers(len(LOSSES)))]
        loss = CosineLoss() if loss_name == "CosineEmbedding" else getattr(nn, loss_name)()
        optimizer_name = list(OPTIMIZERS)[int(rng.integers(len(OPTIMIZERS)))]
        optimizer = OPTIMIZERS[optimizer_name](net.trainable_params())
        step = nn.TrainOneStepCell(nn.WithLossCell(net, loss), optimizer)
        step.set_train()
        found: list[Array] = []
        for _ in range(STEPS):
            x = Tensor(rng.standard_normal((rows, size)).astype(np.float32))
            y = Tensor(rng.uniform(0, 1, (rows, out)).astype(np.float32))
            found += arrays_of(step(x, y))
        found += [np.array(p._data) for p in step.get_parameters()]
    return found, [*(f"layer {n}" for n in names), f"loss {loss_name}",
                   f"optimizer {optimizer_name}"]


def trial(seed: int) -> Trial:
    """A few steps of one network in both modes."""
    names: Sequence[str] = ()
    try:
        eager, names = steps(seed, ms.PYNATIVE_MODE)
        graph, _ = steps(seed, ms.GRAPH_MODE)
        same(graph, eager, "graph mode and PyNative, losses and parameters")
    except Exception as e:
        kind = "Different" if isinstance(e, Different) else type(e).__name__
        told = f"{kind}: {e} ({', '.join(names)})".splitlines()[0]
        return Trial(finding=Finding("training", seed, told, f"{seed}\n{told}\n", SUFFIX))
    return Trial(dict.fromkeys(names, 1))


def play(path: Path) -> str:
    """What a case of the corpus shows; "" if it is mended."""
    found = trial(int(path.read_text().split()[0])).finding
    return found.what if found else ""
