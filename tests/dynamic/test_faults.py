"""What a trace with other sizes may hide, and how many entries a function keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor
from cellc.compiled import entries
from cellc.compiled.dynamic import Dynamic
from cellc.lang import CompileError
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes


class Own(Exception):
    pass


@pytest.mark.parametrize(("error", "traces"), [
    (AssertionError("broken"), 1), (KeyError("broken"), 1),
    (CompileError("CE602", "broken", None), 2), (Own("broken"), 2),
])
def test_only_failures_of_the_program_are_tried_again(error: Exception, traces: int) -> None:
    """An axis of 1 is traced as another size first; where the program refuses that, as it is."""
    tried: list[Any] = []

    def trace(types: Sequence[TensorType], shapes: Any) -> Any:
        tried.append(types)
        raise error

    with pytest.raises(type(error), match="broken"):
        Dynamic().find(
            "key", {0: (None,)}, [TensorType((1,), dtypes.float32)], ["x"], trace, lambda t: True)
    assert len(tried) == traces


def test_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_ENTRIES", 3)
    table = entries.EntryTable()
    ms.set_context(mode=ms.GRAPH_MODE)

    def fn(x: Any) -> Any:
        return x + 1

    for n in range(1, 11):
        got = table.call(fn, (Tensor(np.zeros(n, np.float32)),), {})
        np.testing.assert_array_equal(got.asnumpy(), np.ones(n, np.float32))
    assert 3 <= len(table.entries) <= 6
