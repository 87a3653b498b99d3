"""Which results share elements with the argument: a change in place of one is a change of both.

`copies.json` has MindSpore 2.10's answers in PyNative mode; here both modes give them. Of what it
shares, not shared here: `docs/limits.md`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops

ANSWERS: dict[str, list[str]] = json.loads(
    Path(__file__).with_name("copies.json").read_text(encoding="utf-8"))
BASE = np.array([[4.0, 2.0, 7.0], [5.0, 1.0, 3.0]], np.float32)
KINDS = {"x": BASE, "i": BASE.astype(np.int32), "b": BASE > 4}
HEAD = """
import copy

import cellc as ms
import cellc.numpy as mnp
from cellc import Tensor, mint, nn, ops

f32 = ms.float32
"""


def _program(kind: str, folder: Path) -> tuple[Any, list[tuple[str, bool]]]:
    """A module of one function per expression, and the expressions with their answers."""
    cases = [(text, key == "shared") for key, texts in ANSWERS.items() for text in texts
             if _kind(text) == kind]
    path = folder / f"program_{kind}.py"
    path.write_text(HEAD + "".join(
        f"def case_{n}({kind}):\n    y = {text}\n    y[...] = 77\n    return y\n\n\n"
        for n, (text, _) in enumerate(cases)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, cases


def _kind(text: str) -> str:
    found = re.search(r"\b([ibp])\b(?!=)", text)
    return found[1] if found else "x"


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
@pytest.mark.parametrize("kind", ["x", "i", "b", "p"])
def test_a_change_of_the_result_changes_the_argument_where_mindspore_shares(
    kind: str, mode: int, tmp_path: Path
) -> None:
    module, cases = _program(kind, tmp_path)
    assert cases
    wrong = []
    for n, (text, shared) in enumerate(cases):
        base = KINDS.get(kind, BASE)
        given = ms.Parameter(ms.Tensor(base), name="p") if kind == "p" else ms.Tensor(base.copy())
        case = getattr(module, f"case_{n}")
        (ms.jit(case) if mode == ms.GRAPH_MODE else case)(given)
        if bool((given.asnumpy() != base).any()) != shared:
            wrong.append((text, shared))
    assert not wrong


def test_assigning_keeps_no_hold_of_the_value() -> None:
    held = ms.Parameter(ms.Tensor(np.ones(3, np.float32)), name="held")
    value = ms.Tensor(np.full(3, 2, np.float32))
    ops.assign(held, value)[0] = 77.0
    assert value.asnumpy().tolist() == held.asnumpy().tolist() == [2, 2, 2]
