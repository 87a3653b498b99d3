"""Symbolic sizes: arithmetic, text, bounds, guards; graphs that hold them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellc_compiler.ir.dims import (
    Dim,
    Size,
    SymbolInfo,
    Undecided,
    deciding,
    evaluate,
    evaluate_number,
    surely_equal,
)
from cellc_compiler.ir.graph import Builder, Graph
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.ir.size_text import parse_size
from cellc_compiler.ir.text import parse_graph, print_graph
from cellc_compiler.ir.types import TensorType, broadcast_shapes
from cellc_compiler.ir.verify import verify
from cellc_compiler.passes.instantiate import SizeError, instantiate
from cellc_runtime import dtypes
from cellc_runtime.dtypes import DType
from cellc_runtime.open_sizes import scalar

N, M = Dim.symbol("n"), Dim.symbol("m")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Size]:
    """Python source of a size and the size."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([("n", N), ("m", M), ("3", 3), ("-2", -2), ("0", 0)]))
    a, x = draw(expressions(depth - 1))
    b, y = draw(expressions(depth - 1))
    match draw(st.sampled_from("+-*/%")):
        case "+":
            return f"({a}+{b})", x + y
        case "-":
            return f"({a}-{b})", x - y
        case "*":
            return f"({a}*{b})", x * y
        case "/":
            k = draw(st.sampled_from([2, 3, -2]))
            return f"({a}//{k})", x // k
        case _:
            return f"({a}%3)", x % 3


