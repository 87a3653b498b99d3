"""The API reference: every entry of most places has an example, and examples are independent."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import cellc as ms

SITE = Path(__file__).parents[2] / "docs" / "site"
ELSEWHERE = (
    "ops", "Tensor", "mint", "numpy", "scipy", "common.initializer", "mint.nn",
    "mint.nn.functional", "mint.linalg", "mint.special", "scipy.linalg", "scipy.fft",
    "scipy.optimize")
"""Places whose examples are mostly made from signatures."""
WITHOUT: dict[str, str] = {}
"""Entries without an example, each with the reason."""


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SITE)
    pytest.importorskip("PIL.Image")
    return importlib.import_module("examples")


@pytest.fixture
def rows(examples: ModuleType) -> ModuleType:
    return importlib.import_module("rows")


def test_every_entry_has_an_example_in_any_order(examples: ModuleType) -> None:
    reference = importlib.import_module("reference")
    entries = [(place.removeprefix("cellc").lstrip("."), name, value)
               for place, pages in reference.pages() for page in pages
               for name, value in page.names]
    entries = [entry for entry in entries if entry[0] not in ELSEWHERE]
    found, failed = {}, []
    for run in (entries, entries[::-1]):
        for place, name, value in run:
            key = f"{place}.{name}".lstrip(".")
            try:
                shown = examples.example(place, name, value)
            except ValueError as error:  # all of them are listed at once
                failed.append(str(error))
            else:
                if found.setdefault(key, shown) != shown:
                    failed.append(f"{key} differs after others:\n{found[key]}\n{shown}")
    assert failed == []
    assert [key for key, shown in found.items() if not shown] == list(WITHOUT)


def test_rows_show_statements_results_prints_and_errors(rows: ModuleType) -> None:
    assert rows.show("x = 2; x * 3") == ">>> x = 2\n>>> x * 3\n6"
    assert rows.show("print('said'); 'text'") == ">>> print('said')\n>>> 'text'\nsaid\n'text'"
    assert rows.show("def f(x):\n    return x; f(1)") == \
        ">>> def f(x):\n...     return x\n>>> f(1)\n1"
    assert rows.show("x = []; !x[3]") == ">>> x = []\n>>> x[3]\nIndexError: list index out of range"
    assert rows.show("n = Path(folder, 'a').write_text('b'); str(Path(folder, 'a'))") == (
        ">>> folder = tempfile.mkdtemp()\n>>> n = Path(folder, 'a').write_text('b')\n"
        ">>> str(Path(folder, 'a'))\n'folder/a'")
    assert rows.show("# sounds y; sorted(p.name for p in Path(folder).iterdir())") == (
        ">>> # files in folder: 0_1_1_0_0_1_1_0.wav\n"
        ">>> sorted(p.name for p in Path(folder).iterdir())\n['0_1_1_0_0_1_1_0.wav']")


def test_a_page_shows_the_imports_of_its_examples(rows: ModuleType) -> None:
    names: dict[str, object] = {}
    exec("\n".join(rows.IMPORTS), names)
    assert {n: v for n, v in rows.NAMESPACE.items() if n != "__name__"}.items() <= names.items()


@pytest.mark.parametrize(("row", "said"), [
    ("1 / 0", "ZeroDivisionError"), ("!1 + 1", "no error was raised"),
    ("object()", "has an address"), ("'a' * 99", "too long"), ("print('a\\n' * 9)", "too long"),
])
def test_rows_that_cannot_be_shown(rows: ModuleType, row: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rows.show(row)


def test_rows_leave_no_settings(rows: ModuleType) -> None:
    before = ms.get_context("mode"), ms.get_rng_state().asnumpy().tolist()
    rows.show("ms.set_seed(5); ms.set_context(mode=ms.GRAPH_MODE); ms.get_context('mode')")
    rows.show("ms.communication.init(); ms.set_auto_parallel_context(gradients_mean=True); 1")
    assert (ms.get_context("mode"), ms.get_rng_state().asnumpy().tolist()) == before
    assert not ms.communication.GlobalComm.INITED
    assert not ms.get_auto_parallel_context("gradients_mean")


def test_the_same_object_shows_the_row_of_another_place(rows: ModuleType) -> None:
    assert "ms.train.MAE()" in rows.row_of("train.MAE", ms.MAE)
    assert rows.row_of("somewhere.else", object()) is None
