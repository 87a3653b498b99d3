"""Containers that a network reaches by attributes of functions, methods and other objects of
Python's own: each call changes them, in both modes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn

LISTS: list[list[Any]] = [[] for _ in range(6)]


def helper() -> None:
    """A function with an attribute."""


class Owner:
    """Has a method with an attribute."""

    def method(self) -> None:
        """Do nothing."""


def keep(made: Any, at: list[Any] = LISTS[3]) -> None:
    """Never called: its default is read."""


vars(helper)["seen"] = LISTS[0]
vars(Owner.method)["seen"] = LISTS[1]
PARTIAL: Any = functools.partial(helper)
PARTIAL.seen = LISTS[2]
BOUND: Any = Owner().method
LOCAL = threading.local()
LOCAL.seen = LISTS[4]
HELPER: Any = helper
WRAPPED: Any = functools.wraps(helper)(lambda: None)

READS: dict[str, tuple[int, Callable[[Any], None]]] = {
    "a function": (0, lambda y: HELPER.seen.append(y)),
    "its dict": (0, lambda y: HELPER.__dict__["seen"].append(y)),
    "what a function wraps": (0, lambda y: WRAPPED.__wrapped__.seen.append(y)),
    "a bound method": (1, lambda y: BOUND.seen.append(y)),
    "its function": (1, lambda y: BOUND.__func__.seen.append(y)),
    "a method of a class": (1, lambda y: Owner.method.seen.append(y)),  # type: ignore[attr-defined]
    "a partial": (2, lambda y: PARTIAL.seen.append(y)),
    "defaults": (3, lambda y: keep.__defaults__[0].append(y)),  # type: ignore[index]
    "an object of a thread": (4, lambda y: LOCAL.seen.append(y)),
}


class Net(nn.Cell):
    """Notes what it gets."""

    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__()
        self.note = note

    def construct(self, x: Tensor) -> Tensor:
        self.note(x + 1)
        return x


@pytest.mark.parametrize("name", READS)
def test_each_call_adds_an_element(mode: int, name: str) -> None:
    number, note = READS[name]
    LISTS[number].clear()
    net = Net(note)
    for count in range(3):
        net(Tensor(np.full(2, count, np.float32)))
    assert [t.asnumpy().tolist() for t in LISTS[number]] == [[1, 1], [2, 2], [3, 3]]
    assert all(type(t) is ms.Tensor for t in LISTS[number])
