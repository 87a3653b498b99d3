"""Programs whose compilation would not end, or would take all memory: an error with the line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor
from cellc.lang import budget


def endless_while(x: Tensor) -> Any:
    i = 0
    while i < 10**9:
        i += 1
    return x + i


def long_for(x: Tensor) -> Any:
    total = 0
    for i in range(10**9):
        total += i
    return x + total


def long_comprehension(x: Tensor) -> Any:
    return x + sum([i * i for i in range(10**9)])


def nested(x: Tensor) -> Any:
    total = 0
    for i in range(10**5):
        for k in range(10**5):
            total += i * k
    return x + total


def doubled(x: Tensor) -> Any:
    many = [x]
    for _ in range(40):
        many = many + many
    return many[0]


def doubled_in_place(x: Tensor) -> Any:
    many = [x]
    for _ in range(40):
        many += many
    return many[0]


def spread(x: Tensor) -> Any:
    many = [x]
    for _ in range(40):
        many = [*many, *many]
    return many[0]


def extended(x: Tensor) -> Any:
    many = [x]
    for _ in range(40):
        many.extend(many)
    return many[0]


def repeated(x: Tensor) -> Any:
    return x + len("a" * 10**10)


def power(x: Tensor) -> Any:
    return x + 10 ** 10**7 % 7


def shifted(x: Tensor) -> Any:
    return x + (1 << 10**10) % 7


@pytest.mark.parametrize("program", [endless_while, long_for, long_comprehension, nested])
def test_work_is_bounded(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_STATEMENTS", 5000)
    with pytest.raises(ValueError, match="at most 5000 statements of Python") as caught:
        ms.jit(program)(Tensor(np.ones(3, np.float32)))
    assert "loop over the rows of a Tensor" in str(caught.value)
    assert f"in {program.__name__}" in str(caught.value)


@pytest.mark.parametrize("program", [
    doubled, doubled_in_place, spread, extended, repeated, power, shifted])
def test_sizes_are_bounded(program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_ELEMENTS", 1 << 12)
    with pytest.raises(ValueError, match="a value computed while compiling must be"):
        ms.jit(program)(Tensor(np.ones(3, np.float32)))


def test_moderate_programs_compile() -> None:
    def moderate(x: Tensor) -> Any:
        many = [x] * 1000
        total = 0
        for i in range(2000):
            total += i
        return many[-1] + total + (1 << 60) % 7

    x = Tensor(np.ones(3, np.float32))
    np.testing.assert_array_equal(ms.jit(moderate)(x).asnumpy(), moderate(x).asnumpy())
