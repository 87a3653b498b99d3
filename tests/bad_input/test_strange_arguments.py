"""Compiled functions called with what nobody meant: a clear error or the right result, no crash.

The arguments are drawn at random from a stock of strange values; after every call the function
must still give the right result for a good one. What both modes accept must agree to the bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc_compiler.driver import compile_program
from cellc_runtime.executable import Executable

from ..modes.law import mode


def misaligned(n: int) -> Any:
    raw = np.zeros(4 * n + 1, np.uint8)
    return raw[1:].view(np.float32)


def read_only(shape: tuple[int, ...]) -> Any:
    out = np.ones(shape, np.float32)
    out.flags.writeable = False
    return out


class Subclass(np.ndarray):
    pass


ARRAYS: list[Callable[[], Any]] = [
    *(lambda t=t: np.ones((2, 3), t) for t in (
        bool, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float16, np.float32,
        np.float64, np.complex64)),
    *(lambda s=s: np.ones(s, np.float32) for s in (
        (), (1,), (3,), (2,), (6,), (3, 2), (1, 2, 3), (2, 3, 1), (0,), (0, 3), (2, 0), (2, 3, 0),
        (1, 1), (2, 1), (1, 3), (1,) * 12, (1000, 3))),
    lambda: np.ones((3, 2), np.float32).T, lambda: np.ones((4, 6), np.float32)[::2, ::2],
    lambda: np.ones((2, 3), np.float32)[::-1, ::-1], lambda: read_only((2, 3)),
    lambda: np.broadcast_to(np.float32(1), (2, 3)), lambda: misaligned(6).reshape(2, 3),
    lambda: np.ones((2, 3), ">f4"), lambda: np.asfortranarray(np.ones((2, 3), np.float32)),
    lambda: np.ones((2, 3), np.float32).view(Subclass), lambda: np.ma.ones((2, 3), np.float32),
    lambda: np.full((2, 3), np.nan, np.float32), lambda: np.full((2, 3), np.inf, np.float32),
    lambda: np.full((2, 3), -(1 << 40)), lambda: np.full((2, 3), 1 << 40),
    lambda: np.array([-5, 7]), lambda: np.array([[0, 1], [2, 3]]), lambda: np.array(9),
]
REFUSED: list[Callable[[], Any]] = [
    lambda: np.array(["a", "b"]), lambda: np.array([None, 1], object),
    lambda: np.zeros(3, [("a", "f4")]), lambda: np.zeros(2, "datetime64[s]"),
]
OTHERS: list[Callable[[], Any]] = [
    lambda: None, lambda: "text", lambda: b"bytes", lambda: 3, lambda: -1, lambda: 2.5,
    lambda: True, lambda: 1 << 70, lambda: float("nan"), lambda: 1j, list, lambda: (),
    dict, lambda: {"a": 1}, lambda: [1, 2, 3], lambda: [[1, 2, 3], [4, 5, 6]],
    lambda: [[1], [2, 3]], lambda: object(), lambda: len, lambda: int, lambda: range(3),
    lambda: slice(1), lambda: Ellipsis, lambda: (i for i in range(3)), lambda: np.float32(1),
    lambda: np.int64(7), lambda: memoryview(b"abc"), lambda: ms.float32, lambda: nn.ReLU(),
    lambda: {1, 2}, lambda: np.dtype("f4"), lambda: NotImplemented, lambda: Exception("x"),
]


def strange(pick: random.Random) -> Any:
    """A random argument: a tensor, an array, or anything at all."""
    kind = pick.random()
    if kind < 0.45:
        return Tensor(pick.choice(ARRAYS)())
    if kind < 0.6:
        return pick.choice(ARRAYS)()
    if kind < 0.65:
        return pick.choice(REFUSED)()
    if kind < 0.7:
        return Parameter(Tensor(pick.choice(ARRAYS)()), name="p")
    if kind < 0.76:
        return [strange(pick) for _ in range(pick.randrange(3))]
    return pick.choice(OTHERS)()


class Net(nn.Cell):
    """A product, an index and an updated parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.arange(6, dtype=np.float32).reshape(3, 2)), name="w")
        self.calls = Parameter(Tensor(np.zeros((), np.float32)), name="calls")

    def construct(self, x: Tensor, i: Tensor) -> Tensor:
        self.calls = self.calls + 1
        return ops.matmul(x, self.w)[i] + 0 * self.calls


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, y: x * 2 + y,
    "product": lambda x, y: ops.matmul(x, y),
    "index": lambda x, i: x[i],
    "gather": lambda x, i: ops.gather(x, i, 0),
    "reduce": lambda x, axis: ops.sum(x, axis),
    "branch": lambda x, y: x if x.sum() > 0 else y,
    "loop": lambda x, n: sum((x * k for k in range(min(n, 4))), x),
}
GOOD: dict[str, tuple[Any, ...]] = {
    "arithmetic": (np.ones((2, 3), np.float32), np.ones(3, np.float32)),
    "product": (np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)),
    "index": (np.ones((2, 3), np.float32), np.array(1)),
    "gather": (np.ones((2, 3), np.float32), np.array([1, 0])),
    "reduce": (np.ones((2, 3), np.float32), 1),
    "branch": (np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)),
    "loop": (np.ones((2, 3), np.float32), 3),
}


