"""Corners of the language: seldom written, and combinations of what the other tables have apart."""
# The programs use Python in every way, good style or not.
# ruff: noqa

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import cellc as ms
from cellc import Parameter, Tensor, nn, ops

from .table import X, Y, Table

case = Table(X, Y)
I = np.array([6, 3, 12], np.int32)
M = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@case.on(M)
def starred_index(x: Any) -> Any:
    at = (1, 2)
    return x[*at], x[*at[:1], 0], x[(*at,)]


@case.on(I)
def augmented_bit_operators(x: Any) -> Any:
    y = x * 1
    y |= 1
    y &= 14
    y ^= x
    z = x * 1
    z //= 4
    z %= 2
    return y, z


@case.on(M)
def augmented_matmul(x: Any) -> Any:
    y = x @ x.T
    y @= y
    return y


@case
def nested_f_strings(x: Any) -> Any:
    w, v = 8, 3.14159
    return x, f"{v:{w}.{w // 4}f}|{f'{w}':>{w}}|{ {'a': 1}['a'] }|{w!r:>4}|{(lambda q: q + 1)(2)}"


@case
def complex_targets(x: Any) -> Any:
    class_like = {"l": [0, [1, 2]]}
    class_like["l"][1][0], (class_like["m"], *class_like["l"][1][1:]) = x, (5, 6)
    return class_like


@case
def keyword_print(x: Any) -> Any:
    print("a", "b", sep=None, end=None, flush=True)
    print(x.sum(), flush=True)
    return x


@case
def conditional_import_and_alias(x: Any) -> Any:
    if len(x) > 1:
        from math import floor as down
    else:
        from math import ceil as down
    return x * down(2.5)


@dataclass
class Item:
    kind: str
    value: Any = None


@case
def match_positional_classes(x: Any) -> Any:
    out = []
    for item in (Item("a", 1), Item("b", x), Item("c")):
        match item:
            case Item("a", v):
                out.append(v)
            case Item(kind="b", value=v) if v is not None:
                out.append(v + 1)
            case Item(k):
                out.append(k)
    return out


@case
def try_finally_with_runtime_return(x: Any) -> Any:
    log = []
    try:
        if x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
        return y
    finally:
        log.append(1)


@case
def loop_with_try_and_runtime_if(x: Any) -> Any:
    for key in ("a", "b"):
        try:
            k = {"a": 2}[key]
        except KeyError:
            k = 3
        if x.sum() > 0:
            x = x * k
        else:
            x = x - k
    return x


@case
def runtime_conditions_deep(x: Any) -> Any:
    def grade(v: Any) -> Any:
        if v > 2:
            if v > 10:
                return 5
            elif v > 5:
                return 4
            return 3
        elif v > 0:
            return 2
        else:
            if v < -3:
                return 0
        return 1

    return [grade(v) for v in x], grade(x.sum()), grade(x.max() * 10)


@case
def early_exits_in_many_loops(x: Any) -> Any:
    count = 0
    for i in range(4):
        j = 0
        while j < 3:
            j += 1
            if x.sum() > 12:
                return x, count, "full"
            if x[0] > 4:
                break
            if j == 2:
                continue
            x = x + 1
            count += 1
        else:
            count += 10
        if count > 22:
            break
    return x, count, "full"


@case
def state_machine(x: Any) -> Any:
    state, n = 0, 0
    total = x.sum()
    while state != 3:
        if state == 0:
            total = total + 2
            state = 1 if total > 3 else 2
        elif state == 1:
            total = total - 5
            state = 3
        else:
            total = total * 0.5 + 3
            state = 0
        n += 1
    return total, n


@case
def bisection(x: Any) -> Any:
    target = abs(x.sum()) + 2
    lo, hi = 0.0, 10.0
    for _ in range(12):
        mid = (lo + hi) / 2
        if mid * mid > target:
            hi = mid
        else:
            lo = mid
    return lo, hi


@case
def bubble_sort_of_elements(x: Any) -> Any:
    v = [x[0], x[1], x[2]]
    for i in range(3):
        for j in range(2 - i):
            if v[j] > v[j + 1]:
                v[j], v[j + 1] = v[j + 1], v[j]
    return v


@case
def sieve(x: Any) -> Any:
    n = 30
    prime = [True] * n
    prime[0] = prime[1] = False
    for i in range(2, int(n ** 0.5) + 1):
        if prime[i]:
            for j in range(i * i, n, i):
                prime[j] = False
    return x, [i for i, p in enumerate(prime) if p]


