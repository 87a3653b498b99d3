"""An optimizer of several groups does what one of each group does: rates and decays that are
numbers, schedules or nothing, gradients centralized or not, in any order of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn

GROUPS = (
    {"lr": 0.05, "weight_decay": nn.ExponentialDecayLR(0.3, 0.5, 1)},
    {"weight_decay": 0.02, "grad_centralization": True},
    {"lr": nn.PolynomialDecayLR(0.2, 0.01, 4, 2.0)},
)
WITHOUT_DECAY = ("Adagrad", "Rprop", "ASGD", "Adadelta", "SGD")
"""Their constructors take another one, or none."""
NAMES = [n for n in nn.__all__ if isinstance(getattr(nn, n), type)
         and issubclass(getattr(nn, n), nn.Optimizer) and n not in ("Optimizer", "LARS", "FTRL")]


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield


def weights() -> list[Parameter]:
    draw = np.random.RandomState(4)
    return [Parameter(Tensor(draw.randn(3, 4).astype(np.float32)), name=f"w{i}") for i in range(3)]


def slopes(step: int) -> tuple[Tensor, ...]:
    draw = np.random.RandomState(10 + step)
    return tuple(Tensor(draw.randn(3, 4).astype(np.float32)) for _ in range(3))


def made(name: str, params: Any) -> Any:
    """With decay by default where there may be one, so that what a group says counts."""
    kind = getattr(nn, name)
    if name == "AdaFactor":
        return kind(params, 0.1, weight_decay=0.01, relative_step=False, scale_parameter=False)
    return kind(params, **{
        "learning_rate": 0.1, **({"momentum": 0.9} if name == "Momentum" else {}),
        **({"weight_decay": 0.01} if name not in WITHOUT_DECAY else {})})


@pytest.mark.parametrize("name", NAMES)
def test_groups_are_optimizers_of_their_own(name: str) -> None:
    for order in ((0, 1, 2), (1, 0)):
        together, alone = weights(), weights()
        one = made(name, [{"params": [together[i]], **GROUPS[i]} for i in order])
        each = [made(name, [{"params": [alone[i]], **GROUPS[i]}]) for i in order]
        for step in range(2):
            given = slopes(step)
            one(tuple(given[i] for i in order))
            for i, optimizer in zip(order, each, strict=True):
                optimizer((given[i],))
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy(), err_msg=f"{name} {order}")
        moved = [not np.array_equal(a.asnumpy(), w.asnumpy())
                 for a, w in zip(together, weights(), strict=True)]
        assert moved == [i in order for i in range(3)]
