"""Numbers that follow from open sizes by Python's functions: one program, with PyNative's bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
import cellc_runtime
from cellc import ops
from cellc_compiler.ir.dims import Dim, Ratio, SymbolInfo, deciding, evaluate_number
from cellc_compiler.ir.shapes import Shapes
from cellc_compiler.ir.size_functions import number_range, of_math
from cellc_compiler.ir.size_text import parse_size
from cellc_compiler.open_sizes import number, size_of
from cellc_runtime import open_sizes

from .test_open_programs import Served, floats
from .test_open_sizes import assert_same, eagerly, traces

SIZES = ((2, 20), (3, 31), (5, 9), (2, 64), (4, 11), (1, 1), (7, 1), (3, 1009))


def scores(x: Any) -> Any:
    """Attention scores, scaled by a size."""
    return ops.softmax(ops.matmul(x.T, x) / math.sqrt(x.shape[-1]), -1)


CASES: dict[str, Callable[[Any], Any]] = {
    "scores": scores,
    "sqrt": lambda x: x * (1 / math.sqrt(x.shape[1])),
    "half precision": lambda x: x.astype(ms.float16) / math.sqrt(x.shape[1]),
    "logarithms": lambda x: x * math.log(x.shape[1]) + math.log2(x.shape[1]) * math.log10(x.size),
    "logarithm of a base": lambda x: x * math.log(x.shape[1], 3),
    "exp": lambda x: x * math.exp(-x.shape[1]),
    "waves": lambda x: x * math.sin(math.pi / x.shape[1]) + math.cos(x.shape[0]),
    "pow": lambda x: x * math.pow(x.shape[1], 0.25) * 2.0 ** -x.shape[0],
    "floor and ceil": lambda x: x * math.floor(x.shape[1] / 3) + math.ceil(x.shape[1] / 3),
    "int": lambda x: x * int(x.shape[1] * 0.3) + int(x.shape[1] / 2) + math.trunc(x.shape[1] / 7),
    "round": lambda x: x * round(x.shape[1] * 0.3) + round(x.shape[1] / 2),
    "rounded shape": lambda x: ops.zeros((int(x.shape[1] * 0.7) + 1, math.ceil(x.shape[0] / 2))),
    "slice": lambda x: x[:, :math.ceil(x.shape[1] * 0.1)],
    "min of floats": lambda x: x * min(1.0, 10 / x.shape[1]) + max(0.25, math.sqrt(x.shape[1])),
    "Tensor": lambda x: x * ms.Tensor(x.shape[1], ms.float32) + ms.Tensor(x.shape[0]),
    "tensor": lambda x: x * ms.tensor(x.shape[1], ms.float32),
    "Tensor of a float": lambda x: ms.Tensor(x.shape[1] / 3, ms.float16) * ms.Tensor(1 / x.size),
    "Tensor of an int": lambda x: ms.Tensor(x.shape[1] / 3, ms.int32),
    "Tensor of a list": lambda x: ms.Tensor([[x.shape[1], 1.5], [2, x.shape[0] / 3]]),
    "Tensor of a shape": lambda x: ms.Tensor(x.shape),
    "size of a Tensor": lambda x: ops.zeros((int(ms.Tensor(x.shape[1])),)),
    "linspace": lambda x: ops.linspace(0, 1 / x.shape[1], 5),
    "clamp": lambda x: ops.clamp(x, -1 / math.sqrt(x.shape[1]), 0.5),
    "leaky": lambda x: ops.leaky_relu(x, 1 / x.shape[1]) + ops.elu(x, 1.0),
    "gradient": lambda x: ms.grad(lambda y: (y * math.sqrt(y.shape[1])).sum())(x),
}
FEW: dict[str, Callable[[Any], Any]] = {  # a size of 1 is another case: x ** 1 is x
    "power": lambda x: x.abs() ** (1 / x.shape[1]),
    "pow": lambda x: ops.pow(x.abs(), x.shape[0] / x.shape[1]),
    "gradient": lambda x: ms.grad(lambda y: (y.abs() ** (1 / y.shape[1])).sum())(x),
    "branch": lambda x: x * 2 if 10 / x.shape[1] < 1 else x * 3,
}


def programs(fn: Callable[[Any], Any]) -> int:
    """Serve all sizes, compared with PyNative; the number of traces."""
    ms.set_context(mode=ms.GRAPH_MODE)
    compiled = ms.jit(fn)
    for n, s in SIZES:
        x = ms.Tensor(floats(n, s))
        assert_same(compiled(x), eagerly(fn, x))
    assert not any(o.refusals for o in traces(compiled.table))
    return len(traces(compiled.table))


@pytest.mark.parametrize("name", CASES)
def test_one_program(name: str) -> None:
    """One open trace for each set of open axes: of both, and of the second alone."""
    assert programs(CASES[name]) <= 2


@pytest.mark.parametrize("name", FEW)
def test_few_programs(name: str) -> None:
    assert programs(FEW[name]) == 3


@pytest.mark.parametrize(("name", "kind"), [("log", ValueError), ("sqrt", ValueError),
                                            ("quotient", ZeroDivisionError)])
def test_errors_are_pythons(name: str, kind: type[Exception]) -> None:
    """Sizes outside of a function's domain raise as in PyNative, also where Python catches it."""
    makes: dict[str, Callable[[int], float]] = {
        "log": lambda n: math.log(n - 11), "sqrt": lambda n: math.sqrt(n - 12),
        "quotient": lambda n: 1 / (n - 11)}

    def plain(x: Any) -> Any:
        return x * makes[name](x.shape[0])

    def caught(x: Any) -> Any:
        try:
            return plain(x)
        except (ValueError, ZeroDivisionError):
            return x * 5

    ms.set_context(mode=ms.GRAPH_MODE)
    compiled, catching = ms.jit(plain), ms.jit(caught)
    for n in (20, 31, 11, 12, 64):
        x = ms.Tensor(floats(n))
        assert_same(catching(x), eagerly(caught, x))
        if n == 11:
            with pytest.raises(kind, match=r"math domain error|division by zero|expected"):
                compiled(x)
        else:
            assert_same(compiled(x), eagerly(plain, x))


