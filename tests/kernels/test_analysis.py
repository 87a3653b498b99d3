"""Which rows of a kernel are tasks of their own, and which zeros need not be written."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from cellc_compiler.driver import compile_graph
from cellc_compiler.hybrid.analysis import Analysis
from cellc_compiler.hybrid.language import Source
from cellc_compiler.hybrid.native import typed
from cellc_compiler.hybrid.python import call
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

from ..modes.law import bits

pytest.importorskip("numba")

N, M = 96, 40
MADE = "c = output_tensor(a.shape, a.dtype)\n"
CASES = [  # body, rows, whether the zeros of c are needed
    ("for i in range(a.shape[0]):\n    for j in range(a.shape[1]):\n        c[i, j] = a[i, j]\n",
     N, False),
    ("for i, j in grid(a.shape):\n    c[i, j] = a[i, j] * a[0, 0]\n", N, False),
    ("for k in grid(a.shape):\n    c[k] = a[k]\n", N, False),
    ("n, m = a.shape\nfor i in parallel(n):\n    s = 0.0\n    for j in range(m):\n"
     "        s += a[i, j]\n    for j in range(m):\n        c[i, j] = s\n", N, False),
    ("for i in range(len(a)):\n    with attr('x', 1):\n        s = a[i, 0]\n    c[i, 1] = s\n",
     N, True),
    ("for i in range(len(a)):\n    if a[i, 0] > 0:\n        c[i, 1] = a[i, 2]\n", N, True),
    ("for i in range(len(a)):\n    for j in range(a.shape[1]):\n        c[i, j] += a[i, j]\n",
     N, True),
    # a row that is read is another one
    ("for i in range(a.shape[0]):\n    c[i, 0] = a[i, 0] + c[i - 1, 0]\n", None, True),
    ("for i in range(a.shape[0]):\n    for j in range(a.shape[1]):\n"
     "        c[i, j] = a[i, j] + c[0, j]\n", None, True),
    # a row that is written is another one
    ("for i in range(a.shape[0]):\n    for j in range(a.shape[1]):\n"
     "        c[a.shape[0] - 1 - i, j] = a[i, j]\n", None, True),
    ("for j in range(a.shape[1]):\n    for i in range(a.shape[0]):\n        c[i, j] = a[i, j]\n",
     None, False),
    # a variable goes from trip to trip
    ("s = 0.0\nfor i in range(len(a)):\n    s = s + a[i, 0]\n    c[i, 0] = s\n", None, True),
    ("for i in range(len(a)):\n    if i == 0:\n        s = a[0, 0]\n    s = s * 0.5\n"
     "    c[i, 0] = s\n", None, True),
    ("s = 0\nfor i in range(len(a)):\n    if i > 0:\n        c[i, 0] = s\n    s = a[i, 0]\n",
     None, True),
    ("for i in range(len(a)):\n    for j in range(4):\n        t = a[i, j]\n    c[i, j] = t\n",
     None, True),
    # fewer rows, other loops, memory that all share
    ("for i in range(len(a) - 1):\n    for j in range(a.shape[1]):\n        c[i, j] = a[i, j]\n",
     None, True),
    ("for i in range(1, a.shape[0]):\n    for j in range(a.shape[1]):\n        c[i, j] = a[i, j]\n",
     None, True),
    ("for i, j in grid(a.shape):\n    c[i, j] = a[i, j]\nfor i, j in grid(a.shape):\n"
     "    c[i, j] = c[i, j] + c[0, 0]\n", None, False),
    ("d = allocate((2,), a.dtype)\nfor i in range(len(a)):\n    d[0] = a[i, 0]\n"
     "    c[i, 1] = d[0]\n", None, True),
    # trips that end early, positions that are changed on the way
    ("for i in range(len(a)):\n    for j in range(a.shape[1]):\n        if a[i, j] > 1:\n"
     "            break\n        c[i, j] = a[i, j]\n", None, True),
    ("for i in range(len(a)):\n    for j in range(a.shape[1]):\n        if a[i, j] > 1:\n"
     "            continue\n        c[i, j] = a[i, j]\n", N, True),
    ("for i in range(len(a)):\n    for j in range(a.shape[1]):\n        j = j // 2\n"
     "        c[i, j] = a[i, j]\n", None, True),
    ("for i, j in grid(a.shape):\n    c[i, j] = c[i, j] + a[i, j]\n    for i in range(3):\n"
     "        s = a[i, j]\n    for j in range(2):\n        c[j, i] = s\n", None, True),
    ("for i in range(len(a)):\n    for i in range(3):\n        c[i, 0] = a[i, 0]\n", None, True),
    ("for i in range(len(a)):\n    for j in range(a.shape[1]):\n"
     "        c[i, j] = a[i, j]\n        c[i, j] = c[i, j] + c[i, 0]\n", N, True),
]


@pytest.mark.parametrize(("body", "rows", "zeros"), CASES)
def test_rows_and_zeros(body: str, rows: int | None, zeros: bool) -> None:
    """What is found, and that the results are Python's, with memory that was used before."""
    source = Source("def k(a):\n" + textwrap.indent(MADE + body + "return c\n", "    "))
    a = np.random.default_rng(0).normal(size=(N, M)).astype(np.float32)
    kernel = typed(source, (TensorType(a.shape, dtypes.float32),))
    found = Analysis(kernel)
    assert found.rows() == rows
    assert found.filled("c") != zeros
    try:
        (want,) = call(kernel, [a.copy()])
    except UnboundLocalError:
        return
    for got in run(source, a):
        assert bits(got) == bits(want)


def run(source: Source, a: Any) -> list[Any]:
    """Results of two calls of a program whose outputs and temporaries are not zeros."""
    graph = Graph("k")
    x = graph.add_input(TensorType(a.shape, dtypes.float32), "x")
    b = Builder(graph)
    first = b.node("custom_kernel", [b.node("neg", [x], {}).result], {"text": source.text}).results
    again = b.node("custom_kernel", [x], {"text": source.text}).results
    third = b.node("mul", [b.node("sub", [first[0], first[0]], {}).result, again[0]], {}).result
    graph.outputs = [again[0], b.node("add", [third, again[0]], {}).result]
    program = compile_graph(graph)
    program([a])
    made = program([a])
    return [made[0]]


def test_tasks_tell_of_the_first_row() -> None:
    """Whatever thread is first."""
    text = ("def k(a):\n    c = output_tensor(a.shape, a.dtype)\n    for i in range(a.shape[0]):\n"
            "        for j in range(a.shape[1]):\n            c[i, j] = a[i, j + int(a[i, 0])]\n"
            "    return c\n")
    a = np.zeros((2000, 300), np.float32)
    a[[700, 1300, 1999], 0] = 7, 299, -400
    graph = Graph("k")
    x = graph.add_input(TensorType(a.shape, dtypes.float32), "x")
    graph.outputs = list(Builder(graph).node("custom_kernel", [x], {"text": text}).results)
    program = compile_graph(graph)
    for _ in range(5):
        assert program([a])[1].tolist() == [5, 300, 1, 300]
    assert program([np.zeros_like(a)])[1].tolist() == [0, 0, 0, 0]
