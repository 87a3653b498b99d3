"""Gradients of ONNX's backend tests: both modes have the same bits, and differences in float64 say
that they are the derivatives.

    python -m tests.onnx_import.test_gradients [PART OF]     # all, or each OF-th from PART

The suite takes one in `PARTS`, another share each day; with `--everything` all of them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.verification import verify

pytest.importorskip("onnx")

from .backend import Case
from .test_backend import counted, listed

PARTS = 91
"""Of which each day takes another: about 15 tests."""
SHARES = 16


def differentiated(part: int, of: int) -> list[Case]:
    """Every `of`-th of the tests that are read, of those that take floats."""
    left_out = {name for names in listed().values() for name in names}
    cases = [c for c in counted() if c.name not in left_out and c.sets]
    return [c for c in cases[part::of] if any(a.dtype.kind == "f" for a in _inputs(c))]


def _inputs(case: Case) -> list[np.ndarray[Any, Any]]:
    own = {i.name for i in case.model.graph.initializer}
    names = [i.name for i in case.model.graph.input]
    return [np.asarray(a) for n, a in zip(names, case.sets[0][0], strict=False) if n not in own]


def faults(case: Case, path: Path) -> str:
    """What is wrong with the gradients of a test; empty if nothing is."""
    path.write_bytes(case.model.SerializeToString())
    ms.set_context(mode=ms.GRAPH_MODE)
    report = verify(nn.GraphCell(ms.load(str(path))), *map(ms.Tensor, _inputs(case)))
    found: Sequence[Any] = [f for f in report.findings if f.kind != "nonfinite"]
    return "; ".join(map(str, found[:3]))


def _wrong(cases: Sequence[Case], folder: Path) -> dict[str, str]:
    assert len(cases) > 5
    found = {c.name: faults(c, folder / "model.onnx") for c in cases}
    return {name: told for name, told in found.items() if told}


def test_gradients(tmp_path: Path) -> None:
    assert not _wrong(differentiated(int(time.time() // 86400) % PARTS, PARTS), tmp_path)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_gradients(share: int, tmp_path: Path) -> None:
    assert not _wrong(differentiated(share, SHARES), tmp_path)


def main() -> int:
    """Verify gradients; 1 if one is wrong."""
    part, of = map(int, sys.argv[1:] or ("0", "1"))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        cases = differentiated(part, of)
        for case in cases:
            try:
                told = faults(case, Path(folder, "model.onnx"))
            except Exception as e:
                told = f"{type(e).__name__}: {str(e)[:300]}"
            wrong += bool(told)
            print("NOT" if told else "ok ", case.name, told, flush=True)
    print(f"{len(cases) - wrong} of {len(cases)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
