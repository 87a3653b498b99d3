"""The eager steps of an optimizer are compiled after the first ones; nothing of it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.nn.optim.steady import EAGER_STEPS

SHAPES = [(3, 5), (17,), (), (4, 2, 3)]
MAKERS: dict[str, Callable[[Any], Any]] = {
    "adam": lambda p: nn.Adam(p, 0.1, weight_decay=0.01),
    "momentum": lambda p: nn.Momentum(p, 0.1, 0.9),
    "decay": lambda p: nn.AdamWeightDecay(p, [0.1 / (i + 1) for i in range(20)]),
}


def steps(name: str, mode: int, count: int) -> list[np.ndarray[Any, Any]]:
    ms.set_context(mode=mode)
    rng = np.random.default_rng(4)
    params = [ms.Parameter(ms.Tensor(rng.standard_normal(s).astype(np.float32)), name=f"p{i}")
              for i, s in enumerate(SHAPES)]
    optimizer = MAKERS[name](params)
    for i in range(count):
        grads = tuple(ms.Tensor(rng.standard_normal(s).astype(np.float32)) for s in SHAPES)
        if i == EAGER_STEPS + 2:
            params[1].set_data(params[1] * 2.0)
            optimizer.learning_rate.set_data(ms.Tensor(0.05)) if name != "decay" else None
        optimizer(grads)
    return [p.asnumpy().copy() for p in params]


@pytest.mark.parametrize("name", MAKERS)
def test_bits_are_those_of_the_compiled_steps(name: str) -> None:
    count = EAGER_STEPS + 5
    eager, graph = steps(name, ms.PYNATIVE_MODE, count), steps(name, ms.GRAPH_MODE, count)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for a, b in zip(eager, graph, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_users_subclass_stays_python() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    calls: list[int] = []

    class Noted(nn.SGD):
        def construct(self, gradients: Any) -> Any:
            calls.append(1)
            return super().construct(gradients)

    weight = ms.Parameter(ms.Tensor(np.ones(3, np.float32)), name="w")
    optimizer = Noted([weight], 0.1)
    for _ in range(EAGER_STEPS + 3):
        optimizer((ms.Tensor(np.ones(3, np.float32)),))
    assert len(calls) == EAGER_STEPS + 3
