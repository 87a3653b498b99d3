"""Gradients of integers, in both modes: facts recorded from MindSpore 2.10.

A gradient has the type of what it belongs to, so each conversion of an integer to a float cuts the
gradient that comes back (towards zero).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.tracing.pytree import take_apart

from ..modes.law import MODES, mode

I32 = Tensor(np.array([1, 2], np.int32))
I64 = Tensor(np.array([1, 2], np.int64))
I8 = Tensor(np.array([1, 2], np.int8))
SIGNED = Tensor(np.array([1, -2], np.int32))
F = Tensor(np.array([0.5, 1.7], np.float32))
G = Tensor(np.array([2.7, -1.7], np.float32))


def product(x: Any, y: Any) -> Any:
    return x * y


FACTS: dict[str, tuple[Callable[[], Any], Any]] = {
    "times a number": (lambda: ms.grad(lambda x: x * 2.5)(I32), [2, 2]),
    "integer output": (lambda: ms.grad(lambda x: x * 3)(I32), [3, 3]),
    "square": (lambda: ms.grad(lambda x: x * x)(I64), [2, 4]),
    "power": (lambda: ms.grad(lambda x: x ** 2)(I32), [2, 4]),
    "beside a float": (lambda: ms.grad(product, (0, 1))(I32, F), ([0, 1], [1.0, 2.0])),
    "cut towards zero": (lambda: ms.grad(product)(I32, G), [2, -1]),
    "cut at each conversion": (lambda: ms.grad(lambda x, y: x * y + x * y)(I32, F), [0, 2]),
    "wrapped": (lambda: ms.grad(product)(I8, Tensor(np.array([300.7, -1.7], np.float32))),
                [44, -1]),
    "converted": (lambda: ms.grad(lambda x: (x.astype(ms.float32) ** 2).sum())(I32), [2, 4]),
    "sum": (lambda: ms.grad(lambda x: x.sum())(I32), [1, 1]),
    "matrix product": (
        lambda: ms.grad(ops.matmul, (0, 1))(Tensor(np.array([[1, 2]], np.int32)),
                                            Tensor(np.array([[3], [4]], np.int32))),
        ([[3, 4]], [[1], [2]])),
    "stopped": (lambda: ms.grad(lambda x: ops.stop_gradient(x) * 3)(I32), [0, 0]),
    "several paths": (lambda: ms.grad(lambda x: x + x * 2 + x * 0.5)(I32), [3, 3]),
    "chosen": (lambda: ms.grad(lambda x: ops.where(x > 1, x, x * 2.5))(I32), [2, 1]),
    "an element": (lambda: ms.grad(lambda x: x[0] * 1.5)(I32), [1, 0]),
    "joined": (lambda: ms.grad(lambda x: ops.cat((x, x * 2)))(I32), [3, 3]),
    "relu": (lambda: ms.grad(lambda x: ops.relu(x) * 2)(SIGNED), [2, 0]),
    "abs": (lambda: ms.grad(lambda x: ops.abs(x) * 2)(SIGNED), [2, -2]),
    "largest": (lambda: ms.grad(lambda x: x.max() * 2)(SIGNED), [2, 0]),
    "product": (lambda: ms.grad(lambda x: x.prod())(SIGNED), [-2, 1]),
    "running product": (lambda: ms.grad(lambda x: ops.cumprod(x, 0))(SIGNED), [-1, 1]),
    "positions": (lambda: ms.grad(lambda x: ops.argmax(x))(G), [0.0, 0.0]),
    "positions of the largest": (lambda: ms.grad(lambda x: ops.topk(x, 1)[1])(G), [0.0, 0.0]),
    "indices": (lambda: ms.grad(lambda x, i: ops.gather(x, i, 0), (0, 1))(G, I32 - 1),
                ([1.0, 1.0], [0, 0])),
    "second": (lambda: ms.grad(ms.grad(lambda x: x * x))(I64), [2, 2]),
    "all inputs": (lambda: ops.GradOperation(get_all=True)(product)(I32, G),
                   ([2, -1], [1.0, 2.0])),
    "value": (lambda: ms.value_and_grad(lambda x: x * 3)(I32), ([3, 6], [3, 3])),
    "jvp": (lambda: ms.jvp(lambda x: x * 3, I32, I32), ([3, 6], [3, 6])),
    "vjp": (lambda: ms.vjp(lambda x: x * 3, I32)[1](I32), ([3, 6],)),
}


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
@pytest.mark.parametrize("name", list(FACTS))
def test_facts(name: str, m: int) -> None:
    call, want = FACTS[name]
    with mode(m):
        found = call()

    def listed(v: Any) -> Any:
        return tuple(map(listed, v)) if isinstance(v, tuple) else v.asnumpy().tolist()

    assert listed(found) == want
    numbers = [type(x) for t in take_apart(found)[1] for x in np.ravel(t.asnumpy()).tolist()]
    wanted = [type(x) for part in (want if isinstance(want, tuple) else (want,))
              for x in np.ravel(np.array(part)).tolist()]
    assert numbers == wanted  # integers stay integers


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
def test_types_are_those_of_what_is_differentiated(m: int) -> None:
    with mode(m):
        assert ms.grad(product)(I8, G).dtype == ms.int8
        assert ms.grad(lambda x: x * x)(I64).dtype == ms.int64
        p = ms.Parameter(I32, name="p")
        (dp,) = ms.grad(lambda x: (x * p).sum(), None, [p])(F)
        assert dp.dtype == ms.int32 and dp.asnumpy().tolist() == [0, 1]


class Half(nn.Cell):
    def construct(self, x: Any) -> Any:
        return x * 2.5 + x


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
def test_branches_and_recomputation(m: int) -> None:
    def branchy(x: Any, y: Any) -> Any:
        h = x * 2
        if y.sum() > 0:
            h = h * 3
        else:
            h = h + x
        return h * y

    cell = Half()
    cell.recompute()
    with mode(m):
        assert ms.grad(branchy)(I32, F).asnumpy().tolist() == [0, 6]
        assert ms.grad(branchy)(I32, -F).asnumpy().tolist() == [0, -3]
        assert ms.grad(cell)(I32).asnumpy().tolist() == [3, 3]


def doubled(x: Any, n: Any) -> Any:
    i = ops.zeros((), ms.int32)
    while i < n:
        x = x * 2
        i = i + 1
    return x


def scaled(x: Any, y: Any, n: Any) -> Any:
    i = ops.zeros((), ms.int32)
    while i < n:
        x = x * y + i
        i = i + 1
    return x


def summed(x: Any, n: Any) -> Any:
    i, s = ops.zeros((), ms.int32), ops.zeros(())
    while i < n:
        s = s + x[i] * 2
        i = i + 1
    return s


def squared(x: Any, limit: Any) -> Any:
    while x < limit:
        x = x * x + 1
    return x * 2


def rolled(x: Any, y: Any) -> Any:
    for i in range(30):
        x = x * y + i
    return x


def number(n: int) -> Tensor:
    return Tensor(n, ms.int32)


LOOPS: dict[str, tuple[Callable[[], Any], Any]] = {
    "carried": (lambda: ms.grad(doubled, (0, 1))(number(3), number(4)), (16, 0)),
    "no trip": (lambda: ms.grad(doubled)(number(3), number(0)), 1),
    "beside a float": (lambda: ms.grad(doubled, (0, 1))(F, number(4)), ([16.0, 16.0], 0)),
    "captured": (lambda: ms.grad(scaled, (0, 1))(number(3), number(2), number(4)), (16, 102)),
    "captured beside a float": (
        lambda: ms.grad(scaled, (0, 1, 2))(Tensor([3.0, 1.0]), number(2), number(4)),
        ([16.0, 16.0], 140, 0)),
    "an index": (lambda: ms.grad(summed, (0, 1))(I32, number(2)), ([2, 2], 0)),
    "condition": (lambda: ms.grad(squared, (0, 1))(number(3), number(50)), (240, 0)),
    "long": (lambda: ms.grad(rolled, (0, 1))(number(1), number(2)), (2**30, 32)),
}


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
@pytest.mark.parametrize("name", list(LOOPS))
def test_loops(name: str, m: int) -> None:
    call, want = LOOPS[name]
    with mode(m):
        found = call()
    parts = found if isinstance(found, tuple) else (found,)
    assert [t.asnumpy().tolist() for t in parts] == list(want if isinstance(want, tuple) else
                                                         (want,))


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
def test_conversions_of_floats_pass_nothing(m: int) -> None:
    """Where MindSpore takes rounding for the identity."""
    with mode(m):
        for fn in (lambda x: x.astype(ms.int32), lambda x: x.astype(ms.int32).astype(ms.float32)):
            assert ms.grad(fn)(F).asnumpy().tolist() == [0.0, 0.0]
