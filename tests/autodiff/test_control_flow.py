"""Gradients through control flow against finite differences, first and second order, traced.

Programs are traced as graph mode traces them; the gradient graph and the differences are both
evaluated by the interpreter in float64, so nothing of code generation is involved. Then both
modes are compared with known derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, ops
from cellc.compiled.traced import trace
from cellc.nn.cell import Cell
from cellc_compiler.autodiff.reverse import gradient_graph
from cellc_compiler.interpret import run
from cellc_compiler.ir.graph import Graph
from cellc_compiler.ir.verify import verify

from ..modes.law import mode

Array = np.ndarray[Any, Any]
BOTH = pytest.mark.parametrize("m", [ms.PYNATIVE_MODE, ms.GRAPH_MODE], ids=["eager", "graph"])


def check(graph: Graph, arrays: list[Array], order: int) -> None:
    """Derivatives of the outputs' weighted sum along a random direction, and their derivatives."""
    rng = np.random.default_rng(11)
    wanted = [i for i, v in enumerate(graph.inputs) if v.dtype.is_float]
    seeded = [i for i, v in enumerate(graph.outputs) if v.dtype.is_float]
    back = gradient_graph(graph, wanted, seeded=seeded, sens=True)
    verify(back)
    seeds = [np.asarray(rng.standard_normal(graph.outputs[i].shape)) for i in seeded]
    moves = [np.asarray(rng.standard_normal(graph.inputs[i].shape)) for i in wanted]
    count = len(graph.outputs) + len(graph.updates)

    def total(step: float) -> float:
        at = list(arrays)
        for i, move in zip(wanted, moves, strict=True):
            at[i] = arrays[i] + step * move
        outs = run(graph, at, precise=True)
        return float(sum((s * outs[i]).sum() for s, i in zip(seeds, seeded, strict=True)))

    grads = run(back, [*arrays, *seeds], precise=True)[count:]
    assert len(grads) == len(wanted)
    got = float(sum((g * m).sum() for g, m in zip(grads, moves, strict=True)))
    want = (total(1e-6) - total(-1e-6)) / 2e-6
    scale = 1 + sum(float(np.abs(g * m).sum()) for g, m in zip(grads, moves, strict=True))
    assert abs(got - want) / scale < 2e-7 * 10 ** (3 - order), (order, got, want)
    if order > 1:
        for i, v in enumerate(back.inputs):
            v.name = f"x{i}"
        second = Graph(back.name, back.inputs, back.nodes, back.outputs[len(graph.outputs):])
        assert not back.updates
        check(second, [*arrays, *seeds], order - 1)


