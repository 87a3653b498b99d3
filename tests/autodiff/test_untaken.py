"""Branches that did not run give nothing: the bits of an eager run, which does not know of them.

Their cotangents would be 0 * w: -0.0, or NaN where w is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.compiled.traced import trace

from ..modes.law import MODES, mode

PROGRAMS: list[Callable[..., Any]] = []


def program(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(fn)
    return fn


@program
def read_in_one_branch(x: Any, w: Any, v: Any) -> Any:
    if x.sum() > 0:
        y = x * 2.0
    else:
        y = ops.sin(x) * w
    return y.sum()


@program
def computed_before(x: Any, w: Any, v: Any) -> Any:
    h = ops.sin(v) * w
    if x.sum() > 0:
        y = x * 2.0
    else:
        y = h * w
    return y.sum()


@program
def nested(x: Any, w: Any, v: Any) -> Any:
    h, k = ops.exp(v), x * 1.0
    if x.sum() > 0:
        if x.sum() > 100:
            k = h * w
    else:
        k = -h
    return (k * x).sum()


@program
def one_of_two_results(x: Any, w: Any, v: Any) -> Any:
    a, b = ops.split(ops.cat((v * w, v)), 2)
    if x.sum() > 0:
        y = a
    else:
        y = b * w
    return (y * x).sum()


@program
def two_in_a_row(x: Any, w: Any, v: Any) -> Any:
    h = ops.matmul(v.reshape(1, 2), w.reshape(2, 1)).reshape(-1)
    if x.sum() > 0:
        y = x * x
    else:
        y = x * h
    if x.sum() < 0:
        y = y * h
    return (y * -0.0).sum()


@program
def a_loop_in_a_branch(x: Any, w: Any, v: Any) -> Any:
    h = ops.sin(v) * w
    if x.sum() > 0:
        y = x * 2.0
    else:
        while x.sum() < -100:
            x = x * h
        y = x * 0.3
    return y.sum()


@program
def a_branch_in_a_loop(x: Any, w: Any, v: Any) -> Any:
    """The first trip does not read v, later ones do."""
    n = Tensor(0)
    while n < 3:
        if n > 0:
            x = x * v
        else:
            x = x * 0.5
        n = n + 1
    return x.sum()


@program
def results_read_in_two_branches(x: Any, w: Any, v: Any) -> Any:
    if v.sum() > 0:
        a, c = x * 2.0, ops.sin(v) * w
    else:
        a, c = ops.sin(x) * w, v * w
    if x.sum() > 0:
        y = c * x
    else:
        y = a
    return y.sum()


@program
def not_read_after_a_loop(x: Any, w: Any, v: Any) -> Any:
    """The last v is read by nothing."""
    n = Tensor(0)
    while n < 3:
        x = x + v
        v = ops.sin(v) * w
        n = n + 1
    return x.sum()


@program
def read_in_the_first_trip_only(x: Any, w: Any, v: Any) -> Any:
    n = Tensor(0)
    while n < 3:
        if n < 1:
            x = x * v
        v = ops.sin(v) * w
        n = n + 1
    return x.sum()


@program
def overwritten_in_a_loop(x: Any, w: Any, v: Any) -> Any:
    n, y = Tensor(0), x
    while n < 3:
        if n < 2:
            y = ops.sin(y) * w
        else:
            y = v * 1.5
        n = n + 1
    return (y * x).sum()


@program
def captured_in_some_trips(x: Any, w: Any, v: Any) -> Any:
    """w is read by trips that give nothing to what is asked for."""
    n, y = Tensor(0), x
    while n < 4:
        y = y * w if n < 2 else v * x
        n = n + 1
    return y.sum()


@program
def a_loop_that_does_not_run(x: Any, w: Any, v: Any) -> Any:
    h = ops.sin(v) * w
    while x.sum() > 1000:
        x = x * h
    return x.sum()


@program
def read_after_the_loop_in_a_branch(x: Any, w: Any, v: Any) -> Any:
    h, n = ops.sin(v) * w, Tensor(0)
    while n < 3:
        x = x * 0.5
        h = ops.cos(h) * w
        n = n + 1
    if x.sum() > 0:
        y = x
    else:
        y = h + x
    return y.sum()


@program
def loops_in_a_loop(x: Any, w: Any, v: Any) -> Any:
    n = Tensor(0)
    while n < 3:
        k = n
        while k < 2:
            x = x + v
            v = ops.sin(v) * w
            k = k + 1
        n = n + 1
    return x.sum()


def _step(v: Any, w: Any) -> Any:
    """Many nodes, so that a loop of these is rolled."""
    for _ in range(6):
        v = ops.sin(v) * 0.5 + v
    return v * w


@program
def not_read_after_a_rolled_loop(x: Any, w: Any, v: Any) -> Any:
    for _ in range(40):
        x = x + v
        v = _step(v, w)
    return x.sum()


@program
def read_in_some_trips_of_a_rolled_loop(x: Any, w: Any, v: Any) -> Any:
    n = Tensor(0)
    for _ in range(40):
        if n < 3:
            x = x + v
        v = _step(v, w)
        n = n + 1
    return x.sum()


class Marked(nn.Cell):
    def construct(self, x: Any, w: Any, v: Any) -> Any:
        h = ops.tanh(v) * w
        if x.sum() > 0:
            y = x * x
        else:
            y = h + w
        return y.sum()


MARKED = Marked()
MARKED.recompute()


@program
def recomputed(x: Any, w: Any, v: Any) -> Any:
    return MARKED(x, w, v) + (x * 0.5).sum()


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda f: f.__name__)
def test_bits(fn: Callable[..., Any]) -> None:
    x, w, v = (np.array(a, np.float32) for a in ([1, 2], [3, np.inf], [-1, 5]))
    grad = ms.grad(fn, (0, 1, 2))
    found = []
    for m in MODES:
        with mode(m):
            found.append([t.asnumpy() for sign in (1, -1)
                          for t in grad(Tensor(x * np.float32(sign)), Tensor(w), Tensor(v))])
    for i, (a, b) in enumerate(zip(*found, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=str(i))
        known = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a)[known], np.signbit(b)[known], err_msg=str(i))


def test_second_order() -> None:
    def fn(x: Any, w: Any) -> Any:
        h = ops.sin(w) * x
        if x.sum() > 0:
            y = h * h
        else:
            y = x * x * x
        return y.sum()

    def slope(x: Any, w: Any) -> Any:
        return ms.grad(fn, (0, 1))(x, w)[0].sum()

    second, found = ms.grad(slope, (0, 1)), []
    for m in MODES:
        with mode(m):
            found.append([t.asnumpy() for x in ([1.0, 2.0], [-1.0, -2.0])
                          for t in second(Tensor(x), Tensor([0.5, -0.7]))])
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_rolled_loop_is_one() -> None:
    """So that the programs above say something of rolled loops."""
    for fn in (not_read_after_a_rolled_loop, read_in_some_trips_of_a_rolled_loop):
        graph = trace(fn, tuple(Tensor([1.0, 2.0]) for _ in range(3)), {}).graph
        assert "scan" in [n.op for n in graph.nodes]


def test_nothing_is_zeros() -> None:
    x, w, v = Tensor([1.0, 2.0]), Tensor([3.0, np.inf]), Tensor([-1.0, 5.0])
    for m in MODES:
        with mode(m):
            _, dw, dv = (t.asnumpy() for t in ms.grad(computed_before, (0, 1, 2))(x, w, v))
        assert not dw.any() and not dv.any()
        assert not np.signbit(dw).any() and not np.signbit(dv).any()
