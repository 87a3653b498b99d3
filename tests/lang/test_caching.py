"""What makes a compiled entry compile again, and `cellc.explain`."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Parameter, Tensor, nn, ops
from cellc.core import invalidation
from cellc.tracing.reads import same, short

from ..modes.law import mode

SCALE: Any = 2.0
TABLE: Any = {"a": [1.0, 2.0]}


@dataclass
class Config:
    factor: Any = 3.0
    sizes: list[int] = field(default_factory=lambda: [1, 2])


class Slotted:
    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 3.0


class Net(nn.Cell):
    BIAS = 1.0

    def __init__(self, what: Callable[[Net, Tensor], Any]) -> None:
        super().__init__()
        self.what = what
        self.scales = [1.0, 2.0]
        self.nested = {"k": [{"deep": 1.0}]}
        self.chosen = {1, 2}
        self.flag = True
        self.config = Config()
        self.slotted = Slotted()
        self.table = np.array([1.0, 2.0], np.float32)
        self.small = Tensor(np.array([1.0, 2.0], np.float32))
        self.large = Tensor(np.ones(100, np.float32))
        self.w = Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="w")

    def construct(self, x: Tensor) -> Any:
        return self.what(self, x)


def list_item(net: Net, x: Tensor) -> Any:
    return x * net.scales[0]


def list_length(net: Net, x: Tensor) -> Any:
    return x * len(net.scales)


def nested_value(net: Net, x: Tensor) -> Any:
    return x * net.nested["k"][0]["deep"]


def membership(net: Net, x: Tensor) -> Any:
    return x * 2 if 3 in net.chosen else x


def plain_object(net: Net, x: Tensor) -> Any:
    return x * net.config.factor


def list_of_object(net: Net, x: Tensor) -> Any:
    return x * len(net.config.sizes)


def slot(net: Net, x: Tensor) -> Any:
    return x * net.slotted.factor


def array(net: Net, x: Tensor) -> Any:
    return x * Tensor(net.table)


def small_tensor(net: Net, x: Tensor) -> Any:
    return x * net.small


def large_tensor(net: Net, x: Tensor) -> Any:
    return x * net.large.sum()


def parameter(net: Net, x: Tensor) -> Any:
    return x * net.w


def class_attribute(net: Net, x: Tensor) -> Any:
    return x + net.BIAS


def attribute(net: Net, x: Tensor) -> Any:
    return x if net.flag else -x


def global_number(net: Net, x: Tensor) -> Any:
    return x * SCALE


def global_container(net: Net, x: Tensor) -> Any:
    return x * TABLE["a"][0]


def set_global(value: Any) -> None:
    global SCALE
    SCALE = value


CASES: dict[str, tuple[Any, Callable[[Net], Any], str]] = {
    "list item": (list_item, lambda n: n.scales.__setitem__(0, 5.0), "scales of Net"),
    "list length": (list_length, lambda n: n.scales.append(1), "scales of Net"),
    "nested": (nested_value, lambda n: n.nested["k"][0].update(deep=4.0), "nested of Net"),
    "set": (membership, lambda n: n.chosen.add(3), "chosen of Net"),
    "object": (plain_object, lambda n: setattr(n.config, "factor", 7.0),
               r"factor of Config: 3.0 -> 7.0 \(read at test_caching.py:"),
    "list of object": (list_of_object, lambda n: n.config.sizes.append(3), "sizes of Config"),
    "slot": (slot, lambda n: setattr(n.slotted, "factor", 7.0), "factor of Slotted: 3.0 -> 7.0"),
    "array": (array, lambda n: n.table.__setitem__(0, 9.0), "table of Net: array float32"),
    "small tensor": (small_tensor, lambda n: n.small.__setitem__(0, 9.0), "small of Net: Tensor"),
    "class attribute": (class_attribute, lambda n: setattr(Net, "BIAS", 4.0),
                        "BIAS of the class Net: 1.0 -> 4.0"),
    "attribute": (attribute, lambda n: setattr(n, "flag", False),
                  r"flag of Net: True -> False \(read at test_caching.py:"),
    "global": (global_number, lambda n: set_global(3.0),
               r"the variable SCALE: 2.0 -> 3.0 \(read at test_caching.py:"),
    "global container": (global_container, lambda n: TABLE["a"].__setitem__(0, 8.0),
                         "the variable TABLE"),
}


@pytest.fixture(autouse=True)
def _graph_mode() -> Iterator[None]:
    global TABLE
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    Net.BIAS = 1.0
    set_global(2.0)
    TABLE = {"a": [1.0, 2.0]}


def fresh(net: Net, x: Tensor) -> Any:
    """The result in PyNative mode."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        return net(x).asnumpy().tolist()
    finally:
        ms.set_context(mode=ms.GRAPH_MODE)


