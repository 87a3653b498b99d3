"""Classes of the user that extend `dict`, `list`, `tuple`, `str` and `int`: what Python calls of
them is what a graph calls, before and after an edit of the class.

Python's own code calls some methods of such a class and passes by others: `{**d}` takes what a dict
holds unless its class has an `__iter__`, an index that is an int is not asked for its `__index__`.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest

import cellc as ms
from cellc import Tensor, nn

X = Tensor([1.0])


def dict_class() -> Any:
    class D(dict):  # type: ignore[type-arg]
        def __getitem__(self, k: Any) -> Any:
            return 100

        def items(self) -> Any:
            return [("q", 7)]

        def get(self, k: Any, d: Any = None) -> Any:
            return 33

        def __len__(self) -> int:
            return 9

    return D(a=1, b=2)


def walked_dict_class() -> Any:
    d = dict_class()
    type(d).__iter__ = lambda self: iter(["zz"])
    type(d).keys = lambda self: ["z"]
    return d


def list_class() -> Any:
    class L(list):  # type: ignore[type-arg]
        def __getitem__(self, i: Any) -> Any:
            return 40

        def __len__(self) -> int:
            return 5

    return L([1, 2, 3])


def str_class() -> Any:
    class S(str):
        def __str__(self) -> str:
            return "strstr"

        def __format__(self, spec: str) -> str:
            return "formatted" + spec

        def __len__(self) -> int:
            return 50

    return S("ab")


def int_class() -> Any:
    class I(int):  # noqa: E742
        def __index__(self) -> int:
            return 2

        def __lt__(self, other: Any) -> bool:
            return True

        def __eq__(self, other: Any) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    return I(1)


def edit_getitem(value: Any) -> None:
    type(value).__getitem__ = eval("lambda self, k: 5")


def edit_iter(value: Any) -> None:
    type(value).__iter__ = eval("lambda self: iter([5])")


def edit_text(value: Any) -> None:
    type(value).__str__ = eval("lambda self: 'q'")


def edit_index(value: Any) -> None:
    type(value).__index__ = eval("lambda self: 0")


PROGRAMS: list[tuple[Callable[[], Any], Callable[[Any], None], dict[str, Callable[[Any], Any]]]] = [
    (make, edit_getitem, {
        "display": lambda d: sum({**d}.values()),
        "dict": lambda d: sum(dict(d).values()),
        "dict with more": lambda d: sum(dict(d, c=4).values()),
        "union": lambda d: sum((d | {"c": 3}).values()),
        "copy": lambda d: sum(d.copy().values()),
        "copy.copy": lambda d: sum(copy.copy(d).values()),
        "arguments": lambda d: (lambda **k: sum(k.values()))(**d),
        "update": lambda d: (lambda e: (e.update(d), sum(e.values()))[1])({}),
        "counter": lambda d: sum(collections.Counter(d).values()),
        "format_map": lambda d: int("{a}".format_map(d)),
        "percent": lambda d: len("%(a)s" % d),  # noqa: UP031
        "item": lambda d: d["q"] + d["a"] + d.get("a"),
        "itemgetter": lambda d: sum(operator.itemgetter("a", "b")(d)),
    }) for make in (dict_class, walked_dict_class)
] + [
    (list_class, edit_iter, {
        "chain": lambda v: sum(itertools.chain(v, [1])),
        "islice": lambda v: sum(itertools.islice(v, 1)),
        "deque": lambda v: len(collections.deque(v)),
        "counter": lambda v: sum(collections.Counter(v).values()),
        "extended": lambda v: (lambda k: (k.__iadd__(v), sum(k))[1])([]),
        "slice": lambda v: (lambda k: (k.__setitem__(slice(0, 0), v), sum(k))[1])([1]),
        "star": lambda v: sum([*v]) + v[0] + len(v),
        "max": lambda v: max(v),
    }),
    (str_class, edit_text, {
        "percent": lambda s: len("a%sb" % (s,)),  # noqa: UP031
        "format": lambda s: len(format(s)) + len(format(s, "xy")) + len(f"{s}") + len(f"{s!s}"),
        "text": lambda s: len(str(s)) + len(s),
    }),
    (int_class, edit_index, {
        "index": lambda i: [10, 20, 30][i] + len([1, 2, 3][:i]) + operator.index(i),
        "range": lambda i: len(range(i)) + sum(range(i, 4)),
        "extremes": lambda i: max(i, 5) + min(i, 5) + max([7, 8, i]) + 0,
    }),
]
CASES = [pytest.param(make, edit, read, id=f"{make.__name__}-{name}")
         for make, edit, reads in PROGRAMS for name, read in reads.items()]


class Net(nn.Cell):
    def __init__(self, value: Any, read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.value, self.read = (value,), read

    def construct(self, x: Tensor) -> Tensor:
        return x * self.read(self.value[0])


@pytest.mark.parametrize(("make", "edit", "read"), CASES)
def test_python_calls_the_same_methods(make: Any, edit: Any, read: Any) -> None:
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        value = make()
        net = Net(value, read)
        results = [net(X).asnumpy().tolist() for _ in range(2)]
        edit(value)
        results += [net(X).asnumpy().tolist() for _ in range(2)]
        found.append(results)
    assert found[1] == found[0]


def test_what_methods_that_python_calls_read_is_guarded() -> None:
    class L(list):  # type: ignore[type-arg]
        by = 2

        def __iter__(self) -> Any:
            return (v * self.by for v in (1, 2))

    value = L([1])
    net = Net(value, lambda v: sum(itertools.chain(v, [0])) + sum(collections.deque(v)))
    ms.set_context(mode=ms.GRAPH_MODE)
    assert net(X).asnumpy().tolist() == [12.0]
    value.by = 5
    assert net(X).asnumpy().tolist() == [30.0]


class Walked:
    """What functions written in C walk through, index with and round to; each use is counted."""

    def __init__(self) -> None:
        self.k = 2
        self.log: list[str] = []

    def __iter__(self) -> Any:
        self.log.append("iter")
        return iter(range(1, self.k + 1))

    def __index__(self) -> int:
        self.log.append("index")
        return self.k

    def __bool__(self) -> bool:
        return self.k > 1


USES: dict[str, Callable[[Walked], Any]] = {
    "chain": lambda w: sum(itertools.chain(w, w)),
    "islice": lambda w: sum(itertools.islice(w, 1)),
    "accumulate": lambda w: [*itertools.accumulate(w)][-1],
    "product": lambda w: len([*itertools.product(w, w)]),
    "zip_longest": lambda w: len([*itertools.zip_longest(w, [1])]),
    "deque": lambda w: sum(collections.deque(w)),
    "bytes": lambda w: len(bytes(w)),
    "round": lambda w: round(1.23456, w),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_what_functions_in_c_call_has_its_effects_in_every_call(use: Any) -> None:
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        walked = Walked()
        net = Net(walked, use)
        results = []
        for _ in range(2):
            results += [net(X).asnumpy().tolist() for _ in range(2)]
            walked.k = 4
        results += [net(X).asnumpy().tolist()]
        found.append((results, walked.log))
    assert found[1] == found[0]


LOG: list[str] = []


class Number(int):
    """An int whose addition is told; it has no `__sub__` of its own."""

    def __add__(self, other: Any) -> Any:
        LOG.append("add")
        return int(self) + int(other) + 100

    def __radd__(self, other: Any) -> Any:
        LOG.append("radd")
        return int(self) + int(other) + 1000


class Equal(int):
    def __eq__(self, other: Any) -> bool:
        LOG.append("eq")
        return int(self) == other

    __hash__ = int.__hash__


class Meta(type):
    def __iter__(cls) -> Any:
        LOG.append("iter")
        return iter([1, 2])


class Class(metaclass=Meta):
    pass


class State(enum.Enum):
    A = 1

    @classmethod
    def _missing_(cls, value: object) -> Any:
        LOG.append("missing")
        return cls.A


@pytest.mark.parametrize(("value", "read"), [
    (Number(3), lambda n: sum([n, 1]) + (1 + n) - (n - 1) + abs(n)),
    (Class, lambda c: len(collections.deque(c)) + sum(c)),
])
def test_effects_on_globals_happen_in_every_call(value: Any, read: Any) -> None:
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        LOG.clear()
        net = Net(value, read)
        found.append(([net(X).asnumpy().tolist() for _ in range(3)], [*LOG]))
    assert found[1] == found[0]


@pytest.mark.parametrize(("value", "read"), [
    (Equal(3), lambda n: n in [3]),
    (Equal(3), lambda n: [1, 3].index(n)),
    (Equal(3), lambda n: (n,) == (3,)),
    (Number(3), lambda n: operator.add(1, n)),
    (Number(3), lambda n: functools.reduce(operator.add, [1, n])),
    (State, lambda kind: kind(99).value),
])
def test_effects_that_python_itself_would_have_once_are_errors(value: Any, read: Any) -> None:
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(TypeError, match=r"runs Python code that changes objects made outside"):
        Net(value, read)(X)
