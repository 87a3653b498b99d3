"""The API reference: every entry of the places below has an example, and examples are independent."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SITE = Path(__file__).parents[2] / "docs" / "site"
ELSEWHERE = ("ops", "Tensor", "mint", "numpy", "scipy", "common.initializer", "mint.nn",
             "mint.nn.functional", "mint.linalg", "mint.special", "scipy.linalg", "scipy.fft",
             "scipy.optimize")
"""Places whose examples are mostly made from signatures."""
WITHOUT: dict[str, str] = {}
"""Entries without an example, each with the reason."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module that runs rows."""
    monkeypatch.syspath_prepend(SITE)
    pytest.importorskip("PIL.Image")
    yield importlib.import_module("rows")


def test_every_entry_has_an_example(site: ModuleType) -> None:
    reference, examples = map(importlib.import_module, ("reference", "examples"))
    lacking, failed = [], []
    for place, pages in reference.pages():
        key = place.removeprefix("cellc").lstrip(".")
        for name, value in (pair for page in pages for pair in page.names):
            if key in ELSEWHERE:
                continue
            try:
                shown = examples.example(key, name, value)
            except ValueError as error:  # all of them are told at once
                failed.append(str(error))
                continue
            if not shown:
                lacking.append(f"{key}.{name}" if key else name)
    assert failed == []
    assert sorted(lacking) == sorted(WITHOUT)
