"""Built-in functions, math and functools on known values and on tensors."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

import cellc as ms

from .table import X, Y, Table

case = Table(X, Y)
M = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
I = np.array([7, -8, 3], np.int32)


@case.on(X, M)
def length(x: Any) -> Any:
    return len(x), len([1, x]), len({"a": 1}), len("abc"), len(range(5)), len(())


@case.on(M)
def folds(x: Any) -> Any:
    """Of every three known values and values of the run."""
    marks = [True, False, x[0, 0] > 0, x[0, 0] < 0]
    threes = [(a, b, c) for a in marks for b in marks for c in marks]
    return [(all(t), any(t), all(v for v in t), any(list(t))) for t in threes]


@case.on(M)
def extremes_of_three(x: Any) -> Any:
    """Of every three numbers, some of them of the run, in each place; and sums of them."""
    numbers = [2, 0.5, x[0, 0], x[1, 1]]
    threes = [(a, b, c) for a in numbers for b in numbers for c in numbers]
    return [(max(t), min(*t), sum(t), sum(t[1:], t[0])) for t in threes], \
        max([3, 1], default=2), min([], default=x), abs(x[0, 0]), max(threes[0], key=lambda v: -v)


@case
def ranges(x: Any) -> Any:
    return x, list(range(3)), list(range(1, 7, 2)), range(5)[2], 3 in range(5), len(range(2, 9)), range(3) == range(0, 3), \
        list(range(3))[::-1], range(10)[2:5], max(range(4)), sum(range(5))


@case
def enumerates(x: Any) -> Any:
    return list(enumerate([x, 1])), list(enumerate("ab", 3)), dict(enumerate("ab")), [i * v for i, v in enumerate(x)]


@case
def zips(x: Any) -> Any:
    return list(zip([1, 2], [x, 3])), list(zip("ab", range(9), [True, None])), dict(zip("ab", (x, 1))), list(zip()), \
        [a * b for a, b in zip(x, x)], tuple(zip([1]))


@case
def maps(x: Any) -> Any:
    return list(map(lambda v: v + x, [1, 2])), list(map(str, [1, 2])), list(map(max, [1, 5], [3, 2])), \
        tuple(map(abs, x)), list(map(int, "12")), dict(map(lambda k: (k, x), "ab"))


@case
def filters(x: Any) -> Any:
    return x, list(filter(None, [0, 1, "", "a"])), list(filter(lambda v: v > 1, range(4))), \
        tuple(filter(str.isdigit, "a1b2")), [v for v in filter(lambda t: len(t) > 0, [[], [x]])]


@case
def reductions(x: Any) -> Any:
    return (functools.reduce(lambda a, b: a + b, [x, x, 1]), functools.reduce(lambda a, b: a * b, [2, 3], x),
            functools.reduce(lambda a, b: b, [1]))


@case
def sorting(x: Any) -> Any:
    return (x, sorted([3, 1, 2]), sorted([3, 1], reverse=True), sorted("bca"), sorted(["bb", "a"], key=len),
            sorted({2: x, 1: x}), list(reversed([1, x])), list(reversed("ab")), list(reversed(range(3))),
            sorted([(1, "b"), (1, "a")]), sorted([x, 1], key=lambda v: isinstance(v, int)))


@case
def extremes(x: Any) -> Any:
    return (min(3, 1, 2), max([1, 5, 2]), min("hello"), max([1, 2], key=lambda v: -v), min([], default=7),
            max((1, 2), (1, 3)), min([x, x], key=lambda v: 0), max({"a": 1, "b": 0}), max(*[4, 9]))


@case
def extremes_of_tensors(x: Any) -> Any:
    return max(x[0], x[1]), min(x[0], x[1], x[2]), max(x)


@case.on(widen=True)
def extremes_of_tensors_and_numbers(x: Any) -> Any:
    return min([x[0], 0.5]), max(x.sum(), 0), max(1, x[0], 2)


@case
def extreme_by_key_of_tensors(x: Any) -> Any:
    return max([x, x + 1, x * 2], key=lambda v: v.sum()), min(x, key=lambda v: abs(v))


@case
def sums(x: Any) -> Any:
    return sum([1, 2]), sum([x, x]), sum([x], x), sum([1, 2], 10), sum((v for v in [1, 2])), sum(x), sum([], 5), \
        sum([[1], [2]], [])


@case
def all_and_any(x: Any) -> Any:
    return all([1, 2]), all([1, 0]), any([0, 3]), any([]), all([]), all(v > 0 for v in [1]), any(x > 2), all(x > -9), \
        any([x.sum() > 0, False])


@case
def rounding(x: Any) -> Any:
    return abs(-3), abs(x), round(2.5), round(3.14159, 2), round(1234, -2), pow(2, 5), pow(3, 2, 5), pow(x, 2), \
        divmod(17, 5), divmod(-7.5, 2)


@case
def conversions(x: Any) -> Any:
    return (int(3.7), int("12"), int("ff", 16), int(True), float("1.5"), float(2), float("inf"), bool([]), bool("a"),
            bool(0.0), str(12), str(None), str([1, "a"]), complex(1, 2), int(-3.9), float("-2e3"), x)


@case
def container_conversions(x: Any) -> Any:
    return list("ab"), tuple([1, x]), set([1, 1]), dict([("a", x)]), dict(a=1, b=x), list({"k": 1}), tuple(x), list(), \
        dict({"a": 1}, b=2), list((1,)), tuple({3: 1}), frozenset([1]), list(range(2)), list(x)[1]


@case
def isinstance_of_everything(x: Any) -> Any:
    return (isinstance(1, int), isinstance(True, int), isinstance(1.0, (int, str)), isinstance("a", str),
            isinstance([x], list), isinstance((), tuple), isinstance({}, dict), isinstance(None, type(None)),
            isinstance(x, int), isinstance(len, int), issubclass(bool, int), isinstance({1}, set))


@case.on(X, python=False)
def isinstance_of_tensors(x: Any) -> Any:
    p = ms.Parameter
    return isinstance(x, ms.Tensor), isinstance(x, (list, ms.Tensor)), type(x) is ms.Tensor, isinstance(x.sum(), ms.Tensor), \
        isinstance(x, p), type(x) == ms.Tensor, isinstance(x.shape, tuple), isinstance(x.dtype, type(ms.float32))


@case
def types(x: Any) -> Any:
    return type(1) is int, type("a") == str, type([]) is list, type(None), type(1.5).__name__, type(type(1)) is type, x


class Box:
    kind = "box"

    def __init__(self, v: Any) -> None:
        self.v = v
        self.count = 0


@case
def attributes_by_name(x: Any) -> Any:
    b = Box(x)
    had = hasattr(b, "v"), hasattr(b, "w"), hasattr(x, "shape"), hasattr(Box, "kind")
    setattr(b, "w", 5)
    setattr(b, "count", b.count + 1)
    delattr(b, "w")
    return had, getattr(b, "v"), getattr(b, "w", "gone"), getattr(b, "kind"), b.count, hasattr(b, "w"), callable(getattr(x, "sum"))


@case
def callables(x: Any) -> Any:
    return callable(len), callable(3), callable(lambda: 1), callable(Box), callable(x.sum), x


@case
def identity_without_id(x: Any) -> Any:
    a, b = [x], [x]
    return a is b, a is a, a[0] is b[0], x is a[0]


@case
def characters(x: Any) -> Any:
    return x, ord("a"), chr(98), hex(255), bin(5), oct(8), ascii("é"), repr("a"), format(3.14159, ".2f"), format(5, "03d")


@case
def slices_as_values(x: Any) -> Any:
    s = slice(0, 2)
    return x[s], [1, 2, 3][s], s.start, s.stop, slice(None, None, -1), "abc"[slice(1, None)]


@case
def iterators(x: Any) -> Any:
    it = iter([1, x, 3])
    a = next(it)
    b = next(it)
    return a, b, list(it), next(iter([]), "empty"), next(iter({"k": 1}))


@case
def math_functions(x: Any) -> Any:
    return (x * math.sqrt(9), math.pi, math.e, math.exp(0.5), math.log(2), math.log2(8), math.log10(100), math.sin(1),
            math.cos(1), math.tanh(0.5), math.floor(2.7), math.ceil(2.1), math.trunc(-2.5), math.pow(2, 3), math.inf,
            math.isnan(math.nan), math.factorial(5), math.gcd(12, 18), math.prod([1, 2, 3]), math.fsum([0.1] * 10),
            math.hypot(3, 4), math.isclose(0.1 + 0.2, 0.3), math.atan2(1, 2), math.degrees(1.0), math.copysign(1, -2), math.comb(5, 2))


@case
def math_on_tensors_of_one_element(x: Any) -> Any:
    s = abs(x.sum())
    return math.sqrt(s), math.floor(x[1]), math.ceil(x[1] * 0.7), math.isnan(s), math.isfinite(s), math.fabs(x[1])


@case
def itertools_on_containers(x: Any) -> Any:
    return (list(itertools.chain([1], [x])), list(itertools.product([1, 2], "ab")), list(itertools.accumulate([1, 2, 3])),
            list(itertools.combinations("abc", 2)), list(itertools.islice(itertools.count(3), 2)), list(itertools.repeat(x, 2)),
            list(itertools.zip_longest([1, 2], [3], fillvalue=0)), list(itertools.starmap(lambda a, b: a * b, [(x, 2)])),
            list(itertools.accumulate([x, x], lambda a, b: a + b)), list(itertools.pairwise([1, 2, 3])))


@case
def numpy_on_known_values(x: Any) -> Any:
    w = np.linspace(0, 1, 3).astype(np.float32)
    return x * float(w[1]), np.prod(x.shape), int(np.argmax([1, 5, 2])), np.sqrt(16.0), np.arange(3).tolist(), np.pi, \
        np.array([[1, 2]]).shape


@case
def dictionary_dispatch(x: Any) -> Any:
    table = {int: lambda v: v + 1, str: lambda v: v + "!", float: lambda v: v / 2}
    return x, [table[type(v)](v) for v in (1, "a", 3.0)]


@case
def text_functions(x: Any) -> Any:
    s = " Hello, World "
    return (x, s.strip().lower(), s.split(","), "-".join(["a", "b"]), s.replace("l", "L"), s.find("o"), "a,b".partition(","),
            "abc".upper().startswith("A"), "x".center(5, "*"), "7".zfill(3), "aXb".swapcase(), "%5.2f|%-4d|%x" % (3.14159, 5, 255),
            "{:>5}|{:<4}|{:^6}|{:+d}|{:,}".format("a", "b", "c", 5, 1234567), f"{3.14159:.3f} {5!r:>4} {'a':*^5} {10:#x} {0.25:.0%}",
            "{0}{1}{0}".format("a", "b"), "{k[a]}".format(k={"a": 1}), "a\tb".expandtabs(4), "ab".encode(), "line\nline".splitlines())


@case
def pow_and_abs_of_numbers(x: Any) -> Any:
    return [pow(a, b) for a in (2, 0.5, -3) for b in (0, 1, 2, 3)], [abs(v) for v in (-1, 2.5, -0.0, True)], x


@case.on(I)
def builtins_on_integer_tensors(x: Any) -> Any:
    return abs(x), max(x), min(x), int(x[0]), float(x[1]), bool(x[2]), x[0] // 2, x % 4
