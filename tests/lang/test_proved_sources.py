"""A text is compiled for a function only if it gives the code that Python imported."""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.lang import register_source
from cellc.lang.errors import CompileRuntimeError

X = Tensor([4.0])
Module = Callable[[str], ModuleType]


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield


@pytest.fixture
def module(tmp_path: Path, monkeypatch: Any) -> Iterator[Module]:
    """Write a text as a module and import it, anew for each text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text: str) -> ModuleType:
        (tmp_path / "edited.py").write_text(text)
        importlib.invalidate_caches()
        found = sys.modules.get("edited")
        return importlib.reload(found) if found else importlib.import_module("edited")

    yield write
    sys.modules.pop("edited", None)


def run(fn: Any) -> list[float]:
    got: list[float] = ms.jit(fn)(X).asnumpy().tolist()
    return got


PROGRAM = """from cellc import nn
def g(x):
    return x * 2 + 1

def h(x):
    return x - 3

class N(nn.Cell):
    def construct(self, x):
        return g(x) + h(x)
"""


@pytest.mark.parametrize(("old", "new"), [
    ("x * 2 + 1", "x * 2 + 500"), ("x * 2 + 1", "x * 2 - 1"), ("x * 2 + 1", "x + 2 * 1"),
    ("x * 2 + 1", "x * 2 + 1 + 1"), ("x * 2 + 1", "x * 2 + 1.0"), ("def g", "\ndef g"),
    ("def g(x)", "def g(y)"), ("return x * 2 + 1", "return (lambda: x * 2)()"),
])
def test_an_edit_before_the_first_compile_is_an_error(
    module: Module, tmp_path: Path, old: str, new: str
) -> None:
    made = module(PROGRAM)
    (tmp_path / "edited.py").write_text(PROGRAM.replace(old, new))
    with pytest.raises(RuntimeError, match=r"edited\.py now compiles to other code.*CE002") as e:
        ms.jit(made.g)(X)
    assert "importlib.reload" in str(e.value)


def test_edits_that_change_no_code_are_none(module: Module, tmp_path: Path) -> None:
    made = module(PROGRAM)
    (tmp_path / "edited.py").write_text(PROGRAM.replace("+ 1", "+ (1)  # one"))
    assert run(made.g) == [9.0]


def test_a_reload_takes_effect_at_once(module: Module) -> None:
    """Also where the new text has the old one's length, and the file the old one's time."""
    for k in (1, 2, 7, 1000):
        made = module(PROGRAM.replace("+ 1", f"+ {k}"))
        assert run(made.g) == [8.0 + k]
        assert made.N()(X).asnumpy().tolist() == [9.0 + k]


def test_functions_from_before_a_reload_keep_their_text(module: Module) -> None:
    made = module(PROGRAM)
    first, other = made.g, made.h
    assert run(first) == [9.0]
    made = module(PROGRAM.replace("+ 1", "+ 2").replace("- 3", "- 4"))
    assert run(made.g) == [10.0]
    assert run(other) == [1.0], "h() was not compiled before the reload"


def test_texts_of_one_name() -> None:
    made = []
    for k in range(4):
        text = f"class N(nn.Cell):\n    def construct(self, x):\n        return x + {k}\n"
        register_source("<loop>", text)
        names: dict[str, Any] = {"nn": nn}
        exec(compile(text, "<loop>", "exec"), names)
        made.append(names["N"]())
    assert [n(X).item() for n in made] == [4.0, 5.0, 6.0, 7.0]


def test_functions_whose_code_was_replaced() -> None:
    """As IPython's autoreload does with the old functions."""
    def f(x: Any) -> Any:
        return x + 1

    def g(x: Any) -> Any:
        return x + 2

    assert run(f) == [5.0]
    f.__code__ = g.__code__
    assert run(f) == [6.0]


