"""Where the source of compiled functions comes from."""

from __future__ import annotations

import functools
import importlib.util
import linecache
import os
import pty
import re
import select
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cellc as ms
from cellc import Tensor, lang, nn, ops
from cellc.lang import recovered

X = Tensor([1.0, 2.0])


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield


def base(a: Tensor, k: int, b: int = 1) -> Any:
    return a * k + b


class Plain:
    def __init__(self) -> None:
        self.c = 4

    def method(self, a: Tensor) -> Any:
        return a * self.c

    @staticmethod
    def static(a: Tensor) -> Any:
        return a - 1

    @classmethod
    def of_class(cls, a: Tensor) -> Any:
        return a - 2

    def __call__(self, a: Tensor) -> Any:
        return a * self.c + 1


def tenfold(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs) * 10
    return inner


@tenfold
@tenfold
def decorated(a: Tensor) -> Any:
    return a + 1


class Mixin:
    def helper(self, a: Tensor) -> Any:
        return a * 7


class Uses(nn.Cell):
    def construct(self, a: Tensor) -> Any:
        return self.helper(a)


class Mixed(Mixin, Uses):
    pass


class Extends(Uses, Mixin):
    def construct(self, a: Tensor) -> Any:
        return super().construct(a) + 1


class HoldsPartial(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.f = functools.partial(base, k=5)

    def construct(self, a: Tensor) -> Any:
        return self.f(a)


ONE, TWO, THREE = lambda a: a + 1, lambda a: a + 2, lambda a: a * 2
SAME, AGAIN = (lambda a: a + 1), (lambda a: a + 1)
BY_NAME = {"relu": lambda a: ops.relu(a), "tanh": lambda a: ops.tanh(a)}
DOUBLE, TRIPLE = [(lambda k: lambda a: a * k)(k) for k in (2, 3)]  # noqa: B023

FUNCTIONS: dict[str, tuple[Any, list[float]]] = {
    "first lambda of a line": (ONE, [2.0, 3.0]),
    "second lambda of a line": (TWO, [3.0, 4.0]),
    "third lambda of a line": (THREE, [2.0, 4.0]),
    "equal lambdas": (AGAIN, [2.0, 3.0]),
    "lambdas of a dict": (lambda a: BY_NAME["relu"](a) - BY_NAME["tanh"](a) * 0, [1.0, 2.0]),
    "lambdas that a lambda makes": (TRIPLE, [3.0, 6.0]),
    "lambda over lines": (lambda a:
                          a + 1, [2.0, 3.0]),
    "lambda as a default": (lambda a, f=lambda b: b * 2: f(a) + 1, [3.0, 5.0]),
    "partial": (functools.partial(base, k=3), [4.0, 7.0]),
    "partial of a partial": (functools.partial(functools.partial(base, k=3), b=2), [5.0, 8.0]),
    "bound method": (Plain().method, [4.0, 8.0]),
    "static method": (Plain.static, [0.0, 1.0]),
    "class method": (Plain.of_class, [-1.0, 0.0]),
    "callable object": (Plain(), [5.0, 9.0]),
    "decorated": (decorated, [200.0, 300.0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    fn, want = FUNCTIONS[name]
    assert ms.jit(fn)(X).asnumpy().tolist() == want


@pytest.mark.parametrize(("cell", "want"), [
    (Mixed, [7.0, 14.0]), (Extends, [8.0, 15.0]), (HoldsPartial, [6.0, 11.0]),
])
def test_cells(cell: Any, want: list[float]) -> None:
    assert cell()(X).asnumpy().tolist() == want


TEXT = "def made(a):\n    return a * 8\n"


def test_executed_text() -> None:
    names: dict[str, Any] = {}
    exec(TEXT, names)
    with pytest.raises(RuntimeError, match="CE001") as caught:
        ms.jit(names["made"])(X)
    assert "__source__" in str(caught.value) and "register_source" in str(caught.value)
    names = {"__source__": TEXT}
    exec(TEXT, names)
    assert ms.jit(names["made"])(X).asnumpy().tolist() == [8.0, 16.0]
    names = {}
    lang.register_source("<made>", TEXT)
    exec(compile(TEXT, "<made>", "exec"), names)
    assert ms.jit(names["made"])(X).asnumpy().tolist() == [8.0, 16.0]


def test_another_text_is_not_believed() -> None:
    text = TEXT.replace("8", "11")
    names: dict[str, Any] = {"__source__": TEXT}
    exec(text, names)
    with pytest.raises(RuntimeError, match="CE001"):
        ms.jit(names["made"])(X)
    code = names["made"].__code__
    assert recovered.gives(text, code) and not recovered.gives(TEXT, code)
    assert not recovered.gives("def made(:", code)


def test_a_notebook_cell() -> None:
    """IPython puts the text of a cell into linecache, under a name of its own."""
    name = "/tmp/ipykernel_1/3.py"
    linecache.cache[name] = (len(TEXT), None, TEXT.splitlines(True), name)
    names: dict[str, Any] = {}
    exec(compile(TEXT, name, "exec"), names)
    assert ms.jit(names["made"])(X).asnumpy().tolist() == [8.0, 16.0]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given") as caught:
        ms.jit(names["made"])("text", 3)
    assert caught.value


@pytest.mark.skipif(importlib.util.find_spec("IPython") is None, reason="no IPython here")
def test_ipython() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_cell("import cellc as ms\n@ms.jit\ndef f(x):\n    return x * 8\n")
    shell.run_cell("out = f(ms.Tensor([1.0])).asnumpy().tolist()")
    assert shell.user_ns["out"] == [8.0]


def test_a_module_in_an_archive(tmp_path: Path, monkeypatch: Any) -> None:
    archive = tmp_path / "networks.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("zipped_networks.py", "from cellc import nn\nclass Z(nn.Cell):\n"
                                         "    def construct(self, x):\n        return x * 6\n")
    monkeypatch.syspath_prepend(str(archive))
    import zipped_networks  # type: ignore[import-not-found]

    assert zipped_networks.Z()(X).asnumpy().tolist() == [6.0, 12.0]


SCRIPT = """import cellc as ms
from cellc import nn
ms.set_context(mode=0)
@ms.jit
def f(x):
    y = x * 2
    return y + 1

print("got", f(ms.Tensor([1.0])))
class N(nn.Cell):
    def construct(self, x):
        return x * 3

print("got", N()(ms.Tensor([1.0])))
g = ms.jit(lambda x: x + 5)
print("got", g(ms.Tensor([1.0])))
"""
GOT = ["got [3.]", "got [3.]", "got [6.]"]


def python(*arguments: str, **options: Any) -> list[str]:
    """The lines that a Python process prints after a prompt."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True,
                          timeout=200, check=False, **options)
    lines = [line[line.find("got"):] for line in done.stdout.splitlines() if "got [" in line]
    assert lines, done.stderr[-2000:]
    return lines


def test_a_command_line() -> None:
    assert python("-c", SCRIPT) == GOT


@pytest.mark.parametrize("flags", [(), ("-i",)])
def test_a_script_on_standard_input(tmp_path: Path, flags: tuple[str, ...]) -> None:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    with file.open() as f:
        assert python(*flags, stdin=f) == GOT


def test_a_pipe_says_what_to_do() -> None:
    done = subprocess.run([sys.executable], input=SCRIPT, capture_output=True, text=True,
                          timeout=200, check=False)
    assert "CE001" in done.stderr and "or a file" in done.stderr


def test_a_console(tmp_path: Path) -> None:
    file = tmp_path / "console.py"
    file.write_text(
        "import code\nconsole = code.InteractiveConsole()\n"
        f"for line in {SCRIPT!r}.split('\\n'):\n    console.push(line)\n"
    )
    assert python(str(file)) == GOT


@pytest.mark.skipif(importlib.util.find_spec("readline") is None, reason="no readline here")
@pytest.mark.parametrize(("magic", "text"), [
    ("%%time\n", "@ms.jit\ndef f(x):\n    return x + 7\n"),
    ("%%timeit -n 1 -r 1\n", "\nf = ms.jit(lambda x: x + 7)\n"),
    ("y = 1\n%prun -q ", "f = ms.jit(lambda x: x + 7)"),
], ids=["time", "timeit", "prun"])
def test_texts_that_magics_execute(
    magic: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IPython compiles the rest of a cell or line under a name that holds no text."""
    history = SimpleNamespace(input_hist_raw=["", "%%time\nother", magic + text, "z = 3"])
    shell = SimpleNamespace(history_manager=history)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    names: dict[str, Any] = {"ms": ms}
    exec(compile(text, "<timed exec>", "exec"), names)
    assert names["f"](Tensor([1.0])).asnumpy().tolist() == [8.0]


def test_the_prompt() -> None:
    """Lines typed at a terminal, one after the other."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, [sys.executable, "-q"], {**os.environ, "TERM": "dumb"})
    out = b""

    def until(mark: bytes) -> None:
        nonlocal out
        start, end = len(out), time.monotonic() + 300
        while mark not in out[start:] and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                out += os.read(terminal, 65536)

    try:
        until(b">>> ")
        for line in SCRIPT.splitlines():
            os.write(terminal, line.encode() + b"\n")
            until(b"... " if line.startswith(("@", " ", "def", "class")) else b">>> ")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    text = out.decode().replace("\r", "")  # a slow machine shows the progress before an answer
    assert re.findall(r"got \[[^\n]*\]", text) == GOT, text
