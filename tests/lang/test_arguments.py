"""Lists, dicts and objects given as arguments and changed: the caller sees what Python would do,
in both modes, call after call."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cellc as ms
from cellc import Tensor, nn
from cellc.compiled.program_entry import CompiledEntry
from cellc.compiled.traced import trace


@dataclass
class Bag:
    """An object that holds a tensor, a number and a list."""

    value: Tensor
    count: int
    seen: list[Any]


def _x(first: float = 0.0) -> Tensor:
    return Tensor(np.arange(3, dtype=np.float32) + np.float32(first))


def grown(x: Tensor, items: list[Any]) -> Any:
    items.append(x + 1)
    items[0] = x * 2
    return len(items)


def keyed(x: Tensor, table: dict[str, Any]) -> Any:
    table["a"] = x * 2
    table.setdefault("new", []).append(x)
    table.pop("b", None)
    return table["a"]


def two(x: Tensor, a: list[Any], b: list[Any]) -> Any:
    a.append(x)
    b[0] = x * 5
    return len(a) + len(b), a[0]


def of_object(x: Tensor, bag: Bag) -> Any:
    bag.value = x * 3
    bag.count += 1
    bag.seen.append(x)
    return bag.value + bag.count


def deep(x: Tensor, items: list[Any]) -> Any:
    inner = items[-1]
    inner["k"].append(x + 1)
    items.insert(0, x)
    inner["z"] = len(items)
    return inner["k"][-1]


def chosen(x: Tensor, items: list[Any]) -> Any:
    if x.sum() > 4:
        items[0] = x * 10
    else:
        items[0] = x * 20
    return items[0]


def looped(x: Tensor, items: list[Any]) -> Any:
    while x.sum() < 20:
        x = x + 1
        items[0] = items[0] + x
    return x


def reordered(x: Tensor, items: list[Any]) -> Any:
    items.clear()
    items.extend([x, 1])
    items.reverse()
    items += [3]
    del items[0]
    return items[0]


def queued(x: Tensor, items: deque[Any]) -> Any:
    items.append(x)
    return items.popleft() + x


def _twice() -> tuple[Any, ...]:
    items = [_x()]
    return items, items


CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (grown, lambda: ([_x()],)),
    (keyed, lambda: ({"a": _x(), "b": 1},)),
    (two, lambda: ([_x()], [_x()])),
    (two, _twice),
    (of_object, lambda: (Bag(_x(), 1, []),)),
    (deep, lambda: ([{"k": [_x()]}],)),
    (chosen, lambda: ([_x()],)),
    (looped, lambda: ([_x()],)),
    (reordered, lambda: ([1, 2],)),
    (queued, lambda: (deque([_x()]),)),
]


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return str(value.dtype), value.asnumpy().tobytes()
    if isinstance(value, (list, tuple, deque)):
        return type(value).__name__, [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, Bag):
        return {k: _plain(v) for k, v in vars(value).items()}
    return value


def _history(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], mode: int) -> Any:
    ms.set_context(mode=mode)

    class Net(nn.Cell):
        def construct(self, *args: Any) -> Any:
            return function(*args)

    net, found = Net(), []
    for first in (0.0, 2.0):
        args = make()
        for _ in range(2):
            found.append((_plain(net(_x(first), *args)), _plain(args)))
    return found


@pytest.fixture(autouse=True)
def _mode() -> Any:
    before = ms.get_context("mode")
    yield
    ms.set_context(mode=before)


@pytest.mark.parametrize(("function", "make"), CASES)
def test_the_caller_sees_the_change(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]
) -> None:
    assert _history(function, make, 0) == _history(function, make, 1)


def test_one_list_given_twice_is_one_list() -> None:
    """Two lists, then one: the second call must not take the program of the first."""
    ms.set_context(mode=0)
    net = ms.jit(two)
    a, b = [_x()], [_x()]
    assert net(_x(), a, b)[0] == 3 and (len(a), len(b)) == (2, 1)
    one = [_x()]
    assert net(_x(), one, one)[0] == 4 and len(one) == 2
    assert one[0].asnumpy().tolist() == (_x() * 5).asnumpy().tolist()


def test_a_graph_that_is_run_without_a_call_changes_nobodys_list() -> None:
    ms.set_context(mode=0)
    items, x = [_x()], _x()
    traced = trace(grown, (x, items), {})
    entry = CompiledEntry(traced, "grown")
    for _ in range(2):
        assert entry.run([x.asnumpy(), items[0].asnumpy()]) == 2
    assert len(items) == 1
    assert entry.call([x.asnumpy(), items[0].asnumpy()], (x, items), {}) == 2
    assert len(items) == 2
