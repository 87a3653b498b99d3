"""Initializers: moments and bounds of the draws, exact ones, reproducibility, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.common import initializer as init
from cellc.common.initializer import initializer


def _draw(what: Any, shape: tuple[int, ...] = (400, 300)) -> Any:
    return initializer(what, shape).init_data().asnumpy()


@pytest.mark.parametrize(
    ("what", "std", "bound"),
    [
        ("normal", 0.01, None), ("uniform", 0.07 / 3**0.5, 0.07),
        ("xavier_normal", (2 / 700) ** 0.5, None),
        ("XavierUniform", (2 / 700) ** 0.5, (6 / 700) ** 0.5),
        ("he_normal", (2 / 300) ** 0.5, None), ("HeUniform", (2 / 300) ** 0.5, (6 / 300) ** 0.5),
        (init.HeUniform(5**0.5), (1 / 900) ** 0.5, (1 / 300) ** 0.5),
        (init.HeNormal(mode="fan_out"), (2 / 400) ** 0.5, None),
        (init.VarianceScaling(2.0, "fan_avg", "uniform"), (4 / 700) ** 0.5, (12 / 700) ** 0.5),
        (init.VarianceScaling(), (1 / 300) ** 0.5, 2 * (1 / 300) ** 0.5 / 0.8796),
        (init.TruncatedNormal(1.0, 3.0, -1.0, 1.0), 0.3303, 1.0),
        (init.TruncatedNormal(0.02), 0.02, None),
    ],
)
def test_moments(what: Any, std: float, bound: float | None) -> None:
    ms.set_seed(1)
    got = _draw(what)
    np.testing.assert_allclose(got.std(), std, rtol=0.02)
    if bound is not None:
        assert bound * 0.98 < np.abs(got).max() <= bound * 1.0001


def test_exact_initializers() -> None:
    np.testing.assert_array_equal(_draw("ones", (2, 3)), np.ones((2, 3)))
    np.testing.assert_array_equal(_draw(0.5, (2,)), [0.5, 0.5])
    np.testing.assert_array_equal(_draw("identity", (2, 3)), np.eye(2, 3))
    dirac = _draw(init.Dirac(2), (4, 2, 3, 3))
    assert np.argwhere(dirac).tolist() == [[0, 0, 1, 1], [1, 1, 1, 1], [2, 0, 1, 1], [3, 1, 1, 1]]
    q = _draw("orthogonal", (40, 30))
    np.testing.assert_allclose(q.T @ q, np.eye(30), atol=1e-5)
    assert (_draw(init.Sparse(0.3), (10, 8)) == 0).sum(0).tolist() == [3] * 8
    np.testing.assert_allclose(
        _draw(init.BilinearFiller(), (1, 1, 4, 4))[0, 0, 0], np.array([1, 3, 3, 1]) / 16)


def test_the_seed_decides() -> None:
    def draws() -> Any:
        ms.set_seed(3)
        return [_draw("normal", (4, 5)), nn.Dense(4, 5).weight.asnumpy().copy()]

    first, second = draws(), draws()
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(_draw("normal", (4, 5)), _draw("normal", (4, 5)))


def test_values_come_late() -> None:
    lazy = initializer("ones", [2, 2])
    assert lazy.has_init
    assert lazy.init_data().asnumpy().sum() == 4.0
    assert not lazy.has_init


@pytest.mark.parametrize(
    ("what", "shape", "error"),
    [
        ("foo", [2], ValueError), ("zeros", [0], ValueError), ("zeros", -1, ValueError),
        ("zeros", [2.0], ValueError), (None, [2], TypeError), ([1, 2], [2], TypeError),
        ("he_normal", [3], ValueError), ("identity", [3], ValueError),
        ("orthogonal", [3], ValueError), ("dirac", [3], ValueError),
        (ms.Tensor(np.ones(3, np.float32)), [4], ValueError),
    ],
)
def test_wrong_arguments(what: Any, shape: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        initializer(what, shape).init_data()
