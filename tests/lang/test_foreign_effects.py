"""What Python code that is not interpreted changes and draws: in each call as in PyNative, or an
error with its line. Never in the trace alone."""

from __future__ import annotations

import linecache
import random
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.lang.errors import CompileError

from ..modes.law import mode

_HEAD = """import copy, dataclasses, functools, heapq, itertools, json, math, operator, random, re
import threading, types, typing
import numpy as np
import cellc as ms
from cellc import nn
import installed
N = [0]
def count(*given):
    N[0] += 1
    return N[0]
"""
_INSTALLED = """import functools
N = 0
KEPT = {}
def step():
    global N
    N += 1
    return N
def bump(o):
    o.n += 1
def keep(k):
    KEPT[len(KEPT)] = k
class Meter:
    n = 0
    __slots__ = ("total", "held")
    def __init__(self):
        self.total, self.held = 0, []
    def update(self, value):
        self.total += value
        self.held.append(value)
class Entered:
    n = 0
    def __enter__(self):
        self.n += 1
    def __exit__(self, *given):
        self.n += 10
def counted(fn):
    @functools.wraps(fn)
    def inner(*given):
        inner.calls += 1
        return fn(*given)
    inner.calls = 0
    return inner
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip installs one."""
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "installed.py").write_text(_INSTALLED)
    monkeypatch.syspath_prepend(str(place))


def _class(*methods: str, base: str = "", head: str = "    n = 0") -> str:
    return "\n".join([f"class A({base}):", head, *(f"    {m}" for m in methods)])


ALIKE: dict[str, tuple[str, str, str]] = {
    "attrgetter": (_class("@property\n    def k(self): return count()"),
                   "b = operator.attrgetter('k')(A0)", "b"),
    "a function of a package": ("o = installed.Entered()", "installed.bump(o)", "o.n"),
    "a global of a package": ("", "installed.step()", "installed.N"),
    "a container of a package": ("", "installed.keep(1)", "len(installed.KEPT)"),
    "slots of a package": ("o = installed.Meter()", "o.update(2)", "o.total + len(o.held)"),
    "with": ("o = installed.Entered()", "with o: pass", "o.n"),
    "a view": ("m = np.zeros(3)", "m[1:] += 1", "m[1]"),
    "a view that has a name": ("m = np.zeros(3)", "v = m[1:]; v += 1", "m[1]"),
    "a transposed view": ("m = np.zeros((2, 2))", "m.T[0, 1] += 1", "m[1, 0]"),
    "a view by a function": ("m = np.zeros((2, 2))", "np.split(m, 2)[0][0, 0] += 1", "m[0, 0]"),
    "rows": ("m = np.zeros((2, 2))", "for r in m: r += 1", "m[1, 1]"),
    "a view of a held array": ("d = {'a': np.zeros(2)}", "d['a'][:1] += 1", "d['a'][0]"),
    "a buffer that grows": ("m = np.zeros((2, 2))",
                            "m.resize((m.shape[0] + 1, 2), refcheck=False)", "m.shape[0]"),
    "itertools.accumulate": ("", "b = list(itertools.accumulate([2, 1, 3], count))", "N[0] + b[2]"),
    "itertools.starmap": (_class("def __init__(self, k): self.k = random.random()"),
                          "b = list(itertools.starmap(A, [(1,)]))[0]", "b.k"),
    "math.sqrt": (_class("def __float__(self): self.n += 1.0; return self.n"),
                  "b = math.sqrt(A0)", "b"),
    "math.floor": (_class("def __float__(self): self.n += 0.5; return self.n"),
                   "b = math.floor(A0)", "b"),
    "a container's own __init__": (
        _class("def __init__(self, *v): super().__init__(v); self.append(count())", base="list"),
        "b = A(1, 2)", "b[2]"),
    "an exception's own __init__": (
        _class("def __init__(self): super().__init__('q'); self.k = count()", base="Exception"),
        "b = A()", "b.k"),
    "a generic class": ("T = typing.TypeVar('T')\n" + _class(
        "def __init__(self): self.k = count()", base="typing.Generic[T]"), "b = A[int]()", "b.k"),
    "an int's own __new__": (_class("def __new__(cls): return super().__new__(cls, count())",
                                    base="int"), "b = A()", "b"),
    "__instancecheck__": (_class("def __instancecheck__(cls, v): return count() % 2", base="type")
                          + "\nclass B(metaclass=A): pass", "b = isinstance(3, B)", "b"),
    "cached_property": (_class("@functools.cached_property\n    def k(self): return count()"),
                        "b = A().k", "b"),
    "deepcopy": (_class(), "b = copy.deepcopy(A0); A0.n += 1", "b.n"),
    "singledispatch": ("f = functools.singledispatch(count)", "b = f(1)", "b"),
    "re.sub": ("", "b = re.sub('a', lambda m: str(count()), 'aa')", "N[0] + len(b)"),
    "lru_cache": ("f = functools.lru_cache(count)", "b = f(1) + f(2)", "b + N[0]"),
    "a part of a graph": ("import networkx\ng = networkx.Graph([(1, 2)])",
                          "g[1][2]['w'] = g[1][2].get('w', 0) + 1", "g[1][2]['w']"),
    "a generator of numbers": ("r = random.Random(3)", "k = r.random()", "k"),
}
REFUSED: dict[str, tuple[str, str, str]] = {
    "a graph": ("import networkx\ng = networkx.Graph()", "g.add_node(1)", "len(g)"),
    "a matrix": ("import scipy.sparse\ng = scipy.sparse.csr_matrix([[1., 0]])",
                 "g.setdiag(g[0, 0] + 1)", "g[0, 0]"),
    "sorted": (_class("def __lt__(self, o): A.n += 1; return False") + "\nli = [A(), A()]",
               "b = sorted(li)", "A.n"),
    "list.count": (_class("def __eq__(self, o): A.n += 1; return False") + "\nli = [A(), A()]",
                   "b = li.count(3)", "A.n"),
    "%": (_class("def __str__(self): self.n += 1; return 'a'"), "b = '%s' % A0", "A0.n"),
    "str of a list": (_class("def __repr__(self): self.n += 1; return 'a'") + "\nli = [A()]",
                      "b = str(li)", "li[0].n"),
    "__hash__": (_class("def __hash__(self): count(); return 3",
                        "def __eq__(self, o): return self is o") + "\na = A()\nd = {a: 1}",
                 "b = d[a]", "N[0]"),
    "re.sub": ("def word(m):\n    return str(count())", "b = re.sub('a', word, 'aa')", "N[0]"),
    "numpy.vectorize": ("", "b = np.vectorize(count)([1, 2])", "b[1]"),
    "numpy.fromfunction": ("", "b = np.fromfunction(count, (2,))", "N[0]"),
    "json": ("", "b = json.dumps([object()], default=count)", "N[0]"),
    "heapq": ("", "b = heapq.nsmallest(1, [3, 1], key=count)", "N[0]"),
    "__array__": (_class("def __array__(self, *g, **k): self.n += 1; return np.array([self.n])"),
                  "b = np.asarray(A0)[0]", "b"),
    "dataclasses.replace": (
        "@dataclasses.dataclass\nclass A:\n    n: int = 0\n"
        "    def __post_init__(self): self.n = random.random()", "b = dataclasses.replace(A0)",
        "b.n"),
    "a draw within": (_class("def __float__(self): return random.random()"), "b = math.sin(A0)",
                      "b"),
    "a wrapper that counts": ("f = installed.counted(abs)", "b = f(1)", "f.calls"),
    "hits of a cache": ("f = functools.lru_cache(abs)", "f(1)", "f.cache_info().hits"),
    "a thread's own": ("l = threading.local()\nl.n = 0", "l.n += 1", "l.n"),
    "an element by position": ("m = np.zeros((2, 2))", "m.flat[0] += 1", "m[0, 0]"),
}


