"""No function and no gradient is less accurate than `docs/accuracy.md` says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cellc_compiler.backends.llvm.math import exp as e
from cellc_runtime.target import host_targets

from ..codegen.test_math import needs_long

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
EVERY = 97
"""One point in so many is looked at here."""


@pytest.fixture(scope="module")
def accuracy() -> ModuleType:
    """`docs/make_accuracy.py`."""
    file = PAGE.parent / "make_accuracy.py"
    spec = importlib.util.spec_from_file_location("make_accuracy", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def beyond(accuracy: Any, rows: Any, dtype: str, every: int = EVERY) -> list[str]:
    """Rows whose error at some of the page's points is larger than the page says."""
    table = accuracy.parse(PAGE.read_text(encoding="utf-8"))
    operands = [x[::every] for x in accuracy.points(rows[0].operands, dtype, rows[0].name)]
    wide = [accuracy.widened(x) for x in operands]
    size = len(operands[0])
    found = accuracy.results(rows, dtype, host_targets()[0], operands, size)
    out = []
    for row, got in zip(rows, found, strict=True):
        with np.errstate(all="ignore"):
            error, where = accuracy.worst(got, row.exact(*wide), dtype, *operands)
        said = accuracy.bound(table[row.of < 0, row.label, dtype][0])
        if not error <= said and said < np.inf:
            out.append(f"{row.label} of {dtype}: {error:.3f} ulps at {where}, documented: {said}")
    return out


@needs_long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_errors_are_within_the_table(accuracy: Any, dtype: str) -> None:
    wrong = []
    for group in accuracy.groups(accuracy.rows(), 40):
        wrong += beyond(accuracy, group, dtype)
    assert not wrong, "\n".join([*wrong, "python docs/make_accuracy.py --only NAME,..."])


@needs_long
def test_a_worse_function_is_found(accuracy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coefficient of e^x that is off by 2^-20."""
    rows = [r for r in accuracy.rows() if r.label == "exp" and r.of < 0]
    assert not beyond(accuracy, rows, "float32")
    reduced = e._exp_reduced
    monkeypatch.setattr(e, "_exp_reduced", lambda r: reduced(r) * (1 + 2.0**-20))
    (said,) = beyond(accuracy, rows, "float32", EVERY - 1)  # of another size: compiled anew
    assert said.startswith("exp of float32")


def test_the_page_is_current(accuracy: Any, monkeypatch: pytest.MonkeyPatch,
                             capsys: pytest.CaptureFixture[str]) -> None:
    """Every function of one or two floats has a row, and no other name has one."""
    monkeypatch.setattr(sys, "argv", ["make_accuracy.py", "--check"])
    assert accuracy.main() == 0
    rows = accuracy.rows()
    monkeypatch.setattr(accuracy, "rows", lambda: rows[1:])
    assert accuracy.main() == 1
    assert rows[0].label in capsys.readouterr().err


def test_errors_are_in_units_of_the_exact_number(accuracy: Any) -> None:
    def error(got: float, exact: str, dtype: str = "float32") -> float:
        kind = accuracy.FORMATS[dtype].kind
        with np.errstate(over="ignore"):
            return accuracy.worst(np.array([got]).astype(kind),
                                  np.array([np.longdouble(exact)]), dtype)[0]

    assert error(1.0, "1") == 0
    assert error(1 + 2.0**-23, "1") == 1
    assert error(1.0, "0.99999994") == pytest.approx(1, rel=1e-2)  # half the unit below 1
    assert error(0.0, "1.4012984643e-45") == pytest.approx(1)
    assert error(np.inf, "3.4028236e38") <= 1
    assert error(np.inf, "1") > 1e30
    assert error(1.0, "nan") == 0
    assert np.isnan(error(np.nan, "1"))
    assert error(1 + 2.0**-10, "1", "float16") == 1
