"""What a notebook shows of errors: the user's own lines, then the message."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn
from cellc.lang import register_source
from cellc_runtime.errors import long_name, short_name

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


CELL = """\
class Doubled(nn.Cell):
    flag = False
    def construct(self, x):
        if self.flag: x = x * 2
        return x.reshape(4, 2)
"""


@pytest.fixture
def cell_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> type[nn.Cell]:
    """A class of the notebook's third cell, which has a file name as those of ipykernel."""
    file = "/tmp/ipykernel_812/99533460.py"
    register_source(file, CELL)
    names: dict[str, Any] = {"nn": nn, "__name__": "__main__"}
    exec(compile(CELL, file, "exec"), names)
    compiler = SimpleNamespace(format_code_name=lambda f: ("Cell", "In[3]") if f == file else None)
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    found: type[nn.Cell] = names["Doubled"]
    return found


def test_messages_name_a_cell_of_a_notebook(
    cell_of_a_notebook: type[nn.Cell], graph_mode: None
) -> None:
    net = cell_of_a_notebook()
    net(X)
    net.flag = True
    net(X)
    told = str(ms.explain(net))
    assert "(read at In[3]:4)" in told
    assert "In[3]:5" in repr(ms.profile(net, X, runs=1))
    with pytest.raises(ValueError, match=r"Cell In.3., line 5, in Doubled\.construct\n") as info:
        net(ms.Tensor(np.ones((3, 5), np.float32)))
    shown = info.value._render_traceback_()  # type: ignore[attr-defined]
    assert not [line for line in [*shown, told] if "99533460" in line]


def test_without_a_notebook_a_file_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in an IPython that has no shell, or an old one."""
    names = "/a/net.py", r"C:\a\net.py"
    for shell in (None, SimpleNamespace(), SimpleNamespace(compile=compile)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda s=shell: s))
        assert [short_name(name) for name in names] == ["net.py", "net.py"]
        assert [long_name(name) for name in names] == [f'File "{name}"' for name in names]


def test_profiles_are_shown_as_tables(graph_mode: None) -> None:
    shown = repr(ms.profile(lambda x: x * 2, X, runs=1))
    assert "Time" in shown and "mul" in shown and "Event(" not in shown
