"""A part of a Parameter that is assigned is written where it belongs, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import nn, ops

Array = np.ndarray[Any, Any]
ROWS, COLUMNS = 256, 64


class Cache(nn.Cell):
    """Calls a function with a Parameter of (4, ROWS, COLUMNS)."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        start = np.arange(4 * ROWS * COLUMNS, dtype=np.float32).reshape(4, ROWS, COLUMNS)
        self.cache = ms.Parameter(start, name="cache", requires_grad=False)
        self.other = ms.Parameter(start * 2, name="other", requires_grad=False)
        self.body = body

    def construct(self, x: Any) -> Any:
        return self.body(self, x)


def window(net: Any, x: Any) -> Any:
    net.cache[:, 8:8 + x.shape[1]] = x
    return net.cache[:, :16].sum()


def shifted(net: Any, x: Any) -> Any:
    """What is written is read from the same Parameter, at other places."""
    net.cache[:, 8:12] = net.cache[:, 6:10] + x[:, :4]
    return net.cache[0, 0, 0]


def kept(net: Any, x: Any) -> Any:
    """The old elements are read afterwards."""
    old = net.cache[:, 8:12] * 1
    net.cache[:, 8:12] = x[:, :4]
    return old + net.cache[:, 8:12]


def twice(net: Any, x: Any) -> Any:
    net.cache[:, 8:12] = x[:, :4]
    net.cache[:, 10:14] = x[:, :4] * 2
    return net.cache[:, 8:14] * 1


def exchanged(net: Any, x: Any) -> Any:
    """Each is written from the other."""
    a, b = net.cache[:, 1:3] * 1, net.other[:, 1:3] * 1
    net.cache[:, 1:3] = b
    net.other[:, 1:3] = a
    return x.sum()


def nothing(net: Any, x: Any) -> Any:
    net.cache[:, 8:8] = x[:, :0]
    return x.sum()


def strided(net: Any, x: Any) -> Any:
    net.cache[:, 8:16:2] = x[:, :4]
    return x.sum()


def whole(net: Any, x: Any) -> Any:
    net.cache[:, :] = x[:, :1]
    return x.sum()


BODIES = [window, shifted, kept, twice, exchanged, nothing, strided, whole]


def run(body: Callable[..., Any], mode: int, lengths: list[int]) -> list[Array]:
    """Results and Parameters after calls with inputs of these lengths."""
    ms.set_context(mode=mode)
    net, out = Cache(body), []
    for n in lengths:
        x = np.random.default_rng(n).normal(size=(4, n, COLUMNS)).astype(np.float32)
        out += [net(ms.Tensor(x)).asnumpy(), net.cache.asnumpy(), net.other.asnumpy()]
    return out


@pytest.mark.parametrize("body", BODIES)
def test_both_modes(body: Callable[..., Any]) -> None:
    """At known sizes, at sizes that a program leaves open, and again."""
    lengths = [5, 6, 7, 5]
    for compiled, eager in zip(
            run(body, ms.GRAPH_MODE, lengths), run(body, ms.PYNATIVE_MODE, lengths), strict=True):
        np.testing.assert_array_equal(compiled, eager)


@pytest.mark.parametrize(("body", "copies"), [(window, 0), (twice, 0), (shifted, 1)])
def test_only_the_window_is_moved(body: Callable[..., Any], copies: int) -> None:
    """No temporary has the size of the Parameter, unless what is written is read from it."""
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Cache(body)
    net(ms.Tensor(np.zeros((4, 6, COLUMNS), np.float32)))
    program = next(iter(net._entries.entries.values())).executable.program
    assert (program.arena_bytes >= net.cache.nbytes) == bool(copies)


def checked(net: Any, x: Any) -> Any:
    """A check fails after the assignment."""
    net.cache[:, 8:12] = x[:, :4]
    at = (x.sum() * 0 + 999).astype(ms.int32)
    return ops.gather(net.other, at.reshape(1), 1)


def test_a_call_that_fails_writes_nothing() -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Cache(checked)
    before = net.cache.asnumpy().copy()
    with pytest.raises(IndexError, match="999"):
        net(ms.Tensor(np.ones((4, 6, COLUMNS), np.float32))).asnumpy()
    np.testing.assert_array_equal(net.cache.asnumpy(), before)
