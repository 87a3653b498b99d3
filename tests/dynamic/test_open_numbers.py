"""Functions of open sizes: numbers of parts, positions, steps; calls that need too much memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import ops
from cellc_compiler.ir.dims import Dim, SymbolInfo, bounds, choose, largest, smallest

from .test_open_programs import Served, floats
from .test_open_sizes import assert_same, eagerly

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
