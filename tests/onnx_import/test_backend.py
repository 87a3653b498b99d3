"""ONNX's own backend tests in both modes: all but those on a list, which may only shrink.

`python -m tests.onnx_import.test_backend` writes the list of those that fail now, with the reasons
that are known.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn

pytest.importorskip("onnx")
import onnx

from .backend import Case, cases

LISTED = Path(__file__).with_name("left_out.json")
PARTS = 16
LEAST = 0.97


def listed() -> dict[str, list[str]]:
    """The tests that are left out, by the reason."""
    found: dict[str, list[str]] = json.loads(LISTED.read_text())
    return found


def run(case: Case, path: Path) -> None:
    """The case in both modes, whose bits must be equal.

    Raises:
        Exception: it cannot be read or run, or gives something else.
    """
    path.write_bytes(case.model.SerializeToString())
    net = nn.GraphCell(ms.load(str(path)))
    own = {i.name for i in case.model.graph.initializer}
    names = [i.name for i in case.model.graph.input]
    for inputs, wanted in case.sets:
        given = [ms.Tensor(np.asarray(a)) for n, a in zip(names, inputs, strict=False)
                 if n not in own]
        bits = []
        for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
            ms.set_context(mode=mode)
            found: Any = net(*given)
            outputs = [t.asnumpy() for t in (found if isinstance(found, tuple) else (found,))]
            bits.append([a.tobytes() for a in outputs])
            assert len(outputs) == len(wanted)
            for a, b in zip(outputs, wanted, strict=True):
                _compare(case, a, np.asarray(b))
        assert bits[0] == bits[1], "the modes differ"


def _compare(case: Case, found: Any, wanted: Any) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(found, wanted)
        return
    rtol, atol = case.tolerance(wanted.dtype)
    kind = wanted.dtype if wanted.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(found.astype(kind), wanted.astype(kind), rtol, atol)


def counted() -> list[Case]:
    """The tests whose types a CPU has, of op sets that are read."""
    return [c for c in cases().values() if not c.outside]


@pytest.mark.parametrize("part", range(PARTS))
def test_backend(part: int, tmp_path: Path) -> None:
    left_out = {name for names in listed().values() for name in names}
    failed: list[str] = []
    surplus: list[str] = []
    for case in counted()[part::PARTS]:
        try:
            run(case, tmp_path / "model.onnx")
            if case.name in left_out:
                surplus.append(case.name)
        except Exception as e:
            if case.name not in left_out:
                failed.append(f"{case.name}: {type(e).__name__}: {str(e)[:300]}")
    assert not failed, "\n".join(failed)
    drawn = set(listed().get("random", ()))
    assert not set(surplus) - drawn, f"take these off the list: {surplus}"


def test_share() -> None:
    """At least 97 % pass; a test that is not counted has a type that no tensor has, or is of a
    newer op set or another domain."""
    if onnx.__version__ != "1.23.2":
        pytest.skip("'onnx' has other tests than those on the list")
    every = counted()
    left = [n for names in listed().values() for n in names]
    assert set(left) <= {c.name for c in every} and len(set(left)) == len(left)
    assert len(left) <= (1 - LEAST) * len(every), f"{len(left)} of {len(every)}"
    outside = Counter(c.outside for c in cases().values() if c.outside)
    assert {why: n for why, n in outside.items() if "types" in why or "bits" in why} == {
        "floats of 8 bits or less": 96, "ints of less than 8 bits": 68}


def _reason(name: str) -> str:
    groups = {"bernoulli": "random", "dropout": "random", "image_decoder": "compressed images",
              "tfidf": "counts of n-grams", "sequence": "sequences"}
    return next((why for part, why in groups.items() if part in name), "unknown")


def main() -> None:
    """Write the list of the tests that fail now."""
    out: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in counted():
            try:
                run(case, Path(folder, "model.onnx"))
            except Exception:
                out.setdefault(_reason(case.name), []).append(case.name)
    LISTED.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
