"""Orders of rows and draws of transforms are MindSpore's for the same seed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc.dataset as ds
from cellc import mindrecord
from cellc.dataset.streams import MinimalStandard, Mt19937, Mt19937x64

from ..others import ORACLE, answer, needs_oracle, run
from . import orders

RECORDED = json.loads(Path(__file__).with_name("orders.json").read_text())
"""What MindSpore 2.10 gave."""


@pytest.fixture(scope="module")
def ours() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ds.config._Settings, "kept", {})
        patch.setattr(ds.config._Settings, "seed", None)
        return orders.run(ds, mindrecord)


@pytest.mark.parametrize("case", RECORDED)
def test_one_seed_gives_mindspores_rows(ours: Any, case: str) -> None:
    assert ours[case] == RECORDED[case]


def test_every_case_was_recorded(ours: Any) -> None:
    assert ours.keys() == RECORDED.keys()


@needs_oracle
def test_the_records_are_mindspores() -> None:
    assert answer(run(ORACLE, Path(orders.__file__), ["mindspore"])) == RECORDED


@pytest.mark.parametrize("kind, tenth_thousandth", [
    # As the standard of C++ says ([rand.predef]) of generators made without a seed.
    (Mt19937, (5489, 4123659995)), (Mt19937x64, (5489, 9981545732273789042)),
    (MinimalStandard, (1, 1043618065 - 1)),
])
def test_the_generators_are_the_published_ones(kind: Any, tenth_thousandth: Any) -> None:
    seed, wanted = tenth_thousandth
    stream = kind(seed)
    assert [stream.word() for _ in range(10_000)][-1] == wanted


def test_draws_below_a_number_are_even_and_within_bounds() -> None:
    stream = Mt19937(3)
    counts = np.bincount([stream.below(7) for _ in range(70_000)])
    assert len(counts) == 7 and abs(counts - 10_000).max() < 500
    many = [stream.below(3_000_000_000) for _ in range(2000)]
    assert max(many) < 3_000_000_000 and abs(np.mean(many) / 1.5e9 - 1) < 0.05
    assert sorted(Mt19937(1).order(70_000)) == list(range(70_000))