PROGRAMS: list[Callable[..., Any]] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A smooth program of float64 tensors x[3] and w[3,3]."""
    PROGRAMS.append(fn)
    return fn


@program
def cond(x: Any, w: Any) -> Any:
    if x.sum() > 0:
        y = ops.sin(x) * w[0]
    else:
        y = ops.exp(x) + w[1]
    return y * x


@program
def cond_that_captures_one_side(x: Any, w: Any) -> Any:
    y = ops.tanh(ops.matmul(w, x))
    if x[0] > 5:
        y = y * w.sum()
    return y


@program
def nested_cond(x: Any, w: Any) -> Any:
    if x.sum() > 0:
        if w.sum() > 0:
            return x * x * w[0]
        return ops.sin(x * w[1])
    if w[0, 0] > 0:
        return ops.exp(x) * w[2]
    return x + w[0]


@program
def while_loop(x: Any, w: Any) -> Any:
    n = Tensor(0, ms.int64)
    while n < 4:
        x = ops.tanh(ops.matmul(w, x)) + x * 0.5
        n = n + 1
    return x


@program
def while_on_values(x: Any, w: Any) -> Any:
    while ops.abs(x).sum() < 20.0:
        x = x * 1.5 + ops.sin(x) * w[0]
    return x


@program
def while_that_may_not_run(x: Any, w: Any) -> Any:
    y = x * w[0]
    while y.sum() > 100.0:
        y = y * 0.5
    return y * y


@program
def scan_over_rows(x: Any, w: Any) -> Any:
    h = x
    for row in w:
        h = ops.tanh(h * 0.5 + row * x)
    return h


@program
def cond_in_scan(x: Any, w: Any) -> Any:
    h = x * 1.0
    for row in w:
        if (h * row).sum() > 0:
            h = h * row
        else:
            h = ops.sin(h) + row
    return h


@program
def while_in_scan(x: Any, w: Any) -> Any:
    total = x * 0.0
    for row in w:
        n = Tensor(0, ms.int64)
        h = row * x
        while n < 3:
            h = ops.sin(h) + h * h * 0.1
            n = n + 1
        total = total + h
    return total


@program
def scan_in_while(x: Any, w: Any) -> Any:
    n = Tensor(0, ms.int64)
    while n < 2:
        for row in w:
            x = ops.tanh(x + row) * 1.5
        n = n + 1
    return x


@program
def loop_in_cond(x: Any, w: Any) -> Any:
    if w.sum() < 100:
        n = Tensor(0, ms.int64)
        while n < 3:
            x = x * w[0] + ops.cos(x)
            n = n + 1
    return x


@program
def collected_rows(x: Any, w: Any) -> Any:
    rows = []
    h = x
    for i in range(3):
        h = ops.tanh(h * w[i])
        rows.append(h * h)
    return ops.stack(rows)


@program
def break_out(x: Any, w: Any) -> Any:
    h = x
    for _ in range(6):
        if ops.abs(h).sum() > 6:
            break
        h = h * 1.5 + w[0] * 0.1
    return h


@program
def early_return_from_loop(x: Any, w: Any) -> Any:
    for row in w:
        x = x * row + x
        if x.sum() > 3:
            return ops.exp(-x * x)
    return x * 2


X = np.array([0.7, -0.4, 1.1])
W = np.array([[0.5, 0.3, -0.2], [0.9, -0.7, 0.4], [0.2, 0.6, 0.8]])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_finite_differences(fn: Callable[..., Any], sign: int) -> None:
    arrays = [sign * X, W if sign > 0 else W[::-1].copy()]
    graph = trace(fn, tuple(Tensor(a) for a in arrays), {}).graph
    verify(graph)
    check(graph, arrays, order=2)


def test_the_check_can_fail() -> None:
    """A value that does not depend on the input as the gradient says."""
    graph = trace(lambda x: ops.stop_gradient(x) * x, (Tensor(X),), {}).graph
    with pytest.raises(AssertionError, match=r"assert \("):
        check(graph, [X], order=1)


# --- known derivatives in both modes -------------------------------------------------------------


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got.asnumpy()), want, rtol=1e-10, atol=1e-12)


@BOTH
def test_higher_orders(m: int) -> None:
    def f(x: Any) -> Any:
        return (ops.sin(x) * x).sum()

    def g(x: Any) -> Any:
        return ms.grad(f)(x).sum()

    def h(x: Any) -> Any:
        return ms.grad(g)(x).sum()

    with mode(m):
        x = Tensor(X)
        s, c = np.sin(X), np.cos(X)
        close(ms.grad(f)(x), c * X + s)
        close(ms.grad(g)(x), -s * X + 2 * c)
        close(ms.grad(h)(x), -c * X - 3 * s)


@BOTH
def test_gradient_inside_a_branch_and_a_loop(m: int) -> None:
    def cube(x: Any) -> Any:
        return (x ** 3).sum()

    def descend(x: Any) -> Any:
        for _ in range(3):
            x = x - 0.1 * ms.grad(cube)(x)
        if x.sum() > 0:
            return ms.grad(cube)(x)
        return x

    want = X.copy()
    for _ in range(3):
        want = want - 0.3 * want**2
    assert want.sum() > 0
    with mode(m):
        fn = ms.jit(descend) if m == ms.GRAPH_MODE else descend
        close(fn(Tensor(X)), 3 * want**2)


@BOTH
def test_gradient_of_a_gradient_step(m: int) -> None:
    """Through an inner step, as in meta-learning; the inner gradient captures the outer's input."""
    def outer(x: Any, t: Any) -> Any:
        def inner(y: Any) -> Any:
            return (y * y * t).sum()

        return (x - 0.1 * ms.grad(inner)(x)).sum()

    with mode(m):
        gx, gt = ms.grad(outer, (0, 1))(Tensor(X), Tensor(W[0]))
        close(gx, 1 - 0.2 * W[0])
        close(gt, -0.2 * X)


@BOTH
def test_several_positions_weights_and_aux(m: int) -> None:
    w = Parameter(Tensor(W[0]), name="w")

    def f(x: Any, y: Any) -> Any:
        return (x * y * w).sum(), y.sum(), x * 2

    with mode(m):
        (value, aux, twice), ((gx, gy), (gw,)) = ms.value_and_grad(
            f, (0, 1), [w], has_aux=True)(Tensor(X), Tensor(W[1]))
        close(value, (X * W[1] * W[0]).sum())
        close(aux, W[1].sum())
        close(twice, 2 * X)
        close(gx, W[1] * W[0])
        close(gy, X * W[0])
        close(gw, X * W[1])


@BOTH
def test_stop_gradient(m: int) -> None:
    def f(x: Any) -> Any:
        return (ops.stop_gradient(ops.exp(x)) * x).sum()

    with mode(m):
        close(ms.grad(f)(Tensor(X)), np.exp(X))


