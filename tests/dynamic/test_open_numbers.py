"""Functions of open sizes: numbers of parts, positions, steps; calls that need too much memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc_compiler.ir.dims import Dim, SymbolInfo, bounds, choose, deciding, largest, smallest
from cellc_compiler.ir.shapes import Shapes

from .test_open_programs import Served, floats
from .test_open_sizes import assert_same, eagerly, traces

CASES: dict[str, Callable[[Any], Any]] = {
    "linspace": lambda x: x * ops.linspace(-1.0, 2.5, x.shape[1]).reshape(-1, 1),
    "linspace of tensors": lambda x: x * ops.linspace(x[0, 0, 0], x[0, 0, 1], x.shape[1])[:, None],
    "chunk": lambda x: ops.chunk(x, 3, 1),
    "tensor_split": lambda x: ops.tensor_split(x, 4, 1),
    "scatter into open rows": lambda x: ops.tensor_scatter_add(
        x, ops.zeros((3, 2), ms.int32), ops.ones((3, x.shape[2]), ms.float32)),
    "sort": lambda x: ops.sort(x, 1),
    "topk": lambda x: ops.topk(x.swapaxes(1, 2), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    """The second size opens the axes; short and long ones are served then."""
    ms.set_context(mode=ms.GRAPH_MODE)
    fn = ms.jit(CASES[name])
    rng = np.random.default_rng(0)
    for n, s in ((2, 20), (3, 31), (5, 9), (2, 64), (4, 11)):
        x = ms.Tensor(rng.standard_normal((n, s, 4)).astype(np.float32))
        assert_same(fn(x), eagerly(CASES[name], x))


BOUNDS: dict[str, Callable[[Any], Any]] = {
    "clamp": lambda x: ops.clamp((x * 20).astype(ms.int32), 1 - x.shape[1], x.shape[1] // 2),
    "clamp of few bits": lambda x: ops.clamp((x * 40).astype(ms.int8), -1, x.shape[1]),
    "clip of positions": lambda x: ops.clip(ops.arange(x.shape[1]), x.shape[0], x.shape[1] - 2),
    "where": lambda x: ops.where(ops.arange(x.shape[1]) < x.shape[1] // 2, x.shape[1], 0),
    "gradient": lambda x: ms.grad(lambda y: ops.clamp(y, -1 / x.shape[1], x.shape[0]).sum())(x),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_of_integer_types(name: str) -> None:
    """One program: a size is a number of the element type, which all sizes fit or a guard says."""
    ms.set_context(mode=ms.GRAPH_MODE)
    fn = ms.jit(BOUNDS[name])
    for n, s in ((2, 20), (3, 31), (5, 9), (2, 64), (4, 11)):
        x = ms.Tensor(floats(n, s, 4))
        assert_same(fn(x), eagerly(BOUNDS[name], x))
    assert not any(o.refusals for o in traces(fn.table))
    assert sum(len(o.open) for o in traces(fn.table)) == 1


def test_a_size_that_an_element_type_does_not_hold() -> None:
    """A bound that all elements keep is none, from the size on where that is so."""
    ms.set_context(mode=ms.GRAPH_MODE)
    fn = ms.jit(lambda x: ops.clamp((x * 100).astype(ms.int8), -1, x.shape[0]))
    for n in (20, 31, 127, 128, 300, 100):
        x = ms.Tensor(floats(n))
        assert_same(fn(x), eagerly(fn, x))
    assert 2 <= sum(len(o.open) for o in traces(fn.table)) <= 3


def test_what_no_size_can_exceed_is_no_guard() -> None:
    shapes = Shapes()
    n = shapes.new("n", 7, SymbolInfo(2))
    with deciding(shapes):
        assert n <= (1 << 63) - 1 and n - 1 < (1 << 64) - 1
        assert not shapes.guards
        assert n <= 1 << 40
    (guard,) = shapes.guards
    assert guard.holds({"n": 1 << 40}) and not guard.holds({"n": (1 << 40) + 1})


def until(x: Any, i: Any) -> Any:
    """A run-time loop whose end and steps follow from sizes."""
    h = x[:, 0]
    while i < x.shape[1]:
        h = ops.tanh(h * (1 / x.shape[1]) + x.gather(i, 1)) / x.shape[0]
        i = i + 1
    return h


def nested(x: Any, i: Any) -> Any:
    """A branch in a loop; both, and what follows, take the same numbers."""
    h = x[:, 0]
    while i < x.shape[1]:
        if i * 2 < x.shape[1]:
            h = h + x.gather(i, 1) * x.shape[1]
        else:
            h = h * x.shape[0] - x.shape[1]
        i = i + 1
    return h * x.shape[1]


BOTH = nn.LSTM(4, 5, bidirectional=True, batch_first=True)


def both_ways(x: Any, i: Any) -> Any:
    lengths = ops.clamp((x[:, 0, 0].abs() * 8).astype(ms.int32) + 1 + i, 1, x.shape[1])
    return BOTH(x, None, lengths)[0]


@pytest.mark.parametrize("fn", [until, nested, both_ways])
def test_loops_that_compute_with_sizes(fn: Callable[..., Any]) -> None:
    """One program for all sizes: a loop is given the numbers that follow from them."""
    ms.set_context(mode=ms.GRAPH_MODE)
    compiled = ms.jit(lambda x, i: fn(x, i))
    for n, s in ((2, 20), (3, 31), (5, 9), (2, 64), (4, 11)):
        x, i = ms.Tensor(floats(n, s, 4)), ms.Tensor(np.int32(0))
        assert_same(compiled(x, i), eagerly(fn, x, i))
    assert not any(o.refusals for o in traces(compiled.table))
    assert sum(len(o.open) for o in traces(compiled.table)) == 1


def test_no_rows() -> None:
    """A call without rows after others."""
    fn = ms.jit(lambda x: x * 2)
    ms.set_context(mode=ms.GRAPH_MODE)
    for n in (4, 5, 0, 7):
        assert fn(ops.ones((n,))).shape == (n,)


def test_more_temporaries_than_memory_names_the_inputs() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)

    @ms.jit
    def outer(x: Any) -> Any:
        y = ops.outer(x, x)
        return ops.matmul(y, ops.tanh(y))[0]

    for n in (5, 7):
        outer(ops.ones((n,)))
    with pytest.raises(MemoryError, match=r"with x: float32\[400000\]: a call needs .* MiB"):
        outer(ops.ones((400_000,)))


def test_a_tensor_that_is_too_large_names_the_sizes() -> None:
    made = Served(lambda x, y: ops.outer(x, y), [floats(5), floats(7)], {0: (None,), 1: (None,)})
    assert made.same([floats(9), floats(3)])
    with pytest.raises(ValueError, match=r"is larger than any array for x0_0 = \d+, x1_0 = "):
        made.program.at({"x0_0": 1 << 25, "x1_0": 1 << 25})


def test_bounds_of_choices() -> None:
    symbols = {"n": SymbolInfo(2, 9), "m": SymbolInfo(4, None)}
    n, m = Dim.symbol("n"), Dim.symbol("m")
    assert bounds(smallest(n, m), symbols) == (2, 9)
    assert bounds(largest(n, m), symbols) == (4, None)
    assert bounds(largest(n, 3), symbols) == (3, 9)
    assert bounds(choose(m, 5, n, 20), symbols) == (2, 20)
