"""Loops over what is known while compiling."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

from typing import Any

import numpy as np

from .table import X, Y, Table

case = Table(X, Y)
M = np.arange(12, dtype=np.float32).reshape(3, 4) - 5


@case
def over_range_forms(x: Any) -> Any:
    out = []
    for i in range(3):
        out.append(i)
    for i in range(2, 5):
        out.append(i)
    for i in range(5, 0, -2):
        out.append(i)
    for i in range(0):
        out.append("never")
    return x, out, i


@case
def over_sequences(x: Any) -> Any:
    for v in [1, 2.5, x]:
        x = x + v
    for v in (1, 2):
        x = x * v
    for c in "ab":
        x = x + len(c)
    for v in {3}:
        x = x - v
    return x


@case
def over_enumerate(x: Any) -> Any:
    out = []
    for i, v in enumerate(x):
        out.append(v * i)
    for i, v in enumerate(["a", "b"], 5):
        out.append((i, v))
    for i, (a, b) in enumerate([(1, 2), (3, 4)], start=-1):
        out.append(i + a * b)
    for pair in enumerate([x]):
        out.append(pair)
    return out


@case
def over_zip(x: Any) -> Any:
    out = []
    for a, b in zip(x, [1, 2, 3]):
        out.append(a * b)
    for a, b, c in zip("ab", (x, x + 1), range(9)):
        out.append((a, b, c))
    for a, b in zip([1, 2], [3]):
        out.append(a + b)
    for (t,) in zip([7]):
        out.append(t)
    return out


@case
def over_dict_views(x: Any) -> Any:
    d = {"a": x, "b": x * 2}
    out = []
    for k in d:
        out.append(k)
    for k in d.keys():
        out.append(k + "!")
    for v in d.values():
        out.append(v)
    for k, v in d.items():
        out.append((k, v + 1))
    for i, (k, v) in enumerate(d.items()):
        out.append(v * i)
    return out


@case
def over_map_filter_reversed(x: Any) -> Any:
    out = []
    for v in map(lambda t: t + x, [1, 2]):
        out.append(v)
    for v in filter(lambda t: t % 2, range(5)):
        out.append(v)
    for v in reversed([1, x]):
        out.append(v)
    for v in sorted({3, 1, 2}):
        out.append(v)
    for v in (i * i for i in range(3)):
        out.append(v)
    return out


@case.on(M)
def over_rows_of_a_matrix(x: Any) -> Any:
    total = 0
    for i, row in enumerate(x):
        total = total + row * i
    for row in x:
        for v in row:
            total = total + v
    return total


@case.on(M)
def over_two_tensors(x: Any) -> Any:
    out = []
    for a, b in zip(x, x[::-1]):
        out.append((a * b).sum())
    return out


@case
def nested_with_break(x: Any) -> Any:
    found = []
    for i in range(4):
        for j in range(4):
            if j == i:
                break
            if (i + j) % 3 == 0:
                continue
            found.append((i, j))
        else:
            found.append("whole")
    return x, found


@case
def return_from_nested(x: Any) -> Any:
    for i in range(5):
        for j in range(5):
            if i * j == 6:
                return x * i + j
    return x


@case
def for_else_both_ways(x: Any) -> Any:
    log = []
    for stop in (1, 9):
        for i in range(3):
            if i == stop:
                log.append("broke")
                break
        else:
            log.append("finished")
    for i in []:
        pass
    else:
        log.append("empty")
    return x, log


@case
def for_else_with_return(x: Any) -> Any:
    def find(n: int) -> Any:
        for i in range(3):
            if i == n:
                return i
        else:
            return "none"

    return x, find(1), find(7)


@case
def break_in_else(x: Any) -> Any:
    log = []
    for i in range(3):
        for j in range(2):
            pass
        else:
            log.append(i)
            break
        log.append("never")
    return x, log


@case
def while_with_everything(x: Any) -> Any:
    n, log = 0, []
    while n < 10:
        n += 1
        if n % 2:
            continue
        if n == 8:
            break
        log.append(n)
    else:
        log.append("never")
    while n > 5:
        n -= 1
    else:
        log.append("else")
    return x * n, log


@case
def while_true_known(x: Any) -> Any:
    n = 0
    while True:
        n += 2
        if n > 6:
            return x + n


@case
def while_on_list(x: Any) -> Any:
    stack, out = [1, [2, [3, 4]], 5], []
    while stack:
        top = stack.pop()
        if isinstance(top, list):
            stack.extend(top)
        else:
            out.append(top)
    return x, out


@case
def changed_while_walked(x: Any) -> Any:
    d = {"a": 1, "b": 2}
    for k in list(d):
        d[k + k] = d.pop(k)
    return x, d


@case
def loop_variable_survives(x: Any) -> Any:
    for i in range(3):
        y = i
    return x, i, y


@case
def loop_target_forms(x: Any) -> Any:
    d, l = {}, [0]
    for d["k"] in range(3):
        pass
    for l[0] in (5, 6):
        pass
    for (a, [b, *c]) in [(1, [2, 3, 4])]:
        pass
    return x, d, l, a, b, c


@case
def accumulates_in_list(x: Any) -> Any:
    outs = []
    h = x * 0
    for step in range(4):
        h = h * 0.5 + x
        outs.append(h)
    return outs, outs[-1], sum(outs)


@case
def fibonacci(x: Any) -> Any:
    a, b = 0, 1
    while b < 50:
        a, b = b, a + b
    return x * a


@case
def triangle(x: Any) -> Any:
    rows = [[i * j for j in range(i + 1)] for i in range(4)]
    total = 0
    for row in rows:
        for v in row:
            total += v
    return x + total, rows


@case
def iterator_protocol(x: Any) -> Any:
    it = iter([1, 2, x])
    first = next(it)
    rest = list(it)
    last = next(it, "done")
    return first, rest, last


class Numbers:
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return iter(range(self.n))

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i * 10

    def __contains__(self, v: Any) -> bool:
        return v == 42

    def __bool__(self) -> bool:
        return self.n > 2


@case
def over_an_object(x: Any) -> Any:
    n = Numbers(3)
    return x, [i for i in n], len(n), n[2], 42 in n, 1 in n, bool(n), 1 if n else 2, list(Numbers(2))


@case
def runtime_if_in_loop(x: Any) -> Any:
    for i in range(4):
        if x.sum() > i:
            x = x - 1
        else:
            x = x + 2
    return x


@case
def runtime_break_then_use(x: Any) -> Any:
    n = 0
    for i in range(5):
        if x.sum() > 4:
            break
        x = x + 1
        n = i
    return x, n


@case
def runtime_continue(x: Any) -> Any:
    out = x * 0
    for i in range(4):
        x = x + 1
        if x[0] > 3:
            continue
        out = out + x * i
    return out


@case
def runtime_return_in_nested(x: Any) -> Any:
    for i in range(3):
        for j in range(2):
            x = x + 1
            if x.sum() > 9:
                return x * 10 + i, j
    return x, -1


@case
def runtime_break_of_two(x: Any) -> Any:
    n = 0
    for i in range(3):
        for j in range(3):
            if x.sum() > 6:
                break
            x = x + 1
            n += 1
        if x.sum() > 5:
            break
    return x, n


@case
def while_inside_for(x: Any) -> Any:
    for i in range(3):
        while x.sum() < i * 5:
            x = x + 1
    return x


@case
def for_inside_while(x: Any) -> Any:
    while x.sum() < 10:
        for i in range(3):
            if x[0] > 5:
                break
            x = x + i
        else:
            x = x + 0.5
    return x


@case
def while_two_conditions(x: Any) -> Any:
    n = 0
    while x.sum() < 30 and n < 6:
        x = x * 1.5 + 1
        n += 1
    return x, n


@case
def while_not(x: Any) -> Any:
    while not x.sum() > 10:
        x = x + 2
    return x


@case
def while_true_runtime_continue(x: Any) -> Any:
    n = 0
    while True:
        n = n + 1
        x = x + 1
        if n < 3:
            continue
        if x.sum() > 8:
            break
    return x, n


@case
def runtime_while_else(x: Any) -> Any:
    n = 0
    while x.sum() < 7:
        x = x + 1
        n += 1
        if n == 3:
            break
    else:
        n = 100
    return x, n


@case
def nested_runtime_whiles_with_return(x: Any) -> Any:
    n = 0
    while x.sum() < 40:
        m = 0
        while m < 3:
            x = x + 1
            m = m + 1
            if x.sum() > 25:
                return x, n, m
        n = n + 1
    return x, n, 0


@case
def newton(x: Any) -> Any:
    a = abs(x.sum()) + 1
    r = a
    while abs(r * r - a) > 0.001:
        r = (r + a / r) / 2
    return r


@case
def power_iteration(x: Any) -> Any:
    v = x
    for _ in range(5):
        v = v / abs(v).max()
    return v
