"""One mutant of each form of file, and whether what a mutant could do is found."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from . import datasets

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
              pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_mutants_do_no_harm():
    pytest.importorskip("PIL")
    found = datasets.campaign(0.001, time.time_ns() % 1000)
    assert {form for form, _ in found} == set(datasets.FORMS)
    assert not [key for key in found if key[1] != "fine"]


@pytest.mark.parametrize("work, said", [
    (lambda: os.abort(), "signal 6"),
    (lambda: "x" * (1 << 31) and "fine", "MemoryError"),
    (lambda: (os.system("true") and "fine") or "fine", "code ran"),
    (lambda: time.sleep(5), "a hang"),
    (lambda: {}[1].x, "fine"),
    (lambda: 1 / 0, "ZeroDivisionError"),
])
def test_harm_is_found(monkeypatch, work: Callable[[], object], said: str):
    monkeypatch.setattr(datasets, "SECONDS", 1)
    assert datasets.outcome(work, 1 << 30).startswith(said)
