"""Tensors of known values that a network makes, or has, and changes in place: each name and each
container that holds one sees the change, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc import numpy as mnp

X = np.array([1, 2], np.float32)


class Fill(nn.Cell):
    """Writes its argument."""

    def construct(self, x: Tensor) -> Tensor:
        x[0] = 7
        return x


class Box:
    """Holds a tensor."""

    def __init__(self, held: Tensor) -> None:
        self.held = held


FILL = Fill()
MAKERS: dict[str, Callable[[], Any]] = {
    "Tensor": lambda: Tensor([1.0, 2.0]),
    "tensor": lambda: ms.tensor([1.0, 2.0]),
    "from_numpy": lambda: Tensor.from_numpy(np.ones(2, np.float32)),
    "arange": lambda: ops.arange(2),
    "numpy": lambda: mnp.array([1.0, 2.0]),
    "product": lambda: Tensor([1.0, 2.0]) * 2,
    "copy": lambda: Tensor([1.0, 2.0]).copy(),
    "part of a tuple": lambda: ops.split(Tensor([1.0, 2.0, 3.0, 4.0]), 2)[0],
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_another_name_sees_the_change(mode: int, make: Callable[[], Any]) -> None:
    @ms.jit
    def graph(x: Tensor) -> Any:
        t = make()
        other = t
        other[0] = 5
        return t + x, other + x

    def eager(x: Tensor) -> Any:
        t = make()
        t[0] = 5
        return t + x

    expected = eager(Tensor(X)).asnumpy()
    for _ in range(2):
        for out in (graph if mode == ms.GRAPH_MODE else graph.__wrapped__)(Tensor(X)):
            assert out.asnumpy().tolist() == expected.tolist()


def _in_a_function(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])

    def write(u: Tensor) -> None:
        u[0] = 7

    write(t)
    return t


def _in_a_cell(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    FILL(t)
    return t


def _in_a_list(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    both = [t, t]
    both[0][0] = 7
    return both[1]


def _in_a_tuple(x: Tensor) -> Any:
    both = (Tensor([1.0, 2.0]),) * 2
    both[0][0] = 7
    return both[1]


def _in_a_dict(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    held = {"t": t}
    t[0] = 7
    return held["t"]


def _in_an_object(x: Tensor) -> Any:
    box = Box(Tensor([1.0, 2.0]))
    t = box.held
    t[0] = 7
    return box.held


def _captured(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    u = (lambda: t)()
    u[0] = 7
    return t


def _in_a_view(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    part = t[0:1]
    part[0] = 7
    return t


def _by_a_method(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    other = t
    other.add_(6.0)
    return t - Tensor([0.0, 6.0])


def _in_a_loop(x: Tensor) -> Any:
    t = Tensor([0.0, 2.0])
    other = t
    while x.sum() > 0:
        other[0] = other[0] + 3.5
        x = x - 1
    return t


def _in_a_branch(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    if x.sum() > 0:
        other = t
        other[0] = x[0] + 6
    return t


def _added_to(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    other = t
    other[0] += 6
    return t


def _under_try(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    other = t
    try:
        other[0] = 7
    except TypeError:
        return x
    return t


@pytest.mark.parametrize("function", [
    _in_a_function, _in_a_cell, _in_a_list, _in_a_tuple, _in_a_dict, _in_an_object, _captured,
    _in_a_view, _by_a_method, _in_a_loop, _in_a_branch, _added_to, _under_try])
def test_all_holders_see_the_change(mode: int, function: Callable[[Tensor], Any]) -> None:
    run = ms.jit(function) if mode == ms.GRAPH_MODE else function
    for _ in range(2):
        assert run(Tensor(X)).asnumpy().tolist() == [7, 2]


@ms.jit
def _decides(x: Tensor) -> Any:
    t = Tensor([1.0, 2.0])
    other = t
    other[0] = 5
    if t[0] > 3:
        return x * float(t[0])
    return x


def test_what_is_written_decides(mode: int) -> None:
    assert _decides(Tensor(X)).asnumpy().tolist() == [5, 10]


SAME: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda t: t.contiguous(),
    "to": lambda t: t.to("cpu"),
    "float": lambda t: t.float(),
    "view": lambda t: t.view(2),
    "reshape": lambda t: t.reshape(2),
    "cast": lambda t: ops.cast(t, ms.float32),
    "squeeze": lambda t: ops.squeeze(t),
    "broadcast_to": lambda t: ops.broadcast_to(t, (2,)),
    "depend": lambda t: ops.depend(t, t),
    "asarray": lambda t: mnp.asarray(t),
}


class Holder(nn.Cell):
    """Writes what a function gives for its tensor."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.t = Tensor([1.0, 2.0])
        self.function = function

    def construct(self, x: Tensor) -> Tensor:
        found = self.function(self.t)
        found[0] = found[0] + 5
        return self.t + x


@pytest.mark.parametrize("function", SAME.values(), ids=SAME)
def test_what_a_function_gives_back_is_the_tensor_it_got(
    mode: int, function: Callable[[Any], Any]
) -> None:
    net = Holder(function)
    assert [net(Tensor(X)).asnumpy()[0] for _ in range(3)] == [7, 12, 17]
    assert net.t.asnumpy().tolist() == [16, 2]
