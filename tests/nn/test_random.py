"""Random draws: the same in both modes, after a restart, in another process; streams of seeds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops

Array = np.ndarray[Any, Any]
X = Tensor(np.ones((4, 8, 2, 3), np.float32))
CALLS = 3


class Draws(nn.Cell):
    """Draws of all three levels: the global generator, a function's seed, a Primitive's seeds."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(p=0.5)
        self.drop2 = nn.Dropout2d(0.5)
        self.drop3 = nn.Dropout3d(0.5)
        self.own = ops.StandardNormal(seed=5, seed2=1)
        self.other = ops.Dropout(keep_prob=0.5, Seed0=7)

    def construct(self, x: Any) -> Any:
        a = self.drop(x) + self.drop2(x)
        b = ops.rand(5, seed=3), ops.rand(5, seed=3), ops.randn(5)
        c = self.own((4,)), self.own((4,))
        d, mask = self.other(x)
        return a, self.drop3(x[None])[0], *b, *c, d, mask, ops.dropout1d(x[0, 0], 0.5)


class Looped(nn.Cell):
    """Draws in a loop of a number of trips known only at run time, and in a branch."""

    def construct(self, x: Any, n: Any) -> Any:
        i = 0
        while i < n:
            x = ops.dropout(x, 0.3) + ops.rand(1, seed=2)
            if x.sum() > 20:
                x = x * ops.rand(1)
            i = i + 1
        return x + ops.rand(1)


def _arrays(out: Any) -> list[Array]:
    return [t.asnumpy().copy() for t in (out if isinstance(out, tuple) else (out,))]


def _run(make: Callable[[], Any], args: tuple[Any, ...], mode: int) -> list[Array]:
    ms.set_context(mode=mode)
    ms.set_seed(11)
    net = make().set_train()
    return [a for _ in range(CALLS) for a in _arrays(net(*args))]


@pytest.mark.parametrize(
    ("make", "args"), [(Draws, (X,)), (Looped, (Tensor(np.ones(9, np.float32)), Tensor(4)))]
)
def test_both_modes_draw_the_same(make: Any, args: Any) -> None:
    graph, eager = (_run(make, args, m) for m in (ms.GRAPH_MODE, ms.PYNATIVE_MODE))
    assert all(np.array_equal(a, b) for a, b in zip(graph, eager, strict=True))
    each = len(graph) // CALLS
    assert not all(np.array_equal(a, b) for a, b in zip(graph, graph[each:], strict=False))


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_gradients_use_the_draws_of_the_forward_run(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dropout(p=0.5).set_train()
    ms.set_seed(4)
    out, grad = ms.value_and_grad(lambda x: (net(x) * x).sum())(X)
    ms.set_seed(4)
    kept = net(X).asnumpy()
    np.testing.assert_array_equal(grad.asnumpy(), 2 * kept)
    assert float(out) == kept.sum()


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_a_state_goes_on_where_it_was_taken(mode: int) -> None:
    ms.set_context(mode=mode)
    net = nn.Dropout(p=0.5).set_train()
    net(X)
    state = ms.get_rng_state()
    first = net(X).asnumpy()
    ms.set_rng_state(state)
    np.testing.assert_array_equal(net(X).asnumpy(), first)


def test_seeds_set_after_compiling_count() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Draws().set_train()

    def draws() -> list[Array]:
        ms.set_seed(21)
        return _arrays(net(X))

    first, second = draws(), draws()
    own = {5, 6, 7, 8}  # a Primitive's stream is restarted by nothing
    assert [np.array_equal(a, b) for a, b in zip(first, second, strict=True)] == [
        i not in own for i in range(len(first))]
    ms.set_seed(22)
    assert not np.array_equal(_arrays(net(X))[2], first[2])


def test_another_process_draws_the_same() -> None:
    ms.set_seed(5)
    here = [ops.rand(4).asnumpy().tolist(), ops.rand(4, seed=2).asnumpy().tolist(),
            nn.Dense(2, 2).weight.asnumpy().tolist()]
    text = ("import cellc as ms; from cellc import nn, ops; ms.set_seed(5); "
            "print([ops.rand(4).asnumpy().tolist(), ops.rand(4, seed=2).asnumpy().tolist(), "
            "nn.Dense(2, 2).weight.asnumpy().tolist()])")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(here)


def test_generators_are_apart() -> None:
    a, b = ms.Generator().manual_seed(3), ms.Generator().manual_seed(3)
    keys = [a.next_key().asnumpy().tolist() for _ in range(3)]
    assert keys == [[3, 0], [3, 1], [3, 2]]
    b.set_state(a.get_state())
    assert b.next_key().asnumpy().tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=r"uint8\[16\]"):
        a.set_state(Tensor([1, 2]))


def test_primitives_refuse_negative_seeds() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        ops.StandardNormal(seed=-1)
    with pytest.raises(TypeError, match="'seed' must be an int, but got float"):
        ops.StandardNormal(seed=1.5)


def test_moments_of_dropout() -> None:
    ms.set_seed(1)
    x = Tensor(np.ones((200, 300), np.float32))
    for p in (0.1, 0.5, 0.9):
        out = nn.Dropout(p=p).set_train()(x).asnumpy()
        assert abs((out == 0).mean() - p) < 0.01
        np.testing.assert_allclose(out[out != 0], 1 / (1 - p), rtol=1e-6)
