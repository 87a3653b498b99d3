"""Every operator on every pair of element types, and on tensors and numbers, in both modes."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc.compiled.traced import trace

from .promotion_facts import CODES, LEFT, NUMBERS, RIGHT, TENSORS

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b, "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "pow": lambda a, b: a ** b, "matmul": lambda a, b: a @ b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
NAMES = list(CODES.values())


def facts(tables: dict[str, str]) -> dict[tuple[str, str, int], str]:
    """(operator, the tensor's or left type, column) -> the type of the result."""
    out = {}
    for operators, text in tables.items():
        rows = [line.split() for line in text.strip().splitlines()]
        for name in operators.split():
            for row, cells in zip(NAMES, rows, strict=True):
                for column, code in enumerate(cells):
                    if code != "-":
                        out[name, row, column] = CODES[code]
    return out


def tensor(name: str) -> ms.Tensor:
    """Three elements of a type."""
    data: dict[str, Any] = {"bool_": [True, False, True], "complex64": [3 + 1j, 1, 2 - 2j],
                            "complex128": [3 + 1j, 1, 2 - 2j]}
    return ms.Tensor(data.get(name, [3, 1, 2]), getattr(ms, name))


def outcome(fn: Callable[[], Any]) -> Any:
    """A result, or the kind of error."""
    try:
        return fn()
    except (TypeError, ValueError) as e:
        return next(k for k in (TypeError, ValueError) if isinstance(e, k))


def check(pairs: dict[str, Callable[..., Any]], want: Callable[[str], str | None],
          *args: Any, run: bool = True) -> Iterator[str]:
    """What is wrong with some expressions on tensors, each in both modes.

    Without `run` the graph is looked at, not compiled: its types.
    """
    eager = {n: outcome(lambda f=f: f(*args)) for n, f in pairs.items()}
    fine = [n for n, v in eager.items() if isinstance(v, ms.Tensor)]

    def together(*values: Any) -> Any:
        return tuple(pairs[n](*values) for n in fine)

    graph: dict[str, Any] = {}
    if fine and run:
        graph = dict(zip(fine, ms.jit(together)(*args), strict=True))
    elif fine:
        graph = dict(zip(fine, trace(together, args, {}).graph.outputs, strict=True))
    for name in pairs:
        type_, got = want(name), eager[name]
        if type_ is not None and (name not in fine or got.dtype is not getattr(ms, type_)):
            yield f"{name}: {getattr(got, 'dtype', got)}, MindSpore gives {type_}"
        if name in fine and (graph[name].dtype is not got.dtype or
                             (run and not np.array_equal(graph[name].asnumpy(), got.asnumpy(),
                                                        equal_nan=got.dtype.is_inexact))):
            yield f"{name}: {got} and in a graph {graph[name]}"


@pytest.mark.parametrize("right", NAMES)
@pytest.mark.parametrize("left", NAMES)
def test_two_tensors(left: str, right: str) -> None:
    known, column = facts(TENSORS), NAMES.index(right)
    assert list(check(OPERATORS, lambda n: known.get((n, left, column)),
                      tensor(left), tensor(right), run=NAMES.index(left) <= column)) == []


def _with_number(name: str, number: Any, first: bool) -> Callable[[Any], Any]:
    op = OPERATORS[name]
    return (lambda x: op(number, x)) if first else (lambda x: op(x, number))


@pytest.mark.parametrize("first", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_and_a_number(name: str, first: bool) -> None:
    known = facts(LEFT if first else RIGHT)
    for column, text in enumerate(NUMBERS):
        number = eval(text, {"np": np})
        pairs = {n: _with_number(n, number, first) for n in OPERATORS}
        assert list(check(pairs, lambda n, c=column: known.get((n, name, c)),
                          tensor(name), run=not first)) == [], text


def test_in_place_operators_make_tensors_of_the_promoted_type() -> None:
    """As in MindSpore: `x += 1.5` on ints gives floats, and another tensor."""
    def f(x: Any) -> Any:
        y = x
        y += 1.5
        return x, y

    for fn in (f, ms.jit(f)):
        x, y = fn(ms.Tensor([1, 2]))
        assert (x.dtype, y.dtype) == (ms.int64, ms.float32)
        assert (x.tolist(), y.tolist()) == ([1, 2], [2.5, 3.5])


SIGNS: list[tuple[str, list[Any]]] = [
    ("a // b", [-3, 2, -4, 3]), ("a % b", [2, -1, -1, 1]), ("a // 3", [-3, -3, 2, 2]),
    ("a % 3", [2, 2, 1, 1]), ("a % -3", [-1, -1, -2, -2]), ("7 // b", [2, -3, -4, 3]),
    ("7 % b", [1, -2, -1, 1]), ("a ** 2", [49, 49, 49, 49]), ("b ** 3", [27, -27, -8, 8]),
    ("a / b", [-7 / 3, 7 / 3, -3.5, 3.5]), ("a & b", [1, -7, 6, 2]), ("a | b", [-5, -3, -1, 7]),
    ("a ^ b", [-6, 4, -7, 5]), ("a << 1", [-14, -14, 14, 14]), ("a >> 1", [-4, -4, 3, 3]),
    ("-a", [7, 7, -7, -7]), ("abs(a)", [7, 7, 7, 7]), ("a // 0", [0, 0, 0, 0]),
    ("a % 0", [0, 0, 0, 0]), ("a < 2**40", [True] * 4), ("2**40 <= a", [False] * 4),
    ("a == -2**40", [False] * 4), ("a / 2**40", [-7 / 2**40, -7 / 2**40, 7 / 2**40, 7 / 2**40]),
]


@pytest.mark.parametrize(("text", "want"), SIGNS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_signs(text: str, want: list[Any], dtype: str) -> None:
    source = f"def f(a, b):\n    return {text}\n"
    file = f"<operator: {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), space)
    a = ms.Tensor([-7, -7, 7, 7], getattr(ms, dtype))
    b = ms.Tensor([3, -3, -2, 2], getattr(ms, dtype))
    for got in (space["f"](a, b), ms.jit(space["f"])(a, b)):
        assert np.allclose(got.asnumpy(), want)