@pytest.mark.parametrize("name", CASES)
def test_a_change_compiles_what_read_it_again(name: str) -> None:
    what, change, cause = CASES[name]
    net, other = Net(what), Net(lambda n, x: x + 1)
    x = Tensor(np.array([1.0, 2.0], np.float32))
    for _ in range(3):
        before = net(x).asnumpy().tolist()
        other(x)
    assert before == fresh(net, x)
    assert len(net._entries.history) == 1
    change(net)
    for _ in range(3):
        after = net(x).asnumpy().tolist()
        other(x)
    assert after == fresh(net, x) != before
    assert len(net._entries.history) == 2 and len(other._entries.history) == 1
    (found,) = net._entries.causes
    import re

    assert re.match(cause, found), found


@pytest.mark.parametrize(("what", "change"), [
    (large_tensor, lambda n: n.large.__setitem__(0, 9.0)),
    (parameter, lambda n: n.w.set_data(Tensor(np.array([3.0, 4.0], np.float32)))),
    (parameter, lambda n: n.w.__setitem__(0, 5.0)),
    (parameter, lambda n: n.w.asnumpy().__setitem__(0, 5.0)),
])
def test_what_is_bound_is_seen_without_compiling(what: Any, change: Callable[[Net], Any]) -> None:
    net, x = Net(what), Tensor(np.array([1.0, 2.0], np.float32))
    before = net(x).asnumpy().tolist()
    change(net)
    assert net(x).asnumpy().tolist() == fresh(net, x) != before
    assert len(net._entries.history) == 1


def test_equal_values_do_not_compile_again() -> None:
    net, x = Net(list_item), Tensor(np.array([1.0, 2.0], np.float32))
    net(x)
    net.scales[0] = 1.0
    net.scales = net.scales  # setting it is told at once, and counts
    net(x)
    assert len(net._entries.history) == 2
    net.scales[1] = float("2")
    net(x)
    assert len(net._entries.history) == 2
    other = Net(global_number)
    other(x)
    set_global(float("2.0"))
    other(x)
    assert len(other._entries.history) == 1
    set_global(2)  # an int gives another type
    other(x)
    assert len(other._entries.history) == 2


