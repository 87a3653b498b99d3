"""Joins whose parts are computed in place: where, where not, and that no bit changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops
from cellc.compiled.traced import trace
from cellc_compiler.driver import lower, optimize
from cellc_compiler.ir.verify import verify
from cellc_compiler.lower.instructions import Call, Copy, walk
from cellc_runtime.target import AVX512

from ..modes.law import MODES, mode

SIDE = 64


class Work(nn.Cell):
    """Products and joins of them; `body` says which."""

    def __init__(self, body: Callable[..., Any]):
        super().__init__()
        self.a, self.b, self.c = (nn.Dense(SIDE, SIDE) for _ in range(3))
        self.rows = nn.Dense(SIDE, SIDE)
        self.body = body

    def construct(self, x):
        return self.body(self, x)


def plain(net, x):
    return net.rows(ops.cat((net.a(x), net.b(x), ops.relu(net.c(x)))))


def dense(net, x):
    """Each join is a part of the next, and read by itself, too."""
    two = ops.cat((net.a(x), net.b(x)))
    three = ops.cat((two, net.c(x)))
    return net.rows(three), net.b(two)


def elementwise_parts(net, x):
    return net.rows(ops.cat((ops.tanh(net.a(x)) + x, ops.exp(net.b(x) * 0.1))))


def read_before_and_after(net, x):
    """A part that others read, before the join exists and behind it."""
    a = net.a(x)
    b = net.b(a)
    out = net.rows(ops.cat((a, b)))
    return out, net.c(a) + a, ops.relu(b)


def many_parts(net, x):
    return net.rows(ops.cat((net.a(x), net.b(x), net.c(x), net.a(x + 1), net.b(x + 1),
                             net.c(x + 1))))


def given(net, x):
    """An argument cannot be computed in place."""
    return net.rows(ops.cat((x, net.a(x))))


def twice(net, x):
    a = net.a(x)
    return net.rows(ops.cat((a, a)))


def shared(net, x):
    """A part of two joins is in place in one of them."""
    a, b, c = net.a(x), net.b(x), net.c(x)
    return net.rows(ops.cat((a, b))), net.rows(ops.cat((a, c)))


def returned(net, x):
    a = net.a(x)
    joined = ops.cat((a, net.b(x)))
    return net.rows(joined), joined, a


def columns(net, x):
    """Parts that alternate in memory."""
    return ops.matmul(ops.cat((net.a(x), net.b(x)), 1), ops.cat((net.c(x), net.c(x)), 0))


def renamed(net, x):
    """Parts that are other names of results."""
    a = net.a(x).reshape((2 * SIDE, SIDE // 2)).reshape((SIDE, SIDE))
    return net.rows(ops.cat((a, net.b(x))))


def odd(net, x):
    """A part that is no whole number of cache lines."""
    return net.rows(ops.cat((net.a(x[:5]), net.b(x)))), ops.matmul(
        ops.cat((ops.tanh(x[0, :5]), ops.tanh(x[1, :59]))), x)


def mostly(net, x):
    """Nine parts in place; one more time the first, and a few numbers that are none of its own."""
    a = net.a(x)
    parts = [a.reshape(-1), *(net.b(x + i).reshape(-1) for i in range(8))]
    few = [ops.tanh(x[0, :5]), a[:8].reshape(-1)]
    return ops.sort(ops.cat((*parts, *few, ops.tanh(x[1, :59]))))[0]


IN_PLACE = (plain, dense, elementwise_parts, read_before_and_after, many_parts, shared, renamed)
COPIED = (given, twice, returned, columns, odd, mostly)


def work(body: Callable[..., Any]) -> tuple[nn.Cell, ms.Tensor]:
    ms.set_seed(3)
    x = np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype(np.float32)
    return Work(body), ms.Tensor(x)


def copies(body: Callable[..., Any]) -> int:
    """The calls and copies of joins."""
    net, x = work(body)
    graph = optimize(trace(net, (x,), {}).graph, target=AVX512)
    verify(graph)
    low = lower(graph, AVX512)
    return sum(isinstance(i, Copy) or (isinstance(i, Call) and "join" in i.label)
               for i in walk(low.instructions))


@pytest.mark.parametrize("body", IN_PLACE, ids=lambda f: f.__name__)
def test_parts_are_computed_where_they_belong(body: Callable[..., Any]) -> None:
    assert copies(body) == (1 if body is shared else 0)


@pytest.mark.parametrize("body", [given, twice, columns], ids=lambda f: f.__name__)
def test_other_parts_are_copied(body: Callable[..., Any]) -> None:
    assert copies(body) >= 1


def test_what_is_left_is_copied_alone() -> None:
    """A few small parts, behind those that are in place."""
    net, x = work(mostly)
    low = lower(optimize(trace(net, (x,), {}).graph, target=AVX512), AVX512)
    copied = [i.nbytes for i in walk(low.instructions) if isinstance(i, Copy)]
    assert sorted(copied) == [4 * 5, 4 * 59, 4 * 8 * SIDE]


@pytest.mark.parametrize("body", (*IN_PLACE, *COPIED), ids=lambda f: f.__name__)
def test_bits_stay(body: Callable[..., Any]) -> None:
    net, x = work(body)
    got = []
    for m in MODES:
        with mode(m):
            out = net(x)
            got.append([t.asnumpy() for t in (out if isinstance(out, tuple) else (out,))])
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))


@pytest.mark.parametrize("body", [dense, read_before_and_after], ids=lambda f: f.__name__)
def test_gradients_keep_their_bits(body: Callable[..., Any]) -> None:
    net, x = work(body)

    def loss(x):
        return sum(ops.tanh(t).sum() for t in net(x))

    got = []
    for m in MODES:
        with mode(m):
            step = ms.value_and_grad(loss, 0, net.trainable_params())
            value, (dx, dw) = (ms.jit(step) if m == ms.GRAPH_MODE else step)(x)
            got.append([value.asnumpy(), dx.asnumpy(), *(d.asnumpy() for d in dw)])
    for a, b in zip(*got, strict=True):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