@case
def horner(x: Any) -> Any:
    return functools.reduce(lambda acc, c: acc * x + c, [1, -2, 3], 0)


@case
def matrix_by_lists(x: Any) -> Any:
    a = [[x[i] * x[j] for j in range(3)] for i in range(3)]
    return sum(a[i][i] for i in range(3)), [sum(row) for row in a], list(map(list, zip(*a)))[0][2]


@case
def memo_dictionary(x: Any) -> Any:
    memo = {}

    def fib(n: int) -> Any:
        if n in memo:
            return memo[n]
        memo[n] = x if n < 2 else fib(n - 1) + fib(n - 2)
        return memo[n]

    return fib(8), len(memo)


@case
def closures_change_each_other(x: Any) -> Any:
    def account() -> Any:
        balance = x

        def deposit(v: Any) -> Any:
            nonlocal balance
            balance = balance + v
            return balance

        def show() -> Any:
            return balance

        return deposit, show

    d, s = account()
    d(1)
    if x.sum() > 0:
        d(10)
    return s()


@case
def class_body_values(x: Any) -> Any:
    return x * Settings.gain + Settings.table["k"], Settings.double(x), Settings.nested.depth


class Settings:
    gain = 2
    table = {"k": 3}

    @staticmethod
    def double(v: Any) -> Any:
        return v * 2

    class nested:
        depth = 7


@case
def varargs_of_tensors(x: Any) -> Any:
    def total(*vs: Any, **kw: Any) -> Any:
        out = 0
        for v in vs:
            out = out + v
        for k in sorted(kw):
            out = out * kw[k]
        return out

    return total(*x), total(x, x, a=2, b=x), total(*[x] * 3, **dict(z=1))


@case
def any_all_short_circuit(x: Any) -> Any:
    seen = []

    def note(v: Any) -> Any:
        seen.append(v)
        return v

    r = any(note(v) for v in [0, 2]), all(note(v) for v in [1, 0])
    return x, r, seen


@case
def sorting_pairs_stably(x: Any) -> Any:
    rows = [("b", 2, x), ("a", 2, x + 1), ("c", 1, x)]
    return [r[0] for r in sorted(rows, key=lambda r: r[1])], sorted(rows, key=lambda r: (r[1], r[0]))[1][2]


@case
def string_building_loop(x: Any) -> Any:
    out = ""
    for i, c in enumerate("abc"):
        out += c * (i + 1)
    return x, out, out[::-1].title(), [*out][2:4]


@case
def default_dict_of_lists(x: Any) -> Any:
    from collections import Counter, defaultdict

    groups = defaultdict(list)
    for i, v in enumerate(x):
        groups[i % 2].append(v)
    return dict(groups), Counter("aab")["a"]


@case
def swap_under_condition(x: Any) -> Any:
    a, b = x, x * 2
    if a.sum() > b.sum():
        a, b = b, a
    return a - b


@case
def runtime_or_of_containers(x: Any) -> Any:
    opts = None
    chosen = opts or {"k": 2}
    name = (x.sum() > 0) and 1 or 2
    return chosen, x * chosen["k"]


@case.on(make=True, python=False)
def decorated_construct() -> Any:
    def logged(fn: Any) -> Any:
        @functools.wraps(fn)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return fn(self, *args, **kwargs) * self.k

        return wrapper

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.k = 3

        @logged
        def construct(self, x: Any, y: Any = 1) -> Any:
            return x + y

    return Net()


@case.on(make=True, python=False)
def jit_inside_cell() -> Any:
    @ms.jit
    def helper(v: Any) -> Any:
        return v * 2

    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            return helper(x) + self.method(x)

        @ms.jit
        def method(self, x: Any) -> Any:
            return x - 1

    return Net()


@case.on(make=True, python=False)
def partial_of_a_method() -> Any:
    class Net(nn.Cell):
        def construct(self, x: Any) -> Any:
            f = functools.partial(self.scale, k=3)
            g = self.scale
            return f(x), g(x, 2), list(map(functools.partial(self.scale, k=2), [x]))

        def scale(self, x: Any, k: int) -> Any:
            return x * k

    return Net()


@case.on(make=True, python=False)
def mixin_cells() -> Any:
    class Norm:
        eps = 0.5

        def norm(self, x: Any) -> Any:
            return x / (abs(x).max() + self.eps)

    class Base(nn.Cell, Norm):
        def construct(self, x: Any) -> Any:
            return self.norm(x)

    class Net(Base):
        eps = 1.5

        def construct(self, x: Any) -> Any:
            return super().construct(x) * 2, Base.construct(self, x)

    return Net()