def good(name: str) -> list[Any]:
    return [Tensor(a) if isinstance(a, np.ndarray) else a for a in GOOD[name]]


def attempt(fn: Callable[..., Any], args: list[Any]) -> Any:
    """The result as arrays, or the exception, which must say something."""
    try:
        return fn(*args)
    except Exception as e:
        assert str(e) or isinstance(e, (AssertionError, StopIteration)), repr(e)
        return e


def bits(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.asnumpy()
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, np.nan_to_num(value).tobytes()
    if isinstance(value, (list, tuple)):
        return [bits(v) for v in value]
    return value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    fn, compiled = FUNCTIONS[name], ms.jit(FUNCTIONS[name])
    want = bits(fn(*good(name)))
    pick = random.Random(f"strange {name}")
    agreed = failed = 0
    for turn in range(120):
        args = good(name)
        for at in range(len(args)):
            if pick.random() < 0.6:
                args[at] = strange(pick)
        if pick.random() < 0.1:
            args.append(strange(pick))
        eager, graph = attempt(fn, args), attempt(compiled, args)
        if isinstance(eager, Exception) or isinstance(graph, Exception):
            failed += 1
        elif isinstance(eager, Tensor) and isinstance(graph, Tensor):
            agreed += 1
            assert bits(eager) == bits(graph), (turn, args)
        assert bits(compiled(*good(name))) == want, (turn, args)
    assert agreed >= 5 and failed >= 30, (agreed, failed)


def test_a_cell_with_state() -> None:
    """Calls that fail leave no mark."""
    with mode(ms.GRAPH_MODE):
        net, pick = Net(), random.Random("cell")
        x, i = Tensor(np.ones((2, 3), np.float32)), Tensor(np.array([1, 0]))
        want = bits(net(x, i))
        for turn in range(150):
            args = [strange(pick) if pick.random() < 0.5 else a for a in (x, i)]
            before = float(net.calls)
            out = attempt(net, args)
            assert float(net.calls) == before + (not isinstance(out, Exception)), (turn, args)
            assert bits(net(x, i)) == want, (turn, args)


@pytest.mark.parametrize("way", ["entry", "call"])
def test_executables(way: str) -> None:
    """The native entry and the Python path behind it, given arrays and all else directly."""
    traced = ms.compiled.traced.trace(
        FUNCTIONS["gather"], [Tensor(np.ones((2, 3), np.float32)), Tensor(np.array([1, 0]))], {})
    run = Executable(compile_program(traced.graph))
    call: Callable[..., Any] = run.entry if way == "entry" else lambda *a: run.call(a)[0]
    x, i = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 0])
    pick = random.Random(way)
    for turn in range(300):
        args: list[Any] = [x, i]
        for at in range(2):
            if pick.random() < 0.7:
                args[at] = pick.choice(ARRAYS + REFUSED + OTHERS)()
        if pick.random() < 0.1:
            args = args[: pick.randrange(3)]
        out = attempt(call, args)
        assert isinstance(out, (np.ndarray, TypeError, ValueError, IndexError)), (turn, args, out)
        assert np.array_equal(call(x, i), x[i]), (turn, args)
