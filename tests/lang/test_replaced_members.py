"""Members of Tensor, Parameter and Cell that a program replaces are used by both modes, at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc_runtime.methods import _as_kind, bindable, native_method_type

from ..modes.law import members_kept, mode

X = Tensor([1.5, -2.0])
MODES = pytest.mark.parametrize("run_in", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])


@pytest.fixture(autouse=True)
def whole() -> Iterator[None]:
    """Gives the classes their members back."""
    with members_kept(Tensor, Parameter, nn.Cell, nn.ReLU):
        yield


def answers(fn: Callable[[Tensor], Tensor]) -> list[float]:
    """The results of two calls, which agree."""
    first, second = (np.asarray(fn(X).asnumpy()).tolist() for _ in range(2))
    assert first == second
    return first


class Net(nn.Cell):
    """A layer of cellc, a Parameter, operators."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()
        self.w = Parameter(Tensor([2.0, 3.0]), name="w")

    def construct(self, x: Tensor) -> Any:
        """A result of operators alone."""
        return self.relu(x) + self.w * x


@MODES
@pytest.mark.parametrize(("name", "program"), [
    ("__add__", lambda x: x + 2), ("__radd__", lambda x: 2 + x), ("__neg__", lambda x: -x),
    ("__getitem__", lambda x: x[0] * x), ("__abs__", abs), ("__lt__", lambda x: x < 1),
    ("sum", lambda x: x.sum()), ("__mul__", lambda x: x.__mul__(2)), ("__iadd__", None),
])  # fmt: skip
def test_a_replaced_member_is_used_by_the_next_call(name: str, program: Any, run_in: int) -> None:
    def added(x: Tensor) -> Tensor:
        y = x * 1
        y += 2
        return y

    program = program or added
    net = type("N", (nn.Cell,), {"construct": lambda self, x: program(x)})()
    with mode(run_in):
        before, old = answers(net), getattr(Tensor, name, None)
        setattr(Tensor, name, lambda *a: ops.mul(a[-1], 100) if len(a) == 1 else ops.mul(a[0], 50))
        other = answers(net)
        assert other != before
        if old is None:
            delattr(Tensor, name)
        else:
            setattr(Tensor, name, old)  # what the class gave when it was asked
        assert answers(net) == before
        with mock.patch.object(Tensor, name, lambda *a: ops.mul(a[0], 3), create=True):
            assert answers(net) not in (before, other)
        assert answers(net) == before


@MODES
def test_effects_of_a_replaced_operator_happen_in_each_call(run_in: int) -> None:
    log: list[int] = []
    old: Any = Tensor.__mul__

    def counted(a: Tensor, b: Any) -> Any:
        log.append(1)
        return old(a, b)

    net = Net()
    with mode(run_in):
        answers(net)
        Tensor.__mul__ = counted  # type: ignore[method-assign]
        for number in range(1, 4):
            net(X)
            assert len(log) == number


@MODES
def test_an_operator_that_was_replaced_before_the_first_op(run_in: int) -> None:
    # (The native site of an operator is made with the first op: it must not stand before `f`.)
    Tensor.__sub__ = lambda a, b: ops.add(a, 10)  # type: ignore[method-assign, assignment]
    net = type("N", (nn.Cell,), {"construct": lambda self, x: x - 1})()
    with mode(run_in):
        assert [answers(net) for _ in range(3)] == [[11.5, 8.0]] * 3


@MODES
def test_members_of_parameters_and_cells(run_in: int) -> None:
    net = Net()
    with mode(run_in):
        assert answers(net) == [4.5, -6.0]
        Parameter.__mul__ = lambda a, b: b - 1  # type: ignore[method-assign, assignment]
        assert answers(net) == [2.0, -3.0]
        del Parameter.__mul__
        assert answers(net) == [4.5, -6.0]
        old: Any = nn.Cell.__call__
        nn.Cell.__call__ = lambda self, x: old(self, x) + 1  # type: ignore[assignment]
        assert answers(net) == [6.5, -4.0]  # the network's own call, too
        nn.Cell.__call__ = old  # type: ignore[method-assign]
        assert answers(net) == [4.5, -6.0]


@pytest.mark.parametrize(("name", "new"), [
    ("__add__", mock.MagicMock()), ("__len__", lambda s: 7), ("__bool__", lambda s: True),
    ("__iter__", lambda s: iter([7])), ("__setitem__", lambda s, i, v: None),
])  # fmt: skip
def test_what_cannot_be_interpreted_is_an_error(name: str, new: Any) -> None:
    @ms.jit
    def plus(x: Tensor) -> Any:
        return x + 1

    with mode(ms.GRAPH_MODE):
        assert answers(plus) == [2.5, -1.0]
        setattr(Tensor, name, new)
        with pytest.raises(RuntimeError, match=rf"Tensor.{name} has been replaced by a .*CE307"):
            plus(X)


def test_a_member_that_the_library_uses_is_an_error() -> None:
    calls: list[int] = []
    old: Any = Tensor.__mul__

    def counted(a: Tensor, b: Any) -> Any:
        calls.append(1)
        return old(a, b)

    @ms.jit
    def reduced(x: Tensor) -> Any:
        from functools import reduce
        return reduce(operator.mul, [x, x])

    with mode(ms.GRAPH_MODE):
        answers(reduced)
        Tensor.__mul__ = counted  # type: ignore[method-assign]
        with pytest.raises(RuntimeError, match=r"Tensor\.__mul__ has been replaced by a function"):
            reduced(X)
    assert not calls


def test_a_network_is_compiled_once_for_each_member() -> None:
    net = Net()
    with mode(ms.GRAPH_MODE):
        answers(net)
        Tensor.__add__ = lambda a, b: ops.sub(a, b)  # type: ignore[method-assign, assignment]
        answers(net)
        assert "replaced members of Tensor: none -> __add__" in str(ms.explain(net))
        assert len(net._entries.history) == 2


def test_native_methods_bind() -> None:
    kind = native_method_type()
    assert kind is not None
    members = {"__add__": _as_kind(sorted, kind), "kept": bindable(print)}
    holder: Any = type("Holder", (list,), members)
    holder.__add__ = holder.__add__
    holder.kept = holder.kept
    assert holder([2, 1]).__add__(reverse=True) == [2, 1]
    assert holder([2, 5]).kept() is None
    assert holder.kept.__name__ == "print"
