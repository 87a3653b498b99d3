"""What a notebook shows of errors: the user's own lines, then the message."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn

X = ms.Tensor(np.ones((2, 4), np.float32))


class Reshaped(nn.Cell):
    def construct(self, x: ms.Tensor) -> Any:
        return x.reshape(7, 2)


class Asserted(nn.Cell):
    def construct(self, x: ms.Tensor) -> Any:
        assert x.sum() > 100, "too small"
        return x


def call(net: nn.Cell) -> Any:
    return net(X)


def lines(traceback: TracebackType | None) -> int:
    count = 0
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


@pytest.mark.parametrize(("net", "kind", "name", "text"), [
    (Reshaped, ValueError, "CompileValueError", "return x.reshape(7, 2)"),
    (Asserted, AssertionError, "RunAssertionError", 'assert x.sum() > 100, "too small"'),
])
def test_errors(
    net: Any, kind: type[Exception], name: str, text: str, graph_mode: None
) -> None:
    with pytest.raises(kind, match=re.escape(text)) as info:
        call(net())
    shown = info.value._render_traceback_()  # type: ignore[attr-defined]
    files = [line for line in shown if line.startswith("  File ") and ", in " in line]
    at = next(i for i, line in enumerate(shown) if line.startswith(f"{name}: "))
    assert shown[at - 2].startswith(f'  File "{Path(__file__)}"') and "in call" in shown[at - 2]
    assert all("frontend/cellc" not in line and "cellc_runtime" not in line for line in files)
    assert any(text in line for line in shown[at:]) and any("^^^" in line for line in shown[at:])
    assert lines(info.value.__traceback__) > len(files)  # `raise` still has all


def test_profiles_are_shown_as_tables(graph_mode: None) -> None:
    shown = repr(ms.profile(lambda x: x * 2, X, runs=1))
    assert "Time" in shown and "mul" in shown and "Event(" not in shown