@pytest.mark.parametrize("shape", ["{}", "class __autoreload_class__:\n{}"])
def test_what_autoreload_compiled_apart(module: Module, monkeypatch: Any, shape: str) -> None:
    monkeypatch.setitem(sys.modules, "IPython.extensions.autoreload", ModuleType("autoreload"))
    made = module(PROGRAM)
    node = next(n for n in ast.walk(ast.parse(PROGRAM))
                if isinstance(n, ast.FunctionDef) and n.name == "h")
    text = ast.unparse(node)
    text = shape.format(indent(text, "    ") if "class" in shape else text)
    names: dict[str, Any] = {}
    exec(compile(text, made.__file__ or "", "exec"), made.__dict__, names)
    made.g.__code__ = (names.get("h") or names["__autoreload_class__"].h).__code__
    assert run(made.g) == [1.0]
    made.g.__code__ = compile(text.replace("- 3", "- 5"), made.__file__ or "", "exec").co_consts[0]
    if made.g.__code__.co_name == "h":
        with pytest.raises(RuntimeError, match="CE002"):
            run(made.g)


TEXTS = {
    "form feed": "\f\ndef g(x):\n    '''a\fb\u2028c'''\n    return x * 3\n",
    "future": "from __future__ import annotations\ndef g(x: None) -> Unknown:\n    return x * 3\n",
    "carriage returns": "def g(x):\r\n    return x * 3\r\n",
    "no last newline": "def g(x):\n    return x * 3",
    "private names": "class A:\n    __k = 3\n    def __m(self, x):\n        return x * self.__k\n"
                     "    def __call__(self, x):\n        return self.__m(x)\ng = A()\n",
    "closure": "def made(k):\n    def inner(x):\n        return x * k\n    return inner\n"
               "g = made(3)\n",
    "decorators": "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def call(x):\n"
                  "        return f(x) * 3\n    return call\n@twice\n@twice\ndef half(x):\n"
                  "    return x / 3\ng = half\n",
    "constants": "def g(x):\n    return x * 3 if 1 in {1, 2, -0.0, 1e999 - 1e999} else x * 1j\n",
    "warnings": "def g(x):\n    return x * 3 if '\\d' else 1 is 1\n",
    "lambdas": "f, g, h = lambda x: x * 2, lambda x: x * 3, lambda x: x * 4\n",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@pytest.mark.parametrize("archive", [False, True])
@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str, archive: bool, tmp_path: Path, monkeypatch: Any) -> None:
    module = f"text_{name.replace(' ', '_')}"
    if archive:
        with zipfile.ZipFile(tmp_path / "texts.zip", "w") as z:
            z.writestr(f"{module}.py", TEXTS[name])
    else:
        (tmp_path / f"{module}.py").write_bytes(TEXTS[name].encode())
    monkeypatch.syspath_prepend(str(tmp_path / "texts.zip" if archive else tmp_path))
    assert run(importlib.import_module(module).g) == [12.0]
    sys.modules.pop(module)


class Doubles(importlib.machinery.SourceFileLoader):
    """An import hook that inserts a statement into each function, as type checkers do."""

    def source_to_code(self, data: Any, path: Any, *, _optimization: int = -1) -> Any:
        tree = ast.parse(data)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                node.body.insert(0, ast.copy_location(ast.parse("len('checked')").body[0],
                                                      node.body[0]))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


def test_an_import_hook_that_changes_programs(tmp_path: Path) -> None:
    file = tmp_path / "hooked.py"
    file.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("hooked", file,
                                                  loader=Doubles("hooked", str(file)))
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert run(made.g) == [9.0]
    file.write_text(PROGRAM.replace("- 3", "- 9"))
    linecache.clearcache()
    assert run(made.h) == [1.0], "the text of g() is known"


def asserts(x: Tensor) -> Any:
    assert x.shape == (1,), "pytest rewrites this"
    return (lambda y: y + 1)(x)


def test_asserts_that_pytest_rewrites() -> None:
    assert run(asserts) == [5.0]
    with pytest.raises(AssertionError, match="pytest rewrites this"):
        ms.jit(asserts)(ops.zeros(3))


