"""Assignment into tensors: through parts, containers, Parameters, branches and loops."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

from .flow import FLOW

Array = np.ndarray[Any, Any]


def start() -> Array:
    return np.arange(12, dtype=np.float32).reshape(3, 4)


def chained(x: Any, i: Any) -> Any:
    x[0][1] = 5.0
    x[1][1:][0] = 7.0
    x[2, 1:][0] += 3.0
    return x


def part_is_written(x: Any, i: Any) -> Any:
    y = x[0]
    y[1] = 5.0
    return x + 0, y + 0


def part_of_part(x: Any, i: Any) -> Any:
    y = x[1:]
    z = y[0]
    z[1:3] = -1.0
    return x + 0, y + 0, z + 0


def other_name(x: Any, i: Any) -> Any:
    y = x
    y[0] = 7.0
    return x + 0, y + 0


def plain_operator_makes_another(x: Any, i: Any) -> Any:
    y = x[0]
    y = y + 1.0
    y[1] = 5.0
    return x + 0, y + 0


def helper(t: Any) -> None:
    t[0] = 1.0


def through_a_call(x: Any, i: Any) -> Any:
    helper(x)
    helper(x[1])
    return x


def in_containers(x: Any, i: Any) -> Any:
    d = {"k": [x * 1.0, (x * 2.0,)]}
    d["k"][0][1:] = 5.0
    d["k"][1][0][0, 1] = 6.0
    return d["k"][0], d["k"][1][0]


def rows(x: Any, i: Any) -> Any:
    for r in x:
        r[0] = 9.0
    return x


def under_a_condition(x: Any, i: Any) -> Any:
    if x.sum() > 0:
        x[0] = 1.0
        x[1][2] = 2.0
    else:
        x[0, 0] = -1.0
    return x


def at_the_loop_index(x: Any, i: Any) -> Any:
    for k in range(3):
        x[k] = x[k] * k
        x[k, k] += 100.0
    return x


def in_a_while(x: Any, i: Any) -> Any:
    n = i * 0
    while n < 3:
        x[n] = x[n] + n
        x[n, 1:3] *= 2.0
        n = n + 1
    return x


def window_in_a_while(x: Any, i: Any) -> Any:
    n = i * 0
    while n < 2:
        x[n : n + 2, 1] = x[n : n + 2, 0] * 10.0
        x[2, n + 1 : n : -1] -= 1.0
        n = n + 1
    return x


def masks(x: Any, i: Any) -> Any:
    x[x > 6] -= 9
    x[x < 2] = x.max()
    x[:, x[0] > 2] *= 2.0
    x[x[:, 0] > 4, 1] = 0.5
    return x


def mask_with_as_many_values(x: Any, i: Any) -> Any:
    x[x > 6.5] = x[0, 0] + ops.arange(5).astype(ms.float32)
    x[:, i == i] *= 2
    return x


def positions(x: Any, i: Any) -> Any:
    x[i % 3] = 0.0
    x[[0, 1], [2, 3]] += 10.0
    x[i, [0, 1, 2, 3]] = x[0] * 2
    return x


def duplicates(x: Any, i: Any) -> Any:
    x[[0, 0, 1, 0]] = x[[1, 2, 0, 1]] + 0.5
    x[0, [1, 1]] += 1.0
    return x


def swap(x: Any, i: Any) -> Any:
    x[0], x[1] = x[1], x[0]
    x[[1, 2]] = x[[2, 1]]
    return x


def copies(x: Any, i: Any) -> Any:
    y = x.copy()
    y[0] = 1.0
    z = x + 0
    z[1] = 2.0
    return x, y, z


NUMPYS: list[Callable[..., Any]] = [
    chained, part_is_written, part_of_part, other_name, plain_operator_makes_another,
    through_a_call, rows, under_a_condition, at_the_loop_index, in_a_while, window_in_a_while,
    swap,
]
"""Programs that mean the same on arrays."""

OTHERS: list[Callable[..., Any]] = [
    in_containers, masks, mask_with_as_many_values, positions, duplicates, copies,
]


def results(fn: Callable[..., Any], compiled: bool) -> list[Array]:
    f = ms.jit(fn) if compiled else fn
    out = f(ms.Tensor(start()), ms.Tensor(1))
    return [t.asnumpy() for t in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("fn", NUMPYS + OTHERS + FLOW, ids=lambda f: f.__name__)
def test_both_modes(fn: Callable[..., Any]) -> None:
    for a, b in zip(results(fn, False), results(fn, True), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("fn", NUMPYS, ids=lambda f: f.__name__)
def test_numpy(fn: Callable[..., Any]) -> None:
    want = fn(start(), np.array(1))
    for a, b in zip(results(fn, True), want if isinstance(want, tuple) else (want,), strict=True):
        assert np.array_equal(a, b)


def test_duplicates_keep_the_last() -> None:
    x = start()
    x[0] = start()[1] + 0.5  # the last of three writes of row 0
    x[1] = start()[0] + 0.5
    x[0, 1] += 1.0
    assert np.array_equal(results(duplicates, True)[0], x)


@pytest.mark.parametrize("fn", [f for f in NUMPYS + OTHERS if f not in (copies,)],
                         ids=lambda f: f.__name__)
def test_gradients(fn: Callable[..., Any]) -> None:
    """Both modes give the same bits, and what differences of values give."""
    weights = ms.Tensor(np.random.default_rng(0).standard_normal((3, 4)))

    def loss(x: Any, i: Any) -> Any:
        out = fn(x * 1.0, i)
        first = out[0] if isinstance(out, tuple) else out
        return (first * first * weights).sum()

    point, i = start().astype(np.float64) + 0.25, ms.Tensor(1)
    a, b = (f(ms.Tensor(point), i).asnumpy() for f in (ms.grad(loss), ms.jit(ms.grad(loss))))
    assert np.array_equal(a, b)
    want, value = np.zeros((3, 4)), ms.jit(loss)
    for at in np.ndindex(3, 4):
        ends = []
        for step in (1e-3, -1e-3):
            moved = point.copy()
            moved[at] += step
            ends.append(float(value(ms.Tensor(moved), i)))
        want[at] = (ends[0] - ends[1]) / 2e-3
    assert np.allclose(a, want, rtol=1e-6, atol=1e-5)


class State(nn.Cell):
    """Writes parts of Parameters, also under run-time conditions."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ms.Parameter(np.zeros((3, 4), np.float32), name="state")
        self.seen = ms.Parameter(np.zeros(3, np.int64), name="seen")

    def construct(self, x: Any, i: Any) -> Any:
        before = self.state[i] + 0
        self.state[i] = x
        self.state[0][1] = 7.0
        if x.sum() > 0:
            self.state[1, 2:] += 1.0
            self.seen[i] += 1
        else:
            self.state[:, 0] = -1.0
        n = i * 0
        while n < 2:
            self.state[n, n] = self.state[n, n] + 10.0
            n = n + 1
        self.state[self.state > 9] *= 2
        return before, self.state.sum()


