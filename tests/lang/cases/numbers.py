"""Numbers that only the run knows: they stay Python's numbers, weak beside tensors."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import math
from typing import Any

import numpy as np

import cellc as ms
from cellc import Tensor

from .table import X, Y, Table

I = np.array([3, -2, 4], np.int32)
H = np.array([3, -2, 4], np.float16)
L = np.array([3, 0, 7], np.int64)
case = Table(X, Y)


def from_tensors(x: Any) -> Any:
    return int(x.sum()), float(x[1]), bool(x[0] > 0)


case(from_tensors)


@case
def item(x: Any) -> Any:
    return x[0].item(), x.sum().item() * 2, (x > 0).sum().item()


@case
def tolist(x: Any) -> Any:
    return x.tolist(), x[1].tolist(), sum(x.tolist())


@case.on(I, H, X, L)
def int_is_weak(x: Any) -> Any:
    return x * int(x.sum())


@case.on(I, H, X, python=False)
def float_is_weak(x: Any) -> Any:
    return x * float(x.sum()), float(x[0]) + x, 2 - x / float(x[2])


@case.on(I, H, L, python=False)
def bool_is_weak(x: Any) -> Any:
    return x + bool(x.sum() > 2), x * bool(x[0])


@case
def int_arithmetic(x: Any) -> Any:
    n = int(x.sum() * 4)
    return n + 3, n - 3, 3 - n, n * n, n // 3, n % 3, 7 // (n * n + 1), -n, +n, abs(n), n / 4, 1 / (n * n + 3)


@case
def float_arithmetic(x: Any) -> Any:
    f = float(x.sum()) / 7
    return f + 0.1, f - 1, 0.3 * f, f / 3, f // 0.25, f % 0.25, -7.5 // f, -7.5 % f, -f, abs(f), divmod(f, 0.5)


@case
def int_division_like_python(x: Any) -> Any:
    n = int(x.sum() * 8)
    return [(n // k, n % k, divmod(n, k)) for k in (1, 2, 3, 5, -1, -2, -3, -7)]


@case
def float_floor_division_is_exact(x: Any) -> Any:
    f = float(abs(x[0])) * 0 + 1.0
    return f // 0.1, f % 0.1, -f // 0.1, f // -0.1, divmod(f, 0.1)


@case
def doubles_stay_doubles(x: Any) -> Any:
    f = float(x[0]) * 0.1
    g = f + 0.2
    return g, g * g, x * g, g == 0.30000000000000004


@case
def bit_operations(x: Any) -> Any:
    n = int(x.sum() * 4)
    return n & 6, n | 9, n ^ 5, ~n, n << 2, n >> 1, 1 << abs(n) % 8


@case
def bools(x: Any) -> Any:
    a, b = bool(x[0] > 0), bool(x[1] > 0)
    return a & b, a | b, a ^ b, a + b, a * 3, not a, a == b, a and b, a or b, -a, ~a


@case
def comparisons(x: Any) -> Any:
    n = int(x.sum() * 2)
    return n > 2, n < 2.5, 3 == n, n != 4, 0 < n < 10, n >= n, n in (4, 5), n not in [4], n is n


@case
def powers(x: Any) -> Any:
    n, f = int(x.sum()), float(x[2])
    return n ** 2, n ** 0, n ** 1, n ** 3, f ** 2, f ** 0, 2.0 ** abs(n)


@case
def conversions(x: Any) -> Any:
    n, f = int(x.sum() * 2), float(x[1]) * 1.25
    return int(f), float(n), bool(n), int(n), bool(f), int(n > 0), float(n > 0)


@case
def rounding(x: Any) -> Any:
    f = float(x.sum()) * 1.25
    return round(f), math.floor(f), math.ceil(f), math.trunc(f), round(int(f)), round(2.5), round(3.5)


@case
def chosen_number(x: Any) -> Any:
    k = 3 if x.sum() > 0 else 4
    return k, k * 2, x * k


@case.on(I, python=False)
def chosen_float_beside_ints(x: Any) -> Any:
    k = 0.5 if x.sum() > 0 else 1.5
    return x * k, k


@case
def chosen_bool(x: Any) -> Any:
    b = x.sum() > 0 and True
    k = True if x.sum() > 0 else False
    return k, not k


@case
def counter(x: Any) -> Any:
    n = 0
    while x.sum() < 12:
        x = x + 1
        n += 1
    return n, x * n


@case.on(I, python=False)
def counter_beside_small_ints(x: Any) -> Any:
    n = 0
    while (x + n).sum() < 40:
        n = n + 1
    return x + n, n


@case
def float_counter(x: Any) -> Any:
    t = 0.0
    while x.sum() < 9:
        x = x + 1
        t += 0.1
    return t, x


@case
def int_becomes_float(x: Any) -> Any:
    t = 1
    while t < 6:
        t = t * 1.5
    total = 0
    while x.sum() < 12:
        x = x + 1
        total = total + 0.5
    return t, total


@case
def number_of_a_range(x: Any) -> Any:
    out = []
    last = 0
    for i in range(int(x.sum() * x.sum())):
        last = i
        x = x + i
    return x, last


@case.on(I, L)
def range_over_a_tensor(x: Any) -> Any:
    total = 0
    for i in range(x[0]):
        total = total + i
    return total, x + total


@case
def number_as_index(x: Any) -> Any:
    n = int(x.sum() > 0)
    return x[n], x[n + 1], x[-n]


@case
def number_into_a_tensor(x: Any) -> Any:
    y = x * 1
    y[0] = int(x.sum())
    y[1] = float(x[2]) + 0.5
    return y


@case
def returned_early(x: Any) -> Any:
    n = 0
    while n < 10:
        x = x + 1
        if x.sum() > 12:
            return n
        n = n + 1
    return -1


@case
def in_containers(x: Any) -> Any:
    n = int(x.sum())
    return {"n": n, "l": [n, (n, 2, x)]}, [n] * 2, (n,) + (1,)


@case
def minimum_and_maximum(x: Any) -> Any:
    n, f = int(x.sum()), float(x[0])
    return min(n, 3), max(n, 1, 2), min(f, 0.5), max([n, n + 1])


@case
def sums_and_folds(x: Any) -> Any:
    ns = [int(v) for v in x]
    return sum(ns), all(n > -5 for n in ns), any(n > 2 for n in ns), len(ns)


@case
def type_of_numbers(x: Any) -> Any:
    n, f, b = int(x.sum()), float(x[0]), bool(x[0] > 0)
    return (isinstance(n, int), isinstance(n, float), isinstance(f, (float, str)), isinstance(b, bool),
            isinstance(b, int), type(n) is int, type(f) == float)


@case
def helper_on_numbers(x: Any) -> Any:
    def gcd(a: Any, b: Any) -> Any:
        while b != 0:
            a, b = b, a % b
        return a

    return gcd(abs(int(x.sum() * 8)), 12)


@case
def collatz(x: Any) -> Any:
    n, steps = abs(int(x.sum())) + 5, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@case
def condition_on_numbers(x: Any) -> Any:
    n = int(x.sum())
    if n:
        x = x + 1
    if not n > 3 or n == -4:
        x = x * 2
    return x if n > 0 else -x


@case.on(X, python=False)
def as_tensors(x: Any) -> Any:
    n, f = int(x.sum()), float(x[0])
    return Tensor(n), Tensor(f), Tensor(n, ms.float32), Tensor(True if n > 0 else False)


@case.on(X, I, H, python=False)
def in_functions(x: Any) -> Any:
    n = int(x.sum())
    return ms.ops.add(x, n), ms.ops.maximum(x, n), ms.ops.mul(n, x), ms.ops.where(x > n, x, n), ms.ops.pow(x, 2)


class Rate(float):
    """A float of one's own."""


