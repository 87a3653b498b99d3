"""Operators on numbers, tensors and mixes; conditional expressions, boolean operators, slices."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from typing import Any

import numpy as np

import cellc as ms

from .table import X, Y, Table

case = Table(X, Y)
I = np.array([7, -8, 3], np.int32)
J = np.array([2, 3, -2], np.int32)
L = np.array([5, -6, 2], np.int64)
H = np.array([1.5, -2, 3], np.float16)
B = np.array([True, False, True])
M = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
T = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@case
def arithmetic_with_numbers(x: Any) -> Any:
    return x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, x / 4 + 2, -x, +x, abs(x)


@case.on((X, Y))
def arithmetic_of_tensors(x: Any, y: Any) -> Any:
    return x + y, x - y, x * y, x / y, -x + y * 2 - x / y


@case.on((I, J))
def integer_arithmetic(x: Any, y: Any) -> Any:
    return x + y, x - y, x * y, x // y, x % y, -x, abs(x), x // 2, x % 3, 7 // y, -7 % y


@case.on((X, Y))
def float_floor_and_modulo(x: Any, y: Any) -> Any:
    return x // 2, x % 2, 7 // y, x % y


@case
def powers(x: Any) -> Any:
    return x ** 2, x ** 1, abs(x) ** 0.5, (x * x) ** 0, 2 ** 5, (-3) ** 3


@case.on((I, J))
def bit_operations(x: Any, y: Any) -> Any:
    return x & y, x | y, x ^ y, x & 1, x | 4


@case.on((B, B[::-1].copy()))
def bool_tensors(a: Any, b: Any) -> Any:
    return a & b, a | b, a ^ b, ~a, a == b, a != b


@case.on((X, Y), (I, J))
def comparisons(x: Any, y: Any) -> Any:
    return x < y, x <= y, x > y, x >= y, x == y, x != y, x < 1, 1 < x, x == 3, 3 != x


@case.on((M, M.T.copy()))
def matrix_product(a: Any, b: Any) -> Any:
    return a @ b, b @ a, a @ b[:, 0], a[0] @ b


@case.on((X, M), (X[:1], M))
def broadcasting(x: Any, m: Any) -> Any:
    return x + m, m * x, m - x[0], (m > x), x / (m + 10)


@case.on((I, X), (H, X), (L, I), (B, I), (B, X), (H, I), python=False)
def promotion_of_tensors(a: Any, b: Any) -> Any:
    return a + b, a * b, a > b, a / b if a.dtype != ms.bool_ else a


@case.on(I, H, L, X, B, python=False)
def promotion_with_numbers(x: Any) -> Any:
    return x + 1, x * 2.5, x * True, 1 + x, x > 0.5, x == 1, x / 2


@case.on((X, 2), (I, 2), (I, 2.5), (H, 3), python=False)
def number_argument(x: Any, k: Any) -> Any:
    return x * k, k - x, x > k, x % k, k / (x + 20)


@case
def precedence(x: Any) -> Any:
    return 1 + x * 2 ** 2, -x ** 2, (x + 1) * 2 - 3, 2 - -x, not x[0] > 1, 1 < 2 == True, 7 & 3 | 8 ^ 1


@case
def chained_comparisons_known(x: Any) -> Any:
    n = 3
    return x, 1 < n < 5, 1 < n > 2, 3 == n == 3, 5 > n > 4 > 1, 1 < 2 < 3 < 4, n != 2 != 3


@case
def chained_comparison_of_tensors(x: Any) -> Any:
    s = x.sum()
    if -5 < s < 3:
        return x + 1
    return x - 1


@case
def chained_is_evaluated_once(x: Any) -> Any:
    log = []

    def v(k: int) -> int:
        log.append(k)
        return k

    r = v(1) < v(2) < v(3), v(5) < v(4) < v(6)
    return x, r, log


@case
def boolean_operators_give_operands(x: Any) -> Any:
    return (x, 0 or 5, 3 and 4, None or "d", [] or {}, 1 and [] or "e", 0 and undefined, 1 or undefined,
            not 0, not "a", not None and 3)


@case
def boolean_operators_on_tensors(x: Any) -> Any:
    s = x.sum()
    out = x
    if s > 0 and x[0] > 0:
        out = out + 1
    if s < 0 or x[1] > 100:
        out = out + 2
    if not (s > 0) and not (x[2] > 0):
        out = out + 4
    if s > 0 and len(x) == 3 or s < -100:
        out = out + 8
    return out


@case
def short_circuit_protects(x: Any) -> Any:
    l = []
    safe = len(l) > 0 and l[0] > 1
    d = {}
    e = "k" in d and d["k"] or "none"
    return x, safe, e


@case
def conditional_expressions(x: Any) -> Any:
    n = len(x)
    a = "long" if n > 2 else "short"
    b = x if n == 2 else x + 1 if n == 3 else x - 1
    return a, b, (1 if [] else 2), [i if i % 2 else -i for i in range(4)]


@case
def conditional_on_tensors(x: Any) -> Any:
    s = x.sum()
    a = x + 1 if s > 0 else x - 1
    b = (x if s > 1 else -x) if s < 100 else x * 0
    c = (s, x) if s > 0 else (s * 2, x + 1)
    return a, b, c, [x[0] if s > 0 else x[1]]


@case
def identity(x: Any) -> Any:
    y = x
    n = None
    return x is y, x is not y, n is None, n is not None, x is None, True is True, (x is x) and 1, [] is []


@case
def membership(x: Any) -> Any:
    return (1 in (1, 2), "a" in {"a": 1}, 3 not in [1], "b" in "abc", 2 in range(0, 10, 2), 2 in {1, 3}, None in [None],
            1 in {1: x}, (1, 2) in [(1, 2)], x)


@case
def number_operators(x: Any) -> Any:
    return (x, 7 / 2, 7 // 2, -7 // 2, 7 % -3, 2 ** -1, 2 ** 0.5, 10 ** 2, 5 & 6, 5 | 8, 5 ^ 1, ~7, 1 << 5, 64 >> 2,
            3.5 // 1, -3.5 % 2, +True, -False, True + True, 1j * 1j, 0.1 + 0.2, 1e3, 0x1F, 0b101, 1_000, divmod(-7, 2))


@case
def string_operators(x: Any) -> Any:
    return x, "a" + "b", "ab" * 3, "abc"[1], "abc"[::-1], "a" < "b", "b" in "abc", "%d-%s" % (1, "z"), "a" "b", r"\n"


@case.on(T)
def slices_of_tensors(x: Any) -> Any:
    return (x[0], x[-1], x[0, 1], x[0][1][2], x[:, 1], x[..., 0], x[0, ..., 1:3], x[:, ::2], x[1:, :2, 1:-1],
            x[None, 0, 0], x[:, None, 0, 0], x[0, 0, ::-1], x[-1, -2:, -3], x[:, :, 1:3][0])


@case.on(T)
def slices_with_computed_bounds(x: Any) -> Any:
    n = x.shape[2]
    s = slice(1, n - 1)
    return x[0, 0, s], x[:, : n // 2, n // 2:], x[tuple([0, 1])], x[(0, slice(None), 1)], x[0, min(2, n)]


@case.on(T)
def index_by_lists(x: Any) -> Any:
    return x[[0, 1, 0]], x[:, [2, 0]], x[0, [1, 2], [0, 3]]


@case
def assignments_by_index(x: Any) -> Any:
    y = x * 1
    y[0] = 5
    y[1:] = y[:2] * 2
    y[-1] += 1
    z = y
    z[...] = z + 1
    return y


@case.on(T)
def assignments_by_slices(x: Any) -> Any:
    y = x * 1
    y[0, 1] = 0
    y[:, 0, ::2] = -1
    y[..., -1] *= 2
    return y


@case
def computed_attributes(x: Any) -> Any:
    return getattr(x, "shape"), getattr(x, "missing", "none"), x.shape[0] * x.ndim, x.T.shape, x.size


@case
def ellipsis_and_constants(x: Any) -> Any:
    return x[...], ..., None, True, False, __debug__, NotImplemented


@case
def walrus_in_expressions(x: Any) -> Any:
    return (n := 3) + n, [m := 2, m * x], (k := x.sum()) + k


@case
def and_or_idiom(x: Any) -> Any:
    s = x.sum()
    n = len(x)
    return (s > 0 and 1 or 2, s > 0 and n > 2 and "known" and 5 or 6, n > 2 and s > 0 and s * 2 or s + 100,
            n > 5 and 1 or 2, s > 100 and s or s < -100 and s * 2 or s * 3)
