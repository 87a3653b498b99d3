"""Edits of what a network reads of Python and of libraries, not of its own objects, are seen.

Each program is called after each edit, in both modes; PyNative is Python itself.
"""

from __future__ import annotations

import collections
import cProfile
import decimal
import enum
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn, ops
from cellc.lang import calls
from cellc.ops import primitive

X = Tensor([1.5])
Edit = Callable[[], Any]
weight = 2


class Found(enum.Enum):
    """Values that are not listed are looked for in a global."""

    A = 1
    B = 2

    @classmethod
    def _missing_(cls, value: object) -> Found:
        return cls.B if weight % 2 else cls.A


class Row:
    """Its text is as long as a global says."""

    def __str__(self) -> str:
        return "-" * weight


@primitive.constexpr
def plus_weight(a: int) -> int:
    return a + weight


def set_weight(value: int) -> None:
    global weight
    weight = value


class Net(nn.Cell):
    """A network that computes `body(self, x)`."""

    def __init__(self, body: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.relu, self.body = nn.ReLU(), body
        self.p = ms.Parameter(Tensor([1.0, 2.0]), name="p")

    def construct(self, x: Tensor) -> Any:
        return self.body(self, x)


def answers(net: Callable[[Tensor], Any], edits: list[Edit]) -> list[list[float]]:
    """What calls give before and after each edit; each is made twice."""
    found = []
    for edit in (lambda: None, *edits):
        edit()
        net(X)
        found.append(np.asarray(net(X).asnumpy()).tolist())
    return found


def both(made: Callable[[], tuple[Any, list[Edit]]]) -> list[list[float]]:
    """The answers in graph mode, which must be those of PyNative and differ after each edit."""
    found, precision = [], decimal.getcontext().prec
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        set_weight(2)
        decimal.getcontext().prec = precision
        found.append(answers(*made()))
    assert found[0] == found[1]
    assert all(a != b for a, b in zip(found[1], found[1][1:], strict=False))
    return found[1]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    mode, options, context = ms.get_context("mode"), np.get_printoptions(), decimal.getcontext()
    precision = context.prec
    yield
    ms.set_context(mode=mode)
    np.set_printoptions(**options)
    context.prec = precision
    set_weight(2)


def test_an_enum_that_looks_for_a_missing_value() -> None:
    both(lambda: (Net(lambda s, x: x * Found(7).value),
                  [lambda: set_weight(3), lambda: set_weight(4)]))


def test_a_profiler_goes_on_while_native_code_is_watched() -> None:
    with cProfile.Profile() as profiler:
        test_an_enum_that_looks_for_a_missing_value()
        weakref.WeakSet()
    names = {code.co_name for code in (e.code for e in profiler.getstats())
             if isinstance(code, types.CodeType)}
    assert {"_missing_", "__init__"} <= names


def test_globals_of_a_constexpr_function() -> None:
    both(lambda: (Net(lambda s, x: x * plus_weight(2)),
                  [lambda: set_weight(3), lambda: set_weight(4)]))


def test_a_string_that_a_library_makes_of_an_object() -> None:
    both(lambda: (Net(lambda s, x: x * len(collections.UserString(Row()))),
                  [lambda: set_weight(3), lambda: set_weight(4)]))


def test_a_planted_fault_in_the_watch_over_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "watched", lambda vm, run: run())
    with pytest.raises(AssertionError, match=r"assert \[\["):
        test_globals_of_a_constexpr_function()


def test_the_precision_of_decimal() -> None:
    context = decimal.getcontext()
    both(lambda: (Net(lambda s, x: x * len(str(decimal.Decimal(1) / 3))),
                  [lambda: setattr(context, "prec", 5), lambda: setattr(context, "prec", 9)]))


def test_how_numpy_writes_arrays() -> None:
    array = np.array([1.23456789])
    both(lambda: (Net(lambda s, x: x * len(str(array)) + len(f"{array}")),
                  [lambda: np.set_printoptions(precision=3),
                   lambda: np.set_printoptions(precision=8)]))


def test_a_method_of_tensor_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[Any, list[Edit]]:
        monkeypatch.undo()
        return Net(lambda s, x: x.sum() + x), [
            lambda: monkeypatch.setattr(Tensor, "sum", lambda s: s + 3), monkeypatch.undo]

    both(made)


def test_call_of_a_layer_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> tuple[Any, list[Edit]]:
        monkeypatch.undo()
        return Net(lambda s, x: s.relu(x)), [
            lambda: monkeypatch.setattr(nn.ReLU, "__call__", lambda s, a: a * 7, raising=False),
            monkeypatch.undo]

    both(made)


def test_another_class_for_a_layer() -> None:
    def made() -> tuple[Any, list[Edit]]:
        net = Net(lambda s, x: s.relu(x))
        return net, [lambda: setattr(net.relu, "__class__", nn.Sigmoid),
                     lambda: setattr(net.relu, "__class__", nn.ReLU)]

    both(made)


def test_another_class_for_a_module() -> None:
    class Computed(types.ModuleType):
        @property
        def k(self) -> int:
            return weight + 10

    def made() -> tuple[Any, list[Edit]]:
        module = types.ModuleType("settings_of_a_test")
        module.k = 1  # type: ignore[attr-defined]
        return Net(lambda s, x: x * module.k), [
            lambda: setattr(module, "k", 2), lambda: setattr(module, "__class__", Computed),
            lambda: set_weight(3), lambda: set_weight(2)]

    both(made)


def test_attributes_that_a_program_gives_to_tensors() -> None:
    def made() -> tuple[Any, list[Edit]]:
        net, held = Net(lambda s, x: x * held.k + getattr(s.p, "k", 3)), Tensor([1.0])
        held.k = 2  # type: ignore[attr-defined]
        return net, [lambda: setattr(held, "k", 5), lambda: setattr(net.p, "k", 7),
                     lambda: setattr(net.p, "k", 8), lambda: delattr(net.p, "k")]

    both(made)


def test_a_parameter_of_another_shape_or_type() -> None:
    def made() -> tuple[Any, list[Edit]]:
        net = Net(lambda s, x: ops.cast(s.p, ms.float32).sum() + x)
        return net, [lambda: net.p.set_data(Tensor([1.0, 2.0, 5.0]), slice_shape=True),
                     lambda: net.p.set_data(Tensor([1 / 3]), slice_shape=True),
                     lambda: net.p.set_dtype(ms.float16)]

    both(made)


def test_objects_in_an_array() -> None:
    def made() -> tuple[Any, list[Edit]]:
        array = np.array([None, 2], dtype=object)
        array[0] = [3]
        return Net(lambda s, x: x * array[0][0] + array[1]), [
            lambda: array[0].append(4) or array[0].insert(0, 9),
            lambda: array.__setitem__(1, 5)]

    both(made)


def test_a_weak_proxy_is_refused() -> None:
    held = nn.ReLU()
    proxy = weakref.proxy(held)
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(RuntimeError, match="a weak proxy is used"):
        Net(lambda s, x: proxy(x))(X)


def test_watching_leaves_a_profiler_in_place() -> None:
    def hook(*_: Any) -> None:
        """A profiler of the user's."""

    before = sys.getprofile()
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net(lambda s, x: x * Found(7).value)
    sys.setprofile(hook)
    try:
        net(X)
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(before)