def test_parameters_are_written_in_program_order() -> None:
    nets = State(), State()
    outs: list[list[Array]] = [[], []]
    for k, mode in enumerate((ms.PYNATIVE_MODE, ms.GRAPH_MODE)):
        ms.set_context(mode=mode)
        for step in range(3):
            x = ms.Tensor(np.full(4, 1.0 - step, np.float32))
            outs[k] += [t.asnumpy() for t in nets[k](x, ms.Tensor(step))]
    for a, b in zip(*outs, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(nets[0].state.asnumpy(), nets[1].state.asnumpy())
    assert nets[1].seen.asnumpy().tolist() == nets[0].seen.asnumpy().tolist() == [1, 0, 0]


def test_a_constant_becomes_a_value_of_the_graph() -> None:
    def f(x: Any) -> Any:
        table = ms.Tensor([[1.0, 2.0], [3.0, 4.0]])
        boxed = [ops.zeros((2, 2))]
        table[0][1] = x
        boxed[0][1][0] = x
        return table, boxed[0]

    for fn in (f, ms.jit(f)):
        a, b = fn(ms.Tensor(9.0))
        assert a.tolist() == [[1.0, 9.0], [3.0, 4.0]]
        assert b.tolist() == [[0.0, 0.0], [9.0, 0.0]]


def test_a_part_follows_its_tensor() -> None:
    def f(x: Any) -> Any:
        y = x[0]
        x[0] = 7.0
        y[1] = 5.0
        return x + 0, y

    for fn in (f, ms.jit(f)):
        x, y = fn(ms.Tensor(start()))
        assert y.tolist() == x[0].tolist() == [7.0, 5.0, 7.0, 7.0]


def test_parts_share_elements_when_their_tensor_has_no_name() -> None:
    x = ms.Tensor(start())
    y, z = x[0], x.T
    del x
    y[1] = 5.0
    assert y.tolist() == z[:, 0].tolist() == [0.0, 5.0, 2.0, 3.0]


def test_a_part_does_not_keep_what_it_was_copied_from() -> None:
    x = ms.Tensor(start())
    y, gone = x[[0, 1]], weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    y[0, 1] = 5.0
    assert y[0].tolist() == [0.0, 5.0, 2.0, 3.0]


@pytest.mark.parametrize(("program", "kind", "text"), [
    (lambda x, i: x[:, i : i + 3], IndexError,
     "a slice of 3 elements from 2 on is out of bounds for an axis of length 4"),
    (lambda x, i: x[i - 4 : i - 2], IndexError,
     "a slice of 2 elements from -2 on is out of bounds for an axis of length 3"),
    (lambda x, i: x[i - 3 : i - 1], IndexError,
     "a slice of 2 elements from -1 on is out of bounds for an axis of length 3"),
    (lambda x, i: x[x[:, 0] > 100, [0, 1]], IndexError,
     "a mask of 0 true elements cannot be combined with 2 positions"),
])
def test_what_leaves_a_tensor_at_run_time(program: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        ms.jit(program)(ms.Tensor(start()), ms.Tensor(2))


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_as_many_values_as_a_mask_selects(count: int) -> None:
    def f(x: Any, v: Any) -> Any:
        x[x > 7] = v
        return x

    for fn in (f, ms.jit(f)):
        with pytest.raises(ValueError, match="cannot be written to"):
            fn(ms.Tensor(start()), ms.Tensor(np.ones(count, np.float32)))


def test_positions_of_a_tensor_of_open_length() -> None:
    class Net(nn.Cell):
        def construct(self, x: Any, i: Any) -> Any:
            x[[0, -1]] = x[[1, 1]] * 2
            x[i, 1] += 1.0
            x[x > 6] = 0.0
            return x[:, 1:], x[[-1, 0]], x[-1]

    net = Net()
    net.set_inputs(ms.Tensor(shape=[None, 3], dtype=ms.float32),
                   ms.Tensor(shape=[2], dtype=ms.int64))
    for rows in (2, 5, 3):
        outs = []
        for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
            ms.set_context(mode=mode)
            x = ms.Tensor(np.arange(rows * 3, dtype=np.float32).reshape(rows, 3))
            outs.append([t.asnumpy() for t in net(x, ms.Tensor([0, 1]))])
        assert all(np.array_equal(a, b) for a, b in zip(*outs, strict=True))