def test_a_branch_is_a_guard_with_its_line() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    fn = ms.jit(lambda x: x * 2 if math.sqrt(x.shape[0]) > 4 else x * 3)
    for n in (20, 31, 9):
        x = ms.Tensor(floats(n))
        assert_same(fn(x), x * 2 if n > 16 else x * 3)
    guards = [str(g) for t in traces(fn.table) for g in t.guards]
    assert any("test_size_functions.py:" in g for g in guards)


def test_whole_numbers_of_quotients_are_exact() -> None:
    """`math.floor(n / 3)` is a floor division, and so are comparisons with whole numbers."""
    shapes = Shapes()
    n = shapes.new("n", 7, SymbolInfo(2))
    with deciding(shapes):
        assert str(math.floor(n / 3)) == "(n//3)"
        assert evaluate_number(math.ceil(n / 3), {"n": 10}) == 4
        assert str(math.trunc(n * 0.5)) == "(n//2)" and str(math.floor(n * 2.0)) == "2*n"
        assert 1 / n != 1 and 1 / n < 1 and not shapes.guards
        assert n / 7 == 1
    (guard,) = shapes.guards
    assert guard.holds({"n": 7}) and not guard.holds({"n": 8})


@pytest.mark.parametrize("text", [
    "sqrt(n)", "log(1 / n)", "min(1.0, 10 / n)", "floor(n * 0.3)", "2*round(0.3 * n)+1",
    "ceil(sqrt(n) / 2)", "2.0 ** (-n)"])
def test_text_and_numbers_of_the_runtime(text: str) -> None:
    """print -> parse is the identity; so is the form that the runtime has, with the same value."""
    x = parse_size(text)
    assert str(parse_size(str(x))) == str(x) and str(size_of(number(x))) == str(x)
    o = open_sizes.read_numbers({"n"}, [number(x)])
    for n in (2, 17, 1009):
        assert open_sizes.evaluate(o[0], {"n": n}) == evaluate_number(x, {"n": n})
        with deciding(Shapes({"n": SymbolInfo(2, 2000)})):
            low, high = number_range(x)
        assert low <= evaluate_number(x, {"n": n}) <= high


def test_functions_outside_of_their_domain_stay_questions() -> None:
    shapes = Shapes()
    n = shapes.new("n", 20, SymbolInfo(2))
    with deciding(shapes):
        assert type(of_math("log", [n])) is Ratio and type(of_math("log", [n - 5])) is float
        assert type(of_math("exp", [-n])) is Ratio and type(n) is Dim
    assert [g.relation for g in shapes.guards] == ["=="]


@pytest.mark.parametrize("fn", [lambda x: x * (1 / x.shape[0]), lambda x: x * math.log(x.shape[0])])
def test_artifacts_do_not_serve_sizes_without_a_value(
    fn: Callable[[Any], Any], tmp_path: Path
) -> None:
    """PyNative raises ZeroDivisionError and ValueError for no rows."""
    ms.compile_artifact(tmp_path / "f.cellc", {"infer": (fn, "float32[N,2]")})
    serve = cellc_runtime.load(tmp_path / "f.cellc", trust_native_code=True)
    for n in (1, 2, 3, 1009):
        x = floats(n, 2)
        np.testing.assert_array_equal(serve(x), fn(ms.Tensor(x)).asnumpy())
    with pytest.raises(ValueError, match=r"no program serves these sizes: N = 0 must be at least"):
        serve(floats(0, 2))


def test_an_output_larger_than_memory_is_named(tmp_path: Path) -> None:
    ms.compile_artifact(tmp_path / "f.cellc", {"infer": (lambda x: ops.outer(x, x), "float32[N]")})
    serve = cellc_runtime.load(tmp_path / "f.cellc", trust_native_code=True)
    for x in (np.ones(1 << 22, np.float32), np.broadcast_to(np.float32(1), (1 << 22,))):
        with pytest.raises(MemoryError, match=r"4194304, ?4194304"):
            serve(x)


def test_artifacts() -> None:
    """A program read from its file."""
    made = Served(lambda x: x * math.sqrt(x.shape[0]) + int(x.shape[0] * 0.3), [floats(20)],
                  {0: (None,)})
    for n in (2, 3, 7, 64, 1009):
        assert made.same([floats(n)])