@BOTH
def test_an_unused_input_has_a_gradient_of_zeros(m: int) -> None:
    def f(x: Any, y: Any) -> Any:
        return x.sum()

    with mode(m):
        gx, gy = ms.grad(f, (0, 1))(Tensor(X), Tensor(W))
        close(gx, np.ones(3))
        close(gy, np.zeros((3, 3)))


@BOTH
def test_one_tensor_given_twice(m: int) -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * x * y).sum()

    with mode(m):
        x = Tensor(X)
        gx, gy = ms.grad(f, (0, 1))(x, x)
        close(gx, 2 * X * X)
        close(gy, X * X)


@BOTH
def test_duplicates_in_a_gather_add_up(m: int) -> None:
    index = Tensor([0, 2, 0, 0], ms.int32)

    def f(x: Any) -> Any:
        return (ops.gather(x, index, 0) * Tensor(np.array([1.0, 2.0, 3.0, 4.0]))).sum()

    with mode(m):
        close(ms.grad(f)(Tensor(X)), [8.0, 0.0, 2.0])


@BOTH
def test_truth_has_no_gradient(m: int) -> None:
    def f(x: Any) -> Any:
        return x > 1

    with mode(m), pytest.raises(TypeError, match="an output of numbers"):
        ms.grad(f)(Tensor([1, 2], ms.int32))


# --- a gradient of one's own ---------------------------------------------------------------------


class Clipped(Cell):
    """x * y, whose gradient is what `bprop` says."""

    def construct(self, x: Any, y: Any) -> Any:
        return x * y

    def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
        return ops.clamp(dout * y, -0.5, 0.5), dout * out


class Around(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Clipped()

    def construct(self, x: Any, y: Any) -> Any:
        return (self.inner(ops.sin(x), y) * 2.0).sum()


@BOTH
def test_own_bprop_inside_a_network(m: int) -> None:
    with mode(m):
        gx, gy = ms.grad(Around(), (0, 1))(Tensor(X), Tensor(W[1]))
        close(gx, np.clip(2 * W[1], -0.5, 0.5) * np.cos(X))
        close(gy, 2 * np.sin(X) * W[1])


@BOTH
def test_own_bprop_at_the_top(m: int) -> None:
    with mode(m):
        gx, gy = ms.grad(Clipped(), (0, 1))(Tensor(X), Tensor(W[1]))
        close(gx, np.clip(W[1], -0.5, 0.5))
        close(gy, X * W[1])


@BOTH
def test_own_bprop_in_a_branch(m: int) -> None:
    cell = Clipped()

    def f(x: Any, y: Any) -> Any:
        if x.sum() > 0:
            return cell(x, y).sum()
        return (x + y).sum()

    with mode(m):
        close(ms.grad(f)(Tensor(X), Tensor(W[1])), np.clip(W[1], -0.5, 0.5))
        close(ms.grad(f)(Tensor(-X), Tensor(W[1])), np.ones(3))


@BOTH
def test_second_derivative_through_own_bprop(m: int) -> None:
    """The gradient is what bprop computes, so its derivative is that of bprop."""
    class Cube(Cell):
        def construct(self, x: Any) -> Any:
            return x * x * x

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            return (dout * x * x * 3.0,)

    cube = Cube()

    def first(x: Any) -> Any:
        return ms.grad(cube)(x).sum()

    with mode(m):
        close(ms.grad(first)(Tensor(X)), 6 * X)


@BOTH
def test_a_bprop_with_too_few_gradients(m: int) -> None:
    class Wrong(Cell):
        def construct(self, x: Any, y: Any) -> Any:
            return x * y

        def bprop(self, x: Any, y: Any, out: Any, dout: Any) -> Any:
            return (dout,)

    with mode(m), pytest.raises(TypeError, match="must give 2 gradients"):
        ms.grad(Wrong())(Tensor(X), Tensor(X))


@BOTH
def test_the_gradient_follows_an_attribute_and_a_global(m: int) -> None:
    """What the differentiated network reads at compile time is watched as in a plain call."""
    class Switch(Cell):
        def __init__(self) -> None:
            super().__init__()
            self.double = False

        def construct(self, x: Any) -> Any:
            y = x * 2.0 if self.double else x * 1.0
            return (y * 10.0 if self.training else y).sum()

    with mode(m):
        net = Switch()
        gradient = ms.grad(net)
        close(gradient(Tensor(X)), np.ones(3))
        net.double = True
        close(gradient(Tensor(X)), 2 * np.ones(3))
        net.set_train()
        close(gradient(Tensor(X)), 20 * np.ones(3))
