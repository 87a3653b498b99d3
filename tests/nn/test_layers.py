"""Layers and losses: results and gradients against MindSpore, both modes to the bit.

Where MindSpore is not there, sums of what it gave are (`layers.json`; `python -m
tests.nn.test_layers` asks it again).
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn

from . import program_layer
from .cases import ALL, HERE_ONLY
from .conftest import ask_mindspore

SUMS = Path(__file__).with_name("layers.json")
PARTS = ("out", "inputs", "weights", "state")

# MindSpore 2.10 fails on the CPU for the first, its gradient of the second is wrong, and for the
# third it has none.
NOT_THERE = ("nn.HingeEmbeddingLoss()", "nn.SeLU()", "nn.FractionalMaxPool2d(")
LIKE_MINDSPORE = [case for case in ALL if
                  not case[0].startswith(NOT_THERE) and case not in HERE_ONLY]


def _name(case: Any) -> str:
    return f"{case[0]} {case[1]} {case[2]}".replace(" ", "")


def _run(case: Any) -> Any:
    return program_layer.run(ms, nn, *case)


@pytest.fixture(scope="module")
def expected(oracle: Any) -> dict[str, Any]:
    answers = oracle(program_layer, LIKE_MINDSPORE)
    return {_name(c): a for c, a in zip(LIKE_MINDSPORE, answers, strict=True)}


@pytest.mark.parametrize("case", LIKE_MINDSPORE, ids=_name)
def test_results_and_gradients_are_mindspores(case: Any, expected: dict[str, Any]) -> None:
    want = expected[_name(case)]
    assert not isinstance(want, str), want
    ms.set_context(mode=ms.PYNATIVE_MODE)
    got = _run(case)
    assert got["shapes"] == want["shapes"]
    assert got["dtypes"] == want["dtypes"]
    for part in PARTS:
        assert len(got[part]) == len(want[part]), part
        for a, b in zip(got[part], want[part], strict=True):
            # MindSpore's own float32 errors grow with the size of what is summed.
            atol = 6e-5 * max(1.0, float(np.max(np.abs(b), initial=0.0)))
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=atol, err_msg=part)


@pytest.mark.parametrize("case", ALL, ids=_name)
def test_both_modes_give_the_same_bits(case: Any) -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    eager = _run(case)
    if case in LIKE_MINDSPORE:
        for part, want in _sums()[_name(case)].items():
            np.testing.assert_allclose(_summed(eager[part]), want, 2e-3, 2e-3, err_msg=part)
    ms.set_context(mode=ms.GRAPH_MODE)
    assert _run(case) == eager


@cache
def _sums() -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = json.loads(SUMS.read_text())
    return found


def _summed(arrays: list[list[float]]) -> list[float]:
    """Of each array one number, to which each element adds in its own way."""
    return [float(np.dot(a, np.cos(np.arange(len(a)) * 1.7 + 0.3))) / math.sqrt(len(a) or 1)
            for a in arrays]


def main() -> None:
    """Write what MindSpore gives for each case."""
    answers = ask_mindspore(program_layer, LIKE_MINDSPORE)
    sums = {_name(case): {part: [float(f"{s:.6g}") for s in _summed(answer[part])]
                          for part in PARTS}
            for case, answer in zip(LIKE_MINDSPORE, answers, strict=True)}
    SUMS.write_text(json.dumps(sums, indent=0) + "\n")


if __name__ == "__main__":
    main()
