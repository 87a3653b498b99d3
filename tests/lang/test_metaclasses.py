"""Classes whose metaclass has an `__eq__` and a `__hash__`: the library asks neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cellc as ms
from cellc import Tensor, jit, nn, ops

MODES = [ms.GRAPH_MODE, ms.PYNATIVE_MODE]


class Meta(type):
    def __eq__(cls, other):
        raise AssertionError("__eq__ of a metaclass was called")

    def __hash__(cls):
        raise AssertionError("__hash__ of a metaclass was called")


class Thing(metaclass=Meta):
    def __init__(self, k=2):
        self.k = k

    def __call__(self, x):
        return x * self.k

    def __getitem__(self, i):
        return self.k + i

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([1, 2])

    def __add__(self, other):
        return self.k + other

    def __iadd__(self, other):
        return self

    def __str__(self):
        return "thing"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __contains__(self, other):
        return other == 1

    def __index__(self):
        return 1

    def __float__(self):
        return 2.0


class Many(list[Any], metaclass=Meta):
    pass


class Named(dict[str, Any], metaclass=Meta):
    pass


class Pair(tuple[Any, ...], metaclass=Meta):
    pass


class Count(int, metaclass=Meta):
    pass


class Rate(float, metaclass=Meta):
    pass


class Label(str, metaclass=Meta):
    pass


class Odd(ValueError, metaclass=Meta):
    pass


class Layer(nn.Cell, metaclass=Meta):
    def construct(self, x):
        return x + 1


X = Tensor([1.0, 2.0])
MANY, NAMED, PAIR = Many([1, X]), Named(a=1, b=X), Pair((1, X))
COUNT, RATE, LABEL, LAYER = Count(3), Rate(2.5), Label("ab"), Layer()


def methods(x, t):
    with t as q:
        y = q(x) * t[1] + len(t) + (t + 1)
    t += 1
    for v in t:
        y = y + v
    return y, 1 in t, float(t), [1, 2, 3][t]


def texts(x, t):
    return f"{t} {t!s}", f"{t}", LABEL + "a", LABEL == "ab", f"{LABEL}", LABEL.upper()


def attributes(x, t):
    t.k = 2
    return x * t.k, t.k, hasattr(t, "z"), len(vars(t)), callable(t)


def containers(x, t):
    a, b, c = [t, t], {"q": t}, (t,)
    return len(tuple(zip(a, b, strict=False))), a[0].k * x, b["q"].k, c[0].k, t in a, t in (1, t), \
        isinstance(t, Thing)


def made(x, t):
    return Thing(4)(x), LAYER(x), inner(t, x=x, q=[t])


def inner(t, x, q, **more):
    return q[0].k * x


def branches(x, t):
    y, i = t, 0
    if x.sum() > 2:
        z = t.k
    else:
        z = t.k + 1
    while i < x.sum():
        i = i + t.k
    return x * z, y.k, i


def raised(x, t):
    try:
        raise Odd("a")
    except ValueError as e:
        return x, str(e)


def derived(x, t):
    lists = x * MANY[0] + MANY[1], len(MANY), [*MANY], MANY + [1], MANY * 2
    dicts = x * NAMED["a"] + NAMED["b"], list(NAMED), NAMED.get("a"), {**NAMED}
    tuples = x * PAIR[0] + PAIR[1], PAIR + (1,), PAIR[0:1]
    numbers = x * COUNT + COUNT, COUNT + 1, range(COUNT)[1], x[:COUNT], x * RATE, max(RATE, 1)
    return lists, dicts, tuples, numbers


def functions(x, t):
    return (sorted([3, 1], key=lambda v: v * t.k), sum([t.k, 2]),
            ops.grad(lambda a: (a * t.k).sum())(x), ops.vmap(lambda a: a * t.k)(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", [methods, texts, attributes, containers, made, branches, raised,
                                  derived, functions])
def test_no_metaclass_is_asked(case: Callable[..., Any], mode: int) -> None:
    ms.set_context(mode=mode)
    expected, thing = repr(case(X, Thing())), Thing()

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.t = thing
            self.held = [MANY, NAMED, PAIR, COUNT, RATE, LABEL]

        def construct(self, x):
            return case(x, self.t)

    net, given = Net(), jit(case)

    @jit
    def captured(x):
        return case(x, thing)

    for _ in range(2):
        assert [repr(f) for f in (net(X), given(X, thing), captured(X))] == [expected] * 3
