"""Statements and expressions on values known while compiling."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import functools
import math
from collections import namedtuple
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .table import Table

Array = np.ndarray[Any, Any]
case = Table(np.array([1, 2], np.float32), np.array([-1.5, 0.5, 4], np.float32))


Point = namedtuple("Point", "x y")


@dataclass
class Pair:
    a: Any
    b: Any = 2

    def total(self) -> Any:
        return self.a + self.b

    @property
    def double(self) -> Any:
        return self.total() * 2


class Base:
    scale = 3

    def __init__(self, k: int) -> None:
        self.k = k
        self.__hidden = k * 10

    def apply(self, x: Any) -> Any:
        return x * self.scale + self.k

    def hidden(self) -> int:
        return self.__hidden

    @staticmethod
    def twice(x: Any) -> Any:
        return x * 2

    @classmethod
    def make(cls, k: int) -> Base:
        return cls(k)

    def __call__(self, x: Any) -> Any:
        return self.apply(x)


class Derived(Base):
    scale = 5

    def apply(self, x: Any) -> Any:
        return super().apply(x) + 1


@contextmanager
def quiet() -> Any:
    yield 4


class Manager:
    def __init__(self) -> None:
        self.log: list[str] = []

    def __enter__(self) -> Manager:
        self.log.append("in")
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        self.log.append("out" if kind is None else kind.__name__)
        return kind is ValueError


def shout(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs) + 100

    return wrapper


@shout
def decorated(x: Any) -> Any:
    return x * 2


def keyword_only(x: Any, *rest: Any, k: int = 2, **more: Any) -> Any:
    return x * k + sum(rest) + more.get("z", 0)


def positional(a: Any, b: Any, /, c: Any = 1) -> Any:
    return a + b * c


def countdown(n: int) -> Any:
    while n:
        yield n
        n -= 1


CONSTANT = 7


# --- assignment -----------------------------------------------------------------------------------

@case
def tuple_assignment(x: Any) -> Any:
    a, b = x + 1, 3
    a, b = b, a
    return a, b


@case
def nested_targets(x: Any) -> Any:
    (a, (b, *c)), d = (x, (1, 2, 3)), 4
    return a + b, c, d


@case
def starred_in_the_middle(x: Any) -> Any:
    first, *middle, last = [1, 2, 3, 4, 5]
    return x * first, middle, last


@case
def starred_empty(x: Any) -> Any:
    a, *b = (x,)
    return a, b


@case
def chained_assignment(x: Any) -> Any:
    a = b = x * 2
    a = a + 1
    return a, b


@case
def annotated(x: Any) -> Any:
    y: int = 3
    z: int
    return x + y


@case
def augmented(x: Any) -> Any:
    k = 2
    k += 3
    k *= 2
    k -= 1
    k //= 2
    k **= 2
    k %= 7
    k <<= 2
    k |= 1
    k ^= 3
    k &= 30
    k >>= 1
    return x + k


@case
def augmented_tensor(x: Any) -> Any:
    y = x + 0
    y += 1
    y *= 2
    y -= x
    y /= 2
    return y


@case
def augmented_list(x: Any) -> Any:
    a = [1]
    b = a
    a += [2]
    b.append(3)
    d = {"k": [x]}
    d["k"] += [x + 1]
    return a, d


@case
def list_aliasing(x: Any) -> Any:
    a = [x, 1]
    b = a
    b[1] = 2
    del a[0]
    return a, b


@case
def dict_updates(x: Any) -> Any:
    d = {"a": x, "b": 2}
    d["c"] = x + 1
    d.update({"b": 5}, e=6)
    del d["a"]
    popped = d.pop("e")
    return d, popped, list(d.keys()), [v for v in d.values()], sorted(d)


@case
def slices_of_lists(x: Any) -> Any:
    a = list(range(10))
    a[2:4] = [0, 0, 0]
    return a[::-2], a[1:3], a[-1], (x, x)[::-1]


@case
def delete_name(x: Any) -> Any:
    y = x
    del y
    y = 3
    return y


@case
def walrus(x: Any) -> Any:
    if (n := 4) > 3:
        x = x + n
    return x, [last := i for i in range(3)], last


@case
def attribute_of_object(x: Any) -> Any:
    p = Pair(x)
    p.b = 7
    p.a = p.a + p.b
    return p.total(), p.double


# --- control flow on known values -----------------------------------------------------------------

@case
def if_elif_else(x: Any) -> Any:
    n = len(x)
    if n == 1:
        return x
    elif n == 2:
        y = x * 2
    else:
        y = x * 3
    return y


@case
def early_return(x: Any) -> Any:
    for i in range(10):
        if i == 3:
            return x + i
    return x


@case
def for_else(x: Any) -> Any:
    for i in range(3):
        if i == 5:
            break
    else:
        x = x + 10
    for i in range(3):
        if i == 1:
            break
    else:
        x = x + 100
    return x, i


@case
def while_else(x: Any) -> Any:
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            continue
        x = x + n
    else:
        x = x * 2
    while True:
        n += 1
        if n > 8:
            break
    return x, n


@case
def nested_loops(x: Any) -> Any:
    for i in range(3):
        for j in range(3):
            if j > i:
                break
            if (i + j) % 2:
                continue
            x = x + i * 10 + j
    return x


@case
def loop_over_things(x: Any) -> Any:
    for i, (a, b) in enumerate(zip([1, 2], (3, 4)), start=1):
        x = x + i * a * b
    for k, v in {"a": 1, "b": 2}.items():
        x = x + v
    for c in "ab":
        x = x + ord(c)
    for i in reversed(range(3)):
        x = x * 2 + i
    for v in sorted([3, 1, 2], key=lambda q: -q, reverse=True):
        x = x - v
    return x


@case
def loop_over_rows(x: Any) -> Any:
    total = 0
    for row in x:
        total = total * 2 + row
    return total


@case
def pass_and_docstring(x: Any) -> Any:
    """A docstring."""
    if len(x) > 100:
        pass
    ...
    return x


@case
def match_values(x: Any) -> Any:
    out = []
    for v in (1, 2.5, "s", None, [1, 2], [1, 2, 3], {"k": 3, "r": 4}, (), Point(1, 2), True):
        match v:
            case True:
                out.append("true")
            case 1 | 2:
                out.append("one")
            case float(f):
                out.append(f)
            case "s":
                out.append("str")
            case None:
                out.append("none")
            case Point(x=0):
                out.append("origin")
            case Point(px, y=py) if px < py:
                out.append((px, py))
            case [a, b]:
                out.append((a, b))
            case [a, *rest]:
                out.append(rest)
            case {"k": k, **more}:
                out.append((k, more))
            case _:
                out.append("other")
    return x, out


# --- try, with, assert ------------------------------------------------------------------------------

@case
def try_except(x: Any) -> Any:
    log = []
    try:
        log.append(1)
        raise ValueError("v")
    except (KeyError, ValueError) as e:
        log.append(str(e))
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        y = {}["missing"]
    except KeyError:
        y = 5
    try:
        pass
    except Exception:
        log.append("no")
    else:
        log.append("else")
    return x + y, log


@case
def try_reraise(x: Any) -> Any:
    def inner() -> Any:
        try:
            return [][1]
        except IndexError:
            raise

    try:
        return inner()
    except IndexError:
        return x


@case
def finally_return(x: Any) -> Any:
    log = []
    for i in range(3):
        try:
            if i == 1:
                continue
            log.append(i)
        finally:
            log.append("f")
    return x, log


@case
def with_statement(x: Any) -> Any:
    m = Manager()
    with m as inside, quiet() as four:
        y = x + four
    with Manager() as n:
        raise ValueError
    return y, m.log, n.log, inside is m


@case
def assertions(x: Any) -> Any:
    assert len(x) > 0, "empty"
    assert x.shape[0] == len(x)
    return x


# --- functions ------------------------------------------------------------------------------------

@case
def nested_function(x: Any) -> Any:
    k = 2

    def inner(a: Any, b: Any = k) -> Any:
        return a * b + k

    k = 5
    return inner(x), inner(x, 3)


@case
def closures(x: Any) -> Any:
    def adder(n: Any) -> Any:
        return lambda a: a + n

    fs = [adder(i) for i in range(3)]
    gs = [lambda a: a + i for i in range(3)]
    return [f(x) for f in fs], [g(x) for g in gs]


@case
def nonlocal_counter(x: Any) -> Any:
    n = 0

    def bump() -> int:
        nonlocal n
        n += 1
        return n

    bump()
    bump()
    return x + n


@case
def recursion(x: Any) -> Any:
    def power(n: int) -> Any:
        return 1 if n == 0 else x * power(n - 1)

    return power(5)


@case
def arguments(x: Any) -> Any:
    args, kw = (1, 2), {"k": 3, "z": 4}
    return (keyword_only(x), keyword_only(x, *args), keyword_only(x, *args, **kw),
            positional(x, 1), positional(x, 1, c=2), positional(*[x, 2], 3))


@case
def partials(x: Any) -> Any:
    f = functools.partial(positional, x, c=4)
    return f(2), functools.partial(f, 3)()


@case
def decorators(x: Any) -> Any:
    @shout
    def inner(a: Any) -> Any:
        return a * 3

    return decorated(x), inner(x)


@case
def classes(x: Any) -> Any:
    b, d = Base(1), Derived(2)
    return b.apply(x), d(x), d.hidden(), Base.twice(x), Derived.make(4).k, getattr(d, "apply")(x)


@case
def tuples_with_names(x: Any) -> Any:
    p = Point(x, y=2)
    q = p._replace(y=5)
    return p.x + q.y, q[1], isinstance(p, tuple)


@case
def generator_helper(x: Any) -> Any:
    return x * sum(countdown(4)), list(countdown(2))


@case
def mutable_default(x: Any) -> Any:
    def f(a: Any, acc: Any = None) -> Any:
        acc = [] if acc is None else acc
        acc.append(a)
        return acc

    return f(x), f(1, [2])


# --- expressions ----------------------------------------------------------------------------------

@case
def arithmetic(x: Any) -> Any:
    return x + 1 - 2 * x / 4, -x, +x, 7 // 2, -7 % 3, 2 ** 10, 7 & 3 | 8 ^ 1, ~5, 1 << 4 >> 2


@case
def comparisons(x: Any) -> Any:
    return x > 1, x == x, 1 < 2 < 3, 3 > 2 > 5, "a" in "abc", 4 not in [1, 2], x is None, x is x


@case
def boolean_values(x: Any) -> Any:
    return (0 or "a"), (1 and 2), ([] or None), (not []), (1 and 0 or 3), None is not x


@case
def conditional_expression(x: Any) -> Any:
    return x + (1 if len(x) > 1 else 2), ("a" if 0 else "b")


@case
def comprehensions(x: Any) -> Any:
    return ([i * x for i in range(3) if i != 1], {i: j for i, j in zip("ab", (1, 2))},
            sorted({i % 3 for i in range(10)}), sum(i for i in range(5)),
            [(i, j) for i in range(3) for j in range(i)], tuple(v + 1 for v in x))


@case
def strings(x: Any) -> Any:
    n, name = 3, "net"
    return (x, f"{name}-{n:03d} {n!r} {n=}", "%s:%d" % (name, n), "{}/{k}".format(n, k=name),
            name.upper() + ",".join(["a", "b"]))


@case
def displays(x: Any) -> Any:
    return [*range(2), x], (*(1, 2), 3), {**{"a": 1}, "b": x}, sorted({*[1, 2], 3})


@case
def builtins_on_numbers(x: Any) -> Any:
    return (x, abs(-3), round(2.567, 1), divmod(7, 2), pow(2, 3), min(3, 1, 2), max([1, 5]),
            min("ab", key=ord), sum([1, 2], 10), all([1, 0]), any([0, 2]), int("4"), float("2.5"),
            bool([]), str(12), list("ab"), tuple([1]), sorted(set([2, 1])), dict(a=1), len("abc"),
            isinstance(3, (int, str)), callable(len), hasattr(x, "shape"),
            getattr(x, "nothing", 9), list(map(lambda a, b: a + b, [1, 2], [3, 4])),
            list(filter(None, [0, 1, 2])), functools.reduce(lambda a, b: a * b, [1, 2, 3, 4], 2),
            list(enumerate("ab")), hex(255), chr(65), issubclass(bool, int))


@case
def math_functions(x: Any) -> Any:
    return x * math.sqrt(16.0), math.pi, math.floor(2.7), math.prod((2, 3))


@case
def numpy_on_known_values(x: Any) -> Any:
    k = int(np.prod(x.shape))
    return x * k, float(np.sqrt(4.0)), np.arange(3).tolist()


@case
def globals_and_modules(x: Any) -> Any:
    import math as m
    from math import pow as power

    return x + CONSTANT, m.factorial(4), power(2.0, 3.0)


@case
def map_over_tensors(x: Any) -> Any:
    return list(map(lambda r: r * 2, x)), sum([x, x, x]), [*reversed(list(x))]


@case
def shapes(x: Any) -> Any:
    n, = x.shape
    return x.shape, x.ndim, n * 2, len(x), x.shape[0] > 1
