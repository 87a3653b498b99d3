"""What special methods of users' objects give is known for one state of them: edits are seen.

Each program is called after each edit, in both modes. Python itself compares, hashes and writes
what containers hold; a `match` reads attributes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

import cellc as ms
from cellc import Tensor, nn

X = Tensor([1.0])


class P:
    """An object with special methods of `k`."""

    __match_args__: ClassVar[tuple[str, ...]] = ("k",)

    def __init__(self, k: int) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.k == other.k  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.k)

    def __lt__(self, other: P) -> bool:
        return self.k < other.k

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.k))

    def __repr__(self) -> str:
        return f"P{self.k}"

    def __add__(self, other: Any) -> Any:
        return self.k + other

    __radd__ = __add__


@dataclasses.dataclass(order=True)
class D:
    """The same, with methods that have no source."""

    k: int
    parts: list[int] = dataclasses.field(default_factory=list)


class S:
    """The same, in a slot."""

    __slots__ = ("k",)
    __init__, __eq__, __lt__ = P.__init__, P.__eq__, P.__lt__  # type: ignore[assignment]

    def __hash__(self) -> int:
        return 1


class K:
    """Constants of patterns."""

    ONE: Any = P(1)
    N = 1


class Net(nn.Cell):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.p, self.q, self.n = kind(1), kind(2), 1
        self.l, self.t, self.d = [kind(1), kind(3)], (kind(1), kind(5)), {"a": kind(1)}
        self.seq, self.map = [1, 2], {"a": 1}


def value(s: Any, x: Any) -> Any:
    match s.p:
        case K.ONE:
            return x * 2
        case _:
            return x * 3


def captured(s: Any, x: Any) -> Any:
    match s.p:
        case P(k=v) if v > 1:
            return x * v
        case P(1) as q:
            return x * (q.k + 10)
        case P(0):
            return x * 20
    return x


def constants(s: Any, x: Any) -> Any:
    match (s.p.k, s.n):
        case (1, K.N):
            return x * 2
        case (a, 7):
            return x * a
        case _:
            return x * 9


def structures(s: Any, x: Any) -> Any:
    match (s.seq, s.map):
        case [1, 2], {"a": 1, **rest}:
            return x * (2 + len(rest))
        case [1, *rest], {"a": k}:
            return x * k * len(rest)
        case _, {"a": int(v)}:
            return x * (v + 30)
    return x


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "in": lambda s, x: x * (2 if s.p in s.l else 3),
    "not in": lambda s, x: x * (2 if s.p not in s.l else 3),
    "index": lambda s, x: x * (s.t.index(s.p) if s.p in s.t else 9),
    "count": lambda s, x: x * s.l.count(s.p),
    "!=": lambda s, x: x * (2 if s.p != s.l[0] else 3),
    "list ==": lambda s, x: x * (2 if [s.p] == [s.l[0]] else 3),
    "tuple <": lambda s, x: x * (2 if (s.p,) < (s.q,) else 3),
    "dict ==": lambda s, x: x * (2 if {"a": s.p} == s.d else 3),
    "nested ==": lambda s, x: x * (2 if [[s.p]] == [[s.t[0]]] else 3),
    "max": lambda s, x: x * max([s.p, s.q]).k,
    "sorted": lambda s, x: x * sorted([s.p, s.q])[0].k,
}
OTHERS: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda s, x: x * len({s.p, s.l[0]}),
    "frozenset": lambda s, x: x * len(frozenset([s.p, s.l[0]])),
    "dict get": lambda s, x: x * {s.l[0]: 5}.get(s.p, 7),
    "dict in": lambda s, x: x * (5 if s.p in {s.l[0]: 5} else 6),
    "format": lambda s, x: x * (2 if "{}".format(s.p) == "P1" else 3),  # noqa: UP032
    "percent": lambda s, x: x * (2 if "%s" % s.p == "P1" else 3),  # noqa: UP031
    "str of a list": lambda s, x: x * (2 if str([s.p]) == "[P1]" else 3),
    "f-string": lambda s, x: x * (2 if f"{[s.p]}" == "[P1]" else 3),
    "sum": lambda s, x: x * sum([s.p, s.q]),
    "fromkeys": lambda s, x: x * len(dict.fromkeys(s.p)),
    "reduce": lambda s, x: x * functools.reduce(lambda a, b: a + b, s.p, 0),
    "value": value, "captured": captured, "constants": constants, "structures": structures,
}


def edits(net: Any) -> Iterator[None]:
    """Each changes what some program says."""
    K.ONE, K.N = P(1), 1
    yield
    for obj, k in ((net.p, 3), (net.q, 0), (net.l[0], 3), (net.d["a"], 3), (net.t[0], 3),
                   (net.p, 0), (net.p, 5)):
        obj.k = k
        yield
    net.seq.append(4)
    net.map["b"] = 2
    yield
    net.seq[0], net.map["a"], net.n = 9, 8, 7
    yield
    K.ONE, K.N = P(5), 7
    yield
    del net.map["a"]
    yield


def results(body: Callable[[Any, Any], Any], kind: Any, mode: int) -> list[float]:
    ms.set_context(mode=mode)
    net = type("Net", (Net,), {"construct": body})(kind)
    return [float(net(X)[0]) for _ in edits(net)]


@pytest.mark.parametrize(("name", "kind"), [
    *((n, k) for n in COMPARED for k in (P, D, S)), *((n, P) for n in OTHERS)],
    ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_edits_are_seen(name: str, kind: Any) -> None:
    body = (COMPARED | OTHERS)[name]
    expected = results(body, kind, ms.PYNATIVE_MODE)
    assert results(body, kind, ms.GRAPH_MODE) == expected
    assert len(set(expected)) > 1