def calls(case: tuple[str, str, str], in_mode: int) -> list[float]:
    """What three calls give."""
    before, body, read = case
    sys.modules.pop("installed", None)
    random.seed(3)
    np.random.seed(3)
    made = "A0 = A()\n" if "A0" in body + read else ""
    text = f"{_HEAD}{before}\n{made}class Net(nn.Cell):\n    def construct(self, x):\n" \
        f"        {body}\n        return x * ({read})\n"
    file = f"<foreign {hash(text)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    module = sys.modules["foreign_effects"] = types.ModuleType("foreign_effects")
    with mode(in_mode):
        exec(compile(text, file, "exec"), module.__dict__)
        net: Any = module.__dict__["Net"]()
        return [float(net(Tensor([1.0])).asnumpy()[0]) for _ in range(3)]


@pytest.mark.parametrize("name", ALIKE)
def test_each_call_does_it(name: str) -> None:
    assert calls(ALIKE[name], ms.GRAPH_MODE) == calls(ALIKE[name], ms.PYNATIVE_MODE)


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_with_its_line(name: str) -> None:
    calls(REFUSED[name], ms.PYNATIVE_MODE)
    with pytest.raises(CompileError, match=r"\[CE(501|307)\]\n  File \"(.|\n)*\^"):
        calls(REFUSED[name], ms.GRAPH_MODE)


def test_what_it_reads_is_compared() -> None:
    """Between calls, what leads to the result of a call that is not interpreted changes."""
    graph, words = networkx.Graph([(1, 2)]), {"a": "bb"}
    matrix = np.ones((2, 2))
    poly = np.poly1d([1.0, 2.0])
    scale = {"by": 2}

    def net(x: Any) -> Any:
        text = re.sub("a", lambda m: words["a"], "aa")
        return x * graph.number_of_edges() + len(text) + matrix.T.sum() * poly(2.0) \
            + np.vectorize(lambda v: v * scale["by"])([1])[0]

    jitted = ms.jit(net)
    x = Tensor([1.0])
    for edit in (lambda: None, lambda: graph.add_edge(2, 3), lambda: words.update(a="ccc"),
                 lambda: matrix.fill(2), lambda: poly.coeffs.fill(3), lambda: scale.update(by=5)):
        edit()
        want = net(x).asnumpy().tolist()
        assert jitted(x).asnumpy().tolist() == want
        assert jitted(x).asnumpy().tolist() == want


class Log(nn.Cell):
    """Puts a list into one that was there before, and changes it afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []

    def construct(self, x: Any) -> Any:
        row = [1]
        if x.sum() > 0:
            self.log.append(row)
        row.append(2)
        return x


def test_the_line_of_what_is_changed_afterwards() -> None:
    with mode(ms.GRAPH_MODE), pytest.raises(
            CompileError, match=r"is changed afterwards \[CE501\](.|\n)*self\.log\.append\(row\)"):
        Log()(Tensor([1.0]))


SETS_ITSELF_UP = """
import networkx as nx
import cellc as ms

GRAPH = nx.path_graph(4)

class Net(ms.nn.Cell):
    def construct(self, x):
        return x + nx.shortest_path_length(GRAPH, 0, 2)

ms.set_context(mode=ms.GRAPH_MODE)
net, x = Net(), ms.Tensor([0.0])
found = [float(net(x))]
GRAPH.add_edge(0, 2)
print(found + [float(net(x))])
"""


def test_a_function_of_a_package_that_compiles_itself_in_its_first_call(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(SETS_ITSELF_UP)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout == "[2.0, 1.0]\n", done.stderr
