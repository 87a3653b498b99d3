"""The examples of `mint` print what MindSpore's text says, under cellc."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ..others import ORACLE, needs_oracle

WORKER = Path(__file__).with_name("documented_worker.py")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|\binf\b|\bnan\b)", re.I)
PUNCTUATION = re.compile(r"[\s,\[\]]+")
KNOWN = {
    "mint.take": "the text prints a list of ints where a Tensor of floats is printed",
    "mint.imag": "the example asks for Ascend", "mint.real": "the example asks for Ascend",
    "mint.multinomial": "drawn", "mint.nn.Embedding": "drawn",
    "mint.nn.AdaptiveAvgPool3d": "the example gives randn a type by position",
    "mint.nn.AvgPool3d": "the example gives randn a type by position",
    "mint.nn.Flatten": "the text prints another sentence than the example",
    "mint.nn.Hardtanh": "the example uses a name that it does not define",
    "mint.nn.SyncBatchNorm": "the example asks for Ascend",
    "mint.nn.UpsamplingBilinear2d": "the example is of another layer, UpsampleTrilinear2d",
    "mint.nn.UpsamplingNearest2d": "the text repeats 10 where the input has 11",
}


def _alike(want: str, found: str) -> bool:
    """Equal but for separators and the last digits of numbers."""
    a, b = NUMBER.findall(want), NUMBER.findall(found)
    if PUNCTUATION.sub("", NUMBER.sub("#", want)) != PUNCTUATION.sub("", NUMBER.sub("#", found)):
        return False
    return len(a) == len(b) and np.allclose(
        np.array(a, float), np.array(b, float), rtol=1e-3, atol=1e-4, equal_nan=True)


@needs_oracle
def test_examples_print_what_the_text_says(tmp_path: Path) -> None:
    assert ORACLE
    given, results = tmp_path / "examples.json", tmp_path / "results.json"
    for python, arguments in ((ORACLE, ("extract", given)), (sys.executable, ("run", given,
                                                                             results))):
        subprocess.run([python, WORKER, *arguments], cwd=tmp_path, check=True,
                       capture_output=True, env={**os.environ, "GLOG_v": "4"})
    texts = json.loads(given.read_text(encoding="utf-8"))
    found = json.loads(results.read_text(encoding="utf-8"))
    different = {}
    for name, (shown, error) in found.items():
        source = "".join(s for s, _ in texts[name])
        if "LeNet" in source:  # the optimizers' examples define no network
            continue
        drawn = "rand" in source or "dropout" in source
        bad = [(w, f) for w, f in shown if not drawn and not _alike(w, f)]
        if error or bad:
            different[name] = error or bad[0]
    assert len(found) > 280
    assert {n: why for n, why in different.items() if n not in KNOWN} == {}


@pytest.mark.parametrize(("want", "found", "same"), [
    ("[1, 2]", "[1 2]", True), ("[1. 2.]", "[1.00001 2.]", True), ("[1. 2.]", "[1.1 2.]", False),
    ("Float32 [1]", "Int64 [1]", False), ("nan", "nan", True), ("[1 2]", "[1 2 3]", False),
])
def test_outputs_are_compared(want: str, found: str, same: bool) -> None:
    assert _alike(want, found) is same
