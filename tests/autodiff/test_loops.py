"""Gradients of `scan`: against the same loop unrolled, in both modes; what is saved and summed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, ops
from cellc.core.dispatch import scan
from cellc.tracing.pytree import take_apart
from cellc_compiler.autodiff.loop_rules import with_residuals
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.ir.graph import Graph, Node
from cellc_compiler.ir.text import parse_graph
from cellc_compiler.ir.verify import verify

LENGTH = 5
Bodies = Callable[[Sequence[Any], Sequence[Any], Any, Sequence[Any]], tuple[list[Any], list[Any]]]
BODIES: dict[str, Bodies] = {}


def body(fn: Bodies) -> Bodies:
    BODIES[fn.__name__] = fn
    return fn


@body
def product(carried: Any, rows: Any, i: Any, captures: Any) -> Any:
    """x @ w.T and x @ w: each one product after the loop."""
    h, c = carried
    w, v, _ = captures
    h = ops.tanh(ops.matmul(h, w.T) + rows[0])
    return [h, ops.matmul(c, v) * 0.5], [h * c]


@body
def biased(carried: Any, rows: Any, i: Any, captures: Any) -> Any:
    """A sum over rows."""
    h, c = carried
    w, _, bias = captures
    h = ops.sigmoid(ops.matmul(h, w.T) + bias) * rows[0]
    return [h, c + h], [c]


@body
def scaled(carried: Any, rows: Any, i: Any, captures: Any) -> Any:
    """A captured value read element by element, and one read twice."""
    h, c = carried
    w, v, bias = captures
    h = ops.tanh(ops.matmul(h * bias, w.T) + ops.matmul(rows[0], w.T))
    return [h, c * v.sum() + h], [h + bias, ops.exp(-ops.abs(c))]


@body
def by_step(carried: Any, rows: Any, i: Any, captures: Any) -> Any:
    """The number of the step, a choice by it, and a row given out as it is."""
    h, c = carried
    w, _, _ = captures
    later = ops.matmul(h, w.T) + rows[0]
    h = ops.where(i < 3, ops.sin(later), h)
    return [h, c], [h, rows[0], c]


def operands() -> list[Tensor]:
    rng = np.random.default_rng(0)
    shapes = ((3, 4), (3, 4), (LENGTH, 3, 4), (4, 4), (4, 4), (4,))
    return [Tensor(rng.uniform(-1, 1, s).astype(np.float32)) for s in shapes]


def looped(name: str) -> Callable[..., Tensor]:
    def fn(h: Tensor, c: Tensor, xs: Tensor, w: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        last, outs = scan(name, [h, c], [xs], [w, v, bias], LENGTH, BODIES[name])
        return weighed([*last, *outs])

    return fn


def unrolled(name: str) -> Callable[..., Tensor]:
    def fn(h: Tensor, c: Tensor, xs: Tensor, w: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        carried, steps = [h, c], []
        for i in range(LENGTH):
            carried, out = BODIES[name](carried, [xs[i]], Tensor(i, ms.int64), [w, v, bias])
            steps.append(out)
        return weighed([*carried, *(ops.stack(list(s)) for s in zip(*steps, strict=True))])

    return fn


def weighed(values: Sequence[Tensor]) -> Tensor:
    total = Tensor(0.0, ms.float32)
    for k, v in enumerate(values):
        total = total + (ops.cos(v) * (k + 1)).sum()
    return total


def in_mode(mode: int, fn: Callable[..., Any], order: int) -> list[np.ndarray[Any, Any]]:
    def first(*args: Tensor) -> Tensor:
        return weighed(ms.grad(fn, tuple(range(6)))(*args))

    ms.set_context(mode=mode)
    out = ms.grad(fn if order == 1 else first, tuple(range(6)))(*operands())
    return [np.array(t._data) for t in take_apart(out)[1]]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", BODIES)
def test_gradient(name: str, order: int) -> None:
    eager, graph = (in_mode(m, looped(name), order) for m in (ms.PYNATIVE_MODE, ms.GRAPH_MODE))
    want = in_mode(ms.PYNATIVE_MODE, unrolled(name), order)
    for a, b, c in zip(eager, graph, want, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, c, rtol=2e-4, atol=2e-4)


LSTM_LIKE = """
graph g(%h: float32[2,3] input, %x: float32[4,2,3] input, %w: float32[3,3] param) {
  %0: float32[2,3], %1: float32[4,2,3] = scan(%h, %x, %w) {carried=1, sequences=1, length=4, \
reverse=False, saved=False, limited=False, stepwise=False} [
    graph body(%a: float32[2,3] input, %r: float32[2,3] input, %i: int64[] input, \
%c: float32[3,3] input) {
      %0: float32[2,3] = matmul(%a, %c) {transpose_a=False, transpose_b=True}
      %1: float32[2,3] = add(%0, %r) {}
      %2: float32[2,3] = sigmoid(%1) {}
      %3: float32[2,3] = mul(%2, %r) {}
      return %3, %3
    }
  ]
  return %1
}
"""


def loops(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op == "scan"]


def test_weights_get_one_product_after_the_loop_and_nothing_dear_is_computed_twice() -> None:
    graph = gradient_graph(parse_graph(LSTM_LIKE), [0, 1, 2])
    verify(graph)
    forward, backward = loops(graph)
    after = graph.nodes[graph.nodes.index(backward) :]
    (product_,) = [n for n in after if n.op == "matmul"]
    assert product_.attrs["transpose_a"]
    assert product_.operands[0].shape == (8, 3)
    inside = [n.op for n in backward.regions[0].nodes]
    assert inside.count("matmul") == 1  # the cotangent of the state
    assert "sigmoid" not in inside  # its result is saved by the forward loop
    assert len(forward.results) == 4  # last, outputs, the sigmoid, the state at each step
    assert backward.attrs["carried"] == 1


def test_without_the_weights_the_state_is_not_saved() -> None:
    graph = gradient_graph(parse_graph(LSTM_LIKE), [1])
    assert len(loops(graph)[0].results) == 3
    assert "matmul" not in [n.op for n in graph.nodes]


def test_a_loop_that_is_fixed_saves_nothing_more() -> None:
    graph = parse_graph(LSTM_LIKE)
    (loop,) = loops(graph)
    grown = with_residuals(loop.regions[0], 1, 1)
    text = LSTM_LIKE.replace("saved=False", "saved=True")
    fixed = parse_graph(text)
    (node,) = loops(fixed)
    assert len(grown.outputs) > len(node.regions[0].outputs)
    with pytest.raises(ValueError, match="what it carries"):
        gradient_graph(fixed, [0, 1, 2])


def test_no_cotangent_no_sequence() -> None:
    """The final state alone is differentiated: no zeros are read for the outputs."""
    text = LSTM_LIKE.replace("return %1\n}", "return %0\n}")
    _, backward = loops(gradient_graph(parse_graph(text), [0, 1, 2]))
    names = [v.name for v in backward.regions[0].inputs]
    assert sum(n.startswith("row") for n in names) == 2  # the sigmoid, the input
