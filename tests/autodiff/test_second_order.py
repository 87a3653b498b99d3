"""Second derivatives through every way to write a gradient, and everything it passes through.

Each function gives a number of a vector. Each way gives its Hessian times a vector; all must agree
with central differences of the first derivative, and with one another between the modes, bit for
bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

Array = np.ndarray[Any, Any]
Fn = Callable[[Tensor], Tensor]

X = np.array([0.7, -0.4, 1.3])
V = np.array([0.5, 2.0, -1.0])


class Own(nn.Cell):
    """sin(x) * x with a gradient of its own."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.sin(x) * x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout * (ops.cos(x) * x + ops.sin(x)),)


class Cube(ms._Function):
    """x ** 3 with a gradient of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * dy


class Body(nn.Cell):
    """exp(sin(x)) * x."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.exp(ops.sin(x)) * x


def _twice(t: Tensor) -> Tensor:
    return t * 1.0


OWN, BODY, MARKED, HOOKED, HOOKED_BACK = Own(), Body(), Body(), Body(), Body()
MARKED.recompute()
HOOKED.register_forward_hook(lambda cell, args, out: out * 2)
HOOKED_BACK.register_backward_hook(lambda cell, dx, dy: (dx[0] * 3,))


def plain(x: Tensor) -> Tensor:
    return (ops.exp(x) * ops.tanh(x)).sum() * x[1]


def branch(x: Tensor) -> Tensor:
    y = x * x
    if x.sum() > 0:
        y = y * ops.sin(x)
    else:
        y = y - x
    return y.sum()


def static_loop(x: Tensor) -> Tensor:
    y = x
    for _ in range(4):
        y = ops.sin(y) * x
    return y.sum()


def dynamic_loop(x: Tensor) -> Tensor:
    y, n = x, 0 * x.sum()
    while n < 3:
        y = ops.sin(y) * x
        n = n + 1
    return y.sum()


def early_return(x: Tensor) -> Tensor:
    if x[0] > 0:
        return (x * x * x).sum()
    return x.sum()


def own_bprop(x: Tensor) -> Tensor:
    return (OWN(x) * x).sum()


def function_class(x: Tensor) -> Tensor:
    return (Cube.apply(x) * ops.sin(x)).sum()


def recomputed(x: Tensor) -> Tensor:
    return (MARKED(x) * x).sum()


def forward_hook(x: Tensor) -> Tensor:
    return (HOOKED(x) * x).sum()


def kept_hooks(x: Tensor) -> Tensor:
    with ms.saved_tensors_hooks(_twice, _twice):
        return (ops.exp(ops.sin(x)) * x).sum()


def batched(x: Tensor) -> Tensor:
    return (ms.vmap(lambda e: ops.sin(e) * e * e)(x) * x).sum()


def inner_gradient(x: Tensor) -> Tensor:
    return (ms.grad(lambda t: (ops.sin(t) * t).sum())(x) * x).sum()


def inner_step(x: Tensor) -> Tensor:
    y = x - 0.1 * ms.grad(lambda t: (t * t * ops.sin(t)).sum())(x)
    return (y * y * x).sum()


def gathered(x: Tensor) -> Tensor:
    y = x[Tensor([0, 0, 2, 1])] * 1.0  # a gather alone would write through to x
    y[1] = y[2] * y[0]
    return (y * y).sum() * x[2]


def products(x: Tensor) -> Tensor:
    m = ops.matmul(x.reshape(3, 1), x.reshape(1, 3))
    return ops.softmax(ops.matmul(m, m) + m, axis=-1)[0, 2] + ops.cumsum(x * x, 0)[1] * x[0]


FUNCTIONS: dict[str, Fn] = {
    f.__name__: f for f in (
        plain, branch, static_loop, dynamic_loop, early_return, own_bprop, function_class,
        recomputed, forward_hook, kept_hooks, batched, inner_gradient, inner_step, gathered,
        products)
}


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum()


