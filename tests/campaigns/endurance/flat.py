"""Things that are done over and over in one process, whose memory must stay flat."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import cellc as ms
from cellc import Tensor, nn, ops

from .training import resident


class Net(nn.Cell):
    """A small network with parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.norm = nn.Dense(4, 4), nn.LayerNorm((4,))

    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(self.norm(self.dense(x)))


def _input(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def calls(mode: int) -> Callable[[int], object]:
    """One network, called."""
    net, x = Net(), _input(3, 4)
    ms.set_context(mode=mode)
    return lambda i: net(x)


def steps(mode: int) -> Callable[[int], object]:
    """One training step, called."""
    ms.set_context(mode=mode)
    net = Net()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()),
                               nn.Adam(net.trainable_params(), 1e-3))
    x, y = _input(3, 4), _input(3, 4)
    return lambda i: step(x, y)


def cells(mode: int) -> Callable[[int], object]:
    """Networks that are made, called (so compiled) and dropped."""
    ms.set_context(mode=mode)
    x = _input(3, 4)
    return lambda i: Net()(x)


def shapes(mode: int) -> Callable[[int], object]:
    """One network, called with shapes that have never come before (16,807 of them), the large ones
    among the small ones, for a program's temporaries are as large as its shapes."""
    ms.set_context(mode=mode)
    net = Net()

    def do(i: int) -> None:
        number = i * 7919 % 7**5
        net(_input(*(number // 7**k % 7 + 1 for k in range(5)), 4))

    return do


KINDS: dict[str, Callable[[int], Callable[[int], object]]] = {
    "calls": calls, "steps": steps, "cells": cells, "shapes": shapes}


@dataclass(frozen=True)
class Measured:
    """Resident bytes after so many repetitions."""

    done: int
    resident: int


def measured(kind: str, mode: int, count: int, times: int = 10) -> Iterator[Measured]:
    """Repeat something so often, and measure at the beginning and so many times."""
    do = KINDS[kind](mode)
    every = max(1, count // times)
    do(0)
    for i in range(1, count + 1):
        do(i)
        if i % every == 0 or i == 1:
            gc.collect()
            yield Measured(i, resident())


def bytes_each(found: list[Measured]) -> float:
    """Bytes that a repetition leaves behind, by the later half of what was measured."""
    half = found[len(found) // 2 :]
    return (half[-1].resident - half[0].resident) / (half[-1].done - half[0].done)
