"""Why a network is compiled again: each kind of cause names its line and its value, and what helps.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.compiled.causes import REMEDIES

FACTOR: Any = 2.0


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    global FACTOR
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    FACTOR = 2.0
    ms.set_context(numerics="strict")


def ones(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(shape, dtype))


def last(target: Any) -> Any:
    """The last compilation, its remedy that of its kind."""
    found = ms.explain(target).history[-1]
    assert found.remedy == REMEDIES[found.kind]
    text = str(ms.explain(target))
    if not found.instance:
        assert f"compiled again:\n     {found.cause}" in text or f"\n     {found.cause}" in text
        assert f"what helps:\n     {found.remedy}" in text or f"\n     {found.remedy}" in text
    return found


def test_seconds() -> None:
    """What a compilation took: less than the call that waited for it."""
    fn = ms.jit(lambda x: ops.exp(x) * 2)
    start = time.perf_counter()
    fn(ones(3))
    assert 0 < ms.explain(fn).history[-1].seconds < time.perf_counter() - start


# --- arguments -----------------------------------------------------------------------------------


def _total(x: Any, n: Any = 1, more: Any = ()) -> Any:
    out = x.sum() * (n if isinstance(n, (int, float)) else 1)
    for y in more.values() if isinstance(more, dict) else more:
        out = out + (y.sum() if isinstance(y, Tensor) else y)
    return out


ARGUMENTS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], str, str]] = {
    "shape": ((ones(2),), (ones(3),), "size", "(x: float32[2]) -> (x: float32[3])"),
    "dtype": ((ones(2),), (ones(2, dtype=np.float16),), "dtype",
              "(x: float32[2]) -> (x: float16[2])"),
    "number": ((ones(2), 1), (ones(2), 5), "value", "n is 5, was 1"),
    "string": ((ones(2), "a"), (ones(2), "b"), "value", "n is 'b', was 'a'"),
    "length of a list": ((ones(2), 1, [ones(2)]), (ones(2), 1, [ones(2), ones(2)]), "structure",
                         "more is a list of 2, was a list of 1, more[1] is new"),
    "keys of a dict": ((ones(2), 1, {"a": ones(2)}), (ones(2), 1, {"b": ones(2)}), "structure",
                       "more['a'] is gone, more['b'] is new"),
    "a number in a list": ((ones(2), 1, [1.0]), (ones(2), 1, [2.5]), "value",
                           "more[0] is 2.5, was 1.0"),
    "a number in a dict": ((ones(2), 1, {"k": 1}), (ones(2), 1, {"k": 2}), "value",
                           "more['k'] is 2, was 1"),
    "another argument": ((ones(2),), (ones(2), 3), "structure", "n is new"),
    "a Tensor for a number": ((ones(2), 1), (ones(2), ones(1)), "structure",
                              "n is float32[1], was 1"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name: str) -> None:
    first, second, kind, text = ARGUMENTS[name]
    fn = ms.jit(_total)
    fn(*first)
    fn(*second)
    found = last(fn)
    assert (found.kind, len(ms.explain(fn).history)) == (kind, 2)
    assert text in found.cause and "(called at test_causes.py:" in found.cause


def test_keyword_arguments_that_change() -> None:
    class Net(nn.Cell):
        def construct(self, x: Any, **options: Any) -> Any:
            return x * options["scale"]

    net = Net()
    net(ones(2), scale=2)
    net(ones(2), scale=3)
    found = last(net)
    assert found.kind == "value" and "scale is 3, was 2" in found.cause


def test_a_function_made_in_each_call() -> None:
    fn = ms.jit(lambda x, f: f(x))
    for _ in range(2):
        fn(ones(2), lambda x: x + 1)
    found = last(fn)
    assert found.kind == "function" and "f is another function, " in found.cause
    assert "<lambda>" in found.cause


def test_arrays_are_arguments_by_content() -> None:
    fn = ms.jit(lambda x, a: x + Tensor(a))
    for value in (1, 5, 1, 9, 7, 5):  # each array may lie where the one before lay
        assert float(fn(ones(1), np.full(1, value, np.float32))) == 1 + value
    assert len(ms.explain(fn).history) == 4
    found = last(fn)
    assert found.kind == "value"
    assert "a is array float32[1] [7.0], was array float32[1] [9.0]" in found.cause
    array = np.full(1, 2, np.float32)
    fn(ones(1), array)
    array[0] = 3
    assert float(fn(ones(1), array)) == 4


def test_an_object_without_a_hash_counts_as_itself() -> None:
    class Scale:
        __hash__ = None  # type: ignore[assignment]

        def __init__(self, by: float) -> None:
            self.by = by

    fn = ms.jit(lambda x, s: x * s.by)
    for by in (2.0, 3.0, 4.0, 5.0):
        assert float(fn(ones(1), Scale(by))) == by
    assert "s is another object, a Scale" in last(fn).cause


def test_long_arguments_are_not_kept_whole() -> None:
    fn = ms.jit(lambda x, many: x + len(many))
    fn(ones(2), list(range(5000)))
    assert len(ms.explain(fn).history[0].parts) <= 256


def test_the_call_most_like_it_is_named() -> None:
    fn = ms.jit(_total)
    fn(ones(2), 1)
    fn(ones(7), 5)
    fn(ones(2), 2)
    assert "(x: float32[2], n: 1) -> (x: float32[2], n: 2)" in last(fn).cause


def test_what_was_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    fn: Any = ms.jit(_total)
    fn.table.entries.limit = 1
    for n in (2, 3, 4, 2):
        fn(ones(n))
    found = last(fn)
    assert found.kind == "dropped" and "(x: float32[2]) had been let go" in found.cause


# --- what is read --------------------------------------------------------------------------------


@dataclass
class Config:
    factor: float = 3.0
    sizes: list[int] = field(default_factory=lambda: [1, 2])


class Net(nn.Cell):
    BIAS = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.scales = [1.0, 2.0]
        self.table = {"k": 1.0}
        self.chosen = {1}
        self.config = Config()
        self.small = Tensor([1.0, 2.0])
        self.array = np.array([1.0, 2.0], np.float32)
        self.fn: Any = lambda x: x + 1
        self.w = Parameter(Tensor([1.0, 2.0]), name="w")
        self.inner = nn.ReLU()

    def construct(self, x: Any) -> Any:
        x = x * self.scale + self.scales[0] + self.table["k"] + len(self.chosen)
        x = x * self.config.factor + self.small + Tensor(self.array) + self.w + FACTOR + self.BIAS
        if self.training:
            x = x * 2
        return self.fn(self.inner(x))


def _set_global(net: Net) -> None:
    global FACTOR
    FACTOR = 3.0


def _another_function(net: Net) -> None:
    for _ in range(2):
        net.fn = lambda x: x + 1
        net(ones(2))


READS: dict[str, tuple[Callable[[Net], Any], str, str]] = {
    "attribute": (lambda n: setattr(n, "scale", 3.0), "attribute", "scale of Net: 2.0 -> 3.0"),
    "list": (lambda n: n.scales.__setitem__(0, 4.0), "container",
             "scales of Net: [1.0, 2.0] -> [4.0, 2.0]"),
    "list that grows": (lambda n: n.scales.append(4.0), "container",
                        "scales of Net: [1.0, 2.0] -> [1.0, 2.0, 4.0]"),
    "dict": (lambda n: n.table.update(k=5.0), "container", "table of Net: {'k': 1.0} -> {'k': 5.0"),
    "set": (lambda n: n.chosen.add(2), "container", "chosen of Net"),
    "object": (lambda n: setattr(n.config, "factor", 4.0), "variable",
               "factor of Config: 3.0 -> 4.0"),
    "small tensor": (lambda n: n.small.__setitem__(0, 5.0), "tensor", "small of Net: Tensor"),
    "array": (lambda n: n.array.__setitem__(0, 5.0), "tensor", "array of Net: array float32[2]"),
    "global": (_set_global, "variable", "the variable FACTOR: 2.0 -> 3.0"),
    "class": (lambda n: setattr(Net, "BIAS", 2.0), "variable", "BIAS of the class Net: 1.0 -> 2.0"),
    "function": (_another_function, "function", "fn of Net: "),
    "Parameter": (lambda n: setattr(n, "w", Parameter(Tensor([3.0, 4.0]), name="w")), "parameter",
                  "w of Net: "),
    "Cell": (lambda n: setattr(n, "inner", nn.Tanh()), "cells", "of Net: "),
    "training": (lambda n: n.set_train(), "training", "training of Net: False -> True"),
    "hooks": (lambda n: n.register_forward_hook(lambda cell, x, out: None), "hooks",
              "the hooks of Net"),
}


@pytest.mark.parametrize("name", READS)
def test_what_was_read(name: str) -> None:
    change, kind, text = READS[name]
    net = Net()
    try:
        net(ones(2))
        change(net)
        net(ones(2))
    finally:
        Net.BIAS = 1.0
    found = last(net)
    assert text in found.cause, found.cause
    assert found.kind == kind
    if kind not in ("hooks", "cells", "parameter"):
        assert "(read at test_causes.py:" in found.cause


def test_a_captured_variable() -> None:
    k = 2.0
    fn = ms.jit(lambda x: x * k)
    fn(ones(2))
    k = 5.0
    fn(ones(2))
    assert last(fn).kind == "variable"
    assert "the variable k: 2.0 -> 5.0 (read at test_causes.py:" in last(fn).cause


def test_what_is_trained() -> None:
    class Chooses(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor([1.0, 2.0]), name="w")

        def construct(self, x: Any) -> Any:
            return x * self.w if self.w.requires_grad else x

    net = Chooses()
    net(ones(2))
    net.w.requires_grad = False
    net(ones(2))
    found = last(net)
    assert found.kind == "frozen" and "requires_grad of Parameter: True -> False" in found.cause


def test_an_option() -> None:
    net = Net()
    net(ones(2))
    ms.set_context(numerics="fast")
    net(ones(2))
    found = last(net)
    assert found.kind == "option"
    assert found.cause == "the option 'numerics' was 'strict' and is 'fast'"


def test_state_that_decides() -> None:
    class Counts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def construct(self, x: Any) -> Any:
            self.n = self.n + 1
            return x * 2 if self.n > 2 else x

    net = Counts()
    for _ in range(4):
        net(ones(2))
    found = last(net)
    assert found.kind == "state" and "(asked for at test_causes.py:" in found.cause


def test_a_budget_and_set_inputs() -> None:
    net = _Squares()
    grad = ms.grad(net)
    grad(ones(64, 64))
    with ms.recompute(budget="1MiB"):
        grad(ones(64, 64))
    found = last(grad)
    assert found.kind == "budget" and found.cause.startswith("a budget of 1048576 bytes (called at")
    net(ones(3))
    net.set_inputs(Tensor(shape=(None,), dtype=ms.float32))
    net(ones(3))
    assert last(net).kind == "opened"


class _Squares(nn.Cell):
    def construct(self, x: Any) -> Any:
        return (x * x * x).sum()


# --- functions -----------------------------------------------------------------------------------


def test_a_function_that_is_made_anew() -> None:
    made = []
    for _ in range(2):
        @ms.jit
        def fresh(x: Any) -> Any:
            return x + 1

        fresh(ones(2))
        made.append(fresh)
    assert ms.explain(made[0]).history[0].cause == ""
    found = last(made[1])
    assert found.kind == "function"
    assert found.cause.startswith("fresh is another function object, made at test_causes.py:")


def test_a_transformation_that_is_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    def forward(x: Any) -> Any:
        return (x * x).sum()

    with caplog.at_level(logging.WARNING, "cellc"):
        for _ in range(8):
            step = ms.value_and_grad(forward)
            step(ones(2))
    found = last(step)
    assert found.kind == "transform" and "was called again on the same function" in found.cause
    (record,) = caplog.records
    assert "has been compiled 8 times" in record.getMessage()
    assert "make it once, before the loop" in record.getMessage()


def test_cells_of_one_class_are_no_cause() -> None:
    for _ in range(3):
        net = Net()
        net(ones(2))
        assert ms.explain(net).history[0].cause == ""


# --- open sizes ----------------------------------------------------------------------------------


def _open(construct: Callable[..., Any]) -> nn.Cell:
    cls = type("Open", (nn.Cell,), {"construct": construct})
    net: nn.Cell = cls()
    net.set_inputs(Tensor(shape=(None, 2), dtype=ms.float32))
    return net


def _number(self: Any, x: Any) -> Any:
    return x + Tensor(np.arange(x.shape[0]).reshape(-1, 1).astype(np.float32))


def _question(self: Any, x: Any) -> Any:
    return x * 2 if x.shape[0] > 4 else x


def test_an_open_size_that_is_needed_as_a_number() -> None:
    net = _open(_number)
    net(ones(4, 2))
    net(ones(7, 2))
    found = last(net)
    assert found.kind == "number" and not found.instance
    assert "np.arange(x.shape[0])" in found.cause and " at test_causes.py:" in found.cause
    assert "axis 0 of x is 7 now" in found.cause


def test_an_open_size_that_is_asked_about() -> None:
    net = _open(_question)
    net(ones(3, 2))
    net(ones(9, 2))
    found = last(net)
    assert found.kind == "question"
    assert "'x.shape[0] > 4' at test_causes.py:" in found.cause
    assert "axis 0 of x is 9 now" in found.cause
    net(ones(8, 2))
    assert ms.explain(net).history[-1].instance


def test_sizes_that_were_equal() -> None:
    net = type("Two", (nn.Cell,), {"construct": lambda self, x, y: x + y})()
    net.set_inputs(*(Tensor(shape=(None,), dtype=ms.float32) for _ in range(2)))
    net(ones(2), ones(2))
    net(ones(3), ones(1))
    found = last(net)
    assert found.kind == "question"
    assert "made it serve axis 0 of x == axis 0 of y alone" in found.cause


def test_a_size_that_is_not_open() -> None:
    net = _open(_question)
    net(ones(3, 2))
    net(ones(0, 2))
    assert last(net).kind == "fixed"


def test_sizes_that_open_by_themselves() -> None:
    fn = ms.jit(lambda x: ops.relu(x) * 2, dynamic=1)
    for n in (2, 3, 5):
        fn(ones(n, 2))
    assert [c.instance for c in ms.explain(fn).history] == [False, False, True]
    fn(ones(5, 3))
    assert last(fn).kind == "size"


def test_a_stale_trace_of_open_sizes() -> None:
    net = _open(lambda self, x: x * FACTOR)
    net(ones(3, 2))
    _set_global(net)
    net(ones(4, 2))
    assert last(net).kind == "variable" and "FACTOR: 2.0 -> 3.0" in last(net).cause


# --- the warning ---------------------------------------------------------------------------------


WARNINGS: dict[str, tuple[Callable[[Net, int], Any], str]] = {
    "list": (lambda n, i: n.scales.__setitem__(0, float(i + 5)), "container"),
    "attribute": (lambda n, i: setattr(n, "scale", float(i + 5)), "attribute"),
    "tensor": (lambda n, i: n.small.__setitem__(0, float(i + 5)), "tensor"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_the_remedy_fits_the_cause(name: str, caplog: pytest.LogCaptureFixture) -> None:
    change, kind = WARNINGS[name]
    net = Net()
    with caplog.at_level(logging.WARNING, "cellc"):
        for i in range(8):
            change(net, i)
            net(ones(2))
    (record,) = caplog.records
    assert f"To avoid it, {REMEDIES[kind]}. " in record.getMessage()
    assert "pad" not in record.getMessage()


def test_a_gradient_says_why() -> None:
    grad = ms.grad(lambda x: ops.relu(x).sum())
    grad(ones(2))
    grad(ones(3))
    assert last(grad).kind == "size"
