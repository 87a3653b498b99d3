"""Every program of `programs.py` in PyNative and in a graph: equal to numpy, and to each other."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms

from .programs import ERRORS, RECORDED, WRITE, Array, arrays, programs

PROGRAMS = programs()
FINE = [p for p in PROGRAMS if p not in ERRORS]


def names_of(program: str) -> list[str]:
    """The names of `arrays` that a program uses, in order."""
    words = re.findall(r"[a-z_]\w*", re.sub(r"'[^']*'", "", program))
    return sorted(set(words) & set(arrays()))


def function(program: str) -> Callable[..., Any]:
    """The program as a function of the names it uses."""
    body = "".join(f"    {line.strip()}\n" for line in program.split(";"))
    source = f"def f({', '.join(names_of(program))}):\n{body}"
    file = f"<program: {program}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"np": np, "N": np.array}
    exec(compile(source, file, "exec"), space)
    made: Callable[..., Any] = space["f"]
    return made


def run(program: str, mode: str) -> ms.Tensor:
    """The program's result on tensors; in a graph, all of them are run-time values."""
    f = function(program)
    given = arrays()
    out = (ms.jit(f) if mode == "graph" else f)(*(ms.Tensor(given[n]) for n in names_of(program)))
    assert isinstance(out, ms.Tensor)
    return out


def expected(program: str) -> Array:
    """The result, from numpy or as recorded."""
    if program in RECORDED:
        shape, elements = RECORDED[program]
        return np.array(elements).reshape(shape)
    given = arrays()
    return np.asarray(function(program)(*(given[n] for n in names_of(program))))


def test_the_table_is_long() -> None:
    assert len(set(PROGRAMS)) > 500
    assert {*ERRORS, *RECORDED} <= set(PROGRAMS)


@pytest.mark.parametrize("program", FINE)
def test_pynative(program: str) -> None:
    want, got = expected(program), run(program, "pynative")
    assert got.shape == want.shape
    assert np.array_equal(got.asnumpy(), want)


@pytest.mark.parametrize("program", FINE)
def test_graph(program: str) -> None:
    want, got = expected(program), run(program, "graph")
    assert got.shape == want.shape
    assert np.array_equal(got.asnumpy(), want)


@pytest.mark.parametrize("program", ERRORS)
def test_errors(program: str) -> None:
    kind, text = ERRORS[program]
    with pytest.raises(kind, match=re.escape(text)):
        run(program, "pynative")
    with pytest.raises(kind, match=re.escape(text)):
        run(program, "graph")


# --- gradients ------------------------------------------------------------------------------------

_FLOATS = {"x", "y", "q", "w"}


def differentiable(program: str) -> bool:
    """Whether a program moves elements of floats and does nothing else with them."""
    if program in ERRORS or program in RECORDED or program[0] == "w":
        return False
    return "=" not in program or (" = " in program and program.split(";")[0] in WRITE)


def sources(program: str) -> tuple[list[str], Array]:
    """The float names of a program; for each element of its result which of their elements it is.

    Found by running numpy on the numbers of elements; -1 stands for a number of the program.
    """
    given = arrays()
    names = [n for n in names_of(program) if given[n].dtype == np.float32]
    start = 1000
    for n in names:
        given[n] = np.arange(start, start + given[n].size).reshape(given[n].shape)
        start += given[n].size
    out = np.asarray(function(program)(*(given[n] for n in names_of(program))))
    return names, np.where(out >= 1000, out - 1000, -1)


LINEAR = [p for p in FINE if differentiable(p) and not re.search(r"[<>%*]|sum|fl\b|e\[", p)]
MOVING = [p for p in LINEAR if "=" in p or set(names_of(p)) & set("ijknu")][::2] + \
    [p for p in LINEAR if re.search(r"\bm\d", p) and "=" not in p]


@pytest.mark.parametrize("program", MOVING)
def test_gradients(program: str) -> None:
    names, places = sources(program)
    given, order = arrays(), names_of(program)
    total = sum(given[n].size for n in names)
    want = np.zeros(total + 1, np.float32)
    np.add.at(want, places.ravel(), 2 * expected(program).ravel())
    f = function(program)

    def loss(*args: Any) -> Any:
        out = f(*args)
        return (out * out).sum()

    at = tuple(order.index(n) for n in names)
    found = []
    for fn in (ms.grad(loss, at), ms.jit(ms.grad(loss, at))):
        got = fn(*(ms.Tensor(given[n]) for n in order))
        parts = got if isinstance(got, tuple) else (got,)
        found.append(np.concatenate([p.asnumpy().ravel() for p in parts]))
    assert np.array_equal(found[0], found[1])
    assert np.allclose(found[0], want[:-1], rtol=1e-6, atol=1e-6)
