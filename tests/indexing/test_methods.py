"""Functions and methods about indexed elements: against recorded facts, and in both modes."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms

from .method_facts import ERRORS, FACTS

SIZED_BY_ELEMENTS = ("nonzero", "argwhere", "masked_select", "NonZero", "MaskedSelect")
CHANGING = ("Parameter", "copy()", "itemset", "np.")


def inputs() -> list[ms.Tensor]:
    """x, i and im."""
    f = np.float32
    return [ms.Tensor(np.arange(6, dtype=f).reshape(2, 3)), ms.Tensor([[0, 1, 1], [1, 0, 0]]),
            ms.Tensor(np.arange(16, dtype=f).reshape(1, 1, 4, 4))]


def function(text: str) -> Callable[..., Any]:
    """The expression as a function of x, i and im."""
    source = f"def f(x, i, im):\n    return {text}\n"
    file = f"<expression: {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"ms": ms, "ops": ms.ops, "Tensor": ms.Tensor, "np": np,
                             "Parameter": ms.Parameter}
    exec(compile(source, file, "exec"), space)
    made: Callable[..., Any] = space["f"]
    return made


def plain(value: Any) -> Any:
    """A result as the facts have it."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return str(value.dtype), list(value.shape), value.asnumpy().ravel().tolist()


@pytest.mark.parametrize("text", [t for t, want in FACTS.items() if want is not None])
def test_as_mindspore(text: str) -> None:
    assert plain(function(text)(*inputs())) == FACTS[text]


@pytest.mark.parametrize("text", [
    t for t in FACTS if not any(word in t for word in SIZED_BY_ELEMENTS + CHANGING)])
def test_both_modes(text: str) -> None:
    f = function(text)
    assert plain(ms.jit(f)(*inputs())) == plain(f(*inputs()))


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text: str) -> None:
    kind, message = ERRORS[text]
    with pytest.raises(kind, match=re.escape(message)):
        function(text)(*inputs())
    if "item" not in text:
        with pytest.raises(kind, match=re.escape(message)):
            ms.jit(function(text))(*inputs())


@pytest.mark.parametrize("text", [
    "ops.select_scatter(x * x, x[1], 0, 0)", "ops.slice_scatter(x * x, x[:, 1:], 1, 0, 2)",
    "ops.diagonal_scatter(x * x, x[0, 1:] * x[1, 1:], 1)",
    "ops.inplace_add(x * x, x[1:], 0)", "ops.inplace_sub(x * x, x * x * x, (1, 0))",
    "ops.reverse_sequence(x * x, i[0, :2] + 1, 1)", "x.index_add(0, i[0], x[[0, 1, 0]], alpha=2)",
    "x.index_put((i[0], i[1]), x[0] * x[1], True)", "x.masked_scatter(x > 2, x * x)",
    "x.take(i, 1)[:, 0] * x.take(i)", "ops.gather_nd(x * x, i[:, :2])",
    "ops.tensor_scatter_add(x, i[:, :2], x[0, :2])",
])
def test_gradients(text: str) -> None:
    """Both modes, against central differences in float64."""
    f = function(text)
    x, i, im = inputs()
    weights = ms.Tensor(np.random.default_rng(0).standard_normal(f(x, i, im).shape))

    def loss(x: Any, i: Any, im: Any) -> Any:
        return (f(x, i, im) * weights).sum()

    point = ms.Tensor(x.asnumpy().astype(np.float64) + 0.5)
    eager, graph = ms.grad(loss)(point, i, im), ms.jit(ms.grad(loss))(point, i, im)
    assert np.array_equal(eager.asnumpy(), graph.asnumpy())
    want = np.zeros((2, 3))
    for at in np.ndindex(2, 3):
        sides = []
        for step in (1e-4, -1e-4):
            moved = point.asnumpy().copy()
            moved[at] += step
            sides.append(float(loss(ms.Tensor(moved), i, im)))
        want[at] = (sides[0] - sides[1]) / 2e-4
    assert np.allclose(eager.asnumpy(), want, atol=1e-6)


def test_in_place_methods_write_the_tensor() -> None:
    x = inputs()[0]
    assert x.index_add_(0, ms.Tensor([1]), ms.Tensor([[1.0, 1.0, 1.0]]), alpha=2) is x
    assert x.tolist() == [[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]]


def test_parameters_are_written_at_points() -> None:
    class Net(ms.nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.p = ms.Parameter(np.ones((2, 3), np.float32), name="p")

        def construct(self, i: Any, v: Any) -> Any:
            ms.ops.scatter_nd_sub(self.p, i, v)
            ms.ops.scatter_nd_mul(self.p, i, v)
            return ms.ops.scatter_nd_max(self.p, i, v)

    nets = Net(), Net()
    given = ms.Tensor([[0, 0], [1, 2]]), ms.Tensor([2.0, -3.0])
    for net, mode in zip(nets, (ms.PYNATIVE_MODE, ms.GRAPH_MODE), strict=True):
        ms.set_context(mode=mode)
        net(*given)
        assert net.p.asnumpy().tolist() == [[2.0, 1.0, 1.0], [1.0, 1.0, -3.0]]
