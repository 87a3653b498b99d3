"""What layers and initializers draw: mean, spread and bounds, against those of MindSpore."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn

from . import program_draws

SHAPE = "[300, 400]"
LAYERS = [
    "nn.Dense(300, 400)", "nn.Conv2d(40, 50, 5, has_bias=True)", "nn.Conv1d(100, 150, 5)",
    "nn.Conv3d(20, 30, 3, has_bias=True)", "nn.Conv2dTranspose(40, 50, 5, has_bias=True)",
    "nn.Conv1dTranspose(100, 150, 5)", "nn.Embedding(300, 400)", "nn.EmbeddingLookup(300, 400)",
    "nn.LSTM(100, 200)", "nn.GRU(100, 200)", "nn.RNN(100, 200)", "nn.LSTMCell(100, 200)",
    "nn.GRUCell(100, 200)", "nn.RNNCell(100, 200)", "nn.BiDense(20, 30, 400)",
    "nn.MultiheadAttention(200, 4)", "nn.BatchNorm2d(9)", "nn.LayerNorm([9])", "nn.PReLU(9)",
]
INITIALIZERS = [
    "'normal'", "'uniform'", "init.Normal(0.5, 2.0)", "init.Uniform(0.3)", "'TruncatedNormal'",
    "init.TruncatedNormal(1.0, 0.5, -1.0, 2.0)", "'he_normal'", "'he_uniform'",
    "init.HeNormal(0.2, 'fan_out', 'leaky_relu')", "init.HeUniform(0.0, 'fan_out', 'relu')",
    "'xavier_normal'", "'xavier_uniform'", "init.XavierNormal(2.0)", "init.Orthogonal(3.0)",
    "init.Sparse(0.4, 0.3)",
    # (its truncated normal is left out: MindSpore 2.10 draws from a uniform distribution there)
    "init.VarianceScaling(2.0, 'fan_out', 'uniform')",
    "init.VarianceScaling(3.0, 'fan_avg', 'untruncated_normal')",
]
CASES = LAYERS + [f"init.initializer({i}, {SHAPE}, ms.float32)" for i in INITIALIZERS]


@pytest.fixture(scope="module")
def expected(oracle: Any) -> dict[str, Any]:
    return dict(zip(CASES, oracle(program_draws, [[c] for c in CASES]), strict=True))


@pytest.mark.parametrize("make", CASES)
def test_draws_are_spread_as_mindspores(make: str, expected: dict[str, Any]) -> None:
    assert not isinstance(expected[make], str), expected[make]
    found = program_draws.run(ms, nn, make)
    assert [row[0] for row in found] == [row[0] for row in expected[make]]
    for (name, mean, std, top, count), (_, mean_, std_, top_, _) in \
            zip(found, expected[make], strict=True):
        # Figures of few elements are themselves draws: five standard deviations of a difference.
        few = 0.03 if std == 0 else max(0.03, 5 * np.sqrt(2 / count))
        assert abs(mean - mean_) <= few * max(std_, abs(mean_), 1e-6) + 1e-6, (name, mean, mean_)
        np.testing.assert_allclose(std, std_, rtol=few, atol=1e-7, err_msg=name)
        if "normal" not in make.lower() or "Truncated" in make:
            np.testing.assert_allclose(top, top_, rtol=max(few, 0.1), atol=1e-7, err_msg=name)