def test_files_that_are_gone(module: Module, tmp_path: Path) -> None:
    made = module(PROGRAM)
    (tmp_path / "edited.py").unlink()
    linecache.clearcache()
    with pytest.raises(RuntimeError, match="deleted or moved, cannot be read"):
        run(made.g)
    (tmp_path / "edited.py").write_text("def g(x:\0")
    with pytest.raises(RuntimeError, match="CE002"):
        run(made.g)
    (tmp_path / "edited.py").write_text(PROGRAM)
    assert run(made.g) == [9.0]


KERNEL = """from cellc.ops import kernel
@kernel
def k(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        b[i] = a[i] + 1.0
    return b
"""


def test_kernels(module: Module, tmp_path: Path) -> None:
    made = module(KERNEL)
    (tmp_path / "edited.py").write_text(KERNEL.replace("1.0", "5.0"))
    with pytest.raises(RuntimeError, match="CE002"):
        ops.Custom(made.k, func_type="hybrid")(X)
    made = module(KERNEL.replace("1.0", "7.0"))
    assert ops.Custom(made.k, func_type="hybrid")(X).asnumpy().tolist() == [11.0]


@pytest.mark.parametrize(("flag", "program", "want"), [
    ("-O", "def f(x):\n    assert x.sum() > 9\n    assert False\n    return x + 1\n", "[5.]"),
    ("-OO", "def f(x):\n    'text'\n    assert False\n    return x + 1\n", "[5.]"),
    ("-Xno_debug_ranges", "g, f = lambda y: y, lambda x: x + 1\n", "[5.]"),
    ("-Xno_debug_ranges", "g, f = lambda x: x, lambda x: x + 1\n", "no_debug_ranges"),
])
def test_flags_of_python(tmp_path: Path, flag: str, program: str, want: str) -> None:
    file = tmp_path / "flags.py"
    file.write_text(f"import cellc as ms\n{program}print(ms.jit(f)(ms.Tensor([4.0])))\n")
    done = subprocess.run([sys.executable, flag, str(file)], capture_output=True, text=True,
                          timeout=200, check=False)
    assert want in done.stdout + done.stderr


NAMELESS = """
class K:
    def __init__(self, v):
        self.v = v
    def __lt__(self, other):
        return self.v < other.v
    def __call__(self, x):
        return x * self.v
class N(nn.Cell):
    def construct(self, x):
        return K(3)(x) if K(2) < K(3) else x
class Wrong(nn.Cell):
    def construct(self, x):
        return x.no_such_name
"""


@pytest.mark.parametrize("names", [{}, {"__name__": None}, {"__name__": "made"}])
def test_texts_executed_without_a_name(names: dict[str, Any]) -> None:
    names = {**names, "nn": nn, "__source__": NAMELESS}
    exec(NAMELESS, names)
    for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        assert names["N"]()(X).asnumpy().tolist() == [12.0]
        with pytest.raises(AttributeError, match="no_such_name"):
            names["Wrong"]()(X)


def test_a_code_is_proved_once(monkeypatch: Any) -> None:
    from cellc.lang import source

    def f(x: Any) -> Any:
        return x + 1

    assert run(f) == [5.0]
    monkeypatch.setattr(source, "_load", lambda *_: pytest.fail("loaded again"))
    assert run(f) == [5.0]
    assert ms.jit(f)(ops.zeros((2, 2))).shape == (2, 2)
    assert issubclass(CompileRuntimeError, RuntimeError)


def test_statements_that_are_compiled_one_by_one() -> None:
    """As IPython does with a cell: an import and a function that uses it make other code then."""
    text = "from cellc import ops\n\ndef f(x):\n    return ops.abs(x) + 1\n"
    register_source("<a cell>", text)
    names: dict[str, Any] = {}
    for node in ast.parse(text).body:
        exec(compile(ast.Module([node], []), "<a cell>", "exec"), names)
    assert ms.jit(names["f"])(Tensor([-2.0])).asnumpy().tolist() == [3.0]