@case
def floats_of_one_s_own(x: Any) -> Any:
    rate = Rate(1.5) if x.sum() > 0 else Rate(2.5)
    while x.sum() < 5:
        x, rate = x + 1, rate + Rate(1.5)
    return x * rate, rate


@case.on(dtypes=False)
def floats_of_numpy(x: Any) -> Any:
    rate = np.float64(1.5) if x.sum() > 0 else np.float64(2.5)
    while x.sum() < 5:
        x, rate = x + 1, rate * np.float64(2)
    return x * rate


@case.on((X, 3), (Y, 2.5), (X, True))
def given_numbers(x: Any, n: Any) -> Any:
    return x * n, n, n + 1


@case.on((X, 2), (X, 5), make=True, python=False)
def mutable_numbers() -> Any:
    def run(x: Any, n: Any) -> Any:
        m = ms.mutable(n)
        return x * m, m + 1

    return run


@case.on(np.array([5, -3], np.int64))
def shifts_by_numbers(x: Any) -> Any:
    n = abs(int(x[1]))
    return x << n, x >> n, n << 2, 1024 >> n


@case
def divisions_in_branches_not_taken(x: Any) -> Any:
    n = int(x.sum() > 0)
    k = 12
    if n != 0:
        k = k // n
    return k, (10 / n if n else 0.0)