@case.on(make=True, python=False)
def recurrent_cell_by_hand() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = Parameter(Tensor(np.eye(3, dtype=np.float32) / 2), name="w")

        def construct(self, x: Any) -> Any:
            h = ops.zeros((3,), ms.float32)
            outs = []
            for t in range(4):
                h = ops.tanh(ops.matmul(self.w, h) + x * t)
                outs.append(h)
            return ops.stack(outs), h

    return Net()


@case.on(make=True, python=False)
def parameters_in_containers() -> Any:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.p = Parameter(Tensor(np.ones(3, np.float32)), name="p")
            self.q = Parameter(Tensor(np.ones(3, np.float32) * 2), name="q")

        def construct(self, x: Any) -> Any:
            table = {"p": self.p, "q": self.q}
            for name, p in table.items():
                x = x * p
            first, *rest = [self.p, self.q]
            return x, first + rest[0], [p + 0 for p in table.values()]

    return Net()


@case.on(make=True, python=False)
def optional_sublayer() -> Any:
    class Net(nn.Cell):
        def __init__(self, norm: Any) -> None:
            super().__init__()
            self.norm = nn.ReLU() if norm else None
            self.extra = None

        def construct(self, x: Any, mask: Any = None) -> Any:
            if self.norm is not None:
                x = self.norm(x)
            if mask is not None:
                x = x * mask
            return x if self.extra is None else self.extra(x)

    return Net(True)


@case.on((X, None), (X, Y), python=True)
def optional_tensor_argument(x: Any, mask: Any) -> Any:
    return x if mask is None else x * mask


@case.on((X, [Y, X], {"k": 2}), python=True)
def several_structured_arguments(x: Any, pair: Any, options: Any) -> Any:
    a, b = pair
    return a * options["k"] + b, options.get("missing", x)


@case
def numbers_and_tensors_in_one_list(x: Any) -> Any:
    vs = [1, x, 2.5, x.sum()]
    out = x * 0
    for v in vs:
        out = out + v
    return out, [isinstance(v, (int, float)) for v in vs]


@case
def unused_and_underscore_names(x: Any) -> Any:
    _, unused, (_, y) = 1, 2, (3, x)
    for _ in range(2):
        y = y + _
    return y, _


@case
def global_objects_changed_inside(x: Any) -> Any:
    local = dict(TABLE)
    local["n"] = 5
    return x * local["n"], TABLE["n"]


TABLE = {"n": 1}


@case
def conditional_expression_of_functions(x: Any) -> Any:
    f = abs if len(x) == 3 else sum
    return f(x), (lambda v: v + 1 if True else v)(x)


@case
def range_in_conditions(x: Any) -> Any:
    return x, 5 in range(0, 10, 5), [i for i in range(10) if i in range(2, 5)], range(3) == range(3), bool(range(0))


@case
def chained_methods_on_strings_and_lists(x: Any) -> Any:
    words = "the quick brown fox".split()
    return x, " ".join(w.capitalize() for w in reversed(words)), max(words, key=len), {w: len(w) for w in words}


@case
def long_arithmetic_chain(x: Any) -> Any:
    y = x
    for i in range(30):
        y = y + x * i - i / 2
    return y


@case
def integer_loop_over_tensor_values(x: Any) -> Any:
    total = 0.0
    for v in x.tolist():
        if v > 0:
            total = total + v
    return total


@case
def item_controls_loop(x: Any) -> Any:
    n = abs(int(x[0]))
    y = x
    while n > 0:
        y = y + n
        n -= 1
    return y, n


@case
def nested_runtime_functions(x: Any) -> Any:
    def outer(v: Any) -> Any:
        def inner(w: Any) -> Any:
            if w.sum() > 3:
                return w
            return outer_scale * w

        outer_scale = 2
        if v.sum() > 0:
            outer_scale = 3
        return inner(v) + outer_scale

    return outer(x), outer(-x)


@case
def runtime_variable_kinds(x: Any) -> Any:
    flag, count, rate, name = False, 0, 1.0, "fixed"
    if x.sum() > 0:
        flag, count, rate = True, count + 2, rate / 4
    return flag, count, rate, name, x * rate, x + count


@case
def runtime_flags_in_loop(x: Any) -> Any:
    done, n = False, 0
    while not done:
        n += 1
        x = x + 1
        done = bool(x.sum() > 8) or n >= 6
    return x, n, done


@case
def tuple_of_numbers_carried(x: Any) -> Any:
    a, b = 0, 1
    while b < x.sum() + 30:
        a, b = b, a + b
    return a, b
