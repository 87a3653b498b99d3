"""Printed forms, and names, shapes and flags of parameters, against MindSpore."""

from __future__ import annotations

from typing import Any

import pytest

import cellc as ms
from cellc import nn

from . import program_print
from .cases import ALL

MORE = [
    "nn.Dense(3, 4, activation=nn.Tanh())", "nn.Dropout(0.7)", "nn.Dropout1d()",
    "nn.Dropout2d(0.2)", "nn.Dropout3d()", "nn.Norm()", "nn.Embedding(10, 4, padding_idx=1)",
    "nn.InstanceNorm1d(3)", "nn.InstanceNorm2d(3)", "nn.InstanceNorm3d(3)", "nn.SyncBatchNorm(3)",
    "nn.CellList([nn.Dense(2, 3), nn.ReLU()])",
    "nn.CellDict([['a', nn.Dense(2, 3)], ['b', nn.ReLU()]])",
    "nn.SequentialCell([nn.Conv2d(3, 4, 3), nn.SequentialCell(nn.Dense(2, 3), nn.ReLU())])",
    "nn.WithLossCell(nn.Dense(2, 3), nn.MSELoss())",
    "(lambda n: nn.TrainOneStepCell(nn.WithLossCell(n, nn.MSELoss()),"
    " nn.Momentum(n.trainable_params(), 0.1, 0.9)))(nn.Dense(2, 3))",
]
CASES = list(dict.fromkeys([expression for expression, _, _ in ALL
                            if "np." not in expression] + MORE))


@pytest.fixture(scope="module")
def expected(oracle: Any) -> dict[str, Any]:
    return dict(zip(CASES, oracle(program_print, [[c] for c in CASES]), strict=True))


@pytest.mark.parametrize("make", CASES)
def test_printed_form_and_parameters(make: str, expected: dict[str, Any]) -> None:
    text, parameters = program_print.run(ms, nn, make)
    assert [text, parameters] == expected[make]