def test_numpys_integers_are_sizes() -> None:
    two = np.int64(2)
    assert surely_equal(N + two, N + 2) and surely_equal(two * N, 2 * N)
    assert surely_equal(N // two, N // 2)


@settings(max_examples=200, deadline=None)
@given(expressions(), st.integers(0, 40), st.integers(0, 40))
def test_arithmetic_is_that_of_ints(made: tuple[str, Size], n: int, m: int) -> None:
    source, x = made
    want = eval(source, {"n": n, "m": m})
    sizes = {"n": n, "m": m}
    assert evaluate(x, sizes) == want
    assert surely_equal(parse_size(str(x)), x)
    shapes = Shapes({s: SymbolInfo(0) for s in "nm"}, sizes)
    low, high = shapes.bounds(x)
    assert (low is None or low <= want) and (high is None or want <= high)
    with deciding(shapes):
        assert (x == 5) == (want == 5) and (x < 7) == (want < 7) and bool(x) == bool(want)
    assert all(g.holds(sizes) for g in shapes.guards)


@pytest.mark.parametrize(("x", "text"), [
    (N * 4 + 3 - N, "3*n+3"), (N * 784 // 4, "196*n"), ((4 * N + 3) // 4, "n"),
    ((N + 1) // 2, "((n+1)//2)"), (N * M * 6 // (N * 2), "3*m"), (-N + 1, "-n+1"),
    (N % 1, "0"), (N * 6 % 3, "0"), (7 // N, "(7//n)"), (N**2, "n*n"), (2 * N - 2 * N, "0"),
])
def test_canonical_form(x: Size, text: str) -> None:
    assert str(x) == text


def test_numbers_made_of_sizes() -> None:
    mean = 1.0 / N + N / 2
    assert evaluate_number(mean, {"n": 8}) == 1.0 / 8 + 8 / 2
    assert evaluate_number(parse_size(str(mean)), {"n": 3}) == 1.0 / 3 + 3 / 2


@pytest.mark.parametrize(("value", "dtype", "made"), [
    (2**70 + 5, dtypes.int32, 5), (-2**64 - 1, dtypes.int8, -1), (-3, dtypes.uint8, 253),
    (True, dtypes.int16, 1), (-3, dtypes.float32, -3.0), (7, dtypes.bool_, True),
    (-0.5, dtypes.float64, -0.5)])
def test_a_number_takes_an_element_type_as_in_c(value: float, dtype: DType, made: float) -> None:
    array = scalar(value, dtype)
    assert array.dtype == dtype.numpy and array.shape == () and array == made


def test_questions_that_bounds_decide_leave_no_guard() -> None:
    shapes = Shapes()
    n = shapes.new("n", 5, SymbolInfo(1, 64))
    with deciding(shapes):
        assert n >= 1 and n != 0 and n != -1 and n < 65 and 2 * n > 1 and n - 1 >= 0
        assert (n + 1) // 2 >= 1 and n and not n - n
        assert [n, -1].count(-1) == 1 and (n, 3) == (n, 3)
    assert shapes.guards == []


def test_answers_are_remembered_and_guarded() -> None:
    shapes = Shapes()
    n, m = (shapes.new(s, k, SymbolInfo()) for s, k in (("n", 5), ("m", 5)))
    with deciding(shapes):
        assert n > 3 and n > 2 and n >= 4  # the first answers the others
        assert n == m
        assert surely_equal(2 * n, m + n) and 3 * m - 3 * n == 0
        assert len(range(m)) == 5
        assert surely_equal(n, 5)
    assert [str(g) for g in shapes.guards] == ["n >= 4", "n == m", "n == 5"]
    assert all(g.holds({"n": 5, "m": 5}) for g in shapes.guards)
    assert not shapes.guards[1].holds({"n": 5, "m": 6})


def test_outside_of_a_trace_nothing_is_assumed() -> None:
    assert N != 3 and N == N and {N: 1}[Dim.symbol("n")] == 1
    for question in (lambda: N > 3, lambda: int(N), lambda: range(N)):
        with pytest.raises(Undecided, match="n"):
            question()


@pytest.mark.parametrize(("a", "b", "want"), [
    ((N, 4), (4,), (N, 4)), ((N, 1), (1, M), (N, M)), ((1,), (N,), (N,)), ((N,), (N,), (N,)),
])
def test_broadcasting_asks_nothing_where_it_need_not(
    a: tuple[Size, ...], b: tuple[Size, ...], want: tuple[Size, ...]
) -> None:
    assert broadcast_shapes(a, b) == want


def symbolic_graph() -> Graph:
    graph = Graph("open")
    x = graph.add_input(TensorType((N, 2 * M), dtypes.float32), "x")
    b = Builder(graph)
    y = b.reshape(x, shape=(N * M, 2))
    count = b.literal(1.0 / N, dtypes.float32)
    z = b.mul(y, count)
    graph.outputs = [b.slice(z, start=(0, 0), stop=(N * M - 1, 2))]
    return graph


@pytest.mark.parametrize(("a", "b", "same"), [
    (3, 3, True), (3, 4, False), (3, N, False), (N, 3, False), (N, N, True), (N + 1, 1 + N, True),
    (2 * N - N, N, True), (N, M, False), (0, N - N, True),
])
def test_what_is_surely_equal(a: Size, b: Size, same: bool) -> None:
    """Numbers and sizes in either place, and nothing asked."""
    shapes = Shapes()
    with deciding(shapes):
        assert surely_equal(a, b) is same
    assert shapes.guards == [] and surely_equal(a, b) is same


def test_text_of_a_graph_with_sizes() -> None:
    graph = symbolic_graph()
    verify(graph)
    text = print_graph(graph)
    assert "float32[n,2*m]" in text and "size(m*n-1)" in text
    assert print_graph(parse_graph(text)) == text


def test_instances() -> None:
    got = instantiate(symbolic_graph(), {"n": 3, "m": 5})
    verify(got)
    assert [n.op for n in got.nodes] == ["reshape", "constant", "mul", "slice"]
    assert got.outputs[0].type == TensorType((14, 2), dtypes.float32)


def test_sizes_that_do_not_fit_an_op() -> None:
    graph = Graph("open")
    x = graph.add_input(TensorType((N, 4), dtypes.float32), "x")
    graph.outputs = [Builder(graph).slice(x, start=(2, 0), stop=(N, 4))]
    assert instantiate(graph, {"n": 5}).outputs[0].type.shape == (3, 4)
    with pytest.raises(SizeError, match="negative dimension"):
        instantiate(graph, {"n": 1})