WAYS: dict[str, Callable[[Fn], Callable[[Tensor, Tensor], Tensor]]] = {
    "grad of grad": lambda f: lambda x, v: ms.grad(lambda t: _dot(ms.grad(f)(t), v))(x),
    "grad of value_and_grad": lambda f: lambda x, v: ms.grad(
        lambda t: _dot(ms.value_and_grad(f)(t)[1], v))(x),
    "value_and_grad of GradOperation": lambda f: lambda x, v: ms.value_and_grad(
        lambda t: _dot(ops.GradOperation()(f)(t), v))(x)[1],
    "jvp of grad": lambda f: lambda x, v: ms.jvp(ms.grad(f), x, v)[1],
    "vjp of grad": lambda f: lambda x, v: ms.vjp(ms.grad(f), x)[1](v)[0],
    "grad of jvp": lambda f: lambda x, v: ms.grad(lambda t: ms.jvp(f, t, v)[1])(x),
    "grad of vjp": lambda f: lambda x, v: ms.grad(
        lambda t: _dot(ms.vjp(f, t)[1](ops.ones((), ms.float64))[0], v))(x),
    "jacrev of grad": lambda f: lambda x, v: ops.matmul(ms.jacrev(ms.grad(f))(x), v),
    "jacfwd of grad": lambda f: lambda x, v: ops.matmul(ms.jacfwd(ms.grad(f))(x), v),
    "grad of jacrev": lambda f: lambda x, v: ms.grad(lambda t: _dot(ms.jacrev(f)(t), v))(x),
    "vmap of grad": lambda f: lambda x, v: ms.vmap(
        lambda e: ms.grad(lambda t: _dot(ms.grad(f)(t), v))(e))(ops.stack([x, x]))[1],
}


def _expected(f: Fn) -> Array:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    h = 1e-5

    def first(x: Array) -> Array:
        out: Array = ms.grad(f)(Tensor(x)).asnumpy()
        return out

    return (first(X + h * V) - first(X - h * V)) / (2 * h)


HOOKED_IN_GRAPHS = "gradient of the forward hook of Body"
DEAR = {"grad of grad", "vjp of grad", "vmap of grad"}
"""The ways for a run-time loop, whose second derivative takes seconds to compile; those that
differentiate three times need more memory than there is."""
ROUNDED = {("recomputed", "grad of jvp")}
"""Where a third walk adds in another order in a graph than eagerly (as for run-time loops)."""
WANT: dict[str, Array] = {}


@pytest.mark.parametrize(("name", "way"), [
    (name, way) for name in FUNCTIONS for way in WAYS if name != "dynamic_loop" or way in DEAR])
def test_second_derivative(name: str, way: str) -> None:
    f = FUNCTIONS[name]
    if name not in WANT:
        WANT[name] = _expected(f)
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        message = refused(name, way, mode)
        if message is not None:
            with pytest.raises(Exception, match=message):
                WAYS[way](f)(Tensor(X), Tensor(V))
            continue
        found.append(np.asarray(WAYS[way](f)(Tensor(X), Tensor(V)).asnumpy()))
    for got in found:
        np.testing.assert_allclose(got, WANT[name], rtol=2e-6, atol=1e-6)
    for got in found[1:]:  # a zero of a path not taken may have either sign
        if (name, way) in ROUNDED or name == "dynamic_loop":
            np.testing.assert_allclose(found[0], got, rtol=1e-14)
        else:
            assert np.array_equal(found[0], got), found[0] - got


def refused(name: str, way: str, mode: int) -> str | None:
    """What the error says where a second derivative cannot be had."""
    if name == "forward_hook" and (mode == ms.GRAPH_MODE or way == "vmap of grad"):
        return HOOKED_IN_GRAPHS
    if name == "dynamic_loop" and way == "vmap of grad":
        return "the number of trips of a loop differs from example to example"
    return None


def choose(a: Tensor, b: Tensor) -> Tensor:
    y = a * b * b if (a * b).sum() > 0 else a
    return (y * a).sum()


def walk(a: Tensor, b: Tensor) -> Tensor:
    y, n = a, ops.zeros((), ms.int32)
    while n < 3:
        y = y * b * ops.sin(a)
        n = n + 1
    return y.sum()


def roll(a: Tensor, b: Tensor) -> Tensor:
    y = a
    for _ in range(20):
        y = ops.sin(y) * b + a * 0.1
    return y.sum()


@pytest.mark.parametrize("fn", [choose, walk, roll])
def test_one_value_at_two_places(fn: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Both arguments of an inner gradient are one tensor: its cotangent is the sum of both."""

    def inner(x: Tensor) -> Tensor:
        da, db = ms.grad(fn, (0, 1))(x, x)
        return (da * db).sum() + fn(x, x)

    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        found.append(ms.grad(inner)(Tensor(X)).asnumpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-13)
