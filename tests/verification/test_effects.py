"""Effects on Python objects that are lost or repeated in a later call: every judge finds them."""

from __future__ import annotations

import random
import types
from collections import UserDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, testing
from cellc.tracing.tracer import Tracer
from cellc.verification import verify

X = Tensor(np.ones((2, 2), np.float32))
log: list[Any] = []
total = 0
space = types.SimpleNamespace(last=None)
other = types.ModuleType("a_module_of_the_user")
vars(other)["seen"] = []


class Kept:
    """Data of a class."""

    seen: list[Any] = []


class Attribute(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        self.last = [x.sum(), *getattr(self, "last", [])]
        return x


class OwnList(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []

    def construct(self, x: Tensor) -> Tensor:
        self.log.append(x.sum())
        return x


class OwnDict(OwnList):
    def construct(self, x: Tensor) -> Tensor:
        self.seen = {"last": x * len(self.log)}
        self.log.append(x)
        return x


class GlobalList(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        log.append(x * 2)
        return x


class Global(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        global total
        total = total + x.sum()
        return x


class OfAClass(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        Kept.seen.append(x + 1)
        return x


class OfAModule(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        other.seen.append(x + 1)
        return x


class OfAnObject(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        space.last = (x.sum(), space.last)
        return x


class NewGlobal(nn.Cell):
    """The name is new in the first call."""

    def construct(self, x: Tensor) -> Tensor:
        global fresh
        fresh = x * len(log)
        log.append(x)
        return x


def helper() -> None:
    """A function with an attribute."""


vars(helper)["seen"] = []


class OfAFunction(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        helper.seen.append(x + 1)  # type: ignore[attr-defined]
        return x


def make_captured() -> type[nn.Cell]:
    """A class whose methods have captured a module."""
    module: Any = types.ModuleType("captured")
    module.seen = []

    class OfACapturedModule(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            module.seen.append(x + 1)
            return x

    return OfACapturedModule


NETS = [Attribute, OwnList, OwnDict, GlobalList, Global, OfAClass, OfAModule, OfAnObject, NewGlobal,
        OfAFunction, make_captured()]


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Plants: in call `number` of a program, what it does to Python objects happens `times`."""
    def plant(number: int, times: int) -> None:
        right = Tracer.host_call
        calls: dict[str, int] = {}

        def wrong(self: Any, function: Any, name: str, operands: Any, results: Any) -> Any:
            def counted(*args: Any) -> None:
                calls[name] = calls.get(name, 0) + 1
                for _ in range(times if calls[name] == number else 1):
                    function(*args)

            return right(self, function if results else counted, name, operands, results)

        monkeypatch.setattr(Tracer, "host_call", wrong)

    return plant


@pytest.mark.parametrize("net", NETS)
def test_right_effects_agree(net: type[nn.Cell]) -> None:
    report = verify(net(), X, grad=False)
    assert not report.findings, report
    assert (log, total, space.last, Kept.seen, other.seen) == ([], 0, None, [], [])
    assert "fresh" not in globals()
    assert report.compared["forward: calls"] == 3


# (To set a value twice does no more.)
APPENDS = [OwnList, GlobalList, OfAClass, OfAModule, OfAFunction, NETS[-1]]


@pytest.mark.parametrize(("net", "number", "times"), [
    *((net, number, 0) for net in NETS for number in (2, 3)), *((net, 2, 2) for net in APPENDS)])
def test_a_lost_or_repeated_effect_is_found(
    net: type[nn.Cell], number: int, times: int, fault: Callable[[int, int], None]
) -> None:
    fault(number, times)
    found = verify(net(), X, grad=False, nodes=False).findings
    assert found and all(f.where.startswith(f"forward: call {number}: ") for f in found), found


def test_assert_modes_equal_names_the_call(fault: Callable[[int, int], None]) -> None:
    testing.assert_modes_equal(OwnList(), X, grad=False)
    fault(2, 0)
    with pytest.raises(AssertionError, match=r"call 2: net\.log afterwards: a list \(2 elements\) "
                                             r"in PyNative, a list \(1 element\) compiled"):
        testing.assert_modes_equal(OwnList(), X, grad=False)


class ADict(UserDict[str, int]):
    pass


@pytest.mark.parametrize("kept", [bytearray(b"\0"), ADict(n=0), types.SimpleNamespace(n=0)])
def test_what_numpy_and_ops_do_not_see_is_put_back(kept: Any) -> None:
    """Containers and objects of any kind that a call changes in PyNative."""
    before = repr(kept)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.kept = kept

        def construct(self, x: Tensor) -> Tensor:
            if isinstance(kept, types.SimpleNamespace):
                self.kept.n += 1
            else:
                self.kept[0 if isinstance(kept, bytearray) else "n"] += 1
            return x

    verify(Net(), X, grad=False, nodes=False)
    assert repr(kept) == before


def test_a_later_call_that_raises_in_both_modes_is_no_difference() -> None:
    class Twice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def construct(self, x: Tensor) -> Tensor:
            self.calls += 1
            if self.calls > 2:
                raise RuntimeError(f"call {self.calls}")
            return x

    report = verify(Twice(), X, grad=False, reference=False, nodes=False)
    assert not report.findings, report
    assert report.compared["forward: calls"] == 3
    assert any("both modes raise RuntimeError: call 3" in n for n in report.not_compared)


def test_draws_of_python_in_one_mode_are_told() -> None:
    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            if ms.get_context("mode") == ms.GRAPH_MODE:
                return x + 0 * random.random()
            return x

    report = verify(Net(), X, grad=False, nodes=False)
    assert report.status == 1
    assert ("random", "forward: random") in [(f.kind, f.where) for f in report.findings]


def test_an_iterator_is_not_compared() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.numbers = iter([1, 2, 3])

        def construct(self, x: Tensor) -> Tensor:
            return x

    report = verify(Net(), X, grad=False)
    assert "forward: net.numbers: an iterator, which cannot be put back" in report.not_compared


def test_a_cell_that_a_call_registers_is_taken_out_again() -> None:
    class Registers(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dense(2, 2)

        def construct(self, x: Tensor) -> Tensor:
            self.last = self.inner
            return self.inner(x)

    net = Registers()
    with pytest.raises(TypeError, match="cannot be set to a Dense"):
        verify(net, X)
    assert list(net._cells) == ["inner"] and [n for n, _ in net.cells_and_names()] == ["", "inner"]