def test_a_list_that_the_network_fills_while_it_is_compiled() -> None:
    class Fills(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []

        def construct(self, x: Tensor) -> Any:
            self.seen.append(1)
            return x * len(self.seen)

    net, x = Fills(), Tensor([1.0])
    for count in (1, 2, 3):  # its length decides what is compiled
        assert net(x).asnumpy().tolist() == [count]
        assert net.seen == [1] * count and len(net._entries.history) == count
    net.seen.clear()
    assert net(x).asnumpy().tolist() == [1.0] and len(net._entries.history) == 3


def test_closures_and_emptied_variables() -> None:
    def make() -> tuple[Any, Any, Any]:
        k: Any = 2.0

        @ms.jit
        def fn(x: Tensor) -> Any:
            return x * k

        def put(v: Any) -> None:
            nonlocal k
            k = v

        def drop() -> None:
            nonlocal k
            del k

        return fn, put, drop

    fn, put, drop = make()
    x = Tensor([3.0])
    assert fn(x).asnumpy().tolist() == [6.0]
    put(5.0)
    assert fn(x).asnumpy().tolist() == [15.0]
    assert "k: 2.0 -> 5.0" in str(ms.explain(fn))
    drop()
    with pytest.raises(NameError, match="the captured variable 'k' has no value yet"):
        fn(x)


def test_the_usual_network_compares_nothing() -> None:
    net = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
                            nn.Dense(32, 4), nn.LayerNorm((4,)), nn.Dropout(p=0.5))
    net.set_train(False)
    net(Tensor(np.ones((2, 1, 4, 4), np.float32)))
    (entry,) = net._entries.entries.values()
    assert entry.read_guards.hold() and entry.read_guards.compared == []

    class Own(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dense(3, 3)
            self.shape, self.scale, self.name = (2, 3), 0.5, "own"

        def construct(self, x: Tensor) -> Any:
            return self.inner(x).reshape(self.shape) * self.scale

    own = Own()
    own(Tensor(np.ones((2, 3), np.float32)))
    (entry,) = own._entries.entries.values()
    # (so that calls can be answered natively)
    assert entry.read_guards.hold() and entry.read_guards.compared == []


def test_explain_tells_signatures_and_causes() -> None:
    class Two(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scale = 2.0

        def construct(self, x: Tensor, n: int = 1) -> Any:
            return ops.relu(x) * self.scale * n

    net = Two()
    assert str(ms.explain(net)) == "Two: nothing has been compiled"
    net(Tensor(np.ones((2, 3), np.float32)))
    net(Tensor(np.ones((4, 3), np.float32)), 3)
    net.scale = 3.0
    found = ms.explain(net)
    assert [e.fresh for e in found.entries] == [False, False]
    net(Tensor(np.ones((2, 3), np.float32)))
    found = ms.explain(net)
    text = str(found)
    assert text.startswith("Two: 2 signatures, 3 compilations in ")
    assert "1. (x: float32[2,3])\n" in text
    assert "2. (x: float32[4,3], n: 3) (out of date" in text
    assert "(x: float32[2,3]) -> (x: float32[4,3], n: 3)" in text
    assert "scale of Two: 2.0 -> 3.0 (read at test_caching.py:" in text
    assert [c.cause.startswith("scale of") for c in found.history] == [False, False, True]
    assert found.entries[0].fresh and found.entries[0].nodes > 0 and found.entries[0].calls == 1
    assert repr(found) == text


def test_mutable_numbers_are_inputs() -> None:
    """Others are compiled for, numpy's too: they are no numbers of the graph."""
    for kind, entries in ((ms.mutable, 1), (float, 2), (np.float64, 2)):
        fn = ms.jit(lambda x, n: (x * n, type(n) is float))
        for n in (1.5, 2.5):
            product, python = fn(Tensor([1.0]), kind(n))
            assert product.asnumpy().tolist() == [n] and python is (kind is not np.float64)
        assert len(fn.table.entries) == entries


def test_open_sizes_are_traced_once() -> None:
    class Row(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            return ops.relu(x).sum(axis=1)

    net = Row()
    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
    for n in (2, 4, 5, 7):
        net(Tensor(np.ones((n, 3), np.float32)))
    found = ms.explain(net)
    assert [c.instance for c in found.history] == [False, True, True, True]
    assert str(found).startswith("Row: 4 signatures, 1 compilation and 3 instances of open sizes")
    assert "compiled again" not in str(found)


def test_a_program_of_the_disk_cache_has_its_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELLC_CACHE_DIR", str(tmp_path))
    found = []
    for _ in range(2):
        net = nn.SequentialCell(nn.Dense(3, 4), nn.LayerNorm((4,)), nn.Dense(4, 2))
        net(ops.ones((2, 3)))
        found.append(ms.explain(net).entries[0])
    made, read = found
    assert (made.cached, read.cached) == (False, True)
    assert made.kernels == read.kernels > 1
    assert made.precomputed_bytes == read.precomputed_bytes


def test_explain_takes_functions_methods_and_gradients() -> None:
    class Has(nn.Cell):
        @ms.jit
        def run(self, x: Tensor) -> Any:
            return x + 1

    owner, x = Has(), Tensor([1.0])
    owner.run(x)
    assert "1 signature" in str(ms.explain(owner.run))
    grad = ms.grad(lambda x: x * x)
    grad(x)
    assert "1 signature" in str(ms.explain(grad))
    for bad in (3, len, Has):
        with pytest.raises(TypeError, match="explain takes a Cell"):
            ms.explain(bad)


def test_a_warning_when_it_compiles_over_and_over(caplog: Any) -> None:
    class Counts(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.step = 0

        def construct(self, x: Tensor) -> Any:
            return x + self.step

    with caplog.at_level(logging.WARNING, "cellc"):
        net = Counts()
        for i in range(9):
            net.step = i
            net(Tensor([1.0]))
        (record,) = caplog.records
        text = record.getMessage()
        assert text.startswith("Counts has been compiled 8 times, in ")
        assert "step of Counts: 6 -> 7" in text and "an argument or a Parameter" in text
        caplog.clear()
        fn = ms.jit(lambda x: x + 1)
        for i in range(1, 10):
            fn(Tensor(np.ones(i, np.float32)))
        assert not caplog.records, "one program serves all sizes"


def test_the_history_does_not_grow_without_end(monkeypatch: Any) -> None:
    from cellc.compiled import entries

    monkeypatch.setattr(entries, "_REMEMBERED", 3)
    fn = ms.jit(lambda x: x + 1)
    for i in range(1, 7):
        fn(Tensor(np.ones(i, np.float32)))
    assert [c.signature for c in fn.table.history] == [
        "(x: float32[1])", "(x: float32[5])", "(x: float32[6])"
    ]


class Scaled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dense(2, 2)
        self.factor = 2.0

    def construct(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.factor


def test_dropped_cells_leave_no_places_that_are_watched() -> None:
    """Memory stays flat however many Cells come and go, and no reader outlives its Cell."""
    def places() -> int:
        gc.collect()
        invalidation.watch([], invalidation.Stale())
        return len(invalidation._readers)

    x = Tensor(np.ones((1, 2), np.float32))
    with mode(ms.GRAPH_MODE):
        kept = Scaled()
        first = kept(x).asnumpy()
        before = places()
        for _ in range(5):
            Scaled()(x)
        assert places() == before
        kept.factor = 4.0  # its own places are there still
        np.testing.assert_array_equal(kept(x).asnumpy(), 2 * first)
        del kept
        assert places() < before


def test_words_and_sameness() -> None:
    assert short([1, "a", None]) == "[1, 'a', None]"
    assert short({"k": Tensor([1.0])}) == "{'k': Tensor float32[1] [1.0]}"
    assert len(short(list(range(100)))) == 60
    assert short(ops.relu) == "relu" and short(object()) == "a object"
    assert same(0.0, 0.0) and not same(0.0, -0.0) and not same(1, 1.0) and not same(1, True)
    assert same(float("nan"), float("nan"))
    assert not same([1], [1])
