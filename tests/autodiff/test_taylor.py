"""`ops.derivative` and `ops.jet` in both modes; the numbers are those of MindSpore's docs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops

from ..modes.law import MODES, arrays_of, assert_same, mode

X = Tensor(np.array([[1, 2], [3, 4]], np.float32))
OUT = [[2.319777, 2.4825778], [1.1515628, 0.4691642]]
ORDERS = [[[1.2533808, -1.0331168], [-1.1400385, -0.3066662]],
          [[-1.2748207, -1.8274734], [0.966121, 0.55551505]],
          [[-4.0515366, 3.6724353], [0.5053504, -0.52061415]]]


def fn(x: Any) -> Any:
    return ops.exp(ops.sin(x))


def pair(x: Any, y: Any) -> Any:
    return x * x * y, x + y


def test_documented_numbers() -> None:
    series = Tensor(np.stack([np.ones((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))]), ms.float32)
    results = []
    for m in MODES:
        with mode(m):
            out, orders = ops.jet(fn, X, series)
            same, third = ops.derivative(fn, X, 3)
            np.testing.assert_allclose(out.asnumpy(), OUT, rtol=1e-6)
            np.testing.assert_allclose(orders.asnumpy(), ORDERS, rtol=2e-5)
            np.testing.assert_allclose(third.asnumpy(), ORDERS[2], rtol=2e-5)
            results.append(arrays_of((out, orders, same, third)))
    assert_same(*results, "jet")


@pytest.mark.parametrize("m", MODES, ids=["eager", "graph"])
def test_several_inputs_and_outputs(m: int) -> None:
    x, y = Tensor(np.array([1, 2], np.float32)), Tensor(np.array([3, 4], np.int32))
    with mode(m):
        (a, b), (da, db) = ops.derivative(pair, (x, y), 2)
    assert a.asnumpy().tolist() == [3, 16] and b.asnumpy().tolist() == [4, 6]
    assert da.asnumpy().tolist() == [2 * 3 + 4 * 1, 2 * 4 + 4 * 2] and not db.asnumpy().any()


def test_errors() -> None:
    with pytest.raises(ValueError, match="'order' must be a positive int"):
        ops.derivative(fn, X, 0)
    with pytest.raises(TypeError, match="'order' must be a positive int"):
        ops.derivative(fn, X, 1.0)
    with pytest.raises(TypeError, match="must be a Tensor"):
        ops.jet(fn, 1.0, X)
    with pytest.raises(ValueError, match="must have the shape"):
        ops.jet(fn, X, X)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_orders_are_those_of_a_curve(order: int) -> None:
    """x(t) = 0.5 + s1 t + s2 t^2 / 2 + ..., all different: exp(x(t)) by products of series."""
    terms = [0.7, -1.3, 0.4, 2.1][:order]
    curve = [0.0] + [s / math.factorial(k + 1) for k, s in enumerate(terms)]
    want, power = np.zeros(order + 1), np.eye(1, order + 1)[0]
    for n in range(order + 1):
        want += power / math.factorial(n)
        power = np.convolve(power, curve)[: order + 1]
    want *= [math.exp(0.5) * math.factorial(k) for k in range(order + 1)]
    for m in MODES:
        with mode(m):
            out, orders = ops.jet(ops.exp, Tensor([0.5], ms.float64),
                                  Tensor(np.array(terms)[:, None]))
        np.testing.assert_allclose([*out.asnumpy(), *orders.asnumpy()[:, 0]], want, rtol=1e-9)
