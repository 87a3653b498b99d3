"""Messages: each program fails, and its message equals golden/NAME.txt to the letter.

CELLC_UPDATE_GOLDEN=1 rewrites the files; read the difference before committing it.
"""
# The programs are wrong on purpose.
# ruff: noqa

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellc.common.parameter import Parameter
from cellc.common.tensor import Tensor
from cellc.tracing.tracer import Tracer
from cellc.lang import CODES, CompileError, check_call, interpret_call
from cellc.nn.cell import Cell
from cellc_compiler.ir.types import TensorType
from cellc_runtime import dtypes

CASES: list[tuple[str, type[Exception], Callable[..., Any]]] = []


def fails(code: str, kind: type[Exception]) -> Callable[..., Any]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((code, kind, fn))
        return fn

    return add


def helper(a: Any, b: Any) -> Any:
    return a.foo(b)


class Inner(Cell):
    def construct(self, x: Any) -> Any:
        return x.missing


class Net(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.w = Parameter(Tensor(np.ones(2, np.float32)), name="w")
        self.flag: Any = 1

    def construct(self, x: Any) -> Any:
        return self.inner(x)

    def keep(self, x: Any) -> Any:
        self.flag = lambda v: v + x
        return x

    def flip(self, x: Any) -> Any:
        if x.sum() > 0:
            self.flag = "two"
        return x

    def wrong_shape(self, x: Any) -> Any:
        self.w = x.sum()
        return x

    def make(self, x: Any) -> Any:
        return x + Parameter(x)

    def absent(self, x: Any) -> Any:
        return self.weight * x


class WithGradient(Cell):
    def construct(self, x: Any) -> Any:
        return x

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (dout,)


NET = Net()
OWN = WithGradient()

# --- syntax -----------------------------------------------------------------------------------------

@fails("CE101", SyntaxError)
def class_definition(x):
    class A:
        pass
    return x

@fails("CE101", SyntaxError)
def except_star(x):
    try:
        x = x + 1
    except* ValueError:
        pass
    return x

@fails("CE103", SyntaxError)
def generator(x):
    yield x

@fails("CE103", SyntaxError)
def yield_inside_an_expression(x):
    def rows():
        yield 1 + (yield x)
    return list(rows())

@fails("CE103", SyntaxError)
def yield_under_a_condition_of_the_run(x):
    def rows():
        for i in range(3):
            if x.sum() > i:
                break
            yield i
    return sum(rows())

@fails("CE103", SyntaxError)
def generator_left_open(x):
    def rows():
        try:
            yield x
            yield x
        finally:
            print("done")
    for row in rows():
        break
    return x

# --- names ------------------------------------------------------------------------------------------

@fails("CE201", NameError)
def undefined(x):
    return x + undefined_name

@fails("CE202", UnboundLocalError)
def read_before_assignment(x):
    y = z + 1
    z = 2
    return x

@fails("CE202", UnboundLocalError)
def deleted(x):
    y = x
    del y
    return y

@fails("CE203", UnboundLocalError)
def one_branch(x):
    if x.sum() > 0:
        y = x + 1
    return y

@fails("CE203", UnboundLocalError)
def other_branch(x):
    if x.sum() > 0:
        pass
    elif x.sum() < -3:
        y = x + 1
    return x if x.sum() > 0 else y

@fails("CE204", TypeError)
def different_shapes(x):
    if x.sum() > 0:
        y = x
    else:
        y = x.sum()
    return y * 2

@fails("CE204", TypeError)
def different_kinds(x):
    y = None
    if x.sum() > 0:
        y = x
    return y * 2

@fails("CE204", TypeError)
def different_numbers(x):
    if x.sum() > 0:
        k = 1
    else:
        k = 1.5
    return x * k

@fails("CE204", TypeError)
def conditional_expression(x):
    return x if x.sum() > 0 else "no"

@fails("CE204", TypeError)
def cells_by_condition(x):
    f = NET if x.sum() > 0 else OWN
    return f(x)

@fails("CE205", TypeError)
def loop_changes_shape(x):
    while x.sum() > 0:
        x = x.sum()
    return x

@fails("CE205", TypeError)
def loop_changes_kind(x):
    s = None
    while x.sum() > 0:
        x = x - 1
        s = x
    return s

@fails("CE206", UnboundLocalError)
def only_inside_loop(x):
    while x.sum() > 0:
        y = x
        x = x - 1
    return y

@fails("CE208", TypeError)
def list_grows_in_branch(x):
    out = []
    if x.sum() > 0:
        out.append(x)
    return out

@fails("CE208", TypeError)
def list_grows_in_loop(x):
    out = []
    while x.sum() > 0:
        out.append(x)
        x = x - 1
    return out

# --- calls ------------------------------------------------------------------------------------------

@fails("CE301", TypeError)
def numpy_on_tensor(x):
    return np.sum(x)

@fails("CE301", TypeError)
def math_on_tensor(x):
    return math.sqrt(x)

@fails("CE302", TypeError)
def sort_tensors(x):
    return sorted([x[0], x[1]])

@fails("CE303", RuntimeError)
def open_file(x):
    open("file")
    return x

@fails("CE304", RecursionError)
def endless(x):
    def rec(n):
        return rec(n + 1)
    return rec(0)

@fails("CE304", RecursionError)
def endless_at_run_time(x):
    def rec(a):
        if a.sum() > 3:
            return a
        return rec(a + 1)
    return rec(x)

@fails("CE601", TypeError)
def too_few_arguments(x):
    return helper(x)

@fails("CE601", TypeError)
def too_many_arguments(x):
    return helper(x, 1, 2)

@fails("CE601", TypeError)
def unknown_keyword(x):
    return helper(x, c=1)

@fails("CE601", TypeError)
def not_callable(x):
    three = 3
    return three(x)

@fails("CE604", AttributeError)
def inside_helper(x):
    return helper(x,
                  1)

@fails("CE604", AttributeError)
def inside_cells(x):
    return NET(x)

# --- run-time conditions ----------------------------------------------------------------------------

@fails("CE401", ValueError)
def ambiguous_truth(x):
    if x:
        return x
    return -x

@fails("CE402", TypeError)
def returns_differ(x):
    if x.sum() > 0:
        return x
    return None

@fails("CE402", TypeError)
def falls_off_the_end(x):
    if x.sum() > 0:
        return x

@fails("CE404", TypeError)
def filtered_comprehension(x):
    return [v for v in x if v > 0]

@fails("CE404", TypeError)
def filter_function(x):
    return list(filter(lambda v: v > 0, x))

@fails("CE404", TypeError)
def match_on_tensor(x):
    match x[0]:
        case 1:
            return x
        case _:
            return -x

@fails("CE404", TypeError)
def next_in_branch(x):
    it = iter([1, 2])
    if x.sum() > 0:
        x = x + next(it)
    return x * next(it)

@fails("CE404", TypeError)
def generator_in_branch(x):
    it = (i * 2 for i in range(3))
    if x.sum() > 0:
        for i in it:
            x = x + i
    return x

@fails("CE208", TypeError)
def iterator_in_runtime_loop(x):
    it = iter([1, 2, 3])
    while x.sum() > 0:
        x = x - next(it)
    return x

# --- attributes -------------------------------------------------------------------------------------

@fails("CE501", TypeError)
def keep_function(x):
    return NET.keep(x)

@fails("CE501", TypeError)
def make_parameter(x):
    return NET.make(x)

@fails("CE502", TypeError)
def attribute_in_branch(x):
    return NET.flip(x)

@fails("CE602", ValueError)
def parameter_of_another_shape(x):
    return NET.wrong_shape(x)

@fails("CE604", AttributeError)
def absent_attribute(x):
    return NET.absent(x)

# --- errors of the program --------------------------------------------------------------------------

@fails("CE602", ValueError)
def unpack_too_many(x):
    a, b, c = x
    return a

@fails("CE602", ValueError)
def shapes_do_not_fit(x):
    return x + Tensor(np.ones(3, np.float32))

@fails("CE603", IndexError)
def list_index(x):
    return [x][2]

@fails("CE603", KeyError)
def dict_key(x):
    return {"a": x}["b"]

@fails("CE605", ZeroDivisionError)
def division_by_zero(x):
    return x * (1 // 0)

@fails("CE607", AssertionError)
def failed_assertion(x):
    assert len(x) == 3, f"need 3 elements, got {len(x)}"
    return x

@fails("CE602", ValueError)
def raised(x):
    if len(x) != 3:
        raise ValueError("three elements, please")
    return x

@fails("CE601", TypeError)
def iterate_scalar(x):
    for v in x.sum():
        pass
    return x

@fails("CE601", TypeError)
def non_ascii(x):
    größe = "ü" + 3
    return x

import shutil  # (here: lines above are in the messages)

@fails("CE307", RuntimeError)
def free_space(x):
    return x * shutil.disk_usage("/").free

@fails("CE603", KeyError)
def raised_key(x):
    raise KeyError("no rate is set")

@fails("CE204", TypeError)
def operands_of_two_types(x):
    y = x.sum()
    return (y > 0) and y


X = np.array([1, 2], np.float32)


def message(error: Exception) -> str:
    return str(error).replace(str(Path(__file__).parent) + "/", "")


@pytest.mark.parametrize(("code", "kind", "fn"), CASES, ids=[c[2].__name__ for c in CASES])
def test_message(
    code: str, kind: type[Exception], fn: Callable[..., Any], failure: Callable[..., Any],
    golden: Callable[[str, str], None],
) -> None:
    error = failure(fn, X)
    assert error.code == code
    assert isinstance(error, kind)
    assert not isinstance(error, CompileError) or error.code in CODES
    golden(fn.__name__, message(error))


def test_users_exceptions_keep_their_type(traced: Callable[..., Any]) -> None:
    class Own(Exception):
        pass

    def fn(x: Any) -> Any:
        raise Own("mine")

    with pytest.raises(Own, match="mine") as caught:
        traced(fn, (X,))
    assert "raise Own" in caught.value.__notes__[0]


def test_user_code_cannot_catch_limits(failure: Callable[..., Any]) -> None:
    def fn(x: Any) -> Any:
        try:
            if x:
                return x
        except Exception:
            return x

    assert failure(fn, X).code == "CE401"


def test_state_is_restored_after_an_error(traced: Callable[..., Any]) -> None:
    tracer = Tracer()
    x = tracer.input(TensorType((2,), dtypes.float32), "x")
    for fn, text in (
        (one_branch, "'y' is defined only if the condition"),
        (loop_changes_shape, "'x' enters an iteration as .* and leaves it as"),
        (returns_differ, "returns different types, chosen at run time"),
    ):
        with pytest.raises(CompileError, match=text):
            interpret_call(tracer, fn, [x])
        assert len(tracer.regions) == 1
    out = interpret_call(tracer, lambda v: v + 1, [x])
    assert out.shape == (2,)


def several(x):
    a = unknown(x)
    b = a + 1
    if x.sum() > 0:
        c = x.nope
    d = sorted([(x[0], i) for i in range(3)])
    for i in range(2):
        e = helper(x, i)
    return b + c


def test_check_finds_all_errors_once() -> None:
    tracer = Tracer()
    x = tracer.input(TensorType((2,), dtypes.float32), "x")
    errors = check_call(tracer, several, [x])
    assert [e.code for e in errors] == ["CE201", "CE604", "CE302", "CE604"]
    first = several.__code__.co_firstlineno
    assert [e.place.span.line - first for e in errors[:3] if e.place] == [1, 4, 5]


def test_check_of_a_good_call() -> None:
    tracer = Tracer()
    x = tracer.input(TensorType((2,), dtypes.float32), "x")
    assert check_call(tracer, lambda v: v * 2, [x]) == []
